"""Detect the type of a source and read its table.

The first bytes determine the format of binary and compressed files, and the suffix determines the format of text. For
standard input and pipes, which have no name, the first bytes also determine the format of text.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from custodes.data.loading import arrow, database, live_study, spreadsheet
from custodes.data.loading.compression import decompress, zip_archive, zip_member
from custodes.data.loading.delimited import from_delimited
from custodes.data.loading.folders import folder_files, holds_table, stack_tables, with_class_names
from custodes.data.loading.records import from_json, from_lines
from custodes.data.loading.source import (
    check_exists,
    decode_text,
    glob_files,
    is_input_stream,
    is_standard_input,
    path_and_part,
    read_file_bytes,
    without_compression_suffix,
    without_sidecars,
)
from custodes.data.notes import Note
from custodes.data.table import LoadedTable, bytes_as_text, digest_of, select_part, shorten_part, to_polars
from custodes.errors import InputError, reject, suggestion

__all__ = ["holds_table", "load_source", "load_table"]


@dataclass(frozen=True, kw_only=True)
class _Format:
    """A binary format: suffixes, first bytes, and reader. `read(data, part, where)` returns the table with notes."""

    suffixes: tuple[str, ...]
    magic: tuple[bytes, ...]
    read: Callable[[bytes, str | None, str], tuple[pl.DataFrame, list[Note]]]


WORKBOOK = _Format(suffixes=(".xlsx", ".xlsm"), magic=(), read=spreadsheet.from_workbook)
ZIP = _Format(suffixes=(".zip",), magic=(spreadsheet.ZIP,), read=lambda data, part, where: _from_zip(data, part, where))
FORMATS = (
    _Format(
        suffixes=(".parquet",),
        magic=(arrow.PARQUET,),
        read=lambda data, part, where: (arrow.from_parquet(data, where), []),
    ),
    _Format(
        suffixes=(".arrow", ".feather", ".ipc"),
        magic=(arrow.ARROW_FILE, arrow.ARROW_STREAM),
        read=lambda data, part, where: (arrow.from_arrow_file(data, where), []),
    ),
    WORKBOOK,
    ZIP,
)
TEXTS = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson", ".json")
SUFFIXES = (*TEXTS, *(suffix for binary_format in FORMATS for suffix in binary_format.suffixes))

MOST_COLUMNS = 10_000
"""Maximum number of columns of a table. Every column may be a rater, and each rater takes time."""


def load_table(source: str | Path) -> LoadedTable:
    """Read the table in a file, a folder, a database or standard input; text cells are strings.

    `PATH::PART` names a sheet, a table or query, a split, or a file of a zip archive. Raises `InputError` if there is
    no table, and `MissingExtraError` if a required library is not installed.
    """
    path, part = path_and_part(source)
    check_exists(path)
    matching_paths = without_sidecars(glob_files(path))
    if matching_paths and not path.exists():
        return _load_files(
            matching_paths,
            path.name,
            root=Path(os.path.commonpath([matching_path.parent for matching_path in matching_paths])),
        )
    source_name = "standard input" if is_standard_input(path) else path.resolve().name if path.is_dir() else path.name
    table_name = source_name if part is None else f"{source_name}::{shorten_part(part)}"
    if path.is_dir():
        if not holds_table(path):
            raise InputError(f"{source_name}: this is a folder, not a table file; give the path of a table file")
        table_files, feature_descriptions = folder_files(path, part)
        stacked_table = _load_files(table_files, source_name, root=path)
        return replace(
            stacked_table, frame=with_class_names(stacked_table.frame, feature_descriptions), name=table_name, files=()
        )
    file_bytes = (
        live_study.read_one_state(path, lambda connection: connection.serialize())
        if live_study.is_study(path)
        else read_file_bytes(path)
    )
    frame, notes = _parse_content(
        decompress(file_bytes, source_name),
        path,
        "" if is_input_stream(path) else _suffix(without_compression_suffix(path.name)),
        part,
        source_name,
    )
    reject(
        (
            frame.width > MOST_COLUMNS,
            f"{table_name}: the table has {frame.width} columns; at most {MOST_COLUMNS} can be read. Write one "
            "row per rating: item, system, rater, score",
        ),
        (not frame.height, f"{table_name}: the table has a header and no rows; give at least one row"),
        error=InputError,
    )
    return LoadedTable(
        frame=bytes_as_text(frame),
        name=table_name,
        digest=hashlib.sha256(file_bytes).hexdigest()[:16],
        notes=tuple(notes),
        files=() if is_input_stream(path) else (path,),
        part=part,
    )


def _load_files(files: Sequence[Path], where: str, *, root: Path) -> LoadedTable:
    """One table from several files in a folder."""
    loaded_tables = [load_table(file) for file in files]
    relative_paths = [file.relative_to(root).as_posix() for file in files]
    return LoadedTable(
        frame=stack_tables([loaded_table.frame for loaded_table in loaded_tables], relative_paths, where=where),
        name=where,
        digest=digest_of(
            *(
                f"{relative_path}\0{loaded_table.digest}\0"
                for relative_path, loaded_table in zip(relative_paths, loaded_tables, strict=True)
            )
        ),
        notes=tuple(note for loaded_table in loaded_tables for note in loaded_table.notes),
        files=tuple(files),
    )


def _parse_content(
    file_bytes: bytes, path: Path, suffix: str, part: str | None, where: str
) -> tuple[pl.DataFrame, list[Note]]:
    """The table in decompressed bytes."""
    if file_bytes.startswith(database.SQLITE):
        return database.from_sqlite(file_bytes, path, part, where), []
    if file_bytes[database.DUCKDB_OFFSET :].startswith(database.DUCKDB) and path.is_file():
        return database.from_duckdb(path, part, where), []
    binary_format = _detect_format(file_bytes, where) or next(
        (binary_format for binary_format in FORMATS if suffix in binary_format.suffixes), None
    )
    reject(
        (
            suffix not in SUFFIXES and binary_format is None and not is_input_stream(path),
            f"{where}: unknown suffix {suffix!r}{suggestion(suffix, SUFFIXES)}; allowed: {', '.join(SUFFIXES)} (text "
            "files also with .gz, .bz2, .xz), SQLite and DuckDB files; for mt-metrics-eval also .tar, .tar.gz, .tgz or "
            "a folder",
        ),
        (not file_bytes.strip(), f"{where}: the file is empty; give a table with a header and at least one row"),
        (
            part is not None and binary_format not in (WORKBOOK, ZIP) and suffix != ".json",
            f"{where}: the file holds one table and has no parts; remove '::{shorten_part(part or '')}'",
        ),
        error=InputError,
    )
    return binary_format.read(file_bytes, part, where) if binary_format else _from_text(file_bytes, suffix, part, where)


def _from_text(file_bytes: bytes, suffix: str, part: str | None, where: str) -> tuple[pl.DataFrame, list[Note]]:
    text = decode_text(file_bytes, where)
    suffix = suffix or {"[": ".json", "{": ".jsonl"}.get(text.lstrip()[:1], "")
    if suffix == ".json":
        return from_json(text, where, part)
    if suffix in (".jsonl", ".ndjson"):
        return from_lines(text, where), []
    return from_delimited(text, suffix, where)


def _from_zip(file_bytes: bytes, part: str | None, where: str) -> tuple[pl.DataFrame, list[Note]]:
    """The table in an archive. Files that operating systems add (`__MACOSX`, hidden files) are ignored."""
    archive = zip_archive(file_bytes, where)
    allowed_suffixes = [suffix for suffix in SUFFIXES if suffix not in ZIP.suffixes]
    table_member_names = [
        member_name
        for member_name in archive.namelist()
        if _suffix(member_name) in allowed_suffixes
        and not any(path_component.startswith((".", "__")) for path_component in Path(member_name).parts)
    ]
    if not table_member_names:
        raise InputError(
            f"{where}: the archive holds no table file; allowed in an archive: {', '.join(allowed_suffixes)}"
        )
    member_name = select_part(part, table_member_names, name=where, what="file")
    where = f"{where}::{member_name}"
    return _parse_content(zip_member(archive, member_name, where), Path(member_name), _suffix(member_name), None, where)


def _suffix(file_name: str) -> str:
    return Path(file_name).suffix.lower()


def _detect_format(data: bytes, where: str) -> _Format | None:
    """The binary format according to the first bytes, or None for text."""
    if data.startswith(spreadsheet.OLE):
        raise InputError(
            f"{where}: a spreadsheet in the old .xls format, or a spreadsheet with a password; save the spreadsheet "
            "as .xlsx or CSV"
        )
    if data.startswith(spreadsheet.ZIP) and spreadsheet.WORKBOOK_MEMBER in zip_archive(data, where).namelist():
        return WORKBOOK
    return next((binary_format for binary_format in FORMATS if data.startswith(binary_format.magic)), None)


def load_source(source: Any, name: str) -> LoadedTable:
    """The table of a path or a dataframe with rows. `name` is the name of a dataframe in messages."""
    if isinstance(source, str | Path):
        return load_table(source)
    frame = to_polars(source, where=name)
    if not frame.height:
        raise InputError(f"{name}: no rows; give at least one")
    return LoadedTable(frame=frame, name=name)
