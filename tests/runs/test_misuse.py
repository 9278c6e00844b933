"""Wrong commands, each answered in one sentence with the way out, and nothing left behind."""

import shutil

import pytest

from headscope.runs.help import CONF
from headscope.runs.limits import check_limits, limits
from tests.commands import new_process, train
from tests.runs.conftest import PROJECT, composed

SAMPLES = PROJECT / "data_modules" / "samples"
TREEBANK = f"data.test={SAMPLES}/treebank/test.conllu"

# What is typed (blanks part the words; {tmp} is a folder with files), the status, and how the answer begins.
NO_MODEL_IS_READ = [
    # misspelt
    ("experiment=clark_prob_words", 2, "experiment=clark_prob_words: no such experiment; did you mean clark_probe_words"),
    ("clark_surface", 2, "clark_surface: did you mean experiment=clark_surface?"),
    ("surface", 2, "surface: not of the form key=value"),
    ("--experiment clark_surface", 2, "--experiment: keys have no dashes; did you mean experiment=clark_surface?"),
    ("--epochs=3", 2, "--epochs: keys have no dashes"),
    ("encoder=miniln", 2, "encoder=miniln: no such encoder; did you mean minilm"),
    ("encoder=./my/model", 2, "encoder=./my/model: no such encoder; a folder or hub id goes into encoder.name=."),
    ("encodr=minilm", 2, "encodr: no such key; did you mean encoder"),
    ("data=treebanks", 2, "data=treebanks: no such data; did you mean treebank"),
    ("module=atention", 2, "module=atention: no such module; did you mean attention"),
    ("trainer=tpu", 2, "trainer=tpu: no such trainer"),
    ("logger=wandbb", 2, "logger=wandbb: no such logger; did you mean wandb"),
    ("data.limt=5", 2, "data.limt: no such key; did you mean data.limit"),
    ("module.learning_rate=0.1", 2, "module.learning_rate: no such key"),
    ("experiment=clark_surface analyses=[surfaces]", 2, "analyses=surfaces: no such analyses; did you mean surface"),
    ("hydra/launcher=slurm", 2, "hydra/launcher=slurm: no such launcher"),
    ("data.limit", 2, "data.limit: not of the form key=value"),
    ("experiment=", 2, "experiment=: "),
    # values of the wrong kind or out of range
    ("module.lr=-1", 2, "module.lr=-1: expected a number above 0."),
    ("module.lr=fast", 2, "module.lr=fast: expected a number above 0."),
    ("module.lr=nan", 2, "module.lr=nan: expected a number above 0."),
    ("data.batch_size=0", 2, "data.batch_size=0: expected a whole number from 1."),
    ("data.batch_size=1.5", 2, "data.batch_size=1.5: expected a whole number from 1."),
    ("data.limit=-3", 2, "data.limit=-3: expected a whole number from 1."),
    ("data.workers=-1", 2, "data.workers=-1: expected a whole number from 0."),
    ("seed=abc", 2, "seed=abc: expected a whole number from 0 to 4294967295."),
    ("seed=-1", 2, "seed=-1: expected a whole number from 0 to 4294967295."),
    ("trainer.max_epochs=0", 2, "trainer.max_epochs=0: expected a whole number from 1, or -1 for no end."),
    ("trainer.max_epochs=many", 2, "trainer.max_epochs=many: expected a whole number from 1, or -1 for no end."),
    ("module.decode=best", 2, "module.decode=best: expected argmax or mst."),
    ("encoder.init=random", 2, "encoder.init=random: expected pretrained, embeddings or normal."),
    ("encoder.dtype=float16", 2, "encoder.dtype=float16: expected float32 or bfloat16."),
    ("data.from_word=last", 2, "data.from_word=last: expected mean or first."),
    ("experiment=kovaleva_glue data.task=cola", 2, "data.task=cola: expected mrpc, stsb, sst2, qqp, rte, qnli or mnli."),
    (
        "experiment=kovaleva_disable_heads module.how=remove",
        2,
        "module.how=remove: expected uniform, zero, mean or resample.",
    ),
    ("experiment=clark_relations analyses.relations.min_count=0", 2, "analyses.relations.min_count=0: expected a whole"),
    ("experiment=pattern_fold module.dropout=1", 2, "module.dropout=1: expected a number from 0 and below 1."),
    ("experiment=clark_gradients data.mask_share=0", 2, "data.mask_share=0: expected a number above 0 and at most 1."),
    (
        "experiment=pande_sieves analyses.roles.level=2",
        2,
        "analyses.roles.level=2: expected a number above 0 and at most 1.",
    ),
    ("experiment=mlm_head data.held_out_share=0", 2, "data.held_out_share=0: expected a number above 0."),
    ("experiment=mlm_head data.held_out_share=1", 2, "data.held_out_share=1: expected a number from 0 and below 1."),
    ("experiment=disable_heads_lm data.objective=next", 2, "data.objective=next: expected auto, masked or causal."),
    ("experiment=structural_probe module.rank=0", 2, "module.rank=0: expected a whole number from 1."),
    ("resume=maybe", 2, "resume=maybe: expected true or false."),
    # files that are not there
    ("data.test=nowhere.conllu", 1, "nowhere.conllu: no such file or folder; give data.test= one that is there."),
    (
        "data.train=no/where.conllu data.test={tmp}/one.conllu",
        1,
        "no/where.conllu: no such file or folder, nor a folder no;",
    ),
    ("vectors.path=none.txt", 1, "none.txt: no such file or folder; give vectors.path= one that is there."),
    ("experiment=kovaleva_glue data.dir=nowhere", 1, "nowhere: no such file or folder; give data.dir= one that is there."),
    ("encoder.change=none.safetensors", 1, "none.safetensors: no such file or folder; give encoder.change="),
    # runs that are not there, or that something else lies in the place of
    ("resume=true run_dir={tmp}/nothing", 2, "resume=true: there is no run in {tmp}/nothing"),
    ("experiment=compare runs=[{tmp}/nothing,{tmp}/finished]", 1, "{tmp}/nothing: "),
    ("run_dir={tmp}/finished", 2, "run_dir={tmp}/finished: holds the finished run of clark_probe_right_branching"),
]
A_MODEL_OR_LIBRARY_IS_READ = [
    ("encoder.name=./nowhere", 1, "./nowhere: expected a folder with config.json and weights, found no model there."),
    ("encoder.name=no-such-owner/no-such-model", 1, "encoder.name=no-such-owner/no-such-model: neither a local folder nor"),
    ("data.test={tmp}/table.tsv experiment=clark_relations", 1, "{tmp}/table.tsv:1: expected 10 tab-separated columns"),
    ("experiment=kovaleva_glue data.dir={tmp}/empty", 1, "{tmp}/empty"),
    ("experiment=clark_gradients encoder=minilm", 1, ""),
    ("experiment=kovaleva_drift", 2, "analyses=drift needs a second model; name its folder with tuned.name=."),
    ("experiment=clark_surface data=treebank", 2, "analyses=surface needs data="),
    ("data.hidden_layer=99 experiment=structural_probe", 2, "data.hidden_layer=99: expected 0 (embeddings) to 6."),
    ("data.max_pieces=100000", 2, "data.max_pieces=100000: the encoder has 512 positions."),
    ("experiment=kovaleva_features parser=no_such_pipeline", 2, "parser=no_such_pipeline: no spaCy pipeline of that name"),
    (f"data.train={SAMPLES}/treebank/train.conllu", 2, "data.test is missing"),
]

