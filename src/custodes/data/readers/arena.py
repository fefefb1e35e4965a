"""Published battles of Chatbot Arena and MT-bench. A battle is a verdict of a human or a judge on two conversations.

The layouts are those of the data cards on huggingface.co: lmsys/chatbot_arena_conversations,
lmsys/mt_bench_human_judgments (splits human and gpt4_pair), lmarena-ai/arena-human-preference-100k and -140k, and
lmsys/lmsys-arena-human-preference-55k (winner in three columns).
"""

from __future__ import annotations

from itertools import chain

import polars as pl

from custodes.data.mapping.column_vocabulary import kind_of_label
from custodes.data.notes import Note, build_notes
from custodes.data.raters import rater_kinds
from custodes.data.readers.battles import interpret_verdicts, item_per_row_notes, one_annotator_notes
from custodes.data.readers.judge_logs import read_items, read_judges
from custodes.data.readers.outputs import build_outputs, parse_messages, role_text
from custodes.data.readers.reader import Invalid, TableReader
from custodes.data.readers.verdict_words import without_empty
from custodes.data.readers.verdicts import log_study
from custodes.data.study import Study
from custodes.data.table import fitting_columns, label_column, unused_columns
from custodes.errors import InputError

PAIR = ("model_a", "model_b")
ONE_HOT = {"winner_model_a": "model_a", "winner_model_b": "model_b", "winner_tie": "tie"}
COLUMNS = (
    ("question_id", *PAIR, "winner"),
    ("id", *PAIR, "winner"),
    ("id", *PAIR, *ONE_HOT),
)
MARKS = (
    *("conversation_a", "conversation_b", "response_a", "response_b", "conv_metadata", "full_conversation"),
    *("turn", "anony", "language", "tstamp", "winner_tie"),
)
"""Columns that identify files of Arena and MT-bench."""

USED_COLUMNS = (*PAIR, *ONE_HOT, "winner", "judge", "rater", "kind", "order", "prompt")
METADATA = (
    *("timestamp", "evaluation_session_id", "evaluation_order", "openai_moderation", "toxic_chat_tag", "redacted"),
    *("category_tag", "is_code", "is_refusal", "dedup_tag", "judge_hash"),
)
"""Columns of the published files that are ignored without a note."""

CONVERSATIONS = ("conversation_a", "conversation_b"), ("response_a", "response_b")
USERS = "arena_user"
USERS_TOGETHER = "users-together"
"""The note on users of the arena, who are treated as one rater."""


def read_arena(frame: pl.DataFrame, *, where: str, invalid: Invalid) -> Study:
    """A study of verdicts. The item is the question, and the group is the language. In MT-bench, the item is question
    and turn, and the cluster is the question.

    The kind of a judge follows from its label (`kind_of_label`). Each user of the arena gives one or two verdicts, so
    all users are treated as one rater, `arena_user`. Without a column `judge`, all verdicts are treated as verdicts of
    one annotator. If the table has a column `rater` in place of `judge`, its values are the raters, and users are
    separate raters. Texts are the answers of the models. The presentation order is unknown, because these files do not
    record the order.
    """
    question_column_name = fitting_columns(frame, COLUMNS, where=where)[0]
    unused_column_names = frame.drop(question_column_name, *USED_COLUMNS, *MARKS, *METADATA, strict=False).columns
    # In files of Arena, `turn` is the length of the conversation; in MT-bench, it is the rated turn.
    has_rated_turn = {"anony", "language", "conv_metadata"}.isdisjoint(frame.columns)
    item_table = read_items(frame, where=where, question_column_name=question_column_name, has_turns=has_rated_turn)
    rater_series, notes = _raters(frame, where=where)
    kind_of_rater = rater_kinds(frame.with_columns(rater_series), where=where) if "kind" in frame.columns else {}
    verdict_cells = _decode_one_hot(frame, where=where) if "winner" not in frame.columns else frame["winner"]
    verdict_cells = label_column(frame.with_columns(winner=verdict_cells), "winner", where=where, empty=True)
    verdict_table = pl.DataFrame(
        [
            item_table["item"],
            *(label_column(frame, column_name, where=where).alias(f"system_{column_name[-1]}") for column_name in PAIR),
            rater_series,
            without_empty(verdict_cells).alias("verdict"),
        ]
    )
    verdict_rows, order_notes = interpret_verdicts(verdict_table, frame, where=where, verdict_column_name="winner")
    notes += [
        *build_notes(unused_columns(unused_column_names, where=where)),
        *item_per_row_notes(frame, question_column_name, [*unused_column_names, "prompt"], where=where, role="cluster"),
    ]
    turn_labels = label_column(frame if has_rated_turn else frame.select(PAIR), "turn", where=where, empty=True)
    text_tuples, source_tuples = _texts(
        frame, verdict_table, turn_labels.cast(pl.Int64, strict=False).fill_null(0), where=where
    )
    return log_study(
        verdict_rows,
        where=where,
        invalid=invalid,
        items=item_table.with_columns(label_column(frame, "language", where=where, empty=True).alias("group")),
        kind=lambda rater: kind_of_rater.get(rater) or kind_of_label(rater),
        outputs=build_outputs(text_tuples, source_tuples, where=where)[0],
        notes=[*notes, *order_notes],
    )


