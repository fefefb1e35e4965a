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
from custodes.annotate.new_study import (
    add_notes,
    add_pair,
    add_texts,
    add_units,
    draw_later_order,
    find_askable,
    omission_notes,
)
from custodes.annotate.plan import PLAN, StudyPlan
from custodes.annotate.rendering import render
from custodes.annotate.safe_html import plain
from custodes.annotate.study_material import Item, Pair, StudyMaterial, SystemOutput, media_of, pairs_of, read_material
from custodes.arguments import check_arguments
from custodes.data.notes import Note, build_notes
from custodes.data.patterns import Patterns
from custodes.errors import InputError, OptionError, short_repr
from custodes.progress import Progress, silent

NOTE = msgspec.json.Decoder(Note)


@check_arguments
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
    existing content if that content is unchanged. Raises `InputError` if `texts` and the study have different texts for
    an existing output or item, or if nothing is new.

    >>> import polars as pl, tempfile
    >>> from custodes.annotate.new_study import new
    >>> texts = pl.DataFrame({"item": ["1", "1"], "system": ["X", "Y"], "text": ["Yes.", "No."]})
    >>> study = new(texts, Path(tempfile.mkdtemp()) / "study.db")
    >>> add(study, pl.DataFrame({"item": ["1"], "system": ["Z"], "text": ["Perhaps."]})).name
    'study.db'
    """
    study_path = study_file.check(path)
    lock = study_file.Lock(study_path)
    try:
        with study_file.sqlite_errors(study_path), closing(study_file.connect(study_path, durable=True)) as connection:
            stored_study = StoredStudy.read(connection)
            study, given_material = read_material(texts, systems=systems)
            image_of_path = media_of(given_material.images(), progress=progress)
            all_material, added_material = stored_study.merge_material(
                given_material.with_images({name: image.name for name, image in image_of_path.items()})
            )
            rendered_texts = render(added_material, stored_study.plan.texts.render, progress=progress)
            # All outputs of an item have the same format, so plain text cannot be added to formatted outputs.
            existing_labels = set(stored_study.material.labels())
            refused_items = (rendered_texts.refused & existing_labels) - stored_study.plain
            html_of_output = {
                key: plain(output.text) if key[0] in stored_study.plain else rendered_texts.outputs[key]
                for key, output in added_material.outputs.items()
            }
            added_outputs = {
                key: output for key, output in added_material.outputs.items() if key[0] not in refused_items
            }
            stored_counts = len(stored_study.material.systems), len(stored_study.material.items)
            with study_file.transaction(connection):
                now = Clock().wall()
                new_material = replace(all_material, outputs=added_outputs)
                add_texts(
                    connection,
                    new_material,
                    rendered_texts.items,
                    html_of_output,
                    image_of_path.values(),
                    stored=stored_counts,
                    at=now,
                )
                all_material = replace(all_material, outputs={**stored_study.material.outputs, **added_outputs})
                refused_text = (
                    f"outputs of {len(refused_items)} items are not added, because they can be displayed only as plain "
                    "text, but the existing outputs of these items have another format"
                )
                notes = [
                    *study.notes,
                    *rendered_texts.notes,
                    *build_notes(("outputs-not-added", len(refused_items), refused_text)),
                ]
                notes += _add_questions(connection, stored_study, all_material, pairs)
                add_notes(connection, notes, plain=rendered_texts.refused - refused_items, at=now)
    finally:
        lock.release()
    return study_path


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
            (plan_json,) = base.execute("SELECT json FROM plan ORDER BY version DESC LIMIT 1").fetchone()
            query = "SELECT label, cluster, grp, source, context, meta, media, refs FROM item ORDER BY item"
            item_fields = ("label", "cluster", "group", "source", "context", "meta")
            items = tuple(
                Item(**dict(zip(item_fields, row, strict=True)), images=_texts(images), references=_texts(references))
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
            items_of_pair: dict[int, list[int]] = {pair: [] for pair in pairs}
            for pair, item in base.execute("SELECT pair, item FROM unit ORDER BY pair, place"):
                items_of_pair[pair].append(item)
            events = base.execute(
                "SELECT kind, json FROM event WHERE kind IN ('plain', 'note') ORDER BY event"
            ).fetchall()
            (n_metric_rows,) = base.execute("SELECT count(*) FROM metric").fetchone()
            return cls(
                plan=PLAN.decode(plan_json),
                material=StudyMaterial(items=items, systems=systems, outputs=outputs),
                pairs=pairs,
                asked=items_of_pair,
                plain=frozenset(name for kind, content in events if kind == "plain" for name in json.loads(content)),
                notes=tuple(NOTE.decode(content) for kind, content in events if kind == "note"),
                has_metric=bool(n_metric_rows),
            )
        except (msgspec.MsgspecError, ValueError, TypeError, LookupError) as problem:
            raise InputError(
                f"the study cannot be read ({problem}); restore the last valid copy of the study"
            ) from None

    def merge_material(self, material: StudyMaterial) -> tuple[StudyMaterial, StudyMaterial]:
        """Return the material of the whole study, with the stored items and systems first, and the new material. Raise
        `InputError` if new and stored material contradict each other."""
        stored_items = {item.label: item for item in self.material.items}
        for item in material.items:
            for name in ("source", "context", "images", "references") if item.label in stored_items else ():
                value = getattr(item, name)
                if value and value != getattr(stored_items[item.label], name):
                    raise InputError(
                        f"item {short_repr(item.label)}: the {name} differs from the {name} in the study, which "
                        "annotators may have seen; give the new item another name"
                    )
        for key, output in material.outputs.items():
            if self.material.outputs.get(key, output) != output:
                raise InputError(
                    f"item {short_repr(key[0])}: the output of {short_repr(key[1])} differs from the output in the "
                    "study, which annotators may have seen; give the system another name"
                )
        new_outputs = {key: output for key, output in material.outputs.items() if key not in self.material.outputs}
        if not new_outputs:
            raise InputError("nothing to add: the study already contains all of these outputs")
        new_items = tuple(item for item in material.items if item.label not in stored_items)
        systems = tuple(dict.fromkeys((*self.material.systems, *material.systems)))
        all_material = StudyMaterial(
            items=(*self.material.items, *new_items), systems=systems, outputs=self.material.outputs
        )
        shown_items = tuple(stored_items.get(item.label, item) for item in material.items)
        return all_material, StudyMaterial(items=shown_items, systems=material.systems, outputs=new_outputs)


def _add_questions(
    base: sqlite3.Connection, stored_study: StoredStudy, all_material: StudyMaterial, pairs: Sequence[str] | None
) -> list[Note]:
    """Add new pairs, and new items of existing pairs. Return notes. Raise `InputError` if there are no
    new questions."""
    seed, stored_systems = stored_study.plan.seed, set(stored_study.material.systems)
    new_pairs = [
        pair
        for pair in pairs_of(all_material.systems, pairs, mode=stored_study.plan.question.mode)
        if pair not in stored_study.pairs.values()
        and (pairs is not None or not set(filter(None, pair)) <= stored_systems)
    ]
    if pairs is not None and not new_pairs:
        raise OptionError(f"pairs={short_repr(pairs)}: the study contains all of these pairs already; give other pairs")
    clusters = clusters_of([item.cluster for item in all_material.items])
    n_added = 0
    has_comparison, *_ = find_askable(all_material, list(stored_study.pairs.values()))
    for is_available, (pair_id, pair) in zip(has_comparison, stored_study.pairs.items(), strict=True):
        earlier_items = stored_study.asked[pair_id]
        is_available[list(earlier_items)] = False
        # Comparisons that were excluded when the study was created (control questions) stay excluded, because only
        # new outputs add comparisons.
        is_available &= [
            any((item, system) not in stored_study.material.outputs for system in filter(None, pair))
            for item in all_material.labels()
        ]
        item_order = draw_later_order(is_available, clusters, seed, *map(str, pair), str(len(earlier_items)))
        add_units(base, pair_id, item_order, first=len(earlier_items))
        n_added += len(item_order)
    is_askable, n_same, n_empty = find_askable(all_material, new_pairs)
    for pair_id, (is_available, pair) in enumerate(
        zip(is_askable, new_pairs, strict=True), start=max(stored_study.pairs, default=-1) + 1
    ):
        item_order = draw_later_order(is_available, clusters, seed, *map(str, pair))
        add_pair(base, pair_id, pair, all_material.systems)
        add_units(base, pair_id, item_order)
        n_added += len(item_order)
    if not n_added:
        raise InputError("nothing to ask: each new output is empty, or its item has no output that differs from it")
    has_grown_family = bool(new_pairs) and stored_study.plan.stopping.family
    n_pairs, gamma = len(stored_study.pairs) + len(new_pairs), stored_study.plan.stopping.gamma
    n_tested, joint_level = _level(base, gamma, n_pairs) if has_grown_family else (0, gamma)
    family_text = f"gamma is now divided by {n_pairs}, the number of pairs"
    level_text = (
        f"{family_text}. {n_tested} pairs were analysed earlier at a larger level and keep their decisions, so the "
        f"probability of at least one false decision is now at most {joint_level:.3g}, not {gamma:g}"
    )
    return [
        *omission_notes(is_askable, new_pairs, same=n_same, empty=n_empty, taken=0),
        *build_notes(
            ("added", n_added, f"{n_added} comparisons are added, with {len(new_pairs)} new pairs of systems"),
            ("family-grew", has_grown_family and not n_tested, family_text),
            ("level-grew", n_tested, level_text),
            ("metric-not-added", stored_study.has_metric, "the metric of the study has no scores for the new outputs"),
        ),
    ]


_FIRST_LOOKS = """
SELECT (SELECT json_extract(e.json, '$.pairs') FROM event e WHERE e.kind = 'added' AND e.at <= first
        ORDER BY e.event DESC LIMIT 1)
FROM (SELECT min(at) AS first FROM look GROUP BY pair)
"""
"""Query with one row per analysed pair: how many pairs the study had at the first analysis of that pair."""


def _level(base: sqlite3.Connection, gamma: float, n_pairs: int) -> tuple[int, float]:
    """Return the number of analysed pairs and the joint level of all `n_pairs` pairs. Each analysed pair keeps the
    level of its first analysis."""
    analysed_levels = [gamma / n_pairs_then for (n_pairs_then,) in base.execute(_FIRST_LOOKS)]
    return len(analysed_levels), sum(analysed_levels) + (n_pairs - len(analysed_levels)) * gamma / n_pairs


def _texts(value: str) -> tuple[str, ...]:
    return tuple(json.loads(value))
