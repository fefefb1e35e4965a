"""Many hypotheses at once: is each of these estimates 0? Intervals, p-values, and p-values of the whole family.

The p-value and the interval of one estimate come from the same draws under the hypothesis: p <= 1 - confidence exactly
where the interval leaves out 0. Estimates of a family share their draws, so what they have in common is taken account
of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Bools, Floats, chunks
from custodes.stats.ratios import ratio
from custodes.stats.resampling.resample import sign_flips

SIGMAS = 4.0
"""Monte Carlo errors between a probability and a threshold that settle a decision."""

STREAM = 20_240_229
"""Of the random numbers of tests: fixed, so that no decision depends on the seed of an analysis."""

MOST_FLIPS = 10_000
"""Flips for a p-value that is close to the level; fewer in a large family."""

_WORK = 5_000_000_000  # hypotheses times blocks times flips, at most
_SECOND, _ROUND = 3000, 1000  # flips of the second stage, and at a time
_FEW_BLOCKS = 20  # of which all flips may be counted
_SAME = 1e-9  # statistics are of the order of 1; a smaller difference is rounding
_CACHE = 8  # temporary arrays so much smaller than elsewhere stay in the cache
_GROUPS = 32  # unlike numbers of blocks up to which the largest t of each is followed: bringing all draws to one scale
# takes longer


Draw = Callable[[NDArray[np.intp]], Floats]
"""|t| of some hypotheses (k',) under all of them, (k', n), as an array of the caller's."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """Estimates (k,) with their intervals, p-values one by one, and p-values adjusted for the family; NaN where
    undefined. `at_threshold`: the Monte Carlo error of `p_adjusted` leaves open whether it is at most the level."""

    estimate: Floats
    low: Floats
    high: Floats
    p_value: Floats
    p_adjusted: Floats
    at_threshold: Bools

    def significant(self, alpha: float) -> Bools:
        """(k,): whether `p_adjusted` is at most `alpha`, the level of the tests, beyond its Monte Carlo error."""
        return np.asarray((self.p_adjusted <= alpha) & ~self.at_threshold)


@dataclass(frozen=True, kw_only=True)
class Flips:
    """Random signs of blocks: `first` (n, blocks) of +-1 for every p-value; `exact` if with all +1 these are all that
    there are, but for the opposite of each. `further` draws more. None depend on the seed of an analysis."""

    first: NDArray[np.int8]
    exact: bool

    @classmethod
    def of(cls, n_blocks: int, n: int) -> Flips:
        """Of at least n flips; all that there are, up to `MOST_FLIPS`; none with fewer than two blocks.

        >>> Flips.of(3, 10).first.tolist()
        [[1, -1, 1], [1, 1, -1], [1, -1, -1]]
        """
        if n_blocks < 2 or not n:
            return cls(first=np.ones((0, n_blocks), dtype=np.int8), exact=False)
        if n_blocks <= _FEW_BLOCKS and 2 ** (n_blocks - 1) - 1 <= max(n, MOST_FLIPS):
            bits = np.arange(1, 2 ** (n_blocks - 1))[:, np.newaxis] >> np.arange(n_blocks - 1) & 1
            signs = np.concatenate([np.zeros((len(bits), 1), dtype=np.int64), bits], axis=1)
            return cls(first=(1 - 2 * signs).astype(np.int8), exact=True)
        return cls(first=sign_flips(n_blocks, n, np.random.default_rng(STREAM)), exact=False)

    def further(self, n: int) -> Iterator[NDArray[np.int8]]:
        """n other flips, some at a time."""
        rng = np.random.default_rng([STREAM, 1])
        for start in range(0, n, _ROUND):
            yield sign_flips(self.first.shape[1], min(_ROUND, n - start), rng)


class Steps(NamedTuple):
    """Of hypotheses (k,) from the most extreme: `p_adjusted`; `at_threshold`, where its Monte Carlo error leaves open
    whether it is at most the level; `unclear`, whose probabilities need more draws to settle that."""

    p_adjusted: Floats
    at_threshold: Bools
    unclear: Bools


def adjusted_by_steps(tail: Floats, error: Floats, *, alpha: float) -> Steps:
    """Adjusted p-values from tail probabilities (k,), the most extreme first, and their Monte Carlo errors (k,).

    A hypothesis has no smaller p-value than a more extreme one.

    >>> made = adjusted_by_steps(np.array([0.01, 0.048, 0.04, 0.2]), np.full(4, 0.001), alpha=0.05)
    >>> made.p_adjusted.tolist(), made.at_threshold.tolist(), made.unclear.tolist()
    ([0.01, 0.048, 0.048, 0.2], [False, True, True, False], [False, True, False, False])
    """
    low, high = tail - SIGMAS * error, tail + SIGMAS * error
    largest = [np.maximum.accumulate(values) for values in (low, tail, high)]
    at_threshold = np.asarray((largest[0] <= alpha) & (alpha < largest[2]))
    return Steps(largest[1], at_threshold, at_threshold & (low <= alpha) & (alpha < high))


@dataclass(frozen=True, kw_only=True)
class Columns:
    """An array of the `shape` (n, k), computed where it is needed: `of` gives some columns (k',) as rows (k', n)."""

    shape: tuple[int, int]
    of: Callable[[NDArray[np.intp]], Floats]


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


def flip_tests(
    estimate: Floats,
    left: Floats,
    *,
    present: Bools,
    flips: NDArray[Any] | Flips,
    confidence: float,
    alpha: float | None = None,
) -> Family:
    """Test estimates (k,) that are nearly means of what each block of units contributes, by flips of its sign.

    `left` (blocks, k) are the estimates with a block left out, `present` (blocks, k) whether a block holds anything,
    `flips` (n, blocks) of +1 and -1, the same for all. What a block contributes is the estimate and its jackknife
    influence; under the hypothesis its sign is arbitrary. Every flip gives a t statistic with its own variance, so
    that few blocks, and blocks of unlike size, do no harm. Where estimates rest on unlike numbers of blocks, their t
    are brought to one scale, or the one with the fewest would be the largest by chance. Exact where contributions are
    symmetric around 0, whatever their number; else for many blocks. The interval is the estimate +- the critical t
    times the jackknife's standard error. With fewer than six blocks nothing can be significant at .05, so there is
    neither p nor interval, and the estimate is not of the family. NaN where an estimate, or one with a block left
    out, is. With `Flips` there are as many as it takes to say on which side of `alpha` (None: 1 - confidence) an
    adjusted p-value lies, up to `MOST_FLIPS`.

    >>> estimate, left = np.array([2.0]), np.array([[2.2], [2.0], [1.8], [2.1], [1.9], [2.0]])
    >>> flips = 1 - 2 * (np.arange(64)[:, None] >> np.arange(6) & 1)
    >>> made = flip_tests(estimate, left, present=np.ones((6, 1), dtype=bool), flips=flips, confidence=0.9)
    >>> made.p_value.round(3).tolist()  # (2 + 1) / (64 + 1): all signs alike, one way or the other
    [0.046]

    Source: Fisher 1935; Quenouille 1956; Romano and Wolf 2005 for the family (step-down of the largest t).
    """
    from scipy.special import ndtr, ndtri, stdtr, stdtrit

    n = present.sum(axis=0)
    count = np.maximum(n, 2)
    defined = np.zeros(len(n), dtype=bool)
    total, squares = np.zeros((2, len(n)))
    shares = np.zeros(left.shape[::-1])
    for some in chunks(len(n), len(left)):
        known, there = left[:, some].T, present[:, some].T
        defined[some] = np.isfinite(estimate[some]) & (np.isfinite(known) | ~there).all(axis=1) & (n[some] > 1)
        kept = there & defined[some, np.newaxis]
        values = np.where(kept, known, 0.0)
        mean = values.sum(axis=1) / np.maximum(n[some], 1)
        middle = np.where(defined[some], estimate[some], 0.0) + (n[some] - 1) * mean
        own = np.where(kept, middle[:, np.newaxis] - (n[some] - 1)[:, np.newaxis] * values, 0.0)
        own[np.abs(own) <= _SAME] = 0.0
        total[some], squares[some] = own.sum(axis=1), np.einsum("ku,ku->k", own, own)
        # |sum of the signed contributions| over the largest it can be, which |t| grows with: squares do not change.
        # So scaled here, sums are `parallel` as they are.
        shares[some] = (
            own * np.nan_to_num(ratio(np.ones(len(own)), np.sqrt(count[some] * squares[some])))[:, np.newaxis]
        )

    def t(parallel: Floats, count: Floats) -> Floats:
        parallel = np.minimum(parallel, 1.0)  # rounding
        with np.errstate(divide="ignore"):
            return np.asarray(np.sqrt(count - 1) * parallel / np.sqrt((1 - parallel) * (1 + parallel)))

    numbers, group = np.unique(count, return_inverse=True)
    alike = len(numbers) <= _GROUPS

    def normal(parallel: Floats, count: Floats) -> Floats:
        return np.asarray(-ndtri(stdtr(count - 1, -t(parallel, count))))

    def student(values: Floats, count: Floats) -> Floats:
        return np.asarray(-stdtrit(count - 1, ndtr(-values)))

    def as_of(values: Floats, number: int) -> Floats:
        """Normal quantiles on the scale of `parallel` with so many blocks."""
        made = student(values, numbers[number])
        with np.errstate(invalid="ignore"):
            return np.asarray(np.where(np.isinf(made), 1.0, made / np.sqrt(numbers[number] - 1 + made**2)))

    def by(signs: NDArray[np.int8]) -> Callable[[NDArray[np.intp]], Floats]:
        columns = np.ascontiguousarray(signs.T, dtype=np.float64)

        def draw(part: NDArray[np.intp]) -> Floats:
            drawn = shares[part] @ columns
            np.abs(drawn, out=drawn)
            return drawn if alike else normal(drawn, count[part, np.newaxis])

        return draw

    stream = flips if isinstance(flips, Flips) else Flips(first=np.asarray(flips, dtype=np.int8), exact=True)
    most = 0 if stream.exact or not len(stream.first) else min(MOST_FLIPS, _WORK // max(1, left.size))
    least = np.exp2(1.0 - n)  # the smallest p of all flips: drawn ones may stay below it
    observed = np.where(defined & (least <= 1 - confidence), np.minimum(np.abs(shares.sum(axis=1)), 1.0), np.nan)
    scaled = normal(observed, count) if len(numbers) > 1 else observed
    error = np.sqrt(np.maximum(squares - total**2 / count, 0.0) / (count * (count - 1)))
    return _tested(
        estimate=np.where(defined, estimate, np.nan),
        error=error,
        observed=observed if alike else scaled,
        scaled=scaled,
        draw=by(stream.first),
        n_draws=len(stream.first),
        confidence=confidence,
        alpha=1 - confidence if alpha is None else alpha,
        exact=stream.exact,
        further=lambda n: map(by, stream.further(n)),
        most=most,
        group=group if alike else None,
        as_of=as_of,
        critical=(lambda values: t(values, count)) if alike else (lambda values: student(values, count)),
        least=least,
    )


def bootstrap_tests(
    draws: Floats | Columns, *, n_units: float, confidence: float, alpha: float | None = None
) -> Family:
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

    def rows(part: NDArray[np.intp]) -> tuple[Floats, Floats, Bools]:
        """Estimates, the draws around 0 in the place of undefined ones, and which are defined, a row each."""
        rows = draws.of(part) if isinstance(draws, Columns) else draws[:, part].T
        resampled = np.array(rows[:, 1:], order="C")  # a copy, which is changed in place
        known = np.isfinite(resampled)
        if not known.all():
            resampled[~known] = 0.0
        return rows[:, 0], resampled, known

    estimate, middle, error = np.full((3, k), np.nan)
    defined = np.zeros(k, dtype=bool)
    for some in chunks(k, _CACHE * (1 + n_draws)):
        part = np.arange(some.start, some.stop)
        estimate[part], own, known = rows(part)
        n = known.sum(axis=1)
        defined[part] = np.isfinite(estimate[part]) & (n > 0) & (2 * n >= n_draws) & (n_units > 1)
        middle[part] = own.sum(axis=1) / np.maximum(n, 1)
        own -= middle[part, np.newaxis]
        if not known.all():
            own[~known] = 0.0
        squares = np.where(defined[part], np.einsum("kn,kn->k", own, own), 0.0)
        error[part] = np.sqrt(squares / np.maximum(n, 1) * (n_units / max(1, n_units - 1)))
    moves = error > _SAME
    testable = defined & (moves | (np.abs(estimate) <= _SAME)) & bool(np.exp2(1.0 - n_units) <= 1 - confidence)
    unit = np.where(moves, error, 1.0)

    def drawn(part: NDArray[np.intp]) -> Floats:
        _, own, known = rows(part)
        own -= middle[part, np.newaxis]
        own /= unit[part, np.newaxis]
        np.abs(own, out=own)
        if not known.all():
            own[~known] = 0.0
        return own

    def as_normal(values: Floats) -> Floats:
        return np.asarray(-ndtri(stdtr(max(1, n_units - 1), -values)))

    def as_student(values: Floats) -> Floats:
        return np.asarray(-stdtrit(max(1, n_units - 1), ndtr(-values)))

    return _tested(
        estimate=np.where(defined, estimate, np.nan),
        error=error,
        observed=np.where(testable, as_normal(np.abs(estimate) / unit), np.nan),
        draw=drawn,
        n_draws=n_draws,
        confidence=confidence,
        alpha=1 - confidence if alpha is None else alpha,
        critical=as_student,
    )


def _tested(
    *,
    estimate: Floats,
    error: Floats,
    observed: Floats,
    draw: Draw,
    n_draws: int,
    confidence: float,
    alpha: float,
    exact: bool = False,
    further: Callable[[int], Iterator[Draw]] | None = None,
    most: int = 0,
    scaled: Floats | None = None,
    group: NDArray[np.intp] | None = None,
    as_of: Any = None,
    critical: Any = lambda values: values,
    least: Floats | float = 0.0,
) -> Family:
    """From |t| observed (k,) and, by `draw` of some of them, under the hypotheses (some, n), from the smallest up.

    NaN observed: not tested; `critical` turns a |t| of the draws into one of the estimate; `least` (k,) is the smallest
    p there can be. Where |t| are on unlike scales, one for each `group` (k,), `scaled` are those observed on one scale
    and `as_of` brings such values to the scale of a group: thresholds are converted, not the draws. `further` gives up
    to `most` other draws, for p-values that are close to `alpha`; `exact` draws are all that there are."""
    p_value, adjusted, bound = np.full((3, len(estimate)), np.nan)
    scaled = observed if scaled is None else scaled
    group = np.zeros(len(estimate), dtype=np.intp) if group is None else group
    order = np.argsort(scaled, kind="stable")[: (~np.isnan(scaled)).sum()]  # NaN comes last
    lowered = scaled * (1 - _SAME) - _SAME
    drawn_of = np.full(len(estimate), n_draws)
    rank = _rank(confidence, n_draws)
    groups = np.unique(group[order])
    largest = np.zeros((len(groups), n_draws))
    for some in chunks(len(order), _CACHE * max(1, n_draws)):
        part = order[some]
        drawn = draw(part)
        reached = observed[part] * (1 - _SAME) - _SAME
        p_value[part] = (np.count_nonzero(drawn >= reached[:, np.newaxis], axis=1) + 1) / (n_draws + 1)
        beyond = np.zeros(drawn.shape, dtype=bool)
        for number, top in zip(groups, largest, strict=True):
            mine = group[part] == number
            alone = bool(mine.all())
            lowest = reached if alone else np.where(mine, reached, as_of(lowered[part], number))
            after = np.maximum((drawn if alone else drawn[mine]).max(axis=0, initial=0.0), top)
            # Thresholds that come together are close: nearly all draws are beyond all of them before, or none after.
            beyond |= top >= lowest.max()
            open_ = np.flatnonzero((top < lowest.max()) & (after >= lowest.min()))
            if len(open_):
                upto = np.where(mine[:, np.newaxis], drawn[:, open_], 0.0)
                upto[0] = np.maximum(upto[0], top[open_])
                np.maximum.accumulate(upto, axis=0, out=upto)
                beyond[:, open_] |= upto >= lowest[:, np.newaxis]
            top[:] = after
        adjusted[part] = (np.count_nonzero(beyond, axis=1) + 1) / (n_draws + 1)
        if rank:
            drawn.partition(n_draws - rank, axis=1)
            bound[part] = drawn[:, n_draws - rank]
    unsure = _Unsure(observed=observed, lowered=lowered, order=order, group=group, as_of=as_of)
    tail, error_of = adjusted[order], np.zeros(len(order))
    if not exact:
        error_of = np.sqrt(tail * (1 - tail) / max(1, n_draws))
    rounds, done = further(most) if further else iter(()), 0
    steps = adjusted_by_steps(tail[::-1], error_of[::-1], alpha=alpha)
    while done < most and steps.unclear.any():
        needed = len(order) - 1 - np.flatnonzero(steps.unclear)[::-1]
        size = min(_SECOND, most) if not done else most - done
        unsure.add(islice(rounds, -(-size // _ROUND)), needed)
        done += size
        at = order[needed]
        tail[needed], p_value[at] = unsure.tail[needed], unsure.alone(needed)
        error_of[needed] = np.sqrt(tail[needed] * (1 - tail[needed]) / done)
        bound[at], drawn_of[at] = unsure.bound(needed, confidence), done
        steps = adjusted_by_steps(tail[::-1], error_of[::-1], alpha=alpha)
    adjusted[order] = tail
    at_threshold = np.zeros(len(estimate), dtype=np.bool_)
    at_threshold[order[::-1]] = steps.at_threshold
    p_value = np.maximum(p_value, least)
    adjusted = np.maximum(adjusted, p_value)
    # step down: what is less extreme has no smaller p
    adjusted[order[::-1]] = np.maximum.accumulate(adjusted[order[::-1]])
    with np.errstate(invalid="ignore"):
        reach = np.where(error > 0, critical(bound) * error, 0.0 * bound)
    reach = np.where(np.isfinite(reach), reach, np.nan)
    # whatever rounding does, an interval holds 0 where the test does not tell it apart from 0
    open_ = p_value > (_rank(confidence, drawn_of) + _SAME) / (drawn_of + 1)
    return Family(
        estimate=estimate,
        low=np.where(open_, np.minimum(estimate - reach, 0.0), estimate - reach),
        high=np.where(open_, np.maximum(estimate + reach, 0.0), estimate + reach),
        p_value=p_value if n_draws else np.full_like(p_value, np.nan),
        p_adjusted=adjusted if n_draws else np.full_like(adjusted, np.nan),
        at_threshold=at_threshold & bool(n_draws),
    )


def _rank(confidence: float, n: Any) -> Any:
    """How many of n draws, the data among them, may reach the critical value."""
    return np.asarray((1 - confidence) * (n + 1) + _SAME).astype(np.int64)


class _Unsure:
    """More draws for the hypotheses at some places in `order`, the least extreme first: the `tail` of the largest |t|
    up to each."""

    def __init__(
        self, *, observed: Floats, lowered: Floats, order: NDArray[np.intp], group: NDArray[np.intp], as_of: Any
    ) -> None:
        self._reached = observed * (1 - _SAME) - _SAME
        self._lowered, self._order, self._group, self._as_of = lowered, order, group, as_of
        self._beyond, self._number = np.zeros((2, len(order)), dtype=np.int64)
        self._draws: dict[int, list[Floats]] = {}

    @property
    def tail(self) -> Floats:
        """(order,): of the largest |t| up to each, the data counted."""
        return np.asarray((self._beyond + 1) / (self._number + 1))

    def alone(self, needed: NDArray[np.intp]) -> Floats:
        """The p-value of each alone."""
        draws = (np.concatenate(self._draws[place]) for place in needed.tolist())
        reached = self._reached[self._order[needed]]
        return np.array([(np.sum(own >= at) + 1) / (len(own) + 1) for own, at in zip(draws, reached, strict=True)])

    def bound(self, needed: NDArray[np.intp], confidence: float) -> Floats:
        """The critical |t| of each alone."""
        draws = (np.concatenate(self._draws[place]) for place in needed.tolist())
        return np.array([np.sort(own)[len(own) - _rank(confidence, len(own))] for own in draws])

    def add(self, rounds: Iterable[Draw], needed: NDArray[np.intp]) -> None:
        """Draws for the hypotheses at the places `needed`, ascending."""
        self._draws = {place: self._draws.get(place, []) for place in needed.tolist()}
        groups = np.unique(self._group[self._order])
        for draw in rounds:
            largest: list[Any] = [0.0] * len(groups)
            for some in chunks(int(needed[-1]) + 1, _CACHE * _ROUND):
                part = self._order[some]
                drawn, group = draw(part), self._group[part]
                at = needed[(needed >= some.start) & (needed < some.stop)]
                here = at - some.start
                # The largest of each one needed and those before it, back to the one needed before, and of the rest.
                starts = np.concatenate([[0], here + 1])
                starts = starts[starts < len(part)]
                over = np.zeros((len(at), drawn.shape[1]), dtype=np.bool_)
                for k, number in enumerate(groups):
                    mine = group == number
                    own = drawn if mine.all() else np.where(mine[:, np.newaxis], drawn, 0.0)
                    upto = np.maximum.reduceat(own, starts, axis=0)
                    upto[0] = np.maximum(upto[0], largest[k])
                    np.maximum.accumulate(upto, axis=0, out=upto)
                    largest[k] = upto[-1]
                    lowest = self._reached[part][here]
                    if not mine.all():
                        lowest = np.where(mine[here], lowest, self._as_of(self._lowered[part][here], number))
                    over |= upto[: len(at)] >= lowest[:, np.newaxis]
                self._beyond[at] += over.sum(axis=1)
                self._number[at] += drawn.shape[1]
                for place, row in zip(at.tolist(), drawn[here], strict=True):
                    self._draws[place].append(row)
