"""Tables on a terminal: no number is cut, whatever the width.

`recorded_tables.json` holds the tables that every experiment shows, a few rows of each:
python -m tests.record FOLDER --small; python -m tests.reports.test_terminal FOLDER
"""

import io
import json
import re
import sys
from pathlib import Path

import pytest
from rich.console import Console

from headscope.contracts import Provenance, Quantity, RunResults, Source
from headscope.reports.terminal import FRAME, apart, column_texts, data_of, print_table, readable, show, table_of

RECORDED = Path(__file__).with_name("recorded_tables.json")
MOST_ROWS = 8
TABLES = json.loads(RECORDED.read_text()) if RECORDED.is_file() else {}


def printed(rows, columns, width):
    console = Console(width=width, file=io.StringIO())
    print_table(console, "a title", rows, columns)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [64, 80, 120, 200])
@pytest.mark.parametrize("name", TABLES)
def test_no_cell_is_cut_and_no_line_too_long(name, width):
    columns, rows = TABLES[name]["columns"], TABLES[name]["rows"]
    text = printed(rows, columns, width)
    framed = [line for line in text.splitlines() if line[:1] in "╭│├╰"]
    assert framed and all(len(line) <= width for line in framed)
    assert "…" not in text
    table, left_out = table_of("", rows, columns, width)
    shown = [column for column in columns if column not in left_out and any(row.get(column) is not None for row in rows)]
    assert len(shown) >= 2 or len(columns) == 1
    assert len(table.columns) == len(shown)
    # The cells of a row, put together again from the lines that it takes.
    lines = [[part.strip() for part in line.strip("│").split("│")] for line in framed if line.startswith("│")]
    for place, column in enumerate(shown):
        said = "".join("".join(line[place].split()) for line in lines)
        for value in column_texts(column, [row.get(column) for row in rows]):
            assert "".join(value.split()) in said
    if left_out:
        assert "results.json has all columns" in text


def test_the_tables_of_every_experiment_are_recorded():
    experiments = Path(__file__).parents[2] / "conf" / "experiment"
    assert {file.stem for file in experiments.glob("[!_]*.yaml")} == {table["experiment"] for table in TABLES.values()}


def test_numbers_of_a_column_have_the_same_decimals():
    assert column_texts("accuracy", [49.8813, 100.0, None, 7.0]) == ["49.88", "100.00", "–", "7.00"]
    assert column_texts("share", [0.5, 1.0, 0.0]) == ["0.500", "1.000", "0.000"]
    assert column_texts("loss", [0.0012345, 0.00023]) == ["0.0012", "0.0002"]
    assert column_texts("cosine", [0.99992, 0.99987, 1.0]) == ["0.99992", "0.99987", "1.00000"]  # almost equal
    assert column_texts("share", [0.25, 0.25]) == ["0.250", "0.250"]
    assert column_texts("share", [0.5, 0.0001, -0.0002]) == ["0.500", "< 0.001", "> -0.001"]


def test_counts_are_whole_and_p_values_as_reported():
    assert column_texts("n", [2107, 3]) == ["2,107", "3"]
    assert column_texts("ours", [5, 61.7583]) == ["5", "61.76"]
    assert column_texts("p_holm", [1.4e-18, 0.0521, None, 1.0]) == ["< 0.001", "0.052", "–", "1.000"]
    assert column_texts("p", [0.0]) == ["< 0.001"]


def test_columns_go_from_the_right_but_for_n_and_the_published_figure():
    row = {"relation": "det", "accuracy": 94.321, "low": 90.0, "high": 97.5, "n": 306, "published": "8-11 94.3 (51.7, 1)"}
    least = len("relation") + len("94.32") + len("306") + len("published") + 4 * FRAME + 1
    _, left_out = table_of("", [row], list(row), least)
    assert left_out == ["low", "high"]
    _, left_out = table_of("", [row], list(row), least - 1)
    assert left_out == ["accuracy", "low", "high"]
    assert table_of("", [row], list(row), 200)[1] == []


def test_text_is_not_read_as_markup():
    text = printed([{"overrides": "analyses=[surface] [bold]x", "ours": 1.0}], ["overrides", "ours"], 80)
    assert re.search(r"analyses=\[surface\] \[bold\]x", text)


