"""Estimated and actual cost of a judging run."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from custodes.judging.cost import count_tokens, estimate, estimate_tokens, known_price, token_bounds
from custodes.judging.dispatch import Patience, Window
from custodes.judging.judge import Judge
from custodes.judging.requests import Request
from custodes.judging.run import judge
from tests.judging.servers import completion


def body(text: Any, **more: Any) -> dict[str, Any]:
    return {"model": "gpt-5-mini", "messages": [{"role": "user", "content": text}], **more}


def test_an_estimate_counts_each_key_once() -> None:
    requests = [Request.make("http://judge", body("x" * n, max_tokens=10)) for n in (400, 400, 41)]
    assert estimate(requests, tokens_per_answer=4.0) == (2, 441, 111, 20, 8)
    assert estimate(requests, tokens_per_answer=50.0)[-2:] == (20, 20)  # an answer cannot exceed its limit


def test_the_figures_of_a_known_study() -> None:
    # 24,000 calls on SummEval, 16.8 million tokens in and .5 out, at the prices of gpt-5-mini ($.25 and $2).
    price = known_price("gpt-5-mini", base_url="https://api.openai.com/v1")
    assert price is not None
    assert price.token_cost(16_800_000, 500_000) == pytest.approx(5.2)
    assert price.source.startswith("genai-prices ")
    assert price.source.endswith(", openai gpt-5-mini")


def test_no_price_is_known_of_what_is_not_in_the_table() -> None:
    assert known_price("no-such-model", base_url="https://api.openai.com/v1") is None
    for base_url in ("http://localhost:8000/v1", "https://models.example.org/v1"):
        assert known_price("gpt-5-mini", base_url=base_url) is None


@pytest.mark.parametrize("counts", [None, 3, {"prompt_tokens": 5}, {"prompt_tokens": "5", "completion_tokens": 2}])
def test_tokens_that_a_server_did_not_count_are_guessed_and_told(counts: Any) -> None:
    reply = completion("x" * 9, usage=False) | ({} if counts is None else {"usage": counts})
    assert count_tokens(body("y" * 40), reply) == (10, 3, True)
    assert count_tokens(body("y" * 40), completion("x" * 9)) == (10, 2, False)
    texts = pl.DataFrame({"item": ["1", "1"], "system": ["X", "Y"], "text": ["Yes.", "No."]})
    verdict = '{"verdict": "A"}'
    replies = iter([reply | {"choices": completion(verdict)["choices"]}, completion(verdict)])
    result = judge(texts, Judge(model="m"), client=lambda body: next(replies), concurrency=1)
    assert [note.message for note in result.notes if note.rule == "tokens-guessed"] == [
        "1 replies report no token counts, so the tokens are estimated from the numbers of characters"
    ]
    assert result.usage["tokens_out"].item() == 4 + 2


def test_an_answer_is_as_long_as_the_request_allows() -> None:
    assert estimate_tokens(body("x", max_tokens=7))[1] == 7
    assert estimate_tokens(body("x", max_completion_tokens=9, max_tokens=7))[1] == 9
    assert estimate_tokens(body("x", max_tokens=7, n=3))[1] == 21
    assert estimate_tokens(body("x"))[1] > 1_000


def test_a_picture_is_tokens_and_not_its_bytes() -> None:
    parts = [{"type": "text", "text": "x" * 40}, {"type": "image_url", "image_url": {"url": "data:" + "A" * 10**6}}]
    assert estimate_tokens(body(parts))[0] == 10 + 2_000
    assert token_bounds(body(parts))[0] < 5_000


@given(st.text(max_size=200))
def test_no_request_has_more_tokens_than_bytes(text: str) -> None:
    assert token_bounds(body(text))[0] >= max(len(text.encode()), estimate_tokens(body(text))[0])


def test_waits_double_and_never_begin_before_the_server_allows() -> None:
    patience = Patience(first=1, longest=8)
    for attempt, most in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 8), (60, 8)]:
        waits = [patience.wait(attempt, None) for _ in range(200)]
        assert 0 <= min(waits) < most / 4
        assert most * 0.75 < max(waits) <= most
        assert all(30 <= patience.wait(attempt, 30) <= 31 for _ in range(20))


def test_the_window_is_cut_once_for_what_was_on_its_way_together() -> None:
    window = Window(most=16)
    for _ in range(40):
        window.increase()
    assert window.size == 16
    for _ in range(16):
        window.decrease(sent_time=1.0, now=2.0)
    assert window.size == 8
    window.decrease(sent_time=2.5, now=3.0)
    assert window.size == 4
    for second in range(4, 20):
        window.decrease(sent_time=second, now=second)
    assert window.size == 1
