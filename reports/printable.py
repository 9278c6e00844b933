"""Several runs as one page to print: their tables and figures, and the reproducibility checklist of each."""

import base64
import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headscope.contracts import Row, RunResults
from headscope.reports.checklist import NOT_RECORDED, checklist, command_of
from headscope.reports.terminal import LONGEST_WORD, apart, caption, column_texts, readable

LONGEST_TABLE = 60  # rows; what is left of a longer one is in results.json
CROWDED = {"most": 13, "many": 10}  # from how many columns on a printed table is smaller, since paper does not scroll
JOINT = re.compile(r"(?<=\w[._/])(?=\w)")  # of keys and paths
STYLE = """
@page { size: A4; margin: 16mm 14mm; }
:root { color-scheme: light; }
body { font: 10.5pt/1.45 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; color: #15202b;
  max-width: 182mm; margin: 0 auto; padding: 0 4mm; background: #fff; }
h1 { font-size: 20pt; margin: 8mm 0 1mm; }
h2 { font-size: 14pt; margin: 8mm 0 2mm; padding-top: 3mm; border-top: 0.5mm solid #0b5fb0; }
h3 { font-size: 11pt; margin: 5mm 0 1mm; }
h2, h3, caption { break-after: avoid; }
p { margin: 1mm 0; }
.muted, caption { color: #566373; }
.muted { font-size: 9.5pt; }
nav ul { padding-left: 5mm; }
a { color: #0b5fb0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 8.5pt; margin: 2mm 0; max-width: 100%; }
caption { text-align: left; padding-bottom: 1mm; }
th, td { padding: 0.6mm 2mm; text-align: left; vertical-align: top; border-bottom: 0.2mm solid #d8dee6; }
.whole { white-space: nowrap; }
.long { overflow-wrap: anywhere; }
thead { display: table-header-group; }
thead th { border-bottom: 0.4mm solid #8a94a0; vertical-align: bottom; }
tr, figure { break-inside: avoid; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
th.number { white-space: normal; }
.checklist { table-layout: fixed; width: 100%; }
.checklist .items { width: 48mm; }
.checklist th { font-weight: normal; }
.group th { background: #e6effa; font-weight: 600; }
.missing { color: #b3460b; }
.figures { orphans: 1; widows: 1; }
figure { margin: 2mm 0; display: inline-block; vertical-align: top; max-width: 100%; }
figure img { max-width: 100%; height: auto; }
code { font-size: 8.5pt; overflow-wrap: anywhere; }
@media print { body { padding: 0; } h1 { margin-top: 0; } h2.run ~ h2.run { break-before: page; }
  .wide { overflow: visible; }
  .many { font-size: 7.5pt; } .many :is(th, td) { padding: 0.6mm 1mm; }
  .most { font-size: 6.5pt; } .most :is(th, td) { padding: 0.6mm 0.5mm; } }
@media screen and (max-width: 40rem) { .checklist .items { width: 34%; } }
@media screen and (prefers-color-scheme: dark) {
  :root { color-scheme: dark; }
  body { color: #e3e8ee; background: #14181d; }
  h2 { border-color: #6fb1f2; }
  .muted, caption { color: #a8b3c0; }
  a { color: #7db8f5; }
  th, td { border-color: #333d48; }
  thead th { border-color: #6b7682; }
  .group th { background: #22344a; }
  .missing { color: #ffab70; }
}
"""


@dataclass(frozen=True)
class PrintedRun:
    """A finished run under the name that the page gives it, and its figures."""

    label: str
    folder: Path
    results: RunResults
    figures: Sequence[Path]  # SVG, in the order in which they were drawn


def printed_run(label: str, folder: Path, results: RunResults) -> PrintedRun:
    """A run with the figures that it left."""
    figures = sorted((folder / "figures").glob("*.svg"), key=lambda file: (file.stat().st_mtime_ns, file.name))
    return PrintedRun(label, folder, results, figures)


