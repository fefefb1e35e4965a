"""Tables declared once: columns with their ends, frames of the declared types, intervals and spreads from draws."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from custodes.answers.tables import (
    Table,
    View,
    count,
    flag,
    label,
    labels,
    p_value,
    probability,
    score,
    share,
    table,
    with_interval,
    with_sd,
)

COLUMNS = (
    label("metric", "its name"),
    labels("raters", "who"),
    flag("best", "whether"),
    count("n", "how many"),
    score("tau", "Kendall's", "Kendall τ", interval=True, best="high"),
    share("errors", "of all", sd=True, best="low"),
)
OWN = Table(doc="One row a metric.", columns=COLUMNS, by="aspect")


def test_a_column_stands_for_one_or_three() -> None:
    assert [column.names for column in COLUMNS[3:]] == [
        ("n",),
        ("tau", "tau_low", "tau_high"),
        ("errors", "errors_sd"),
    ]
    assert [column.label for column in COLUMNS] == ["Metric", "Raters", "Best", "N", "Kendall τ", "Errors"]
    assert [column.is_number for column in COLUMNS] == [False, False, False, True, True, True]
    assert [p_value("p", "").kind, probability("theta", "").kind] == ["p", "probability"]
    assert label("two_words", "").label == "Two words"


def test_types_follow_from_the_kinds() -> None:
    assert OWN.schema == {
        "aspect": pl.String,
        "metric": pl.String,
        "raters": pl.List(pl.String),
        "best": pl.Boolean,
        "n": pl.Int64,
        **dict.fromkeys(["tau", "tau_low", "tau_high", "errors", "errors_sd"], pl.Float64),
    }
    assert OWN.numbers == ("n", "tau", "errors")
    assert OWN.column("tau") is COLUMNS[4]
    assert OWN.frame({}).schema == OWN.schema


def test_a_frame_is_made_of_arrays_lists_and_single_values() -> None:
    made = OWN.frame(
        {
            "metric": ["a", "b"],
            "raters": [["x"], []],
            "best": [True, None],
            "n": 7,
            "tau": np.array([0.5, np.nan]),
            "tau_low": None,
            "tau_high": np.nan,
            "errors": np.float32(0.25),
            "errors_sd": pl.Series([1, 2]),
        },
        by="style",
    )
    assert dict(made.schema) == OWN.schema
    assert made.rows() == [
        ("style", "a", ["x"], True, 7, 0.5, None, None, 0.25, 1.0),
        ("style", "b", [], None, 7, None, None, None, 0.25, 2.0),
    ]
    # single values alone are one row; a grid is read row by row
    small = Table(doc="", columns=(label("name", ""), score("x", "")), by="")
    assert small.frame({"name": "a", "x": 1}).rows() == [("a", 1.0)]
    assert small.frame({"name": list("abcd"), "x": np.arange(4).reshape(2, 2)})["x"].to_list() == [0, 1, 2, 3]


def test_columns_that_were_not_declared_are_a_fault() -> None:
    small = Table(doc="", columns=(score("x", ""),), by="")
    for data in ({"x": [1.0], "y": [2.0]}, {"y": [2.0]}):
        with pytest.raises(AssertionError, match="y"):
            small.frame(data)


def test_ends_are_those_of_the_draws_beyond_the_first() -> None:
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(101, 3))
    made = with_interval("x", draws, 0.9)
    assert list(made) == ["x", "x_low", "x_high"]
    np.testing.assert_array_equal(made["x"], draws[0])
    np.testing.assert_allclose(made["x_low"], np.quantile(draws[1:], 0.05, axis=0))
    np.testing.assert_allclose(made["x_high"], np.quantile(draws[1:], 0.95, axis=0))
    assert np.isnan(with_interval("x", draws[:1], 0.9)["x_low"]).all()


def test_a_spread_takes_two_replications() -> None:
    made = with_sd("x", np.array([1.0, 2.0, 4.0]))
    assert made == {"x": pytest.approx(7 / 3), "x_sd": pytest.approx(np.std([1, 2, 4], ddof=1))}
    assert np.isnan(with_sd("x", np.array([1.0]))["x_sd"])


def test_a_view_says_the_names_where_it_has_no_labels() -> None:
    view = View(title="t", header=("a", "b"), rows=(("1", "2"),))
    assert (view.labels, view.numeric, view.best, view.more) == (("a", "b"), (False, False), frozenset(), "")


def test_a_declaration_is_kept_with_its_field() -> None:
    declared = table("Doc.", *COLUMNS, order="tau").metadata["table"]
    assert (declared.doc, declared.columns, declared.order, declared.by) == ("Doc.", COLUMNS, "tau", None)
