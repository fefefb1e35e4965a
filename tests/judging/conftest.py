from __future__ import annotations

from collections.abc import Iterator

import pytest

from custodes.judging import querying
from custodes.judging.dispatch import Patience
from tests.judging.servers import Server


@pytest.fixture
def server() -> Iterator[Server]:
    """Yield a server that answers every request with 'A' unless `server.answer` is replaced."""
    instance = Server()
    yield instance
    instance.close()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduce the back-off to milliseconds."""
    monkeypatch.setattr(querying, "PATIENCE", Patience(first=0.002, longest=0.01))
