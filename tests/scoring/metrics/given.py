"""Texts for tests of metrics, and the scores of metrics for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from custodes.scoring.metric import MetricInputs, MetricResult, Place
from custodes.scoring.metrics import METRICS
from tests.scoring import made

WORDS = ["the", "a", "cat", "sat", "on", "mat,", "dog's", "U.S.", "3.5%", "-", "Größe", "naïve", "“quoted”", "(well)"]
WORDS += ["ends.", "ends", ".", "x/y", "猫", "кот", "é"]
LINES = st.lists(st.sampled_from([*WORDS, "\n", ""]), max_size=12).map(" ".join)
"""Lines of a few words that often coincide, with punctuation, other scripts and letters with diacritics."""


def texts(
    outputs: Sequence[Sequence[str]], references: Sequence[Sequence[str]] = (), sources: Sequence[str] = ()
) -> MetricInputs:
    """Inputs with the outputs of each item, one per system; references and sources are empty by default."""
    n_items, counts = len(outputs), [len(output) for output in outputs]
    inputs = made.texts(
        [text for output in outputs for text in output],
        references or [[]] * n_items,
        item=np.repeat(np.arange(n_items), counts).tolist(),
        sources=sources or [""] * n_items,
    )
    return replace(inputs, system=np.concatenate([np.arange(count) for count in counts]))


def random_inputs(items: int, systems: int, references: int, *, seed: int = 7) -> MetricInputs:
    """Random texts; the last item has one reference fewer."""
    rng = np.random.default_rng(seed)

    def line() -> str:
        return " ".join(rng.choice(WORDS, size=int(rng.integers(1, 25))))

    return texts(
        [[line() for _ in range(systems)] for _ in range(items)],
        [[line() for _ in range(references - (item == items - 1))] for item in range(items)],
        [line() for _ in range(items)],
    )


def scored(name: str, inputs: MetricInputs, **parameters: Any) -> MetricResult:
    """Scores of a metric with default parameters except for `parameters`."""
    metric = METRICS[name]
    unknown = parameters.keys() - metric.parameters.keys()
    assert not unknown, unknown
    return metric.load(Place(), **{**metric.parameters, **parameters}).score(inputs)


def pairs(name: str, rows: Sequence[tuple[str, Sequence[str]]], **parameters: Any) -> list[float]:
    """Score of each output with its references by the best one; each row is an item."""
    result = scored(name, texts([[output] for output, _ in rows], [list(value) for _, value in rows]), **parameters)
    best = np.nanmax if METRICS[name].traits.higher_is_better else np.nanmin
    return [float(best(row)) if not np.isnan(row).all() else float("nan") for row in result.values]


def pairwise(inputs: MetricInputs, score: Any) -> np.ndarray[Any, Any]:
    """Scores (outputs, references) by a function of one output and one reference."""
    widest = max(map(len, inputs.references))
    result = np.full((len(inputs.outputs), widest), np.nan)
    for row, (output, item) in enumerate(zip(inputs.outputs, inputs.item.tolist(), strict=True)):
        for column, reference in enumerate(inputs.references[item]):
            result[row, column] = score(output, reference)
    return result
