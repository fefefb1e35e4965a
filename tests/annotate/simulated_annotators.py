"""Simulated annotators who use the site over HTTP, as a browser without JavaScript does."""

from __future__ import annotations

import http.client
import re
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import numpy as np

from custodes.annotate.plan import StudyPlan
from custodes.annotate.simulated_crowd import Crowd, Habits, StudyFileReader
from tests.waiting import PATIENCE

ACTION = re.compile(r'name="do" value="(\w+)"')
ASSIGNMENT = re.compile(r'name="assignment" value="(\d+)"')
DIGEST = re.compile(r'name="digest" value="(\w+)"')


class Browser:
    """A browser session on the link of one annotator."""

    def __init__(self, link: str) -> None:
        parts = urlsplit(link)
        assert parts.hostname is not None
        self._path = parts.path
        self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=PATIENCE)
        self.page = ""
        self.reload()

    def reload(self) -> None:
        self._send("GET")

    def act(self, fields: dict[str, str]) -> None:
        """Submit a form."""
        self._send("POST", urlencode(fields))

    def _send(self, method: str, body: str | None = None) -> None:
        headers = {"Content-Type": "application/x-www-form-urlencoded"} if body else {}
        self._connection.request(method, self._path, body=body, headers=headers)
        reply = self._connection.getresponse()
        self.page = reply.read().decode()
        assert reply.status == 200, (reply.status, self.page[:500])

    def close(self) -> None:
        self._connection.close()

    @property
    def action(self) -> str:
        """Return the action of the first form on the page, or '' without a form."""
        match = ACTION.search(self.page)
        return match[1] if match else ""

    @property
    def assignment(self) -> int:
        """Return the id of the current question."""
        match = ASSIGNMENT.search(self.page)
        assert match is not None
        return int(match[1])

    def begin(self) -> None:
        """Agree to the consent text, if it is shown, and begin."""
        if match := DIGEST.search(self.page):
            self.act({"do": "agree", "digest": match[1], "agree": "1"})
        self.act({"do": "begin"})


def answer_all(links: list[str], study: Path, plan: StudyPlan, *, better: float, rng: int, most: int = 10_000) -> int:
    """Let simulated annotators take turns until none has a task, and return the number of answers."""
    answering = StudyFileReader(study)
    crowd = Crowd(
        systems=answering.systems(),
        items=answering.items(),
        aspects=plan.question.aspects,
        margin=better,
        habits=Habits(leaving=0.0),
        rng=np.random.default_rng(rng),
        scale=plan.question.scale if plan.question.mode == "rate" else None,
    )
    browsers = [Browser(link) for link in links]
    annotators = [crowd.arrive() for _ in links]
    answers, idle = 0, 0
    try:
        while idle < 2 and answers < most:
            idle += 1
            for person, browser in zip(annotators, browsers, strict=True):
                if not browser.action:
                    browser.reload()  # a waiting page
                if browser.action in ("agree", "begin"):
                    browser.begin()
                elif browser.action == "answer":
                    number = browser.assignment
                    values = crowd.values(person, answering.question(number))
                    fields = {f"v{place}": str(values[aspect]) for place, aspect in enumerate(plan.question.aspects)}
                    browser.act({"do": "answer", "assignment": str(number), "seconds": "20", **fields})
                    answers += 1
                else:
                    continue
                idle = 0
    finally:
        for browser in browsers:
            browser.close()
        answering.close()
    return answers
