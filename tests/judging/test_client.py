"""Addresses, keys and headers of requests to a server."""

from __future__ import annotations

import asyncio
import errno
import re
import socket
import ssl
import sys
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from custodes.errors import CustodesWarning, MissingExtraError, OptionError
from custodes.judging.client import _cause, address, http_client, retry_after
from custodes.judging.requests import MOST_WORDS, Request, server_message
from tests.judging.servers import Server
from tests.waiting import PATIENCE

NOW = datetime(2026, 11, 22, 10, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("base_url", "place"),
    [
        ("https://api.openai.com/v1/", "https://api.openai.com/v1"),
        ("https://API.OpenAI.com/v1/chat/completions", "https://api.openai.com/v1"),
        ("http://me:p%40ss@[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_an_address_without_credentials(base_url: str, place: str) -> None:
    assert repr(http_client(base_url, key=None, timeout=1)) == f"Server({place!r})"
    assert address(base_url) == place


@pytest.mark.parametrize(
    "base_url",
    [
        *("", "localhost:8000", "file:///etc/passwd", "https://", " http://localhost:8000/v1 "),
        *("http://host:99999", "http://host:0", "http://[::1", "http://me:hunter2@"),
        *("https://host/v1?key=hunter2", "https://me:hunter2@host/v1?x=1", "https://host/v1#hunter2", "http://a b/v1"),
        *("http://me:hunter2@host:port/v1", "http://host/v1\r\nX: hunter2x"),
    ],
)
def test_no_address_of_a_server(base_url: str) -> None:
    with pytest.raises(OptionError, match="^base_url=") as caught:
        http_client(base_url, key=None, timeout=1)
    if "hunter2x" not in base_url:
        assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_sent_has_the_credentials_and_says_nothing_of_this_machine(server: Server) -> None:
    with_login = server.url.replace("//", "//me:hunter2@")
    asker = http_client(with_login, key=None, timeout=PATIENCE)

    async def once() -> None:
        await asker({"model": "m", "messages": [{"role": "user", "content": "ß\u202e\x00"}]})
        await asker.aclose()  # type: ignore[attr-defined]

    asyncio.run(once())
    (request,) = server.seen
    assert request.headers.keys() == {
        *("host", "accept", "accept-encoding", "connection", "user-agent", "content-type", "content-length"),
        "authorization",
    }
    assert request.headers["authorization"] == "Basic bWU6aHVudGVyMg=="
    assert request.headers["user-agent"] == "custodes"
    assert request.body["messages"][0]["content"] == "ß\u202e\x00"
    assert "hunter2" not in repr(asker) + str(vars(asker)["address"])
    first, second = (Request.make(address(url), {"model": "m"}) for url in (with_login, server.url))
    assert first.key == second.key


@pytest.mark.parametrize("key", ["", " ", "two words", "a\nb", "kéy", "x\x00"])
def test_a_key_that_no_header_can_hold(key: str) -> None:
    with pytest.raises(OptionError, match="^the API key is empty or contains characters that are not allowed"):
        http_client("https://host/v1", key=key, timeout=1)
    with pytest.raises(
        OptionError, match="^https://host: the address contains credentials, and an API key is also set"
    ):
        http_client("https://me:hunter2@host", key="k", timeout=1)


@pytest.mark.parametrize("base_url", ["http://example.org/v1", "http://192.168.1.5:8000/v1"])
def test_a_key_over_the_network_unencrypted_is_told(base_url: str) -> None:
    with pytest.warns(CustodesWarning, match=r"^http://.*: the key is sent unencrypted over the network; use https$"):
        http_client(base_url, key="secret", timeout=1)
    for safe_url in ("https://example.org", "http://127.0.0.1:1", "http://localhost", "http://[::1]"):
        http_client(safe_url, key="secret", timeout=1)  # warnings are errors


@pytest.mark.parametrize(
    ("deepest", "message"),
    [
        (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number"), "WRONG_VERSION_NUMBER"),
        (ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] self-signed"), "CERTIFICATE_VERIFY_FAILED"),
        (socket.gaierror(-2, "Name or service not known"), "^Name or service not known$"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('::1', 3)"), "^Connection refused$"),
        (ExceptionGroup("all", [OSError(errno.ENETUNREACH, "x"), OSError(errno.ECONNREFUSED, "y")]), "unreachable$"),
    ],
)
def test_why_there_is_no_connection_is_what_the_system_said(deepest: Exception, message: str) -> None:
    above = RuntimeError("All connection attempts failed")
    above.__cause__ = deepest
    assert re.search(message, _cause(above))


def test_without_httpx2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'custodes\[judge\]'$"):
        http_client("https://host", key=None, timeout=1)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "Sun, 22 Nov 2026 10:00:30 GMT"}, 30),
        ({"retry-after": "Sunday, 22-Nov-26 10:00:30 GMT"}, 30),  # RFC 850, still required by RFC 9110
        ({"retry-after": "Sun Nov 22 10:00:30 2026"}, 30),  # asctime
        ({"retry-after": "Sun, 22 Nov 2026 09:00:00 GMT"}, 0),  # in the past
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "Mon, 01 Jan 99999999999 00:00:00 GMT"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "٣"}, None),
        ({"retry-after": "3", "retry-after-ms": "2500"}, 2.5),
    ],
)
def test_how_long_a_server_wants_to_be_left_alone(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == (seconds if seconds is None else pytest.approx(seconds))


@settings(max_examples=30)
@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda children: (
            st.lists(children) | st.dictionaries(st.sampled_from(["error", "message", "detail", "code"]), children)
        ),
    )
)
def test_whatever_a_server_says_is_one_short_line(content: object) -> None:
    text = server_message(content)
    assert len(text) <= MOST_WORDS * 10  # escapes are longer than the characters that they represent
    assert text.isprintable() or not set(text) & set("\n\r\x1b\x00\u202e")
