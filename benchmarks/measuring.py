"""Run one command, and measure its CPU time and memory; used by growth and waits.

This module imports nothing large: on Linux the high-water mark of a child starts at its parent's.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PEERS, ORACLES = ROOT / ".venv-peers", ROOT / ".venv-oracles"
"""Separate environments, created by the Makefile."""
SHARED = ROOT.parent / "shared" / "data"
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
POLLS, PATIENCE = 0.02, 8
"""Seconds between checks of a process, and wall time allowed as a multiple of its CPU limit."""


@dataclass(frozen=True)
class Run:
    """Cost of one command; `why` is empty if it gave an answer."""

    cpu: float
    mb: float
    why: str

    def told(self) -> str:
        return f"{self.cpu:.2f} s, {self.mb:.0f} MB" if not self.why else self.why


def run(
    command: Sequence[str | Path],
    *,
    seconds: float = 600,
    gib: float = 12,
    source: Path | None = None,
    out: Path | None = None,
    environment: Mapping[str, str] = ONE_THREAD,
) -> Run:
    """Measure CPU seconds (user and system, with children that ended) and peak resident memory of the largest process.

    A command that exceeds `seconds` of CPU or, where there is /proc, `gib` of resident memory is killed. `source` is
    the folder of the package to run (default: this one); standard output goes to `out`.
    """

    variables = {**os.environ, **environment, "PYTHONPATH": str(compiled(source or ROOT / "src"))}
    over = False
    with tempfile.TemporaryFile() as errors, (out or Path(os.devnull)).open("wb") as answer:
        child = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=answer,
            stderr=errors,
            env=variables,
            start_new_session=True,
        )
        # Limits are applied from outside: code between fork and exec may hang if threads run, and libraries warn of it.
        if hasattr(resource, "prlimit"):
            resource.prlimit(child.pid, resource.RLIMIT_CPU, (int(seconds), int(seconds) + 5))
        os.setpriority(os.PRIO_PROCESS, child.pid, 5)
        began = time.monotonic()
        pid = 0
        try:
            while not pid:
                pid, status, used = os.wait4(child.pid, os.WNOHANG)
                over = over or resident(child.pid) > gib * 2**30
                if not pid and (over or time.monotonic() - began > PATIENCE * seconds):
                    os.killpg(child.pid, signal.SIGKILL)
                time.sleep(0 if pid else POLLS)
        finally:
            if not pid:  # interrupted: leave no process behind
                os.killpg(child.pid, signal.SIGKILL)
        child.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        words = errors.read().decode(errors="replace")
    cpu = used.ru_utime + used.ru_stime
    why = f"> {gib:g} GiB" if over else reason(child.returncode, words, seconds=seconds)
    return Run(cpu, used.ru_maxrss / 1024, why)


@lru_cache
def compiled(source: Path) -> Path:
    """Copy of the packages with compiled bytecode, as in an installation; some environments do not write it."""
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(source)], check=True)
    return source


def resident(pid: int) -> int:
    """Resident memory of one process in bytes; 0 if it cannot be read."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0


def reason(code: int, errors: str, *, seconds: float) -> str:
    """Short reason for a missing answer; exit statuses 1 and 3 are answers of `check` and `gate`."""
    if code in (0, 1, 3) and "Traceback" not in errors:
        return ""
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"> {seconds:.0f} s"
    lines = [line for line in errors.splitlines() if line.startswith("custodes: ")] or errors.splitlines()[-1:]
    return "refused: " + (lines[0].removeprefix("custodes: ") if lines else f"exit status {code}")[:160]


def custodes(*words: str | Path) -> list[str | Path]:
    """Command line of the package that `run` measures."""
    return [sys.executable, "-m", "custodes", *words]


def python_with(module: str, *homes: Path) -> Path | None:
    """First interpreter that can import a module, in the given environments and then this one, or None."""
    find = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    for python in (*(home / "bin" / "python" for home in homes), Path(sys.executable)):
        if python.exists() and not subprocess.run([python, "-c", find], capture_output=True).returncode:
            return python
    return None


def table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a Markdown table."""
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def machine() -> str:
    """Versions, processors and their load."""
    from importlib.metadata import version

    packages = ", ".join(f"{name} {version(name)}" for name in ("custodes", "numpy", "polars"))
    return (
        f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.0f},"
        f" Python {sys.version.split()[0]}, {packages}"
    )
