"""Information in other human aspects that no metric has, and the features that the lasso keeps."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from custodes.evaluate.ceiling.ceiling import Ceiling
from tests.evaluate.ceiling.planted import ITEMS, SYSTEMS, ceiling_of, planted


def test_the_ratio_of_errors_falls_where_people_know_more(planted_ceiling: Ceiling) -> None:
    style = planted_ceiling.information.filter(pl.col("target") == "style")
    assert style["mse_ratio"][0] == pytest.approx(1)  # With the largest penalty no feature is used.
    best = style.row(int(style["mse_both"].arg_min()), named=True)
    # Residual variance: 1.25 from metrics alone; truth explains 80 % of the hidden component, whose variance is 1.
    assert best["mse_metrics"] == pytest.approx(1.25, rel=0.15)
    assert best["mse_ratio"] == pytest.approx(0.45 / 1.25, abs=0.1)
    assert best["mse_ratio_low"] < best["mse_ratio"] < best["mse_ratio_high"] < 0.6
    np.testing.assert_allclose(style["mse_ratio"], style["mse_both"] / style["mse_metrics"])
    scores = planted()
    scores["ann", "truth"] = np.random.default_rng(9).normal(size=(ITEMS, SYSTEMS))
    nothing = ceiling_of(scores, resamples=0).information.filter(pl.col("target") == "style")
    assert nothing["mse_ratio"].is_between(0.98, 1.02).all()


def test_the_lasso_keeps_the_planted_metrics(planted_ceiling: Ceiling) -> None:
    lasso = planted_ceiling.lasso.filter(pl.col("target") == "style")
    assert lasso["alpha"].is_sorted(descending=True)
    entry = {name: rows.filter(pl.col("weight") != 0)["alpha"].max() for (name,), rows in lasso.group_by("rater")}
    assert set(entry) == {"first", "second", "noise", "more-noise", "human:truth"}
    assert entry["first"] > entry["second"] > (entry["noise"] or 0)
    assert dict(lasso.select("rater", "kind").rows())["human:truth"] == "human"
    last = lasso.filter(pl.col("alpha") == lasso["alpha"].min())
    weight = dict(last.select("rater", "weight").rows())
    assert weight["first"] == pytest.approx(2 / 2.5, abs=0.08)  # 2 a, for a target with standard deviation 2.5
