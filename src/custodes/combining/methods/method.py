"""A method of combining metrics: it learns a formula from training data, and the formula predicts human ratings."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints, ReadOnlyArrays
from custodes.stats.learning import folds
from custodes.stats.learning.boost import PruningStep, Trees
from custodes.stats.learning.even_handed import even_handed
from custodes.stats.learning.objective import RANK_CORRELATIONS, Objective, objective
from custodes.stats.learning.ridge import Linear
from custodes.stats.ranks import mid_ranks
from custodes.stats.ratios import mean_of_defined


@dataclass(frozen=True, kw_only=True)
class Formula:
    """A fitted formula, which predicts human ratings from normalised metrics.

    Scores are clipped to `low` and `high` (metrics,) and scaled to [0, 1] again. Missing scores are replaced by `fill`
    (metrics,). The prediction is `intercept` + the sum of scores times `weights` (metrics,) + `share` times the
    prediction of `trees`.

    - `importance` (metrics,): importance of each metric in the trees.
    - `pruned`: steps of pruning.
    - `chosen`: name of the method that `auto` selected.
    - `strength`: strength of the penalty that `even-handed` selected.
    - `shifts` (kinds,): numbers that are added to the predictions of each kind of output.
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
    def used_positions(self) -> NDArray[np.intp]:
        """Positions of the metrics that affect the prediction."""
        return np.flatnonzero((self.weights != 0) | (np.asarray(self.importance) > 0))

    def predict(self, x: Floats) -> Floats:
        """Return predictions (rows,) for scores x (rows, metrics) in [0, 1]; missing scores are NaN.

        The prediction of a row is bitwise independent of other rows.
        """
        scaled_scores = clip_and_scale(x, self.low, self.high)
        weighted_column_indices = np.flatnonzero(self.weights)
        weighted_scores = (
            np.where(np.isfinite(scaled_scores), scaled_scores, self.fill)[:, weighted_column_indices]
            * self.weights[weighted_column_indices]
        )
        # The order of summation depends on the memory layout, which is therefore fixed.
        linear_prediction = np.asarray(np.ascontiguousarray(weighted_scores).sum(axis=1) + self.intercept)
        if self.trees is None:
            return linear_prediction
        return np.asarray(linear_prediction + self.share * self.trees.predict(scaled_scores))


def add_kind_shifts(predicted: Floats, shifts: Floats | float, kinds: Ints | None) -> Floats:
    """Return predictions (rows,) plus the shift of each output's kind (rows,); kind -1 (unknown) has no shift."""
    if kinds is None:
        return predicted
    return np.asarray(predicted + np.append(shifts, 0.0)[kinds])


def clip_and_scale(x: Floats, low: Floats | float, high: Floats | float) -> Floats:
    """Return x (rows, metrics) clipped to limits (metrics,) and scaled to [0, 1].

    NaN stays NaN. If the two limits of a metric are equal, the result is 0.
    """
    limit_widths = np.subtract(high, low)
    return np.asarray((np.clip(x, low, high) - low) / np.where(limit_widths > 0, limit_widths, 1.0))


SHRINKAGE = 10
"""Number of artificial outputs with residual 0 that are added to each kind of output, so that kinds with few outputs
get no extreme shifts."""

SMALLEST_SLOPE = 1e-6
"""Slope that replaces the fitted slope of a formula if its predictions correlate negatively with the ratings."""

INNER = 5
"""Number of inner folds of a training part. Penalties and other choices of a method are made in these folds."""


