"""Judgments of Arena-Hard. A line has the `games` of one model against the baseline on one question, with scores from
`A>>B` to `B>>A`.

Layout: github.com/lmarena/arena-hard-auto, gen_judgment.py (`question_id`; since 2.0 `uid`, `category`, `baseline`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from custodes.data.loading import parse_json
from custodes.data.notes import build_notes
from custodes.data.readers.mtbench import read_judges
from custodes.data.readers.reader import Invalid, TableReader
from custodes.data.readers.verdict_words import TIES, UNSURE, normalise_words
from custodes.data.readers.verdicts import log_study
from custodes.data.study import Study
from custodes.data.table import fitting_columns, label_column
from custodes.errors import InputError, join_labels

COLUMNS = (("uid", "model", "judge", "games"), ("question_id", "model", "judge", "games"))
ALLOWED = "A>>B, A>B, A=B, B>A, B>>A, null"
BASELINE = "baseline"
NO_SCORE = "no score"


def read_arenahard(frame: pl.DataFrame, *, where: str, invalid: Invalid) -> Study:
    """A study with the verdicts of a judge, given in both orders of the two answers. The baseline is A in the first
    game and B in the second game.

    A strong verdict (A>>B) counts as one win. A game without a score is a reply that could not be parsed. A null
    game has no verdict.
    """
    question = fitting_columns(frame, COLUMNS, where=where)[0]
    has_baseline = BASELINE in frame.columns
    rows = pl.DataFrame(
        [
            pl.Series("row", range(1, frame.height + 1)),
            label_column(frame, question, where=where).alias("item"),
            label_column(frame, "model", where=where).alias("system_a"),
            label_column(frame, BASELINE, where=where).alias("system_b")
            if has_baseline
            else pl.Series("system_b", [BASELINE] * frame.height),
            read_judges(frame, where=where),
        ]
    )
    games = pl.DataFrame(
        list(_games(frame["games"], where=where)),
        schema={"row": pl.Int64, "order": pl.String, "verdict": pl.String},
        orient="row",
    )
    table = rows.join(games, on="row", maintain_order="left")
    if table.is_empty():
        raise InputError(f"{where}: no row has a game; give a file of judgments with 'games'")
    signs = {
        verdict_word: sign for verdict_word, sign in UNSURE.items() if ">" in verdict_word or "<" in verdict_word
    } | dict.fromkeys(TIES, 0.0)
    preference = normalise_words(table["verdict"]).replace_strict(signs, default=None, return_dtype=pl.Float64)
    table = table.with_columns(preference=preference).with_columns(
        preference=pl.when(pl.col("order") == "ba").then(-pl.col("preference")).otherwise("preference")
    )
    unnamed_text = (
        f"{where}: the log does not name the baseline (gpt-4-0314 by default), which is called {BASELINE!r} here"
    )
    return log_study(
        table,
        where=where,
        invalid=invalid,
        allowed=ALLOWED,
        failure=NO_SCORE,
        items=rows.select("item", label_column(frame, "category", where=where, empty=True).alias("group")),
        kind="metric",
        notes=build_notes(("baseline-unnamed", not has_baseline, unnamed_text)),
    )


def _games(column: pl.Series, *, where: str) -> Iterator[tuple[int, str, str]]:
    """The row, order and score of each game. The baseline (system_b) is shown first in games 1, 3 and so on."""
    for row, cell in enumerate(column, start=1):
        games: Any = parse_json(cell, where=f"{where}, row {row}") if isinstance(cell, str) else cell
        if games is None:
            continue
        if not isinstance(games, Sequence | pl.Series) or not all(isinstance(game, dict | None) for game in games):
            raise InputError(f"{where}: games of row {row} are not a list of objects with 'score'")
        for number, game in enumerate(games):
            if game is not None and "score" not in game:
                raise InputError(f"{where}: game {number + 1} of row {row} has no 'score'; keys: {join_labels(game)}")
            score = "" if game is None else NO_SCORE if game["score"] is None else str(game["score"])
            yield row, "ab" if number % 2 else "ba", score


READER = TableReader(name="arenahard", columns=COLUMNS, make=read_arenahard)
