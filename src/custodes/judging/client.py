"""HTTP client of OpenAI's chat completions. vLLM, llama.cpp, Ollama and most providers support this protocol."""

from __future__ import annotations

import asyncio
import base64
import errno
import os
import re
import ssl
import warnings
from codecs import BOM_UTF8
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

from custodes.arguments import check_arguments
from custodes.control_characters import escape_controls
from custodes.errors import CustodesWarning, OptionError, reject, requires_extra, short_repr
from custodes.judging.requests import (
    Client,
    Denied,
    Rejected,
    Unavailable,
    check_completion,
    reply_json,
    status_exception,
    storable,
    without_surrogates,
)

if TYPE_CHECKING:
    import httpx2

PATH = "/chat/completions"
CONNECT = 20.0  # seconds for a connection
LARGEST = 32 * 2**20  # bytes of a reply
HIDDEN = "[key]"
NOTHING = r"(?!)"  # a pattern without a match
SHORTEST = 8
"""Minimum length of a secret that is hidden. Shorter API keys are placeholders (`EMPTY`), which may occur in a label or
a word. The names of the fields of an answer (`verdict`, `reason`, ...) are also shorter, so that they are never
hidden."""


def address(base_url: str) -> str:
    """The address of a server without credentials, for cache keys, provenance and error messages.

    Raises OptionError for an invalid address.

    >>> address("https://me:secret@Example.org/v1/")
    'https://example.org/v1'
    """
    url_parts = _parse_address(base_url)
    host = f"[{url_parts.hostname}]" if ":" in (url_parts.hostname or "") else url_parts.hostname
    port_text = "" if url_parts.port is None else f":{url_parts.port}"
    return f"{url_parts.scheme}://{host}{port_text}{url_parts.path.rstrip('/').removesuffix(PATH)}"


@check_arguments
def http_client(base_url: str, *, key: str | None = None, timeout: float = 600.0) -> Client:
    """Client of the server at `base_url` (the address before `/chat/completions`).

    Parameters
    ----------
    base_url : str
        Address of the server.
    key : str or None
        Key of the account. The key is sent only in the header of requests to this address, and is never shown.
    timeout : float
        Maximum time for a complete reply, in seconds.

    Returns
    -------
    Client
        The `client` argument of `judge`.

    Raises
    ------
    OptionError
        For an invalid address or key.
    MissingExtraError
        Without httpx2.

    Notes
    -----
    Redirects are not followed. The trust store of the system verifies certificates. The environment (HTTPS_PROXY,
    NO_PROXY) sets the proxies. A warning is issued if the key would be sent unencrypted.

    Examples
    --------
    >>> http_client("http://127.0.0.1:8000/v1")
    Server('http://127.0.0.1:8000/v1')
    """
    url_parts, server_address = _parse_address(base_url), address(base_url)
    user_and_password = (
        None if url_parts.username is None else (unquote(url_parts.username), unquote(url_parts.password or ""))
    )
    reject(
        (
            not 0 < timeout < float("inf"),
            f"timeout={timeout:g} is not allowed; give a number of seconds above 0",
        ),
        (
            key is not None and not re.fullmatch(r"[\x21-\x7e]+", key),
            "the API key is empty or contains characters that are not allowed in a key (the key is not shown here)",
        ),
        (
            key is not None and user_and_password is not None,
            f"{server_address}: the address contains credentials, and an API key is also set; "
            "remove the credentials or the key",
        ),
    )
    if (key or user_and_password) and url_parts.scheme == "http" and not _is_local(url_parts.hostname or ""):
        warnings.warn(
            f"{server_address}: the key is sent unencrypted over the network; use https", CustodesWarning, stacklevel=3
        )
    with requires_extra("requests to a server need httpx2", "judge"):
        import httpx2  # noqa: F401  (reported before anything is sent)
    return Server(server_address, key=key, login=user_and_password, timeout=timeout)


