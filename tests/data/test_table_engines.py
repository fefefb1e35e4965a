"""Counts of cluster engines equal those of Polars, each in a process with the packages of .venv-engines."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import custodes as cu

ROOT = Path(__file__).parents[2]
PACKAGES = next((ROOT / ".venv-engines" / "lib").glob("python*/site-packages"), ROOT / ".venv-engines")
SYSTEMS = ("Ä", "b10", "b9", "m", "M")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PACKAGES.is_dir(), reason="the environment of engines is not made (.venv-engines)"),
]

SCRIPT = """
import json, os, sys

engine, packages, folder = sys.argv[1:]
sys.path.append(packages)
import custodes as cu

ratings, battles = (os.path.join(folder, f"{name}.parquet") for name in ("ratings", "battles"))
if engine == "pyspark":
    os.environ["SPARK_HOME"] = os.path.join(packages, "pyspark")
    from pyspark.sql import SparkSession

    # A cluster of two executors, each a process of its own with one core and 1 GiB.
    spark = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false")
    spark = spark.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    spark = spark.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    read = spark.read.parquet
elif engine == "dask":
    import dask.dataframe

    read = dask.dataframe.read_parquet
else:
    import ibis

    read = ibis.read_parquet
pairs = cu.count_pairs(read(ratings), human=["ann", "bob"], ties=0.25, directions={"comet": -1})
counts = cu.count_battles(read(battles))
try:
    cu.count_pairs(read(ratings), human="nobody")
except cu.CustodesError as problem:
    error = str(problem)
if engine == "pyspark":
    # What goes wrong inside an executor comes back as one line.
    from pyspark.sql.functions import raise_error, when, col, lit

    score = when(col("score") > 4, raise_error(lit("no space left on device"))).otherwise(col("score"))
    broken = read(ratings).withColumn("score", score)
    try:
        cu.count_pairs(broken, human="ann")
    except cu.InputError as problem:
        error = f"{error}|{problem}"
    spark.stop()
names = ("paired", "metric_only", "human_only")
tables = [getattr(each, name).tolist() for each in (pairs, counts) for name in names]
print(json.dumps({"pairs": tables, "battles": counts.outcomes.rows(), "items": counts.items, "error": error}))
"""


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write ratings with gaps, and verdicts in both orders with repeats and empty cells."""
    folder, rng = tmp_path_factory.mktemp("engines"), np.random.default_rng(0)
    keys = [(f"i{i}", s, r) for i in range(40) for s in SYSTEMS for r in ("ann", "bob", "bleu", "comet")]
    ratings = pl.DataFrame(keys, schema=["item", "system", "rater"], orient="row")
    ratings = ratings.with_columns(score=pl.Series(rng.integers(0, 20, len(keys)) / 4))
    ratings.filter(pl.Series(rng.random(len(keys)) < 0.7)).write_parquet(folder / "ratings.parquet")
    battle_rows = [
        (f"i{i}", a, b, rater, "metric" if rater == "judge" else "human", order, repeat)
        for i in range(20)
        for a, b in (("Ä", "b9"), ("b10", "b9"), ("m", "M"))
        for rater in ("ann", "bob", "judge")
        for order in ("ab", "ba")
        for repeat in (0, 1)
    ]
    names = ["item", "model_a", "model_b", "rater", "kind", "order", "repeat"]
    battles = pl.DataFrame(battle_rows, schema=names, orient="row").with_columns(
        winner=pl.Series(rng.choice(["model_a", "model_b", "tie", ""], len(battle_rows)))
    )
    battles.filter(pl.Series(rng.random(len(battle_rows)) < 0.7)).write_parquet(folder / "battles.parquet")
    return folder


@pytest.mark.parametrize("engine", ["ibis", "dask", "pyspark"])
def test_an_engine_counts_what_polars_counts(engine: str, tables: Path) -> None:
    if engine == "pyspark" and shutil.which("java") is None:
        pytest.skip("PySpark wants Java (Debian: apt-get install default-jre-headless)")
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, engine, str(PACKAGES), str(tables)],
        capture_output=True,
        text=True,
        timeout=3600,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    output: dict[str, Any] = json.loads(ran.stdout.strip().splitlines()[-1])
    pairs = cu.count_pairs(
        pl.scan_parquet(tables / "ratings.parquet"), human=["ann", "bob"], ties=0.25, directions={"comet": -1.0}
    )
    battles = cu.count_battles(pl.scan_parquet(tables / "battles.parquet"))
    expected = [
        getattr(counts, name) for counts in (pairs, battles) for name in ("paired", "metric_only", "human_only")
    ]
    for counts, theirs in zip(expected, output["pairs"], strict=True):
        np.testing.assert_array_equal(np.array(theirs), counts)
    assert [tuple(row) for row in output["battles"]] == battles.outcomes.rows()
    assert output["items"] == battles.items
    first, *others = output["error"].split("|")
    assert first.startswith("count_pairs: human='nobody': no such rater; raters: ann, bleu, bob, comet")
    if engine == "pyspark":
        (broken,) = others
        assert broken.startswith("count_pairs: ")
        assert broken.endswith("which writes to disk (--spill FOLDER)")
