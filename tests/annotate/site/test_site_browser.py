"""A person at the site, in headless Chromium, with the real service behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest
from msgspec.structs import replace

from custodes.annotate.new_study import new
from custodes.annotate.plan import Ending, Question, StudyTexts
from custodes.annotate.service import Service
from custodes.annotate.site.app import app
from tests.annotate.site.served import served
from tests.annotate.site.studying import (
    ANNOTATORS,
    PLAN,
    SYSTEMS,
    invited,
    judgments,
    made,
    opened,
    pictured,
    texts,
    told,
)
from tests.waiting import PATIENCE

pytestmark = pytest.mark.browser

DEAD = 650
"""Milliseconds after which a new question may be answered."""


ASPECTS = ("Adequacy", "Fluency", "Coherence", "Relevance")
LONG = {
    "long-marks": Question(mode="rate", scale=(1, 5), aspects=ASPECTS),
    "long-slides": Question(mode="rate", scale=(0, 100), aspects=ASPECTS),
    "long-slide": Question(mode="rate", scale=(0, 100)),
    "long-aspects": Question(aspects=ASPECTS),
}
"""Questions about texts that are longer than the window."""


class Own(NamedTuple):
    """A person's browser: its page, the address of the session, the study, and all bytes that came."""

    page: Any
    url: str
    service: Service
    came: list[bytes]
    context: Any


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("studies")
    plans = {
        "compare": PLAN,
        "aspects": replace(
            PLAN, question=Question(aspects=("Adequacy", "Fluency")), annotators=replace(ANNOTATORS, batches=1)
        ),
        "rate": replace(PLAN, question=Question(mode="rate", scale=(1, 5)), stopping=Ending()),
        "slide": replace(PLAN, question=Question(mode="rate", scale=(0, 100)), stopping=Ending()),
        "markdown": replace(PLAN, texts=StudyTexts(render="markdown+math", language="de")),
    }
    templates = {name: made(folder / f"{name}.db", plan) for name, plan in plans.items()}
    for name, question in LONG.items():
        plan = replace(PLAN, question=question, stopping=Ending())
        long = texts().with_columns(pl.col("text") + " A long answer about the hotel and its breakfast." * 60)
        templates[name] = new(long, folder / f"{name}.db", plan=plan)
    return templates | {"pictures": pictured(folder)}


@pytest.fixture
def own(browser: Any, templates: dict[str, Path], tmp_path: Path) -> Iterator[Callable[..., Own]]:
    """From the name of a study and options of a browser to somebody there; no request may leave, no name may come."""
    with ExitStack() as stack:
        came: list[bytes] = []
        asked: list[str] = []
        errors: list[str] = []
        site: list[str] = []

        def make(name: str = "compare", *, consented: bool = True, **options: Any) -> Own:
            service = stack.enter_context(opened(templates[name], tmp_path / f"{name}.db"))
            url = stack.enter_context(served(app({name: service}, secret="s", owner_key="k")))
            site.append(url)
            context = browser.new_context(**{"viewport": {"width": 1280, "height": 860}} | options)
            stack.callback(context.close)
            context.clock.install()
            page = context.new_page()
            page.set_default_timeout(PATIENCE * 1000)
            page.on("request", lambda request: asked.append(request.url))
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.on("response", lambda reply: came.append(_body(reply)))
            one = Own(page, f"{url}/s/{invited(service)}", service, came, context)
            page.goto(one.url)
            if consented:
                if page.locator("[name=agree]").count():
                    page.locator("[name=agree]").check()
                    page.locator(".main").click()
                page.get_by_role("heading", name="Instructions").or_(
                    page.get_by_role("heading", name="Anleitung")
                ).wait_for()
                page.locator("form .main").click()
                page.wait_for_selector("[data-assignment]")
            return one

        yield make
        assert not errors
        assert all(url.startswith(site[0]) for url in asked)
        assert not [body for body in came for system in SYSTEMS if system.encode() in body]


