"""HTML of every page for annotators, and an application that serves it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from custodes.annotate import safe_html
from custodes.annotate.plan import AnnotatorPlan, Question, StudyPlan
from custodes.annotate.site import guard, pages
from custodes.annotate.views import Ask, Break, Consent, Example, Instructions, Side, VisitEnd, Wait

PLAN = StudyPlan()
WHY = ("finished", "no-work", "failed", "blocked", "excluded", "stopped", "left", "declined", "erased")
"""Values of `Done.why`."""


def side(text: str, how: safe_html.Render = "plain") -> Side:
    try:
        return Side(html=safe_html.to_html(text, how))
    except safe_html.UnlikeError:
        return Side(html=safe_html.plain(text))


def ask(context: str, *outputs: str, how: safe_html.Render = "plain", **values: Any) -> Ask:
    defaults = {"assignment": 7, "number": 4, "of": 15, "can_undo": True}
    sides = tuple(side(text, how) for text in outputs)
    return Ask(context=side(context, how), sides=sides, **defaults | values)


def all_pages(plan: StudyPlan, question: Ask, example: Example) -> dict[str, str]:
    """Return the HTML of all pages by name, for a plan of comparisons and its equivalent with ratings."""
    path: dict[str, Any] = {"path": "/s/x"}
    rates = replace(plan, question=Question(text=plan.question.text, mode="rate", labels=plan.question.labels[:1] * 5))
    slides = replace(rates, question=replace(rates.question, scale=(0, 100)))
    aspects = replace(plan, question=replace(plan.question, aspects=(plan.question.text, "fluency")))
    back = "https://app.prolific.com/submissions/complete?cc={code}"
    platform = replace(plan, annotators=AnnotatorPlan(recruit="open", worker_id="PID", return_url=back))
    open_plan = replace(plan, annotators=AnnotatorPlan(recruit="open"))
    rating = Ask(assignment=7, number=1, of=15, context=question.context, sides=question.sides[:1], training=True)
    html_by_name: dict[str, str] = {
        "ask": pages.render_view(plan, question, **path),
        "several": pages.render_view(aspects, question, **path),
        "rate": pages.render_view(rates, rating, **path),
        "slide": pages.render_view(slides, rating, **path),
        "consent": pages.render_view(open_plan, Consent(digest="d"), **path),
        "instructions": pages.render_view(plan, Instructions(examples=(example,)), **path),
        "help": pages.render_help(plan, (example,), **path),
        "break": pages.render_view(open_plan, Break(answers=15), **path),
        "wait": pages.render_view(plan, Wait(seconds=600), **path),
        "paused": pages.render_view(plan, Wait(seconds=60, is_paused=True), **path),
        "join": pages.render_arrival(platform, "w", path="/j/x"),
        "open": pages.render_arrival(open_plan, "", path="/j/x"),
        "typed": pages.render_arrival(platform, "", path="/j/x"),
        "return": pages.render_view(platform, VisitEnd(why="finished", code="K7QM", answers=15), **path),
        "busy": pages.message("busy", plan, path="/s/x", fields={"do": "answer", "v0": plan.question.text}),
        "refused": pages.message("refused", plan),
        "invalid-id": pages.render_arrival(platform, "", path="/j/x", notice_key="invalid_id"),
        **{str(status): pages.render_error(status) for status in (400, 404, 413, 429, 500, 503)},
    }
    for why in WHY:
        html_by_name[why] = pages.render_view(plan, VisitEnd(why=why, code="K7QM", answers=3), **path)
    later = VisitEnd(why="no-work", code="K7QM", answers=3, later=True)
    return html_by_name | {"later": pages.render_view(plan, later, **path)}


def gallery(html_by_name: Mapping[str, str], *, with_policy: bool = True) -> Starlette:
    """Return an application with the pages at `/page/NAME`, with or without the security headers of the site."""

    async def page(request: Request) -> Response:
        return HTMLResponse(html_by_name[request.path_params["name"]])

    async def static(request: Request) -> Response:
        file = pages.static()[request.path_params["name"]]
        return Response(file.bytes, media_type=file.type)

    return Starlette(
        routes=[Route("/page/{name}", page), Route("/static/{name}", static)],
        middleware=[Middleware(guard.Watch)] if with_policy else [],
    )
