"""Labels that contain code do not run in headless Chromium, in a report or in a figure saved as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import custodes as cu
from custodes import plots
from custodes.combining import tables
from custodes.combining.methods import gaussian_process
from custodes.stats.learning import boost
from tests.pages import READY
from tests.plots.hostile_study import hostile_study

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def study() -> cu.Study:
    return hostile_study()


def opened(browser: Any, path: Path, messages: list[str]) -> Any:
    page = browser.new_page(viewport={"width": 1100, "height": 800})
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("dialog", lambda dialog: messages.append(dialog.message))
    page.on("request", lambda request: messages.append(request.url))
    page.goto(path.as_uri())
    return page


def test_a_report_names_every_label_and_runs_none(
    browser: Any, study: cu.Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(boost.SETTINGS, "rounds", 3)
    monkeypatch.setattr(tables, "REFITS", 3)
    monkeypatch.setattr(gaussian_process, "ITERATIONS", 2)
    path, results = cu.report(study, resamples=20).save(tmp_path / "report.html"), list[str]()
    page = opened(browser, path, results)
    page.wait_for_selector(READY)
    page.locator("button[data-fold=open]").click()
    page.wait_for_function(f"!document.querySelector('[data-figure]:empty') && document.querySelector('{READY}')")
    assert [line for line in results if not line.startswith(("file:", "blob:", "data:"))] == []
    for figure, labels in {
        "leaderboard-strengths": ("constructor", "__proto__", "a\\x1b[2J"),
        "favoritism-map": ("constructor", "toString", "bell\\x00\\x07", "\\uffff\\x9b\\u202e"),
        "complementarity-map": ("toString", "bell\\x00\\x07"),
    }.items():
        text = page.locator(f'[data-figure="{figure}"] svg').text_content().replace("\u200b", "")
        for label in labels:
            assert label in text, figure


def test_a_saved_picture_runs_no_label(browser: Any, tmp_path: Path) -> None:
    label = "</script><script>alert('ran')</script>"
    rows = [{"a": label, "b": 1}, {"a": "constructor", "b": 2}]
    encoding = {"y": {"field": "a", "type": "nominal"}, "x": {"field": "b", "type": "quantitative"}}
    spec = {"title": label, "data": {"values": rows}, "mark": "bar", "encoding": encoding}
    results: list[str] = []
    page = opened(browser, plots.save(spec, tmp_path / "a.html"), results)
    page.wait_for_selector("svg .mark-rect path")
    text = page.locator("svg.marks").text_content().replace("\u200b", "")
    assert label in text
    assert "constructor" in text
    assert [line for line in results if not line.startswith("file:")] == []
