"""A server for browsers on this machine alone: who may ask it, how much at a time, and how its answers are sent."""

import errno
import json
import secrets
import sys
import traceback
from collections.abc import Collection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, cast
from urllib.parse import parse_qs

from headscope.errors import InputError
from headscope.files import parse_json

HOST = "127.0.0.1"
MOST_DRAINED = 8_000_000  # bytes of a request that is refused: a browser reads no answer before it has sent all
CHUNK = 65_536
LONGEST_NUMBER = 15  # digits of a length
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
JSON = "application/json"
Fields = dict[str, Any]
Answer = tuple[int, Fields | bytes, str]  # status, content and its kind


class Refused(Exception):
    """A request that is not answered, and why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class LoopbackServer(ThreadingHTTPServer):
    """Answers browsers on this machine that know the token; each request in a thread of its own."""

    daemon_threads = True

    def __init__(self, handler: type["LoopbackHandler"], port: int, key: str) -> None:
        """`key` is how the user names another port."""
        self.token = secrets.token_urlsafe(24)
        try:
            super().__init__((HOST, port), handler)
        except OSError as error:
            reason = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
            raise InputError(f"port {port} {reason}; name another with {key}, or leave it out for any free one.") from error
        self.hosts = {f"{name}:{self.server_port}" for name in (HOST, "localhost")}

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return f"http://{HOST}:{self.server_port}/?token={self.token}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away before its answer was sent is no error of ours."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class LoopbackHandler(BaseHTTPRequestHandler):
    """Routes are a fixed list; nothing in a request ever becomes the name of a file."""

    protocol_version = "HTTP/1.1"
    sys_version = ""
    timeout = 120  # seconds
    routes: ClassVar[Collection[tuple[str, str]]] = ()  # method and path
    without_token: ClassVar[Collection[str]] = ()  # paths of what is no secret
    longest_request: ClassVar[int] = 10_000  # bytes
    not_from_elsewhere: ClassVar[str] = "Requests are taken from the page of this server only."

    def answer(self, method: str, path: str, fields: Fields) -> Answer:
        """What to send for an admitted request; fields are those of the query, or of the body of a POST."""
        raise NotImplementedError

    def headers_of(self, kind: str) -> dict[str, str]:
        """What is sent before content of a kind."""
        return {**HEADERS, "Content-Type": kind}

    def do_GET(self) -> None:
        self._respond("GET")

    def do_POST(self) -> None:
        self._respond("POST")

    def _respond(self, method: str) -> None:
        kind, content = JSON, cast("Fields | bytes", b"")
        try:
            path, query = self._admitted(method)
            status, content, kind = self.answer(method, path, query if method == "GET" else self._body())
        except Refused as refused:
            status, content = refused.status, {"error": str(refused)}
        except InputError as error:
            status, content = 500, {"error": str(error)}
        except (ConnectionError, TimeoutError):
            raise
        except Exception:  # or the browser would wait for an answer that never comes
            traceback.print_exc()
            status, content = 500, {"error": "This is a defect of headscope; its traceback is in the server's terminal."}
        self._send(status, content if isinstance(content, bytes) else json.dumps(content).encode(), kind)

    def _admitted(self, method: str) -> tuple[str, Fields]:
        """Path and query of a request for something that there is, from a page of ours."""
        server = cast(LoopbackServer, self.server)
        if self.headers.get("Host") not in server.hosts:  # another name that was made to point here
            raise Refused(403, "This server answers to its own address only.")
        path, _, query = self.path.partition("?")
        if (method, path) not in self.routes:
            raise Refused(404, "There is nothing here.")
        fields = {key: values[-1] for key, values in parse_qs(query).items()}
        given = self.headers.get("X-Token") or fields.get("token", "")
        if path not in self.without_token and not secrets.compare_digest(given.encode(), server.token.encode()):
            raise Refused(403, "Open the address that the server printed: its token is missing or of an earlier server.")
        origin = self.headers.get("Origin")
        if method == "POST" and origin is not None and origin.removeprefix("http://") not in server.hosts:
            raise Refused(403, self.not_from_elsewhere)
        return path, fields

    def _body(self) -> Fields:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or len(length) > LONGEST_NUMBER:
            raise Refused(413, "Expected a short request.")
        if int(length) > self.longest_request:
            self._drain(int(length))
            raise Refused(413, f"Expected at most {self.longest_request:,} bytes, found {int(length):,}; shorten the text.")
        try:
            body = parse_json(self.rfile.read(int(length)))
        except ValueError as error:
            raise Refused(400, "Expected JSON.") from error
        if not isinstance(body, dict) or self.headers.get_content_type() != JSON:
            raise Refused(400, "Expected a JSON object.")
        return cast(Fields, body)

    def _drain(self, length: int) -> None:
        """Read what is not wanted, up to a bound, and keep none of it."""
        left = min(length, MOST_DRAINED)
        while left and (read := self.rfile.read(min(left, CHUNK))):
            left -= len(read)

    def _send(self, status: int, content: bytes, kind: str) -> None:
        self.send_response(status)
        for name, value in {**self.headers_of(kind), "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        if status >= 400:  # what was sent along may not have been read
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not worth a line each."""
