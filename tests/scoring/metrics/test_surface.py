"""Length and novelty, computed by hand."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given as drawn_from

from custodes.errors import OptionError
from tests.scoring.metrics.given import LINES, drawn, scored, texts


def test_length_in_words_and_characters() -> None:
    given = texts([["a red fox", "", "naïve\n猫 "]])
    assert scored("length", given).values[:, 0].tolist() == [3, 0, 2]
    assert scored("length", given, unit="characters").values[:, 0].tolist() == [9, 0, 8]
    with pytest.raises(OptionError, match="unit"):
        scored("length", given, unit="bytes")


def test_novelty_counts_different_runs_of_words() -> None:
    given = texts([["The cat sat, the cat ran", "cat", "the cat sat"]], sources=["A cat sat on the cat"])
    made = scored("novelty", given)  # the-cat, cat-sat, sat-the, cat-ran: the last two are new
    np.testing.assert_allclose(made.values[:, 0], [2 / 4, np.nan, 0])
    assert list(made.why) == [1]
    assert scored("novelty", given, n=1).values[:, 0].tolist() == [1 / 4, 0, 0]
    with pytest.raises(OptionError, match="n=0"):
        scored("novelty", given, n=0)


@drawn_from(output=LINES, source=LINES)
def test_novelty_of_any_text_run_by_run(output: str, source: str) -> None:
    made = scored("novelty", texts([[output]], sources=[source]))
    ours, theirs = ([word.lower() for word in re.findall(r"\w+", text)] for text in (output, source))
    runs = []
    for place in range(len(ours) - 1):
        if ours[place : place + 2] not in runs:
            runs.append(ours[place : place + 2])
    old = [run for run in runs if any(theirs[place : place + 2] == run for place in range(len(theirs)))]
    if runs:
        assert made.values[0, 0] == pytest.approx(1 - len(old) / len(runs))
    else:
        assert list(made.why) == [0]


@drawn_from(text=LINES)
def test_a_copy_is_not_new(text: str) -> None:
    made = scored("novelty", texts([[text]], sources=[text]), n=1)
    assert made.values[0, 0] == 0 or list(made.why) == [0]


def test_each_output_has_a_number_or_a_reason() -> None:
    for name in ("length", "novelty", "js-source"):
        made = scored(name, drawn(5, 3, 1))
        assert {row for row in range(15) if np.isnan(made.values[row]).any()} == made.why.keys()
