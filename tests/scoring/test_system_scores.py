"""System-level scores next to output-level scores: every question accepts them, and they are never mixed with means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.data.study import Study
from custodes.scoring.metric import MetricInputs, MetricResult, Traits
from tests.questions import QUESTIONS
from tests.scoring.made import Recorded, register
from tests.scoring.made import study as texts_of

SYSTEMS = "ABCD"
OPTIONS: dict[str, dict[str, Any]] = {
    "protocol": {"replications": 2},
    "correction": {},
    "check": {},
    "ceiling": {"model": "ridge", "steps": 2, "resamples": 20},
    "combine": {"target": "", "method": ["best"], "repeats": 1, "resamples": 20},
    "gate": {"metric": "length", "require": "kendall_item>=0.2"},
}


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> Study:
    """Annotators and `length` prefer long outputs; `whole` scores systems in the opposite order."""
    rng = np.random.default_rng(1)
    counts = {str(i): {s: 2 + 3 * k + int(rng.integers(0, 5)) for k, s in enumerate(SYSTEMS)} for i in range(12)}
    outputs = {item: {s: "word " * n + item for s, n in value.items()} for item, value in counts.items()}

    def whole(texts: MetricInputs) -> MetricResult:
        total = float(sum(len(text) for text in texts.outputs))
        return MetricResult(values=np.zeros((len(texts.outputs), 0)), systems=np.array([-total]))

    register(monkeypatch, Recorded(whole, Traits(systems=True), "whole").metric)
    result = cu.score(texts_of(outputs), ["whole", "length"])
    humans = pl.DataFrame(
        [
            {"item": item, "system": s, "rater": rater, "kind": "human", "score": n + int(rng.integers(0, 4))}
            for rater in ("ann", "ben")
            for item, value in counts.items()
            for s, n in value.items()
        ]
    )
    return cu.read(result.ratings, humans, raters=result.raters.drop("signature"))


def test_agreement_on_systems_is_that_of_the_scores_of_systems(study: Study) -> None:
    rows = {row["metric"]: row for row in cu.agreement(study, resamples=0).metrics.to_dicts()}
    assert rows["length"]["kendall_system"] == 1.0
    assert rows["whole"]["kendall_system"] == -1.0
    assert rows["whole"]["kendall_item"] is None


@pytest.mark.slow
@pytest.mark.parametrize("question", [name for name in QUESTIONS if name not in ("plan", "validate")])
def test_every_question_takes_them(study: Study, question: str) -> None:
    cu.__getattr__(question)(study, **OPTIONS.get(question, {"resamples": 20}))


@pytest.mark.slow
def test_the_report_takes_them(study: Study, tmp_path: Path) -> None:
    assert "whole" in cu.report(study, resamples=20).save(tmp_path / "report.html").read_text(encoding="utf-8")
