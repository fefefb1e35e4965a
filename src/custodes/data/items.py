"""Items: which document, domain or subset each input belongs to, and how much it weighs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from custodes.data.notes import Note
from custodes.data.table import (
    check_columns,
    check_unique,
    label_column,
    number_column,
    refuse,
    to_polars,
)
from custodes.errors import InputError, listed

SCHEMA = {
    "item": pl.String,
    "cluster": pl.String,
    "group": pl.String,
    "dataset": pl.String,
    "weight": pl.Float64,
    "probability": pl.Float64,
}

LARGEST = 1e12
"""Weight, and inverse of a probability, up to which products of several neither overflow nor vanish."""


@dataclass(frozen=True, kw_only=True)
class Items:
    """One row per item: cluster (what is resampled together: a document, a dialogue), group (domain, subset), dataset,
    weight, probability (the chance that people were asked about it); '' and null where nobody said. Items without a row
    stand for themselves."""

    frame: pl.DataFrame

    @classmethod
    def empty(cls) -> Items:
        """Nothing known of any item."""
        return cls(frame=pl.DataFrame(schema=SCHEMA))

    @classmethod
    def make(cls, table: Any, *, where: str = "items") -> tuple[Items, list[Note]]:
        """Check a table `item` and any of `cluster, group, dataset, weight, probability`.

        A weight lies between 1e-12 and 1e12, a probability between 1e-12 and 1.
        """
        frame = to_polars(table, where=where)
        notes = check_columns(frame, where=where, required=("item",), optional=tuple(SCHEMA)[1:])
        columns = [label_column(frame, "item", where=where)]
        columns += [label_column(frame, name, where=where, empty=True) for name in ("cluster", "group", "dataset")]
        for name in ("weight", "probability"):
            known = name in frame.columns
            columns.append(
                number_column(frame, name, where=where)
                if known
                else pl.Series(name, [None] * frame.height, dtype=pl.Float64)
            )
        made = pl.DataFrame(columns)
        check_unique(made, ["item"], where=where, what="item", hint="one row per item")
        refuse(
            made["weight"] <= 0,
            lambda rows, _: f"{where}: weight in row {rows} is not positive; leave an item out by --group",
        )
        refuse(
            ~made["weight"].is_between(1 / LARGEST, LARGEST),
            lambda rows, first: (
                f"{where}: weight {made['weight'][first]:g} in row {rows}; a weight lies between {1 / LARGEST:g} and"
                f" {LARGEST:g}, and only ratios of weights matter, so divide all of them by the same number"
            ),
        )
        refuse(
            ~made["probability"].is_between(1 / LARGEST, 1),
            lambda rows, first: (
                f"{where}: probability {made['probability'][first]:g} in row {rows}; it is the chance that people were"
                f" asked about the item, at least {1 / LARGEST:g} and at most 1"
            ),
        )
        return cls(frame=made), notes

    def joined(self, other: Items) -> Items:
        """What both say of items together; two values of one item raise `InputError`."""
        both = pl.concat([self.frame, other.frame]).with_columns(pl.col(pl.String).replace("", None))
        names = [name for name in SCHEMA if name != "item"]
        grouped = both.group_by("item", maintain_order=True)
        several = grouped.agg(pl.col(names).drop_nulls().unique(maintain_order=True))
        for name in names:
            unlike = several.filter(pl.col(name).list.len() > 1)
            if unlike.height:
                item, values = unlike.select("item", name).row(0)
                shown = listed(map(repr, values), limit=3)
                raise InputError(f"item {item!r} has {name} {shown} in two inputs; an item has one {name}")
        labels = pl.col("cluster", "group", "dataset").fill_null("")
        return Items(frame=grouped.agg(pl.col(names).drop_nulls().first()).with_columns(labels))

    def for_items(self, items: pl.Series) -> pl.DataFrame:
        """The rows of these items in this order; unknown ones with empty labels."""
        wanted = pl.DataFrame({"item": items}, schema={"item": pl.String})
        return wanted.join(self.frame, on="item", how="left", maintain_order="left").with_columns(
            pl.col("cluster", "group", "dataset").fill_null("")
        )
