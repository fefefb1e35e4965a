"""How long and in how much memory ratings become counts: Polars, DuckDB under a memory limit, and pandas beside them.

Run it with `python benchmarks/counting.py`; it writes about 0.6 GB to a temporary folder and deletes it. Every case is
a process of its own, so that its peak memory (the high-water mark of its resident set) is its own. The driver imports
nothing large, since Linux starts a child's high-water mark at its parent's.
"""

from __future__ import annotations

import argparse
import importlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SYSTEMS, RATERS = 200, ("person", "metric1", "metric2", "metric3", "metric4")
PART = 200_000
MEMORY_LIMIT = "300MB"


def make(folder: Path) -> dict[str, Any]:
    """Sparse studies (5 of 200 systems an item) of growing size, a slice for the peer, and a dense one."""
    import polars as pl

    parts = []
    for k in range(8):
        parts.append(folder / f"part{k}.parquet")
        ratings(first=k * PART, items=PART, per_item=5, seed=k).write_parquet(parts[-1])
    for n in (1, 2, 4, 8):
        pl.scan_parquet(parts[:n]).sink_parquet(folder / f"sparse{n * PART}.parquet")
    for part in parts:
        part.unlink()
    ratings(first=0, items=20_000, per_item=5, seed=0).write_parquet(folder / "slice.parquet")
    ratings(first=0, items=2_000, per_item=SYSTEMS, seed=0).write_parquet(folder / "dense.parquet")
    return {}


def ratings(*, first: int, items: int, per_item: int, seed: int) -> Any:
    """One rater after the other, as when files are joined; scores are random doubles, which compress badly."""
    import numpy as np
    import polars as pl

    rng = np.random.default_rng(seed)
    # A random start and a step that shares no factor with the number of systems: distinct systems for every item.
    steps = np.array([step for step in range(1, SYSTEMS) if np.gcd(step, SYSTEMS) == 1])
    start, step = rng.integers(SYSTEMS, size=(items, 1)), rng.choice(steps, size=(items, 1))
    system = ((start + step * np.arange(per_item)) % SYSTEMS).ravel()
    outputs = pl.DataFrame(
        {
            "item": pl.select(pl.format("item{}", pl.int_range(first, first + items)))
            .to_series()
            .gather(np.repeat(np.arange(items), per_item)),
            "system": pl.Series([f"system{k:03}" for k in range(SYSTEMS)]).gather(system),
        }
    )
    quality = system / SYSTEMS + rng.normal(size=system.size)
    frames = []
    for rater in RATERS:
        score = quality + rng.normal(size=system.size)
        if rater == "person":
            score = np.clip(np.rint(score + 3), 1, 5)
        frames.append(outputs.with_columns(rater=pl.lit(rater), score=score))
    return pl.concat(frames)


def with_polars(path: Path) -> Any:
    import polars as pl

    from custodes.data.counting import count_pairs

    return count_pairs(pl.scan_parquet(path), human="person").paired


def with_duckdb(path: Path) -> Any:
    import duckdb

    from custodes.data.counting import count_pairs

    with tempfile.TemporaryDirectory(dir=path.parent) as spill, duckdb.connect() as connection:
        connection.execute(f"set memory_limit = '{MEMORY_LIMIT}'; set temp_directory = '{spill}'")
        return count_pairs(connection.read_parquet(str(path)), human="person").paired


def with_pandas(path: Path) -> Any:
    """The same in pandas as one would write it: pivot, merge with itself, signs, crosstab by group."""
    import numpy as np
    import pandas as pd

    frame = pd.read_parquet(path)
    wide = frame.pivot_table(index=["item", "system"], columns="rater", values="score").reset_index()
    pairs = wide.merge(wide, on="item", suffixes=("_a", "_b"))
    pairs = pairs[pairs["system_a"] < pairs["system_b"]]
    tables = []
    for metric in RATERS[1:]:
        signs = {r: np.sign(pairs[f"{r}_a"] - pairs[f"{r}_b"]) for r in ("person", metric)}
        key = [pairs["system_a"], pairs["system_b"], 1 - signs["person"], 1 - signs[metric]]
        cells = pairs.groupby(key).size().unstack([2, 3], fill_value=0)
        columns = pd.MultiIndex.from_product([[0.0, 1.0, 2.0]] * 2)
        tables.append(cells.reindex(columns=columns, fill_value=0).to_numpy().reshape(-1, 3, 3))
    return np.stack(tables, axis=1)


