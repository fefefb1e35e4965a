"""A study of people's answers from any texts: one file, written whole or not at all."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.annotate import store
from custodes.annotate.clock import Clock
from custodes.annotate.material import Material, Pair, pairs_of, read_material
from custodes.annotate.orders import askable, clusters_of, orders_of
from custodes.annotate.plan import StudyPlan
from custodes.annotate.planning import read_plan
from custodes.annotate.rendering import Rendered, render
from custodes.annotate.rules import check_plan, notes_on
from custodes.annotate.wording import completed
from custodes.arguments import checked
from custodes.data.notes import Note, noted
from custodes.data.patterns import Patterns
from custodes.errors import InputError
from custodes.files import check_writable
from custodes.progress import Progress, silent


@checked
def new(
    texts: Any,
    path: str | Path,
    *,
    plan: StudyPlan | str | Path | None = None,
    systems: Patterns = None,
    pairs: Sequence[Any] | None = None,
    progress: Progress = silent,
) -> Path:
    """Make a study that people can be asked about: a SQLite file with every text, and the order of all questions.

    `texts` is what questions take (paths, dataframes, a `Study`), with outputs of two systems or more, or of one to be
    rated. `plan` is a `StudyPlan` or the path of a TOML file. `systems` selects by patterns; `pairs` names pairs of
    systems, as 'A:B' (default: all). Comparisons of the same output twice are not asked, and counted. Raises InputError
    for texts that cannot be asked about, OptionError for a plan that cannot be, and leaves no file then.

    >>> import polars as pl, tempfile
    >>> texts = pl.DataFrame({"item": ["1", "1"], "system": ["X", "Y"], "text": ["Yes.", "No."]})
    >>> new(texts, Path(tempfile.mkdtemp()) / "study.db").name
    'study.db'
    """
    place = check_writable(path)
    own = completed(plan_from(plan))
    study, material = read_material(texts, systems=systems)
    chosen = pairs_of(material.systems, pairs, mode=own.question.mode)
    made = Made.of(material, chosen, seed=own.seed)
    rendered = render(material, own.texts.render, progress=progress)
    most = max(map(len, made.orders))
    notes = (*study.notes, *made.notes, *rendered.notes, *notes_on(own, items=most))
    store.create(place, own, lambda database: fill(database, material, made, rendered, notes))
    return place


def plan_from(given: StudyPlan | str | Path | None) -> StudyPlan:
    """A plan that is given, one in a file, or all defaults; checked."""
    if isinstance(given, StudyPlan):
        return check_plan(given)
    return StudyPlan() if given is None else read_plan(given)


@dataclass(frozen=True, kw_only=True)
class Made:
    """Pairs of systems, the items of each in the order in which they are asked, and what is not asked."""

    pairs: Sequence[Pair]
    orders: Sequence[Sequence[int]]
    notes: tuple[Note, ...]

    @classmethod
    def of(cls, material: Material, pairs: Sequence[Pair], *, seed: int) -> Made:
        """All that can be asked about; InputError where nothing can."""
        available, same, empty = askable(material, pairs)
        if not available.any():
            raise InputError(
                f"nothing to ask: no item has {'an output' if pairs[0][1] is None else 'two outputs that differ'}"
                f" ({len(material.items)} items, {len(material.systems)} systems, {same} of the same output twice)"
            )
        clusters = clusters_of([item.cluster for item in material.items])
        return cls(
            pairs=pairs,
            orders=orders_of(available, clusters, seed),
            notes=(*of_unasked(same, empty), *_few(available, pairs)),
        )


def of_unasked(same: int, empty: int) -> list[Note]:
    """What is not asked, and why."""
    return noted(
        (
            "same-output",
            same,
            f"{same} comparisons are of the same output twice: nobody is asked, and they count for no system",
        ),
        ("empty-outputs", empty, f"{empty} questions are about outputs with nothing to see: nobody is asked"),
    )


def _few(available: NDArray[np.bool_], pairs: Sequence[Pair]) -> list[Note]:
    """Pairs without anything to ask."""
    empty = [" and ".join(filter(None, pair)) for pair, n in zip(pairs, available.sum(axis=1), strict=True) if not n]
    return noted(
        ("nothing-to-ask", len(empty), f"{len(empty)} pairs have no item to ask about: {', '.join(empty[:3])}")
    )


def fill(
    database: sqlite3.Connection, material: Material, made: Made, rendered: Rendered, notes: Iterable[Note]
) -> None:
    """Everything that a study begins with, into its empty tables."""
    now = Clock().wall()
    database.executemany(
        "INSERT INTO system VALUES (?, ?, ?)", [(n, name, now) for n, name in enumerate(material.systems)]
    )
    add_items(database, material, rendered, first=0)
    number = {name: n for n, name in enumerate(material.systems)}
    place = {item.label: n for n, item in enumerate(material.items)}
    add_outputs(database, material, rendered, items=place, systems=number)
    add_pairs(database, made, systems=number, first=0)
    add_notes(database, notes, at=now)


def add_items(database: sqlite3.Connection, material: Material, rendered: Rendered, *, first: int) -> None:
    """Items with numbers from `first` on."""
    rows = [
        (n, own.label, own.cluster, own.group, own.source, own.context, rendered.items[own.label], "[]", own.meta)
        for n, own in enumerate(material.items, start=first)
    ]
    database.executemany("INSERT INTO item VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)


def add_outputs(
    database: sqlite3.Connection,
    material: Material,
    rendered: Rendered,
    *,
    items: Mapping[str, int],
    systems: Mapping[str, int],
) -> None:
    """Outputs of items and systems with these numbers."""
    rows = [
        (items[item], systems[system], own.text, rendered.outputs[item, system], "[]")
        for (item, system), own in material.outputs.items()
    ]
    database.executemany("INSERT INTO output VALUES (?, ?, ?, ?, ?)", rows)


def add_pairs(database: sqlite3.Connection, made: Made, *, systems: Mapping[str, int], first: int) -> None:
    """Pairs with numbers from `first` on, and a unit for each item in its order."""
    for pair, ((a, b), order) in enumerate(zip(made.pairs, made.orders, strict=True), start=first):
        second = None if b is None else systems[b]
        database.execute("INSERT INTO pair VALUES (?, ?, ?)", (pair, systems[str(a)], second))
        rows = [(pair, place, item) for place, item in enumerate(order)]
        database.executemany("INSERT INTO unit (pair, place, item) VALUES (?, ?, ?)", rows)


def add_notes(database: sqlite3.Connection, notes: Iterable[Note], *, at: float) -> None:
    """Notes as events, which `check` shows."""
    rows = [(at, json.dumps(asdict(note), ensure_ascii=False)) for note in notes]
    database.executemany("INSERT INTO event (at, kind, json) VALUES (?, 'note', ?)", rows)
