"""A server that answers as a test wants, and no long waits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from custodes.judging import querying
from custodes.judging.dispatch import Patience
from tests.judging.servers import Server


@pytest.fixture
def server() -> Iterator[Server]:
    """One that answers every request with 'A', until `server.answer` says otherwise."""
    made = Server()
    yield made
    made.close()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Back-offs of milliseconds."""
    monkeypatch.setattr(querying, "PATIENCE", Patience(first=0.002, longest=0.01))
