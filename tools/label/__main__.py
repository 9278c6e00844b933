"""Label attention maps with one of five patterns on a page in the browser.

Without arguments the packaged set is shown blank, no encoder needed, and labels go to ./labels.csv; again, it goes on.
"""

import argparse
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from headscope.errors import InputError
from headscope.tools.label.tables import are_stored, drawn_rows, starting_rows

if TYPE_CHECKING:
    from headscope.tools.label.server import LabelServer, Maps
    from headscope.tools.label.session import LabelSession

EXAMPLES = """examples:
  python -m headscope.tools.label                               label the packaged maps, or go on with it
  python -m headscope.tools.label --pass 2                      a second, independent opinion on the same maps
  python -m headscope.tools.label maps.csv --out mine.csv       the maps of another table
  python -m headscope.tools.label --draw 100 --encoder mine=outputs/mrpc/model --data /path/to/glue --out mine.csv
  python -m headscope.tools.label --out mine.csv --encoder mine=outputs/mrpc/model --data /path/to/glue    go on with it
"""
INTERRUPTED = 130


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line; `--help` explains it."""
    parser = argparse.ArgumentParser(
        prog="python -m headscope.tools.label",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("table", nargs="?", type=Path, help="the maps to label (the packaged ones)")
    parser.add_argument("--out", type=Path, default=Path("labels.csv"), help="where labels go (labels.csv)")
    parser.add_argument("--pass", dest="passed", type=int, choices=(1, 2), default=1, help="2 for a second opinion (1)")
    parser.add_argument("--encoder", action="append", default=[], metavar="NAME=PATH", help="hub id, folder or package:")
    parser.add_argument("--encoders", type=Path, metavar="YAML", help="encoders by name (conf/data/patterns.yaml)")
    parser.add_argument("--data", metavar="FOLDER", help="GLUE files (the packaged samples)")
    parser.add_argument("--port", type=_port, default=0, help="of the page (any free one)")
    parser.add_argument("--in-order", action="store_true", help="show maps in the order of the table, not mixed")
    drawing = parser.add_argument_group("drawing new maps")
    drawing.add_argument("--draw", type=_count, metavar="N", help="about how many")
    drawing.add_argument("--seed", type=int, default=0, help="of the draw (0)")
    drawing.add_argument(
        "--tasks", type=lambda text: text.split(","), default=[], help="such as mrpc,rte (all in the folder)"
    )
    drawing.add_argument("--split", choices=("val", "train"), default="val", help="(val)")
    given = parser.parse_args(arguments)
    if given.draw and given.table:
        parser.error("--draw makes a new table, so none can be given")
    return given


def _port(text: str) -> int:
    if not (text.isdecimal() and int(text) < 2**16):
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535, found {text}")
    return int(text)


def _count(text: str) -> int:
    if not (text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"expected a number of maps from 1, found {text}")
    return int(text)


def main(arguments: list[str] | None = None) -> int:
    """Serve the page until Ctrl-C; 1 for a mistake, told in one sentence."""
    given = parse_arguments(arguments)
    try:
        return serve(given)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        return INTERRUPTED


def serve(given: argparse.Namespace) -> int:
    """Open table, journal and encoders, then answer the page."""
    rows = None if given.draw else starting_rows(given.table, given.out, given.passed)
    # Only now, since a mistake in the table should not wait for torch.
    from headscope.tools.label.encoders import encoder_options, open_encoders
    from headscope.tools.label.maps import MapSource
    from headscope.tools.label.session import LabelSession
    from headscope.tools.label.stored import StoredMaps

    if rows and are_stored(rows):
        session = LabelSession(rows, given.out, given.passed, mixed=not given.in_order)
        return _serve(session, lambda: StoredMaps(session.maps), given.port)
    options = encoder_options(given.encoders, given.encoder)
    if rows is None:
        names = [one.partition("=")[0] for one in given.encoder] or list(options)
        rows = drawn_rows(options, names, given.out, given.draw, given.seed, given.data, given.tasks, given.split)
    encoders = open_encoders((row.map.encoder for row in rows), options)
    MapSource([row.map for row in rows], encoders, given.data).check()
    session = LabelSession(rows, given.out, given.passed, mixed=not given.in_order)
    return _serve(session, lambda: MapSource(session.maps, encoders, given.data), given.port)


def _serve(session: "LabelSession", maps: Callable[[], "Maps"], port: int) -> int:
    from headscope.tools.label.server import LabelServer

    try:
        with LabelServer(session, maps(), port) as server:
            return _answer(server, session)
    finally:
        session.close()


def _answer(server: "LabelServer", session: "LabelSession") -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    restored = f" ({session.replayed} actions come from the journal)" if session.replayed else ""
    print(f"{session.out}, pass {session.passed}: {session.done} of {len(session.maps)} maps are labelled{restored}.")
    print(f"Open {server.address} in a browser; Ctrl-C ends.", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        session.close()
    print(f"\n{session.done} of {len(session.maps)} maps are labelled: {session.out.resolve()}")
    return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
