"""Exact match and token F1 agree with the evaluation scripts of SQuAD 1.1 and 2.0."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given as drawn_from
from hypothesis import strategies as st

from tests.scoring.metrics.given import LINES, pairs, scored, texts


def test_case_punctuation_and_articles_do_not_count() -> None:
    rows = [
        ("The Eiffel Tower!", ["eiffel tower"]),
        ("eiffel  tower", ["The Eiffel\nTower."]),
        ("Eiffel", ["Eiffel Tower"]),
        ("theatre", ["atre"]),  # articles are separate words
        ("1,000", ["1000"]),
    ]
    assert pairs("exact", rows) == [1, 1, 0, 0, 1]
    assert pairs("f1", rows) == [1, 1, pytest.approx(2 / 3), 0, 1]
    assert pairs("exact", [("The who", ["who"])], articles=True) == [0]


def test_the_best_of_several_right_answers() -> None:
    rows = [("in 1889", ["1888", "1889", "in the year 1889"])]
    assert pairs("exact", rows) == [0]
    assert pairs("f1", rows) == [pytest.approx(4 / 5)]


def test_a_question_without_an_answer_has_an_empty_reference() -> None:
    # SQuAD 2.0: an empty answer is correct for unanswerable questions and wrong for others; an article alone is empty.
    rows = [("", [""]), ("Paris", [""]), ("", ["Paris"]), ("the", [""]), ("", ["Paris", ""])]
    assert pairs("exact", rows) == [1, 0, 0, 1, 1]
    assert pairs("f1", rows) == [1, 0, 0, 1, 1]


def test_words_that_stand_often_count_often() -> None:
    assert pairs("f1", [("b b b c", ["b b d"])]) == [pytest.approx(2 * 2 / 7)]


def plainly(output: str, reference: str) -> float:
    """F1 from precision and recall, word by word."""
    words = []
    for text in (output, reference):
        plain = "".join(letter for letter in text.lower() if letter not in string.punctuation)
        words.append(re.sub(r"\b(a|an|the)\b", " ", plain).split())
    output_words, right = words
    if not output_words or not right:
        return float(output_words == right)
    left = list(right)
    common = 0
    for word in output_words:
        if word in left:
            left.remove(word)
            common += 1
    if not common:
        return 0.0
    precision, recall = common / len(output_words), common / len(right)
    return 2 * precision * recall / (precision + recall)


@drawn_from(rows=st.lists(st.tuples(LINES, LINES), min_size=1, max_size=6))
def test_f1_of_any_text_word_by_word(rows: list[tuple[str, str]]) -> None:
    result = pairs("f1", [(output, [reference]) for output, reference in rows])
    assert result == [pytest.approx(plainly(*row)) for row in rows]
    turned = pairs("f1", [(reference, [output]) for output, reference in rows])
    assert turned == pytest.approx(result)


def test_columns_follow_the_references() -> None:
    result = scored("exact", texts([["a1", "b1"], ["b1"]], [["b1"], ["a1", "b1", "c1"]]))
    assert result.values[:, 0].tolist() == [0, 1, 0]
    assert result.values[2].tolist() == [0, 1, 0]
