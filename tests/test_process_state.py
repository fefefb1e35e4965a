"""Questions restore the state of the process: thread limits, environment, warnings, signals, library settings."""

from __future__ import annotations

import gc
import locale
import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.sparse  # importing SciPy adds warning filters
import scipy.stats  # noqa: F401
import threadpoolctl

import custodes as cu
from custodes.evaluate.parallel import limit_blas_threads, map_parts
from custodes.progress import silent

resource = pytest.importorskip("resource")  # not on Windows


def blas_threads() -> list[int]:
    return [pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]


def state() -> dict[str, Any]:
    return {
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "BLAS threads": blas_threads(),
        "NumPy errors": np.geterr(),
        "NumPy printing": np.get_printoptions(),
        "warnings": list(warnings.filters),
        "show warnings": warnings.showwarning,
        "Polars": pl.Config.state(),
        "locale": locale.setlocale(locale.LC_ALL),
        "signals": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "collector": (gc.isenabled(), gc.get_threshold()),
        "log level": logging.getLogger().level,
        "recursion": sys.getrecursionlimit(),
        "exceptions": sys.excepthook,
        "open files": resource.getrlimit(resource.RLIMIT_NOFILE),
        "memory": resource.getrlimit(resource.RLIMIT_AS),
    }


QUESTIONS: dict[str, Callable[[cu.Study], object]] = {
    "agreement": lambda study: cu.agreement(study, resamples=20),
    "leaderboard": lambda study: cu.leaderboard(study, resamples=20),
    "complementarity": lambda study: cu.complementarity(study, resamples=20),
    "combine": lambda study: cu.combine(study, target="fluency", method="ridge", repeats=1, resamples=20),
    "verdict": lambda study: cu.verdict(study, aspect="coherence", resamples=20),
    "report": lambda study: cu.report(study, aspect="coherence", resamples=20).html,
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_leaves_the_process_as_it_was(question: str) -> None:
    study = cu.read("demo").select(metrics="judge,learned", systems="Aster,Birch,Cedar")
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = state()
        QUESTIONS[question](study)
        assert state() == before
        with pytest.raises(cu.OptionError):
            cu.agreement(study, metrics="no-such-metric")
        assert state() == before


def test_parts_are_answered_with_one_blas_thread_and_the_limit_goes_with_an_error() -> None:
    def answer(part: str, rng: np.random.Generator) -> list[int]:
        if part == "refused":
            raise ValueError(part)
        return blas_threads()

    rng = np.random.default_rng(0)
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        (inside,) = map_parts(answer, ["part"], rng=rng, progress=silent, desc="", label=str)
        assert set(inside) == {1}
        assert blas_threads() == before
        with pytest.raises(ValueError, match="refused"):
            map_parts(answer, ["part", "refused"], rng=rng, progress=silent, desc="", label=str)
        assert blas_threads() == before


def test_overlapping_limits_of_two_threads_are_restored() -> None:
    """The context that was entered first exits first."""
    opened, closed = threading.Barrier(2), threading.Event()

    def work(*, first: bool) -> None:
        with limit_blas_threads():
            opened.wait(60)
            assert first or closed.wait(60)
        closed.set()

    with ThreadPoolExecutor(2) as pool:
        before = blas_threads()
        for done in [pool.submit(work, first=first) for first in (True, False)]:
            done.result()
    assert blas_threads() == before
