"""Clients by name: pydantic-ai, functions and other packages."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from custodes.cache import Cache
from custodes.errors import MissingExtraError, OptionError
from custodes.judging.clients import PydanticAI, asynchronous, client_from_spec, client_identity
from custodes.judging.cost import Budget
from custodes.judging.querying import QueryReplies, query
from custodes.judging.requests import Client, Request
from custodes.progress import silent
from tests.judging.clients import judging, longer
from tests.judging.servers import completion
from tests.waiting import PATIENCE

pytestmark = pytest.mark.usefixtures("quick")
MESSAGES = [
    {"role": "system", "content": "You judge."},
    {"role": "user", "content": "1?"},
    {"role": "assistant", "content": "A"},
    {"role": "user", "content": "2?"},
]


def replies_to(client: Client, *, count: int = 1, **more: Any) -> QueryReplies:
    requests = [Request.make("x", {"model": "m", "messages": MESSAGES, **more, "n": n}) for n in range(1, count + 1)]
    return query(requests, client, cache=Cache(), concurrency=8, rpm=None, budget=Budget(), progress=silent)


def reply(client: Client, **more: Any) -> Any:
    (single,) = replies_to(client, **more).replies.values()
    return single.body


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that writes a module into the working folder."""
    monkeypatch.chdir(tmp_path)

    def put(code: str) -> None:
        (tmp_path / "own_judge.py").write_text(textwrap.dedent(code))
        monkeypatch.delitem(sys.modules, "own_judge", raising=False)

    return put


GOOD = """
def reply(body): return {"choices": [{"message": {"content": body["messages"][-1]["content"]}}]}
async def later(body): return reply(body)
class Judge:
    async def __call__(self, body): return reply(body)
    def made(self, body): return reply(body)
judge = Judge()
"""


@pytest.mark.parametrize("name", ["reply", "later", "judge", "judge.made"])
def test_a_function_of_ones_own(module: Callable[[str], None], name: str) -> None:
    addresses = []
    for code in (GOOD, GOOD, f"{GOOD}# edited\n"):
        module(code)
        before = list(sys.path)
        client = client_from_spec(f"own_judge:{name}")
        assert reply(client)["choices"][0]["message"]["content"] == "2?"
        assert sys.path == before
        addresses.append(client.address)  # type: ignore[attr-defined]
    assert re.fullmatch(rf"own_judge:{name}#[0-9a-f]{{12}}", addresses[0])
    assert addresses[0] == addresses[1] != addresses[2]


@pytest.mark.parametrize(
    "client",
    [lambda body: completion(), partial(completion, "A"), judging(longer), Cache()],
    ids=["lambda", "partial", "nested", "object"],
)
def test_what_nothing_tells_from_another(client: Any) -> None:
    assert client_identity(client) is None


@pytest.mark.parametrize(
    ("code", "spec", "message"),
    [
        (GOOD, "own_judge:", "give pydantic-ai:PROVIDER:MODEL or MODULE:FUNCTION"),
        (GOOD, "no_such:reply", "ModuleNotFoundError: No module named 'no_such'"),
        (GOOD, "pydantic_ai2:reply", "(did you mean 'pydantic-ai'?)"),
        (GOOD, "own_judge:nothing", "AttributeError: module 'own_judge' has no attribute 'nothing'"),
        ("reply = 3", "own_judge:reply", "client=3: must be a callable"),
        ("1 / 0", "own_judge:reply", "ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "own_judge:reply", "the module ends the process"),
    ],
)
def test_no_such_function(module: Callable[[str], None], code: str, spec: str, message: str) -> None:
    module(code)
    with pytest.raises(OptionError) as caught:
        client_from_spec(spec)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def f(): return 3", r"own_judge:f: TypeError: f\(\) takes 0 positional arguments but 1 was given"),
        ("async def f(body): raise KeyError('a\\nb')", r"own_judge:f: KeyError: 'a\\nb'"),
    ],
)
def test_a_function_that_fails_at_once_is_one_line(module: Callable[[str], None], code: str, message: str) -> None:
    module(code)
    with pytest.raises(OptionError, match=f"^the judge cannot be queried: {message}"):
        replies_to(client_from_spec("own_judge:f"), count=50)


def test_functions_that_wait_wait_at_once() -> None:
    import threading

    together = threading.Barrier(8, timeout=PATIENCE)

    def wait(body: Any) -> Any:
        if body["n"] > 15:  # by then the maximum of concurrent requests is reached
            together.wait()
        return completion()

    assert len(replies_to(asynchronous(wait), count=23).replies) == 23


