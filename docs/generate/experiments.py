"""The page of an experiment: the written text, and around it what lives in its configuration and its sample run."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from headscope.runs import help as told

DOCS = Path(__file__).parents[1]
FOLDER = DOCS / "experiments"
SAMPLES = FOLDER / "samples"
NO_EVIDENCE = "Of the packaged sample, which shows that the command works and nothing else: *no evidence*."
BEFORE = "\n## What differs"
PAPERS = {
    "Clark et al. 2019": ("clark_", "structural_"),
    "Kovaleva et al. 2019": ("kovaleva_", "pattern_"),
    "Pande et al. 2021": ("pande_",),
}
BEYOND = "Beyond the papers"
# Keys for those who write configurations.
INNER = (
    "each",
    "without",
    "rows",
    "once",
    "then",
    "join",
    "job",
    "lacking",
    "model_key",
    "handed_",
    "callbacks",
    "figures",
    "parts.",
)
COMMENTED = re.compile(r"^(?P<indent> *)(?P<key>[\w/.]+):(?P<rest>.*?)(?:\s# (?P<comment>.+))?$")


def names() -> list[str]:
    """The experiments of the configuration."""
    return sorted(file.stem for file in (told.CONF / "experiment").glob("[!_]*.yaml"))


def by_paper() -> dict[str, list[str]]:
    """The experiments of each paper, in the order of the papers."""
    groups: dict[str, list[str]] = {paper: [] for paper in (*PAPERS, BEYOND)}
    for name in names():
        groups[next((paper for paper, starts in PAPERS.items() if name.startswith(starts)), BEYOND)].append(name)
    return groups


def summary(name: str) -> str:
    """The first comment of its file."""
    return told._first_comment(told.CONF / "experiment" / f"{name}.yaml")


def index() -> str:
    """A table of all, by paper."""
    parts = []
    for paper, members in by_paper().items():
        rows = [[f"[`{name}`]({name}.md)", summary(name)] for name in members]
        parts.append(f"## {paper}\n\n{table(['experiment', 'what it is'], rows)}")
    return "\n".join(parts)


def page(name: str, text: str) -> str:
    """The written text with output, figure and published figures before what differs; keys and quantities behind."""
    before, found, differs = text.partition(BEFORE)
    if not found:
        raise ValueError(f"docs/experiments/{name}.md: expected a section '{BEFORE.strip()}', found none.")
    written = f"{before.rstrip()}\n\n{output(name)}{figure(name)}{published(name)}{BEFORE.lstrip()}{differs.rstrip()}\n\n"
    return f"{written}{data(name)}{keys(name)}{quantities(name)}"


# What the sample run left


def sample(name: str) -> dict[str, Any]:
    """What was kept of the run of the sample: its command and the quantities of its heads."""
    file = SAMPLES / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def output(name: str) -> str:
    """What the terminal shows at the end."""
    file = SAMPLES / f"{name}.txt"
    if not file.is_file():
        return ""
    printed = file.read_text(encoding="utf-8").rstrip()
    return f"## Output\n\n{NO_EVIDENCE}\n\n```text\n$ {sample(name)['command']}\n{printed}\n```\n\n"


def figure(name: str) -> str:
    """The figure that was kept, and the names of all."""
    drawn = sample(name).get("figures", [])
    shown = sample(name).get("figure")
    if not shown:
        return "## Figure\n\nIt draws none of its own.\n\n" if sample(name) else ""
    others = ", ".join(f"`{one}`" for one in drawn if one != shown)
    more = f" Also drawn: {others}." if others else ""
    alternative = f"{shown.replace('_', ' ')} of {name} on the packaged sample"
    picture = f"![{alternative}](samples/{name}.png){{ loading=lazy }}"
    if shown.endswith(".html"):
        return f"## Figure\n\n{picture}\n\nThe top of the page that it leaves, `{shown}`. {NO_EVIDENCE}\n\n"
    return f"## Figure\n\n{picture}\n\n`figures/{shown}`, as SVG and PNG. {NO_EVIDENCE}{more}\n\n"


def quantities(name: str) -> str:
    """What the rows of heads.csv are, a family of them in one line."""
    rows: dict[str, list[str]] = {}
    for quantity, said in sample(name).get("quantities", {}).items():
        family = f"{quantity.partition(':')[0]}:…" if ":" in quantity else quantity
        title = said["label"] + (f" ({said['unit']})" if said["unit"] and said["unit"] not in said["label"] else "")
        title += ", and so on" if ":" in quantity else ""
        rows.setdefault(family, [f"`{family}`", title, said["description"]])
    if not rows:
        return ""
    return f"## Per-head quantities\n\nRows of `heads.csv`.\n\n{table(['quantity', 'label', 'what it is'], rows.values())}"


# What its configuration says


@cache
def sources(name: str) -> tuple[tuple[str, Path], ...]:
    """The files that an experiment is composed of, with the prefix of their keys; what it inherits first."""
    files: dict[Path, str] = {}
    groups: dict[str, Any] = {"data": "treebank", "module": "attention_and_words", "tuned": None, "analyses": ()}

    def visit(file: Path, prefix: str) -> None:
        for entry in read(file).get("defaults", ()):
            for key, choice in entry.items() if isinstance(entry, dict) else [("", entry)]:
                group = key.removeprefix("override ").removeprefix("/")
                if group in groups:
                    groups[group] = choice
                elif not group and choice != "_self_":
                    visit(file.parent / f"{choice}.yaml", prefix)
        files[file] = prefix

    visit(told.CONF / "experiment" / f"{name}.yaml", "")
    for group in ("data", "module", "tuned"):
        if groups[group]:
            visit(told.CONF / group / f"{groups[group]}.yaml", f"{group}.")
    for analysis in groups["analyses"]:
        visit(told.CONF / "analyses" / f"{analysis}.yaml", "")
    return tuple((prefix, file) for file, prefix in files.items())


def read(file: Path) -> dict[str, Any]:
    """A YAML file."""
    return yaml.safe_load(file.read_text(encoding="utf-8")) or {}


def comments(prefix: str, file: Path) -> Iterator[tuple[str, str]]:
    """Every key of a YAML file that has a comment, whole, with it."""
    path: list[tuple[int, str]] = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if not (found := COMMENTED.match(line)):
            continue
        path = [one for one in path if one[0] < len(found["indent"])] + [(len(found["indent"]), found["key"])]
        if found["comment"]:
            yield prefix + ".".join(key for _, key in path), found["comment"]


def keys(name: str) -> str:
    """Its own keys with their values and comments, as `--help` shows them."""
    known = told.known_keys([f"experiment={name}"])
    said = {key: text for prefix, file in sources(name) for key, text in comments(prefix, file)}
    groups = {key.rpartition(".")[0] for key in known}
    inner = INNER if has_data(name) else (*INNER, "data.", "module.", "stages", "parser")
    rows = [
        [f"`{key}`", f"`{told._as_typed(value)}`", said.get(key, "").replace("<", "&lt;")]
        for key, value in known.items()
        if key not in groups and not key.startswith(inner) and not key.endswith(("_target_", "_partial_"))
        if (key in said or key.startswith(told.OWN_KEYS)) and "${" not in str(value)
    ]
    shared = "Those that every experiment shares are in [`--help`](../running.md)."
    return f"## Keys\n\n{shared}\n\n{table(['key', 'value', 'what it is'], rows)}" if rows else ""


def has_data(name: str) -> bool:
    """Whether it reads data of its own, and not only other runs or what its parts read."""
    return merged(name).get("job", "").partition("runs.")[2].partition(".")[0] in ("", "training", "tables", "tasks")


def data(name: str) -> str:
    """What it reads and which tables it leaves."""
    if not has_data(name):
        return ""
    kind = told._data_of(name)
    return (
        f"## Data\n\n`data={kind}`: {told._first_comment(told.CONF / 'data' / f'{kind}.yaml')} ([formats](../data.md)).\n\n"
    )


def published(name: str) -> str:
    """The paper's figures, with the state of the model that they are of."""
    content = merged(name)
    said = content.get("published") or {}
    if not said.get("source"):
        return published_rows(content)
    only = "for any model" if said["state"] == "any" else f"only if the model is {said['state']}"
    text = f"## Published\n\n{said['source']}. The column *published* shows these figures {only}.\n\n"
    values = {key.partition("/")[2].replace("_", " "): value for key, value in said.items() if "/" in key and plain(value)}
    if values:
        text += table(["metric", "published"], [[key, str(value)] for key, value in values.items()])
    for title, rows in (said.get("tables") or {}).items():
        if isinstance(rows, dict):
            text += table([title.replace("_", " "), "published"], [[str(key), str(value)] for key, value in rows.items()])
    for title in referenced(content):
        text += looked_up_table(re.sub(r"(?<=[a-z])(?=\d)", " ", title.replace("_", " ")), content[title])
    return text


