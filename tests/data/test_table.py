from __future__ import annotations

from contextlib import nullcontext
from datetime import date as day
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from custodes.data.loading.load import load_table
from custodes.data.table import (
    check_columns,
    check_unique,
    count_filled_cells,
    drop_duplicates,
    filter_rows,
    fitting_columns,
    has_duplicate_key,
    label_column,
    number_column,
    second_rows,
    select_part,
    shorten_part,
    to_polars,
    typed_column,
)
from custodes.errors import InputError
from tests.data.input_errors import input_error


def test_labels_are_stripped_strings_and_integers_that_a_dataframe_made_float_are_integers_again() -> None:
    assert label_column(pl.DataFrame({"a": [" x ", "001", "1.50"]}), "a", where="t").to_list() == ["x", "001", "1.50"]
    assert label_column(pl.DataFrame({"a": [1, 2]}), "aspect", where="t").to_list() == ["", ""]
    frame = pl.DataFrame({"a": [3.0, None, float("nan")], "b": [3.5, 2.0, 1.0], "c": [1e300, 1.0, 2.0]})
    assert label_column(frame, "a", where="t", empty=True).to_list() == ["3", "", ""]
    assert label_column(frame, "b", where="t").to_list() == ["3.5", "2.0", "1.0"]
    assert label_column(frame, "c", where="t").to_list()[1:] == ["1.0", "2.0"]
    for number, labels in ((2.0**53 - 1, ["9007199254740991", "-1"]), (2.0**53, ["9007199254740992.0", "-1.0"])):
        assert label_column(pl.DataFrame({"a": [number, -1.0]}), "a", where="t").to_list() == labels
    assert input_error(label_column, pl.DataFrame({"a": ["x", " ", None]}), "a", where="t") == (
        "t: column 'a' is empty in row 2, 3; fill in a label"
    )


@pytest.mark.parametrize("values", [[[1], [2]], [{"x": 1}, {"x": 2}], [b"\xff", b"a"]])
def test_what_is_no_label_raises(values: list[object]) -> None:
    with pytest.raises(InputError, match=r"^t: column 'a' holds .*, which cannot be labels; give text or numbers$"):
        label_column(pl.DataFrame({"a": values}), "a", where="t")


def test_numbers_from_text() -> None:
    column = pl.DataFrame({"score": [" 1.5", "-0.0", "NA", "none", "-", "", None, "1e3"]})
    numbers = number_column(column, "score", where="t").to_list()
    assert numbers == [1.5, 0.0, None, None, None, None, None, 1000.0]
    assert str(numbers[1]) == "0.0"


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        *((pl.Series([1, None]), [1.0, None]), (pl.Series([True, False]), [1.0, 0.0])),
        (pl.Series([1.5, float("nan")]), [1.5, None]),
        (pl.Series(["2", "x"][:1], dtype=pl.Categorical), [2.0]),
        (pl.Series([None, None]), [None, None]),
    ],
)
def test_numbers_from_other_columns(column: pl.Series, expected: list[float | None]) -> None:
    assert number_column(pl.DataFrame({"score": column}), "score", where="t").to_list() == expected


@pytest.mark.parametrize("value", ["inf", "-Infinity"])
def test_infinite_text_raises(value: str) -> None:
    with pytest.raises(
        InputError,
        match=r"^t: score is infinite or beyond 1e\+100 in row 2; a score must be finite \(empty where not rated\)$",
    ):
        number_column(pl.DataFrame({"score": ["1", value]}), "score", where="t")