WITHOUT_TORCH = """
import runpy, sys
sys.argv = ["train.py", "module.lr=-1"]
try:
    runpy.run_path("train.py", run_name="__main__")
finally:
    print("torch" in sys.modules)
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a run that is done."""
    folder = tmp_path_factory.mktemp("finished")
    status, _, err = train("experiment=clark_probe_right_branching", "data.limit=5", "~figures", f"run_dir={folder}")
    assert status == 0, err
    return folder


@pytest.fixture
def folder(tmp_path, finished):
    """Some files that are not what they are given for."""
    (tmp_path / "table.tsv").write_text("a\tb\n1\t2\n")
    (tmp_path / "one.conllu").write_text("1\ta\ta\tX\t_\t_\t0\troot\t_\t_\n\n")
    (tmp_path / "empty").mkdir()
    shutil.copytree(finished, tmp_path / "finished")
    return tmp_path


def answered(words, status, sentence, folder):
    before = (folder / "finished" / "results.json").read_text()
    found, out, err = train(*(word.format(tmp=folder) for word in words.split()), cwd=folder, HF_HUB_OFFLINE="1")
    assert err.startswith(sentence.format(tmp=folder)), err
    assert (found, out) == (status, "")
    assert err.count("\n") == 1 and "Traceback" not in err
    assert not list((folder / "outputs").rglob("*results*"))
    assert (folder / "finished" / "results.json").read_text() == before


@pytest.mark.parametrize(("words", "status", "sentence"), NO_MODEL_IS_READ)
def test_a_wrong_command_is_answered_at_once(words, status, sentence, folder):
    answered(words, status, sentence, folder)


@pytest.mark.parametrize(("words", "status", "sentence"), A_MODEL_OR_LIBRARY_IS_READ)
def test_a_wrong_file_or_model_is_answered_in_a_sentence(words, status, sentence, folder):
    answered(words, status, sentence, folder)


def test_an_answer_needs_no_heavy_library(tmp_path):
    call = new_process("-c", WITHOUT_TORCH)
    assert (call.stdout.strip(), call.returncode) == ("False", 2)


@pytest.mark.parametrize("experiment", sorted(file.stem for file in (CONF / "experiment").glob("[!_]*.yaml")))
def test_what_experiments_come_with_is_within_the_limits(experiment):
    check_limits(composed(f"experiment={experiment}"))


def test_every_limit_is_of_a_key_that_some_experiment_has():
    known = set()
    for file in (CONF / "experiment").glob("[!_]*.yaml"):
        cfg = composed(f"experiment={file.stem}")
        known |= {key for keys in limits().values() for key in keys if has(cfg, key)}
    wanted = {key for keys in limits().values() for key in keys}
    assert wanted - known <= {"search.trials", "trainer.num_nodes"}  # of search=optuna and trainer=ddp


def has(cfg, key):
    *above, last = key.split(".")
    for name in above:
        if not hasattr(cfg, "get") or cfg.get(name) is None:
            return False
        cfg = cfg[name]
    return last in cfg
