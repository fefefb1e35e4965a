"""Views: what of a table is shown, in which order, and how a value is written."""

from __future__ import annotations

import polars as pl
import pytest

from custodes.answers.tables import Table, View, count, flag, label, labels, p_value, score, share
from custodes.answers.views import bounds, cell, number, parts, titled, views

TABLE = Table(
    doc="",
    columns=(
        label("metric", ""),
        count("n", "", essential=False),
        score("tau", "", "τ", interval=True, best="high"),
        score("error", "", best="low"),
        score("never", ""),
    ),
    by="aspect",
    order="tau",
)


def frame_of(*rows: tuple) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=TABLE.schema, orient="row")


FRAME = frame_of(
    ("style", "a", 3, 0.2, 0.1, 0.3, 2.0, None),
    ("style", "b", 3, 0.5, None, None, 2.0, None),
    ("style", "c", 3, None, None, None, 4.0, None),
    ("truth", "a", 3, 0.1, 0.05, 0.149, None, None),
)


def test_essential_columns_that_hold_something_one_view_an_aspect() -> None:
    style, truth = views(TABLE, FRAME, "the_metrics")
    assert (style.title, truth.title) == ("the metrics (style)", "the metrics (truth)")
    assert style.header == ("metric", "tau", "error")
    assert style.labels == ("Metric", "τ", "Error")
    assert style.numeric == (False, True, True)
    # the highest first, the undefined last; both of two equal errors are best
    assert style.rows == (("b", "0.500", "2"), ("a", "0.200 [0.10, 0.30]", "2"), ("c", "–", "4"))
    assert style.best == {(0, 1), (0, 2), (1, 2)}
    # what has a better end is shown even where it is undefined, and one row is not the best of anything
    assert truth.rows == (("a", "0.100 [0.050, 0.149]", "–"),)
    assert truth.best == frozenset()


def test_every_column_in_the_order_of_the_frame_on_request() -> None:
    style, _ = views(TABLE, FRAME, "metrics", every=True)
    assert style.header == ("metric", "n", "tau", "error", "never")
    assert [row[0] for row in style.rows] == ["a", "b", "c"]


def test_rows_left_out_are_counted() -> None:
    (view,) = views(TABLE, FRAME.filter(aspect="truth"), "metrics", left_out=3)
    assert view.more == "3 of 4 rows not shown (--table metrics)"


def test_a_table_may_be_set_in_its_own_way() -> None:
    own = Table(doc="", columns=TABLE.columns, by="aspect", view=lambda frame: [View(title="mine", header=(), rows=())])
    assert [view.title for view in views(own, FRAME, "metrics")] == ["mine"]
    assert len(list(views(own, FRAME, "metrics", every=True))) == 2


def test_parts_are_those_of_a_column_in_its_order() -> None:
    assert [name for name, _ in parts(FRAME, "aspect")] == ["style", "truth"]
    assert [name for name, _ in parts(FRAME, "")] == [""]
    ((name, rows),) = parts(FRAME.clear(), "aspect")
    assert (name, rows.height) == ("", 0)
    assert (titled("metrics", ""), titled("metrics", "style")) == ("metrics", "metrics (style)")


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (None, 2, "–"),
        (0.1234, 2, "0.12"),
        (3.0, 2, "3"),
        (-0.001, 2, "0.00"),
        (1234.5, 2, "1234"),
        (1e6, 2, "1e+06"),
        (-2345678.0, 2, "-2.346e+06"),
    ],
)
def test_numbers(value: float | None, digits: int, text: str) -> None:
    assert number(value, digits) == text


def test_ends_have_a_digit_more_where_they_are_close() -> None:
    assert bounds(0.1, 0.3) == " [0.10, 0.30]"
    assert bounds(0.1234, 0.2) == " [0.123, 0.200]"
    assert bounds(None, 0.3) == bounds(0.1, None) == ""


@pytest.mark.parametrize(
    ("column", "row", "text"),
    [
        (p_value("p", ""), {"p": 0.00012345}, "0.0001234"),
        (p_value("p", ""), {"p": 0.0}, "0"),
        (p_value("p", ""), {"p": 0.0123}, "0.012"),
        (share("x", "", sd=True), {"x": 0.25, "x_sd": 0.1}, "0.25 ± 0.10"),
        (share("x", "", sd=True), {"x": 0.25, "x_sd": None}, "0.250"),
        (labels("who", ""), {"who": ["a", "b"]}, "a, b"),
        (flag("yes", ""), {"yes": True}, "True"),
        (label("name", ""), {"name": None}, "–"),
    ],
)
def test_cells(column: object, row: dict[str, object], text: str) -> None:
    assert cell(row, column) == text  # type: ignore[arg-type]
