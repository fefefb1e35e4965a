"""Which of two systems is better, from few human and many automatic ratings: the mixture model of Deriu et al. 2023."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.correction.dirichlet import human_posterior
from custodes.stats.correction.gibbs import gibbs_chains
from custodes.stats.correction.posterior import Floats, MixturePosterior, stack, summarise
from custodes.stats.correction.proposal import (
    Counts,
    Draws,
    Proposal,
    adapted_proposal,
    human_first_proposal,
    plain_proposal,
)

_FIRST = 4096
_CHUNK = 131_072  # draws at once: nine floats each, and about as much again for temporaries
_ENOUGH = 1000  # effective draws below which no interval is trusted
_POOR = 0.5  # share of effective draws below which the proposal is adapted
_SIGMAS = 4.0  # Monte Carlo errors between theta and a threshold that settle the decision
_CHAINS, _WARMUP, _SWEEPS = 128, 500, 2000


class WeightedDraws(NamedTuple):
    """Independent draws of one table's posterior: p (3, n), pi (3, 3, n) [human, metric], weights (n,) summing to 1."""

    p: Floats
    pi: Floats
    weights: Floats


def mixture_posterior(
    paired: NDArray[Any],
    metric_only: NDArray[Any],
    human_only: NDArray[Any],
    *,
    rng: np.random.Generator,
    confidence: float,
    precision: float,
    gamma: float | None,
    max_draws: int,
) -> MixturePosterior:
    """Posterior of the mixture model: paired (..., 3, 3) [human, metric], metric_only and human_only (..., 3).

    An item with both ratings belongs to `paired` alone. Draws are independent and weighted; they go on until the Monte
    Carlo error of theta is at most `precision` or, given `gamma`, theta is four errors away from both gamma / 2 and
    1 - gamma / 2, and until 1000 effective draws, or
    `max_draws` (4096 at least). A table that has fewer then goes to Gibbs sampling.
    Without metric-only items everything is in closed form. Nothing is NaN but `r_hat`: without ratings the prior is
    returned. Swapping the two systems gives the mirror image exactly; equal tables get equal results, which depend on
    the seed and not on the other tables of the call.

    >>> posterior = mixture_posterior(
    ...     np.array([[30, 5, 5], [5, 15, 5], [4, 6, 25]]), np.array([400, 200, 400]), np.zeros(3, dtype=int),
    ...     rng=np.random.default_rng(0), confidence=0.95, precision=0.005, gamma=None, max_draws=100_000,
    ... )
    >>> bool(0.65 < posterior.theta < 0.7), posterior.method.item()
    (True, 'exact')

    Source: Deriu et al. 2023, Section 3.3 and Algorithm 1 (posterior and theta); the sampler is ours.
    """
    paired, metric_only, human_only = (np.asarray(counts) for counts in (paired, metric_only, human_only))
    shape = paired.shape[:-2]
    assert paired.shape[-2:] == (3, 3)
    assert metric_only.shape == human_only.shape == (*shape, 3)
    parts = (paired.reshape(-1, 9), metric_only.reshape(-1, 3), human_only.reshape(-1, 3))
    tables = np.concatenate(parts, axis=1).astype(np.int64)
    assert (tables >= 0).all()
    seed = rng.integers(2**32, size=4).tolist()

    mirrors = np.concatenate([part[:, ::-1] for part in parts], axis=1).astype(np.int64)
    swapped = _precedes(tables, mirrors)
    canonical = np.where(swapped[:, np.newaxis], mirrors, tables)
    distinct, where = np.unique(canonical, axis=0, return_inverse=True)
    posteriors = []
    for table in distinct:
        # A stream that depends on the table and not on its place keeps results equal in any order or chunk.
        stream = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=tuple(table.tolist()))))
        counts = _counts(table)
        is_mirror = all((part == np.flip(part)).all() for part in counts)
        # theta of a mirror image is known to be 1/2, so no draws are spent on its precision
        posterior = _posterior(
            counts,
            stream,
            confidence=confidence,
            precision=np.inf if is_mirror else precision,
            gamma=gamma,
            max_draws=max_draws,
        )
        posteriors.append(posterior.mirrored() if is_mirror else posterior)
    pairs = zip(where.reshape(-1).tolist(), swapped.tolist(), strict=True)
    return stack([posteriors[k].swapped() if swap else posteriors[k] for k, swap in pairs], shape)


def mixture_draws(
    paired: NDArray[Any],
    metric_only: NDArray[Any],
    human_only: NDArray[Any],
    *,
    rng: np.random.Generator,
    draws: int,
) -> WeightedDraws:
    """About `draws` weighted draws of one table's posterior, for pictures: paired (3, 3), the others (3,).

    >>> drawn = mixture_draws(
    ...     np.eye(3, dtype=int), np.array([5, 0, 3]), np.zeros(3, dtype=int), rng=np.random.default_rng(0), draws=1000
    ... )
    >>> drawn.pi.shape[:2], round(float(drawn.weights.sum()), 6)
    ((3, 3), 1.0)

    Source: as for `mixture_posterior`.
    """
    counts = _counts(np.concatenate([np.ravel(paired), metric_only, human_only]))
    proposal = human_first_proposal(counts)
    if counts.metric_only.any():
        proposal = plain_proposal(counts)
        if _effective(_weights(proposal.draw(_FIRST, rng).log_weights)) < _POOR * _FIRST:
            proposal = adapted_proposal(counts, rng)
    drawn = proposal.draw(draws, rng)
    weights = _weights(drawn.log_weights)
    return WeightedDraws(drawn.p, drawn.pi, weights / weights.sum())


def _counts(table: NDArray[Any]) -> Counts:
    values = table.astype(np.float64)
    return Counts(values[:9].reshape(3, 3), values[9:12], values[12:])


