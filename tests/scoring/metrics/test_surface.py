"""Length and novelty, computed by hand."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given as drawn_from

from custodes.errors import OptionError
from tests.scoring.metrics.given import LINES, random_inputs, scored, texts


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


@drawn_from(text=LINES)
def test_a_copy_is_not_new(text: str) -> None:
    result = scored("novelty", texts([[text]], sources=[text]), n=1)
    assert result.values[0, 0] == 0 or list(result.why) == [0]


def test_each_output_has_a_number_or_a_reason() -> None:
    for name in ("length", "novelty", "js-source"):
        result = scored(name, random_inputs(5, 3, 1))
        assert {row for row in range(15) if np.isnan(result.values[row]).any()} == result.why.keys()
