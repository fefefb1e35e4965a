"""Many hypotheses at once: is each of these estimates 0? Intervals, p-values, and p-values of the whole family.

The p-value and the interval of one estimate come from the same draws under the hypothesis: p <= 1 - confidence exactly
where the interval leaves out 0. Estimates of a family share their draws, so what they have in common is taken account
of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Bools, Floats, chunks

_SAME = 1e-9  # statistics are of the order of 1; a smaller difference is rounding
_GROUPS = 32  # unlike numbers of blocks up to which the largest t of each is followed: bringing all draws to one scale
# takes longer


@dataclass(frozen=True, kw_only=True)
class Family:
    """Estimates (k,) with their intervals, p-values one by one, and p-values adjusted for the family; NaN where
    undefined."""

    estimate: Floats
    low: Floats
    high: Floats
    p_value: Floats
    p_adjusted: Floats


@dataclass(frozen=True, kw_only=True)
class Columns:
    """An array of the `shape` (n, k) whose columns (k',) -> (n, k') are made where they are needed."""

    shape: tuple[int, int]
    of: Callable[[NDArray[np.intp]], Floats]

    def __getitem__(self, key: tuple[slice, NDArray[np.intp]]) -> Floats:
        rows, columns = key
        return self.of(columns)[rows]


def blocks_of_units(n_units: int, *, most: int) -> tuple[int, NDArray[np.intp]]:
    """How many blocks of units are left out in turn, and the block of each unit.

    A block is one unit, or several where there are more than `most`: units are dealt to the blocks in turn.

    >>> n, block = blocks_of_units(3, most=2)
    >>> n, block.tolist()
    (2, [0, 1, 0])

    Source: Quenouille 1956 and Tukey 1958, the jackknife.
    """
    n_blocks = min(n_units, most)
    return n_blocks, np.arange(n_units) % max(1, n_blocks)


def without_block(n_units: int, *, most: int) -> tuple[Floats, NDArray[np.intp]]:
    """Weights (blocks, units) of the data with one block of units left out each, and the block of each unit.

    >>> weights, block = without_block(3, most=2)
    >>> weights.tolist(), block.tolist()
    ([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0]], [0, 1, 0])
    """
    n_blocks, block = blocks_of_units(n_units, most=most)
    return (np.arange(n_blocks)[:, np.newaxis] != block).astype(np.float64), block


def flip_tests(estimate: Floats, left: Floats, *, present: Bools, flips: NDArray[Any], confidence: float) -> Family:
    """Test estimates (k,) that are nearly means of what each block of units contributes, by flips of its sign.

    `left` (blocks, k) are the estimates with a block left out, `present` (blocks, k) whether a block holds anything,
    `flips` (n, blocks) of +1 and -1, the same for all. What a block contributes is the estimate and its jackknife
    influence; under the hypothesis its sign is arbitrary. Every flip gives a t statistic with its own variance, so
    that few blocks, and blocks of unlike size, do no harm. Where estimates rest on unlike numbers of blocks, their t
    are brought to one scale, or the one with the fewest would be the largest by chance. Exact where contributions are
    symmetric around 0, whatever their number; else for many blocks. The interval is the estimate +- the critical t
    times the jackknife's standard error. With fewer than six blocks nothing can be significant at .05, so there is
    neither p nor interval, and the estimate is not of the family. NaN where an estimate, or one with a block left
    out, is.

    >>> estimate, left = np.array([2.0]), np.array([[2.2], [2.0], [1.8], [2.1], [1.9], [2.0]])
    >>> flips = 1 - 2 * (np.arange(64)[:, None] >> np.arange(6) & 1)
    >>> made = flip_tests(estimate, left, present=np.ones((6, 1), dtype=bool), flips=flips, confidence=0.9)
    >>> made.p_value.round(3).tolist()  # (2 + 1) / (64 + 1): all signs alike, one way or the other
    [0.046]

    Source: Fisher 1935; Quenouille 1956; Romano and Wolf 2005 for the family (step-down of the largest t).
    """
    from scipy.special import ndtr, ndtri, stdtr, stdtrit

    n = present.sum(axis=0)
    defined = np.isfinite(estimate) & (np.isfinite(left) | ~present).all(axis=0) & (n > 1)
    kept = present & defined
    count = np.maximum(n, 2)
    values = np.where(kept, left, 0.0)
    share = np.where(kept, estimate + (n - 1) * (values.sum(axis=0) / np.maximum(n, 1) - values), 0.0)
    share[np.abs(share) <= _SAME] = 0.0
    squares = np.einsum("uk,uk->k", share, share)

    def t(sums: Floats, part: Any) -> Floats:
        """|t| from the sum of the signed contributions: their squares do not change."""
        full = count[part] * squares[part]
        parallel = np.clip(sums**2 / np.where(full > 0, full, 1.0), 0.0, 1.0)
        with np.errstate(divide="ignore"):
            return np.asarray(np.sqrt((count[part] - 1) * parallel / (1 - parallel)))

    numbers, group = np.unique(count, return_inverse=True)
    alike = len(numbers) <= _GROUPS

    def normal(values: Floats, count: Floats) -> Floats:
        return np.asarray(-ndtri(stdtr(count - 1, -values)))

    def student(values: Floats, count: Floats) -> Floats:
        return np.asarray(-stdtrit(count - 1, ndtr(-values)))

    def draw(part: Any) -> Floats:
        drawn = t(signs @ share[:, part], part)
        return drawn if alike else normal(drawn, count[part])

    everything = slice(None)
    total = share.sum(axis=0)
    least = np.exp2(1.0 - n)  # the smallest p of all flips: drawn ones may stay below it
    signs = np.asarray(flips, dtype=np.float64)
    observed = np.where(defined & (least <= 1 - confidence), t(total, everything), np.nan)
    scaled = normal(observed, count) if len(numbers) > 1 else observed
    error = np.sqrt(np.maximum(squares - total**2 / count, 0.0) / (count * (count - 1)))
    return _tested(
        estimate=np.where(defined, estimate, np.nan),
        error=error,
        observed=observed if alike else scaled,
        scaled=scaled,
        draw=draw,
        n_draws=len(signs),
        confidence=confidence,
        group=group if alike else None,
        as_of=lambda values, number: student(values, numbers[number]),
        critical=(lambda values: values) if alike else (lambda values: student(values, count)),
        least=least,
    )


def bootstrap_tests(draws: Floats | Columns, *, n_units: float, confidence: float) -> Family:
    """Test estimates by their bootstrap: draws (1 + B, k), the estimate first. For statistics that jump.

    t is the estimate over the standard deviation of its draws; under the hypothesis, draws around their own mean. With
    `n_units` resampled units the normal quantile that this gives is turned into one of Student's t. The interval is the
    estimate +- the critical value times the standard deviation. NaN where an estimate is, or fewer than half of its
    draws are defined; neither p nor interval where no draw differs, or with too few units for any test.

    >>> draws = np.array([[3.0], [2.0], [4.0], [1.0], [5.0], [3.0]])
    >>> made = bootstrap_tests(draws, n_units=100, confidence=0.8)
    >>> made.p_value.round(3).tolist(), bool(made.low[0] > 0)
    ([0.167], True)

    Source: Efron 1979; Romano and Wolf 2005 for the family.
    """
    from scipy.special import ndtr, ndtri, stdtr, stdtrit

    n_draws, k = draws.shape[0] - 1, draws.shape[1]
    estimate, middle, error = np.full((3, k), np.nan)
    defined = np.zeros(k, dtype=bool)
    for some in chunks(k, 1 + n_draws):
        part = np.arange(some.start, some.stop)
        own = draws[:, part]
        known = np.isfinite(own[1:])
        n = known.sum(axis=0)
        estimate[part] = own[0]
        defined[part] = np.isfinite(own[0]) & (n > 0) & (2 * n >= n_draws) & (n_units > 1)
        middle[part] = np.where(known, own[1:], 0.0).sum(axis=0) / np.maximum(n, 1)
        around = np.where(known & defined[part], own[1:] - middle[part], 0.0)
        error[part] = np.sqrt((around**2).sum(axis=0) / np.maximum(n, 1) * (n_units / max(1, n_units - 1)))
    moves = error > _SAME
    testable = defined & (moves | (np.abs(estimate) <= _SAME)) & bool(np.exp2(1.0 - n_units) <= 1 - confidence)

    def t(values: Floats, part: Any) -> Floats:
        return np.asarray(np.abs(values) / np.where(moves[part], error[part], 1.0))

    def drawn(part: NDArray[np.intp]) -> Floats:
        own = draws[1:, part]
        return t(np.where(np.isfinite(own) & defined[part], own - middle[part], 0.0), part)

    def as_normal(values: Floats) -> Floats:
        return np.asarray(-ndtri(stdtr(max(1, n_units - 1), -values)))

    def as_student(values: Floats) -> Floats:
        return np.asarray(-stdtrit(max(1, n_units - 1), ndtr(-values)))

    return _tested(
        estimate=np.where(defined, estimate, np.nan),
        error=error,
        observed=np.where(testable, as_normal(t(estimate, slice(None))), np.nan),
        draw=drawn,
        n_draws=n_draws,
        confidence=confidence,
        critical=as_student,
    )


def _tested(
    *,
    estimate: Floats,
    error: Floats,
    observed: Floats,
    draw: Any,
    n_draws: int,
    confidence: float,
    scaled: Floats | None = None,
    group: NDArray[np.intp] | None = None,
    as_of: Any = None,
    critical: Any = lambda values: values,
    least: Floats | float = 0.0,
) -> Family:
    """From |t| observed (k,) and, by `draw` of some of them, under the hypotheses (n, some), from the smallest up.

    NaN observed: not tested; `critical` turns a |t| of the draws into one of the estimate; `least` (k,) is the smallest
    p there can be. Where |t| are on unlike scales, one for each `group` (k,), `scaled` are those observed on one scale
    and `as_of` brings such values to the scale of a group: thresholds are converted, not the draws."""
    p_value, adjusted, bound = np.full((3, len(estimate)), np.nan)
    scaled = observed if scaled is None else scaled
    group = np.zeros(len(estimate), dtype=np.intp) if group is None else group
    order = np.argsort(scaled, kind="stable")[: (~np.isnan(scaled)).sum()]  # NaN comes last
    rank = int((1 - confidence) * (n_draws + 1) + _SAME)  # so many draws, the data among them, may reach it
    groups = np.unique(group[order])
    largest = np.zeros((len(groups), n_draws))
    for some in chunks(len(order), max(1, n_draws)):
        part = order[some]
        drawn = draw(part)
        reached = observed[part] * (1 - _SAME)
        p_value[part] = ((drawn >= reached).sum(axis=0) + 1) / (n_draws + 1)
        if rank:
            bound[part] = np.partition(drawn, n_draws - rank, axis=0)[n_draws - rank]
        beyond = np.zeros(drawn.shape, dtype=bool)
        for number, top in zip(groups, largest, strict=True):
            mine = group[part] == number
            own = drawn if mine.all() else np.where(mine, drawn, 0.0)
            upto = np.maximum(np.maximum.accumulate(own, axis=1), top[:, np.newaxis])
            least_of = reached if mine.all() else np.where(mine, reached, as_of(scaled[part] * (1 - _SAME), number))
            beyond |= upto >= least_of
            top[:] = upto[:, -1]
        adjusted[part] = (beyond.sum(axis=0) + 1) / (n_draws + 1)
    p_value = np.maximum(p_value, least)
    adjusted = np.maximum(adjusted, p_value)
    # step down: what is less extreme has no smaller p
    adjusted[order[::-1]] = np.maximum.accumulate(adjusted[order[::-1]])
    with np.errstate(invalid="ignore"):
        reach = np.where(error > 0, critical(bound) * error, 0.0 * bound)
    reach = np.where(np.isfinite(reach), reach, np.nan)
    # whatever rounding does, an interval holds 0 where the test does not tell it apart from 0
    open_ = p_value * (n_draws + 1) > rank + _SAME
    return Family(
        estimate=estimate,
        low=np.where(open_, np.minimum(estimate - reach, 0.0), estimate - reach),
        high=np.where(open_, np.maximum(estimate + reach, 0.0), estimate + reach),
        p_value=p_value if n_draws else np.full_like(p_value, np.nan),
        p_adjusted=adjusted if n_draws else np.full_like(adjusted, np.nan),
    )