def _precedes(tables: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether a row comes before the other's row in lexicographic order: (n, k), (n, k) -> (n,)."""
    first = (tables != others).argmax(axis=1)[:, np.newaxis]
    here, there = np.take_along_axis(tables, first, axis=1), np.take_along_axis(others, first, axis=1)
    return np.asarray((here < there)[:, 0])


def _posterior(
    counts: Counts,
    rng: np.random.Generator,
    *,
    confidence: float,
    precision: float,
    gamma: float | None,
    max_draws: int,
) -> MixturePosterior:
    """The posterior of one table, by the first method that serves."""
    if not counts.metric_only.any():
        return _closed(counts, confidence=confidence)
    sample = _Sample(counts, rng)
    while not sample.is_hopeless(max_draws):
        wanted = sample.wanted(precision=precision, gamma=gamma)
        if wanted <= sample.size or sample.size >= max_draws:
            break
        sample.extend(min(wanted, max_draws) - sample.size)
    posterior = sample.posterior(confidence=confidence)
    if sample.effective >= _ENOUGH:
        return posterior
    chains = gibbs_chains(
        *counts, start=sample.resampled(_CHAINS), rng=rng, confidence=confidence, warmup=_WARMUP, draws=_SWEEPS
    )
    return chains if chains.effective_draws > posterior.effective_draws else posterior


def _closed(counts: Counts, *, confidence: float) -> MixturePosterior:
    """Without metric-only items p and mu are independent Dirichlets."""
    human = human_posterior(counts.paired.sum(axis=1) + counts.human_only, confidence=confidence)
    mu = (counts.paired + 1) / (counts.paired.sum(axis=1, keepdims=True) + 3)
    return MixturePosterior(
        **human._asdict(),
        mu_mean=mu.T,
        theta_error=np.zeros(()),
        effective_draws=np.asarray(np.inf),
        largest_weight=np.zeros(()),
        r_hat=np.asarray(np.nan),
        method=np.asarray("closed"),
    )


class _Sample:
    """Weighted draws of one table, made as needed."""

    def __init__(self, counts: Counts, rng: np.random.Generator) -> None:
        self._rng = rng
        self._proposal: Proposal = plain_proposal(counts)
        self._restart()
        if self.effective < _POOR * self.size:
            self._proposal = adapted_proposal(counts, rng)
            self._restart()

    def _restart(self) -> None:
        self._p: list[Floats] = []
        self._log_weights: list[Floats] = []
        self._mu: list[tuple[float, float, Floats]] = []
        self.extend(_FIRST)

    def extend(self, n: int) -> None:
        """About n more draws."""
        for size in [_CHUNK] * (n // _CHUNK) + [n % _CHUNK]:
            if size:
                self._last: Draws = self._proposal.draw(size, self._rng)
                self._p.append(self._last.p)
                self._log_weights.append(self._last.log_weights)
                largest = float(self._last.log_weights.max())
                weights = np.exp(self._last.log_weights - largest)
                self._mu.append((largest, float(weights.sum()), self._last.mixture_matrix(weights)))
        log_weights = np.concatenate(self._log_weights)
        self.size = len(log_weights)
        self._weights = _weights(log_weights)
        self._draws = np.concatenate(self._p, axis=1)
        self.effective = _effective(self._weights)
        total = self._weights.sum()
        better = self._draws[0] > self._draws[2]
        self._theta = float(self._weights[better].sum() / total)
        residual = self._weights * (better - self._theta)
        # The delta method, and never below one effective draw: what was not seen is not impossible.
        self._error = float(np.hypot(np.sqrt(residual @ residual) / total, 1 / self.effective))

    def wanted(self, *, precision: float, gamma: float | None) -> int:
        """How many draws the stopping rule needs in all, by the draws so far; at most the present number if enough."""
        shortfall = (self._error / precision) ** 2
        if gamma is not None:
            distance = min(abs(self._theta - gamma / 2), abs(self._theta - (1 - gamma / 2)))
            shortfall = min(shortfall, (_SIGMAS * self._error / max(distance, 1e-12)) ** 2)
        shortfall = max(shortfall, _ENOUGH / self.effective)
        if shortfall <= 1:
            return self.size
        # a little more than needed, at least a quarter more, at most eight times as many before looking again
        return int(self.size * min(max(1.05 * shortfall, 1.25), 8.0))

    def is_hopeless(self, max_draws: int) -> bool:
        """Whether even four times the draws allowed would be too few."""
        return self.size * _ENOUGH / self.effective > 4 * max_draws

    def posterior(self, *, confidence: float) -> MixturePosterior:
        top = max(largest for largest, _, _ in self._mu)
        shares = np.array([np.exp(largest - top) * total for largest, total, _ in self._mu])
        mu = np.tensordot(shares / shares.sum(), np.stack([mean for _, _, mean in self._mu]), axes=1)
        return summarise(
            self._draws,
            mu,
            self._weights,
            confidence=confidence,
            theta_error=self._error,
            effective_draws=self.effective,
            r_hat=np.nan,
            method="exact",
        )

    def resampled(self, n: int) -> Floats:
        """Joint tables (n, 3, 3) drawn from the last chunk by weight."""
        weights = _weights(self._last.log_weights)
        picked = self._rng.choice(len(weights), size=n, p=weights / weights.sum())
        return np.asarray(np.moveaxis(self._last.pi[:, :, picked], 2, 0))


def _weights(log_weights: Floats) -> Floats:
    return np.asarray(np.exp(log_weights - log_weights.max()))


def _effective(weights: Floats) -> float:
    """Kish's effective sample size."""
    return float(weights.sum() ** 2 / (weights @ weights))
