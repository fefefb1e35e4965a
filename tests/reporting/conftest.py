"""Results to report on: the embedded demo, asked with few resamples."""

from __future__ import annotations

from typing import Any

import pytest

import custodes as cu
from custodes.reporting import Report


@pytest.fixture(scope="session")
def made() -> Report:
    return cu.report(cu.read("demo"), resamples=100)


@pytest.fixture(scope="session")
def results(made: Report) -> dict[str, Any]:
    """What the verdict is made from."""
    return {name: made.results[name] for name in ("check", "agreement", "favoritism", "ranking")}
