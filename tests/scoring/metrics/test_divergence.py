"""Jensen-Shannon divergence by its definition over all words of both texts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given as drawn_from
from scipy.spatial.distance import jensenshannon

from custodes.scoring.preparing import TOKENIZERS
from tests.scoring.metrics.given import LINES, pairs, scored, texts


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


def test_a_text_that_is_too_short() -> None:
    result = scored("js", texts([["a b", "a"], ["a b c"]], [["a b", "b"], ["a b"]]), n=2)
    assert result.why.keys() == {0, 1}  # a reference or output of one word
    assert "fewer than 2 words" in result.why[0]
    assert not np.isnan(result.values[2, 0])
    assert np.isnan(result.values[2, 1])  # a missing second reference needs no reason
