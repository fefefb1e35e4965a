"""The posterior of the mixture model: a finite sum, or as many independent weighted draws as a decision needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats
from custodes.stats.correction.dirichlet import human_posterior
from custodes.stats.correction.estimator import Counts, Estimate, stream_key
from custodes.stats.correction.mixture.finite_sum import DRAWS, summed
from custodes.stats.correction.mixture.posterior import MixturePosterior, joined, stack
from custodes.stats.correction.mixture.proposal import Proposal, adapted_proposal, plain_proposal
from custodes.stats.correction.mixture.shared import CHUNK, Numbers, shared_draws
from custodes.stats.correction.mixture.tempering import tempered
from custodes.stats.correction.mixture.weighed import ENOUGH, Weighed

_FIRST = 4096
_SHARED = 4608  # first draws out of numbers that all tables share, of which weights cost up to a tenth
_CHUNK = 131_072  # draws at once: nine floats each, and about as much again for temporaries
_MANY = 50_000  # effective draws, more than populations give
_GOOD = 0.75  # share of effective draws from which shared ones are as good as a table's own
_POOR = 0.5  # share of effective draws below which the proposal is adapted
_FEW_CELLS = 257**2  # of the finite sum, which then takes no longer than draws of a table's own
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
    independent and weighted, the first of all tables out of the same normal numbers. They go on until the error of
    theta is at most `precision` (None: never enough) or, given `gamma`, theta is four errors away from both gamma / 2
    and 1 - gamma / 2, and until 1000 effective draws, or `max_draws` (4096 at least). Where the finite sum is cheaper
    than the draws that are missing, it takes over; what is still open after draws of little weight goes to `tempered`,
    and the smaller error is taken. Swapping the two systems gives the mirror image exactly; equal tables get equal
    results, which depend on the seed (but for a sum) and not on the other tables of the call.

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
    # where nobody was asked, wins and losses may change places, so that theta is 1/2
    even |= ~Counts.of_row(rows).human.any(axis=-1)
    items = rows[:, 9:12].sum(axis=1)
    closed = np.flatnonzero(items == 0)
    few = np.flatnonzero((items > 0) & cheaply_summed(Counts.of_row(rows)))
    # what has a closed form or a cheap sum, all tables at once
    sums = _summed(rows[few], seed=seed, confidence=confidence)
    known = np.flatnonzero(np.isfinite(sums.theta))
    parts = [(closed, _closed(rows[closed], confidence=confidence)), (few[known], sums.at(known))]
    left = np.setdiff1d(np.arange(len(rows)), np.concatenate([places for places, _ in parts]))
    if left.size:
        options: dict[str, Any] = {"seed": seed, "confidence": confidence, "gamma": gamma, "max_draws": max_draws}
        # theta of a mirror image is known to be 1/2, so no draws are spent on its precision
        wanted = [np.inf if mirror else precision for mirror in even[left].tolist()]
        drawn = zip(rows[left], wanted, _shared(rows[left], seed=seed), strict=True)
        parts.append((left, stack([_posterior(row, own, precision=error, **options) for row, error, own in drawn])))
    each = joined(parts).mirrored(even).at(where).swapped(swapped)
    return each.at(np.arange(len(where)).reshape(counts.shape))


def cheaply_summed(counts: Counts) -> NDArray[np.bool_]:
    """Which tables (k,) are of whole counts, and so few metric-only items that a sum takes no longer than draws."""
    few = (counts.metric_only.sum(axis=-1) + 1) ** 2 <= min(_FEW_CELLS, _MOST_CELLS)
    return np.asarray(few & (counts.rows == np.rint(counts.rows)).all(axis=-1))


def _shared(rows: Floats, *, seed: list[int]) -> Iterator[Weighed | None]:
    """Of tables (k, 15) the first draws, out of the same numbers; None where nothing is paired, as they are poor there.

    The numbers are those of the seed, so that what is said of a table does not depend on the others.
    """
    numbers = Numbers.of(_SHARED, np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(0,)))))
    step = CHUNK // _SHARED
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        p, log_weights = shared_draws(Counts.of_row(part), numbers)
        for k, row in enumerate(part):
            yield Weighed(np.stack([own[k] for own in p]), log_weights[k]) if row[:9].any() else None


def _posterior(
    row: Floats,
    first: Weighed | None,
    *,
    seed: list[int],
    confidence: float,
    precision: float | None,
    gamma: float | None,
    max_draws: int,
) -> MixturePosterior:
    """The posterior of one table (15,) with metric-only items, by the first method that serves: `first` draws, if there
    are any that are good and enough, or others."""
    if (
        first is not None
        and first.effective >= _GOOD * first.size
        and first.needed(precision=precision, gamma=gamma) <= first.size
    ):
        return first.posterior(confidence=confidence)
    counts = Counts.of_row(row)
    # A stream that depends on the table and not on its place keeps results equal in any order or chunk.
    rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=stream_key(row))))
    cells = (counts.metric_only.sum() + 1) ** 2
    summable = _FEW_CELLS < cells <= _MOST_CELLS and bool((row == np.rint(row)).all())
    sample = Sample(counts, rng)
    while (needed := sample.drawn.needed(precision=precision, gamma=gamma)) > (size := sample.drawn.size):
        if summable and needed - size > _DRAWS_A_CELL * cells:
            exact = _summed(row[np.newaxis], seed=seed, confidence=confidence)
            if np.isfinite(exact.theta[0]):
                return exact.at(np.array(0))
            summable = False
        # hopeless where even four times the draws allowed would be too few
        if size >= max_draws or size * ENOUGH / sample.drawn.effective > 4 * max_draws:
            break
        # a little more than needed, at least a quarter more, at most eight times as many before looking again
        wanted = int(size * min(max(1.05 * needed / size, 1.25), 8.0))
        sample.extend(min(wanted, max_draws) - size)
    posterior = sample.drawn.posterior(confidence=confidence)
    # populations are worth no more than that
    if needed <= size or sample.drawn.effective > _MANY:
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
    """Weighted draws of one table, made as needed: `drawn` so far."""

    def __init__(self, counts: Counts, rng: np.random.Generator) -> None:
        self._rng = rng
        # without paired items the plain one is known to be poor
        if counts.paired.any():
            self._start(plain_proposal(counts))
        if not counts.paired.any() or self.drawn.effective < _POOR * self.drawn.size:
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
        self.drawn = Weighed(np.concatenate(p, axis=1), np.concatenate(log_weights))
