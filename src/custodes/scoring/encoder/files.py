"""Files of an encoder (a file, a folder or a repository of the Hugging Face hub), their digest, and model devices."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from custodes.errors import CustodesError, InputError, OptionError, join_labels, reject, requires_extra, short_repr

Vectors = NDArray[np.float32]

BACKENDS = ("auto", "onnx", "transformers")
DEVICE = re.compile(r"(cpu|mps|cuda)(?::(\d+))?")

SETTINGS = ("config.json", "tokenizer_config.json", "special_tokens_map.json")
WORDS = ("tokenizer.json", "vocab.*", "*.model")
TOKENIZER = (*WORDS, "merges.txt", "added_tokens.json")
WEIGHTS = (("*.safetensors", "*.safetensors.index.json"), ("pytorch_model*.bin", "pytorch_model*.bin.index.json"))
"""Weight files in order of preference."""

PLACES = ("model.onnx", "onnx/model.onnx")
"""Preferred paths of an ONNX model. If no file has such a path, the only ONNX model in the folder or in `onnx/` is
used."""

HUB = re.compile(r"[\w.-]+(/[\w.-]+)?")
SECONDS = 20  # maximum time of a request to the hub
BUSY = 500  # with this HTTP status or a higher one, the hub is overloaded
MESSAGE_LENGTH = 300  # maximum length of a message of a library

EXAMPLES = (
    "model=FOLDER with an ONNX model and its tokenizer.json, or a name of the hub, such as"
    " model=sentence-transformers/all-MiniLM-L6-v2"
)


class Device(NamedTuple):
    """A device: its type, and its index among devices of this type."""

    kind: str
    number: int

    @classmethod
    def from_name(cls, name: str) -> Device:
        """Return the device with a name such as 'cpu', 'cuda', 'cuda:1' or 'mps'."""
        name_match = DEVICE.fullmatch(name)
        if not name_match or (name_match[2] and name_match[1] != "cuda"):
            raise OptionError(
                f"device={short_repr(name)} is not allowed; give cpu, cuda, cuda:N (GPU number N, from 0) or mps"
            )
        return cls(name_match[1], int(name_match[2] or 0))


@dataclass(frozen=True, kw_only=True)
class ModelFiles:
    """Files of an encoder.

    `folder` contains the files, and `onnx` is the ONNX model; if it is None, transformers loads the folder. `digest` is
    the SHA-256 of all files that can change an embedding.
    """

    name: str
    folder: Path
    onnx: Path | None
    digest: str

    @property
    def has_words(self) -> bool:
        """Whether the files of the encoder define a tokenizer."""
        return any(_matches(file_name, WORDS) for file_name in _names(self.folder))

    def read_settings(self, *file_names: str) -> dict[str, Any]:
        """Return the settings in the files with these names; later files override earlier files."""
        value_of_setting: dict[str, Any] = {}
        for settings_path in (self.folder / file_name for file_name in file_names):
            try:
                decoded_json = msgspec.json.decode(settings_path.read_bytes()) if settings_path.is_file() else None
            except (OSError, ValueError, RecursionError, msgspec.DecodeError) as problem:
                raise InputError(
                    f"{short_repr(self.name)}: the file {settings_path.name} of the model is not JSON: "
                    f"{one_line_message(problem)}"
                ) from None
            value_of_setting |= decoded_json if isinstance(decoded_json, dict) else {}
        return value_of_setting


def find_model_files(model: str, backend: str, revision: str) -> ModelFiles:
    """Return the files of the encoder `model`: a folder, an ONNX file next to its tokenizer.json, or a repository of
    the hub."""
    reject(
        (backend not in BACKENDS, f"backend={short_repr(backend)}; allowed: {', '.join(BACKENDS)}"),
        (not model, f"no model is given; give {EXAMPLES}"),
    )
    try:
        model_path = Path(model).expanduser()
        is_local, is_file = model_path.exists(), model_path.is_file()
    except (OSError, ValueError, RuntimeError):  # not a valid file name
        is_local = is_file = False
    reject(
        (
            is_local and revision,
            f"revision={short_repr(revision)}: a revision needs a model of the hub, and {short_repr(model)} is a local "
            f"file or folder; leave out revision",
        ),
        (
            is_file and backend == "transformers",
            f"backend=transformers: {short_repr(model)} is a single file; give the folder of the model",
        ),
    )
    if is_file:
        onnx_path = model_path
    else:
        model_path = model_path if is_local else _download_model(model, backend, revision)
        onnx_name = _onnx(model, _names(model_path), backend)
        if onnx_name is None:
            digested_paths = [model_path / file_name for file_name in _transformers_files(_names(model_path))]
            return ModelFiles(name=model, folder=model_path, onnx=None, digest=_digest(digested_paths))
        onnx_path = model_path / onnx_name
    candidate_folders = (onnx_path.parent, onnx_path.parent.parent)  # where the tokenizer may be
    tokenizer_folders = [folder for folder in candidate_folders if (folder / "tokenizer.json").is_file()]
    reject(
        (
            onnx_path.suffix != ".onnx",
            f"{short_repr(model)}: the file is not an ONNX model (.onnx); give {EXAMPLES}",
        ),
        (
            not tokenizer_folders,
            f"{short_repr(model)}: there is no tokenizer.json next to {onnx_path.name}; add the tokenizer.json of "
            "the model",
        ),
        error=InputError,
    )
    tokenizer_folder = tokenizer_folders[0]
    digested_paths = [
        *(tokenizer_folder / file_name for file_name in filter(_is_settings_file, _names(tokenizer_folder))),
        *(path for path in onnx_path.parent.iterdir() if _is_onnx_part(path.name, onnx_path.name)),
    ]
    return ModelFiles(name=model, folder=tokenizer_folder, onnx=onnx_path, digest=_digest(digested_paths))


def _onnx(model: str, file_names: Sequence[str], backend: str) -> str | None:
    """Return the ONNX model among file names: the model with a usual name, or the only ONNX model.

    The result is None if transformers loads the files.
    """
    if backend == "transformers":
        return None
    onnx_names = [file_name for file_name in file_names if file_name.endswith(".onnx")]
    preferred_names = [file_name for file_name in PLACES if file_name in onnx_names]
    reject(
        (
            len(onnx_names) > 1 and not preferred_names,
            f"{short_repr(model)}: the folder has several ONNX models ({join_labels(onnx_names)}); give the path of "
            "one file",
        ),
        (
            not onnx_names and backend == "onnx",
            f"{short_repr(model)}: the folder has no ONNX model; export one (docs: score with an encoder)",
        ),
        (
            not onnx_names and not _transformers_files(file_names),
            f"{short_repr(model)}: the folder has no ONNX model and no weights that transformers can read; give "
            f"{EXAMPLES}",
        ),
        error=InputError,
    )
    return next(iter([*preferred_names, *onnx_names]), None)


def _names(folder: Path) -> list[str]:
    """Return the names of the files in a folder and in its folder `onnx`."""
    return sorted(
        path.relative_to(folder).as_posix()
        for subfolder in (folder, folder / "onnx")
        if subfolder.is_dir()
        for path in subfolder.iterdir()
        if path.is_file()
    )


def _is_onnx_part(file_name: str, onnx_name: str) -> bool:
    stem = onnx_name.removesuffix(".onnx")
    return file_name == onnx_name or file_name.startswith(
        (f"{onnx_name}_data", f"{onnx_name}.data", f"{stem}.data", f"{stem}.weights")
    )


def _is_settings_file(file_name: str) -> bool:
    """Return whether a file belongs to a tokenizer or contains settings."""
    return _matches(file_name, (*SETTINGS, *TOKENIZER))


def _matches(file_name: str, patterns: Iterable[str]) -> bool:
    """Return whether a file is in no subfolder and its name matches a pattern."""
    return "/" not in file_name and any(fnmatchcase(file_name, pattern) for pattern in patterns)


def _transformers_files(file_names: Sequence[str]) -> list[str]:
    """Return the files of a folder that transformers needs; the list is empty if there are no weights."""
    for weight_patterns in WEIGHTS:
        if weight_names := [file_name for file_name in file_names if _matches(file_name, weight_patterns)]:
            return [*filter(_is_settings_file, file_names), *weight_names]
    return []


def _digest(paths: Iterable[Path]) -> str:
    """Return the digest of the names and contents of files."""
    combined_hash = hashlib.sha256()
    for path in sorted(paths, key=Path.as_posix):
        try:
            combined_hash.update(f"{file_digest(path)} {path.name}\n".encode())
        except OSError as problem:
            raise InputError(f"{short_repr(str(path))}: {problem.strerror}") from None
    return combined_hash.hexdigest()


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file, which is read in parts."""
    with path.open("rb") as open_file:
        return hashlib.file_digest(open_file, "sha256").hexdigest()


