import json
from pathlib import Path

import pytest
from hydra.errors import ConfigCompositionException, MissingConfigException

from tests import commands
from tests.readme_commands import (
    check,
    commands_of,
    is_question,
    mentioned_commands,
    mentioned_in,
    overrides_of,
    readme_commands,
    run,
    substituted,
    words_of,
)

COMMANDS = readme_commands()
MENTIONED = mentioned_commands()
CHEAP = ("--help", "experiment=clark_relations")  # `python -m tests.readme_commands --run` runs all of them
TEXT = """
Not `python train.py inline=1`, and not:

    python train.py indented=1

```
make run     # sets everything up
$ python train.py a=1 \\
    b='[x, y]'
source .venv/bin/activate && .venv/bin/python train.py -m c=1,2
train.py          the one entry point; an apostrophe's drawing
WANDB_MODE=offline python train.py
python -m headscope.tools.label --out mine.csv
```
"""


def test_the_readme_and_the_pages_have_commands():
    assert any(command.startswith("make run") for command in COMMANDS)
    assert sum("train.py" in command for command in COMMANDS) > 40
    assert sum("train.py" in command for command in MENTIONED) > 10


@pytest.mark.parametrize("command", [*COMMANDS, *MENTIONED])
def test_every_command_names_only_what_exists(command):
    """Or the check raises; that it does for what does not exist is tested below."""
    check(command)


@pytest.mark.parametrize("part", CHEAP)
def test_cheap_commands_run(part, tmp_path):
    command = next(command for command in COMMANDS if part in command.split())
    last = run(command, tmp_path, "~figures", start=commands.run)
    assert is_question(command.split()) or json.loads(Path(last).read_text())["provenance"]["examples"]["test"] > 0


def test_commands_are_found_in_code_blocks_only():
    assert list(commands_of(TEXT)) == [
        "make run",
        "python train.py a=1 'b=[x, y]'",
        ".venv/bin/python train.py -m c=1,2",
        "WANDB_MODE=offline python train.py",
        "python -m headscope.tools.label --out mine.csv",
    ]


def test_commands_in_lines_and_tables_are_found_outside_code_blocks():
    assert list(mentioned_in(TEXT)) == ["python train.py inline=1"]
    table = "| `C experiment=clark_surface` → `figures/x` | `experiment=a tasks=[…]` | `data.limit=3` |"
    assert list(mentioned_in(table)) == [
        "python train.py experiment=clark_surface",
        "python train.py experiment=a tasks=[x]",
    ]


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("python train.py data.limt=5", ConfigCompositionException),
        ("python train.py -m experiment=structural_probe data.hiden_layer=1,2", ConfigCompositionException),
        ("python train.py experiment=clark_tabel3", MissingConfigException),
        ("python train.py experiment=clark_surface analyses=[surface,cluster]", MissingConfigException),
        ("python train.py +trainer.max_epoch=3", AssertionError),
        ("make benhc", Exception),
        ("make run ARGS='experiment=clark_tabel3'", MissingConfigException),
        ("python -m benchmark", AssertionError),
        ("python -m headscope.tools.label --otu mine.csv", SystemExit),
        ("python other.py", AssertionError),
    ],
)
def test_a_misspelt_command_fails(command, error):
    with pytest.raises(error):
        check(command)


def test_flags_are_no_overrides_and_a_reader_s_files_become_samples():
    assert overrides_of(["-m", "seed=1,2", "--cfg", "job", "data.limit=3"]) == ["seed=1,2", "data.limit=3"]
    assert substituted("data.test=dev.conllu").endswith("samples/treebank/val.conllu")
    assert substituted("encoder=bert_base") == "encoder=minilm"
    assert substituted("run_dir=outputs/dev.conllus") == "run_dir=outputs/dev.conllus"
    assert is_question(words_of("--cfg job"))