def _body(reply: Any) -> bytes:
    try:
        return reply.body()
    except Exception:  # redirects have none
        return b""


def number(page: Any, n: int, of: int = 3) -> None:
    page.get_by_role("heading", level=1, name=f"Comparison {n} of {of}", exact=True).wait_for()


def later(page: Any) -> None:
    """When a new question may be answered."""
    page.clock.fast_forward(DEAD)


def answers(service: Service) -> list[object]:
    return [row[1] for row in judgments(service.path)]


def test_a_batch_by_keyboard(own: Callable[..., Own]) -> None:
    page, _, service, _, _ = own(consented=False)
    for key in ("Tab", "Space", "Tab", "Enter"):  # the box, the button
        page.keyboard.press(key)
    page.get_by_role("heading", name="Instructions").wait_for()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    for n, key in enumerate(("1", "ArrowRight", "0"), start=1):
        number(page, n)
        assert page.evaluate("document.activeElement.tagName") == ("H1" if n > 0 else "BODY")
        later(page)
        page.keyboard.press(key)
    page.get_by_role("heading", name="Time for a break").wait_for()
    flips = [flip for (flip,) in told(service.path, "SELECT flip FROM assignment ORDER BY assignment")]
    assert answers(service) == [(-1 if flip else 1) * shown for flip, shown in zip(flips, (1, -1, 0), strict=True)]
    assert all(0 < float(str(row[3])) < PATIENCE for row in judgments(service.path))  # no longer than the server waited


def test_a_batch_by_mouse(own: Callable[..., Own]) -> None:
    page, _, service, _, _ = own()
    for n, name in enumerate(("1 is better", "Equal", "2 is better"), start=1):
        number(page, n)
        later(page)
        page.get_by_role("button", name=name).click()
    page.get_by_role("button", name="Continue").click()
    number(page, 1)
    later(page)
    page.locator("summary", has_text="I cannot judge this").click()
    page.get_by_role("button", name="Something is missing or not displayed correctly").click()
    number(page, 2)
    assert page.locator("summary").count() == 2
    assert judgments(service.path)[-1][2] == "broken"
    page.locator("summary", has_text="Comment").click()
    page.locator("textarea").fill("1 2 0 what is this?")  # keys within a text answer nothing
    page.keyboard.press("1")
    page.get_by_role("button", name="Send").click()
    page.get_by_role("status").get_by_text("your comment has been sent").wait_for()
    number(page, 2)
    page.get_by_role("button", name="Change my last answer").click()
    number(page, 1)
    page.get_by_role("status").get_by_text("withdrawn").wait_for()
    page.get_by_role("link", name="Instructions").click()
    page.get_by_role("dialog").get_by_text("Read both.").wait_for()
    page.keyboard.press("1")  # behind the dialogue nothing is answered
    page.get_by_role("button", name="Close").click()
    assert len(judgments(service.path)) == 4


