"""The posterior of the mixture model: a finite sum, or as many independent weighted draws as a decision needs."""

from __future__ import annotations

from typing import Any

import numpy as np

from custodes.stats.arrays import Floats
from custodes.stats.correction.dirichlet import human_posterior
from custodes.stats.correction.estimator import SIGMAS, Counts, Estimate, stream_key, threshold_distance
from custodes.stats.correction.mixture.finite_sum import DRAWS, summed
from custodes.stats.correction.mixture.posterior import MixturePosterior, joined, stack, summarise
from custodes.stats.correction.mixture.proposal import Proposal, adapted_proposal, plain_proposal
from custodes.stats.correction.mixture.tempering import tempered

_FIRST = 4096
_CHUNK = 131_072  # draws at once: nine floats each, and about as much again for temporaries
_ENOUGH = 1000  # effective draws below which no interval is trusted
_MANY = 50_000  # effective draws, more than populations give
_POOR = 0.5  # share of effective draws below which the proposal is adapted
_FEW_CELLS = 129**2  # of the finite sum, which then takes no longer than the first draws
_MOST_CELLS = 1001**2  # a hundred megabytes
_DRAWS_A_CELL = 1.0  # in the same time


def mixture_posterior(
    counts: Counts,
    *,
    rng: np.random.Generator,
    confidence: float,
    precision: float | None,
    gamma: float | None,
    max_draws: int,
) -> MixturePosterior:
    """Posterior of the mixture model, of tables (...), of whole or effective counts.

    An item with both ratings belongs to `paired` alone. Without metric-only items everything is in closed form, and
    `effective_draws` NaN, as `r_hat` is without populations; nothing else is: without ratings the prior is returned.
    With few metric-only items, a whole number, theta is a finite sum without Monte Carlo error. Else draws are
    independent and weighted; they go on until the error of theta is at most `precision` (None: never enough) or, given
    `gamma`, theta is four errors away from both gamma / 2 and 1 - gamma / 2, and until 1000 effective draws, or
    `max_draws` (4096 at least). Where the finite sum is cheaper than the draws that are missing, it takes over; what is
    still open after draws of little weight goes to `tempered`, and the smaller error is taken. Swapping the two systems
    gives the mirror image exactly; equal tables get equal results, which depend on the seed (but for a sum) and not on
    the other tables of the call.

    >>> posterior = mixture_posterior(
    ...     Counts(np.array([[30, 5, 5], [5, 15, 5], [4, 6, 25]]), np.array([400, 200, 400]), np.zeros(3)),
    ...     rng=np.random.default_rng(0), confidence=0.95, precision=0.005, gamma=None, max_draws=100_000,
    ... )
    >>> bool(0.65 < posterior.theta < 0.7), posterior.method.item()
    (True, 'exact')

    Source: Deriu et al. 2023, Section 3.3 and Algorithm 1 (posterior and theta); the computation is ours.
    """
    seed: list[int] = rng.integers(2**32, size=4).tolist()
    rows, even, where, swapped = counts.distinct()
    assert (rows >= 0).all()
    items = rows[:, 9:12].sum(axis=1)
    closed = np.flatnonzero(items == 0)
    summable = (items + 1) ** 2 <= min(_FEW_CELLS, _MOST_CELLS)
    few = np.flatnonzero((items > 0) & summable & (rows == np.rint(rows)).all(axis=1))
    # what has a closed form or a cheap sum, all tables at once
    sums = _summed(rows[few], seed=seed, confidence=confidence)
    known = np.flatnonzero(np.isfinite(sums.theta))
    parts = [(closed, _closed(rows[closed], confidence=confidence)), (few[known], sums.at(known))]
    left = np.setdiff1d(np.arange(len(rows)), np.concatenate([places for places, _ in parts]))
    if left.size:
        options: dict[str, Any] = {"seed": seed, "confidence": confidence, "gamma": gamma, "max_draws": max_draws}
        # theta of a mirror image is known to be 1/2, so no draws are spent on its precision
        drawn = [_posterior(rows[k], precision=np.inf if even[k] else precision, **options) for k in left.tolist()]
        parts.append((left, stack(drawn)))
    each = joined(parts).mirrored(even).at(where).swapped(swapped)
    return each.at(np.arange(len(where)).reshape(counts.shape))


