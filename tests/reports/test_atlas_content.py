"""What atlas.json says of the runs that it joins."""

from dataclasses import replace
from pathlib import Path

import headscope.data_modules
from headscope.contracts import Provenance, Quantity, RunResults
from headscope.reports.atlas.content import Measured, Model, Part, fact_rows, source_row

SAMPLES = Path(headscope.data_modules.__path__[0]) / "samples"


def measured(values, counts):
    rows = [
        {"layer": "1", "head": str(head), "quantity": "q", "value": str(value), "n": n, "low": "", "high": "", "p": ""}
        for head, (value, n) in enumerate(zip(values, counts, strict=True), 1)
    ]
    return Measured(Quantity("q", "q"), "text", rows)


def part_of(one, files=(), examples=200):
    provenance = Provenance({"name": "m"}, dict.fromkeys(files, "sha"), {"test": examples})
    return Part("text", Path("/run/text"), RunResults("x", {}, {}, provenance), [one])


def test_a_head_that_stands_out_has_enough_words_behind_it():
    facts = [{"fact": "most", "quantity": "q", "pick": "highest"}, {"fact": "least", "quantity": "q", "pick": "lowest"}]

    def found(least, counts=("30.0", "2.0", "31.0", "")):
        model = Model("m", [part_of(measured([5.0, 9.0, 3.0, 1.0], counts))], [], least)
        return {row["fact"]: row["head"] for row in fact_rows(model, facts)}

    model = Model("m", [part_of(measured([5.0, 9.0, 3.0, 1.0], ("30.0", "2.0", "31.0", "")))], [], 1)
    assert [row["n"] for row in fact_rows(model, facts)] == [2, None]
    assert found(1) == {"most": "1-2", "least": "1-4"}
    assert found(30) == {"most": "1-1", "least": "1-4"}  # what has no count is not counted
    assert found(31, ("30.0", "2.0", "31.0", "4.0")) == {"most": "1-3", "least": "1-3"}
    assert found(32, ("30.0", "2.0", "31.0", "4.0")) == {}


def test_what_stands_out_is_said_of_the_models_own_tokens():
    facts = [{"fact": "most attention to [SEP]", "quantity": "q", "pick": "highest"}]
    one = part_of(measured([1.0], ["9"]))
    layout = {"first": "<s>", "separator": "<s>", "causal": True, "padding": 2}
    results = replace(one.results, provenance=replace(one.results.provenance, layout=layout))
    for part, expected in ((one, "most attention to [SEP]"), (replace(one, results=results), "most attention to inner <s>")):
        assert [row["fact"] for row in fact_rows(Model("m", [part], []), facts)] == [expected]


def test_a_run_tells_whether_it_read_a_packaged_sample_and_how_much_it_counted(tmp_path):
    one = measured([1.0, 2.0], ["7.0", "9.0"])
    for files, sample in (
        ([str(SAMPLES / "articles" / "articles.txt")], True),
        ([str(tmp_path / "samples" / "articles.txt")], False),
        ([], False),
    ):
        row = source_row(part_of(one, files), Path("/run"))
        assert (row["sample"], row["n"]) == (sample, 9)
    assert source_row(part_of(measured([1.0], [""])), Path("/run"))["n"] == 200
