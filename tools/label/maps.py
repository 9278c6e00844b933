"""Maps for the page, computed when they are wanted."""

import base64
import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence

import numpy as np

from headscope.data_modules.encoders.frozen import FrozenEncoder
from headscope.data_modules.patterns.labels import MapName
from headscope.data_modules.patterns.maps import PatternMap, pattern_maps
from headscope.errors import InputError

TOGETHER = 12  # maps computed at once: opening inputs and tokenizer costs more than a pass
KEPT = 200


class MapSource:
    """The maps of a list by their place; those that follow are computed along, the last ones are kept."""

    def __init__(self, names: Sequence[MapName], encoders: Mapping[str, FrozenEncoder], folder: str | None = None) -> None:
        self._names, self._encoders, self._folder = list(names), encoders, folder
        self._kept: OrderedDict[int, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def check(self) -> None:
        """Compute the first map of every encoder, so that a wrong one is told before anybody labels."""
        first = {name.encoder: name for name in reversed(self._names)}
        for name in first.values():
            next(pattern_maps([name], self._encoders, self._folder))

    def json_of(self, number: int) -> bytes:
        """One map as JSON."""
        with self._lock:
            if number not in self._kept:
                try:
                    self._compute(range(number, min(number + TOGETHER, len(self._names))))
                except InputError:  # of this map, or only of one that follows
                    self._compute(range(number, number + 1))
            self._kept.move_to_end(number)
            return self._kept[number]

    def votes_of(self, number: int) -> list[str]:
        """Nobody's: maps that are computed were not voted on."""
        return []

    def _compute(self, numbers: range) -> None:
        missing = {self._names[number]: number for number in numbers if number not in self._kept}
        for found in pattern_maps(list(missing), self._encoders, self._folder):
            self._kept[missing[found.name]] = map_json(found)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)


def map_json(found: PatternMap) -> bytes:
    """A map with its tokens; the weights in float32, row by row, in base64."""
    weights = found.weights.cpu().numpy().astype("<f4")
    content = {
        "tokens": found.tokens,
        "special": np.isin(found.special, (1, 2)).tolist(),
        "sentence": found.sentence.tolist(),
        "weights": base64.b64encode(weights.tobytes()).decode(),
        "from": {
            "encoder": found.name.encoder,
            "input": f"{found.name.task} {found.name.split} {found.name.example}",
            "head": f"{found.name.layer}-{found.name.head}",
        },
    }
    return json.dumps(content, ensure_ascii=False).encode()
