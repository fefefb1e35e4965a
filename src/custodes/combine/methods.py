"""Methods of combination: each learns from a training part a formula that predicts people's ratings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.data.panel import Floats
from custodes.stats.learning import boost, folds, prune, ridge
from custodes.stats.learning.bayesopt import maximise
from custodes.stats.learning.objective import Objective, objective
from custodes.stats.learning.pairwise import PENALTIES, pairwise_logistic

AUTO = ("best", "equal", "ridge", "pairwise", "xgboost", "blend")
"""What `auto` chooses among; the slower methods join when named."""

CLEARLY = 2.0
"""Standard errors over inner folds by which another method must lead the blend; with 1, choosing followed noise."""

GP_INITIAL, GP_ITERATIONS = 5, 100
"""Evaluations of the Gaussian process, as in the paper (appendix C.2)."""

INNER = 5
"""Folds within a training part, for choices."""

SEED = 0
"""Of XGBoost's row sampling: a setting of the method, so that the same data give the same trees."""


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """What a method learns from: `x` (rows, metrics) in [0, 1], NaN = missing; `y` (rows,) people's ratings; `items`
    and `groups` (rows,) the item of each output, and what is held out together; `by` the objective; `top` so many
    metrics for the Gaussian process (None: all)."""

    x: Floats
    y: Floats
    items: NDArray[np.int64]
    groups: NDArray[np.int64]
    by: Objective
    top: int | None
    rng: np.random.Generator

    def part(self, rows: NDArray[Any]) -> Lesson:
        """Some of the rows."""
        return replace(self, x=self.x[rows], y=self.y[rows], items=self.items[rows], groups=self.groups[rows])

    def score(self, predictions: Floats) -> Floats:
        """The objective of predictions (m, rows) -> (m,)."""
        return objective(self.by, self.y, items=self.items)(predictions)

    def filled(self) -> tuple[Floats, Floats]:
        """x with missing values at the mean of their column, and those means (metrics,); 0.5 where there is none."""
        present = np.isfinite(self.x)
        n = present.sum(axis=0)
        fill = np.where(n > 0, np.where(present, self.x, 0.0).sum(axis=0) / np.maximum(n, 1), 0.5)
        return np.where(present, self.x, fill), fill

    def standardised(self) -> tuple[Floats, float, float]:
        """y of mean 0 and deviation 1, with its mean and deviation: XGBoost reckons in single precision."""
        mean, spread = float(self.y.mean()), float(self.y.std()) or 1.0
        return (self.y - mean) / spread, mean, spread

    def inner_folds(self) -> NDArray[np.intp]:
        """Folds (rows,) that keep groups whole, for choices within this part."""
        n_folds = min(INNER, len(np.unique(self.groups)))
        return folds.grouped_folds(self.groups, n_folds=n_folds, rng=self.rng)


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """A step of pruning: `metrics` in the model, the one taken out after it, and the held-out objective."""

    metrics: int
    removed: int
    score: float


@dataclass(frozen=True, kw_only=True)
class Formula:
    """What a method learnt. Normalised metrics are clipped to `low` and `high` (metrics,) and scaled to [0, 1] again;
    the prediction is their weighted sum (`intercept`, `weights` (metrics,), `fill` (metrics,) where a score is missing)
    plus `share` times that of `trees` (XGBoost's JSON, fitted on the metrics of `used`), of which each metric has its
    `importance` (metrics,). `chosen` is the method behind `auto`."""

    weights: Floats
    fill: Floats
    low: Floats
    high: Floats
    importance: Floats
    intercept: float = 0.0
    trees: bytes | None = None
    share: float = 0.0
    pruned: tuple[Pruned, ...] = field(default=())
    chosen: str = ""

    @property
    def used(self) -> NDArray[np.intp]:
        """The metrics that matter to the prediction."""
        return np.flatnonzero((self.weights != 0) | (self.importance > 0))

    def predict(self, x: Floats) -> Floats:
        """(rows, metrics) in [0, 1], NaN = missing -> (rows,). The same row gives the same bits beside any others."""
        scaled = narrowed(x, self.low, self.high)
        terms = np.where(np.isfinite(scaled), scaled, self.fill) * self.weights
        # The order of a sum follows the layout in memory, which must not matter.
        total = np.asarray(np.ascontiguousarray(terms).sum(axis=1) + self.intercept)
        if self.trees is None:
            return total
        return np.asarray(total + self.share * boost.predict_boosted(self.trees, scaled[:, self.used]))


