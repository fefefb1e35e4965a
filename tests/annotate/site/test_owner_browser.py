"""The owner's pages in a browser: accessibility, and hostile texts with and without the content security policy."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from custodes.annotate.service import Service
from custodes.annotate.study_file import create
from custodes.annotate.views import Comment, Skip
from tests.annotate import studies
from tests.annotate.studies import current_question, new_annotator, plan_of, state_of

pytest.importorskip("starlette")

from custodes.annotate.site.app import app
from tests.annotate.hostile import PAYLOADS
from tests.annotate.requests import signed_in
from tests.annotate.site.studying import serve_app

PLAIN = [f"words {k}" for k in range(len(PAYLOADS))]


def study_with_texts(path: Path, texts: list[str]) -> Service:
    """Create a study in which every free text is one of `texts`."""
    plan = plan_of(annotators={"recruit": "open", "cap": 1.0}, name=texts[0], texts={"title": texts[1]})

    def fill(base: sqlite3.Connection) -> None:
        base.executemany(
            "INSERT INTO item VALUES (?, ?, ?, '', ?, '', '<p>x</p>', '[]', '{}', '[]')",
            [(k, text, text, text) for k, text in enumerate(texts)],
        )
        studies.add_systems(base, texts[:3], seed=0)

    service = Service.open(create(path, plan, fill), durable=False)
    for k, text in enumerate(texts):
        token = service.join(external_id=text, address=f"192.0.{k}.1").result()
        assert token is not None
    for _ in range(2):
        token = new_annotator(service)
        for text in texts[:30]:
            ask = current_question(service, token)
            service.act(token, Comment(text=text, assignment=ask.assignment)).result()
    for _ in range(4):
        service.act(token, Skip(assignment=current_question(service, token).assignment, reason="other")).result()
    service.exclude("w001", texts[5]).result()
    service.control("stop", texts[6]).result()
    return service


NAMES = ("hostile", "plain")
PATHS = ("", "/study", "/study/questions", "/study/annotators/w002", "/study/annotators/w063")
PAGES = tuple(f"/admin{path}" for path in PATHS)


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, Service]]:
    folder = tmp_path_factory.mktemp("studies")
    with (
        closing(study_with_texts(folder / "hostile.db", PAYLOADS)) as hostile,
        closing(study_with_texts(folder / "plain.db", PLAIN)) as plain,
    ):
        yield hostile, plain


def test_no_text_becomes_markup(services: tuple[Service, Service]) -> None:
    """Pages with hostile texts have the same tags as pages with plain words."""
    for path in PAGES:
        tags = []
        for service in services:
            page = signed_in(service).get(path)
            assert page.status_code == 200, path
            tags.append(re.findall(r"<(/?[a-z][a-z0-9]*)", page.text))
        assert tags[0] == tags[1], path


@pytest.fixture(scope="module")
def address(services: tuple[Service, Service]) -> Iterator[str]:
    site = app(dict(zip(NAMES, services, strict=True)), public_url="", secret="s" * 32, owner_key="the-key")
    with serve_app(site) as url:
        yield url


@pytest.fixture(scope="module")
def cookies(address: str, browser: Any) -> Any:
    """Return the cookies of a signed-in owner."""
    context = browser.new_context()
    context.new_page().goto(f"{address}/admin?key=the-key")
    session_cookies = context.cookies()
    context.close()
    return session_cookies


@pytest.mark.browser
def test_nothing_runs(address: str, browser: Any, cookies: Any) -> None:
    """No script runs and no request leaves, with the content security policy and without it."""
    for is_bare in (False, True):
        events: list[str] = []
        context = browser.new_context(bypass_csp=is_bare)
        context.add_cookies(cookies)
        page = context.new_page()
        page.on("dialog", lambda dialog, events=events: (events.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request, events=events: events.append(request.url))
        counts = [[count(page, address + path.replace("study", name)) for path in PAGES] for name in NAMES]
        assert counts[0] == counts[1]
        assert all(event.startswith(address) for event in events)
        if is_bare:  # the listener detects a script
            with page.expect_event("dialog"):
                page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=alert(1)>')")
        context.close()


def count(page: Any, address: str) -> Any:
    """Count the elements of each kind on a page with all details open."""
    page.goto(address)
    return page.evaluate(
        "() => { for (const one of document.querySelectorAll('details')) one.open = true;"
        " return ['form', 'button', 'script', 'img', 'iframe', 'svg', 'a', 'input'].map("
        "name => document.querySelectorAll(name).length) }"
    )


SIZES = {"desktop": (1280, 860), "phone": (390, 844)}
SMALL = """() => [...document.querySelectorAll('button, summary, .button, input:not([type=hidden])')]
    .filter(one => one.getBoundingClientRect().height < 44).map(one => one.outerHTML)"""


@pytest.mark.browser
@pytest.mark.parametrize(
    ("size", "scheme"), [pytest.param("desktop", "light", marks=pytest.mark.slow), ("phone", "dark")]
)
def test_pages_are_for_everybody(address: str, browser: Any, cookies: Any, size: str, scheme: str) -> None:
    """Pages have no accessibility violations, no small controls and no horizontal overflow."""
    from axe_playwright_python.sync_playwright import Axe

    width, height = SIZES[size]
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    context.add_cookies(cookies)
    page = context.new_page()
    for path in PAGES:
        page.goto(address + path.replace("study", "plain"))
        page.evaluate("() => { for (const one of document.querySelectorAll('details')) one.open = true }")
        violations = Axe().run(page).response["violations"]
        assert not [(violation["id"], [node["html"] for node in violation["nodes"]]) for violation in violations], path
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path
        assert page.evaluate(SMALL) == [], path
    context.close()


@pytest.mark.browser
def test_a_foreign_page_cannot_pause_a_study(
    address: str, browser: Any, cookies: Any, services: tuple[Service, Service]
) -> None:
    """A form on another port of the same host, submitted by the owner's browser, is refused."""
    act = f"{address}/admin/hostile/reopen"
    content = f"<form method=post action='{act}'><input name=sent value=1><button>x</button></form>"
    before = state_of(services[0])

    async def foreign(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", b"text/html")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content.encode()})

    with serve_app(foreign) as foreign_address:
        context = browser.new_context()
        context.add_cookies(cookies)
        page = context.new_page()
        page.goto(foreign_address)
        with page.expect_response(lambda reply: "/reopen" in reply.url) as response:
            page.click("button")
        assert response.value.status == 403
        context.close()
    assert state_of(services[0]) == before
