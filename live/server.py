"""The page of an atlas and one address behind it that answers what a reader types; for this machine only."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from headscope.live.models import MOST_TOKENS, WAYS, LiveModel, TooLong
from headscope.loopback import HEADERS, JSON, Answer, LoopbackHandler, LoopbackServer, Refused
from headscope.reports.atlas.html import atlas_html

LONGEST_REQUEST = 20_000  # bytes; the text may have a part of them
LONGEST_TEXT = 12_000
PATIENCE = 60  # seconds that a request waits for those before it
PAGE = "text/html; charset=utf-8"
Models = Sequence[LiveModel | str]  # a model, or why it is not there


class LiveServer(LoopbackServer):
    """One atlas and its models, of which one computes at a time."""

    def __init__(self, atlas: Mapping[str, Any], models: Models, port: int = 0) -> None:
        self.models, self.computing = models, threading.Lock()
        super().__init__(LiveHandler, port, "port=")
        live = {
            "token": self.token,
            "most_tokens": MOST_TOKENS,
            "most_bytes": LONGEST_TEXT,
            "ways": WAYS,
            "models": [{"why": model if isinstance(model, str) else None} for model in models],
        }
        self.page = atlas_html({**atlas, "live": live}).encode()

    def answer(self, number: int, texts: Sequence[str], without: Sequence[Sequence[int]], how: str) -> dict[str, Any]:
        """What a model says of a text, once those who asked before have their answer."""
        model = self.models[number]
        if isinstance(model, str):
            raise Refused(409, model)
        if not self.computing.acquire(timeout=PATIENCE):
            raise Refused(503, "The model is still at work on other texts; try again.")
        try:
            return model.answer(texts, without, how)
        except TooLong as error:
            raise Refused(413, str(error)) from error
        finally:
            self.computing.release()


class LiveHandler(LoopbackHandler):
    """The page, and what is computed for it."""

    server_version = "headscope"
    timeout = 30
    routes = (("GET", "/"), ("POST", "/live"))
    longest_request = LONGEST_REQUEST
    not_from_elsewhere = "Texts are taken from the page of this server only."
    server: LiveServer

    def answer(self, method: str, path: str, fields: dict[str, Any]) -> Answer:
        """The page, or the maps and the prediction of a text."""
        if method == "GET":
            return 200, self.server.page, PAGE
        return 200, self.server.answer(*self._asked(fields)), JSON

    def headers_of(self, kind: str) -> dict[str, str]:
        """The page brings its own policy, which names its scripts by their checksums."""
        policy = "frame-ancestors 'none'" if kind == PAGE else HEADERS["Content-Security-Policy"]
        return {**super().headers_of(kind), "Content-Security-Policy": policy}

    def _asked(self, body: Mapping[str, Any]) -> tuple[int, list[str], list[list[int]], str]:
        """Which model, the text or pair, the heads to disable, and how."""
        number, texts, without, how = (body.get(key) for key in ("model", "texts", "disabled", "how"))
        if type(number) is not int or not 0 <= number < len(self.server.models):
            raise Refused(400, f"Expected model to be a number from 0 to {len(self.server.models) - 1}.")
        if not (isinstance(texts, list) and 1 <= len(texts) <= 2 and all(map(is_text, texts))):
            raise Refused(400, "Expected texts to be one text or a pair, each with at least one letter.")
        if (size := sum(len(text.encode()) for text in texts)) > LONGEST_TEXT:
            raise Refused(413, f"The text has {size:,} bytes; up to {LONGEST_TEXT:,} are read here, so shorten it.")
        if how not in WAYS:
            raise Refused(400, f"Expected how to be one of {', '.join(WAYS)}.")
        return number, texts, self._heads(self.server.models[number], without), how

    def _heads(self, model: LiveModel | str, wanted: object) -> list[list[int]]:
        if isinstance(model, str):
            raise Refused(409, model)
        layers, heads = model.encoder.layers, model.encoder.heads
        if not (isinstance(wanted, list) and all(is_head(head, layers, heads) for head in wanted)):
            raise Refused(400, f"Expected disabled to be heads from [1, 1] to [{layers}, {heads}].")
        return wanted


def is_text(value: object) -> bool:
    """Whether a value is a text that can be written down; a half of a surrogate pair cannot."""
    return isinstance(value, str) and bool(value.strip()) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def is_head(value: object, layers: int, heads: int) -> bool:
    """Whether a value is [layer, head] of a model."""
    if not (isinstance(value, list) and len(value) == 2 and all(type(part) is int for part in value)):
        return False
    return 1 <= value[0] <= layers and 1 <= value[1] <= heads
