"""Weights by Bayesian optimisation: of the top metrics alone, and better than equal ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.combining.methods.training_sets import fill, fitted, tau, training


@pytest.mark.parametrize("top", [1, 2, None])
def test_gp_weighs_the_top_metrics_alone(top: int | None) -> None:
    of = replace(training(), top=top)
    formula = fitted("gp", of)
    best = np.argsort([-tau(column, of.y) for column in fill(of).T])[:top]
    assert set(formula.used) <= set(best)
    assert len(formula.used) <= (top or 5)
    assert tau(formula.predict(of.x), of.y) >= tau(fitted("equal", of).predict(of.x), of.y) - 0.05
