"""Annotator pages in headless Chromium: accessibility, and no script or external request from hostile texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from msgspec.structs import replace

from custodes.annotate.plan import Question, StudyPlan, StudyTexts
from custodes.annotate.views import Ask, Example, Side
from tests.annotate.hostile import EVENTS, PAYLOADS
from tests.annotate.site.gallery import all_pages, ask, gallery, side
from tests.annotate.site.studying import serve_app

pytestmark = pytest.mark.browser

MARKDOWN = (
    "# Title\n\n**Kind** staff, `code` and [a link](https://example.org).\n\n1. one\n2. two\n\n> quoted\n\n"
    "| a | b |\n|---|--:|\n| 1 | 2 |\n\n```python\ndef f(x):  # why\n    return 'a' + str(x)\n```\n\n"
    "$$\\sqrt{x^2} = |x|$$"
)
ARABIC = "كان الفندق جميلاً والموظفون لطفاء للغاية. كانت غرفتنا تطل على الحديقة."
PLAN = StudyPlan(
    question=Question(text="Which review is better?", labels=("bad", "good")),
    texts=StudyTexts(
        title="Hotels", contact="anna@example.org", consent="Who, why.\n\n- pay", instructions="**Read** both."
    ),
)
EXAMPLE = Example(context=side("Say hello."), sides=(side("Hello!"), side("Bye!")), expected=1, why="It is hello.")
SIZES = {"desktop": (1280, 860), "phone": (390, 844), "zoomed": (320, 430)}
TEXTS = {
    "plain": ask("A question.\n\nOf two parts.", "First.", "Second.\nOf two lines."),
    "markdown": ask(MARKDOWN, MARKDOWN, "Short.", how="markdown+math"),
    "arabic": ask(ARABIC, ARABIC, ARABIC * 3),
    "long": ask("x" * 300, "word " * 4000, "y" * 300),
}
LOOK = {
    "overflow": "() => document.documentElement.scrollWidth - document.documentElement.clientWidth",
    "headings": "() => document.querySelectorAll('h1').length",
    "small": """() => [...document.querySelectorAll('button, a, summary, .choices label, .choices input[type=number]')]
      .filter((e) => e.getClientRects().length && !e.closest('dialog, .text'))
      .filter((e) => e.getBoundingClientRect().height < 43.5)
      .map((e) => e.outerHTML)""",
}


@pytest.fixture(scope="module")
def page_html() -> dict[str, str]:
    """Return the HTML of all pages in English with several kinds of texts, and of two pages in German."""
    html_by_name = all_pages(PLAN, TEXTS["plain"], EXAMPLE)
    german_pages = all_pages(replace(PLAN, texts=replace(PLAN.texts, language="de")), TEXTS["plain"], EXAMPLE)
    html_by_name |= {f"de-{name}": german_pages[name] for name in ("ask", "open")}
    return html_by_name | {
        f"ask-{name}": all_pages(PLAN, question, EXAMPLE)["ask"] for name, question in TEXTS.items() if name != "plain"
    }


@pytest.fixture(scope="module")
def address(page_html: dict[str, str]) -> Iterator[str]:
    with serve_app(gallery(page_html)) as url:
        yield url


def check_pages(browser: Any, address: str, names: list[str], size: str, scheme: str) -> None:
    """Check accessibility, sizes and overflow of pages, and that they log nothing and request no other host."""
    width, height = SIZES[size]
    axe = Axe()
    device = {"is_mobile": size != "desktop", "has_touch": size != "desktop"}
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, **device)
    page = context.new_page()
    messages: list[str] = []
    page.on("console", lambda message: messages.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("request", lambda request: messages.append(request.url))
    try:
        for name in names:
            page.goto(f"{address}/page/{name}")
            violations = axe.run(page).response["violations"]
            assert not [(v["id"], [n["html"] for n in v["nodes"]]) for v in violations], name
            assert page.evaluate(LOOK["overflow"]) <= 0, name
            assert page.evaluate(LOOK["headings"]) == 1, name
            assert not page.evaluate(LOOK["small"]), name
    finally:
        context.close()
    assert all(message.startswith(f"{address}/") for message in messages), messages


def test_pages_are_for_everybody(browser: Any, address: str, page_html: dict[str, str]) -> None:
    """A sample of pages; a slow test covers all pages in all sizes and schemes."""
    check_pages(browser, address, ["ask-markdown", "several", "consent", "finished"], "phone", "light")
    check_pages(browser, address, ["ask-arabic", "rate", "ask-long"], "desktop", "dark")


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_pages_in_both_sizes_and_schemes(
    browser: Any, address: str, page_html: dict[str, str], size: str, scheme: str
) -> None:
    check_pages(browser, address, sorted(page_html), size, scheme)


def hostile(text: str) -> dict[str, str]:
    """Return all pages with `text` in every place for a text of an owner, an output or a platform."""
    plan = StudyPlan(
        question=Question(text=text, labels=(text, text)),
        texts=StudyTexts(title=text, contact=text, consent=text, instructions=text, thanks=text, language=text),
    )
    sides = side(text, "markdown"), side(text, "markdown+math")
    example = Example(context=side(text), sides=sides, expected=1, why=text)
    return all_pages(plan, ask(text, *(text,) * 2, how="markdown+math"), example)


def all_payloads() -> Ask:
    """Return a question with all payloads in all three renderings."""
    sides = tuple(side(text, how) for text in PAYLOADS for how in ("plain", "markdown", "markdown+math"))
    context = Side(html="".join(each.html for each in sides))
    return Ask(assignment=1, number=1, of=1, context=context, sides=sides, can_undo=True)


PARTS = "() => document.querySelectorAll('form, button, input, textarea, a, script, link, meta').length"
STRAYS = """(events) => {
  const within = [...document.querySelectorAll('.text, .text *, legend, h1, h2, p, label, span')];
  for (const element of within) for (const one of events) element.dispatchEvent(new Event(event));
  return [...document.querySelectorAll('.text *')].flatMap((element) => [
    ...(/^(script|iframe|object|embed|form|button|input|select|textarea|link|meta|base|style|svg|img|a|video|audio)$/i
      .test(element.tagName) ? [element.outerHTML] : []),
    ...element.getAttributeNames().filter((name) => !["class", "value", "display", "alttext", "stretchy", "fence",
      "separator", "form", "lspace", "rspace", "width", "height", "depth", "linethickness", "accent", "mathvariant",
      "movablelimits", "columnalign", "rowspacing", "columnspacing", "columnlines", "rowlines", "displaystyle",
      "scriptlevel", "minsize", "maxsize", "largeop", "notation"].includes(name)),
  ]);
}"""


SEND = """(events) => {
  for (const element of document.querySelectorAll('*')) for (const one of events) element.dispatchEvent(new Event(one));
}"""


@cache
def parts_of(page: str) -> int:
    """Count the interactive elements and resources in the HTML of a page."""
    tags = ("form", "button", "input", "textarea", "a ", "script", "link", "meta ")
    return sum(page.count(f"<{tag}") for tag in tags)


def nothing_runs(browser: Any, pairs: Mapping[str, tuple[str, str]], policies: Sequence[bool] = (True, False)) -> None:
    """Check that hostile pages run no script, request no other host, and have the elements of a harmless page."""
    html_by_name = {name: page for name, (page, _) in pairs.items()}
    for with_policy in policies:
        events: list[str] = []
        with serve_app(gallery(html_by_name, with_policy=with_policy)) as url:
            context = browser.new_context()
            page = context.new_page()
            page.on("dialog", lambda dialog, events=events: (events.append(dialog.message), dialog.dismiss()))
            page.on("request", lambda request, events=events: events.append(request.url))
            for name in pairs:
                page.goto(f"{url}/page/{name}")
                assert not page.evaluate(STRAYS, EVENTS), name
                assert page.evaluate(PARTS) == parts_of(pairs[name][1]), name
                assert page.url == f"{url}/page/{name}"
            context.close()
        assert all(event.startswith(f"{url}/") for event in events), events


def test_no_text_runs(browser: Any) -> None:
    """All payloads jointly on pages of each kind, and each as an output in all three renderings."""
    assert len(PAYLOADS) >= 60
    every_side = all_payloads()
    harmless_question = ask("a", *("b",) * len(every_side.sides))
    hostile_pages, harmless_pages = hostile(" ".join(PAYLOADS)), hostile("quiet")
    names = ("several", "rate", "consent", "typed", "finished", "busy")
    pairs = {name: (hostile_pages[name], harmless_pages[name]) for name in names}
    sides = {"sides": (all_pages(PLAN, every_side, EXAMPLE)["ask"], all_pages(PLAN, harmless_question, EXAMPLE)["ask"])}
    nothing_runs(browser, pairs | sides, policies=[False])
    nothing_runs(browser, sides, policies=[True])


@pytest.mark.slow
def test_no_text_runs_anywhere(browser: Any) -> None:
    names = ("ask", "several", "slide", "consent", "typed", "join", "open", "finished", "return", "busy", "invalid-id")
    pages, harmless_pages = [hostile(text) for text in PAYLOADS], hostile("quiet")
    pairs = {f"{k}-{name}": (page[name], harmless_pages[name]) for k, page in enumerate(pages) for name in names}
    nothing_runs(browser, pairs)


@pytest.mark.slow
def test_payloads_run_in_unsafe_html(browser: Any) -> None:
    """Most payloads run in unsafe HTML, so the tests above can fail."""
    page = browser.new_page()
    events: list[str] = []
    page.on("dialog", lambda dialog: (events.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: events.append(request.url))
    ran = 0
    for text in PAYLOADS:
        before = len(events)
        page.set_content(f"<main><div class=text>{text}</div></main>")
        page.evaluate(SEND, EVENTS)
        ran += len(events) > before
    page.close()
    assert ran >= 40
