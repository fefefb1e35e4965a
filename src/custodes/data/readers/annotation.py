"""Studies of people's answers (`custodes annotate`): a SQLite file, read through its views, also while it is served.

Its views are in the formats of other readers, with at least the columns of `VIEWS`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from custodes.data.items import Items
from custodes.data.loading.running import is_study, of_one_state
from custodes.data.looks import SCHEMA as LOOKS
from custodes.data.looks import turned as turned_looks
from custodes.data.notes import Note, noted
from custodes.data.outputs import SCHEMA as TEXTS
from custodes.data.outputs import Outputs
from custodes.data.preferences import Preferences
from custodes.data.raters import Raters
from custodes.data.ratings import Ratings
from custodes.data.readers.reader import Invalid, PathReader
from custodes.data.roles import second_rows
from custodes.data.study import Study, digest_of
from custodes.errors import InputError, listed

STRINGS = ("item", "system_a", "system_b", "rater", "kind", "aspect", "repeat", "order")
VIEWS: Mapping[str, Mapping[str, Any]] = {
    "battles": {
        **dict.fromkeys(STRINGS, pl.String),
        "preference": pl.Int64,
        "invalid": pl.String,
        "role": pl.String,
        "seconds": pl.Float64,
    },
    "ratings": {
        **dict.fromkeys(("item", "system", "rater", "kind", "aspect"), pl.String),
        "score": pl.Float64,
        "role": pl.String,
    },
    "raters": {"rater": pl.String, "date": pl.String},
    "items": dict.fromkeys(("item", "cluster", "group"), pl.String),
    "outputs": TEXTS,
    "sources": dict.fromkeys(("item", "source", "context"), pl.String),
    "looks": LOOKS,
}
"""What is read of each view."""

EXCLUDED = """
SELECT count(DISTINCT rater), count(*) FROM answers WHERE unit IS NOT NULL AND excluded AND NOT taken_back
"""
PAID = """
SELECT json_extract(json, '$.money.price') * (1 + json_extract(json, '$.money.fee')),
    lower(json_extract(json, '$.money.currency'))
FROM plan ORDER BY version DESC LIMIT 1
"""
"""What an answer costs, and in what."""
PEEKED = "SELECT count(*) FROM event WHERE kind = 'peeked'"
"""How often the owner looked at estimates between looks."""


def read_annotation(path: Path, *, part: str | None, invalid: Invalid) -> Study:
    """A study of what people said: verdicts or scores, texts, and the looks that stopped it.

    Second opinions are `Study.second`; known comparisons, corrected answers and people who are excluded are left out.
    """
    if not is_study(path):  # named by `reader`
        raise InputError(f"{path.name}: not a study of people's answers; custodes annotate new makes one")
    return of_one_state(path, lambda opened: study_of(opened, path.name))


def study_of(opened: sqlite3.Connection, where: str) -> Study:
    """The study that a connection sees, in a transaction of its own; see `read_annotation`."""
    frames, (people, answers), (cost, unit), peeked = _asked(opened, where)
    battles, ratings = frames["battles"], frames["ratings"]
    if not battles.height and not ratings.height and not frames["outputs"].height:
        raise InputError(f"{where}: a study without texts and answers; there is nothing to read yet")
    preferences, second, told = _verdicts(battles, where)
    scores, second_scores, counted = _scores(ratings, where)
    said = pl.concat([battles.select("rater"), ratings.select("rater")])
    known = frames["raters"].join(said, on="rater", how="semi", maintain_order="left")
    raters = Raters.infer(dict.fromkeys(known["rater"], "human"))
    if known.height:
        raters, _ = raters.described(
            known.with_columns(person=pl.lit("true"), cost=cost or None, cost_unit=pl.lit(unit if cost else None))
        )
    outputs = Outputs.of(frames["outputs"], frames["sources"]) if frames["outputs"].height else None
    items, _ = Items.make(frames["items"], where=where)
    again = _units(second.frame, "system_a", "system_b") + _units(second_scores.frame, "system")
    notes = noted(
        (
            "excluded-people",
            answers,
            f"{where}: {answers} answers of people who are excluded now ({people}) are left out; looks are as they were"
            " judged",
        ),
        (
            "second-opinions",
            again,
            f"{where}: {again} second opinions say something of people, and are no evidence of systems",
        ),
        (
            "peeked",
            peeked,
            f"{where}: the owner looked at estimates between looks ({peeked} times); who stops by what these show"
            " decides falsely up to five times as often as told",
        ),
    )
    return Study(
        ratings=scores,
        preferences=preferences,
        second=second,
        second_ratings=second_scores,
        looks=turned_looks(frames["looks"]),
        raters=raters,
        items=items,
        outputs=outputs,
        notes=(*told, *counted, *notes),
        name=where,
        digest=digest_of(*(frame.write_ndjson() for frame in frames.values())),
    )


def _asked(
    opened: sqlite3.Connection, where: str
) -> tuple[dict[str, pl.DataFrame], tuple[int, int], tuple[Any, Any], int]:
    """What the views say, how many people who are excluded gave how many answers, what an answer costs, and how often
    somebody looked between looks."""
    there = {name for (name,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'view'")}
    lacking = [name for name in (*VIEWS, "answers") if name not in there]
    if lacking:
        raise InputError(
            f"{where}: a study of another version of custodes: it has no {listed(lacking)}; upgrade custodes"
        )
    frames = {}
    for view, schema in VIEWS.items():
        columns = ", ".join(f'"{name}"' for name in schema)
        rows = opened.execute(f"SELECT {columns} FROM {view}").fetchall()
        frames[view] = pl.DataFrame(rows, schema=schema, orient="row", strict=False)
    (peeked,) = opened.execute(PEEKED).fetchone()
    return frames, opened.execute(EXCLUDED).fetchone(), opened.execute(PAID).fetchone() or (None, None), peeked


def _units(rows: pl.DataFrame, *systems: str) -> int:
    """What was asked of people, in however many aspects."""
    return rows.select("item", *systems, "rater").n_unique()


def _verdicts(rows: pl.DataFrame, where: str) -> tuple[Preferences, Preferences, list[Note]]:
    if not rows.height:
        return Preferences.empty(), Preferences.empty(), []
    made, notes = Preferences.make(rows, where=where, ignore=("kind", "role"))
    second = second_rows(rows, where=where)
    assert second is not None
    return *made.parted(second, rows["preference"].is_not_null()), notes


def _scores(rows: pl.DataFrame, where: str) -> tuple[Ratings, Ratings, list[Note]]:
    if not rows.height:
        return Ratings.empty(), Ratings.empty(), []
    made, notes = Ratings.make(rows, where=where, ignore=("kind", "role"))
    second = second_rows(rows, where=where)
    assert second is not None
    return *made.parted(second, rows["score"].is_not_null()), notes


READER = PathReader(name="annotation", fits=is_study, make=read_annotation, whole=True)