def narrowed(x: Floats, low: Floats, high: Floats) -> Floats:
    """Clip x (rows, metrics) to limits (metrics,) and scale it to [0, 1]; NaN stays NaN, limits of no width give 0."""
    return np.asarray((np.clip(x, low, high) - low) / np.where(high > low, high - low, 1.0))


Method = Callable[[Lesson], Formula]


def _calibrated(lesson: Lesson, weights: Floats) -> Formula:
    """Weights whose sum is put on people's scale by least squares; its order never turns."""
    x, fill = lesson.filled()
    score = x @ weights
    spread = float(score.var())
    slope = float(((score - score.mean()) * (lesson.y - lesson.y.mean())).mean()) / spread if spread > 0 else 0.0
    # Where the sum runs against people it keeps its direction, shrunk to next to nothing.
    slope = slope if slope > 0 else 1e-6
    intercept = float(lesson.y.mean() - slope * score.mean())
    n = len(fill)
    return Formula(
        weights=slope * weights,
        fill=fill,
        low=np.zeros(n),
        high=np.ones(n),
        importance=np.zeros(n),
        intercept=intercept,
    )


def best(lesson: Lesson) -> Formula:
    """The single metric with the highest objective in training."""
    x, _ = lesson.filled()
    scores = lesson.score(x.T)
    one = np.zeros(x.shape[1])
    one[int(np.argmax(np.nan_to_num(scores, nan=-np.inf)))] = 1.0
    return _calibrated(lesson, one)


def equal(lesson: Lesson) -> Formula:
    """The mean of all normalised metrics that vary."""
    x, _ = lesson.filled()
    varies = np.ptp(x, axis=0) > 0
    return _calibrated(lesson, varies / max(1, varies.sum()))


def linear(lesson: Lesson) -> Formula:
    """Ridge regression on people's ratings."""
    learnt = ridge.ridge(lesson.x, lesson.y, groups=lesson.groups)
    # Where its limits lie beyond the scale there is no score to clip, and the bounds of the file must not be wider.
    low, high = np.clip(learnt.low, 0.0, 1.0), np.clip(learnt.high, 0.0, 1.0)
    width = np.where(high > low, high - low, 1.0)
    return Formula(
        weights=learnt.weights * width,
        fill=(learnt.fill - low) / width,
        low=low,
        high=high,
        importance=np.zeros(len(width)),
        intercept=learnt.intercept + float((learnt.weights * low).sum()),
    )


def pairwise(lesson: Lesson) -> Formula:
    """Logistic regression on people's preferences between outputs of one item."""
    # With one group (a resample of few can be such) nothing can choose.
    penalties = PENALTIES if len(np.unique(lesson.groups)) > 1 else np.array([ridge.PENALTY])
    weights = pairwise_logistic(lesson.x, lesson.y, items=lesson.items, groups=lesson.groups, penalties=penalties)
    return _calibrated(lesson, weights)


def gaussian_process(lesson: Lesson) -> Formula:
    """Weights in [0, 1] by Bayesian optimisation of the objective (paper, section 3.3.1)."""
    x, _ = lesson.filled()
    scores = np.nan_to_num(lesson.score(x.T), nan=-np.inf)
    kept = np.sort(np.argsort(-scores, kind="stable")[: lesson.top])
    columns = np.ascontiguousarray(x[:, kept].T)
    found = maximise(
        objective_of(lesson, columns),
        n_dims=len(kept),
        n_initial=GP_INITIAL,
        n_iterations=GP_ITERATIONS,
        rng=lesson.rng,
    )
    weights = np.zeros(x.shape[1])
    weights[kept] = np.nan_to_num(found.point, nan=0.0)  # an objective that is never defined
    return _calibrated(lesson, weights)


def objective_of(lesson: Lesson, columns: Floats) -> Callable[[Floats], Floats]:
    """The objective of weights (m, metrics) over columns (metrics, rows), prepared once."""
    evaluate = objective(lesson.by, lesson.y, items=lesson.items)
    return lambda weights: evaluate(weights @ columns)


def xgboost(lesson: Lesson) -> Formula:
    """Boosted trees (paper, section 3.3.2)."""
    return trees_on(lesson, np.arange(lesson.x.shape[1]))


