"""A method of combining metrics: it learns from training data a formula that predicts human ratings."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints, read_only
from custodes.stats.learning import folds
from custodes.stats.learning.boost import PruningStep, Trees
from custodes.stats.learning.even_handed import even_handed
from custodes.stats.learning.objective import RANK_CORRELATIONS, Objective, objective
from custodes.stats.learning.ridge import Linear
from custodes.stats.ranks import mid_ranks


@dataclass(frozen=True, kw_only=True)
class Formula:
    """A fitted formula. Normalised metrics are clipped to `low` and `high` (metrics,) and scaled to [0, 1] again; the
    prediction is their weighted sum (`intercept`, `weights` (metrics,), `fill` (metrics,) for missing scores) plus
    `share` times that of `trees`, in which each metric has an `importance` (metrics,). `pruned`: the steps of pruning;
    `chosen`: the method selected by `auto`; `strength`: that of the penalty selected by `even-handed`;
    `shifts` (kinds,): added to the prediction of each kind of output.
    """

    weights: Floats
    fill: Floats
    low: Floats | float = 0.0
    high: Floats | float = 1.0
    importance: Floats | float = 0.0
    intercept: float = 0.0
    trees: Trees | None = None
    share: float = 0.0
    pruned: tuple[PruningStep, ...] = ()
    chosen: str = ""
    strength: float = 0.0
    shifts: Floats | float = 0.0

    @property
    def used(self) -> NDArray[np.intp]:
        """Metrics that affect the prediction."""
        return np.flatnonzero((self.weights != 0) | (np.asarray(self.importance) > 0))

    def predict(self, x: Floats) -> Floats:
        """(rows, metrics) in [0, 1], NaN = missing -> (rows,). The result of a row is bitwise independent of other
        rows."""
        scaled = narrowed(x, self.low, self.high)
        used = np.flatnonzero(self.weights)
        terms = np.where(np.isfinite(scaled), scaled, self.fill)[:, used] * self.weights[used]
        # The order of summation depends on the memory layout, which is therefore fixed.
        line = np.asarray(np.ascontiguousarray(terms).sum(axis=1) + self.intercept)
        if self.trees is None:
            return line
        return np.asarray(line + self.share * self.trees.predict(scaled))


def shifted(predicted: Floats, shifts: Floats | float, kinds: Ints | None) -> Floats:
    """Predictions (rows,) plus the shift of the kind of each output (rows,), -1 if unknown."""
    if kinds is None:
        return predicted
    return np.asarray(predicted + np.append(shifts, 0.0)[kinds])


def narrowed(x: Floats, low: Floats | float, high: Floats | float) -> Floats:
    """Clip x (rows, metrics) to limits (metrics,) and scale it to [0, 1]; NaN stays NaN, equal limits give 0."""
    width = np.subtract(high, low)
    return np.asarray((np.clip(x, low, high) - low) / np.where(width > 0, width, 1.0))


SHRINKAGE = 10
"""Number of outputs without residual that are added to each kind."""

INNER = 5
"""Number of folds within a training part, for choices."""


@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """Training data: `x` (rows, metrics) in [0, 1], NaN = missing; `y` (rows,) human ratings; `items`, `systems`
    and `groups` (rows,) the item, the system and the cluster of each output; `by` the objective; `inner` scores of
    methods on held-out folds of this part, by name (folds,), if known; `max_partiality` the largest partiality allowed
    for `even-handed`; `kinds` (rows,) the kind of each output, one of `n_kinds`, -1 if unknown.
    """

    x: Floats
    y: Floats
    items: NDArray[np.int64]
    systems: NDArray[np.int64]
    groups: NDArray[np.int64]
    by: Objective
    rng: np.random.Generator
    inner: Mapping[str, Floats] = field(default_factory=dict)
    max_partiality: float | None = None
    kinds: Ints | None = None
    n_kinds: int = 0

    def __post_init__(self) -> None:
        read_only(self)

    def part(self, rows: NDArray[Any]) -> TrainingData:
        """The training data of some rows."""
        names = ("x", "y", "items", "systems", "groups", *(("kinds",) if self.kinds is not None else ()))
        return replace(self, **{name: getattr(self, name)[rows] for name in names}, inner={})

    def resampled(self, rng: np.random.Generator) -> TrainingData:
        """Bootstrap sample of clusters; copies of a cluster stay in the same inner fold."""
        group, size = np.unique(self.groups, return_inverse=True, return_counts=True)[1:]
        ordered, start = np.argsort(group, kind="stable"), np.cumsum(size) - size
        drawn = rng.choice(len(size), size=len(size))
        copy = np.repeat(np.arange(len(drawn)), size[drawn])
        before = np.cumsum(size[drawn]) - size[drawn]  # number of rows of the preceding copies
        part = self.part(ordered[(start[drawn] - before)[copy] + np.arange(len(copy))])
        item = np.unique(part.items, return_inverse=True)[1]
        items = np.unique(copy * (item.max() + 1) + item, return_inverse=True)[1]
        return replace(part, items=items, rng=rng)

    @cached_property
    def score(self) -> Callable[[Floats], Floats]:
        """The objective of predictions (m, rows) -> (m,)."""
        return objective(self.by, self.y, items=self.items)

    @cached_property
    def filled(self) -> tuple[Floats, Floats]:
        """x with missing values replaced by the column mean, and those means (metrics,); 0.5 for a column without
        values."""
        present = np.isfinite(self.x)
        n = present.sum(axis=0)
        fill = np.where(n > 0, np.where(present, self.x, 0.0).sum(axis=0) / np.maximum(n, 1), 0.5)
        return np.where(present, self.x, fill), fill

    def with_top(self, n: int) -> TrainingData:
        """The training data with scores of only the n metrics that have the highest objective."""
        scores = np.nan_to_num(self.score(self.filled[0].T), nan=-np.inf)
        others = np.argsort(-scores, kind="stable")[n:]
        return replace(self, x=np.where(np.isin(np.arange(len(scores)), others), np.nan, self.x))

    @cached_property
    def target(self) -> Floats:
        """The values that regressions predict (rows,): the ratings, or for a rank correlation as the objective the
        ranks of the ratings in (0, 1], because squared errors of skewed ratings depend on few ratings."""
        return mid_ranks(self.y) / len(self.y) if self.by in RANK_CORRELATIONS else self.y

    @cached_property
    def standardised(self) -> tuple[Floats, float, float]:
        """The target with mean 0 and standard deviation 1, its mean and standard deviation: XGBoost computes in single
        precision."""
        mean, spread = float(self.target.mean()), float(self.target.std()) or 1.0
        return (self.target - mean) / spread, mean, spread

    @cached_property
    def even_handed(self) -> list[Linear]:
        """Ridge regressions for `target` with each of `STRENGTHS` of a penalty on partiality."""
        return even_handed(self.x, self.target, items=self.items, systems=self.systems, groups=self.groups)

    @cached_property
    def _learnt(self) -> dict[str, tuple[float, Formula]]:
        return {}

    @cached_property
    def _start(self) -> Any:
        return self.rng.bit_generator.state

    def learn(self, method: Method) -> tuple[float, Formula]:
        """Seconds of a fit, and the formula; repeated calls reuse it. Methods do not depend on earlier ones: each
        starts from the same state of the generator.
        """
        self.rng.bit_generator.state = self._start
        if method.name not in self._learnt:
            start = time.perf_counter()
            formula = method.fit(self)
            if self.kinds is not None:
                formula = replace(formula, shifts=self.shifts(formula))
            self._learnt[method.name] = time.perf_counter() - start, formula
        return self._learnt[method.name]

    def shifts(self, formula: Formula) -> Floats:
        """Mean residual of each kind of output (n_kinds,), shrunk by `SHRINKAGE` outputs without residual."""
        assert self.kinds is not None
        inside = self.kinds >= 0
        residual = (self.y - formula.predict(self.x))[inside]
        n = np.bincount(self.kinds[inside], minlength=self.n_kinds)
        return np.asarray(np.bincount(self.kinds[inside], residual, minlength=self.n_kinds) / (n + SHRINKAGE))

    def inner_folds(self) -> NDArray[np.intp]:
        """Folds (rows,) of whole clusters, for choices within this part."""
        n_folds = min(INNER, len(np.unique(self.groups)))
        return folds.grouped_folds(self.groups, n_folds=n_folds, rng=self.rng)

    def fold_scores(self, predicted: Floats, fold: NDArray[Any]) -> Floats:
        """Objective of out-of-fold predictions (rows,) on each fold -> (folds,)."""
        return np.array([self.part(held).score(predicted[held][np.newaxis])[0] for _, held in folds.splits(fold)])

    def calibrated(self, weights: Floats) -> Formula:
        """The weighted sum of metrics on the scale of the ratings."""
        return self.on_rating_scale(Formula(weights=weights, fill=self.filled[1]))

    def on_rating_scale(self, formula: Formula) -> Formula:
        """A formula with the line that fits the ratings by least squares. The line never reverses the order."""
        score, mean = formula.predict(self.x), self.y.mean()
        spread = float(score.var()) if np.ptp(score) > 0 else 0.0
        slope = float(((score - score.mean()) * (self.y - mean)).mean()) / spread if spread > 0 else 0.0
        # A formula that runs against the ratings keeps its direction, shrunk to almost nothing.
        slope = slope if slope > 0 else 1e-6
        return replace(
            formula,
            weights=slope * formula.weights,
            share=slope * formula.share,
            intercept=float(mean + slope * (formula.intercept - score.mean())),
        )

    def fitted_to_target(self, formula: Formula) -> Formula:
        """A formula that predicts `target`, on the scale of the ratings."""
        return formula if self.target is self.y else self.on_rating_scale(formula)


Family = Literal["weights", "importances", "both"]
"""Contribution of a metric to the formula: a weight, an importance in trees, or both."""

Fit = Callable[[TrainingData], Formula]


@dataclass(frozen=True, kw_only=True)
class Method:
    """A method of combining metrics. `fit` learns a formula. `refits` learns its weights on resampled data, for their
    intervals (None: no intervals). `mean_of`: methods whose predictions it averages; `among`: methods between which it
    chooses. `fast`: a fit takes milliseconds, so the report and the tests on unseen systems include it; `by_default`:
    fitted unless others are named, and tried by `auto`.
    """

    name: str
    label: str
    doc: str
    family: Family
    fit: Fit
    refits: Fit | None = None
    mean_of: tuple[Method, ...] = ()
    among: tuple[Method, ...] = ()
    fast: bool = False
    by_default: bool = False


def with_means(methods: Sequence[Method], predicted: Mapping[str, Floats]) -> dict[str, Floats]:
    """Predictions of methods by name. For a method that is a mean of methods, the predictions of these are averaged."""
    return {
        method.name: np.mean([predicted[part.name] for part in method.mean_of], axis=0)
        if method.mean_of
        else predicted[method.name]
        for method in methods
    }
