"""The routes of the site. Requests are passed to the service, and views are rendered as pages."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from custodes.annotate import arrivals
from custodes.annotate.plan import StudyPlan
from custodes.annotate.service import Service, StudyBusy
from custodes.annotate.site import guard, owner, pages
from custodes.annotate.views import Comment, Undo, View
from custodes.errors import InputError

HEALTHY = 2.0
"""Maximum seconds until the writer of every study responds to a health check."""

FOREVER = "public, max-age=31536000, immutable"
NOTICES: Mapping[type, str] = {Comment: "sent", Undo: "taken_back"}
"""Key of the message that the page displays after an action."""


class Site:
    """The handlers of the pages, which share the studies by name."""

    def __init__(self, services: Mapping[str, Service], public_url: str) -> None:
        self.services, self.public_url = services, public_url

    def _visit(self, request: Request) -> tuple[str, Service]:
        """Return the token of a link and its study. Raise HTTPException 404 if the token belongs to no study."""
        token = request.path_params["token"]
        for service in self.services.values():
            if service.has_visit(token):
                return token, service
        raise HTTPException(404)

    async def _view(self, request: Request) -> tuple[Service, View]:
        """Return the study and the current view of a link. Raise HTTPException 404 for an unknown token."""
        token, service = self._visit(request)
        view = await asyncio.wrap_future(service.view(token))
        if view is None:
            raise HTTPException(404)
        return service, view

    async def index(self, request: Request) -> Response:
        """Redirect to the entry page if only one study is served and it has an open link; otherwise raise HTTPException
        404."""
        if len(self.services) == 1:
            study_name, service = next(iter(self.services.items()))
            if service.plan.annotators.recruit == "open":
                return RedirectResponse(f"/j/{study_name}", 303)
        raise HTTPException(404)

    def _find_joinable_study(self, request: Request) -> Service:
        service = self.services.get(request.path_params["study"])
        if service is None or service.plan.annotators.recruit == "links":
            raise HTTPException(404)
        return service

    async def arrive(self, request: Request) -> Response:
        service = self._find_joinable_study(request)
        worker_id = arrivals.worker_id_of(service.plan, request.query_params)
        return self._arrival(request, service.plan, worker_id, 200)

    def _arrival(self, request: Request, plan: StudyPlan, worker_id: str | None, status: int) -> Response:
        """Return the entry page, with a message and status 400 if the worker's id is invalid (None)."""
        notice_key = "invalid_id" if worker_id is None else ""
        page_html = pages.render_arrival(plan, worker_id or "", path=request.url.path, notice_key=notice_key)
        return HTMLResponse(page_html, 400 if worker_id is None else status)

    async def join(self, request: Request) -> Response:
        service = self._find_joinable_study(request)
        if guard.is_foreign(request, self.public_url):
            raise HTTPException(403)
        form_fields = await guard.form(request)
        if form_fields.get("website", ""):  # a hidden field, which only bots fill
            raise HTTPException(400)
        worker_id = arrivals.worker_id_of(service.plan, form_fields)
        if not worker_id and (worker_id is None or service.plan.annotators.worker_id):
            return self._arrival(request, service.plan, worker_id, 422)
        client_address = request.client.host if request.client else ""
        token = await asyncio.wrap_future(service.join(external_id=worker_id, address=client_address))
        if token is None:
            return HTMLResponse(pages.message("refused", service.plan), 403)
        return RedirectResponse(f"/s/{token}", 303)

    async def show(self, request: Request) -> Response:
        service, view = await self._view(request)
        notice_key = request.query_params.get("said", "")
        return self._page(request, service, view, notice_key if notice_key in NOTICES.values() else "")

    async def act(self, request: Request) -> Response:
        form_fields = await guard.form(request)
        token, service = self._visit(request)
        try:
            action = pages.act_of(service.plan, form_fields)
            view = await asyncio.wrap_future(service.act(token, action))
        except (pages.UnreadError, InputError) as problem:
            notice_key = str(problem) if isinstance(problem, pages.UnreadError) else "unread"
            _, view = await self._view(request)
            return self._page(request, service, view, notice_key, status=422)
        except StudyBusy:  # the answer could not be stored; the page contains it and can send it again
            busy_page_html = pages.message("busy", service.plan, path=request.url.path, fields=form_fields)
            return HTMLResponse(busy_page_html, 503, {"Retry-After": "5"})
        if view is None:
            raise HTTPException(404)
        notice_key = NOTICES.get(type(action), "")
        # Redirect to the page, since reloading the response of a POST would ask for confirmation.
        if request.headers.get("sec-fetch-mode") == "navigate":
            return RedirectResponse(request.url.path + f"?said={notice_key}" * bool(notice_key), 303)
        return self._page(request, service, view, notice_key)

    def _page(self, request: Request, service: Service, view: View, notice_key: str, *, status: int = 200) -> Response:
        """Return the page of a view."""
        return HTMLResponse(pages.render_view(service.plan, view, path=request.url.path, notice_key=notice_key), status)

    async def renew_lease(self, request: Request) -> Response:
        form_fields = await guard.form(request)
        token, service = self._visit(request)
        try:
            await asyncio.wrap_future(service.renew_lease(token, pages.assignment_of(form_fields)))
        except pages.UnreadError:
            raise HTTPException(422) from None
        return Response(status_code=204)

    async def help(self, request: Request) -> Response:
        service, _ = await self._view(request)
        worked_examples = await run_in_threadpool(lambda: service.examples)
        visit_path = request.url.path.removesuffix("/help")
        return HTMLResponse(pages.render_help(service.plan, worked_examples, path=visit_path))

    async def media(self, request: Request) -> Response:
        for service in self.services.values():
            image_type_and_content = await run_in_threadpool(service.media, request.path_params["name"])
            if image_type_and_content is not None:
                media_type, image_content = image_type_and_content
                response_headers = {
                    "Cache-Control": "private, max-age=86400, immutable",
                    "Content-Security-Policy": "sandbox",
                }
                return Response(image_content, media_type=media_type, headers=response_headers)
        raise HTTPException(404)

    async def static(self, request: Request) -> Response:
        static_file = pages.static().get(request.path_params["name"])
        if static_file is None:
            raise HTTPException(404)
        return Response(static_file.bytes, media_type=static_file.type, headers={"Cache-Control": FOREVER})

    async def health(self, request: Request) -> Response:
        try:
            async with asyncio.timeout(HEALTHY):
                for service in self.services.values():
                    await asyncio.wrap_future(service.view(""))
        except TimeoutError:
            return PlainTextResponse("busy", 503)
        if any(service.write_failure for service in self.services.values()):
            return PlainTextResponse("cannot write", 503)
        return PlainTextResponse("ok")

    async def refuse(self, request: Request, problem: Exception) -> Response:
        if isinstance(problem, HTTPException):
            return HTMLResponse(pages.render_error(problem.status_code), problem.status_code, problem.headers)
        if isinstance(problem, StudyBusy):
            return HTMLResponse(pages.render_error(503), 503, {"Retry-After": "5"})
        return HTMLResponse(pages.render_error(500), 500)


def app(services: Mapping[str, Service], *, public_url: str = "", secret: str = "", owner_key: str = "") -> Starlette:
    """Return the site that serves studies. `services` has the studies by their names in addresses.

    `public_url` is the address for annotators. The owner signs in with `owner_key` and gets a cookie, which `secret`
    signs.
    """
    site = Site(services, public_url)
    return Starlette(
        routes=[
            Route("/", site.index),
            Route("/j/{study}", site.arrive),
            Route("/j/{study}", site.join, methods=["POST"]),
            Route("/s/{token}", site.show),
            Route("/s/{token}", site.act, methods=["POST"]),
            Route("/s/{token}/seen", site.renew_lease, methods=["POST"]),
            Route("/s/{token}/help", site.help),
            Route("/m/{name}", site.media),
            Route("/static/{name}", site.static),
            Route("/health", site.health),
            *owner.routes(services, owner_key=owner_key, public_url=public_url, secret=secret),
        ],
        middleware=[Middleware(guard.Watch)],
        exception_handlers={HTTPException: site.refuse, StudyBusy: site.refuse, 500: site.refuse},
    )
