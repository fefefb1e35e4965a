"""Independent weighted draws from the posterior of the mixture model: Dirichlet proposals and their weights.

The joint table pi[h, r] = p_h mu[r, h] (human class h, metric class r) has margins p_h and q_r = sum_h pi[h, r]. In pi
the posterior under uniform priors is

    prod pi[h, r]^N[h, r] * prod q_r^m_r * prod p_h^(a_h - 2)

since dpi = prod p_h^2 dp dmu (N paired, m metric-only, a human-only counts). A proposal draws the margin over one axis
from a Dirichlet and the shares of the other axis within it from three more, so a draw is twelve gammas. Its density is
again a product of powers of pi, q and p, and with it the weight. Dividing the gammas by rates before they are scaled
to shares adds powers of sum_h rate[h, r] pi[h, r]. Several proposals are used as one mixture (balance
heuristic), whose weights are bounded as soon as one member's are: with 1/3 pseudo-counts a cell they are at most
prod mu^(2/3) <= 9^-3.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats
from custodes.stats.correction.estimator import Counts

_PILOT = 4000  # draws shared by the candidate members, 32 to 96 each
_EM_STEPS = 12
_DEFENSIVE = 0.25  # share of the member with bounded weights; a tenth leaves twice the weight on the heaviest draw
_SMALLEST_SHARE = 0.02


class Draws(NamedTuple):
    """pi (3, 3, n) [human, metric], its margin p (3, n) over the metric, and the log weights (n,)."""

    pi: Floats
    p: Floats
    log_weights: Floats


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A mixture of Dirichlet proposals: `cells` (k, 3, 3) and `margins` (k, 3) are their parameters, `shares` (k,) sum
    to 1, `rates` (k, 3, 3) divide the gammas of the cells, `over_metric` (k,) says which margin is drawn first,
    `excess` (k, 15) are the powers of pi, q and p in proposal / posterior, and `log_constant` (k,) its logarithm at 1.
    """

    cells: Floats
    margins: Floats
    rates: Floats
    shares: Floats
    over_metric: NDArray[np.bool_]
    excess: Floats
    log_constant: Floats

    def draw(self, n: int, rng: np.random.Generator) -> Draws:
        """About n draws, split over the members by their shares."""
        pi, p, ratios, shares = self.drawn(n, rng)
        return Draws(pi, p, -_log_mean(ratios, shares))

    def drawn(self, n: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats, Floats]:
        """About n draws pi and p, the log of each member's density over the posterior's (k, n), and what share of the
        draws is of which member (k,)."""
        numbers = np.maximum(np.rint(self.shares * n).astype(np.int64), 1)
        pi = np.empty((3, 3, int(numbers.sum())))
        shapes = np.concatenate([self.cells.reshape(-1, 9), self.margins], axis=1)
        # Members of which as many are drawn, in the same way, are drawn in one go.
        alike = np.stack([numbers, self.over_metric], axis=1)
        ends = [*(1 + np.flatnonzero((alike[1:] != alike[:-1]).any(axis=1))).tolist(), len(numbers)]
        start = member = 0
        for end in ends:
            own, number = slice(member, end), int(numbers[member])
            part = pi[:, :, start : start + (end - member) * number].reshape(3, 3, end - member, number)
            made = rng.standard_gamma(shapes[own, :, np.newaxis], size=(end - member, 12, number))
            gammas, first = made[:, :9].reshape(-1, 3, 3, number), made[:, 9:]
            if (self.rates[own] != 1).any():
                gammas /= self.rates[own, :, :, np.newaxis]
            # Spelled out: NumPy's sum over an axis of three is several times slower.
            first /= (first[:, 0] + first[:, 1] + first[:, 2])[:, np.newaxis]
            if self.over_metric[member]:
                first /= gammas[:, 0] + gammas[:, 1] + gammas[:, 2]
                scale = first[:, np.newaxis]
            else:
                first /= gammas[:, :, 0] + gammas[:, :, 1] + gammas[:, :, 2]
                scale = first[:, :, np.newaxis]
            np.multiply(gammas.transpose(1, 2, 0, 3), scale.transpose(1, 2, 0, 3), out=part)
            start, member = start + (end - member) * number, end
        p = pi[:, 0] + pi[:, 1] + pi[:, 2]
        return pi, p, self.log_ratios(pi, p), numbers / numbers.sum()

    def log_ratios(self, pi: Floats, p: Floats) -> Floats:
        """Log of each member's density over the posterior's (k, n)."""
        used = np.flatnonzero(np.any(self.excess != 0, axis=0))
        powers = np.empty((len(used), p.shape[1]))
        for row, group, k in zip(powers, (used // 3).tolist(), (used % 3).tolist(), strict=True):
            row[:] = pi[group, k] if group < 3 else pi[0, k] + pi[1, k] + pi[2, k] if group < 4 else p[k]
        np.log(np.maximum(powers, 1e-300, out=powers), out=powers)
        ratios = self.excess[:, used] @ powers + self.log_constant[:, np.newaxis]
        for k in np.flatnonzero((self.rates != 1).any(axis=(1, 2))).tolist():
            rates = self.rates[k, :, :, np.newaxis]
            scaled = rates[0] * pi[0] + rates[1] * pi[1] + rates[2] * pi[2]
            ratios[k] -= self.cells[k].sum(axis=0) @ np.log(scaled, out=scaled)
        return np.asarray(ratios)


def plain_proposal(counts: Counts) -> Proposal:
    """One member, good where every human class holds a few paired items."""
    return _proposal(counts, (counts.paired + pseudo_counts(counts.paired))[np.newaxis], human_first=False)


def pseudo_counts(paired: Floats) -> Floats:
    """(..., 3, 1): of a human class with n paired items the largest of 1, .6, 1/3 whose weights have a finite fourth
    moment, n + 4 > 9 kappa, so that the effective sample size itself can be trusted."""
    n = paired.sum(axis=-1, keepdims=True)
    # effective counts lie between the whole ones; n = 1.4 is the limit of .6
    return np.where(n > 5, 1.0, np.where(n > 1.4, 0.6, 1 / 3))


def adapted_proposal(counts: Counts, rng: np.random.Generator) -> Proposal:
    """A mixture of the candidates below with the shares that fit the posterior best on a pilot sample.

    The shares maximise the expected log density (EM on weighted draws: Cappé et al. 2008, "Adaptive importance
    sampling in general mixture classes"). The first member, with bounded weights, always keeps a quarter.
    """
    cells = [counts.paired + np.array(kappa)[:, np.newaxis] for kappa in product((1 / 3, 1.0), repeat=3)]
    # Rows that people never paired with a rare verdict of the metric need pseudo-counts by verdict.
    cells += [counts.paired + np.array(kappa) for kappa in product((0.1, 0.5, 1.0), repeat=3)]
    if counts.human_only.any():
        # Human-only items, as if the metric had rated a part of them the way it rated the paired ones.
        split = (counts.paired + 1) / (counts.paired + 1).sum(axis=1, keepdims=True)
        imputed = counts.human_only[:, np.newaxis] * split
        cells += [counts.paired + kappa + part * imputed for kappa in (1 / 3, 1.0) for part in (0.1, 0.3, 1.0)]
    rates = _rates(counts)
    groups = (
        _proposal(counts, np.stack(cells), human_first=False),
        _proposal(counts, np.broadcast_to(counts.paired + 1, rates.shape), human_first=False, rates=rates),
        human_first_proposal(counts),
    )
    joined = {name: np.concatenate([getattr(group, name) for group in groups]) for name in vars(groups[0])}
    members = len(joined["shares"])
    candidates = Proposal(**joined | {"shares": np.full(members, 1 / members)})
    *_, ratios, shares = candidates.drawn(min(max(_PILOT // members, 32), 96) * members, rng)
    largest = ratios.max(axis=0)
    density = np.exp(ratios - largest)
    log_weights = -(largest + np.log(shares @ density))
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    for _ in range(_EM_STEPS):
        mixture = shares @ density
        shares = shares * (density @ (weights / np.maximum(mixture, 1e-300)))
        shares /= shares.sum()
    shares = (1 - _DEFENSIVE) * shares
    shares[0] += _DEFENSIVE
    kept = shares >= _SMALLEST_SHARE
    return Proposal(**{name: own[kept] for name, own in joined.items()} | {"shares": shares[kept] / shares[kept].sum()})


def human_first_proposal(counts: Counts) -> Proposal:
    """What people alone say: the posterior itself where no item has a metric rating only."""
    return _proposal(counts, (counts.paired + 1)[np.newaxis], human_first=True)


def _proposal(counts: Counts, cells: Floats, *, human_first: bool, rates: Floats | None = None) -> Proposal:
    from scipy.special import gammaln

    if rates is None:
        rates = np.ones_like(cells)
    assert not (human_first and (rates != 1).any())
    paired, metric_only, human_only = counts
    axis = 2 if human_first else 1
    within = cells.sum(axis=axis)
    margins = np.broadcast_to(counts.human + 1, within.shape) if human_first else within + metric_only
    rest = np.broadcast_to([*-metric_only, *2 - human_only], (len(cells), 6))
    excess = np.concatenate([(cells - 1 - paired).reshape(-1, 9), rest], axis=1)
    # dpi = prod q^2 dq dnu (or prod p^2 dp dmu) leaves the power margin - sum of cells on the margin drawn first.
    first = slice(12, 15) if human_first else slice(9, 12)
    excess[:, first] += margins - within
    # Shares of gammas with rates: prod rate^cell * prod share^(cell - 1) / (sum of rate * share)^(sum of cells).
    excess[:, 9:12] += np.where((rates != 1).any(axis=(1, 2)), 1, 0)[:, np.newaxis] * within
    # exact zeros spare their logarithms
    excess[np.abs(excess) < 1e-9] = 0
    log_constant = (gammaln(within) - gammaln(cells).sum(axis=axis)).sum(axis=1)
    log_constant += (
        gammaln(margins.sum(axis=1)) - gammaln(margins).sum(axis=1) + (cells * np.log(rates)).sum(axis=(1, 2))
    )
    return Proposal(
        cells=cells,
        margins=margins,
        rates=rates,
        shares=np.full(len(cells), 1 / len(cells)),
        over_metric=np.full(len(cells), not human_first),
        excess=excess,
        log_constant=log_constant,
    )


def _rates(counts: Counts) -> Floats:
    """Rates (k, 3, 3) for the human classes with few paired items.

    With pseudo-counts of 1 the weight of such a class h is p_h^-2, the integral of t exp(-t p_h) over t > 0. A rate of
    t on pi[h, .] is a rate of 1 + t q_r / (gammas of row r) on the gammas, with q_r near its mean. t runs over powers
    of eight up to the number of items, the same for all classes that have one; never three, which would change next to
    nothing.
    """
    n = counts.paired.sum(axis=1)
    items = counts.paired.sum() + counts.metric_only.sum()
    grid = 10 * 8.0 ** np.arange(np.ceil(np.log(max(items, 80) / 10) / np.log(8)) + 1)
    rates = np.array(
        [t * np.array(chosen) for t in grid for chosen in product(*((0, 1) if few else (0,) for few in n <= 5))]
    )
    rates = np.unique(rates[rates.min(axis=1) == 0], axis=0)
    gammas = (counts.paired + 1).sum(axis=0)
    q = (gammas + counts.metric_only) / (gammas + counts.metric_only).sum()
    return np.asarray(1 + rates[:, :, np.newaxis] * (q / gammas))


def _log_mean(ratios: Floats, shares: Floats) -> Floats:
    """log sum_k shares_k exp(ratios_k): (k, n), (k,) -> (n,)."""
    if len(ratios) == 1:
        return np.asarray(ratios[0])
    largest = ratios.max(axis=0)
    return np.asarray(largest + np.log(shares @ np.exp(ratios - largest)))
