"""TER equals that of sacrebleu, and texts that would take too long are rejected before the start."""

from __future__ import annotations

import pytest
from sacrebleu.metrics import TER

from custodes.errors import OptionError
from custodes.scoring.metric import MetricInputs, Place
from custodes.scoring.metrics import METRICS
from custodes.scoring.metrics.translations import seconds_of
from tests.scoring.metrics.given import random_inputs, scored, texts


def ready(inputs: MetricInputs, budget: int, name: str = "ter") -> None:
    metric = METRICS[name]
    metric.load(Place(), **{**metric.parameters, "budget": budget}).ready(inputs)


@pytest.mark.parametrize("references", [1, 2])
def test_each_output_and_system_as_sacrebleu(references: int) -> None:
    inputs = random_inputs(3, 2, references + 1)
    for options in ({}, {"normalized": True, "case_sensitive": True}):
        oracle = TER(**options)
        expected = [
            oracle.sentence_score(output, inputs.references[item]).score
            for output, item in zip(inputs.outputs, inputs.item, strict=True)
        ]
        assert scored("ter", inputs, **options).values[:, 0].tolist() == expected
        streams = [
            [reference[place] if place < len(reference) else None for reference in inputs.references]
            for place in range(references + 1)
        ]
        expected = [oracle.corpus_score(inputs.outputs[system::2], streams).score for system in range(2)]
        systems = scored("corpus-ter", inputs, **options).systems
        assert systems is not None
        assert systems.tolist() == expected


def test_too_much_is_refused_with_the_ways_out() -> None:
    long = texts([["word " * 60] * 16] * 100, [["other " * 60] * 11] * 100)
    assert 1500 < seconds_of(long) < 2500  # 17,600 pairs of 60 words at about .1 CPU seconds
    with pytest.raises(OptionError, match=r"1600 outputs .* up to 2000 CPU seconds.* ter:budget=2000.* ter@first"):
        ready(long, 300)
    with pytest.raises(OptionError, match=r"corpus-ter:budget=2000.* corpus-ter@first"):
        ready(long, 300, "corpus-ter")
    inputs = texts([["word " * 200] * 16] * 10, [["other " * 200]] * 10)
    with pytest.raises(OptionError, match=r"ter:budget=650, or use another metric"):
        ready(inputs, 1)
    ready(long, 2000)
    ready(random_inputs(3, 2, 2), 1)
