"""The page and its few addresses, for this machine only."""

import errno
import json
import re
import secrets
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs

from headscope.data_modules.patterns.labels import CLASSES
from headscope.errors import InputError
from headscope.files import parse_json
from headscope.tools.label.classes import DEFINITIONS
from headscope.tools.label.session import Conflict, LabelSession
from headscope.tools.label.stored import rubric

HOST = "127.0.0.1"
LONGEST_REQUEST = 10_000
HERE = Path(__file__).parent
FILES = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/heat_map.js": ("heat_map.js", "text/javascript; charset=utf-8"),
}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
Answer = tuple[int, dict[str, Any] | bytes]


class Maps(Protocol):
    """Maps by their place in the list, stored or computed."""

    def json_of(self, number: int) -> bytes: ...

    def votes_of(self, number: int) -> list[str]: ...


class LabelServer(ThreadingHTTPServer):
    """Answers browsers on this machine that know the token."""

    daemon_threads = True

    def __init__(self, session: LabelSession, maps: Maps, port: int = 0) -> None:
        self.session, self.maps = session, maps
        self.token = secrets.token_urlsafe(24)
        try:
            super().__init__((HOST, port), LabelHandler)
        except OSError as error:
            reason = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
            raise InputError(f"port {port} {reason}; name another with --port, or leave it out for any free one.") from error
        self.hosts = {f"{name}:{self.server_port}" for name in (HOST, "localhost")}

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return f"http://{HOST}:{self.server_port}/?token={self.token}"


class Refused(Exception):
    """A request that is not answered, and why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class LabelHandler(BaseHTTPRequestHandler):
    """Routes are a fixed list; nothing in a request ever becomes the name of a file."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "labels", ""
    timeout = 120
    server: LabelServer

    def do_GET(self) -> None:
        self._respond("GET")

    def do_POST(self) -> None:
        self._respond("POST")

    def _respond(self, method: str) -> None:
        kind = "application/json"
        try:
            path, query = self._admitted(method)
            if method == "GET" and path in FILES:
                name, kind = FILES[path]
                status, content = 200, (HERE / name).read_bytes()
            else:
                status, content = ROUTES[method, path](self, query if method == "GET" else self._body())
        except Conflict as conflict:
            status, content = 409, {"error": str(conflict), "map": conflict.number, **self.server.session.state()}
        except Refused as refused:
            status, content = refused.status, {"error": str(refused)}
        except InputError as error:
            status, content = 500, {"error": str(error)}
        self._send(status, content if isinstance(content, bytes) else json.dumps(content).encode(), kind)

    def _admitted(self, method: str) -> tuple[str, dict[str, str]]:
        """Path and query of a request for something that there is, from a page of ours."""
        if self.headers.get("Host") not in self.server.hosts:  # another name that was made to point here
            raise Refused(403, "This server answers to its own address only.")
        path, _, query = self.path.partition("?")
        if (method, path) not in ROUTES and not (method == "GET" and path in FILES):
            raise Refused(404, "There is nothing here.")
        fields = {key: values[-1] for key, values in parse_qs(query).items()}
        given = self.headers.get("X-Token") or fields.get("token", "")
        if path not in ("/page.css", "/page.js", "/heat_map.js") and not self._is_token(given):
            raise Refused(403, "Open the address that the server printed: its token is missing or of an earlier server.")
        origin = self.headers.get("Origin")
        if method == "POST" and origin is not None and origin.removeprefix("http://") not in self.server.hosts:
            raise Refused(403, "Labels are taken from the page of this server only.")
        return path, fields

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self.server.token.encode())

    def _body(self) -> dict[str, Any]:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > LONGEST_REQUEST:
            raise Refused(413, "Expected a short request.")
        try:
            body = parse_json(self.rfile.read(int(length)))
        except ValueError as error:
            raise Refused(400, "Expected JSON.") from error
        if not isinstance(body, dict) or self.headers.get_content_type() != "application/json":
            raise Refused(400, "Expected a JSON object.")
        return body

    def _send(self, status: int, content: bytes, kind: str) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        if status >= 400:  # what was sent along may not have been read
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Requests are not worth a line each."""

    def state(self, query: dict[str, str]) -> Answer:
        """All labels of the pass, unless nothing happened since."""
        session = self.server.session
        if query.get("since") == str(session.sequence):
            return 200, {"sequence": session.sequence}
        classes = [{"name": name, "definition": DEFINITIONS[name]} for name in CLASSES]
        return 200, {**session.state(), "classes": classes}

    def map(self, query: dict[str, str]) -> Answer:
        """One map, by its place in the list."""
        return 200, self.server.maps.json_of(self._number(query))

    def votes(self, query: dict[str, str]) -> Answer:
        """What others saw in a map, once it has a label here, so that nobody is told before looking."""
        number = self._number(query)
        if not self.server.session.label_of(number)[0]:
            raise Refused(403, "Label this map first; then its votes are shown.")
        return 200, {"votes": self.server.maps.votes_of(number)}

    def rubric(self, _: dict[str, str]) -> Answer:
        """The rules for labelling."""
        return 200, {"text": rubric()}

    def _number(self, query: dict[str, str]) -> int:
        number = query.get("number", "")
        if not re.fullmatch("[0-9]{1,9}", number) or int(number) >= len(self.server.session.maps):
            raise Refused(404, "There is no such map.")
        return int(number)

    def agreement(self, _: dict[str, str]) -> Answer:
        """How far the passes agree."""
        return 200, self.server.session.agreement()

    def label(self, body: dict[str, Any]) -> Answer:
        """Label a map, or clear it."""
        number, label, version, tab = (body.get(key) for key in ("number", "label", "version", "tab"))
        if not (type(number) is int and type(version) is int and isinstance(label, str) and isinstance(tab, str) and tab):
            raise Refused(400, "Expected number, label, version and tab.")
        try:
            self.server.session.label(number, label, version, tab)
        except ValueError as error:
            raise Refused(400, f"{error}.") from error
        return 200, {**self.server.session.state(), "number": number}

    def undo(self, body: dict[str, Any]) -> Answer:
        """Take back the last action of a tab."""
        tab = body.get("tab")
        if not (isinstance(tab, str) and tab):
            raise Refused(400, "Expected a tab.")
        number = self.server.session.undo(tab)
        return 200, {**self.server.session.state(), "number": number}

    def export(self, _: dict[str, Any]) -> Answer:
        """Write the table."""
        session = self.server.session
        session.export()
        return 200, {"out": str(session.out.resolve()), "done": session.done}


ROUTES: dict[tuple[str, str], Callable[[LabelHandler, dict], Answer]] = {
    ("GET", "/state"): LabelHandler.state,
    ("GET", "/map"): LabelHandler.map,
    ("GET", "/votes"): LabelHandler.votes,
    ("GET", "/rubric"): LabelHandler.rubric,
    ("GET", "/agreement"): LabelHandler.agreement,
    ("POST", "/label"): LabelHandler.label,
    ("POST", "/undo"): LabelHandler.undo,
    ("POST", "/export"): LabelHandler.export,
}
