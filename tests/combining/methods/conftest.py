import pytest

from custodes.combining.methods import gaussian_process
from custodes.stats.learning import boost


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use few search points and trees to save time."""
    monkeypatch.setattr(gaussian_process, "ITERATIONS", 5)
    monkeypatch.setitem(boost.SETTINGS, "rounds", 15)
