"""A target, its folds and its held-out predictions: ratings of a fold never affect its predictions."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy import stats

from custodes.evaluate.ceiling.prediction_target import MODELS, target_of
from custodes.evaluate.rater_scores import rater_scores
from custodes.stats.learning import heldout
from tests.evaluate.ceiling.planted import ITEMS, SYSTEMS, Planted, ceiling_of, planted, rows
from tests.evaluate.judged_studies import judged


def test_kendall_is_that_of_scipy_on_every_fold_of_whole_items() -> None:
    scores = planted()
    seen: list[tuple[np.ndarray, np.ndarray]] = []
    original = heldout.predict_out_of_fold

    def recorded(x: Any, y: Any, fold: Any, **rest: Any) -> Any:
        predicted = original(x, y, fold, **rest)
        seen.append((fold, predicted))
        item = np.repeat(np.arange(ITEMS), SYSTEMS)
        assert all(len(set(item[fold == f]) & set(item[fold != f])) == 0 for f in range(5))
        return predicted

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heldout, "predict_out_of_fold", recorded)
        row = rows(ceiling_of(scores, aspect="style", resamples=0).prediction, "style", "features")
    fold, predicted = seen[0]
    y = scores["ann", "style"].ravel()
    taus = [stats.kendalltau(y[fold == f], predicted[fold == f]).statistic for f in range(5)]
    assert row["metrics"]["kendall"] == pytest.approx(np.mean(taus))
    by_item = [
        stats.kendalltau(*pair).statistic
        for pair in zip(scores["ann", "style"], predicted.reshape(ITEMS, SYSTEMS), strict=True)
    ]
    assert row["metrics"]["kendall_item"] == pytest.approx(np.mean(by_item))


@pytest.mark.parametrize("model", ["ridge", "xgboost"])
def test_plain_folds_leak_the_item_and_whole_items_do_not(model: Any) -> None:
    # Human ratings depend on the item alone, and each metric identifies the item.
    rng = np.random.default_rng(1)
    level = rng.normal(size=(40, 1)) + 0.3 * rng.normal(size=(40, SYSTEMS))
    scores: Planted = {("ann", ""): level}
    for k in range(40):
        scores[f"m{k:02}", ""] = rng.normal(size=(40, 1)) + np.zeros((40, SYSTEMS))
    whole, leaky = (
        rows(ceiling_of(scores, folds=folds, model=model, resamples=50, steps=1).prediction, "", "features")["metrics"]
        for folds in ("item", "plain")
    )
    assert leaky["kendall"] > 0.25
    assert leaky["kendall_low"] > 0.05
    assert abs(whole["kendall"]) < 0.2
    assert whole["kendall_low"] < 0.05
    assert leaky["kendall_item"] is None  # different models predict the outputs of an item
    assert whole["kendall_item"] is None  # The metrics do not distinguish the systems of an item.


def test_a_held_out_score_does_not_steer_its_own_prediction() -> None:
    # The predictions of a fold do not depend on the human ratings of its outputs.
    scores = planted()
    study = judged(scores)
    target = target_of(rater_scores(study), 0, "item", 0, np.random.default_rng(0))
    assert sorted(set(target.fold.tolist())) == list(range(5))
    for model in MODELS.values():
        fit = partial(model, seed=0)
        x = target.x[:, target.columns["metrics"]]
        once = heldout.predict_out_of_fold(x, target.y, target.fold, groups=target.groups, fit=fit)
        changed = np.where(target.fold == 2, -7 * target.y + 100, target.y)
        repeated = heldout.predict_out_of_fold(x, changed, target.fold, groups=target.groups, fit=fit)
        np.testing.assert_array_equal(once[target.fold == 2], repeated[target.fold == 2])
        assert (once[target.fold != 2] != repeated[target.fold != 2]).any()
