"""Fixture of a report on the embedded demo with few resamples."""

from __future__ import annotations

import pytest

import custodes as cu
from custodes.reporting import Report
from custodes.stats.learning import boost

ROUNDS = 10
"""XGBoost rounds: the content of pages does not depend on the quality of the trees."""


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(boost.SETTINGS, "rounds", ROUNDS)


@pytest.fixture(scope="session")
def demo_report() -> Report:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(boost.SETTINGS, "rounds", ROUNDS)
        return cu.report(cu.read("demo"), resamples=20)
