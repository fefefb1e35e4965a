"""Tables of files and dataframes: conversion to a validated Polars frame with string labels. Error messages give rows.

In files and in dataframes, rows are counted from 1, without the header and without blank lines.
"""

from __future__ import annotations

import hashlib
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import narwhals as nw
import polars as pl
import polars.selectors as cs

from custodes.data.notes import Note, build_notes
from custodes.errors import InputError, join_labels, reject, short_repr, suggestion

MISSING_TOKENS = ("", "na", "n/a", "#n/a", "nan", "none", "null", "-")
"""Texts that count as empty in a column of numbers, in upper or lower case."""

SLIP = 0.8
"""An unknown name counts as misspelled if it is at least this similar to the name of a known column ('aspct', but not
'dataset')."""

UNPAIRED_SURROGATE = "an unpaired surrogate (\\ud800 to \\udfff), which is not valid text"

DUPLICATE_ADVICE = "a column name occurs twice; rename one, or remove it"

PRIMARY, SECOND = ROLES = ("primary", "second")
"""Roles of an annotation. First opinions are used to compare systems; second opinions only measure the agreement of
annotators."""

LARGEST = 1e100
"""Maximum absolute value of a number, so that sums of squares and of fourth powers do not overflow."""

EXACT_INTEGERS = 2.0**53
"""Floats below this bound represent integers exactly, so that they may be integer labels."""


def to_polars(table: Any, *, where: str) -> pl.DataFrame:
    """A Polars frame from any lazy or eager dataframe that Narwhals supports (pandas, Polars, PyArrow, DuckDB).

    Raises `InputError` for other objects, and for column names that `check_names` rejects.
    """
    frame = bytes_as_text(_polars_frame(table, where=where))
    check_names(frame.columns, where=where)
    return frame


def bytes_as_text(frame: pl.DataFrame) -> pl.DataFrame:
    """The table with its columns of bytes read as UTF-8; cells that are not UTF-8, such as images, become null."""
    return frame.with_columns(pl.col(pl.Binary).map_elements(_decode_bytes, return_dtype=pl.String))


def _decode_bytes(cell: bytes) -> str | None:
    try:
        return cell.decode()
    except UnicodeDecodeError:
        return None


def check_names(column_names: Iterable[str], *, where: str) -> None:
    """Raise `InputError` for a column name that Polars would expand to other columns: `*`, or a name like `^...$`."""
    reject(
        *(
            (
                column_name == "*" or (column_name.startswith("^") and column_name.endswith("$")),
                f"{where}: the column name {short_repr(column_name)} is not allowed, because '*' and '^...$' are "
                "patterns that select columns; rename the column",
            )
            for column_name in column_names
        ),
        error=InputError,
    )


def _polars_frame(table: Any, *, where: str) -> pl.DataFrame:
    try:
        narwhals_frame = nw.from_native(table)
    except nw.exceptions.DuplicateError:
        raise InputError(f"{where}: {DUPLICATE_ADVICE}") from None
    except TypeError:
        raise InputError(
            f"{where}: a {type(table).__name__} is not a table; give a path or a dataframe (pandas, Polars, PyArrow, "
            "DuckDB)"
        ) from None
    if isinstance(narwhals_frame, nw.LazyFrame):
        return pl.DataFrame(narwhals_frame.collect("polars").to_native())
    if narwhals_frame.implementation.is_pandas():
        # Column by column: pandas may hold mixed objects, which must become text for the checks to name the row.
        polars_column_of_name = {
            str(column.name): _from_pandas(column, where=where) for column in narwhals_frame.iter_columns()
        }
        if len(polars_column_of_name) < len(narwhals_frame.columns):
            raise InputError(f"{where}: {DUPLICATE_ADVICE}")
        return pl.DataFrame(polars_column_of_name).fill_nan(None)
    return pl.DataFrame(narwhals_frame.to_polars())


