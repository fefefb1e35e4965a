"""MACE on the three data sets of its authors, ours and crowd-kit's, and the effect of shuffled rows on each.

`python benchmarks/people.py` looks for the peer in `.venv-peers`, which the Makefile creates (--peer PYTHON names
another interpreter); without it only ours is timed. Both run the same restarts and iterations of variational Bayes in a
separate process, from long rows (task, worker, label). The data are next to the project (`../shared/data/mace`).
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from measuring import PEERS, python_with

DATA = Path(__file__).parents[2] / "shared" / "data" / "mace"
SETS = ("rte", "temporal", "wsd")
RESTARTS, ITERATIONS = 10, 50
SHUFFLES = 3
AT_LEAST = 30

PEER = """
import json, sys, time
import numpy as np, pandas as pd
from crowdkit.aggregation import MACE
given = json.load(sys.stdin)
said = pd.DataFrame(given["rows"], columns=["task", "worker", "label"])
def fit(rows, restarts):
    made = MACE(n_restarts=restarts, n_iter=given["iterations"], method="vb", random_state=0)
    return made.fit_predict(rows).sort_index().tolist()
start = time.process_time()
plain = fit(said, given["restarts"])
seconds = time.process_time() - start
shuffled = [fit(said.sample(frac=1, random_state=k), 1) for k in range(given["shuffles"])]
print(json.dumps({"seconds": seconds, "labels": plain, "shuffled": shuffled}))
"""


def loaded(name: str) -> tuple[list[tuple[int, int, int]], list[int]]:
    """Rows of task, worker, label, and the true labels."""
    with gzip.open(DATA / f"{name}.csv.gz", "rt") as file:
        cells = list(csv.reader(file))
    gold = (DATA / f"{name}.key").read_text().split()
    labels = sorted({*gold, *(cell for row in cells for cell in row if cell)})
    rows = [(t, w, labels.index(cell)) for t, row in enumerate(cells) for w, cell in enumerate(row) if cell]
    return rows, [labels.index(label) for label in gold]


def ours(rows: list[tuple[int, int, int]]) -> dict[str, Any]:
    """CPU seconds from rows to labels, the labels, and the labels of shuffled rows."""
    import numpy as np

    from custodes.stats.annotator_models import AnnotatorLabels, mace

    def fit(answers_array: Any, restarts: int) -> tuple[list[int], bytes]:
        sizes = dict(
            zip(("n_tasks", "n_workers", "n_labels"), (int(k) + 1 for k in answers_array.max(axis=0)), strict=True)
        )
        answers = AnnotatorLabels.from_labels(*answers_array.T, **sizes)
        result = mace(answers, restarts=restarts, iterations=ITERATIONS, rng=np.random.default_rng(0))
        return result.posterior.argmax(axis=1).tolist(), result.posterior.tobytes()

    answers_array = np.array(rows)
    fit(answers_array[:100], 1)
    start = time.process_time()
    labels, plain = fit(answers_array, RESTARTS)
    seconds = time.process_time() - start
    mixed = [fit(np.random.default_rng(k).permutation(answers_array), RESTARTS) for k in range(SHUFFLES)]
    same = all(value == plain for _, value in mixed)
    return {"seconds": seconds, "labels": labels, "shuffled": [value for value, _ in mixed], "same": same}


def accuracy(labels: list[int], gold: list[int]) -> float:
    return sum(a == b for a, b in zip(labels, gold, strict=True)) / len(gold)


def million() -> tuple[float, float]:
    """CPU seconds of MACE and of Dawid and Skene's model on a million labels of 2,000 annotators for 333,333 tasks."""
    import numpy as np

    from custodes.stats.annotator_models import AnnotatorLabels, dawid_skene, mace

    rng, tasks, annotators = np.random.default_rng(0), 333_333, 2_000
    task = np.repeat(np.arange(tasks), 3)
    worker, truth = rng.integers(annotators, size=len(task)), rng.integers(3, size=tasks)
    knows = rng.beta(5, 2, annotators)
    label = np.where(rng.random(len(task)) < knows[worker], truth[task], rng.integers(3, size=len(task)))
    start = time.process_time()
    answers = AnnotatorLabels.from_labels(task, worker, label, n_tasks=tasks, n_workers=annotators, n_labels=3)
    mace(answers, restarts=RESTARTS, iterations=ITERATIONS, rng=rng)
    middle = time.process_time()
    dawid_skene(answers, iterations=100)
    return middle - start, time.process_time() - middle


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", default=python_with("crowdkit", PEERS), help="a Python with crowd-kit")
    peer = parser.parse_args().peer
    print("| what | measured | target |\n|---|---|---|")
    good = True
    for name in SETS:
        rows, gold = loaded(name)
        mine = ours(rows)
        good &= mine["same"]
        print(
            f"| {name}, {len(rows)} answers: ours | {mine['seconds']:.2f} CPU s, accuracy"
            f" {accuracy(mine['labels'], gold):.4f} | |"
        )
        print(f"| {name}: ours, rows shuffled | {'the same bits' if mine['same'] else 'other bits'} | the same bits |")
        if not peer:
            continue
        options = {"rows": rows, "restarts": RESTARTS, "iterations": ITERATIONS, "shuffles": SHUFFLES}
        ran = subprocess.run([peer, "-c", PEER], input=json.dumps(options), capture_output=True, text=True, check=True)
        theirs = json.loads(ran.stdout)
        ratio = theirs["seconds"] / mine["seconds"]
        good &= ratio >= AT_LEAST
        mixed = ", ".join(f"{accuracy(value, gold):.4f}" for value in theirs["shuffled"])
        print(
            f"| {name}: crowd-kit | {theirs['seconds']:.1f} CPU s, accuracy {accuracy(theirs['labels'], gold):.4f} | |"
        )
        print(f"| {name}: crowd-kit, rows shuffled | accuracy {mixed} | |")
        print(f"| {name}: ratio of times | {ratio:.0f} times | >= {AT_LEAST} times |")
    by_mace, by_table = million()
    good &= by_mace < 20
    print(f"| a million answers: MACE, {RESTARTS} x {ITERATIONS} iterations | {by_mace:.1f} CPU s | < 20 CPU s |")
    print(f"| a million answers: Dawid and Skene's model | {by_table:.1f} CPU s | |")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
