"""Equal seeds give equal bytes, for any number of threads, hash seed and locale.

Other BLAS libraries and other kernels may change the last digits; these tests do not cover that.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.questions import QUESTIONS, command

ONE = {
    "POLARS_MAX_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "LC_ALL": "C",
}
OTHER = {
    "POLARS_MAX_THREADS": "7",
    "OMP_NUM_THREADS": "3",
    "OPENBLAS_NUM_THREADS": "3",
    "PYTHONHASHSEED": "4242",
    "LC_ALL": "C.UTF-8",
    "TZ": "Asia/Kathmandu",
    "COLUMNS": "200",
}
QUICK = ("--resamples", "100", "--seed", "5")


def output_bytes(argv: tuple[str, ...], environment: dict[str, str], folder: Path) -> bytes:
    folder.mkdir()
    ran = subprocess.run(
        [sys.executable, "-m", "custodes", *argv], env=os.environ | environment, cwd=folder, capture_output=True
    )
    assert ran.returncode in (0, 1, 3), ran.stderr.decode()
    files = sorted(folder.iterdir())
    return ran.stdout + b"".join(path.name.encode() + path.read_bytes() for path in files)


def test_threads_hash_seed_and_locale_change_no_byte(tmp_path: Path) -> None:
    ask = ("agreement", "demo", *QUICK, "--aspect", "fluency", "--format", "json", "--no-timing")
    assert output_bytes(ask, ONE, tmp_path / "one") == output_bytes(ask, OTHER, tmp_path / "other")


@pytest.mark.slow
@pytest.mark.parametrize("question", [name for name in QUESTIONS if name != "validate"])
def test_no_question_changes_a_byte(tmp_path: Path, question: str) -> None:
    ask = (*command(question), "--format", "json", "--no-timing")
    assert output_bytes(ask, ONE, tmp_path / "one") == output_bytes(ask, OTHER, tmp_path / "other")


@pytest.mark.slow
def test_a_report_and_its_figures_are_the_same_bytes(tmp_path: Path) -> None:
    for suffix in ("svg", "png"):
        ask = ("report", "demo", *QUICK, "--aspect", "fluency", "--figures", ".", "--figure-format", suffix)
        first, second = (
            output_bytes(ask, ONE, tmp_path / f"one-{suffix}"),
            output_bytes(ask, OTHER, tmp_path / f"other-{suffix}"),
        )
        assert first == second


@pytest.mark.slow
def test_threads_of_openmp_change_no_model(tmp_path: Path) -> None:
    """XGBoost and BLAS have separate thread settings."""
    fit = ("combine", "fit", "demo", "--target", "coherence", "--method", "xgboost")
    ask = (*fit, *QUICK, "--no-timing", "-o", "m.json")
    models = {output_bytes(ask, ONE | {"OMP_NUM_THREADS": str(n)}, tmp_path / str(n)) for n in (1, 2, 5)}
    assert len(models) == 1