def _from_pandas(column: nw.Series[Any], *, where: str) -> pl.Series:
    column_name = str(column.name)
    try:
        return series_of(
            column_name,
            [
                None if is_missing_cell else cell
                for cell, is_missing_cell in zip(column.to_list(), column.is_null(), strict=True)
            ],
        )
    except UnicodeEncodeError:
        raise InputError(
            f"{where}: column {column_name!r} holds an unpaired surrogate, which is not valid text; correct the cell"
        ) from None


def series_of(column_name: str, cell_values: Sequence[Any]) -> pl.Series:
    """A column of values. Values of several types and integers of more than 64 bits become text.

    >>> series_of("cells", [1, "a", None]).to_list()
    ['1', 'a', None]
    """
    try:
        return pl.Series(column_name, cell_values, strict=True)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        return pl.Series(
            column_name,
            [None if cell_value is None else str(cell_value) for cell_value in cell_values],
            dtype=pl.String,
        )


def check_columns(
    frame: pl.DataFrame, *, where: str, required: Sequence[str], optional: Sequence[str] = ()
) -> list[Note]:
    """Raise `InputError` if a required column is missing or an unknown column looks misspelled. Return notes on unused
    columns."""
    expected_column_names = [*required, *optional]
    missing_column_names = [column_name for column_name in required if column_name not in frame.columns]
    unexpected_column_names = [column_name for column_name in frame.columns if column_name not in expected_column_names]
    if missing_column_names:
        hint_text = suggestion(missing_column_names[0], unexpected_column_names).replace("did you mean", "is it")
        raise InputError(
            f"{where}: column {missing_column_names[0]!r} is missing{hint_text}; columns: {join_labels(frame.columns)};"
            f" needed: {', '.join(required)}"
        )
    absent_column_names = [column_name for column_name in expected_column_names if column_name not in frame.columns]
    for column_name in unexpected_column_names:
        if misspelling_text := suggestion(column_name, absent_column_names, cutoff=SLIP):
            raise InputError(f"{where}: column {column_name!r} is unknown{misspelling_text}; rename it, or remove it")
    return build_notes(unused_columns(unexpected_column_names, where=where))


def unused_columns(column_names: Sequence[str], *, where: str) -> tuple[str, int, str]:
    """The entry for `build_notes` on columns of a table that are not used."""
    return "unused-columns", len(column_names), f"{where}: columns not used: {join_labels(column_names)}"


def fitting_columns(frame: pl.DataFrame, alternatives: Sequence[tuple[str, ...]], *, where: str) -> tuple[str, ...]:
    """The first of several sets of columns that is complete in the table. If no set is complete, `InputError` names the
    missing columns.

    >>> fitting_columns(pl.DataFrame({"id": [1], "text": ["x"]}), [("key", "text"), ("id", "text")], where="t.csv")
    ('id', 'text')
    """
    most_complete_column_names = max(
        alternatives, key=lambda column_names: len(set(frame.columns).intersection(column_names)) / len(column_names)
    )
    check_columns(frame, where=where, required=most_complete_column_names, optional=frame.columns)
    return most_complete_column_names


def label_column(frame: pl.DataFrame, column_name: str, *, where: str, empty: bool | pl.Series = False) -> pl.Series:
    """A column of labels as stripped strings. If `empty` is true (for all rows, or in the row), an empty cell becomes
    ''. Otherwise an empty cell raises `InputError`."""
    if column_name not in frame.columns:
        return pl.repeat("", frame.height, dtype=pl.String, eager=True).alias(column_name)
    column = restore_integers(frame[column_name])
    if column.dtype.is_nested() or column.dtype in (pl.Object, pl.Binary, pl.Duration):
        raise InputError(
            f"{where}: column {column_name!r} holds {column.dtype}, which cannot be labels; give text or numbers"
        )
    labels = column.cast(pl.String).fill_null("").str.strip_chars()
    if empty is not True:
        refuse(
            labels == "" if empty is False else (labels == "") & ~empty,
            lambda row_numbers, _: f"{where}: column {column_name!r} is empty in row {row_numbers}; fill in a label",
        )
    refuse(  # NumPy arrays drop a final NUL, so that two labels could become equal
        labels.str.ends_with("\0"),
        lambda row_numbers, _: (
            f"{where}: column {column_name!r} ends in a NUL character in row {row_numbers}; remove the character"
        ),
    )
    return labels.alias(column_name)


