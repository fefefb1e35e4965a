"""The posterior of the mixture model as the finite sum that it is: no Monte Carlo error in theta and in means.

Given how many metric-only items fall to each human class, p is a Dirichlet. Under the model the weight of such numbers
s = (s_win, s_tie, s_loss) is

    (T_win * T_tie * T_loss)(s) * prod_h Gamma(n_h + a_h + s_h + 1) / Gamma(n_h + s_h + 3)

with n_h paired and a_h human-only items of class h, and T_r(t) = prod_h Gamma(N[h, r] + t_h + 1) / t_h! over the ways t
to split the m_r metric-only items of metric class r. The convolution of the three takes Fourier transforms of arrays
as long and wide as there are metric-only items. Many tables are summed at once, in blocks that fit a core's cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints
from custodes.stats.correction.estimator import stream_key

DRAWS = 4096
"""Independent draws for the interval alone."""

_ROUNDING = 1e-14  # of a convolution by Fourier transforms, relative to the norms of what is convolved
_TOLERANCE = 1e-6  # of theta
_STEPS = 60
_CELLS = 130_000  # of a block: about ten arrays of as many floats
_AT_ONCE = 512
_MOST_ITEMS = 640  # of tables whose draws and probabilities come out of arrays as long and wide as there are items


class Summed(NamedTuple):
    """Of tables: `theta` (k,), `p` (k, 3), `low` and `high` (k, 4) of p and the margin, and a `bound` (k,) on the error
    of any probability by rounding. NaN where rounding hides the sum."""

    theta: Floats
    p: Floats
    low: Floats
    high: Floats
    bound: Floats


def summed(rows: Floats, *, seed: list[int], confidence: float) -> Summed:
    """The posteriors of tables of whole counts, rows (k, 15) as of `Counts.rows`.

    Time and memory grow with the square of the number of metric-only items. The interval comes from draws, theta and p
    from the sum itself. What is said of a table depends on it and the `seed` alone, and theta and p on no seed.
    Where rounding might change theta by more than 1e-6 everything is NaN.

    Source: the model of Deriu et al. 2023, Section 3.3; the sum is ours.
    """
    from scipy.fft import next_fast_len

    cells = np.asarray(rows, dtype=np.int64)
    out = Summed(*(np.full((len(cells), *ends), np.nan) for ends in ((), (3,), (4,), (4,), ())))
    if not len(cells):
        return out
    items, own = cells.sum(axis=1), cells[:, 9:12].sum(axis=1)
    lengths = np.array([next_fast_len(n + 1, real=True) for n in range(int(own.max()) + 1)])[own]
    shared = _Shared.of(int(items[items <= _MOST_ITEMS].max(initial=0)), int(lengths.max()), seed)
    for length in np.unique(lengths).tolist():
        triangle, places = _Triangle.of(length), np.flatnonzero(lengths == length)
        # neighbours have splits of like size
        places = places[np.lexsort(cells[places, 9:12].T)]
        for block in _blocks(places, length):
            known = cells[block]
            weights, bound = _weights(known, length)
            if not (kept := bound <= _TOLERANCE).all():
                block, known, weights, bound = (values[kept] for values in (block, known, weights, bound))
                if not block.size:
                    continue
            human = known[:, :9].reshape(-1, 3, 3).sum(axis=2) + known[:, 12:] + 1
            total = weights.sum(axis=(1, 2))
            out.p[block] = _means(weights, total, human, known)
            by_margin = weights.reshape(len(block), -1)[:, triangle.order]
            picked = _spread(by_margin, shared.start)
            win, loss = (human[:, h, None] + own[picked] for h, own in ((0, triangle.wins), (2, triangle.losses)))
            usual = items[block] <= _MOST_ITEMS
            drawn = np.empty((4, len(block), DRAWS), dtype=np.float32)
            drawn[0, usual], drawn[2, usual] = shared.shares(win[usual], loss[usual], items[block[usual]] + 3)
            out.theta[block] = shared.theta(weights, human) / total
            for k in np.flatnonzero(~usual).tolist():
                out.theta[block[k]] = _theta(by_margin[k], human[k, 0] + triangle.wins, human[k, 2] + triangle.losses)
                drawn[0, k], drawn[2, k] = _shares(win[k], loss[k], int(items[block[k]]) + 3, seed=seed, row=known[k])
            drawn[1], drawn[3] = 1 - drawn[0] - drawn[2], drawn[0] - drawn[2]
            drawn.sort(axis=2)
            tail = (1 - confidence) / 2
            low, high = (min(max(int(np.ceil(q * DRAWS)), 1), DRAWS) - 1 for q in (tail, 1 - tail))
            out.low[block], out.high[block], out.bound[block] = drawn[..., low].T, drawn[..., high].T, bound
    return out


class _Triangle(NamedTuple):
    """The splits of up to length - 1 items in the order of their margin: place in (wins, losses), wins, losses."""

    order: NDArray[np.intp]
    wins: Ints
    losses: Ints

    @classmethod
    def of(cls, length: int) -> _Triangle:
        wins, losses = (own.ravel() for own in np.indices((length, length)))
        order = np.argsort(wins - losses, kind="stable")
        order = order[(wins + losses < length)[order]]
        return cls(order, wins[order], losses[order])


class _Shared(NamedTuple):
    """What all tables of whole counts draw from: `waits` (draws, items + 1), the running sums of independent standard
    exponentials; `ahead` (wins, losses), P(Beta(wins, losses) > 1/2); `start` of the even steps through a sum."""

    waits: Floats
    ahead: Floats
    start: float

    @classmethod
    def of(cls, items: int, length: int, seed: list[int]) -> _Shared:
        """Prefixes of the same endless arrays, however many items there are."""
        rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed)))
        start = rng.random()
        waits = np.zeros((items + 4, DRAWS))
        rng.standard_exponential(out=waits[1:])
        size = items + 2 + length
        # Pascal's rule: P(Beta(i, j) > 1/2) is the mean of its neighbours with one less
        ahead = np.zeros((size, size))
        row = np.zeros(2 * size)
        for total in range(1, 2 * size - 1):
            row[1:total] = (row[: total - 1] + row[1:total]) / 2
            row[total] = 1.0
            i = np.arange(max(0, total - size + 1), min(total, size - 1) + 1)
            ahead[i, total - i] = row[i]
        return cls(np.ascontiguousarray(np.cumsum(waits, axis=0).T), ahead, start)

    def shares(self, win: Ints, loss: Ints, total: Ints) -> tuple[Floats, Floats]:
        """Shares of wins and losses of Dirichlet draws with whole parameters, `win` and `loss` (k, draws) of `total`.

        A Dirichlet with whole parameters is what so many waiting times are of the time that all take together.
        """
        width = self.waits.shape[1]
        flat, drawn = self.waits.ravel(), np.empty((2, *win.shape))
        # a few draws at a time of all tables, which share their waits in the cache
        for part in (slice(start, start + _AT_ONCE) for start in range(0, DRAWS, _AT_ONCE)):
            at = np.arange(part.start, part.stop) * width
            whole = flat.take(at + total[:, None])
            np.divide(flat.take(at + win[:, part]), whole, out=drawn[0, :, part])
            np.divide(flat.take(at + (total[:, None] - loss[:, part])), whole, out=drawn[1, :, part])
        return drawn[0], np.subtract(1, drawn[1], out=drawn[1])

    def theta(self, weights: Floats, human: Ints) -> Floats:
        """The sum of `weights` (k, length, length) where p_win > p_loss; NaN where there are too many items."""
        length, most = weights.shape[1], len(self.ahead) - weights.shape[1]
        known = zip(weights, human[:, 0].tolist(), human[:, 2].tolist(), strict=True)
        return np.array(
            [
                np.einsum("wl,wl->", own, self.ahead[win : win + length, loss : loss + length])
                if max(win, loss) <= most
                else np.nan
                for own, win, loss in known
            ]
        )


def _shares(win: Ints, loss: Ints, total: int, *, seed: list[int], row: Ints) -> tuple[Floats, Floats]:
    """The same of so many items that draws of a table's own take less time."""
    rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=stream_key(row))))
    gammas = rng.standard_gamma(np.stack([win, total - win - loss, loss]))
    whole = gammas[0] + gammas[1] + gammas[2]
    return gammas[0] / whole, gammas[2] / whole


