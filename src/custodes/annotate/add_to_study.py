"""Add systems or items to a study later. The order of existing questions does not change."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from custodes.annotate import study_file
from custodes.annotate.assignments import clusters_of
from custodes.annotate.event_log import Clock
from custodes.annotate.new_study import (
    add_notes,
    add_pair,
    add_texts,
    add_units,
    draw_later_order,
    empty_output_notes,
    find_askable,
    omission_notes,
)
from custodes.annotate.plan import PLAN, StudyPlan
from custodes.annotate.rendering import render
from custodes.annotate.safe_html import plain
from custodes.annotate.study_material import (
    Item,
    Pair,
    StudyMaterial,
    SystemOutput,
    load_images,
    pairs_of,
    read_material,
)
from custodes.answers.wording import plural
from custodes.arguments import check_arguments
from custodes.data.notes import Note, build_notes
from custodes.data.patterns import Patterns
from custodes.errors import InputError, OptionError, short_repr
from custodes.progress import Progress, silent
from custodes.stats.arrays import Ints

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
    existing content if that content is unchanged. Raises `InputError` if `texts` and the study have different content
    for an existing output or item, or if nothing is new.

    >>> import polars as pl, tempfile
    >>> from custodes.annotate.new_study import new
    >>> texts = pl.DataFrame({"item": ["1", "1"], "system": ["X", "Y"], "text": ["Yes.", "No."]})
    >>> study = new(texts, Path(tempfile.mkdtemp()) / "study.db")
    >>> add(study, pl.DataFrame({"item": ["1"], "system": ["Z"], "text": ["Perhaps."]})).name
    'study.db'
    """
    study_path = study_file.check(path)
    with (
        study_file.lock_study(study_path),
        study_file.sqlite_errors(study_path),
        closing(study_file.connect(study_path, durable=True)) as connection,
    ):
        stored_study = StoredStudy.read(connection)
        input_study, input_material = read_material(texts, systems=systems)
        input_material, media = load_images(input_material, progress=progress)
        all_material, added_material = stored_study.merge_material(input_material)
        added_html = render(added_material, stored_study.plan.texts.render, progress=progress)
        # All outputs of an item have the same format, so plain text cannot be added to formatted outputs.
        existing_item_labels = set(stored_study.material.labels())
        unextendable_item_labels = (added_html.refused & existing_item_labels) - stored_study.plain_text_items
        added_outputs = {
            item_and_system: output
            for item_and_system, output in added_material.outputs.items()
            if item_and_system[0] not in unextendable_item_labels
        }
        html_of_item_and_system = {
            item_and_system: plain(output.text)
            if item_and_system[0] in stored_study.plain_text_items
            else added_html.outputs[item_and_system]
            for item_and_system, output in added_outputs.items()
        }
        rejection_note_text = (
            f"outputs of {len(unextendable_item_labels)} items are not added: the new outputs can "
            "be displayed only as plain text, but the existing outputs of these items have "
            "another format"
        )
        with study_file.transaction(connection):
            written_at = Clock().wall()
            add_texts(
                connection,
                replace(all_material, outputs=added_outputs),
                added_html.items,
                html_of_item_and_system,
                media,
                stored_system_and_item_counts=(len(stored_study.material.systems), len(stored_study.material.items)),
                written_at=written_at,
            )
            all_material = replace(all_material, outputs={**stored_study.material.outputs, **added_outputs})
            notes = [
                *input_study.notes,
                *empty_output_notes(replace(added_material, outputs=added_outputs)),
                *added_html.notes(omitted_items=unextendable_item_labels),
                *build_notes(("outputs-not-added", len(unextendable_item_labels), rejection_note_text)),
                *_add_questions(connection, stored_study, all_material, pairs),
            ]
            add_notes(
                connection, notes, plain_text_items=added_html.refused - unextendable_item_labels, written_at=written_at
            )
    return study_path


