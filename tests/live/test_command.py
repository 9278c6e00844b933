"""`headscope serve`: kind errors before anything is loaded, and a server that answers until it is told to end."""

import json
import shutil
import signal
import socket
import subprocess
import urllib.request

import pytest

from headscope.errors import ConfigError, InputError
from headscope.live.atlas import open_atlas
from headscope.live.command import main, open_models, parsed
from tests.commands import PROJECT, Command, train
from tests.live.conftest import save_atlas


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "expected the folder of one atlas, found 0"),
        (["a", "b"], "expected the folder of one atlas, found 2"),
        (["a", "prot=3"], r"prot= is no key of it; did you mean port\?"),
        (["a", "port=x"], "port=x: expected a number from 0 to 65535"),
        (["a", "port=70000"], "port=70000: expected"),
    ],
)
def test_a_misspelt_command_gets_one_sentence(words, sentence):
    with pytest.raises(ConfigError, match=sentence):
        parsed(words)


def test_the_folder_may_be_named_by_its_files_and_have_an_equals_sign():
    assert parsed(["seed=1/atlas", "port=80"]) == ("seed=1/atlas", 80)


def test_folders_that_are_no_atlas_are_told(tmp_path, tiny_folder):
    with pytest.raises(InputError, match="nowhere: no such folder"):
        open_atlas(str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="no finished run there"):
        open_atlas(str(tmp_path))
    save_atlas(tmp_path / "run", tiny_folder("output"), experiment="clark_relations")
    (tmp_path / "run" / "results.json").write_text(no_files(tmp_path / "run" / "results.json"))
    (tmp_path / "run" / "atlas.json").unlink()
    with pytest.raises(InputError, match="holds a run of clark_relations, not of atlas"):
        open_atlas(str(tmp_path / "run"))


def no_files(file):
    """The results of a run that left no atlas, without the checksum that only a run writes."""
    content = json.loads(file.read_text())
    return json.dumps({key: value for key, value in content.items() if key not in ("files", "sha256")})


def test_a_moved_atlas_finds_the_model_inside_and_tells_what_is_gone(tmp_path, tiny_folder, capsys):
    inside = shutil.copytree(tiny_folder("classes"), tmp_path / "before" / "fine_tuning" / "model")
    other = shutil.copytree(tiny_folder("output"), tmp_path / "other")
    shutil.move(tmp_path / "before", tmp_path / "aside")
    shutil.copytree(tmp_path / "aside" / "fine_tuning", tmp_path / "before" / "fine_tuning")
    content_folder = tmp_path / "atlas"
    save_atlas(content_folder, other, inside)
    shutil.move(content_folder, tmp_path / "moved")
    shutil.rmtree(other)
    models = open_models(open_atlas(str(tmp_path / "moved" / "atlas.html")))
    assert "no model there" in models[0] and models[1].encoder.predicts == "classes"
    assert capsys.readouterr().err.count("one model is not served") == 1
    shutil.rmtree(tmp_path / "before")
    with pytest.raises(InputError, match="none of its models can be read here"):
        open_models(open_atlas(str(tmp_path / "moved")))


def test_a_port_in_use_is_told(tmp_path, tiny_folder):
    save_atlas(tmp_path / "atlas", tiny_folder("output"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"port {port} is in use; name another with port="):
            main([str(tmp_path / "atlas"), f"port={port}"])


def test_help_and_mistakes_at_the_command_line(tmp_path):
    status, out, err = train("serve", "--help")
    assert (status, err) == (0, "") and "usage: headscope serve RUN" in out
    status, out, err = train("serve", str(tmp_path))
    assert (status, out) == (1, "") and err.count("\n") == 1 and "no finished run there" in err
    assert train("serve")[0] == 2


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_told_to_end(tmp_path, tiny_folder, number):
    save_atlas(tmp_path / "atlas", tiny_folder("output"))
    with Command(str(PROJECT / "train.py"), "serve", str(tmp_path / "atlas"), stderr=subprocess.STDOUT) as command:
        line = command.stdout.readline()
        address = line.partition(": ")[2].strip()
        assert line.startswith("Atlas of MiniLM: http://127.0.0.1:")
        with urllib.request.urlopen(address.partition("#")[0], timeout=20) as answer:
            assert answer.status == 200 and b"live" in answer.read()
        command.send_signal(number)
        assert command.wait(30) == 0
        assert "stopped" in command.stdout.read()
