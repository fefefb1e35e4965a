"""Verdicts of both presentation orders, repeats and several people settled inside a table engine, as in a study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal

import narwhals as nw
import numpy as np
import polars as pl

from custodes.data.battle_counts import HUMAN
from custodes.data.engines import collected, indicator, otherwise
from custodes.data.notes import Note, noted
from custodes.data.verdict_rows import WHERE
from custodes.errors import InputError, listed

LABELS = ("item", "low", "high", "rater")

Orders = Literal["mean", "consistent"]
"""How verdicts of both presentation orders (and repeats) become one, as in a study."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is counted: `said`, the survey as it was read; `people`, and how several verdicts are settled."""

    said: pl.DataFrame
    people: tuple[str, ...]
    orders: Orders

    def name_of(self, rater: Any) -> Any:
        """People together are one rater."""
        kind = nw if isinstance(rater, nw.Expr) else pl
        return kind.when(rater.is_in(list(self.people))).then(kind.lit(HUMAN)).otherwise(rater)

    def chosen(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """The rows that count, with `low` < `high`."""
        pairs = self.said.select("rater", "aspect").unique().sort("rater", "aspect")
        ours = _any([(nw.col("rater") == rater) & (nw.col("aspect") == aspect) for rater, aspect in pairs.iter_rows()])
        systems = sorted({*self.said["a"], *self.said["b"]})
        inside = nw.col("a").is_in(systems) & nw.col("b").is_in(systems)
        turned = nw.col("a") > nw.col("b")
        return rows.filter(ours, inside).with_columns(
            nw.when(turned).then(nw.col("b")).otherwise(nw.col("a")).alias("low"),
            nw.when(turned).then(nw.col("a")).otherwise(nw.col("b")).alias("high"),
        )

    def comparisons(self, rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """One row a comparison and rater: its `sign`, and twice its `order`; those that are left out have no sign."""
        signed = rows.with_columns(self.sign().alias("sign"), self._order().alias("order"))
        sums = dict[str, nw.Expr]()
        for name, order in (("ab", 1), ("ba", -1), ("un", 0)):
            own = nw.col("order") == order
            sums |= {
                f"n_{name}": indicator(own & ~nw.col("sign").is_null()),
                f"s_{name}": nw.when(own & ~nw.col("sign").is_null()).then(nw.col("sign")).otherwise(nw.lit(0)),
                f"x_{name}": indicator(own & nw.col("sign").is_null()),
            }
        sums["decided"] = nw.when(~nw.col("sign").is_null()).then(nw.col("sign") * nw.col("sign")).otherwise(nw.lit(0))
        added = (
            signed.select(*LABELS, **sums)
            .group_by(*LABELS)
            .agg(*(nw.col(name).sum() for name in sums))
            .with_columns(*(nw.col(name).cast(nw.Int64) for name in sums))
        )
        n, s = ({o: nw.col(f"{kind}_{o}") for o in ("ab", "ba", "un")} for kind in "ns")
        least = {o: nw.when(own > 0).then(own).otherwise(nw.lit(1)) for o, own in n.items()}
        # The sign of the sum over orders of the mean of each, in whole numbers.
        balance = (
            s["ab"] * least["ba"] * least["un"]
            + s["ba"] * least["ab"] * least["un"]
            + s["un"] * least["ab"] * least["ba"]
        )
        total, alike = n["ab"] + n["ba"] + n["un"], s["ab"] + s["ba"] + s["un"]
        torn = ~((nw.col("decided") == 0) | (alike == total) | (alike == -total))
        half = ((n["ab"] > 0) & (n["ba"] == 0) & (nw.col("x_ba") > 0)) | (
            (n["ba"] > 0) & (n["ab"] == 0) & (nw.col("x_ab") > 0)
        )
        present = indicator(n["ab"] > 0) + indicator(n["ba"] > 0) + indicator(n["un"] > 0)
        shown = indicator(n["ab"] > 0) - indicator(n["ba"] > 0)
        left = half | torn if self.orders == "consistent" else half
        sign = nw.when(balance > 0).then(nw.lit(1)).otherwise(otherwise(balance < 0, -1, 0))
        return added.filter(total > 0).select(
            *LABELS,
            nw.when(~left).then(sign).alias("sign"),
            # Of one order it is 1 or -1, of both 0, of one and an unknown one a half.
            nw.when(present == 2).then(shown).otherwise(2 * shown).alias("order2"),
            indicator(half).alias("half"),
            indicator(torn & ~half).alias("torn"),
        )

    def outcomes(self, settled: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Comparisons with a sign, people together: one row an item, pair and rater, with how many voted."""
        named = self.named(settled)
        if len(self.people) < 2:
            return named.with_columns(nw.lit(1).alias("votes"))
        added = named.group_by(*LABELS).agg(
            nw.col("sign").sum().alias("balance"), nw.col("order2").sum().alias("order2"), nw.len().alias("votes")
        )
        added = added.with_columns(*(nw.col(name).cast(nw.Int64) for name in ("balance", "order2", "votes")))
        balance = nw.col("balance")
        sign = nw.when(balance > 0).then(nw.lit(1)).otherwise(otherwise(balance < 0, -1, 0))
        return added.with_columns(sign.alias("sign"))

    def named(self, settled: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Comparisons with a sign, people by the name that they have together."""
        return settled.filter(~nw.col("sign").is_null()).with_columns(self.name_of(nw.col("rater")).alias("rater"))

    def sign(self) -> nw.Expr:
        """The sign of `low`, from the words of a row; null without a verdict."""
        first = nw.when(nw.col("a") == nw.col("low")).then(nw.lit(1)).otherwise(nw.lit(-1))
        words = self._meanings("sign", self.said["a"] < self.said["b"])
        made = nw.when(self._by_name("a")).then(first).otherwise(nw.when(self._by_name("b")).then(-1 * first))
        for value in (1, 0, -1):
            if own := [word for word, meant in words.items() if meant == value]:
                made = nw.when(nw.col("said").is_in(own)).then(value * first).otherwise(made)
        return made

    def _by_name(self, side: str) -> nw.Expr:
        return nw.col("said") == nw.col(side)

    def _order(self) -> nw.Expr:
        """1 where `low` was shown first, -1 where `high` was, 0 unknown."""
        first = nw.when(nw.col("a") == nw.col("low")).then(nw.lit(1)).otherwise(nw.lit(-1))
        forward = np.where(self.said["a"] < self.said["b"], 1, -1)
        own = dict(zip(self.said["shown"], (self.said["order"] * forward).to_list(), strict=True))
        made: nw.Expr = nw.lit(0)
        for value in (1, -1):
            if words := [word for word, meant in own.items() if meant == value]:
                made = nw.when(nw.col("shown").is_in(words)).then(value * first).otherwise(made)
        return made

    def _meanings(self, column: str, forward: pl.Series) -> dict[str, int | None]:
        """Words that mean the same in every row, of the first column; the rest must name a system to the letter."""
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
                f"{WHERE}: verdicts {listed(map(repr, loose['said'].sort()), limit=3)} name systems, but not to the"
                " letter; write model_a, model_b or tie"
            )
        plain = table.filter(~pl.col("names"))
        return dict(zip(plain["said"], plain["meant"], strict=True))


def of_items(rows: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """By rater: on how many `items` it said something, and the `most` rows of one."""
    of_item = rows.group_by("rater", "item").agg(nw.len().alias("rows"))
    return of_item.group_by("rater").agg(nw.len().alias("items"), nw.col("rows").max().alias("most"))


def settled(plan: Plan, rows: nw.LazyFrame[Any]) -> tuple[pl.DataFrame, dict[str, int], list[Note], nw.LazyFrame[Any]]:
    """Signs counted where comparisons stand more than once or several people vote; items by rater; notes; and the
    outcomes that were counted."""
    keys = (*LABELS, "repeat", "shown")
    twice = rows.group_by(*keys).agg(nw.len().alias("rows")).filter(nw.col("rows") > 1)
    if doubled := int(collected(twice.select(nw.len())).item()):
        raise InputError(
            f"{WHERE}: {doubled} verdicts stand twice (same item, systems, rater, repeat and order); if they were asked"
            " in both presentation orders, say which in 'order' (ab, ba); if again, number the runs in 'repeat'"
        )
    settled = plan.comparisons(rows)
    told = collected(settled.group_by("rater").agg(nw.col("half").sum(), nw.col("torn").sum()))
    half, torn = int(told["half"].sum()), int(told["torn"].sum())
    outcomes = plan.outcomes(settled)
    keys = ("rater", "low", "high", "order2", "votes", "sign")
    counts = collected(outcomes.group_by(*keys).agg(nw.len().alias("n")))
    spread = collected(of_items(outcomes))
    frame = counts.select(
        "rater",
        pl.min_horizontal("low", "high").alias("system_a"),
        pl.max_horizontal("low", "high").alias("system_b"),
        (pl.col("order2").cast(pl.Float64) / (2 * pl.col("votes"))).alias("order"),
        pl.col("sign").cast(pl.Int64),
        pl.col("n").cast(pl.Int64),
    )
    items = {str(rater): int(n) for rater, n in spread.select("rater", "items").iter_rows()}
    left = "left out" if plan.orders == "consistent" else "taken as the sign of the mean"
    return (
        frame,
        items,
        noted(
            ("half-judged", half, f"{half} comparisons left out: asked in both orders and answered in one"),
            ("torn-verdicts", torn, f"{torn} comparisons where a rater's verdicts differ by order or repeat: {left}"),
        ),
        outcomes,
    )


def _any(conditions: Sequence[nw.Expr]) -> nw.Expr:
    return reduce(lambda one, other: one | other, conditions)