def test_a_batch_by_touch(own: Callable[..., Own]) -> None:
    page, _, service, _, _ = own(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    for n in (1, 2, 3):
        number(page, n)
        bar, second = page.locator(".bar").bounding_box(), page.locator(".sides .card").nth(1).bounding_box()
        assert bar["y"] + bar["height"] <= 845  # within reach without scrolling
        assert second["width"] > 340  # stacked
        later(page)
        page.get_by_role("button", name="2 is better").tap()
    page.get_by_role("heading", name="Time for a break").wait_for()
    page.get_by_role("button", name="Stop here").tap()
    page.get_by_role("heading", name="Thank you").wait_for()
    assert page.get_by_text("Your completion code").count() == 1
    assert len(judgments(service.path)) == 3


def test_a_batch_without_javascript(own: Callable[..., Own]) -> None:
    page, url, service, _, _ = own(java_script_enabled=False)
    for n in (1, 2, 3):
        number(page, n)
        page.get_by_role("button", name="Equal").click()
    page.get_by_role("button", name="Continue").click()
    number(page, 1)
    page.go_back()  # no question whether to send a form again
    page.reload()
    number(page, 1)
    page.get_by_role("link", name="Instructions").click()
    page.get_by_role("link", name="Back to the question").click()
    for n in (1, 2, 3):
        number(page, n)
        page.get_by_role("button", name="1 is better").click()
    page.get_by_text("Your completion code").wait_for()
    assert page.url == url
    assert [row[3] for row in judgments(service.path)] == [None] * 6


PRESS = "(how) => document.body.dispatchEvent(new KeyboardEvent('keydown', how))"


def test_fast_presses_are_one_answer(own: Callable[..., Own]) -> None:
    page, _, service, _, _ = own()
    number(page, 1)
    status = page.get_by_role("status")
    page.keyboard.press("1")  # nobody has read anything
    status.get_by_text("came too fast").wait_for()
    later(page)
    assert answers(service) == []
    for _ in range(3):
        page.keyboard.press("1")
    number(page, 2)
    page.get_by_role("button", name="1 is better").click()
    status.get_by_text("came too fast").wait_for()
    assert len(answers(service)) == 1
    later(page)
    page.get_by_role("button", name="Equal").click(click_count=3)
    number(page, 3)
    page.wait_for_timeout(100)
    assert len(answers(service)) == 2
    later(page)
    for more in ({"repeat": True}, {"ctrlKey": True}):
        page.evaluate(PRESS, {"key": "1", "code": "Digit1", "bubbles": True} | more)
    page.wait_for_timeout(100)
    assert len(answers(service)) == 2
    page.keyboard.press("1")
    page.get_by_role("heading", name="Time for a break").wait_for()
    assert status.inner_text() == ""


def test_reload_back_and_two_tabs(own: Callable[..., Own]) -> None:
    page, url, service, _, context = own()
    number(page, 1)
    shown = page.locator(".sides").inner_text()
    page.reload()
    assert page.locator(".sides").inner_text() == shown
    other = context.new_page()
    other.goto(url)
    assert other.locator(".sides").inner_text() == shown
    later(other)
    other.get_by_role("button", name="1 is better").click()
    number(other, 2)
    page.get_by_role("button", name="2 is better").click()  # the same question, in the tab that is behind
    number(page, 2)
    assert page.locator(".sides").inner_text() == other.locator(".sides").inner_text()
    assert len(answers(service)) == 1
    page.goto(url.rsplit("/", 2)[0] + "/s/nobody")
    page.go_back()
    number(page, 2)


def test_offline_and_back(own: Callable[..., Own]) -> None:
    page, _, service, _, context = own()
    number(page, 1)
    later(page)
    context.set_offline(True)
    page.keyboard.press("1")
    page.get_by_role("status").get_by_text("Your answer will be sent").wait_for()
    number(page, 1)
    assert answers(service) == []
    context.set_offline(False)
    number(page, 2)
    assert page.get_by_role("status").inner_text() == ""
    assert len(answers(service)) == 1


def test_a_study_that_cannot_write_is_asked_again(own: Callable[..., Own], monkeypatch: pytest.MonkeyPatch) -> None:
    from custodes.annotate.service import StudyBusy

    page, _, service, _, _ = own()
    act, failed = service.act, []

    def full(token: str, what: Any) -> Any:
        if not failed:
            failed.append(what)
            raise StudyBusy("the disk is full")
        return act(token, what)

    monkeypatch.setattr(service, "act", full)
    number(page, 1)
    later(page)
    page.keyboard.press("2")
    number(page, 2)
    assert len(answers(service)) == len(failed) == 1


def test_an_open_page_keeps_its_question_and_a_paused_one_goes_on(
    own: Callable[..., Own], monkeypatch: pytest.MonkeyPatch
) -> None:
    page, _, service, _, _ = own()
    seen, kept = list[int](), service.seen

    def watched(token: str, assignment: int) -> Any:
        seen.append(assignment)
        return kept(token, assignment)

    monkeypatch.setattr(service, "seen", watched)
    with page.expect_response("**/seen") as reply:
        page.clock.fast_forward(31_000)
    assert reply.value.status == 204
    (assignment,) = seen
    assert assignment == int(page.locator("main").get_attribute("data-assignment"))
    service.control("pause").result()
    page.keyboard.press("1")
    page.get_by_role("heading", name="The study is paused").wait_for()
    service.control("resume").result()
    page.clock.fast_forward(61_000)
    number(page, 2)


def test_several_aspects_by_keys_and_a_code_that_is_copied(own: Callable[..., Own]) -> None:
    page, _, service, _, context = own("aspects")
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    for n in (1, 2, 3):
        number(page, n)
        later(page)
        page.keyboard.press("2")
        page.keyboard.press("0")
        page.keyboard.press("Enter")
    page.get_by_role("button", name="Copy").click()
    page.get_by_role("status").get_by_text("Copied.").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == page.locator("#code").input_value()
    found = told(service.path, "SELECT aspect, abs(answer) FROM judgment")
    assert found == [("Adequacy", 1.0), ("Fluency", 0.0)] * 3


@pytest.mark.parametrize(
    ("name", "size"), [*((name, (390, 844)) for name in LONG), ("long-marks", (1280, 800)), ("long-slide", (1280, 800))]
)
def test_next_is_in_sight_beside_long_texts(own: Callable[..., Own], name: str, size: tuple[int, int]) -> None:
    page, _, service, _, _ = own(name, viewport={"width": size[0], "height": size[1]})
    button = page.get_by_role("button", name="Next")

    def is_in_sight(*elements: Any) -> bool:
        boxes = [element.bounding_box() for element in elements]
        return all(box["y"] >= 0 and box["y"] + box["height"] <= size[1] for box in boxes)

    assert page.evaluate("document.documentElement.scrollHeight") > 1.5 * size[1]
    assert is_in_sight(button)
    assert page.evaluate("scrollY") == 0
    later(page)
    button.click()  # asks for what is missing, and shows it above the button
    choices = page.locator(".bar :is([type=radio], [type=number])")
    assert answers(service) == []
    assert is_in_sight(button, choices.first)
    assert choices.first.bounding_box()["y"] < button.bounding_box()["y"]
    for group in page.locator(".bar fieldset").all():
        if group.locator("[type=radio]").count():
            group.locator("[type=radio]").first.check()
        else:
            group.locator("[type=number]").fill("70")
    button.click()
    page.get_by_role("heading", name=" 2 of 3").wait_for()
    assert len(answers(service)) == page.locator(".bar fieldset").count()


@pytest.mark.slow
def test_images(own: Callable[..., Own]) -> None:
    page, _, _, _, _ = own("pictures")
    for image in page.locator(".card img").all():
        assert image.evaluate("(one) => one.complete && one.naturalWidth >= 300")


@pytest.mark.slow
def test_ratings(own: Callable[..., Own]) -> None:
    page, _, service, _, _ = own("rate")
    later(page)
    page.keyboard.press("4")
    page.get_by_role("heading", name="Response 2 of 3").wait_for()
    assert answers(service) == [4.0]


def test_a_slider_with_its_number(own: Callable[..., Own]) -> None:
    page, _, service, _, _ = own("slide")
    assert page.locator("[type=number]").input_value() == ""  # nothing is suggested
    later(page)
    page.get_by_role("button", name="Next").click()
    page.wait_for_timeout(100)
    assert answers(service) == []
    page.locator("[type=range]").fill("70")
    assert page.locator("[type=number]").input_value() == "70"
    page.get_by_role("button", name="Next").click()
    page.get_by_role("heading", name="Response 2 of 3").wait_for()
    assert answers(service) == [70.0]


@pytest.mark.slow
def test_in_german(own: Callable[..., Own]) -> None:
    page, _, _, _, _ = own("markdown", color_scheme="dark")
    page.get_by_role("heading", name="Vergleich 1 von 3").wait_for()
    assert page.get_by_role("button", name="Gleich").count() == 1
