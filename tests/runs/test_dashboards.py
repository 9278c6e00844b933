import csv
import io
import json
import os
import shlex
import struct
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
import wandb
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.utils import instantiate
from matplotlib.image import imread
from omegaconf import OmegaConf, open_dict
from tensorboard.backend.event_processing.event_accumulator import TENSORS, EventAccumulator
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from wandb.proto.wandb_internal_pb2 import Record

from headscope.errors import InputError
from headscope.reports.terminal import column_texts
from headscope.runs import tables, training
from headscope.runs.loggers.metrics_file import MetricsFile
from headscope.runs.loggers.wandb_dashboard import table_of
from headscope.runs.report import name_and_group
from tests.runs.conftest import PROJECT, composed, train

SOMEBODY = {"WANDB_API_KEY": "0" * 40, "WANDB_BASE_URL": "http://127.0.0.1:9"}
BLOCK, FULL, LAST = 2**15, 1, 4
PATIENCE = 6  # seconds


def end_service():
    """Stop wandb's service; one that has lost its server may never end by itself, so it gets a while only."""
    ending = Thread(target=wandb.teardown, daemon=True)
    ending.start()
    ending.join(PATIENCE)
    if ending.is_alive():
        subprocess.run(["pkill", "-KILL", "-P", str(os.getpid()), "wandb-core"], check=False)
        ending.join()


def without_account(patch):
    """As on a machine where nobody has logged in."""
    patch.setenv("NETRC", "/nowhere")
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_BASE_URL"):
        patch.delenv(name, raising=False)
    end_service()


@pytest.fixture(autouse=True)
def no_account(monkeypatch):
    without_account(monkeypatch)
    yield
    end_service()


@pytest.fixture(scope="module")
def shown_run(tmp_path_factory):
    """The results of a run, its folder, and what it printed."""
    cfg = composed("experiment=clark_coreference", "data.limit=3", "logger=[csv,wandb,tensorboard]")
    cfg.run_dir = str(tmp_path_factory.mktemp("a run"))
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        without_account(patch)
        results = training.run(cfg).to_json()
    return results, Path(cfg.run_dir), out.getvalue(), err.getvalue()


