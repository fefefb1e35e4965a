"""Fixtures for all tests."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.waiting import PATIENCE

# Every core has a worker of pytest; matrix products on threads of their own would fight these for the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A busy machine is not a failure: no test measures time. Nor is bad luck: every run has the same examples, except that
# `make test-slow` draws new ones, and more, and prints how to get back those that fail.
settings.register_profile("fixed", deadline=None, database=None, derandomize=True, max_examples=40)
settings.register_profile("random", deadline=None, database=None, print_blob=True, max_examples=200)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

MAPPED = "study.example"
"""A host that the browser finds on this machine, and that it trusts no more than one of a network."""

CHROMIUM = [
    f"--host-resolver-rules=MAP {MAPPED} 127.0.0.1",
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes may hold the time at which they were packed, and every worker must find the same tests."""
    return argname if isinstance(val, bytes) else None


def pytest_collection_finish() -> None:
    """What is there before the first test stays: each collection of garbage would look through all of it again."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # else extensions call what is left at the end a leak


@pytest.fixture(scope="module")  # Playwright keeps a loop running, in which no other test could start its own
def browser() -> Iterator[Any]:
    """Chromium without a window; without it such tests are skipped, but fail where CI is true."""
    path = shutil.which("chromium")
    if path is None:
        reason = "chromium is not installed"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=path, args=CHROMIUM, timeout=1000 * PATIENCE)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data beside the project; without it such tests are skipped, but fail where CI is true."""
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        reason = "the real data is not beside the project (../shared/data)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return folder


@pytest.fixture(scope="session")
def answers() -> dict[tuple[object, ...], Any]:
    """What questions have answered, for `remembered`."""
    return {}


@pytest.fixture
def remembered(monkeypatch: pytest.MonkeyPatch, answers: dict[tuple[object, ...], Any]) -> None:
    """The command line gives what it answered before to the same question: for tests of what it makes of an answer.

    That the same question gets the same answer is a test of its own, which does not remember.
    """
    from custodes.options import Output

    timed = Output.timed

    def remembering(output: Any, ask: Any, doing: str = "", **how: Any) -> Any:
        (study,) = ask.args
        key = (ask.func, None if study is None else (study.name, study.fingerprint()), repr(ask.keywords))
        if key not in answers:
            answers[key] = timed(output, ask, doing, **how)
        return answers[key]

    monkeypatch.setattr(Output, "timed", remembering)