# pydantic-ai


@pytest.fixture
def function_model() -> Iterator[Callable[..., PydanticAI]]:
    """Return a client of a pydantic-ai model that calls a function."""
    from pydantic_ai import models
    from pydantic_ai.models.function import FunctionModel

    before = models.ALLOW_MODEL_REQUESTS
    models.ALLOW_MODEL_REQUESTS = False  # only models that are functions
    yield lambda function: PydanticAI(FunctionModel(function))
    models.ALLOW_MODEL_REQUESTS = before


def test_pydantic_ai_by_its_test_model() -> None:
    client = client_from_spec("pydantic-ai:test")
    answer = reply(client, max_tokens=5, temperature=0)
    (choice,) = answer["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("success (no tool calls)", "stop")
    assert (answer["model"], answer["usage"]["prompt_tokens"] > 0) == ("test", True)
    assert client.address == "pydantic-ai:test"  # type: ignore[attr-defined]


def test_pydantic_ai_gets_messages_pictures_and_settings(function_model: Callable[..., PydanticAI]) -> None:
    from pydantic_ai import messages

    histories: list[Any] = []

    def model(history: Any, info: Any) -> messages.ModelResponse:
        histories.append((history, info))
        parts = [messages.ThinkingPart("hm"), messages.TextPart('{"verdict": "A"}')]
        return messages.ModelResponse(parts=parts, finish_reason="length")

    schema = {"type": "object", "properties": {"verdict": {"type": "string"}}}
    response_format = {"type": "json_schema", "json_schema": {"name": "v", "schema": schema, "strict": True}}
    addresses = ("https://example.org/a.png", "data:image/png;base64,AAAA")
    parts = [{"type": "text", "text": "See:"}] + [{"type": "image_url", "image_url": {"url": url}} for url in addresses]
    answer = reply(
        function_model(model),
        messages=[*MESSAGES, {"role": "user", "content": parts}],
        max_completion_tokens=7,
        seed=3,
        stop=["x"],
        response_format=response_format,
    )
    (((*history, shown), info),) = histories
    assert [[(type(part).__name__, part.content) for part in message.parts] for message in history] == [
        [("SystemPromptPart", "You judge.")],
        [("UserPromptPart", "1?")],
        [("TextPart", "A")],
        [("UserPromptPart", "2?")],
    ]
    text, linked, inline = shown.parts[0].content
    assert (text, linked.url, inline.data, inline.media_type) == ("See:", addresses[0], b"\0\0\0", "image/png")
    assert info.model_settings == {"max_tokens": 7, "seed": 3, "stop_sequences": ["x"]}
    assert info.model_request_parameters.output_object.json_schema == schema
    (choice,) = answer["choices"]
    message = {"role": "assistant", "content": '{"verdict": "A"}', "reasoning_content": "hm"}
    assert (choice["message"], choice["finish_reason"]) == (message, "length")


@pytest.mark.parametrize(
    ("status", "reason"), [(429, "unavailable"), (500, "unavailable"), (400, "rejected"), (401, "denied")]
)
def test_what_a_vendor_says_means_the_same(function_model: Callable[..., PydanticAI], status: int, reason: str) -> None:
    from pydantic_ai import messages
    from pydantic_ai.exceptions import ModelHTTPError

    calls: list[int] = []

    def model(history: Any, info: Any) -> messages.ModelResponse:
        calls.append(1)
        if len(calls) > 1:
            raise ModelHTTPError(status_code=status, model_name="m", body={"error": {"message": "so"}})
        return messages.ModelResponse(parts=[messages.TextPart("A")])

    answers = replies_to(function_model(model), count=2)
    assert [failure.reason for failure in answers.failures.values()] == [reason]
    assert next(iter(answers.failures.values())).message.startswith(f"{status}: so")
    assert len(calls) == (7 if reason == "unavailable" else 2)


@pytest.mark.parametrize(
    "spec", ["pydantic-ai:nobody:m", "pydantic-ai:openai", "pydantic-ai:anthropic:claude-sonnet-4-5"]
)
def test_models_that_are_not_there_are_one_line(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises((OptionError, MissingExtraError)) as caught:
        client_from_spec(spec)
    assert "\n" not in str(caught.value)
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'custodes\[vendors\]'$"):
        client_from_spec(spec)
