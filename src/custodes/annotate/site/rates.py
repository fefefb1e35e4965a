"""How often an address may guess links: kept in memory, forgotten with the server."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address, ip_network

from limits import parse
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

GUESSES = "60/minute"
PREFIX = 64
"""Bits of an IPv6 address that a home or an institution has as one."""


class Rates:
    """What addresses tried lately."""

    def __init__(self, guesses: str = GUESSES) -> None:
        self._window, self._guesses = MovingWindowRateLimiter(MemoryStorage()), parse(guesses)

    def guess(self, address: str) -> bool:
        """A link or key that does not exist was asked for: whether that was still within the limit."""
        return bool(self._window.hit(self._guesses, network(address)))


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