@dataclass(frozen=True, kw_only=True)
class StoredStudy:
    """Content of a study file.

    `plan` is the latest plan. `material` has the names of images instead of paths. `item_orders` has the items of each
    of the `pairs`, in their order. `plain_text_items` has the items that are displayed as plain text although the plan
    has another format.
    """

    plan: StudyPlan
    material: StudyMaterial
    pairs: Sequence[Pair]
    item_orders: Sequence[Sequence[int]]
    plain_text_items: frozenset[str]
    notes: tuple[Note, ...]
    has_metric: bool

    @classmethod
    def read(cls, connection: sqlite3.Connection) -> StoredStudy:
        """Read the file. Raise `InputError` if another program made the file inconsistent."""
        try:
            (plan_json,) = connection.execute("SELECT json FROM plan ORDER BY version DESC LIMIT 1").fetchone()
            items = tuple(
                Item(
                    label=label,
                    cluster=cluster,
                    group=group,
                    source=source,
                    context=context,
                    meta=meta,
                    images=tuple(json.loads(images_json)),
                    references=tuple(json.loads(references_json)),
                )
                for label, cluster, group, source, context, meta, images_json, references_json in connection.execute(
                    "SELECT label, cluster, grp, source, context, meta, media, refs FROM item ORDER BY item"
                )
            )
            systems = tuple(
                system_name for (system_name,) in connection.execute("SELECT label FROM system ORDER BY system")
            )
            output_of_item_and_system = {
                (items[item_index].label, systems[system_index]): SystemOutput(
                    text=output_text, images=tuple(json.loads(images_json))
                )
                for item_index, system_index, output_text, images_json in connection.execute(
                    "SELECT item, system, text, media FROM output"
                )
            }
            pairs = [
                (systems[first_index], None if second_index is None else systems[second_index])
                for first_index, second_index in connection.execute("SELECT first, second FROM pair ORDER BY pair")
            ]
            item_orders: list[list[int]] = [[] for _ in pairs]
            for pair_number, item_index in connection.execute("SELECT pair, item FROM unit ORDER BY pair, place"):
                item_orders[pair_number].append(item_index)
            plain_and_note_event_rows = connection.execute(
                "SELECT kind, json FROM event WHERE kind IN ('plain', 'note') ORDER BY event"
            ).fetchall()
            (n_metric_rows,) = connection.execute("SELECT count(*) FROM metric").fetchone()
            return cls(
                plan=PLAN.decode(plan_json),
                material=StudyMaterial(items=items, systems=systems, outputs=output_of_item_and_system),
                pairs=pairs,
                item_orders=item_orders,
                plain_text_items=frozenset(
                    plain_text_item_label
                    for event_kind, event_json in plain_and_note_event_rows
                    if event_kind == "plain"
                    for plain_text_item_label in json.loads(event_json)
                ),
                notes=tuple(
                    NOTE.decode(event_json)
                    for event_kind, event_json in plain_and_note_event_rows
                    if event_kind == "note"
                ),
                has_metric=bool(n_metric_rows),
            )
        except (msgspec.MsgspecError, ValueError, TypeError, LookupError) as problem:
            raise InputError(
                f"the study cannot be read ({problem}); restore the last valid copy of the study"
            ) from None

    def merge_material(self, input_material: StudyMaterial) -> tuple[StudyMaterial, StudyMaterial]:
        """Return the material of the whole study, with the stored items and systems first, and the new material. Raise
        `InputError` if new and stored material contradict each other."""
        stored_item_of_label = {item.label: item for item in self.material.items}
        another_name_text = "give the new item another name"
        advice_of_field = {
            **dict.fromkeys(
                ("source", "context", "images", "references"), f"which annotators may have seen; {another_name_text}"
            ),
            **dict.fromkeys(("cluster", "group", "meta"), f"which cannot change; leave it out, or {another_name_text}"),
        }
        for item in input_material.items:
            stored_item = stored_item_of_label.get(item.label, item)
            for field_name, advice in advice_of_field.items():
                field_value, stored_value = getattr(item, field_name), getattr(stored_item, field_name)
                is_changed = bool(field_value) and field_value != stored_value
                if is_changed and stored_value and field_name == "meta":  # the order of keys depends on the file
                    is_changed = json.loads(field_value) != json.loads(stored_value)
                if is_changed:
                    raise InputError(
                        f"item {short_repr(item.label)}: the {field_name} differs from the {field_name} in the study, "
                        f"{advice}"
                    )
        for item_and_system, output in input_material.outputs.items():
            if self.material.outputs.get(item_and_system, output) != output:
                raise InputError(
                    f"item {short_repr(item_and_system[0])}: the output of {short_repr(item_and_system[1])} differs "
                    "from the output in the study, which annotators may have seen; give the system another name"
                )
        new_output_of_item_and_system = {
            item_and_system: output
            for item_and_system, output in input_material.outputs.items()
            if item_and_system not in self.material.outputs
        }
        if not new_output_of_item_and_system:
            raise InputError("nothing to add: the study already contains all of these outputs")
        new_items = tuple(item for item in input_material.items if item.label not in stored_item_of_label)
        all_material = StudyMaterial(
            items=(*self.material.items, *new_items),
            systems=tuple(dict.fromkeys((*self.material.systems, *input_material.systems))),
            outputs=self.material.outputs,
        )
        input_items_as_stored = tuple(stored_item_of_label.get(item.label, item) for item in input_material.items)
        return all_material, StudyMaterial(
            items=input_items_as_stored, systems=input_material.systems, outputs=new_output_of_item_and_system
        )


