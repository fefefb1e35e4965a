"""What a study begins with, and what is added to it later, as rows of its file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict

from custodes.annotate.gold import Known
from custodes.annotate.material import Item, Output, Pair
from custodes.annotate.media import Medium
from custodes.annotate.rendering import Rendered
from custodes.data.notes import Note
from custodes.stats import ABSENT
from custodes.stats.arrays import Signs


def add_systems(base: sqlite3.Connection, systems: Mapping[str, int], *, at: float) -> None:
    """Systems by label with their numbers."""
    base.executemany("INSERT INTO system VALUES (?, ?, ?)", [(number, name, at) for name, number in systems.items()])


def add_items(base: sqlite3.Connection, items: Sequence[Item], html: Mapping[str, str], *, first: int) -> None:
    """Items with numbers from `first` on."""
    rows = [
        (
            *(n, own.label, own.cluster, own.group, own.source, own.context, html[own.label]),
            *(_listed(own.images), own.meta, _listed(own.references)),
        )
        for n, own in enumerate(items, start=first)
    ]
    base.executemany("INSERT INTO item VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)


def add_outputs(
    base: sqlite3.Connection,
    outputs: Mapping[tuple[str, str], Output],
    html: Mapping[tuple[str, str], str],
    *,
    items: Mapping[str, int],
    systems: Mapping[str, int],
) -> None:
    """Outputs of items and systems with these numbers."""
    rows = [
        (items[item], systems[system], own.text, html[item, system], _listed(own.images))
        for (item, system), own in outputs.items()
    ]
    base.executemany("INSERT INTO output VALUES (?, ?, ?, ?, ?)", rows)


def add_media(base: sqlite3.Connection, media: Iterable[Medium]) -> None:
    """Images, each content once."""
    rows = [(own.name, own.type, own.content) for own in media]
    base.executemany("INSERT OR IGNORE INTO media VALUES (?, ?, ?)", rows)


def add_pair(base: sqlite3.Connection, number: int, pair: Pair, systems: Mapping[str, int]) -> None:
    """A pair of systems, or one that is rated."""
    first, second = pair
    base.execute(
        "INSERT INTO pair VALUES (?, ?, ?)", (number, systems[str(first)], None if second is None else systems[second])
    )


def add_units(base: sqlite3.Connection, pair: int, order: Sequence[int], *, first: int = 0) -> None:
    """The items of a pair in their order, from a place on; what a pair asks is numbered with it: no place changes."""
    rows = [(pair, place, item) for place, item in enumerate(order, start=first)]
    base.executemany("INSERT INTO unit (pair, place, item) VALUES (?, ?, ?)", rows)


def add_metric(base: sqlite3.Connection, pair: int, rater: str, signs: Signs) -> None:
    """What a metric says of the items of a pair, (items,)."""
    rows = [(pair, item, rater, int(sign)) for item, sign in enumerate(signs) if sign != ABSENT]
    base.executemany(
        "INSERT INTO metric SELECT unit, ?3, ?4 FROM unit WHERE pair = ?1 AND item = ?2",
        rows,
    )


def add_known(base: sqlite3.Connection, known: Sequence[Known], rendered: Rendered) -> None:
    """Questions whose answer is known."""
    rows = []
    for own, (context, first, second) in zip(known, rendered.known, strict=True):
        images = {"context": own.context.images, "first": own.first.images}
        images |= {} if own.second is None else {"second": own.second.images}
        rows.append((own.kind, context, first, second, json.dumps(images), own.expected, own.why))
    base.executemany(
        "INSERT INTO gold (kind, context, first, second, media, expected, why) VALUES (?, ?, ?, ?, ?, ?, ?)", rows
    )


def add_event(base: sqlite3.Connection, kind: str, told: object, *, at: float) -> None:
    """Something that happened, with the next number of the one count of all that happens."""
    numbers = [base.execute(query).fetchone()[0] for query in _LAST]
    said = json.dumps(told, ensure_ascii=False)
    base.execute("INSERT INTO event (event, at, kind, json) VALUES (?, ?, ?, ?)", (max(numbers) + 1, at, kind, said))


_LAST = (
    "SELECT coalesce(max(worker), 0) FROM worker",
    "SELECT coalesce(max(session), 0) FROM session",
    "SELECT coalesce(max(assignment), 0) FROM assignment",
    "SELECT coalesce(max(judgment), 0) FROM judgment",
    "SELECT coalesce(max(exclusion), 0) FROM exclusion",
    "SELECT coalesce(max(event), 0) FROM event",
)
"""The last number of each table that shares the count."""


def add_notes(base: sqlite3.Connection, notes: Iterable[Note], *, at: float) -> None:
    """What was left out or inferred, as events, which `check` shows."""
    for note in notes:
        add_event(base, "note", asdict(note), at=at)


def add_plain(base: sqlite3.Connection, items: Collection[str], *, at: float) -> None:
    """Which items have plain outputs though the plan says otherwise, as an event: later outputs follow them."""
    if items:
        add_event(base, "plain", sorted(items), at=at)


def _listed(texts: Sequence[str]) -> str:
    return json.dumps(list(texts))
