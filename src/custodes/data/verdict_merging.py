"""Merging verdicts of both presentation orders, of repeats and of several annotators inside a table engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

import narwhals as nw
import numpy as np
import polars as pl

from custodes.data.comparisons import HUMAN
from custodes.data.notes import Note, noted
from custodes.data.table_engines import collected
from custodes.data.ties_and_orders import OUTPUTS, combine_annotators, merge_orders
from custodes.data.verdict_rows import WHERE
from custodes.errors import InputError, listed

Orders = Literal["mean", "consistent"]
"""Methods to merge verdicts of both presentation orders (and of repeats), the same as for a study."""


@dataclass(frozen=True, kw_only=True)
class MergingPlan:
    """Settings of the merging.

    `said` is the table of verdicts as read, and `people` are the annotators. The remaining settings determine how
    verdicts are merged.
    """

    said: pl.DataFrame
    people: tuple[str, ...]
    orders: Orders

    def chosen(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """The rows to count, with `low` < `high`."""
        pairs = self.said.select("rater", "aspect").unique().sort("rater", "aspect")
        ours = _any([(nw.col("rater") == rater) & (nw.col("aspect") == aspect) for rater, aspect in pairs.iter_rows()])
        systems = sorted({*self.said["a"], *self.said["b"]})
        inside = nw.col("a").is_in(systems) & nw.col("b").is_in(systems)
        turned = nw.col("a") > nw.col("b")
        return rows.filter(ours, inside).with_columns(
            nw.when(turned).then(nw.col("b")).otherwise(nw.col("a")).alias("low"),
            nw.when(turned).then(nw.col("a")).otherwise(nw.col("b")).alias("high"),
        )

    def signed(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """The rows with their signs, in the form that `merge_orders` takes."""
        return rows.select(
            "rater",
            "item",
            nw.col("low").alias("system_a"),
            nw.col("high").alias("system_b"),
            self.sign().alias("sign"),
            self._order().alias("order"),
        )

    def combined(self, comparisons: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """The comparisons with a sign, after the annotators are combined: one row per item, pair and rater."""
        columns = ("rater", *OUTPUTS, "sign", "order")
        decided = comparisons.filter(~nw.col("sign").is_null()).with_columns(nw.col("sign").cast(nw.Int8))
        human = nw.col("rater").is_in(list(self.people))
        people = decided.filter(human)
        if len(self.people) > 1:
            people = combine_annotators(people, "vote")
        people = people.with_columns(nw.lit(HUMAN).alias("rater"))
        return nw.concat([frame.select(*columns) for frame in (people, decided.filter(~human))])

    def sign(self) -> nw.Expr:
        """The preference for `low`, from the words of a row; null without a verdict."""
        first = nw.when(nw.col("a") == nw.col("low")).then(nw.lit(1)).otherwise(nw.lit(-1))
        words = self._meanings("sign", self.said["a"] < self.said["b"])
        expression = nw.when(self._by_name("a")).then(first).otherwise(nw.when(self._by_name("b")).then(-1 * first))
        for value in (1, 0, -1):
            if matching := [word for word, meant in words.items() if meant == value]:
                expression = nw.when(nw.col("said").is_in(matching)).then(value * first).otherwise(expression)
        return expression

    def _by_name(self, side: str) -> nw.Expr:
        return nw.col("said") == nw.col(side)

    def _order(self) -> nw.Expr:
        """1 if `low` was shown first, -1 if `high` was shown first, 0 if unknown."""
        first = nw.when(nw.col("a") == nw.col("low")).then(nw.lit(1)).otherwise(nw.lit(-1))
        forward = np.where(self.said["a"] < self.said["b"], 1, -1)
        orders = dict(zip(self.said["shown"], (self.said["order"] * forward).to_list(), strict=True))
        expression: nw.Expr = nw.lit(0)
        for value in (1, -1):
            if words := [word for word, meant in orders.items() if meant == value]:
                expression = nw.when(nw.col("shown").is_in(words)).then(value * first).otherwise(expression)
        return expression

    def _meanings(self, column: str, forward: pl.Series) -> dict[str, int | None]:
        """The sign of each word that means the same in every row. The sign is that for the first column.

        All remaining words must be exact names of systems.
        """
        turn = np.where(forward, 1, -1)
        table = (
            self.said.with_columns(meant=pl.col(column) * turn)
            .group_by("said")
            .agg(
                pl.col("meant").n_unique().alias("ways"),
                pl.col("meant").first(),
                ((pl.col("said") == pl.col("a")) | (pl.col("said") == pl.col("b"))).all().alias("names"),
            )
        )
        loose = table.filter((pl.col("ways") > 1) & ~pl.col("names"))
        if loose.height:
            raise InputError(
                f"{WHERE}: verdicts {listed(map(repr, loose['said'].sort()), limit=3)} match no system "
                "name exactly; write model_a, model_b or tie"
            )
        plain = table.filter(~pl.col("names"))
        return dict(zip(plain["said"], plain["meant"], strict=True))


def of_items(rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """For each rater, the number of `items` with a verdict, and the largest number of rows of one item (`most`)."""
    of_item = rows.group_by("rater", "item").agg(nw.len().alias("rows"))
    return of_item.group_by("rater").agg(nw.len().alias("items"), nw.col("rows").max().alias("most"))


def settled(plan: MergingPlan, rows: nw.LazyFrame[Any]) -> tuple[nw.LazyFrame[Any], list[Note]]:
    """The merged comparisons, with the annotators combined, and notes."""
    keys = ("item", "low", "high", "rater", "repeat", "shown")
    twice = rows.group_by(*keys).agg(nw.len().alias("rows")).filter(nw.col("rows") > 1)
    if doubled := int(collected(twice.select(nw.len())).item()):
        raise InputError(
            f"{WHERE}: {doubled} verdicts occur twice (same item, systems, rater, repeat and order). "
            "If they differ in presentation order, give it in 'order' (ab, ba); if they are repeats, "
            "number them in 'repeat'"
        )
    merged = merge_orders(plan.signed(rows), plan.orders)
    counts = collected(merged.group_by("rater").agg(nw.col("half").sum(), nw.col("contradictory").sum()))
    half, torn = int(counts["half"].sum()), int(counts["contradictory"].sum())
    left = "comparisons are left out" if plan.orders == "consistent" else "verdicts are merged as the sign of the mean"
    return plan.combined(merged), noted(
        (
            "half-judged",
            half,
            f"{half} comparisons are excluded because they were queried in both orders and have a verdict in only "
            "one order",
        ),
        (
            "torn-verdicts",
            torn,
            f"{torn} comparisons have verdicts of one rater that differ between presentation orders or repeats; "
            f"these {left}",
        ),
    )


def _any(conditions: Sequence[nw.Expr]) -> nw.Expr:
    return reduce(lambda one, other: one | other, conditions)
