"""Tables in table engines: access to rows, scans of files larger than memory, and translation of errors of engines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import narwhals as nw
import polars as pl

from custodes.arguments import value_list
from custodes.data.comparisons import HUMAN
from custodes.data.loading.source import glob_files
from custodes.data.table import SECOND
from custodes.errors import InputError, MissingExtraError, OptionError, join_labels, reject, short_repr, suggestion

ENGINES = (
    "duckdb",
    "_duckdb",
    "pyspark",
    "py4j",
    "polars",
    "dask",
    "distributed",
    "ibis",
    "sqlglot",
    "pandas",
    "narwhals",
    "pyarrow",
)
"""Packages whose errors are reported as input errors."""

MEMORY_ERROR = re.compile(r"memory|heap space|space left|spill|temp_directory|create directory|alloc", re.IGNORECASE)

BATCH_ROWS = 5_000_000
"""Number of rows to count at a time if the engine does not write to disk; with a few raters, these rows take about 0.5
GiB."""


@contextmanager
def convert_engine_errors(where: str) -> Iterator[None]:
    """Convert errors of table engines into an `InputError` of one line with advice."""
    try:
        yield
    except Exception as problem:
        package_names = {error_class.__module__.partition(".")[0] for error_class in type(problem).__mro__}
        if package_names.isdisjoint(ENGINES) and not isinstance(problem, MemoryError | OSError):
            raise
        message_lines = [line.strip() for line in str(problem).splitlines() if line.strip()] or [type(problem).__name__]
        # The JVM reports the place first; the cause is last.
        cause_line = next((line for line in reversed(message_lines) if line.startswith("Caused by:")), message_lines[0])
        advice_text = (
            "give the engine more memory, or count with DuckDB (--engine duckdb), which writes to disk (--spill FOLDER)"
            if MEMORY_ERROR.search(f"{type(problem).__name__} {problem}")
            else "check that the table is complete and still exists"
        )
        raise InputError(f"{where}: {cause_line.removeprefix('Caused by:').strip()[:300]}; {advice_text}") from None


def lazy_rows(table: Any, *, where: str) -> nw.LazyFrame[Any]:
    """The rows of any table that Narwhals supports, without second opinions, which questions on systems exclude. Other
    objects raise `InputError`."""
    try:
        narwhals_frame = nw.from_native(table)
    except TypeError:
        raise InputError(
            f"{where}: a {type(table).__name__} is not a table that can be counted; give a lazy or "
            "eager dataframe (Polars, DuckDB, pandas, PySpark)"
        ) from None
    rows = narwhals_frame if isinstance(narwhals_frame, nw.LazyFrame) else narwhals_frame.lazy("polars")
    return (
        rows.filter(nw.col("role").cast(nw.String).fill_null("").str.to_lowercase() != SECOND)
        if "role" in rows.collect_schema()
        else rows
    )


def collect_rows(frame: nw.LazyFrame[Any]) -> pl.DataFrame:
    """The rows of a small result as a data frame."""
    if frame.implementation.is_polars():
        native_lazy_frame: pl.LazyFrame = frame.to_native()
        return native_lazy_frame.collect(engine="streaming")
    collected_rows: pl.DataFrame = frame.collect("polars").to_native()
    return collected_rows


def split_batches(
    rows: nw.LazyFrame[Any], column_name: str, batches: int | None, *, where: str
) -> list[nw.LazyFrame[Any]]:
    """The rows in batches, such that rows with the same value of a column are in one batch. Engines other
    than Polars get a single batch.

    `batches` is the number of batches (default: by the number of rows).
    """
    if not rows.implementation.is_polars():
        if batches not in (None, 1):
            raise OptionError(
                f"{where}: batches={batches} applies only to tables that Polars counts; leave batches out"
            )
        return [rows]
    polars_lazy_frame: pl.LazyFrame = rows.to_native()
    n_rows = int(collect_rows(rows.select(nw.len())).item()) if batches != 1 else 1
    batches = 1 + n_rows // BATCH_ROWS if batches is None else batches
    reject(
        (batches < 1, f"{where}: batches={batches} must be at least 1"),
        (
            batches > max(1, n_rows),
            f"{where}: batches={batches} exceeds the {n_rows} rows with a rating; give a smaller number",
        ),
    )
    if batches == 1:
        return [rows]
    return [
        nw.from_native(polars_lazy_frame.filter(pl.col(column_name).hash() % batches == batch_index))
        for batch_index in range(batches)
    ]


def resolve_names(
    option: str, names: str | Sequence[str], labels: Sequence[str], *, where: str, what: str = "rater"
) -> tuple[str, ...]:
    """The names in an argument, without duplicates. A comma inside a known name does not separate names.

    Raises `OptionError` for a name that the table does not contain.
    """
    chosen_names = tuple(dict.fromkeys(value_list(option, names, labels=labels)))
    for name in set(chosen_names) - set(labels):
        raise OptionError(
            f"{where}: {option}={short_repr(name)}: no such {what}; {what}s: "
            f"{join_labels(labels)}{suggestion(name, labels)}"
        )
    return chosen_names


def resolve_metrics(
    metrics: str | Sequence[str] | None, raters: Sequence[str], annotators: Sequence[str], *, where: str
) -> tuple[str, ...]:
    """The metrics to count: the named metrics, or all raters that are not annotators."""
    metric_names = (
        tuple(rater for rater in raters if rater not in annotators)
        if metrics is None
        else resolve_names("metrics", metrics, raters, where=where)
    )
    if raters_in_both := [rater for rater in metric_names if rater in annotators]:
        raise OptionError(
            f"{where}: human and metrics both name {join_labels(raters_in_both)}; give each rater one kind"
        )
    if HUMAN in metric_names:
        raise InputError(
            f"{where}: a metric is named {HUMAN!r}, the name reserved for the combined annotators; rename it in the"
            " table"
        )
    return metric_names


def match_aspects(
    rows: pl.DataFrame, annotators: Sequence[str], metrics: Sequence[str], aspect: str
) -> tuple[pl.DataFrame, dict[str, str]]:
    """Select the rows of the raters to count, and the aspect of each rater. If a metric has no rows of the aspect,
    its rows without an aspect are counted."""
    raters_with_aspect = {*annotators, *rows.filter(pl.col("aspect") == aspect)["rater"]}
    aspect_of_rater = {rater: aspect if rater in raters_with_aspect else "" for rater in (*annotators, *metrics)}
    return rows.filter(
        pl.col("aspect") == pl.col("rater").replace_strict(aspect_of_rater, default=None, return_dtype=pl.String)
    ), aspect_of_rater


def indicator(condition: nw.Expr) -> nw.Expr:
    """1 if the condition is true, 0 if it is false or null."""
    return conditional_value(condition, 1, 0)


def conditional_value(condition: nw.Expr, value_if_true: int, value_if_false: int) -> nw.Expr:
    return nw.when(condition).then(nw.lit(value_if_true)).otherwise(nw.lit(value_if_false))


Engine = Literal["polars", "duckdb"]
SCAN_OF_TYPE: dict[str, Any] = {"parquet": pl.scan_parquet, "csv": pl.scan_csv, "json": pl.scan_ndjson}
KIND_OF_SUFFIX = {".parquet": "parquet", ".csv": "csv", ".jsonl": "json", ".ndjson": "json"}


@contextmanager
def scan_sources(
    sources: Sequence[str], *, engine: Engine, columns: Mapping[str, str], memory_limit: str | None, spill: str | None
) -> Iterator[Any]:
    """The rows of files of one type as a table of the engine, with `columns` (role to name) renamed.

    `memory_limit` (such as '2GB') and `spill` (the folder for temporary files) are options of DuckDB. Raises
    `InputError` for missing files and for files of several types, and `OptionError` for options that Polars does not
    have.
    """
    files, file_type = _files_and_type(sources)
    if engine == "polars":
        if memory_limit is not None or spill is not None:
            raise OptionError(
                "--memory-limit and --spill need --engine duckdb; leave them out with Polars, which counts in batches"
            )
        _check_equal_columns(files, file_type)
        yield _rename_columns(SCAN_OF_TYPE[file_type](files), columns)
        return
    try:
        import duckdb
    except ImportError:
        raise MissingExtraError("--engine duckdb needs DuckDB: pip install 'custodes[duckdb]'") from None
    try:
        connection = duckdb.connect(
            config={
                name: value
                for name, value in {"memory_limit": memory_limit, "temp_directory": spill}.items()
                if value is not None
            }
        )
    except duckdb.Error:
        raise OptionError(f"--memory-limit {memory_limit!r}: not a size; give one such as 500MB or 2GB") from None
    with connection:
        with convert_engine_errors("count"):
            _check_equal_columns(files, file_type)
            relation = getattr(connection, f"read_{file_type}")([str(file) for file in files])
        yield _rename_columns(relation, columns)


def _files_and_type(sources: Sequence[str]) -> tuple[list[Path], str]:
    files = [
        file for source in sources for file in ([Path(source)] if Path(source).exists() else glob_files(Path(source)))
    ]
    if not files:
        raise InputError(f"{join_labels(sources)}: no such file; give Parquet, CSV or JSON Lines")
    file_types = {KIND_OF_SUFFIX.get(file.suffix.lower()) for file in files}
    if None in file_types or len(file_types) > 1:
        raise InputError(
            f"{join_labels(file.name for file in files)}: count reads files of one type ({', '.join(KIND_OF_SUFFIX)}); "
            "export a table of a database to such a file, or in Python pass the table to count_pairs or count_labels"
        )
    return files, str(file_types.pop())


@convert_engine_errors("count")
def _check_equal_columns(files: Sequence[Path], file_type: str) -> None:
    """Raise `InputError` if files have different columns. Files of JSON Lines may have different columns, because rows
    may lack columns."""
    if file_type == "json" or len(files) < 2:
        return
    first_column_names, *further_file_column_names = (
        set(SCAN_OF_TYPE[file_type](file).collect_schema()) for file in files
    )
    for further_file, column_names in zip(files[1:], further_file_column_names, strict=True):
        if differing_column_names := first_column_names ^ column_names:
            raise InputError(
                f"{files[0].name} and {further_file.name} differ in columns "
                f"{join_labels(sorted(differing_column_names))}; count these files separately"
            )


def _rename_columns(table: Any, column_name_of_role: Mapping[str, str]) -> Any:
    if not column_name_of_role:
        return table
    narwhals_rows = nw.from_native(table)
    present_column_names = narwhals_rows.collect_schema().names()
    for role, column_name in column_name_of_role.items():
        reject(
            (
                column_name not in present_column_names,
                f"--column {role}={column_name}: no such column; columns: {join_labels(present_column_names)}",
            ),
            (
                role in present_column_names and role != column_name,
                f"--column {role}={column_name}: the table already has a column {role!r}; leave out this option",
            ),
        )
    return narwhals_rows.rename({column_name: role for role, column_name in column_name_of_role.items()}).to_native()
