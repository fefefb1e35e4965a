from __future__ import annotations

from typing import Any

import pytest

import custodes as cu
from custodes.evaluate.verdict.verdict import best_metrics
from tests.evaluate.verdict.constructed import BASIS


@pytest.fixture(scope="session")
def results() -> dict[str, Any]:
    """Return the results of all questions on the embedded demo with few resamples."""
    study = cu.read("demo")
    bounds = {name: {} if name == "check" else {"resamples": 100} for name in BASIS}
    answers = {name: getattr(cu, name)(study, **bounds[name]) for name in BASIS}
    board = cu.leaderboard(study, metrics=best_metrics(answers["agreement"]), resamples=100)
    annotators = cu.annotators(study, method="majority", resamples=100)
    return {**answers, "leaderboard": board, "annotators": annotators}


@pytest.fixture
def trusted(results: dict[str, Any]) -> list[str]:
    return list(results["agreement"].metrics["metric"].unique(maintain_order=True))
