"""The report in headless Chromium: no errors or requests, all figures drawn, all controls work."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from custodes.answers import wording
from custodes.plots import theme
from custodes.reporting import Report
from tests.pages import READY
from tests.waiting import PATIENCE

pytestmark = pytest.mark.browser


@pytest.fixture
def page(browser: Any, demo_report: Report, tmp_path: Path) -> Iterator[Any]:
    """The report opened in a page; the test fails on console messages, errors and requests."""
    address = demo_report.save(tmp_path / "report.html").as_uri()
    opened = browser.new_page(viewport={"width": 1100, "height": 800})
    opened.set_default_timeout(PATIENCE * 1000)
    results: list[str] = []
    opened.on("console", lambda message: results.append(f"{message.type}: {message.text}"))
    opened.on("pageerror", lambda error: results.append(str(error)))
    opened.on("request", lambda request: results.append(request.url))
    opened.goto(address)
    opened.wait_for_selector(READY)
    opened.locator("button[data-fold=open]").click()
    opened.wait_for_function(f"!document.querySelector('[data-figure]:empty') && document.querySelector('{READY}')")
    yield opened
    opened.close()
    assert set(results) == {address}


def resize(page: Any, width: int) -> None:
    """Change the width of the page, and wait until its figures are redrawn."""
    page.evaluate("delete document.body.dataset.ready")
    page.set_viewport_size({"width": width, "height": 800})
    page.wait_for_selector(READY)


def test_every_figure_and_table_is_there_and_tables_are_sorted_by_any_column(page: Any) -> None:
    figures = page.locator("[data-figure]")
    assert figures.count() == 24
    for i in range(figures.count()):
        box = figures.nth(i).locator("svg").bounding_box()
        assert box is not None, figures.nth(i).get_attribute("data-figure")
        assert box["width"] > 150, figures.nth(i).get_attribute("data-figure")
        assert box["height"] > 80, figures.nth(i).get_attribute("data-figure")
        assert figures.nth(i).get_attribute("aria-label")
    assert page.locator("#table-agreement-metrics tbody tr:visible").count() == 7
    assert page.locator("#table-favoritism-pairs tbody tr").count() == 15
    assert page.locator("#table-agreement-comparisons tbody tr").count() == 6
    assert page.locator("#verdict dd:visible").count() > 5
    table = page.locator("#table-favoritism-metrics")
    # sorted by sample accuracy, descending, then ascending: learned is the most accurate on coherence, noise the least
    for first, last in (("learned", "noise"), ("noise", "learned")):
        table.locator("thead button").nth(3).click()
        metrics = table.locator("tbody tr:visible th").all_inner_texts()
        assert (metrics[0], metrics[-1]) == (first, last)


def test_choices_change_pictures_and_tables(page: Any) -> None:
    def choose(name: str, value: str) -> None:
        page.locator(f"select[data-choice={name}]").select_option(value)
        page.wait_for_selector(READY)

    before = page.locator("#fig-favoritism-systems svg").inner_html()
    choose("metric", "selfeval")
    page.wait_for_selector("#fig-favoritism-systems h3:has-text('selfeval')")
    page.wait_for_function("document.body.dataset.ready")
    assert page.locator("#fig-favoritism-systems svg").inner_html() != before
    assert page.locator("tr[aria-current]:visible th").first.inner_text() == "selfeval"
    assert page.locator("#table-agreement-comparisons tbody th").all_inner_texts() == ["selfeval"] * 6
    choose("aspect", "fluency")
    assert page.locator(".of-aspect:visible h3").all_inner_texts() == ["fluency"]
    choose("statistic", "sample_accuracy")
    assert "Sample accuracy" in page.locator("#fig-agreement-intervals svg").inner_html()
    choose("pair", "4")
    assert "Fir better" in page.locator("#fig-confusion-matrix svg").inner_html()


TEXTS = """() => [...document.querySelectorAll("figure")].flatMap((figure) => {
  const svg = figure.querySelector("svg");
  if (!svg || !svg.getBoundingClientRect().width) return [];
  const outer = svg.getBoundingClientRect();
  return [...svg.querySelectorAll("text")].filter((text) => text.textContent.trim()).map((text) => {
    const box = text.getBoundingClientRect(), matrix = text.getScreenCTM();
    const role = [...function* () { for (let up = text; up !== svg; up = up.parentNode) yield up; }()]
      .map((up) => up.getAttribute("class") || "").join(" ");
    return {
      figure: figure.id,
      text: text.textContent,
      title: role.includes("role-axis-title"),
      size: parseFloat(getComputedStyle(text).fontSize) * Math.hypot(matrix.a, matrix.b),
      beyond: Math.max(outer.left - box.left, box.right - outer.right, outer.top - box.top, box.bottom - outer.bottom),
    };
  });
})"""
"""Font size of every text in every figure, and its overflow beyond the figure."""


def test_every_text_of_every_picture_can_be_read_also_on_a_phone_and_it_prints(page: Any) -> None:
    for width in (1280, 390):
        resize(page, width)
        texts = page.evaluate(TEXTS)
        assert len({text["figure"] for text in texts}) > 23
        assert [text for text in texts if text["size"] < theme.TEXT - 0.01] == []
        assert [text for text in texts if text["beyond"] > 1] == []
        assert sum(text["title"] for text in texts) > 20  # including complete axis titles
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        systems = [text["text"] for text in texts if text["figure"] == "fig-leaderboard-strengths"]
        assert set(systems) >= {"Aster", "Birch", "Cedar", "Dogwood", "Elm", "Fir"}
    page.emulate_media(media="print")
    assert page.locator(".of-aspect:visible").count() == 1
    assert page.locator(".bar:visible").count() == 0
    assert page.pdf()[:5] == b"%PDF-"


def test_the_chosen_metric_is_named_and_compared_and_rows_and_digits_are_right(page: Any, demo_report: Report) -> None:
    assert page.locator("#table-agreement-metrics .count").inner_text() == "7 rows"  # of fourteen; one aspect at a time
    assert page.locator("#table-favoritism-pairs .count").inner_text() == "15 rows"
    assert page.locator("section.table .count:text-is('')").count() == 0
    page.locator("select[data-choice=metric]").select_option("noise")
    page.wait_for_selector("#fig-favoritism-accuracy text[font-weight=bold]")
    page.wait_for_selector(READY)
    bold_texts = page.locator("#fig-favoritism-accuracy text[font-weight=bold]").all_text_contents()
    assert set(bold_texts) == {"noise"}
    # the script formats numbers as Python does
    rows = demo_report.context.table("ranking.decisions").filter(aspect="coherence", rater="noise")
    row_texts = page.locator("#table-decisions tbody tr").all_text_contents()
    assert len(row_texts) == rows.height
    for p_value, line in zip(rows["p_value"], row_texts, strict=True):
        assert wording.p_value(p_value) in line
    gaps = page.locator("#table-agreement-comparisons tbody tr td:nth-child(4)").all_text_contents()
    # differences from the selected metric: noise has the lowest Kendall within items on coherence, so it loses all
    # comparisons
    assert all(text.startswith("−") for text in gaps)
    ends = [[float(end.replace("−", "-")) for end in re.findall(r"[−0-9.]+", text)][1:] for text in gaps]
    digits = [len(text.split(" ")[0].partition(".")[2]) for text in gaps]
    rows = [(sum(bounds) / 2, *bounds) for bounds in ends]
    assert set(digits) == {wording.column_digits(rows, min_decimals=2)}


def test_what_is_folded_is_drawn_when_it_is_opened(page: Any) -> None:
    page.locator("button[data-fold='']").click()
    assert page.locator("details.section[open]").count() == 0
    page.reload()
    page.wait_for_selector(READY)
    assert not page.locator("#fig-favoritism-systems").is_visible()
    assert page.locator("#favoritism [data-figure]:empty").count() == page.locator("#favoritism [data-figure]").count()
    page.locator("nav a[href='#favoritism']").click()
    page.wait_for_selector("#fig-favoritism-systems svg")
    assert page.locator("details.section[open]").count() == 1


def test_dark_page_has_light_text(page: Any) -> None:
    page.emulate_media(color_scheme="dark")
    label = page.locator("#fig-agreement-intervals .role-axis-label text").first
    colour = label.evaluate("node => getComputedStyle(node).fill")
    channels = [int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    assert min(channels) > 200
