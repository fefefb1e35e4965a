"""Pruning of boosted trees: the least important column leaves, one at a time; held-out folds say how many stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats
from custodes.stats.learning import boost
from custodes.stats.learning.folds import splits


class Step(NamedTuple):
    """The columns in the model, the one that leaves after it, and the held-out score of predictions."""

    kept: NDArray[np.intp]
    removed: int
    score: float


class Pruning(NamedTuple):
    """Every step from all columns down to one, and the columns with the best held-out score."""

    steps: tuple[Step, ...]
    best: NDArray[np.intp]


def pruned(
    x: Floats,
    y: Floats,
    fold: NDArray[np.integer[Any]],
    *,
    score: Callable[[Floats, NDArray[Any]], float],
    settings: boost.Settings,
    seed: int,
) -> Pruning:
    """Take out the least important column of x (rows, p) again and again: y and fold (rows,).

    At every step a model a fold is fitted without it; `score` takes the held-out predictions (rows,) and the folds;
    importance is the gain averaged over these models (between equals the later column leaves). The best step has the
    highest score, between equals the fewest columns. MissingExtraError without XGBoost.

    >>> x = np.array([[0.0, 5.0], [1.0, 5.0], [2.0, 5.0], [3.0, 5.0]] * 4)
    >>> fold = np.repeat([0, 1], 8)
    >>> loss = lambda predicted, fold: -float(((predicted - x[:, 0]) ** 2).mean())
    >>> pruned(x, x[:, 0], fold, score=loss, settings=boost.SETTINGS, seed=0).best.tolist()
    [0]

    Source: Winata et al. 2024 (MetaMetrics), algorithm 1, with the choice on held-out folds instead of the training
    part.
    """
    kept = np.arange(x.shape[1])
    steps = []
    while len(kept):
        predicted = np.full(len(y), np.nan)
        importance = np.zeros(len(kept))
        for train, held in splits(fold):
            model = boost.boosted(x[np.ix_(train, kept)], y[train], seed=seed, **settings)
            predicted[held] = boost.predict_boosted(model, x[np.ix_(held, kept)])
            importance += boost.gain_importance(model, len(kept))
        least = len(kept) - 1 - int(np.argmin(importance[::-1]))
        steps.append(Step(kept, int(kept[least]), score(predicted, fold)))
        kept = np.delete(kept, least)
    scores = np.nan_to_num([step.score for step in steps], nan=-np.inf)
    return Pruning(tuple(steps), steps[len(steps) - 1 - int(np.argmax(scores[::-1]))].kept)
