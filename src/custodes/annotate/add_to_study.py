"""Systems and items that come later: nothing that was asked, or is to be asked, changes its place."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from custodes.annotate import new_study, study_file
from custodes.annotate.engine import clusters_of
from custodes.annotate.event_log import Clock
from custodes.annotate.material import Item, Material, Output, Pair, media_of, pairs_of, read_material
from custodes.annotate.new_study import askable, order_of_later, unasked
from custodes.annotate.plan import PLAN, StudyPlan
from custodes.annotate.rendering import render
from custodes.arguments import checked
from custodes.data.notes import Note, noted
from custodes.data.patterns import Patterns
from custodes.errors import InputError, OptionError, shown
from custodes.progress import Progress, silent


@checked
def add(
    path: str | Path,
    texts: Any,
    *,
    systems: Patterns = None,
    pairs: Sequence[str] | None = None,
    progress: Progress = silent,
) -> Path:
    """Add systems or items to a study that is not served now; what was asked stays, and so do the orders.

    `texts` and `systems` as in `new`. `pairs`: which pairs with a system that is new are asked about (default: all).
    New items stand behind those that a pair has. What the study holds already may be given again, if it is the same.
    Raises InputError for another text of an output or item, and where there is nothing new.

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
        with study_file.told(place), closing(study_file.connect(place, durable=True)) as base:
            held = Held.read(base)
            study, given = read_material(texts, systems=systems)
            media = media_of(given.images(), progress=progress)
            given = given.with_images({name: medium.name for name, medium in media.items()})
            whole, fresh = held.joined(given)
            rendered = render(fresh, held.plan.texts.render, progress=progress)
            refused = {item for item, _ in fresh.outputs if item in rendered.refused and held.has_item(item)}
            refused -= held.plain
            own = (*study.notes, *rendered.notes, *_not_added(refused))
            html = held.html(fresh, rendered.outputs)
            kept = {key: output for key, output in fresh.outputs.items() if key[0] not in refused}
            whole = replace(whole, outputs={**held.material.outputs, **kept})
            with study_file.whole(base):
                now = Clock().wall()
                numbers = {name: number for number, name in enumerate(whole.systems)}
                items = {item.label: number for number, item in enumerate(whole.items)}
                known = len(held.material.systems)
                new_study.add_systems(base, {name: n for name, n in numbers.items() if n >= known}, at=now)
                first = len(held.material.items)
                new_study.add_items(base, whole.items[first:], rendered.items, first=first)
                new_study.add_outputs(base, kept, html, items=items, systems=numbers)
                new_study.add_media(base, media.values())
                own = (*own, *_add_questions(base, held, whole, pairs, numbers))
                new_study.add_plain(base, rendered.refused - refused, at=now)
                new_study.add_notes(base, own, at=now)
    finally:
        lock.release()
    return place


@dataclass(frozen=True, kw_only=True)
class Held:
    """What a study holds: its last plan, material with images by their names, systems in the order of their numbers,
    pairs, the items of each pair's units, the items whose outputs are plain though the plan says otherwise; notes."""

    plan: StudyPlan
    material: Material
    pairs: Mapping[int, Pair]
    asked: Mapping[int, Sequence[int]]
    plain: frozenset[str]
    notes: tuple[Note, ...]
    has_metric: bool

    @classmethod
    def read(cls, base: sqlite3.Connection) -> Held:
        """From the file; InputError where something in it was changed by another program."""
        try:
            return cls._read(base)
        except (msgspec.MsgspecError, ValueError, TypeError, LookupError) as problem:
            raise InputError(f"the study cannot be read ({problem}); take its last good copy") from None

    @classmethod
    def _read(cls, base: sqlite3.Connection) -> Held:
        (text,) = base.execute("SELECT json FROM plan ORDER BY version DESC LIMIT 1").fetchone()
        query = "SELECT label, cluster, grp, source, context, media, meta, refs FROM item ORDER BY item"
        items = tuple(
            Item(
                label=label,
                cluster=cluster,
                group=group,
                source=source,
                context=context,
                images=_names(own),
                meta=meta,
                references=_names(references),
            )
            for label, cluster, group, source, context, own, meta, references in base.execute(query)
        )
        systems = tuple(label for (label,) in base.execute("SELECT label FROM system ORDER BY system"))
        outputs = {
            (items[item].label, systems[system]): Output(text=text, images=_names(own))
            for item, system, text, own in base.execute("SELECT item, system, text, media FROM output")
        }
        pairs = {
            pair: (systems[first], None if second is None else systems[second])
            for pair, first, second in base.execute("SELECT pair, first, second FROM pair ORDER BY pair")
        }
        asked: dict[int, list[int]] = {pair: [] for pair in pairs}
        for pair, item in base.execute("SELECT pair, item FROM unit ORDER BY pair, place"):
            asked[pair].append(item)
        plain = {
            name for (own,) in base.execute("SELECT json FROM event WHERE kind = 'plain'") for name in json.loads(own)
        }
        (metrics,) = base.execute("SELECT count(*) FROM metric").fetchone()
        return cls(
            plan=PLAN.decode(text),
            material=Material(items=items, systems=systems, outputs=outputs),
            pairs=pairs,
            asked=asked,
            plain=frozenset(plain),
            notes=tuple(_NOTE.decode(own) for (own,) in base.execute(_NOTES)),
            has_metric=bool(metrics),
        )

    def has_item(self, label: str) -> bool:
        """Whether the study has an item of this name."""
        return any(item.label == label for item in self.material.items)

    def joined(self, given: Material) -> tuple[Material, Material]:
        """All together, what is held first; and what is new of it. InputError where both say different things."""
        known = {item.label: item for item in self.material.items}
        for item in given.items:
            before = known.get(item.label)
            said = [(name, getattr(item, name)) for name in ("source", "context", "images", "references")]
            for name, value in said if before is not None else ():
                if value and value != getattr(before, name):
                    raise InputError(
                        f"item {shown(item.label)}: another {name} than in the study; what people saw is not changed,"
                        " give it a name of its own"
                    )
        for key, output in given.outputs.items():
            before_text = self.material.outputs.get(key)
            if before_text is not None and before_text != output:
                raise InputError(
                    f"item {shown(key[0])}: {shown(key[1])} has another output than in the study; what people saw is"
                    " not changed, give the system a name of its own"
                )
        outputs = {key: own for key, own in given.outputs.items() if key not in self.material.outputs}
        if not outputs:
            raise InputError("nothing to add: the study holds all of these outputs already")
        later = tuple(item for item in given.items if item.label not in known)
        systems = (*self.material.systems, *(name for name in given.systems if name not in self.material.systems))
        whole = Material(items=(*self.material.items, *later), systems=systems, outputs=self.material.outputs)
        fresh = tuple(known.get(item.label, item) for item in given.items)
        return whole, Material(items=fresh, systems=given.systems, outputs=outputs)

    def html(self, fresh: Material, made: Mapping[tuple[str, str], str]) -> dict[tuple[str, str], str]:
        """HTML of the outputs that come, plain where the others of their item are."""
        from custodes.annotate.safe_html import plain

        return {key: plain(own.text) if key[0] in self.plain else made[key] for key, own in fresh.outputs.items()}


