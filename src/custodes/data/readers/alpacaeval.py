"""AlpacaEval annotations: `instruction, generator_1, generator_2, preference` (1, 1.5, 2 or between), `annotator`."""

from __future__ import annotations

import polars as pl

from custodes.data.raters import Raters
from custodes.data.readers.reader import Invalid, TableReader
from custodes.data.readers.verdicts import read_verdicts
from custodes.data.study import Study
from custodes.data.table import label_column
from custodes.errors import InputError, listed

COLUMNS = ("instruction", "generator_1", "generator_2", "preference")


def read_alpacaeval(frame: pl.DataFrame, *, where: str, invalid: Invalid) -> Study:
    """A study of verdicts: item = the instruction, rater = the annotator; 1.5 is a tie, below it generator_1 wins.

    An annotation without a preference is one that could not be read.
    """
    missing = [name for name in COLUMNS if name not in frame.columns]
    if missing:
        raise InputError(
            f"{where}: column {missing[0]!r} is missing; columns: {listed(frame.columns)}; needed: {', '.join(COLUMNS)}"
        )
    named = "annotator" in frame.columns
    verdict = label_column(frame, "preference", where=where, empty=True).replace("", "no preference")
    value = verdict.cast(pl.Float64, strict=False)
    value = value.set(~value.is_between(1, 2).fill_null(False), None)
    table = pl.DataFrame(
        {
            "item": frame["instruction"],
            "system_a": frame["generator_1"],
            "system_b": frame["generator_2"],
            "rater": label_column(frame, "annotator", where=where) if named else ["annotator"] * frame.height,
            "verdict": verdict,
            "preference": (1.5 - value).sign(),
        }
    )
    allowed = "numbers from 1 (generator_1 better) to 2 (generator_2 better)"
    preferences, notes = read_verdicts(table, where=where, allowed=allowed, invalid=invalid)
    kinds = dict.fromkeys(table["rater"].unique(maintain_order=True), "")
    return Study(preferences=preferences, raters=Raters.infer(kinds), notes=tuple(notes), name=where)


READER = TableReader(name="alpacaeval", columns=(COLUMNS,), make=read_alpacaeval)
