"""What users wait for, before and after: CPU seconds and memory of verbs on real studies, first answers, large files.

    python benchmarks/waits.py --before CHECKOUT --start CHECKOUT      # in turn, before and after; written to waits.md
    python benchmarks/waits.py --before CHECKOUT --only 'SummEval *' --kept /tmp/waits.jsonl
    python benchmarks/waits.py --only 'arena*'                         # this version alone: printed only

There are two befores: `--before` is 0.1.0, and `--start` the last version before the work on speed, with today's
definitions. A target is a share of the start where that is given, since what was defined anew may take more or less
than in 0.1.0; both shares are printed.

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
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from cases import LIMITS, MADE, REAL, SECTIONS, TARGETS, Wait, waits
from measuring import SHARED, Run, custodes, machine, run, table

PAGE = Path(__file__).with_suffix(".md")
STUDIES = Path(__file__).with_name("studies.py")
SOME_SECTIONS = f"""
from custodes.reporting import assembly
assembly.SECTIONS = tuple(own for own in assembly.SECTIONS if own.question in "{SECTIONS}".split(","))
from custodes.__main__ import main
main()
"""
SLOWER = 1.1
"""More than noise."""


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


def once(
    wait: Wait, side: str, *, path: Path | None, folder: Path, source: Path | None, limits: dict[str, float]
) -> Run:
    """One run, of this version or of the one in `source`."""
    words = list(wait.before or () if side == "before" else wait.words)
    given: list[str | Path] = [path if word == "STUDY" and path else word for word in words]
    if "report" in words:
        given += ["--output", folder / "page.html"]
    if "fit" in words:
        given += ["--output", folder / "model.json"]
    whole = custodes(*given)
    if wait.some_sections and side != "before":
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


@dataclass(frozen=True)
class Row:
    """Cells of a case; `said`: what is missed, or slower than the version that it is judged against."""

    cells: list[str]
    aimed: str
    said: str

    @classmethod
    def absent(cls, name: str, why: str) -> Row:
        return cls([name], "", why)

    @classmethod
    def of(cls, wait: Wait, runs: Mapping[str, Run]) -> Row:
        """Medians by version, the shares of both befores that this one takes, and what was aimed at."""
        after = runs["after"]
        ratios = {side: share(runs.get(side), after, "cpu") for side in ("before", "start")}
        judged = "start" if "start" in runs else "before"
        ratio, target = ratios[judged], TARGETS.get(wait.name)
        most = next((limit for glob, limit in LIMITS.items() if fnmatch(wait.name, glob)), None)
        aimed = [f"time <= {target:.2f}"] if target else []
        aimed += [f"<= {most[0]:g} s", f"<= {most[1]:,.0f} MB"] if most else []
        missed = bool(after.why) or bool(target and ratio and ratio > target)
        missed |= bool(most and (after.cpu > most[0] or after.mb > most[1]))
        said = "missed" if missed else "slower" if ratio and ratio > SLOWER else ""
        cells = [cell for side in ("before", "start", "after") for cell in told(runs.get(side))]
        shares = [*ratios.values(), share(runs.get(judged), after, "mb")]
        return cls([wait.name, *cells, *(f"{own:.2f}" if own else "" for own in shares)], ", ".join(aimed), said)

    def line(self) -> str:
        """A sentence on what is missed."""
        name, *_, cpu, mb, before, start, _ = self.cells
        of = [f"{own} of {what}" for own, what in ((start, "the start"), (before, "0.1.0")) if own]
        shares = f"; of the time {', '.join(of)}" if of else ""
        return f"- {name}: {cpu} s, {mb} MB{shares}; {self.said}: {self.aimed or 'no target'}\n"


def share(before: Run | None, after: Run, what: str) -> float | None:
    """How much of what a version took this one takes; None where one of the two gave no answer."""
    if before is None or before.why or after.why:
        return None
    return float(getattr(after, what) / getattr(before, what))


def told(own: Run | None) -> list[str]:
    if own is None:
        return ["", ""]
    return [f"{own.cpu:.2f}" if not own.why else own.why.split(":")[0], f"{own.mb:.0f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="a checkout of 0.1.0")
    parser.add_argument("--start", type=Path, help="one of the last version before the work, of today's definitions")
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
    checkouts: dict[str, Path | None] = {"before": asked.before, "start": asked.start}
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for wait in waits():
            if asked.only and not any(fnmatch(wait.name, glob) for glob in asked.only):
                continue
            path = file_of(wait.study, folder) if wait.study and not asked.only_kept else None
            if wait.study and path is None and not asked.only_kept:
                rows.append(Row.absent(wait.name, "not there"))
                continue
            taken: dict[str, list[Run]] = {}
            for at in range(asked.times):
                for side, source in wait.sides(checkouts).items():
                    mine = [own for own in known if (own["name"], own["side"], own["at"]) == (wait.name, side, at)]
                    if mine:
                        taken.setdefault(side, []).append(Run(**mine[0]["run"]))
                        continue
                    if asked.only_kept:
                        continue
                    made = once(wait, side, path=path, folder=folder, source=source, limits=limits)
                    taken.setdefault(side, []).append(made)
                    print(f"{wait.name}, {side}: {made.told()}", file=sys.stderr, flush=True)
                    if asked.kept:
                        with asked.kept.open("a") as file:
                            file.write(
                                json.dumps({"name": wait.name, "side": side, "at": at, "run": vars(made)}) + "\n"
                            )
            if "after" not in taken:
                rows.append(Row.absent(wait.name, "not run"))
                continue
            rows.append(Row.of(wait, {side: middle(runs) for side, runs in taken.items()}))
    whole = page(rows, asked.times, asked.note)
    if asked.write or (asked.before and not asked.only):
        PAGE.write_text(whole)
    print(whole)


def page(rows: list[Row], times: int, note: str) -> str:
    """Markdown: what misses its target first, then all."""
    absent = [own.cells[0] for own in rows if len(own.cells) == 1]
    rows = [own for own in rows if len(own.cells) > 1]
    left = f"\nNot run this time, or not there: {'; '.join(absent)}.\n" if absent else ""
    slow = "".join(own.line() for own in rows if own.said)
    heads = ["what", "0.1.0, CPU s", "MB", "start, CPU s", "MB", "after, CPU s", "MB"]
    heads += ["time, of 0.1.0", "of the start", "memory", "target", ""]
    runs = f"medians of {times} runs in turn" if times > 1 else "one run each, in turn"
    return f"""# Waits

`python benchmarks/waits.py --before CHECKOUT_OF_0.1.0 --start CHECKOUT`: verbs as users call them, CPU seconds (user
and system) and the highest resident memory, {runs}. The start is the last version before the work on speed, with
today's definitions; targets, "slower" and the share of memory are against it where it was run, else against 0.1.0.
{machine()}.{" " + note if note else ""}

## Missed targets, and what is slower than before
{slow or "- none" + chr(10)}
## All

{table(heads, [[*own.cells, own.aimed, own.said] for own in rows])}{left}"""


if __name__ == "__main__":
    main()
