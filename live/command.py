"""`headscope serve RUN`: the atlas of a finished run, with its models behind it."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headscope.errors import ConfigError, InputError, did_you_mean
from headscope.live.atlas import Atlas, open_atlas
from headscope.processes import Terminated

if TYPE_CHECKING:
    from headscope.live.models import LiveModel

HELP = """\
headscope serve: the atlas of a finished run in the browser, with its models behind it.

usage: headscope serve RUN [port=PORT]

  RUN     the folder of a finished atlas (experiment=atlas)
  port=   of the page; any free one unless given

Type a sentence and see it in every head; disable heads by a click and see maps and prediction change. The page is
served to this machine alone, at an address with a token that it prints; Ctrl-C ends it.
"""
PORT, MOST_PORTS = "port", 2**16


def main(words: Sequence[str]) -> None:
    """Serve until Ctrl-C or SIGTERM; a mistake is one sentence."""
    if {"--help", "-h"} & set(words):
        print(HELP, end="")
        return
    folder, port = parsed(words)
    serve(open_atlas(folder), port)


def parsed(words: Sequence[str]) -> tuple[str, int]:
    """The folder and the port."""
    folders = [word for word in words if "=" not in word.rpartition("/")[2]]
    port = 0
    for key, _, value in (word.partition("=") for word in words if word not in folders):
        if key != PORT:
            raise ConfigError(
                f"serve: {key}= is no key of it{did_you_mean(key, [PORT])} headscope serve --help explains it."
            )
        if not (value.isdecimal() and len(value) < 6 and int(value) < MOST_PORTS):
            raise ConfigError(f"port={value}: expected a number from 0 to {MOST_PORTS - 1}.")
        port = int(value)
    if len(folders) != 1:
        raise ConfigError(f"serve: expected the folder of one atlas, found {len(folders)}; headscope serve RUN [port=PORT].")
    return folders[0], port


def serve(atlas: Atlas, port: int) -> None:
    """Read the models, then answer the page."""
    # Only now, since a mistake in the command should not wait for torch.
    from headscope.live.server import LiveServer

    try:
        with LiveServer(atlas.content, open_models(atlas), port) as server:
            print(f"{atlas.content.get('title', 'atlas')}: {server.address}#view=attention", flush=True)
            print("Ctrl-C ends it.", flush=True)
            server.serve_forever()
    except (KeyboardInterrupt, Terminated):
        print("stopped", file=sys.stderr)


def open_models(atlas: Atlas) -> "list[LiveModel | str]":
    """The models of the atlas, or why one is not there; an error where none is."""
    from headscope.live.models import LiveModel

    found: list[LiveModel | str] = []
    for spec, sha256 in atlas.specs():
        try:
            found.append(LiveModel(spec, sha256))
        except InputError as error:
            found.append(str(error))
    reasons = [why for why in found if isinstance(why, str)]
    if len(reasons) == len(found):
        raise InputError(f"{atlas.folder}: none of its models can be read here. {reasons[0]}")
    for why in reasons:
        print(f"one model is not served: {why}", file=sys.stderr)
    return found
