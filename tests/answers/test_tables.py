"""Declared tables: frames have the declared types and columns, and no others."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest

from custodes.annotate.rehearsal import Rehearsal
from custodes.annotate.study_status import Status
from custodes.answers.tables import (
    Table,
    count,
    flag,
    label,
    labels,
    p_value,
    probability,
    score,
    share,
    with_interval,
    with_sd,
)
from custodes.answers.views import views
from custodes.reporting.tables import column_specs
from custodes.stats.intervals import ANY
from tests.questions import RESULTS

MADE = Table(
    doc="One row a metric.",
    by="aspect",
    columns=(
        label("metric", "its name"),
        labels("friends", "others"),
        flag("good", "whether"),
        count("n", "how many", "n"),
        score("tau", "rank correlation", "τ", interval=True, best="high"),
        share("half", "a part", sd=True),
        p_value("p_value", "of a test"),
        probability("odds", "posterior"),
    ),
)
SCHEMA = {
    "aspect": pl.String,
    "metric": pl.String,
    "friends": pl.List(pl.String),
    "good": pl.Boolean,
    "n": pl.Int64,
    "tau": pl.Float64,
    "tau_low": pl.Float64,
    "tau_high": pl.Float64,
    "half": pl.Float64,
    "half_sd": pl.Float64,
    "p_value": pl.Float64,
    "odds": pl.Float64,
}
DATA = {
    "metric": ["a", "b"],
    "friends": [["b"], []],
    "good": [True, None],
    "n": np.array([3, 4]),
    "tau": np.array([0.5, np.nan]),
    "tau_low": None,
    "tau_high": np.nan,
    "half": 1,
    "half_sd": np.float32(0.25),
    "p_value": [0.1, None],
    "odds": np.array([1, 0]),
}


def test_a_frame_is_typed_even_where_it_is_empty() -> None:
    assert MADE.schema == SCHEMA
    assert MADE.frame({}, name="main").schema == SCHEMA
    assert MADE.frame({}, "fluency", name="main").height == 0
    assert MADE.frame(DATA, "fluency", name="main").schema == SCHEMA


def test_undefined_is_null_and_single_values_are_repeated() -> None:
    outcome = MADE.frame(DATA, "fluency", name="main")
    assert outcome.rows() == [
        ("fluency", "a", ["b"], True, 3, 0.5, None, None, 1.0, 0.25, 0.1, 1.0),
        ("fluency", "b", [], None, 4, None, None, None, 1.0, 0.25, None, 0.0),
    ]
    assert not any(outcome[name].is_nan().any() for name, kind in SCHEMA.items() if kind == pl.Float64)


@pytest.mark.parametrize("change", [{"other": 1}, {"metric": ...}])
def test_other_columns_than_declared_are_refused_by_table_and_column(change: dict[str, object]) -> None:
    options = {name: values for name, values in (DATA | change).items() if values is not ...}
    (column,) = change
    message = f"^table 'main': missing or undeclared columns {column}; declared columns: aspect, metric, "
    with pytest.raises(ValueError, match=message):
        MADE.frame(options, "fluency", name="main")


def test_rows_and_columns_make_the_same_table() -> None:
    free = Table(doc="Two rows.", by="", columns=(count("n", "how many"), label("name", "text")))
    rows = [{"n": 1, "name": "a"}, {"n": 2, "name": "b"}]
    outcome = free.frame(iter(rows), name="main")
    assert outcome.equals(free.frame({"n": [1, 2], "name": ["a", "b"]}, name="main"))
    assert outcome.to_dicts() == rows
    assert free.frame(iter(()), name="main").equals(free.frame({}, name="main"))
    with pytest.raises(ValueError, match="table 'main': missing or undeclared columns name"):
        free.frame([{"n": 1}], name="main")


def test_intervals_are_students_from_the_draws_after_the_first() -> None:
    draws = np.concatenate([[[7.0, np.nan]], np.stack([np.arange(101.0), np.full(101, np.nan)], axis=1)])
    outcome = with_interval("x", draws, 0.9, clusters=10, bounds=ANY)
    assert list(outcome) == ["x", "x_low", "x_high"]
    np.testing.assert_array_equal(outcome["x"], [7.0, np.nan])
    reach = 1.8331 * np.arange(101.0).std(ddof=1) * np.sqrt(10 / 9)  # Student's t table: 9 degrees of freedom, 90 %
    np.testing.assert_allclose(outcome["x_low"], [7 - reach, np.nan], rtol=1e-4)
    np.testing.assert_allclose(outcome["x_high"], [7 + reach, np.nan], rtol=1e-4)
    # Without resamples there is no interval.
    assert np.isnan(with_interval("x", draws[:1], 0.9, clusters=10, bounds=ANY)["x_low"]).all()


def test_spread_over_replications() -> None:
    outcome = with_sd("x", np.array([1.0, 2.0, 6.0]))
    assert outcome == {"x": 3.0, "x_sd": pytest.approx(np.sqrt(7))}
    assert np.isnan(with_sd("x", np.array([1.0]))["x_sd"])


def test_help_of_a_result_names_every_column_that_it_declares() -> None:
    for result in RESULTS.values():
        text = result.__doc__ or ""
        for name, value in result.table_declarations().items():
            assert f"\n{name} : polars.DataFrame\n    {value.doc}\n" in text
            for column in value.columns:
                assert f"\n    - `{', '.join(column.names)}`: {column.doc}\n" in text


# The documentation marks units whatever the declared kind; Elo points are log odds.
IN_POINTS = re.compile(r"\bpoints\b(?!.* odds)")
DIFFERENCE = re.compile(
    r"\bshare\b.* (minus|less) |^its share of wins minus|^accuracy minus|^`correct` minus|^p_win −|^flips .* minus"
    r"|^the margin\b"
)
WITH_TABLES = {**RESULTS, "status": Status, "rehearsal": Rehearsal}
DECLARED = [
    pytest.param(table, id=f"{question}.{name}")
    for question, result in WITH_TABLES.items()
    for name, table in result.table_declarations().items()
]


@pytest.mark.parametrize("declared", DECLARED)
def test_points_and_differences_of_proportions_carry_their_unit(declared: Table) -> None:
    frame = declared.frame({name: None for name in declared.schema if name != declared.by}, "all", name="main")
    assert frame.columns == list(declared.schema)  # column names in files have no unit
    (view,) = views(declared, frame, "title", all_columns=True)
    assert [column["label"] for column in column_specs(declared.columns)] == list(
        view.labels
    )  # labels in papers and pages
    for value, header, words in zip(declared.columns, view.header, view.labels, strict=True):
        unit = ""
        if value.is_number and value.kind not in ("share", "probability"):
            difference = "−1 to 1" if DIFFERENCE.search(value.doc) else ""
            unit = "points" if IN_POINTS.search(value.doc) else difference or value.unit
        assert header == (f"{value.name} ({unit})" if unit in ("points", value.unit) and unit else value.name)
        assert words.endswith(f" ({unit})" if unit else ""), value.name