def shown(capsys, tmp_path, tables, columns, **options):
    config = {"show": columns, "published": {"source": None}}
    provenance = Provenance({"name": "encoder"}, {"dev.tsv": "0"}, {"test": 400}, config=config)
    show(RunResults("an_experiment", {}, tables, provenance, **options), tmp_path)
    return capsys.readouterr().out


def test_notes_stand_beneath_their_table_or_in_its_place(capsys, tmp_path):
    tables = {"best_and_worst": [], "roles": [{"role": "local", "n": 3}]}
    notes = {"best_and_worst": ["no head differs"], "roles": ["of at least 2 inputs"], "hidden": ["unseen"]}
    out = shown(capsys, tmp_path, tables, {"best_and_worst": "all", "roles": "all", "hidden": None}, notes=notes)
    assert out.splitlines()[0] == "best and worst: no head differs"
    assert out.index("local") < out.index("of at least 2 inputs") < out.index("ours: encoder")
    assert "unseen" not in out
    assert out.splitlines()[-1] == str(tmp_path / "results.json")


def test_metrics_and_quantities_are_said_in_words(capsys, tmp_path):
    rows = [{"metric": "val/uas", "ours": 1.0}, {"metric": "test/uas_without_root", "ours": 2.0}]
    assert [row["metric"] for row in readable(rows, {})] == ["uas (val)", "uas without root (test)"]
    assert readable(rows[1:], {})[0]["metric"] == "uas without root"
    assert readable([{"metric": "f1"}], {})[0]["metric"] == "f1"
    quantities = {"cls_to_noun": Quantity("cls_to_noun", "[CLS] to noun")}
    tables = {"features": [{"quantity": "cls_to_noun", "mean": 0.5}, {"quantity": "unknown_one", "mean": 0.25}]}
    out = shown(capsys, tmp_path, tables, {"features": "all"}, quantities=quantities)
    assert "│ [CLS] to noun │ 0.500 │" in out
    assert "│ unknown_one   │ 0.250 │" in out


def test_files_of_one_name_are_told_with_their_folder():
    for files, told in (
        (["glue/MRPC/dev.tsv", "glue/RTE/dev.tsv"], "MRPC/dev.tsv, RTE/dev.tsv (1,200 test)"),
        (["a/dev.conllu", "b/test.conllu"], "dev.conllu, test.conllu (1,200 test)"),
    ):
        assert data_of(Source({"name": "model"}, dict.fromkeys(files, ""), {"test": 1200})) == told


def test_words_that_all_rows_share_are_said_once():
    rows = [{"model": "model", "layer": layer, "metric": "f1", "n": 9, "way": "one"} for layer in (1, 2)]
    assert apart(rows, ["model", "layer", "metric", "n", "way"]) == (["layer", "n"], ["in all rows: metric f1; way one"])
    assert apart(rows[:1], ["model", "metric"]) == (["model", "metric"], [])
    assert apart(rows, ["metric", "way"]) == (["metric", "way"], [])


def test_names_that_the_program_gave_have_spaces_and_others_stay():
    assert column_texts("class", ["vertical_diagonal"]) == ["vertical diagonal"]
    assert column_texts("experiment", ["clark_surface"]) == ["clark_surface"]
    assert column_texts("direction", ["target_to_element", "dependent_to_head"]) == ["target→element", "dep→head"]
    assert column_texts("metric", ["accuracy"]) == ["accuracy"]


def main(folder: Path) -> None:
    """Take the tables from a recording: of each, the rows with the longest cells."""
    found = {}
    for file in sorted((folder / "runs").glob("*/results.json")):
        results = json.loads(file.read_text().replace(f"{folder.resolve()}/", ""))  # no folder of a machine
        for name, columns in results["provenance"]["config"]["show"].items():
            rows = sorted(results["tables"].get(name) or [], key=lambda row: -sum(len(str(cell)) for cell in row.values()))
            if columns and rows:
                columns = list(rows[0]) if columns == "all" else columns
                known = {"experiment": results["experiment"], "columns": columns, "rows": rows[:MOST_ROWS]}
                found[f"{file.parent.name}/{name}"] = known
    RECORDED.write_text(json.dumps(found, indent=0, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