@pytest.mark.parametrize(
    ("dtype", "cells", "expected"),
    [
        (pl.Boolean, ["TRUE", "yes", "1", " False", "no", "0", "", None], [True] * 3 + [False] * 3 + [None] * 2),
        (pl.Boolean, ["no", "maybe"], "x 'maybe' in row 2; allowed: true, false"),
        (pl.Int64, [1, 2.0], [1, 2]),
        (pl.Int64, [1.0, 2.5], "x 2.5 in row 2; allowed: a whole number"),
        (pl.Int64, ["1", ""], "x None in row 2; allowed: a whole number"),
        (
            pl.Float64,
            ["1", "1,5"],
            "x '1,5' in row 2 is not a number; write numbers with a decimal point and without thousands "
            "separators; if nothing was rated, leave the cell empty",
        ),
        (
            pl.Float64,
            ["1", "a,5"],
            "x 'a,5' in row 2 is not a number; write numbers with a decimal point and without thousands "
            "separators; if nothing was rated, leave the cell empty",
        ),
        (pl.Float64, [day(2020, 1, 1)], "column 'x' holds Date, expected numbers"),
        (pl.String, [1, None], ["1", ""]),
        (pl.String, ["a", "b\0"], "column 'x' ends in a NUL character in row 2; remove the character"),
    ],
)
def test_columns_of_a_type(dtype: Any, cells: list[Any], expected: list[Any] | str) -> None:
    frame = pl.DataFrame({"x": pl.Series(cells, strict=False)})
    if isinstance(expected, str):
        assert input_error(typed_column, frame, "x", dtype, where="t") == f"t: {expected}"
    else:
        column = typed_column(frame, "x", dtype, where="t")
        assert (column.to_list(), column.dtype, column.name) == (expected, dtype, "x")
        with pytest.raises(InputError) if dtype == pl.String else nullcontext():
            typed_column(frame, "x", dtype, where="t", empty=dtype != pl.String)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pl.Series([" 1 ", "x", "", None, " NA ", "2"]), (3, 2)),
        (pl.Series(["1", "x"], dtype=pl.Categorical), (2, 1)),
        (pl.Series([1, None]), (1, 1)),
        (pl.Series([True, None]), (1, 1)),
        (pl.Series([[1], None]), (1, 0)),
    ],
)
def test_filled_cells_and_numbers_are_counted(column: pl.Series, expected: tuple[int, int]) -> None:
    assert count_filled_cells(column) == expected


def test_roles_mark_second_opinions() -> None:
    for cells, expected in (
        (["Second ", "primary", "", None], ([True, False, False, False], ("role",))),
        (["owner", "primary"], "b.csv: role 'owner' in row 1; allowed: primary, second"),
        (["owner", "user"], ([False, False], ())),
    ):
        frame = pl.DataFrame({"role": cells, "nested": [[1]] * len(cells)})
        if isinstance(expected, str):
            assert input_error(second_rows, frame, where="b.csv") == expected
        else:
            mask, names = second_rows(frame, where="b.csv")
            assert (mask.to_list(), names) == expected


def test_a_part_is_the_only_one_or_the_named_one() -> None:
    assert select_part(None, ["a"], name="f", what="sheet") == "a"
    assert select_part("b", ["a", "b"], name="f", what="sheet") == "b"
    for part, parts, message in (
        (None, ["a", "b"], "holds 2 sheets; select one with f::SHEET: a, b"),
        (None, [], "holds 0 sheets; select one with f::SHEET: "),
        ("data", ["date"], "no sheet named 'data' (did you mean 'date'?); sheets: date"),
    ):
        assert input_error(select_part, part, parts, name="f", what="sheet") == f"f: {message}"


def test_long_parts_are_shortened_to_distinct_names() -> None:
    assert shorten_part(" select\n 1 ") == "select 1"
    assert shorten_part("x" * 60) == "x" * 60
    assert shorten_part("x " * 30 + "xx") == "x " * 27 + "x ..."


def test_the_most_complete_set_of_columns_is_required() -> None:
    alternatives = [("id", "text"), ("key", "text", "image")]
    fitting = partial(fitting_columns, alternatives=alternatives, where="t")
    assert fitting(pl.DataFrame({"id": [1], "text": [1], "texts": [1]})) == ("id", "text")
    assert input_error(fitting, pl.DataFrame({"key": [1], "image": [1], "txt": [1]})) == (
        "t: column 'text' is missing; columns: key, image, txt; needed: key, text, image"
    )


def test_rows_of_a_doubled_key_are_shown() -> None:
    frame = pl.DataFrame({"a": ["x", "y", "x", "x"], "b": ["", "", "", "z"], "score": [1.0, None, 2.0, 3.0]})
    check = partial(check_unique, where="t", what="thing", hint="mend it")
    check(frame, ["a", "score"])
    assert input_error(check, frame, ["a", "b"]) == ("t: the same thing occurs twice, in rows 1, 3 (a 'x'); mend it")
    twice = pl.DataFrame({"a": ["", "y", "", "y"], "b": "z"})
    assert input_error(check, twice, ["a", "b"]) == (
        "t: 2 things occur several times, such as in rows 1, 3 (b 'z'); mend it"
    )
    many = pl.DataFrame({"a": ["x"] * 7})
    assert input_error(check, many, ["a"]) == (
        "t: the same thing occurs twice, in rows 1, 2, 3, 4, 5 and 2 more (a 'x'); mend it"
    )


