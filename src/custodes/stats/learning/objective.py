"""Agreement of many predictions at once with one target: Kendall, Spearman, Pearson, or accuracy over pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from custodes.errors import OptionError
from custodes.stats.arrays import Floats, Ints
from custodes.stats.correlation import ROWS
from custodes.stats.ratios import ratio

Objective = Literal["kendall", "spearman", "pearson", "accuracy"]
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)

_CHUNK = 250_000  # elements of a temporary array: a few of them fit a cache


def objective(kind: Objective, target: Floats, *, items: Ints) -> Callable[[Floats], Floats]:
    """Prepare the agreement with a target as a function of predictions.

    Parameters
    ----------
    kind
        'kendall' (tau-b), 'spearman' and 'pearson' are over all rows. 'accuracy' is over the pairs of rows of one item
        whose targets differ: the proportion that the prediction orders the same way, a predicted tie being wrong.
    target
        Finite values (rows,).
    items
        The item of each row (rows,).

    Returns
    -------
    :
        A function of predictions (m, rows) that gives their agreement (m,). NaN where it is undefined (a constant
        target or prediction, no such pair) and for a prediction that is not finite throughout.

    Raises
    ------
    OptionError
        For an unknown kind.

    References
    ----------
    Winata et al. (2024), "MetaMetrics", Section 3.2 (the calibration function); Kendall (1945) for ties.

    Examples
    --------
    >>> agreement = objective("kendall", np.array([1.0, 2.0, 3.0]), items=np.zeros(3, dtype=int))
    >>> agreement(np.array([[1.0, 3.0, 2.0], [4.0, 5.0, 6.0], [7.0, 7.0, 7.0]])).round(3).tolist()
    [0.333, 1.0, nan]
    """
    if kind not in OBJECTIVES:
        raise OptionError(f"objective: kind={kind!r} is none of {', '.join(OBJECTIVES)}")
    assert target.shape == items.shape
    assert np.isfinite(target).all()
    better, worse = _decided_pairs(target, items) if kind == "accuracy" else (items[:0], items[:0])

    def measure(predictions: Floats) -> Floats:
        if kind != "accuracy":
            return ROWS[kind](predictions, target)
        right = np.count_nonzero(predictions[:, better] > predictions[:, worse], axis=1)
        return ratio(right, np.array(len(better)))

    def agreement(predictions: Floats) -> Floats:
        values = np.full(len(predictions), np.nan)
        finite = np.flatnonzero(np.isfinite(predictions).all(axis=1))
        step = max(1, _CHUNK // max(1, len(target), len(better)))
        for start in range(0, len(finite), step):
            part = finite[start : start + step]
            values[part] = measure(predictions[part])
        return values

    return agreement


def _decided_pairs(target: Floats, items: Ints) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows of one item with different targets, in pairs: the higher and the lower one."""
    order = np.argsort(items, kind="stable")
    ordered = items[order]
    pairs = [np.zeros((2, 0), dtype=np.intp)]
    for offset in range(1, len(order)):
        place = np.flatnonzero(ordered[offset:] == ordered[:-offset])
        if not len(place):  # no item has as many rows
            break
        pairs.append(np.stack([order[place], order[place + offset]]))
    first, second = np.concatenate(pairs, axis=1)
    ahead, behind = target[first] > target[second], target[first] < target[second]
    return np.append(first[ahead], second[behind]), np.append(second[ahead], first[behind])