def _add_questions(
    connection: sqlite3.Connection,
    stored_study: StoredStudy,
    all_material: StudyMaterial,
    selected_pairs: Sequence[str] | None,
) -> list[Note]:
    """Add new pairs, and new items of existing pairs. Return notes. Raise `InputError` if there are no
    new questions."""
    seed, stored_systems = stored_study.plan.seed, set(stored_study.material.systems)
    new_pairs = [
        pair
        for pair in pairs_of(all_material.systems, selected_pairs, mode=stored_study.plan.question.mode)
        if pair not in stored_study.pairs
        and (selected_pairs is not None or not set(filter(None, pair)) <= stored_systems)
    ]
    if selected_pairs is not None and not new_pairs:
        raise OptionError(
            f"pairs={short_repr(selected_pairs)}: the study contains all of these pairs already; give other pairs"
        )
    cluster_numbers = clusters_of([item.cluster for item in all_material.items])
    is_rating_study = stored_study.plan.question.mode == "rate"
    rated_item_order = _order_of_rated_items(stored_study, cluster_numbers) if is_rating_study else []

    def draw_order(is_available_item: NDArray[np.bool_], *seed_texts: str) -> list[int]:
        if is_rating_study:
            return [item_index for item_index in rated_item_order if is_available_item[item_index]]
        return draw_later_order(is_available_item, cluster_numbers, seed, *seed_texts)

    n_added_comparisons = 0
    askable_masks_of_stored_pairs, *_ = find_askable(all_material, stored_study.pairs)
    for pair_number, (is_available_item, pair, stored_item_order) in enumerate(
        zip(askable_masks_of_stored_pairs, stored_study.pairs, stored_study.item_orders, strict=True)
    ):
        is_available_item[list(stored_item_order)] = False
        # Comparisons that were excluded when the study was created (control questions) stay excluded, because only
        # new outputs add comparisons.
        is_available_item &= [
            any((item_label, system) not in stored_study.material.outputs for system in filter(None, pair))
            for item_label in all_material.labels()
        ]
        item_order = draw_order(is_available_item, *map(str, pair), str(len(stored_item_order)))
        add_units(connection, pair_number, item_order, first_position=len(stored_item_order))
        n_added_comparisons += len(item_order)
    askable_masks_of_new_pairs, n_identical_comparisons, n_empty_comparisons = find_askable(all_material, new_pairs)
    for pair_number, (is_available_item, pair) in enumerate(
        zip(askable_masks_of_new_pairs, new_pairs, strict=True), start=len(stored_study.pairs)
    ):
        item_order = draw_order(is_available_item, *map(str, pair))
        add_pair(connection, pair_number, pair, all_material.systems)
        add_units(connection, pair_number, item_order)
        n_added_comparisons += len(item_order)
    if not n_added_comparisons:
        raise InputError("nothing to ask: each new output is empty, or equals every other output of its item")
    has_larger_test_family = bool(new_pairs) and stored_study.plan.stopping.family
    n_pairs, gamma = len(stored_study.pairs) + len(new_pairs), stored_study.plan.stopping.gamma
    n_analysed_pairs, joint_significance_level = (
        _joint_level(connection, gamma, n_pairs) if has_larger_test_family else (0, gamma)
    )
    family_note_text = f"gamma is now divided by {n_pairs}, the number of pairs"
    level_note_text = (
        f"{family_note_text}. {n_analysed_pairs} pairs were analysed earlier at a larger significance level and keep "
        "their decisions, so the probability of at least one false decision is now at most "
        f"{joint_significance_level:.3g}, not {gamma:g}"
    )
    addition_note_text = (
        f"added: {plural(n_added_comparisons, 'output')} to rate, with {plural(len(new_pairs), 'new system')}"
        if is_rating_study
        else f"{n_added_comparisons} comparisons are added, with {len(new_pairs)} new pairs of systems"
    )
    return [
        *omission_notes(
            askable_masks_of_new_pairs,
            new_pairs,
            n_identical=n_identical_comparisons,
            n_empty=n_empty_comparisons,
            n_control=0,
        ),
        *build_notes(
            ("added", n_added_comparisons, addition_note_text),
            ("family-grew", has_larger_test_family and not n_analysed_pairs, family_note_text),
            ("level-grew", n_analysed_pairs, level_note_text),
            ("metric-not-added", stored_study.has_metric, "the metric of the study has no scores for the new outputs"),
        ),
    ]


