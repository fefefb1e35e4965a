"""Figures of a combined metric show the numbers of their result."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes import plots
from custodes.combining.combine import Combine
from custodes.combining.methods import METHODS
from custodes.errors import OptionError
from custodes.plots import combine, theme
from custodes.plots.combine import MOST, weight_rows
from custodes.stats.learning.objective import OBJECTIVES, Objective
from tests.plots.drawn import matches_in, rows_of


def no_ends(name: str) -> dict[str, pl.Expr]:
    return {f"{name}_{end}": pl.lit(None, dtype=pl.Float64) for end in ("low", "high")}


QUICK = ["ridge", "best", "equal", "pairwise"]
PICTURES = [plots.method_comparison, plots.combination_weights]


@pytest.fixture(scope="module")
def fitted() -> Combine:
    return cu.combine(cu.read("demo"), target="fluency", method=QUICK, repeats=1, resamples=40)


@pytest.fixture(scope="module")
def two_targets(fitted: Combine) -> Combine:
    """Concatenate the tables of two targets, as in the report."""
    tables: dict[str, Any] = {
        name: pl.concat([table, table.with_columns(target=pl.lit("coherence"))])
        for name, table in fitted.tables().items()
    }
    return replace(fitted, **tables)


def test_every_method_has_words() -> None:
    assert list(combine.LABELS) == [name for name in combine.LABELS if name in METHODS]
    assert set(combine.LABELS) == set(METHODS)


@pytest.mark.parametrize("picture", PICTURES)
def test_of_several_targets_one_is_drawn(two_targets: Combine, fitted: Combine, picture: Any) -> None:
    assert picture(two_targets, target="fluency").to_dict() == picture(fitted).to_dict()
    assert picture(two_targets, target="coherence").to_dict()["title"].endswith("(coherence)")
    with pytest.raises(OptionError, match="give target="):
        picture(two_targets)
    with pytest.raises(OptionError, match="did you mean 'fluency'"):
        picture(two_targets, target="fluence")


def test_methods_stand_best_on_top(fitted: Combine, tmp_path: Path) -> None:
    chart = plots.method_comparison(fitted)
    assert rows_of(chart) == fitted.comparison.to_dicts()
    marks = matches_in(
        chart, tmp_path, r"method: ([\w-]+); kendall: ([\d.]+); kendall_low: ([\d.]+); kendall_high: ([\d.]+)"
    )
    expected = fitted.comparison.select("method", "kendall", "kendall_low", "kendall_high").rows()
    assert marks == [(name, *(f"{value:.3f}" for value in values)) for name, *values in expected]
    text = plots.save(chart, tmp_path / "x.svg").read_text(encoding="utf-8")
    order = fitted.comparison.sort("kendall", descending=True)["method"].replace(combine.LABELS).to_list()
    places = [text.index(f">{name}<") for name in order]
    assert places == sorted(places)


def test_weights_go_from_the_largest_down(fitted: Combine, tmp_path: Path) -> None:
    chart = plots.combination_weights(fitted)
    rows = rows_of(chart)
    assert [abs(row["value"]) for row in rows] == sorted((abs(row["value"]) for row in rows), reverse=True)
    assert {row["metric"]: row["value"] for row in rows} == dict(fitted.weights.select("metric", "weight").iter_rows())
    fills = matches_in(chart, tmp_path, r'aria-roledescription="point"[^>]*fill="([^"]+)"')
    clear = fitted.weights.select((pl.col("weight_low") > 0) | (pl.col("weight_high") < 0)).to_series()
    assert fills == [theme.BLUE if value else combine.HOLLOW for value in clear]


@pytest.mark.parametrize(
    ("sizes", "remainder"),
    [
        (np.linspace(3, 1, MOST), None),
        (np.linspace(3, 0.126, MOST + 1), ("1 other", "0.13 in size")),
        (-np.linspace(3, 1, MOST + 4), ("4 others", "at most 1.2 in size")),
        (np.array([2.0, 0.0, 0.0]), ("2 others", "no weight")),
        (np.zeros(2), ("2 others", "no weight")),
    ],
)
def test_small_weights_are_counted(sizes: np.ndarray, remainder: tuple[str, str] | None) -> None:
    n = len(sizes)
    table = pl.DataFrame(
        {
            "target": ["t"] * n,
            "metric": [f"m{i}" for i in range(n)],
            "weight": sizes,
            "weight_low": sizes - 0.1,
            "weight_high": sizes + 0.1,
        }
    )
    rows = weight_rows(table)
    n_weights = min(int((sizes != 0).sum()), MOST)
    assert rows["value"].drop_nulls().to_list() == sizes[:n_weights].tolist()
    assert rows["place"].to_list() == list(range(rows.height))
    assert rows.filter(pl.col("rest").is_not_null()).select("metric", "rest").rows() == (
        [remainder] if remainder else []
    )


def test_importances_are_those_of_trees(fitted: Combine) -> None:
    weights = fitted.weights.with_columns(weight=pl.col("weight").abs(), **no_ends("weight"))
    model = msgspec.structs.replace(fitted.model, method="xgboost")
    assert "Importance" in str(plots.combination_weights(replace(fitted, weights=weights, model=model)).to_dict())
    assert "Importance" not in str(plots.combination_weights(fitted).to_dict())


def test_without_an_interval_points_say_nothing_of_chance(fitted: Combine, tmp_path: Path) -> None:
    plain = plots.combination_weights(replace(fitted, weights=fitted.weights.with_columns(**no_ends("weight"))))
    for chart in (plain, plots.combination_weights(fitted)):
        text = plots.save(chart, tmp_path / "x.svg").read_text(encoding="utf-8")
        assert all((f">{reading}<" in text) is (chart is not plain) for reading in combine.CLEAR)
        fills = set(re.findall(r'aria-roledescription="point"[^>]*fill="([^"]+)"', text))
        assert fills == ({theme.BLUE} if chart is plain else {theme.BLUE, combine.HOLLOW})


def test_pictures_show_the_objective_of_the_fit_and_name_it(tmp_path: Path) -> None:
    objective: Objective = "accuracy"
    assert len({combine.axis_of(name) for name in OBJECTIVES}) == len(OBJECTIVES)
    study = cu.read("demo")
    method = ["equal", "best"]
    result = cu.combine(study, target="fluency", method=method, objective=objective, repeats=1, resamples=20)
    text = plots.save(plots.method_comparison(result), tmp_path / "x.svg").read_text(encoding="utf-8")
    assert [name for name in OBJECTIVES if f">{combine.axis_of(name)}<" in text] == [objective]
    ends = (f"{objective}_low", f"{objective}_high")
    pattern = f"method: (\\w+); {objective}: ([\\d.]+); {ends[0]}: ([\\d.]+); {ends[1]}: ([\\d.]+);"
    marks = matches_in(plots.method_comparison(result), tmp_path, pattern)
    expected = result.comparison.select("method", objective, *ends).rows()
    assert marks == [(name, *(f"{value:.3f}" for value in values)) for name, *values in expected]


def test_without_intervals_there_are_the_points(fitted: Combine, tmp_path: Path) -> None:
    bare = replace(fitted, comparison=fitted.comparison.with_columns(**no_ends("kendall")))
    text = plots.save(plots.method_comparison(bare), tmp_path / "x.svg").read_text(encoding="utf-8")
    assert "NaN" not in text
    assert 'aria-roledescription="point"' in text
