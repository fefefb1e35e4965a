"""Judgments of LLMBar: the winner according to each judge in the original order and in the swapped order, and the gold
label."""

from __future__ import annotations

import polars as pl

from custodes.data.items import Items
from custodes.data.raters import Raters
from custodes.data.readers.reader import Invalid, TableReader
from custodes.data.readers.verdicts import read_verdicts
from custodes.data.study import Study
from custodes.data.table import check_columns, check_unique, label_column, refuse, refuse_values
from custodes.errors import InputError

ORDERS = {"winner_original_order": "ab", "winner_swapped_order": "ba"}
COLUMNS = ("dataset", "item", "judge", "prompt", "gold", *ORDERS)
WINNERS = {"1": 1.0, "2": -1.0, "1.0": 1.0, "2.0": -1.0}
GOLD = "gold"


def read_llmbar(frame: pl.DataFrame, *, where: str, invalid: Invalid) -> Study:
    """A study of verdicts. The item is dataset/item, the rater is judge/prompt, and the human rater is called gold.

    The columns of winners refer to the original order, because LLMBar has already converted the winner in the swapped
    order.
    """
    check_columns(frame, where=where, required=COLUMNS, optional=("repeat",))
    labels = {name: label_column(frame, name, where=where) for name in COLUMNS[:4]}
    judgments = pl.DataFrame([*labels.values(), label_column(frame, "repeat", where=where, empty=True)])
    hint = "number the runs of a judge in a column 'repeat', or remove the duplicate row"
    check_unique(judgments, judgments.columns, where=where, what="judgment", hint=hint)
    rows = judgments.select(
        item=pl.concat_str("dataset", "item", separator="/"),
        system_a=pl.lit("output_1"),
        system_b=pl.lit("output_2"),
        rater=pl.concat_str("judge", "prompt", separator="/"),
        repeat="repeat",
        row=pl.int_range(1, pl.len() + 1),
    )
    judgment_tables = [
        rows.with_columns(order=pl.lit(order), verdict=label_column(frame, name, where=where, empty=True))
        for name, order in ORDERS.items()
    ]
    gold_verdicts = _gold_rows(rows, label_column(frame, "gold", where=where), where=where)
    table = pl.concat([*judgment_tables, gold_verdicts.select(judgment_tables[0].columns)]).with_columns(
        preference=pl.col("verdict").replace_strict(WINNERS, default=None, return_dtype=pl.Float64)
    )
    preferences, notes = read_verdicts(table, where=where, allowed="1 (output_1), 2 (output_2)", invalid=invalid)
    datasets = pl.DataFrame([rows["item"], judgments["dataset"].alias("group"), judgments["dataset"]]).unique(
        maintain_order=True
    )
    items, _ = Items.make(datasets, where=where)
    judges = rows["rater"].unique(maintain_order=True)
    if GOLD in judges:
        raise InputError(f"{where}: a judge is named {GOLD!r}, the name of the human rater; rename the judge")
    return Study(
        preferences=preferences,
        raters=Raters.infer({GOLD: "human", **dict.fromkeys(judges, "metric")}),
        items=items,
        notes=tuple(notes),
        name=where,
        sides=True,
    )


def _gold_rows(rows: pl.DataFrame, gold: pl.Series, *, where: str) -> pl.DataFrame:
    refuse_values(gold, ~gold.is_in(list(WINNERS)), where=where, allowed="1, 2")
    gold_rows = rows.with_columns(
        verdict=gold.str.slice(0, 1), rater=pl.lit(GOLD), repeat=pl.lit("0"), order=pl.lit("")
    )
    items = rows["item"]
    refuse(
        gold_rows.select(pl.col("verdict") != pl.col("verdict").first().over("item")).to_series(),
        lambda rows, first: (
            f"{where}: item {items[first]!r} has a different gold label in row {rows}; give each item one gold label"
        ),
    )
    return gold_rows.unique("item", keep="first", maintain_order=True)


READER = TableReader(name="llmbar", columns=(COLUMNS,), make=read_llmbar)
