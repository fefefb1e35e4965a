"""The routes of the site, thin: a request to the desk, its view to a page."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from custodes.annotate import recruit
from custodes.annotate.plan import StudyPlan
from custodes.annotate.session import Comment, Undo, View
from custodes.annotate.site import forms, guard, owner, pages, watch
from custodes.errors import CustodesError, InputError

HEALTHY = 2.0
"""Seconds within which the writer of every study must answer."""

FOREVER = "public, max-age=31536000, immutable"
SAID: Mapping[type, str] = {Comment: "sent", Undo: "taken_back"}
TOLD = frozenset(SAID.values())


REMEMBERED = 100_000
"""Tokens whose study is remembered, where there are several."""


def known(view: View | None) -> View:
    """The view of a token that there is; HTTPException 404 otherwise."""
    if view is None:
        raise HTTPException(404)
    return view


class Site:
    """What the handlers share: the studies by name, and to which of them a token belongs."""

    def __init__(self, desks: Mapping[str, Any], public_url: str) -> None:
        self.desks, self.host = desks, urlsplit(public_url).netloc
        self._homes: dict[str, Any] = {}

    async def find(self, token: str) -> Any:
        """The study of a token; HTTPException 404 where it is of none."""
        if len(self.desks) == 1:
            return next(iter(self.desks.values()))  # which says itself whether it knows it
        if token not in self._homes:
            for desk in self.desks.values():
                if await asyncio.wrap_future(desk.view(token)) is not None:
                    break
            else:
                raise HTTPException(404)
            if len(self._homes) >= REMEMBERED:
                self._homes.clear()
            self._homes[token] = desk
        return self._homes[token]

    def page(self, desk: Any, content: str, status: int = 200) -> HTMLResponse:
        policy = guard.policy(desk.plan.people.recruit)
        return HTMLResponse(content, status, {"Content-Security-Policy": policy})

    def busy(self, desk: Any, content: str) -> HTMLResponse:
        response = self.page(desk, content, 503)
        response.headers["Retry-After"] = "5"
        return response

    async def index(self, request: Request) -> Response:
        """One open study is the only thing that a visitor without a link can have come for."""
        if len(self.desks) == 1:
            name, desk = next(iter(self.desks.items()))
            if desk.plan.people.recruit == "open":
                return RedirectResponse(f"/j/{name}", 303)
        raise HTTPException(404)

    def _joined(self, request: Request) -> tuple[str, Any]:
        name = request.path_params["study"]
        desk = self.desks.get(name)
        if desk is None or desk.plan.people.recruit == "links":
            raise HTTPException(404)
        return name, desk

    async def arrive(self, request: Request) -> Response:
        name, desk = self._joined(request)
        plan, params = desk.plan, dict(request.query_params)
        try:
            arrival = await self._arrival(request, plan, params)
        except InputError as problem:
            return self.page(desk, pages.message("unknown", plan, what=str(problem)), 400)
        examples = await asyncio.wrap_future(desk.examples()) if arrival.preview else ()
        return self.page(desk, pages.of_arrival(plan, arrival, params, path=f"/j/{name}", examples=examples))

    async def join(self, request: Request) -> Response:
        _, desk = self._joined(request)
        fields = await guard.form(request)
        if fields.pop("website", ""):  # a field that nobody sees
            raise HTTPException(400)
        plan = desk.plan
        try:
            arrival = await self._arrival(request, plan, fields)
        except InputError as problem:
            return self.page(desk, pages.message("unknown", plan, what=str(problem)), 400)
        if arrival.preview:
            raise HTTPException(400)
        params = dict(arrival.params) | ({"verified": "yes"} if arrival.verified else {})
        token = await asyncio.wrap_future(
            desk.join(
                source=arrival.source,
                external_id=arrival.external_id or secrets.token_hex(16),
                params=params,
                address=request.client.host if request.client else "",
            )
        )
        if token is None:
            return self.page(desk, pages.message("refused", plan), 403)
        return RedirectResponse(f"/s/{token}", 303)

    async def _arrival(self, request: Request, plan: StudyPlan, params: Mapping[str, str]) -> recruit.Arrival:
        """In a thread: a platform may have to be asked for its keys."""
        host = self.host or request.headers.get("host", "")
        return await run_in_threadpool(recruit.arrival, plan, params, host=host)

    async def show(self, request: Request) -> Response:
        token = request.path_params["token"]
        desk = await self.find(token)
        view = known(await asyncio.wrap_future(desk.view(token)))
        said = request.query_params.get("said", "")
        return self.page(desk, pages.of_view(desk.plan, view, path=f"/s/{token}", said=said if said in TOLD else ""))

    async def act(self, request: Request) -> Response:
        fields = await guard.form(request)
        token = request.path_params["token"]
        desk = await self.find(token)
        path, said, status = f"/s/{token}", "", 200
        try:
            act = forms.act_of(desk.plan, fields)
        except forms.UnreadError as problem:
            view, said, status = known(await asyncio.wrap_future(desk.view(token))), str(problem), 422
        else:
            try:
                view, said = known(await asyncio.wrap_future(desk.act(token, act))), SAID.get(type(act), "")
            except InputError:
                raise HTTPException(422) from None
            except CustodesError:  # it could not be written down: what was said comes back with the page
                return self.busy(desk, pages.message("busy", desk.plan, path=path, fields=fields))
            # A browser that goes to the answer would ask before it came back to it: it is sent to where the page is.
            if request.headers.get("sec-fetch-mode") == "navigate":
                return RedirectResponse(f"{path}?said={said}" if said else path, 303)
        return self.page(desk, pages.of_view(desk.plan, view, path=path, said=said), status)

    async def seen(self, request: Request) -> Response:
        fields = await guard.form(request)
        token = request.path_params["token"]
        desk = await self.find(token)
        try:
            await asyncio.wrap_future(desk.seen(token, *forms.alive(fields)))
        except forms.UnreadError:
            raise HTTPException(422) from None
        return Response(status_code=204)

    async def help(self, request: Request) -> Response:
        token = request.path_params["token"]
        desk = await self.find(token)
        known(await asyncio.wrap_future(desk.view(token)))
        return self.page(desk, pages.of_help(desk.plan, await asyncio.wrap_future(desk.examples()), path=f"/s/{token}"))

    async def media(self, request: Request) -> Response:
        for desk in self.desks.values():
            found = await asyncio.wrap_future(desk.media(request.path_params["name"]))
            if found is not None:
                kind, content = found
                kept = {"Cache-Control": "private, max-age=86400, immutable", "Content-Security-Policy": "sandbox"}
                return Response(content, media_type=kind, headers=kept)
        raise HTTPException(404)

    async def static(self, request: Request) -> Response:
        file = pages.static().get(request.path_params["name"])
        if file is None:
            raise HTTPException(404)
        headers = {"Cache-Control": FOREVER, "Vary": "Accept-Encoding"}
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(file.bytes, media_type=file.type, headers=headers)
        return Response(file.packed, media_type=file.type, headers=headers | {"Content-Encoding": "gzip"})

    async def health(self, request: Request) -> Response:
        try:
            async with asyncio.timeout(HEALTHY):
                for desk in self.desks.values():
                    await asyncio.wrap_future(desk.view(""))
        except TimeoutError:
            return PlainTextResponse("busy", 503)
        return PlainTextResponse("ok")

    async def refuse(self, request: Request, problem: Exception) -> Response:
        status = problem.status_code if isinstance(problem, HTTPException) else 500
        headers = problem.headers if isinstance(problem, HTTPException) else None
        return HTMLResponse(pages.of_error(status), status, headers)


def app(desks: Mapping[str, Any], *, public_url: str = "", secret: str = "", owner_key: str = "") -> Starlette:
    """The site of some studies, by the name of each in addresses.

    `public_url`: where people find it. `secret` signs the owner's cookie, which
    `owner_key` gives out."""
    site = Site(desks, public_url)
    return Starlette(
        routes=[
            Route("/", site.index),
            Route("/j/{study}", site.arrive),
            Route("/j/{study}", site.join, methods=["POST"]),
            Route("/s/{token}", site.show),
            Route("/s/{token}", site.act, methods=["POST"]),
            Route("/s/{token}/seen", site.seen, methods=["POST"]),
            Route("/s/{token}/help", site.help),
            Route("/m/{name}", site.media),
            Route("/static/{name}", site.static),
            Route("/health", site.health),
            *owner.routes(desks, owner_key=owner_key, public_url=public_url, secret=secret),
        ],
        middleware=[Middleware(guard.Headers), Middleware(watch.Watch)],
        exception_handlers={HTTPException: site.refuse, 500: site.refuse},
    )
