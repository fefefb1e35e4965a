"""The owner's pages in a browser: for everybody, and hostile texts are texts, with the content policy and without."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from custodes.annotate.desk import Desk

from custodes.annotate.session import Comment, Skip
from custodes.annotate.store import create
from tests.annotate import studies
from tests.annotate.studies import asked, begun, plan_of

pytest.importorskip("starlette")

from custodes.annotate.site.app import app
from tests.annotate.site.served import served
from tests.annotate.test_security import visitor

FIRE = "window.fired=1"
SCRIPTS = [
    f"<script>{FIRE}</script>",
    f"<ScRiPt>{FIRE}</sCrIpT>",
    f"<script\n>{FIRE}</script\n>",
    f"<<script>{FIRE}//<</script>",
    f"<script src=data:,{FIRE}></script>",
    "<script src=//evil.invalid/x.js></script>",
    f"<scr<script>ipt>{FIRE}</scr</script>ipt>",
    f"</title><script>{FIRE}</script>",
    f"</textarea><script>{FIRE}</script>",
    f"</style><script>{FIRE}</script>",
    f"--><script>{FIRE}</script><!--",
    f"]]><script>{FIRE}</script>",
    f"<img src=x onerror={FIRE}>",
    f'<img src="x" onerror="{FIRE}">',
    f"<img src=x\tonerror={FIRE}>",
    f"<img/src=x/onerror={FIRE}>",
    f"<img src=x:x onerror={FIRE}//",
    f'"><img src=x onerror={FIRE}>',
    f"'><img src=x onerror={FIRE}>",
    f"`><img src=x onerror={FIRE}>",
    "<img src=http://evil.invalid/pixel.png>",
    f"<svg onload={FIRE}>",
    f"<svg/onload={FIRE}>",
    f"<svg><script>{FIRE}</script></svg>",
    f"<svg><animate onbegin={FIRE} attributeName=x dur=1s>",
    f"<svg><a xlink:href=javascript:{FIRE}><text>x</text></a></svg>",
    f"<math><mtext><script>{FIRE}</script></mtext></math>",
    f"<math href=javascript:{FIRE}>x</math>",
    f"<body onload={FIRE}>",
    f"<body onpageshow={FIRE}>",
    f"<iframe srcdoc='<script>parent.{FIRE}</script>'></iframe>",
    f"<iframe src=javascript:parent.{FIRE}></iframe>",
    f"<object data=javascript:{FIRE}></object>",
    f"<embed src=javascript:{FIRE}>",
    f"<video src=x onerror={FIRE}></video>",
    f"<video><source onerror={FIRE}></video>",
    f"<audio src=x onerror={FIRE}></audio>",
    f"<details open ontoggle={FIRE}>x</details>",
    f"<input autofocus onfocus={FIRE}>",
    f"<select autofocus onfocus={FIRE}>",
    f"<textarea autofocus onfocus={FIRE}>",
    f"<marquee onstart={FIRE}>x</marquee>",
    f"<style>@keyframes x{{}}</style><b style=animation-name:x onanimationstart={FIRE}>x</b>",
    "<style>@import 'http://evil.invalid/x.css';</style>",
    "<link rel=stylesheet href=http://evil.invalid/x.css>",
    "<meta http-equiv=refresh content='0;url=http://evil.invalid/'>",
    "<base href=http://evil.invalid/>",
    f"<a href=javascript:{FIRE}>x</a>",
    f"<a href='java\tscript:{FIRE}'>x</a>",
    f"javascript:{FIRE}",
    f"<form action=javascript:{FIRE}><button autofocus>x</button></form>",
    "<button form=f formaction=http://evil.invalid/>x</button>",
    f"<isindex type=image src=1 onerror={FIRE}>",
    f'<noscript><p title="</noscript><img src=x onerror={FIRE}>">',
    f'<xmp><p title="</xmp><img src=x onerror={FIRE}>">',
    f"<template><script>{FIRE}</script></template>",
    f"<dialog open><script>{FIRE}</script></dialog>",
    "{{ ''.__class__ }}{% for x in range(9) %}x{% endfor %}",
    "${7*7}#{7*7}<%= 7*7 %>",
    f"\u202e<img src=x onerror={FIRE}>\u2028{FIRE}",
    f"&lt;script&gt;{FIRE}&lt;/script&gt;",
    f"&#60;img src=x onerror={FIRE}&#62;",
]
PLAIN = [f"words {k}" for k in range(len(SCRIPTS))]


def filled(path: Path, texts: list[str]) -> Desk:
    """A study in which everything that may be somebody's text is one of these."""
    plan = plan_of(people={"recruit": "open", "cap": 1.0}, name=texts[0], texts={"title": texts[1]})

    def fill(base: sqlite3.Connection) -> None:
        base.executemany(
            "INSERT INTO item VALUES (?, ?, ?, '', ?, '', '<p>x</p>', '[]', '{}')",
            [(k, text, text, text) for k, text in enumerate(texts)],
        )
        studies.add_systems(base, texts[:3], seed=0)

    desk = Desk.open(create(path, plan, fill), durable=False)
    for k, text in enumerate(texts):
        token = desk.join(source="open", external_id=text, params={"x": text}, address=f"192.0.{k}.1").result()
        assert token is not None
    for _ in range(2):
        token = begun(desk)
        for text in texts[:30]:
            ask = asked(desk, token)
            desk.act(token, Comment(text=text, assignment=ask.assignment)).result()
    for _ in range(4):
        desk.act(token, Skip(assignment=asked(desk, token).assignment, reason="other")).result()
    desk.exclude("w001", texts[5]).result()
    desk.control("stop", texts[6]).result()
    return desk


