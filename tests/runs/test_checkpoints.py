import csv
import errno
import io
import os
import shutil
import zipfile

import pytest
import torch

from headscope.errors import InputError
from headscope.processes import Terminated, answered_sigterm
from headscope.runs import checkpoints
from headscope.runs.checkpoints import WholeCheckpointIO, damage, remove_drafts, resume_point
from headscope.runs.training import run
from tests.runs.conftest import composed
from tests.runs.signals_itself import SIGNAL

EPOCHS = 6
SHORT = ("experiment=clark_probe_attention", f"trainer.max_epochs={EPOCHS}", "data.limit=16", "~figures", "module.lr=1.0")
SHORT += ("+callbacks.signal._target_=tests.runs.signals_itself.SignalsItself",)


def run_in(folder, *overrides):
    cfg = composed(*SHORT, *overrides)
    cfg.run_dir = str(folder)
    return run(cfg).metrics


def interrupt(folder, when, *overrides):
    """Run until SIGTERM comes at the end of an epoch, before its checkpoint is written, or in another hook."""
    with pytest.MonkeyPatch.context() as patch, answered_sigterm(), pytest.raises(Terminated):
        patch.setenv(SIGNAL, f"self SIGTERM {when}")
        run_in(folder, *overrides)
    assert not (folder / "results.json").exists()


def scores(folder):
    """val/uas after each epoch."""
    with (folder / "logs" / "metrics.csv").open() as stream:
        return [float(row["val/uas"]) for row in csv.DictReader(stream) if row.get("val/uas")]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The metrics of a run that nothing interrupted, and its folder."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    return run_in(folder), folder


@pytest.fixture(scope="module")
def stopped_once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stopped") / "run"
    interrupt(folder, "on_train_epoch_end 5")
    return folder


@pytest.fixture
def stopped(stopped_once, tmp_path):
    """The folder of a run that was stopped in its fifth epoch; moved, since every test has its own."""
    shutil.copytree(stopped_once, tmp_path / "run")
    return tmp_path / "run"


def step(file):
    return torch.load(file, weights_only=True)["epoch"]


def truncate(file):
    file.write_bytes(file.read_bytes()[:-1000])


def zero(file):
    content = bytearray(file.read_bytes())
    content[4096:8192] = bytes(4096)
    file.write_bytes(content)


def change(file):
    """By hand: the content is that of a whole checkpoint."""
    content = torch.load(file, weights_only=True)
    content["global_step"] += 1
    torch.save(content, file)


def empty(file):
    file.write_bytes(b"")


def test_a_checkpoint_carries_its_checksum_and_is_what_torch_reads(tmp_path):
    io_of_run = WholeCheckpointIO()
    io_of_run.save_checkpoint({"weights": torch.arange(5000)}, tmp_path / "last.ckpt")
    content = (tmp_path / "last.ckpt").read_bytes()
    assert zipfile.ZipFile(io.BytesIO(content)).comment == content[-71:]
    assert torch.equal(torch.load(tmp_path / "last.ckpt", weights_only=True)["weights"], torch.arange(5000))
    assert damage(tmp_path / "last.ckpt") is None


@pytest.mark.parametrize("harm", [truncate, zero, change, empty])
def test_every_harm_is_found(harm, tmp_path):
    io_of_run = WholeCheckpointIO()
    io_of_run.save_checkpoint({"weights": torch.randn(5000), "global_step": 3}, tmp_path / "last.ckpt")
    harm(tmp_path / "last.ckpt")
    with pytest.raises(InputError, match="last.ckpt: the checkpoint is damaged"):
        io_of_run.load_checkpoint(tmp_path / "last.ckpt", weights_only=True)


def test_the_one_before_is_kept_unless_it_was_damaged(tmp_path):
    io_of_run, last = WholeCheckpointIO(), tmp_path / "last.ckpt"
    last.write_bytes(b"damaged")
    for number in range(3):
        io_of_run.save_checkpoint({"epoch": number}, last)
        kept = {file.name: step(file) for file in tmp_path.iterdir()}
        assert kept == {"last.ckpt": number} | ({"previous.ckpt": number - 1} if number else {})


