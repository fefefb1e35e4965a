"""Time and memory for counting ratings: Polars, DuckDB (with a limit), pandas, Ibis, Dask, PySpark.

`python benchmarks/counting.py` writes about 0.6 GB to a temporary folder and deletes it. Every case runs in a separate
process, so that its peak memory (the high-water mark of its resident set) is separate, too. The driver imports nothing
large, because on Linux a child's high-water mark starts at its parent's.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

SYSTEMS, RATERS = 200, ("person", "metric1", "metric2", "metric3", "metric4")
PART = 200_000
MEMORY_LIMITS = {"duckdb": "300MB", "duckdb-small": "250MB"}
"""The smaller limit is for the largest table, with one thread: each thread pins memory that cannot spill."""
SPILL = "spill"
ROOT = Path(__file__).parents[1]


def make(folder: Path) -> dict[str, Any]:
    """Write sparse studies (5 of 200 systems per item) of growing size, a slice for the peer, and a dense study."""
    import polars as pl

    parts = []
    for k in range(8):
        parts.append(folder / f"part{k}.parquet")
        ratings(first=k * PART, items=PART, per_item=5, seed=k).write_parquet(parts[-1])
    for n in (1, 2, 4, 8):
        pl.scan_parquet(parts[:n]).sink_parquet(folder / f"sparse{n * PART}.parquet")
    for part in parts:
        part.unlink()
    ratings(first=0, items=2_000, per_item=SYSTEMS, seed=0).write_parquet(folder / "dense.parquet")
    return {}


def ratings(*, first: int, items: int, per_item: int, seed: int) -> Any:
    """Rows sorted by rater, as when files are joined; scores are continuous, which compresses badly."""
    import numpy as np
    import polars as pl

    rng = np.random.default_rng(seed)
    # A random start and a step without common factor with the number of systems give distinct systems for every item.
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


def with_duckdb(path: Path, case: str = "duckdb") -> Any:
    import duckdb

    from custodes.data.counting import count_pairs

    spill = path.parent / SPILL
    with duckdb.connect() as connection:
        connection.execute(f"set memory_limit = '{MEMORY_LIMITS[case]}'; set temp_directory = '{spill}'")
        if case == "duckdb-small":
            connection.execute("set threads = 1")
        return count_pairs(connection.read_parquet(str(path)), human="person").paired


def with_little(path: Path) -> Any:
    """DuckDB with less memory than the size of the file."""
    return with_duckdb(path, "duckdb-small")


def with_pandas(path: Path) -> Any:
    """Direct implementation in pandas: pivot, merge with itself, signs, crosstab by group."""
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


def behind() -> Path:
    """Packages of the environment of engines, which `make test-slow` creates."""
    folder = next((ROOT / ".venv-engines" / "lib").glob("python*/site-packages"), None)
    if folder is None:
        raise SystemExit("make .venv-engines/.installed first: Ibis, Dask and PySpark are measured there")
    sys.path.append(str(folder))
    return folder


def with_ibis(path: Path) -> Any:
    behind()
    import ibis

    from custodes.data.counting import count_pairs

    return count_pairs(ibis.read_parquet(path), human="person").paired


def with_dask(path: Path) -> Any:
    behind()
    import dask.dataframe

    from custodes.data.counting import count_pairs

    return count_pairs(dask.dataframe.read_parquet(path), human="person").paired


def with_pyspark(path: Path) -> Any:
    """Local cluster of two executors, with one core and 2 GiB each."""
    os.environ["SPARK_HOME"] = str(behind() / "pyspark")
    from pyspark.sql import SparkSession

    from custodes.data.counting import count_pairs

    spark = SparkSession.builder.master("local-cluster[2,1,2048]").config("spark.ui.enabled", "false")
    spark = spark.config("spark.executor.memory", "2g").config("spark.driver.host", "127.0.0.1")
    spark = (
        spark.config("spark.driver.bindAddress", "127.0.0.1").config("spark.sql.shuffle.partitions", "8").getOrCreate()
    )
    try:
        return count_pairs(spark.read.parquet(str(path)), human="person").paired
    finally:
        spark.stop()


CASES: dict[str, Callable[[Path], Any]] = {
    "make": make,
    "polars": with_polars,
    "duckdb": with_duckdb,
    "duckdb-small": with_little,
    "pandas": with_pandas,
    "ibis": with_ibis,
    "dask": with_dask,
    "pyspark": with_pyspark,
}


def measured(case: str, path: Path) -> None:
    """Run one case and print a digest of its counts, which is equal for equal bits only."""
    paired, results = CASES[case](path), {}
    if case != "make":
        import numpy as np

        paired = paired[paired.any(axis=(1, 2, 3))]  # pandas has no rows for pairs without common items
        results["compared"] = int(paired.sum())
        results["check"] = sha256(np.ascontiguousarray(paired, dtype=np.int64).tobytes()).hexdigest()
    print(json.dumps(results))


def run(case: str, path: Path) -> dict[str, Any]:
    """Run one case; return CPU seconds and peak memory of its process and all descendants (a JVM, its executors)."""
    command = [sys.executable, "-W", "ignore", __file__, "--case", case, "--path", str(path)]
    ticks, page, cpu, peak = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE"), dict[str, float](), 0
    spilled = 0
    with tempfile.TemporaryFile("w+") as out:
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
        while child.poll() is None:
            resident = 0
            for number, seconds, pages in below(child.pid):
                cpu[number] = seconds / ticks
                resident += pages * page
            peak = max(peak, resident)
            spilled = max(spilled, disk_usage(path.parent / SPILL))
            time.sleep(0.2)
        if child.returncode:
            raise SystemExit(f"{case} failed")
        out.seek(0)
        return json.loads(out.read().strip().splitlines()[-1]) | {
            "cpu": sum(cpu.values()),
            "gib": peak / 2**30,
            "spilled": spilled / 1e9,
        }


def disk_usage(folder: Path) -> int:
    """Current size of the files of a folder on disk, in bytes."""
    total = 0
    for file in folder.glob("*"):
        try:
            total += 512 * file.stat().st_blocks
        except OSError:
            continue  # deleted meanwhile
    return total


def below(root: int) -> list[tuple[str, int, int]]:
    """A process and its descendants: process ID, CPU ticks, resident pages."""
    parents, facts = dict[str, str](), dict[str, tuple[int, int]]()
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[place.parent.name] = fields[1]
        facts[place.parent.name] = (int(fields[11]) + int(fields[12]), int(fields[21]))
    processes, more = set[str](), {str(root)}
    while more:
        processes |= more
        more = {number for number, parent in parents.items() if parent in more} - processes
    return [(number, *facts[number]) for number in processes if number in facts]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=list(CASES))
    parser.add_argument("--path", type=Path)
    parser.add_argument("--engines", action="store_true", help="only the table of engines, on 5 million ratings")
    arguments = parser.parse_args()
    if arguments.case:
        measured(arguments.case, arguments.path)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run("make", folder)
        print("| engine | study | ratings | file MB | CPU s | peak GiB | spilled GB |\n|---|---|---|---|---|---|---|")
        results: dict[tuple[str, str], dict[str, Any]] = {}
        engines = [(case, "sparse200000") for case in CASES if case not in ("make", "duckdb-small")]
        growth = [
            *(("polars", f"sparse{n}00000") for n in (4, 8, 16)),
            *(("duckdb", f"sparse{n}00000") for n in (4, 16)),
            ("duckdb-small", "sparse1600000"),
            ("polars", "dense"),
            ("duckdb", "dense"),
        ]
        for case, file in engines + ([] if arguments.engines else growth):
            path = folder / f"{file}.parquet"
            seen = results[case, file] = run(case, path)
            # Every compared pair of outputs of an item counts once per metric.
            items, per_item = (2_000, SYSTEMS) if file == "dense" else (seen["compared"] // 40, 5)
            label = f"duckdb, limit {MEMORY_LIMITS[case]}" if case in MEMORY_LIMITS else case
            print(
                f"| {label} | {items:,} items x {per_item} of {SYSTEMS} systems | {items * per_item * len(RATERS):,}"
                f" | {path.stat().st_size / 1e6:.0f} | {seen['cpu']:.1f} | {seen['gib']:.2f} | {seen['spilled']:.2f} |",
                flush=True,
            )
        for (_, file), seen in results.items():
            assert seen["check"] == results["polars", file]["check"]
        print("\nAll engines count the same.")


if __name__ == "__main__":
    main()