def _posterior(
    row: Floats, *, seed: list[int], confidence: float, precision: float | None, gamma: float | None, max_draws: int
) -> MixturePosterior:
    """The posterior of one table (15,) with metric-only items, by the first method that serves."""
    counts = Counts.of_row(row)
    # A stream that depends on the table and not on its place keeps results equal in any order or chunk.
    rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=stream_key(row))))
    cells = (counts.metric_only.sum() + 1) ** 2
    summable = _FEW_CELLS < cells <= _MOST_CELLS and bool((row == np.rint(row)).all())
    sample = Sample(counts, rng)
    while (needed := sample.needed(precision=precision, gamma=gamma)) > sample.size:
        if summable and needed - sample.size > _DRAWS_A_CELL * cells:
            exact = _summed(row[np.newaxis], seed=seed, confidence=confidence)
            if np.isfinite(exact.theta[0]):
                return exact.at(np.array(0))
            summable = False
        # hopeless where even four times the draws allowed would be too few
        if sample.size >= max_draws or sample.size * _ENOUGH / sample.effective > 4 * max_draws:
            break
        # a little more than needed, at least a quarter more, at most eight times as many before looking again
        wanted = int(sample.size * min(max(1.05 * needed / sample.size, 1.25), 8.0))
        sample.extend(min(wanted, max_draws) - sample.size)
    posterior = sample.posterior(confidence=confidence)
    # populations are worth no more than that
    if needed <= sample.size or sample.effective > _MANY:
        return posterior
    populations = tempered(counts, rng=rng, confidence=confidence, precision=precision, gamma=gamma)
    return populations if populations.theta_error < posterior.theta_error else posterior


def _closed(rows: Floats, *, confidence: float) -> MixturePosterior:
    """Of tables (k, 15) without metric-only items: p and mu are independent Dirichlets."""
    cells = rows.astype(np.float64)
    people = human_posterior(cells[:, :9].reshape(-1, 3, 3).sum(axis=2) + cells[:, 12:], confidence=confidence)
    return _without_chains(people, largest_weight=0.0, method="closed")


def _summed(rows: Floats, *, seed: list[int], confidence: float) -> MixturePosterior:
    """Of tables (k, 15) of whole counts; NaN where rounding hides the sum."""
    theta, p, low, high, bound = summed(rows, seed=seed, confidence=confidence)
    estimate = Estimate(
        p=p,
        p_low=low[:, :3],
        p_high=high[:, :3],
        margin=p[:, 0] - p[:, 2],
        margin_low=low[:, 3],
        margin_high=high[:, 3],
        theta=theta,
        effective_draws=np.full(len(rows), float(DRAWS)),
        theta_error=bound,
    )
    return _without_chains(estimate, largest_weight=1 / DRAWS, method="sum")


def _without_chains(estimate: Estimate, *, largest_weight: float, method: str) -> MixturePosterior:
    shape = estimate.theta.shape
    return MixturePosterior(
        **vars(estimate),
        largest_weight=np.full(shape, largest_weight),
        r_hat=np.full(shape, np.nan),
        method=np.full(shape, method),
    )


class Sample:
    """Weighted draws of one table, made as needed: `p` (3, n) and `weights` (n,), `effective` of `size` draws."""

    def __init__(self, counts: Counts, rng: np.random.Generator) -> None:
        self._rng = rng
        self._start(plain_proposal(counts))
        if self.effective < _POOR * self.size:
            self._start(adapted_proposal(counts, rng))

    def _start(self, proposal: Proposal) -> None:
        self._proposal = proposal
        self._chunks: list[tuple[Floats, Floats]] = []
        self.extend(_FIRST)

    def extend(self, n: int) -> None:
        """About n more draws."""
        for size in filter(None, [_CHUNK] * (n // _CHUNK) + [n % _CHUNK]):
            drawn = self._proposal.draw(size, self._rng)
            self._chunks.append((drawn.p, drawn.log_weights))
        p, log_weights = zip(*self._chunks, strict=True)
        self.p, self.weights = np.concatenate(p, axis=1), _weights(np.concatenate(log_weights))
        self.size, total = len(self.weights), self.weights.sum()
        self.effective = float(total**2 / (self.weights @ self.weights))  # Kish
        better = self.p[0] > self.p[2]
        self._theta = float(self.weights[better].sum() / total)
        residual = self.weights * (better - self._theta)
        # The delta method, and a draw more as heavy as the heaviest: what was not seen is not impossible, and where
        # few draws hold the weight the squares alone understate the error.
        self._error = float(np.hypot(np.sqrt(residual @ residual), self.weights.max()) / total)

    def needed(self, *, precision: float | None, gamma: float | None) -> float:
        """How many draws the stopping rule asks for in all, by those so far; at most their number if that is enough."""
        shortfall = np.inf if precision is None else (self._error / precision) ** 2
        if gamma is not None:
            distance = max(float(threshold_distance(np.asarray(self._theta), gamma=gamma)), 1e-12)
            shortfall = min(shortfall, (SIGMAS * self._error / distance) ** 2)
        return self.size * max(shortfall, _ENOUGH / self.effective)

    def posterior(self, *, confidence: float) -> MixturePosterior:
        """What the draws so far say."""
        return summarise(
            self.p,
            self.weights,
            confidence=confidence,
            theta_error=self._error,
            effective_draws=self.effective,
            r_hat=np.nan,
            method="exact",
        )


def _weights(log_weights: Floats) -> Floats:
    return np.asarray(np.exp(log_weights - log_weights.max()))