class Server:
    """A `Client` of a server. Each event loop has separate connections."""

    def __init__(self, server_address: str, *, key: str | None, login: tuple[str, str] | None, timeout: float) -> None:
        self.address, self.timeout = server_address, timeout
        self._key, self._login = key, login
        self._secrets = _secrets(key, login)
        self._heard = self._answered = False
        self._open: dict[asyncio.AbstractEventLoop, httpx2.AsyncClient] = {}

    def __repr__(self) -> str:
        return f"Server({self.address!r})"

    async def __call__(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        import httpx2

        try:
            async with asyncio.timeout(self.timeout):
                http_status, reply_headers, reply_content = await self._post_request(msgspec.json.encode(body))
        except (TimeoutError, httpx2.TimeoutException):
            raise Unavailable(f"{self.address}: no complete reply within {self.timeout:g} s", paid=True) from None
        except (httpx2.ConnectError, httpx2.ProxyError) as problem:
            # A server that has replied before may be restarting.
            raise (Unavailable if self._heard else Denied)(
                self._message(f"cannot be reached ({_cause(problem)})")
            ) from None
        except (httpx2.UnsupportedProtocol, httpx2.LocalProtocolError, httpx2.InvalidURL) as problem:
            raise Denied(self._message(str(problem))) from None
        except httpx2.RequestError as problem:
            raise Unavailable(
                self._message(f"the connection broke ({str(problem) or type(problem).__name__})"), paid=True
            ) from None
        return self._read(http_status, reply_headers, reply_content)

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        if client := self._open.pop(asyncio.get_running_loop(), None):
            await client.aclose()

    async def _post_request(self, content: bytes) -> tuple[int, Mapping[str, str], bytes]:
        async with self._client().stream("POST", f"{self.address}{PATH}", content=content) as response:
            self._heard = True
            received_bytes = bytearray()
            async for chunk in response.aiter_bytes():
                received_bytes += chunk
                if len(received_bytes) > LARGEST:
                    raise Unavailable(f"{self.address}: the reply is longer than {LARGEST // 2**20} MiB", paid=True)
            return response.status_code, response.headers, bytes(received_bytes)

    def _client(self) -> httpx2.AsyncClient:
        import httpx2

        event_loop = asyncio.get_running_loop()
        if event_loop not in self._open:
            self._open[event_loop] = httpx2.AsyncClient(
                auth=self._login,
                headers={
                    "content-type": "application/json",
                    "accept-encoding": "identity",
                    "user-agent": "custodes",
                    **({} if self._key is None else {"authorization": f"Bearer {self._key}"}),
                },
                follow_redirects=False,
                timeout=httpx2.Timeout(self.timeout, connect=min(CONNECT, self.timeout)),
                limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None),
            )
        return self._open[event_loop]

    def _read(self, status: int, headers: Mapping[str, str], content: bytes) -> Mapping[str, Any]:
        reply_body = None
        with suppress(ValueError):  # secrets are removed from the reply
            reply_body = storable(
                reply_json(content.removeprefix(BOM_UTF8)),
                convert_text=lambda text: without_surrogates(self._redact_secrets(text)),
            )
        if 200 <= status < 300:
            if reply_body is None:
                content_description = (
                    "a page of HTML" if content.lstrip()[:1] == b"<" else "an incomplete answer, or not JSON"
                )
                raise Unavailable(f"{self.address}: the reply was {content_description}", paid=True)
            check_completion(reply_body)
            self._answered = True
            return reply_body  # type: ignore[no-any-return]
        if 300 <= status < 400:
            raise Denied(
                f"{self.address}: {status}: the server redirects to another address, to which the key is not "
                f"sent; give the final address"
            )
        error_reply = self._redact_secrets(content.decode(errors="replace")) if reply_body is None else reply_body
        status_error = status_exception(status, error_reply, retry_after=retry_after(headers, datetime.now(UTC)))
        if status == 403 and self._answered:  # the key is valid; only this request is refused (by moderation)
            raise Rejected(str(status_error))
        raise status_error

    def _message(self, problem_text: str) -> str:
        return escape_controls(" ".join(self._redact_secrets(f"{self.address}: {problem_text}").split()))

    def _redact_secrets(self, text: str) -> str:
        return self._secrets.sub(HIDDEN, text)


