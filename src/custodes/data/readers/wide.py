"""The wide table: `item, system` and one column of numbers per rater; optional `aspect`, `repeat`."""

from __future__ import annotations

import polars as pl

from custodes.data.mapping.columns import melted
from custodes.data.mapping.guess import apart
from custodes.data.raters import Raters
from custodes.data.ratings import Ratings
from custodes.data.readers.reader import Invalid, TableReader
from custodes.data.study import Study
from custodes.data.table import check_columns
from custodes.errors import InputError

KEY = ("item", "system", "aspect", "repeat")


def read_wide(frame: pl.DataFrame, *, where: str, invalid: Invalid) -> Study:
    """A study of scores in which nobody's kind is known yet."""
    raters = [name for name in frame.columns if name not in KEY]
    check_columns(frame, where=where, required=("item", "system"), optional=(*KEY, *raters))
    if not raters:
        raise InputError(f"{where}: no column of scores beside {', '.join(frame.columns)}; give one column per rater")
    if "" in raters:
        raise InputError(f"{where}: a column has no name (a saved index?); name it after its rater, or take it out")
    long = melted(frame, {name: {"rater": name} for name in raters}, keys=KEY, where=where)
    ratings, notes = Ratings.make(long, where=where, unit="cells")
    notes += apart(frame, raters, where=where)
    return Study(ratings=ratings, raters=Raters.infer(dict.fromkeys(raters, "")), notes=tuple(notes), name=where)


READER = TableReader(name="wide", columns=(("item", "system"),), make=read_wide, absent=("rater", "score"))
