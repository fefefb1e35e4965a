"""CPU time of an annotation service: answers without a disk, and reading and counting a study with 100,000 answers.

`python benchmarks/annotation_service.py [ANSWERS]`. 500 annotators answer in turn on 45 pairs of 10 systems (2,500
items, interim analyses at 20 and 2,500 answers, second annotations by default, no gold questions), in one process and
without a disk. Then the file is read again and the owner's view computed. Times are CPU seconds, minimum of three runs.
"""

from __future__ import annotations

import resource
import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from itertools import combinations
from pathlib import Path
from random import Random

import msgspec

from custodes.annotate.plan import StudyPlan
from custodes.annotate.service import Service
from custodes.annotate.study_file import create
from custodes.annotate.views import Answer, Ask, Begin, Break

SYSTEMS, ITEMS, ANNOTATORS, ROUNDS = 10, 2_500, 500, 3
TARGETS = {"open": "< 2 s", "snapshot": "< 0.3 s"}


def study(path: Path) -> Path:
    """Study with short texts."""
    plan = msgspec.convert(
        {
            "stopping": {"looks": [20, ITEMS], "stop": "decided", "boundary": 9.0},
            "annotators": {"batch": 50, "batches": 100, "gold_every": 0, "attention": 0},
        },
        StudyPlan,
    )

    def fill(base: sqlite3.Connection) -> None:
        items, systems = range(ITEMS), range(SYSTEMS)
        base.executemany(
            "INSERT INTO item VALUES (?, ?, '', '', '', '', ?, '[]', '{}', '[]')",
            [(k, f"i{k}", f"<p>{k}</p>") for k in items],
        )
        base.executemany("INSERT INTO system VALUES (?, ?, 0)", [(k, f"s{k}") for k in systems])
        base.executemany(
            "INSERT INTO output VALUES (?, ?, '', '<p>text</p>', '[]')", [(k, s) for k in items for s in systems]
        )
        for pair, (first, second) in enumerate(combinations(systems, 2)):
            base.execute("INSERT INTO pair VALUES (?, ?, ?)", (pair, first, second))
            order = Random(pair).sample(items, ITEMS)
            base.executemany(
                "INSERT INTO unit (pair, place, item) VALUES (?, ?, ?)",
                [(pair, place, item) for place, item in enumerate(order)],
            )

    return create(path, plan, fill)


def seconds_per_answer(path: Path, n_answers: int) -> float:
    """Seconds per answer with the next question."""
    with Service.open(path, threaded=False, durable=False) as service:
        annotators = []
        for _, token in service.invite(ANNOTATORS).result():
            service.view(token).result()
            annotators.append([token, service.act(token, Begin()).result()])
        draw, done = Random(0), 0
        begin = time.perf_counter()
        while done < n_answers:
            for annotator in annotators:
                token, view = annotator
                if isinstance(view, Break):
                    annotator[1] = service.act(token, Begin()).result()
                elif isinstance(view, Ask):
                    annotator[1] = service.act(
                        token, Answer(assignment=view.assignment, values={"": draw.choice((1, 0, -1))})
                    ).result()
                    done += 1
        return (time.perf_counter() - begin) / done


def main() -> None:
    """Print a table."""
    n_answers = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as folder:
        path = study(Path(folder) / "study.db")
        rows = [("an answer and the next question", f"{1000 * seconds_per_answer(path, n_answers):.2f} ms", "")]
        opening, looking = [], []
        for _ in range(ROUNDS):
            begin = time.process_time()
            with Service.open(path, threaded=False) as service:
                opening.append(time.process_time() - begin)
                begin = time.perf_counter()
                answers = service.snapshot().result().answers
                looking.append(time.perf_counter() - begin)
        rows.append((f"a study of {answers:,} answers opened", f"{min(opening):.2f} CPU s", TARGETS["open"]))
        rows.append(("the owner's view of it", f"{min(looking):.3f} s", TARGETS["snapshot"]))
        with closing(sqlite3.connect(path)) as base:
            begin = time.perf_counter()
            base.execute("SELECT count(*) FROM (SELECT * FROM battles)").fetchone()
            rows.append(("its comparisons as a view of the file", f"{time.perf_counter() - begin:.2f} s", ""))
        rows.append(("the file", f"{path.stat().st_size / 2**20:.0f} MB", ""))
        rows.append(
            ("memory of the process", f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB", "")
        )
    print("| what | measured | target |\n|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
