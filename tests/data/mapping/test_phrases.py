"""Verdicts as phrases: patterns of a mapping, and patterns that an error proposes."""

from __future__ import annotations

import polars as pl
import pytest

import custodes as cu
from custodes.data.mapping.phrases import compile_phrases, propose_phrases, read_phrases
from tests.data.mapping.tables import proposed
from tests.data.study_parts import note_counts
from tests.messages import exactly

PHRASES = [
    "Answer 1 wins, since it is short.",
    "2: it is clear",
    "Neither; equally good.",
    "B",
    "Hard to say, this one.",
]


@pytest.mark.parametrize(
    ("phrase", "words"),
    [
        ("Answer {winner} wins*|{winner}:*|{tie:*equally*,*same*}", ["1", "2", "tie", "B", ""]),
        ("Answer {position} wins*", ["left", "", "", "right", ""]),
        ("Answer {position} wins*|{winner}:*", ["left", "2", "", "right", ""]),
        ("{tie:neither*}", ["", "", "tie", "B", ""]),
    ],
)
def test_phrases_are_read_by_patterns(phrase: str, words: list[str]) -> None:
    preferences, reason, notes = read_phrases(pl.Series(PHRASES), phrase, system_names=["Aster"], where="v.csv")
    assert preferences.to_list() == words
    assert reason.to_list() == ["unreadable" if not word else "" for word in words]
    unread = " 1, ".join(cell[:40] for cell, word in zip(PHRASES, words, strict=True) if not word)
    (note,) = notes
    assert note.count == words.count("")
    message = f"v.csv: {note.count} verdicts match no pattern of phrases and count as not rated ({unread} 1)"
    assert note.message == message


def test_double_braces_are_literal() -> None:
    for text, cell in (('{{"verdict": "{winner}"}}', '{"verdict": "B"}'), ("{{{winner}}}", "{A}")):
        ((kind, pattern),) = compile_phrases(text)
        match = pattern.fullmatch(cell)
        assert kind == "winner"
        assert match is not None
        assert match[1] in "AB"


def test_the_name_of_a_system_is_a_word_and_another_word_is_none() -> None:
    cells = pl.Series(["I prefer Aster-2 here.", "I prefer neither here.", "I prefer prose here.", None])
    preferences, _, _ = read_phrases(cells, "I prefer {winner} here.", system_names=["Aster-2", "Birch"], where="v.csv")
    assert preferences.to_list() == ["Aster-2", "neither", "", ""]


AB = ["Output A is better.", "Output B is better."]
TIE = "{tie:*equally*,*a tie*,*no difference*,*no preference*,*the same*}"


@pytest.mark.parametrize(
    ("phrase", "cells"),
    [
        (
            f"*{{winner}} is better*|{TIE}",
            [
                *(["Response A is better."] * 4 + ["Response B is better because of its end."] * 4),
                *["They are equally good."] * 2,
            ],
        ),
        ("*[[{winner}]]*", ["First some thoughts. So: [[A]]", "Other thoughts.\n[[B]]", "Much more. [[A]] indeed"]),
        ("*prefer {winner}*", ["I prefer 1", "X: I prefer 2, as it is longer", "I prefer 1!"]),
        ("*{winner} is better*", [f"I read both. {cell}" for cell in AB]),
        ("{winner}:*", ["A: yes.", "'b': no", "B: so", "(A): perhaps"]),
        ("{winner}.*", ["A. Yes.", "B. No."]),
        ("", ["Summary A is worse than the other.", "Summary B is worse than the other.", "It depends."]),
        ("", [AB[0]] * 3),  # one word
        ("", [AB[0], "They are equally good."]),  # one word and ties
        ("", [AB[0], "Output D is better."]),
        ("*{winner} is better*", [*AB, "It depends.", "Hard to say."]),  # half of the cells
        ("", [*AB, "It depends.", "Hard to say.", "No idea."]),
        ("*{winner} is better*", [*AB, "B", "It depends.", "Hard to say.", None]),  # a word needs no pattern
        (f"*{{winner}} is better*|{TIE}", [*AB * 3, "Here is a tie.", "No difference here."]),
    ],
)
def test_common_patterns_are_proposed_if_they_read_the_cells(phrase: str, cells: list[str | None]) -> None:
    assert propose_phrases(pl.Series(cells)) == phrase
    assert propose_phrases(pl.Series(cells), "position") == phrase.replace("winner", "position")


def verdicts(cells: list[str], **more: object) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "topic_id": [k // 2 for k in range(len(cells))],
            "system_1": "Aster",
            "system_2": "Birch",
            "reply": cells,
            **more,
        }
    )


def test_a_table_of_phrases_answers_with_a_mapping_that_reads_it() -> None:
    frame = verdicts(
        ["A: it is clear.", "B: it is short."] * 3 + ["A: yes.", "No idea."], swapped=[0, 1] * 4, judge="gpt"
    )
    with pytest.raises(cu.InputError) as error:
        cu.read(frame)
    assert "--column order=swapped --column 'phrase={position}:*'" in str(error.value)
    study = cu.read(frame, columns=proposed(frame))
    assert study.preferences.frame["preference"].to_list() == [1] * 7  # the position displayed to the judge
    assert note_counts(study)["unread-phrases"] == 1
    assert study.preferences.missing["why"].to_list() == ["unreadable"]
    long_cells = frame.with_columns(pl.col(pl.String).replace("No idea.", f"No idea. {'x' * 60}"))
    (message,) = [note.message for note in cu.read(long_cells, columns=proposed(frame)).notes if "phrases" in note.rule]
    assert message.endswith(f"(No idea. {'x' * 31} 1)")


@pytest.mark.parametrize(
    "phrase", ["no placeholder", "{winner} or {position}", "{winner}*|{what}", "{winner} of {what}"]
)
def test_patterns_that_are_none(phrase: str) -> None:
    roles = {"item": "topic_id", "system_a": "system_1", "system_b": "system_2", "winner": "reply"}
    with pytest.raises(cu.OptionError) as error:
        cu.read(verdicts(["A", "B"]), columns={**roles, "phrase": phrase})
    assert f"phrase={phrase.split('|')[-1]!r}: give one of {{winner}}, {{position}} and {{tie:GLOB}}" in str(
        error.value
    )
    with pytest.raises(
        cu.OptionError,
        match=exactly("columns: phrase needs a column of winners; map winner to the column with the phrases"),
    ):
        cu.read(verdicts(["A", "B"]), columns={"phrase": "{winner}"})
