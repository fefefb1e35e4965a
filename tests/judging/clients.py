"""Functions as judges, used in place of a model."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from custodes.judging.judge import Judge
from custodes.judging.plan import JudgingPlan
from custodes.judging.run import prepare

FENCE = re.compile(r"<(output(?:-[AB])?-[0-9a-f]{12})>\n(.*?)\n</\1>", re.DOTALL)

Body = Mapping[str, Any]


def completion(content: str | None, *, finish: str = "stop", **more: Any) -> dict[str, Any]:
    """Return a chat completion with the content."""
    message = {"role": "assistant", "content": content}
    usage = {"prompt_tokens": 100, "completion_tokens": 5}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {"model": "test-1", "choices": [choice], "usage": usage, **more}


def prompt_of(body: Body) -> str:
    """Return the text of the last message."""
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else content[-1]["text"]


def outputs_of(body: Body) -> list[str]:
    """Return the outputs of a prompt in order."""
    return [text for _, text in FENCE.findall(prompt_of(body))]


def judging(verdict: Callable[..., Any], key: str = "verdict") -> Callable[[Body], dict[str, Any]]:
    """Return a client that replies with `verdict` of the outputs."""

    def client(body: Body) -> dict[str, Any]:
        return completion(json.dumps({key: verdict(*outputs_of(body))}))

    return client


def longer(a: str, b: str) -> str:
    return "tie" if len(a) == len(b) else "A" if len(a) > len(b) else "B"


def planned(texts: Any, config: Judge | None = None, **args: Any) -> JudgingPlan:
    """Return the plan of a judge of a server that is not queried."""
    usual: dict[str, Any] = {"pairs": "all", "orders": "both", "repeats": 1, "client": None, "rng": 0}
    return prepare(texts, config or Judge(model="m", base_url="http://localhost/v1"), **{**usual, **args})
