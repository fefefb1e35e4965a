"""Tables as text: visible columns, number formats, bold best values, omitted rows."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from custodes.answers.tables import Table, View, count, flag, label, labels, p_value, score, share
from custodes.answers.views import cell, number, split_by_aspect, title_with_aspect, views

COLUMNS = (
    label("metric", "its name"),
    score("tau", "rank correlation", "τ-b", interval=True, best="high"),
    score("error", "of it", best="low"),
    count("n", "how many", essential=False),
    share("half", "a part", sd=True),
    score("never", "never known"),
)
MADE = Table(doc="One row a metric.", by="aspect", columns=COLUMNS, order="tau")
FRAME = pl.concat(
    MADE.frame(
        {
            "metric": ["a", "b", "c"],
            "tau": [0.1, 0.5, None],
            "tau_low": [0.08, 0.2, None],
            "tau_high": [0.12, 0.8, None],
            "error": [0.2, 0.3, 0.2],
            "n": [3, 1200, 0],
            "half": 0.25,
            "half_sd": [0.1, None, 0.1],
            "never": None,
        },
        aspect,
        name="main",
    )
    for aspect in ("x", "y")
)


def test_a_view_an_aspect_with_the_essential_columns_by_their_order() -> None:
    first, second = views(MADE, FRAME, "the_metrics")
    assert (first.title, second.title) == ("the metrics (x)", "the metrics (y)")
    assert first.rows == second.rows
    assert first.header == ("metric", "tau", "error", "half")  # column `never` is empty, `n` has a lower priority
    assert first.labels == ("Metric", "τ-b", "Error", "Half")
    assert first.numeric == (False, True, True, True)
    assert first.rows == (
        ("b", "0.500 [0.200, 0.800]", "0.300", "0.25"),
        ("a", "0.100 [0.080, 0.120]", "0.200", "0.25 ± 0.10"),
        ("c", "–", "0.200", "0.25 ± 0.10"),
    )
    assert first.more == ""


def test_the_best_values_are_marked_all_of_them_and_in_both_directions() -> None:
    view, _ = views(MADE, FRAME, "m")
    assert view.best == {(0, 1), (1, 2), (2, 2)}
    alone = next(iter(views(MADE, FRAME.head(1), "m")))
    assert alone.best == frozenset()  # with a single metric nothing is best


def test_a_table_may_be_set_in_another_way_unless_all_is_asked() -> None:
    table = Table(doc="One row.", by="", columns=COLUMNS, view=lambda frame: [View(title="own", header=(), rows=())])
    assert [view.title for view in views(table, FRAME, "m")] == ["own"]
    assert [view.title for view in views(table, FRAME, "m", all_columns=True)] == ["m"]


def test_an_empty_table_without_aspects_is_one_empty_view() -> None:
    (only,) = views(MADE, MADE.frame({}, name="m"), "m")
    assert only.title == "m"
    assert only.rows == ()
    assert [name for name, _ in split_by_aspect(FRAME, "aspect")] == ["x", "y"]
    assert [name for name, _ in split_by_aspect(FRAME, "")] == [""]
    assert title_with_aspect("m", "") == "m"


def test_kinds_of_values_as_text() -> None:
    def formatted(column: object, digits: int = 3, **row: object) -> str:
        return cell({column.name: None, **row}, column, digits)  # type: ignore[attr-defined, arg-type]

    assert formatted(labels("l", "names"), l=["a", "b"]) == "a, b"
    assert formatted(flag("f", "whether"), f=False) == "no"
    assert formatted(p_value("p", "of a test"), p=0.00012344) == "≤ .001"
    assert formatted(p_value("p", "of a test"), p=0.0) == "≤ .001"
    assert formatted(p_value("p", "of a test"), p=0.04) == ".040"
    assert formatted(score("s", "a number", interval=True), 5, s=0.0002, s_low=0.0001, s_high=0.0003) == (
        "0.00020 [0.00010, 0.00030]"
    )
    assert formatted(score("s", "a number", interval=True), 2, s=0.0002, s_low=-0.1, s_high=0.1) == "0.00 [-0.10, 0.10]"
    assert formatted(score("s", "a number"), s=None) == "–"
    assert formatted(score("s", "a number", interval=True), s=0.5, s_low=None, s_high=None) == "0.500"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((0.12345, "0.123"), (-0.0004, "-0.00040"), (-1e-17, "0.000"), (3.0, "3.000"), (1234.5, "1234.500")),
        *((2e7, "2e+07"), (-0.5, "-0.500"), (None, "–")),
    ],
)
def test_numbers_stay_short(value: float | None, text: str) -> None:
    assert number(value, digits=3) == text


@given(st.floats(-1e9, 1e9, allow_nan=False))
def test_numbers_read_back_to_what_they_were(value: float) -> None:
    text = number(value, digits=3)
    assert float(text) == pytest.approx(value, rel=1e-3, abs=6e-4)
    assert "e" not in text or abs(value) >= 1e6


def test_what_has_a_better_end_is_shown_even_where_it_is_undefined() -> None:
    bare = FRAME.with_columns(pl.lit(None, pl.Float64).alias(name) for name in ("tau", "tau_low", "tau_high", "error"))
    view, _ = views(MADE, bare, "m")
    assert view.header == ("metric", "tau", "error", "half")
    assert [row[1:3] for row in view.rows] == [("–", "–")] * 3
    assert view.best == frozenset()


def test_all_numbers_of_a_column_have_equally_many_digits() -> None:
    table = Table(doc="t", by="", columns=(score("tau", "rank correlation", interval=True), score("share", "a part")))
    data = {"tau": [1, 0.62, 0.3], "tau_low": [1, 0.60, 0.1], "tau_high": [1, 0.64, 0.5], "share": [1, 0.25, 0.333]}
    (view,) = views(table, table.frame(data, name="t"), "t")
    assert [tau for tau, _ in view.rows] == ["1.000 [1.000, 1.000]", "0.620 [0.600, 0.640]", "0.300 [0.100, 0.500]"]
    assert [share for _, share in view.rows] == ["1.000", "0.250", "0.333"]
