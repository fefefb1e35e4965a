"""Between the network and the pages: headers, limits of forms, guesses of links, forms of other sites."""

from __future__ import annotations

import asyncio
import logging
import time
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from custodes.annotate.arrivals import Addresses
from custodes.annotate.site import pages

GUESSES, MINUTE = 60, 60.0
"""Links that do not exist, of one network address, and the seconds in which so many may be tried."""

LARGEST, FIELDS, PATIENCE = 64 * 1024, 40, 10.0
"""Bytes and fields of a body at most, and the seconds that it may take to arrive."""

FORM = "application/x-www-form-urlencoded"

POLICY = "; ".join(
    (
        "default-src 'none'",
        *(f"{kind}-src 'self'" for kind in ("script", "style", "img", "connect")),
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
"""The content security policy of all pages: own scripts, styles and images, nothing inline, nothing of others."""
HEADERS = {
    "Content-Security-Policy": POLICY,
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


LOG = logging.getLogger("custodes.annotate.access")
"""A line a request: method, name of the page, status, milliseconds. Never a path: links are keys. Never an address."""


class Watch:
    """Middleware that answers 429 to an address that goes on guessing links.

    A link that exists always works, however many others were tried from its address: a whole institution may share
    one."""

    def __init__(self, app: ASGIApp) -> None:
        self.app, self.guesses = app, Addresses(GUESSES, MINUTE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status, is_refused = time.perf_counter(), 0, False

        async def watched(message: Message) -> None:
            nonlocal status, is_refused
            if message["type"] == "http.response.start":
                status = message["status"]
                if _is_guess(scope, status) and self.guesses.is_full(_address(scope), began):
                    status, is_refused = 429, True
                    await HTMLResponse(pages.of_error(429), 429, {"Retry-After": "60"})(scope, receive, send)
                elif _is_guess(scope, status):
                    self.guesses.add(_address(scope), began)
            if not is_refused:
                await send(message)

        try:
            await self.app(scope, receive, watched)
        finally:
            name = getattr(scope.get("endpoint"), "__name__", "nothing")
            LOG.info("%s %s %d %.0f ms", _method(scope), name, status, 1000 * (time.perf_counter() - began))


def is_own(request: Request, public_url: str) -> bool:
    """Whether a form was sent by our own page: by `Sec-Fetch-Site` where the browser says it, else by `Origin`.

    Source: OWASP, "Cross-Site Request Forgery Prevention" (Fetch Metadata, with the origin as fallback).
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = urlsplit(request.headers.get("origin", ""))
    ours = urlsplit(public_url or str(request.base_url))
    return bool(origin.netloc) and (origin.scheme, origin.netloc) == (ours.scheme, ours.netloc)


def is_foreign(request: Request, public_url: str) -> bool:
    """Whether a browser says that another site's page sent a form; a program that is no browser says nothing of it."""
    tells = "sec-fetch-site" in request.headers or "origin" in request.headers
    return tells and not is_own(request, public_url)


def _is_guess(scope: Scope, status: int) -> bool:
    """A link or a key of the owner that there is not."""
    path: str = scope["path"]
    return (status == 404 and path.startswith("/s/")) or (status == 403 and b"key=" in scope["query_string"])


def _address(scope: Scope) -> str:
    """The one that uvicorn has: of the connection, or what a proxy of this machine says (`--public-url`)."""
    return scope["client"][0] if scope.get("client") else ""


def _method(scope: Scope) -> str:
    """Of those that there are: it may be any word."""
    return scope["method"] if scope["method"] in ("GET", "HEAD", "POST") else "OTHER"
