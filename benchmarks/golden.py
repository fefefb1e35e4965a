"""Compare every answer of a start checkout with this one, on the same machine, and list the cells that differ.

    python benchmarks/golden.py --start CHECKOUT --kept FOLDER                        # every case
    python benchmarks/golden.py --start CHECKOUT --kept FOLDER --only 'SummEval *'    # some cases
    python benchmarks/golden.py --start CHECKOUT --kept FOLDER --start-only           # fill FOLDER, compare nothing

The cases are in `golden_cases.py`, the rules of the comparison in `comparing.py`, and names changed since the start in
`renamed.csv`. Each case is a process with one thread, whose CPU seconds and peak resident memory are also compared. The
answers of the start are computed once, and cached by commit, program, number of resamples and seed. With
`--second-seed` the start also answers with another seed, which separates values with random draws from exact ones; see
`comparing.py`.

The exit status is 0 if all differences are within their tolerance, otherwise 1. Real data are read from ../shared/data;
cases without their files are listed and skipped. Numbers of real data do not belong in the repository, so nothing is
written next to the code.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import polars as pl
from comparing import Moved, compare, roles_of, text
from golden_cases import GENERATED, Case, cases, generate
from measuring import ONE_THREAD, ROOT, SHARED, Run, run, table

ANSWER = Path(__file__).with_name("golden_answer.py")
RENAMED = Path(__file__).with_name("renamed.csv")
TIMES = {("combine", "comparison"): ["seconds"]}
"""Columns of computation time."""
SLOW, LEAST_SECONDS, LARGE = 2.0, 0.5, 1.5
"""A case is listed above this ratio of CPU seconds and this difference, or above this ratio of memory."""
DRAWS = 2000
"""Draws of a question without resamples or replications."""


@dataclass(frozen=True)
class Answer:
    """Answer of one checkout to one case, and its cost. `document`: the exit status or error message."""

    cost: Run
    document: Mapping[str, Any]
    tables: Mapping[str, pl.DataFrame]

    @classmethod
    def load(cls, folder: Path) -> Answer:
        """Read the files of one case; the notes are a table."""
        document = json.loads((folder / "answer.json").read_text())
        tables = {name: pl.read_parquet(folder / f"{name}.parquet") for name in document["tables"]}
        return cls(Run(**json.loads((folder / "cost.json").read_text())), document, tables)


class Names:
    """Names changed since the start, with rows `kind, place, old, new`.

    kind: question, option, table, column or value. place: a glob of the place in the start, which is empty for a
    question, QUESTION for an option or a table, QUESTION.TABLE for a column, QUESTION.TABLE.COLUMN for a value. If
    `new` is empty, the name was removed.
    """

    def __init__(self, rows: Sequence[Mapping[str, str]]) -> None:
        self._rows = rows

    @classmethod
    def load(cls, path: Path) -> Names:
        """Read a table of names."""
        with path.open(newline="") as file:
            return cls(list(csv.DictReader(file)))

    def at(self, kind: str, place: str) -> dict[str, str]:
        """Map old to new names at a place."""
        rows = [row for row in self._rows if row["kind"] == kind and fnmatch(place, row["place"])]
        return {row["old"]: row["new"] for row in rows}

    def question(self, name: str) -> str:
        """The new name of a question."""
        return self.at("question", "").get(name, name)

    def case(self, case: Case) -> Case:
        """Case with new names."""
        new = self.at("option", case.question)
        options = {new.get(name, name): value for name, value in case.options.items() if new.get(name, name)}
        return replace(case, question=self.question(case.question), options=options)

    def tables(self, question: str, tables: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
        """Tables of the start with new names."""
        renamed = {}
        for name, frame in tables.items():
            place = f"{question}.{name}"
            columns = self.at("column", place)
            values = [
                pl.col(column).replace(new)
                for column, kind in frame.schema.items()
                if kind == pl.String and (new := self.at("value", f"{place}.{column}"))
            ]
            if new_name := self.at("table", question).get(name, name):
                renamed[new_name] = frame.with_columns(values).select(
                    pl.col(column).alias(columns.get(column, column))
                    for column in frame.columns
                    if columns.get(column, column)
                )
        return renamed


def cached_answer(case: Case, checkout: Path, folder: Path, *, seconds: float) -> Answer:
    """Answer of a checkout to a case, computed unless it is in the folder.

    The folder is created when complete, because several runs may share it.
    """
    described = json.dumps(asdict(case), indent=1)
    if not (folder.exists() and (folder / "case.json").read_text() == described):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".") as temporary:
            complete = Path(temporary, "case")
            complete.mkdir()
            (complete / "case.json").write_text(described)
            command = [sys.executable, "-P", ANSWER, complete / "case.json", complete]
            one_thread = {**ONE_THREAD, "POLARS_MAX_THREADS": "1"}
            cost = run(command, source=checkout / "src", seconds=seconds, environment=one_thread)
            (complete / "cost.json").write_text(json.dumps(vars(cost)))
            if not (complete / "answer.json").exists():
                (complete / "answer.json").write_text(json.dumps({"refusal": cost.why or "no answer", "tables": []}))
            if folder.exists():
                folder.rename(Path(temporary, "former"))
            complete.rename(folder)
    return Answer.load(folder)


def differences(case: Case, start: Answer, now: Answer, names: Names, second: Answer | None = None) -> list[Moved]:
    """All differences between two answers to a case; `second`: the start with another seed."""
    question = names.question(case.question)
    moved = [
        Moved("", "", name, start.document.get(name), now.document.get(name))
        for name in ("refusal", "status")
        if start.document.get(name) != now.document.get(name)
    ]
    old = names.tables(case.question, start.tables)
    second_tables = names.tables(case.question, second.tables) if second else {}
    declared = declarations(question)
    for name in dict.fromkeys((*old, *now.tables)):
        if (name in old) != (name in now.tables):
            moved.append(Moved(name, "", "", *("table" if name in side else None for side in (old, now.tables))))
            continue
        times = TIMES.get((question, name), [])
        scores = {column: "score" for column, kind in old[name].schema.items() if kind.is_float()}
        moved += compare(
            name,
            old[name].drop(times, strict=False),
            now.tables[name].drop(times, strict=False),
            roles_of(declared.get(name, scores)),
            draws=case.options.get("resamples") or case.options.get("replications") or DRAWS,
            second=second_tables.get(name),
        )
    return moved


def declarations(question: str) -> dict[str, dict[str, str]]:
    """Table to column to declared kind in this checkout."""
    import custodes as cu

    return {
        name: {column: part.kind for part in declared.columns for column in part.names}
        for name, declared in getattr(cu, question.capitalize()).table_declarations().items()
    }


def page(case: Case, differing: Sequence[Moved], most: int) -> str:
    """Differences of a case, as a table of at most `most` rows, and columns with differences within their tolerance."""
    moved = [cell for cell in differing if not cell.minor]
    minor: dict[str, list[float]] = {}
    for cell in differing:
        if cell.minor:
            minor.setdefault(f"{cell.table}.{cell.column}", []).append(abs(cell.now - cell.start))
    lines = [
        f"Within the tolerance, but the same for both seeds at the start: {name}, {len(cells)} cells,"
        f" largest difference {max(cells):.2g}\n"
        for name, cells in minor.items()
    ]
    rows = [[cell.table, cell.row, cell.column, text(cell.start), text(cell.now), cell.reason] for cell in moved[:most]]
    more = f"... and {len(moved) - most} more\n" if len(moved) > most else ""
    head = ["table", "row", "column", "start", "now", "tolerance or p-values"]
    return f"## {case.name}: {len(moved)} moved\n\n" + (table(head, rows) if rows else "") + more + "".join(lines)


def costs(rows: Iterable[tuple[str, Run, Run]]) -> str:
    """Sums and ratios of CPU seconds and memory, and the cases with large ratios."""
    rows = list(rows)
    before, after = (sum(row[side].cpu for row in rows) for side in (1, 2))
    memory = [max(row[side].mb for row in rows) for side in (1, 2)]
    worse = [
        [name, f"{start.cpu:.2f}", f"{now.cpu:.2f}", f"{now.cpu / start.cpu:.2f}", f"{start.mb:.0f}", f"{now.mb:.0f}"]
        for name, start, now in rows
        if (now.cpu > SLOW * start.cpu and now.cpu - start.cpu > LEAST_SECONDS) or now.mb > LARGE * start.mb
    ]
    head = [f"time above {SLOW:g} or memory above {LARGE:g} times", "start, CPU s", "now", "ratio", "start, MB", "now"]
    return (
        f"CPU seconds: {before:.1f} at the start, {after:.1f} now, ratio {after / before:.2f};"
        f" largest memory {memory[0]:.0f} and {memory[1]:.0f} MB\n" + (table(head, worse) if worse else "")
    )


def commit_of(checkout: Path) -> str:
    """Commit of a checkout, which must have no changes as its answers are cached."""
    git = ["git", "-C", str(checkout)]
    if subprocess.run([*git, "status", "--porcelain", "--", "src"], check=True, capture_output=True).stdout:
        raise SystemExit(f"{checkout} has changes in src; the answers of a start are kept by its commit")
    return subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout[:12]


def provide(folder: Path, chosen: Sequence[Case], start: Path) -> None:
    """Write the generated files that the cases need and that are not in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    needed = {path for case in chosen for path in case.paths}
    for name in GENERATED:
        path = folder / name
        if str(path) not in needed or path.exists():
            continue
        if name == "study.db":
            written = run([sys.executable, "-P", ANSWER, path], source=start / "src")
            if written.why:
                raise SystemExit(f"{name}: {written.why}")
        elif name == "arena.parquet" or (SHARED / "mace" / f"{name}.gz").exists():
            generate(path)


