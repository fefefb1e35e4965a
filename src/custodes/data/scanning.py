"""Files as tables of an engine. The files may be larger than the memory: Polars scans files, and DuckDB spills to
disk."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Literal

import narwhals as nw
import polars as pl

from custodes.data.loading.source import glob_files, path_exists
from custodes.data.table_engines import convert_engine_errors
from custodes.errors import InputError, MissingExtraError, OptionError, join_labels

Engine = Literal["polars", "duckdb"]
KINDS = {".parquet": "parquet", ".csv": "csv", ".jsonl": "json", ".ndjson": "json"}
LIMIT = re.compile(r"\d+(\.\d+)? *[KMGT]i?B", re.IGNORECASE)


@contextmanager
def scan_sources(
    sources: Sequence[str], *, engine: Engine, columns: Mapping[str, str], memory_limit: str | None, spill: str | None
) -> Iterator[Any]:
    """The rows of files of one type as a table of the engine, with `columns` (role to name) renamed.

    `memory_limit` (such as '2GB') and `spill` (the folder for temporary files) are options of DuckDB. Raises
    `InputError` for missing files and for files of several types, and `OptionError` for options that Polars does not
    have.
    """
    files, kind = _files(sources)
    if engine == "polars":
        if memory_limit is not None or spill is not None:
            raise OptionError(
                "--memory-limit and --spill need --engine duckdb; leave them out with Polars, which counts in batches"
            )
        scan_files: Any = {"parquet": pl.scan_parquet, "csv": pl.scan_csv, "json": pl.scan_ndjson}[kind]
        _check_alike(files, kind)
        yield _rename_columns(scan_files(files), columns)
        return
    try:
        import duckdb
    except ImportError:
        raise MissingExtraError("--engine duckdb needs DuckDB: pip install 'custodes[duckdb]'") from None
    if memory_limit is not None and not LIMIT.fullmatch(memory_limit.strip()):
        raise OptionError(f"--memory-limit {memory_limit!r}: not a size; give one such as 500MB or 2GB")
    if spill is not None:
        _check_spill(spill)
    with duckdb.connect() as connection:
        if memory_limit is not None:
            connection.execute(f"set memory_limit = '{memory_limit.strip()}'")
        if spill is not None:
            connection.execute("set temp_directory = $1", [str(spill)])
        try:
            read_files: Any = {
                "parquet": connection.read_parquet,
                "csv": connection.read_csv,
                "json": connection.read_json,
            }[kind]
            _check_alike(files, kind)
            table = read_files([str(file) for file in files])
        except duckdb.Error as problem:
            raise InputError(f"{files[0].name}: DuckDB cannot read the file: {str(problem).splitlines()[0]}") from None
        yield _rename_columns(table, columns)


def _files(sources: Sequence[str]) -> tuple[list[Path], str]:
    files = [
        file
        for source in sources
        for file in ([Path(source)] if path_exists(Path(source)) else glob_files(Path(source)))
    ]
    if not files:
        raise InputError(f"{join_labels(sources)}: no such file; give Parquet, CSV or JSON Lines")
    kinds = {KINDS.get(file.suffix.lower()) for file in files}
    if None in kinds or len(kinds) > 1:
        raise InputError(
            f"{join_labels(file.name for file in files)}: files of different kinds; give files of one "
            f"kind: {', '.join(KINDS)}"
        )
    return files, str(kinds.pop())


@convert_engine_errors("count")
def _check_alike(files: Sequence[Path], kind: str) -> None:
    """Raise `InputError` if files have different columns. Files of JSON Lines may differ, since rows may lack
    columns."""
    if kind == "json" or len(files) < 2:
        return
    scan_files: Any = {"parquet": pl.scan_parquet, "csv": pl.scan_csv}[kind]
    columns = set(scan_files(files[0]).collect_schema())
    for further_file in files[1:]:
        if differing_columns := columns ^ set(scan_files(further_file).collect_schema()):
            raise InputError(
                f"{files[0].name} and {further_file.name} differ in columns {join_labels(sorted(differing_columns))}; "
                "count "
                "these files separately"
            )


def _check_spill(folder: str) -> None:
    """Raise `OptionError` for a folder that is not writable. DuckDB would report this only when it writes to the
    folder."""
    try:
        Path(folder).mkdir(exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as problem:
        raise OptionError(
            f"--spill {folder}: not writable: {problem.strerror or problem}; give a folder on a disk with free space"
        ) from None


def _rename_columns(table: Any, columns: Mapping[str, str]) -> Any:
    if not columns:
        return table
    rows = nw.from_native(table)
    present_columns = rows.collect_schema().names()
    for role, name in columns.items():
        if name not in present_columns:
            raise OptionError(f"--column {role}={name}: no such column; columns: {join_labels(present_columns)}")
        if role in present_columns and role != name:
            raise OptionError(f"--column {role!r}={name}: the table already has a column {role!r}; remove it")
    return rows.rename({name: role for role, name in columns.items()}).to_native()
