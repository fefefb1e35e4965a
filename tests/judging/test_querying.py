"""HTTP requests to a misbehaving server: no reply is lost or invented, and every failure is named."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from custodes.cache import Cache
from custodes.errors import InputError, OptionError
from custodes.judging import querying
from custodes.judging.client import http_client
from custodes.judging.cost import Budget, Price
from custodes.judging.dispatch import Patience
from custodes.judging.querying import QueryReplies, query
from custodes.judging.requests import Client, Request, Unavailable, find_replies
from custodes.progress import silent
from tests.judging import servers
from tests.judging.servers import Manner, Seen, Server, completion, fails, half, html, reset, says, sends
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.usefixtures("quick")
KEY = "sk-very-secret-0123456789"


def bodies(count: int, *, start: int = 0, **more: Any) -> list[Request]:
    return [
        Request.make("http://judge", {"model": "m", "messages": [{"role": "user", "content": f"text {n}"}], **more})
        for n in range(start, start + count)
    ]


def replies_to(requests: list[Request], client: Client, cache: Cache | None = None, **options: Any) -> QueryReplies:
    options = {"concurrency": 8, "rpm": None, "budget": Budget(), "progress": silent} | options
    return query(requests, client, cache=Cache() if cache is None else cache, **options)


def client(server: Server, *, key: str | None = KEY, timeout: float = PATIENCE) -> Client:
    return http_client(server.url, key=key, timeout=timeout)


def texts(answers: QueryReplies, requests: list[Request]) -> list[str]:
    """Return the texts of the replies, after checking that there is one per request."""
    assert answers.replies.keys() == {request.key for request in requests}
    return [answers.replies[request.key].body["choices"][0]["message"]["content"] for request in requests]


def number(request: Seen) -> int:
    return int(request.body["messages"][0]["content"].split()[1])


def test_every_request_is_answered_once_and_then_from_the_cache(server: Server, tmp_path: Path) -> None:
    server.answer = lambda request, attempts: says(str(number(request)))
    requests = bodies(40)
    with Cache(tmp_path / "kept.db") as cache:
        first = replies_to([*requests, *requests[:5]], client(server), cache)
    assert texts(first, requests) == [str(n) for n in range(40)]
    assert (first.asked, first.failures, len(server.seen)) == (40, {}, 40)
    assert {(request.method, request.path, request.headers["authorization"]) for request in server.seen} == {
        ("POST", "/v1/chat/completions", f"Bearer {KEY}")
    }
    assert server.most_at_once <= 8
    with Cache(tmp_path / "kept.db") as cache:
        again = replies_to(requests, client(server), cache)
    assert (again.replies, again.asked, len(server.seen)) == (first.replies, 0, 40)
    assert KEY.encode() not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


PASSING: dict[str, Manner] = {
    "429 with seconds": fails(429, headers={"retry-after": "0"}),
    "429 with milliseconds": fails(429, headers={"retry-after-ms": "3"}),
    "429 with nonsense": fails(429, headers={"retry-after": "when it is over"}),
    **{f"{status}": fails(status) for status in (408, 500, 503)},
    "half a body": half,
    "half of the JSON": sends(200, b'{"choices": [{"message": {"con'),
    "malformed JSON": sends(200, b"{'choices': []}"),
    "bytes that are no text": sends(200, b'{"choices": "\xff\xfe"}'),
    "HTML with 200": html(),
    "no completion": sends(200, {"object": "list", "data": []}),
    "a list": sends(200, [1, 2]),
    "an error with 200": sends(200, {"error": {"message": "overloaded", "code": 502}}),
    "an error in the choice": sends(200, completion("", finish_reason="error", error={"code": 503, "message": "gone"})),
    "reset": reset,
}


@pytest.mark.parametrize("manner", PASSING.values(), ids=PASSING.keys())
def test_what_passes_is_asked_again(server: Server, manner: Manner) -> None:
    server.answer = lambda request, attempts: (
        manner if attempts < 2 and number(request) % 2 else says(str(number(request)))
    )
    answers = replies_to(bodies(8), client(server))
    assert texts(answers, bodies(8)) == [str(n) for n in range(8)]
    assert (answers.asked, answers.failures, len(server.seen)) == (8, {}, 16)


@pytest.mark.parametrize("manner", [servers.silence, servers.trickle], ids=["silence", "trickle"])
def test_a_reply_that_does_not_come_in_time_is_asked_for_again(server: Server, manner: Manner) -> None:
    """Only the first try of request 1 has a short timeout."""
    given_up: list[str] = []
    server.answer = lambda request, attempts: manner if number(request) == 1 and not given_up else says()
    hasty, patient = client(server, timeout=0.05), client(server)

    async def judge(body: Mapping[str, Any]) -> Mapping[str, Any]:
        if given_up or "text 1" not in str(body):
            return await patient(body)
        try:
            return await hasty(body)
        except Unavailable as problem:
            given_up.append(str(problem))
            raise
        finally:
            await hasty.aclose()

    judge.aclose = patient.aclose  # type: ignore[attr-defined]
    answers = replies_to(bodies(3), judge)
    assert (len(answers.replies), answers.failures) == (3, {})
    assert given_up == [f"{server.url}: no complete reply within 0.05 s"]


def outcomes(answers: QueryReplies) -> dict[tuple[str, str], int]:
    """Return the number of failures by reason and message."""
    return Counter((failure.reason, failure.message) for failure in answers.failures.values())


def test_what_does_not_pass_is_named_and_not_kept(server: Server) -> None:
    server.answer = lambda request, attempts: fails(500, "out of\norder\x1b[31m") if number(request) == 2 else says()
    cache = Cache()
    answers = replies_to(bodies(6), client(server), cache)
    assert outcomes(answers) == {("unavailable", r"500: out of order\x1b[31m (sent 6 times)"): 1}
    assert (len(answers.replies), answers.asked, len(server.seen)) == (5, 6, 11)
    server.answer = lambda request, attempts: says()
    assert (replies_to(bodies(6), client(server), cache).asked, len(server.seen)) == (1, 12)


def test_a_server_that_is_gone_ends_the_run(server: Server) -> None:
    server.answer = lambda request, attempts: fails(500)
    answers = replies_to(bodies(100), client(server))
    message = "500: told so (sent 6 times)"
    stopped = ("unavailable", f"not sent: 5 requests in a row were not answered: {message}")
    assert outcomes(answers) == {("unavailable", message): 5, stopped: 95}
    assert 5 <= answers.asked <= 10
    assert 5 * 6 <= len(server.seen) < 10 * 6


def test_a_server_that_wants_hours_of_rest_ends_the_run(server: Server) -> None:
    server.answer = lambda request, attempts: (
        fails(429, headers={"retry-after": "86400"}) if number(request) else says()
    )
    answers = replies_to(bodies(30), client(server), concurrency=1)
    message = "not sent: the server requests a pause of 86400 s; run the command again after that time"
    assert (len(server.seen), outcomes(answers)["unavailable", message]) == (2, 28)


def test_rejected_requests_carry_the_servers_words_and_are_not_asked_again(server: Server) -> None:
    server.answer = lambda request, attempts: fails(400, f"no {'x' * 1000}") if number(request) in (2, 4, 6) else says()
    answers = replies_to(bodies(8), client(server))
    assert outcomes(answers) == {("rejected", f"400: no {'x' * 294}..."): 3}
    assert (len(answers.replies), len(server.seen)) == (5, 8)


def test_five_rejections_in_a_row_end_the_run(server: Server) -> None:
    server.answer = lambda request, attempts: fails(422, "'temperature' is not supported", code="x")
    with pytest.raises(OptionError, match="queried: 5 requests in a row were rejected: 422: 'temperature' is not"):
        replies_to(bodies(30), client(server))
    assert len(server.seen) == 5
    cache = Cache()
    server.answer = lambda request, attempts: says() if number(request) < 10 else fails(422)
    answers = replies_to(bodies(60), client(server), cache, concurrency=1)
    assert (len(answers.replies), len(server.seen)) == (10, 20)
    assert [reason for reason, _ in outcomes(answers)] == ["rejected"] * 2


DENIED = {
    "wrong key": (fails(401, f"Incorrect API key provided: {KEY}"), "401: Incorrect API key provided: [key]"),
    "forbidden": (fails(403, "not for you"), "403: not for you"),
    "no such page": (html(404), "404: a page of HTML"),
    "quota": (fails(429, "You exceeded your quota", code="insufficient_quota"), "429: You exceeded your quota"),
}


@pytest.mark.parametrize(("manner", "message"), DENIED.values(), ids=DENIED.keys())
def test_a_server_that_answers_nothing_is_asked_once(server: Server, manner: Manner, message: str) -> None:
    server.answer = lambda request, attempts: manner
    cache = Cache()
    with pytest.raises(OptionError) as caught:
        replies_to(bodies(30), client(server), cache, concurrency=16)
    assert str(caught.value) == f"the judge cannot be queried: {message}"
    assert len(server.seen) == 1
    server.answer = lambda request, attempts: says()
    replies_to(bodies(3), client(server), cache)
    server.answer = lambda request, attempts: manner  # a revoked key
    answers = replies_to(bodies(30), client(server), cache, concurrency=1)
    assert (len(answers.replies), len(answers.failures)) == (3, 27)
    assert {reason for reason, _ in outcomes(answers)} == {"denied"}
    assert KEY not in repr(answers)


def test_403_after_an_answer_is_about_one_request(server: Server) -> None:
    server.answer = lambda request, attempts: fails(403, "flagged by moderation") if number(request) == 3 else says()
    answers = replies_to(bodies(9), client(server))
    assert (outcomes(answers), len(answers.replies)) == ({("rejected", "403: flagged by moderation"): 1}, 8)


def test_a_redirect_is_not_followed_and_the_key_goes_nowhere(server: Server) -> None:
    with closing(Server()) as target:
        server.answer = lambda request, attempts: sends(307, b"", {"location": f"{target.url}/chat/completions"})
        with pytest.raises(OptionError, match="307: the server redirects to another address") as caught:
            replies_to(bodies(3), client(server))
        assert target.seen == []
        assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    "escaped",
    [
        lambda key: json.dumps(key).replace("/", "\\/"),
        lambda key: '"' + "".join(f"\\u{ord(letter):04X}" for letter in key) + '"',
        lambda key: json.dumps(json.dumps(key).replace("/", "\\/")),  # inside the JSON of an answer
        lambda key: json.dumps("".join(f"\\u{ord(letter):04x}" for letter in key)),
    ],
    ids=["solidus", "numbers", "solidus within", "numbers within"],
)
def test_a_key_that_is_escaped_is_not_kept(server: Server, escaped: Callable[[str], str]) -> None:
    key = "sk-very/secret/0123456789"
    content = json.dumps(completion())[:-1] + f', "more": {{"said": {escaped(key)}, {escaped(key)}: 1}}}}'
    server.answer = lambda request, attempts: sends(200, content.encode())
    (reply,) = replies_to(bodies(1), client(server, key=key)).replies.values()
    assert "[key]" in str(reply.body["more"])
    assert "0123456789" not in re.sub(r"\\u00(..)", lambda match: chr(int(match[1], 16)), repr(reply.body))
    server.answer = lambda request, attempts: sends(401, f'{{"error": {escaped(key)}}}'.encode())
    with pytest.raises(OptionError, match=r"401: .*\[key\]"):
        replies_to(bodies(1), client(server, key=key))
    server.answer = lambda request, attempts: sends(401, f"no JSON: {escaped(key)}".encode())
    with pytest.raises(OptionError, match=r"401: no JSON: .*\[key\]"):
        replies_to(bodies(1), client(server, key=key))


def test_credentials_of_the_address_are_not_kept_either(server: Server) -> None:
    login = "me:p%40ssw0rd%2F!"
    secrets = {"pair": "me:p@ssw0rd/!", "password": "p@ssw0rd/!", "header": "bWU6cEBzc3cwcmQvIQ=="}
    server.answer = lambda request, attempts: sends(
        200, completion() | secrets | {"seen": request.headers["authorization"]}
    )
    asker = http_client(server.url.replace("//", f"//{login}@"), key=None, timeout=PATIENCE)
    (reply,) = replies_to(bodies(1), asker).replies.values()
    assert {reply.body[name] for name in secrets} == {"[key]"}
    assert reply.body["seen"] == "Basic [key]"
    server.answer = lambda request, attempts: fails(401, " ".join(secrets.values()))
    with pytest.raises(OptionError, match=r"401: \[key\] \[key\] \[key\]$"):
        replies_to(bodies(1, start=5), asker)


@pytest.mark.parametrize("key", ["1", "EMPTY", "verdict"])
def test_a_placeholder_for_a_key_changes_no_reply(server: Server, key: str) -> None:
    body = completion('{"verdict": "A", "why": "x, EMPTY"}') | {"created": 1010}
    server.answer = lambda request, attempts: sends(200, body)
    (reply,) = replies_to(bodies(1), client(server, key=key)).replies.values()
    assert reply.body == body


def test_a_server_that_restarts_is_asked_again(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(querying, "PATIENCE", Patience(tries=10_000, first=0.005, longest=0.05))
    inner = client(server)

    async def watched(body: Mapping[str, Any]) -> Mapping[str, Any]:
        if len(server.seen) >= 20 and not stops:
            stops.append(True)
            await asyncio.to_thread(server.stop)
            asyncio.get_running_loop().call_later(0.05, lambda: asyncio.ensure_future(asyncio.to_thread(server.start)))
        return await inner(body)

    stops: list[bool] = []
    watched.aclose = inner.aclose  # type: ignore[attr-defined]
    answers = replies_to(bodies(60), watched)
    assert (len(answers.replies), answers.failures, stops) == (60, {}, [True])


def test_no_server_at_the_start_is_an_error_before_anything_is_spent() -> None:
    with pytest.raises(OptionError, match=r"queried: http://127\.0\.0\.1:1/v1: cannot be reached \(Connection refused"):
        replies_to(bodies(5), http_client("http://127.0.0.1:1/v1", key=None, timeout=PATIENCE))


def test_the_window_halves_when_the_server_is_busy_and_grows_with_answers(server: Server) -> None:
    at_once = [0]

    def answer(request: Seen, attempts: int) -> Manner:
        at_once.append(server._at_once)
        return fails(429) if server._at_once > 4 else slowly

    async def slowly(writer: asyncio.StreamWriter) -> bool:
        await asyncio.sleep(0.002)
        return await says()(writer)

    server.answer = answer
    answers = replies_to(
        bodies(150), client(server), concurrency=64, patience=Patience(tries=10_000, first=0.002, longest=0.02)
    )
    assert (len(answers.replies), answers.failures) == (150, {})
    assert at_once[1] == 1  # the first request is alone
    assert 4 < server.most_at_once < 40


def test_rates_space_requests_evenly(server: Server) -> None:
    start = time.monotonic()  # 10 ms apart: 100 requests a second
    assert len(replies_to(bodies(6, max_tokens=8), client(server), rpm=6_000).replies) == 6
    assert time.monotonic() - start >= 5 * 0.010


PRICE = Price(input=0.0, output=1e6)  # a dollar per output token


def test_the_budget_is_never_passed_and_a_run_goes_on_where_it_ended(server: Server) -> None:
    cache, requests = Cache(), bodies(20, max_tokens=5)  # at most $5 each, $2 in fact
    answers = replies_to(requests, client(server), cache, budget=Budget(limit=21, price=PRICE))
    # Nine cost $18; the tenth could cost $5, and 18 + 5 > 21.
    message = "not sent: the request could exceed the cost limit of $21, of which $18.0000 are spent"
    assert (outcomes(answers), len(answers.replies), len(server.seen)) == ({("budget", message): 11}, 9, 9)
    rest = replies_to(requests, client(server), cache, budget=Budget(limit=30, price=PRICE))
    assert (len(rest.replies), rest.failures, len(server.seen)) == (20, {}, 20)
    none = replies_to(bodies(3, start=50), client(server), cache, budget=Budget(limit=1, price=PRICE))
    assert (len(none.replies), len(none.failures), len(server.seen)) == (0, 3, 20)


@pytest.mark.parametrize(
    "result", [None, 3, {"choices": 3}, {"choices": [{"message": {1, 2}}]}, completion({"x": object()})]
)  # type: ignore[arg-type]
def test_a_client_of_somebody_else_that_gives_nonsense_is_named(result: Any) -> None:
    async def odd(body: Mapping[str, Any]) -> Any:
        return result

    answers = replies_to(bodies(2), odd)
    assert answers.replies == {}
    assert {reason for reason, _ in outcomes(answers)} == {"unavailable"}


ODD: dict[str, Any] = {
    "a choice that is none": completion(usage=False) | {"choices": [*completion()["choices"], None]},
    "parts that are texts": completion(['{"verdict": "A"}'], usage=False),  # type: ignore[arg-type]
    "a usage that is none": completion() | {"usage": [1]},
    "tokens that are none": completion() | {"usage": {"prompt_tokens": 10**30, "completion_tokens": True}},
}


@pytest.mark.parametrize("body", ODD.values(), ids=ODD.keys())
def test_a_reply_that_came_is_kept_whatever_else_is_in_it(server: Server, body: Any) -> None:
    server.answer = lambda request, attempts: sends(200, body)
    cache, budget = Cache(), Budget(limit=100, price=PRICE)
    answers = replies_to(bodies(3, max_tokens=5), client(server), cache, budget=budget)
    assert [reply.body for reply in answers.replies.values()] == [body] * 3
    assert (budget.spent, len(server.seen)) == (15, 3)
    assert len(find_replies(bodies(3, max_tokens=5), cache)[0]) == 3


@pytest.mark.parametrize(
    "fault", [ZeroDivisionError("by zero"), SystemExit(3), TimeoutError(), asyncio.CancelledError()]
)
def test_a_client_of_somebody_else_that_fails_is_asked_again(fault: BaseException) -> None:
    tries: list[int] = []

    async def odd(body: Any) -> Any:
        tries.append(1)
        body["messages"].clear()  # changes no request
        if len(tries) < 3:
            raise fault
        return completion()

    requests = bodies(3)
    answers = replies_to(requests, odd)
    assert (len(answers.replies), len(tries)) == (3, 5)
    assert [request.body["messages"][0]["content"] for request in requests] == ["text 0", "text 1", "text 2"]


def test_progress_counts_every_request_and_an_interrupt_keeps_what_came(server: Server) -> None:
    counts: list[int] = []

    def counting(iterable: Iterable[Any], /, *, total: int | None = None, desc: str | None = None) -> Iterable[Any]:
        done = 0
        for value in iterable:
            done += 1
            counts.append(done)
            yield value
            if interrupt and done == 10:
                raise KeyboardInterrupt
        assert done == total

    cache, interrupt = Cache(), True
    with pytest.raises(KeyboardInterrupt):
        replies_to(bodies(100), client(server), cache, progress=counting)
    n_cached = len(find_replies(bodies(100), cache)[0])
    assert 10 <= n_cached < 100
    interrupt = False
    rest = replies_to(bodies(100), client(server), cache, progress=counting)
    assert (len(rest.replies), rest.asked) == (100, 100 - n_cached)
    assert len(server.seen) <= 100 + 8  # only the requests in flight are lost


def test_a_cache_that_cannot_be_written_is_one_line(server: Server) -> None:
    class Full(Cache):
        def keep_reply(self, key: str, reply: bytes, request: bytes) -> None:
            with self._transaction():
                raise sqlite3.OperationalError("database or disk is full")

    with pytest.raises(InputError, match=r"not a file of cached scores or replies \(database or disk is full\)"):
        replies_to(bodies(30), client(server), Full())
    assert len(server.seen) < 10


CODE = """
import sys
from custodes.cache import Cache
from custodes.judging.querying import query
from custodes.judging.client import http_client
from custodes.judging.cost import Budget
from custodes.progress import silent
from tests.judging.test_querying import bodies

