"""A study of people's answers from any texts: one file, written whole or not at all."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.annotate import filling, store
from custodes.annotate.clock import Clock
from custodes.annotate.gold import Known, attention_checks, read_gold
from custodes.annotate.material import Material, Pair, pairs_of, read_material
from custodes.annotate.media import media_of
from custodes.annotate.metric import metric_signs
from custodes.annotate.orders import askable, clusters_of, orders_of
from custodes.annotate.plan import StudyPlan
from custodes.annotate.planning import read_plan
from custodes.annotate.rendering import render
from custodes.annotate.rules import check_plan, notes_on, rule_of
from custodes.annotate.wording import completed
from custodes.arguments import checked
from custodes.data.notes import Note, noted
from custodes.data.patterns import Patterns
from custodes.errors import InputError, OptionError
from custodes.files import check_writable
from custodes.progress import Progress, silent
from custodes.stats.correction.estimators import ESTIMATORS


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
        filling.add_systems(base, numbers, at=now)
        filling.add_items(base, material.items, rendered.items, first=0)
        filling.add_outputs(base, material.outputs, rendered.outputs, items=items, systems=numbers)
        filling.add_media(base, media.values())
        for number, (pair, order) in enumerate(zip(chosen, orders, strict=True)):
            filling.add_pair(base, number, pair, numbers)
            filling.add_units(base, number, order)
            if signs is not None:
                filling.add_metric(base, number, signs[0], signs[1][number])
        filling.add_known(base, known, rendered)
        filling.add_plain(base, rendered.refused, at=now)
        filling.add_notes(base, told, at=now)

    store.create(place, own, fill)
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