def _secrets(key: str | None, login: tuple[str, str] | None) -> re.Pattern[str]:
    """A pattern that finds the secrets in a reply, either verbatim or escaped (as in a string of JSON that holds
    JSON)."""
    credentials_text = ":".join(login or ())
    secret_texts = [
        key or "",
        base64.b64encode(credentials_text.encode()).decode(),
        credentials_text,
        *(login or ())[1:],
    ]
    secret_patterns = [
        "".join(map(_letter_pattern, secret_text)) for secret_text in secret_texts if len(secret_text) >= SHORTEST
    ]
    return re.compile("|".join(secret_patterns) or NOTHING)


def _letter_pattern(letter: str) -> str:
    hex_units = letter.encode("utf-16-be").hex(" ", 2).split()
    escape_pattern = "".join(rf"\\{{1,4}}u(?i:{hex_unit})" for hex_unit in hex_units)
    return rf"(?:{escape_pattern}|\\{{0,4}}{re.escape(letter)})"


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """The seconds to wait according to the headers of a reply; None if these headers are missing. The headers are
    Retry-After, in seconds or as a date (RFC 9110), and `retry-after-ms` of OpenAI.

    >>> retry_after({"retry-after": "Sun, 22 Nov 2026 10:00:30 GMT"}, datetime(2026, 11, 22, 10, tzinfo=UTC))
    30.0
    """
    for header_name, units_per_second in (("retry-after-ms", 1000), ("retry-after", 1)):
        header_text = headers.get(header_name, "")
        if re.fullmatch(r"\s*\d{1,9}(\.\d{1,9})?\s*", header_text, re.ASCII):
            return float(header_text) / units_per_second
    with suppress(ValueError, OverflowError):
        retry_time = parsedate_to_datetime(header_text)
        return max(0.0, (retry_time.replace(tzinfo=retry_time.tzinfo or UTC) - now).total_seconds())
    return None


def _parse_address(base_url: str) -> SplitResult:
    """The parts of an address. Messages about an invalid address show no credentials."""
    displayed_url = short_repr(re.sub(r"//.*@", "//", base_url))
    try:
        url_parts = urlsplit(base_url.strip())
        has_port_0 = url_parts.port == 0  # raises for an invalid port
    except ValueError:
        raise OptionError(
            f"base_url={displayed_url}: this is not an address; give one such as http://127.0.0.1:8000/v1"
        ) from None
    reject(
        (
            url_parts.scheme not in ("http", "https")
            or not url_parts.hostname
            or has_port_0
            or re.search(r"[\s\x00-\x1f]", base_url),
            f"base_url={displayed_url}: this is not the address of a server; give one such as http://127.0.0.1:8000/v1",
        ),
        (
            url_parts.query or url_parts.fragment,
            f"base_url={re.split('[?#]', displayed_url)[0]}...': an address must not contain ? or #; if an API key "
            "follows this character, give the key with its own option",
        ),
    )
    return url_parts


def _cause(problem: BaseException) -> str:
    """The message of the operating system on a connection error, without the messages that libraries add."""
    while (deeper_problem := problem.__cause__ or problem.__context__) is not None:
        problem = deeper_problem
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    if not isinstance(problem, OSError) or isinstance(problem, ssl.SSLError):  # SSL errors have numbers of their own
        return str(problem)
    return os.strerror(problem.errno or 0) if problem.errno in errno.errorcode else problem.strerror or str(problem)


def _is_local(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