def missing(case: Case) -> bool:
    """Whether a file of a case is missing."""
    return any(path != "demo" and not Path(path.split("::")[0]).exists() for path in case.paths)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--start", type=Path, required=True, help="a checkout of the commit to compare with")
    parser.add_argument("--kept", type=Path, help="folder in which the answers of the start are kept")
    parser.add_argument("--only", action="append", help="glob of names of cases; repeatable")
    parser.add_argument("--resamples", type=int, default=2000, help="default 2000; the tolerances follow")
    parser.add_argument("--second-seed", action="store_true", help="the start also answers with another seed")
    parser.add_argument(
        "--start-only", action="store_true", help="compute the answers of the start and compare nothing"
    )
    parser.add_argument("--jobs", type=int, default=1, help="cases at a time (default 1)")
    parser.add_argument("--most", type=int, default=20, help="differences of a case that are printed (default 20)")
    parser.add_argument("--seconds", type=float, default=600, help="CPU limit of a case (default 600)")
    parser.add_argument("--json", type=Path, help="file for all differences and costs")
    options = parser.parse_args()
    names = Names.load(RENAMED)
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.kept or Path(temporary, "kept")).resolve()
        commit = commit_of(options.start) if options.kept else "start"
        program = hashlib.sha256(ANSWER.read_bytes()).hexdigest()[:6]
        first, second = (folder / commit / f"{program}-{options.resamples}-seed{seed}" for seed in (0, 1))
        globs = options.only or ["*"]
        chosen = [
            case
            for case in cases(folder / "inputs", options.resamples)
            if any(fnmatch(case.name, glob) for glob in globs)
        ]
        if not chosen:
            parser.error(f"no case matches {', '.join(globs)}")
        provide(folder / "inputs", chosen, options.start)

        def compared(case: Case) -> tuple[str, Run, Run, list[Moved]]:
            place = "".join(letter if letter.isalnum() else "-" for letter in case.name)
            start = cached_answer(case, options.start, first / place, seconds=options.seconds)
            other = None
            if options.second_seed or (second / place).exists():
                seeded = replace(case, options={**case.options, "rng": 1})
                other = cached_answer(seeded, options.start, second / place, seconds=options.seconds)
            if options.start_only:
                print(f"{case.name}: {start.cost.told()}", file=sys.stderr, flush=True)
                return case.name, start.cost, start.cost, []
            now = cached_answer(names.case(case), ROOT, Path(temporary, "now", place), seconds=options.seconds)
            differing = differences(case, start, now, names, other)
            print(f"{case.name}: {start.cost.told()}; now {now.cost.told()}", file=sys.stderr, flush=True)
            if differing:
                print(page(case, differing, options.most), flush=True)
            return case.name, start.cost, now.cost, differing

        with ThreadPoolExecutor(options.jobs) as pool:
            rows = list(pool.map(compared, [case for case in chosen if not missing(case)]))
    if rows:
        print(costs(row[:3] for row in rows))
    absent = [case.name for case in chosen if missing(case)]
    if absent:
        print(f"Left out, since files are missing: {', '.join(absent)}.")
    moved = [cell for row in rows for cell in row[3] if not cell.minor]
    print(f"{len(rows)} cases; {len(moved)} cells moved, {sum(cell.by_seed for cell in moved)} of them also by seed")
    if options.json:
        content = [
            {"case": name, "start": vars(start), "now": vars(now), "cells": [asdict(cell) for cell in cells]}
            for name, start, now, cells in rows
        ]
        options.json.write_text(json.dumps(content, indent=1, default=str))
    raise SystemExit(int(bool(moved)))


if __name__ == "__main__":
    main()
