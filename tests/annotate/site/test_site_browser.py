"""An annotator's session in headless Chromium with the real service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest
from msgspec.structs import replace

from custodes.annotate.new_study import new
from custodes.annotate.plan import Question, StoppingRule
from custodes.annotate.service import Service
from custodes.annotate.site.app import app
from tests.annotate.site.studying import (
    ANNOTATORS,
    PLAN,
    SYSTEMS,
    image_study,
    judgments,
    new_study,
    new_token,
    open_copy,
    serve_app,
    texts,
)
from tests.annotate.studies import plan_of, query_rows, study
from tests.conftest import MAPPED
from tests.waiting import PATIENCE

pytestmark = pytest.mark.browser

DEAD = 650
"""Milliseconds until a new question accepts an answer."""


ASPECTS = ("Adequacy", "Fluency", "Coherence", "Relevance")
LONG = {
    "long-marks": Question(mode="rate", scale=(1, 5), aspects=ASPECTS),
    "long-slide": Question(mode="rate", scale=(0, 100)),
    "long-aspects": Question(aspects=ASPECTS),
}
"""Questions about texts that are longer than the window."""


class Session(NamedTuple):
    """A session in a browser: page, address, service, bodies of all responses, and browser context."""

    page: Any
    url: str
    service: Service
    bodies: list[bytes]
    context: Any


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("studies")
    plans = {
        "compare": PLAN,
        "aspects": replace(
            PLAN, question=Question(aspects=("Adequacy", "Fluency")), annotators=replace(ANNOTATORS, batches=1)
        ),
        "slide": replace(PLAN, question=Question(mode="rate", scale=(0, 100)), stopping=StoppingRule()),
    }
    templates = {name: new_study(folder / f"{name}.db", plan) for name, plan in plans.items()}
    for name, question in LONG.items():
        plan = replace(PLAN, question=question, stopping=StoppingRule())
        long = texts().with_columns(pl.col("text") + " A long answer about the hotel and its breakfast." * 60)
        templates[name] = new(long, folder / f"{name}.db", plan=plan)
    return templates | {"pictures": image_study(folder)}


@pytest.fixture
def start(browser: Any, templates: dict[str, Path], tmp_path: Path) -> Iterator[Callable[..., Session]]:
    """Yield a function that opens a session on a study; then check for errors, external requests and system names."""
    with ExitStack() as stack:
        bodies: list[bytes] = []
        requested: list[str] = []
        errors: list[str] = []
        site: list[str] = []

        def make(name: str = "compare", *, consented: bool = True, is_frozen: bool = False, **options: Any) -> Session:
            service = stack.enter_context(open_copy(templates[name], tmp_path / f"{name}.db"))
            url = stack.enter_context(serve_app(app({name: service}, secret="s", owner_key="k")))
            site.append(url)
            context = browser.new_context(**{"viewport": {"width": 1280, "height": 860}} | options)
            stack.callback(context.close)
            context.clock.install(time=0)
            if is_frozen:
                context.clock.pause_at(1)
            page = context.new_page()
            page.set_default_timeout(PATIENCE * 1000)
            page.on("request", lambda request: requested.append(request.url))
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.on("response", lambda reply: bodies.append(_body(reply)))
            session = Session(page, f"{url}/s/{new_token(service)}", service, bodies, context)
            page.goto(session.url)
            if consented:
                if page.locator("[name=agree]").count():
                    page.locator("[name=agree]").check()
                    page.locator(".main").click()
                page.get_by_role("heading", name="Instructions").wait_for()
                page.locator("form .main").click()
                page.wait_for_selector("[data-assignment]")
            return session

        yield make
        assert not errors
        assert all(url.startswith(site[0]) for url in requested)
        assert not [body for body in bodies for system in SYSTEMS if system.encode() in body]


def _body(reply: Any) -> bytes:
    try:
        return reply.body()
    except Exception:  # redirects have no body
        return b""


def wait_for_number(page: Any, n: int, of: int = 3) -> None:
    page.get_by_role("heading", level=1, name=f"Comparison {n} of {of}", exact=True).wait_for()


def pass_dead_time(page: Any) -> None:
    """Wait until the script runs, and advance the clock until a new question accepts an answer."""
    page.wait_for_load_state("load")
    page.clock.fast_forward(DEAD)


def answers(service: Service) -> list[object]:
    return [row[1] for row in judgments(service.path)]


def test_a_batch_by_keyboard(start: Callable[..., Session]) -> None:
    page, _, service, _, _ = start(consented=False)
    for key in ("Tab", "Space", "Tab", "Enter"):  # the checkbox, then the button
        page.keyboard.press(key)
    page.get_by_role("heading", name="Instructions").wait_for()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    for n, key in enumerate(("1", "ArrowRight", "0"), start=1):
        wait_for_number(page, n)
        assert page.evaluate("document.activeElement.tagName") == ("H1" if n > 0 else "BODY")
        pass_dead_time(page)
        page.keyboard.press(key)
    page.get_by_role("heading", name="Time for a break").wait_for()
    flips = [flip for (flip,) in query_rows(service.path, "SELECT flip FROM assignment ORDER BY assignment")]
    assert answers(service) == [(-1 if flip else 1) * value for flip, value in zip(flips, (1, -1, 0), strict=True)]
    assert all(0 < float(str(row[3])) < PATIENCE for row in judgments(service.path))  # at most the time of the server


def test_a_batch_by_mouse(start: Callable[..., Session]) -> None:
    page, _, service, _, _ = start()
    for n, name in enumerate(("1 is better", "Equal", "2 is better"), start=1):
        wait_for_number(page, n)
        pass_dead_time(page)
        page.get_by_role("button", name=name).click()
    page.get_by_role("button", name="Continue").click()
    wait_for_number(page, 1)
    pass_dead_time(page)
    page.locator("summary", has_text="I cannot judge this").click()
    page.get_by_role("button", name="Something is missing or not displayed correctly").click()
    wait_for_number(page, 2)
    assert page.locator("summary").count() == 2
    assert judgments(service.path)[-1][2] == "broken"
    page.locator("summary", has_text="Comment").click()
    page.locator("textarea").fill("1 2 0 what is this?")  # keys in a text field are no answers
    page.keyboard.press("1")
    page.get_by_role("button", name="Send").click()
    page.get_by_role("status").get_by_text("your comment has been sent").wait_for()
    wait_for_number(page, 2)
    page.get_by_role("button", name="Change my last answer").click()
    wait_for_number(page, 1)
    page.get_by_role("status").get_by_text("withdrawn").wait_for()
    page.get_by_role("link", name="Instructions").click()
    page.get_by_role("dialog").get_by_text("Read both.").wait_for()
    page.keyboard.press("1")  # keys behind a dialog are no answers
    page.get_by_role("button", name="Close").click()
    assert len(judgments(service.path)) == 4


def test_a_batch_by_touch(start: Callable[..., Session]) -> None:
    page, _, service, _, _ = start(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    for n in (1, 2, 3):
        wait_for_number(page, n)
        bar, second = page.locator(".bar").bounding_box(), page.locator(".sides .card").nth(1).bounding_box()
        assert bar["y"] + bar["height"] <= 845  # visible without scrolling
        assert second["width"] > 340  # outputs are stacked
        pass_dead_time(page)
        page.get_by_role("button", name="2 is better").tap()
    page.get_by_role("heading", name="Time for a break").wait_for()
    page.get_by_role("button", name="Stop here").tap()
    page.get_by_role("heading", name="Thank you").wait_for()
    assert page.get_by_text("Your completion code").count() == 1
    assert len(judgments(service.path)) == 3


def test_a_batch_without_javascript(start: Callable[..., Session]) -> None:
    page, url, service, _, _ = start(java_script_enabled=False)
    for n in (1, 2, 3):
        wait_for_number(page, n)
        page.get_by_role("button", name="Equal").click()
    page.get_by_role("button", name="Continue").click()
    wait_for_number(page, 1)
    page.go_back()  # no prompt to submit a form again
    page.reload()
    wait_for_number(page, 1)
    page.get_by_role("link", name="Instructions").click()
    page.get_by_role("link", name="Back to the question").click()
    wait_for_number(page, 1)
    assert page.url == url
    assert [row[3] for row in judgments(service.path)] == [None] * 3


PRESS = "(how) => document.body.dispatchEvent(new KeyboardEvent('keydown', how))"


def test_fast_presses_are_one_answer(start: Callable[..., Session]) -> None:
    page, _, service, _, _ = start(is_frozen=True)  # so the dead time does not pass on a slow machine
    wait_for_number(page, 1)
    status = page.get_by_role("status")
    page.keyboard.press("1")  # before the dead time has passed
    status.get_by_text("came too fast").wait_for()
    pass_dead_time(page)
    assert answers(service) == []
    for _ in range(3):
        page.keyboard.press("1")
    wait_for_number(page, 2)
    page.get_by_role("button", name="1 is better").click()
    status.get_by_text("came too fast").wait_for()
    assert len(answers(service)) == 1
    pass_dead_time(page)
    page.get_by_role("button", name="Equal").click(click_count=3)
    wait_for_number(page, 3)
    page.wait_for_timeout(100)
    assert len(answers(service)) == 2
    pass_dead_time(page)
    for more in ({"repeat": True}, {"ctrlKey": True}):
        page.evaluate(PRESS, {"key": "1", "code": "Digit1", "bubbles": True} | more)
    page.wait_for_timeout(100)
    assert len(answers(service)) == 2
    page.keyboard.press("1")
    page.get_by_role("heading", name="Time for a break").wait_for()
    assert status.inner_text() == ""


def test_an_outdated_tab_and_the_way_back(start: Callable[..., Session]) -> None:
    page, url, service, _, context = start()
    wait_for_number(page, 1)
    second_tab = context.new_page()
    second_tab.goto(url)
    pass_dead_time(second_tab)
    second_tab.get_by_role("button", name="1 is better").click()
    wait_for_number(second_tab, 2)
    page.get_by_role("button", name="2 is better").click()  # the same question in the outdated tab
    wait_for_number(page, 2)
    assert page.locator(".sides").inner_text() == second_tab.locator(".sides").inner_text()
    assert len(answers(service)) == 1
    page.goto(url.rsplit("/", 2)[0] + "/s/nobody")
    page.go_back()
    wait_for_number(page, 2)


def test_offline_and_back(start: Callable[..., Session]) -> None:
    page, _, service, _, context = start()
    wait_for_number(page, 1)
    pass_dead_time(page)
    context.set_offline(True)
    page.keyboard.press("1")
    page.get_by_role("status").get_by_text("Your answer will be sent").wait_for()
    wait_for_number(page, 1)
    assert answers(service) == []
    context.set_offline(False)
    wait_for_number(page, 2)
    assert page.get_by_role("status").inner_text() == ""
    assert len(answers(service)) == 1


LOGIN, TOO_SLOW = "<h2>Sign in</h2>", '<p id="status"></p><div id="page"><h1>Too slow</h1></div>'
LOGIN_PAGE = '<div id="page"><h1>Sign in</h1></div>'
LOGIN_STATUS = f'<p id="status">Please sign in</p>{LOGIN_PAGE}'


@pytest.mark.parametrize(
    ("status", "body"), [(200, LOGIN), (403, LOGIN), (408, TOO_SLOW), (200, LOGIN_PAGE), (200, LOGIN_STATUS)]
)
def test_a_page_of_a_proxy_or_a_hotspot_does_not_replace_the_answer(
    start: Callable[..., Session], status: int, body: str
) -> None:
    page, _, service, _, _ = start()
    wait_for_number(page, 1)
    pass_dead_time(page)
    page.evaluate(
        "([status, body]) => { reached = fetch; fetch = async () => new Response(body, { status }); }", [status, body]
    )
    page.keyboard.press("1")
    page.get_by_role("status").get_by_text("Your answer will be sent").wait_for()
    wait_for_number(page, 1)
    page.evaluate("() => { fetch = reached; }")
    page.clock.fast_forward(31_000)
    wait_for_number(page, 2)
    assert len(answers(service)) == 1


def test_a_study_that_cannot_write_is_asked_again(
    start: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    from custodes.annotate.service import StudyBusy

    page, _, service, _, _ = start()
    act, failed = service.act, []

    def full(token: str, submitted: Any) -> Any:
        if not failed:
            failed.append(submitted)
            raise StudyBusy("the disk is full")
        return act(token, submitted)

    monkeypatch.setattr(service, "act", full)
    wait_for_number(page, 1)
    pass_dead_time(page)
    page.keyboard.press("2")
    wait_for_number(page, 2)
    assert len(answers(service)) == len(failed) == 1


def test_an_open_page_keeps_its_question_and_a_paused_one_goes_on(
    start: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    page, _, service, _, _ = start()
    assignments, original = list[int](), service.renew_lease

    def record_seen(token: str, assignment: int) -> Any:
        assignments.append(assignment)
        return original(token, assignment)

    monkeypatch.setattr(service, "renew_lease", record_seen)
    with page.expect_response("**/seen") as reply:
        page.clock.fast_forward(31_000)
    assert reply.value.status == 204
    (assignment,) = assignments
    assert assignment == int(page.locator("main").get_attribute("data-assignment"))
    service.control("pause").result()
    page.keyboard.press("1")
    page.get_by_role("heading", name="The study is paused").wait_for()
    service.control("resume").result()
    page.clock.fast_forward(61_000)
    wait_for_number(page, 2)


def test_several_aspects_by_keys_and_a_code_that_is_copied(start: Callable[..., Session]) -> None:
    page, _, service, _, context = start("aspects")
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    for n in (1, 2, 3):
        wait_for_number(page, n)
        pass_dead_time(page)
        page.keyboard.press("2")
        page.keyboard.press("0")
        page.keyboard.press("Enter")
    page.get_by_role("button", name="Copy").click()
    page.get_by_role("status").get_by_text("Copied.").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == page.locator("#code").input_value()
    rows = query_rows(service.path, "SELECT aspect, abs(answer) FROM judgment")
    assert rows == [("Adequacy", 1.0), ("Fluency", 0.0)] * 3


@pytest.mark.parametrize(("name", "size"), [*((name, (390, 844)) for name in LONG), ("long-marks", (1280, 800))])
def test_next_is_in_sight_beside_long_texts(start: Callable[..., Session], name: str, size: tuple[int, int]) -> None:
    page, _, service, _, _ = start(name, viewport={"width": size[0], "height": size[1]})
    button = page.get_by_role("button", name="Next")

    def is_in_sight(*elements: Any) -> bool:
        boxes = [element.bounding_box() for element in elements]
        return all(box["y"] >= 0 and box["y"] + box["height"] <= size[1] for box in boxes)

    assert page.evaluate("document.documentElement.scrollHeight") > 1.5 * size[1]
    assert is_in_sight(button)
    assert page.evaluate("scrollY") == 0
    pass_dead_time(page)
    button.click()  # shows the missing fields above the button
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
def test_images(start: Callable[..., Session]) -> None:
    page, _, _, _, _ = start("pictures")
    for image in page.locator(".card img").all():
        assert image.evaluate("(one) => one.complete && one.naturalWidth >= 300")


def test_a_slider_with_its_number(start: Callable[..., Session]) -> None:
    page, _, service, _, _ = start("slide")
    assert page.locator("[type=number]").input_value() == ""  # no default value
    pass_dead_time(page)
    page.get_by_role("button", name="Next").click()
    page.wait_for_timeout(100)
    assert answers(service) == []
    page.locator("[type=range]").fill("70")
    assert page.locator("[type=number]").input_value() == "70"
    page.get_by_role("button", name="Next").click()
    page.get_by_role("heading", name="Response 2 of 3").wait_for()
    assert answers(service) == [70.0]


@pytest.mark.parametrize("host", ["127.0.0.1", MAPPED])
def test_joining_by_an_open_link(browser: Any, host: str, tmp_path: Path) -> None:
    """Chromium sends `Sec-Fetch-Site` to 127.0.0.1 and, without TLS, to no other host, where the origin decides."""
    plan = plan_of(annotators={"recruit": "open"})
    with (
        Service.open(study(tmp_path / "study.db", plan=plan), durable=False) as service,
        serve_app(app({"study": service})) as address,
    ):
        page = browser.new_page()
        page.goto(f"{address.replace('127.0.0.1', host)}/j/study")
        page.click("main button")
        page.wait_for_url("**/s/*")
        page.close()
        assert service.snapshot().result().annotators
