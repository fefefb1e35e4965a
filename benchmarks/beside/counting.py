"""Wins, ties and losses of all pairs of systems, humans against metrics, from Parquet, compared with pandas."""

from __future__ import annotations

from pathlib import Path

from beside import Beside, Work

ITEMS, SYSTEMS, EACH, METRICS = 100_000, 200, 5, 4


def data(folder: Path) -> None:
    """5 of 200 systems per item, with continuous random scores."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    start, step = rng.integers(SYSTEMS, size=(ITEMS, 1)), rng.choice([1, 3, 7, 11, 13], size=(ITEMS, 1))
    system = np.array([f"system{k:03}" for k in range(SYSTEMS)])[((start + step * np.arange(EACH)) % SYSTEMS).ravel()]
    item = np.repeat([f"item{k:06}" for k in range(ITEMS)], EACH)
    names = ("person", *(f"metric{m}" for m in range(METRICS)))
    parts = [
        pd.DataFrame({"item": item, "system": system, "rater": name, "score": rng.random(len(item))}) for name in names
    ]
    pd.concat(parts).to_parquet(folder / "ratings.parquet")


def ours(folder: Path) -> Work:
    import numpy as np
    import polars as pl

    from custodes.data.counting import count_pairs

    def work() -> list[float]:
        paired = count_pairs(pl.scan_parquet(folder / "ratings.parquet"), human="person").paired
        return [float(value) for value in np.asarray(paired)[np.asarray(paired).any(axis=(1, 2, 3))].ravel()]

    return work


def theirs(folder: Path) -> Work:
    """Pivot, merge with itself, signs, crosstab by group."""
    import numpy as np
    import pandas as pd
    import pyarrow.parquet as _  # noqa: F401 (its import is not timed)

    def work() -> list[float]:
        frame = pd.read_parquet(folder / "ratings.parquet")
        wide = frame.pivot_table(index=["item", "system"], columns="rater", values="score").reset_index()
        pairs = wide.merge(wide, on="item", suffixes=("_a", "_b"))
        pairs = pairs[pairs["system_a"] < pairs["system_b"]]
        results = []
        for metric in (f"metric{m}" for m in range(METRICS)):
            signs = [np.sign(pairs[f"{name}_a"] - pairs[f"{name}_b"]) for name in ("person", metric)]
            key = [pairs["system_a"], pairs["system_b"], 1 - signs[0], 1 - signs[1]]
            cells = pairs.groupby(key).size().unstack([2, 3], fill_value=0)
            columns = pd.MultiIndex.from_product([[0.0, 1.0, 2.0]] * 2)
            results.append(cells.reindex(columns=columns, fill_value=0).to_numpy().reshape(-1, 3, 3))
        return [float(value) for value in np.stack(results, axis=1).ravel()]

    return work


COMPARISONS = (
    Beside(
        "pandas",
        f"counts of all pairs of {SYSTEMS} systems from {ITEMS * EACH * (1 + METRICS):,} ratings in Parquet",
        "pandas",
        data,
        ours,
        theirs,
        0,
    ),
)
