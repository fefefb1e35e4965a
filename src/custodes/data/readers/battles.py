"""Battles: `item`, two systems (`model_a, model_b` or `system_a, system_b`) and a `winner` or `preference`."""

from __future__ import annotations

from functools import partial

import polars as pl

from custodes.data.notes import Note, noted
from custodes.data.raters import Raters, kinds_of
from custodes.data.readers import words
from custodes.data.readers.orders import shown_first
from custodes.data.readers.reader import Invalid, TableReader
from custodes.data.readers.verdicts import read_verdicts
from custodes.data.readers.words import likely, what_is_said, without_empty
from custodes.data.study import Study
from custodes.data.table import check_columns, label_column, refuse
from custodes.errors import InputError

SYSTEMS = (("model_a", "model_b"), ("system_a", "system_b"))
SAME = (*zip(*SYSTEMS, strict=True), ("winner", "preference"))
"""Names of one column each."""

COLUMNS = (
    ("item", *SYSTEMS[0], "winner"),
    ("item", *SYSTEMS[1], "preference"),
    ("item", *SYSTEMS[1], "winner"),
    ("item", *SYSTEMS[0], "preference"),
)
OPTIONAL = ("rater", "kind", "aspect", "order", "repeat")
FEW = 20
"""From so many verdicts on a column without a single loss is told of."""

SIGNS = {True: -1.0, False: 1.0}
ORDERS = {1.0: "ab", -1.0: "ba", 0.0: ""}


def read_battles(frame: pl.DataFrame, *, where: str, invalid: Invalid) -> Study:
    """A study of verdicts; a tie in which both are bad is a tie; without a column `rater` one person gave them all.

    The judge may stand in `judge` instead of `rater`. `words` and `orders` say what cells mean.
    """
    if "judge" in frame.columns and "rater" not in frame.columns:
        frame = frame.rename({"judge": "rater"})
    present = set(frame.columns)
    needed = max(COLUMNS, key=lambda own: (len(set(own) & present), own == COLUMNS[1]))
    _, left, right, column = needed
    for same in SAME:
        if set(same) <= present:
            raise InputError(f"{where}: columns {same[0]!r} and {same[1]!r} say the same; take one out")
    rated = "rater" in frame.columns or "kind" in frame.columns
    required = (*needed, "rater") if rated else needed
    notes = check_columns(frame, where=where, required=required, optional=OPTIONAL)
    optional = [name for name in ("aspect", "repeat") if name in frame.columns]
    table = pl.DataFrame(
        [
            label_column(frame, "item", where=where),
            label_column(frame, left, where=where).alias("system_a"),
            label_column(frame, right, where=where).alias("system_b"),
            label_column(frame, "rater", where=where) if rated else pl.Series("rater", ["human"] * frame.height),
            *(label_column(frame, name, where=where, empty=True) for name in optional),
            without_empty(label_column(frame, column, where=where, empty=True)).alias("verdict"),
        ]
    )
    made, told = judged(table, frame, where=where, column=column)
    systems = set(table["system_a"]) | set(table["system_b"])
    guess = partial(likely, systems=systems)
    unused = [name for name in frame.columns if name not in (*required, *OPTIONAL)]
    preferences, counted = read_verdicts(
        made, where=where, allowed=words.ALLOWED, invalid=invalid, likely=guess, unused=unused
    )
    assumed = f"{where}: no column 'rater'; all verdicts are taken for those of one person, 'human'"
    notes += [*told, *counted, *noted(("rater-assumed", not rated, assumed))]
    kinds = kinds_of(frame, where=where) if rated else {"human": "human"}
    return Study(preferences=preferences, raters=Raters.infer(kinds), notes=tuple(notes), name=where)


def judged(table: pl.DataFrame, frame: pl.DataFrame, *, where: str, column: str) -> tuple[pl.DataFrame, list[Note]]:
    """`table` (item, system_a, system_b, rater, verdict, optional aspect and repeat) with `preference` and `order`."""
    said = what_is_said(table["verdict"].alias(column), table["system_a"], table["system_b"], where=where)
    shown, notes = shown_first(table, frame, where=where)
    places = said.place.is_not_null()
    if "order" in frame.columns and (shown != 0).any():
        refuse(
            places & (shown == 0),
            lambda rows, at: (
                f"{where}: {column} {table['verdict'][at]!r} in row {rows} speaks of the place shown, and the order of"
                " that row is unknown; fill in the order, or name the system"
            ),
        )
    # A place without any order column: the columns are in the order shown.
    shown = shown.set(places & (shown == 0), 1.0)
    preference = said.preference.set(places & (shown < 0), None).fill_null(-said.place)
    made = table.with_columns(preference=preference, order=shown.replace_strict(ORDERS, return_dtype=pl.String))
    both_bad = int(said.both_bad.sum())
    losses = column == "preference" and made.height >= FEW and set(preference.drop_nulls()) == {0.0, 1.0}
    return made, [
        *notes,
        *_unsure_note(made, said.unsure, where=where, column=column),
        *noted(
            ("both-bad", both_bad, f"{where}: {both_bad} verdicts that both are bad count as ties"),
            (
                "no-loss",
                losses,
                f"{where}: no {column} is for the second system; is 0 a tie here, as it is taken, or a loss?",
            ),
        ),
    ]


def _unsure_note(made: pl.DataFrame, unsure: pl.Series, *, where: str, column: str) -> list[Note]:
    """What to say where A or 1 was taken for a column, and outputs were shown in an order other than the columns'."""
    turned = unsure & (made["order"] == "ba")
    if not turned.any():
        return []
    forward = pl.when(pl.col("system_a") < pl.col("system_b")).then(1.0).otherwise(-1.0)
    asked = made.drop_nulls("preference").with_columns(
        low=pl.min_horizontal("system_a", "system_b"),
        high=pl.max_horizontal("system_a", "system_b"),
        taken=pl.col("preference") * forward,
        place=pl.col("preference") * forward * turned.filter(made["preference"].is_not_null()).replace_strict(SIGNS),
    )
    keys = [name for name in ("item", "low", "high", "rater", "aspect", "repeat") if name in asked.columns]
    twice = asked.group_by(keys).agg(pl.len(), pl.col("taken", "place").n_unique() > 1)
    shares = twice.filter(pl.col("len") > 1).select(pl.col("taken", "place").mean()).row(0)
    words_seen = made.filter(unsure)["verdict"].unique(maintain_order=True).head(2)
    either = ""
    if shares[0] is not None:
        so, otherwise = (f"{100 * share:.0f} %" for share in shares)
        either = f" ({so} of comparisons contradict each other so, {otherwise} if it meant the place)"
    message = (
        f"{where}: {column} {', '.join(words_seen)} is taken for the column, whatever was shown first{either};"
        " write left, right where it means the place shown"
    )
    return noted(("place-or-column", int(turned.sum()), message))


READER = TableReader(name="battles", columns=COLUMNS, make=read_battles)
