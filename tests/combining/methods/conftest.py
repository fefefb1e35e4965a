"""Fixtures for the tests of methods."""

import pytest

from custodes.combining.methods import gaussian_process
from custodes.stats.learning import boost


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few points of the search and few trees."""
    monkeypatch.setattr(gaussian_process, "ITERATIONS", 5)
    monkeypatch.setitem(boost.SETTINGS, "rounds", 15)