_NOTE = msgspec.json.Decoder(Note)
_NOTES = "SELECT json FROM event WHERE kind = 'note' ORDER BY event"


def _add_questions(
    base: sqlite3.Connection,
    held: Held,
    whole: Material,
    pairs: Sequence[str] | None,
    numbers: Mapping[str, int],
) -> list[Note]:
    """Pairs with a new system, and the new items of the pairs there are; InputError where nothing new is asked."""
    mode, seed = held.plan.question.mode, held.plan.seed
    known = set(held.material.systems)
    chosen = [pair for pair in pairs_of(whole.systems, pairs, mode=mode) if pair not in held.pairs.values()]
    chosen = [pair for pair in chosen if not set(filter(None, pair)) <= known] if pairs is None else chosen
    if pairs is not None and not chosen:
        raise OptionError(f"pairs={shown(pairs)}: the study asks about all of these already")
    clusters = clusters_of([item.cluster for item in whole.items])
    later = 0
    there, *_ = askable(whole, list(held.pairs.values()))
    for own, (number, pair) in zip(there, held.pairs.items(), strict=True):
        asked = held.asked[number]
        own[list(asked)] = False
        # What was left out when the study was made (known answers) stays out: only new outputs bring new questions.
        own &= [_is_new(held, item.label, pair) for item in whole.items]
        order = order_of_later(own, clusters, seed, *map(str, pair), str(len(asked)))
        new_study.add_units(base, number, order, first=len(asked))
        later += len(order)
    available, same, empty = askable(whole, chosen)
    for number, (own, pair) in enumerate(zip(available, chosen, strict=True), start=max(held.pairs, default=-1) + 1):
        order = order_of_later(own, clusters, seed, *map(str, pair))
        new_study.add_pair(base, number, pair, numbers)
        new_study.add_units(base, number, order)
        later += len(order)
    if not later:
        raise InputError("nothing to ask: no output that is new can be compared with one that differs")
    notes = unasked(available, chosen, same=same, empty=empty, taken=0)
    grew = bool(chosen) and held.plan.stopping.family
    in_all, gamma = len(held.pairs) + len(chosen), held.plan.stopping.gamma
    judged, together = _level(base, gamma, in_all) if grew else (0, gamma)
    family = f"gamma is divided by {in_all} pairs from now on"
    restated = (
        f"{family}; {judged} pairs were judged before by a larger share, and stay: the chance of a false decision on"
        f" any pair is now {together:.3g} at most, not {gamma:g}"
    )
    unrated = "the metric of the study says nothing of what was added"
    return [
        *notes,
        *noted(
            ("added", later, f"{later} questions added, {len(chosen)} pairs of systems among them new"),
            ("family-grew", grew and not judged, family),
            ("level-grew", judged, restated),
            ("metric-not-added", held.has_metric, unrated),
        ),
    ]


def _level(base: sqlite3.Connection, gamma: float, pairs: int) -> tuple[int, float]:
    """How many pairs have been judged, and the level of all `pairs` together: each has the share of its first look."""
    shares = [gamma / known for (known,) in base.execute(_FIRST_LOOKS)]
    return len(shares), sum(shares) + (pairs - len(shares)) * gamma / pairs


_FIRST_LOOKS = """
SELECT (SELECT json_extract(e.json, '$.pairs') FROM event e WHERE e.kind = 'added' AND e.at <= first
        ORDER BY e.event DESC LIMIT 1)
FROM (SELECT min(at) AS first FROM look GROUP BY pair)
"""
"""Of each pair that was judged: how many pairs there were then."""


def _is_new(held: Held, item: str, pair: Pair) -> bool:
    """Whether the study had no two outputs of this item to ask about."""
    return any((item, system) not in held.material.outputs for system in filter(None, pair))


def _not_added(refused: set[str]) -> list[Note]:
    told = (
        f"outputs of {len(refused)} items are not added: they can only be shown plain, and others of the item are not"
    )
    return noted(("outputs-not-added", len(refused), told))


def _names(media: str) -> tuple[str, ...]:
    return tuple(json.loads(media))
