"""Clients that the command line selects by name: functions, and providers with a different protocol."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import sys
from collections.abc import Awaitable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

from custodes.errors import MissingExtraError, OptionError, requires_extra, short_repr, suggestion
from custodes.judging.client import retry_after
from custodes.judging.requests import Client, Denied, Rejected, Unavailable, status_exception
from custodes.plugins import describe_error

VENDORS = "pydantic-ai"
WAYS = f"give {VENDORS}:PROVIDER:MODEL or MODULE:FUNCTION"
MOST_THREADS = 64
BY_NAME = "give the client an attribute `address`, which identifies the client in the cache"


SETTINGS = {"max_completion_tokens": "max_tokens", "stop": "stop_sequences"} | {
    name: name
    for name in ("max_tokens", "temperature", "top_p", "seed", "presence_penalty", "frequency_penalty", "logit_bias")
}
"""Fields of a chat completion, by their names in pydantic-ai."""


def client_from_spec(spec: str) -> Client:
    """The client for `pydantic-ai:MODEL` or for a function `MODULE:FUNCTION`.

    The `address` of the client is part of the cache keys. For a model of pydantic-ai, the address is `spec`. For a
    function, the address is the identity that `client_identity` describes.
    """
    vendor_or_module_name, _, model_or_function_name = spec.partition(":")
    if not vendor_or_module_name or not model_or_function_name:
        raise OptionError(f"client={short_repr(spec)}: {WAYS}")
    if vendor_or_module_name == VENDORS:
        return _NamedClient(pydantic_ai(model_or_function_name), spec, address=spec)
    return _function(spec, vendor_or_module_name, model_or_function_name)


def asynchronous(function: Any) -> Client:
    """A callable as a client. If the callable is not async, each request runs in a separate thread."""
    if not callable(function):
        raise OptionError(
            f"client={short_repr(function)}: must be a callable that takes the body of a request and returns the reply"
        )
    is_function = inspect.isfunction(function) or inspect.ismethod(function)
    if inspect.iscoroutinefunction(function if is_function else type(function).__call__):
        return function  # type: ignore[no-any-return]
    thread_pool = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="custodes-client")

    async def ask(body: Mapping[str, Any]) -> Mapping[str, Any]:
        reply_or_awaitable = await asyncio.get_running_loop().run_in_executor(thread_pool, function, body)
        if isinstance(reply_or_awaitable, Awaitable):
            return await reply_or_awaitable  # type: ignore[no-any-return]
        return reply_or_awaitable  # type: ignore[no-any-return]

    return ask


def client_identity(client: Any) -> str | None:
    """The identity of a client in cache keys: the `address`, or the module and name with a hash of the source of the
    module. Because of the hash, replies of a function are not reused after the function is edited. A lambda, a partial,
    a nested function, an object, and a function without source code have no identity; the result is then None.
    """
    if isinstance(declared_address := getattr(client, "address", None), str):
        return declared_address
    module = sys.modules.get(client.__module__) if inspect.isfunction(client) else None
    qualified_name = getattr(client, "__qualname__", "")
    if module is None or getattr(module, qualified_name, None) is not client:
        return None
    return _name_with_source_hash(module, qualified_name)


def _name_with_source_hash(module: ModuleType, function_name: str) -> str | None:
    """The module and the name with a hash of the current source; None if there is no source."""
    with suppress(OSError, TypeError):
        source_digest = hashlib.sha256(inspect.getsource(module).encode(errors="replace")).hexdigest()
        return f"{module.__name__}:{function_name}#{source_digest[:12]}"
    return None


class _NamedClient:
    """A client with a name and an address. Before the first answer, any error except a connection error ends the run,
    because every request would raise the same error.
    """

    def __init__(self, client: Client, name: str, *, address: str) -> None:
        self.name, self.address = name, address
        self._client = client
        self._answered = False

    async def __call__(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            reply = await self._client(body)
        except Exception as error:  # an OSError is a time-out or a connection error
            if self._answered or isinstance(error, Unavailable | Rejected | Denied | OSError):
                raise
            raise Denied(f"{self.name}: {describe_error(error)}") from None
        self._answered = True
        return reply

    async def aclose(self) -> None:
        """Close the connections of the client."""
        if close_client := getattr(self._client, "aclose", None):
            await close_client()


def _function(spec: str, module_name: str, function_name: str) -> Client:
    """A client that calls a function of the user. The function may be in a module in the working directory."""
    old_search_path = list(sys.path)
    sys.path.append(str(Path.cwd()))
    try:
        imported_module = import_module(module_name)
        client_function = attrgetter(function_name)(imported_module)
    except (Exception, SystemExit) as error:  # an import can raise anything
        error_text = describe_error(error) if isinstance(error, Exception) else "the module ends the process"
        raise OptionError(
            f"client={short_repr(spec)}: {error_text}{suggestion(module_name, (VENDORS,))}; {WAYS}"
        ) from None
    finally:
        sys.path[:] = old_search_path
    cache_identity = client_identity(client_function) or _name_with_source_hash(imported_module, function_name)
    if cache_identity is None:
        raise OptionError(
            f"client={short_repr(spec)}: the module has no source code that could identify the function; {BY_NAME}"
        )
    return _NamedClient(asynchronous(client_function), spec, address=cache_identity)


def pydantic_ai(model: str) -> Client:
    """Client of any model of pydantic-ai: `anthropic:MODEL`, `google:MODEL`, `bedrock:MODEL`."""
    with requires_extra("pydantic-ai is not installed", "vendors"):
        from pydantic_ai import models
        from pydantic_ai.exceptions import UserError
    try:
        return PydanticAI(models.infer_model(model))
    except ImportError as error:  # the SDK of a vendor
        raise MissingExtraError(f"pydantic-ai:{model}: {describe_error(error)}") from None
    except (UserError, ValueError) as error:
        raise OptionError(f"pydantic-ai:{model}: {describe_error(error)}") from None


class PydanticAI:
    """A client of a model of pydantic-ai."""

    def __init__(self, model: Any) -> None:
        self.model = model

    async def __call__(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        from pydantic_ai import direct, exceptions

        model_settings: Any = {
            setting_name: body[field_name]
            for field_name, setting_name in SETTINGS.items()
            if body.get(field_name) is not None
        }
        try:
            model_response = await direct.model_request(
                self.model,
                list(map(_message, body["messages"])),
                model_settings=model_settings,
                model_request_parameters=_schema_parameters(body.get("response_format")),
            )
        except exceptions.ModelHTTPError as error:
            raise status_exception(
                error.status_code,
                error.body or str(error),
                retry_after=retry_after(error.headers or {}, datetime.now(UTC)),
            ) from None
        except exceptions.ModelAPIError as error:
            raise Unavailable(describe_error(error)) from None
        except exceptions.UserError as error:
            raise Denied(describe_error(error)) from None
        completion_choice = {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": model_response.text,
                "reasoning_content": model_response.thinking,
            },
            "finish_reason": {None: "stop", "tool_call": "tool_calls"}.get(
                model_response.finish_reason, model_response.finish_reason
            ),
        }
        return {
            "model": model_response.model_name,
            "choices": [completion_choice],
            "usage": {
                "prompt_tokens": model_response.usage.input_tokens,
                "completion_tokens": model_response.usage.output_tokens,
            },
        }


def _message(message: Mapping[str, Any]) -> Any:
    """A message of a chat completion as a message of pydantic-ai."""
    from pydantic_ai import messages

    def convert(part: Mapping[str, Any]) -> Any:
        if part["type"] == "text":
            return part["text"]
        image_url = part["image_url"]["url"]
        is_data_url = image_url.startswith("data:")
        return messages.BinaryContent.from_data_uri(image_url) if is_data_url else messages.ImageUrl(image_url)

    role, content = message["role"], message["content"]
    if role == "assistant":
        return messages.ModelResponse(parts=[messages.TextPart(content)])
    if role == "system":
        return messages.ModelRequest(parts=[messages.SystemPromptPart(content)])
    return messages.ModelRequest(
        parts=[messages.UserPromptPart(content if isinstance(content, str) else list(map(convert, content)))]
    )


def _schema_parameters(response_format: Any) -> Any:
    """The requested JSON schema of answers; None if no schema is requested."""
    from pydantic_ai import models, output

    if not isinstance(response_format, Mapping) or response_format.get("type") != "json_schema":
        return None
    schema_fields = response_format["json_schema"]
    return models.ModelRequestParameters(
        output_mode="native",
        output_object=output.OutputObjectDefinition(
            json_schema=schema_fields["schema"], name=schema_fields.get("name"), strict=schema_fields.get("strict")
        ),
    )
