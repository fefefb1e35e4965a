"""Halo: how much of what one aspect says of another goes with the annotator who gave both?"""

from __future__ import annotations

import numpy as np
import polars as pl

from custodes.data.panel import Floats
from custodes.evaluate.people import mean_over_people
from custodes.evaluate.result import columns
from custodes.evaluate.target import Target, interval_columns
from custodes.stats import heldout, ridge

SOURCES = ("same annotator", "other annotators", "metrics")


def halo_table(target: Target, confidence: float) -> pl.DataFrame:
    """One annotator's rating of the target, predicted from their own other aspects, from the other annotators' other
    aspects, and from the metrics; averaged over annotators. Empty with one annotator or one aspect."""
    who = target.who
    place = who.aspects.index(target.aspect)
    others = [k for k in range(len(who.aspects)) if k != place]
    persons = np.flatnonzero(np.isfinite(who.annotators[place]).any(axis=(1, 2)))
    draws = []
    if others and len(persons) > 1:
        metrics = who.scores[target.columns["metrics"]]
        for person in persons:
            rest = np.delete(np.arange(who.annotators.shape[1]), person)
            elsewhere = np.stack([mean_over_people(who.annotators[k, rest]) for k in others])
            sources = (who.annotators[others, person], elsewhere, metrics)
            draws.append(_kendall(target, who.annotators[place, person], sources))
    total = np.nanmean(draws, axis=0) if draws else np.empty((len(target.weights), 0))
    n = total.shape[1]
    labels = {
        "target": pl.Series([target.aspect] * n, dtype=pl.String),
        "source": pl.Series(SOURCES[:n], dtype=pl.String),
    }
    return pl.DataFrame(labels).hstack(columns(interval_columns("kendall", total, confidence)))


def _kendall(target: Target, rating: Floats, sources: tuple[Floats, ...]) -> Floats:
    """Held-out tau-b of one annotator's rating (items, systems) from each source (features, items, systems), by ridge
    regression -> (B, sources)."""
    y = rating.ravel()[target.row]
    fold = np.where(np.isfinite(y), target.fold, -1)

    def fit(x: Floats, y: Floats, groups: np.ndarray) -> heldout.Predictor:
        learnt = ridge.ridge(x, y, groups=groups)
        return lambda new: ridge.predict(learnt, new)

    predicted = [
        heldout.cross_predicted(own.reshape(len(own), -1)[:, target.row].T, y, fold, groups=target.groups, fit=fit)
        for own in sources
    ]
    places = np.nan_to_num(target.grid(fold.astype(np.float64)), nan=-1).astype(np.intp)
    return heldout.heldout_kendall(
        target.grid(y), target.grid(np.stack(predicted)), places, units=target.who.units, weights=target.weights
    )
