"""Properties that all methods share: prediction by row, unused metrics, human scales."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from custodes.combining.methods import METHODS
from tests.combining.methods.training_sets import fill, fitted, training


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("top", [1, 2])
def test_every_method_may_use_the_best_metrics_only(name: str, top: int) -> None:
    of = training()
    best = np.argsort([-stats.kendalltau(column, of.y).statistic for column in fill(of).T])[:top]
    formula = fitted(name, of.with_top(top))
    assert set(formula.used_positions) <= set(best)
    changed = of.x.copy()
    unused = np.setdiff1d(np.arange(5), best)
    changed[:, unused] = 1 - changed[:, unused]
    np.testing.assert_array_equal(formula.predict(changed), formula.predict(of.x))


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("p", [1, 5])
def test_the_planted_signal_is_learnt(name: str, p: int) -> None:
    train, fresh = training(1, p=p), training(2, p=p)
    assert stats.kendalltau(fitted(name, train).predict(fresh.x), fresh.y).statistic > 0.3


@pytest.mark.parametrize("name", METHODS)
def test_people_who_say_the_same_in_training_are_predicted_by_what_they_say(name: str) -> None:
    of = replace(training(), y=np.full(80, 3.5))
    np.testing.assert_allclose(fitted(name, of).predict(of.x), 3.5, atol=1e-5)


@pytest.mark.parametrize("name", METHODS)
def test_a_metric_without_a_score_in_training_does_not_matter(name: str) -> None:
    of = training()
    gone = np.column_stack([np.full(len(of.x), np.nan), of.x])
    formula = fitted(name, replace(of, x=gone))
    assert 0 not in formula.used_positions
    order = formula.predict(gone)
    x = np.column_stack([np.linspace(0, 1, len(of.x)), of.x])
    assert np.isfinite(formula.predict(x)).all()
    np.testing.assert_array_equal(formula.predict(x), order)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("scale", [1e-9, 4.0, 1e30])
def test_what_people_s_scale_is_does_not_matter(name: str, scale: float) -> None:
    of, fresh = training(), training(9).x[:20]
    rescaled = fitted(name, of).predict(fresh)
    moved = fitted(name, replace(of, y=(of.y + 8) * scale)).predict(fresh)
    np.testing.assert_allclose(moved / scale - 8, rescaled, atol=1e-5)
