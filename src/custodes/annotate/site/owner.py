"""The owner's pages: how a study stands by its completed looks, the people in it, and what may be done to it."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from custodes.annotate.forecast import forecast
from custodes.annotate.site import details, guard, showing, watch
from custodes.annotate.site.acts import ACTS, whole
from custodes.annotate.site.downloads import codes, sent, zipped
from custodes.annotate.snapshot import Snapshot
from custodes.annotate.store import StudyBusy
from custodes.errors import CustodesError, OptionError

COOKIE = "custodes_owner"
HOURS = 12
"""That a sign-in lasts; it ends with the server too."""
INVITED = 500
"""Links at once."""

Handler = Callable[..., Awaitable[Response]]


def routes(desks: Mapping[str, Any], *, owner_key: str, public_url: str, secret: str) -> list[Route]:
    """The pages under `/admin`, for who came with `owner_key` (once) and has the cookie since, signed by `secret`."""
    own = Owner(desks, owner_key=owner_key, public_url=public_url)
    cookie = Middleware(
        SessionMiddleware,
        secret_key=secret,
        session_cookie=COOKIE,
        max_age=HOURS * 3600,
        path="/admin",
        same_site="strict",
        https_only=public_url.startswith("https://"),
    )
    pages: list[tuple[str, Handler, str]] = [
        ("/admin", own.studies, "GET"),
        ("/admin/key", own.new_key, "POST"),
        ("/admin/leave", own.leave, "POST"),
        ("/admin/{study}", own.study, "GET"),
        ("/admin/{study}/questions", own.questions, "GET"),
        ("/admin/{study}/export.zip", own.export, "GET"),
        ("/admin/{study}/backup.db", own.backup, "GET"),
        ("/admin/{study}/codes.csv", own.codes, "GET"),
        ("/admin/{study}/people/{label}", own.person, "GET"),
        ("/admin/{study}/{what}", own.do, "POST"),
    ]
    return [
        Route(path, own.guarded(handler), methods=[method], middleware=[cookie], name=f"owner_{handler.__name__}")
        for path, handler, method in pages
    ]


class Owner:
    """What the handlers share: the studies, and the keys that still sign somebody in."""

    def __init__(self, desks: Mapping[str, Any], *, owner_key: str, public_url: str) -> None:
        self.desks, self.public_url = desks, public_url
        self._keys = {_digest(owner_key)} if owner_key else set[str]()
        self._signed_in_now = set[str]()

    def guarded(self, handler: Handler) -> Handler:
        """For who is signed in; a POST must come from these pages themselves."""

        @wraps(handler)
        async def inner(request: Request) -> Response:
            if request.method == "POST" and not watch.is_own(request, self.public_url):
                raise HTTPException(403)
            if request.method == "GET" and "key" in request.query_params and (response := self._sign_in(request)):
                return response
            if request.session.get("owner") not in self._signed_in_now:
                return showing.page("owner/door.html", status=403)
            try:
                return await handler(request)
            except CustodesError as problem:
                return await self._told(request, problem)

        return inner

    def _sign_in(self, request: Request) -> Response | None:
        """A key is used up by whoever opens it; a wrong one is no one's, and is counted (`watch`)."""
        digest = _digest(request.query_params["key"])
        if digest not in self._keys:
            return None
        self._keys.discard(digest)
        name = secrets.token_urlsafe(16)
        self._signed_in_now.add(name)
        request.session["owner"] = name
        if request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            # The browser would not send the new cookie along a redirect that began on another site.
            return showing.page("owner/continue.html")
        return RedirectResponse("/admin", 303)

    async def studies(self, request: Request) -> Response:
        """All studies."""
        now = {name: await asyncio.wrap_future(desk.snapshot()) for name, desk in self.desks.items()}
        return showing.page("owner/studies.html", studies=now)

    async def new_key(self, request: Request) -> Response:
        """Another link that signs in once: for another browser, or a colleague."""
        key = secrets.token_urlsafe(16)
        self._keys.add(_digest(key))
        return showing.page("owner/key.html", link=f"{self._base(request)}/admin?key={key}")

    async def leave(self, request: Request) -> Response:
        """Sign out: the cookie is worth nothing from now on, wherever it is."""
        self._signed_in_now.discard(request.session["owner"])
        request.session.clear()
        return showing.page("owner/door.html")

    async def study(self, request: Request) -> Response:
        """How a study stands."""
        return await self._study(request, said=showing.SAID.get(request.query_params.get("said", ""), ""))

    async def _study(self, request: Request, status: int = 200, **more: Any) -> HTMLResponse:
        name, desk = self._desk(request)
        now: Snapshot = await asyncio.wrap_future(desk.snapshot())
        ahead = await run_in_threadpool(forecast, now)
        return await run_in_threadpool(  # a thousand people are a tenth of a second
            showing.page,
            "owner/study.html",
            status=status,
            **{"said": "", "problem": "", "peeked": None} | more,
            name=name,
            now=now,
            ahead=ahead,
            join=None if now.plan.people.recruit == "links" else f"{self._base(request)}/j/{name}",
        )

    async def person(self, request: Request) -> Response:
        """One person's answers, by the side that was shown, never by system: nobody should stop by eye."""
        name, desk = self._desk(request)
        now: Snapshot = await asyncio.wrap_future(desk.snapshot())
        label = request.path_params["label"]
        found = [one for one in now.people if one.label == label]
        if not found:
            raise HTTPException(404)
        rows = await run_in_threadpool(details.answers_of, desk.path, label)
        is_signed = label in await run_in_threadpool(details.signed, desk.path)
        return showing.page("owner/person.html", name=name, now=now, person=found[0], rows=rows, is_signed=is_signed)

    async def questions(self, request: Request) -> Response:
        """Comparisons that somebody could not judge or wrote about."""
        name, desk = self._desk(request)
        rows = await run_in_threadpool(details.troubled, desk.path)
        comments = await run_in_threadpool(details.comments, desk.path)
        return showing.page("owner/questions.html", name=name, rows=rows, comments=comments)

    async def do(self, request: Request) -> Response:
        """What changes a study: each is an event in its file."""
        name, desk = self._desk(request)
        what = request.path_params["what"]
        if what not in ("invite", "peek", *ACTS):
            raise HTTPException(404)
        fields = await guard.form(request)
        if what == "invite":
            return await self._invite(request, name, desk, fields)
        if what == "peek" and desk.plan.question.mode == "rate":
            raise OptionError("people rate outputs: there are no running numbers of pairs to look at")
        if what == "peek":
            await asyncio.wrap_future(desk.peek())
            first = desk.plan.question.aspects[0]
            return await self._study(request, peeked=await run_in_threadpool(details.running, desk.path, first))
        await ACTS[what](desk, fields)
        return RedirectResponse(f"/admin/{name}?said={what}", 303)

    async def _invite(self, request: Request, name: str, desk: Any, fields: dict[str, str]) -> Response:
        people = whole("people", fields.get("people", ""), most=INVITED)
        made = await asyncio.wrap_future(desk.invite(people))
        links = [(label, f"{self._base(request)}/s/{token}") for label, token in made]
        return showing.page("owner/invited.html", name=name, links=links)

    async def export(self, request: Request) -> Response:
        """The study as files that every verb reads."""
        name, desk = self._desk(request)
        from custodes.annotate.exporting import export

        return await sent(lambda folder: zipped(export, desk.path, folder / name), f"{name}.zip", "application/zip")

    async def backup(self, request: Request) -> Response:
        """The whole file, as it is now."""
        name, desk = self._desk(request)

        def make(folder: Path) -> Path:
            return Path(desk.backup(folder / f"{name}.db").result())

        return await sent(make, f"{name}.db", "application/vnd.sqlite3")

    async def codes(self, request: Request) -> Response:
        """Who is to be paid: a table for spreadsheet programs."""
        name, desk = self._desk(request)
        now: Snapshot = await asyncio.wrap_future(desk.snapshot())
        return codes(name, now.people, await run_in_threadpool(details.signed, desk.path))

    async def _told(self, request: Request, problem: CustodesError) -> Response:
        """What went wrong, above the study that it is about."""
        status = 503 if isinstance(problem, StudyBusy) else 409
        if "study" in request.path_params and request.method == "POST":
            return await self._study(request, status=status, problem=str(problem))
        return showing.page("owner/problem.html", status=status, problem=str(problem))

    def _desk(self, request: Request) -> tuple[str, Any]:
        name = request.path_params["study"]
        if name not in self.desks:
            raise HTTPException(404)
        return name, self.desks[name]

    def _base(self, request: Request) -> str:
        return self.public_url or str(request.base_url).rstrip("/")


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
