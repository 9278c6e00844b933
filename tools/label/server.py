"""The page and its few addresses, for this machine only."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from headscope.data_modules.patterns.labels import CLASSES
from headscope.loopback import JSON, Answer, LoopbackHandler, LoopbackServer, Refused
from headscope.tools.label.classes import DEFINITIONS
from headscope.tools.label.session import Conflict, LabelSession
from headscope.tools.label.stored import rubric

HERE = Path(__file__).parent
FILES = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/heat_map.js": ("heat_map.js", "text/javascript; charset=utf-8"),
}
Found = tuple[int, dict[str, Any] | bytes]


class Maps(Protocol):
    """Maps by their place in the list, stored or computed."""

    def json_of(self, number: int) -> bytes: ...

    def votes_of(self, number: int) -> list[str]: ...


class LabelServer(LoopbackServer):
    """Answers browsers on this machine that know the token."""

    def __init__(self, session: LabelSession, maps: Maps, port: int = 0) -> None:
        self.session, self.maps = session, maps
        super().__init__(LabelHandler, port, "--port")


class LabelHandler(LoopbackHandler):
    """The page, its maps, and what is done with them."""

    server_version = "labels"
    without_token = ("/page.css", "/page.js", "/heat_map.js")
    not_from_elsewhere = "Labels are taken from the page of this server only."
    server: LabelServer

    def answer(self, method: str, path: str, fields: dict[str, Any]) -> Answer:
        """A file of the page, or what a route gives."""
        if method == "GET" and path in FILES:
            name, kind = FILES[path]
            return 200, (HERE / name).read_bytes(), kind
        try:
            return *ROUTES[method, path](self, fields), JSON
        except Conflict as conflict:
            return 409, {"error": str(conflict), "map": conflict.number, **self.server.session.state()}, JSON

    def state(self, query: dict[str, str]) -> Found:
        """All labels of the pass, unless nothing happened since."""
        session = self.server.session
        if query.get("since") == str(session.sequence):
            return 200, {"sequence": session.sequence}
        classes = [{"name": name, "definition": DEFINITIONS[name]} for name in CLASSES]
        return 200, {**session.state(), "classes": classes}

    def map(self, query: dict[str, str]) -> Found:
        """One map, by its place in the list."""
        return 200, self.server.maps.json_of(self._number(query))

    def votes(self, query: dict[str, str]) -> Found:
        """What others saw in a map, once it has a label here, so that nobody is told before looking."""
        number = self._number(query)
        if not self.server.session.label_of(number)[0]:
            raise Refused(403, "Label this map first; then its votes are shown.")
        return 200, {"votes": self.server.maps.votes_of(number)}

    def rubric(self, _: dict[str, str]) -> Found:
        """The rules for labelling."""
        return 200, {"text": rubric()}

    def _number(self, query: dict[str, str]) -> int:
        number = query.get("number", "")
        if not re.fullmatch("[0-9]{1,9}", number) or int(number) >= len(self.server.session.maps):
            raise Refused(404, "There is no such map.")
        return int(number)

    def agreement(self, _: dict[str, str]) -> Found:
        """How far the passes agree."""
        return 200, self.server.session.agreement()

    def label(self, body: dict[str, Any]) -> Found:
        """Label a map, or clear it."""
        number, label, version, tab = (body.get(key) for key in ("number", "label", "version", "tab"))
        if not (type(number) is int and type(version) is int and isinstance(label, str) and isinstance(tab, str) and tab):
            raise Refused(400, "Expected number, label, version and tab.")
        try:
            self.server.session.label(number, label, version, tab)
        except ValueError as error:
            raise Refused(400, f"{error}.") from error
        return 200, {**self.server.session.state(), "number": number}

    def undo(self, body: dict[str, Any]) -> Found:
        """Take back the last action of a tab."""
        tab = body.get("tab")
        if not (isinstance(tab, str) and tab):
            raise Refused(400, "Expected a tab.")
        number = self.server.session.undo(tab)
        return 200, {**self.server.session.state(), "number": number}

    def export(self, _: dict[str, Any]) -> Found:
        """Write the table."""
        session = self.server.session
        session.export()
        return 200, {"out": str(session.out.resolve()), "done": session.done}


ROUTES: dict[tuple[str, str], Callable[[LabelHandler, dict], Found]] = {
    ("GET", "/state"): LabelHandler.state,
    ("GET", "/map"): LabelHandler.map,
    ("GET", "/votes"): LabelHandler.votes,
    ("GET", "/rubric"): LabelHandler.rubric,
    ("GET", "/agreement"): LabelHandler.agreement,
    ("POST", "/label"): LabelHandler.label,
    ("POST", "/undo"): LabelHandler.undo,
    ("POST", "/export"): LabelHandler.export,
}
LabelHandler.routes = {*ROUTES, *(("GET", path) for path in FILES)}
