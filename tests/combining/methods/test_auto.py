from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from custodes.combining.methods import METHODS
from custodes.stats.learning import boost
from custodes.stats.learning.folds import splits
from tests.combining.methods.training_sets import fill, fitted, training

AUTO = [name for name, method in METHODS.items() if method.by_default and name != "auto"]
BLENDS = ("blend", "half-blend")


@pytest.mark.parametrize(("seed", "by"), [(5, "spearman"), (0, "kendall"), (1, "accuracy")])
def test_auto_is_the_better_blend_unless_another_is_clearly_better_in_inner_folds(seed: int, by: Any) -> None:
    of = training(seed, items=30, by=by)
    formula = fitted("auto", of)
    scores: dict[str, list[float]] = {name: [] for name in (*AUTO, "half-blend")}
    for train, test in splits(replace(of, rng=np.random.default_rng(0)).inner_folds()):
        predictions = {name: fitted(name, of.part(train)).predict(of.x[test]) for name in AUTO if name != "blend"}
        predictions["blend"] = (predictions["best"] + predictions["ridge"] + predictions["xgboost"]) / 3
        predictions["half-blend"] = (predictions["best"] + predictions["blend"]) / 2
        for name, predicted in predictions.items():
            scores[name].append(of.part(test).score(predicted[np.newaxis]).item())
    base = max(BLENDS, key=lambda name: np.mean(scores[name]))
    lead = {name: np.subtract(scores[name], scores[base]) for name in scores if name != base}
    clear = {name: d.mean() for name, d in lead.items() if d.mean() > 4 * d.std(ddof=1) / np.sqrt(5)}
    assert formula.chosen == max(clear, key=lambda name: clear[name], default=base)
    np.testing.assert_array_equal(formula.predict(of.x), fitted(formula.chosen, of).predict(of.x))


def test_auto_leaves_the_blend_where_another_method_is_clearly_better(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(boost.SETTINGS, "rounds", 40)
    of = training(items=60)
    x = fill(of)
    assert fitted("auto", replace(of, x=x, y=np.abs(x[:, 0] - 0.5))).chosen in ("xgboost", *BLENDS)
    straight = fitted("auto", replace(of, x=x, y=x @ [3, 1, -2, 1, -1]))
    assert straight.chosen in ("ridge", "pairwise")


def test_auto_shrinks_to_the_best_metric_where_the_others_only_add_noise() -> None:
    rng = np.random.default_rng(2)
    of = training(items=30)
    x = rng.random((len(of.y), 25))
    shrunk = fitted("auto", replace(of, x=x, y=x[:, 0] + 0.5 * rng.normal(size=len(x))))
    assert shrunk.chosen in ("half-blend", "best")
