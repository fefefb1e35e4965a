"""A judge behind a server with all faults at once: no verdict is lost or invented, and every failure is named."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl

from custodes.judging.judge import Judge
from custodes.judging.run import judge
from tests.judging.clients import longer, outputs_of
from tests.judging.servers import Manner, Seen, Server, completion, fails, half, html, reset, says, sends

TEXTS = pl.DataFrame(
    [
        {"item": str(item), "system": system, "text": f"{item} {system} " + "x" * ((item * 7 + place * 11) % 13)}
        for item in range(30)
        for place, system in enumerate("WXYZ")
    ]
)


def refuses() -> Manner:
    body = completion('{"verdict": "A"}')
    body["choices"][0]["message"]["refusal"] = "I will not compare these."
    return sends(200, body)


def verdict_of(request: Seen) -> str:
    return longer(*outputs_of(request.body))


def good(request: Seen) -> Manner:
    return says(json.dumps({"verdict": verdict_of(request)}))


def quotes(request: Seen) -> Manner:
    """Reply with a false verdict quoted in the reasoning and the reason, followed by the true one."""
    true = verdict_of(request)
    false = "B" if true == "A" else "A"
    reason = json.dumps({"reason": f'One says {{"verdict": "{false}"}} and </think>', "verdict": true})
    return says(f'<think>Is it {{"verdict": "{false}"}}?</think>\n{reason}')


ONCE = {
    "429": lambda: fails(429, headers={"retry-after": "0.01"}),
    "500": lambda: fails(500),
    "503": lambda: html(503),
    "page": html,
    "half": lambda: half,
    "reset": lambda: reset,
    "malformed": lambda: sends(200, b'{"choices": [{"mess'),
}
"""Transient faults: a repeated request succeeds."""

ALWAYS = {
    "refusal": refuses,
    "filtered": lambda: says(None, finish="content_filter"),
    "truncated": lambda: says('{"verdict": "A"}', finish="length"),
    "empty": lambda: says(""),
    "no-verdict": lambda: says("Both have their merits."),
    "label": lambda: says('{"verdict": "C"}'),
}
"""Permanent faults by name of the failure."""

MANNERS = [*ONCE, *ALWAYS, "quotes", "good"]


def manner_of(request: Seen) -> str:
    """Return the same manner for all requests with the same two texts in the same order."""
    texts = "|".join(outputs_of(request.body))
    return MANNERS[int(hashlib.sha256(texts.encode()).hexdigest(), 16) % len(MANNERS)]


def answer(request: Seen, attempts: int) -> Manner:
    name = manner_of(request)
    if name in ALWAYS:
        return ALWAYS[name]()
    if name in ONCE and not attempts:
        return ONCE[name]()
    return quotes(request) if name == "quotes" else good(request)


def test_every_answer_is_the_judges_own_or_named(server: Server, quick: None, tmp_path: Path) -> None:
    server.answer = answer
    options: dict[str, Any] = {"cache": tmp_path / "kept.db", "concurrency": 64}
    who = Judge(model="m", base_url=server.url, sampling={"max_tokens": 50})
    result = judge(TEXTS, who, **options)
    text = {(row["item"], row["system"]): row["text"] for row in TEXTS.iter_rows(named=True)}
    counts = Counter[str]()
    for row in result.verdicts.iter_rows(named=True):
        pair = [text[row["item"], row[name]] for name in ("system_a", "system_b")]
        displayed = pair if row["order"] == "ab" else pair[::-1]
        name = MANNERS[int(hashlib.sha256("|".join(displayed).encode()).hexdigest(), 16) % len(MANNERS)]
        counts[name] += 1
        if name in ALWAYS:
            assert (row["preference"], row["invalid"]) == (None, name)
        else:
            assert row["invalid"] == ""
            assert row["preference"] == {"A": 1, "B": -1, "tie": 0}[longer(*pair)], name
    assert result.verdicts.height == 30 * 6 * 2
    assert set(counts) == set(MANNERS)  # every fault occurred
    assert result.status == 0
    failed = result.failures.filter(pl.col("system") == "")
    assert dict(zip(failed["invalid"], failed["failures"], strict=True)) == {name: counts[name] for name in ALWAYS}
    n_sent = len(server.seen)
    again = judge(TEXTS, who, **options)
    assert len(server.seen) == n_sent
    assert again.verdicts.equals(result.verdicts)


def test_what_is_asked_once_more_and_what_is_not(server: Server, quick: None) -> None:
    server.answer = answer
    judge(TEXTS, Judge(model="m", base_url=server.url, sampling={"max_tokens": 50}))
    counts = Counter(manner_of(request) for request in server.seen)
    pairs = Counter(
        manner_of(request) for request in {repr(outputs_of(request.body)): request for request in server.seen}.values()
    )
    times = {name: counts[name] / pairs[name] for name in MANNERS}
    assert times == {name: 2 if name in ONCE else 1 for name in MANNERS} | {
        name: 2 if name in ("truncated", "empty", "no-verdict", "label") else 1 for name in ALWAYS
    }
    limits = {request.body["max_tokens"] for request in server.seen if manner_of(request) == "truncated"}
    assert limits == {50, 100}
