"""The owner's pages: progress according to completed interim analyses, annotators, and actions that change a study."""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from functools import wraps
from pathlib import Path
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from custodes.annotate import study_file
from custodes.annotate.forecast import forecast
from custodes.annotate.plan import StudyPlan
from custodes.annotate.service import CONTROLS, Service
from custodes.annotate.site import guard, owner_formats
from custodes.annotate.site.owner_formats import codes
from custodes.annotate.snapshot import Snapshot
from custodes.annotate.study_file import StudyBusy
from custodes.annotate.visits import digest_of
from custodes.errors import CustodesError, OptionError

COOKIE = "custodes_owner"
HOURS = 12
"""Hours for which a sign-in is valid. A sign-in also ends when the server stops."""
INVITED = 500
"""Maximum number of links that can be created at once."""
MOST = 200
"""Maximum number of rows of a table on a page."""

Handler = Callable[..., Awaitable[Response]]
Row = Mapping[str, Any]

_ANSWERS = """
SELECT answered_at, item, known, aspect, role, "order", answer, reason, visible_seconds, late, taken_back, expected,
    system_b IS NULL AND gold IS NULL AS is_rating
FROM answers WHERE rater = ?2 ORDER BY answer_id DESC LIMIT ?1
"""
"""Query of the latest answers of an annotator, with the newest answer first."""
_TROUBLED = """
SELECT item, system_a, system_b, count(DISTINCT assignment) AS asked,
    count(DISTINCT CASE WHEN answer IS NULL THEN assignment END) AS refused,
    group_concat(DISTINCT CASE WHEN answer IS NULL THEN reason END) AS reasons
FROM answers WHERE unit IS NOT NULL AND NOT taken_back
GROUP BY unit HAVING refused > 0 ORDER BY refused DESC, item LIMIT ?1
"""
"""Query of the questions that at least one annotator could not judge. Questions with the most refusals come first."""
_COMMENTS = """
SELECT e.at AS at, w.label AS rater, i.label AS item, json_extract(e.json, '$.text') AS text
FROM event e LEFT JOIN worker w ON w.worker = e.worker LEFT JOIN assignment a ON a.assignment = e.assignment
LEFT JOIN unit u ON u.unit = a.unit LEFT JOIN item i ON i.item = u.item
WHERE e.kind = 'comment' AND json_extract(e.json, '$.text') <> '' ORDER BY e.event DESC LIMIT ?1
"""
"""Query of the latest comments, with the newest comment first. The text of an erased comment is empty."""


async def rows_of(path: Path, query: str, *parameters: object) -> list[Row]:
    """Return rows of a study file, which is read over a read-only connection."""

    def read() -> list[Row]:
        with study_file.sqlite_errors(path), study_file.reading(path) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(query, (MOST, *parameters))]

    return await run_in_threadpool(read)


def act_of(action_name: str, service: Service, form_fields: Mapping[str, str]) -> Future[None] | None:
    """Start the action that a form of the owner requests, and return its future. `action_name` is the last part of the
    form's address. Return None if `action_name` is not the name of an action."""
    worker_label = form_fields.get("worker", "")
    match action_name:
        case "pause" | "resume" | "stop" | "reopen":
            assert action_name in CONTROLS
            return service.control(action_name, form_fields.get("why", ""))
        case "exclude":
            return service.exclude(worker_label, form_fields.get("reason", "") or "no reason given")
        case "forget":
            return service.forget(worker_label)
        case "replan":
            return service.replan(_parse_plan_form(service.plan, form_fields))
    return None


def _parse_plan_form(plan: StudyPlan, form_fields: Mapping[str, str]) -> StudyPlan:
    """Return the plan with the values of a form. A form may change price, maximum number of annotators, cap and budget
    during annotation."""
    budget_text = form_fields.get("budget", "").strip()
    return msgspec.structs.replace(
        plan,
        money=msgspec.structs.replace(plan.money, price=_parse_number("price", form_fields.get("price", ""))),
        annotators=msgspec.structs.replace(
            plan.annotators,
            most=parse_positive_integer("most", form_fields.get("most", "")),
            cap=_parse_number("cap", form_fields.get("cap", str(plan.annotators.cap))),
        ),
        stopping=msgspec.structs.replace(
            plan.stopping, budget=parse_positive_integer("budget", budget_text) if budget_text else plan.stopping.budget
        ),
    )