@dataclass(frozen=True, kw_only=True)
class TrainingData(ReadOnlyArrays):
    """Training data of the methods, with one row for each output.

    - `x` (rows, metrics): scores in [0, 1]; missing scores are NaN.
    - `y` (rows,): human ratings.
    - `items`, `systems`, `groups` (rows,): item, system and cluster of each output.
    - `by`: the objective.
    - `inner`: scores (folds,) of methods on held-out folds of this part, by name of the method, if known.
    - `max_partiality`: largest partiality that is allowed for `even-handed`.
    - `kinds` (rows,): kind of each output, from 0 to `n_kinds` - 1; -1 if the kind is unknown.
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

    def part(self, rows: NDArray[Any]) -> TrainingData:
        """Return the training data of some rows."""
        field_names = ("x", "y", "items", "systems", "groups", *(("kinds",) if self.kinds is not None else ()))
        return replace(self, **{field_name: getattr(self, field_name)[rows] for field_name in field_names}, inner={})

    def draw_clusters(self, rng: np.random.Generator) -> NDArray[np.int64]:
        """Return the positions of the clusters of a bootstrap sample, in the sorted order of the clusters."""
        n_clusters = len(np.unique(self.groups))
        return rng.choice(n_clusters, size=n_clusters)

    def resample_clusters(self, rng: np.random.Generator) -> TrainingData:
        """Return a bootstrap sample of clusters; copies of a cluster stay in the same inner fold."""
        group_of_row, group_sizes = np.unique(self.groups, return_inverse=True, return_counts=True)[1:]
        rows_by_group, group_starts = np.argsort(group_of_row, kind="stable"), np.cumsum(group_sizes) - group_sizes
        sampled_groups = self.draw_clusters(rng)
        copy_sizes = group_sizes[sampled_groups]
        copy_of_row = np.repeat(np.arange(len(copy_sizes)), copy_sizes)
        row_shift_of_copy = group_starts[sampled_groups] - (np.cumsum(copy_sizes) - copy_sizes)
        resampled_data = self.part(rows_by_group[row_shift_of_copy[copy_of_row] + np.arange(len(copy_of_row))])
        return replace(resampled_data, items=copy_of_row * (self.items.max() + 1) + resampled_data.items, rng=rng)

    @cached_property
    def score(self) -> Callable[[Floats], Floats]:
        """Function that returns the objective (m,) of predictions (m, rows)."""
        return objective(self.by, self.y, items=self.items)

    @cached_property
    def mean_imputation(self) -> tuple[Floats, Floats]:
        """x with missing values replaced by column means, and the column means (metrics,).

        The mean of a column without values is 0.5.
        """
        column_means = np.nan_to_num(mean_of_defined(self.x, axis=0), nan=0.5)
        return np.where(np.isnan(self.x), column_means, self.x), column_means

    def with_top(self, n: int) -> TrainingData:
        """Return training data in which only the n metrics with the highest objective have scores."""
        metric_objectives = np.nan_to_num(self.score(self.mean_imputation[0].T), nan=-np.inf)
        top_limited_scores = self.x.copy()
        top_limited_scores[:, np.argsort(-metric_objectives, kind="stable")[n:]] = np.nan
        return replace(self, x=top_limited_scores)

    @cached_property
    def target(self) -> Floats:
        """Values (rows,) that regressions predict.

        The values are the ratings or, if the objective is a rank correlation, the ranks of the ratings, scaled to (0,
        1]. Ranks are used because, with skewed ratings, the squared error would depend on a few ratings.
        """
        return mid_ranks(self.y) / len(self.y) if self.by in RANK_CORRELATIONS else self.y

    @cached_property
    def target_standardisation(self) -> tuple[Floats, float, float]:
        """Target scaled to mean 0 and standard deviation 1, and the target's original mean and standard deviation.

        XGBoost needs the scaled target because it computes in single precision.
        """
        mean, standard_deviation = float(self.target.mean()), float(self.target.std()) or 1.0
        return (self.target - mean) / standard_deviation, mean, standard_deviation

    @cached_property
    def even_handed(self) -> list[Linear]:
        """Ridge regressions for `target` with a penalty on partiality, one for each strength in `STRENGTHS`."""
        return even_handed(self.x, self.target, items=self.items, systems=self.systems, groups=self.groups)

    @cached_property
    def _fits_by_method(self) -> dict[str, tuple[float, Formula]]:
        return {}

    @cached_property
    def _start(self) -> Any:
        return self.rng.bit_generator.state

    def learn(self, method: Method) -> tuple[float, Formula]:
        """Return the seconds of the fit of a method, and the formula; repeated calls reuse the fit.

        Every method starts from the same state of the random generator. Its fit then does not depend on methods that
        were fitted before.
        """
        self.rng.bit_generator.state = self._start
        if method.name not in self._fits_by_method:
            start_time = time.perf_counter()
            formula = method.fit(self)
            if self.kinds is not None:
                formula = replace(formula, shifts=self.shifts(formula))
            self._fits_by_method[method.name] = time.perf_counter() - start_time, formula
        return self._fits_by_method[method.name]

    def shifts(self, formula: Formula) -> Floats:
        """Return the mean residual (n_kinds,) of each kind of output, with `SHRINKAGE` outputs of residual 0 added."""
        assert self.kinds is not None
        # the last position is for unknown kinds, -1
        kind_of_row = np.where(self.kinds >= 0, self.kinds, self.n_kinds)
        residual_sums, n_outputs_of_kind = (
            np.bincount(kind_of_row, summed_values, minlength=self.n_kinds + 1)[: self.n_kinds]
            for summed_values in (self.y - formula.predict(self.x), None)
        )
        return np.asarray(residual_sums / (n_outputs_of_kind + SHRINKAGE))

    def inner_folds(self) -> NDArray[np.intp]:
        """Return inner folds (rows,) of whole clusters, in which choices are made."""
        return folds.grouped_folds(self.groups, n_folds=min(INNER, len(np.unique(self.groups))), rng=self.rng)

    def fold_scores(self, predicted: Floats, fold_of_row: NDArray[Any]) -> Floats:
        """Return the objective (folds,) of out-of-fold predictions (rows,) on each fold."""
        return np.array(
            [
                self.part(is_held_out_row).score(predicted[is_held_out_row][np.newaxis])[0]
                for _, is_held_out_row in folds.splits(fold_of_row)
            ]
        )

    def formula_from_weights(self, weights: Floats) -> Formula:
        """Return the weighted sum of metrics, fitted to the scale of the ratings."""
        return self.rescale_to_ratings(Formula(weights=weights, fill=self.mean_imputation[1]))

    def rescale_to_ratings(self, formula: Formula) -> Formula:
        """Return the formula transformed by the line that fits the ratings by least squares.

        The line never reverses the order of predictions.
        """
        predictions, mean_rating = formula.predict(self.x), self.y.mean()
        prediction_variance = float(predictions.var()) if np.ptp(predictions) > 0 else 0.0
        covariance = float(((predictions - predictions.mean()) * (self.y - mean_rating)).mean())
        # If predictions correlate negatively with the ratings, the slope stays positive but is almost 0.
        slope = covariance / prediction_variance if prediction_variance > 0 and covariance > 0 else SMALLEST_SLOPE
        return replace(
            formula,
            weights=slope * formula.weights,
            share=slope * formula.share,
            intercept=float(mean_rating + slope * (formula.intercept - predictions.mean())),
        )

    def rescale_target_formula(self, formula: Formula) -> Formula:
        """Return a formula that predicts `target`, transformed to the scale of the ratings if necessary."""
        return formula if self.target is self.y else self.rescale_to_ratings(formula)


Family = Literal["weights", "importances", "both"]
"""How a metric contributes to the formula: by a weight, by an importance in trees, or by both."""

Fit = Callable[[TrainingData], Formula]

Refit = Callable[[TrainingData, int, np.random.Generator], Floats]
"""Function that returns the weights (samples, metrics) of the formula in each bootstrap sample of clusters. Its
arguments are the training data, a number of bootstrap samples, and a random generator."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """A method of combining metrics.

    - `fit`: function that learns a formula.
    - `refits`: function that learns the weights of the formula on resampled data, for the intervals of the weights. If
    `refits` is None, the weights have no intervals.
    - `refit_all`: faster function that learns the weights of many bootstrap samples.
    - `mean_of`: methods whose predictions the method averages.
    - `among`: methods between which the method chooses.
    - `fast`: whether a fit takes milliseconds. The report and, by default, the tests on unseen systems include only
      fast methods.
    - `by_default`: whether the method is fitted if the user names no method; `auto` chooses among such methods and
      `half-blend`.
    """

    name: str
    label: str
    doc: str
    family: Family
    fit: Fit
    refits: Fit | None = None
    refit_all: Refit | None = None
    mean_of: tuple[Method, ...] = ()
    among: tuple[Method, ...] = ()
    fast: bool = False
    by_default: bool = False

    def refitted_weights(self, training: TrainingData, n_samples: int, rng: np.random.Generator) -> Floats:
        """Return the weights (samples, metrics) in bootstrap samples of clusters; no rows without `refits`."""
        if self.refit_all is not None:
            return self.refit_all(training, n_samples, rng)
        samples = (training.resample_clusters(rng) for _ in range(n_samples if self.refits else 0))
        return np.array([self.refits(sample).weights for sample in samples if self.refits])


def with_means(methods: Sequence[Method], predicted: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return the predictions of methods by name; if a method is a mean of methods, their predictions are averaged."""
    return {
        method.name: np.mean([predicted[averaged_method.name] for averaged_method in method.mean_of], axis=0)
        if method.mean_of
        else predicted[method.name]
        for method in methods
    }
