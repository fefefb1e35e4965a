"""Outcomes of people and metrics beside each other, counted inside a table engine: shared by scores and verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl

from custodes.data.comparisons import pair_codes, pairs_of
from custodes.data.pairs import PairCounts
from custodes.data.panel import label_codes

WIN, TIE, LOSS, SILENT = range(4)
CELLS = 15
"""Outcomes of (human, metric) as 4 * human + metric; the sixteenth, both silent, is no count."""


def cells_of(outcomes: nw.LazyFrame[Any], metrics: Sequence[str]) -> nw.LazyFrame[Any]:
    """One row per pair: `system`, `system_b`, and a column per metric and cell, of rows that hold the outcomes of
    people (`human`) and of every metric on one item."""
    codes = {name: 4 * nw.col("human") + nw.col(name) for name in metrics}
    cells = outcomes.select("system", "system_b", **codes)
    # A sum of zeros and ones for every cell: one group-by whose result does not grow with the items.
    hits = {
        f"{metric}_{cell}": (nw.col(name) == cell).cast(nw.Int32)
        for metric, name in enumerate(metrics)
        for cell in range(CELLS)
    }
    return (
        cells.select("system", "system_b", **hits)
        .group_by("system", "system_b")
        .agg(*(nw.col(name).sum() for name in hits))
    )


def summed(counted: Iterable[pl.DataFrame], *, systems: tuple[str, ...], metrics: tuple[str, ...]) -> PairCounts:
    """PairCounts over all pairs of the (sorted) systems from the rows of every batch."""
    first, second = pairs_of(systems)
    tables = np.zeros((len(first), len(metrics), CELLS + 1), dtype=np.int64)
    for frame in counted:
        a, b = label_codes(frame["system"], systems), label_codes(frame["system_b"], systems)
        values = frame.drop("system", "system_b").cast(pl.Int64).to_numpy()
        # A pair stands once in a batch, so no row overwrites another.
        tables[pair_codes(a, b, len(systems)), :, :CELLS] += values.reshape(len(frame), len(metrics), CELLS)
    return PairCounts.of_tables(
        tables.reshape(len(first), len(metrics), 4, 4),
        system_a=tuple(systems[k] for k in first),
        system_b=tuple(systems[k] for k in second),
        metrics=metrics,
    )
