"""What stands between the network and the pages: headers of every response, and how much of a body is read."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qsl

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST, FIELDS, PATIENCE = 64 * 1024, 40, 10.0
"""Bytes and fields of a body at most, and the seconds that it may take to arrive."""

FORM = "application/x-www-form-urlencoded"

_MTURK = "https://worker.mturk.com https://workersandbox.mturk.com https://www.mturk.com"
FRAMES = {"mturk": _MTURK}
"""By the plan's way of recruiting: who may show the site in a frame, and take its last form. Nobody otherwise."""


def policy(recruit: str = "") -> str:
    """The content security policy of a page: own scripts, styles and images, nothing inline, nothing of others."""
    others = FRAMES.get(recruit, "")
    return "; ".join(
        (
            "default-src 'none'",
            *(f"{kind}-src 'self'" for kind in ("script", "style", "img", "connect")),
            f"form-action 'self' {others}".rstrip(),
            "base-uri 'none'",
            "frame-ancestors " + (others or "'none'"),
        )
    )


HEADERS = {
    "Content-Security-Policy": policy(),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with none at all, our own forms would have the origin "null"
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Of every response that does not say otherwise itself."""


class Headers:
    """Middleware that puts `HEADERS` on what is sent."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, with_headers)


async def form(request: Request) -> dict[str, str]:
    """The fields of a form; HTTPException 415 for another type, 413 beyond the limits, 408 where it comes too slowly.

    Read as it comes, so that what is too large is not kept; of a name that stands twice the last value counts."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        raise HTTPException(415)
    body = bytearray()
    try:
        async with asyncio.timeout(PATIENCE):
            async for part in request.stream():
                body += part
                if len(body) > LARGEST:
                    raise HTTPException(413)
    except TimeoutError:
        raise HTTPException(408) from None
    except ClientDisconnect:  # nobody reads the answer, but a log would have the whole stack
        raise HTTPException(400) from None
    try:
        return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=FIELDS))
    except ValueError:
        raise HTTPException(413) from None