def _parse_number(field_name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise OptionError(f"{field_name} {text!r} is not allowed; give a number, such as 0.15") from None


def parse_positive_integer(field_name: str, text: str, *, largest: int = 10**9) -> int:
    """Return the positive integer in a form field. Raise `OptionError` for other text."""
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:12]) <= largest):
        raise OptionError(f"{field_name} {text[:20]!r} is not allowed; give a whole number from 1 to {largest}")
    return int(text)


def routes(services: Mapping[str, Service], *, owner_key: str, public_url: str, secret: str) -> list[Route]:
    """Return the routes of the pages under `/admin`. A visitor signs in with `owner_key`, which works only once. After
    that, a cookie signed with `secret` identifies the visitor."""
    owner_site = Owner(services, owner_key=owner_key, public_url=public_url)
    session_middleware = Middleware(
        SessionMiddleware,
        secret_key=secret,
        session_cookie=COOKIE,
        max_age=HOURS * 3600,
        path="/admin",
        same_site="strict",
        https_only=public_url.startswith("https://"),
    )
    paths_handlers_and_methods: list[tuple[str, Handler, str]] = [
        ("/admin", owner_site.studies, "GET"),
        ("/admin/leave", owner_site.leave, "POST"),
        ("/admin/{study}", owner_site.study, "GET"),
        ("/admin/{study}/questions", owner_site.questions, "GET"),
        ("/admin/{study}/codes.csv", owner_site.codes, "GET"),
        ("/admin/{study}/annotators/{label}", owner_site.person, "GET"),
        ("/admin/{study}/{what}", owner_site.do, "POST"),
    ]
    return [
        Route(
            route_path,
            owner_site.require_sign_in(handler),
            methods=[http_method],
            middleware=[session_middleware],
            name=f"owner_{handler.__name__}",
        )
        for route_path, handler, http_method in paths_handlers_and_methods
    ]