def _download_model(model: str, backend: str, revision: str) -> Path:
    """Return the local folder of a model. If the cache does not have the model, it is downloaded from the hub."""
    message_start = f"{short_repr(model)}: there is no such file or folder, and"
    invalid_name_error = InputError(f"{message_start} this is not the name of a model on the hub; give {EXAMPLES}")
    if not HUB.fullmatch(model):
        raise invalid_name_error
    with requires_extra("models of the hub need huggingface_hub", "encode"):
        from huggingface_hub import HfApi, snapshot_download, try_to_load_from_cache
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError
        from huggingface_hub.utils import logging
    hub_revision = revision or "main"
    try:
        with log_only_errors(logging):  # the single error below replaces the messages on each attempt
            file_names = [
                hub_file.rfilename
                for hub_file in (HfApi().model_info(model, revision=hub_revision, timeout=SECONDS).siblings or [])
            ]
            onnx_name = _onnx(model, file_names, backend)
            return Path(
                snapshot_download(
                    model,
                    revision=hub_revision,
                    allow_patterns=(
                        [
                            file_name
                            for file_name in file_names
                            if onnx_name and (_is_settings_file(file_name) or _is_onnx_part(file_name, onnx_name))
                        ]
                        or _transformers_files(file_names)
                    ),
                )
            )
    except CustodesError:
        raise
    except HFValidationError:
        raise invalid_name_error from None
    except Exception as problem:  # no connection: the exception type depends on the version
        if isinstance(problem, HfHubHTTPError) and problem.response.status_code < BUSY:
            raise InputError(f"{message_start} the hub reports: {one_line_message(problem)}") from None
        for file_name in ("tokenizer.json", "config.json"):
            if isinstance(cached_path := try_to_load_from_cache(model, file_name, revision=hub_revision), str):
                return Path(cached_path).parent
        raise InputError(
            f"{message_start} the hub is not reachable ({one_line_message(problem)}); "
            "give a folder with the model, or the name of a model that was downloaded before"
        ) from None


@contextmanager
def log_only_errors(logging: Any) -> Iterator[None]:
    """Context in which a Hugging Face library logs only errors. `logging` is the logging module of this library."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)


def one_line_message(problem: Exception) -> str:
    """Return the message of a library's exception as one line of limited length."""
    return " ".join(str(problem).split())[:MESSAGE_LENGTH].rstrip(".")
