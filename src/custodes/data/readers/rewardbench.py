"""Scores of RewardBench: two rows per pair, with `ref` 1 (chosen) or 0 (rejected), `subset`, and one column per reward
model."""

from __future__ import annotations

import polars as pl

from custodes.data.items import Items
from custodes.data.preferences import Preferences
from custodes.data.raters import Raters
from custodes.data.ratings import Ratings
from custodes.data.readers.reader import Invalid, TableReader
from custodes.data.study import Study
from custodes.data.table import check_columns, label_column, number_column, refuse
from custodes.errors import InputError


def read_rewardbench(frame: pl.DataFrame, *, where: str, invalid: Invalid) -> Study:
    """A study of pairs. The item is the number of the pair, the systems are chosen and rejected, and the human rater
    `ref` prefers chosen."""
    metrics = [name for name in frame.columns if name not in ("ref", "subset")]
    check_columns(frame, where=where, required=("ref", "subset"), optional=metrics)
    if not metrics:
        raise InputError(
            f"{where}: the table has no column of a reward model, only ref and subset; add at least one column of a "
            "reward model"
        )
    chosen = number_column(frame, "ref", where=where) == 1
    subset = label_column(frame, "subset", where=where)
    _check_pairs(frame, subset, where=where)
    item = pl.Series("item", range(2, frame.height + 2)) // 2
    system = chosen.to_frame("chosen").select(pl.when("chosen").then(pl.lit("chosen")).otherwise(pl.lit("rejected")))
    rows = pl.DataFrame({"item": item, "system": system.to_series()})
    scores = [rows.with_columns(rater=pl.lit(name), score=number_column(frame, name, where=where)) for name in metrics]
    ratings, notes = Ratings.make(pl.concat(scores), where=where)
    pairs = (
        item.gather_every(2)
        .to_frame()
        .with_columns(system_a=pl.lit("chosen"), system_b=pl.lit("rejected"), rater=pl.lit("ref"), preference=1)
    )
    preferences, _ = Preferences.make(pairs, where=where)
    items, _ = Items.make(pl.DataFrame([pairs["item"], subset.gather_every(2).alias("group")]), where=where)
    return Study(
        ratings=ratings,
        preferences=preferences,
        raters=Raters.infer({"ref": "human", **dict.fromkeys(metrics, "metric")}),
        items=items,
        notes=tuple(notes),
        name=where,
        sides=True,
    )


def _check_pairs(frame: pl.DataFrame, subset: pl.Series, *, where: str) -> None:
    ref = number_column(frame, "ref", where=where)
    refuse(
        ~ref.is_in([0.0, 1.0]).fill_null(False),
        lambda rows, _: f"{where}: ref in row {rows} is neither 1 (chosen) nor 0 (rejected)",
    )
    if frame.height % 2:
        raise InputError(f"{where}: the number of rows is odd ({frame.height}); a pair needs two rows")
    unlike = (ref.gather_every(2) == ref.gather_every(2, 1)) | (subset.gather_every(2) != subset.gather_every(2, 1))
    firsts = pl.Series([mark for pair in unlike for mark in (pair, False)], dtype=pl.Boolean)
    refuse(
        firsts,
        lambda rows, _: (
            f"{where}: row {rows} and the next row are not a pair; the rows of a pair have the same subset, and ref 1 "
            f"and 0"
        ),
    )


READER = TableReader(
    name="rewardbench", columns=(("ref", "subset"),), make=read_rewardbench, absent=("item", "system", "rater")
)
