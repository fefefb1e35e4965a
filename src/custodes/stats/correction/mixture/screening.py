"""The mixture model of very many tables at once, each only as far as its decision needs.

A replay judges tens of thousands of tables, and most of them are nowhere near a threshold: a few hundred weighted
draws, made for all tables together, settle those. Only the rest gets more draws, and what is still open (or hard to
sample) the careful treatment of `mixture_posterior`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats
from custodes.stats.correction.estimator import Counts, Evidence
from custodes.stats.correction.mixture.exact import mixture_posterior
from custodes.stats.correction.mixture.proposal import pseudo_counts

_STAGES = (256, 1024, 6144)  # draws a table; each stage for what the one before leaves open
_PRECISION = 0.005  # Monte Carlo error of theta that is small enough wherever the thresholds are
_SIGMAS = 4.0  # Monte Carlo errors between theta and a threshold that settle a decision
_ENOUGH = 64  # effective draws below which no error estimate is trusted
_SHARE = 0.1  # the same as a share of the draws
_CHUNK = 500_000  # draws at once: about twenty floats each
_MOST_DRAWS = 1_000_000
_SMALLEST = np.float32(1e-30)


def screened(counts: Counts, *, tail: float, rng: np.random.Generator) -> Evidence:
    """Posteriors accurate enough to tell theta from `tail` and 1 - tail, of tables (...).

    Theta is at least four Monte Carlo errors away from both thresholds, or known to .005. The draws depend on what else
    is judged in the same call, so a theta next to a threshold may fall on either side of it: of 1,500 tables with 5 to
    59 paired items, two seeds decided 28 differently, all with theta within .015 of a threshold.

    >>> counts = Counts(np.array([[30, 5, 5], [5, 15, 5], [4, 6, 25]]), np.array([60, 20, 10]), np.zeros(3))
    >>> seen = screened(counts, tail=0.025, rng=np.random.default_rng(0))
    >>> bool(seen.theta > 0.975)
    True

    Source: the model is Deriu et al. 2023, Section 3.3; the proposal is the plain one of `proposal`.
    """
    shape, tables = counts.shape, [part.astype(np.float64) for part in counts.flat]
    answer = np.empty((len(tables[0]), 7))  # as in `_sampled`
    rest = np.arange(len(answer))
    for draws in _STAGES:
        step = max(1, _CHUNK // draws)
        still: list[NDArray[np.intp]] = []
        for start in range(0, len(rest), step):
            rows = rest[start : start + step]
            answer[rows], error = _sampled(Counts(*(part[rows] for part in tables)), draws, rng)
            theta, effective = answer[rows, 0], answer[rows, 6]
            distance = np.minimum(np.abs(theta - tail), np.abs(theta - (1 - tail)))
            trusted = effective >= max(_ENOUGH, _SHARE * draws)
            still.append(rows[~(trusted & ((distance > _SIGMAS * error) | (error <= _PRECISION)))])
        rest = np.concatenate(still) if still else rest
    if len(rest):
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


def _sampled(counts: Counts, draws: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Of tables (t, 3, 3) theta, means of p and of the margin, sd of the margin, effective draws: (t, 7); and the error
    of theta (t,)."""
    paired, metric_only, human_only = counts
    kappa = pseudo_counts(paired)
    cells = paired + kappa
    # Single precision resolves a share to 1e-7, far below the Monte Carlo error, and draws twice as fast.
    margins = cells.sum(axis=1) + metric_only
    size = (len(paired), draws)
    pi = [[rng.standard_gamma(cells[:, h, r, None], size, dtype=np.float32) for r in range(3)] for h in range(3)]
    q = [rng.standard_gamma(margins[:, r, None], size, dtype=np.float32) for r in range(3)]
    whole = q[0] + q[1] + q[2]
    for r in range(3):
        scale = q[r] / whole / np.maximum(pi[0][r] + pi[1][r] + pi[2][r], _SMALLEST)
        for h in range(3):
            pi[h][r] *= scale
    p = [pi[h][0] + pi[h][1] + pi[h][2] for h in range(3)]
    log_weights = np.zeros(size)
    for h in range(3):
        log_weights += (human_only[:, h, None] - 2) * np.log(np.maximum(p[h], _SMALLEST))
        rare = np.flatnonzero(kappa[:, h, 0] != 1)
        for r in range(3):
            log_weights[rare] += (1 - kappa[rare, h]) * np.log(np.maximum(pi[h][r][rare], _SMALLEST))
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
