"""Exports of Label Studio: JSON (one object a task), and JSON_MIN (one an annotation).

Layout: "Label Studio JSON format of annotated tasks" on the page "Export annotations" of its guide
(labelstud.io/guide/export), with `value` as the tags Rating, Number, Choices and Pairwise have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import polars as pl

from custodes.data.notes import noted
from custodes.data.readers.annotations import ITEM, NUMBERED, ONE, TWO, AnnotationExport, Task
from custodes.data.readers.logs import Label, label, nested
from custodes.data.readers.reader import Invalid, TableReader
from custodes.data.study import Study
from custodes.data.table import fitting_columns
from custodes.errors import listed
from custodes.sealed import layout

WHAT = "an export of Label Studio"
FULL = ("data", "annotations")
SHORT = ("annotation_id", "annotator")
VALUES = ("rating", "number", "choices", "selected")
"""What the value of a tag is called: Rating, Number, Choices, Pairwise."""
KNOWN = {"id", *SHORT, "created_at", "updated_at", "lead_time", ITEM, "aspect", *ONE, *TWO[0], *TWO[1]}
"""Columns of JSON_MIN that are no answers: its own, and the fields of the data that are read."""
MOST_CHOICES = 11
"""Points of a scale, 0 to 10."""
SIDES = {"left", "right", "tie", "a", "b"}
HINT_SHORT = ", or say which column says so with --column system=NAME (--column item=NAME)"
HINT_FULL = ", or export JSON_MIN, whose columns --column system=NAME (--column item=NAME) can name"


@layout
class _User(msgspec.Struct):
    id: Label = ""
    email: str | None = None


@layout
class _Answer(msgspec.Struct):
    from_name: str = ""
    value: dict[str, Any] = {}


@layout
class _Annotation(msgspec.Struct):
    result: list[_Answer] = []
    completed_by: Label | _User | None = None
    was_cancelled: bool = False


@layout
class _Prediction(msgspec.Struct):
    result: list[_Answer] = []
    model_version: str | None = None


def read_label_studio(frame: pl.DataFrame, *, where: str, invalid: Invalid) -> Study:
    """A study of what annotators answered: item, system (or system_a, system_b) and aspect are fields of the data.

    An aspect is else the name of the tag. Numbers (Rating, Number, Choices that begin with one) are scores, Pairwise
    and Choices of a side are verdicts on the left output (system_a) and the right one. Predictions are a metric's,
    named by the version of its model.
    """
    short = fitting_columns(frame, (FULL, SHORT), where=where) == SHORT
    export = AnnotationExport(where=where, hint=HINT_SHORT if short else HINT_FULL)
    choices, others = _plain_columns(frame) if short else ([], [])
    skipped = numbered = 0
    for number, row in enumerate(frame.iter_rows(named=True), start=1):
        place = f"{where}, task {number}"
        if short:
            fields = {name: cell for name, cell in row.items() if cell is not None}
            annotations = [_short_annotation(fields, choices, place)]
        else:
            fields = nested(row["data"], dict[str, Any], place, WHAT)
            annotations = nested(row["annotations"], list[_Annotation], place, WHAT)
        task = export.task(fields, str(row.get("id") or number))
        numbered += not fields.get(ITEM)
        for annotation in annotations:
            skipped += annotation.was_cancelled
            if not annotation.was_cancelled:
                _add(export, task, annotation.result, _person(annotation.completed_by), "human")
        for prediction in nested(row.get("predictions"), list[_Prediction], place, WHAT) if not short else ():
            _add(export, task, prediction.result, prediction.model_version or "prediction", "metric")
    tags = f"its tags (columns of plain values are taken for data: {listed(others)})" if others else "its tags"
    study = export.study(invalid=invalid, questions=tags)
    notes = noted(
        ("skipped", skipped, f"{where}: {skipped} annotations were skipped by their annotator"),
        (
            "item-from-task",
            numbered,
            f"{where}: {numbered} tasks have no field 'item'; their item is the number of the task",
        ),
        (
            "answers-assumed",
            len(choices),
            f"{where}: columns of choices, taken for answers: {listed(choices)}; rename those that are data of the"
            " task, without a number before each text",
        ),
        (
            "plain-columns",
            len(others),
            f"{where}: columns of plain values, taken for data of the task and not for answers: {listed(others)};"
            " export JSON, which tells them apart, where some are answers",
        ),
    )
    return replace(study, notes=(*notes, *study.notes))


def _add(export: AnnotationExport, task: Task, result: list[_Answer], rater: str, kind: str) -> None:
    for answer in result:
        key = next((name for name in VALUES if name in answer.value), None)
        if key is None:
            export.unused[answer.from_name or "a tag without name"] += 1
            continue
        order = "ab" if key == "selected" else ""  # Pairwise shows system_a on the left
        export.add(task, answer.from_name, answer.value[key], rater=rater, kind=kind, order=order)


def _plain_columns(frame: pl.DataFrame) -> tuple[list[str], list[str]]:
    """JSON_MIN writes a single choice as plain text, as it does data: columns of choices, and those that may be data.

    Choices begin with their number, each with a different one and few in all, or are sides.
    """
    choices, others = list[str](), list[str]()
    for name in frame.columns:
        cells = [str(cell).strip() for cell in frame[name].unique() if cell is not None and str(cell).strip()]
        if name in KNOWN or not cells or any(cell.startswith("[{") for cell in cells):
            continue
        numbers = [float(match[1]) for cell in cells if (match := NUMBERED.fullmatch(cell))]
        scale = len(numbers) == len(cells) == len(set(numbers)) <= MOST_CHOICES
        sides = all(cell.lower() in SIDES for cell in cells)
        (choices if scale or sides else others).append(name)
    return choices, others


def _short_annotation(fields: dict[str, Any], choices: Sequence[str], place: str) -> _Annotation:
    """A row of JSON_MIN: lists of objects are answers, and so are cells in columns of choices."""
    result = []
    for name, cell in fields.items():
        if name in choices:
            result.append(_Answer(from_name=name, value={"choices": cell}))
        elif isinstance(cell, str) and cell.lstrip().startswith("[{"):
            values = nested(cell, list[dict[str, Any]], place, WHAT)
            result += [_Answer(from_name=name, value=value) for value in values]
    return _Annotation(result=result, completed_by=str(fields[SHORT[1]]))


def _person(user: Label | _User | None) -> str:
    if isinstance(user, _User):
        return user.email or label(user.id)
    return "" if user is None else label(user)


READER = TableReader(name="label_studio", columns=(FULL, SHORT), make=read_label_studio)
