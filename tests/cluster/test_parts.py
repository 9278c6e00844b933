"""Rows, tasks and parts of real tables and an atlas as jobs, killed half-way: nothing is redone, numbers are the same."""

import os

import pytest

from tests.cluster import pages
from tests.cluster.parts import SETTINGS, finished, killed, machines, require_same, wait_for
from tests.commands import train

pytestmark = pytest.mark.slow
ALL = (
    "clark_table3",
    "atlas",
)  # where joblib's jobs are killed too; else the process that waits for them, which they outlive


@pytest.fixture
def command_of(encoder):
    """The command of a page, shortened, and its folder."""

    def make(page, table, **names):
        words = pages.arguments(pages.command(page, f"experiment={table}", **names))
        return (*words, *SETTINGS[table], encoder), pages.folder(words)

    return make


def require_the_rest_alone(command, folder, before, serial):
    """The same command again does what was not done."""
    status, out, errors = train(*command, "resume=true")
    assert (status, out.splitlines()[-1:]) == (0, [str(folder / "results.json")]), errors
    after = finished(folder)
    assert {part: after[part] for part in before} == before
    assert after.keys() > before.keys()
    require_same(serial, folder)


def is_gone(group):
    """Whether no process of a group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("table", SETTINGS)
def test_what_joblib_had_finished_is_not_done_again(table, command_of, serial, tmp_path):
    """Workers of a command that was killed end by themselves."""
    command, folder = command_of("joblib", table, OUTPUTS=f"{tmp_path}/")
    with killed(command, folder, os.killpg if table in ALL else os.kill) as (group, before):
        require_the_rest_alone(command, folder, before, serial(table))
        wait_for(lambda: is_gone(group))


@pytest.mark.parametrize("table", [table for table in SETTINGS if table != "atlas"])
def test_what_ray_had_finished_is_not_done_again(table, command_of, cluster, serial, tmp_path):
    """Ray ends the jobs of a command that is gone."""
    command, folder = command_of("ray", table, SHARED=tmp_path, ADDRESS=f"address={cluster.address}")
    with killed(command, folder, os.kill) as (_, before):
        require_the_rest_alone(command, folder, before, serial(table))


def test_an_atlas_by_ray_loses_a_node_and_then_its_command(command_of, cluster, serial, tmp_path):
    """What the dead node held runs again; what was finished when the command was killed does not."""
    command, folder = command_of("ray", "atlas", SHARED=tmp_path, ADDRESS=f"address={cluster.address}")
    with cluster.losing_second(folder, parts=1) as lost, killed(command, folder, os.kill, parts=2) as (_, before):
        ran = {part: machines(folder)[part] for part in before}
        once, twice = sorted(ran.values(), key=len)
        assert (twice[0], len(once), len(twice)) == (lost, 1, 2)
        assert lost not in (*once, twice[1])
        cluster.complete()
        require_the_rest_alone(command, folder, before, serial("atlas"))
    assert {part: machines(folder)[part] for part in before} == ran


def test_a_sweep_by_joblib_finds_what_it_finds_one_by_one(tmp_path):
    page = pages.arguments(pages.command("joblib", "-m", OUTPUTS=f"{tmp_path}/"))
    short = ("data.limit=12", "trainer.max_epochs=1", "~figures")
    alone = [word for word in page if not word.startswith(("hydra", "run_dir="))]
    for words in ((*page, *short), (*alone, *short, f"run_dir={tmp_path / 'one'}")):
        status, _, errors = train(*words)
        assert status == 0, errors
    assert finished(tmp_path / "one").keys() == {"0", "1", "2", "3"}
    require_same(tmp_path / "one", pages.folder(page))
