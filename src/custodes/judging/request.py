"""What is sent to a judge and what comes back; and the ways in which nothing comes back."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from custodes.errors import InputError
from custodes.judging.payload import encoded
from custodes.sealed import layout

Client = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Anything that answers the body of a chat completion (OpenAI's protocol) with its reply, or raises one of the errors
below; any other exception is taken for `Unavailable`."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """One question to a judge: the body that is sent, under the key of its answer."""

    key: str
    body: Mapping[str, Any]

    @classmethod
    def make(cls, address: str, body: Mapping[str, Any], repeat: str = "0") -> Request:
        """With its key: a hash of the server's address (without credentials), the body, and which of several
        repeats it is; not of the keys of accounts, names of systems or the order of files.

        >>> one, two = (Request.make("http://localhost", {"model": "m", "n": n}) for n in (1, 2))
        >>> one.key == two.key, len(one.key)
        (False, 64)
        """
        whole = msgspec.json.encode([address, body, repeat], order="sorted")
        return cls(key=hashlib.sha256(whole).hexdigest(), body=body)


class _Record(msgspec.Struct, frozen=True, gc=False):
    asked: str
    seconds: float | None
    reply: dict[str, Any]


RECORD = msgspec.json.Decoder(layout(_Record))


class Reply(msgspec.Struct, frozen=True, gc=False):
    """The reply of a server as it is kept, and read anew each time: a hundred thousand are small only as bytes."""

    record: bytes

    @classmethod
    def make(cls, body: Mapping[str, Any], *, asked: str, seconds: float | None) -> Reply:
        """A reply that came: its body, when it was asked (ISO 8601, UTC), and seconds until it came (None: nobody
        knows, as of a batch)."""
        return cls(encoded({"asked": asked, "seconds": seconds, "reply": body}))

    @property
    def body(self) -> Mapping[str, Any]:
        """What the server said; InputError where the record is none of ours."""
        try:
            return RECORD.decode(self.record).reply
        except (msgspec.MsgspecError, ValueError, TypeError, RecursionError):
            raise InputError("a kept reply is damaged: no record of custodes; name another file by --cache") from None

    @property
    def asked(self) -> str:
        """When it was asked."""
        return msgspec.json.decode(self.record)["asked"]  # type: ignore[no-any-return]

    @property
    def seconds(self) -> float | None:
        """How long it took."""
        return msgspec.json.decode(self.record)["seconds"]  # type: ignore[no-any-return]


Reason = Literal["unavailable", "rejected", "denied", "budget"]


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A request that was not answered: why, and what was said. It is not kept, and asked again next time."""

    reason: Reason
    said: str


class Unavailable(Exception):  # noqa: N818  (it is no fault of the caller)
    """The server cannot answer now: ask again, not before `retry_after` seconds where it said so, and less at once
    where it is `busy`. `paid`: it may have made an answer that did not arrive, and ask money for it."""

    def __init__(self, said: str, *, retry_after: float | None = None, busy: bool = False, paid: bool = False) -> None:
        super().__init__(said)
        self.retry_after, self.busy, self.paid = retry_after, busy, paid


class Rejected(Exception):  # noqa: N818
    """The server will not answer this request, whenever it is asked."""


class Denied(Exception):  # noqa: N818
    """The server will answer no request: a wrong key, model or address."""