def restore_integers(column: pl.Series) -> pl.Series:
    """The column as integers if all numbers are whole. A dataframe converts integers to floats if a cell is empty, so
    3.0 was 3."""
    if not column.dtype.is_float():
        return column
    column = column.fill_nan(None)
    return column.cast(pl.Int64) if ((column == column.round()) & (column.abs() < EXACT_INTEGERS)).all() else column


def bounded_column(frame: pl.DataFrame, column_name: str, high: float, *, where: str, allowed: str) -> pl.Series:
    """A column of numbers from 0 to `high`, see `number_column`. `allowed` names these numbers in the message."""
    numbers = number_column(frame, column_name, where=where)
    refuse_values(numbers, ~numbers.is_between(0, high), where=where, allowed=allowed)
    return numbers


def null_missing_cells(column: pl.Series) -> pl.Series:
    """The column with null for empty cells, words such as `NA`, and NaN."""
    if column.dtype == pl.String:
        return column.set(column.str.strip_chars().str.to_lowercase().is_in(MISSING_TOKENS), None)
    return column.fill_nan(None) if column.dtype.is_float() else column


def number_column(frame: pl.DataFrame, column_name: str, *, where: str) -> pl.Series:
    """A column of finite numbers. Empty cells become null. Text and infinities raise `InputError`, which gives the
    row."""
    if column_name not in frame.columns:
        return pl.repeat(None, frame.height, dtype=pl.Float64, eager=True).alias(column_name)
    column = frame[column_name]
    if column.dtype in (pl.Categorical, pl.Enum):
        column = column.cast(pl.String)
    if column.dtype == pl.Boolean:
        column = column.cast(pl.Int8)
    if column.dtype == pl.String:
        cell_texts = null_missing_cells(column.str.strip_chars())
        numbers = cell_texts.cast(pl.Float64, strict=False)
        advice_text = (
            "if these are labels, add a column kind that says which raters are human and which are a metric"
            if column_name == "score" and not cell_texts.str.contains(r"\d").any()
            else "write numbers with a decimal point and without thousands separators; if nothing was rated, leave the "
            "cell empty"
        )
        refuse(
            numbers.is_null() & cell_texts.is_not_null(),
            lambda row_numbers, row_index: (
                f"{where}: {column_name} {cell_texts[row_index]!r} in row {row_numbers} is not a number; {advice_text}"
            ),
        )
    elif column.dtype.is_numeric() or column.dtype == pl.Null:
        numbers = column.cast(pl.Float64)
    else:
        raise InputError(f"{where}: column {column_name!r} holds {column.dtype}, expected numbers")
    refuse(
        numbers.fill_nan(None).abs() > LARGEST,
        lambda row_numbers, _: (
            f"{where}: {column_name} is infinite or beyond {LARGEST:g} in row {row_numbers}; a score must be finite "
            "(empty where not rated)"
        ),
    )
    return numbers.set(numbers == 0, 0.0).fill_nan(None).alias(column_name)  # -0.0 is 0


TRUE, FALSE = ("true", "yes", "1"), ("false", "no", "0")
"""Words in a column of true and false, in lower case; an empty cell is null."""


def typed_column(frame: pl.DataFrame, column_name: str, dtype: Any, *, where: str, empty: bool = True) -> pl.Series:
    """A column converted to a declared Polars type (labels, booleans, numbers or integers) and checked by the
    function for this type."""
    if dtype == pl.String:
        return label_column(frame, column_name, where=where, empty=empty)
    if dtype == pl.Boolean:
        cell_texts = label_column(frame, column_name, where=where, empty=empty).str.to_lowercase()
        refuse_values(cell_texts, ~cell_texts.is_in([*TRUE, *FALSE, ""]), where=where, allowed="true, false")
        return cell_texts.is_in(TRUE).set(cell_texts == "", None)
    numbers = number_column(frame, column_name, where=where)
    if dtype == pl.Int64:
        refuse_values(numbers, numbers.is_null() | (numbers % 1 != 0), where=where, allowed="a whole number")
    return numbers.cast(dtype)


