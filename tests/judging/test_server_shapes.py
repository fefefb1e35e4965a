"""Replies and errors in the documented formats of vLLM, TGI and Ollama, from a scripted server.

Formats: vLLM `entrypoints/openai/protocol.py`, TGI `router/src/lib.rs` and `validation.rs`, Ollama's page on
OpenAI compatibility.
"""

from __future__ import annotations

import math
from typing import Any

import polars as pl
import pytest

import custodes as cu
from custodes.errors import CustodesError
from custodes.judging.judge import Judge
from tests.judging.servers import Server, sends

TEXTS = pl.DataFrame({"item": ["1", "1"], "system": ["X", "Y"], "text": ["Yes.", "No."]})
PROBABILITIES = {"A": 0.7, "B": 0.2, "tie": 0.1}


def tokens(**more: Any) -> dict[str, Any]:
    """Return log-probabilities of the answer `A`, a single token."""
    entries = [{"token": word, "logprob": math.log(p), **more} for word, p in PROBABILITIES.items()]
    return {"content": [{**entries[0], "top_logprobs": entries}]}


def reply(message: dict[str, Any], choice: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "served",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "A", **message}, **choice}],
        "usage": {"prompt_tokens": 90, "completion_tokens": 2, "total_tokens": 92},
        **more,
    }


REPLIES = {
    "vllm": reply(
        {"refusal": None, "reasoning_content": None, "tool_calls": []},
        {"logprobs": tokens(bytes=[65]), "finish_reason": "stop", "stop_reason": None},
        prompt_logprobs=None,
        service_tier=None,
    ),
    "tgi 1": reply({}, {"logprobs": tokens(), "finish_reason": "eos_token"}, object="text_completion"),
    "ollama": reply(
        {"reasoning": "Both are short."},
        {"logprobs": tokens(bytes=[65]), "finish_reason": "stop"},
        system_fingerprint="fp_ollama",
    ),
    "ollama without logprobs": reply({}, {"finish_reason": "stop"}, system_fingerprint="fp_ollama"),
}


@pytest.mark.parametrize(("name", "body"), REPLIES.items(), ids=REPLIES)
def test_a_reply_of_every_server_is_read(server: Server, name: str, body: dict[str, Any]) -> None:
    server.answer = lambda request, attempts: sends(200, body)
    result = cu.judge(TEXTS, Judge(model="m", base_url=server.url, logprobs=True), orders="ab")
    row = result.verdicts.row(0, named=True)
    assert (row["preference"], row["invalid"]) == (1, "")
    expected = [None] * 3 if "without" in name else [pytest.approx(p) for p in PROBABILITIES.values()]
    assert [row["p_a"], row["p_b"], row["p_tie"]] == expected
    body = server.seen[0].body
    assert body == {"model": "m", "messages": body["messages"], "logprobs": True, "top_logprobs": 20}
    assert result.status == 0


LONG = "maximum context length is 100 tokens"
ERRORS: dict[str, tuple[int, Any, str]] = {
    "vllm: the key": (401, {"error": "Unauthorized"}, "Unauthorized"),
    "vllm: no model": (
        404,
        {"error": {"message": "No model `m`.", "type": "NotFoundError", "code": 404}},
        "No model `m`.",
    ),
    "older vllm: too long": (400, {"object": "error", "message": LONG, "type": "BadRequestError", "code": 400}, LONG),
    "tgi: too many probabilities": (422, {"error": "Given: 20", "error_type": "validation"}, "Given: 20"),
}


@pytest.mark.parametrize(("status", "body", "words"), ERRORS.values(), ids=ERRORS)
def test_an_error_of_every_server_is_passed_on(server: Server, status: int, body: dict[str, Any], words: str) -> None:
    server.answer = lambda request, attempts: sends(status, body)
    judge = Judge(model="m", base_url=server.url, logprobs=True)
    if status in (401, 404):
        with pytest.raises(CustodesError, match=words):
            cu.judge(TEXTS, judge, orders="ab")
    else:
        result = cu.judge(TEXTS, judge, orders="ab")
        (note,) = result.notes
        assert words in note.message
        assert (result.status, result.verdicts["invalid"].to_list()) == (1, ["rejected"])
    assert len(server.seen) == 1
