"""Requests to a judge, raw replies (chat completions of OpenAI's protocol), the cache of replies, and errors of
servers."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from custodes.cache import Cache
from custodes.control_characters import escape_controls
from custodes.errors import InputError
from custodes.strict_json import prepare_decoder

Client = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""A callable that gets the body of a chat completion (OpenAI's protocol) and returns the reply. If there is no reply,
the callable raises one of the errors below. Any other exception counts as `Unavailable`."""

MOST_WORDS = 300
"""Maximum number of characters of a server's message in an error."""

MOST_TOKENS = 2**40
"""An upper bound on the tokens of any request or answer."""

BUSY = frozenset({429, 503, 529})
LATER = frozenset({408, 409, 425, 429})
NEVER = frozenset({401, 402, 403, 404, 405, 410})
NO_MONEY = "insufficient_quota"
"""Error code of OpenAI (status 429) for an account without credit. Such a request is not repeated."""

DEEPEST = 100
"""Maximum depth of a stored reply; a chat completion has about ten levels."""

SURROGATE = re.compile("[\ud800-\udfff]")


def without_surrogates(text: str) -> str:
    """A text in which lone surrogates are replaced by U+FFFD."""
    return text if text.isascii() else SURROGATE.sub("\ufffd", text)


def reply_json(content: bytes) -> Any:
    """The value of a JSON text.

    Lone surrogates and bytes that are not UTF-8 become U+FFFD when the value is stored. Raises ValueError for JSON that
    is invalid or too deeply nested.
    """
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return msgspec.json.decode(content)
    try:
        return json.loads(content.decode(errors="replace"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def storable(value: Any, *, convert_text: Callable[[str], str] = without_surrogates, level: int = 0) -> Any:
    """A JSON value with `convert_text` applied to every string, and null for values below `DEEPEST` levels. Raises
    TypeError for other values.

    >>> storable({"a": ["b", {"c": "\\ud800"}]}) == {"a": ["b", {"c": "\\ufffd"}]}
    True
    """
    if isinstance(value, str):
        return convert_text(str(value))
    if value is None or isinstance(value, bool | int | float):
        return value
    if level >= DEEPEST:
        return None
    if isinstance(value, Mapping):
        return {
            convert_text(str(field_name)): storable(field_value, convert_text=convert_text, level=level + 1)
            for field_name, field_value in value.items()
        }
    if isinstance(value, list | tuple):
        return [storable(element, convert_text=convert_text, level=level + 1) for element in value]
    raise TypeError(f"a {type(value).__name__} is no value of JSON")


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request to a judge: the body, and the key under which the reply is stored."""

    key: str
    body: Mapping[str, Any]

    @classmethod
    def make(cls, address: str, body: Mapping[str, Any], repeat: str = "0") -> Request:
        """Create a request and its key. The key is a hash of the address of the server (without credentials), the body
        and the number of the repeat. Account keys, names of systems and the order of files do not affect the key.

        >>> one, two = (Request.make("http://localhost", {"model": "m", "n": n}) for n in (1, 2))
        >>> one.key == two.key, len(one.key)
        (False, 64)
        """
        encoded_request = msgspec.json.encode([address, body, repeat], order="sorted")
        return cls(key=hashlib.sha256(encoded_request).hexdigest(), body=body)


class _Record(msgspec.Struct, frozen=True, gc=False):
    asked: str
    seconds: float | None
    reply: dict[str, Any]


RECORD = msgspec.json.Decoder(prepare_decoder(_Record))


class Reply(msgspec.Struct, frozen=True, gc=False):
    """A stored reply of a server, which is parsed again in each run. The reply is stored as bytes to save memory."""

    record: bytes

    @classmethod
    def make(cls, body: Mapping[str, Any], *, sent_time: str, seconds: float | None) -> Reply:
        """Create a record of a reply: the body, the time at which the request was sent, and the seconds until the
        reply. `sent_time` is in UTC and ISO 8601. The seconds are None if unknown, as in a batch. Raises TypeError if
        the body has a value that JSON cannot represent.
        """
        return cls(msgspec.json.encode(storable({"asked": sent_time, "seconds": seconds, "reply": body})))

    @property
    def body(self) -> Mapping[str, Any]:
        """The body of the reply. A damaged record raises InputError."""
        try:
            return RECORD.decode(self.record).reply
        except (msgspec.MsgspecError, ValueError, TypeError, RecursionError):
            raise InputError("a cached reply is damaged; give another file with --cache") from None

    @property
    def seconds(self) -> float | None:
        """Seconds until the reply."""
        return msgspec.json.decode(self.record)["seconds"]  # type: ignore[no-any-return]


def find_replies(requests: Sequence[Request], cache: Cache) -> tuple[dict[str, Reply], list[Request]]:
    """The stored replies by key, and the distinct requests that have no stored reply."""
    request_of_key = {request.key: request for request in requests}
    reply_of_key = {key: Reply(encoded_reply) for key, encoded_reply in cache.replies(list(request_of_key)).items()}
    return reply_of_key, [request for key, request in request_of_key.items() if key not in reply_of_key]


def store_reply(cache: Cache, request: Request, reply: Reply) -> None:
    """Store a reply and the request for it. An existing reply is not replaced."""
    cache.keep_reply(request.key, reply.record, msgspec.json.encode(request.body))


Reason = Literal["unavailable", "rejected", "denied", "budget"]


@dataclass(frozen=True, kw_only=True)
class Failure:
    """The reason and the message for a request without a reply. Failures are not stored, and the next run sends the
    request again."""

    reason: Reason
    message: str


class Unavailable(Exception):  # noqa: N818  (not the caller's error)
    """The server cannot answer now, and the request is sent again. If the server requested a pause, the next attempt is
    after `retry_after` seconds. If the server is `busy`, there are fewer concurrent requests. `paid` is true if the
    lost answer may have a cost.
    """

    def __init__(
        self, message: str, *, retry_after: float | None = None, busy: bool = False, paid: bool = False
    ) -> None:
        super().__init__(message)
        self.retry_after, self.busy, self.paid = retry_after, busy, paid


class Rejected(Exception):  # noqa: N818
    """The server rejects this request permanently."""

    reason: Reason = "rejected"


class Denied(Exception):  # noqa: N818
    """The server cannot answer any request, because the key, the model or the address is wrong."""

    reason: Reason = "denied"


def check_completion(body: Any) -> None:
    """Raise an error for an invalid body of a reply, such as `Unavailable` for a body that is not a chat completion."""
    body_fields = body if isinstance(body, Mapping) else {}
    choices = body_fields.get("choices")
    first_choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], Mapping) else {}
    if isinstance(first_choice.get("message"), Mapping) and not first_choice.get("error"):
        return
    # OpenRouter sends errors with status 200.
    reported_error = body_fields.get("error") or first_choice.get("error")
    if not reported_error:
        raise Unavailable("the reply is not a chat completion", paid=True)
    error_code = reported_error.get("code") if isinstance(reported_error, Mapping) else None
    raise status_exception(
        error_code if isinstance(error_code, int) and 400 <= error_code < 600 else 502, reported_error
    )


def token_count(reported_count: Any) -> int | None:
    """The token count that a server reported; None if the count is invalid."""
    is_whole = isinstance(reported_count, int) and not isinstance(reported_count, bool)
    return reported_count if is_whole and 0 <= reported_count <= MOST_TOKENS else None


def reported_tokens(body: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """The numbers of input and output tokens that a server reported in a reply."""
    usage = body.get("usage")
    usage_fields = usage if isinstance(usage, Mapping) else {}
    return token_count(usage_fields.get("prompt_tokens")), token_count(usage_fields.get("completion_tokens"))


def status_exception(status: int, error_reply: Any, *, retry_after: float | None = None) -> Exception:
    """The exception for a status and a message of a server."""
    message = f"{status}: {server_message(error_reply)}".rstrip(": ")
    reported_error = error_reply.get("error", error_reply) if isinstance(error_reply, Mapping) else None
    is_out_of_credit = isinstance(reported_error, Mapping) and NO_MONEY in (
        reported_error.get("code"),
        reported_error.get("type"),
    )
    if status in NEVER or (status == 429 and is_out_of_credit):
        return Denied(message)
    if status in LATER or status >= 500:
        return Unavailable(message, retry_after=retry_after, busy=status in BUSY)
    return Rejected(message)


def server_message(error_reply: Any) -> str:
    """The message of a server in one short line without control characters."""
    for _ in range(3):  # {"error": {"message": ...}} and similar
        if isinstance(error_reply, Mapping):
            error_reply = next(filter(None, map(error_reply.get, ("error", "message", "detail", "code"))), "")
    message = "" if error_reply is None else str(error_reply)
    if message.lstrip()[:1] == "<":
        message = "a page of HTML"
    message = escape_controls(" ".join(message[: MOST_WORDS * 4].split()))
    return message if len(message) <= MOST_WORDS else f"{message[: MOST_WORDS - 3]}..."
