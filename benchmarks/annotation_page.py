"""Delay between a key press and the next comparison on screen, and number of bytes sent.

`python benchmarks/annotation_page.py [--answers 40]`. Chromium (from Debian) and the server share one machine. The
service writes every answer to disk before it sends the next page.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import custodes as cu
from custodes.annotate.plan import AnnotatorPlan, StoppingRule, StudyPlan
from custodes.annotate.server import serve_in_thread
from custodes.annotate.site import pages
from custodes.annotate.views import Ask

TARGETS = {"key to next comparison painted, median": "< 100 ms", "stylesheet and script, as they are sent": "< 6 KiB"}
DEAD = 650
"""Milliseconds in which a new comparison does not accept answers."""
WATCH = """() => {
  window.took = [];
  addEventListener("keydown", () => { window.pressed = performance.now(); }, true);
  new MutationObserver(() => requestAnimationFrame(() => setTimeout(() => {
    if (window.pressed) { window.took.push(performance.now() - window.pressed); window.pressed = 0; }
  }))).observe(document.body, { childList: true });
}"""


def study(folder: Path, answers: int) -> Path:
    """Study with comparisons of texts of about 200 words."""
    words = np.array(["the", "room", "was", "clean", "and", "quiet", "but", "small", "breakfast", "late"])
    rng = np.random.default_rng(0)
    rows = [
        {"item": f"i{k}", "system": name, "text": " ".join(rng.choice(words, 200)) + "."}
        for k in range(answers + 20)
        for name in ("a", "b")
    ]
    annotators = AnnotatorPlan(batch=answers + 10, cap=1.0, attention=0, overlap=0.0, gold_every=0)
    ending = StoppingRule(looks=(answers + 20,), stop="decided", boundary="none")
    return cu.annotate.new(
        pl.DataFrame(rows), folder / "study.db", plan=StudyPlan(annotators=annotators, stopping=ending)
    )


def pressed(address: str, answers: int) -> list[float]:
    """Milliseconds from each key press to the next comparison."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page()
        page.goto(address)
        page.locator("[name=agree]").check()
        for _ in range(2):
            page.locator("form .main").click()
        page.wait_for_selector("[data-assignment]")
        page.evaluate(WATCH)
        for k in range(answers):
            page.wait_for_timeout(DEAD)
            page.keyboard.press("120"[k % 3])
            while page.evaluate("window.took.length") <= k:  # the policy forbids waiting for expressions
                page.wait_for_timeout(20)
        took: list[float] = page.evaluate("window.took")
        browser.close()
    return took


def rendered(plan: StudyPlan, view: Any) -> float:
    """Milliseconds of the server for a page, minimum of several runs."""
    times = []
    for _ in range(200):
        start = time.perf_counter()
        pages.render_view(plan, view, path="/s/x")
        times.append(1000 * (time.perf_counter() - start))
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=int, default=40)
    answers = parser.parse_args().answers
    with tempfile.TemporaryDirectory() as folder:
        place = study(Path(folder), answers)
        with serve_in_thread([place]) as site:
            service = site.services["study"]
            ((_, token),) = service.invite(1).result()
            took = pressed(f"{site.url}/s/{token}", answers)
            view, plan = service.view(token).result(), service.plan
    assert isinstance(view, Ask)
    sent = sum(len(file.packed) for name, file in pages.static().items() if name.startswith("annotate."))
    measured = {
        "key to next comparison painted, median": f"{np.median(took):.0f} ms",
        "key to next comparison painted, 95 %": f"{np.quantile(took, 0.95):.0f} ms",
        "a page made by the server": f"{rendered(plan, view):.2f} ms",
        "page of two texts of 200 words": f"{len(pages.render_view(plan, view, path='/s/x').encode()) / 1024:.1f} KiB",
        "stylesheet and script, as they are sent": f"{sent / 1024:.1f} KiB",
    }
    print(f"{platform.machine()}, Python {platform.python_version()}, {answers} answers\n")
    print("| what | measured | target |\n|---|---|---|")
    for what, value in measured.items():
        print(f"| {what} | {value} | {TARGETS.get(what, '')} |")


if __name__ == "__main__":
    main()
