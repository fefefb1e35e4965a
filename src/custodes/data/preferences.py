"""Preferences: the long table of pairwise verdicts, read as such; signs made from scores live in `pairs`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import polars as pl

from custodes.data.mapping.words import named
from custodes.data.notes import Note, noted
from custodes.data.table import (
    check_columns,
    check_unique,
    label_column,
    number_column,
    refuse,
    refuse_values,
    to_polars,
)
from custodes.errors import InputError, listed

KEY = ("item", "system_a", "system_b", "rater", "aspect", "repeat", "order")
SCHEMA = {**dict.fromkeys(KEY, pl.String), "preference": pl.Int8}
MISSING = {**dict.fromkeys((*KEY, "why"), pl.String)}
EMPTY, UNREADABLE = "empty", "unreadable"
COMPARISON = ("item", "system_a", "system_b", "rater", "aspect")
SHOWN = {"ab": 1.0, "ba": -1.0, "": 0.0}
"""Presentation orders as numbers: which system was shown first."""

Orders = Literal["mean", "consistent", "first"]
"""How verdicts of both presentation orders (and repeats) become one: the sign of their mean (a flip is a tie),
only what no other verdict contradicts, or the first in the file."""


@dataclass(frozen=True, kw_only=True)
class Preferences:
    """Verdicts of raters on pairs of outputs of one item.

    `frame` has item, system_a, system_b (system_a < system_b), rater, aspect, repeat, order ('ab', 'ba': the order in
    which the outputs were shown; '' unknown) and preference (1: system_a better, 0 tie, -1: system_b better).
    `missing` has the same columns, with `why` ('empty', 'unreadable') instead of a preference: what was asked and not
    answered. Questions take it for not rated; `consistency` counts it.
    """

    frame: pl.DataFrame
    missing: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=MISSING))

    @classmethod
    def empty(cls) -> Preferences:
        """No verdicts at all."""
        return cls(frame=pl.DataFrame(schema=SCHEMA))

    @classmethod
    def make(
        cls,
        table: Any,
        *,
        where: str = "preferences",
        ignore: tuple[str, ...] = (),
        unreadable: pl.Series | None = None,
        unused: Sequence[str] = (),
    ) -> tuple[Preferences, list[Note]]:
        """Check a table `item, system_a, system_b, rater, preference` (optional `aspect`, `repeat`, `order`).

        Rows are turned so that system_a < system_b. An empty preference is an absent verdict: kept in `missing`, and
        counted; `unreadable` marks rows where there was a verdict that nobody could read. `unused` are columns of the
        file that may tell rows apart that look the same.

        >>> verdicts = pl.DataFrame(
        ...     {"item": [1], "system_a": ["B"], "system_b": ["A"], "rater": ["judge"], "preference": [1]}
        ... )
        >>> Preferences.make(verdicts)[0].frame.row(0)
        ('1', 'A', 'B', 'judge', '', '0', '', -1)
        """
        frame = to_polars(table, where=where)
        required = ("item", "system_a", "system_b", "rater", "preference")
        notes = check_columns(frame, where=where, required=required, optional=("aspect", "repeat", "order", *ignore))
        if frame.height == 0:
            raise InputError(f"{where}: no rows; a study needs at least one verdict")
        made = pl.DataFrame(
            [
                *(label_column(frame, name, where=where) for name in ("item", "system_a", "system_b", "rater")),
                label_column(frame, "aspect", where=where, empty=True),
                label_column(frame, "repeat", where=where, empty=True).replace("", "0"),
                label_column(frame, "order", where=where, empty=True).str.to_lowercase().replace("unknown", ""),
                number_column(frame, "preference", where=where),
            ]
        )
        _check_values(made, where=where)
        turned = pl.col("system_a") > pl.col("system_b")
        made = made.with_columns(
            system_a=pl.min_horizontal("system_a", "system_b"),
            system_b=pl.max_horizontal("system_a", "system_b"),
            order=pl.when(turned & (pl.col("order") != ""))
            .then(pl.when(pl.col("order") == "ab").then(pl.lit("ba")).otherwise(pl.lit("ab")))
            .otherwise(pl.col("order")),
            preference=pl.when(turned).then(-pl.col("preference")).otherwise(pl.col("preference")).cast(pl.Int8),
        )
        found = {role: next(iter(named(role, unused)), "") for role in ("rater", "aspect", "order", "repeat")}
        ways = " ".join(option(role, name) for role, name in found.items() if name)
        beside = f"; columns not used: {listed(unused)}" if unused else ""
        hint = (
            f"{f'try {ways}; ' if ways else ''}if it was asked in both presentation orders, say which in 'order' (ab,"
            f" ba{'' if found['order'] else '; or --column order=NAME'}), or name the systems in the order shown; if it"
            f" was asked again, number the runs in 'repeat'{beside}"
        )
        check_unique(made, KEY, where=where, what="verdict", hint=hint)
        missing = made["preference"].null_count()
        notes += noted(("missing-verdict", missing, f"{where}: {missing} rows have no verdict and count as not rated"))
        said = pl.lit(False) if unreadable is None else pl.lit(unreadable)
        why = pl.when(said).then(pl.lit(UNREADABLE)).otherwise(pl.lit(EMPTY))
        lost = made.with_columns(why=why).filter(pl.col("preference").is_null()).select(list(MISSING))
        return cls(frame=made.drop_nulls("preference"), missing=lost), notes

    def where(self, keep: pl.Expr) -> Preferences:
        """The rows, of verdicts and of missing ones, that meet a condition on what both have."""
        return Preferences(frame=self.frame.filter(keep), missing=self.missing.filter(keep))

    def settled(self, orders: Orders) -> tuple[pl.DataFrame, list[Note]]:
        """One verdict per item, pair, rater and aspect, from both presentation orders and all repeats.

        `mean`: the sign of the mean over orders (each order first averaged over its repeats); `consistent`: only where
        all verdicts agree; `first`: the first in the file. A comparison shown in one order only is kept. The column
        `order` is 1 where system_a was shown first, -1 where system_b was, 0 where that is not known, and the mean of
        these over the orders that were taken together.
        """
        shown = pl.col("order").replace_strict(SHOWN, return_dtype=pl.Float64)
        if orders == "first":
            first = self.frame.group_by(COMPARISON, maintain_order=True).agg(pl.col("preference", "order").first())
            return first.with_columns(shown), []
        by_order = self.frame.group_by([*COMPARISON, "order"], maintain_order=True).agg(
            pl.col("preference").mean().alias("mean"), pl.col("preference").n_unique().alias("kinds")
        )
        settled = by_order.group_by(COMPARISON, maintain_order=True).agg(
            pl.col("mean").mean().round(12).sign().cast(pl.Int8).alias("preference"),
            shown.mean().alias("order"),
            ((pl.col("mean").n_unique() == 1) & (pl.col("kinds").max() == 1)).alias("agree"),
        )
        torn = settled.filter(~pl.col("agree")).height
        consistent = orders == "consistent"
        left_out = f"{torn} comparisons left out: the rater's verdicts on them contradict each other (order or repeat)"
        mean = f"{torn} comparisons where a rater's verdicts differ by order or repeat: taken as the sign of the mean"
        return settled.filter(pl.col("agree") | (not consistent)).drop("agree"), noted(
            ("inconsistent-verdicts", consistent and torn, left_out),
            ("torn-verdicts", not consistent and torn, mean),
        )


def option(role: str, name: str) -> str:
    """The option that says which column has a role."""
    return f"--column {shlex.quote(f'{role}={name}')}"


def _check_values(made: pl.DataFrame, *, where: str) -> None:
    values, orders, systems = made["preference"], made["order"], made["system_a"]
    refuse(
        ~values.is_in([1.0, 0.0, -1.0]),
        lambda rows, first: (
            f"{where}: preference {values[first]:g} in row {rows}; allowed: 1 (system_a better),"
            " 0 (tie), -1 (system_b better)"
        ),
    )
    refuse_values(orders, ~orders.is_in(["ab", "ba", ""]), where=where, allowed="ab, ba, unknown")
    refuse(
        systems == made["system_b"],
        lambda rows, first: f"{where}: row {rows} compares {systems[first]!r} with itself; a verdict needs two systems",
    )
