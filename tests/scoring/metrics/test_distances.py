"""WER and edit distance agree with their definitions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given as drawn_from

from custodes.scoring.metrics.distances import NO_WORDS
from tests.scoring.metrics.given import LINES, pairs, scored, texts


def changes(first: Sequence[str], second: Sequence[str]) -> int:
    """Levenshtein distance, row by row of the table."""
    row = list(range(len(second) + 1))
    for i, value in enumerate(first, start=1):
        before, row[0] = row[0], i
        for j, their in enumerate(second, start=1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (value != their))
    return row[-1]


def test_word_errors_as_jiwer_divides_them() -> None:
    rows = [
        ("the cat sat", ["the cat sat"]),
        ("the cat", ["the cat sat down"]),  # 2 deletions of 4
        ("", ["the cat"]),
        ("The cat sat", ["the cat"]),  # case matters; one insertion
        ("a b c d e", ["x"]),
    ]
    assert pairs("wer", rows) == [0, 0.5, 1, 1, 5]
    assert pairs("wer", rows[3:4], lowercase=True) == [0.5]
    assert pairs("wer", [("cat", ["cut"])], tokenize="characters") == [pytest.approx(1 / 3)]  # CER
    assert pairs("wer", [("a b", ["c d", "a c", "x y z"])]) == [0.5]  # the minimum over references


def test_a_reference_without_words() -> None:
    result = scored("wer", texts([["a"], ["a"]], [[" "], ["a"]]))
    assert result.why == {0: NO_WORDS}
    assert np.isnan(result.values[0, 0])
    assert result.values[1, 0] == 0


def test_errors_of_a_system_are_added_before_they_are_divided() -> None:
    inputs = texts(
        [["a b c d", "x"], ["x", "f"], ["g", ""]], [["a b c d", "a b"], ["e f", "e f g h"], ["g h i j", "g h"]]
    )
    result = scored("corpus-wer", inputs)
    assert result.values.shape == (6, 0)
    assert result.systems is not None
    # System 0: 0 of 4, 2 of 2, 1 of 2 (the closest reference); system 1: 2 of 2, 1 of 2, 2 of 2.
    assert result.systems.tolist() == [3 / 8, 5 / 6]
    empty = scored("corpus-wer", texts([["a"]], [[""]])).systems
    assert empty is not None
    assert np.isnan(empty).all()


def test_edit_is_a_share_of_the_longer_text() -> None:
    rows = [("kitten", ["sitting"]), ("", [""]), ("", ["abc"]), ("ABC", ["abc"])]
    assert pairs("edit", rows) == [pytest.approx(3 / 7), 0, 1, 1]
    assert pairs("edit", rows[3:], lowercase=True) == [0]


@drawn_from(output=LINES, reference=LINES)
def test_any_text_by_the_table(output: str, reference: str) -> None:
    longest = max(len(output), len(reference))
    expected = changes(output, reference) / longest if longest else 0
    assert pairs("edit", [(output, [reference])]) == [pytest.approx(expected)]
    assert pairs("edit", [(reference, [output])]) == [pytest.approx(expected)]
    if reference.split():
        expected = changes(output.split(), reference.split()) / len(reference.split())
        assert pairs("wer", [(output, [reference])]) == [pytest.approx(expected)]
