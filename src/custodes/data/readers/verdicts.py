"""Verdicts that cannot be read: refused with their rows, or dropped and counted for each rater."""

from __future__ import annotations

import polars as pl

from custodes.data.notes import Note, noted
from custodes.data.preferences import Preferences
from custodes.data.readers.reader import Invalid
from custodes.errors import InputError, listed


def read_verdicts(table: pl.DataFrame, *, where: str, allowed: str, invalid: Invalid) -> tuple[Preferences, list[Note]]:
    """Preferences from a table with their columns and `verdict`, the text that `preference` was read from.

    `preference` is null where the verdict is empty (an absent row) or unreadable; `row` is where the verdict stands in
    the file, where that is not its place in the table.
    """
    if "row" not in table.columns:
        table = table.with_row_index("row", offset=1)
    unreadable = table.filter(pl.col("preference").is_null() & (pl.col("verdict") != ""))
    if unreadable.height and invalid == "error":
        raise InputError(_refusal(unreadable, where=where, allowed=allowed))
    made = table.drop("verdict", "row")
    preferences, notes = Preferences.make(made, where=where, unreadable=table["verdict"] != "")
    notes = [note for note in notes if note.rule != "missing-verdict"]
    empty, lost = table.filter(pl.col("verdict") == "").height, unreadable.height
    counts = unreadable.group_by("rater", maintain_order=True).len()
    by_rater = listed((f"{rater} {count}" for rater, count in counts.iter_rows()), limit=20)
    return preferences, [
        *notes,
        *noted(
            ("missing-verdict", empty, f"{where}: {empty} verdicts are empty and count as not rated"),
            ("unreadable-verdict", lost, f"{where}: {lost} verdicts could not be read and were dropped ({by_rater})"),
        ),
    ]


def _refusal(unreadable: pl.DataFrame, *, where: str, allowed: str) -> str:
    kinds = unreadable.group_by("verdict", maintain_order=True).agg(pl.col("row").min())
    examples = listed((f"{verdict[:40]!r} in row {row}" for verdict, row in kinds.iter_rows()), limit=3)
    return (
        f"{where}: {unreadable.height} verdicts cannot be read ({examples}); allowed: {allowed}, or nothing;"
        " mend them, or drop and count them with invalid='drop' (--invalid drop)"
    )
