"""Texts: one row per item with `outputs: {system: text}`, or one row per output with `system, text`; and optional
`source`, `references`."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from custodes.data.loading import parse_json
from custodes.data.notes import noted
from custodes.data.outputs import SCHEMA, SOURCES, Outputs
from custodes.data.raters import Raters
from custodes.data.readers.reader import Invalid, TableReader
from custodes.data.study import Study
from custodes.data.table import check_columns, check_unique, label_column, refuse
from custodes.errors import InputError, listed


def read_outputs(frame: pl.DataFrame, *, where: str, invalid: Invalid) -> Study:
    """A study of texts only, to be joined to ratings."""
    if "outputs" not in frame.columns:
        frame = _gathered(frame, where=where)
    check_columns(frame, where=where, required=("item", "outputs"), optional=("source", "references"))
    items = label_column(frame, "item", where=where)
    check_unique(items.to_frame(), ["item"], where=where, what="item", hint="one row per item")
    texts: list[dict[str, str]] = []
    references: list[list[str]] = []
    odd = 0
    listed_references = frame["references"] if "references" in frame.columns else [None] * frame.height
    for row, (item, outputs, told) in enumerate(zip(items, frame["outputs"], listed_references, strict=True), start=1):
        for name, text in _outputs(outputs, f"{where}, row {row}"):
            odd += not isinstance(text, str)
            texts.append({"item": item, "system": name, "text": text if isinstance(text, str) else json.dumps(text)})
        references.append(_references(told, f"{where}, row {row}"))
    if not texts:
        raise InputError(f"{where}: no output at all; give outputs as an object {{system: text}}")
    sources = pl.DataFrame([items, label_column(frame, "source", where=where, empty=True)]).with_columns(
        references=pl.Series(references, dtype=pl.List(pl.String))
    )
    made = Outputs(texts=pl.DataFrame(texts, schema=SCHEMA), sources=sources.select(list(SOURCES)))
    message = f"{where}: {odd} outputs are no text (true, false) and are taken as they are written"
    notes = noted(("output-not-text", odd, message))
    return Study(raters=Raters.infer({}), outputs=made, notes=tuple(notes), name=where)


def _gathered(frame: pl.DataFrame, *, where: str) -> pl.DataFrame:
    """One row per item from one row per output."""
    known = ("item", "system", "text", "source", "references")
    check_columns(frame, where=where, required=known[:3], optional=known[3:])
    others = [name for name in frame.columns if name not in known]
    if others:
        raise InputError(
            f"{where}: texts beside {listed(others)}; make two tables, one of texts ({', '.join(known)}), one of scores"
        )
    keys = pl.DataFrame([label_column(frame, name, where=where, empty=name == "system") for name in ("item", "system")])
    given = frame["text"].is_not_null()
    refuse(
        given & (keys["system"] == ""),
        lambda rows, _: f"{where}: column 'system' is empty in row {rows}; every text needs the system that wrote it",
    )
    rows = frame.with_columns(keys)
    check_unique(rows.filter(given), ["item", "system"], where=where, what="output", hint="one row per output")
    items: dict[str, dict[str, Any]] = {}
    for number, row in enumerate(rows.iter_rows(named=True), start=1):
        own = items.setdefault(row["item"], {"item": row["item"], "outputs": {}, "source": None, "references": None})
        if row["text"] is not None:
            own["outputs"][row["system"]] = row["text"]
        for name in set(known[3:]) & row.keys():
            if row[name] is not None and own[name] not in (None, row[name]):
                raise InputError(f"{where}: item {row['item']!r} has another {name} in row {number}; give it once")
            own[name] = own[name] if row[name] is None else row[name]
    return pl.DataFrame(list(items.values()), schema_overrides={"outputs": pl.Object})


def _outputs(value: Any, where: str) -> list[tuple[str, str | bool]]:
    outputs = _decoded(value, where)
    if not isinstance(outputs, dict) or not all(isinstance(text, str | bool | None) for text in outputs.values()):
        raise InputError(f"{where}: outputs must be an object {{system: text}}")
    named = [(str(name).strip(), text) for name, text in outputs.items() if text is not None]
    if len({name for name, _ in named} - {""}) < len(named):
        raise InputError(f"{where}: outputs name a system twice, or one without a name; every output needs its own")
    return named


def _references(value: Any, where: str) -> list[str]:
    if value is None or (isinstance(value, str) and not value.strip().startswith("[")):
        return [value] if value else []
    references = _decoded(value, where)
    if not isinstance(references, list) or not all(isinstance(text, str) for text in references):
        raise InputError(f"{where}: references must be a text or a list of texts")
    return references


def _decoded(value: Any, where: str) -> Any:
    if isinstance(value, pl.Series):
        return value.to_list()
    return parse_json(value, where=where) if isinstance(value, str) else value


READER = TableReader(
    name="outputs",
    columns=(("item", "outputs"), ("item", "system", "text")),
    make=read_outputs,
    absent=("rater", "score"),
)
