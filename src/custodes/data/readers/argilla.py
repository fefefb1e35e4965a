"""Exports of Argilla 2: `records.to_json`, `to_list`, and the columns of `to_datasets` (a dataset of Hugging Face).

Layout: "Import and export" in the how-to guides of Argilla 2 (docs.argilla.io) and `GenericIO` of its package: nested
`fields`, `metadata`, `responses` and `suggestions`, or QUESTION.responses, QUESTION.responses.users,
QUESTION.suggestion, QUESTION.suggestion.agent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec
import polars as pl

from custodes.data.notes import noted
from custodes.data.readers.annotations import AnnotationExport
from custodes.data.readers.logs import Label, label, nested
from custodes.data.readers.reader import Invalid, TableReader
from custodes.data.study import Study
from custodes.data.table import fitting_columns
from custodes.errors import InputError
from custodes.sealed import layout

WHAT = "an export of Argilla"
NESTED = ("id", "fields", "responses", "suggestions")
FLAT = ("id", "status", "_server_id")
RESPONSES, SUGGESTION = ".responses", ".suggestion"


@layout
class _Response(msgspec.Struct):
    value: Any = None
    user_id: Label | None = None


@layout
class _Suggestion(msgspec.Struct):
    value: Any = None
    agent: str | None = None


def read_argilla(frame: pl.DataFrame, *, where: str, invalid: Invalid) -> Study:
    """A study of responses and suggestions: item, system (or system_a, system_b) and aspect are metadata, or fields.

    Without them the item is the id of the record and the aspect the name of the question. Users are human raters; a
    suggestion is a metric's, named by its agent.
    """
    parse = _flat_record if fitting_columns(frame, (NESTED, FLAT), where=where) == FLAT else _nested_record
    export = AnnotationExport(where=where)
    lost = 0
    for number, row in enumerate(frame.iter_rows(named=True), start=1):
        place = f"{where}, record {number}"
        record = parse(row, place)
        task = export.task(record.fields, str(row["id"] or number))
        for question, value, user, status in record.responses:
            if status in ("draft", "discarded"):
                lost += 1
                continue
            if not isinstance(user, Label):
                raise InputError(f"{place}: a response to {question!r} names no user")
            export.add(task, question, value, rater=label(user), kind="human")
        for question, value, agent in record.suggestions:
            export.add(task, question, value, rater=str(agent or "suggestion"), kind="metric")
    study = export.study(invalid=invalid, questions="its questions")
    notes = noted(("not-submitted", lost, f"{where}: {lost} responses were drafts or discarded, and are not read"))
    return replace(study, notes=(*notes, *study.notes))


class _Record(NamedTuple):
    """Fields; question, value, user and status of responses; question, value and agent of suggestions."""

    fields: dict[str, Any]
    responses: list[tuple[str, Any, Any, str]]
    suggestions: list[tuple[str, Any, Any]]


def _nested_record(row: Mapping[str, Any], place: str) -> _Record:
    fields, metadata = (nested(row.get(name), dict[str, Any], place, WHAT) for name in ("fields", "metadata"))
    responses = nested(row["responses"], dict[str, list[_Response]], place, WHAT)
    suggestions = nested(row["suggestions"], dict[str, _Suggestion], place, WHAT)
    return _Record(
        fields | metadata,
        [(name, response.value, response.user_id, "") for name, several in responses.items() for response in several],
        [(name, suggestion.value, suggestion.agent) for name, suggestion in suggestions.items()],
    )


def _flat_record(row: Mapping[str, Any], place: str) -> _Record:
    """A row of columns; those that belong to no question are fields, also where their name begins with `metadata.`."""
    fields = {name: value for name, value in row.items() if RESPONSES not in name and SUGGESTION not in name}
    record = _Record(fields | {name.removeprefix("metadata."): value for name, value in fields.items()}, [], [])
    for name, cell in row.items():
        if name.endswith(RESPONSES) and cell is not None:
            question = name.removesuffix(RESPONSES)
            parts = (cell, row.get(f"{name}.users"), row.get(f"{name}.status"))
            values, users, status = (nested(part, list[Any], place, WHAT) for part in parts)
            status = status or ["submitted"] * len(values)
            if not len(values) == len(users) == len(status):
                raise InputError(
                    f"{place}: {len(values)} responses to {question!r}, but {len(users)} users; is it whole?"
                )
            record.responses.extend(zip([question] * len(values), values, users, status, strict=True))
        if name.endswith(SUGGESTION):
            record.suggestions.append((name.removesuffix(SUGGESTION), cell, row.get(f"{name}.agent")))
    return record


READER = TableReader(name="argilla", columns=(NESTED, FLAT), make=read_argilla)
