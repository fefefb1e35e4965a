"""One aspect of the human ratings to predict from all other raters, with its folds and resamples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from custodes.evaluate.rater_scores import METRIC, RaterScores
from custodes.stats.arrays import Floats, up_to_rounding
from custodes.stats.learning import boost, heldout, ridge
from custodes.stats.learning.folds import grouped_folds, plain_folds
from custodes.stats.pooled_correlation import pooled_correlation

Folds = Literal["item", "plain"]
DIGITS = 13
"""Significant digits of predictions before ranking.

More digits would depend on the processor; fewer would create ties for metrics with heavy tails.
"""

Model = Literal["xgboost", "ridge"]
N_FOLDS = 5


FOLDS: Mapping[Folds, tuple[Callable[..., NDArray[np.intp]], bool]] = {
    "item": (grouped_folds, True),
    "plain": (plain_folds, False),
}
"""Function that assigns outputs to folds by cluster, and whether one model predicts all outputs of an item."""

MODELS: Mapping[Model, Callable[..., heldout.Predictor]] = {
    "xgboost": lambda x, y, groups, *, seed: boost.boosted(x, y, seed=seed, **boost.SETTINGS)[0].predict,
    "ridge": lambda x, y, groups, *, seed: partial(ridge.predict, ridge.ridge(x, y, groups=groups)),
}
"""Function that fits a model to the training part."""


@dataclass(frozen=True, kw_only=True)
class PredictedAspect:
    """One aspect to predict: that of the rater `me` of `who`."""

    who: RaterScores
    me: int

    @property
    def aspect(self) -> str:
        """Name of the aspect."""
        return self.who.rater_aspects[self.me]

    @cached_property
    def columns(self) -> dict[str, NDArray[np.intp]]:
        """Positions of the raters in each set of features; metrics only if the annotators rated no other aspect."""
        metrics, humans = self.who.of_kind(METRIC), self.who.of_kind("human")
        others = humans[humans != self.me]
        sets = {"metrics": metrics, "humans": others, "both": np.concatenate([metrics, others])}
        return sets if len(others) else {"metrics": metrics}

    @property
    def persons(self) -> dict[int, Floats]:
        """Ratings (items, systems) of each annotator of this aspect, by position."""
        everyone = self.who.annotators[self.who.aspects.index(self.aspect)]
        return {person: scores for person, scores in enumerate(everyone) if np.isfinite(scores).any()}


@dataclass(frozen=True, kw_only=True)
class Target(PredictedAspect):
    """An aspect to predict for single outputs.

    For the outputs with a human rating, (rows,) each: `row` is the flat position in the grid, `y` the rating, `groups`
    the cluster and `fold` the fold; `whole` tells whether items are kept whole. `times` (1 + B, clusters) are bootstrap
    weights, row 0 the data.
    """

    row: NDArray[np.intp]
    y: Floats
    groups: NDArray[np.int64]
    fold: NDArray[np.intp]
    whole: bool
    times: NDArray[np.uint8]

    @cached_property
    def x(self) -> Floats:
        """(rows, raters): the features."""
        return self.rows(self.who.scores)

    @property
    def n_clusters(self) -> int:
        """Number of clusters with human ratings: only these change when resampled."""
        return len(np.unique(self.groups))

    def rows(self, scores: Floats) -> Floats:
        """(..., items, systems) -> (rows, ...)."""
        return np.asarray(scores.reshape(*scores.shape[:-2], -1)[..., self.row].T)

    def grid(self, values: Floats) -> Floats:
        """(..., rows) -> (..., items, systems), NaN elsewhere."""
        grid = np.full((*values.shape[:-1], *self.who.scores.shape[1:]), np.nan)
        grid.reshape(*values.shape[:-1], -1)[..., self.row] = values
        return grid

    def predicted(self, sets: Iterable[NDArray[np.intp]], fit: heldout.Fit) -> Floats:
        """(m, rows): out-of-fold predictions from m sets of raters."""
        return self.predicted_from((self.x[:, columns] for columns in sets), fit)

    def predicted_from(self, features: Iterable[Floats], fit: heldout.Fit) -> Floats:
        """(m, rows): out-of-fold predictions from m sets of features (rows, p)."""
        return np.stack([heldout.cross_predicted(x, self.y, self.fold, groups=self.groups, fit=fit) for x in features])

    def agreement(self, predictions: Floats) -> Floats:
        """(1 + B, m): held-out tau-b of predictions (m, rows) in every resample."""
        return heldout.heldout(
            partial(pooled_correlation, "kendall"),
            self.y[:, np.newaxis],  # each output as an item of its own: all outputs of a fold are ranked together
            np.stack([up_to_rounding(model, DIGITS) for model in predictions])[..., np.newaxis],
            self.fold[:, np.newaxis],
            units=self.groups,
            weights=self.times,
        )


def target_of(who: RaterScores, me: int, folds: Folds, resamples: int, rng: np.random.Generator) -> Target:
    """The target of an aspect that annotators rated on at least two items or clusters."""
    y = who.scores[me].ravel()
    row = np.flatnonzero(np.isfinite(y))
    groups = who.design.units[row // who.scores.shape[2]]
    deal, whole = FOLDS[folds]
    return Target(
        who=who,
        me=me,
        row=row,
        y=y[row],
        groups=groups,
        fold=deal(groups, n_folds=min(N_FOLDS, len(np.unique(groups))), rng=rng),
        whole=whole,
        times=who.design.counted(resamples, rng),
    )
