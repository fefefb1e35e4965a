"""Which metric next: the path of greatest gain, and what each metric would add or cost."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.errors import listed
from custodes.evaluate.result import columns
from custodes.evaluate.target import Target, interval_columns
from custodes.stats import forward


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


def next_table(target: Target, given: NDArray[np.intp], confidence: float) -> pl.DataFrame:
    """What each metric would add to those in use (none said: alone), and what taking it out would cost."""
    metrics = target.columns["metrics"]
    start = np.flatnonzero(np.isin(metrics, given))
    everyone = np.arange(len(metrics))
    used = start if len(start) else everyone
    more = np.setdiff1d(everyone, start)
    subsets = [start, used, *(np.append(start, i) for i in more), *(used[used != i] for i in used)]
    predicted = forward.subset_predictions(target.x[:, metrics], target.y, target.fold, subsets=subsets)
    draws = target.kendall(predicted)
    added, removed = np.full((2, len(draws), len(metrics)), np.nan)
    without = draws[:, :1] if len(start) else 0.0
    added[:, more] = draws[:, 2 : 2 + len(more)] - without
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
