"""Frame heads beside disabling: the rows and correlations of hand-made numbers, and a sweep that reads a run of frames."""

import numpy as np
import pytest

from headscope.contracts import Provenance, RunResults
from headscope.errors import ConfigError
from headscope.finetune.disable_sweep import DisableSweep
from headscope.finetune.frame_heads import frame_scores, frames_beside_changes
from tests.finetune.test_disable_sweep import findings_of, tuned  # noqa: F401

LAYERS, HEADS = 3, 4
SCORES = {"target_to_element": np.arange(12) / 100, "element_to_target": np.arange(12)[::-1] / 100}


def run_of_frames(marked=(), layers=LAYERS):
    """What reads the results and the heads of a run, whatever the folder."""
    rows = [{"head": head, "direction": direction} for head, direction in marked]
    encoder = {"name": "bert", "init": "pretrained"}
    results = RunResults("kovaleva_frames", {}, {"marked": rows}, Provenance(encoder, {}, {"test": 473}))
    heads = [
        {"layer": str(n // HEADS + 1), "head": str(n % HEADS + 1), "quantity": f"frame_{direction}", "value": str(value),
         "p": str(min(1, 0.01 * (n + 1)))}
        for direction, values in SCORES.items()
        for n, value in enumerate(values[: layers * HEADS])
    ]  # fmt: skip
    return (lambda folder: results), (lambda folder: heads)


def frames_of(tmp_path, marked=()):
    return frame_scores(tmp_path, *run_of_frames(marked), LAYERS, HEADS)


def test_marked_heads_stand_with_what_disabling_them_changes(tmp_path):
    marked = [("3-4", "target_to_element"), ("1-2", "element_to_target")]
    changes = np.linspace(-3, 2.5, 12)
    drawn = changes[:, None] + np.random.default_rng(0).normal(0, 1, (12, 400))
    found = frames_beside_changes(frames_of(tmp_path, marked), changes, drawn, HEADS, 99)
    first, second = found.tables["frame_heads"]
    assert (first["head"], first["direction"], first["frame_score"], first["frame_p"]) == (
        "3-4", "target_to_element", 0.11, pytest.approx(0.12)
    )  # fmt: skip
    assert (second["head"], second["frame_score"], second["n"]) == ("1-2", 0.1, 99)
    p = []
    for row, index in ((first, 11), (second, 1)):
        draws = sorted(drawn[index])
        assert row["change"] == changes[index]
        assert (row["low"], row["high"]) == pytest.approx(tuple(np.percentile(draws, [2.5, 97.5])))
        below = sum(value <= 0 for value in draws)
        p.append(2 * (1 + min(below, 400 - below)) / 401)
    smaller, larger = sorted(p)
    assert sorted((first["p_holm"], second["p_holm"])) == pytest.approx([2 * smaller, max(2 * smaller, larger)])
    assert found.notes["frame_heads"][0].startswith("frames: bert, pre-trained, 473 sentences; marked there")


def test_ranks_equal_a_loop_and_have_the_interval_of_other_inputs(tmp_path):
    draw = np.random.default_rng(1)
    changes = draw.normal(size=12)
    drawn = changes[:, None] + draw.normal(0, 0.5, (12, 50))
    rows = frames_beside_changes(frames_of(tmp_path), changes, drawn, HEADS, 9).tables["frame_correlation"]
    for row, scores in zip(rows, SCORES.values(), strict=True):
        ranked = sorted(changes)
        ranks = [[sorted(scores).index(value) for value in scores], [ranked.index(value) for value in changes]]
        assert row["spearman"] == pytest.approx(np.corrcoef(*ranks)[0, 1])
        again = [np.corrcoef(ranks[0], np.argsort(np.argsort(column)))[0, 1] for column in drawn.T]
        assert (row["low"], row["high"]) == pytest.approx(tuple(np.percentile(again, [2.5, 97.5])))
        assert row["heads"] == 12
    assert rows[0]["spearman"] == pytest.approx(-rows[1]["spearman"])


def test_the_highest_heads_stand_in_for_marked_ones_and_alike_heads_have_no_correlation(tmp_path):
    found = frames_beside_changes(frames_of(tmp_path), np.zeros(12), np.zeros((12, 5)), HEADS, 9, better=-1)
    assert [row["head"] for row in found.tables["frame_heads"]] == ["3-4", "3-3", "1-1", "1-2"]
    assert {row["p_holm"] for row in found.tables["frame_heads"]} == {1.0}
    assert [row["spearman"] for row in found.tables["frame_correlation"]] == [None, None]
    assert "none is marked there, so the 2 highest" in found.notes["frame_heads"][0]
    assert "above zero" in found.notes["frame_correlation"][0]


def test_a_sweep_reads_a_run_of_frames_or_says_what_is_wrong(tuned, tmp_path):  # noqa: F811
    data = tuned()
    read_run, read_heads = run_of_frames([("2-1", "target_to_element")])
    options = {"replicates": 20, "importance": False, "frames_run": "frames", "read_run": read_run, "read_heads": read_heads}
    found = findings_of(DisableSweep(data.facts(), str(tmp_path / "sweep"), **options), data)
    (row,) = found.tables["frame_heads"]
    assert (row["head"], row["change"]) == ("2-1", pytest.approx(found.heads["change_without_head"].value[1][0]))
    assert (row["low"], row["high"]) == pytest.approx(
        tuple(getattr(found.heads["change_without_head"], end)[1][0] for end in ("low", "high"))
    )
    assert "disabled" in found.tables
    with pytest.raises(ConfigError, match="^module.frames_run=frames: is of a model of 2 × 4 heads, expected 3 × 4.$"):
        smaller = dict(zip(("read_run", "read_heads"), run_of_frames(layers=2), strict=True))
        DisableSweep(data.facts(), str(tmp_path / "sweep"), **options | smaller)
    with pytest.raises(ConfigError, match="^module.frames_run=frames: no finished run of kovaleva_frames there.$"):
        DisableSweep(data.facts(), str(tmp_path / "sweep"), **options | {"read_run": lambda folder: None})
    with pytest.raises(ConfigError, match="^module.frames_run=frames: tells of heads, so not with module.units=layers.$"):
        DisableSweep(data.facts(), str(tmp_path / "sweep"), **options | {"units": "layers"})
