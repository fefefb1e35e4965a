"""Add systems or items to a study later. The order of existing questions does not change."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from custodes.annotate import study_file
from custodes.annotate.assignments import clusters_of
from custodes.annotate.event_log import Clock
from custodes.annotate.new_study import add_notes, add_pair, add_texts, add_units, askable, order_of_later, unasked
from custodes.annotate.plan import PLAN, StudyPlan
from custodes.annotate.rendering import render
from custodes.annotate.safe_html import plain
from custodes.annotate.study_material import Item, Pair, StudyMaterial, SystemOutput, media_of, pairs_of, read_material
from custodes.arguments import checked
from custodes.data.notes import Note, noted
from custodes.data.patterns import Patterns
from custodes.errors import InputError, OptionError, shown
from custodes.progress import Progress, silent

NOTE = msgspec.json.Decoder(Note)


@checked
def add(
    path: str | Path,
    texts: Any,
    *,
    systems: Patterns = None,
    pairs: Sequence[str] | None = None,
    progress: Progress = silent,
) -> Path:
    """Add systems or items to a study that is not being served. Existing questions and their orders do not change.

    `texts` and `systems` have the same meaning as in `new`. `pairs` names the new pairs to compare (default: all
    pairs with a new system). In each existing pair, new items come after the existing items. `texts` may contain
    existing content if that content is unchanged. Raises `InputError` if the text of an existing output or item
    differs, or if nothing is new.

    >>> import polars as pl, tempfile
    >>> from custodes.annotate.new_study import new
    >>> texts = pl.DataFrame({"item": ["1", "1"], "system": ["X", "Y"], "text": ["Yes.", "No."]})
    >>> study = new(texts, Path(tempfile.mkdtemp()) / "study.db")
    >>> add(study, pl.DataFrame({"item": ["1"], "system": ["Z"], "text": ["Perhaps."]})).name
    'study.db'
    """
    place = study_file.check(path)
    lock = study_file.Lock(place)
    try:
        with study_file.sqlite_errors(place), closing(study_file.connect(place, durable=True)) as base:
            stored = StoredStudy.read(base)
            study, material = read_material(texts, systems=systems)
            media = media_of(material.images(), progress=progress)
            whole, fresh = stored.joined(material.with_images({name: image.name for name, image in media.items()}))
            rendered = render(fresh, stored.plan.texts.render, progress=progress)
            # All outputs of an item have the same format, so plain text cannot be added to formatted outputs.
            before = set(stored.material.labels())
            refused = (rendered.refused & before) - stored.plain
            html = {
                key: plain(output.text) if key[0] in stored.plain else rendered.outputs[key]
                for key, output in fresh.outputs.items()
            }
            added = {key: output for key, output in fresh.outputs.items() if key[0] not in refused}
            counts = len(stored.material.systems), len(stored.material.items)
            with study_file.whole(base):
                now = Clock().wall()
                later = replace(whole, outputs=added)
                add_texts(base, later, rendered.items, html, media.values(), stored=counts, at=now)
                whole = replace(whole, outputs={**stored.material.outputs, **added})
                not_added = (
                    f"outputs of {len(refused)} items are not added, because they can be displayed only as plain text, "
                    "but the existing outputs of these items have another format"
                )
                notes = [*study.notes, *rendered.notes, *noted(("outputs-not-added", len(refused), not_added))]
                notes += _add_questions(base, stored, whole, pairs)
                add_notes(base, notes, plain=rendered.refused - refused, at=now)
    finally:
        lock.release()
    return place


@dataclass(frozen=True, kw_only=True)
class StoredStudy:
    """Content of a study file.

    `plan` is the latest plan. `material` has the names of images instead of paths. `pairs` has the pairs by their
    numbers, and `asked` has the items of each pair in their order. `plain` has the items that are displayed as plain
    text although the plan has another format.
    """

    plan: StudyPlan
    material: StudyMaterial
    pairs: Mapping[int, Pair]
    asked: Mapping[int, Sequence[int]]
    plain: frozenset[str]
    notes: tuple[Note, ...]
    has_metric: bool

    @classmethod
    def read(cls, base: sqlite3.Connection) -> StoredStudy:
        """Read the file. Raise `InputError` if another program made the file inconsistent."""
        try:
            return cls._read(base)
        except (msgspec.MsgspecError, ValueError, TypeError, LookupError) as problem:
            raise InputError(
                f"the study cannot be read ({problem}); restore the last valid copy of the study"
            ) from None

    @classmethod
    def _read(cls, base: sqlite3.Connection) -> StoredStudy:
        (text,) = base.execute("SELECT json FROM plan ORDER BY version DESC LIMIT 1").fetchone()
        query = "SELECT label, cluster, grp, source, context, meta, media, refs FROM item ORDER BY item"
        names = ("label", "cluster", "group", "source", "context", "meta")
        items = tuple(
            Item(**dict(zip(names, row, strict=True)), images=_texts(images), references=_texts(references))
            for *row, images, references in base.execute(query)
        )
        systems = tuple(label for (label,) in base.execute("SELECT label FROM system ORDER BY system"))
        outputs = {
            (items[item].label, systems[system]): SystemOutput(text=text, images=_texts(images))
            for item, system, text, images in base.execute("SELECT item, system, text, media FROM output")
        }
        pairs = {
            pair: (systems[first], None if second is None else systems[second])
            for pair, first, second in base.execute("SELECT pair, first, second FROM pair ORDER BY pair")
        }
        orders: dict[int, list[int]] = {pair: [] for pair in pairs}
        for pair, item in base.execute("SELECT pair, item FROM unit ORDER BY pair, place"):
            orders[pair].append(item)
        events = base.execute("SELECT kind, json FROM event WHERE kind IN ('plain', 'note') ORDER BY event").fetchall()
        (metrics,) = base.execute("SELECT count(*) FROM metric").fetchone()
        return cls(
            plan=PLAN.decode(text),
            material=StudyMaterial(items=items, systems=systems, outputs=outputs),
            pairs=pairs,
            asked=orders,
            plain=frozenset(name for kind, content in events if kind == "plain" for name in json.loads(content)),
            notes=tuple(NOTE.decode(content) for kind, content in events if kind == "note"),
            has_metric=bool(metrics),
        )

    def joined(self, material: StudyMaterial) -> tuple[StudyMaterial, StudyMaterial]:
        """Return the material of the whole study, with the stored items and systems first, and the new material. Raise
        `InputError` if new and stored material contradict each other."""
        stored = {item.label: item for item in self.material.items}
        for item in material.items:
            for name in ("source", "context", "images", "references") if item.label in stored else ():
                value = getattr(item, name)
                if value and value != getattr(stored[item.label], name):
                    raise InputError(
                        f"item {shown(item.label)}: the {name} differs from the {name} in the study, which annotators "
                        f"may have seen; give the new item another name"
                    )
        for key, output in material.outputs.items():
            if self.material.outputs.get(key, output) != output:
                raise InputError(
                    f"item {shown(key[0])}: the output of {shown(key[1])} differs from the output in the study, "
                    f"which annotators may have seen; give the system another name"
                )
        outputs = {key: output for key, output in material.outputs.items() if key not in self.material.outputs}
        if not outputs:
            raise InputError("nothing to add: the study already contains all of these outputs")
        later = tuple(item for item in material.items if item.label not in stored)
        systems = tuple(dict.fromkeys((*self.material.systems, *material.systems)))
        whole = StudyMaterial(items=(*self.material.items, *later), systems=systems, outputs=self.material.outputs)
        fresh = tuple(stored.get(item.label, item) for item in material.items)
        return whole, StudyMaterial(items=fresh, systems=material.systems, outputs=outputs)


def _add_questions(
    base: sqlite3.Connection, stored: StoredStudy, whole: StudyMaterial, pairs: Sequence[str] | None
) -> list[Note]:
    """Add new pairs, and new items of existing pairs. Return notes. Raise `InputError` if there are no
    new questions."""
    seed, systems_before = stored.plan.seed, set(stored.material.systems)
    chosen = [
        pair
        for pair in pairs_of(whole.systems, pairs, mode=stored.plan.question.mode)
        if pair not in stored.pairs.values() and (pairs is not None or not set(filter(None, pair)) <= systems_before)
    ]
    if pairs is not None and not chosen:
        raise OptionError(f"pairs={shown(pairs)}: the study contains all of these pairs already; give other pairs")
    clusters = clusters_of([item.cluster for item in whole.items])
    later = 0
    there, *_ = askable(whole, list(stored.pairs.values()))
    for row, (number, pair) in zip(there, stored.pairs.items(), strict=True):
        before = stored.asked[number]
        row[list(before)] = False
        # Comparisons that were excluded when the study was created (control questions) stay excluded, because only
        # new outputs add comparisons.
        row &= [
            any((item, system) not in stored.material.outputs for system in filter(None, pair))
            for item in whole.labels()
        ]
        order = order_of_later(row, clusters, seed, *map(str, pair), str(len(before)))
        add_units(base, number, order, first=len(before))
        later += len(order)
    available, same, empty = askable(whole, chosen)
    for number, (row, pair) in enumerate(zip(available, chosen, strict=True), start=max(stored.pairs, default=-1) + 1):
        order = order_of_later(row, clusters, seed, *map(str, pair))
        add_pair(base, number, pair, whole.systems)
        add_units(base, number, order)
        later += len(order)
    if not later:
        raise InputError("nothing to ask: no new output can be compared with a different output")
    grew = bool(chosen) and stored.plan.stopping.family
    in_all, gamma = len(stored.pairs) + len(chosen), stored.plan.stopping.gamma
    judged, level = _level(base, gamma, in_all) if grew else (0, gamma)
    family = f"gamma is now divided by {in_all}, the number of pairs"
    restated = (
        f"{family}. Before, {judged} pairs were analysed with a larger level, and their decisions stay, so the "
        f"probability of at least one false decision is now at most {level:.3g}, not {gamma:g}"
    )
    return [
        *unasked(available, chosen, same=same, empty=empty, taken=0),
        *noted(
            ("added", later, f"{later} comparisons are added, with {len(chosen)} new pairs of systems"),
            ("family-grew", grew and not judged, family),
            ("level-grew", judged, restated),
            ("metric-not-added", stored.has_metric, "the metric of the study has no scores of the new outputs"),
        ),
    ]


_FIRST_LOOKS = """
SELECT (SELECT json_extract(e.json, '$.pairs') FROM event e WHERE e.kind = 'added' AND e.at <= first
        ORDER BY e.event DESC LIMIT 1)
FROM (SELECT min(at) AS first FROM look GROUP BY pair)
"""
"""Query with one row per analysed pair: how many pairs the study had at the first analysis of that pair."""


def _level(base: sqlite3.Connection, gamma: float, pairs: int) -> tuple[int, float]:
    """Return the number of analysed pairs and the joint level of all `pairs`. Each analysed pair keeps the level of its
    first analysis."""
    shares = [gamma / pairs_then for (pairs_then,) in base.execute(_FIRST_LOOKS)]
    return len(shares), sum(shares) + (pairs - len(shares)) * gamma / pairs


def _texts(value: str) -> tuple[str, ...]:
    return tuple(json.loads(value))
