"""The mixture model of very many tables at once, each only as far as its decision needs.

A replay judges tens of thousands of tables, and most of them are nowhere near a threshold: a few hundred weighted
draws, made for all tables together out of the same normal numbers, settle those. Only the rest gets more draws, and
what is still open (or hard to sample) the careful treatment of `mixture_posterior`, at once where that is a finite sum.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats
from custodes.stats.correction.estimator import Counts, Evidence
from custodes.stats.correction.mixture.exact import cheaply_summed, mixture_posterior
from custodes.stats.correction.mixture.shared import CHUNK, Numbers, shared_draws
from custodes.stats.multiple_testing import SIGMAS

_STAGES = (256, 1024, 6144)  # draws a table; each stage for what the one before leaves open
_MORE = 6144  # draws that take longer than a finite sum
_PRECISION = 0.005  # Monte Carlo error of theta that is small enough wherever the thresholds are
_ENOUGH = 64  # effective draws below which no error estimate is trusted
_SHARE = 0.1  # the same as a share of the draws
_MOST_DRAWS = 1_000_000


def screened(counts: Counts, *, tail: float, rng: np.random.Generator) -> Evidence:
    """Posteriors accurate enough to tell theta from `tail` and 1 - tail, of tables (...).

    Theta is at least four Monte Carlo errors away from both thresholds, or known to .005. What is said of a table
    depends on it and the seed alone.

    >>> counts = Counts(np.array([[30, 5, 5], [5, 15, 5], [4, 6, 25]]), np.array([60, 20, 10]), np.zeros(3))
    >>> seen = screened(counts, tail=0.025, rng=np.random.default_rng(0))
    >>> bool(seen.theta > 0.975)
    True

    Source: the model is Deriu et al. 2023, Section 3.3; the proposal is the plain one of `proposal`.
    """
    shape, tables = counts.shape, [part.astype(np.float64) for part in counts.flat]
    answer = np.empty((len(tables[0]), 7))  # as in `_sampled`
    rest, careful_ones = np.arange(len(answer)), np.zeros(len(answer), dtype=bool)
    for draws in _STAGES:
        if draws >= _MORE:
            careful_ones[rest] = cheaply_summed(Counts(*(part[rest] for part in tables)))
            rest = rest[~careful_ones[rest]]
        step, numbers = max(1, CHUNK // draws), Numbers.of(draws, rng)
        still: list[NDArray[np.intp]] = []
        for start in range(0, len(rest), step):
            rows = rest[start : start + step]
            answer[rows], error = _sampled(Counts(*(part[rows] for part in tables)), numbers)
            theta, effective = answer[rows, 0], answer[rows, 6]
            distance = np.minimum(np.abs(theta - tail), np.abs(theta - (1 - tail)))
            trusted = effective >= max(_ENOUGH, _SHARE * draws)
            still.append(rows[~(trusted & ((distance > SIGMAS * error) | (error <= _PRECISION)))])
        rest = np.concatenate(still) if still else rest
    careful_ones[rest] = True
    if len(rest := np.flatnonzero(careful_ones)):
        careful = mixture_posterior(
            Counts(*(part[rest] for part in tables)),
            rng=rng,
            confidence=0.95,
            precision=_PRECISION,
            gamma=2 * tail,
            max_draws=_MOST_DRAWS,
        )
        sd = (careful.margin_high - careful.margin_low) / (2 * 1.959963984540054)
        answer[rest] = np.column_stack([careful.theta, careful.p, careful.margin, sd, careful.effective_draws])
    theta, margin, sd, effective = (answer[:, k].reshape(shape) for k in (0, 4, 5, 6))
    return Evidence.quick(theta=theta, margin=margin, sd=sd, p=answer[:, 1:4].reshape(*shape, 3), draws=effective)


def _sampled(counts: Counts, numbers: Numbers) -> tuple[Floats, Floats]:
    """Of tables (t, 3, 3) theta, means of p and of the margin, sd of the margin, effective draws: (t, 7); and the error
    of theta (t,)."""
    p, log_weights = shared_draws(counts, numbers)
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    effective = 1 / (weights**2).sum(axis=1)
    better = p[0] > p[2]
    theta = (weights * better).sum(axis=1)
    # The delta method, and never below one effective draw: what was not seen is not impossible.
    error = np.hypot(np.sqrt(((weights * (better - theta[:, None])) ** 2).sum(axis=1)), 1 / effective)
    mean = [(weights * part).sum(axis=1) for part in p]
    difference = p[0] - p[2]
    margin = (weights * difference).sum(axis=1)
    sd = np.sqrt((weights * (difference - margin[:, None]) ** 2).sum(axis=1))
    return np.column_stack([theta, *mean, margin, sd, effective]), error
