"""Tables in the engine that holds them: what is asked of one, and what its own errors become."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw
import polars as pl

from custodes.errors import CustodesError, InputError, OptionError, listed, shown, suggestion

WAYS = {
    "duckdb": "raise its memory_limit, or set temp_directory to a disk with room, where it spills",
    "pyspark": "give executors more memory (spark.executor.memory) or smaller parts (spark.sql.shuffle.partitions)",
    "polars": "give more batches, or hold the table in DuckDB, which spills",
}
"""What to do where an engine gives up."""

OTHERWISE = "give the engine more memory, or hold the table in DuckDB, which spills"


def lazy_rows(table: Any, *, where: str) -> nw.LazyFrame[Any]:
    """The rows of any table that Narwhals understands; raises `InputError` for what is none."""
    try:
        frame = nw.from_native(table)
    except TypeError:
        raise InputError(
            f"{where}: a {type(table).__name__} is no table here; give a lazy or eager dataframe (Polars, DuckDB,"
            " pandas, PySpark)"
        ) from None
    return frame if isinstance(frame, nw.LazyFrame) else frame.lazy("polars")


def schema_of(rows: nw.LazyFrame[Any], *, where: str) -> nw.Schema:
    """Names and types of the columns, which an engine may have to open its files for."""
    try:
        return rows.collect_schema()
    except Exception as problem:
        raise _refused(problem, rows, where) from None


def collected(frame: nw.LazyFrame[Any], *, where: str) -> pl.DataFrame:
    """The rows of a small answer; what goes wrong in the engine becomes an `InputError` of one line."""
    try:
        if frame.implementation.is_polars():
            native: pl.LazyFrame = frame.to_native()
            return native.collect(engine="streaming")
        made: pl.DataFrame = frame.collect("polars").to_native()
    except CustodesError:
        raise
    except Exception as problem:  # each engine has its own, and those of a JVM are no common kind
        raise _refused(problem, frame, where) from None
    return made


def _refused(problem: Exception, frame: nw.LazyFrame[Any], where: str) -> InputError:
    name = frame.implementation.name.lower()
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()] or [type(problem).__name__]
    return InputError(f"{where}: {name} gave up: {lines[0][:_REASON]}; {WAYS.get(name, OTHERWISE)}")


_REASON = 300  # characters


def names_of(given: str | Sequence[str]) -> tuple[str, ...]:
    """One name or several, each once."""
    return (given,) if isinstance(given, str) else tuple(dict.fromkeys(given))


def check_known(names: Sequence[str], known: Sequence[str], *, where: str, option: str, what: str) -> None:
    """Raise `OptionError` for a name that the table does not hold."""
    for name in names:
        if name not in known:
            raise OptionError(
                f"{where}: {option}={shown(name)} is no {what} here; {what}s: {listed(known)}{suggestion(name, known)}"
            )
