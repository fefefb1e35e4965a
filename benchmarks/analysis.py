"""The whole SummEval analysis, and the import; the bootstrap beside a loop over scipy is in `peers.py`.

`python benchmarks/analysis.py` uses ../shared/data/summeval where it is there, else a simulated study of its size.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl

import custodes as cu
from custodes.data.raters import Raters
from custodes.data.ratings import Ratings
from custodes.data.study import Study

SUMMEVAL = Path(__file__).parents[2] / "shared" / "data" / "summeval" / "ratings.csv.gz"
SYSTEMS, ITEMS, METRICS, ASPECTS = 16, 100, 34, 4
TARGETS = {"SummEval analysis": "< 15 s", "import": "< 0.5 s"}


def summeval() -> tuple[Study, str]:
    """The real study, or one of the same size."""
    if SUMMEVAL.exists():
        return cu.read(SUMMEVAL), "SummEval"
    rng = np.random.default_rng(0)
    frames = []
    for name, kind, aspect in [
        *((f"expert{k}", "human", f"aspect{a}") for k in range(3) for a in range(ASPECTS)),
        *((f"metric{m}", "metric", "") for m in range(METRICS)),
    ]:
        scores = rng.integers(1, 6, ITEMS * SYSTEMS).astype(float) if kind == "human" else rng.random(ITEMS * SYSTEMS)
        cells = pl.DataFrame({"item": np.repeat(range(ITEMS), SYSTEMS), "system": list(range(SYSTEMS)) * ITEMS})
        frames.append(cells.with_columns(rater=pl.lit(name), aspect=pl.lit(aspect), score=pl.Series(scores)))
    kinds = {f"expert{k}": "human" for k in range(3)} | {f"metric{m}": "metric" for m in range(METRICS)}
    return Study(ratings=Ratings.make(pl.concat(frames))[0], raters=Raters.infer(kinds)), "a study of SummEval's size"


def timed(work: object) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    work()  # type: ignore[operator]
    return time.perf_counter() - start


def whole_analysis() -> list[tuple[str, str, str]]:
    """Agreement with 1,000 shared resamples, favoritism and ranking, 34 metrics x 4 aspects x 120 pairs."""
    study, name = summeval()
    rows, total = [], 0.0
    for question in (cu.agreement, cu.favoritism, cu.ranking):
        seconds = timed(lambda question=question: question(study, human="expert*").to_dict())
        total += seconds
        rows.append((f"{name}: {question.__name__}", f"{seconds:.2f} s", ""))
    return [*rows, (f"{name}: all three as JSON", f"{total:.2f} s", TARGETS["SummEval analysis"])]


def import_time() -> list[tuple[str, str, str]]:
    """Medians of five fresh interpreters: the import, and every public name in use."""
    rows = []
    for what, statement, target in (
        ("import custodes", "import custodes", TARGETS["import"]),
        ("from custodes import *", "from custodes import *", ""),
    ):
        code = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
        seconds = [
            float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
            for _ in range(5)
        ]
        rows.append((what, f"{statistics.median(seconds):.2f} s", target))
    return rows


def main() -> None:
    """Run all and print a Markdown table."""
    print("| what | measured | target |\n|---|---|---|")
    for what, measured, target in [*whole_analysis(), *import_time()]:
        print(f"| {what} | {measured} | {target} |", flush=True)


if __name__ == "__main__":
    main()
