"""A study to try out. The study has short texts with deliberate errors, and is served on this machine."""

from __future__ import annotations

import tempfile
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from custodes.annotate.new_study import new
from custodes.annotate.plan import AnnotatorPlan, Question, StudyPlan, StudyTexts
from custodes.annotate.server import ServedSite, catch_signals, serve_in_thread
from custodes.arguments import check_arguments
from custodes.data.simulate import demo_texts as demo_texts

PLAN = StudyPlan(
    name="hotel",
    question=Question(text="Which answer better fits what the guest wrote?"),
    texts=StudyTexts(
        title="Answers of a hotel",
        instructions="A guest writes to a hotel, and two systems answer. Check that name, day, time, nights, "
        "room and wish match the guest's message. The style of the answer does not matter.",
        consent="This is a demonstration on your own machine. No data leave it, and there is no payment.",
    ),
    annotators=AnnotatorPlan(recruit="open", cap=1.0),  # there is only one annotator
)


class ServedDemo(NamedTuple):
    """The running demo. `ask` is the address of an annotator's first page."""

    site: ServedSite
    study: Path
    ask: str


@check_arguments
def demo(
    *,
    port: int = 0,
    folder: str | Path | None = None,
    open_browser: bool = True,
    tell: Callable[[str], object] = print,
) -> None:
    """Create a study of short texts, serve it on this machine until Ctrl-C, and open it in the browser.

    `folder` is the folder for study.db. By default, the folder is a temporary folder, which is removed at the end.
    `port` 0 means any free port.
    """
    with catch_signals() as signal_queue, run_demo(port=port, folder=folder, tell=tell) as served_demo:
        tell(f"answer as an annotator: {served_demo.ask}")
        tell(f"the owner's page (this link works once): {served_demo.site.owner}")
        tell(
            f"the study is {served_demo.study}; every command reads this file, for example "
            f"custodes leaderboard {served_demo.study}"
        )
        if open_browser:
            webbrowser.open(served_demo.ask)
        tell(
            "Ctrl-C ends the demonstration"
            if folder is not None
            else "Ctrl-C ends the demonstration and removes the study"
        )
        served_demo.site.wait(signal_queue, tell=tell)


@contextmanager
def run_demo(*, port: int, folder: str | Path | None, tell: Callable[[str], object] = print) -> Iterator[ServedDemo]:
    """Run the demo while the context is open."""
    with tempfile.TemporaryDirectory(prefix="custodes-demo-") as temporary_folder:
        study_path = new(demo_texts(), Path(folder or temporary_folder, "study.db"), plan=PLAN)
        with serve_in_thread([study_path], port=port, tell=tell) as served_site:
            ((_, visit_token),) = served_site.services["study"].invite(1).result()
            yield ServedDemo(served_site, study_path, f"{served_site.url}/s/{visit_token}")
