"""The posterior of the mixture model by independent weighted draws, as many as a decision needs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from custodes.stats.correction.dirichlet import human_posterior
from custodes.stats.correction.estimator import Counts, Floats
from custodes.stats.correction.mixture.gibbs import gibbs_chains
from custodes.stats.correction.mixture.posterior import MixturePosterior, stack, summarise
from custodes.stats.correction.mixture.proposal import (
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
    counts: Counts,
    *,
    rng: np.random.Generator,
    confidence: float,
    precision: float,
    gamma: float | None,
    max_draws: int,
) -> MixturePosterior:
    """Posterior of the mixture model, of tables (...).

    An item with both ratings belongs to `paired` alone. Draws are independent and weighted; they go on until the Monte
    Carlo error of theta is at most `precision` or, given `gamma`, theta is four errors away from both gamma / 2 and
    1 - gamma / 2, and until 1000 effective draws, or `max_draws` (4096 at least). A table that has fewer then goes to
    Gibbs sampling. Without metric-only items everything is in closed form, and `effective_draws` NaN, as `r_hat` is
    without chains; nothing else is: without ratings the prior is returned. Swapping the two systems gives the mirror
    image exactly; equal tables get equal results, which depend on the seed and not on the other tables of the call.

    >>> posterior = mixture_posterior(
    ...     Counts(np.array([[30, 5, 5], [5, 15, 5], [4, 6, 25]]), np.array([400, 200, 400]), np.zeros(3)),
    ...     rng=np.random.default_rng(0), confidence=0.95, precision=0.005, gamma=None, max_draws=100_000,
    ... )
    >>> bool(0.65 < posterior.theta < 0.7), posterior.method.item()
    (True, 'exact')

    Source: Deriu et al. 2023, Section 3.3 and Algorithm 1 (posterior and theta); the sampler is ours.
    """
    seed = rng.integers(2**32, size=4).tolist()
    rows, where, swapped, _ = counts.distinct()
    assert (rows >= 0).all()
    posteriors = []
    for row in rows:
        # A stream that depends on the table and not on its place keeps results equal in any order or chunk.
        stream = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=tuple(row.tolist()))))
        table = Counts.of_row(row)
        is_mirror = all((part == np.flip(part)).all() for part in table)
        # theta of a mirror image is known to be 1/2, so no draws are spent on its precision
        posterior = _posterior(
            table,
            stream,
            confidence=confidence,
            precision=np.inf if is_mirror else precision,
            gamma=gamma,
            max_draws=max_draws,
        )
        posteriors.append(posterior.mirrored() if is_mirror else posterior)
    pairs = zip(where.tolist(), swapped.tolist(), strict=True)
    return stack([posteriors[k].swapped() if swap else posteriors[k] for k, swap in pairs], counts.shape)


def mixture_draws(counts: Counts, *, rng: np.random.Generator, draws: int) -> WeightedDraws:
    """About `draws` weighted draws of one table's posterior, for pictures.

    >>> counts = Counts(np.eye(3), np.array([5, 0, 3]), np.zeros(3))
    >>> drawn = mixture_draws(counts, rng=np.random.default_rng(0), draws=1000)
    >>> drawn.pi.shape[:2], round(float(drawn.weights.sum()), 6)
    ((3, 3), 1.0)

    Source: as for `mixture_posterior`.
    """
    proposal = human_first_proposal(counts)
    if counts.metric_only.any():
        proposal = plain_proposal(counts)
        if _effective(_weights(proposal.draw(_FIRST, rng).log_weights)) < _POOR * _FIRST:
            proposal = adapted_proposal(counts, rng)
    drawn = proposal.draw(draws, rng)
    weights = _weights(drawn.log_weights)
    return WeightedDraws(drawn.p, drawn.pi, weights / weights.sum())


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
        counts, start=sample.resampled(_CHAINS), rng=rng, confidence=confidence, warmup=_WARMUP, draws=_SWEEPS
    )
    return chains if chains.effective_draws > posterior.effective_draws else posterior


def _closed(counts: Counts, *, confidence: float) -> MixturePosterior:
    """Without metric-only items p and mu are independent Dirichlets."""
    mu = (counts.paired + 1) / (counts.paired.sum(axis=1, keepdims=True) + 3)
    return MixturePosterior(
        **vars(human_posterior(counts.human, confidence=confidence)),
        mu_mean=mu.T,
        theta_error=np.zeros(()),
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
