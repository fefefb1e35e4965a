from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from custodes.cache import Cache
from custodes.data.notes import Note
from custodes.errors import InputError
from custodes.judging.batch import read_replies, write_requests
from custodes.judging.cost import Budget
from custodes.judging.querying import query
from custodes.judging.requests import Failure, Request, find_replies
from custodes.progress import silent
from tests.judging.servers import completion

REQUESTS = [
    Request.make("http://judge", {"model": "m", "messages": [{"role": "user", "content": f"text {n}\n€"}]})
    for n in range(6)
]


def line(n: int | str, text: str | None = None, **more: Any) -> str:
    key = REQUESTS[n].key if isinstance(n, int) else n
    response = {"status_code": 200, "request_id": "r", "body": completion(f"{n}" if text is None else text)}
    return json.dumps({"id": "b", "custom_id": key, "response": response, "error": None} | more)


def filed(tmp_path: Path, *lines: str, cache: Cache, end: str = "\n") -> tuple[dict[str, Failure], list[Note]]:
    place = tmp_path / "replies.jsonl"
    place.write_text("\n".join(lines) + end)
    return read_replies(place, REQUESTS, cache)


def test_requests_and_back(tmp_path: Path) -> None:
    place = write_requests(tmp_path / "requests.jsonl", [*REQUESTS, REQUESTS[0]])
    rows = [json.loads(row) for row in place.read_text().splitlines()]
    assert [row["custom_id"] for row in rows] == [request.key for request in REQUESTS]
    assert all(row.keys() == {"custom_id", "method", "url", "body"} for row in rows)
    assert {(row["method"], row["url"]) for row in rows} == {("POST", "/v1/chat/completions")}
    assert [row["body"] for row in rows] == [request.body for request in REQUESTS]
    cache = Cache()
    assert filed(tmp_path, *[line(n) for n in reversed(range(6))], cache=cache) == ({}, [])
    replies, missing = find_replies(REQUESTS, cache)
    assert missing == []
    assert [replies[request.key].body["choices"][0]["message"]["content"] for request in REQUESTS] == list("012345")
    assert {reply.seconds for reply in replies.values()} == {None}

    async def nobody(body: Any) -> Any:
        raise AssertionError("asked")

    again = query(REQUESTS, nobody, cache=cache, concurrency=1, rpm=None, budget=Budget(), progress=silent)
    assert (len(again.replies), again.asked) == (6, 0)


FAILED: dict[str, tuple[dict[str, Any], str, str]] = {
    "OpenAI's expired": ({"response": None, "error": {"message": "not in time"}}, "unavailable", "not in time"),
    "OpenAI's rejected": (
        {"response": {"status_code": 400, "body": {"error": {"message": "too long"}}}},
        *("rejected", "400: too long"),
    ),
    "vLLM's": (
        {"response": {"status_code": 400, "body": None}, "error": {"message": "no such role"}},
        *("rejected", "400: no such role"),
    ),
    "an error with 200": ({"error": "out of memory"}, "rejected", "400: out of memory"),
    "busy": ({"response": {"status_code": 429, "body": {"error": "slow down"}}}, "unavailable", "429: slow down"),
    "no completion": ({"response": {"body": {}}}, "unavailable", "the reply is not a chat completion"),
    "nothing": ({"response": None}, "unavailable", "no response"),
}


@pytest.mark.parametrize(("more", "reason", "message"), FAILED.values(), ids=FAILED.keys())
def test_lines_that_failed_are_named_and_not_kept(
    tmp_path: Path, more: dict[str, Any], reason: Any, message: str
) -> None:
    cache = Cache()
    failures, _ = filed(tmp_path, line(0), line(1, **more), cache=cache)
    assert failures == {REQUESTS[1].key: Failure(reason=reason, message=message)}
    assert len(find_replies(REQUESTS, cache)[0]) == 1


def test_unknown_and_doubled_ids_and_half_a_line_are_told(tmp_path: Path) -> None:
    cache = Cache()
    failed = line(2, response=None, error={"message": "late"})
    lines = [line("other"), failed, line(0, "first"), line(0, "second"), "", line(2, "after all"), line(1)[:50]]
    failures, notes = filed(tmp_path, *lines, end="", cache=cache)
    assert failures == {}
    assert [(note.rule, note.count) for note in notes] == [
        ("unknown-replies", 1),
        ("doubled-replies", 2),
        ("half-a-line", 0),
    ]
    replies, missing = find_replies(REQUESTS, cache)
    texts = {key: reply.body["choices"][0]["message"]["content"] for key, reply in replies.items()}
    assert texts == {REQUESTS[0].key: "first", REQUESTS[2].key: "after all"}
    assert len(missing) == 4


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("\n\n", "replies.jsonl: the file contains no reply; give the output file of a batch"),
        ("item,system\n1,2\n", "replies.jsonl: row 1: this line is not a reply of a batch"),
        ("{}\n", "replies.jsonl: row 1: this line is not a reply of a batch"),
        (line(0) + "\n{half\n" + line(1), "replies.jsonl: row 2: this line is not a reply of a batch"),
        (line(0) + "\n\n{half\n" + line(1), "replies.jsonl: row 3: this line is not a reply of a batch"),
        (line(0) + "\nnull\n" + line(1), "replies.jsonl: row 2: this line is not a reply of a batch"),
        (line(0)[:-9], "replies.jsonl: row 1: this line is not a reply of a batch"),
        ('{"custom_id": "a", "method": "POST", "body": {}}\n', "replies.jsonl: row 1: this line is a request; give"),
        ('{"custom_id": "a"}\n', "replies.jsonl: row 1: this line has no response"),
        (line("a") + "\n" + line("b"), "replies.jsonl: none of the 2 replies in this file belongs to these requests"),
    ],
)
def test_another_file_is_one_line_and_nothing_is_kept(tmp_path: Path, content: str, message: str) -> None:
    cache = Cache()
    (tmp_path / "replies.jsonl").write_text(content)
    with pytest.raises(InputError) as caught:
        read_replies(tmp_path / "replies.jsonl", REQUESTS, cache)
    assert str(caught.value).startswith(message)
    assert find_replies(REQUESTS, cache)[0] == {}
