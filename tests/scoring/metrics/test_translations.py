"""BLEU, chrF, chrF++ and TER equal those of sacrebleu exactly; TER rejects texts that would take too long."""

from __future__ import annotations

import sys
from itertools import zip_longest
from typing import Any

import numpy as np
import pytest
from hypothesis import given as drawn_from
from hypothesis import settings
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU, CHRF, TER

from custodes.errors import InputError, OptionError
from custodes.scoring.metric import MetricInputs, Place
from custodes.scoring.metrics import METRICS
from tests.scoring.metrics.given import LINES, pairwise, random_inputs, scored, texts

OPTIONS: list[dict[str, Any]] = [
    {},
    {"tokenize": "intl", "lowercase": True},
    {"tokenize": "char", "smooth": "floor"},
    {"smooth": "add-k", "order": 2},
    {"smooth": "none"},
]
CHRF_OPTIONS: list[dict[str, Any]] = [{}, {"word_order": 1, "whitespace": True}, {"beta": 1, "char_order": 3}]


def by_output(oracle: Any, inputs: MetricInputs) -> list[float]:
    """Scores of outputs by all references together."""
    pairs = zip(inputs.outputs, inputs.item.tolist(), strict=True)
    return [oracle.sentence_score(output, inputs.references[item]).score for output, item in pairs]


def by_system(oracle: Any, inputs: MetricInputs, systems: int) -> list[float]:
    """Scores of systems; an item may have fewer references than others."""
    streams = [list(stream) for stream in zip_longest(*inputs.references)]
    return [oracle.corpus_score(inputs.outputs[system::systems], streams).score for system in range(systems)]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_bleu_of_an_output(options: dict[str, Any]) -> None:
    inputs = random_inputs(4, 3, 3)
    names = {"smooth": "smooth_method", "order": "max_ngram_order"}
    oracle = BLEU(**{names.get(name, name): value for name, value in options.items()}, effective_order=True)
    result = scored("bleu", inputs, **options)
    assert result.values[:, 0].tolist() == by_output(oracle, inputs)
    assert not result.why


@pytest.mark.parametrize("options", CHRF_OPTIONS, ids=str)
@pytest.mark.parametrize("name", ["chrf", "chrf++"])
def test_chrf_of_an_output(name: str, options: dict[str, Any]) -> None:
    inputs = random_inputs(4, 3, 3)
    oracle = CHRF(**{"word_order": 2 if name == "chrf++" else 0, **options})
    result = scored(name, inputs, **options).values
    np.testing.assert_array_equal(
        result, pairwise(inputs, lambda output, reference: oracle.sentence_score(output, [reference]).score)
    )


@settings(max_examples=40)
@drawn_from(output=LINES, references=st.lists(LINES, min_size=1, max_size=3))
def test_any_text(output: str, references: list[str]) -> None:
    inputs = texts([[output]], [references])
    assert scored("bleu", inputs).values[0, 0] == BLEU(effective_order=True).sentence_score(output, references).score
    for name, order in (("chrf", 0), ("chrf++", 2)):
        best = CHRF(word_order=order).sentence_score(output, references).score
        assert scored(name, inputs).values.max() == best


@pytest.mark.parametrize(
    "options", [{"tokenize": "13b"}, {"smooth": "exponential"}, {"order": 0}, {"order": 10**12}], ids=str
)
def test_bleu_of_unknown_options(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(options))):
        METRICS["bleu"].load(Place(), **{**METRICS["bleu"].parameters, **options})


def test_a_tokenizer_that_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "MeCab", None)
    with pytest.raises(InputError, match="tokenize=ja-mecab cannot be loaded .Japanese tokenization .*Please install"):
        scored("bleu", random_inputs(1, 1, 1), tokenize="ja-mecab")


def test_lines_that_end_in_a_tokenized_period_say_nothing(caplog: pytest.LogCaptureFixture) -> None:
    inputs = texts([[f"line {n} ."] for n in range(120)], [["a line ."]] * 120)
    for name in ("bleu", "corpus-bleu"):
        scored(name, inputs)
    assert not caplog.records


@pytest.mark.parametrize(
    ("name", "oracle"),
    [("bleu", BLEU()), ("chrf", CHRF()), ("chrf++", CHRF(word_order=2))],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_scores_of_systems(name: str, oracle: Any) -> None:
    inputs = random_inputs(6, 3, 3)
    result = scored(f"corpus-{name}", inputs)
    assert result.values.shape == (18, 0)
    assert result.systems is not None
    expected = by_system(oracle, inputs, 3)
    assert result.systems.tolist() == expected
    of_outputs = scored(name, inputs).values
    assert abs(np.nanmax(of_outputs, axis=1).reshape(6, 3).mean(axis=0) - expected).min() > 0.01  # not their mean


@pytest.mark.parametrize("options", [{}, {"normalized": True, "case_sensitive": True}], ids=str)
def test_ter_of_each_output_and_system(options: dict[str, bool]) -> None:
    inputs = random_inputs(3, 2, 2)
    assert scored("ter", inputs, **options).values[:, 0].tolist() == by_output(TER(**options), inputs)
    systems = scored("corpus-ter", inputs, **options).systems
    assert systems is not None
    assert systems.tolist() == by_system(TER(**options), inputs, 2)
