"""Read sources as bytes: files, the tables next to files, standard input, and shell pipes. `PATH::PART` names a part of
a file. Bytes are decoded from UTF-8, or from UTF-16 with a byte order mark.

`score` writes `scores.raters.csv` next to `scores.csv`, and `judge` writes `verdicts.probes.csv` next to
`verdicts.csv`.
"""

from __future__ import annotations

import codecs
import errno
import os
import re
import stat
import sys
import zipfile
from collections.abc import Sequence
from glob import escape
from pathlib import Path, PurePosixPath

from custodes.data.loading.compression import (
    COMPRESSION_FORMATS,
    LARGEST,
    check_size,
    detect_compression,
    format_mebibytes,
)
from custodes.errors import InputError, suggestion

STANDARD_INPUT = ("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
PIPES = ("/dev/fd/", "/proc/self/fd/")
"""Paths of shell pipes that replace a file (process substitution)."""

ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
"""Prefix of the address of a server. The text after the prefix may contain a password and is never displayed."""

SMALL = 64 * 2**20
"""Maximum size in bytes of a file that is not a table (a schema, a channel, the state of a protocol)."""

UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
UTF32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
MOST_NUL = 0.1
"""Proportion of NUL characters above which the bytes are not UTF-8."""


def path_and_part(source: str | Path) -> tuple[Path, str | None]:
    """Split `PATH::PART` into path and part. A source that is itself an existing path is not split."""
    path, separator, part = str(source).partition("::")
    if not separator or path_exists(Path(source)):
        return Path(source), None
    return Path(path), part


def is_standard_input(source: object) -> bool:
    """Whether a source is standard input, which can be read only once."""
    return isinstance(source, str | Path) and str(source).partition("::")[0] in STANDARD_INPUT


def is_input_stream(path: Path) -> bool:
    """Whether a path is standard input, a pipe or a device, which cannot be inspected before reading."""
    return is_standard_input(path) or (path_exists(path) and not path.is_file() and not path.is_dir())


def path_exists(path: Path) -> bool:
    """Whether a path exists; False for an invalid name."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def check_exists(path: Path) -> None:
    """Raise `InputError` if a path does not exist. The message suggests files with similar names."""
    if is_standard_input(path) or path_exists(path) or glob_files(path):
        return
    if os.path.islink(path):
        raise InputError(f"{path}: a symbolic link to a missing file; give the path of a file")
    address_match = ADDRESS.match(str(path))
    if address_match:
        raise InputError(
            f"{address_match[0]}...: this is an address, and custodes downloads nothing; give the path of a file"
        )
    try:
        neighbour_names = [neighbour_path.name for neighbour_path in path.parent.iterdir()]
    except (OSError, ValueError):
        neighbour_names = []
    raise InputError(f"{path}: no such file{suggestion(path.name, neighbour_names)}")


def glob_files(path: Path) -> list[Path]:
    """The files that match a pattern such as `scores/*.parquet` or `*/scores.csv`, sorted.

    Special characters in the existing part of the path are taken literally.
    """
    existing_parent = next((parent for parent in (path, *path.parents) if path_exists(parent)), path)
    if not set(str(path)) & set("*?[") or existing_parent == path:
        return []
    try:
        return sorted(
            matching_path
            for matching_path in existing_parent.glob(str(path.relative_to(existing_parent)))
            if matching_path.is_file()
        )
    except (OSError, ValueError):
        return []


def read_file_bytes(path: Path) -> bytes:
    """The bytes of a file, or of standard input."""
    check_exists(path)
    try:
        if is_standard_input(path):
            return _standard_input()
        if is_input_stream(path):
            return _read_pipe(path, LARGEST)
        check_size(path.stat().st_size, f"{path.name}: the file takes")
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def read_small_file(path: Path, file_kind: str) -> bytes:
    """The content of a pipe or a small file, such as a file written by hand."""
    if not path_exists(path):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    if is_input_stream(path):
        return _read_pipe(path, SMALL)
    file_size = path.stat().st_size
    if file_size > SMALL:
        raise InputError(
            f"{path}: the file has {format_mebibytes(file_size)}, but {file_kind} may have at most "
            f"{format_mebibytes(SMALL)}; give a smaller file"
        )
    return path.read_bytes()


def _standard_input() -> bytes:
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None or sys.stdin.closed:
        raise InputError("standard input is closed; give the path of a file")
    if sys.stdin.isatty():
        raise InputError(
            "standard input: the input is a terminal; pipe a table into custodes, or give the path of a file"
        )
    return _check_limit(stream.read(LARGEST + 1), "standard input", LARGEST)


def _read_pipe(path: Path, max_size: int) -> bytes:
    """The content of a pipe that the shell writes to. Other pipes could block, so other pipes and devices raise
    `InputError`."""
    if not stat.S_ISFIFO(path.stat().st_mode) or not str(path).startswith(PIPES):
        raise InputError(f"{path}: this is a pipe or device; pass the content on standard input: - < {path}")
    with path.open("rb") as stream:
        return _check_limit(stream.read(max_size + 1), str(path), max_size)


def _check_limit(data: bytes, name: str, max_size: int) -> bytes:
    if len(data) > max_size:
        raise InputError(
            f"{name}: the input has more than {format_mebibytes(max_size)}; save the input as a file and give the path "
            "of the file"
        )
    return data


def utf8_text(file_bytes: bytes, name: str) -> str:
    """The text in bytes, without a byte order mark. The message for invalid UTF-8 gives the position of the byte."""
    try:
        return file_bytes.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        byte_index = error.start
    compression_format = detect_compression(file_bytes)
    advice_text = (
        f": the file is compressed with {compression_format.name}; rename it to end in {compression_format.suffix}"
        if compression_format
        else "; save the file as UTF-8, for example with: iconv -f "
        f"{'UTF-16' if file_bytes.startswith(UTF16) else 'ENCODING'} -t UTF-8"
    )
    raise InputError(
        f"{name}: not UTF-8 at byte {byte_index} (line {file_bytes.count(10, 0, byte_index) + 1}){advice_text}"
    )


def table_text(data: bytes, name: str) -> tuple[str, str]:
    """The text of a table, and the name of the encoding if the encoding is not UTF-8. Excel's 'Unicode text' is UTF-16
    with a byte order mark."""
    if not data.startswith(UTF16) or data.startswith(UTF32):
        return _without_nul(utf8_text(data, name), name), ""
    try:
        return _without_nul(data.decode("utf-16"), name), "UTF-16"
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: damaged UTF-16 at byte {error.start}; save it again, as UTF-8") from None


def _without_nul(text: str, name: str) -> str:
    """The text, checked for NUL characters. A label may contain NUL, but a file in which every second character is NUL
    is UTF-16."""
    if text.count("\0") > len(text) * MOST_NUL:
        line_number = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(
            f"{name}: a NUL character in line {line_number}; the file is binary, or UTF-16 without a byte order mark"
        )
    return text


RATERS, PROBES = ".raters", ".probes"
FORMS = (".csv", ".tsv", ".jsonl", ".parquet", ".csv.gz", ".tsv.gz", ".jsonl.gz")


def sidecar_tables(file: Path, sidecar_mark: str, part: str | None = None) -> list[Path]:
    """The tables next to a file whose names begin with the name of the file and `sidecar_mark` (such as `.raters`).

    If the file is in a zip archive (`part`), tables in the archive come first. If the file is a link, tables in the
    folder of the link come first. There should be at most one table.

    >>> sidecar_tables(Path("nowhere/scores.csv"), RATERS)
    []
    """
    if part is not None and (archived_table_paths := _archive_sidecars(file, sidecar_mark, part)):
        return archived_table_paths
    sidecar_paths = [
        sidecar_path
        for sidecar_name in _sidecar_names(file.name, sidecar_mark)
        if path_exists(sidecar_path := file.parent / sidecar_name) and sidecar_path.is_file()
    ]
    if sidecar_paths or not os.path.islink(file):
        return sidecar_paths
    link_target_path = Path(os.path.realpath(file))  # a target that is a link belongs to a cycle of links
    return [] if os.path.islink(link_target_path) else sidecar_tables(link_target_path, sidecar_mark)


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
    compression_suffix = next(
        (
            compression_format.suffix
            for compression_format in COMPRESSION_FORMATS
            if file_name.lower().endswith(compression_format.suffix)
        ),
        "",
    )
    file_stem = Path(file_name[: len(file_name) - len(compression_suffix)]).stem
    return [file_stem + sidecar_mark + table_suffix for table_suffix in FORMS] if file_stem else []


def _archive_sidecars(archive: Path, sidecar_mark: str, part: str) -> list[Path]:
    """Paths `ARCHIVE::PART` of tables in a zip archive. The name of each table is that of `part`, followed by
    `sidecar_mark`."""
    if not zipfile.is_zipfile(archive):
        return []
    with zipfile.ZipFile(archive) as zip_file:
        member_names = set(zip_file.namelist())
    member_path = PurePosixPath(part)
    return [
        Path(f"{archive}::{member_path.with_name(sidecar_name)}")
        for sidecar_name in _sidecar_names(member_path.name, sidecar_mark)
        if str(member_path.with_name(sidecar_name)) in member_names
    ]


def without_sidecars(files: Sequence[Path]) -> list[Path]:
    """The list of files, without those tables of raters or probes that belong to another file of the list."""
    sidecar_paths = {
        sidecar_path.resolve()
        for file in files
        for sidecar_mark in (RATERS, PROBES)
        for sidecar_path in sidecar_tables(file, sidecar_mark)
    }
    return [file for file in files if file.resolve() not in sidecar_paths]
