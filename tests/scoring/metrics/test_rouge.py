"""ROUGE equals that of rouge-score; texts in other scripts have no score instead of 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given as drawn_from
from hypothesis import settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from custodes.errors import OptionError
from custodes.scoring.metric import Place
from custodes.scoring.metrics import METRICS, rouge
from tests.scoring.metrics.given import LINES, pairs, pairwise, random_inputs, scored, texts

KINDS = [*(f"rouge{n}" for n in range(1, 10)), "rougeL", "rougeLsum"]


@pytest.mark.parametrize("stemmer", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_each_reference_as_rouge_score(kind: str, stemmer: bool) -> None:
    inputs = random_inputs(3, 2, 3)
    oracle = RougeScorer([kind], use_stemmer=stemmer)
    for measure, name in {"f": "fmeasure", "precision": "precision", "recall": "recall"}.items():
        result = scored(kind, inputs, measure=measure, stemmer=stemmer).values
        np.testing.assert_array_equal(
            result,
            pairwise(inputs, lambda output, reference, name=name: getattr(oracle.score(reference, output)[kind], name)),
        )


def test_the_signature_says_which_package() -> None:
    signature = METRICS["rougeL"].load(Place(), **METRICS["rougeL"].parameters).signature
    assert signature.startswith("rouge-score-rs ")
    assert signature.endswith("rougeL measure=f stemmer=false tokenize=ascii")


@settings(max_examples=40)
@drawn_from(rows=st.lists(st.tuples(LINES, LINES), min_size=1, max_size=5))
def test_any_text(rows: list[tuple[str, str]]) -> None:
    result = scored("rougeLsum", texts([[output] for output, _ in rows], [[value] for _, value in rows]))
    oracle = RougeScorer(["rougeLsum"])
    for row, (output, reference) in enumerate(rows):
        if row not in result.why:
            assert result.values[row, 0] == oracle.score(reference, output)["rougeLsum"].fmeasure


def test_many_pairs_are_scored_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = random_inputs(4, 3, 3)
    whole = scored("rouge2", inputs).values
    monkeypatch.setattr(rouge, "PAIRS", 5)
    np.testing.assert_array_equal(scored("rouge2", inputs).values, whole)


def test_other_scripts_have_no_score_and_the_way_out_works() -> None:
    inputs = texts([["猫が座る 2026", "a cat", "...", ""], ["a cat"]], [["a cat sat"], ["кот"]])
    result = scored("rouge1", inputs)
    assert result.why == {0: rouge.OTHER_SCRIPT, 4: rouge.OTHER_SCRIPT}
    np.testing.assert_allclose(result.values[:, 0], [np.nan, 0.8, 0, 0, np.nan])
    assert pairs("rouge1", [("кот спит", ["Кот"])], tokenize="unicode") == [pytest.approx(2 / 3)]
    assert pairs("rouge1", [("猫", ["猫座"])], tokenize="characters") == [pytest.approx(2 / 3)]


@pytest.mark.parametrize(
    "options", [{"measure": "f1"}, {"tokenize": "words"}, {"stemmer": True, "tokenize": "unicode"}], ids=str
)
def test_options_that_are_not_there(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(options))):
        scored("rouge1", random_inputs(1, 1, 1), **options)
