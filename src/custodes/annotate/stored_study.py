"""Content of a study file as values of Python."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from custodes.annotate.plan import PLAN, StudyPlan
from custodes.annotate.study_material import Item, Pair, StudyMaterial, SystemOutput
from custodes.data.notes import Note
from custodes.errors import InputError

NOTE = msgspec.json.Decoder(Note)


@dataclass(frozen=True, kw_only=True)
class StoredStudy:
    """Content of a study file.

    `plan` is the latest plan. `material` has the names of images instead of paths. `item_orders` has the items of each
    of the `pairs`, in their order.
    """

    plan: StudyPlan
    material: StudyMaterial
    pairs: Sequence[Pair]
    item_orders: Sequence[Sequence[int]]
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
            note_rows = connection.execute("SELECT json FROM event WHERE kind = 'note' ORDER BY event").fetchall()
            (n_metric_rows,) = connection.execute("SELECT count(*) FROM metric").fetchone()
            return cls(
                plan=PLAN.decode(plan_json),
                material=StudyMaterial(items=items, systems=systems, outputs=output_of_item_and_system),
                pairs=pairs,
                item_orders=item_orders,
                notes=tuple(NOTE.decode(note_json) for (note_json,) in note_rows),
                has_metric=bool(n_metric_rows),
            )
        except (msgspec.MsgspecError, ValueError, TypeError, LookupError) as problem:
            raise InputError(
                f"the study cannot be read ({problem}); restore the last valid copy of the study"
            ) from None
