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

# pytest runs one worker per core; BLAS threads would compete with these workers for the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Tests leave little garbage: they are collected without garbage collection, which is rare after that.
gc.set_threshold(50_000, 20, 50)
gc.disable()

# No deadline: examples must not fail on a busy machine. Examples are the same in every run; only `make test-slow` draws
# new and more ones, and prints how to reproduce failures.
settings.register_profile("fixed", deadline=None, database=None, derandomize=True, max_examples=25)
settings.register_profile("random", deadline=None, database=None, print_blob=True, max_examples=200)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

MAPPED = "study.example"
"""Host name that the browser resolves to this machine but does not trust as localhost."""

CHROMIUM = [
    f"--host-resolver-rules=MAP {MAPPED} 127.0.0.1",
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Give parameters of bytes no content in test IDs: archives contain a time stamp, and all workers must collect the
    same IDs."""
    return argname if isinstance(val, bytes) else None


def pytest_collection_finish() -> None:
    """Exclude objects that exist before the first test from garbage collection, which would scan them every time."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # otherwise extensions report objects that remain at exit as leaks


@pytest.fixture(scope="module")  # Playwright keeps an event loop running, in which other tests cannot start their own
def browser() -> Iterator[Any]:
    """Headless Chromium. Tests are skipped if it is missing, or fail if CI is true."""
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
    """Folder of real data next to the project. Tests are skipped if it is missing, or fail if CI is true."""
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        reason = "the real data is not beside the project (../shared/data)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return folder


@pytest.fixture(scope="session")
def answers() -> dict[tuple[object, ...], Any]:
    """Cache of answers for `remembered`."""
    return {}


@pytest.fixture
def remembered(monkeypatch: pytest.MonkeyPatch, answers: dict[tuple[object, ...], Any]) -> None:
    """Reuse answers of the command line to equal questions, for tests of their output.

    Another test without this fixture checks that equal questions have equal answers.
    """
    from custodes.options import Output

    timed = Output.time_question

    def remembering(output: Any, ask: Any, doing: str = "", **how: Any) -> Any:
        (study,) = ask.args
        key = (ask.func, None if study is None else (study.name, study.fingerprint()), repr(ask.keywords))
        if key not in answers:
            answers[key] = timed(output, ask, doing, **how)
        return answers[key]

    monkeypatch.setattr(Output, "time_question", remembering)