def xgboost_pruned(lesson: Lesson) -> Formula:
    """Boosted trees on fewer metrics: the least important one leaves, step by step; the number is chosen on held-out
    folds (paper, algorithm 1)."""
    found = prune.pruned(
        lesson.x,
        lesson.standardised()[0],
        lesson.inner_folds(),
        score=_fold_score(lesson),
        settings=boost.SETTINGS,
        seed=SEED,
    )
    steps = tuple(Pruned(metrics=len(step.kept), removed=step.removed, score=step.score) for step in found.steps)
    return replace(trees_on(lesson, found.best), pruned=steps)


def blend(lesson: Lesson) -> Formula:
    """The mean of ridge regression and boosted trees: what the one misses, the other may see."""
    half = linear(lesson)
    kept = np.flatnonzero(half.weights)
    if not len(kept):
        return half
    y, mean, spread = lesson.standardised()
    model = boost.boosted(narrowed(lesson.x, half.low, half.high)[:, kept], y, seed=SEED, **boost.SETTINGS)
    importance = np.zeros(len(half.weights))
    importance[kept] = boost.gain_importance(model, len(kept))
    return replace(
        half,
        weights=half.weights / 2,
        intercept=(half.intercept + mean) / 2,
        trees=model,
        share=spread / 2,
        importance=importance,
    )


def auto(lesson: Lesson) -> Formula:
    """The blend, unless another quick method is clearly better in inner folds: by `CLEARLY` standard errors of the
    paired difference. Where methods are level, averaging two beats choosing one."""
    fold = lesson.inner_folds()
    predicted = {name: np.full(len(lesson.y), np.nan) for name in AUTO if name != "blend"}
    for train, held in folds.splits(fold):
        part = lesson.part(train)
        for name, own in predicted.items():
            own[held] = METHODS[name](part).predict(lesson.x[held])
    # Near enough to fitting the blend for itself, and half the trees.
    predicted["blend"] = (predicted["ridge"] + predicted["xgboost"]) / 2
    scores = np.stack([_fold_scores(lesson, predicted[name], fold) for name in AUTO])
    lead = np.nan_to_num(scores, nan=-1.0) - np.nan_to_num(scores[AUTO.index("blend")], nan=-1.0)
    mean, error = lead.mean(axis=1), lead.std(axis=1, ddof=1) / np.sqrt(lead.shape[1])
    clear = mean > CLEARLY * error
    chosen = AUTO[int(np.argmax(np.where(clear, mean, 0.0)))] if clear.any() else "blend"
    return replace(METHODS[chosen](lesson), chosen=chosen)


def _fold_scores(lesson: Lesson, predicted: Floats, fold: NDArray[np.intp]) -> Floats:
    """The objective of out-of-fold predictions (rows,) on each fold -> (folds,)."""
    return np.array([lesson.part(held).score(predicted[held][np.newaxis])[0] for _, held in folds.splits(fold)])


def _fold_score(lesson: Lesson) -> Callable[[Floats, NDArray[np.intp]], float]:
    """The same, averaged over the folds where it is defined."""

    def score(predicted: Floats, fold: NDArray[np.intp]) -> float:
        values = _fold_scores(lesson, predicted, fold)
        return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")

    return score


def trees_on(lesson: Lesson, kept: NDArray[np.intp]) -> Formula:
    """Trees on some of the metrics; those never split on change no prediction, so the model is fitted without them."""
    y, mean, spread = lesson.standardised()
    model = boost.boosted(lesson.x[:, kept], y, seed=SEED, **boost.SETTINGS)
    importance = np.zeros(lesson.x.shape[1])
    importance[kept] = boost.gain_importance(model, len(kept))
    used = np.flatnonzero(importance)
    if 0 < len(used) < len(kept):
        model = boost.boosted(lesson.x[:, used], y, seed=SEED, **boost.SETTINGS)
    n = len(importance)
    return Formula(
        weights=np.zeros(n),
        fill=lesson.filled()[1],
        low=np.zeros(n),
        high=np.ones(n),
        importance=importance,
        intercept=mean,
        trees=model if len(used) else None,
        share=spread if len(used) else 0.0,
    )


METHODS: dict[str, Method] = {
    "best": best,
    "equal": equal,
    "ridge": linear,
    "pairwise": pairwise,
    "xgboost": xgboost,
    "blend": blend,
    "xgboost-pruned": xgboost_pruned,
    "gp": gaussian_process,
    "auto": auto,
}
