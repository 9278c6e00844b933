import subprocess
import sys

import pytest
from hydra.errors import InstantiationException

from headscope.errors import ConfigError, InputError
from headscope.runs.cli import explain
from tests.runs.conftest import PROJECT, train

MISSPELT = [
    ("experiment=clark_prob_words", "experiment=clark_prob_words: no such experiment; did you mean clark_probe_words"),
    ("encoder=miniln", "encoder=miniln: no such encoder; did you mean minilm"),
    ("encoder=./my/model", "encoder=./my/model: no such encoder; a folder or hub id goes into encoder.name=."),
    ("encodr=minilm", "encodr: no such key; did you mean encoder"),
    ("data.limt=5", "data.limt: no such key; did you mean data.limit"),
    ("data.limit", "data.limit: not of the form key=value"),
]
WORD = "{}\ta\ta\tX\t_\t_\t{}\tdep\t_\t_\n"
BAD_TREES = {
    "a 7-column line": ("1\ta\ta\tX\t_\t_\t0\n", "bad.conllu:1: expected 10 tab-separated columns, found 7."),
    "a head out of range": (WORD.format(1, 7), "bad.conllu:1: expected a head from 0 to 1 in column 7, found '7'."),
    "a cycle": (WORD.format(1, 2) + WORD.format(2, 1), "bad.conllu:1: expected a tree, found a cycle"),
    "an empty file": ("", "bad.conllu: expected at least one sentence, found none."),
}
HELP_WITHOUT_TORCH = """
import runpy, sys
sys.argv = ["train.py", "--help"]
runpy.run_path("train.py", run_name="__main__")
print("torch" in sys.modules)
"""


@pytest.mark.parametrize(("argument", "sentence"), MISSPELT)
def test_a_misspelt_override_gets_one_sentence_and_status_2(argument, sentence, tmp_path):
    status, out, err = train(argument, cwd=tmp_path)
    assert (status, out) == (2, "")
    assert err.startswith(sentence)
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_help_explains_groups_experiments_and_examples_without_heavy_imports():
    status, out, err = train("--help")
    assert (status, err) == (0, "")
    for file in PROJECT.glob("conf/*/[!_]*.yaml"):
        assert f"  {file.stem}" in out
    assert "python train.py experiment=clark_table3" in out


def test_help_does_not_import_torch():
    call = subprocess.run([sys.executable, "-c", HELP_WITHOUT_TORCH], capture_output=True, text=True, cwd=PROJECT)
    assert call.stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize("case", BAD_TREES)
def test_a_bad_treebank_is_named_with_its_line_and_leaves_no_results(case, tmp_path):
    text, sentence = BAD_TREES[case]
    (tmp_path / "bad.conllu").write_text(text)
    status, out, err = train(
        "experiment=clark_probe_right_branching", f"data.test={tmp_path}/bad.conllu", f"run_dir={tmp_path}/run"
    )
    assert (status, out) == (1, "")
    assert sentence in err
    assert "Traceback" not in err
    assert err.count("\n") == 1
    assert not list((tmp_path / "run").glob("*results*"))


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (["data.test=nowhere.conllu"], 1, "nowhere.conllu: no such file"),
        (["encoder.name=./nowhere"], 1, "./nowhere: expected a folder with config.json and weights, found no model there."),
        (
            ["encoder.name=no-such-owner/no-such-model"],
            1,
            "encoder.name=no-such-owner/no-such-model: neither a local folder nor a hub",
        ),
        (["vectors.path=none.txt"], 1, "none.txt: no such file"),
        (["trainer.max_epochs=many"], 2, "trainer.max_epochs=many: expected a whole number from 1"),
        (["+trainer.max_epoch=3"], 2, "bad configuration in trainer"),
        (["data.train=data_modules/samples/treebank/train.conllu"], 2, "data.test is missing"),
    ],
)
def test_other_mistakes_get_one_sentence(arguments, status, sentence, tmp_path):
    found, out, err = train(*arguments, f"run_dir={tmp_path}", HF_HUB_OFFLINE="1")
    assert (found, out) == (status, "")
    assert err.startswith(sentence)
    assert err.count("\n") == 1


def test_statuses_of_errors_that_were_wrapped_on_their_way():
    try:
        try:
            raise ConfigError("data.x=1: no.")
        except ConfigError as cause:
            raise InstantiationException("Error in call to target") from cause
    except InstantiationException as error:
        assert explain(error) == (2, "data.x=1: no.")
    assert explain(InputError("a.txt: no.")) == (1, "a.txt: no.")
    assert explain(KeyboardInterrupt())[0] == 130
    assert explain(RuntimeError("a defect")) == (1, None)
