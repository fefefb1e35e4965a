"""Interim analyses that were exported from an annotation study, to be joined to the verdicts of the study."""

from __future__ import annotations

import polars as pl

from custodes.data.interim_analyses import SCHEMA, in_label_order
from custodes.data.raters import Raters
from custodes.data.readers.reader import Invalid, TableReader
from custodes.data.study import Study
from custodes.data.table import check_columns, check_unique, refuse, refuse_values, typed_column

MARKS = ("system_a", "system_b", "look", "n", "decision")


def read_interim_analyses(frame: pl.DataFrame, *, where: str, invalid: Invalid) -> Study:
    """A study with interim analyses only."""
    notes = check_columns(frame, where=where, required=tuple(SCHEMA))
    looks = pl.DataFrame(
        [typed_column(frame, name, kind, where=where, empty=name == "system_b") for name, kind in SCHEMA.items()]
    )
    refuse_values(looks["decision"], ~looks["decision"].is_in([1, 0, -1]), where=where, allowed="1, 0, -1")
    check_unique(
        looks, ["system_a", "system_b", "look"], where=where, what="look", hint="one row per pair and interim analysis"
    )
    refuse(
        looks.select(pl.sum_horizontal("wins", "ties", "losses") != pl.col("n")).to_series(),
        lambda rows, _: f"{where}: n differs from wins + ties + losses in row {rows}; export the study again",
    )
    return Study(raters=Raters.infer({}), looks=in_label_order(looks), notes=tuple(notes), name=where)


READER = TableReader(name="looks", columns=(MARKS,), make=read_interim_analyses, absent=("item", "rater"))