CASES: dict[str, Callable[[Path], Any]] = {
    "make": make,
    "polars": with_polars,
    "duckdb": with_duckdb,
    "pandas": with_pandas,
}


LIBRARIES = {
    "make": ("polars",),
    "polars": ("custodes.data.counting",),
    "duckdb": ("duckdb", "custodes.data.counting"),
    "pandas": ("pandas", "pyarrow.parquet"),
}


def measured(case: str, path: Path) -> None:
    """Run one case and print what it took; imports are outside the seconds, but inside the memory."""
    for library in LIBRARIES[case]:
        importlib.import_module(library)
    began = time.perf_counter()
    paired = CASES[case](path)
    found = {"seconds": time.perf_counter() - began}
    found["gib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    if case != "make":
        # A checksum of the table, not only of its sum: pairs, metrics and cells weigh differently.
        import numpy as np

        paired = paired[paired.any(axis=(1, 2, 3))]  # pandas has no rows for pairs that share no item
        found["compared"] = int(paired.sum())
        found["check"] = int((paired.ravel() * (1 + np.arange(paired.size) % 997)).sum())
    print(json.dumps(found))


def run(case: str, path: Path) -> dict[str, Any]:
    command = [sys.executable, __file__, "--case", case, "--path", str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=list(CASES))
    parser.add_argument("--path", type=Path)
    given = parser.parse_args()
    if given.case:
        measured(given.case, given.path)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"data made in {run('make', folder)['seconds']:.0f} s\n")
        print("| engine | study | ratings | file MB | seconds | peak GiB |\n|---|---|---|---|---|---|")
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for case, file, study in (
            ("polars", "sparse200000", "200,000 items x 5 of 200 systems"),
            ("polars", "sparse400000", "400,000 items x 5 of 200 systems"),
            ("polars", "sparse800000", "800,000 items x 5 of 200 systems"),
            ("polars", "sparse1600000", "1,600,000 items x 5 of 200 systems"),
            ("duckdb", "sparse400000", "400,000 items x 5 of 200 systems"),
            ("duckdb", "sparse1600000", "1,600,000 items x 5 of 200 systems"),
            ("polars", "dense", "2,000 items x 200 systems"),
            ("duckdb", "dense", "2,000 items x 200 systems"),
            ("polars", "slice", "20,000 items x 5 of 200 systems"),
            ("pandas", "slice", "20,000 items x 5 of 200 systems"),
        ):
            path = folder / f"{file}.parquet"
            seen = found[case, file] = run(case, path)
            # Every compared pair of outputs of an item counts once a metric.
            items, per_item = (2_000, SYSTEMS) if file == "dense" else (seen["compared"] // 40, 5)
            label = f"duckdb, limit {MEMORY_LIMIT}" if case == "duckdb" else case
            print(
                f"| {label} | {study} | {items * per_item * len(RATERS):,} | {path.stat().st_size / 1e6:.0f}"
                f" | {seen['seconds']:.1f} | {seen['gib']:.2f} |",
                flush=True,
            )
        for file in ("sparse400000", "sparse1600000", "dense"):
            assert found["polars", file]["check"] == found["duckdb", file]["check"]
        assert found["polars", "slice"]["check"] == found["pandas", "slice"]["check"]
        ratio = found["pandas", "slice"]["seconds"] / found["polars", "slice"]["seconds"]
        print(f"\nAll engines count the same. pandas takes {ratio:.1f} times as long as Polars on the slice.")


if __name__ == "__main__":
    main()
