"""The table of comparisons: which of two outputs of an item each rater prefers.

Every rule behind it stands here once, as an expression on a table: differences of scores, ties, presentation orders and
the combination of annotators. A study applies them in memory, `count` in the engine that holds the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self

import narwhals as nw
import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.data.engines import indicator, otherwise
from custodes.errors import InputError
from custodes.stats import ABSENT
from custodes.stats.arrays import Floats, Ints, Signs, read_only

Aggregate = Literal["mean", "vote"]
"""How several annotators are combined: the sign of the mean difference of scores, or the side that more prefer."""

Orders = Literal["mean", "consistent", "first"]
"""How verdicts in both presentation orders (and repeats) are merged: the sign of their mean (a flip is a tie), only
those that no other verdict contradicts, or the first in the file."""

Table = nw.LazyFrame[Any]

HUMAN = "human"
"""The name of the annotators combined, in every table."""

OUTPUTS = ("item", "system_a", "system_b")
"""The columns that name two outputs of one item."""

FLOAT_NOISE = 1e-9
"""Human ratings tie up to this share of their range: a mean of several annotators carries float noise."""

MOST_CELLS = 4_000_000_000
"""Bytes above which an array does not fit a common machine."""

BATCH_ROWS = 1_000_000
"""Pairs of scores that are joined at a time in memory."""


def preference(difference: nw.Expr, threshold: nw.Expr) -> nw.Expr:
    """The tie rule: 1 or -1 where a difference exceeds the threshold on either side, else 0.

    Parameters
    ----------
    difference, threshold : expressions
        Score of `system_a` minus score of `system_b`, and the largest difference that ties, in score units.
    """
    return nw.when(difference > threshold).then(nw.lit(1)).otherwise(otherwise(difference < -threshold, -1, 0))


def score_differences(scores: Table) -> Table:
    """Compare every two outputs of an item that a rater scored.

    Parameters
    ----------
    scores : table
        Columns rater, item, system, score and threshold (the largest difference that ties); one row per output.

    Returns
    -------
    table
        Columns rater, item, system_a, system_b (system_a < system_b), difference, threshold, sign and order (0).
    """
    pairs = scores.join(scores, on=["rater", "item"], how="inner", suffix="_b")
    pairs = pairs.filter(nw.col("system") < nw.col("system_b")).select(
        "rater",
        "item",
        nw.col("system").alias("system_a"),
        "system_b",
        (nw.col("score") - nw.col("score_b")).alias("difference"),
        "threshold",
    )
    sign = preference(nw.col("difference"), nw.col("threshold")).cast(nw.Int8)
    return pairs.with_columns(sign.alias("sign"), nw.lit(0.0).alias("order"))


def rater_comparisons(scores: Table, verdicts: Table | None) -> Table:
    """Preferences of each rater: by its scores, and by its verdicts on outputs that it did not score both.

    Parameters
    ----------
    scores : table
        As for `score_differences`.
    verdicts : table or None
        Columns rater, item, system_a, system_b, sign and order; one row per comparison (see `merge_orders`).

    Returns
    -------
    table
        Columns rater, item, system_a, system_b, sign, order, difference and threshold (null for verdicts).
    """
    columns = ("rater", *OUTPUTS, "sign", "order", "difference", "threshold")
    scored = score_differences(scores).select(*columns)
    if verdicts is None:
        return scored
    alone = verdicts.join(scored, on=["rater", *OUTPUTS], how="anti")
    unknown = nw.lit(None).cast(nw.Float64)
    alone = alone.with_columns(
        nw.col("sign").cast(nw.Int8),
        nw.col("order").cast(nw.Float64),
        unknown.alias("difference"),
        unknown.alias("threshold"),
    )
    return nw.concat([scored, alone.select(*columns)])


def combine_annotators(comparisons: Table, aggregate: Aggregate) -> Table:
    """Combine the preferences of several annotators into one per comparison.

    Parameters
    ----------
    comparisons : table
        Rows of annotators alone, as from `rater_comparisons`.
    aggregate : {'mean', 'vote'}
        'mean': the sign of the mean difference of those who scored both outputs. 'vote': the side that more of them
        prefer, else a tie.

    Returns
    -------
    table
        Columns item, system_a, system_b, sign and order (the mean over annotators).
    """
    grouped, order = comparisons.group_by(*OUTPUTS), nw.col("order").mean()
    if aggregate == "vote":
        sums = grouped.agg(nw.col("sign").cast(nw.Int64).sum(), order)
        sign = vote_preference(nw.col("sign"))
    else:
        n = nw.col("difference").count().alias("n")
        sums = grouped.agg(nw.col("difference").sum(), n, nw.col("threshold").max(), order)
        sign = mean_preference(*map(nw.col, ("difference", "n", "threshold")))
    return sums.with_columns(sign.cast(nw.Int8).alias("sign")).select(*OUTPUTS, "sign", "order")


def vote_preference(balance: nw.Expr) -> nw.Expr:
    """The side that more annotators prefer, else a tie: the sign of the sum of their signs."""
    return preference(balance, nw.lit(0))


def mean_preference(difference: nw.Expr, n: nw.Expr, threshold: nw.Expr) -> nw.Expr:
    """The sign of the mean difference of n annotators, from the sum of their score differences."""
    return preference(difference / n, threshold)


def merge_orders(verdicts: Table, orders: Orders, *, keys: Sequence[str] = ("rater", *OUTPUTS)) -> Table:
    """Merge verdicts of a rater in both presentation orders, and repeats, into one per comparison.

    Parameters
    ----------
    verdicts : table
        Columns rater, item, system_a, system_b, sign (null: unreadable or not answered) and order (1 where system_a
        was shown first, -1 where system_b was, 0 unknown); for 'first' also `row`, the place in the file.
    orders : {'mean', 'consistent', 'first'}
        'mean': the sign of the mean over orders, each order first averaged over its repeats. 'consistent': only where
        all verdicts agree. 'first': the first verdict in the file.
    keys : sequence of str
        The columns that name a comparison.

    Returns
    -------
    table
        The keys, sign, order (the mean over orders), and 0 or 1 in `half` (asked in
        both orders and answered in one, which holds the rater's preference for a position) and `contradictory`. A
        comparison that is left out has no sign.
    """
    answered, order = ~nw.col("sign").is_null(), nw.col("order")
    if orders == "first":
        rows = verdicts.filter(answered).with_columns(nw.col("row").min().over(*keys).alias("first"))
        return rows.filter(nw.col("row") == nw.col("first")).select(
            *keys, "sign", order.cast(nw.Float64), nw.lit(0).alias("half"), nw.lit(0).alias("contradictory")
        )
    sums = dict[str, nw.Expr]()
    for name, value in (("ab", 1), ("ba", -1), ("unknown", 0)):
        in_order = order == value
        sums |= {
            f"n_{name}": indicator(in_order & answered),
            f"sum_{name}": nw.when(in_order & answered).then(nw.col("sign")).otherwise(nw.lit(0)),
            f"lost_{name}": indicator(in_order & ~answered),
        }
    sums["decided"] = nw.when(answered).then(nw.col("sign") * nw.col("sign")).otherwise(nw.lit(0))
    added = (
        verdicts.select(*keys, **{name: summand.cast(nw.Int64) for name, summand in sums.items()})
        .group_by(*keys)
        .agg(*(nw.col(name).sum() for name in sums))
        .with_columns(*(nw.col(name).cast(nw.Int64) for name in sums))
    )
    n, total = ({o: nw.col(f"{kind}_{o}") for o in ("ab", "ba", "unknown")} for kind in ("n", "sum"))
    least = {o: nw.when(number > 0).then(number).otherwise(nw.lit(1)) for o, number in n.items()}
    # The sign of the sum over orders of the mean of each, in whole numbers.
    balance = (
        total["ab"] * least["ba"] * least["unknown"]
        + total["ba"] * least["ab"] * least["unknown"]
        + total["unknown"] * least["ab"] * least["ba"]
    )
    n_all, sum_all = n["ab"] + n["ba"] + n["unknown"], total["ab"] + total["ba"] + total["unknown"]
    torn = ~((nw.col("decided") == 0) | (sum_all == n_all) | (sum_all == -n_all))
    half = ((n["ab"] > 0) & (n["ba"] == 0) & (nw.col("lost_ba") > 0)) | (
        (n["ba"] > 0) & (n["ab"] == 0) & (nw.col("lost_ab") > 0)
    )
    present = indicator(n["ab"] > 0) + indicator(n["ba"] > 0) + indicator(n["unknown"] > 0)
    shown_first = indicator(n["ab"] > 0) - indicator(n["ba"] > 0)
    left_out = half | torn if orders == "consistent" else half
    return added.filter(n_all > 0).select(
        *keys,
        nw.when(~left_out).then(preference(balance, nw.lit(0))).alias("sign"),
        # Of one order it is 1 or -1, of both 0, of one and an unknown one a half.
        nw.when(present == 2).then(shown_first / 2).otherwise(shown_first / 1).alias("order"),
        indicator(half).alias("half"),
        indicator(torn & ~half).alias("contradictory"),
    )


class Joint(NamedTuple):
    """Preferences of several raters on the same comparisons: positions `pair` and `item` (n,), ordered by pair, then
    item, and `signs` (raters, n), of which at least one is not `ABSENT`."""

    pair: Ints
    item: Ints
    signs: Signs

    @property
    def by_all(self) -> NDArray[np.bool_]:
        """(n,): whether every rater has a preference."""
        return np.asarray((self.signs != ABSENT).all(axis=0))


@dataclass(frozen=True, kw_only=True)
class Comparisons:
    """Who preferred what: one row per rater, item and pair of systems.

    Attributes
    ----------
    raters, items, systems : tuple of str
        Labels; systems are sorted.
    rater, item, pair : int arrays of shape (n,)
        Positions; pairs in the order of `pairs_of`. Rows are sorted by rater, pair and item, and none stands twice.
    sign : int8 array of shape (n,)
        1 where the first system of the pair is preferred, 0 for a tie, -1 where the second is.
    order : array of shape (n,)
        1 where the first system was shown first, -1 where the second was, 0 where that is unknown, and the mean of
        these where verdicts were merged.
    """

    raters: tuple[str, ...]
    items: tuple[str, ...]
    systems: tuple[str, ...]
    rater: Ints
    item: Ints
    pair: Ints
    sign: Signs
    order: Floats

    def __post_init__(self) -> None:
        read_only(self)

    def __len__(self) -> int:
        return len(self.sign)

    @classmethod
    def of(
        cls, rows: pl.DataFrame, *, raters: Sequence[str], items: Sequence[str], systems: Sequence[str]
    ) -> Comparisons:
        """From rows rater, item, system_a, system_b (positions, system_a < system_b), sign and order, each once."""
        first, second = (rows[name].cast(pl.Int64).to_numpy() for name in ("system_a", "system_b"))
        pair = pair_codes(first, second, len(systems))
        rater, item = (rows[name].cast(pl.Int64).to_numpy() for name in ("rater", "item"))
        # One key: sorting by three columns takes three times as long.
        place = np.argsort((rater * (int(pair.max(initial=0)) + 1) + pair) * max(1, len(items)) + item, kind="stable")
        order = rows["order"].cast(pl.Float64).to_numpy()  # all 0 by scores, and millions of zeros take much memory
        return cls(
            raters=tuple(raters),
            items=tuple(items),
            systems=tuple(systems),
            rater=rater[place].astype(np.int32),
            item=item[place].astype(np.int32),
            pair=pair[place].astype(np.int32),
            sign=rows["sign"].cast(pl.Int8).to_numpy()[place],
            order=order[place] if order.any() else np.broadcast_to(0.0, len(rows)),
        )

    @classmethod
    def of_signs(cls, signs: Signs, *, raters: Sequence[str], items: Sequence[str], systems: Sequence[str]) -> Self:
        """From an array (pairs, raters, items), `ABSENT` where a rater has no preference.

        >>> signs = np.array([[[1, 0]]], dtype=np.int8)
        >>> Comparisons.of_signs(signs, raters=["m"], items=["1", "2"], systems=["A", "B"]).sign.tolist()
        [1, 0]
        """
        rater, pair, item = np.nonzero(signs.swapaxes(0, 1) != ABSENT)
        return cls(
            raters=tuple(raters),
            items=tuple(items),
            systems=tuple(systems),
            rater=rater,
            item=item,
            pair=pair,
            sign=signs[pair, rater, item],
            order=np.zeros(len(rater)),
        )

    @cached_property
    def pairs(self) -> NDArray[np.int64]:
        """(pairs, 2): the positions of the two systems of every pair."""
        return read_only(np.stack(pairs_of(self.systems), axis=1))

    @property
    def system_a(self) -> tuple[str, ...]:
        """The first system of every pair."""
        return tuple(self.systems[i] for i in self.pairs[:, 0].tolist())

    @property
    def system_b(self) -> tuple[str, ...]:
        """The second system of every pair."""
        return tuple(self.systems[i] for i in self.pairs[:, 1].tolist())

    @property
    def first(self) -> Ints:
        """(n,): the first system of each row."""
        return np.asarray(self.pairs[self.pair, 0])

    @property
    def second(self) -> Ints:
        """(n,): the second system of each row."""
        return np.asarray(self.pairs[self.pair, 1])

    @property
    def keys(self) -> NDArray[np.int64]:
        """(n,): a number for each pair and item, the same for every rater; ascending within a rater."""
        return self._keys(slice(None))

    def _keys(self, rows: slice) -> NDArray[np.int64]:
        return self.pair[rows].astype(np.int64) * len(self.items) + self.item[rows]

    @cached_property
    def _ends(self) -> Ints:
        return read_only(np.searchsorted(self.rater, np.arange(len(self.raters) + 1)))

    @property
    def present(self) -> tuple[str, ...]:
        """The raters with any comparison."""
        return tuple(name for name, n in zip(self.raters, np.diff(self._ends), strict=True) if n)

    def rows_of(self, rater: int) -> slice:
        """The rows of a rater by its position."""
        return slice(int(self._ends[rater]), int(self._ends[rater + 1]))

    def of_rater(self, rater: int) -> Comparisons:
        """The comparisons of one rater by its position."""
        rows = self.rows_of(rater)
        return replace(self._rows(rows), raters=(self.raters[rater],), rater=np.zeros_like(self.rater[rows]))

    def of_raters(self, raters: Sequence[int]) -> Comparisons:
        """The comparisons of some raters by their positions, in this order."""
        rows = np.concatenate([np.arange(self._ends[r], self._ends[r + 1]) for r in raters])
        number = np.diff(self._ends)[list(raters)]
        codes = np.repeat(np.arange(len(raters)), number)
        return replace(self._rows(rows), raters=tuple(self.raters[r] for r in raters), rater=codes)

    def where(self, rows: NDArray[np.bool_]) -> Comparisons:
        """Some of the rows: a mask (n,)."""
        return self._rows(rows)

    def _rows(self, rows: Any) -> Comparisons:
        columns = {name: getattr(self, name)[rows] for name in ("rater", "item", "pair", "sign", "order")}
        return replace(self, **columns)

    def on_items(self, items: Ints) -> Comparisons:
        """Those of some items by their positions, in ascending order."""
        place = np.full(len(self.items), -1, dtype=self.item.dtype)
        place[items] = np.arange(len(items))
        some = self._rows(place[self.item] >= 0)
        return replace(some, item=place[some.item], items=tuple(self.items[int(i)] for i in items))

    def joint(self, *raters: int) -> Joint:
        """The preferences of some raters (by their positions) on all that any of them compared."""
        columns = [self._keys(self.rows_of(r)) for r in raters]
        keys = columns[0]
        for other in columns[1:]:
            if not np.array_equal(other, keys):
                both = np.sort(np.concatenate([keys, other]), kind="stable")
                keys = both[np.append(True, both[1:] != both[:-1])[: len(both)]]
        signs = np.full((len(raters), len(keys)), ABSENT, dtype=np.int8)
        for row, rater, column in zip(signs, raters, columns, strict=True):
            complete = len(column) == len(keys)  # then they are the same
            row[slice(None) if complete else np.searchsorted(keys, column)] = self.sign[self.rows_of(rater)]
        pair, item = np.divmod(keys, max(1, len(self.items)))
        return Joint(pair, item, signs)

    @cached_property
    def signs(self) -> Signs:
        """(pairs, raters, items), `ABSENT` where a rater has no preference; `InputError` where that would not fit."""
        check_cells(len(self.items), len(self.pairs), len(self.raters))
        signs = np.full((len(self.pairs), len(self.raters), len(self.items)), ABSENT, dtype=np.int8)
        signs[self.pair, self.rater, self.item] = self.sign
        return read_only(signs)


def compare_in_memory(
    scores: pl.DataFrame, verdicts: pl.DataFrame, *, annotators: int, aggregate: Aggregate
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Apply the rules above to the rows of a study, some items at a time.

    Parameters
    ----------
    scores, verdicts : data frames
        As for `rater_comparisons`, with positions instead of labels; the first `annotators` raters are annotators.
    annotators : int
        Number of annotators.
    aggregate : {'mean', 'vote'}
        As for `combine_annotators`. Annotators of whom any gave verdicts vote.

    Returns
    -------
    tuple of data frames
        Rows rater, item, system_a, system_b, sign and order of every rater, and the same of all annotators combined
        (rater 0).
    """
    has_verdicts = verdicts.filter(pl.col("rater") < annotators).height > 0
    human = nw.col("rater") < annotators
    each, combined = [], []
    for some, verdict_rows in _batches(scores, verdicts):
        rows = rater_comparisons(nw.from_native(some.lazy()), _lazy(verdict_rows)).collect().lazy()
        each.append(rows.select("rater", *OUTPUTS, "sign", "order").collect().to_native())
        people = rows.filter(human)
        if annotators > 1:
            people = combine_annotators(people, "vote" if has_verdicts else aggregate)
        combined.append(people.select(nw.lit(0).alias("rater"), *OUTPUTS, "sign", "order").collect().to_native())
    return pl.concat(each), pl.concat(combined)


def _lazy(verdicts: pl.DataFrame) -> Table | None:
    return nw.from_native(verdicts.lazy()) if verdicts.height else None


def _batches(scores: pl.DataFrame, verdicts: pl.DataFrame) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Scores and verdicts of all items, or of some items at a time where joining them takes much memory."""
    rows = scores.group_by("rater", "item").len()["len"].cast(pl.Int64)
    n = 1 + int((rows * rows).sum() or 0) // BATCH_ROWS
    if n == 1:
        yield scores, verdicts
        return
    for k in range(n):
        yield tuple(frame.filter(pl.col("item") % n == k) for frame in (scores, verdicts))  # type: ignore[misc]


def pairs_of(systems: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions of the two systems of every pair, first < second, in the order of `itertools.combinations`."""
    first, second = np.triu_indices(len(systems), 1)
    return first, second


def pair_codes(first: NDArray[np.int64], second: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """The place of each pair of positions (first < second) of n systems, in the order of `pairs_of`."""
    return first * n - first * (first + 1) // 2 + second - first - 1


def human_threshold(scores: Floats, ties: float | None) -> float:
    """The difference up to which human scores tie: `ties` (None: 0) and float noise on top, in score units."""
    spread = np.nanmax(scores) - np.nanmin(scores) if np.isfinite(scores).any() else 0.0
    return float((ties or 0.0) + FLOAT_NOISE * spread)


def check_cells(items: int, pairs: int, raters: int) -> None:
    """Raise `InputError` where an array over all pairs and items would not fit."""
    if items * pairs * raters > MOST_CELLS:
        raise InputError(
            f"{items} items x {pairs} pairs of systems x {raters} raters do not fit into memory, and "
            "this question needs every pair on every item. Select fewer items, systems or metrics, "
            "or use leaderboard, favoritism, ranking, correction or agreement, which read only the "
            "comparisons made"
        )
