"""Contract of workers on twelve rows: order, batch size and padding do not change scores."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from custodes.errors import InputError
from custodes.process import CHILDREN
from custodes.scoring.metric import MetricInputs, MetricResult, Place, Scorer
from custodes.scoring.metrics.worker import WORKER
from custodes.stats.arrays import Ints

OUTPUTS = (
    "a man rides a bicycle",
    "two dogs",
    "a man rides a bicycle",  # as row 0
    "",
    "it rains on the street, and nobody sings",
    "x",
    "Ein Mann fährt Rad; 一个人骑自行车 🚲",
    "the sea " * 400,  # longer than the limit of any model
    '"quotes", {braces} and ||| bars\nin two lines',
    "two dogs depict a photo of a man",
    "a",
    "down the street",
)
TWINS, EMPTY, LONG = (0, 2), 3, 7
CLOSE = 1e-5
"""Tolerance for single precision, relative or absolute."""


def twelve(images: Sequence[Path] = ()) -> MetricInputs:
    """Twelve rows, of which the first and third are equal; numbers of references differ."""
    every = np.arange(len(OUTPUTS))
    same = np.where(every == TWINS[1], TWINS[0], every)
    return MetricInputs(
        outputs=OUTPUTS,
        item=every,
        system=np.zeros(len(OUTPUTS), dtype=np.intp),
        sources=[f"what do you see in picture {number}?" for number in same],
        references=[["a man on a bike", "rain in the street", "dogs"][: 1 + number % 3] for number in same],
        images=[[str(images[number % len(images)])] if images else [] for number in same],
        contexts=[f"context {number}" for number in same],
    )


def subset(texts: MetricInputs, order: Ints) -> MetricInputs:
    """Select or reorder outputs."""
    return replace(
        texts, outputs=[texts.outputs[value] for value in order], item=texts.item[order], system=texts.system[order]
    )


def started(command: str, batch: int = 12) -> Scorer:
    return WORKER.load(Place(batch=batch), command=command)


def keeps_the_contract(command: str, *, images: Sequence[Path] = (), counts_cuts: bool = True) -> MetricResult:
    """Assert that a worker keeps the contract, and return its results in row order."""
    texts = twelve(images)
    scorer = started(command)
    try:
        whole = scorer.score(texts)
        check_values(whole, texts, scorer)
        assert bool(whole.truncated is not None and whole.truncated[LONG]) is counts_cuts
        assert whole.truncated is None or not whole.truncated[1]
        assert np.isfinite(whole.seconds)
        assert whole.seconds >= 0
        for order in (np.arange(12)[::-1].copy(), np.random.default_rng(3).permutation(12), np.arange(5)):
            np.testing.assert_allclose(
                scorer.score(subset(texts, order)).values, whole.values[order], atol=CLOSE, rtol=CLOSE
            )
        # Single rows, rows next to the longest one, and batches of five.
        for number in (1, 10):
            beside = scorer.score(subset(texts, np.array([number, LONG]))).values[0]
            alone = scorer.score(subset(texts, np.array([number]))).values[0]
            np.testing.assert_allclose([beside, alone], [whole.values[number]] * 2, atol=CLOSE, rtol=CLOSE)
    finally:
        scorer.close()
    scorer = started(command, batch=5)
    try:
        np.testing.assert_allclose(scorer.score(texts).values, whole.values, atol=CLOSE, rtol=CLOSE)
        for group in tuple(CHILDREN):
            os.killpg(group, signal.SIGKILL)
        with pytest.raises(
            InputError, match=r"^worker '.*': the worker was terminated by SIGKILL \(memory .*\) \(after \d+ rows\)"
        ):
            scorer.score(texts)
    finally:
        scorer.close()
    assert not CHILDREN
    return whole


def check_values(whole: MetricResult, texts: MetricInputs, scorer: Scorer) -> None:
    """Assert that each cell has a number or a reason, and that equal rows have equal scores."""
    each = "references" in scorer.traits.needs and "all" not in scorer.traits.rules
    many = [len(reference) for reference in texts.references] if each else [1] * 12
    assert whole.values.shape == (12, max(many))
    for number, (values, cells) in enumerate(zip(whole.values, many, strict=True)):
        assert (number in whole.why) != bool(np.isfinite(values[:cells]).all()), number
        assert np.isnan(values[cells:]).all()
        assert all(whole.why.get(number, "a reason").strip())
    np.testing.assert_allclose(whole.values[TWINS[0]], whole.values[TWINS[1]], atol=CLOSE, rtol=CLOSE)
    finite = whole.values[np.isfinite(whole.values)]
    assert scorer.traits.low is None or finite.min() >= scorer.traits.low
    assert scorer.traits.high is None or finite.max() <= scorer.traits.high
    assert len(np.unique(finite)) > 3
