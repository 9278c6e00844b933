"""Maps of the packaged set for the page: stored, so that no encoder is needed, with the votes of those who labelled them."""

from collections.abc import Sequence
from pathlib import Path

from headscope.data_modules.patterns.labels import MapName
from headscope.data_modules.patterns.maps import PatternMap
from headscope.data_modules.patterns.sources import require_same
from headscope.data_modules.patterns.stored import StoredMap, read_maps
from headscope.data_modules.patterns.votes import read_votes
from headscope.tools.label.maps import map_json

SAMPLES = Path(__file__).parents[2] / "data_modules" / "samples" / "patterns"
VOTES, MAPS, RUBRIC = SAMPLES / "votes.csv", SAMPLES / "maps.safetensors", SAMPLES / "RUBRIC.md"
SHOWN = ("·", "[CLS]", "[SEP]", ".")  # for each of segments.TOKEN_CLASSES: the texts of the inputs are not stored


class StoredMaps:
    """The maps of a list by their place, from a file beside its table of votes."""

    def __init__(self, names: Sequence[MapName], table: Path = VOTES, file: Path = MAPS) -> None:
        rows, maps = read_votes(table), read_maps(file)
        require_same(rows, maps, table, file)
        known: dict[MapName, tuple[StoredMap, tuple[str, ...]]] = {
            row.map: (one, row.votes) for row, one in zip(rows, maps, strict=True)
        }
        self._names = list(names)
        self._maps = [known[name] for name in self._names]

    def json_of(self, number: int) -> bytes:
        """One map as JSON."""
        import torch

        found, name = self._maps[number][0], self._names[number]
        tokens = [SHOWN[kind] for kind in found.token_class]
        return map_json(PatternMap(name, torch.from_numpy(found.weights), tokens, found.token_class, found.sentence))

    def votes_of(self, number: int) -> list[str]:
        """What others saw in a map."""
        return list(self._maps[number][1])


def rubric() -> str:
    """The rules for labelling."""
    return RUBRIC.read_text(encoding="utf-8") if RUBRIC.is_file() else ""
