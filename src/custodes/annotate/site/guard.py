"""Protection of the pages: response headers, limits for forms, and defences against guessed links and cross-site
forms."""

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
"""Maximum number of invalid links that one network address may request within a period, and the period in seconds."""

LARGEST, FIELDS, PATIENCE = 64 * 1024, 40, 10.0
"""Maximum size of a form in bytes, maximum number of fields, and maximum seconds until a form has arrived."""

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
"""Content security policy of all pages. Only scripts, styles and images of this site are allowed, and nothing inline.
"""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # without a referrer, our own forms would have the origin "null"
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Headers of every response, if the response has no other value."""


async def form(request: Request) -> dict[str, str]:
    """Return the fields of a form. If a name occurs several times, the last value counts.

    Raise HTTPException 415 for another content type, and 413 if the form exceeds the limits. Raise 408 if the form
    arrives too slowly, and 400 if the client disconnects. The form is read in parts, so that oversized input is not
    stored.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        raise HTTPException(415)
    form_body = bytearray()
    try:
        async with asyncio.timeout(PATIENCE):
            async for body_chunk in request.stream():
                form_body += body_chunk
                if len(form_body) > LARGEST:
                    raise HTTPException(413)
    except TimeoutError:
        raise HTTPException(408) from None
    except ClientDisconnect:  # nobody reads this response; it avoids a traceback in the log
        raise HTTPException(400) from None
    try:
        return dict(parse_qsl(form_body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=FIELDS))
    except ValueError:
        raise HTTPException(413) from None


LOG = logging.getLogger("custodes.annotate.access")
"""Log with one line per request: method, name of the page, status and milliseconds. The log contains neither network
addresses nor paths, because a path is a link that gives access."""


class Watch:
    """Middleware that adds `HEADERS` to every response, and returns status 429 to a network address that keeps guessing
    links.

    A valid link always works, even after many invalid links from the same network address, because a whole institution
    may share one address.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app, self.guesses = app, Addresses(GUESSES, MINUTE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started_at, http_status, is_rate_limited = time.perf_counter(), 0, False

        async def send_or_refuse(message: Message) -> None:
            nonlocal http_status, is_rate_limited
            if message["type"] == "http.response.start":
                http_status = message["status"]
                response_headers = MutableHeaders(scope=message)
                for header_name, header_value in HEADERS.items():
                    response_headers.setdefault(header_name, header_value)
                if _is_guess(scope, http_status) and self.guesses.is_full(_address(scope), started_at):
                    http_status, is_rate_limited = 429, True
                    refusal = HTMLResponse(pages.render_error(429), 429, {"Retry-After": "60", **HEADERS})
                    await refusal(scope, receive, send)
                elif _is_guess(scope, http_status):
                    self.guesses.add(_address(scope), started_at)
            if not is_rate_limited:
                await send(message)

        try:
            await self.app(scope, receive, send_or_refuse)
        finally:
            handler_name = getattr(scope.get("endpoint"), "__name__", "nothing")
            # Clients may send any word as the method.
            http_method = scope["method"] if scope["method"] in ("GET", "HEAD", "POST") else "OTHER"
            LOG.info(
                "%s %s %d %.0f ms", http_method, handler_name, http_status, 1000 * (time.perf_counter() - started_at)
            )


def is_own(request: Request, public_url: str) -> bool:
    """Whether a page of this site sent a form. If the browser sends the header `Sec-Fetch-Site`, this header decides;
    otherwise the header `Origin` decides.

    Source: OWASP, "Cross-Site Request Forgery Prevention" (Fetch Metadata, with the origin as fallback).
    """
    fetch_site_header = request.headers.get("sec-fetch-site")
    if fetch_site_header is not None:
        return fetch_site_header == "same-origin"
    origin_parts = urlsplit(request.headers.get("origin", ""))
    site_url_parts = urlsplit(public_url or str(request.base_url))
    return bool(origin_parts.netloc) and (origin_parts.scheme, origin_parts.netloc) == (
        site_url_parts.scheme,
        site_url_parts.netloc,
    )


def is_foreign(request: Request, public_url: str) -> bool:
    """Whether a browser reports that a form comes from another site. Programs that are not browsers report nothing."""
    has_origin_header = "sec-fetch-site" in request.headers or "origin" in request.headers
    return has_origin_header and not is_own(request, public_url)


def _is_guess(scope: Scope, status: int) -> bool:
    """Whether a response reports an unknown link or an unknown sign-in key."""
    url_path: str = scope["path"]
    return (status == 404 and url_path.startswith("/s/")) or (status == 403 and b"key=" in scope["query_string"])


def _address(scope: Scope) -> str:
    """The network address of the client according to uvicorn. With `--public-url`, the result is the address that a
    proxy on this machine reports; otherwise, the address of the connection."""
    return scope["client"][0] if scope.get("client") else ""
