"""Where people come from: in memory only, and only to see how many come from one place."""

from __future__ import annotations

from collections import deque
from ipaddress import IPv6Address, ip_address, ip_network

HOUR = 3600.0
NEW, AGAIN = 5, 30
"""New people of one address in an hour, and how often somebody who was there before."""


class Addresses:
    """When people came from where, in memory only; `most` within an hour."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._came: dict[str, deque[float]] = {}

    def is_full(self, address: str, now: float) -> bool:
        """Whether as many as may have come from there within the hour."""
        for place in [place for place, times in self._came.items() if times[-1] <= now - HOUR]:
            del self._came[place]
        return sum(at > now - HOUR for at in self._came.get(network(address), ())) >= self._most

    def came(self, address: str, now: float) -> None:
        """One more."""
        self._came.setdefault(network(address), deque(maxlen=self._most)).append(now)


PREFIX = 64
"""Bits of an IPv6 address that a home or an institution has as one."""


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
