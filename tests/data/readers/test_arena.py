"""Battles of Chatbot Arena and MT-bench in the layouts of their data cards."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import custodes as cu
from custodes.data.reading import read
from custodes.errors import InputError, OptionError
from custodes.evaluate.annotators.annotator_answers import persons
from custodes.evaluate.slices import values_of
from tests.data.input_errors import reading_error
from tests.data.study_parts import note_counts, note_messages, outputs_of


def talk(*texts: str) -> list[dict[str, str]]:
    return [{"role": "user" if k % 2 == 0 else "assistant", "content": text} for k, text in enumerate(texts)]


ARENA = {
    "question_id": ["aa1", "bb2", "cc3", "dd4"],
    "model_a": ["Aster", "Birch", "Aster", "Cedar"],
    "model_b": ["Birch", "Cedar", "Cedar", "Cedar"],
    "winner": ["model_a", "model_b", "tie (bothbad)", "tie"],
    "judge": ["arena_user_9", "arena_user_10", "arena_user_9", "arena_user_3"],
    "conversation_a": [talk("sing", "la"), talk("count", "1"), talk("rhyme", "-"), talk("x", "y")],
    "conversation_b": [talk("sing", "do"), talk("count", "2"), talk("rhyme", "?"), talk("x", "y")],
    "turn": [1, 1, 1, 1],
    "anony": [True] * 4,
    "language": ["English", "English", "German", "German"],
    "tstamp": [1.5, 2.5, 3.5, 4.5],
}


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_arena_conversations(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"battles{suffix}"
    frame = pl.DataFrame(ARENA)
    (frame.write_parquet if suffix == ".parquet" else frame.write_ndjson)(path)
    study = read(path)
    assert study.preferences.frame.select("item", "system_a", "system_b", "rater", "order", "preference").rows() == [
        ("aa1", "Aster", "Birch", "arena_user", "", 1),
        ("bb2", "Birch", "Cedar", "arena_user", "", -1),
        ("cc3", "Aster", "Cedar", "arena_user", "", 0),
    ]
    assert study.raters.kind == {"arena_user": "human"}
    assert note_messages(study) == {
        "users-together": "3 users of the arena are treated as one rater, 'arena_user'",
        "both-bad": '1 verdicts "both bad" count as ties',
        "system-with-itself": "1 verdicts compare a system with itself and are excluded",
    }
    assert persons(study, ("arena_user",), "auto") == (frozenset(), [])
    assert study.items.frame["group"].to_list()[:3] == ["English", "English", "German"]
    assert outputs_of(study).texts.filter(item="bb2").select("system", "text").rows() == [
        ("Birch", "1"),
        ("Cedar", "2"),
    ]
    assert outputs_of(study).sources["source"].to_list() == ["sing", "count", "rhyme", "x"]


def test_arena_140k_has_an_id_parts_and_no_judge() -> None:
    part = {"type": "text", "text": "la", "image": None, "mimeType": None}
    conversation = [{"role": "user", "content": [part | {"text": "sing"}]}, {"role": "assistant", "content": [part]}]
    frame = pl.DataFrame(
        {
            "id": ["v1", "v2"],
            "model_a": "Aster",
            "model_b": "Birch",
            "winner": ["both_bad", "model_b"],
            "evaluation_order": [1, 2],
            "conversation_a": [conversation, conversation],
            "conversation_b": [conversation, conversation],
            "language": ["en", "en"],
        }
    )
    study = read(frame)
    assert study.preferences.frame["preference"].to_list() == [0, -1]
    assert study.raters.kind == {"human": "human"}
    (message,) = [note.message for note in study.notes if note.rule == "rater-assumed"]
    assert message.endswith(": there is no column 'judge', so all verdicts are attributed to one annotator, 'human'")
    assert set(outputs_of(study).texts["text"]) == {"la"}


def test_arena_55k_says_the_winner_in_three_columns() -> None:
    frame = pl.DataFrame(
        {
            "id": [30192, 53567, 65089, 96401],
            "model_a": "Aster",
            "model_b": "Birch",
            "prompt": '["sing","louder"]',
            "response_a": '["la","LA"]',
            "response_b": '["do",null]',
            "winner_model_a": [1, 0, 0, 1],
            "winner_model_b": [0, 1, 0, 1],
            "winner_tie": [0, 0, 1, 0],
        }
    )
    with pytest.raises(InputError, match=r"1 of 4 verdicts cannot be read \('1/1/0' in row 4\)"):
        read(frame)
    study = read(frame.head(3))
    assert study.preferences.frame["preference"].to_list() == [1, -1, 0]
    assert outputs_of(study).texts.filter(item="30192")["text"].to_list() == ["la\n\nLA", "do\n\n"]
    assert outputs_of(study).sources["source"].to_list() == ["sing\n\nlouder"] * 3


def mt_bench(judge: list[object], winner: list[str], turn: list[int]) -> pl.DataFrame:
    conversation = talk("sing", "la", "louder", "LA")
    n = len(turn)
    return pl.DataFrame(
        {
            "question_id": [81] * n,
            "model_a": ["Aster"] * n,
            "model_b": ["Birch"] * n,
            "winner": winner,
            "judge": judge,
            "conversation_a": [conversation] * n,
            "conversation_b": [talk("sing", "do", "louder", "DO")] * n,
            "turn": turn,
        }
    )


@pytest.mark.parametrize("judge", ["gpt4_pair", ["gpt-4", "pair-v2"], '["gpt-4", "pair-v2"]'])
def test_mt_bench_people_meet_the_judge_in_each_turn(judge: object) -> None:
    human_battles = mt_bench(["expert_3", "author_1", "expert_3"], ["model_a", "tie", "model_b"], [1, 1, 2])
    study = read(human_battles, mt_bench([judge] * 2, ["model_a", "model_a"], [1, 2]))
    name = "gpt4_pair" if judge == "gpt4_pair" else "gpt-4"
    assert study.raters.kind == {"expert_3": "human", "author_1": "human", name: "metric"}
    assert study.preferences.frame.filter(rater=name)["item"].to_list() == ["81/turn 1", "81/turn 2"]
    assert study.items.frame.select("item", "cluster").rows() == [("81/turn 1", "81"), ("81/turn 2", "81")]
    assert outputs_of(study).texts.filter(system="Aster")["text"].to_list() == ["la", "LA"]
    metrics = cu.agreement(study, resamples=0).metrics
    assert metrics["n"].to_list() == [2]


def test_other_words_and_orders_are_read_as_in_battles() -> None:
    frame = pl.DataFrame({"id": [1, 1], "model_a": "Aster", "model_b": "Birch", "winner": ["left", "left"], "turn": 1})
    study = read(frame.with_columns(order=pl.Series(["original", "swapped"]), judge=pl.lit("gpt-4o")))
    assert study.preferences.frame.select("order", "preference").rows() == [("ab", 1), ("ba", -1)]
    named = frame.with_columns(winner=pl.lit("A"), order=pl.Series(["original", "swapped"]), judge=pl.lit("gpt-4o"))
    assert note_messages(read(named)) == {
        "place-or-column": "winner A is read as the name of a column, not as a position on the screen (0 % of "
        "comparisons have contradictory verdicts if the cells mean columns, and 100 % if the cells mean the "
        "position); if a "
        "position is meant, write left or right"
    }


OWN = pl.DataFrame(
    {"question_id": [k // 2 for k in range(8)], "model_a": "Aster", "model_b": "Birch", "winner": ["A", "B"] * 4}
)
HALVES = {
    "rater": ["gpt-4", "claude"],
    "annotator": ["ann", "bob"],
    "evaluator": ["gpt-4", "claude"],
    "position": ["AB", "BA"],
    "is_swapped": ["False", "True"],
}


@pytest.mark.parametrize("column", list(HALVES))
def test_battles_of_ones_own_are_not_taken_for_the_arenas(column: str) -> None:
    judge = {} if column in ("rater", "annotator", "evaluator") else {"judge": pl.lit("gpt-4")}
    frame = OWN.with_columns(pl.Series(column, HALVES[column] * 4), **judge)
    with pytest.raises(InputError, match="match no reader; try --column item=question_id") as error:
        read(frame)
    role = "order" if judge else "rater"
    assert column == "rater" or f"--column {role}={column}" in str(error.value)
    assert read(frame, columns={"item": "question_id", role: column}).preferences.frame["repeat"].unique().item() == "0"


def test_mapped_raters_of_the_arena_are_separate_raters() -> None:
    frame = pl.DataFrame(ARENA)
    study = read(frame, columns={"rater": "judge"})
    assert study.raters.kind == {"arena_user_9": "human", "arena_user_10": "human"}
    assert study.preferences.frame["rater"].to_list() == ["arena_user_9", "arena_user_10", "arena_user_9"]
    assert outputs_of(study).texts.height == 7
    plain = frame.with_columns(conversation_a=pl.lit("x"), conversation_b=pl.Series(["y", "", None, "x"]))
    texts = outputs_of(read(plain, columns={"rater": "judge"})).texts
    assert texts.rows() == [
        ("aa1", "Aster", "x"),
        ("aa1", "Birch", "y"),
        ("bb2", "Birch", "x"),
        ("cc3", "Aster", "x"),
        ("dd4", "Cedar", "x"),
    ]
    voters = frame.rename({"judge": "voter"}).with_columns(voter=pl.Series(["Ann", "Bo", "Ann", "gpt-4"]))
    study = read(voters, columns={"rater": "voter"})
    assert study.raters.kind == {"Ann": "human", "Bo": "human"}
    assert "annotators-by-column" in note_counts(study)
    assert reading_error(frame.with_columns(rater=pl.lit("x"))) == (
        "table: columns 'judge' and 'rater' have the same meaning; remove one"
    )


@pytest.mark.parametrize("column", ["aspect", "repeat"])
def test_what_the_arena_does_not_say_is_not_read_past(column: str) -> None:
    frame = pl.DataFrame(ARENA).with_columns(pl.lit("x").alias(column))
    with pytest.raises(
        InputError, match=r"^table: columns question_id, .* and 4 more match no reader; the most similar"
    ):
        read(frame)


def test_doubled_rows_are_repeats_unless_an_order_is_declared() -> None:
    frame = OWN.with_columns(turn=pl.lit(1), judge=pl.lit("gpt-4"))
    assert note_messages(read(frame)) == {
        "repeats": "4 further verdicts of the same rater, item and order are read as repeats"
    }
    study = read(frame.with_columns(ord=pl.int_range(8) % 2), columns={"order": "ord"})
    assert study.preferences.frame["order"].to_list() == ["ab", "ba"] * 4


def test_a_number_of_the_row_is_told_of_where_the_input_comes_again() -> None:
    frame = OWN.rename({"question_id": "query"}).with_columns(id=pl.int_range(8), judge=pl.lit("gpt-4"))
    notes = {note.rule: note.message for note in read(frame.with_columns(turn=pl.lit(1))).notes}
    assert notes["item-in-each-row"] == (
        "table: id differs in every row, but values of 'query' repeat; if 'query' is the cluster, try --column "
        "cluster=query"
    )
    clustered = read(frame.with_columns(turn=pl.lit(1)), columns={"cluster": "query"})
    assert clustered.items.frame["cluster"].n_unique() == 4


def test_a_property_of_questions_is_read_by_the_option_that_the_message_names() -> None:
    study = read(pl.DataFrame(ARENA).with_columns(topic=pl.Series(["a", "b", "a", "b"])))
    with pytest.raises(OptionError, match="--column group=topic and set by='group'"):
        values_of(study, pl.DataFrame({"item": ["1"]}), "topic")
    frame = OWN.with_columns(turn=pl.Series([1, 2] * 4), topic=pl.Series(["x"] * 8))
    items = read(frame, columns={"group": "topic"}).items.frame
    assert items.select("item", "cluster", "group").row(0) == ("0/turn 1", "0", "x")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"conversation_a": ['[{"role": 1', "", "", ""]},
            "table, row 1: malformed JSON at column 12: Expecting ',' delimiter",
        ),
        (
            {"conversation_a": ["[[3]]", "", "", ""]},
            "table, row 1: a conversation must be a text or a list of {role, content}",
        ),
        ({"judge": ["[]", "x", "x", "x"]}, "table: judge '[]' is neither a name nor a list that starts with a name"),
        (
            {"winner": ["me", "model_a", "model_a", "tie"]},
            "table: 1 of 3 verdicts cannot be read ('me' in row 1); allowed: model_a, model_b, tie, both_bad, A, "
            "B, C, 1, 2, left, right, the name of a system (full list: documentation, data), or empty; that is "
            "33.3 % of the file, but invalid='drop' allows at most 5 % per file and rater; correct these "
            "verdicts, or drop all of them with --invalid force (in Python invalid='force')",
        ),
        ({"question_id": ["", "1", "2", "3"]}, "table: column 'question_id' is empty in row 1; fill in a label"),
    ],
)
def test_a_broken_file_is_one_line(changes: dict[str, list[str]], message: str) -> None:
    assert reading_error(pl.DataFrame(ARENA | changes)) == message
