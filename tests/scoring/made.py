"""Metrics for tests, and texts to score."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest

from custodes.data.study import Study
from custodes.scoring.metric import Metric, MetricInputs, MetricResult, Place, Scorer, Traits
from custodes.scoring.metrics import METRICS

OVERLAP = Traits(needs=("references",), rules=("first", "best", "mean"), low=0.0, high=1.0)
POOLED = Traits(needs=("references",), rules=("all", "first", "best", "mean"))


class Recorded:
    """Metric that records its inputs."""

    def __init__(
        self, score: Callable[[MetricInputs], MetricResult], traits: Traits, name: str = "made", **parameters: Any
    ) -> None:
        self.calls: list[MetricInputs] = []
        self._score, self._traits = score, traits
        self.metric = Metric(
            name=name, gives="made", source="a test", load=self._load, traits=traits, parameters=parameters
        )

    @property
    def outputs(self) -> list[str]:
        """All recorded outputs in order."""
        return [text for texts in self.calls for text in texts.outputs]

    def _load(self, place: Place, **parameters: Any) -> Scorer:
        def score(texts: MetricInputs) -> MetricResult:
            self.calls.append(texts)
            return self._score(texts)

        return Scorer(signature=f"{self.metric.name} 1 {parameters}", traits=self._traits, score=score)


def overlap(texts: MetricInputs) -> MetricResult:
    """Proportion of the output's words that occur in each reference."""
    wide = max((len(value) for value in texts.references), default=1)
    values = np.full((len(texts.outputs), max(1, wide)), np.nan)
    for row, text in enumerate(texts.outputs):
        words = text.split()
        for column, reference in enumerate(texts.references[texts.item[row]]):
            values[row, column] = sum(word in reference.split() for word in words) / max(1, len(words))
    why = {row: "the output has no word" for row, text in enumerate(texts.outputs) if not text.split()}
    return MetricResult(values=values, why=why)


def pooled(texts: MetricInputs) -> MetricResult:
    """Proportion of the output's words that occur in any reference."""
    word_sets = [set(" ".join(reference).split()) for reference in texts.references]
    values = [
        [sum(word in word_sets[texts.item[row]] for word in text.split()) / max(1, len(text.split()))]
        for row, text in enumerate(texts.outputs)
    ]
    return MetricResult(values=np.array(values, dtype=float).reshape(-1, 1))


def constant(value: float) -> Callable[[MetricInputs], MetricResult]:
    """Return a metric that gives all outputs the same score."""
    return lambda texts: MetricResult(values=np.full((len(texts.outputs), 1), value))


def register(monkeypatch: pytest.MonkeyPatch, *metrics: Metric) -> None:
    """Register metrics in addition to the built-in ones."""
    monkeypatch.setattr(
        "custodes.scoring.raters.metrics_by_name", lambda: METRICS | {metric.name: metric for metric in metrics}
    )


def recorded(
    monkeypatch: pytest.MonkeyPatch, score: Callable[[MetricInputs], MetricResult], traits: Traits, **more: Any
) -> Recorded:
    """Register a metric named `made` that records its inputs."""
    recorder = Recorded(score, traits, **more)
    register(monkeypatch, recorder.metric)
    return recorder


def texts(
    outputs: Sequence[str],
    references: Sequence[Sequence[str]] | None = None,
    *,
    item: Sequence[int] | None = None,
    **more: Any,
) -> MetricInputs:
    """Inputs of a metric, with one item per output and the reference "r" by default."""
    of = list(range(len(outputs))) if item is None else list(item)
    items = max(of) + 1
    empty: dict[str, Any] = {"sources": [""] * items, "images": [[]] * items, "contexts": [""] * items}
    return MetricInputs(
        outputs=outputs,
        item=np.array(of),
        system=np.zeros(len(of), dtype=int),
        references=[["r"]] * items if references is None else references,
        **empty | more,
    )


def study(outputs: Mapping[str, Mapping[str, str]], **facts: Mapping[str, Any]) -> Study:
    """Study of texts by item and system, with `source`, `references` and other fields of each item."""
    from custodes.data.reading import read

    rows = [
        {"item": item, "outputs": dict(output), **{name: values.get(item) for name, values in facts.items()}}
        for item, output in outputs.items()
    ]
    return read(pl.DataFrame(rows, schema_overrides={"outputs": pl.Object}), reader="outputs")


OUTPUTS = {"1": {"A": "a red fox", "B": "a fox", "C": "the dog"}, "2": {"A": "the big dog", "B": "a dog", "C": "a fox"}}
REFERENCES = {"1": ["a fox", "a red fox ran"], "2": ["the dog"]}


def scores(result: Any, rater: str | None = None) -> dict[tuple[str, str, str], float]:
    """Map (item, system, rater) to the score."""
    rows = result.ratings if rater is None else result.ratings.filter(pl.col("rater") == rater)
    return {(row["item"], row["system"], row["rater"]): row["score"] for row in rows.iter_rows(named=True)}


def scores_of(result: Any, rater: str) -> Sequence[float]:
    """Scores of one rater in file order."""
    return result.ratings.filter(pl.col("rater") == rater)["score"].to_list()
