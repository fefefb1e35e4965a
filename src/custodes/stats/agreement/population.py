"""Population values of systems behind their noisy means: what statistics over systems are made of in an interval.

The mean of a system over the items at hand is its population mean and noise. A resample adds the noise a second time,
so a correlation over systems, or a share of pairs in the same order, is lower in resamples than in the data, where it
is lower already than with very many items: percentiles miss the truth to one side. Here the noise is taken out instead.
"""

from __future__ import annotations

import numpy as np

from custodes.stats.arrays import Floats, unit_of

FEWEST_SYSTEMS = 3

_RIDGE = 1e-10  # of the variance between systems: a score without noise keeps a matrix that can be inverted
_SEED = 0  # of the nodes of an integral over covariances, the same in all studies: no more chance comes in


def population_values(human: Floats, metrics: Floats, *, n_units: int) -> tuple[Floats, Floats]:
    """Draw what people and each metric would say of the systems with very many items, given data and resamples.

    human (1 + B, metrics, systems) and metrics (1 + B, metrics, systems), the data first, then resamples of `n_units`
    clusters -> both (B, metrics, systems), centred over systems; NaN where a resample lacks a system. With fewer than
    three systems resamples stay as they are: nothing is known of how systems vary.

    The values of people and a metric are normal over systems with a covariance T, the errors of the means normal with
    the covariance V that resamples show (times G / (G - 1), mean over systems). T + V has its inverse Wishart posterior
    under Jeffreys' prior, cut where it is below V; given it, values are drawn from their posterior, in which errors
    keep the form and the dependence that they have in resamples.

    >>> rng = np.random.default_rng(0)
    >>> people, metric = (np.arange(5.0) + rng.normal(size=(200, 1, 5)) for _ in range(2))
    >>> [own.shape for own in population_values(people, metric, n_units=50)]
    [(199, 1, 5), (199, 1, 5)]

    Source: Lindley and Smith 1972; Everson and Morris 2000 for the posterior of T + V that is cut at V.
    """
    drawn = np.full((2, max(len(metrics) - 1, 0), *metrics.shape[1:]), np.nan)
    for m in range(metrics.shape[1]):
        both = np.stack([human[:, m], metrics[:, m]], axis=-1)
        rated = np.isfinite(both[0]).all(axis=-1)
        drawn[:, :, m, rated] = np.moveaxis(_one_metric(both[:, rated], n_units), -1, 0)
    return drawn[0], drawn[1]


def _one_metric(both: Floats, n_units: int) -> Floats:
    """(1 + B, systems, 2) -> (B, systems, 2)."""
    known = np.asarray(np.isfinite(both).all(axis=-1, keepdims=True))
    n_systems, lacking = both.shape[1], ~known[1:]
    mean = np.where(known, both, 0.0).sum(axis=1, keepdims=True) / np.maximum(known.sum(axis=1, keepdims=True), 1)
    both = np.where(known, both - mean, 0.0)
    units = np.array([unit_of(both[..., side]) for side in range(both.shape[-1])])  # squares stay within all numbers
    both = both / units
    point, resampled = both[0], both[1:]
    if n_systems < FEWEST_SYSTEMS or len(resampled) < 2 or n_units < 2:
        return np.where(lacking, np.nan, resampled * units)
    there = known[1:].sum(axis=0)
    errors = np.where(lacking, 0.0, resampled - resampled.sum(axis=0) / np.maximum(there, 1))
    errors *= np.sqrt(n_units / (n_units - 1))
    # Centring takes a part of the noise with it: of k systems, k - 1 are left.
    noise = np.einsum("bsi,bsj,s->ij", errors, errors, 1 / np.maximum(there[:, 0] - 1, 1)) / (n_systems - 1)
    between = point.T @ point
    ridge = _RIDGE * np.diagonal(between) + np.finfo(np.float64).tiny ** 0.5
    root = np.linalg.cholesky(noise + np.diag(ridge + _RIDGE * np.diagonal(noise)))
    # On the scale where the noise is 1 in every direction.
    white = np.linalg.inv(root)
    signal, axes = _signals(white @ between @ white.T, n_systems - 1, len(resampled))
    kept = (signal / (signal + 1))[:, None]
    values = kept * (point @ white.T @ axes) + np.sqrt(kept) * (errors @ white.T @ axes)
    return np.where(lacking, np.nan, values @ axes.swapaxes(1, 2) @ root.T * units)


def _signals(between: Floats, degrees: int, n: int) -> tuple[Floats, Floats]:
    """Draws of the covariance of values in units of the noise, given the scatter (2, 2) of values and noise with so
    many degrees: its variances (n, 2), not below 0, and its axes (n, 2, 2), columns."""
    rng = np.random.default_rng(_SEED)
    factor = np.zeros((n, 2, 2))
    factor[:, 0, 0], factor[:, 1, 1] = (np.sqrt(rng.chisquare(degrees - i, n)) for i in range(2))
    factor[:, 1, 0] = rng.normal(size=n)
    ridge = _RIDGE * np.trace(between) + np.finfo(np.float64).tiny ** 0.5  # where every value is the same, too
    inverse = np.linalg.inv(np.linalg.cholesky(between + ridge * np.eye(2))).T @ factor
    precision, axes = np.linalg.eigh(inverse @ inverse.swapaxes(1, 2))
    return np.maximum(1 / np.maximum(precision, np.finfo(np.float64).tiny) - 1, 0.0), axes
