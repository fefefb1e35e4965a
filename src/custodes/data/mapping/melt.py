"""Wide scores as long rows: a column of numbers for each rater becomes rows of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from custodes.data.table import check_unique, label_column, number_column


def melted(
    frame: pl.DataFrame, columns: Mapping[str, Mapping[str, str]], *, keys: Sequence[str], where: str
) -> pl.DataFrame:
    """The long table of some columns, each with the labels that its rows get; `keys` are what a row is of.

    A key that stands twice, an empty one (but an item, aspect, kind or repeat may be), and text among scores raise
    `InputError` with the row of the wide table.
    """
    known = [label_column(frame, name, where=where, empty=name not in ("system", "rater")) for name in keys]
    rows = pl.DataFrame(known)
    named = [name for name in keys if name != "kind"]
    check_unique(
        rows, named, where=where, what="output", hint="one row per output; number the runs in a column 'repeat'"
    )
    scores = [number_column(frame, name, where=where) for name in columns]
    said = dict.fromkeys(name for labels in columns.values() for name in labels)
    return pl.concat(
        [
            rows.with_columns(
                *(
                    pl.lit(columns[score.name].get(name, ""), dtype=pl.String).alias(name)
                    for name in said
                    if name in columns[score.name] or name not in keys
                ),
                score=score,
            )
            for score in scores
        ]
    )
