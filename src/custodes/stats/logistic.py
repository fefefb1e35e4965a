"""Logistic regression of proportions, with clustered standard errors and intervals of rates."""

from __future__ import annotations

import numpy as np

from custodes.stats.arrays import Floats, Ints
from custodes.stats.bootstrap import unit_sums
from custodes.stats.clusters import effective_clusters
from custodes.stats.intervals import Inference, student_inference, student_quantile, wilson_interval

STEPS = 50
_ROUNDING = 1e-9  # smaller scores and smaller differences of outcomes are rounding errors
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
    distinct_units, units = np.unique(units, return_inverse=True)
    n_units = len(distinct_units)
    is_identified = n_units > 1 and np.linalg.matrix_rank(design) == design.shape[1]
    logistic_fit = _fit(outcome, design) if is_identified else None
    if logistic_fit is None:
        return Inference(*np.full(4, np.nan))
    coefficients, probabilities, inverse_information = logistic_fit
    scores_by_cluster = unit_sums((design * (outcome - probabilities)[:, None]).T, units=units, n_units=n_units)
    standard_error = np.sqrt(((inverse_information[0] @ scores_by_cluster) ** 2).sum() * n_units / (n_units - 1))
    return student_inference(coefficients[0], standard_error, n_units=n_units, confidence=confidence)


def rate_at_zero(
    outcome: Floats, covariates: Floats, units: Ints, *, weights: Floats, confidence: float
) -> tuple[float, float, float]:
    """Weighted mean outcome at covariates of 0 by logistic regression, and the bounds of its Wilson interval.

    The Wilson interval is for the number of independent observations at covariates of 0 that would give the same
    standard error. The computation includes t^2 / 2 additional wins and t^2 / 2 additional losses at covariates of 0.
    Without them the standard error would be too small if nearly all outcomes are equal. If all outcomes are equal, the
    number is the effective number of clusters.

    Parameters
    ----------
    outcome : array of shape (n,)
        Proportions from 0 to 1.
    covariates : array of shape (n, k)
        Covariates; k can be 0.
    units : int array of shape (n,)
        Cluster of each row.
    weights : array of shape (n,)
        Weight of each row; only ratios matter.
    confidence : float
        Level of the interval, which uses Student's t with one degree of freedom less than the effective number of
        clusters.

    Returns
    -------
    tuple of float
        Rate, lower and upper bound. All are NaN if the covariates separate the outcome or are linearly dependent. The
        bounds are NaN if there is only one cluster.

    References
    ----------
    Liang and Zeger 1986 (standard errors by clusters); Agresti and Coull 1998 (pseudo-observations); Wilson
    1927; Kish 1965 (effective number of clusters).

    Examples
    --------
    >>> outcome, covariate = np.repeat([1.0, 0.0, 1.0, 0.0], [30, 10, 10, 30]), np.repeat([[1.0], [-1.0]], 40, axis=0)
    >>> rate_and_bounds = rate_at_zero(outcome, covariate, np.arange(80), weights=np.ones(80), confidence=0.95)
    >>> [round(value, 2) for value in rate_and_bounds]
    [0.5, 0.37, 0.63]
    """
    units = np.unique(units, return_inverse=True)[1]
    design = np.column_stack([np.ones(len(outcome)), covariates])
    weights = weights * weights.sum() / (weights**2).sum()  # the sum is the effective number of rows
    n_effective = n_units = effective_clusters(np.bincount(units, weights=weights))
    t_quantile = student_quantile(confidence, n_units)
    rate = float(np.average(outcome, weights=weights))
    if np.ptp(outcome) > _ROUNDING:
        logistic_fit = _fit(outcome, design, weights)
        adjusted_fit = _fit(
            np.append(outcome, 0.5),
            np.vstack([design, np.eye(1, design.shape[1])]),
            weights=np.append(weights, t_quantile**2),
        )
        if logistic_fit is None or adjusted_fit is None:
            return np.nan, np.nan, np.nan
        coefficients, probabilities, _ = logistic_fit
        _, adjusted_probabilities, inverse_information = adjusted_fit
        if covariates.size:
            rate = float(1 / (1 + np.exp(-coefficients[0])))
        weighted_design = design * weights[:, None]
        scores_by_cluster = np.stack(
            [np.bincount(units, weights=column * (outcome - probabilities)) for column in weighted_design.T]
        )
        if n_units > 1 and np.abs(scores_by_cluster).max() > _ROUNDING:
            shifts, adjusted_rate = (
                weighted_design * (probabilities - adjusted_probabilities[:-1])[:, None],
                adjusted_probabilities[-1],
            )
            score_products = n_units / (n_units - 1) * scores_by_cluster @ scores_by_cluster.T + shifts.T @ shifts
            score_products[0, 0] += t_quantile**2 / 2 * (adjusted_rate**2 + (1 - adjusted_rate) ** 2)
            # the number of observations for the variance of the model, times this variance
            n_times_variance = 1 / (adjusted_rate * (1 - adjusted_rate)) - t_quantile**2 * inverse_information[0, 0]
            n_effective = n_times_variance / (inverse_information @ score_products @ inverse_information)[0, 0]
    if n_units < 2:
        return rate, np.nan, np.nan
    low, high = wilson_interval(rate, n_effective, quantile=t_quantile)
    return rate, float(low), float(high)


def _fit(outcome: Floats, design: Floats, weights: Floats | float = 1.0) -> tuple[Floats, Floats, Floats] | None:
    """Coefficients (k,), probabilities (n,) and inverse information (k, k); None if there is no finite fit."""
    coefficients = np.zeros(design.shape[1])
    for _ in range(STEPS):
        probabilities = 1 / (1 + np.exp(-np.clip(design @ coefficients, -LARGEST, LARGEST)))
        information_matrix = (design * (weights * probabilities * (1 - probabilities))[:, None]).T @ design
        if np.linalg.cond(information_matrix) > 1e12:
            return None
        newton_step = np.linalg.solve(information_matrix, design.T @ (weights * (outcome - probabilities)))
        coefficients = coefficients + newton_step
        if np.abs(newton_step).max() < 1e-10:
            break
    if np.abs(coefficients).max() > LARGEST:
        return None
    return coefficients, probabilities, np.asarray(np.linalg.inv(information_matrix))
