"""Items: the document, the domain or subset, and the weight of each input."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import polars as pl

from custodes.data.notes import Note, build_notes
from custodes.data.table import (
    check_columns,
    check_unique,
    label_column,
    refuse,
    refuse_values,
    to_polars,
    typed_column,
)
from custodes.errors import InputError, OptionError, join_labels, suggestion

SCHEMA = {
    "item": pl.String,
    "cluster": pl.String,
    "group": pl.String,
    "dataset": pl.String,
    "weight": pl.Float64,
    "probability": pl.Float64,
    "n_outputs": pl.Float64,
}

QUESTIONS = ("question_id", "uid", "id", "instruction")
"""Names of columns in published formats that name the item, or a question that has one item per turn."""

LARGEST = 1e12
"""Maximum weight, and maximum inverse of a probability, so that products neither overflow nor underflow."""


@dataclass(frozen=True, kw_only=True)
class Items:
    """A table with one row per item. Unknown values are '' or null.

    The columns are cluster (resampling unit: a document, a dialogue), group (domain, subset), dataset, weight,
    probability (the probability that the item was annotated) and n_outputs (the number of equal outputs that the item
    stands for). An item without a row is a cluster of one item.
    """

    frame: pl.DataFrame = field(default_factory=partial(pl.DataFrame, schema=SCHEMA))

    @classmethod
    def make(cls, table: Any, *, where: str = "items") -> tuple[Items, list[Note]]:
        """Check a table with `item` and any of the columns `cluster, group, dataset, weight, probability, n_outputs`.

        A weight must lie between 1e-12 and 1e12, and a probability between 1e-12 and 1. A number of outputs must be
        positive, and the same for all items of a cluster.
        """
        input_frame = to_polars(table, where=where)
        notes = check_columns(input_frame, where=where, required=("item",), optional=tuple(SCHEMA)[1:])
        item_rows = pl.DataFrame(
            [
                typed_column(input_frame, column_name, column_type, where=where, empty=column_name != "item")
                for column_name, column_type in SCHEMA.items()
            ]
        )
        check_unique(item_rows, ["item"], where=where, what="item", hint="one row per item")
        refuse(
            ~item_rows["weight"].is_between(1 / LARGEST, LARGEST),
            lambda row_numbers, row_index: (
                f"{where}: weight {item_rows['weight'][row_index]:g} in row {row_numbers}; allowed: {1 / LARGEST:g} to "
                f"{LARGEST:g}, and only ratios of weights matter; to exclude an item, use --group"
            ),
        )
        refuse(
            ~item_rows["probability"].is_between(1 / LARGEST, 1),
            lambda row_numbers, row_index: (
                f"{where}: probability {item_rows['probability'][row_index]:g} in row {row_numbers}; the probability "
                f"that an item was annotated lies between {1 / LARGEST:g} and 1"
            ),
        )
        refuse_values(
            item_rows["n_outputs"],
            (item_rows["n_outputs"] < 1) | (item_rows["n_outputs"] % 1 != 0),
            where=where,
            allowed="a positive whole number",
        )
        conflicting_cluster_rows = (
            item_rows.filter(pl.col("cluster") != "")
            .group_by("cluster", maintain_order=True)
            .agg(pl.col("n_outputs").fill_null(1.0).n_unique())
            .filter(pl.col("n_outputs") > 1)
        )
        if conflicting_cluster_rows.height:
            raise InputError(
                f"{where}: items of cluster {conflicting_cluster_rows['cluster'][0]!r} have different n_outputs; "
                "n_outputs is the number of equal clusters that a cluster stands for, so give all items of the "
                "cluster the same number"
            )
        return cls(frame=item_rows), notes

    def coverage_notes(self, item_labels: pl.Series, *, where: str) -> list[Note]:
        """A note on items of the data that this table lacks. If the table lacks all of them, `InputError` is raised."""
        described_items = self.frame["item"]
        undescribed_items = item_labels.filter(~item_labels.is_in(described_items.implode()))
        if undescribed_items.len() == item_labels.len():
            raise InputError(
                f"{where}: no item of this table is in the data (table: {join_labels(described_items, limit=3)}; data: "
                f"{join_labels(item_labels, limit=3)})"
                f"{suggestion(str(described_items[0]), list(item_labels)) if described_items.len() else ''}"
            )
        return build_notes(
            (
                "items-not-described",
                undescribed_items.len(),
                f"{where}: the table lacks {undescribed_items.len()} of {item_labels.len()} items of the data "
                f"({join_labels(undescribed_items, limit=3)})",
            )
        )

    @property
    def has_equal_outputs(self) -> bool:
        """Whether an item stands for several equal outputs."""
        return bool((self.frame["n_outputs"] > 1).any())

    def merge_with(self, other: Items) -> Items:
        """The rows of both tables. If an item has different values, `InputError` is raised."""
        return Items(
            frame=merge_item_rows(
                pl.concat([self.frame, other.frame]).with_columns(pl.col(pl.String).replace("", None))
            ).with_columns(pl.col(pl.String).fill_null(""))
        )

    def with_properties(self, property_table: pl.DataFrame, *, where: str) -> Items:
        """The items, with properties from a table whose keys are items, or questions (a question is a cluster of
        turns)."""
        property_keys = property_table["item"]
        keyed_item_rows = self.frame.with_columns(
            key=pl.when(pl.col("item").is_in(property_keys.implode())).then("item").otherwise("cluster")
        )
        if not keyed_item_rows["key"].is_in(property_keys.implode()).any():
            raise InputError(
                f"{where}: the column of items names no item of the data (column: "
                f"{join_labels(property_keys, limit=2)}; data: {join_labels(keyed_item_rows['item'], limit=2)}); give "
                "the properties in a table of items (--items)"
            )
        return Items.make(
            keyed_item_rows.drop(property_table.columns[1:])
            .join(property_table.rename({"item": "key"}), on="key", how="left", maintain_order="left")
            .drop("key"),
            where=where,
        )[0]

    def item_rows(self, item_names: pl.Series) -> pl.DataFrame:
        """The rows of these items in this order; unknown items have empty labels."""
        return (
            pl.DataFrame({"item": item_names}, schema={"item": pl.String})
            .join(self.frame, on="item", how="left", maintain_order="left")
            .with_columns(pl.col("cluster", "group", "dataset").fill_null(""))
        )


def merge_item_rows(rows: pl.DataFrame, *, where: str = "") -> pl.DataFrame:
    """A table with one row per item. If an item has different values in one column, `InputError` is raised.

    `where` names the table in the message (default: two inputs).
    """
    message_prefix, two_inputs_text = (f"{where}: ", "") if where else ("", " in two inputs")
    distinct_value_rows = rows.group_by("item", maintain_order=True).agg(
        pl.all().drop_nulls().unique(maintain_order=True)
    )
    for column_name in distinct_value_rows.columns[1:]:
        for item, conflicting_values in (
            distinct_value_rows.filter(pl.col(column_name).list.len() > 1)
            .select("item", column_name)
            .head(1)
            .iter_rows()
        ):
            raise InputError(
                f"{message_prefix}item {item!r} has several values of {column_name}{two_inputs_text} "
                f"({join_labels(map(repr, conflicting_values), limit=3)}); give each item one {column_name}"
            )
    return distinct_value_rows.with_columns(pl.exclude("item").list.first())


def item_facts(mapped_table: pl.DataFrame, fact_table: pl.DataFrame, *, where: str) -> pl.DataFrame:
    """A table with one row per item and the columns that describe items. Two values of one item raise `InputError`."""
    item_column_name = next((name for name in ("item", *QUESTIONS) if name in mapped_table.columns), None)
    if item_column_name is None:
        raise OptionError(
            f"columns: {fact_table.columns[0]} describes items, but {where} has no column of items; map item"
        )
    fact_rows = pl.DataFrame(
        [
            label_column(mapped_table, item_column_name, where=where, empty=True).alias("item"),
            *(typed_column(fact_table, name, SCHEMA[name], where=where) for name in fact_table.columns),
        ]
    )
    fact_rows = fact_rows.filter(pl.col("item") != "").with_columns(pl.col(pl.String).replace("", None))
    return merge_item_rows(fact_rows, where=where)
