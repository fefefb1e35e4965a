"""Cache of judges. A reply is stored under the key of its request on arrival, so that no reply is paid for twice."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from custodes.cache import Cache
from custodes.judging.requests import Reply, Request


def find_replies(requests: Sequence[Request], cache: Cache) -> tuple[dict[str, Reply], list[Request]]:
    """The stored replies by key, and the distinct requests that have no stored reply."""
    by_key = {request.key: request for request in requests}
    replies = {key: Reply(record) for key, record in cache.replies(list(by_key)).items()}
    return replies, [request for key, request in by_key.items() if key not in replies]


def store_reply(cache: Cache, request: Request, reply: Reply) -> None:
    """Store a reply and the request for it. An existing reply is not replaced."""
    cache.keep_reply(request.key, reply.record, msgspec.json.encode(request.body))
