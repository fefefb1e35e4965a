"""Growth of time and memory of every command with the size of a study, compared with the size of the answer.

    python benchmarks/growth.py                                    # everything, written to benchmarks/growth.md (hours)
    python benchmarks/growth.py --quick                            # the same on smaller studies (about 20 minutes)
    python benchmarks/growth.py --verb agreement --by items        # one verb, one dimension: printed only
    python benchmarks/growth.py --verb check --by items --sizes 1000,10000 --seconds 60

Every case is a command in a separate process with limits on CPU seconds and memory; after a case that exceeds one,
larger ones are skipped. With --kept FILE each case is saved to the file, and saved cases are not repeated. An exponent
is the slope of log time (memory, answer) against log size over the upper half of the sizes, after subtraction of the
values for the smallest study.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grids import DIMENSIONS, SMALLEST, VERBS, suits
from measuring import Run, custodes, machine, run, table

PAGE = Path(__file__).with_suffix(".md")
STUDIES = Path(__file__).with_name("studies.py")
TOLERANCE = 0.2
"""Exponents may exceed their bound by this much, because they come from few sizes on a shared machine."""
LEAST_SECONDS, LEAST_MB = 0.15, 15
"""Smaller differences from the smallest study are noise, and have no exponent."""


@dataclass(frozen=True)
class Case:
    """One command on one study."""

    verb: str
    by: str
    size: int
    run: Run
    answer: int

    @staticmethod
    def read(line: str) -> Case:
        data = json.loads(line)
        return Case(data["verb"], data["by"], data["size"], Run(**data["run"]), data["answer"])

    def line(self) -> str:
        return json.dumps({**vars(self), "run": vars(self.run)})


def command(verb: str, by: str, size: int, study: Path, answer: Path) -> list[str | Path]:
    """Arguments of the command line."""
    options: list[str | Path] = list(VERBS[verb])
    if by == "resamples":
        options += ["--resamples", str(size)]
    if verb == "combine fit" and by == "aspects" and size > 1:
        options += [word for a in range(size) for word in ("--target", f"aspect{a}")]
    if verb != "report":
        options += ["--format", "json"]
    if verb in ("report", "combine fit"):
        options += ["--output", answer.with_suffix(".html" if verb == "report" else ".model.json")]
    source: list[str | Path] = [study]
    return custodes(*verb.split(), *source, *options, "--quiet")


def answer_size(path: Path) -> int:
    """Number of rows in all tables of an answer, or bytes of a page.

    Computed in a separate process, because an answer may be large.
    """
    if path.suffix == ".html":
        return path.stat().st_size
    count = "import json, sys; print(sum(len(t) for t in json.load(open(sys.argv[1])).values() if isinstance(t, list)))"
    process = subprocess.run([sys.executable, "-c", count, path], capture_output=True, text=True, check=True)
    return int(process.stdout)


def measured(verb: str, by: str, size: int, sizes: dict[str, int], *, limits: dict[str, float], folder: Path) -> Case:
    """Create the study if necessary, run the command, and measure the answer."""
    dimension = DIMENSIONS[by]
    sized = [f"{name}={value}" for name, value in sizes.items()]
    study = folder / ("-".join([dimension.kind, *sized]) + ".parquet")
    if not study.exists():
        subprocess.run([sys.executable, STUDIES, dimension.kind, study, *sized], check=True)
    answer = folder / "answer.json"
    took = run(command(verb, by, size, study, answer), out=answer, **limits)
    rows = answer_size(answer.with_suffix(".html") if verb == "report" else answer) if not took.why else 0
    return Case(verb, by, size, took, rows)


def series(
    verb: str, by: str, sizes: tuple[int, ...], *, saved: list[Case], path: Path | None, only_known: bool, **how: Any
) -> list[Case]:
    """Run the smallest study (size 0), then every size until a limit is exceeded."""
    dimension, results = DIMENSIONS[by], []
    for size in (0, *sizes):
        case = next((value for value in saved if (value.verb, value.by, value.size) == (verb, by, size)), None)
        if case is None and not size and by != "resamples":  # the smallest study is common to other dimensions
            same = [name for name, value in DIMENSIONS.items() if value.kind == dimension.kind and name != "resamples"]
            case = next((value for value in saved if value.verb == verb and value.by in same and not value.size), None)
            case = case and replace(case, by=by)
        if case is None and only_known:
            break
        if case is None:
            grown = {} if by == "resamples" else {by: size}
            steps = 250 if by == "resamples" and not size else size
            case = measured(verb, by, steps, dimension.fixed | grown if size else SMALLEST[dimension.kind], **how)
            case = Case(verb, by, size, case.run, case.answer)
            saved.append(case)
            if path:
                with path.open("a") as file:
                    file.write(case.line() + "\n")
        results.append(case)
        print(f"{verb}, {size} {by}: {case.run.told()}, answer {case.answer:,}", file=sys.stderr, flush=True)
        if case.run.why:
            break
    return results


def exponent(cases: list[Case], values: list[float], *, start: float, least: float) -> float | None:
    """Slope of log(value - start) against log(size) over the upper half; None for small values or few sizes."""
    upper = len(cases) // 2
    points = [
        (math.log(case.size), math.log(value - start))
        for case, value in list(zip(cases, values, strict=True))[upper if len(cases) > 2 else 0 :]
        if value - start > least
    ]
    if len(points) < 2:
        return None
    x, y = (sum(axis) / len(points) for axis in zip(*points, strict=True))
    return sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)


def summary(cases: list[Case]) -> tuple[list[str], str]:
    """Cells of one command: seconds and memory by size, and exponents; and a sentence if growth exceeds its bound."""
    first, *rest = cases
    good = [case for case in rest if not case.run.why]
    time = exponent(good, [case.run.cpu for case in good], start=first.run.cpu, least=LEAST_SECONDS)
    memory = exponent(good, [case.run.mb for case in good], start=first.run.mb, least=LEAST_MB)
    answer = exponent(good, [float(case.answer) for case in good], start=0, least=0)
    results = [
        f"{case.run.cpu:.1f} s, {case.run.mb:.0f} MB" if not case.run.why else case.run.why.split(":")[0]
        for case in cases
    ]
    results += ["" for _ in range(len(DIMENSIONS[first.by].sizes) + 1 - len(results))]
    bound = max(1.0, answer or 0.0) + TOLERANCE
    over = [
        f"{what} {value:.2f}"
        for what, value in (("time", time), ("memory", memory))
        if value is not None and value > bound
    ]
    ended = [case for case in rest if case.run.why]
    words = ""
    if over:
        words += f"`{first.verb}` by {first.by}: {' and '.join(over)}, answer {answer or 0:.2f}"
    if ended:
        words += ("; " if words else f"`{first.verb}` by {first.by}: ") + f"{ended[0].size:,}: {ended[0].run.why}"
    number = ["flat" if value is None else f"{value:.2f}" for value in (time, memory, answer)]
    return [f"`{first.verb}`", *results, *(number if good else ["", "", ""])], words


def page(results: dict[str, list[list[Case]]], *, verbs: list[str], seconds: float, gib: float, note: str) -> str:
    """Markdown with commands above their bound, then a table for each dimension."""
    parts, passing = [], []
    for by, rows in results.items():
        sizes = [f"{size:,}" for size in DIMENSIONS[by].sizes]
        cells = []
        for cases in (row for row in rows if len(row) > 1):
            lines, words = summary(cases)
            cells.append(lines)
            passing += [words] if words else []
        heads = ["verb", "smallest", *sizes, "time ~ n^", "memory ~ n^", "answer ~ n^"]
        verbs_with_cases = {cases[0].verb for cases in rows if len(cases) > 1}
        absent = ", ".join(f"`{verb}`" for verb in verbs if verb not in verbs_with_cases and suits(verb, by))
        words = f"\nNot run this time: {absent}.\n" if absent else ""
        text = table(heads, cells) if cells else ""
        parts.append(f"## By {by}\n\n{DIMENSIONS[by].told}.\n\n{text}{words}")
    over = "\n".join(f"- {words}" for words in passing) or "- none of the cases that were run"
    return f"""# Growth

