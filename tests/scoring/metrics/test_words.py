"""Metrics of words: length and novelty by hand, divergence by SciPy, exact match and F1 by the definition of SQuAD."""

from __future__ import annotations

import re
import string
from collections import Counter

import numpy as np
import pytest
from hypothesis import example
from hypothesis import given as drawn_from
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon

from custodes.errors import OptionError
from custodes.scoring.metrics.words import jensen_shannon
from custodes.scoring.preparing import TOKENIZERS
from tests.scoring.metrics.given import LINES, pairs, scored, texts


def test_length_in_words_and_characters() -> None:
    inputs = texts([["a red fox", "", "naïve\n猫 "]])
    assert scored("length", inputs).values[:, 0].tolist() == [3, 0, 2]
    assert scored("length", inputs, unit="characters").values[:, 0].tolist() == [9, 0, 8]
    with pytest.raises(OptionError, match="unit"):
        scored("length", inputs, unit="bytes")


def test_novelty_counts_different_runs_of_words() -> None:
    inputs = texts([["The cat sat, the cat ran", "cat", "the cat sat"]], sources=["A cat sat on the cat"])
    result = scored("novelty", inputs)  # the-cat, cat-sat, sat-the, cat-ran: the last two are new
    np.testing.assert_allclose(result.values[:, 0], [2 / 4, np.nan, 0])
    assert list(result.why) == [1]
    assert scored("novelty", inputs, n=1).values[:, 0].tolist() == [1 / 4, 0, 0]
    with pytest.raises(OptionError, match="n=0"):
        scored("novelty", inputs, n=0)


@drawn_from(output=LINES, source=LINES)
def test_novelty_of_any_text_run_by_run(output: str, source: str) -> None:
    result = scored("novelty", texts([[output]], sources=[source]))
    ours, theirs = ([word.lower() for word in re.findall(r"\w+", text)] for text in (output, source))
    runs = []
    for place in range(len(ours) - 1):
        if ours[place : place + 2] not in runs:
            runs.append(ours[place : place + 2])
    old = [run for run in runs if any(theirs[place : place + 2] == run for place in range(len(theirs)))]
    if runs:
        assert result.values[0, 0] == pytest.approx(1 - len(old) / len(runs))
    else:
        assert list(result.why) == [0]


def of_scipy(first: list[str], second: list[str]) -> float:
    words = sorted({*first, *second})
    return float(jensenshannon([first.count(w) for w in words], [second.count(w) for w in words], base=2) ** 2)


@drawn_from(output=LINES, reference=LINES)
def test_any_text_as_scipy(output: str, reference: str) -> None:
    result = scored("js", texts([[output]], [[reference]]))
    ours, theirs = TOKENIZERS["words"](output), TOKENIZERS["words"](reference)
    if not ours or not theirs:
        assert list(result.why) == [0]
        assert np.isnan(result.values).all()
        return
    assert result.values[0, 0] == pytest.approx(of_scipy(ours, theirs), abs=1e-12)
    assert pairs("js", [(reference, [output])]) == pytest.approx([result.values[0, 0]], abs=1e-15)
    assert scored("js-source", texts([[output]], sources=[reference])).values[0, 0] == result.values[0, 0]


def test_equal_and_disjoint_texts() -> None:
    assert pairs("js", [("a b", ["B, a!"]), ("a b", ["c d"])]) == [0, 1]
    assert pairs("js", [("a b a b", ["a b b a"])], n=2) == [
        pytest.approx(of_scipy(["ab", "ba", "ab"], ["ab", "bb", "ba"]))
    ]


def test_the_order_of_words_in_a_set_changes_no_digit() -> None:
    counts = np.random.default_rng(0).integers(1, 9, (2, 40)).tolist()
    for keys in (range(40), range(0, 4000, 100), np.random.default_rng(1).permutation(40).tolist()):
        first, second = (Counter(dict(zip(keys, row, strict=True))) for row in counts)
        assert jensen_shannon(first, second) == jensen_shannon(*(Counter(dict(enumerate(row))) for row in counts))


def test_a_text_that_is_too_short() -> None:
    result = scored("js", texts([["a b", "a"], ["a b c"]], [["a b", "b"], ["a b"]]), n=2)
    assert result.why.keys() == {0, 1}  # a reference or output of one word
    assert "fewer than 2 words" in result.why[0]
    assert not np.isnan(result.values[2, 0])
    assert np.isnan(result.values[2, 1])  # a missing second reference needs no reason


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
    # SQuAD 2.0: an empty answer is correct for unanswerable questions and wrong for others; an article alone is empty.
    rows = [("", [""]), ("Paris", [""]), ("", ["Paris"]), ("the", [""]), ("", ["Paris", ""])]
    assert pairs("exact", rows) == pairs("f1", rows) == [1, 0, 0, 1, 1]


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
    common = sum(word in left and (left.remove(word) or True) for word in output_words)  # type: ignore[func-returns-value]
    precision, recall = common / len(output_words), common / len(right)
    return 2 * precision * recall / (precision + recall) if common else 0.0


@example(rows=[("b b b c", "b b d")])
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
