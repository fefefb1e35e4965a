"""PairPreferences and PairCounts: the bridges from scores and verdicts to signs, and from signs to counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import comb
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.data.notes import Note
from custodes.data.origin import Origin
from custodes.data.panel import label_codes
from custodes.stats import ABSENT
from custodes.stats.arrays import Floats, Signs, read_only

Counts = NDArray[np.int64]
Aggregate = Literal["mean", "vote"]

FLOAT_NOISE = 1e-9
"""People tie up to this share of their range: a mean of several raters carries float noise."""

CHUNK_CELLS = 20_000_000


@dataclass(frozen=True, kw_only=True)
class SignRows:
    """What k raters said beside each other: positions `pair` and `item` (n,), ordered by pair, then item, and `signs`
    (k, n), of which at least one is not `ABSENT`."""

    pair: NDArray[np.int64]
    item: NDArray[np.int64]
    signs: Signs

    def __post_init__(self) -> None:
        read_only(self)

    def __len__(self) -> int:
        return len(self.pair)


@dataclass(frozen=True, kw_only=True)
class PairPreferences:
    """Who preferred what: `signs` (pairs, raters, items), 1 where system_a is better, 0 tie, -1, `ABSENT` not rated.

    Swapping the systems of a pair negates its signs.
    """

    signs: Signs
    system_a: tuple[str, ...]
    system_b: tuple[str, ...]
    raters: tuple[str, ...]
    items: tuple[str, ...]

    def __post_init__(self) -> None:
        assert self.signs.shape == (len(self.system_a), len(self.raters), len(self.items))
        read_only(self)

    def counts(self) -> PairCounts:
        """The 3x3 counts of the first rater (people) against every other one."""
        n_pairs, n_raters, n_items = self.signs.shape
        tables = np.empty((n_pairs, n_raters - 1, 4, 4), dtype=np.int64)
        step = max(1, CHUNK_CELLS // max(1, n_raters * n_items * 4))
        for start in range(0, n_pairs, step):
            block = self.signs[start : start + step]
            # One-hot over win, tie, loss, absent; a matrix product counts all 16 combinations at once. Counts up to
            # 2^24 are exact in single precision; beyond that double is used.
            kind = np.float32 if n_items < 2**24 else np.float64
            hot = (block[:, :, None, :] == np.array([1, 0, -1, ABSENT], dtype=np.int8)[:, None]).astype(kind)
            others = hot[:, 1:].reshape(len(block), -1, n_items)
            both = hot[:, 0] @ others.transpose(0, 2, 1)
            tables[start : start + step] = np.rint(
                both.reshape(len(block), 4, n_raters - 1, 4).transpose(0, 2, 1, 3)
            ).astype(np.int64)
        return PairCounts.of_tables(tables, system_a=self.system_a, system_b=self.system_b, metrics=self.raters[1:])

    def rows(self, *raters: int) -> SignRows:
        """What some raters said, beside each other, where any of them did."""
        present = np.zeros((len(self.system_a), len(self.items)), dtype=np.bool_)
        for r in raters:
            present |= self.signs[:, r] != ABSENT
        pair, item = np.nonzero(present)
        return SignRows(pair=pair, item=item, signs=np.stack([self.signs[:, r][present] for r in raters]))

    def on(self, items: NDArray[np.intp]) -> PairPreferences:
        """Some of the items."""
        return replace(self, signs=self.signs[..., items], items=tuple(self.items[int(i)] for i in items))


@dataclass(frozen=True, kw_only=True)
class PairCounts:
    """What favoritism, sample accuracy, sign tests and the mixture model need, and nothing more.

    `paired` (pairs, metrics, 3, 3) [human, metric]; `metric_only` and `human_only` (pairs, metrics, 3); order win, tie,
    loss of system_a. Additive over items. `origin`: how they were counted, where a table was counted; `notes`: what was
    left out then.
    """

    paired: Counts
    metric_only: Counts
    human_only: Counts
    system_a: tuple[str, ...]
    system_b: tuple[str, ...]
    metrics: tuple[str, ...]
    origin: Origin = field(default_factory=Origin)
    notes: tuple[Note, ...] = ()

    def __post_init__(self) -> None:
        shape = (len(self.system_a), len(self.metrics))
        assert self.paired.shape == (*shape, 3, 3)
        assert self.metric_only.shape == self.human_only.shape == (*shape, 3)
        read_only(self)

    @classmethod
    def of_tables(
        cls, tables: Counts, *, system_a: tuple[str, ...], system_b: tuple[str, ...], metrics: tuple[str, ...]
    ) -> PairCounts:
        """From (pairs, metrics, 4, 4) [human, metric], the last of each: absent."""
        return cls(
            paired=tables[:, :, :3, :3].copy(),
            metric_only=tables[:, :, 3, :3].copy(),
            human_only=tables[:, :, :3, 3].copy(),
            system_a=system_a,
            system_b=system_b,
            metrics=metrics,
        )

    def __add__(self, other: PairCounts) -> PairCounts:
        """Counts over both sets of items (same pairs and metrics)."""
        assert (self.system_a, self.system_b, self.metrics) == (other.system_a, other.system_b, other.metrics)
        return PairCounts(
            paired=self.paired + other.paired,
            metric_only=self.metric_only + other.metric_only,
            human_only=self.human_only + other.human_only,
            system_a=self.system_a,
            system_b=self.system_b,
            metrics=self.metrics,
        )

    @property
    def human(self) -> Counts:
        """(pairs, 3): people's own outcome, over all items they rated."""
        if not self.metrics:
            return np.zeros((len(self.system_a), 3), dtype=np.int64)
        return np.asarray((self.paired.sum(axis=3) + self.human_only)[:, 0])

    @property
    def metric(self) -> Counts:
        """(pairs, metrics, 3): each metric's own outcome, over all items it rated."""
        return np.asarray(self.paired.sum(axis=2) + self.metric_only)


