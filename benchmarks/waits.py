"""What users wait for, before and after: CPU seconds and memory of verbs on real studies, first answers, large files.

    python benchmarks/waits.py --before OTHER_CHECKOUT --times 3       # in turn, before and after; written to waits.md
    python benchmarks/waits.py --before OTHER_CHECKOUT --only 'SummEval *' --kept /tmp/waits.jsonl
    python benchmarks/waits.py --only 'arena*'                         # this version alone: printed only

The real studies lie beside the project (../shared/data); what is missing is said and left out. Simulated ones are made
here. A case is the command line in a process of its own, and the whole of its output is written. Of 0.1.0 the verbs had
other names; its page had fewer sections: "the sections that 0.1.0 had" is today's page with those alone.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from measuring import SHARED, Run, custodes, machine, run, table

PAGE = Path(__file__).with_suffix(".md")
STUDIES = Path(__file__).with_name("studies.py")
FORMER = {"correction": "correct", "ranking": "rank"}
UNKNOWN = ("check", "leaderboard", "consistency", "annotators", "verdict", "plan")
"""Verbs that 0.1.0 lacked, or that said something else there."""
SECTIONS = "agreement,favoritism,ranking,confusion,complementarity,ceiling,combine,correction,protocol,method,check"
SOME_SECTIONS = f"""
from custodes.reporting import assembly
assembly.SECTIONS = tuple(own for own in assembly.SECTIONS if own.question in "{SECTIONS}".split(","))
from custodes.__main__ import main
main()
"""
WMT = "wmt23-en-de/mt-metrics-eval-v2.wmt23.en-de.tar.gz::wmt23/en-de"
REAL: dict[str, tuple[str, tuple[str, ...], str]] = {
    "SummEval": ("summeval/ratings.csv.gz", (), "coherence"),
    "WMT23": (WMT, ("--human", "mqm"), ""),
    "HANNA": ("hanna/ratings.csv.gz", (), "Coherence"),
    "PandaLM": ("pandalm/battles.csv.gz", ("--invalid", "drop"), ""),
}
"""Name of a study to its file, options, and the target of a combined metric."""
BATTLES_ONLY = ("PandaLM",)
MADE: dict[str, tuple[str, str]] = {
    "1,000 rows": ("small.csv", "scores items=50 systems=5 metrics=3 people=1 seed=9"),
    "100,000 items": ("items.csv", "scores items=100000 systems=3 metrics=3 people=1 seed=0"),
    "arena, 2 M battles": ("arena.parquet", "battles battles=2000000 models=150 seed=0"),
    "arena, 2 M battles and a judge": ("arena_judge.parquet", "battles battles=2000000 models=150 judges=1 seed=0"),
    "59,400 battles of 100": ("systems.csv", "battles battles=59400 models=100 judges=1 seed=3"),
    "2,000 metrics": ("metrics.parquet", "scores items=20 systems=10 metrics=2000 people=2 seed=2"),
    "500 systems": ("systems.parquet", "scores items=20 systems=500 metrics=3 people=2 seed=3"),
}
"""Name of a simulated study to its file, and what `studies.py` makes it from."""
WAITS = (
    "report",
    "correction",
    "agreement",
    "combine fit",
    "ceiling",
    "complementarity",
    "protocol",
    "check",
    "verdict",
)
QUESTIONS = (
    "check",
    "leaderboard",
    "agreement",
    "favoritism",
    "ranking",
    "correction",
    "consistency",
    "complementarity",
)
LARGE = (*QUESTIONS, "ceiling", "annotators", "verdict", "combine fit", "report")
ARENA = ("check", "leaderboard", "favoritism", "ranking", "correction", "report")
TARGETS: dict[str, float] = {
    "SummEval report, the sections that 0.1.0 had": 1 / 4,
    "SummEval correction": 1 / 10,
    "SummEval agreement": 1 / 3,
    "SummEval combine fit": 1 / 3,
    **{f"{name} {verb}": 1 / 3 for name in ("WMT23", "HANNA") for verb in ("correction", "agreement", "combine fit")},
    **{f"{name} report, the sections that 0.1.0 had": 1 / 3 for name in ("WMT23", "HANNA")},
}
"""The largest share of what 0.1.0 took."""
SLOWER = 1.1
"""More than noise."""
LIMITS: dict[str, tuple[float, float]] = {
    "first answer: *": (0.3, 400),
    "1,000 rows *": (1.5, 400),
    "SummEval *": (600, 400),
    "100,000 items check": (5, 2_000),
    "100,000 items agreement": (60, 2_000),
    "100,000 items *": (120, 2_000),
    "arena*": (600, 3_000),
    "2,000 metrics *": (600, 4_000),
    "500 systems *": (600, 4_000),
}
"""Globs of names to most CPU seconds and MB; the first that fits counts."""


@dataclass(frozen=True)
class Wait:
    """Words of the command line after and before (None: nothing to compare with); `study` stands for a file."""

    name: str
    study: str
    words: tuple[str, ...]
    before: tuple[str, ...] | None
    some_sections: bool = False


def waits() -> list[Wait]:
    """Every case, in the order of the table."""
    made = [
        Wait("first answer: --help", "", ("--help",), ("--help",)),
        Wait("first answer: --version", "", ("--version",), ("--version",)),
    ]
    made.append(verb("favoritism", "1,000 rows"))
    for study in REAL:
        _, options, target = REAL[study]
        for name in WAITS if study not in BATTLES_ONLY else ("report", "correction", "agreement", "check", "verdict"):
            made.append(verb(name, study, *options, target=target))
            if name == "report":
                own = made[-1]
                told = f"{own.name}, the sections that 0.1.0 had"
                made.append(Wait(told, study, own.words, own.words, some_sections=True))
                made[-2] = Wait(f"{own.name}, whole", study, own.words, None)
    made += [verb(name, "100,000 items", alone=True) for name in LARGE]
    made += [verb(name, "arena, 2 M battles", alone=True) for name in ("check", "leaderboard", "report")]
    made += [verb(name, "arena, 2 M battles and a judge", alone=True) for name in ARENA]
    made += [verb(name, "59,400 battles of 100", alone=True) for name in ("favoritism", "ranking", "report")]
    made += [verb(name, "2,000 metrics", alone=True) for name in LARGE]
    return [
        *made,
        *(verb(name, "500 systems", alone=True) for name in ("agreement", "favoritism", "ranking", "protocol")),
    ]


def verb(name: str, study: str, *options: str, target: str = "", alone: bool = False) -> Wait:
    """A verb on a study, and its name in 0.1.0."""
    kept = options
    if name == "combine fit":
        kept = (*kept, *(("--target", target) if target else ()))
    words = (*name.split(), "STUDY", *kept, "--quiet", *(("--format", "json") if name != "report" else ()))
    old = tuple(FORMER.get(word, word) for word in words)
    return Wait(f"{study} {name}", study, words, None if alone or name in UNKNOWN else old)


def file_of(study: str, folder: Path) -> Path | None:
    """Where a study is, made if it is simulated; None: it is not there."""
    if study in MADE:
        name, how = MADE[study]
        if not (folder / name).exists():
            kind, *sizes = how.split()
            subprocess.run([sys.executable, STUDIES, kind, folder / name, *sizes], check=True)
        return folder / name
    path = SHARED / REAL[study][0]
    return path if Path(str(path).split("::")[0]).exists() else None


def once(wait: Wait, *, path: Path | None, folder: Path, source: Path | None, limits: dict[str, float]) -> Run:
    """One run, of this version or of the one in `source`."""
    words = list(wait.before or () if source else wait.words)
    given: list[str | Path] = [path if word == "STUDY" and path else word for word in words]
    if "report" in words:
        given += ["--output", folder / "page.html"]
    if "fit" in words:
        given += ["--output", folder / "model.json"]
    whole = custodes(*given)
    if wait.some_sections and source is None:
        whole = [sys.executable, "-c", SOME_SECTIONS, *given]
    return run(whole, source=source / "src" if source else None, out=folder / "answer", **limits)


def middle(runs: list[Run]) -> Run:
    """Median of CPU seconds and of memory; a reason if any gave none."""
    reasons = [own.why for own in runs if own.why]
    return Run(
        statistics.median(own.cpu for own in runs),
        statistics.median(own.mb for own in runs),
        reasons[0] if reasons else "",
    )


def row(wait: Wait, before: Run | None, after: Run) -> list[str]:
    """Cells of a case: both, ratios, what was aimed at."""

    def cells(own: Run | None) -> list[str]:
        if own is None:
            return ["", ""]
        return [f"{own.cpu:.2f}", f"{own.mb:.0f}"] if not own.why else [own.why.split(":")[0], f"{own.mb:.0f}"]

    both = before is not None and not before.why and not after.why
    share = after.cpu / before.cpu if both and before else None
    memory = f"{after.mb / before.mb:.2f}" if both and before else ""
    target = TARGETS.get(wait.name)
    most = next((limit for glob, limit in LIMITS.items() if fnmatch(wait.name, glob)), None)
    aimed = [f"time <= {target:.2f}"] if target else []
    aimed += [f"<= {most[0]:g} s", f"<= {most[1]:,.0f} MB"] if most else []
    missed = bool(after.why) or bool(target and share and share > target)
    missed |= bool(most and (after.cpu > most[0] or after.mb > most[1]))
    said = "missed" if missed else "slower" if share and share > SLOWER else ""
    cell = f"{share:.2f}" if share else ""
    return [wait.name, *cells(before), *cells(after), cell, memory, ", ".join(aimed), said]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="a checkout of the version to compare with")
    parser.add_argument("--times", type=int, default=3, help="runs of each, in turn (default 3)")
    parser.add_argument("--only", action="append", help="glob of names; repeatable")
    parser.add_argument("--seconds", type=float, default=300, help="CPU limit of a run (default 300)")
    parser.add_argument("--gib", type=float, default=10, help="limit of memory of a run (default 10)")
    parser.add_argument("--kept", type=Path, help="JSON lines: runs are added, and not run again")
    parser.add_argument("--only-kept", action="store_true", help="run nothing: write the page from what --kept holds")
    parser.add_argument("--note", default="", help="a sentence for the head of the page")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}, also of a part")
    asked = parser.parse_args()
    lines = asked.kept.read_text().splitlines() if asked.kept and asked.kept.exists() else []
    known = [json.loads(line) for line in lines]
    limits = {"seconds": asked.seconds, "gib": asked.gib}
    rows: list[list[str]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for wait in waits():
            if asked.only and not any(fnmatch(wait.name, glob) for glob in asked.only):
                continue
            path = file_of(wait.study, folder) if wait.study and not asked.only_kept else None
            if wait.study and path is None and not asked.only_kept:
                rows.append([wait.name, *["not there"] * 2, *[""] * 6])
                continue
            taken: dict[str, list[Run]] = {"before": [], "after": []}
            for at in range(asked.times):
                for side in ("before", "after") if asked.before and wait.before else ("after",):
                    mine = [own for own in known if (own["name"], own["side"], own["at"]) == (wait.name, side, at)]
                    if mine:
                        taken[side].append(Run(**mine[0]["run"]))
                        continue
                    if asked.only_kept:
                        continue
                    source = asked.before if side == "before" else None
                    made = once(wait, path=path, folder=folder, source=source, limits=limits)
                    taken[side].append(made)
                    print(f"{wait.name}, {side}: {made.told()}", file=sys.stderr, flush=True)
                    if asked.kept:
                        with asked.kept.open("a") as file:
                            file.write(
                                json.dumps({"name": wait.name, "side": side, "at": at, "run": vars(made)}) + "\n"
                            )
            if not taken["after"]:
                rows.append([wait.name, *["not run"] * 2, *[""] * 6])
                continue
            before = middle(taken["before"]) if taken["before"] else None
            rows.append(row(wait, before, middle(taken["after"])))
    told = page(rows, asked.times, asked.note)
    if asked.write or (asked.before and not asked.only):
        PAGE.write_text(told)
    print(told)


def page(rows: list[list[str]], times: int, note: str) -> str:
    """Markdown: what misses its target first, then all."""
    absent = [own[0] for own in rows if own[1] in ("not run", "not there")]
    rows = [own for own in rows if own[0] not in absent]
    left = f"\nNot run this time, or not there: {'; '.join(absent)}.\n" if absent else ""
    slow = "".join(
        f"- {own[0]}: {own[3]} s, {own[4]} MB{f', {own[5]} of the time before' if own[5] else ''}; {own[7] or own[8]}\n"
        for own in rows
        if own[8]
    )
    heads = ["what", "before, CPU s", "MB", "after, CPU s", "MB", "time", "memory", "target", ""]
    runs = f"medians of {times} runs in turn" if times > 1 else "one run each, in turn"
    return f"""# Waits

`python benchmarks/waits.py --before CHECKOUT_OF_0.1.0`: verbs as users call them, CPU seconds (user and system) and the
highest resident memory, {runs}; "time" and "memory" are shares of before.
{machine()}.{" " + note if note else ""}

## Missed targets, and what is slower than before
{slow or "- none" + chr(10)}
## All

{table(heads, rows)}{left}"""


if __name__ == "__main__":
    main()