`python benchmarks/growth.py` (`--quick`: smaller studies) runs every command on simulated studies of growing size, each
case in a separate process. The tables have CPU seconds (user and system) and peak resident memory. A case is ended at
{seconds:g} CPU seconds or {gib:g} GiB of memory.
{machine()}.{" " + note if note else ""}

An exponent is the slope of the logarithm of time, memory or size of the answer (rows; bytes of the page for `report`)
against the logarithm of the study's size. The exponent is computed over the upper half of the sizes, after the values
of the smallest study are subtracted. A cell is `flat` if the difference is below {LEAST_SECONDS:g} s or
{LEAST_MB} MB. Every command reads its input, so an exponent of 1 cannot be avoided. The bound of an exponent is the
larger of 1 and the exponent of the answer, plus {TOLERANCE:g} for noise.

## Above the bound, or ended by a limit
{over}

""" + "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--verb", action="append", choices=list(VERBS), help="repeatable; default: all")
    parser.add_argument("--by", action="append", choices=list(DIMENSIONS), help="repeatable; default: all")
    parser.add_argument("--sizes", help="comma list instead of those of the dimension")
    parser.add_argument("--quick", action="store_true", help="smaller studies, and 20 s a case")
    parser.add_argument("--seconds", type=float, help="CPU limit of a case (default 120)")
    parser.add_argument("--gib", type=float, default=10, help="limit of memory of a case (default 10)")
    parser.add_argument("--kept", type=Path, help="JSON lines: cases are added, and not run again")
    parser.add_argument("--only-kept", action="store_true", help="run nothing: write the page from what --kept holds")
    parser.add_argument("--note", default="", help="a sentence for the head of the page")
    parser.add_argument("--source", type=Path, help="folder of another version of the package: OTHER/src")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name} also when only a part was asked for")
    arguments = parser.parse_args()
    verbs, dimensions = arguments.verb or list(VERBS), arguments.by or list(DIMENSIONS)
    lines = arguments.kept.read_text().splitlines() if arguments.kept and arguments.kept.exists() else []
    saved = [Case.read(line) for line in lines]
    seconds = arguments.seconds or (20 if arguments.quick else 120)
    results: dict[str, list[list[Case]]] = {}
    with tempfile.TemporaryDirectory() as name:
        for by in dimensions:
            dimension = DIMENSIONS[by]
            if arguments.sizes or arguments.quick:
                sizes = tuple(map(int, arguments.sizes.split(","))) if arguments.sizes else dimension.quick
                DIMENSIONS[by] = dimension = replace(dimension, sizes=sizes)
            suited = [verb for verb in verbs if suits(verb, by)]
            limits = {"seconds": seconds, "gib": arguments.gib, "source": arguments.source}
            how = {"limits": limits, "folder": Path(name)}
            results[by] = [
                series(
                    verb, by, dimension.sizes, saved=saved, path=arguments.kept, only_known=arguments.only_kept, **how
                )
                for verb in suited
            ]
    text = page(results, verbs=verbs, seconds=seconds, gib=arguments.gib, note=arguments.note)
    if arguments.write or not (arguments.verb or arguments.by or arguments.sizes):
        PAGE.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
