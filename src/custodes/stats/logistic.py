"""Logistic regression of proportions, with clustered standard errors."""

from __future__ import annotations

import numpy as np

from custodes.stats.arrays import Floats, Ints
from custodes.stats.bootstrap import unit_sums
from custodes.stats.intervals import Inference, student_inference

STEPS = 50
LARGEST = 30.0
"""If an absolute coefficient exceeds this value, the columns separate the outcome, so that no finite fit exists."""


def first_coefficient(outcome: Floats, design: Floats, units: Ints, *, confidence: float) -> Inference:
    """First coefficient of a logistic regression by Newton's method, with interval and test.

    Parameters
    ----------
    outcome : array of shape (n,)
        Proportions from 0 to 1.
    design : array of shape (n, k)
        Columns of the regression. For an intercept, include a column of ones.
    units : int array of shape (n,)
        Cluster of each row.
    confidence : float
        Level of the interval, which uses Student's t with one degree of freedom less than there are clusters.

    Returns
    -------
    Inference
        The p-value is that of the same t test. All values are NaN if columns are linearly dependent, if the outcome is
        separated, or if there is only one cluster.

    References
    ----------
    Liang and Zeger 1986 (standard errors by clusters); Papke and Wooldridge 1996 (proportions).

    Examples
    --------
    >>> outcome = np.repeat([0.75, 0.25], 50)
    >>> design = np.stack([np.repeat([1.0, -1.0], 50)], axis=1)
    >>> first_coefficient(outcome, design, np.arange(100), confidence=0.95).estimate.round(3).item()
    1.099
    """
    nan_inference = Inference(*np.full(4, np.nan))
    distinct_units, units = np.unique(units, return_inverse=True)
    if len(distinct_units) < 2 or np.linalg.matrix_rank(design) < design.shape[1]:
        return nan_inference
    coefficients = np.zeros(design.shape[1])
    for _ in range(STEPS):
        probabilities = 1 / (1 + np.exp(-np.clip(design @ coefficients, -LARGEST, LARGEST)))
        information_matrix = (design * (probabilities * (1 - probabilities))[:, None]).T @ design
        if np.linalg.cond(information_matrix) > 1e12:
            return nan_inference
        newton_step = np.linalg.solve(information_matrix, design.T @ (outcome - probabilities))
        coefficients = coefficients + newton_step
        if np.abs(newton_step).max() < 1e-10:
            break
    if np.abs(coefficients).max() > LARGEST:
        return nan_inference
    scores_by_cluster = unit_sums(
        (design * (outcome - probabilities)[:, None]).T, units=units, n_units=len(distinct_units)
    )
    inverse_information = np.linalg.inv(information_matrix)
    standard_error = np.sqrt(
        (inverse_information @ (scores_by_cluster @ scores_by_cluster.T) @ inverse_information)[0, 0]
        * len(distinct_units)
        / (len(distinct_units) - 1)
    )
    return student_inference(coefficients[0], standard_error, n_units=len(distinct_units), confidence=confidence)