def _raters(frame: pl.DataFrame, *, where: str) -> tuple[pl.Series, list[Note]]:
    """The raters, and notes on the raters."""
    if {"judge", "rater"} <= set(frame.columns):
        raise InputError(f"{where}: columns 'judge' and 'rater' have the same meaning; remove one")
    if "rater" in frame.columns:
        return read_judges(frame.rename({"rater": "judge"}), where=where), []
    if "judge" not in frame.columns:
        return pl.Series("rater", ["human"] * frame.height), one_annotator_notes(
            frame, where=where, missing_column_name="judge"
        )
    judge_names = read_judges(frame, where=where)
    is_arena_user = judge_names.str.starts_with(f"{USERS}_")
    n_users = judge_names.filter(is_arena_user).n_unique()
    return judge_names.set(is_arena_user, USERS), build_notes(
        (USERS_TOGETHER, n_users, f"{where}: {n_users} users of the arena are treated as one rater, {USERS!r}")
    )


def _decode_one_hot(frame: pl.DataFrame, *, where: str) -> pl.Series:
    """The winner, from three columns of 0 and 1. If not exactly one cell is 1, the result is a text such as '1/1/0'."""
    flag_texts = (
        pl.DataFrame([label_column(frame, column_name, where=where, empty=True) for column_name in ONE_HOT])
        .select(pl.concat_str(pl.all(), separator="/"))
        .to_series()
    )
    return flag_texts.replace(dict(zip(("1/0/0", "0/1/0", "0/0/1"), ONE_HOT.values(), strict=True))).alias("winner")


def _texts(
    frame: pl.DataFrame, verdict_table: pl.DataFrame, turn_numbers: pl.Series, *, where: str
) -> tuple[list[tuple[str, str, str | None]], list[tuple[str, str | None, list[str]]]]:
    """The texts (item, system, text) and the sources (item, source, no references) of the rows with conversations."""
    conversation_column_names = next(
        (name_pair for name_pair in CONVERSATIONS if set(name_pair) <= set(frame.columns)), None
    )
    if conversation_column_names is None:
        return [], []
    text_tuples: list[tuple[str, str, str | None]] = []
    source_tuples: list[tuple[str, str | None, list[str]]] = []
    prompt_cells = frame["prompt"] if "prompt" in frame.columns else [None] * frame.height
    row_tuples = zip(
        *(verdict_table[column_name] for column_name in ("item", "system_a", "system_b")),
        turn_numbers,
        *(frame[column_name] for column_name in conversation_column_names),
        prompt_cells,
        strict=True,
    )
    for row_number, (item, first_system, second_system, turn_number, *conversation_cells, prompt_cell) in enumerate(
        row_tuples, start=1
    ):
        conversation_turn_lists = [
            parse_messages(conversation_cell, where=f"{where}, row {row_number}")
            for conversation_cell in conversation_cells
        ]
        text_tuples += [
            (item, system, role_text(conversation_turns, "assistant", turn_number))
            for system, conversation_turns in zip((first_system, second_system), conversation_turn_lists, strict=True)
        ]
        prompt_turns = [("user", text) for _, text in parse_messages(prompt_cell, where=f"{where}, row {row_number}")]
        source_tuples.append(
            (item, role_text(list(chain(prompt_turns, conversation_turn_lists[0])), "user", turn_number), [])
        )
    return text_tuples, source_tuples


READER = TableReader(
    name="arena",
    columns=COLUMNS,
    make=read_arena,
    absent=("item", "prompt_id", "aspect", "repeat"),  # columns of other tables of battles
    marks=MARKS,
)
