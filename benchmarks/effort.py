"""How far estimates of `--dry-run` are from what is measured: every question on simulated studies and on real ones.

python benchmarks/effort.py [--only QUESTION]

Each case is a process of its own (`measuring.py`). What is estimated and what it took, with the ratio, as a table. The
figures in `answers/effort.py` are fitted to the logarithms of such rows, with no negative weight.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import studies
from measuring import SHARED, run

QUESTIONS = (
    *("check", "leaderboard", "agreement", "favoritism", "consistency", "ranking", "correction"),
    *("complementarity", "ceiling", "verdict", "report"),
)
ABOUT = re.compile(r"about ([\d.,]+) s of CPU and ([\d.,]+) MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=QUESTIONS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        studies.scores(items=20_000, systems=3, metrics=3).write_parquet(folder / "items.parquet")
        studies.scores(items=20, systems=10, metrics=200, people=2).write_parquet(folder / "metrics.parquet")
        studies.battles(battles=50_000, models=100, judges=1).write_parquet(folder / "battles.parquet")
        inputs = ["demo", *map(str, sorted(folder.glob("*.parquet")))]
        inputs += [
            str(own) for own in (SHARED / f"{name}/ratings.csv.gz" for name in ("summeval", "hanna")) if own.exists()
        ]
        print("| question | study | estimated | measured | ratio of seconds | of memory |\n|---|---|---|---|---|---|")
        for question in [given.only] if given.only else QUESTIONS:
            for source in inputs:
                command = [sys.executable, "-m", "custodes", question, source]
                said = subprocess.run([*command, "--dry-run"], capture_output=True, text=True)
                found = ABOUT.search(said.stdout)
                measured = run([*command, "--format", "json", "-o", str(folder / "answer.json")], seconds=300)
                if not found or measured.why:
                    continue  # a question that this study has no answer to
                seconds, megabytes = (float(own.replace(",", "")) for own in found.groups())
                label = Path(source).stem if Path(source).parent == folder else Path(source).parent.name or source
                print(
                    f"| {question} | {label} | {seconds:g} s, {megabytes:g} MB | {measured.told()}"
                    f" | {seconds / measured.cpu:.2f} | {megabytes / measured.mb:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
