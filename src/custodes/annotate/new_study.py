"""Create a study from texts: random orders, and every text and question as rows of one file."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from custodes.annotate import study_file
from custodes.annotate.engine import clusters_of
from custodes.annotate.event_log import Clock
from custodes.annotate.known_questions import Known, attention_checks, read_gold
from custodes.annotate.material import (
    Item,
    Material,
    Medium,
    Output,
    Pair,
    media_of,
    metric_signs,
    pairs_of,
    read_material,
)
from custodes.annotate.plan import ANYTIME, StudyPlan, check_plan, rule_of
from custodes.annotate.plan_file import read_plan
from custodes.annotate.rendering import Rendered, render
from custodes.annotate.wording import completed
from custodes.arguments import checked
from custodes.data.notes import Note, noted
from custodes.data.patterns import Patterns
from custodes.errors import InputError, OptionError
from custodes.files import check_writable
from custodes.progress import Progress, silent
from custodes.stats import ABSENT
from custodes.stats.arrays import Ints, Signs
from custodes.stats.correction.estimators import ESTIMATORS
from custodes.stats.stopping.allocation import annotation_order

if TYPE_CHECKING:
    from custodes.annotate.material import Material, Pair


MISSING, EMPTY = -1, -2
"""Of an output: there is none, and there is nothing to see."""


def askable(material: Material, pairs: Sequence[Pair]) -> tuple[NDArray[np.bool_], int, int]:
    """(pairs, items): where people can be asked; how many comparisons are of the same output twice, and how many of
    outputs with nothing to see."""
    rows = {system: row for row, system in enumerate(material.systems)}
    columns = {item.label: column for column, item in enumerate(material.items)}
    seen = np.full((len(rows), len(columns)), MISSING, dtype=np.int64)  # a number for all that a person would see alike
    known: dict[object, int] = {}
    for (item, system), output in material.outputs.items():
        sight = (" ".join(output.text.split()), output.images)
        seen[rows[system], columns[item]] = EMPTY if output.is_empty else known.setdefault(sight, len(known))
    first = seen[[rows[str(a)] for a, _ in pairs]]
    second = seen[[rows[str(a) if b is None else b] for a, b in pairs]]
    is_rating = np.array([b is None for _, b in pairs], dtype=bool)[:, np.newaxis]
    there = (first != MISSING) & (second != MISSING)
    empty = there & (first == EMPTY) & (second == EMPTY)
    same = there & ~empty & (first == second) & ~is_rating
    return there & ~empty & ~same, int(same.sum()), int(empty.sum())


def orders_of(available: NDArray[np.bool_], clusters: Ints, seed: int) -> list[list[int]]:
    """Items of each pair in a random order, only those that can be asked; drawn as `live` draws them.

    >>> sorted(orders_of(np.array([[True, False, True]]), np.arange(3), 0)[0])
    [0, 2]
    """
    drawn = annotation_order(available, clusters, np.random.default_rng(seed))
    return [own[:n].tolist() for own, n in zip(drawn, available.sum(axis=1), strict=True)]


def order_of_later(available: NDArray[np.bool_], clusters: Ints, seed: int, *names: str) -> list[int]:
    """The order of a pair, or of its items, that came later: by a seed of its own, so that all before it stays."""
    words = hashlib.sha256("\0".join(names).encode()).digest()
    own = np.random.default_rng([seed, *np.frombuffer(words, dtype=np.uint32).tolist()])
    drawn = annotation_order(available[np.newaxis], clusters, own)
    return [int(place) for place in drawn[0, : int(available.sum())]]


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


@checked
def new(
    texts: Any,
    path: str | Path,
    *,
    plan: StudyPlan | str | Path | None = None,
    systems: Patterns = None,
    pairs: Sequence[str] | None = None,
    gold: Any = None,
    metric: str | None = None,
    progress: Progress = silent,
) -> Path:
    """Make a study that people can be asked about: a SQLite file with every text, and the order of all questions.

    `texts` is what questions take (paths, dataframes, a `Study`), with outputs of two systems or more, or of one to be
    rated. `plan` is a `StudyPlan` or the path of a TOML file. `systems` selects by patterns; `pairs` names pairs of
    systems, as 'A:B' (default: all). `gold`: questions with known answers, a table or its path (columns expected, and
    item, system_a, system_b, or text_a, text_b, context; kind, why); attention checks are made from the texts unless it
    has some. `metric` names a metric that rated the same outputs, for estimators that use one. Comparisons of the same
    output twice are not asked, and counted; all notes are kept in the file (see `check`). Raises InputError for texts
    that cannot be asked about, OptionError for a plan that cannot be, and leaves no file then.

    >>> import polars as pl, tempfile
    >>> texts = pl.DataFrame({"item": ["1", "1"], "system": ["X", "Y"], "text": ["Yes.", "No."]})
    >>> new(texts, Path(tempfile.mkdtemp()) / "study.db").name
    'study.db'
    """
    place = check_writable(path)
    own = completed(given_plan(plan))
    study, material = read_material(texts, systems=systems)
    media = media_of(material.images(), progress=progress)
    material = material.with_images({name: medium.name for name, medium in media.items()})
    known = known_questions(gold, material, own)
    chosen = pairs_of(material.systems, pairs, mode=own.question.mode)
    orders, notes = orders_and_notes(material, chosen, known, own)
    signs = None
    if metric is not None:
        _check_metric(own, metric)
        signs = metric_signs(study, metric, material, chosen, aspect=own.question.aspects[0])
    elif own.question.mode == "compare":
        rule_of(own, pairs=len(chosen), items=max(map(len, orders)), has_metric=False)
    rendered = render(material, own.texts.render, known=known, progress=progress)
    told = (*study.notes, *notes, *rendered.notes, *notes_on(own, items=max(map(len, orders))))

    def fill(base: sqlite3.Connection) -> None:
        now = Clock().wall()
        numbers = {name: number for number, name in enumerate(material.systems)}
        items = {item.label: number for number, item in enumerate(material.items)}
        add_systems(base, numbers, at=now)
        add_items(base, material.items, rendered.items, first=0)
        add_outputs(base, material.outputs, rendered.outputs, items=items, systems=numbers)
        add_media(base, media.values())
        for number, (pair, order) in enumerate(zip(chosen, orders, strict=True)):
            add_pair(base, number, pair, numbers)
            add_units(base, number, order)
            if signs is not None:
                add_metric(base, number, signs[0], signs[1][number])
        add_known(base, known, rendered)
        add_plain(base, rendered.refused, at=now)
        add_notes(base, told, at=now)

    study_file.create(place, own, fill)
    return place


def given_plan(given: StudyPlan | str | Path | None) -> StudyPlan:
    """A plan that is given, one in a file, or all defaults; checked."""
    if isinstance(given, StudyPlan):
        return check_plan(given)
    return StudyPlan() if given is None else read_plan(given)


def known_questions(gold: Any, material: Material, plan: StudyPlan) -> list[Known]:
    """What a file says, and attention checks of our own where it has none."""
    given = [] if gold is None else read_gold(gold, material, plan)
    held = sum(own.kind == "qualification" for own in given)
    if plan.people.qualification > held:
        raise InputError(
            f"[people] qualification={plan.people.qualification}, and gold has {held} questions of that kind; add some,"
            " or ask fewer"
        )
    own = [] if any(known.kind == "attention" for known in given) else attention_checks(material, plan)
    return [*given, *own]


def orders_and_notes(
    material: Material, pairs: Sequence[Pair], known: Sequence[Known], plan: StudyPlan
) -> tuple[list[list[int]], list[Note]]:
    """The items of each pair in the order in which they are asked; InputError where there is nothing to ask."""
    available, same, empty = askable(material, pairs)
    taken = without_known(available, material, pairs, known)
    if not available.any():
        wanted = "an output" if pairs[0][1] is None else "two outputs that differ"
        raise InputError(
            f"nothing to ask: no item has {wanted} ({len(material.items)} items, {len(material.systems)} systems,"
            f" {same} comparisons of the same output twice, {taken} with known answers)"
        )
    clusters = clusters_of([item.cluster for item in material.items])
    return orders_of(available, clusters, plan.seed), unasked(available, pairs, same=same, empty=empty, taken=taken)


def without_known(
    available: NDArray[np.bool_], material: Material, pairs: Sequence[Pair], known: Sequence[Known]
) -> int:
    """Leave out comparisons that are asked with a known answer; how many there were."""
    items = {item.label: place for place, item in enumerate(material.items)}
    taken = 0
    for item, pair in {own.asked for own in known if own.asked is not None}:
        if pair in pairs:
            row, column = pairs.index(pair), items[item]
            taken += bool(available[row, column])
            available[row, column] = False
    return taken


def unasked(available: NDArray[np.bool_], pairs: Sequence[Pair], *, same: int, empty: int, taken: int) -> list[Note]:
    """What is not asked, and why."""
    alone = [" and ".join(filter(None, pair)) for pair, n in zip(pairs, available.sum(axis=1), strict=True) if not n]
    told = f"{same} comparisons are of the same output twice: nobody is asked, and they count for no system"
    return noted(
        ("same-output", same, told),
        ("empty-outputs", empty, f"{empty} questions are about outputs with nothing to see: nobody is asked"),
        ("known-answers", taken, f"{taken} comparisons have a known answer, and are not asked as others are"),
        ("nothing-to-ask", len(alone), f"{len(alone)} pairs have no item to ask about: {', '.join(alone[:3])}"),
    )


def _check_metric(plan: StudyPlan, metric: str) -> None:
    """Refuse a metric that nothing would use."""
    estimator = plan.stopping.estimator
    if plan.question.mode == "rate":
        raise OptionError(f"metric={metric!r} would change nothing: people rate outputs, and no pair is decided")
    if estimator is not None and not ESTIMATORS[estimator].uses_metric:
        raise OptionError(f"metric={metric!r} would change nothing: estimator {estimator} uses none")


LOOKS_CUT = "looks-cut"
"""The note on looks that are more than a pair has items."""


def notes_on(plan: StudyPlan, *, items: int) -> list[Note]:
    """What the looks mean for the items there are, and what a plan without a boundary costs; ratings have no looks."""
    if plan.question.mode == "rate":
        return []
    import numpy as np

    from custodes.stats.stopping.sequential import crossing_probability

    own, looks = plan.stopping, sorted({min(n, items) for n in plan.stopping.looks})
    cut = [n for n in own.looks if n > items]
    notes = noted(
        (
            LOOKS_CUT,
            len(cut),
            f"a pair has {items} items at most: it is looked at after {', '.join(map(str, looks))} answers",
        )
    )
    if own.boundary == "none" and ANYTIME not in own.stop.split("+") and len(looks) > 1:
        from scipy.special import ndtri

        chance = crossing_probability(np.full(len(looks), -ndtri(own.gamma / 2)), np.array(looks, dtype=float))
        notes += noted(
            (
                "no-boundary",
                True,
                f"boundary none: of pairs without a difference {chance:.2f} are declared different after"
                f" {len(looks)} looks, not {own.gamma:g}; pocock keeps it",
            )
        )
    return notes
