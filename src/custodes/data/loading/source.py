"""Read sources as bytes: files, the tables next to files, standard input, and shell pipes. `PATH::PART` names a part of
a file. Bytes are decoded from UTF-8, or from UTF-16 with a byte order mark.

`score` writes `scores.raters.csv` next to `scores.csv`, and `judge` writes `verdicts.probes.csv` next to
`verdicts.csv`.
"""

from __future__ import annotations

import codecs
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from glob import escape
from pathlib import Path

from custodes.data.loading.compression import LARGEST, check_content_size, check_size
from custodes.errors import InputError, reject, suggestion

STANDARD_INPUT = ("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")

ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
"""Prefix of the address of a server. The text after the prefix may contain a password and is never displayed."""

UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def path_and_part(source: str | Path) -> tuple[Path, str | None]:
    """Split `PATH::PART` into path and part. A source that is itself an existing path is not split."""
    path, separator, part = str(source).partition("::")
    return (Path(path), part) if separator and not os.path.exists(source) else (Path(source), None)


def is_standard_input(source: object) -> bool:
    """Whether a source is standard input, which can be read only once."""
    return isinstance(source, str | Path) and str(source).partition("::")[0] in STANDARD_INPUT


def is_input_stream(path: Path) -> bool:
    """Whether a path is standard input, a pipe or a device, which cannot be inspected before reading."""
    return is_standard_input(path) or (os.path.exists(path) and not path.is_file() and not path.is_dir())


def check_exists(path: Path) -> None:
    """Raise `InputError` if a path does not exist. The message suggests files with similar names."""
    if is_standard_input(path) or os.path.exists(path) or glob_files(path):
        return
    if address_match := ADDRESS.match(str(path)):
        raise InputError(
            f"{address_match[0]}...: this is an address, and custodes downloads nothing; give the path of a file"
        )
    neighbour_names: list[str] = []
    with suppress(OSError, ValueError):
        neighbour_names = os.listdir(path.parent)
    raise InputError(f"{path}: no such file{suggestion(path.name, neighbour_names)}")


def glob_files(path: Path) -> list[Path]:
    """The files that match a pattern such as `scores/*.parquet` or `*/scores.csv`, sorted.

    Special characters in the existing part of the path are taken literally.
    """
    existing_parent = next(filter(os.path.exists, (path, *path.parents)), path)
    with suppress(OSError, ValueError):
        if set(str(path)) & set("*?[") and existing_parent != path:
            return sorted(filter(Path.is_file, existing_parent.glob(str(path.relative_to(existing_parent)))))
    return []


def read_file_bytes(path: Path) -> bytes:
    """The bytes of a file, or of standard input."""
    check_exists(path)
    try:
        if not is_input_stream(path):
            check_size(path.stat().st_size, f"{path.name}: the file takes")
            return path.read_bytes()
        if is_standard_input(path):
            content = _standard_input()
        else:
            with path.open("rb") as stream:
                content = stream.read(LARGEST + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    check_content_size(len(content), str(path))
    return content


def _standard_input() -> bytes:
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None or sys.stdin.closed:
        raise InputError("standard input is closed; give the path of a file")
    reject(
        (
            sys.stdin.isatty(),
            "standard input: the input is a terminal; pipe a table into custodes, or give the path of a file",
        ),
        error=InputError,
    )
    return bytes(stream.read(LARGEST + 1))


def decode_text(data: bytes, where: str) -> str:
    """The text in bytes, without a byte order mark. Excel's 'Unicode text' is UTF-16 with a byte order mark. The
    message for invalid bytes gives the position of the first of them."""
    encoding = "utf-16" if data.startswith(UTF16) else "utf-8"
    try:
        return data.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{where}: not {encoding.upper()} at byte {error.start} (line {data.count(10, 0, error.start) + 1}); save "
            "the file as UTF-8, for example with: iconv -f ENCODING -t UTF-8"
        ) from None


def without_compression_suffix(file_name: str) -> str:
    """The name of a file without the suffix of a compression.

    >>> without_compression_suffix("scores.csv.gz")
    'scores.csv'
    """
    return re.sub(r"\.(gz|bz2|xz)$", "", file_name, flags=re.IGNORECASE)


RATERS, PROBES = ".raters", ".probes"
FORMS = (".csv", ".tsv", ".jsonl", ".parquet", ".csv.gz", ".tsv.gz", ".jsonl.gz")


def sidecar_tables(file: Path, sidecar_mark: str) -> list[Path]:
    """The tables next to a file whose names begin with the name of the file and `sidecar_mark` (such as `.raters`).
    There should be at most one table.

    >>> sidecar_tables(Path("nowhere/scores.csv"), RATERS)
    []
    """
    return list(
        filter(os.path.isfile, (file.parent / sidecar_name for sidecar_name in _sidecar_names(file.name, sidecar_mark)))
    )


def files_of_sidecar(sidecar_path: Path) -> list[Path]:
    """The files to which a table of raters or probes belongs according to its name.

    >>> files_of_sidecar(Path("nowhere/scores.raters.csv"))
    []
    """
    return sorted(
        candidate_path
        for sidecar_mark in (RATERS, PROBES)
        for candidate_path in sidecar_path.parent.glob(
            f"{escape(sidecar_path.name.rpartition(f'{sidecar_mark}.')[0])}.*"
        )
        if sidecar_path.name in _sidecar_names(candidate_path.name, sidecar_mark) and candidate_path.is_file()
    )


def _sidecar_names(file_name: str, sidecar_mark: str) -> list[str]:
    """The possible file names of a table that belongs to a file: the name of the file without its suffix,
    `sidecar_mark`, and the suffix of a table."""
    file_stem = Path(without_compression_suffix(file_name)).stem
    return [file_stem + sidecar_mark + table_suffix for table_suffix in FORMS] if file_stem else []


def without_sidecars(files: Sequence[Path]) -> list[Path]:
    """The list of files, without those tables of raters or probes that belong to another file of the list."""
    sidecar_paths = {
        sidecar_path.resolve()
        for file in files
        for sidecar_mark in (RATERS, PROBES)
        for sidecar_path in sidecar_tables(file, sidecar_mark)
    }
    return [file for file in files if file.resolve() not in sidecar_paths]
