"""How the maps of every text family of the installed transformers are taken.

Each family is built with tiny random weights and run on a padded batch, with its own eager attention and streamed:
python -m headscope.data_modules.encoders.conformance
"""

import argparse
import os
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers
from transformers import PreTrainedModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.utils import logging as transformers_logging

from headscope.data_modules.encoders.families import small_model, text_families
from headscope.data_modules.encoders.frozen import of_text
from headscope.data_modules.encoders.head_outputs import head_places, streams
from headscope.data_modules.encoders.self_check import check
from headscope.errors import InputError, first_line
from headscope.files import write_atomically
from headscope.processes import progress

SILENT = 60  # above the level of any message
FILE = Path("docs") / "conformance.md"
COLUMNS = ("family", "what it is", "maps", "difference of maps", "of the output", "heads can be disabled", "why")
INTRODUCTION = """# Conformance

The {families} text families of transformers {transformers} (torch {torch}), each built with tiny random weights and run on a
padded batch in float32 by `python -m headscope.data_modules.encoders.conformance`, which writes this page: {told}. Heads can
be disabled in {disabled}. The largest difference of a streamed map from the model's own eager map is {worst}.

*streamed*: maps are read, and heads disabled, in the one attention function; *own maps*: the model hands out its own eager
maps, and heads are disabled by hooks; *refused*: a sentence at load says why; *not built*: no small model of the family
could be made here, and a real one is checked when it is loaded. How it works: [models.md](models.md).

"""
KINDS = ("streamed", "own maps", "refused", "not built")


@dataclass(frozen=True)
class Conformance:
    """One family: what it is, how its maps are taken, how far they are from its own, whether its heads can be disabled."""

    family: str
    what: str
    kind: str
    maps: float | None = None
    output: float | None = None
    disabled: bool = False
    why: str = ""

    def cells(self) -> tuple[str, ...]:
        """As the table shows it."""
        numbers = ("" if number is None else f"{number:.1e}" for number in (self.maps, self.output))
        return self.family, self.what, self.kind, *numbers, "yes" if self.disabled else "no", self.why


def conformance(family: str) -> Conformance:
    """What is found of a family, whatever happens in its code."""
    what = "encoder of an encoder–decoder" if CONFIG_MAPPING[family]().is_encoder_decoder else ""
    try:
        model = small_model(family)
    except Exception as error:  # of a family whose sizes are not those of others
        return Conformance(family, what, "not built", why=first_line(error))
    try:
        config = of_text(model.config, family)
        verdict = check(model, config.num_hidden_layers, config.num_attention_heads)
    except Exception as error:
        return Conformance(family, what, "refused", why=without_way_out(first_line(error).removeprefix(f"{family}: ")))
    if not what and verdict.kind != "refused":
        what = "decoder" if verdict.causal else "encoder"
    disabled = verdict.kind != "refused" and can_be_disabled(model)
    return Conformance(family, what, verdict.kind, verdict.maps, verdict.output, disabled, without_way_out(verdict.why))


def without_way_out(why: str) -> str:
    """The reason alone: the way out is for those who run into it."""
    return why.partition("; ")[0]


def can_be_disabled(model: PreTrainedModel) -> bool:
    """Whether attention can be replaced without any other change, or hooks find what each head brings."""
    try:
        if not streams(model):
            head_places(model)
    except InputError:
        return False
    return True


def document(rows: Sequence[Conformance]) -> str:
    """The page of the docs."""
    count = Counter(row.kind for row in rows)
    told = ", ".join(f"{count[kind]} {kind}" for kind in KINDS)
    worst = max((row.maps or 0 for row in rows), default=0)
    table = [COLUMNS, ("---",) * len(COLUMNS), *(row.cells() for row in rows)]
    lines = ["| " + " | ".join(cell.replace("|", "/").replace("\n", " ") for cell in row) + " |" for row in table]
    about = INTRODUCTION.format(
        families=len(rows),
        transformers=transformers.__version__,
        torch=torch.__version__,
        told=told,
        disabled=sum(row.disabled for row in rows),
        worst=f"{worst:.1e}",
    )
    return about + "\n".join(lines) + "\n"


def main() -> None:
    """Print the table, and write it where all families are asked for."""
    parser = argparse.ArgumentParser(prog="python -m headscope.data_modules.encoders.conformance", description=__doc__)
    parser.add_argument("families", nargs="*", metavar="family", help="model types (all), such as llama")
    parser.add_argument("--file", type=Path, default=FILE, help=f"what is written when all are run ({FILE})")
    given = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    warnings.filterwarnings("ignore")
    transformers_logging.set_verbosity(SILENT)
    if unknown := set(given.families) - set(CONFIG_MAPPING):
        parser.error(f"no model type {', '.join(sorted(unknown))}")
    rows = [conformance(family) for family in progress(given.families or list(text_families()), "families")]
    page = document(rows)
    print(page)
    if not given.families:
        write_atomically(given.file, page.encode())


if __name__ == "__main__":
    main()
