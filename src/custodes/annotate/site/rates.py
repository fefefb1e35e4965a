"""How often an address may guess links: kept in memory, forgotten with the server."""

from __future__ import annotations

from limits import parse
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from custodes.annotate.addresses import network

GUESSES = "60/minute"


class Rates:
    """What addresses tried lately."""

    def __init__(self, guesses: str = GUESSES) -> None:
        self._window, self._guesses = MovingWindowRateLimiter(MemoryStorage()), parse(guesses)

    def guess(self, address: str) -> bool:
        """A link or key that does not exist was asked for: whether that was still within the limit."""
        return bool(self._window.hit(self._guesses, network(address)))
