"""Scores, in the long table `item, system, rater, score` or in the wide table `item, system` with one column per rater.

A table of either form may have `aspect` and `repeat`. A long table may also have `kind`, `invalid` and `role`.
"""

from __future__ import annotations

import polars as pl

from custodes.data.comparisons import HUMAN
from custodes.data.mapping.column_vocabulary import SCORERS, name_stems
from custodes.data.mapping.pattern import melt_scores, unused_people_notes
from custodes.data.notes import build_notes
from custodes.data.raters import Raters, rater_kinds
from custodes.data.ratings import KEY, OPTIONAL, Ratings
from custodes.data.readers.reader import Invalid, TableReader
from custodes.data.study import Study
from custodes.data.table import check_columns, count_filled_cells, number_column, second_rows
from custodes.errors import InputError, join_labels, reject


def read_ratings(frame: pl.DataFrame, *, where: str, invalid: Invalid, unit: str = "rows") -> Study:
    """A study of scores. If there is no column `kind`, the kinds of raters are unknown.

    Rows with `role` `second` are second opinions (`Study.second_ratings`). `unit` is the word for rows of the file in
    notes.
    """
    is_second_opinion, role_columns = second_rows(frame, where=where)
    ignored_column_names = ("kind", *role_columns)
    ratings, notes = Ratings.make(frame, where=where, ignore=ignored_column_names, unit=unit)
    unused_column_names = [
        name for name in frame.columns if name not in (*KEY, *OPTIONAL, *ignored_column_names, "score")
    ]
    metric_column_names = [
        name for name in unused_column_names if SCORERS & name_stems(name) and count_filled_cells(frame[name])[1]
    ]
    notes += build_notes(
        *unused_people_notes(frame, unused_column_names, where=where),
        (
            "unused-metrics",
            len(metric_column_names),
            f"{where}: columns that look like metrics are not used: {join_labels(metric_column_names)}; if each row "
            "repeats the metric scores of its output, give --columns human:score --columns 'metric:{rater:NAMES}'",
        ),
    )
    first_ratings, second_ratings = ratings.split_opinions(
        is_second_opinion, number_column(frame, "score", where=where).is_not_null()
    )
    return Study(
        ratings=first_ratings,
        second_ratings=second_ratings,
        raters=Raters.infer(rater_kinds(frame, where=where)),
        notes=tuple(notes),
        name=where,
    )


READER = TableReader(name="ratings", columns=(("item", "system", "rater", "score"),), make=read_ratings)


WIDE_KEY = ("item", "system", "aspect", "repeat")
"""Columns of a wide table that are not raters."""


def read_wide(frame: pl.DataFrame, *, where: str, invalid: Invalid) -> Study:
    """A study of the scores in a wide table. A column `human` has human ratings; the kinds of other raters are unknown,
    because the names of the other columns may not show whether a rater is human."""
    rater_names = [rater_name for rater_name in frame.columns if rater_name not in WIDE_KEY]
    check_columns(frame, where=where, required=("item", "system"), optional=(*WIDE_KEY, *rater_names))
    reject(
        (
            not rater_names,
            f"{where}: there is no column of scores, only {', '.join(frame.columns)}; give one column per rater",
        ),
        (
            "" in rater_names,
            f"{where}: a column has no name (perhaps a saved index); name it after its rater, or remove it",
        ),
        error=InputError,
    )
    ratings, notes = Ratings.make(
        melt_scores(
            frame,
            {rater_name: {"rater": rater_name} for rater_name in rater_names},
            key_column_names=WIDE_KEY,
            where=where,
        ),
        where=where,
        unit="cells",
    )
    return Study(
        ratings=ratings,
        raters=Raters.infer({rater_name: HUMAN if rater_name == HUMAN else "" for rater_name in rater_names}),
        notes=tuple(notes),
        name=where,
    )


WIDE = TableReader(name="wide", columns=(("item", "system"),), make=read_wide, absent=("rater", "score"))
