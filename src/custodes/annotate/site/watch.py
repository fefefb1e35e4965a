"""Who asks: a bound on guesses, a log without links, and forms of the owner that come from our own pages."""

from __future__ import annotations

import logging
import time
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from custodes.annotate.site import pages
from custodes.annotate.site.rates import Rates

LOG = logging.getLogger("custodes.annotate.access")
"""A line a request: method, name of the page, status, milliseconds. Never a path: links are keys. Never an address."""


class Watch:
    """Middleware that answers 429 to an address that goes on guessing links.

    A link that exists always works, however many others were tried from its address: a whole institution may share
    one."""

    def __init__(self, app: ASGIApp, rates: Rates | None = None) -> None:
        self.app, self.rates = app, rates or Rates()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status, is_refused = time.perf_counter(), 0, False

        async def watched(message: Message) -> None:
            nonlocal status, is_refused
            if message["type"] == "http.response.start":
                status = message["status"]
                if _is_guess(scope, status) and not self.rates.guess(_address(scope)):
                    status, is_refused = 429, True
                    await HTMLResponse(pages.of_error(429), 429, {"Retry-After": "60"})(scope, receive, send)
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
    own = urlsplit(public_url or str(request.base_url))
    return bool(origin.netloc) and (origin.scheme, origin.netloc) == (own.scheme, own.netloc)


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