def count_filled_cells(column: pl.Series) -> tuple[int, int]:
    """The number of non-empty cells, and the number of cells that are numbers."""
    if column.dtype in (pl.Categorical, pl.Enum):
        column = column.cast(pl.String)
    if column.dtype == pl.String:
        column = column.str.strip_chars()
        column = column.filter(~column.str.to_lowercase().is_in(MISSING_TOKENS))
    return column.count(), column.cast(pl.Float64, strict=False).count() if (
        column.dtype.is_numeric() or column.dtype in (pl.String, pl.Boolean)
    ) else 0


def check_unique(frame: pl.DataFrame, key_column_names: Sequence[str], *, where: str, what: str, hint: str) -> None:
    """Raise `InputError` if a key occurs twice; the message gives the rows."""
    duplicate_rows = frame.filter(has_duplicate_key(frame, key_column_names))
    if duplicate_rows.is_empty():
        return
    first_duplicate_row = duplicate_rows.row(0, named=True)
    labels_text = ", ".join(
        f"{column_name} {first_duplicate_row[column_name]!r}"
        for column_name in key_column_names
        if first_duplicate_row[column_name] != ""
    )
    n_duplicate_keys = duplicate_rows.select(key_column_names).n_unique()
    duplicates_text = (
        f"the same {what} occurs twice, in rows"
        if n_duplicate_keys == 1
        else f"{n_duplicate_keys} {what}s occur several times, such as in rows"
    )
    refuse(
        frame.select(
            pl.all_horizontal(
                pl.col(column_name) == first_duplicate_row[column_name] for column_name in key_column_names
            )
        ).to_series(),
        lambda row_numbers, _: f"{where}: {duplicates_text} {row_numbers} ({labels_text}); {hint}",
    )


def has_duplicate_key(frame: pl.DataFrame, key_column_names: Sequence[str]) -> pl.Series:
    """For each row, whether its key occurs more than once. Hashes are compared first, because this is fast. If hashes
    are equal, labels are compared.

    >>> has_duplicate_key(pl.DataFrame({"item": ["a", "b", "a"]}), ["item"]).to_list()
    [True, False, True]
    """
    key_hashes = frame.select(pl.struct(key_column_names).hash()).to_series()
    if key_hashes.n_unique() == len(key_hashes):
        return pl.repeat(False, len(key_hashes), dtype=pl.Boolean, eager=True)
    is_candidate_row = key_hashes.is_duplicated()
    return is_candidate_row.scatter(
        is_candidate_row.arg_true(), frame.select(key_column_names).filter(is_candidate_row).is_duplicated()
    )


def filter_rows(frame: pl.DataFrame, condition: pl.Expr | pl.Series) -> pl.DataFrame:
    """The rows that satisfy a condition; the same frame, not a copy, if all rows satisfy the condition."""
    is_selected_row = frame.select(condition).to_series()
    return frame if is_selected_row.all(ignore_nulls=False) else frame.filter(is_selected_row)


def drop_duplicates(frame: pl.DataFrame) -> pl.DataFrame:
    """The distinct rows, in any order."""
    is_repeated_row = has_duplicate_key(frame, frame.columns)
    return pl.concat([filter_rows(frame, ~is_repeated_row), frame.filter(is_repeated_row).unique()])


def format_counts(words: pl.Series) -> str:
    """The number of occurrences of each word, with the most frequent word first.

    >>> format_counts(pl.Series(["label", "refusal", "refusal"]))
    'refusal 2, label 1'
    """
    return join_labels(f"{word} {n_occurrences}" for word, n_occurrences in Counter(words).most_common())