class Owner:
    """State that the handlers share: the studies, the unused sign-in key, and the browsers that are signed in."""

    def __init__(self, services: Mapping[str, Service], *, owner_key: str, public_url: str) -> None:
        self.services, self.public_url = services, public_url
        self._key_digest = digest_of(owner_key) if owner_key else ""
        self._signed_in_now = set[str]()

    def require_sign_in(self, handler: Handler) -> Handler:
        """Restrict a handler to signed-in users. A POST request must come from the owner's pages."""

        @wraps(handler)
        async def check_then_handle(request: Request) -> Response:
            if request.method == "POST" and not guard.is_own(request, self.public_url):
                raise HTTPException(403)
            if (
                request.method == "GET"
                and "key" in request.query_params
                and (sign_in_response := self._sign_in(request))
            ):
                return sign_in_response
            if request.session.get("owner") not in self._signed_in_now:
                return owner_formats.page("owner/door.html", status=403)
            try:
                return await handler(request)
            except CustodesError as problem:  # the message is displayed above the page of the study
                http_status = 503 if isinstance(problem, StudyBusy) else 409
                if "study" in request.path_params and request.method == "POST":
                    return await self._study(request, status=http_status, problem=str(problem))
                return owner_formats.page("owner/problem.html", status=http_status, problem=str(problem))

        return check_then_handle

    def _sign_in(self, request: Request) -> Response | None:
        """Sign in with a key, which cannot be used again. Return None for a wrong key. `guard.Watch` counts wrong
        keys."""
        if digest_of(request.query_params["key"]) != self._key_digest:
            return None
        self._key_digest = ""
        session_id = secrets.token_urlsafe(16)
        self._signed_in_now.add(session_id)
        request.session["owner"] = session_id
        if request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            # The browser would not send the new cookie after a redirect that started on another site.
            return owner_formats.page("owner/continue.html")
        return RedirectResponse("/admin", 303)

    async def studies(self, request: Request) -> Response:
        """Display all studies."""
        snapshot_of_study = {
            study_name: await asyncio.wrap_future(service.snapshot()) for study_name, service in self.services.items()
        }
        return owner_formats.page("owner/studies.html", studies=snapshot_of_study)

    async def leave(self, request: Request) -> Response:
        """Sign out. The cookie is invalid from now on."""
        self._signed_in_now.discard(request.session["owner"])
        request.session.clear()
        return owner_formats.page("owner/door.html")

    async def study(self, request: Request) -> Response:
        """Display the progress of a study."""
        confirmation = owner_formats.CONFIRMATIONS.get(request.query_params.get("said", ""), "")
        return await self._study(request, said=confirmation)

    async def _study(self, request: Request, status: int = 200, **page_values: Any) -> HTMLResponse:
        study_name, service = self._find(request)
        snapshot: Snapshot = await asyncio.wrap_future(service.snapshot())
        study_forecast = await run_in_threadpool(forecast, snapshot)
        return await run_in_threadpool(  # in a thread: a page with a thousand annotators takes 0.1 s
            owner_formats.page,
            "owner/study.html",
            status=status,
            **{"said": "", "problem": ""} | page_values,
            name=study_name,
            file=service.path.name,
            now=snapshot,
            ahead=study_forecast,
            join=None if snapshot.plan.annotators.recruit == "links" else f"{self._base(request)}/j/{study_name}",
        )

    async def person(self, request: Request) -> Response:
        """Display the answers of one annotator. The page names the displayed side and never the system, so that results
        cannot influence when the owner stops the study."""
        study_name, service = self._find(request)
        snapshot: Snapshot = await asyncio.wrap_future(service.snapshot())
        annotator_label = request.path_params["label"]
        person = next((annotator for annotator in snapshot.annotators if annotator.label == annotator_label), None)
        if person is None:
            raise HTTPException(404)
        answer_rows = await rows_of(service.path, _ANSWERS, annotator_label)
        return owner_formats.page("owner/person.html", name=study_name, now=snapshot, person=person, rows=answer_rows)

    async def questions(self, request: Request) -> Response:
        """Display the questions that at least one annotator could not judge, and the comments of annotators."""
        study_name, service = self._find(request)
        refused_rows, comment_rows = await rows_of(service.path, _TROUBLED), await rows_of(service.path, _COMMENTS)
        return owner_formats.page("owner/questions.html", name=study_name, rows=refused_rows, comments=comment_rows)

    async def do(self, request: Request) -> Response:
        """Perform an action that changes a study. Each action is recorded in the study file."""
        study_name, service = self._find(request)
        action_name, form_fields = request.path_params["what"], await guard.form(request)
        if action_name == "invite":
            n_annotators = parse_positive_integer("annotators", form_fields.get("annotators", ""), largest=INVITED)
            labels_and_tokens = await asyncio.wrap_future(service.invite(n_annotators))
            labels_and_links = [
                (annotator_label, f"{self._base(request)}/s/{token}") for annotator_label, token in labels_and_tokens
            ]
            return owner_formats.page("owner/invited.html", name=study_name, links=labels_and_links)
        action_future = act_of(action_name, service, form_fields)
        if action_future is None:
            raise HTTPException(404)
        await asyncio.wrap_future(action_future)
        return RedirectResponse(f"/admin/{study_name}?said={action_name}", 303)

    async def codes(self, request: Request) -> Response:
        """Send a CSV file with the annotators and their completion codes, for payment."""
        study_name, service = self._find(request)
        snapshot: Snapshot = await asyncio.wrap_future(service.snapshot())
        return codes(study_name, snapshot.annotators)

    def _find(self, request: Request) -> tuple[str, Service]:
        study_name = request.path_params["study"]
        if study_name not in self.services:
            raise HTTPException(404)
        return study_name, self.services[study_name]

    def _base(self, request: Request) -> str:
        return self.public_url or str(request.base_url).rstrip("/")
