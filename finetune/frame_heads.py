"""Do the heads that link frames matter to a task (Kovaleva, section 5)? What a run of frames found, beside disabling."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from jaxtyping import Float
from scipy.stats import spearmanr

from headscope.contracts import Findings, Row, RunResults, head_at
from headscope.errors import ConfigError
from headscope.finetune.significance import holm
from headscope.published import state_of

DIRECTIONS = ("target_to_element", "element_to_target")
QUANTITY = "frame_{}"
HIGHEST = 2  # heads of each direction, where none is marked; the paper names two
ReadRun = Callable[[Path], RunResults | None]
ReadHeads = Callable[[Path], Sequence[Row]]
Scores = Float[np.ndarray, "unit"]


@dataclass(frozen=True)
class FrameScores:
    """What a run of frames says of each head: its score and the corrected p of it, by direction; and which it marked."""

    scores: Mapping[str, Scores]
    p: Mapping[str, Scores]
    marked: frozenset[tuple[str, str]]  # head and direction
    told: str  # of which model, on how many sentences


def frame_scores(folder: Path, read_run: ReadRun, read_heads: ReadHeads, layers: int, heads: int) -> FrameScores:
    """Read a finished run of kovaleva_frames of a model with as many heads."""
    results = read_run(folder)
    if results is None or "marked" not in results.tables:
        raise ConfigError(f"module.frames_run={folder}: no finished run of kovaleva_frames there.")
    rows = read_heads(folder)
    shape = tuple(max(int(row[axis]) for row in rows) for axis in ("layer", "head"))
    if shape != (layers, heads):
        raise ConfigError(
            f"module.frames_run={folder}: is of a model of {shape[0]} × {shape[1]} heads, expected {layers} × {heads}."
        )
    columns = {
        (direction, column): np.array([float(row[column]) for row in rows if row["quantity"] == QUANTITY.format(direction)])
        for direction in DIRECTIONS
        for column in ("value", "p")
    }
    encoder, sentences = results.provenance.encoder, results.provenance.examples.get("test", 0)
    state = state_of(encoder)
    return FrameScores(
        {direction: columns[direction, "value"] for direction in DIRECTIONS},
        {direction: columns[direction, "p"] for direction in DIRECTIONS},
        frozenset((row["head"], row["direction"]) for row in results.tables["marked"]),
        f"frames: {encoder['name']}{f', {state}' if state else ''}, {sentences:,} sentences",
    )


def frames_beside_changes(
    frames: FrameScores, changes: Scores, drawn: Float[np.ndarray, "unit draw"], heads: int, inputs: int, better: int = 1
) -> Findings:
    """What disabling each frame head changes, and whether heads rank alike by frames and by what they cost.

    Frame heads were chosen on other data, so that their intervals and p-values here are as they seem. Intervals are over
    inputs drawn again. `better` is 1 where more is better, -1 where less is.
    """
    chosen = [(index, direction) for direction in DIRECTIONS for index in frame_heads(frames, direction, heads)]
    rows = [
        {
            "head": head_at(index, heads),
            "direction": direction,
            "frame_score": float(frames.scores[direction][index]),
            "frame_p": float(frames.p[direction][index]),
            "change": float(changes[index]),
            **interval_and_p(drawn[index]),
            "n": inputs,
        }
        for index, direction in chosen
    ]
    correlations = [
        {"direction": direction, **correlation(frames.scores[direction], changes, drawn), "heads": len(changes)}
        for direction in DIRECTIONS
    ]
    how = "marked there" if frames.marked else f"none is marked there, so the {HIGHEST} highest of each direction"
    told = f"{frames.told}; {how}; p: of the change, corrected by Holm over the rows"
    side = "below" if better > 0 else "above"
    ranks = f"rank correlation over heads of the frame score with the change: {side} zero, heads that link frames cost more"
    return Findings(
        tables={"frame_heads": with_holm(rows), "frame_correlation": correlations},
        notes={"frame_heads": [told], "frame_correlation": [ranks]},
    )


def frame_heads(frames: FrameScores, direction: str, heads: int) -> list[int]:
    """The heads that are marked for a direction, or the highest where the run marked none, the highest first."""
    scores = frames.scores[direction]
    order = np.argsort(-scores, kind="stable").tolist()
    return [i for i in order if (head_at(i, heads), direction) in frames.marked] if frames.marked else order[:HIGHEST]


def interval_and_p(drawn: Float[np.ndarray, "draw"]) -> dict[str, float]:
    """The 95 % interval of a change, and how often it is on the other side of zero, twice."""
    low, high = np.percentile(drawn, [2.5, 97.5])
    beyond = 1 + min((drawn <= 0).sum(), (drawn >= 0).sum())
    return {"low": float(low), "high": float(high), "p": float(min(1.0, 2 * beyond / (1 + len(drawn))))}


def correlation(scores: Scores, changes: Scores, drawn: Float[np.ndarray, "unit draw"]) -> dict[str, float | None]:
    """Spearman's, with the interval that other inputs would give; nothing where all heads are alike."""
    found = _spearman(scores, changes)
    again = [value for column in drawn.T if (value := _spearman(scores, column)) is not None]
    if found is None or not again:
        return {"spearman": found, "low": None, "high": None}
    low, high = np.percentile(again, [2.5, 97.5])
    return {"spearman": found, "low": float(low), "high": float(high)}


def _spearman(one: Scores, other: Scores) -> float | None:
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return None
    return float(cast(Any, spearmanr(one, other)).statistic)


def with_holm(rows: Sequence[Row]) -> list[Row]:
    """The rows with Holm's correction in the place of p."""
    corrected = holm([row["p"] for row in rows])
    return [
        {**{key: value for key, value in row.items() if key not in ("p", "n")}, "p_holm": p, "n": row["n"]}
        for row, p in zip(rows, corrected, strict=True)
    ]
