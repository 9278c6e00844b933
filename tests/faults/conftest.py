import pytest

from tests.faults.damage import World
from tests.faults.scenarios import Workshop


@pytest.fixture(scope="package")
def workshop(tmp_path_factory):
    """Undisturbed runs, shared by all tests of this folder."""
    made = Workshop(tmp_path_factory.mktemp("faults"))
    yield made
    made.close()


@pytest.fixture(scope="package")
def world(tmp_path_factory):
    """A folder in which files are damaged and put back."""
    return World(tmp_path_factory.mktemp("damage"))
