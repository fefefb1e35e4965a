"""Populations of draws that are led from a proposal to the posterior in small steps: for what weights alone cannot do.

The proposal is q ~ Dirichlet over the metric's answers and nu[., r] ~ Dirichlet over people's answer given the
metric's (`proposal`), and the posterior its density times a weight. Draws from the proposal are moved under density *
weight^t while t grows from 0 to 1 (sequential Monte Carlo: Del Moral, Doucet and Jasra 2006). Moves are made on the log
odds of q and of each nu[., r]. There the metric-only items, however many, act on q alone. The steps of data
augmentation (Gibbs) shrink with their number instead, so that its chains stay where they start.

Populations never exchange draws. How far they differ is the Monte Carlo error, and whether they agree the diagnosis.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats
from custodes.stats.correction.estimator import Counts, threshold_distance
from custodes.stats.correction.mixture.posterior import MixturePosterior, summarise
from custodes.stats.correction.mixture.proposal import Proposal, plain_proposal
from custodes.stats.multiple_testing import SIGMAS

_POPULATIONS, _SIZE = 16, 256
_KEPT_WEIGHT = 0.6  # share of effective draws that a step of t may leave
_STEP_MOVES, _LAST_MOVES = 16, 40
_ROUND, _THIN, _MOST_ROUNDS = 20, 4, 8
_MIXED = 1.01  # R-hat up to which populations agree


def tempered(
    counts: Counts, *, rng: np.random.Generator, confidence: float, precision: float | None, gamma: float | None
) -> MixturePosterior:
    """Posterior of one table from 16 populations of 256 draws; `r_hat` says whether they agree.

    Moves at t = 1 go on until R-hat is at most 1.01 and theta is precise or clear, as in `mixture_posterior`, or a
    limit is reached. `theta_error` is the standard error of the mean over populations; where they do not agree, their
    standard deviation.

    Source: ours, by sequential Monte Carlo (Del Moral, Doucet and Jasra 2006) with the moves of differential evolution
    (ter Braak 2006).
    """
    walkers = _Walkers.of(counts, rng)
    while walkers.t < 1:
        walkers.heat()
        walkers.move(_STEP_MOVES)
    walkers.move(_LAST_MOVES)
    kept: list[Floats] = []
    # What populations say counts by the evidence that each met: the mean of all then has no bias from resampling.
    shares = np.exp(walkers.log_evidence - walkers.log_evidence.max())
    shares /= shares.sum()
    for _ in range(_MOST_ROUNDS):
        for _ in range(_ROUND):
            walkers.move(_THIN)
            kept.append(walkers.p)
        p = np.stack(kept)  # (draws, 3, populations, size)
        theta, error = _pooled((p[:, 0] > p[:, 2]).mean(axis=(0, 2)), shares)
        r_hat, effective = _agreement(p[:, 0] - p[:, 2])
        if r_hat <= _MIXED and (
            (precision is not None and error <= precision)
            or (gamma is not None and threshold_distance(np.asarray(theta), gamma=gamma) > SIGMAS * error)
        ):
            break
    if r_hat > _MIXED:
        error *= np.sqrt(_POPULATIONS)
    effective *= float(1 / (shares @ shares)) / _POPULATIONS
    return summarise(
        np.moveaxis(p, 1, 0).reshape(3, -1),
        np.broadcast_to(shares[:, np.newaxis], p[:, 0].shape).ravel() / p[:, 0, 0].size,
        confidence=confidence,
        # a draw never seen is not impossible
        theta_error=float(np.hypot(error, 1 / effective)),
        effective_draws=effective,
        r_hat=r_hat,
        method="tempered",
    )


def _pooled(values: Floats, shares: Floats) -> tuple[float, float]:
    """The mean of values of populations (k,) with shares (k,) and its standard error, by the spread of populations.

    With so few, four errors of a normal law are about 5.6 of Student's; the error is as much larger.
    """
    mean = float(shares @ values)
    spread = shares * (values - mean)
    return mean, 1.4 * float(np.sqrt(spread @ spread * len(values) / (len(values) - 1)))


def _agreement(values: Floats) -> tuple[float, float]:
    """R-hat of populations split in half by time, and the independent draws that their agreement is worth."""
    half = len(values) // 2
    halves = np.concatenate([values[:half], values[half : 2 * half]], axis=1)
    between, within = halves.mean(axis=(0, 2)).var(ddof=1), halves.var(axis=(0, 2)).mean()
    if not within > 0:
        return 1.0, float(values.size)
    effective = within / max(values.mean(axis=(0, 2)).var(ddof=1) / values.shape[1], within / values.size)
    return float(np.sqrt(1 + between / within)), float(effective)


@dataclass(kw_only=True)
class _Walkers:
    """Draws as log odds: `at` (4, 3, populations, size) holds log shares of q and of nu[., r], `log_weights` what the
    posterior has over the proposal there, `p` (3, ...) people's shares; `log_evidence` (populations,) of the weights.
    """

    proposal: Proposal
    shapes: Floats  # (4, 3) of the Dirichlets
    rng: np.random.Generator
    at: Floats
    p: Floats
    log_weights: Floats
    log_evidence: Floats
    t: float = 0.0

    @classmethod
    def of(cls, counts: Counts, rng: np.random.Generator) -> _Walkers:
        proposal = plain_proposal(counts)
        shapes = np.concatenate([proposal.margins, proposal.cells[0].T])
        at = _dirichlet_logs(shapes, (_POPULATIONS, _SIZE), rng)
        nothing = np.zeros(())
        made = cls(
            proposal=proposal,
            shapes=shapes,
            rng=rng,
            at=at,
            p=nothing,
            log_weights=nothing,
            log_evidence=np.zeros(_POPULATIONS),
        )
        made.p, made.log_weights = made._weighed(at)
        return made

    def heat(self) -> None:
        """As large a step of t as leaves enough effective draws in the mean population, and draws anew by weight."""
        log_weights = self.log_weights - self.log_weights.max(axis=1, keepdims=True)
        low, high = 0.0, 1 - self.t
        if _effective(high * log_weights) < _KEPT_WEIGHT:
            for _ in range(30):
                middle = (low + high) / 2
                low, high = (middle, high) if _effective(middle * log_weights) >= _KEPT_WEIGHT else (low, middle)
            high = max(low, 1e-9)
        self.t = min(1.0, self.t + high)
        weights = np.exp(high * log_weights)
        self.log_evidence = self.log_evidence + np.log(weights.mean(axis=1)) + high * self.log_weights.max(axis=1)
        cumulative = weights.cumsum(axis=1) / weights.sum(axis=1, keepdims=True)
        at = (np.arange(_SIZE) + self.rng.random((_POPULATIONS, 1))) / _SIZE
        picked = np.stack([np.searchsorted(own, u) for own, u in zip(cumulative, at, strict=True)])
        picked = np.minimum(picked, _SIZE - 1)
        # shuffled, as moves take the two halves of a population apart
        picked = self.rng.permuted(picked, axis=1)
        rows = np.arange(_POPULATIONS)[:, np.newaxis]
        self.at, self.p = self.at[..., rows, picked], self.p[..., rows, picked]
        self.log_weights = self.log_weights[rows, picked]

    def move(self, times: int) -> None:
        """Every draw offered a move so many times, each time along a difference of two draws of the other half of its
        population, or to a fresh q or nu[., r]."""
        half = _SIZE // 2
        parts = np.arange(_SIZE).reshape(2, half)
        rows = np.arange(_POPULATIONS)[:, np.newaxis]
        for k in range(times):
            if k % 2:
                self._refresh()
                continue
            for own, other in (parts, parts[::-1]):
                here = self.at[..., own]
                first = other[self.rng.integers(half, size=(_POPULATIONS, half))]
                second = other[self.rng.integers(half, size=(_POPULATIONS, half))]
                step = self.at[..., rows, first] - self.at[..., rows, second]
                # all blocks, or some of them; a length of 1 jumps between what lies apart
                chosen = self.rng.random((4, 1, _POPULATIONS, half)) < self.rng.choice([0.3, 1.0])
                length = self.rng.choice([0.25, 0.6, 1.0]) * self.rng.uniform(0.8, 1.2, (_POPULATIONS, half))
                noise = 1e-3 * self.rng.standard_normal(here.shape)
                self._offer(own, _normalised(here + chosen * (length * step + noise)))

    def _refresh(self) -> None:
        block = int(self.rng.integers(4))
        at = self.at.copy()
        at[block] = _dirichlet_logs(self.shapes[block], at.shape[2:], self.rng)
        self._offer(np.arange(_SIZE), at, drawn=block)

    def _offer(self, own: NDArray[np.intp], at: Floats, *, drawn: int | None = None) -> None:
        """Metropolis and Hastings: `at` (4, 3, populations, own) from a symmetric move of log odds, or with one block
        drawn from the proposal, whose density then falls out of the ratio."""
        p, log_weights = self._weighed(at)
        kept = [block for block in range(4) if block != drawn]
        shapes = self.shapes[kept][..., np.newaxis, np.newaxis]
        # In log odds the Dirichlet density is prod share^shape.
        ratio = (shapes * (at[kept] - self.at[kept][..., own])).sum(axis=(0, 1))
        ratio += self.t * (log_weights - self.log_weights[:, own])
        taken = np.log(self.rng.random(ratio.shape)) < ratio
        for name, new in (("at", at), ("p", p), ("log_weights", log_weights)):
            old = getattr(self, name)
            old = old.copy()
            old[..., own] = np.where(taken, new, old[..., own])
            setattr(self, name, old)

    def _weighed(self, at: Floats) -> tuple[Floats, Floats]:
        shape = at.shape[2:]
        pi = np.exp(at[0][np.newaxis] + np.swapaxes(at[1:], 0, 1))  # [human, metric]
        p = pi[:, 0] + pi[:, 1] + pi[:, 2]
        ratios = self.proposal.log_ratios(pi.reshape(3, 3, -1), p.reshape(3, -1))[0]
        return p, np.asarray(-ratios.reshape(shape))


def _effective(log_weights: Floats) -> float:
    weights = np.exp(log_weights)
    return float((weights.mean(axis=1) ** 2 / (weights**2).mean(axis=1)).mean())


def _normalised(at: Floats) -> Floats:
    """Log shares from log odds up to a constant: (blocks, 3, ...)."""
    top = at.max(axis=1, keepdims=True)
    return np.asarray(at - top - np.log(np.exp(at - top).sum(axis=1, keepdims=True)))


def _dirichlet_logs(shapes: Floats, size: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Logs of Dirichlet draws (..., 3, *size) with parameters (..., 3), also where a share is below the least float."""
    shapes = shapes[(..., *[np.newaxis] * len(size))]
    whole = (*shapes.shape[: shapes.ndim - len(size)], *size)
    # Gamma(a) is Gamma(a + 1) * U^(1 / a), whose logarithm does not underflow.
    logs = np.log(rng.standard_gamma(shapes + 1, whole)) - rng.standard_exponential(whole) / shapes
    axis = logs.ndim - len(size) - 1
    top = logs.max(axis=axis, keepdims=True)
    return np.asarray(logs - top - np.log(np.exp(logs - top).sum(axis=axis, keepdims=True)))
