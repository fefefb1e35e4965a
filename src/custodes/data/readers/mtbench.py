"""Logs of judges in MT-bench: `gpt-4_pair.jsonl` (both orders of two models) and `gpt-4_single.jsonl` (scores from 1 to
10).

Layout: github.com/lm-sys/FastChat, fastchat/llm_judge (common.py writes both).
"""

from __future__ import annotations

import polars as pl

from custodes.data.items import Items
from custodes.data.loading import parse_json
from custodes.data.notes import Note, build_notes
from custodes.data.raters import Raters
from custodes.data.ratings import Ratings
from custodes.data.readers.reader import Invalid, TableReader
from custodes.data.readers.verdict_words import without_empty
from custodes.data.readers.verdicts import log_study
from custodes.data.study import Study
from custodes.data.table import check_columns, label_column, number_column
from custodes.errors import InputError

PAIR = ("question_id", "model_1", "model_2", "g1_winner", "g2_winner")
SINGLE = ("question_id", "model", "judge", "score")
WINNERS = {"model_1": 1.0, "model_2": -1.0, "tie": 0.0}


def read_mtbench(frame: pl.DataFrame, *, where: str, invalid: Invalid) -> Study:
    """A study with the verdicts of a judge, given in both orders of the two answers, or with the scores of a judge. The
    item is question and turn, and the cluster is the question.

    The rater is the judging model. The name of the prompt is omitted, since prompts differ by category and turn.
    """
    is_pairwise = "model_1" in frame.columns or set(PAIR) <= set(frame.columns)
    check_columns(frame, where=where, required=PAIR if is_pairwise else SINGLE, optional=frame.columns)
    items = read_items(frame, where=where)
    rater = (
        read_judges(frame, where=where) if "judge" in frame.columns else pl.Series("rater", ["judge"] * frame.height)
    )
    keys = pl.DataFrame([items["item"], rater])
    if is_pairwise:
        return log_study(
            _read_games(frame, keys, where=where),
            where=where,
            invalid=invalid,
            allowed="model_1, model_2, tie, error",
            failure="error",
            items=items,
            kind="metric",
        )
    ratings, notes = _read_scores(frame, keys, where=where)
    unique_items, _ = Items.make(items.unique("item", keep="first", maintain_order=True), where=where)
    raters = Raters.infer(dict.fromkeys(rater.unique(maintain_order=True), "metric"))
    return Study(ratings=ratings, raters=raters, items=unique_items, notes=tuple(notes), name=where)


def _read_games(frame: pl.DataFrame, keys: pl.DataFrame, *, where: str) -> pl.DataFrame:
    """A table with one row per game. In both games, the winner is given as a model. In the first game, model_1 was
    shown first."""
    systems = [
        label_column(frame, name, where=where).alias(f"system_{x}") for name, x in (("model_1", "a"), ("model_2", "b"))
    ]
    # If a log compares scores, the judge saw no pair, and the second game is a copy of the first game.
    is_scored = label_column(frame, "m1_score", where=where, empty=True) != ""
    rows = keys.with_columns(*systems, row=pl.int_range(1, pl.len() + 1), scored=is_scored)
    games = [
        rows.with_columns(
            verdict=without_empty(label_column(frame, name, where=where, empty=True)),
            order=pl.when("scored").then(pl.lit("")).otherwise(pl.lit(order)),
        ).filter(~pl.col("scored") | (order == "ab"))
        for name, order in (("g1_winner", "ab"), ("g2_winner", "ba"))
    ]
    preference = pl.col("verdict").replace_strict(WINNERS, default=None, return_dtype=pl.Float64)
    return pl.concat(games).drop("scored").with_columns(preference=preference)


def _read_scores(frame: pl.DataFrame, keys: pl.DataFrame, *, where: str) -> tuple[Ratings, list[Note]]:
    """The scores of single answers. The log has -1 if the reply of the judge had no score."""
    score = number_column(frame, "score", where=where)
    is_failed = score == -1
    rows = keys.with_columns(
        label_column(frame, "model", where=where).alias("system"), score=score.set(is_failed.fill_null(False), None)
    ).with_columns(repeat=pl.int_range(pl.len()).over("item", "rater", "system"))
    ratings, notes = Ratings.make(rows, where=where)
    n_failed, n_empty, n_repeats = int(is_failed.sum()), score.null_count(), int((rows["repeat"] > 0).sum())
    return ratings, [
        *(note for note in notes if note.rule != "missing-score"),
        *build_notes(
            ("missing-score", n_empty, f"{where}: {n_empty} rows have no score and count as not rated"),
            (
                "judge-failed",
                n_failed,
                f"{where}: {n_failed} scores are -1 (the judge's reply had no score) and count as not rated",
            ),
            (
                "repeats",
                n_repeats,
                f"{where}: {n_repeats} further scores of the same rater and output are read as repeats",
            ),
        ),
    ]


def read_items(frame: pl.DataFrame, *, where: str, question: str = "question_id", turn: bool = True) -> pl.DataFrame:
    """The `item` and the `cluster` of each row, such as `81/turn 2` and `81`. If `turn` is false, the item is the
    question, and there is no cluster."""
    rows = pl.DataFrame(
        [
            label_column(frame, question, where=where).alias("question"),
            label_column(frame if turn else frame.select(question), "turn", where=where, empty=True),
        ]
    )
    is_single_turn = pl.col("turn") == ""
    return rows.select(
        item=pl.when(is_single_turn).then("question").otherwise(pl.format("{}/turn {}", "question", "turn")),
        cluster=pl.when(is_single_turn).then(pl.lit("")).otherwise("question"),
    )


def read_judges(frame: pl.DataFrame, *, where: str) -> pl.Series:
    """The names of judges. If a cell is a pair of model and prompt (a list or JSON), the name is the model."""
    column = frame["judge"]
    if column.dtype in (pl.List, pl.Array):
        frame = frame.with_columns(judge=column.list.first() if column.dtype == pl.List else column.arr.first())
    labels = label_column(frame, "judge", where=where)
    names = {label: _judge_name(label, where=where) for label in labels.unique() if label.startswith("[")}
    return labels.replace(names).alias("rater")


def _judge_name(label: str, *, where: str) -> str:
    model_and_prompt = parse_json(label, where=f"{where}: judge")
    if (
        not isinstance(model_and_prompt, list)
        or not model_and_prompt
        or not isinstance(model_and_prompt[0], str)
        or not model_and_prompt[0].strip()
    ):
        raise InputError(f"{where}: judge {label[:40]!r} is neither a name nor a list that starts with a name")
    return model_and_prompt[0].strip()


READER = TableReader(name="mtbench", columns=(PAIR, SINGLE), make=read_mtbench)
