"""Table files as Polars frames with text columns: CSV, TSV, JSON, JSON Lines, Parquet, each also gzipped."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from custodes.errors import InputError, listed, suggestion

SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")
SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".ods")
SEPARATORS = (",", ";", "\t", "|")
HEADER_CHARACTERS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table as it came: its frame, the name messages call it by, and the digest of its bytes ('' for a dataframe)."""

    frame: pl.DataFrame
    name: str
    digest: str = ""


def load_table(path: Path) -> Table:
    """The table in a file, found by suffix; all text columns as strings."""
    name = path.name
    if exists(path) and path.is_dir():
        raise InputError(f"{name}: a folder, not a table file")
    data = file_bytes(path)
    digest = hashlib.sha256(data).hexdigest()[:16]
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] == [".gz"]:
        suffixes.pop()
        data = _unzipped(data, name)
    suffix = suffixes[-1] if suffixes else ""
    if suffix in SPREADSHEETS:
        raise InputError(f"{name}: a spreadsheet is not read; save it as CSV")
    if suffix not in SUFFIXES:
        raise InputError(
            f"{name}: suffix {suffix!r} is unknown{suggestion(suffix, SUFFIXES)}; known: {', '.join(SUFFIXES)}"
            " (each also .gz), and .tar, .tar.gz, .tgz or a folder for mt-metrics-eval"
        )
    if not data.strip():
        raise InputError(f"{name}: the file is empty; give a table with a header and at least one row")
    frame = _parsed(data, suffix, name)
    if not frame.height:
        raise InputError(f"{name}: a header but no rows; give at least one row")
    return Table(frame=frame, name=name, digest=digest)


def check_exists(path: Path) -> None:
    """Raise if nothing is there, naming files with a similar name."""
    if not exists(path):
        near = [entry.name for entry in path.parent.iterdir()] if exists(path.parent) and path.parent.is_dir() else []
        raise InputError(f"{path}: no such file{suggestion(path.name, near)}")


def exists(path: Path) -> bool:
    """Whether something is there; a name that no file can have is not there."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def file_bytes(path: Path) -> bytes:
    """The bytes of a file."""
    check_exists(path)
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def utf8_text(data: bytes, name: str) -> str:
    """Bytes as text without a byte order mark; what is not UTF-8 is an error that names the byte."""
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        where = f"{name}: not UTF-8 at byte {error.start} (line {data.count(10, 0, error.start) + 1})"
    if data.startswith(b"\x1f\x8b"):
        raise InputError(f"{where}: it is gzipped; let its name end in .gz")
    encoding = "UTF-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "LATIN1"
    raise InputError(f"{where}; save it as UTF-8, for example with: iconv -f {encoding} -t UTF-8")


def parse_json(text: str, *, where: str) -> Any:
    """JSON with numbers as the text they were written in; a key that stands twice is an error."""
    try:
        return json.loads(text, parse_float=str, parse_int=str, parse_constant=str, object_pairs_hook=_unique_object)
    except json.JSONDecodeError as error:
        at = f"line {error.lineno}, column {error.colno}" if error.lineno > 1 else f"column {error.colno}"
        raise InputError(f"{where}: malformed JSON at {at}: {error.msg}") from None
    except RecursionError:
        raise InputError(f"{where}: the JSON is nested too deeply") from None
    except ValueError as error:
        raise InputError(f"{where}: {error}") from None


def _unique_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError(f"key {_doubled(key for key, _ in pairs)!r} stands twice in one object")
    return made


def _doubled(names: Iterable[str]) -> str | None:
    return next((name for name, count in Counter(names).items() if count > 1), None)


def _unzipped(data: bytes, name: str) -> bytes:
    if not data:
        return data
    try:
        return gzip.decompress(data)
    except EOFError:
        raise InputError(f"{name}: the gzip file is truncated; copy or download it again") from None
    except (OSError, zlib.error):
        raise InputError(f"{name}: not gzip, or damaged; take .gz off its name, or copy it again") from None


def _parsed(data: bytes, suffix: str, name: str) -> pl.DataFrame:
    if suffix == ".parquet":
        return _from_parquet(data, name)
    text = utf8_text(data, name)
    if suffix in (".csv", ".tsv"):
        return _from_csv(text, "," if suffix == ".csv" else "\t", name)
    if suffix == ".json":
        records = parse_json(text, where=name)
        if not isinstance(records, list):
            raise InputError(f"{name}: a .json file must hold a list of objects; name JSON Lines .jsonl")
        return _from_records(records, name, "entry")
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    records = [parse_json(line, where=f"{name}, line {number}") for number, line in lines]
    return _from_records(records, name, "row")


def _from_csv(text: str, separator: str, name: str) -> pl.DataFrame:
    if "\n" not in text:
        text = text.replace("\r", "\n")
    try:
        rows = csv.reader(io.StringIO(text[:HEADER_CHARACTERS], newline=""), delimiter=separator)
        header = [cell.strip() for cell in next((row for row in rows if row), [])]
    except csv.Error as error:
        raise InputError(f"{name}: the header cannot be read: {error}") from None
    if _doubled(header) is not None:
        raise InputError(f"{name}: column {_doubled(header)!r} stands twice; rename one, or take it out")
    if len(header) == 1 and any(other in header[0] for other in SEPARATORS):
        raise InputError(f"{name}: the header is one cell, {header[0][:60]!r}; separate cells by {separator!r}")
    try:
        frame = pl.read_csv(text.encode(), separator=separator, infer_schema=False)
        frame = frame.rename(str.strip)
    except (Exception, pl.exceptions.PanicException):
        fault = (
            _ragged_row(text, separator, longer=True)
            or "the table cannot be read: a quote is not closed, or stands inside a cell"
        )
        raise InputError(f"{name}: {fault}; quote a cell that holds {separator!r}, and double quotes in it") from None
    if frame.width and frame[:, -1].null_count():
        fault = _ragged_row(text, separator, longer=False)
        if fault:
            raise InputError(f"{name}: {fault}; is the file cut off?")
    return frame.filter(~pl.all_horizontal(pl.all().is_null()))


def _ragged_row(text: str, separator: str, *, longer: bool) -> str:
    """The first row with more (or with fewer) cells than the header, in words; '' if there is none."""
    try:
        rows = (row for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator) if row)
        width = len(next(rows, []))
        for number, row in enumerate(rows, start=1):
            if len(row) > width if longer else len(row) < width:
                return f"row {number} has {len(row)} cells, the header {width}"
    except csv.Error:
        pass
    return ""


def _from_parquet(data: bytes, name: str) -> pl.DataFrame:
    try:
        return pl.read_parquet(io.BytesIO(data)).rename(str.strip)
    except (Exception, pl.exceptions.PanicException):
        raise InputError(f"{name}: not a Parquet file, or a damaged one; write it again") from None


def _from_records(records: Sequence[Any], name: str, unit: str) -> pl.DataFrame:
    strays = [number for number, record in enumerate(records, start=1) if not isinstance(record, dict)]
    if strays:
        raise InputError(f"{name}: {unit} {listed(strays, limit=5)} is no JSON object; every {unit} is one object")
    records = [{key.strip(): value for key, value in record.items()} for record in records]
    columns = dict.fromkeys(key for record in records for key in record)
    try:
        return pl.DataFrame(
            {column: [_cell(record.get(column)) for record in records] for column in columns},
            schema=dict.fromkeys(columns, pl.String),
        )
    except UnicodeEncodeError:
        raise InputError(f"{name}: holds a lone surrogate (\\ud800 to \\udfff); mend the cell") from None


def _cell(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