def _theta(weights: Floats, win: Ints, loss: Ints) -> float:
    from scipy.special import betainc

    some = weights > 1e-13 * weights.max()
    return float(np.clip(weights[some] @ betainc(loss[some], win[some], 0.5) / weights[some].sum(), 0.0, 1.0))


def _blocks(places: NDArray[np.intp], length: int) -> Iterator[NDArray[np.intp]]:
    step = max(1, _CELLS // length**2)
    return (places[start : start + step] for start in range(0, len(places), step))


def _spread(weights: Floats, start: float) -> NDArray[np.intp]:
    """Cells of each row (k, cells) at even steps through its weights: (k, draws).

    Independent cells would leave a larger error.
    """
    reached = np.cumsum(weights, axis=1)
    counts = np.floor(reached * (DRAWS / reached[:, -1:]) - start).astype(np.int64) + 1
    # rounding may leave the sum short of the last step
    np.clip(counts, 0, DRAWS, out=counts)
    counts[:, -1] = DRAWS
    counts[:, 1:] -= counts[:, :-1].copy()
    cells = np.broadcast_to(np.arange(counts.shape[1]), counts.shape)
    return np.repeat(cells.ravel(), counts.ravel()).reshape(len(weights), DRAWS)


def _means(weights: Floats, total: Floats, human: Ints, known: Ints) -> Floats:
    """Posterior means of p (k, 3), from weights (k, wins, losses) and their sums."""
    items = np.arange(weights.shape[1])
    win, loss = ((weights.sum(axis=axis) * items).sum(axis=1) / total for axis in (2, 1))
    most = known[:, 9:12].sum(axis=1)
    shapes = human + np.stack([win, most - win - loss, loss], axis=1)
    return np.asarray(shapes / (human.sum(axis=1) + most)[:, None])


def _weights(known: Ints, length: int) -> tuple[Floats, Floats]:
    """Weights (k, length, length) by the metric-only items that are wins and losses for people, the largest factor 1,
    and a bound (k,) on the error of any probability by rounding."""
    from scipy.fft import fft, ifft, irfft, rfft
    from scipy.special import gammaln

    paired, metric_only, human_only = known[:, :9].reshape(-1, 3, 3), known[:, 9:12], known[:, 12:]
    n = paired.sum(axis=2)
    logs = gammaln(np.arange(int((n + human_only).max(initial=0)) + length + 3).clip(1))
    # Weighing every split by exp(tilt * totals) is undone exactly after the convolution; where people's own items
    # pull far from what the metric says, it moves the bulk of the convolution to where the posterior is.
    tilt = np.zeros((len(known), 3, 1))
    pulled = human_only.any(axis=1)
    if pulled.any():
        tilt[pulled, :, 0] = _tilt(paired[pulled], metric_only[pulled], human_only[pulled])
    spectrum: NDArray[Any] | None = None
    sums = np.ones((len(known), 3))
    for r in range(3):
        most = int(metric_only[:, r].max(initial=0))
        # without items it is 1 at 0
        if most:
            items = np.arange(most + 1)
            own = logs[paired[:, :, r, None] + items + 1] - logs[items + 1] + tilt * items
            part = fft(rfft(_over_splits(own, metric_only[:, r]), n=length, axis=2), n=length, axis=1)
            sums[:, r] = part[:, 0, 0].real
            spectrum = part if spectrum is None else np.multiply(spectrum, part, out=spectrum)
    items = np.arange(length)
    before = n[:, :, None] + items
    factor = logs[before + human_only[:, :, None] + 1] - logs[before + 3] - tilt * items
    weights = _over_splits(factor, metric_only.sum(axis=1))
    whole = weights.sum(axis=(1, 2))
    assert spectrum is not None
    convolved = irfft(ifft(spectrum, axis=1, overwrite_x=True), n=length, axis=2)
    weights *= np.maximum(convolved, 0.0, out=convolved)
    # no value is above 1, so that a part's norm is at most the root of its sum
    sums.sort(axis=1)
    with np.errstate(divide="ignore"):
        bound = _ROUNDING * np.sqrt(sums[:, 1] * sums[:, 2]) * sums[:, 0] * whole / weights.sum(axis=(1, 2))
    return weights, bound


def _over_splits(logs: Floats, most: Ints) -> Floats:
    """exp of the sum of three functions of wins, ties and losses (k, 3, n), over the ways to split `most` (k,) items:
    (k, n, n) by wins and losses, the largest value 1."""
    size = logs.shape[2]
    ties = most[:, None] - np.arange(2 * size - 1)
    of_ties = np.where(ties >= 0, np.take_along_axis(logs[:, 1], ties.clip(0), axis=1), -np.inf)
    total = sliding_window_view(of_ties, size, axis=1) + logs[:, 2, None, :]
    total += logs[:, 0, :, None]
    total -= total.max(axis=(1, 2), keepdims=True)
    return np.asarray(np.exp(total, out=total))


def _tilt(paired: Ints, metric_only: Ints, human_only: Ints) -> Floats:
    """(k, 3): the slope of the log of the sum's second factor where the posterior is, by steps of EM for its mode."""
    from scipy.special import digamma

    imputed = np.zeros(paired.shape)
    for _ in range(_STEPS):
        cells = paired + imputed + 1
        p = cells.sum(axis=2) + human_only
        joint = (p / cells.sum(axis=2))[:, :, None] * cells
        imputed = metric_only[:, None, :] * joint / joint.sum(axis=1, keepdims=True)
    n, totals = paired.sum(axis=2), imputed.sum(axis=2)
    slope = digamma(n + human_only + totals + 1) - digamma(n + totals + 3)
    return np.asarray(slope - slope.mean(axis=1, keepdims=True))
