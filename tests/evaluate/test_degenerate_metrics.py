from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import custodes as cu
from tests.questions import QUESTIONS

OPTIONS: dict[str, dict[str, Any]] = {
    "combine": {"method": ["ridge", "best"], "repeats": 1},
    "gate": {"metric": "fifth", "require": "kendall_item>=0.1"},
    "plan": {"replications": 2, "items": 60},
    "protocol": {"replications": 2},
    "rates": {"metrics": "constant,copy"},
}
OF_PEOPLE = {
    "fifth": (0.2, 0.0),
    "moved": (2.0, 3.0),
    "opposite": (-1.0, 0.0),
    "same": (1.0, 0.0),
    "narrow": (1e-3, 1e3),
}
STATISTICS = [f"{kind}_{level}" for kind in ("pearson", "spearman", "kendall") for level in ("system", "item")]


def study_of(seed: int, n_humans: int) -> cu.Study:
    """Return six systems on 24 items with a metric and its copy, a constant, and linear functions of the human mean."""
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=(24, 6)) + 0.4 * np.arange(6)
    marks = [np.clip(np.round(3 + quality + 0.7 * rng.normal(size=quality.shape)), 1, 5) for _ in range(n_humans)]
    metric, human = quality + rng.normal(size=quality.shape), np.mean(marks, axis=0)
    scores = {f"h{k}": values for k, values in enumerate(marks)}
    scores |= {"metric": metric, "copy": metric, "constant": np.full(metric.shape, 0.1)}
    scores |= {name: slope * human + level for name, (slope, level) in OF_PEOPLE.items()}
    rows = [
        (f"i{i:02}", f"s{k}", rater, "human" if rater.startswith("h") else "metric", float(score))
        for rater, values in scores.items()
        for (i, k), score in np.ndenumerate(values)
    ]
    return cu.read(pl.DataFrame(rows, schema=["item", "system", "rater", "kind", "score"], orient="row"))


def assert_perfect(metrics: pl.DataFrame, slopes: dict[str, float]) -> None:
    for row in metrics.filter(pl.col("metric").is_in(list(slopes))).iter_rows(named=True):
        sign = np.sign(slopes[row["metric"]])
        for name in STATISTICS:
            low, high = sorted(sign * row[f"{name}_{bound}"] for bound in ("low", "high"))
            assert sign * row[name] == pytest.approx(1, abs=1e-6), (row["metric"], name)
            assert low <= sign * row[name] + 1e-9, name
            assert high == pytest.approx(1, abs=1e-6), name


@pytest.mark.parametrize(("seed", "n_humans"), [(0, 1), (1, 2)])
def test_agreement_with_linear_functions_of_the_human_score_is_perfect(seed: int, n_humans: int) -> None:
    result = cu.agreement(study_of(seed, n_humans), resamples=100)
    assert_perfect(result.metrics, {name: slope for name, (slope, _) in OF_PEOPLE.items()})
    rows = {row.pop("metric"): row for row in result.metrics.iter_rows(named=True)}
    assert rows["metric"] == rows["copy"]
    assert {rows["constant"][name] for name in STATISTICS} == {None}
    assert any(note.rule == "constant-metric" and "undefined" in note.message for note in result.notes)


@pytest.mark.parametrize("question", [name for name in QUESTIONS if name not in ("validate", "labelling", "route")])
def test_every_question_takes_degenerate_metrics(question: str) -> None:
    few = {"resamples": 20} if question not in ("check", "correction", "plan", "rates") else {}
    tables = QUESTIONS[question](study_of(0, 2), **(few | OPTIONS.get(question, {}))).tables()
    for table in tables.values():
        for name, kind in table.schema.items():
            if kind.is_float():
                assert not table[name].is_nan().any(), name
