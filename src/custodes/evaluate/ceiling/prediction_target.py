"""Target: one aspect of people's judgement to predict from everybody else, with its folds and resamples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from custodes.data.panel import Floats
from custodes.evaluate.judges import METRIC, Judges
from custodes.stats.learning import heldout, ridge
from custodes.stats.learning.folds import grouped_folds, plain_folds
from custodes.stats.resampling import resample

Folds = Literal["item", "plain"]
FOLDS: tuple[Folds, ...] = ("item", "plain")
N_FOLDS = 5


@dataclass(frozen=True, kw_only=True)
class Part:
    """An aspect, and its position among the raters."""

    aspect: str
    me: int


@dataclass(frozen=True, kw_only=True)
class Target:
    """One aspect to predict: `y` (rows,) and `x` (rows, raters) over the outputs that people rated, `groups` (rows,)
    the cluster of each, `fold` (rows,) `by` item or not, `weights` (B, clusters); `row` (rows,) the flat place of each
    in the grid."""

    aspect: str
    me: int
    by: Folds
    who: Judges
    y: Floats
    x: Floats
    row: NDArray[np.intp]
    groups: NDArray[np.int64]
    fold: NDArray[np.intp]
    weights: Floats

    @property
    def columns(self) -> dict[str, NDArray[np.intp]]:
        """The raters behind each set of features; a set that is empty is not there."""
        metrics = self.who.of_kind(METRIC)
        humans = self.who.of_kind("human")
        humans = humans[humans != self.me]
        sets = {"metrics": metrics, "humans": humans, "both": np.concatenate([metrics, humans])}
        return {name: own for name, own in sets.items() if len(own) and (name != "both" or len(humans) * len(metrics))}

    def grid(self, values: Floats) -> Floats:
        """(..., rows) -> (..., items, systems), NaN elsewhere."""
        shape = self.who.scores.shape[1:]
        made = np.full((*values.shape[:-1], shape[0] * shape[1]), np.nan)
        made[..., self.row] = values
        return made.reshape(*values.shape[:-1], *shape)

    def fold_grid(self, fold: NDArray[np.intp]) -> NDArray[np.intp]:
        """Folds (rows,) -> (items, systems), -1 elsewhere."""
        return np.nan_to_num(self.grid(fold.astype(np.float64)), nan=-1).astype(np.intp)

    def kendall(self, predictions: Floats) -> Floats:
        """Held-out tau-b of predictions (m, rows) in every resample -> (B, m)."""
        fold = self.fold_grid(self.fold)
        return heldout.heldout_kendall(
            self.grid(self.y), self.grid(predictions), fold, units=self.who.units, weights=self.weights
        )


def target_of(who: Judges, part: Part, by: Folds, resamples: int, rng: np.random.Generator) -> Target:
    """The target of one aspect that people rated on two items or clusters at least."""
    y = who.scores[part.me].ravel()
    row = np.flatnonzero(np.isfinite(y))
    groups = np.repeat(who.units, len(who.systems))[row]
    n_folds = min(N_FOLDS, len(np.unique(groups)))
    assert n_folds >= 2
    if by == "item":
        fold = grouped_folds(groups, n_folds=n_folds, rng=rng)
    else:
        fold = plain_folds(len(row), n_folds=n_folds, rng=rng)
    return Target(
        aspect=part.aspect,
        me=part.me,
        by=by,
        who=who,
        y=y[row],
        x=who.scores.reshape(len(who.scores), -1)[:, row].T,
        row=row,
        groups=groups,
        fold=fold,
        weights=resample.with_point(resample.bootstrap_weights(who.n_units, resamples, rng)),
    )


def ridge_fit(x: Floats, y: Floats, groups: NDArray[Any]) -> heldout.Predictor:
    """Learn by ridge regression from a training part."""
    learnt = ridge.ridge(x, y, groups=groups)
    return lambda new: ridge.predict(learnt, new)


def interval_columns(name: str, draws: Floats, confidence: float) -> dict[str, Floats]:
    """The estimate (row 0 of draws) as a column, with the ends of its interval."""
    low, high = resample.percentile_interval(draws[1:], confidence=confidence)
    ends = ("low", "high") if name == "kendall" else (f"{name}_low", f"{name}_high")
    return {name: draws[0], ends[0]: low, ends[1]: high}
