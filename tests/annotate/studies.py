"""Small studies for tests, made without the readers."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from random import Random

import msgspec

from custodes.annotate.plan import StudyPlan
from custodes.annotate.store import create

GOLD = {"gold": 6, "attention": 4}


def plan_of(**sections: Mapping[str, object]) -> StudyPlan:
    """A plan with some fields of its sections set."""
    return msgspec.convert(sections, StudyPlan)


def study(
    path: Path,
    *,
    plan: StudyPlan | None = None,
    systems: int = 2,
    items: int = 50,
    known: Mapping[str, int] = GOLD,
) -> Path:
    """A file with `systems` x `items` outputs, all pairs (or systems), and known comparisons by kind."""
    plan = plan or StudyPlan()

    def fill(base: sqlite3.Connection) -> None:
        add_items(base, items)
        add_systems(base, [f"s{k}" for k in range(systems)], seed=plan.seed, rate=plan.question.mode == "rate")
        for kind, n in known.items():
            for k in range(n):
                expected = 1 if k % 2 else -1
                base.execute(
                    "INSERT INTO gold VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)",
                    (kind, f"<p>{kind}{k}</p>", "<p>one</p>", "<p>two</p>", "{}", expected, "because"),
                )

    return create(path, plan, fill)


def add_items(base: sqlite3.Connection, items: int) -> None:
    base.executemany(
        "INSERT INTO item VALUES (?, ?, ?, '', ?, '', ?, '[]', '{}')",
        [(k, f"i{k}", f"d{k // 2}", f"source {k}", f"<p>item {k}</p>") for k in range(items)],
    )


def add_systems(base: sqlite3.Connection, names: list[str], *, seed: int, rate: bool = False) -> None:
    """Systems with their outputs, and pairs with all that are there."""
    items = [item for (item,) in base.execute("SELECT item FROM item ORDER BY item")]
    there = [system for (system,) in base.execute("SELECT system FROM system ORDER BY system")]
    new = list(range(len(there), len(there) + len(names)))
    base.executemany(
        "INSERT INTO system VALUES (?, ?, ?)", [(k, n, time.time()) for k, n in zip(new, names, strict=True)]
    )
    base.executemany(
        "INSERT INTO output VALUES (?, ?, ?, ?, '[]')",
        [(item, k, f"text {item} {k}", f"<p>text {item} {k}</p>") for k in new for item in items],
    )
    wanted = [(k, None) for k in new] if rate else [p for p in combinations([*there, *new], 2) if p[1] in new]
    (pair,) = base.execute("SELECT coalesce(max(pair), -1) FROM pair").fetchone()
    (unit,) = base.execute("SELECT coalesce(max(unit), -1) FROM unit").fetchone()
    for first, second in wanted:
        pair += 1
        base.execute("INSERT INTO pair VALUES (?, ?, ?)", (pair, first, second))
        order = items.copy()
        Random(f"{seed} {pair}").shuffle(order)
        base.executemany(
            "INSERT INTO unit VALUES (?, ?, ?, ?)", [(unit + 1 + k, pair, k, item) for k, item in enumerate(order)]
        )
        unit += len(order)
