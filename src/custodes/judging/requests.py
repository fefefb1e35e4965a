"""Requests to a judge and raw replies (chat completions of OpenAI's protocol), and the errors of servers."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from custodes.control_characters import escape_controls
from custodes.errors import InputError
from custodes.judging.reply_json import encoded
from custodes.strict_json import prepare_decoder

Client = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Anything that answers the body of a chat completion (OpenAI's protocol) with its reply, or raises one of the errors
below; any other exception is taken for `Unavailable`."""

MOST_WORDS = 300
"""Characters of a server's words in an error."""

MOST_TOKENS = 2**40
"""More tokens than any request or answer has."""

BUSY = frozenset({429, 503, 529})
LATER = frozenset({408, 409, 425, 429})
NEVER = frozenset({401, 402, 403, 404, 405, 410})
NO_MONEY = "insufficient_quota"
"""What OpenAI says with 429 where an account has no money left, which waiting does not mend."""


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


RECORD = msgspec.json.Decoder(prepare_decoder(_Record))


class Reply(msgspec.Struct, frozen=True, gc=False):
    """The reply of a server as it is kept, and read anew each time: a hundred thousand are small only as bytes."""

    record: bytes

    @classmethod
    def make(cls, body: Mapping[str, Any], *, sent: str, seconds: float | None) -> Reply:
        """A reply that came: its body, when it was `sent` (ISO 8601, UTC), and seconds until it came (None: nobody
        knows, as of a batch)."""
        return cls(encoded({"asked": sent, "seconds": seconds, "reply": body}))

    @property
    def body(self) -> Mapping[str, Any]:
        """What the server said; InputError where the record is none of ours."""
        try:
            return RECORD.decode(self.record).reply
        except (msgspec.MsgspecError, ValueError, TypeError, RecursionError):
            raise InputError("a cached reply is damaged; give another file with --cache") from None

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
    message: str


class Unavailable(Exception):  # noqa: N818  (it is no fault of the caller)
    """The server cannot answer now: ask again, not before `retry_after` seconds where it said so, and less at once
    where it is `busy`. `paid`: it may have made an answer that did not arrive, and ask money for it."""

    def __init__(
        self, message: str, *, retry_after: float | None = None, busy: bool = False, paid: bool = False
    ) -> None:
        super().__init__(message)
        self.retry_after, self.busy, self.paid = retry_after, busy, paid


class Rejected(Exception):  # noqa: N818
    """The server will not answer this request, whenever it is asked."""

    reason: Reason = "rejected"


class Denied(Exception):  # noqa: N818
    """The server will answer no request: a wrong key, model or address."""

    reason: Reason = "denied"


def check_completion(body: Any) -> None:
    """Raise what is wrong with a body that came as a reply: `Unavailable` where it is no chat completion."""
    if not isinstance(body, Mapping):
        raise Unavailable("the reply is not a chat completion", paid=True)
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    if isinstance(first, Mapping) and isinstance(first.get("message"), Mapping) and not first.get("error"):
        return
    error = body.get("error") or (first.get("error") if isinstance(first, Mapping) else None)
    if error:  # OpenRouter says with 200 what happened after it had begun to answer
        code = error.get("code") if isinstance(error, Mapping) else None
        raise failed(code if isinstance(code, int) and 400 <= code < 600 else 502, error)
    raise Unavailable("the reply is not a chat completion", paid=True)


def token_count(tokens: Any) -> int | None:
    """Tokens as a server counted them; None for what is no number of tokens."""
    sound = isinstance(tokens, int) and not isinstance(tokens, bool) and 0 <= tokens <= MOST_TOKENS
    return tokens if sound else None


def failed(status: int, answer: Any, *, retry_after: float | None = None) -> Exception:
    """What a status and the server's words mean for the request."""
    text = f"{status}: {words(answer)}".rstrip(": ")
    error = answer.get("error", answer) if isinstance(answer, Mapping) else None
    if status in NEVER:
        return Denied(text)
    if status == 429 and isinstance(error, Mapping) and NO_MONEY in (error.get("code"), error.get("type")):
        return Denied(text)
    if status in LATER or status >= 500:
        return Unavailable(text, retry_after=retry_after, busy=status in BUSY)
    return Rejected(text)


def words(answer: Any) -> str:
    """What a server said, in one short and harmless line."""
    for _ in range(3):  # {"error": {"message": ...}} and its like
        if isinstance(answer, Mapping):
            named = (answer[name] for name in ("error", "message", "detail", "code") if answer.get(name))
            answer = next(named, "")
    text = answer if isinstance(answer, str) else "" if answer is None else str(answer)
    if text.lstrip()[:1] == "<":
        text = "a page of HTML"
    text = escape_controls(" ".join(text[: MOST_WORDS * 4].split()))
    return text if len(text) <= MOST_WORDS else f"{text[: MOST_WORDS - 3]}..."
