"""The owner's pages: how a study stands by its completed looks, the people in it, and what may be done to it."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from functools import partial, wraps
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from custodes.annotate.forecast import forecast
from custodes.annotate.plan import StudyPlan
from custodes.annotate.site import details, guard, showing, watch
from custodes.annotate.snapshot import PersonNow, Snapshot
from custodes.data.writing import table_bytes
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
        self._acts: dict[str, Callable[[Any, dict[str, str]], Awaitable[Any]]] = {
            **{what: partial(_control, what) for what in ("pause", "resume", "stop", "reopen")},
            **{what: partial(_person, what) for what in ("exclude", "restore", "forget")},
            "replan": _replan,
        }

    def guarded(self, handler: Handler) -> Handler:
        """For who is signed in; a POST must come from these pages themselves."""

        @wraps(handler)
        async def inner(request: Request) -> Response:
            if request.method == "POST" and not watch.is_own(request, self.public_url):
                raise HTTPException(403)
            if "key" in request.query_params and (response := self._signed_in(request)):
                return response
            if request.session.get("owner") is not True:
                return showing.page("owner/door.html", status=403)
            try:
                return await handler(request)
            except CustodesError as problem:
                return await self._told(request, problem)

        return inner

    def _signed_in(self, request: Request) -> Response | None:
        """A key is used up by whoever comes with it; a wrong one is no one's, and is counted (`guard`)."""
        digest = _digest(request.query_params["key"])
        if digest not in self._keys:
            return None
        self._keys.discard(digest)
        request.session["owner"] = True
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
        """Sign out."""
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
        if what not in ("invite", "peek", *self._acts):
            raise HTTPException(404)
        fields = await guard.form(request)
        if what == "invite":
            return await self._invite(request, name, desk, fields)
        if what == "peek":
            await asyncio.wrap_future(desk.peek())
            first = desk.plan.question.aspects[0]
            return await self._study(request, peeked=await run_in_threadpool(details.running, desk.path, first))
        await self._acts[what](desk, fields)
        return RedirectResponse(f"/admin/{name}?said={what}", 303)

    async def _invite(self, request: Request, name: str, desk: Any, fields: dict[str, str]) -> Response:
        people = _whole("people", fields.get("people", ""), most=INVITED)
        made = await asyncio.wrap_future(desk.invite(people))
        links = [(label, f"{self._base(request)}/s/{token}") for label, token in made]
        return showing.page("owner/invited.html", name=name, links=links)

    async def export(self, request: Request) -> Response:
        """The study as files that every verb reads."""
        name, desk = self._desk(request)
        from custodes.annotate.exporting import export

        return await _sent(lambda folder: _zipped(export, desk.path, folder / name), f"{name}.zip", "application/zip")

    async def backup(self, request: Request) -> Response:
        """The whole file, as it is now."""
        name, desk = self._desk(request)

        def make(folder: Path) -> Path:
            return Path(desk.backup(folder / f"{name}.db").result())

        return await _sent(make, f"{name}.db", "application/vnd.sqlite3")

    async def codes(self, request: Request) -> Response:
        """Who is to be paid: a table for spreadsheet programs."""
        name, desk = self._desk(request)
        now: Snapshot = await asyncio.wrap_future(desk.snapshot())
        signed = await run_in_threadpool(details.signed, desk.path)
        rows = [_paid(one, one.label in signed) for one in now.people]
        content = table_bytes(pl.DataFrame(rows, schema=_CODES), "codes.csv", quote_formulas=True)
        kept = {"Content-Disposition": f'attachment; filename="{_file(name)}-codes.csv"'}
        return Response(content, media_type="text/csv; charset=utf-8", headers=kept)

    async def _told(self, request: Request, problem: CustodesError) -> Response:
        """What went wrong, above the study that it is about."""
        if "study" in request.path_params and request.method == "POST":
            return await self._study(request, status=409, problem=str(problem))
        return showing.page("owner/problem.html", status=409, problem=str(problem))

    def _desk(self, request: Request) -> tuple[str, Any]:
        name = request.path_params["study"]
        if name not in self.desks:
            raise HTTPException(404)
        return name, self.desks[name]

    def _base(self, request: Request) -> str:
        return self.public_url or str(request.base_url).rstrip("/")


async def _control(what: str, desk: Any, fields: dict[str, str]) -> None:
    await asyncio.wrap_future(desk.control(what, fields.get("why", "")))


async def _person(what: str, desk: Any, fields: dict[str, str]) -> None:
    label = fields.get("worker", "")
    reason = (fields.get("reason", "") or "no reason given",) if what == "exclude" else ()
    await asyncio.wrap_future(getattr(desk, what)(label, *reason))


async def _replan(desk: Any, fields: dict[str, str]) -> None:
    """Price, people at most and budget: what may change while a study runs."""
    plan: StudyPlan = desk.plan
    try:
        price = float(fields.get("price", ""))
    except ValueError:
        raise OptionError(f"price {fields.get('price', '')!r}: a number, such as 0.15") from None
    if not 0 <= price < 1e6:
        raise OptionError(f"price {price:g}: must be a number of 0 or more")
    budget = fields.get("budget", "").strip()
    await asyncio.wrap_future(
        desk.replan(
            msgspec.structs.replace(
                plan,
                money=msgspec.structs.replace(plan.money, price=price),
                people=msgspec.structs.replace(plan.people, most=_whole("most", fields.get("most", ""))),
                stopping=msgspec.structs.replace(
                    plan.stopping, budget=_whole("budget", budget) if budget else plan.stopping.budget
                ),
            )
        )
    )


def _whole(name: str, text: str, *, most: int = 10**9) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:12]) <= most):
        raise OptionError(f"{name} {text[:20]!r}: a whole number from 1 to {most}")
    return int(text)


def _paid(person: PersonNow, is_signed: bool) -> dict[str, object]:
    return {
        "worker": person.label,
        "source": person.source,
        "external_id": person.external_id,
        "signed": is_signed,
        "code": person.code,
        "answers": person.answers,
        "batches": person.batches,
        "known_right": person.gold_right,
        "known_asked": person.gold_asked,
        "standing": person.standing,
    }


_CODES = dict.fromkeys(("worker", "source", "external_id"), pl.String) | {"signed": pl.Boolean, "code": pl.String}
_CODES |= dict.fromkeys(("answers", "batches", "known_right", "known_asked"), pl.Int64) | {"standing": pl.String}


async def _sent(make: Callable[[Path], Path], name: str, kind: str) -> Response:
    """A file made in a folder of its own, which goes when it was sent."""
    folder = tempfile.TemporaryDirectory(prefix="custodes-")
    try:
        path = await run_in_threadpool(make, Path(folder.name))
    except BaseException:
        folder.cleanup()
        raise
    return FileResponse(path, media_type=kind, filename=_file(name), background=BackgroundTask(folder.cleanup))


def _zipped(export: Callable[[Path, Path], object], study: Path, folder: Path) -> Path:
    import shutil

    export(study, folder)
    return Path(shutil.make_archive(str(folder), "zip", root_dir=folder.parent, base_dir=folder.name))


def _file(name: str) -> str:
    """A name that a header can hold."""
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "_" for letter in name)


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