def records(folder):
    """The records of the one wandb run in a folder: LevelDB's log format, blocks of 32 KiB, behind a header of 7 bytes."""
    end_service()  # which writes on for a moment after a run is finished
    (file,) = folder.glob("wandb/*run-*/run-*.wandb")
    content, place, part = file.read_bytes(), 7, b""
    while place < len(content):
        room = BLOCK - place % BLOCK
        if room < 7:  # no space for a header: filled with zeros
            place += room
            continue
        _, size, kind = struct.unpack_from("<IHB", content, place)
        part += content[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (FULL, LAST):
            yield Record.FromString(part)
            part = b""


def of_kind(folder, kind):
    return [getattr(record, kind) for record in records(folder) if record.WhichOneof("record_type") == kind]


def values(items):
    """The last value of every key, also of nested ones."""
    return {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in items}


def media(folder, kind, name):
    (file,) = folder.glob(f"wandb/offline-run-*/files/media/{kind}/{name}_[0-9]_*")
    return file


def test_an_offline_run_holds_metrics_tables_heads_figures_and_configuration(shown_run):
    results, folder, *_ = shown_run
    summary = values(item for update in of_kind(folder, "summary") for item in update.update)
    assert {name: summary[name] for name in results["metrics"]} == results["metrics"]
    for name, rows in results["tables"].items():
        stored = json.loads(media(folder, "table", f"tables/{name}").read_text())
        assert [dict(zip(stored["columns"], row, strict=True)) for row in stored["data"]] == [
            {column: row.get(column) for column in stored["columns"]} for row in rows
        ]
    stored = json.loads(media(folder, "table", "tables/heads").read_text())
    with (folder / "heads.csv").open() as file:
        assert [["" if cell is None else str(cell) for cell in row] for row in stored["data"]] == list(csv.reader(file))[1:]
    figures = sorted((folder / "figures").glob("*.png"))
    assert figures
    for figure in figures:
        assert media(folder, "images", f"figures/{figure.stem}").read_bytes() == figure.read_bytes()
    configuration = values(item for update in of_kind(folder, "config") for item in update.update)
    assert configuration["data"]["limit"] == 3
    assert configuration["module"] == results["provenance"]["config"]["module"]
    assert [record.exit_code for record in of_kind(folder, "exit")] == [0]


def test_tensorboard_holds_metrics_tables_and_figures(shown_run):
    results, folder, *_ = shown_run
    events = EventAccumulator(str(folder / "tensorboard"), size_guidance={TENSORS: 0}).Reload()
    for name, value in results["metrics"].items():
        assert events.Scalars(name)[-1].value == pytest.approx(value, rel=1e-6)
    for name, rows in results["tables"].items():
        text = events.Tensors(f"tables/{name}/text_summary")[-1].tensor_proto.string_val[0].decode().splitlines()
        first = [part.strip() for part in text[2].strip("|").split("|")]
        assert first == [column_texts(name, [row.get(name) for row in rows])[0] for name in rows[0]]
        assert len(text) == len(rows) + 2
    for figure in (folder / "figures").glob("*.png"):
        shown = events.Images(f"figures/{figure.stem}")[-1]
        (folder / "shown.png").write_bytes(shown.encoded_image_string)
        assert np.array_equal(imread(folder / "shown.png"), imread(figure))


def test_tensorboard_has_the_users_overrides_as_hyperparameters_and_no_scalar_twice(tmp_path):
    given = ("experiment=clark_coreference", "data.limit=2", "logger=[tensorboard]", "~figures")
    status, out, err = train(*given, f"run_dir={tmp_path}")
    assert status == 0, err
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert events.Tags()["scalars"]
    assert all(len(events.Scalars(name)) == 1 for name in events.Tags()["scalars"])
    hyperparameters = HParamsPluginData.FromString(
        events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    ).session_start_info.hparams
    assert {name: value.string_value for name, value in hyperparameters.items()} == {
        **dict(text.split("=", 1) for text in given[:3]), "figures": "", "run_dir": str(tmp_path),
    }  # fmt: skip


def test_an_offline_run_has_tags_job_type_checksums_and_its_files(shown_run):
    results, folder, *_ = shown_run
    (run,) = of_kind(folder, "run")[:1]
    assert (run.job_type, list(run.tags)) == ("training", ["test"])
    configured = values(item for update in of_kind(folder, "config") for item in update.update)
    provenance = results["provenance"]
    expected = {"encoder": provenance["encoder"]["sha256"]}
    expected |= {Path(file).name: sha256 for file, sha256 in provenance["data"].items()}
    assert configured["checksums"] == expected
    (artifact,) = [one for one in of_kind(folder, "artifact") if one.type == "run"]
    files = {entry.path: Path(entry.local_path).read_bytes() for entry in artifact.manifest.contents}
    assert files["results.json"] == (folder / "results.json").read_bytes()
    assert files["heads.csv"] == (folder / "heads.csv").read_bytes()
    assert {path for path in files if path.startswith("figures/")} == {
        f"figures/{file.name}" for file in (folder / "figures").glob("*.png")
    }


def test_a_resumed_run_goes_on_below_the_rows_that_were_logged(tmp_path):
    def logged(*entries, resume=False):
        log = MetricsFile(resume=resume, save_dir=str(tmp_path), name="logs", version="")
        for step, metrics in entries:
            log.log_metrics(metrics, step)
        log.save()
        with (tmp_path / "logs" / "metrics.csv").open() as stream:
            return [
                (int(row["step"]), {k: v for k, v in row.items() if v and k != "step"}) for row in csv.DictReader(stream)
            ]

    logged((9, {"loss": 3.0}), (9, {"val": 1.0}), (19, {"loss": 2.0}), (29, {"loss": 7.0}))
    with (tmp_path / "logs" / "metrics.csv").open("a") as stream:
        stream.write("5.0,")  # a row that a kill cut short
    after = logged((19, {"val": 2.0}), (29, {"loss": 1.0}), resume=True)
    assert after == [
        (9, {"loss": "3.0"}),
        (9, {"val": "1.0"}),
        (19, {"loss": "2.0"}),
        (19, {"val": "2.0"}),
        (29, {"loss": "1.0"}),
    ]
    assert logged((9, {"loss": 4.0})) == [(9, {"loss": "4.0"})]


def test_the_terminal_stays_clean_and_says_how_to_sync(shown_run):
    _, folder, out, err = shown_run
    *_, sync, last = out.splitlines()
    assert last == str(folder / "results.json")
    *words, synced = shlex.split(sync)
    assert (words, Path(synced).is_dir()) == (["wandb", "sync"], True)
    assert synced.startswith(f"{folder}/wandb/offline-run-")
    assert "wandb:" not in out
    assert err == ""


def test_a_failed_run_is_finished_with_its_status(run_here, tmp_path):
    (tmp_path / "bad.conllu").write_text("1\ta\n")
    with pytest.raises(InputError):
        run_here("experiment=clark_probe_right_branching", "logger=wandb", f"data.test={tmp_path}/bad.conllu")
    assert [record.exit_code for record in of_kind(tmp_path / "run", "exit")] == [1]


def test_jobs_of_a_sweep_get_runs_of_their_own_in_one_group(tmp_path):
    (tmp_path / "bad.conllu").write_text("1\ta\n")
    files = f"data.test={tmp_path}/bad.conllu,{PROJECT}/data_modules/samples/treebank/test.conllu"
    job = ("experiment=clark_probe_right_branching", "logger=[wandb]", "seed=7", files, f"run_dir={tmp_path}/sweep")
    train("-m", *job)
    first, second = (tmp_path / "sweep" / number for number in "01")
    names = [of_kind(folder, "run")[0].display_name for folder in (first, second)]
    assert names == [f"clark_probe_right_branching seed=7 test={file}" for file in ("bad.conllu", "test.conllu")]
    assert [of_kind(folder, "run")[0].run_group for folder in (first, second)] == ["sweep"] * 2
    assert [of_kind(folder, "exit")[0].exit_code for folder in (first, second)] == [1, 0]
    assert (second / "results.json").is_file()
    own = of_kind(tmp_path / "sweep", "run")[0]
    assert (own.display_name, own.run_group, own.job_type) == ("clark_probe_right_branching sweep", "sweep", "sweep")
    shown = json.loads(media(tmp_path / "sweep", "table", "tables/jobs").read_text())
    rows = [dict(zip(shown["columns"], row, strict=True)) for row in shown["data"]]
    assert [(row["job"], row["status"]) for row in rows] == [(0, "failed"), (1, "done")]


def test_a_table_has_a_run_per_row_and_one_for_itself(tmp_path):
    folder = tmp_path / "whole"
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(PROJECT / "conf"), version_base="1.3"):
        given = ["experiment=clark_table3", "logger=[wandb]", f"run_dir={folder}"]
        cfg = compose("train", [*given, "experiment_name=clark_table3"], return_hydra_config=True)
        with open_dict(cfg):
            cfg.hydra.runtime.output_dir, cfg.hydra.mode, cfg.hydra.overrides.task = str(folder), "RUN", given
            cfg.rows = {label: cfg.rows[label] for label in ("Right-branching",)}
        HydraConfig.instance().set_config(cfg)
        try:
            results = tables.run(OmegaConf.masked_copy(cfg, [key for key in cfg if key != "hydra"]))
        finally:
            HydraConfig.instance().cfg = None
    row = folder / "clark_probe_right_branching"
    runs = [of_kind(place, "run")[0] for place in (row, folder)]
    assert [(run.display_name, run.run_group) for run in runs] == [
        ("clark_probe_right_branching", "whole"),
        ("clark_table3", "whole"),
    ]
    stored = json.loads(media(folder, "table", "tables/summary").read_text())
    assert stored["data"][0][:2] == ["Right-branching", results.metrics["Right-branching"]]