def test_a_full_disk_leaves_the_checkpoints_as_they_were(tmp_path, monkeypatch):
    io_of_run, last = WholeCheckpointIO(), tmp_path / "last.ckpt"
    io_of_run.save_checkpoint({"epoch": 0}, last)

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(checkpoints.os, "fsync", full)
    with pytest.raises(InputError, match=r"last.ckpt: could not be written \(No space left on device\)"):
        io_of_run.save_checkpoint({"epoch": 1}, last)
    assert {file.name: step(file) for file in tmp_path.iterdir()} == {"last.ckpt": 0}


def test_what_a_killed_save_left_is_removed(tmp_path):
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    for name in (".0123.last.ckpt", "last.ckpt"):
        (folder / name).write_bytes(b"")
    remove_drafts(tmp_path)
    assert [file.name for file in tmp_path.rglob("*.ckpt")] == ["last.ckpt"]


def test_the_last_weights_are_saved_after_every_epoch(whole):
    _, folder = whole
    found = scores(folder)[:EPOCHS]
    best = max(range(len(found)), key=found.__getitem__)
    assert best < len(found) - 1  # else this run says nothing
    saved = {name: step(folder / "checkpoints" / f"{name}.ckpt") for name in ("best", "last", "previous")}
    assert saved == {"best": best, "last": len(found) - 1, "previous": len(found) - 2}


def test_a_moved_folder_resumes_to_the_same_metrics(whole, stopped, capsys):
    before = len(scores(stopped))
    (stopped / "logs" / "metrics.csv").unlink()  # so that it tells what the second part trained
    assert run_in(stopped, "resume=true") == whole[0]
    assert before and len(scores(stopped)) < EPOCHS  # the first epochs were not trained again
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("harm", [truncate, change])
@pytest.mark.parametrize("names", [["last"], ["previous"], ["best"], ["last", "best"], ["last", "previous", "best"]])
def test_damaged_checkpoints_are_told_and_the_run_comes_to_the_same_metrics(names, harm, whole, stopped, capsys):
    files = [stopped / "checkpoints" / f"{name}.ckpt" for name in names]
    for file in files:
        harm(file)
    left = [stopped / "checkpoints" / name for name in ("last.ckpt", "best.ckpt", "previous.ckpt")]
    chosen = resume_point(stopped)
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert all(f"{file.name} (" in told for file in files)
    if chosen is None:
        assert told.endswith("; the run starts anew.\n")
        assert not any(file.exists() for file in left)
    else:
        assert told.endswith(f"; the run goes on from {chosen.name}.\n")
        assert chosen not in files
    if harm is truncate:
        assert run_in(stopped, "resume=true") == whole[0]


def test_best_weights_that_are_lost_come_from_the_last_where_those_are_the_best(stopped, capsys):
    folder = stopped / "checkpoints"
    best = step(folder / "best.ckpt")
    shutil.copyfile(folder / "best.ckpt", folder / "last.ckpt")
    (folder / "previous.ckpt").unlink()
    truncate(folder / "best.ckpt")
    assert resume_point(stopped) == folder / "last.ckpt"
    assert step(folder / "best.ckpt") == best
    assert damage(folder / "best.ckpt") is None


def test_a_run_that_had_stopped_early_does_not_train_on(tmp_path):
    patience = "callbacks.early_stopping.patience=1"
    undisturbed = run_in(tmp_path / "one", patience)
    epochs = len(scores(tmp_path / "one"))
    assert epochs - 1 < EPOCHS  # the last one is that of the stage after training
    interrupt(tmp_path / "two", "on_test_start 1", patience)
    assert run_in(tmp_path / "two", patience, "resume=true") == undisturbed
    assert step(tmp_path / "two" / "checkpoints" / "last.ckpt") == step(tmp_path / "one" / "checkpoints" / "last.ckpt")


def test_a_damaged_best_checkpoint_is_not_tested(stopped, monkeypatch):
    """Damaged between training and test, in the same process."""
    load = WholeCheckpointIO.load_checkpoint

    def harmed(self, path, *arguments, **options):
        if "best" in str(path):
            truncate(stopped / "checkpoints" / "best.ckpt")
        return load(self, path, *arguments, **options)

    monkeypatch.setattr(WholeCheckpointIO, "load_checkpoint", harmed)
    with pytest.raises(InputError, match="best.ckpt: the checkpoint is damaged"):
        run_in(stopped, "resume=true")
    assert not (stopped / "results.json").exists()
