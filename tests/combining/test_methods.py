"""Methods of combination: what each learns, against references, and that no method finds what is not there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from custodes.combining.methods import METHODS, Formula, Lesson, gaussian_process
from custodes.stats.learning import boost, ridge
from custodes.stats.learning.folds import splits

SEEDS = st.integers(0, 2**32 - 1)
LINEAR = ("best", "equal", "ridge", "pairwise", "gp")
AUTO = [name for name, own in METHODS.items() if own.in_auto]
WEIGHED = ("best", "equal", "pairwise", "gp")
"""Methods whose prediction is an increasing map of a weighted sum."""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaussian_process, "ITERATIONS", 5)
    monkeypatch.setitem(boost.SETTINGS, "rounds", 15)


def lesson(seed: int = 0, *, items: int = 20, systems: int = 4, p: int = 5, by: Any = "kendall") -> Lesson:
    """People's ratings are 2 x_0 + x_1 + noise; a tenth of the scores is missing."""
    rng = np.random.default_rng(seed)
    n = items * systems
    x = rng.random((n, p))
    y = 2 * x[:, 0] + x[:, min(1, p - 1)] + 0.3 * rng.normal(size=n)
    x[rng.random(x.shape) < 0.1] = np.nan
    item = np.repeat(np.arange(items), systems)
    return Lesson(x=x, y=y, items=item, groups=item // 2, by=by, top=None, rng=np.random.default_rng(seed))


def fill(of: Lesson) -> np.ndarray:
    return np.where(np.isnan(of.x), np.nanmean(of.x, axis=0), of.x)


def fitted(name: str, of: Lesson) -> Formula:
    return METHODS[name].fit(replace(of, rng=np.random.default_rng(0)))


# --- a formula -----------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(seed=SEEDS)
def test_a_row_is_predicted_the_same_to_the_bit_alone_and_among_others(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = int(rng.integers(1, 60))
    x = rng.random((17, p))
    x[rng.random(x.shape) < 0.2] = np.nan
    formula = Formula(
        weights=rng.normal(size=p) * 10.0 ** rng.integers(-3, 4, p),
        fill=rng.random(p),
        low=rng.random(p) / 3,
        high=1 - rng.random(p) / 3,
        importance=np.zeros(p),
        intercept=rng.normal(),
    )
    together = formula.predict(x)
    alone = np.concatenate([formula.predict(row[np.newaxis]) for row in x])
    assert together.tobytes() == alone.tobytes()
    assert formula.predict(np.asfortranarray(x)).tobytes() == together.tobytes()
    assert formula.predict(np.repeat(x, 40, axis=0))[::40].tobytes() == together.tobytes()
    assert formula.predict(x[::-1])[::-1].tobytes() == together.tobytes()


@pytest.mark.parametrize("name", METHODS)
def test_every_method_predicts_a_row_the_same_alone_and_among_others(name: str) -> None:
    of = lesson(p=12)
    formula = fitted(name, of)
    together = formula.predict(of.x)
    assert np.isfinite(together).all()
    alone = np.concatenate([formula.predict(row[np.newaxis]) for row in of.x[:9]])
    assert together[:9].tobytes() == alone.tobytes()
    assert formula.predict(np.asfortranarray(of.x)).tobytes() == together.tobytes()


@pytest.mark.parametrize("name", METHODS)
def test_the_metrics_not_used_do_not_matter(name: str) -> None:
    of = lesson(p=8)
    formula = fitted(name, of)
    changed = of.x.copy()
    others = np.setdiff1d(np.arange(8), formula.used)
    changed[:, others] = 1 - changed[:, others]
    np.testing.assert_array_equal(formula.predict(changed), formula.predict(of.x))


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("p", [1, 5])
def test_the_planted_signal_is_learnt(name: str, p: int) -> None:
    train, fresh = lesson(1, p=p), lesson(2, p=p)
    assert stats.kendalltau(fitted(name, train).predict(fresh.x), fresh.y).statistic > 0.3


# --- against references --------------------------------------------------------------------------------------------


def tau(a: np.ndarray, b: np.ndarray) -> float:
    return float(stats.kendalltau(a, b).statistic)


@pytest.mark.parametrize(
    ("by", "agreement"),
    [
        ("kendall", tau),
        ("spearman", lambda a, b: stats.spearmanr(a, b).statistic),
        ("pearson", lambda a, b: stats.pearsonr(a, b).statistic),
    ],
)
@pytest.mark.parametrize("seed", range(5))
def test_best_is_the_metric_that_agrees_most(by: Any, agreement: Any, seed: int) -> None:
    of = lesson(seed, by=by)
    x = fill(of) ** np.array([1, 1, 20, 1, 1])  # a skewed column tells ranks from values
    of = replace(of, x=x, y=of.y + 2 * x[:, 2])
    assert fitted("best", of).used.tolist() == [int(np.argmax([agreement(column, of.y) for column in x.T]))]


def test_best_by_accuracy_looks_within_items_alone() -> None:
    level = np.repeat(np.random.default_rng(0).normal(size=20), 2)
    within = np.tile([0.0, 1.0], 20)
    x = np.column_stack([level / level.max() / 2 - 0.1 * within, 0.2 + 0.5 * within])
    of = replace(lesson(systems=2), x=x, y=10 * level + within)
    assert fitted("best", replace(of, by="accuracy")).used.tolist() == [1]
    assert fitted("best", replace(of, by="kendall")).used.tolist() == [0]


def test_equal_is_the_mean_of_what_varies() -> None:
    of = lesson()
    x = np.column_stack([of.x, np.full(len(of.x), 0.5)])
    weights = fitted("equal", replace(of, x=x)).weights
    assert weights[5] == 0
    assert weights[0] > 0
    np.testing.assert_allclose(weights[:5], weights[0])


def test_ridge_is_that_of_its_stats() -> None:
    of = lesson(p=7)
    learnt = ridge.ridge(of.x, of.y, groups=of.groups)
    np.testing.assert_allclose(fitted("ridge", of).predict(of.x), ridge.predict(learnt, of.x), rtol=0, atol=1e-12)
    edges = np.array([np.zeros(7), np.ones(7), np.full(7, np.nan)])
    np.testing.assert_allclose(fitted("ridge", of).predict(edges), ridge.predict(learnt, edges), rtol=0, atol=1e-12)


def test_the_limits_of_ridge_stay_within_the_scale() -> None:
    of = lesson(p=3)
    x = of.x.copy()
    x[:, 2] = np.where(np.arange(len(x)) < 2, 1.0, 0.01 * x[:, 2])  # an outlier: three deviations are less than 1
    formula = fitted("ridge", replace(of, x=x))
    assert (formula.low >= 0).all()
    assert (formula.high <= 1).all()
    assert formula.high[2] < 0.7
    assert formula.high[0] == 1
    assert (formula.fill >= 0).all()
    assert (formula.fill <= 1).all()


def trained(x: np.ndarray, y: np.ndarray) -> Any:
    """The settings of the house, given to XGBoost itself."""
    options = {"max_depth": 2, "learning_rate": 0.05, "subsample": 0.8, "seed": 0, "nthread": 1, "tree_method": "hist"}
    model = xgboost.train(options, xgboost.DMatrix(x, label=y), num_boost_round=15)
    return lambda rows: model.predict(xgboost.DMatrix(rows)).astype(np.float64)


def test_xgboost_is_xgboost_and_blend_its_mean_with_ridge() -> None:
    of, fresh = lesson(3), lesson(4)
    reference = trained(of.x, of.y)(fresh.x)
    np.testing.assert_allclose(fitted("xgboost", of).predict(fresh.x), reference, atol=1e-6)
    learnt = ridge.ridge(of.x, of.y, groups=of.groups)
    clipped = trained(np.clip(of.x, learnt.low, learnt.high), of.y)(np.clip(fresh.x, learnt.low, learnt.high))
    both = (ridge.predict(learnt, fresh.x) + clipped) / 2
    np.testing.assert_allclose(fitted("blend", of).predict(fresh.x), both, atol=1e-6)


def test_trees_keep_only_what_they_split_on_and_predict_the_same() -> None:
    of = lesson(p=2)
    idle = np.full((len(of.x), 3), 0.5)
    whole = fitted("xgboost", replace(of, x=np.column_stack([idle, of.x])))
    assert whole.used.tolist() == [3, 4]
    assert whole.importance.sum() == pytest.approx(1)
    alone = fitted("xgboost", of)
    rows = np.column_stack([idle + 0.3, of.x])
    np.testing.assert_array_equal(whole.predict(rows), alone.predict(of.x))


@pytest.mark.parametrize("name", METHODS)
def test_people_who_say_the_same_in_training_are_predicted_by_what_they_say(name: str) -> None:
    of = replace(lesson(), y=np.full(80, 3.5))
    np.testing.assert_allclose(fitted(name, of).predict(of.x), 3.5, atol=1e-5)


@pytest.mark.parametrize("name", METHODS)
def test_a_metric_without_a_score_in_training_does_not_matter(name: str) -> None:
    of = lesson()
    gone = np.column_stack([np.full(len(of.x), np.nan), of.x])
    formula = fitted(name, replace(of, x=gone))
    if name != "gp":  # it draws a weight for it, of which nothing is left but the intercept
        assert 0 not in formula.used
    order = formula.predict(gone)
    held = np.column_stack([np.linspace(0, 1, len(of.x)), of.x])
    assert np.isfinite(formula.predict(held)).all()
    if name != "gp":
        np.testing.assert_array_equal(formula.predict(held), order)


# --- order and scale -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WEIGHED)
@pytest.mark.parametrize("against", [False, True])
def test_the_prediction_rises_with_the_weighted_sum_even_against_people(name: str, against: bool) -> None:
    of = lesson()
    of = replace(of, y=-of.y) if against else of
    formula = fitted(name, of)
    total = fill(of) @ formula.weights
    predicted = formula.predict(of.x)
    assert tau(np.round(total, 12), np.round(predicted, 12)) == pytest.approx(1)
    if name != "pairwise":
        assert (formula.weights >= 0).all()
        assert formula.weights.any()
    if not against:  # least squares
        assert predicted.mean() == pytest.approx(of.y.mean())
        slope = np.polyfit(total, of.y, 1)[0]
        assert np.polyfit(total, predicted, 1)[0] == pytest.approx(slope)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("scale", [1e-9, 4.0, 1e30])
def test_what_people_s_scale_is_does_not_matter(name: str, scale: float) -> None:
    of, fresh = lesson(), lesson(9).x[:20]
    there = fitted(name, of).predict(fresh)
    moved = fitted(name, replace(of, y=(of.y + 8) * scale)).predict(fresh)
    np.testing.assert_allclose(moved / scale - 8, there, atol=1e-5)


@pytest.mark.parametrize("name", ["best", "equal", "ridge", "pairwise"])  # trees take the first of equal splits
def test_the_order_of_metrics_does_not_matter(name: str) -> None:
    of, fresh = lesson(p=6), lesson(9, p=6).x
    order = np.array([3, 0, 5, 1, 4, 2])
    turned = fitted(name, replace(of, x=of.x[:, order]))
    np.testing.assert_allclose(turned.predict(fresh[:, order]), fitted(name, of).predict(fresh), atol=1e-6)


# --- choices inside ------------------------------------------------------------------------------------------------


def test_inner_folds_keep_groups_whole() -> None:
    of = lesson()
    fold = of.inner_folds()
    assert set(fold) == set(range(5))
    assert all(len(set(fold[of.groups == group])) == 1 for group in set(of.groups))
    few = of.part(of.groups < 3)
    assert set(few.inner_folds()) == {0, 1, 2}


@pytest.mark.parametrize(("seed", "by"), [(5, "spearman"), (0, "kendall"), (1, "accuracy")])
def test_auto_is_the_blend_unless_another_is_clearly_better_in_inner_folds(seed: int, by: Any) -> None:
    of = lesson(seed, items=30, by=by)
    found = fitted("auto", of)
    scores: dict[str, list[float]] = {name: [] for name in AUTO}
    for train, held in splits(replace(of, rng=np.random.default_rng(0)).inner_folds()):
        own = {name: fitted(name, of.part(train)).predict(of.x[held]) for name in AUTO if name != "blend"}
        own["blend"] = (own["ridge"] + own["xgboost"]) / 2
        for name, predicted in own.items():
            scores[name].append(of.part(held).score(predicted[np.newaxis]).item())
    lead = {name: np.subtract(scores[name], scores["blend"]) for name in AUTO if name != "blend"}
    clear = {name: d.mean() for name, d in lead.items() if d.mean() > 2 * d.std(ddof=1) / np.sqrt(5)}
    assert found.chosen == max(clear, key=lambda name: clear[name], default="blend")
    np.testing.assert_array_equal(found.predict(of.x), fitted(found.chosen, of).predict(of.x))


def test_auto_leaves_the_blend_where_another_method_is_clearly_better(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(boost.SETTINGS, "rounds", 40)
    of = lesson(items=60)
    x = fill(of)
    assert fitted("auto", replace(of, x=x, y=np.abs(x[:, 0] - 0.5))).chosen in ("xgboost", "blend")
    straight = fitted("auto", replace(of, x=x, y=x @ [3, 1, -2, 1, -1]))
    assert straight.chosen in ("ridge", "pairwise")


def test_pruning_tells_its_steps_and_keeps_what_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(boost.SETTINGS, "rounds", 40)
    of = lesson(items=40, p=6)
    formula = fitted("xgboost-pruned", replace(of, x=fill(of)))
    assert [len(step.kept) for step in formula.pruned] == [6, 5, 4, 3, 2, 1]
    assert sorted(step.removed for step in formula.pruned) == list(range(6))
    assert {step.removed for step in formula.pruned[-2:]} == {0, 1}
    best = max(range(6), key=lambda k: (formula.pruned[k].score, k))
    assert set(formula.used) <= {step.removed for step in formula.pruned[best:]}
    assert {0, 1} <= set(formula.used)


@pytest.mark.parametrize("top", [1, 2, None])
def test_gp_weighs_the_top_metrics_alone(top: int | None) -> None:
    of = replace(lesson(), top=top)
    formula = fitted("gp", of)
    best = np.argsort([-tau(column, of.y) for column in fill(of).T])[:top]
    assert set(formula.used) <= set(best)
    assert len(formula.used) <= (top or 5)
    assert tau(formula.predict(of.x), of.y) >= tau(fitted("equal", of).predict(of.x), of.y) - 0.05


def test_one_group_leaves_pairwise_without_a_choice_of_penalty() -> None:
    of = lesson(items=2)  # one group
    assert len(set(of.groups)) == 1
    assert np.isfinite(fitted("pairwise", of).predict(of.x)).all()