def published_rows(content: Mapping[str, Any]) -> str:
    """Of a table whose rows are experiments, the published figure of each; of others, that there is none."""
    rows = [(label, row) for label, row in (content.get("rows") or {}).items() if "metric" in row]
    figures = [[label, str(merged(row["experiment"])["published"][row["metric"]])] for label, row in rows]
    source = merged(rows[-1][1]["experiment"])["published"]["source"] if rows else ""
    told_by = f"{source}.\n\n{table(['row', 'published'], figures)}" if rows else "No paper has figures of this.\n\n"
    return f"## Published\n\n{told_by}"


def looked_up_table(title: str, content: Mapping[str, Any]) -> str:
    """Figures by one name, or by several names whose last is the metric: then a column for each."""
    found = [(path, str(value)) for path, value in leaves(content) if path[-1] != "main"]  # which is one of the others again
    if all(len(path) == 1 for path, _ in found):
        return table([title, "published"], [[path[0].replace("_", " "), value] for path, value in found])
    columns = list(dict.fromkeys(path[-1] for path, _ in found))
    rows: dict[str, dict[str, str]] = {}
    for path, value in found:
        rows.setdefault(" ".join(path[:-1]).replace("_", " "), {})[path[-1]] = value
    return table([title, *columns], [[name, *(cells.get(one, "") for one in columns)] for name, cells in rows.items()])