def report_html(title: str, made: str, runs: Sequence[PrintedRun]) -> str:
    """The whole page; it needs nothing else and runs no script."""
    named = {run.label: f"run-{index}" for index, run in enumerate(runs, start=1)}
    listed = "".join(f'<li><a href="#{named[run.label]}">{text(run.label)}</a>{experiment(run)}</li>' for run in runs)
    sections = "".join(section(run, named[run.label]) for run in runs)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{text(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{text(title)}</h1>
<p class="muted">{len(runs)} {"run" if len(runs) == 1 else "runs"}, {text(made)}</p>
<nav aria-label="Runs"><ul>{listed}</ul></nav>
{sections}
</body>
</html>
"""


def section(run: PrintedRun, name: str) -> str:
    """A run: its tables as the terminal shows them, its figures, its checklist."""
    results = run.results
    lines = "".join(f'<p class="muted">{text(line)}</p>' for line in caption(results.provenance))
    figures = "".join(map(figure, run.figures))
    return (
        f'<h2 class="run" id="{name}">{text(run.label)}{experiment(run)}</h2>'
        f"<p><code>{text(command_of(results.provenance))}</code></p>{lines}"
        + "".join(tables(results))
        + (f'<h3>Figures</h3><div class="figures">{figures}</div>' if figures else "")
        + f"<h3>Reproducibility checklist</h3>{checklist_table(checklist(results))}"
    )


def experiment(run: PrintedRun) -> str:
    """What a run is of, where its name does not say so."""
    return "" if run.label == run.results.experiment else f": {text(run.results.experiment)}"


def tables(results: RunResults) -> Iterator[str]:
    """The tables that the run shows at its end, and the lines beneath them."""
    for name, columns in shown_tables(results):
        rows, notes = results.tables.get(name) or (), list(results.notes.get(name, ()))
        title = "Summary" if name == "summary" else name.replace("_", " ").capitalize()
        if rows:
            said = readable(rows, results.quantities)
            wanted, alike = apart(said, list(said[0]) if columns == "all" else list(columns))
            yield f'<div class="wide">{table(title, said[:LONGEST_TABLE], wanted)}</div>'
            notes = [*alike, *notes]
            if (left := len(said) - LONGEST_TABLE) > 0:
                notes.append(f"{left} more rows are in results.json")
        yield from (f'<p class="muted">{text(note if rows else f"{title}: {note}")}</p>' for note in notes)


def shown_tables(results: RunResults) -> list[tuple[str, Sequence[str] | str]]:
    """The names of the tables that people see, with their columns; of a sweep, its jobs."""
    if "jobs" in results.tables:
        columns = [name for name in (results.tables["jobs"] or [{}])[0] if name not in ("error", "values")]
        return [("jobs", columns)]
    return [(name, columns) for name, columns in (results.provenance.config.get("show") or {}).items() if columns]


def table(title: str, rows: Sequence[Row], columns: Sequence[str]) -> str:
    """Rows as a table; numbers of a column have the same decimals."""
    filled = [column for column in columns if any(row.get(column) is not None for row in rows)]
    cells = {column: column_texts(column, [row.get(column) for row in rows]) for column in filled}
    kinds = {column: "" if any(isinstance(row.get(column), str) for row in rows) else ' class="number"' for column in filled}
    head = "".join(f'<th scope="col"{kinds[column]}>{text(column.replace("_", " "))}</th>' for column in filled)
    body = "".join(
        "<tr>" + "".join(f"<td{kinds[column]}>{words(cells[column][index])}</td>" for column in filled) + "</tr>"
        for index in range(len(rows))
    )
    size = next((f' class="{size}"' for size, least in CROWDED.items() if len(filled) >= least), "")
    return f"<table{size}><caption>{text(title)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def figure(file: Path) -> str:
    """A figure as an image, in which no script can run and whose names cannot clash with others."""
    name = text(file.stem.replace("_", " "))
    content = base64.b64encode(file.read_bytes()).decode()
    return f'<figure><img alt="{name}" src="data:image/svg+xml;base64,{content}"></figure>'


def checklist_table(rows: Sequence[Row]) -> str:
    """The checklist with a heading for each group."""
    parts, group = [], None
    for row in rows:
        if row["group"] != group:
            group = row["group"]
            parts.append(f'<tr class="group"><th scope="colgroup" colspan="2">{text(group.capitalize())}</th></tr>')
        missing = ' class="missing"' if row["value"] == NOT_RECORDED else ""
        parts.append(f'<tr><th scope="row">{words(row["item"])}</th><td{missing}>{words(row["value"])}</td></tr>')
    # The first row spans both columns, so that a width of its cells would say nothing.
    columns = '<colgroup><col class="items"><col></colgroup>'
    return f'<table class="checklist">{columns}<tbody>{"".join(parts)}</tbody></table>'


def words(value: object) -> str:
    """Text as HTML in which a long word may break, first at its joints; a short one may not, even at its hyphen."""

    def kept(word: re.Match[str]) -> str:
        if len(word[0]) > LONGEST_WORD:
            return f'<span class="long">{JOINT.sub("<wbr>", text(word[0]))}</span>'
        return f'<span class="whole">{text(word[0])}</span>' if "-" in word[0] else text(word[0])

    return re.sub(r"\S+", kept, str(value))


def text(value: object) -> str:
    """Text as HTML."""
    return html.escape(str(value))
