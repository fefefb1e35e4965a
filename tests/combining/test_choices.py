"""Scores for choices exclude both folds from the fit; reference: separate fits."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from scipy import stats

from custodes.combining import choices, trial
from custodes.combining.methods import METHODS
from custodes.combining.settings import Terms
from custodes.combining.task import Task, outer_folds, task
from custodes.combining.training import fit_and_predict, training_data
from custodes.combining.trial import cross_validate
from custodes.progress import silent
from tests.combining.runs import generator, terms
from tests.combining.tasks import ITEMS, planted, table_of_items
from tests.evaluate.judged_studies import judged

pytestmark = pytest.mark.usefixtures("small")

AMONG = METHODS["auto"].among


def clustered(seed: int = 0) -> Task:
    """Return items in clusters of two, with a few outputs without human ratings."""
    scores = planted()
    scores["ann", ""][:3, 1] = np.nan
    scores["ann", ""][3:] += np.random.default_rng(seed).normal(size=scores["ann", ""][3:].shape)
    items = table_of_items(cluster=[f"c{k // 2}" for k in range(ITEMS)])
    return task(judged(scores).describe(items=items).select(), target=None)


def brute(of: Task, train: np.ndarray, test: np.ndarray) -> dict[str, float]:
    """Return Kendall's tau of each method on the held-out outputs, with a separate fit."""
    scales, training = training_data(of, terms("auto"), train, generator(), {})
    x, y = scales.apply(of.rows(np.flatnonzero(test.ravel()))), of.human[test]
    predictions = {method.name: method.fit(training).predict(x) for method in AMONG if not method.mean_of}
    predictions["blend"] = (predictions["best"] + predictions["ridge"] + predictions["xgboost"]) / 3
    predictions["half-blend"] = (predictions["best"] + predictions["blend"]) / 2
    return {name: float(stats.kendalltau(y, prediction).statistic) for name, prediction in predictions.items()}


def test_in_pairs_is_a_fit_without_both_folds_for_each() -> None:
    of = clustered()
    folds = outer_folds(of, "item", repeats=2, rng=generator())
    scores = choices.nested_fold_scores(of, terms("auto"), folds, AMONG, generator(), silent)
    assert sorted(scores) == [(r, k) for r in range(2) for k in range(5)]
    for r, (k, j) in ((0, pair) for pair in permutations(range(5), 2)):
        expected = brute(of, of.rated & (folds[r] != j) & (folds[r] != k), of.rated & (folds[r] == j))
        place = [fold for fold in range(5) if fold != k].index(j)
        assert {name: values[place] for name, values in scores[r, k].items()} == pytest.approx(expected, abs=1e-9)


def test_what_is_chosen_by_never_saw_the_fold_that_it_is_for() -> None:
    of, other = clustered(), clustered()
    (fold,) = outer_folds(of, "item", repeats=1, rng=generator())
    out = of.rated & (fold == 2)
    human, scores = other.human.copy(), other.metrics.scores.copy()
    human[out] = np.random.default_rng(1).normal(size=out.sum())
    scores[:, out] *= 50
    other = replace(other, human=human, metrics=replace(other.metrics, scores=scores))
    before, after = (
        choices.nested_fold_scores(data, terms("auto"), [fold], AMONG, generator(), silent) for data in (of, other)
    )
    for name in before[0, 2]:
        np.testing.assert_array_equal(before[0, 2][name], after[0, 2][name])
        assert (before[0, 1][name] != after[0, 1][name]).any()
    for unit in np.unique(of.design.units):  # whole clusters are held out
        assert len(np.unique(fold[of.design.units == unit][fold[of.design.units == unit] >= 0])) == 1


def test_the_model_is_chosen_by_the_fits_of_the_first_repeat() -> None:
    of = clustered()
    result = cross_validate(of, terms("auto", "ridge", repeats=2), generator(), silent)
    for k in range(5):
        expected = brute(of, of.rated & (result.folds[0] != k), of.rated & (result.folds[0] == k))
        assert {name: values[k] for name, values in result.inner.items()} == pytest.approx(expected, abs=1e-9)
    # Other methods, repeats and folds change nothing.
    second = cross_validate(of, terms("auto", "xgboost", folds="system"), generator(), silent)
    for name, values in result.inner.items():
        np.testing.assert_array_equal(second.inner[name], values)
    assert not cross_validate(of, terms("ridge", "best"), generator(), silent).inner


def test_no_fit_is_made_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    fits: list[tuple[int, int]] = []

    def spy(of: Task, terms: Terms, methods: Any, parts: Any, **rest: Any) -> object:
        fits.append((len(methods), len(parts)))
        return fit_and_predict(of, terms, methods, parts, **rest)

    monkeypatch.setattr(choices, "fit_and_predict", spy)
    monkeypatch.setattr(trial, "fit_and_predict", spy)
    names = ("auto", *(method.name for method in AMONG))
    cross_validate(clustered(), terms(*names, repeats=2), generator(), silent)
    # Ten pairs of folds and five folds, in two repeats; the means of other methods reuse these fits.
    assert sorted(fits) == [(sum(not method.mean_of for method in AMONG), 20), (len(names), 10)]
