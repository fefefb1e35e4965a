"""Do annotators who rate different items prefer different systems?"""

from __future__ import annotations

from typing import Any

import numpy as np

from custodes.stats.arrays import Ints

PERMUTATIONS = 199
_SAME = 1e-9  # of the statistic; a smaller difference is rounding


def taste_p(preferences: Any, annotator: Ints, rng: np.random.Generator) -> float:
    """p-value of the hypothesis that all annotators have the same preferences between systems.

    Permutation test: the statistic is the sum of squared sums of each annotator over the number of its tasks; the
    annotators are permuted over tasks, which are exchangeable if tasks are assigned at random.

    Parameters
    ----------
    preferences : sparse array of shape (tasks, columns)
        How much each system is preferred in a task, less the mean of all tasks; a column per aspect and system.
    annotator : array of int of shape (tasks,)
        Who did the task, from 0.
    rng : numpy.random.Generator
        Draws the permutations.

    Returns
    -------
    float
        NaN with one annotator, or one task for each.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> rng = np.random.default_rng(0)
    >>> annotator = np.repeat(np.arange(4), 25)
    >>> noise, tastes = rng.normal(size=(100, 3)), rng.normal(size=(4, 3))
    >>> taste_p(csr_array(noise), annotator, rng) > 0.05, taste_p(csr_array(noise + tastes[annotator]), annotator, rng)
    (True, 0.005)
    """
    from scipy.sparse import csr_array

    n, tasks = len(annotator), np.bincount(annotator)
    if (tasks > 0).sum() < 2 or tasks.max() < 2:
        return np.nan

    def statistic(of: Ints) -> float:
        member = csr_array((np.ones(n), (of, np.arange(n))), shape=(len(tasks), n))
        squares = (member @ preferences).power(2).sum(axis=1)
        return float((np.asarray(squares).ravel() / np.maximum(tasks, 1)).sum())

    observed = statistic(annotator)
    permuted = np.array([statistic(rng.permutation(annotator)) for _ in range(PERMUTATIONS)])
    return float((1 + (permuted >= observed * (1 - _SAME)).sum()) / (1 + PERMUTATIONS))