def pairs_of(systems: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions of the two systems of every pair, first < second, in the order of `itertools.combinations`."""
    first, second = np.triu_indices(len(systems), 1)
    return first, second


def pair_codes(first: NDArray[np.int64], second: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """The place of each pair of positions (first < second) of n systems, in the order of `pairs_of`."""
    return first * n - first * (first + 1) // 2 + second - first - 1


def score_signs(values: Floats, *, epsilon: Floats) -> Signs:
    """Signs (pairs, raters, items) of score differences; a difference of at most epsilon is a tie.

    `values` (raters, items, systems), NaN where not rated; `epsilon` (raters, items).
    """
    signs = np.empty((comb(values.shape[2], 2), *values.shape[:2]), dtype=np.int8)
    for block, difference in _differences(values):
        signs[block] = difference_signs(difference, epsilon)
    return signs


def people_signs(values: Floats, verdicts: Signs | None, *, aggregate: Aggregate, ties: float | None) -> Signs:
    """One sign per (pairs, items) from several people.

    `values` (people, items, systems). `mean`: mean of score differences of those who rated both outputs, then the sign;
    `vote`: each one's sign, then the side that more of them prefer, else a tie. `verdicts` (pairs, people, items) are
    read, not made from scores; where there are any, people vote.
    """
    tie = people_tie(values, ties)
    signs = np.empty((comb(values.shape[2], 2), values.shape[1]), dtype=np.int8)
    for block, difference in _differences(values):
        said = None if verdicts is None else verdicts[block]
        signs[block] = people_preference(difference, said, aggregate=aggregate, tie=tie)
    return signs


def people_preference(difference: Floats, verdicts: Signs | None, *, aggregate: Aggregate, tie: float) -> Signs:
    """The same of score differences (pairs, people, items), which tie up to `tie`."""
    if aggregate == "mean" and verdicts is None:
        rated = np.isfinite(difference)
        n = rated.sum(axis=1)
        mean = np.where(rated, difference, 0.0).sum(axis=1) / np.where(n, n, np.nan)
        return difference_signs(mean, tie)
    each = difference_signs(difference, tie)
    return majority(each if verdicts is None else np.where(each == ABSENT, verdicts, each))


def people_tie(values: Floats, ties: float | None) -> float:
    """The difference up to which people tie: the threshold given (None: 0), and float noise on top."""
    spread = np.nanmax(values) - np.nanmin(values) if np.isfinite(values).any() else 0.0
    return float((ties or 0.0) + FLOAT_NOISE * spread)


def majority(signs: Signs) -> Signs:
    """(pairs, people, items) -> (pairs, items): the side that more people prefer, else a tie; who ties abstains."""
    present = (signs != ABSENT).any(axis=1)
    balance = (signs == 1).sum(axis=1) - (signs == -1).sum(axis=1)
    return np.where(present, np.sign(balance), ABSENT).astype(np.int8)


def verdict_signs(
    settled: pl.DataFrame, *, raters: Sequence[str], items: Sequence[str], systems: Sequence[str]
) -> Signs:
    """Read verdicts as (pairs, raters, items); `settled` has item, system_a, system_b, rater, preference.

    `systems` are sorted, so system_a < system_b is the order of `pairs_of`.
    """
    n = len(systems)
    signs = np.full((comb(n, 2), len(raters), len(items)), ABSENT, dtype=np.int8)
    a, b = label_codes(settled["system_a"], systems), label_codes(settled["system_b"], systems)
    rater, item = label_codes(settled["rater"], raters), label_codes(settled["item"], items)
    known = (a >= 0) & (b >= 0) & (rater >= 0) & (item >= 0)
    signs[pair_codes(a, b, n)[known], rater[known], item[known]] = settled["preference"].to_numpy()[known]
    return signs


def difference_signs(difference: Floats, epsilon: Floats | float) -> Signs:
    """Signs of score differences: one of at most `epsilon`, which fits their shape, is a tie; NaN is absent."""
    signs = (difference > epsilon).astype(np.int8) - (difference < -epsilon).astype(np.int8)
    signs[np.isnan(difference)] = ABSENT
    return signs


def _differences(values: Floats) -> Iterator[tuple[slice, Floats]]:
    """Blocks of pairs, and the differences (pairs, raters, items) of their scores (raters, items, systems)."""
    first, second = pairs_of(range(values.shape[2]))  # type: ignore[arg-type]
    step = max(1, CHUNK_CELLS // max(1, values.shape[0] * values.shape[1]))
    for start in range(0, len(first), step):
        block = slice(start, start + step)
        yield block, np.moveaxis(values[:, :, first[block]] - values[:, :, second[block]], 2, 0)
