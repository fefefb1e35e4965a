"""Take the screenshots in `docs/images` from a study of the demo texts: `python docs/screenshots.py`.

It needs the extra annotate, Playwright, and a Chromium that is installed. Colours are cut to 64: files stay small.
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Page, sync_playwright

import custodes as cu
from custodes.annotate.demo import PLAN
from custodes.annotate.server import serve_in_thread
from custodes.annotate.simulated_crowd import Crowd, Habits, StudyFileReader
from custodes.annotate.views import Ask, VisitEnd, Wait

IMAGES = Path(__file__).parent / "images"
ANSWERS = 130


def main() -> None:
    """Write all screenshots."""
    path = shutil.which("chromium")
    if path is None:
        sys.exit("chromium is not installed")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        study = cu.annotate.new(cu.annotate.demo_texts(items=60), Path(folder, "hotel.db"), plan=PLAN)
        with serve_in_thread([study]) as site:
            (service,) = site.services.values()
            links = service.invite(11).result()
            answered(study, service, [token for _, token in links[:10]])
            browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1000, "height": 640})
            page.goto(f"{site.url}/s/{links[10][1]}")
            begin(page)
            save(page, "annotate-ask.png")
            page.set_viewport_size({"width": 390, "height": 760})
            save(page, "annotate-phone.png")
            page.set_viewport_size({"width": 1100, "height": 900})
            page.goto(site.owner)
            page.goto(f"{site.url}/admin/hotel")
            save(page, "annotate-owner.png")
            browser.close()


def answered(study: Path, service: cu.annotate.Service, tokens: list[str]) -> None:
    """Let simulated annotators give some answers."""
    behind = StudyFileReader(study)
    rng = np.random.default_rng(4)
    crowd = Crowd(systems=behind.systems(), items=behind.items(), aspects=("",), margin=0.6, habits=Habits(), rng=rng)
    people = {token: crowd.arrive() for token in tokens}
    given = 0
    while given < ANSWERS:
        before = given
        for token, person in people.items():
            view = service.view(token).result()
            if view is None or isinstance(view, Wait | VisitEnd):
                continue
            question = behind.question(view.assignment) if isinstance(view, Ask) else None
            service.act(token, crowd.act(person, view, question)).result()
            given += isinstance(view, Ask)
        if given == before and all(isinstance(service.view(t).result(), Wait | VisitEnd) for t in tokens):
            break
    behind.close()


def begin(page: Page) -> None:
    """Go through consent and instructions to the first comparison."""
    page.check("input[name=agree]")
    page.click("button.main")
    page.wait_for_selector("input[value=begin]", state="attached")
    page.click("button.main")
    page.wait_for_selector("main[data-assignment]")


def save(page: Page, name: str) -> None:
    """Save a screenshot with few colours."""
    picture = Image.open(io.BytesIO(page.screenshot()))
    picture.convert("RGB").quantize(64).save(IMAGES / name, optimize=True)
    print(f"{IMAGES / name}: {(IMAGES / name).stat().st_size} bytes")


if __name__ == "__main__":
    main()
