"""How often an address may guess a link or begin a session: kept in memory, forgotten with the server."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address, ip_network

from limits import RateLimitItem, parse
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

GUESSES, SESSIONS = "60/minute", "5/hour"
PREFIX = 64
"""Bits of an IPv6 address that a home or an institution has as one."""


class Rates:
    """What addresses did lately. Each method counts, and says whether that was still within the limit."""

    def __init__(self, *, guesses: str = GUESSES, sessions: str = SESSIONS) -> None:
        self._window = MovingWindowRateLimiter(MemoryStorage())
        self._guesses, self._sessions = parse(guesses), parse(sessions)

    def guess(self, address: str) -> bool:
        """A link or key that does not exist was asked for."""
        return self._hit(self._guesses, "guess", address)

    def session(self, address: str) -> bool:
        """A session was begun by an open link or a platform's."""
        return self._hit(self._sessions, "session", address)

    def sessions_left(self, address: str) -> int:
        """How many sessions may still be begun now; counts nothing."""
        return self._window.get_window_stats(self._sessions, "session", network(address)).remaining

    def _hit(self, limit: RateLimitItem, what: str, address: str) -> bool:
        return bool(self._window.hit(limit, what, network(address)))


def network(address: str) -> str:
    """What counts as one address: an IPv4 address, the first 64 bits of an IPv6 one; anything else as it is.

    >>> network("2001:db8::1") == network("2001:db8::2"), network("::ffff:192.0.2.1")
    (True, '192.0.2.1')
    """
    try:
        own = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(own, IPv6Address):
        return str(own.ipv4_mapped or ip_network((own, PREFIX), strict=False))
    return str(own)