def merged(name: str) -> dict[str, Any]:
    """The experiment's file with what it inherits from other experiments."""
    content: dict[str, Any] = {}
    for prefix, file in sources(name):
        if not prefix and file.parent.name == "experiment":
            content = over(content, read(file))
    return content


def over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Both, where the second wins."""
    both = {key: over(below[key], value) if isinstance(value, dict) and isinstance(below.get(key), dict) else value
            for key, value in above.items()}  # fmt: skip
    return {**below, **both}


def referenced(content: Mapping[str, Any]) -> list[str]:
    """The tables of published figures that `published` or `join` look things up in."""
    text = json.dumps([content.get("published"), content.get("join"), content.get("gains_of")], ensure_ascii=False)
    looked_up = set(re.findall(r"\$\{(?:oc\.select:)?(\w+)[.}]", text))
    looked_up -= {*read(told.CONF / "train.yaml"), *told.known_groups()}
    return [key for key, value in content.items() if key in looked_up and isinstance(value, dict) and all_plain(value)]


def all_plain(value: Mapping[str, Any]) -> bool:
    return all(plain(one) for _, one in leaves(value))


def plain(value: object) -> bool:
    """Whether it is a figure, and no reference."""
    return isinstance(value, int | float) or isinstance(value, str) and "${" not in value


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not isinstance(value, dict):
        yield path, value
        return
    for key, one in value.items():
        yield from leaves(one, (*path, str(key)))


def table(header: list[str], rows: Any) -> str:
    """Markdown; a bar inside a cell is no border."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n\n"