def _order_of_rated_items(stored_study: StoredStudy, cluster_numbers: Ints) -> list[int]:
    """Return the order of items that all systems of a rating study share: the stored order, then other items in random
    order."""
    positions_and_items = sorted(
        position_and_item for item_order in stored_study.item_orders for position_and_item in enumerate(item_order)
    )
    stored_item_order = list(dict.fromkeys(item_index for _, item_index in positions_and_items))
    is_new_item = np.ones(len(cluster_numbers), dtype=bool)
    is_new_item[stored_item_order] = False
    return [
        *stored_item_order,
        *draw_later_order(is_new_item, cluster_numbers, stored_study.plan.seed, "rate", str(len(stored_item_order))),
    ]


_FIRST_LOOKS = """
SELECT (SELECT json_extract(e.json, '$.pairs') FROM event e WHERE e.kind = 'added' AND e.at <= first
        ORDER BY e.event DESC LIMIT 1)
FROM (SELECT min(at) AS first FROM look GROUP BY pair)
"""
"""Query that returns, for each analysed pair, the number of pairs in the study at the pair's first analysis."""


def _joint_level(connection: sqlite3.Connection, gamma: float, n_pairs: int) -> tuple[int, float]:
    """Return the number of analysed pairs and the joint significance level of all `n_pairs` pairs. Each analysed pair
    keeps the level of its first analysis."""
    analysed_pair_levels = [
        gamma / n_pairs_at_first_analysis for (n_pairs_at_first_analysis,) in connection.execute(_FIRST_LOOKS)
    ]
    return len(analysed_pair_levels), sum(analysed_pair_levels) + (
        n_pairs - len(analysed_pair_levels)
    ) * gamma / n_pairs
