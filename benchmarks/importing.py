"""Time of imports: `import custodes` alone, and all public names. Questions are timed in `waits.py`."""

from __future__ import annotations

import statistics
import subprocess
import sys

STATEMENTS = {"import custodes": "< 0.5 s", "from custodes import *": ""}
"""Statement and target."""
TIMES = 5


def seconds(statement: str) -> float:
    """Median CPU seconds in new interpreters."""
    code = f"import time; t = time.process_time(); {statement}; print(time.process_time() - t)"
    process = [subprocess.run([sys.executable, "-c", code], capture_output=True, check=True) for _ in range(TIMES)]
    return statistics.median(float(value.stdout) for value in process)


def main() -> None:
    print("| what | CPU s | target |\n|---|---|---|")
    for statement, target in STATEMENTS.items():
        print(f"| {statement} | {seconds(statement):.3f} s | {target} |", flush=True)


if __name__ == "__main__":
    main()
