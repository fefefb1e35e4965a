import pytest

from custodes.combining import tables
from custodes.combining.methods import gaussian_process
from custodes.stats.learning import boost


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use few trees, search points and refits to save time."""
    monkeypatch.setattr(gaussian_process, "ITERATIONS", 4)
    monkeypatch.setattr(tables, "REFITS", 10)
    monkeypatch.setitem(boost.SETTINGS, "rounds", 5)
