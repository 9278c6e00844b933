"""The printable page and the checklist of runs, against results.json read by hand."""

import base64
import html
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from headscope.contracts import Provenance, RunResults
from headscope.errors import ConfigError, InputError
from headscope.reports.checklist import INSIDE, NOT_RECORDED, checklist, command_of, duration, number
from headscope.reports.pdf import browser, print_pdf
from headscope.reports.printable import LONGEST_TABLE, PrintedRun, printed_run, report_html, words
from headscope.runs import printed, training
from tests.runs.conftest import composed

RUNS = {
    "probe": ("experiment=clark_probe_attention", "trainer.max_epochs=1", "data.limit=8"),
    "baseline": ("experiment=clark_probe_right_branching", "data.limit=8", "~figures"),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name, overrides in RUNS.items():
        cfg = composed(*overrides)
        cfg.run_dir = str(folder / name)
        training.run(cfg)
    return folder


def report(folder, *names, **keys):
    cfg = composed("experiment=report", *(f"{key}={value}" for key, value in {"pdf": "false", **keys}.items()))
    cfg.runs, cfg.run_dir = [str(folder / name) for name in names], str(folder / "report")
    return printed.run(cfg)


def read(folder):
    return json.loads((folder / "results.json").read_text())


class Cells(HTMLParser):
    """The rows of all tables as texts, by the caption of the table."""

    def __init__(self, page):
        super().__init__()
        self.tables, self.title, self.images, self.into = {}, None, [], None
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        if tag == "table":
            self.title = dict(attributes).get("class") or ""
        if tag == "tr":
            self.tables.setdefault(self.title, []).append([])
        if tag in ("td", "th"):
            self.tables[self.title][-1].append("")
        if tag == "img":
            self.images.append(dict(attributes)["src"])
        self.into = tag if tag in ("td", "th", "caption") else self.into

    def handle_endtag(self, tag):
        self.into = None if tag == self.into else self.into

    def handle_data(self, data):
        if self.into == "caption":
            self.title = data
        elif self.into:
            self.tables[self.title][-1][-1] += data


def items(results):
    return {row["item"]: row["value"] for row in checklist(results)}


def test_the_page_holds_tables_figures_and_checklist_of_every_run(finished):
    results = report(finished, "probe", "baseline")
    page = (finished / "report" / "report.html").read_text()
    cells = Cells(page)
    probe = read(finished / "probe")
    uas = probe["metrics"]["test/uas"]
    assert any(f"{uas:.2f}" in row or f"{uas:.3f}" in row for row in cells.tables["Summary"])
    drawn = sorted((finished / "probe" / "figures").glob("*.svg"))
    assert sorted(base64.b64decode(source.partition(",")[2]) for source in cells.images) == sorted(
        file.read_bytes() for file in drawn
    )
    told = [tuple(row) for row in cells.tables["checklist"] if len(row) == 2]
    assert told == [(row["item"], row["value"]) for row in results.tables["checklist"]]
    assert [row["run"] for row in results.tables["summary"]] == ["probe", "baseline"]
    assert results.metrics["probe/test/uas"] == uas
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)|<script|url\(|@import""", page)


def test_the_checklist_is_what_the_run_wrote_down(finished):
    for name in RUNS:
        content = read(finished / name)
        known = content["provenance"]
        found = items(RunResults.from_json(content))
        assert found["hardware"].startswith(f"{known['hardware']['machine']}, {known['hardware']['system']}, ")
        assert found["time"] == duration(known["seconds"])
        assert found["parameters of the model"] == f"{known['encoder']['parameters']:,}"
        assert found["examples: test"] == str(known["examples"]["test"])
        for file, sha256 in known["data"].items():
            assert found[f"file {file.rpartition('/')[2]}"] == f"sha256 {sha256[:12]}, packaged sample"
        assert found["evidence"] == "A sample that ships with the project: no evidence."
        assert found["search"] == "none: one configuration was run"
    probe, baseline = (items(RunResults.from_json(read(finished / name))) for name in RUNS)
    assert probe["parameters that were trained"] == str(
        2 * 2 * 6 * 12
    )  # of each head a weight for either direction, and of the control
    assert probe["trainer.max_epochs"] == "1" and float(probe["module.lr"]) > 0
    assert baseline["parameters that were trained"] == "none: nothing was trained"
    assert (baseline["training"], baseline["validation figures"]) == ("none", "none")
    assert "uas" in probe["validation figures"]


def made_up(**changes):
    provenance = Provenance({"name": None}, {}, {}, command="train.py", config={"show": {"summary": "all"}, "published": {}})
    return replace(RunResults("made_up", {}, {}, provenance), **changes)


def test_a_table_does_not_say_that_nothing_was_trained():
    results = made_up()
    config = {**results.provenance.config, "rows": {"normal": {"experiment": "kovaleva_glue"}}}
    found = items(replace(results, provenance=replace(results.provenance, config=config)))
    assert found["training"] == found["parameters that were trained"] == INSIDE


def test_the_bounds_of_a_search_are_those_of_the_command_or_the_space_or_what_was_tried():
    rows = [
        {"job": job, "status": "done" if job else "failed", "val/uas": 1.0, "error": None,
         "values": {"module.lr": lr, "module.rank": rank, "seed": str(job)}}
        for job, (lr, rank) in enumerate([("0.1", "3"), ("0.02", "5")])
    ]  # fmt: skip
    search = {"_target_": "headscope.runs.sweeps.search.OptunaSearch", "metric": "val/uas", "direction": "max"}
    search |= {"space": {"module.rank": "range(1,9)", "module.lr": "interval(9,10)"}}
    provenance = replace(
        made_up().provenance,
        command="train.py -m search=optuna module.lr=tag(log,interval(0.01,0.1)) data.limit=5",
        config={"search": search},
    )
    found = items(made_up(tables={"jobs": rows, "best": [{"job": 1}]}, provenance=provenance))
    assert found["bounds of module.lr"] == "tag(log,interval(0.01,0.1))"
    assert found["bounds of module.rank"] == "range(1,9)"
    assert found["bounds of seed"] == "0,1"
    assert found["trials"] == "2, of which 1 finished"
    assert (found["method"], found["criterion"]) == ("OptunaSearch", "val/uas, max")
    assert found["best values"] == "module.lr=0.02; module.rank=5; seed=1"


def test_what_was_not_written_down_is_said_to_be_missing():
    found = items(made_up())
    assert found["hardware"] == found["packages"] == NOT_RECORDED
    assert found["code"] == "an installed package, no checkout"
    assert [number(value) for value in (None, 1234, 0.123456)] == ["not defined", "1,234", "0.1235"]
    assert [duration(seconds) for seconds in (3.21, 90, 7200)] == ["3.2 s", "1.5 min", "2.00 h"]


def test_names_from_elsewhere_cannot_break_the_page_and_long_tables_are_cut(tmp_path):
    rows = [{"metric": "</table><script>alert(1)</script>", "ours": float(index)} for index in range(LONGEST_TABLE + 3)]
    config = {"show": {"summary": "all"}, "published": {"source": None}}
    results = made_up(tables={"summary": rows}, provenance=replace(made_up().provenance, config=config))
    page = report_html("<b>", "today", [PrintedRun("<i>", tmp_path, results, [])])
    assert "<script" not in page and "<b>" not in page and "<i>" not in page
    assert len(Cells(page).tables["Summary"]) == LONGEST_TABLE + 1
    assert "3 more rows are in results.json" in page


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            "/home/me/head scope/train.py encoder.name=/models/headscope seed=1",
            "train.py encoder.name=/models/headscope seed=1",
        ),
        ("'/home/me/head scope/train.py' 'tasks=[mrpc,rte]'", "train.py 'tasks=[mrpc,rte]'"),
        ("/opt/venv/bin/headscope", "headscope"),
        ("../train.py data.test=/data/train.py", "train.py data.test=/data/train.py"),
        ("train.py run_dir=outputs/headscope seed=1", "train.py run_dir=outputs/headscope seed=1"),
    ],
)
def test_a_command_is_told_without_the_folder_of_its_program(command, said, tmp_path):
    results = made_up(provenance=replace(made_up().provenance, command=command))
    assert command_of(results.provenance) == items(results)["command"] == said
    config = {"show": {}, "published": {"source": None}}
    results = replace(results, provenance=replace(results.provenance, config=config))
    assert f"<code>{html.escape(said)}</code>" in report_html("Report", "today", [PrintedRun("a", tmp_path, results, [])])


def test_short_words_are_kept_whole_and_long_ones_may_break():
    assert words("mrpc, pre-trained") == 'mrpc, <span class="whole">pre-trained</span>'
    assert words("sha256 <outputs/long/path>") == 'sha256 <span class="long">&lt;outputs/<wbr>long/<wbr>path&gt;</span>'


@pytest.mark.parametrize(
    ("names", "keys", "error", "sentence"),
    [
        ([], {}, ConfigError, r"runs=\[\]: expected the folders of one or more finished runs"),
        (["nowhere"], {}, InputError, "nowhere: expected a finished run, found no results.json there."),
        (["probe", "probe"], {}, ConfigError, "probe is named twice"),
        (["report"], {}, ConfigError, "holds one of the runs of the report"),
        (["probe"], {"pdf": "maybe"}, ConfigError, "pdf=maybe: expected auto, true or false"),
    ],
)
def test_what_is_no_run_gets_one_sentence(finished, names, keys, error, sentence):
    with pytest.raises(error, match=sentence):
        report(finished, *names, **keys)


def test_without_a_browser_the_page_is_all_there_is(finished, monkeypatch, capsys):
    monkeypatch.setattr(printed, "browser", lambda: None)
    report(finished, "baseline", pdf="auto")
    assert "no PDF: no browser is installed" in capsys.readouterr().out
    assert not (finished / "report" / "report.pdf").exists()
    with pytest.raises(InputError, match="pdf=true: no browser is installed"):
        report(finished, "baseline", pdf="true")
    with pytest.raises(InputError, match="printed no PDF"):
        print_pdf("true", finished / "report" / "report.html", finished / "x.pdf")


@pytest.mark.slow
def test_a_browser_prints_it(finished, tmp_path):
    if (program := browser()) is None:
        pytest.skip("no browser is installed")
    report(finished, "probe", "baseline", pdf="true")
    content = (finished / "report" / "report.pdf").read_bytes()
    assert content.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type\s*/Page\b", content)) >= 2
    config = {"show": {"summary": "all"}, "published": {"source": None}}
    results = made_up(provenance=replace(made_up().provenance, config=config))
    page = tmp_path / "short.html"
    page.write_text(report_html("Report", "today", [PrintedRun("short", tmp_path, results, [])]))
    print_pdf(program, page, tmp_path / "short.pdf")
    assert len(re.findall(rb"/Type\s*/Page\b", (tmp_path / "short.pdf").read_bytes())) == 1, "the title has a page alone"


LINES_OF = """word => {
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), range = document.createRange();
    while (!walk.nextNode().data.includes(word));
    const from = walk.currentNode.data.indexOf(word);
    range.setStart(walk.currentNode, from);
    range.setEnd(walk.currentNode, from + word.length);
    return range.getClientRects().length;
}"""


@pytest.mark.slow
def test_on_a_telephone_words_are_whole_and_the_checklist_has_room(browser_page, tmp_path):
    numbers = {"ours": 1.0, "published": 2.0, "last_epoch": 3.0, "inputs": 4}
    starts = {"pre-trained": "accuracy", "untrained": "pearson"}
    rows = [{"row": f"mrpc, {start}", "metric": metric, **numbers, "at": start} for start, metric in starts.items()]
    config = {"show": {"summary": "all"}, "published": {"source": None}}
    results = made_up(tables={"summary": rows}, provenance=replace(made_up().provenance, config=config))
    (tmp_path / "report.html").write_text(report_html("Report", "today", [PrintedRun("a", tmp_path, results, [])]))
    browser_page.set_viewport_size({"width": 390, "height": 800})
    browser_page.goto((tmp_path / "report.html").as_uri())
    assert browser_page.evaluate("document.documentElement.scrollWidth") <= 390
    assert {word: browser_page.evaluate(LINES_OF, word) for word in (*starts, *starts.values())} == dict.fromkeys(
        (*starts, *starts.values()), 1
    )
    first, table = (browser_page.locator(one).first.bounding_box() for one in (".checklist th[scope=row]", ".checklist"))
    assert first["width"] < 0.4 * table["width"]


@pytest.mark.slow
@pytest.mark.parametrize("columns", [9, 12, 17])
def test_a_printed_table_of_many_columns_is_not_cut(browser_page, tmp_path, columns):
    names = ["relation", "published", *(f"held out {number}" for number in range(columns - 2))]
    words = ({"relation": relation, "published": f"{relation} 7-6 80.5 (47.7, 1)"} for relation in ("nmod:poss", "all"))
    rows = [dict.fromkeys(names, 123.45 + number) | row for number, row in enumerate(words)]
    results = made_up(tables={"summary": rows})
    config = {"show": {"summary": "all"}, "published": {"source": None}}
    results = replace(results, provenance=replace(results.provenance, config=config))
    (tmp_path / "report.html").write_text(report_html("Report", "today", [PrintedRun("a", tmp_path, results, [])]))
    browser_page.set_viewport_size({"width": 688, "height": 1000})  # 182 mm, what A4 has between its margins
    browser_page.emulate_media(media="print")
    browser_page.goto((tmp_path / "report.html").as_uri())
    assert browser_page.locator("table").first.locator("thead th").count() == columns
    assert browser_page.evaluate("document.documentElement.scrollWidth") <= 688


def test_a_run_is_printed_with_its_figures_in_the_order_of_drawing(finished):
    run = printed_run("probe", finished / "probe", RunResults.from_json(read(finished / "probe")))
    assert [file.suffix for file in run.figures] == [".svg"] * len(run.figures) and run.figures
