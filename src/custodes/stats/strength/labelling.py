"""Test whether the battles with human ratings are a random sample of all battles."""

from __future__ import annotations

from typing import Any

import numpy as np

from custodes.stats.arrays import Bools, Floats, Ints
from custodes.stats.strength.strengths import Fitted

_LEAST = 5.0  # minimum number of expected annotated battles of a system for including it
_SAME = 1e-9


def p_random(metric: Fitted, judged: Bools) -> float:
    """P-value of 'annotation is independent of the systems and of the metric's verdict': judged (n,) of its battles.

    Three tests: whether annotated battles differ in closeness by the metric, in ties, or in wins of the weaker system
    (also through covariates such as position); whether their systems are those of other battles; and whether the
    metric's verdicts on each system are the same. Each uses the sums over clusters of (annotated - proportion) x
    feature, as a quadratic form with their covariance (by clusters if these hold several battles, else the known one of
    a random choice of battles); the p-value is three times the smallest. NaN if no battle or all are annotated.

    Source: Hotelling 1931, with the number of annotated battles, or the effective number of clusters, minus one as
    degrees of freedom.
    """
    from scipy.sparse import csr_array, diags_array

    n, unit = len(judged), metric.battles.unit
    share = judged.mean() if n else np.nan
    if not 0 < share < 1:
        return np.nan
    fit, n_systems = metric.fit, len(metric.component)
    design = fit.design[metric.made.kind]
    eta = design @ fit.coefficients[: design.shape[1]]
    side = np.where(eta < 0, -1.0, 1.0)
    half, tie = metric.residual(fit.coefficients).T
    scalar = np.stack([np.abs(eta), half * side, tie, *(half * column for column in design[:, n_systems:].toarray().T)])
    indicators = design[:, :n_systems]
    enough = np.asarray(abs(indicators).sum(axis=0)) * share >= _LEAST
    candidates = [csr_array(scalar.T), abs(indicators)[:, enough], diags_array(half) @ indicators[:, enough]]
    p_values = [_unrelated(csr_array(features), judged - share, unit) for features in candidates]
    finite = [p for p in p_values if np.isfinite(p)]
    return min(1.0, len(finite) * min(finite)) if finite else np.nan


def _unrelated(features: Any, surplus: Floats, unit: Ints) -> float:
    """P-value of zero covariance between features (n, d), sparse, and a surplus (n,) that sums to 0."""
    from scipy.sparse import csr_array
    from scipy.special import fdtrc

    n = len(surplus)
    mean = np.asarray(features.sum(axis=0)) / n
    total = features.T @ surplus
    _, unit = np.unique(unit, return_inverse=True)
    n_units = int(unit.max()) + 1
    effective = float((surplus > 0).sum())  # few of many are skewed: their number counts
    if n_units == n:
        spread = surplus @ surplus / (n - 1) * ((features.T @ features).toarray() - n * np.outer(mean, mean))
    else:
        member = csr_array((surplus, (unit, np.arange(n))), shape=(n_units, n))
        sums, rest = member @ features, np.bincount(unit, weights=surplus)
        across = np.outer(sums.T @ rest, mean)
        spread = (sums.T @ sums).toarray() - across - across.T + rest @ rest * np.outer(mean, mean)
        effective = float((rest**2).sum() ** 2 / (rest**4).sum()) if rest.any() else 0.0
    scale = np.sqrt(spread.diagonal().clip(0.0))
    varying = scale > _SAME * max(1.0, float(scale.max(initial=0.0)))
    if not varying.any():
        return np.nan
    values, vectors = np.linalg.eigh(spread[np.ix_(varying, varying)] / np.outer(scale[varying], scale[varying]))
    positive = values > _SAME
    rank = int(positive.sum())
    square = float((((total[varying] / scale[varying]) @ vectors[:, positive]) ** 2 / values[positive]).sum())
    if effective <= rank + 1:
        return np.nan
    return float(fdtrc(rank, effective - rank, square * (effective - rank) / (rank * (effective - 1))))