def test_unknown_columns_are_told_unless_they_look_like_a_slip() -> None:
    frame = pl.DataFrame({"item": [1], "comment": ["x"], "dataset": ["y"]})
    (note,) = check_columns(frame, where="t", required=("item",), optional=("aspect",))
    assert (note.rule, note.count, note.message) == ("unused-columns", 2, "t: columns not used: comment, dataset")
    slip = pl.DataFrame({"item": [1], "aspct": ["x"]})
    assert input_error(check_columns, slip, where="t", required=("item",), optional=("aspect",)) == (
        "t: column 'aspct' is unknown (did you mean 'aspect'?); rename it, or remove it"
    )


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"a": [1]}, "a dict is not a table; give a path or a dataframe (pandas, Polars, PyArrow, DuckDB)"),
        *(
            (
                pl.DataFrame({"b": [1], name: [1]}),
                f"the column name '{name}' is not allowed, because '*' and '^...$' are patterns that select columns; "
                "rename the column",
            )
            for name in ("*", "^$", "^a.*$")
        ),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "a column name occurs twice; rename one, or remove it"),
        (pd.DataFrame([[1, 2]], columns=[1, "1"]), "a column name occurs twice; rename one, or remove it"),
        (
            pd.DataFrame({"a": [1, 2], "b": ["x", "\ud800"]}, dtype=object),
            "column 'b' holds an unpaired surrogate, which is not valid text; correct the cell",
        ),
    ],
)
def test_what_is_no_table_raises(table: Any, message: str) -> None:
    assert input_error(to_polars, table, where="t") == f"t: {message}"


def test_column_names_may_begin_or_end_as_patterns_do() -> None:
    frame = pl.DataFrame({"^a": [1], "b$": [2], "**": [3]})
    assert to_polars(frame, where="t").equals(frame)


def test_cells_of_pandas_of_several_types_become_text() -> None:
    table = pd.DataFrame({"a": [1, "x", None], "b": [1.5, None, 2.0], "c": [1, 2, 3]}, dtype=object)
    assert to_polars(table, where="t").to_dict(as_series=False) == {
        "a": ["1", "x", None],
        "b": [1.5, None, 2.0],
        "c": [1, 2, 3],
    }


TEXT = {"x": pl.String, "y": pl.String}


@pytest.mark.parametrize("seed", range(5))
def test_rows_of_a_key_that_stands_twice_are_those_of_its_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame({name: rng.choice(list("abcd"), 9 * seed).tolist() for name in ("x", "y")}, schema=TEXT)
    for key in (["x"], ["x", "y"]):
        rows = frame.select(key).rows()
        assert has_duplicate_key(frame, key).to_list() == [rows.count(row) > 1 for row in rows]
    assert sorted(drop_duplicates(frame).rows()) == sorted(set(frame.rows()))


def test_rows_are_kept_as_filter_keeps_them_and_not_copied_where_all_are() -> None:
    frame = pl.DataFrame({"x": ["a", None, "b"]})
    assert filter_rows(frame, pl.col("x") != "").equals(
        frame.filter(pl.col("x") != "")
    )  # null does not satisfy the condition
    assert filter_rows(frame, pl.col("x") == "a").height == 1
    assert filter_rows(frame, pl.col("x").is_in(["a", "b", None], nulls_equal=True)) is frame


def test_bytes_are_text_where_they_are_utf8_and_else_null(tmp_path: Path) -> None:
    frame = pl.DataFrame({"item": [b"1", "é".encode()], "image": [b"\x89PNG", b"\x80"], "score": [1, 2]})
    expected = pl.DataFrame(
        {"item": ["1", "é"], "image": [None, None], "score": [1, 2]}, schema_overrides={"image": pl.String}
    )
    frame.write_parquet(tmp_path / "scores.parquet")
    assert_frame_equal(to_polars(frame, where="table"), expected, check_column_order=False)
    assert_frame_equal(load_table(tmp_path / "scores.parquet").frame, expected, check_column_order=False)
