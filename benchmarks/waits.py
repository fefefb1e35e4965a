"""CPU seconds and peak memory of the commands that users wait for, with their limits.

    python benchmarks/waits.py                                  # every case, written to waits.md
    python benchmarks/waits.py --only 'SummEval *'              # some cases, printed only
    python benchmarks/waits.py --start CHECKOUT --runs F.jsonl  # also another version, on the same machine, in turn

A case is one command in a separate process with one thread; its whole output is written. Simulated studies come from
`studies.py`; real ones are read from ../shared/data, and cases without their file are listed and skipped. With
`--runs`, each measurement is appended to a file and not repeated by later runs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from pathlib import Path

from measuring import SHARED, Run, custodes, machine, run, table

PAGE = Path(__file__).with_suffix(".md")
STUDIES = Path(__file__).with_name("studies.py")
MAXIMAL_RATIO = 2.0
"""A case that takes more than this multiple of the start's CPU seconds needs a reason on the page of benchmarks."""

WMT = "wmt23-en-de/mt-metrics-eval-v2.wmt23.en-de.tar.gz::wmt23/en-de"
REAL: dict[str, tuple[str, tuple[str, ...]]] = {
    "SummEval": ("summeval/ratings.csv.gz", ()),
    "WMT23": (WMT, ("--human", "mqm")),
    "HANNA": ("hanna/ratings.csv.gz", ()),
    "PandaLM": ("pandalm/battles.csv.gz", ("--invalid", "drop")),
}
"""Name of a study to its file and options."""
TARGETS = {"SummEval": ("--target", "coherence"), "HANNA": ("--target", "Coherence")}
"""Options of `combine fit`."""
SIMULATED: dict[str, tuple[str, str]] = {
    "1,000 rows": ("small.csv", "scores items=50 systems=5 metrics=3 people=1 seed=9"),
    "100,000 items": ("items.csv", "scores items=100000 systems=3 metrics=3 people=1 seed=0"),
    "2 M battles": ("arena.parquet", "battles battles=2000000 models=150 seed=0"),
    "2 M battles and a judge": ("arena_judge.parquet", "battles battles=2000000 models=150 judges=1 seed=0"),
    "59,400 battles of 100": ("systems.csv", "battles battles=59400 models=100 judges=1 seed=3"),
    "500 metrics": ("metrics.parquet", "scores items=20 systems=10 metrics=500 people=2 seed=2"),
    "500 systems": ("systems.parquet", "scores items=20 systems=500 metrics=3 people=2 seed=3"),
}
"""Name of a simulated study to its file and the arguments of `studies.py`."""
ALL = (
    "check leaderboard agreement favoritism ranking correction consistency complementarity "
    "ceiling annotators verdict combine-fit report"
)
REAL_VERBS = "report correction agreement combine-fit ceiling complementarity protocol check verdict"
VERBS: dict[str, str] = {
    "1,000 rows": "favoritism",
    "SummEval": REAL_VERBS,
    "WMT23": REAL_VERBS,
    "HANNA": REAL_VERBS,
    "PandaLM": "report correction agreement check verdict",
    "100,000 items": ALL,
    "2 M battles": "check leaderboard report",
    "2 M battles and a judge": "check leaderboard favoritism ranking correction report",
    "59,400 battles of 100": "favoritism ranking report",
    "500 metrics": ALL,
    "500 systems": "agreement favoritism ranking protocol",
}
"""Name of a study to the commands measured on it."""
LIMITS: dict[str, tuple[float, float]] = {
    "first answer: *": (0.3, 400),
    "1,000 rows *": (1.5, 400),
    "SummEval report": (12.4, 400),
    "SummEval *": (600, 400),
    "100,000 items check": (5, 2_000),
    "100,000 items agreement": (60, 2_000),
    "100,000 items *": (120, 2_000),
    "2 M battles*": (600, 3_000),
    "500 metrics *": (600, 4_000),
    "500 systems *": (600, 4_000),
}
"""Globs of case names to maximal CPU seconds and MB; the first match counts."""


@dataclass(frozen=True)
class Case:
    """A command on a study; STUDY in its arguments stands for the file."""

    name: str
    study: str
    words: tuple[str, ...]

    @property
    def limits(self) -> tuple[float, float] | None:
        """Maximal CPU seconds and MB."""
        return next((limits for glob, limits in LIMITS.items() if fnmatch(self.name, glob)), None)


def cases() -> list[Case]:
    """All cases in the order of the table."""
    results = [Case(f"first answer: {option}", "", (option,)) for option in ("--help", "--version")]
    for study, verbs in VERBS.items():
        for verb in verbs.split():
            options = REAL.get(study, ("", ()))[1] + (TARGETS.get(study, ()) if verb == "combine-fit" else ())
            output = () if verb == "report" else ("--format", "json")
            words = (*verb.split("-"), "STUDY", *options, "--quiet", *output)
            results.append(Case(f"{study} {verb.replace('-', ' ')}", study, words))
    return results