url, place = sys.argv[1:]
with Cache(place) as cache:
    result = query(bodies(300), http_client(url, key=None), cache=cache, concurrency=12, rpm=None,
                   budget=Budget(), progress=silent)
    print(result.asked, len(result.replies), len(result.failures))
"""


@pytest.mark.slow
@pytest.mark.parametrize("number_of_signal", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_killed_loses_what_was_on_its_way(
    server: Server, tmp_path: Path, number_of_signal: signal.Signals
) -> None:
    async def slowly(writer: asyncio.StreamWriter) -> bool:
        await asyncio.sleep(0.01)
        return await says()(writer)

    server.answer = lambda request, attempts: slowly
    words = [sys.executable, "-c", CODE, server.url, str(tmp_path / "kept.db")]
    first = subprocess.Popen(words, cwd=Path(__file__).parents[2], stderr=subprocess.PIPE)
    until(lambda: len(server.seen) >= 100 or first.poll() is not None)
    first.send_signal(number_of_signal)
    first.communicate(timeout=PATIENCE)
    assert first.returncode != 0
    lost_at_most, before = 12, len(server.seen)
    with Cache(tmp_path / "kept.db") as cache:
        n_cached = len(find_replies(bodies(300), cache)[0])
    assert before - lost_at_most <= n_cached <= before
    again = subprocess.run(words, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True)
    assert again.stdout.split() == [str(300 - n_cached), "300", "0"]
    assert len(server.seen) <= 300 + lost_at_most
    with sqlite3.connect(tmp_path / "kept.db") as base:
        assert base.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    base.close()
