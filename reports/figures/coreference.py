"""Who finds the antecedent: the baselines and the best head, by kind of mention, with intervals (Clark, Table 2)."""

import re
from collections.abc import Iterator, Sequence

from matplotlib.lines import Line2D

from headscope.contracts import Row, RunResults
from headscope.reports.figures.drawing import COLOURS, Sheet, legend_below, sheet, written
from headscope.reports.figures.relations import draw_lines, legend_of_lines

KINDS_OF_PUBLISHED = ("all", "pronoun", "proper", "nominal")
LEAST_SHARE = 0.05  # of a line that is drawn
LABELS = {"nominal": "common noun", "proper": "proper name"}


@written
def coreference_rows(results: RunResults, heads: Sequence[Row]) -> Iterator[tuple[str, Sheet]]:
    """A group of bars for each kind of mention; a line across a bar is the published figure."""
    cells = results.tables["coreference_intervals"]
    rows, kinds = (list(dict.fromkeys(cell[key] for cell in cells)) for key in ("row", "kind"))
    table = {row["row"]: row for row in results.tables.get("coreference", [])}
    drawn = sheet(results, "Antecedents found, by kind of mention", 140, 62, ["Whiskers are 95 % intervals."])
    axes, width = drawn.body.subplots(), 0.84 / len(rows)
    shown, published = [], []
    for number, row in enumerate(rows):
        own = [cell for cell in cells if cell["row"] == row]
        positions = {cell["kind"]: kinds.index(cell["kind"]) + (number - (len(rows) - 1) / 2) * width for cell in own}
        ends = [[max(0, c["accuracy"] - c["low"]) for c in own], [max(0, c["high"] - c["accuracy"]) for c in own]]
        style = {"color": COLOURS[number], "error_kw": {"elinewidth": 0.6, "capsize": 1.2, "ecolor": "#444444"}}
        known = table.get(row, {})
        label = row.replace("best head", f"head {known['head']}") if known.get("head") else row
        bars = axes.bar(list(positions.values()), [cell["accuracy"] for cell in own], width, yerr=ends, label=label, **style)
        shown.append(bars)
        for kind, value in published_by_kind(known.get("published")).items():
            if kind in positions:
                published.append((positions[kind] - 0.46 * width, positions[kind] + 0.46 * width, value))
    for left, right, value in published:
        axes.plot([left, right], [value, value], color="black", linewidth=1.6, solid_capstyle="butt")
    counts = {cell["kind"]: cell["n"] for cell in cells}
    axes.set_xticks(range(len(kinds)), [f"{LABELS.get(kind, kind)}\n({counts[kind]:,})" for kind in kinds])
    axes.set(xlabel="kind of mention (how many)", ylabel="antecedent found (%)", ylim=(0, 100))
    axes.grid(axis="y", alpha=0.3, linewidth=0.5)
    axes.set_axisbelow(True)
    if published:
        shown.append(Line2D([], [], color="black", linewidth=1.6, label="published"))
    legend_below(drawn, shown)
    yield "coreference", drawn


@written
def coreference_lines(results: RunResults, heads: Sequence[Row]) -> Iterator[tuple[str, Sheet]]:
    """The best head's attention from mentions to earlier ones, by head words; antecedents in a colour of their own."""
    for number, drawing in enumerate(results.drawings.get("coreference_lines", []), start=1):
        title = f"Head {drawing['head']} from mention to earlier mention, example {number}"
        notes = [
            "Head words of mentions, in the order of the text. The darker a line, the larger its share of the attention "
            f"that a mention gives to the earlier ones; shares below {100 * LEAST_SHARE:.0f} % are not drawn."
        ]
        drawn = sheet(results, title, 89, 4 + 3.1 * len(drawing["words"]), notes)
        shares = shares_of_earlier(drawing["attention"])
        # Of an entity of many mentions every pair is a link: those that the head does not see would hide those it does.
        links = {(later, earlier) for later, earlier in drawing["links"] if shares[later][earlier] >= LEAST_SHARE}
        draw_lines(drawn.body.subplots(), drawing["words"], shares, drawn.width, links, 7.0, LEAST_SHARE, faintest_link=0.0)
        legend_below(drawn, legend_of_lines("to an antecedent"))
        yield f"coreference_lines_{number}", drawn


def shares_of_earlier(attention: Sequence[Sequence[float]]) -> list[list[float]]:
    """What each mention gives to those before it, as shares of their sum; zero to itself and to later ones."""
    sums = [sum(row[:index]) for index, row in enumerate(attention)]
    return [
        [weight / total if column < index and total else 0.0 for column, weight in enumerate(row)]
        for index, (row, total) in enumerate(zip(attention, sums, strict=True))
    ]


def published_by_kind(text: object) -> dict[str, float]:
    """`5-4 65 (64/73/58)`: over all mentions, then of pronouns, proper names and other nouns."""
    found = re.search(r"(?:\d+-\d+ )?([\d.]+) \(([\d.]+)/([\d.]+)/([\d.]+)\)", str(text))
    return dict(zip(KINDS_OF_PUBLISHED, map(float, found.groups()), strict=True)) if found else {}