def test_without_hydra_a_run_is_called_by_its_experiment(tmp_path):
    assert name_and_group(composed("experiment_name=clark_surface"), tmp_path) == ("clark_surface", None)


@pytest.mark.parametrize(
    ("environment", "offline", "mode"),
    [
        ({}, None, "offline"),
        (SOMEBODY, None, "online"),
        (SOMEBODY, "true", "offline"),
        ({"WANDB_MODE": "disabled"}, None, None),
        (SOMEBODY | {"WANDB_MODE": "offline"}, None, None),
        (SOMEBODY | {"WANDB_MODE": "offline"}, "false", "online"),
    ],
)
def test_a_run_is_online_where_there_is_an_account_unless_told_otherwise(monkeypatch, tmp_path, environment, offline, mode):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    cfg = composed("logger=wandb", *([f"logger.wandb.offline={offline}"] if offline else []))
    cfg.run_dir = str(tmp_path)
    assert instantiate(cfg.logger.wandb)._mode() == mode


def test_what_the_user_must_do_for_an_account_is_one_sentence(run_here, monkeypatch):
    with pytest.raises(InputError, match="No API key configured. Use `wandb login` to log in; logger.wandb.offline=true"):
        run_here("logger=wandb", "logger.wandb.offline=false")
    for name, value in SOMEBODY.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=r"(?s)logger=wandb: .*; logger.wandb.offline=true keeps the run in its folder\.$"):
        run_here("logger=wandb", "+logger.wandb.settings.init_timeout=1")


def test_a_table_takes_rows_of_unequal_columns_and_any_values():
    shown = table_of([{"a": 1, "b": "x"}, {"a": "mixed", "c": [1, 2]}, {"a": None}])
    assert shown.columns == ["a", "b", "c"]
    assert shown.data == [[1, "x", None], ["mixed", None, "[1, 2]"], [None, None, None]]
