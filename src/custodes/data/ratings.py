"""Ratings: the long table of scores, one row per rating, validated on creation."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import polars as pl

from custodes.data.notes import Note, build_notes
from custodes.data.table import (
    LARGEST,
    check_columns,
    check_unique,
    filter_rows,
    format_counts,
    label_column,
    number_column,
    refuse,
    to_polars,
)
from custodes.errors import InputError

KEY = ("item", "system", "rater", "aspect", "repeat")
OPTIONAL = ("aspect", "repeat", "invalid")
SCHEMA = {**dict.fromkeys(KEY, pl.String), "score": pl.Float64}


@dataclass(frozen=True, kw_only=True)
class Ratings:
    """Scores of outputs by raters (annotators or metrics).

    `frame` has the columns item, system, rater, aspect, repeat (strings) and score (finite float). An empty item marks
    a system-level score. An empty aspect marks a rating of the output as a whole. A missing rating has no row.
    """

    frame: pl.DataFrame = field(default_factory=partial(pl.DataFrame, schema=SCHEMA))

    @classmethod
    def make(
        cls, table: Any, *, where: str = "ratings", ignore: tuple[str, ...] = (), unit: str = "rows"
    ) -> tuple[Ratings, list[Note]]:
        """Check a long table with the columns `item, system, rater, score` (optionally `aspect`, `repeat`, `invalid`),
        and note excluded rows.

        Rows without a score are missing ratings, which are excluded and counted by the reasons in `invalid`. `unit` is
        the word for rows in notes (such as "cells" for a wide table). Text, infinities, empty labels and duplicate keys
        raise `InputError` with the row.

        >>> ratings, notes = Ratings.make(
        ...     pl.DataFrame({"item": [1], "system": ["A"], "rater": ["ann"], "score": [4]})
        ... )
        >>> ratings.frame.row(0)
        ('1', 'A', 'ann', '', '0', 4.0)
        """
        input_frame = to_polars(table, where=where)
        notes = check_columns(
            input_frame, where=where, required=("item", "system", "rater", "score"), optional=(*OPTIONAL, *ignore)
        )
        if input_frame.height == 0:
            raise InputError(f"{where}: no rows; a study needs at least one rating")
        rating_rows = pl.DataFrame(
            [
                label_column(input_frame, "item", where=where, empty=True),
                label_column(input_frame, "system", where=where),
                label_column(input_frame, "rater", where=where),
                label_column(input_frame, "aspect", where=where, empty=True),
                label_column(input_frame, "repeat", where=where, empty=True).replace("", "0"),
                number_column(input_frame, "score", where=where),
            ]
        )
        check_unique(
            rating_rows,
            KEY,
            where=where,
            what="rating",
            hint="number the runs of a rater in a column 'repeat', or remove the duplicate row",
        )
        largest_score_rows = rating_rows.group_by("rater", maintain_order=True).agg(pl.col("score").abs().max())
        is_too_small = pl.col("score").is_between(0, 1 / LARGEST, closed="none")
        for rater_name, largest_score in largest_score_rows.filter(is_too_small).iter_rows():
            raise InputError(
                f"{where}: scores of {rater_name!r} are all below {1 / LARGEST:g} (largest absolute value "
                f"{largest_score:g}), so their squares underflow; rescale the scores, or take logarithms"
            )
        reason_texts = label_column(input_frame, "invalid", where=where, empty=True)
        refuse(
            rating_rows["score"].is_not_null() & (reason_texts != ""),
            lambda row_numbers, row_index: (
                f"{where}: row {row_numbers} has both a score and a reason in 'invalid' ({reason_texts[row_index]!r}); "
                f"remove the score or the reason"
            ),
        )
        invalid_reasons = reason_texts.filter(reason_texts != "")
        n_missing_scores = rating_rows["score"].null_count() - invalid_reasons.len()
        notes += build_notes(
            (
                "missing-score",
                n_missing_scores,
                f"{where}: {n_missing_scores} {unit} have no score and count as not rated",
            ),
            (
                "invalid-score",
                invalid_reasons.len(),
                f"{where}: {invalid_reasons.len()} scores are invalid and count as not rated "
                f"({format_counts(invalid_reasons)})",
            ),
        )
        return cls(frame=rating_rows.drop_nulls("score")), notes

    def split_opinions(self, is_second_row: pl.Series, is_answered_row: pl.Series) -> tuple[Ratings, Ratings]:
        """The first opinions, and the second opinions (answers to a question that another annotator answered first).

        The masks `is_second_row` and `is_answered_row` (whether there is a score) have one entry per row of the
        original table.
        """
        is_second_opinion = is_second_row.filter(is_answered_row)
        return (
            Ratings(frame=filter_rows(self.frame, ~is_second_opinion)),
            Ratings(frame=self.frame.filter(is_second_opinion)),
        )
