"""Battles: `item, model_a, model_b, winner` or `item, system_a, system_b, preference`."""

from __future__ import annotations

import polars as pl

from custodes.data.notes import noted
from custodes.data.raters import Raters, kinds_of
from custodes.data.readers.reader import Invalid, TableReader
from custodes.data.readers.verdicts import read_verdicts
from custodes.data.study import Study
from custodes.data.table import check_columns, label_column

WINNERS = {
    "modela": 1.0,
    "modelb": -1.0,
    "tie": 0.0,
    "bothbad": 0.0,
    "tiebothbad": 0.0,
}
"""Verdicts in lower case without blanks, underscores, hyphens and brackets."""

NUMBERS = {"1": 1.0, "0": 0.0, "-1": -1.0, "1.0": 1.0, "+1": 1.0, "0.0": 0.0, "-0.0": 0.0, "-1.0": -1.0}
MODELS = ("item", "model_a", "model_b", "winner")
SYSTEMS = ("item", "system_a", "system_b", "preference")


def read_battles(frame: pl.DataFrame, *, where: str, invalid: Invalid) -> Study:
    """A study of verdicts; a tie in which both are bad is a tie; without a column `rater` one person gave them all."""
    models = "winner" in frame.columns or "model_a" in frame.columns
    needed = MODELS if models else SYSTEMS
    rated = "rater" in frame.columns or "kind" in frame.columns
    required = (*needed, "rater") if rated else needed
    check_columns(frame, where=where, required=required, optional=("rater", "kind", "aspect", "order", "repeat"))
    _, left, right, column = needed
    verdict = label_column(frame, column, where=where, empty=True)
    words = verdict.str.to_lowercase().str.replace_all(r"[ _()-]", "") if models else verdict
    columns: dict[str, pl.Series] = {
        "item": frame["item"],
        "system_a": frame[left],
        "system_b": frame[right],
        "rater": label_column(frame, "rater", where=where) if rated else pl.Series(["human"] * frame.height),
        **{name: frame[name] for name in ("aspect", "order", "repeat") if name in frame.columns},
        "verdict": verdict,
        "preference": words.replace_strict(WINNERS if models else NUMBERS, default=None, return_dtype=pl.Float64),
    }
    allowed = "model_a, model_b, tie, both_bad" if models else "1 (system_a better), 0 (tie), -1 (system_b better)"
    preferences, notes = read_verdicts(pl.DataFrame(columns), where=where, allowed=allowed, invalid=invalid)
    both_bad = int(words.str.ends_with("bothbad").sum())
    assumed = f"{where}: no column 'rater'; all verdicts are taken for those of one person, 'human'"
    notes += noted(
        ("both-bad", both_bad, f"{where}: {both_bad} verdicts that both are bad count as ties"),
        ("rater-assumed", not rated, assumed),
    )
    kinds = kinds_of(frame, where=where) if rated else {"human": "human"}
    return Study(preferences=preferences, raters=Raters.infer(kinds), notes=tuple(notes), name=where)


READER = TableReader(name="battles", columns=(MODELS, SYSTEMS), make=read_battles)
