"""Logs of judges that saw both orders of two outputs.

MT-bench: `gpt-4_pair.jsonl` (both orders of two models) and `gpt-4_single.jsonl` (scores from 1 to 10). Layout:
github.com/lm-sys/FastChat, fastchat/llm_judge (common.py writes both).

Arena-Hard: a line has the `games` of one model against the baseline on one question, with scores from `A>>B` to `B>>A`.
Layout: github.com/lmarena/arena-hard-auto, gen_judgment.py (`question_id`; since 2.0 `uid`, `category`, `baseline`).

LLMBar: the winner according to each judge in the original order and in the swapped order, and the gold label.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from custodes.data.items import Items
from custodes.data.loading import parse_json
from custodes.data.notes import Note, build_notes
from custodes.data.raters import Raters
from custodes.data.ratings import Ratings
from custodes.data.readers.reader import Invalid, TableReader
from custodes.data.readers.verdict_words import TIES, UNSURE, look_up, normalise_words, without_empty
from custodes.data.readers.verdicts import log_study, read_verdicts
from custodes.data.study import Study
from custodes.data.table import (
    check_columns,
    check_unique,
    fitting_columns,
    label_column,
    number_column,
    refuse,
    refuse_values,
)
from custodes.errors import InputError, join_labels

PAIR = ("question_id", "model_1", "model_2", "g1_winner", "g2_winner")
SINGLE = ("question_id", "model", "judge", "score")
GAME_WINNERS = {"model_1": 1.0, "model_2": -1.0, "tie": 0.0}

ARENAHARD_COLUMNS = (("uid", "model", "judge", "games"), ("question_id", "model", "judge", "games"))
BASELINE = "baseline"
NO_SCORE = "no score"

ORDERS = {"winner_original_order": "ab", "winner_swapped_order": "ba"}
LLMBAR_COLUMNS = ("dataset", "item", "judge", "prompt", "gold", *ORDERS)
WINNERS = {"1": 1.0, "2": -1.0, "1.0": 1.0, "2.0": -1.0}
GOLD = "gold"


def read_mtbench(frame: pl.DataFrame, *, where: str, invalid: Invalid) -> Study:
    """A study with the verdicts of a judge, given in both orders of the two answers, or with the scores of a judge. The
    item is question and turn, and the cluster is the question.

    The rater is the judging model. The rater has no name of a prompt, because prompts differ by category and turn.
    """
    is_pairwise = "model_1" in frame.columns or set(PAIR) <= set(frame.columns)
    check_columns(frame, where=where, required=PAIR if is_pairwise else SINGLE, optional=frame.columns)
    item_table = read_items(frame, where=where)
    rater_series = (
        read_judges(frame, where=where) if "judge" in frame.columns else pl.Series("rater", ["judge"] * frame.height)
    )
    key_table = pl.DataFrame([item_table["item"], rater_series])
    if is_pairwise:
        return log_study(
            _read_games(frame, key_table, where=where),
            where=where,
            invalid=invalid,
            allowed="model_1, model_2, tie, error",
            failure_code="error",
            items=item_table,
            kind="metric",
        )
    ratings, notes = _read_scores(frame, key_table, where=where)
    return Study(
        ratings=ratings,
        raters=Raters.infer(dict.fromkeys(rater_series, "metric")),
        items=Items.make(item_table.unique("item", keep="first", maintain_order=True), where=where)[0],
        notes=tuple(notes),
        name=where,
    )


def _read_games(frame: pl.DataFrame, key_table: pl.DataFrame, *, where: str) -> pl.DataFrame:
    """A table with one row per game. In both games, the winner is given as a model. In the first game, model_1 was
    shown first."""
    # If a log compares scores, the judge saw no pair, and the second game is a copy of the first game.
    judgment_rows = key_table.with_columns(
        system_a=label_column(frame, "model_1", where=where),
        system_b=label_column(frame, "model_2", where=where),
        row=pl.int_range(1, pl.len() + 1),
        scored=label_column(frame, "m1_score", where=where, empty=True) != "",
    )
    game_tables = [
        judgment_rows.with_columns(
            verdict=without_empty(label_column(frame, column_name, where=where, empty=True)),
            order=pl.when("scored").then(pl.lit("")).otherwise(pl.lit(order)),
        ).filter(~pl.col("scored") | (order == "ab"))
        for column_name, order in (("g1_winner", "ab"), ("g2_winner", "ba"))
    ]
    game_table = pl.concat(game_tables).drop("scored")
    return game_table.with_columns(preference=look_up(game_table["verdict"], GAME_WINNERS))


def _read_scores(frame: pl.DataFrame, key_table: pl.DataFrame, *, where: str) -> tuple[Ratings, list[Note]]:
    """The scores of single answers. The log has -1 if the reply of the judge had no score."""
    score_series = number_column(frame, "score", where=where)
    is_failed_score = score_series == -1
    score_rows = key_table.with_columns(
        label_column(frame, "model", where=where).alias("system"),
        score=score_series.set(is_failed_score.fill_null(False), None),
    ).with_columns(repeat=pl.int_range(pl.len()).over("item", "rater", "system"))
    ratings, notes = Ratings.make(score_rows, where=where)
    n_failed_scores, n_empty_scores, n_repeats = (
        int(is_failed_score.sum()),
        score_series.null_count(),
        int((score_rows["repeat"] > 0).sum()),
    )
    return ratings, [
        *(note for note in notes if note.rule != "missing-score"),
        *build_notes(
            ("missing-score", n_empty_scores, f"{where}: {n_empty_scores} rows have no score and count as not rated"),
            (
                "judge-failed",
                n_failed_scores,
                f"{where}: {n_failed_scores} scores are -1 (the judge's reply had no score) and count as not rated",
            ),
            (
                "repeats",
                n_repeats,
                f"{where}: {n_repeats} further scores of the same rater and output are read as repeats",
            ),
        ),
    ]


def read_items(
    frame: pl.DataFrame, *, where: str, question_column_name: str = "question_id", has_turns: bool = True
) -> pl.DataFrame:
    """The `item` and the `cluster` of each row, such as `81/turn 2` and `81`. If `has_turns` is false, the item is
    the question, and there is no cluster."""
    question_turn_rows = pl.DataFrame(
        [
            label_column(frame, question_column_name, where=where).alias("question"),
            label_column(frame if has_turns else frame.select(question_column_name), "turn", where=where, empty=True),
        ]
    )
    has_no_turn = pl.col("turn") == ""
    return question_turn_rows.select(
        item=pl.when(has_no_turn).then("question").otherwise(pl.format("{}/turn {}", "question", "turn")),
        cluster=pl.when(has_no_turn).then(pl.lit("")).otherwise("question"),
    )


def read_judges(frame: pl.DataFrame, *, where: str) -> pl.Series:
    """The names of judges. If a cell is a pair of model and prompt (a list or JSON), the name is the model."""
    judge_cells = frame["judge"]
    if judge_cells.dtype in (pl.List, pl.Array):
        frame = frame.with_columns(
            judge=judge_cells.list.first() if judge_cells.dtype == pl.List else judge_cells.arr.first()
        )
    judge_labels = label_column(frame, "judge", where=where)
    return judge_labels.replace(
        {
            judge_label: _judge_name(judge_label, where=where)
            for judge_label in judge_labels.unique()
            if judge_label.startswith("[")
        }
    ).alias("rater")


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


MTBENCH = TableReader(name="mtbench", columns=(PAIR, SINGLE), make=read_mtbench)


def read_arenahard(frame: pl.DataFrame, *, where: str, invalid: Invalid) -> Study:
    """A study with the verdicts of a judge, given in both orders of the two answers. The baseline is A in the first
    game and B in the second game.

    A strong verdict (A>>B) counts as one win. A game without a score comes from a reply that could not be parsed. A
    game that is null has no verdict.
    """
    question_column_name = fitting_columns(frame, ARENAHARD_COLUMNS, where=where)[0]
    has_baseline_column = BASELINE in frame.columns
    judgment_rows = pl.DataFrame(
        [
            pl.Series("row", range(1, frame.height + 1)),
            label_column(frame, question_column_name, where=where).alias("item"),
            label_column(frame, "model", where=where).alias("system_a"),
            label_column(frame, BASELINE, where=where).alias("system_b")
            if has_baseline_column
            else pl.Series("system_b", [BASELINE] * frame.height),
            read_judges(frame, where=where),
        ]
    )
    game_table = pl.DataFrame(
        list(_games(frame["games"], where=where)),
        schema={"row": pl.Int64, "order": pl.String, "verdict": pl.String},
        orient="row",
    )
    if game_table.is_empty():
        raise InputError(f"{where}: no row has a game; give a file of judgments with 'games'")
    preference_signs = look_up(
        normalise_words(game_table["verdict"]),
        {word: sign for word, sign in UNSURE.items() if not {"<", ">"}.isdisjoint(word)} | dict.fromkeys(TIES, 0.0),
    )
    game_table = game_table.with_columns(
        preference=pl.when(pl.col("order") == "ba").then(-preference_signs).otherwise(preference_signs)
    )
    baseline_message = (
        f"{where}: the log does not name the baseline (gpt-4-0314 by default), which is called {BASELINE!r} here"
    )
    return log_study(
        judgment_rows.join(game_table, on="row", maintain_order="left"),
        where=where,
        invalid=invalid,
        allowed="A>>B, A>B, A=B, B>A, B>>A, null",
        failure_code=NO_SCORE,
        items=judgment_rows.select("item", label_column(frame, "category", where=where, empty=True).alias("group")),
        kind="metric",
        notes=build_notes(("baseline-unnamed", not has_baseline_column, baseline_message)),
    )


def _games(game_cells: pl.Series, *, where: str) -> Iterator[tuple[int, str, str]]:
    """The row, order and verdict of each game. The baseline (system_b) is shown first in games 1, 3 and so on."""
    for row_number, game_cell in enumerate(game_cells, start=1):
        games: Any = (
            parse_json(game_cell, where=f"{where}, row {row_number}") if isinstance(game_cell, str) else game_cell
        )
        if games is None:
            continue
        if not isinstance(games, Sequence | pl.Series) or not all(isinstance(game, dict | None) for game in games):
            raise InputError(f"{where}: games of row {row_number} are not a list of objects with 'score'")
        for game_index, game in enumerate(games):
            if game is not None and "score" not in game:
                raise InputError(
                    f"{where}: game {game_index + 1} of row {row_number} has no 'score'; keys: {join_labels(game)}"
                )
            verdict_word = "" if game is None else game["score"]
            yield row_number, "ab" if game_index % 2 else "ba", NO_SCORE if verdict_word is None else str(verdict_word)


ARENAHARD = TableReader(name="arenahard", columns=ARENAHARD_COLUMNS, make=read_arenahard)


def read_llmbar(frame: pl.DataFrame, *, where: str, invalid: Invalid) -> Study:
    """A study of verdicts. The item is dataset/item, the rater is judge/prompt, and the human rater is called gold.

    All columns of winners refer to the original order, because LLMBar converts the winner of the swapped order.
    """
    check_columns(frame, where=where, required=LLMBAR_COLUMNS, optional=("repeat",))
    raw_judgment_rows = pl.DataFrame(
        [
            label_column(frame, column_name, where=where, empty=column_name == "repeat")
            for column_name in (*LLMBAR_COLUMNS[:4], "repeat")
        ]
    )
    check_unique(
        raw_judgment_rows,
        raw_judgment_rows.columns,
        where=where,
        what="judgment",
        hint="number the runs of a judge in a column 'repeat', or remove the duplicate row",
    )
    judgment_key_rows = raw_judgment_rows.select(
        item=pl.concat_str("dataset", "item", separator="/"),
        system_a=pl.lit("output_1"),
        system_b=pl.lit("output_2"),
        rater=pl.concat_str("judge", "prompt", separator="/"),
        repeat="repeat",
        row=pl.int_range(1, pl.len() + 1),
    )
    order_tables = [
        judgment_key_rows.with_columns(
            order=pl.lit(order), verdict=label_column(frame, column_name, where=where, empty=True)
        )
        for column_name, order in ORDERS.items()
    ]
    gold_labels = label_column(frame, "gold", where=where)
    refuse_values(gold_labels, ~gold_labels.is_in(list(WINNERS)), where=where, allowed="1, 2")
    gold_rows = judgment_key_rows.with_columns(
        verdict=gold_labels.str.slice(0, 1), rater=pl.lit(GOLD), repeat=pl.lit("0"), order=pl.lit("")
    ).select(order_tables[0].columns)
    refuse(
        gold_rows.select(pl.col("verdict") != pl.col("verdict").first().over("item")).to_series(),
        lambda row_numbers, row_index: (
            f"{where}: item {gold_rows['item'][row_index]!r} has a different gold label in row {row_numbers}; give "
            "each item one gold label"
        ),
    )
    verdict_table = pl.concat([*order_tables, gold_rows.unique("item", keep="first", maintain_order=True)])
    verdict_table = verdict_table.with_columns(preference=look_up(verdict_table["verdict"], WINNERS))
    preferences, notes = read_verdicts(
        verdict_table, where=where, allowed="1 (output_1), 2 (output_2)", invalid=invalid
    )
    item_table = pl.DataFrame(
        [judgment_key_rows["item"], raw_judgment_rows["dataset"].alias("group"), raw_judgment_rows["dataset"]]
    )
    judge_names = judgment_key_rows["rater"].unique(maintain_order=True)  # with a slash, so never GOLD
    return Study(
        preferences=preferences,
        raters=Raters.infer({GOLD: "human", **dict.fromkeys(judge_names, "metric")}),
        items=Items.make(item_table.unique(maintain_order=True), where=where)[0],
        notes=tuple(notes),
        name=where,
        sides=True,
    )


LLMBAR = TableReader(name="llmbar", columns=(LLMBAR_COLUMNS,), make=read_llmbar)
