"""An annotator's agreement with the others, and theirs with one another on the same tasks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from custodes.stats.arrays import Bools, Floats, Ints
from custodes.stats.ratios import ratio


class Peers(NamedTuple):
    """Of each answer (n,) to a task that at least two others answered: `own` is the annotator's agreement with them,
    `others` their agreement with one another. Both estimate rank correlations up to one common factor for each
    annotator, so that signs and ratios of their sums are meaningful. NaN for all other answers. `spread` (workers,) is
    the variance of an annotator's scores, NaN where all answers are equal."""

    own: Floats
    others: Floats
    spread: Floats


def peers(task: Ints, worker: Ints, value: Floats, *, n_tasks: int, trusted: Bools) -> Peers:
    """Compare each annotator with the others on the same tasks: long arrays (n,) sorted by task.

    `value` is a score, or 1, 0, -1 for the first system of a comparison; only its order counts. `trusted` (workers,)
    marks those who count among the others.

    Answers become mid-ranks within their annotator, divided by their variance. So neither severity nor the use of the
    scale matters, and coarse answers estimate the correlation that fine ones would have. Agreement of two answers is
    their product. It is 0 on average for an annotator whose answers do not depend on the task. The others are centred
    on the tasks of the annotator, and their spread is measured there, so that neither harder nor more similar tasks
    make the annotator look worse than they do.

    Source: ours. Spearman 1904 for rank correlation; Kruskal 1958 for its loss by ties.

    >>> task, worker = np.repeat(np.arange(3), 4), np.tile(np.arange(4), 3)
    >>> value = np.array([1.0, 2, 2, 5, 2, 3, 4, 3, 4, 5, 5, 1])
    >>> result = peers(task, worker, value, n_tasks=3, trusted=np.ones(4, dtype=bool))
    >>> [bool(result.own[worker == w].sum() > 0) for w in range(4)]
    [True, True, True, False]
    """
    n_workers = len(trusted)
    number = np.bincount(task, minlength=n_tasks)
    shared = (number > 1)[task]
    score, spread = _scores(worker, np.where(shared, value, np.nan), n_workers)
    own, others = np.full(len(value), np.nan), np.full(len(value), np.nan)
    starts = np.append(0, np.cumsum(number))
    by_worker = np.argsort(np.where(shared, worker, n_workers), kind="stable")
    limits = np.searchsorted(worker[by_worker[: int(shared.sum())]], np.arange(n_workers + 1))
    for w in np.flatnonzero(np.isfinite(spread)):
        rows = by_worker[limits[w] : limits[w + 1]]
        tasks = task[rows]
        size = number[tasks]
        place = np.repeat(np.arange(len(rows)), size)
        answers = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size) + np.repeat(starts[tasks], size)
        by = worker[answers]
        counted = (by != w) & trusted[by] & np.isfinite(spread[by])
        place, answers, by = place[counted], answers[counted], by[counted]
        many = np.bincount(place, minlength=len(rows))
        if not (many > 1).any():
            continue
        centred = score[answers] - score[answers].mean()
        relative = np.sqrt((centred**2).sum() / spread[by].sum())
        total, squares = (np.bincount(place, own, len(rows)) for own in (centred, centred**2))
        several = many > 1
        own[rows] = np.where(several, score[rows] * ratio(total, many) * relative, np.nan)
        others[rows] = np.where(several, ratio(total**2 - squares, many * (many - 1.0)), np.nan)
    return Peers(own, others, spread)


def _scores(worker: Ints, value: Floats, n_workers: int) -> tuple[Floats, Floats]:
    """Of each answer (n,) the mid-rank within its annotator over the variance of these, 0 for a missing value; and the
    variance of that (workers,), NaN for annotators whose answers are all equal."""
    order = np.lexsort((value, worker))
    order = order[np.isfinite(value[order])]
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = (np.diff(worker[order]) != 0) | (np.diff(value[order]) != 0)
    begin = np.flatnonzero(first)
    length = np.diff(np.append(begin, len(order)))
    number = np.bincount(worker[order], minlength=n_workers)
    middle = np.repeat(begin + (length - 1) / 2, length)
    start = np.cumsum(number) - number
    rank = (middle - start[worker[order]] + 0.5) / number[worker[order]] - 0.5
    variance = ratio(np.bincount(worker[order], rank**2, n_workers), number)
    spread = ratio(np.ones(n_workers), np.where(variance > 1e-12, variance, 0.0))
    score = np.zeros(len(value))
    score[order] = np.nan_to_num(rank * spread[worker[order]])
    return score, spread
