"""A finished atlas on disk, and which models it is about."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headscope.contracts import EncoderSpec
from headscope.errors import ConfigError, InputError
from headscope.files import read_json
from headscope.reports.results import RESULTS, finished_results, way_out

CONTENT = "atlas.json"
SHAPE = {"models": [{"name": str, "encoder": {"name": str}, "layers": int, "heads": int, "quantities": list}]}


@dataclass(frozen=True)
class Atlas:
    """What the page shows, the folder that it is in now, and the one that it was made in."""

    folder: Path
    content: Mapping[str, Any]
    made_in: str

    def specs(self) -> list[tuple[EncoderSpec, str | None]]:
        """Each model and the checksum of its weights; code that comes with a model is never run."""
        return [self._spec(model["encoder"]) for model in self.content["models"]]

    def _spec(self, encoder: Mapping[str, Any]) -> tuple[EncoderSpec, str | None]:
        given = {key: encoder[key] for key in ("revision", "init", "seed", "change") if encoder.get(key) is not None}
        dtype = str(encoder.get("dtype", "torch.float32")).removeprefix("torch.")
        return EncoderSpec(self._where(encoder["name"]), dtype=dtype, **given), encoder.get("sha256")

    def _where(self, name: str) -> str:
        """A model that the atlas made itself lies in its folder, wherever that is by now."""
        inside = Path(name)
        if self.made_in and inside.is_relative_to(self.made_in) and not inside.exists():
            return str(self.folder / inside.relative_to(self.made_in))
        return name


def open_atlas(path: str) -> Atlas:
    """The atlas in a folder, whose files are as the run wrote them."""
    folder = Path(path).expanduser()
    folder = (folder.parent if folder.name in (RESULTS, CONTENT, "atlas.html") else folder).resolve()
    if not folder.is_dir():
        raise InputError(f"{path}: no such folder; name that of a finished atlas (experiment=atlas).")
    results = finished_results(folder)
    if results is None:
        raise InputError(f"{path}: no finished run there (expected {RESULTS}); make one with experiment=atlas.")
    content = read_json(folder / CONTENT, SHAPE, way_out(folder))
    if content is None or not content["models"]:
        raise ConfigError(f"{path}: holds a run of {results.experiment}, not of atlas; make one with experiment=atlas.")
    return Atlas(folder, content, str(results.provenance.config.get("run_dir") or ""))
