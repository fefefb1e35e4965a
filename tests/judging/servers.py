"""A scripted HTTP server on 127.0.0.1 that can misbehave, in a separate thread."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.waiting import PATIENCE

Manner = Callable[[asyncio.StreamWriter], Awaitable[bool]]
"""A function that writes an answer and returns whether the connection stays open."""


@dataclass(frozen=True)
class Seen:
    """A request as the server received it."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


def completion(text: str | None = "A", *, usage: bool = True, **choice: Any) -> dict[str, Any]:
    """Return the body of a chat completion."""
    message = {"role": "assistant", "content": text}
    body = {
        "id": "x",
        "model": "served",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"} | choice],
    }
    return body | ({"usage": {"prompt_tokens": 10, "completion_tokens": 2}} if usage else {})


def sends(status: int, content: Any, headers: Mapping[str, str] | None = None) -> Manner:
    """Return a manner that sends a complete HTTP answer, with content other than bytes as JSON."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    fields = {"content-length": str(len(data)), "content-type": "application/json"} | dict(headers or {})
    head = f"HTTP/1.1 {status} x\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items())

    async def send(writer: asyncio.StreamWriter) -> bool:
        writer.write(head.encode() + b"\r\n" + data)
        await writer.drain()
        return True

    return send


def says(text: str | None = "A", **more: Any) -> Manner:
    """Return a manner that sends a valid completion."""
    return sends(200, completion(text, **more))


def fails(status: int, words: str = "told so", headers: Mapping[str, str] | None = None, **more: Any) -> Manner:
    """Return a manner that sends an error in OpenAI's format."""
    return sends(status, {"error": {"message": words, **more}}, headers)


def html(status: int = 200) -> Manner:
    """Return a manner that sends an HTML page, as a gateway does."""
    return sends(status, b"<!doctype html><html><body>Bad gateway</body></html>", {"content-type": "text/html"})


async def half(writer: asyncio.StreamWriter) -> bool:
    """Send half of a body, then close the connection."""
    data = json.dumps(completion()).encode()
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(data) + data[: len(data) // 2])
    await writer.drain()
    return False


async def reset(writer: asyncio.StreamWriter) -> bool:
    """Reset the connection."""
    writer.transport.abort()
    return False


async def silence(writer: asyncio.StreamWriter) -> bool:
    """Send nothing, so that the client must time out."""
    await asyncio.sleep(30)
    return False


async def trickle(writer: asyncio.StreamWriter) -> bool:
    """Send an answer one byte at a time without an end, with no long pause."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
    for _ in range(3000):
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.01)
    return False


@dataclass
class Server:
    """A server that answers in the manner `answer(request, attempts)`, after `attempts` requests with the same body."""

    answer: Callable[[Seen, int], Manner] = field(default=lambda request, attempts: says())
    seen: list[Seen] = field(default_factory=list)
    most_at_once: int = 0

    def __post_init__(self) -> None:
        self._try_operation = Counter[str]()
        self._at_once = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._port = 0
        self._talks = set[asyncio.Task[None]]()
        self.start()

    @property
    def url(self) -> str:
        """Return the base URL for a client."""
        return f"http://127.0.0.1:{self._port}/v1"

    def start(self) -> None:
        """Listen, on the same port as before if the server was stopped."""

        async def begin() -> asyncio.Server:
            return await asyncio.start_server(self._talk, "127.0.0.1", self._port, backlog=256)

        self._server = asyncio.run_coroutine_threadsafe(begin(), self._loop).result(PATIENCE)
        self._port = self._server.sockets[0].getsockname()[1]

    def stop(self) -> None:
        """Close all connections and stop listening."""

        async def end() -> None:
            self._server.close()
            for talk in list(self._talks):
                talk.cancel()
            await asyncio.gather(*self._talks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(PATIENCE)

    def close(self) -> None:
        """Stop the server and its thread."""
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._talks.add(task)
        writer.transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while await self._one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            self._talks.discard(task)
            writer.transport.abort() if task.cancelling() else writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        raw = await reader.readexactly(int(headers.get("content-length", 0)))
        seen = Seen(method, path, headers, json.loads(raw))
        self.seen.append(seen)
        key = json.dumps(seen.body, sort_keys=True)
        attempts = self._try_operation[key]
        self._try_operation[key] += 1
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            return await self.answer(seen, attempts)(writer)
        finally:
            self._at_once -= 1
