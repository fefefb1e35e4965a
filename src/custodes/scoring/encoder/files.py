"""Where an encoder is: a file, a folder or a repository of the hub; which of its files are meant, and their digest."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import msgspec

from custodes.errors import CustodesError, InputError, MissingExtraError, OptionError, listed, shown

Backend = Literal["onnx", "transformers"]
BACKENDS = ("auto", "onnx", "transformers")

SETTINGS = ("config.json", "tokenizer_config.json", "special_tokens_map.json")
WORDS = ("tokenizer.json", "vocab.*", "*.model")
TOKENIZER = (*WORDS, "merges.txt", "added_tokens.json")
WEIGHTS = (("*.safetensors", "*.safetensors.index.json"), ("pytorch_model*.bin", "pytorch_model*.bin.index.json"))
"""Of the files of weights, the first kind that is there."""

PLACES = ("model.onnx", "onnx/model.onnx")
"""Where an ONNX model is looked for first; then any that stands alone in the folder or in `onnx/`."""

HUB = re.compile(r"[\w.-]+(/[\w.-]+)?")
SECONDS = 20  # of waiting for the hub
BUSY = 500  # and above: the hub has no time for anybody
SAID = 300  # characters of what a library says

EXAMPLES = (
    "model=FOLDER with an ONNX model and its tokenizer.json, or a name of the hub, such as"
    " model=sentence-transformers/all-MiniLM-L6-v2"
)


@dataclass(frozen=True, kw_only=True)
class Found:
    """An encoder that is there: its folder, its ONNX model (None: transformers takes the folder), and the SHA-256 of
    all files that may change a vector."""

    name: str
    folder: Path
    onnx: Path | None
    digest: str

    @property
    def has_words(self) -> bool:
        """Whether a tokenizer can be made of its files."""
        return any(fnmatchcase(name, own) for name in _names(self.folder) for own in WORDS)

    def setting(self, file: str) -> dict[str, Any]:
        """What a file of settings says; nothing where it is not there."""
        place = self.folder / file
        if not place.is_file():
            return {}
        try:
            made = msgspec.json.decode(place.read_bytes())
        except (OSError, ValueError, RecursionError, msgspec.DecodeError) as problem:
            raise InputError(f"{shown(self.name)}: its {file} is no JSON: {said(problem)}") from None
        return made if isinstance(made, dict) else {}


def find(model: str, backend: str, revision: str) -> Found:
    """The encoder that `model` names: a folder, an ONNX file beside its tokenizer.json, or a repository of the hub."""
    if backend not in BACKENDS:
        raise OptionError(f"backend={shown(backend)}; allowed: {', '.join(BACKENDS)}")
    if not model:
        raise OptionError(f"no model is named: {EXAMPLES}")
    try:
        place = Path(model).expanduser()
        there = place.exists()
    except (OSError, ValueError, RuntimeError):  # no file can have this name
        there = False
    if there and revision:
        raise OptionError(f"revision={shown(revision)}: {shown(model)} is a file or folder here, not of the hub")
    if not there:
        place = _fetched(model, backend, revision)
    onnx = _file(model, place, backend) if place.is_file() else _onnx(model, place, backend)
    if onnx is None:
        return Found(name=model, folder=place, onnx=None, digest=_digest(place, _of_transformers(_names(place))))
    folder = _with_tokenizer(model, onnx)
    names = [name for name in _names(folder) if _settles(name)]
    names += [path.relative_to(folder).as_posix() for path in _parts(onnx)]
    return Found(name=model, folder=folder, onnx=onnx, digest=_digest(folder, names))


def _file(model: str, place: Path, backend: str) -> Path:
    """An ONNX model that is named itself."""
    if backend == "transformers":
        raise OptionError(f"backend=transformers: {shown(model)} is one file; give the folder of the model")
    if place.suffix != ".onnx":
        raise InputError(f"{shown(model)}: no ONNX model (.onnx); {EXAMPLES}")
    return place


def _onnx(model: str, folder: Path, backend: str) -> Path | None:
    """The ONNX model of a folder; None where transformers is to take it."""
    if backend == "transformers":
        return None
    names = _names(folder)
    if chosen := _chosen(model, names):
        return folder / chosen
    if backend == "onnx":
        raise InputError(f"{shown(model)}: no ONNX model in it; export one (docs: score with an encoder)")
    if not _of_transformers(names):
        raise InputError(f"{shown(model)}: neither an ONNX model nor weights that transformers reads; {EXAMPLES}")
    return None


def _chosen(model: str, names: Sequence[str]) -> str | None:
    """The ONNX model among names of files: of the usual name, or the only one."""
    models = [name for name in names if name.endswith(".onnx")]
    usual = [name for name in PLACES if name in models]
    if len(models) > 1 and not usual:
        raise InputError(f"{shown(model)}: several ONNX models ({listed(models)}); name the file")
    return usual[0] if usual else next(iter(models), None)


def _with_tokenizer(model: str, onnx: Path) -> Path:
    """The folder of the tokenizer: that of the model, or the one above (`onnx/model.onnx`)."""
    for folder in (onnx.parent, onnx.parent.parent):
        if (folder / "tokenizer.json").is_file():
            return folder
    raise InputError(f"{shown(model)}: no tokenizer.json beside {onnx.name}; put that of the model there")


def _names(folder: Path) -> list[str]:
    """Files of a folder and of its `onnx/`."""
    return sorted(
        path.relative_to(folder).as_posix()
        for place in (folder, folder / "onnx")
        if place.is_dir()
        for path in place.iterdir()
        if path.is_file()
    )


def _parts(onnx: Path) -> list[Path]:
    """An ONNX model and the weights that it keeps beside it."""
    return sorted(path for path in onnx.parent.iterdir() if _belongs(path.name, onnx.name))


def _belongs(name: str, onnx: str) -> bool:
    stem = onnx.removesuffix(".onnx")
    return name == onnx or name.startswith((f"{onnx}_data", f"{onnx}.data", f"{stem}.data", f"{stem}.weights"))


def _settles(name: str) -> bool:
    return any(fnmatchcase(name, own) for own in (*SETTINGS, *TOKENIZER))


def _of_transformers(names: Iterable[str]) -> list[str]:
    """What transformers needs of a folder; nothing where there are no weights."""
    top = [name for name in names if "/" not in name]
    for kind in WEIGHTS:
        if weights := [name for name in top if any(fnmatchcase(name, own) for own in kind)]:
            return [*filter(_settles, top), *weights]
    return []


def _digest(folder: Path, names: Iterable[str]) -> str:
    whole = hashlib.sha256()
    for name in sorted(names):
        try:
            with (folder / name).open("rb") as file:
                own = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as problem:
            raise InputError(f"{shown(str(folder / name))}: {problem.strerror}") from None
        whole.update(f"{own} {Path(name).name}\n".encode())
    return whole.hexdigest()


def _fetched(model: str, backend: str, revision: str) -> Path:
    """The folder of a repository of the hub, whose files are taken from the copy of huggingface_hub or downloaded."""
    if not HUB.fullmatch(model):
        raise InputError(f"{shown(model)}: no such file or folder, and no name of the hub; {EXAMPLES}")
    try:
        from huggingface_hub import HfApi, snapshot_download, try_to_load_from_cache
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError
        from huggingface_hub.utils import logging
    except ImportError as error:
        raise MissingExtraError("models of the hub need huggingface_hub: pip install 'custodes[encode]'") from error
    known = revision or "main"
    try:
        with errors_only(logging):  # what it says of each try is said once below
            siblings = HfApi().model_info(model, revision=known, timeout=SECONDS).siblings or []
            names = _wanted(model, [own.rfilename for own in siblings], backend)
            return Path(snapshot_download(model, revision=known, allow_patterns=names))
    except CustodesError:
        raise
    except HFValidationError:
        raise InputError(f"{shown(model)}: no such file or folder, and no name of the hub; {EXAMPLES}") from None
    except Exception as problem:  # no connection: each version of its library has kinds of its own for it
        status = problem.response.status_code if isinstance(problem, HfHubHTTPError) else BUSY
        if status < BUSY:
            raise InputError(f"{shown(model)}: no such file or folder here; the hub says: {said(problem)}") from None
        for name in ("tokenizer.json", "config.json"):
            if isinstance(place := try_to_load_from_cache(model, name, revision=known), str):
                return Path(place).parent
        raise InputError(
            f"{shown(model)}: no such file or folder here, and the hub gives nothing ({said(problem)}); give a"
            " folder with the model, or the name of one that was downloaded before"
        ) from None


@contextmanager
def errors_only(logging: Any) -> Iterator[None]:
    """Only errors from a library of Hugging Face, of which this is the module `logging`, while the context is open."""
    level = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)


def said(problem: Exception) -> str:
    """What a library says went wrong, in one line that is not too long."""
    return " ".join(str(problem).split())[:SAID].rstrip(".")


def _wanted(model: str, names: Sequence[str], backend: str) -> list[str]:
    """The files of a repository that one back end needs."""
    onnx = None if backend == "transformers" else _chosen(model, names)
    if onnx is None:
        if backend == "onnx":
            raise InputError(f"{shown(model)}: the repository has no ONNX model; export one, or backend=transformers")
        return _of_transformers(names)
    return [name for name in names if ("/" not in name and _settles(name)) or _belongs(name, onnx)]
