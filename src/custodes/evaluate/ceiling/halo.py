"""Halo: how much of what one aspect says of another goes with the annotator who gave both?"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.data.panel import Floats
from custodes.evaluate.ceiling.prediction_target import Target, interval_columns, ridge_fit
from custodes.evaluate.people import mean_over_people
from custodes.evaluate.result import columns
from custodes.stats.learning import heldout

SOURCES = ("same annotator", "other annotators", "metrics")
REFERENCE = SOURCES.index("other annotators")


def halo_table(target: Target, confidence: float) -> tuple[pl.DataFrame, NDArray[np.intp]]:
    """One annotator's rating of the target, predicted from their own other aspects, from the other annotators' other
    aspects, and from the metrics; and which annotators have no part.

    Averaged over the annotators whom all three predict, by how many outputs they rated. An annotator whose ratings fall
    in one fold, or share no output with others, has no part. Empty with one annotator or one aspect.
    """
    who = target.who
    place = who.aspects.index(target.aspect)
    others = [k for k in range(len(who.aspects)) if k != place]
    persons = np.flatnonzero(np.isfinite(who.annotators[place]).any(axis=(1, 2)))
    draws = np.empty((len(persons), len(target.weights), len(SOURCES)))
    if not others or len(persons) < 2:
        return _table(target, draws[:0], np.empty(0), confidence), persons[:0]
    metrics = who.scores[target.columns["metrics"]]
    for own, person in zip(draws, persons, strict=True):
        rest = np.delete(np.arange(who.annotators.shape[1]), person)
        elsewhere = np.stack([mean_over_people(who.annotators[k, rest]) for k in others])
        own[:] = _kendall(target, who.annotators[place, person], (who.annotators[others, person], elsewhere, metrics))
    told = np.isfinite(draws[:, 0]).all(axis=1)
    rated = np.isfinite(who.annotators[place, persons]).sum(axis=(1, 2))
    return _table(target, draws[told], rated[told], confidence), persons[~told]


def _table(target: Target, draws: Floats, rated: NDArray[np.int64] | Floats, confidence: float) -> pl.DataFrame:
    """The mean of draws (annotators, B, sources) by how many outputs each annotator `rated` (annotators,)."""
    weight = np.where(np.isfinite(draws).all(axis=2), rated[:, np.newaxis], 0.0)[:, :, np.newaxis]
    with np.errstate(invalid="ignore"):  # a resample without any of them
        total = np.where(weight > 0, weight * draws, 0.0).sum(axis=0) / weight.sum(axis=0)
    total = total[:, : len(SOURCES) if len(draws) else 0]
    lead = total - total[:, REFERENCE : REFERENCE + 1]
    lead[:, REFERENCE : REFERENCE + 1] = np.nan
    n = total.shape[1]
    labels = {
        "target": pl.Series([target.aspect] * n, dtype=pl.String),
        "source": pl.Series(SOURCES[:n], dtype=pl.String),
    }
    numbers = {**interval_columns("kendall", total, confidence), **interval_columns("lead", lead, confidence)}
    return pl.DataFrame(labels).hstack(columns(numbers))


def _kendall(target: Target, rating: Floats, sources: tuple[Floats, ...]) -> Floats:
    """Held-out tau-b of one annotator's rating (items, systems) from each source (features, items, systems), by ridge
    regression -> (B, sources); NaN with ratings in one fold."""
    y = rating.ravel()[target.row]
    fold = np.where(np.isfinite(y), target.fold, -1)
    if len(np.unique(fold[fold >= 0])) < 2:
        return np.full((len(target.weights), len(sources)), np.nan)

    predicted = [
        heldout.cross_predicted(
            own.reshape(len(own), -1)[:, target.row].T, y, fold, groups=target.groups, fit=ridge_fit
        )
        for own in sources
    ]
    places = target.fold_grid(fold)
    return heldout.heldout_kendall(
        target.grid(y), target.grid(np.stack(predicted)), places, units=target.who.units, weights=target.weights
    )
