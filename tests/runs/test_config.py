import inspect
from dataclasses import fields
from functools import partial

import pytest
from hydra.errors import InstantiationException
from hydra.utils import get_class, get_method, get_object, instantiate
from omegaconf import DictConfig, ListConfig, OmegaConf

from headscope.contracts import EncoderSpec, Facts
from headscope.data_modules.base import SPLITS_OF_STAGE
from headscope.data_modules.encoders.frozen import FrozenEncoder, tuned_encoder
from headscope.runs.training import build_trainer
from tests.runs.conftest import PROJECT, composed

CONF = PROJECT / "conf"
OPTIONS = [(file.parent.name, file.stem) for file in sorted(CONF.glob("*/[!_]*.yaml"))]
EXPERIMENTS = [name for group, name in OPTIONS if group == "experiment"]
LISTS = ("logger", "analyses")  # groups that take several
NOT_OF_ALL = {"tuned": "kovaleva_drift"}  # groups that some experiments have
FROM_THE_HUB = ("clark_gradients",)
TABLES = (
    "atlas",
    "clark_table3",
    "kovaleva_patterns",
    "kovaleva_table1",
    "pattern_cnn",
    "pattern_variants",
    "structural_probe_layers",
)
OF_RUNS = ("compare", "report")  # read what other runs wrote
OF_TUNED_MODELS = ("disable_heads_lm", "kovaleva_disable_heads", "kovaleva_disable_layers", "kovaleva_drift")
SPEC = {field.name for field in fields(EncoderSpec)}
FEWER = {"pattern_fold": ("data.synthetic=10",)}  # synthetic maps, drawn when the data are built
WRONG = [
    {"_target_": "headscope.probes.parser.scorers.AttentionScorerr"},
    {"_target_": "headscope.probes.structural.probe.StructuralProbe", "rnak": 3},
    {"_target_": "headscope.data_modules.encoders.frozen.FrozenEncoder", "name": "x", "intt": "normal"},
]


def nodes(cfg):
    """Every node that names a class or function."""
    children = cfg.values() if isinstance(cfg, DictConfig) else cfg if isinstance(cfg, ListConfig) else []
    if isinstance(cfg, DictConfig) and "_target_" in cfg:
        yield cfg
    for child in children:
        yield from nodes(child)


def check_node(node):
    """The target exists and takes every key that the file gives."""
    target = get_object(node["_target_"])
    keys = {key: None for key in node if key not in ("_target_", "_partial_", "_convert_", "_recursive_")}
    if target is tuned_encoder or (inspect.isclass(target) and issubclass(target, FrozenEncoder)):
        keys = {key: None for key in keys if key not in SPEC}  # handed on to the spec whole
    for base in inspect.getmro(target) if inspect.isclass(target) else [target]:
        parameters = inspect.signature(base).parameters
        keys = {key: value for key, value in keys.items() if key not in parameters}
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
            break
    assert not keys, f"{node['_target_']} takes no {sorted(keys)}"


def override(group, name):
    option = f"{group}=[{name}]" if group in LISTS else f"{group}={name}"
    return [f"experiment={NOT_OF_ALL[group]}", option] if group in NOT_OF_ALL else [option]


@pytest.mark.parametrize(("group", "name"), OPTIONS)
def test_every_file_composes_and_names_real_classes_and_keys(group, name):
    cfg = composed(*override(group, name))
    found = list(nodes(cfg))
    assert found
    for node in found:
        check_node(node)
    assert callable(get_method(cfg.job))


@pytest.mark.parametrize(
    "name", [name for name in EXPERIMENTS if name not in (*TABLES, *OF_RUNS, *FROM_THE_HUB, *OF_TUNED_MODELS)]
)
def test_every_experiment_builds_its_data_module_and_trainer(name, tmp_path):
    cfg = composed(f"experiment={name}", *FEWER.get(name, ()))
    cfg.run_dir = str(tmp_path)
    datamodule = instantiate(cfg.data, _convert_="all")
    module = instantiate(cfg.module, _convert_="all")(facts=datamodule.facts())
    trainer = build_trainer(cfg)
    assert isinstance(module, get_class(cfg.module._target_))
    assert trainer.max_epochs == cfg.trainer.max_epochs
    assert {split for stage in cfg.stages for split in SPLITS_OF_STAGE[stage]} <= set(datamodule.read_splits())


@pytest.mark.parametrize("trainer", [name for group, name in OPTIONS if group == "trainer"])
def test_every_trainer_gives_every_experiment_only_keys_that_it_takes(trainer):
    for name in EXPERIMENTS:
        found = list(nodes(composed(f"experiment={name}", f"trainer={trainer}")))
        assert found
        for node in found:
            check_node(node)


def test_a_figure_has_one_key_and_no_other_figure_has_it():
    keys = {}
    for file in [*CONF.glob("analyses/*.yaml"), *CONF.glob("experiment/*.yaml")]:
        for key, figure in (OmegaConf.load(file).get("figures") or {}).items():
            keys.setdefault(key, set()).add(figure["_target_"])  # null would switch off another's figure
    assert {key: targets for key, targets in keys.items() if len(targets) > 1} == {}


def test_the_rows_of_the_table_are_experiments():
    rows = composed("experiment=clark_table3").rows
    probes = {name for name in EXPERIMENTS if name.startswith("clark_probe_")}
    assert {row.experiment for row in rows.values()} == probes | {"structural_probe"}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_misspelt_class_or_key_is_found(wrong):
    with pytest.raises((AssertionError, InstantiationException, ImportError)):
        check_node(OmegaConf.create(wrong))


def test_the_trainer_for_a_gpu_pins_memory_and_uses_autocast():
    cfg = composed("trainer=gpu")
    assert (cfg.trainer.accelerator, cfg.trainer.precision) == ("gpu", "bf16-mixed")
    datamodule = instantiate(cfg.data, _convert_="all")
    datamodule.trainer = type("OneProcess", (), {"global_rank": 0, "world_size": 1})
    assert datamodule.test_dataloader().pin_memory
    assert datamodule.test_dataloader().num_workers > 0


def test_experiments_state_only_their_differences():
    default = composed()
    for name in EXPERIMENTS:
        delta = OmegaConf.load(CONF / "experiment" / f"{name}.yaml")
        for section in ("data", "encoder", "trainer"):
            for key, value in delta.get(section, {}).items():
                assert OmegaConf.select(default, f"{section}.{key}") != value, f"{name} repeats {section}.{key}"


def test_modules_take_their_shape_from_the_facts_alone():
    scorer = instantiate(composed("module=attention").module, _convert_="all")
    assert isinstance(scorer, partial)
    parser = scorer(facts=Facts("treebank", layers=2, heads=5, relations=("obj",)))
    assert parser.scorer.head_to_dependent.shape == (2, 5)
