"""Worker scripts for tests, and interpreters with their libraries."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

FAKE = Path(__file__).with_name("fake_worker.py")


def programs(folder: Path, *names: str) -> None:
    """Write executables with these names that do nothing."""
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)


ROOT = Path(__file__).parents[2]


ORACLES, COMET = (ROOT / name / "bin" / "python" for name in (".venv-oracles", ".venv-comet"))


def python(interpreter: Path, module: str) -> Path:
    """Interpreter with a library; the test is skipped if there is none."""
    if not interpreter.exists():
        pytest.skip(f"{interpreter.parents[1].name} is not there (make test-slow makes it)")
    process = subprocess.run([interpreter, "-c", f"import {module}"], capture_output=True, text=True, check=False)
    if process.returncode:
        pytest.skip(f"{interpreter.parents[1].name}: {process.stderr.strip().splitlines()[-1]}")
    return interpreter
