"""Comparison with other packages: the same data, the same numbers, CPU seconds and memory; the core of `make bench`.

    python benchmarks/peers.py                        # all, printed; --write puts the table into README.md
    python benchmarks/peers.py --only 'crowd*'

The Makefile creates the environment `.venv-peers` from tests/environments/peers.txt (--peers names another one);
missing peers are reported and skipped. Each side is a separate process with one thread that does the work twice. CPU
seconds of the second run exclude imports and compilation, those of the first run include them; neither includes loading
of data. Memory is the peak resident memory of the process. The exit status is 1 if numbers differ by more than their
tolerance.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from typing import Any

from beside import Beside, Work
from measuring import ONE_THREAD, ORACLES, PEERS, ROOT, machine, python_with, table

SUBJECTS = ("agreement", "strength", "people", "correction", "learning", "counting", "texts")
README = Path(__file__).with_name("README.md")
START, END = "<!-- peers: made by peers.py --write -->\n", "<!-- end of peers -->\n"
HEADS = (
    *("peer", "what", "ours, CPU s", "peer's", "peer's to ours"),
    *("ours, first call", "peer's", "ours, MB", "peer's", "numbers differ by"),
)
WORTH = 1.1
"""Smaller ratios of memory are noise."""
NOISE = 1.6
"""Ratio of CPU seconds of equal work on a busy machine."""
Row = tuple[list[str], list[str], bool]
Made = dict[str, Any]


def comparisons() -> list[Beside]:
    return [value for name in SUBJECTS for value in import_module(f"beside.{name}").COMPARISONS]


def side(peer: str, which: str, folder: Path) -> None:
    """Write the data, or do the work of one side, in this process."""
    comparison = next(one for one in comparisons() if one.peer == peer)
    if which == "data":
        comparison.data(folder)
        return
    work = getattr(comparison, which)(folder)
    (_, first), (numbers, seconds) = timed(work), timed(work)
    mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    results = {"first": first, "seconds": seconds, "mb": mb, "numbers": numbers}
    (folder / f"{which}.json").write_text(json.dumps(results))


def timed(work: Work) -> tuple[list[float], float]:
    """Numbers and CPU seconds; the work may return scaled seconds."""
    began = time.process_time()
    result = work()
    seconds = time.process_time() - began
    return result if isinstance(result, tuple) else (result, seconds)


def run_side(python: Path, comparison: Beside, which: str, folder: Path) -> dict[str, Any]:
    """Run one side in a separate process."""
    import os

    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": str(ROOT / "src"), "JAX_PLATFORMS": "cpu"}
    command = [
        str(python),
        "-W",
        "ignore",
        __file__,
        "--side",
        which,
        "--peer",
        comparison.peer,
        "--folder",
        str(folder),
    ]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(
            f"{comparison.peer}, {which}: {(ran.stderr.strip().splitlines() or ['no reason given'])[-1]}"
        )
    return json.loads((folder / f"{which}.json").read_text()) if which != "data" else {}


def compared(comparison: Beside, python: Path, times: int) -> Made:
    """Medians of both sides, and the difference of their numbers."""
    with tempfile.TemporaryDirectory() as name:
        folder, mine = Path(name), Path(sys.executable)
        run_side(mine, comparison, "data", folder)
        runs = [
            (run_side(mine, comparison, "ours", folder), run_side(python, comparison, "theirs", folder))
            for _ in range(times)
        ]
    ours, theirs = ([pair[k] for pair in runs] for k in (0, 1))
    x, y = ours[0]["numbers"], theirs[0]["numbers"]
    assert len(x) == len(y), f"{comparison.peer}: {len(x)} numbers and {len(y)}"
    if comparison.labels:
        difference = sum(a != b for a, b in zip(x, y, strict=True)) / len(x)
    else:
        difference = max(abs(a - b) for a, b in zip(x, y, strict=True))
    (mine, first, mb), (other, their_first, their_mb) = (
        [statistics.median(run[name] for run in runs_of) for name in ("seconds", "first", "mb")]
        for runs_of in (ours, theirs)
    )
    return {
        "peer": comparison.peer,
        "apart": difference,
        "ours": mine,
        "theirs": other,
        "first": first,
        "their_first": their_first,
        "mb": mb,
        "their_mb": their_mb,
    }


def row(comparison: Beside, result: Made) -> Row:
    """Cells of a row, where the peer is better, and whether the numbers agree."""
    mine, theirs, first, their_first = (result[name] for name in ("ours", "theirs", "first", "their_first"))
    mb, their_mb, same = result["mb"], result["their_mb"], result["apart"] <= comparison.tolerance
    difference = (
        f"{result['apart']:.0e} (<= {comparison.tolerance:g}{', ' + comparison.because if comparison.because else ''})"
    )
    behind = [f"in time, {theirs:.3g} s against our {mine:.3g}"] if theirs < mine else []
    behind += [f"in time beyond noise, {theirs:.3g} s against our {mine:.3g}"] if mine <= theirs < NOISE * mine else []
    behind += [f"in the first call, {their_first:.3g} s against our {first:.3g}"] if their_first < first else []
    behind += [f"in memory, {their_mb:.0f} MB against our {mb:.0f}"] if mb > WORTH * their_mb else []
    behind += [] if same else [f"other numbers, by {difference}"]
    cells = [f"{mine:.3g}", f"{theirs:.3g}", f"{theirs / max(mine, 1e-4):.3g}"]
    cells += [f"{first:.3g}", f"{their_first:.3g}", f"{mb:.0f}", f"{their_mb:.0f}"]
    return [comparison.peer, comparison.what, *cells, difference], behind, same


def page(rows: list[Row], missing: list[str], times: int) -> str:
    """Markdown: peers with less time or memory or with other numbers, then all, then missing peers."""
    behind = [f"- {cells[0]}: {'; '.join(reasons)}" for cells, reasons, _ in rows if reasons]
    ahead = "\n".join(behind) or "- none"
    away = f"\nNot there, or not run this time: {', '.join(missing)}.\n" if missing else ""
    runs = (
        f"Medians of {times} runs in turn."
        if times > 1
        else f"One run of each side, so ratios below {NOISE} may be noise."
    )
    whole = table(HEADS, [cells for cells, *_ in rows])
    return (
        "In these rows, the peer is about as fast or faster, or custodes needs over a tenth more memory:\n\n"
        f"{ahead}\n\n{whole}{away}\n{runs} {machine()}.\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, default=PEERS, help="an environment with the peers")
    parser.add_argument("--only", action="append", help="glob of names of peers; repeatable")
    parser.add_argument("--times", type=int, default=1, help="runs of each side, in turn (default 1)")
    parser.add_argument("--write", action="store_true", help=f"put the table into {README.name}")
    parser.add_argument("--kept", type=Path, help="JSON lines: comparisons are added, and not run again")
    parser.add_argument("--only-kept", action="store_true", help="run nothing: write the table from what --kept holds")
    parser.add_argument("--side", choices=["data", "ours", "theirs"], help=argparse.SUPPRESS)
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.metrics_on_side:
        side(arguments.peer, arguments.metrics_on_side, arguments.folder)
        return 0
    lines = arguments.kept.read_text().splitlines() if arguments.kept and arguments.kept.exists() else []
    cached = {result["peer"]: result for result in map(json.loads, lines)}
    rows, missing, failed = [], [], []
    for comparison in comparisons():
        if arguments.only and not any(fnmatch(comparison.peer, glob) for glob in arguments.only):
            continue
        if comparison.peer not in cached and arguments.only_kept:
            missing.append(comparison.peer)
            continue
        if comparison.peer not in cached:
            homes = {"peers": [arguments.peers], "oracles": [ORACLES], "ours": []}[comparison.home]
            python = python_with(comparison.module, *homes)
            if python is None or not all(Path(path).exists() for path in comparison.needs):
                missing.append(comparison.peer)
                continue
            try:
                cached[comparison.peer] = compared(comparison, python, arguments.times)
            except RuntimeError as problem:
                failed.append(str(problem))
                missing.append(comparison.peer)
                continue
            if arguments.kept:
                with arguments.kept.open("a") as file:
                    file.write(json.dumps(cached[comparison.peer]) + "\n")
        rows.append(row(comparison, cached[comparison.peer]))
        print(" | ".join(rows[-1][0]), file=sys.stderr, flush=True)
    table_text = page(rows, missing, arguments.times)
    print(table_text)
    if arguments.write:
        text = README.read_text()
        head, rest = text.split(START)
        README.write_text(head + START + table_text + END + rest.split(END)[1])
    for problem in failed:
        print(problem, file=sys.stderr)
    return int(bool(failed) or not all(same for *_, same in rows))


if __name__ == "__main__":
    sys.exit(main())