def refuse(is_refused_row: pl.Series, build_message: Callable[[str, int], str]) -> None:
    """Raise `InputError` if the mask has a true value. `build_message` makes the message from the row numbers and the
    position of the first true value."""
    row_indices = is_refused_row.fill_null(False).arg_true()
    if row_indices.len():
        raise InputError(build_message(join_labels(row_indices + 1, limit=5), int(row_indices[0])))


def refuse_values(column: pl.Series, is_refused_row: pl.Series, *, where: str, allowed: str) -> None:
    """Raise `InputError` if the mask has a true value. The message gives the first value of the column where the mask
    is true, and the allowed values."""
    refuse(
        is_refused_row,
        lambda row_numbers, row_index: (
            f"{where}: {column.name} {column[row_index]!r} in row {row_numbers}; allowed: {allowed}"
        ),
    )


def second_rows(frame: pl.DataFrame, *, where: str) -> tuple[pl.Series, tuple[str, ...]]:
    """Whether each row of a file is a second opinion, and the names of the columns that give this information: `role`,
    or none.

    An empty cell is a first opinion. A column `role` in which no cell is one of `ROLES` is ignored.

    >>> is_second, column_names = second_rows(pl.DataFrame({"role": ["second", ""]}), where="b.csv")
    >>> is_second.to_list(), column_names
    ([True, False], ('role',))
    """
    row_roles = label_column(frame.drop(cs.nested()), "role", where=where, empty=True).str.to_lowercase()
    has_roles = bool(row_roles.is_in(ROLES).any())
    refuse_values(row_roles, has_roles & ~row_roles.is_in([*ROLES, ""]), where=where, allowed=", ".join(ROLES))
    return row_roles == SECOND, ("role",) * has_roles


def digest_of(*texts: str) -> str:
    """Digest of texts, 16 hexadecimal digits."""
    return hashlib.sha256("".join(texts).encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class LoadedTable:
    """A loaded table: its frame, its name in messages, the digest of its bytes, notes, the files that hold the table,
    and the requested part. A dataframe has the digest ''."""

    frame: pl.DataFrame
    name: str
    digest: str = ""
    notes: tuple[Note, ...] = ()
    files: tuple[Path, ...] = ()
    part: str | None = None


def select_part(part: str | None, parts: Iterable[str], *, name: str, what: str) -> str:
    """The part of a container that `NAME::PART` requests. If the container has only one part, this part is the
    default."""
    part_names = list(parts)
    for part_name in part_names:
        if part_name == part or (part is None and len(part_names) == 1):
            return part_name
    raise InputError(
        f"{name}: holds {len(part_names)} {what}s; select one with {name}::{what.upper()}: {join_labels(part_names)}"
        if part is None
        else f"{name}: no {what} named {part!r}{suggestion(part, part_names)}; {what}s: {join_labels(part_names)}"
    )


def strip_column_names(column_names: Iterable[str], *, where: str) -> list[str]:
    """Column names without surrounding blanks. Raises `InputError` for duplicate names and for names that are patterns
    of Polars."""
    stripped_names = [column_name.strip() for column_name in column_names]
    check_names(stripped_names, where=where)
    if len(set(stripped_names)) < len(stripped_names):
        duplicate_name = next(
            column_name
            for name_index, column_name in enumerate(stripped_names)
            if column_name in stripped_names[:name_index]
        )
        header_advice = "; if the first row is data, add a row of column names" if duplicate_name.isdigit() else ""
        raise InputError(
            f"{where}: two columns are called {duplicate_name!r}; rename or remove one of these columns{header_advice}"
        )
    return stripped_names


def with_column_names(frame: pl.DataFrame, *, where: str) -> pl.DataFrame:
    """The table with columns named by `strip_column_names`."""
    return frame.rename(dict(zip(frame.columns, strip_column_names(frame.columns, where=where), strict=True)))


def shorten_part(part: str) -> str:
    """A part, such as a long query, as one short line for use in names.

    >>> shorten_part("SELECT item,   system FROM ratings")
    'SELECT item, system FROM ratings'
    """
    return textwrap.shorten(part, 60, placeholder=" ...")
