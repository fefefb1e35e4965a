"""Which metric next, or out: the path of greatest gain, that of least loss, and what each metric would add or cost."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.data.panel import Floats
from custodes.errors import listed
from custodes.evaluate.ceiling.prediction_target import Target, interval_columns
from custodes.evaluate.result import columns
from custodes.stats.learning import forward

TIE = 1e-10
"""Of the squared error; copies of a metric differ by less, through rounding, and the first of them goes."""


def forward_table(target: Target, given: NDArray[np.intp], steps: int, confidence: float) -> pl.DataFrame:
    """The path chosen on all data; at each step the score of paths chosen without the held-out fold."""
    metrics, names = target.columns["metrics"], target.who.names
    start = np.flatnonzero(np.isin(metrics, given))
    path = forward.nested_path(
        target.x[:, metrics], target.y, target.fold, groups=target.groups, given=start, steps=steps
    )
    if len(np.unique(target.fold)) == 2:  # nothing is left to choose a path by
        path.predicted[1:], path.chosen[:] = np.nan, np.nan
    draws = target.kendall(path.predicted)
    gain = draws - np.concatenate([np.full_like(draws[:, :1], np.nan), draws[:, :-1]], axis=1)
    label = [listed([names[i] for i in metrics[start]], limit=2), *(names[i] for i in metrics[path.order])]
    frame = columns(
        {
            "target": [target.aspect] * len(label),
            "step": np.arange(len(label)),
            "metric": label,
            **interval_columns("kendall", draws, confidence),
            **interval_columns("gain", gain, confidence),
            "chosen": np.concatenate([[np.nan], path.chosen]),
        }
    )
    return frame if len(start) else frame.slice(1)


def backward_table(target: Target, given: NDArray[np.intp], steps: int, confidence: float) -> pl.DataFrame:
    """From those in use (none said: from all), at each step without the metric whose removal raises the held-out
    squared error least: the first is the most redundant one. The order is chosen on the folds that score it."""
    metrics = target.columns["metrics"]
    start = np.flatnonzero(np.isin(metrics, given))
    left = start if len(start) else np.arange(len(metrics))
    order: list[int] = []
    predicted = [_predicted(target, [left])]
    while len(order) < steps and len(left) > 1:
        without = _predicted(target, [left[left != i] for i in left])
        error = ((without - target.y) ** 2).sum(axis=1)
        least = int(np.argmax(error <= error.min() * (1 + TIE)))
        order.append(int(left[least]))
        left = np.delete(left, least)
        predicted.append(without[[least]])
    draws = target.kendall(np.concatenate(predicted))
    return columns(
        {
            "target": pl.Series([target.aspect] * len(order), dtype=pl.String),
            "step": np.arange(1, len(order) + 1),
            "metric": pl.Series([target.who.names[metrics[i]] for i in order], dtype=pl.String),
            **interval_columns("kendall", draws[:, 1:], confidence),
            **interval_columns("loss", draws[:, :-1] - draws[:, 1:], confidence),
        }
    )


def _predicted(target: Target, subsets: list[NDArray[np.intp]]) -> Floats:
    """Held-out predictions (subsets, rows) from each subset of the metrics."""
    x = target.x[:, target.columns["metrics"]]
    own = np.unique(np.concatenate(subsets))
    places = [np.searchsorted(own, subset) for subset in subsets]
    return forward.subset_predictions(x[:, own], target.y, target.fold, subsets=places)


def next_table(target: Target, given: NDArray[np.intp], confidence: float) -> pl.DataFrame:
    """What each metric would add to those in use (none said: alone), and what taking it out would cost."""
    metrics = target.columns["metrics"]
    start = np.flatnonzero(np.isin(metrics, given))
    everyone = np.arange(len(metrics))
    used = start if len(start) else everyone
    more = np.setdiff1d(everyone, start)
    subsets = [start, used, *(np.append(start, i) for i in more), *(used[used != i] for i in used)]
    draws = target.kendall(_predicted(target, subsets))
    draws[:, [not len(own) for own in subsets]] = 0.0  # a constant ranks nothing: no agreement, rather than undefined
    added, removed = np.full((2, len(draws), len(metrics)), np.nan)
    added[:, more] = draws[:, 2 : 2 + len(more)] - draws[:, :1]
    removed[:, used] = draws[:, 1:2] - draws[:, 2 + len(more) :]
    made = columns(
        {
            "target": [target.aspect] * len(metrics),
            "metric": [target.who.names[i] for i in metrics],
            **interval_columns("added", added, confidence),
            **interval_columns("removed", removed, confidence),
        }
    )
    return made.sort("added", descending=True, nulls_last=True, maintain_order=True)