NAMES = ("hostile", "plain")
PAGES = ("/admin", "/admin/study", "/admin/study/questions", "/admin/study/people/w002", "/admin/study/people/w063")


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[Desk, Desk]]:
    with (
        closing(filled(tmp_path / "hostile.db", SCRIPTS)) as hostile,
        closing(filled(tmp_path / "plain.db", PLAIN)) as plain,
    ):
        yield hostile, plain


def test_there_are_enough() -> None:
    assert len(SCRIPTS) == len(set(SCRIPTS)) >= 60


def test_no_text_becomes_markup(both: tuple[Desk, Desk]) -> None:
    """The pages of the same study with plain words have the same tags."""
    for path in PAGES:
        tags = []
        for desk in both:
            client = visitor(desk)
            client.get("/admin?key=the-key")
            page = client.get(path)
            assert page.status_code == 200, path
            tags.append(re.findall(r"<(/?[a-z][a-z0-9]*)", page.text))
        assert tags[0] == tags[1], path


@pytest.fixture
def address(both: tuple[Desk, Desk]) -> Iterator[str]:
    made = app(dict(zip(NAMES, both, strict=True)), public_url="", secret="s" * 32, owner_key="the-key")
    with served(made) as url:
        yield url


@pytest.fixture
def cookies(address: str, browser: Any) -> Any:
    """Of somebody who is signed in."""
    context = browser.new_context()
    context.new_page().goto(f"{address}/admin?key=the-key")
    made = context.cookies()
    context.close()
    return made


@pytest.mark.browser
def test_nothing_runs(address: str, browser: Any, cookies: Any) -> None:
    """With the content policy, and in a browser that does not know of it."""
    for is_bare in (False, True):
        seen: list[str] = []
        context = browser.new_context(bypass_csp=is_bare)
        context.add_cookies(cookies)
        page = context.new_page()
        page.on("dialog", lambda dialog, seen=seen: (seen.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request, seen=seen: seen.append(request.url))
        counts = [[count(page, address + path.replace("study", name)) for path in PAGES] for name in NAMES]
        assert counts[0] == counts[1]
        assert all(one.startswith(address) for one in seen)
        if is_bare:  # where something runs, it is seen
            page.evaluate(f"document.body.insertAdjacentHTML('beforeend', `{SCRIPTS[12]}`)")
            page.wait_for_function("window.fired")
        context.close()


def count(page: Any, address: str) -> Any:
    """What fired, and how many elements of a kind a page has with everything unfolded."""
    page.goto(address)
    return page.evaluate(
        "() => { for (const one of document.querySelectorAll('details')) one.open = true;"
        " return [window.fired, ...['form', 'button', 'script', 'img', 'iframe', 'svg', 'a', 'input'].map("
        "name => document.querySelectorAll(name).length)] }"
    )


SIZES = {"desktop": (1280, 860), "phone": (390, 844)}
SMALL = """() => [...document.querySelectorAll('button, summary, .button, input:not([type=hidden])')]
    .filter(one => one.getBoundingClientRect().height < 44).map(one => one.outerHTML)"""


@pytest.mark.browser
@pytest.mark.parametrize(("size", "scheme"), [("desktop", "light"), ("phone", "dark")])
def test_pages_are_for_everybody(address: str, browser: Any, cookies: Any, size: str, scheme: str) -> None:
    """No violation of accessibility, nothing that is too small or too wide; without JavaScript."""
    from axe_playwright_python.sync_playwright import Axe

    width, height = SIZES[size]
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    context.add_cookies(cookies)
    page = context.new_page()
    for path in PAGES:
        page.goto(address + path.replace("study", "plain"))
        page.evaluate("() => { for (const one of document.querySelectorAll('details')) one.open = true }")
        found = Axe().run(page).response["violations"]
        assert not [(one["id"], [node["html"] for node in one["nodes"]]) for one in found], path
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path
        assert page.evaluate(SMALL) == [], path
    context.close()


@pytest.mark.browser
def test_a_foreign_page_cannot_pause_a_study(address: str, browser: Any, cookies: Any, both: tuple[Desk, Desk]) -> None:
    """A form on another port of this machine, which is the same site but another origin, sent by the owner's browser."""
    form = (
        f"<form method=post action='{address}/admin/hostile/reopen'><input name=sent value=1><button>x</button></form>"
    )
    before = both[0].state()
    with served(lambda scope, receive, send: _answer(form, scope, send)) as other:
        context = browser.new_context()
        context.add_cookies(cookies)
        page = context.new_page()
        page.goto(other)
        with page.expect_response(lambda reply: "/reopen" in reply.url) as sent:
            page.click("button")
        assert sent.value.status == 403
        context.close()
    assert both[0].state() == before
