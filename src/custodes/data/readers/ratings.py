"""The long table `item, system, rater, score` with optional `kind`, `aspect`, `repeat`, `invalid`, `role`."""

from __future__ import annotations

import polars as pl

from custodes.data.mapping.columns import unused_people
from custodes.data.notes import noted
from custodes.data.raters import Raters, kinds_of
from custodes.data.ratings import KEY, OPTIONAL, Ratings
from custodes.data.readers.reader import Invalid, TableReader
from custodes.data.roles import second_rows
from custodes.data.study import Study
from custodes.data.table import number_column


def read_ratings(frame: pl.DataFrame, *, where: str, invalid: Invalid, unit: str = "rows") -> Study:
    """A study of scores; without a column `kind`, who is human is left open.

    A `role` of `second` is a second opinion (`Study.second_ratings`). `unit`: what a row was in the file, in notes.
    """
    second = second_rows(frame, where=where)
    not_scores = ("kind",) if second is None else ("kind", "role")
    ratings, notes = Ratings.make(frame, where=where, ignore=not_scores, unit=unit)
    idle = [name for name in frame.columns if name not in (*KEY, *OPTIONAL, *not_scores, "score")]
    notes += noted(*unused_people(frame, idle, where=where))
    again = Ratings.empty()
    if second is not None:
        ratings, again = ratings.parted(second, number_column(frame, "score", where=where).is_not_null())
    raters = Raters.infer(kinds_of(frame, where=where))
    return Study(ratings=ratings, second_ratings=again, raters=raters, notes=tuple(notes), name=where)


READER = TableReader(name="ratings", columns=(("item", "system", "rater", "score"),), make=read_ratings)
