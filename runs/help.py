"""What `--help` says; read from the configuration files, so that it is never out of date."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

CONF = Path(__file__).parents[1] / "conf"
EXPERIMENT = "experiment="
OWN_KEYS = ("analyses.", "data.", "module.", "stages", "tasks", "parser", "tuned.name", "runs", "only", "title", "pdf")
USAGE = """\
headscope: find out what the attention heads of a transformer do.

usage: python train.py [experiment=NAME] [group=option ...] [key=value ...]
       python train.py -m key=value1,value2     one run for each value; the same command goes on after a stop
       python train.py -m search=optuna         the best values, from the ranges of the module or your own
       python train.py serve RUN                the atlas in the folder RUN, live: type a sentence, disable heads

Without arguments: the default experiment on the packaged sample, offline, in under a minute.
"""
KEYS = """\
keys that every experiment shares
  encoder.name=           hub id or folder; encoder.init=pretrained|embeddings|normal, encoder.dtype=float32|bfloat16
  data.train= val= test=  files or folders of the data's kind; data.limit= examples per split
  data.cache=true         keep the maps on disk for later epochs and runs
  vectors.path=           GloVe text file (.txt, .gz, .zip) or npz
  seed= run_dir=          where a run writes results.json, heads.csv, figures/, checkpoints/, logs/
  figure_width=89         figures for a column of a journal; 183, a page, unless given
  resume=true             go on from the last checkpoint of run_dir
  --cfg job               show the composed configuration and stop
"""
EXAMPLES = """\
examples
  python train.py
  python train.py experiment=clark_table3
  python train.py experiment=clark_relations encoder=bert_base data.test=dev.conllu
  python train.py experiment=clark_surface analyses=[surface,clusters]
  python train.py experiment=kovaleva_glue data.task=rte data.dir=/path/to/glue run_dir=outputs/rte
  python train.py experiment=pande_sieves data.task=rte data.dir=/path/to/glue tuned.name=outputs/rte/model
  python train.py experiment=clark_probe_attention encoder=bert_base data.train=train.conllu data.test=dev.conllu
  python train.py experiment=compare runs=[outputs/one,outputs/other]
  python train.py experiment=report runs=[outputs/one,outputs/other]
  python train.py module.decode=mst logger=[csv,tensorboard] seed=1
  python train.py -m experiment=structural_probe data.hidden_layer=1,2,3,4,5,6
  python train.py -m search=optuna experiment=clark_probe_words search.trials=30 run_dir=outputs/search
  python train.py -m search=optuna module.lr="tag(log,interval(0.001,0.1))" hydra/launcher=joblib hydra.launcher.n_jobs=4
"""


def help_text(words: Sequence[str] = ()) -> str:
    """The whole page, or that of the experiment that the words name."""
    named = [word.removeprefix(EXPERIMENT) for word in words if word.startswith(EXPERIMENT)]
    if named and (CONF / "experiment" / f"{named[-1]}.yaml").is_file():
        return experiment_help(named[-1], [word for word in words if "=" in word])
    groups = [f"{group}\n{_options(group)}" for group in sorted(known_groups(), key=lambda name: name != "experiment")]
    return "\n".join([USAGE, *groups, KEYS, EXAMPLES])


def experiment_help(name: str, overrides: Sequence[str]) -> str:
    """What an experiment computes, reads and leaves, and its own keys with their values."""
    keys = known_keys(overrides)
    shown = {key: value for key, value in keys.items() if key.startswith(OWN_KEYS) and not _is_internal(key, value)}
    width = max(map(len, shown))
    values = "".join(f"  {key:{width}}  {_as_typed(value)}\n" for key, value in shown.items())
    chosen = {word.partition("=")[0]: word.partition("=")[2] for word in overrides}
    kind = chosen.get("data") or _data_of(name)
    data = f"{kind}: {_first_comment(CONF / 'data' / f'{kind}.yaml')}" if kind else "see data.* below"
    tables = ", ".join(key.removeprefix("show.") for key, value in keys.items() if key.startswith("show.") and value != "[]")
    return f"""\
{name}: {_first_comment(CONF / "experiment" / f"{name}.yaml")}

usage: python train.py experiment={name} [key=value ...]

data
  {data}
leaves
  results.json (tables: {tables}), heads.csv where it is about heads, figures/, logs/
keys of its own, with their values
{values}
{KEYS}"""


def _data_of(experiment: str) -> str | None:
    """The kind of data that an experiment chooses, or that all have by default."""
    text = (CONF / "experiment" / f"{experiment}.yaml").read_text()
    found = re.search(r"override /data: (\w+)", text) or re.search(r"- data: (\w+)", (CONF / "train.yaml").read_text())
    return found[1] if found else None


def _is_internal(key: str, value: object) -> bool:
    """Whether a key is for those who write configurations: targets, groups of keys, references to other keys."""
    reference = str(value).startswith("${")
    return reference or "_target_" in key or key.endswith("_partial_") or value is None and key.count(".") < 2


def _as_typed(value: object) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def known_groups() -> list[str]:
    """The configuration groups."""
    return sorted({file.parent.name for file in CONF.glob("*/*.yaml")})


def known_keys(overrides: Sequence[str]) -> dict[str, Any]:
    """Every key of the configuration with its value, the groups chosen as asked where that can be done."""
    from hydra import compose, initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    choices = [override for override in overrides if override.partition("=")[0] in known_groups()]
    running = GlobalHydra.instance().hydra  # of a sweep that goes on after this
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        for attempt in (choices, []):
            try:
                cfg = compose("train", attempt)
                break
            except Exception:  # another mistake in the same command: look at the default configuration
                continue
    GlobalHydra.instance().hydra = running
    return dict(_leaves(cfg, ""))


def _leaves(node: Any, prefix: str) -> Iterator[tuple[str, object]]:
    for key in node:
        child = node._get_node(key)
        if hasattr(child, "items") and not child._is_interpolation() and not child._is_none():
            yield f"{prefix}{key}", None
            yield from _leaves(child, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", child._value()


def _options(group: str) -> str:
    files = sorted((CONF / group).glob("[!_]*.yaml"))
    width = max(len(file.stem) for file in files)
    return "".join(f"  {file.stem:{width}}  {_first_comment(file)}\n" for file in files)


def _first_comment(file: Path) -> str:
    comments = (line.removeprefix("#").strip() for line in file.read_text().splitlines() if line.startswith("#"))
    return next((comment for comment in comments if not comment.startswith("@package")), "")
