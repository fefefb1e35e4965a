"""Texts for annotation studies, and queries on study files."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import polars as pl


def texts(items: int = 12, systems: str = "ABC", **columns: Any) -> pl.DataFrame:
    rows = [(f"i{k}", name, f"{name} says {k}") for k in range(items) for name in systems]
    return pl.DataFrame(rows, schema=["item", "system", "text"], orient="row").with_columns(**columns)


@contextmanager
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as base:
        yield base


def orders(path: Path) -> dict[tuple[str, str], list[str]]:
    """Return the items of each pair, in the order of annotation."""
    query = """
        SELECT a.label, coalesce(b.label, ''), i.label FROM unit JOIN pair USING (pair)
        JOIN system a ON a.system = first LEFT JOIN system b ON b.system = second JOIN item i ON i.item = unit.item
        ORDER BY pair, place
    """
    by_pair: dict[tuple[str, str], list[str]] = {}
    with connection(path) as base:
        for first, second, item in base.execute(query):
            by_pair.setdefault((first, second), []).append(item)
    return by_pair