def study_file(study: str, folder: Path) -> Path | None:
    """File of a study, created if it is simulated; None if it is missing."""
    if study in SIMULATED:
        name, arguments = SIMULATED[study]
        if not (folder / name).exists():
            kind, *sizes = arguments.split()
            subprocess.run([sys.executable, STUDIES, kind, folder / name, *sizes], check=True)
        return folder / name
    path = SHARED / REAL[study][0]
    return path if Path(str(path).split("::")[0]).exists() else None


def measure(case: Case, study: Path | None, *, folder: Path, source: Path | None, seconds: float, gib: float) -> Run:
    """Measure this version once, or the checkout `source`."""
    words: list[str | Path] = [study if word == "STUDY" and study else word for word in case.words]
    if "report" in words:
        words += ["--output", folder / "page.html"]
    if "fit" in words:
        words += ["--output", folder / "model.json"]
    command = custodes(*words)
    return run(command, source=source / "src" if source else None, out=folder / "answer", seconds=seconds, gib=gib)


def median(runs: list[Run]) -> Run:
    """Median CPU seconds and memory; the reason of a run without an answer."""
    reason = next((run.why for run in runs if run.why), "")
    return Run(statistics.median(run.cpu for run in runs), statistics.median(run.mb for run in runs), reason)


def verdict(case: Case, now: Run, start: Run | None) -> str:
    """Problem with the cost of a case; empty if there is none."""
    problems = []
    if now.why:
        problems.append(now.why)
    elif case.limits:
        seconds, mb = case.limits
        problems += [f"more than {seconds:g} s"] if now.cpu > seconds else []
        problems += [f"more than {mb:,.0f} MB"] if now.mb > mb else []
    if start and not (now.why or start.why) and now.cpu > MAXIMAL_RATIO * start.cpu:
        problems.append(f"{now.cpu / start.cpu:.1f} times the start")
    return ", ".join(problems)


def page(measured: list[tuple[Case, Run, Run | None]], absent: list[str], times: int) -> str:
    """Markdown: problems first, then all cases."""
    problems = [
        f"- {case.name}: {now.told()}; {problem}"
        for case, now, start in measured
        if (problem := verdict(case, now, start))
    ]
    rows = []
    for case, now, start in measured:
        limits = "{:g} s, {:,.0f} MB".format(*case.limits) if case.limits else ""
        rows.append([case.name, *columns(start), *columns(now), limits])
    both = [(now.cpu, start.cpu) for _, now, start in measured if start and not (now.why or start.why)]
    total = (
        f"\nSum of CPU seconds: {sum(b for _, b in both):.1f} at the start, {sum(a for a, _ in both):.1f} now.\n"
        if both
        else ""
    )
    missing = f"\nNot on this machine: {'; '.join(absent)}.\n" if absent else ""
    heads = ["case", "start, CPU s", "MB", "now, CPU s", "MB", "limits"]
    return f"""# Run times

`python benchmarks/waits.py`: CPU seconds (user and system) and peak resident memory of commands with one thread,
{"one run" if times == 1 else f"medians of {times} runs"} of each.
{machine()}.

## Cases above their limit, or above twice the start
{chr(10).join(problems) or "- none"}

## All
{total}
{table(heads, rows)}{missing}"""


def columns(run: Run | None) -> list[str]:
    """CPU seconds and MB as cells."""
    if run is None:
        return ["", ""]
    return [run.why.split(":")[0] or f"{run.cpu:.2f}", f"{run.mb:.0f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--start", type=Path, help="checkout of an earlier version to compare with")
    parser.add_argument("--times", type=int, default=3, help="runs of each case (default 3)")
    parser.add_argument("--only", action="append", help="glob of names; repeatable")
    parser.add_argument("--seconds", type=float, default=300, help="CPU limit of a run (default 300)")
    parser.add_argument("--gib", type=float, default=10, help="memory limit of a run (default 10)")
    parser.add_argument("--runs", type=Path, help="JSON lines of measurements: read, and extended")
    options = parser.parse_args()
    lines = options.runs.read_text().splitlines() if options.runs and options.runs.exists() else []
    earlier = {(row["case"], row["side"], row["n"]): Run(**row["run"]) for row in map(json.loads, lines)}
    sides: dict[str, Path | None] = {**({"start": options.start} if options.start else {}), "now": None}
    measured: list[tuple[Case, Run, Run | None]] = []
    absent: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for case in cases():
            if options.only and not any(fnmatch(case.name, glob) for glob in options.only):
                continue
            study = study_file(case.study, folder) if case.study else None
            if case.study and study is None:
                absent.append(case.name)
                continue
            runs: dict[str, list[Run]] = {side: [] for side in sides}
            for n in range(options.times):
                for side, source in sides.items():
                    result = earlier.get((case.name, side, n))
                    if result is None:
                        result = measure(
                            case, study, folder=folder, source=source, seconds=options.seconds, gib=options.gib
                        )
                        print(f"{case.name}, {side}: {result.told()}", file=sys.stderr, flush=True)
                        if options.runs:
                            row = {"case": case.name, "side": side, "n": n, "run": asdict(result)}
                            with options.runs.open("a") as file:
                                file.write(json.dumps(row) + "\n")
                    runs[side].append(result)
            measured.append((case, median(runs["now"]), median(runs["start"]) if "start" in runs else None))
    text = page(measured, absent, options.times)
    if not options.only:
        PAGE.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
