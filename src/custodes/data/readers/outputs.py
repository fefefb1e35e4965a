"""Texts: one row per item with `outputs: {system: text}` (or `{text, image}` of a system), or one row per output with
`system, text` (and `output_image`); and optional `source`, `references`, `image` or `images`, `context` (a text, or a
list of turns with role and text), `meta`."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from custodes.data.loading import parse_json
from custodes.data.notes import noted
from custodes.data.outputs import IMAGES, SCHEMA, Outputs, dialogue, turns_in
from custodes.data.raters import Raters
from custodes.data.readers.reader import Invalid, TableReader
from custodes.data.study import Study
from custodes.data.table import check_columns, check_unique, label_column, refuse
from custodes.errors import InputError, listed

TOLD = ("source", "references", "image", "images", "context", "meta")
"""What a row may say of its item."""
OF_OUTPUT = ("text", "image", "images")
"""What an object may say of an output."""


def read_outputs(frame: pl.DataFrame, *, where: str, invalid: Invalid) -> Study:
    """A study of texts only, to be joined to ratings."""
    if "outputs" not in frame.columns:
        frame = _gathered(frame, where=where)
    notes = check_columns(frame, where=where, required=("item", "outputs"), optional=TOLD)
    if {"image", "images"} <= set(frame.columns):
        raise InputError(f"{where}: columns 'image' and 'images' say the same; take one out")
    items = label_column(frame, "item", where=where)
    check_unique(items.to_frame(), ["item"], where=where, what="item", hint="one row per item")
    texts: list[dict[str, str]] = []
    pictures: list[dict[str, str]] = []
    odd = 0
    for row, (item, outputs) in enumerate(zip(items, frame["outputs"], strict=True), start=1):
        for name, text, images in _outputs(outputs, f"{where}, row {row}"):
            odd += not isinstance(text, str)
            texts.append({"item": item, "system": name, "text": text if isinstance(text, str) else json.dumps(text)})
            pictures += ({"item": item, "system": name, "image": image} for image in images)
    if not texts:
        raise InputError(f"{where}: no output at all; give outputs as an object {{system: text}}")
    contexts, unlike = _contexts(frame, where)
    columns = [items, label_column(frame, "source", where=where, empty=True), contexts]
    for name in {"references", "image", "images"} & set(frame.columns):
        several = [_several(cell, name, f"{where}, row {row}") for row, cell in enumerate(frame[name], start=1)]
        columns.append(pl.Series(name.replace("image", "images", name == "image"), several, dtype=pl.List(pl.String)))
    if "meta" in frame.columns:
        metas = [_meta(cell, f"{where}, row {row}") for row, cell in enumerate(frame["meta"], start=1)]
        columns.append(pl.Series("meta", metas, dtype=pl.String))
    shown = pl.DataFrame(pictures, schema=IMAGES)
    made = Outputs.of(pl.DataFrame(texts, schema=SCHEMA), pl.DataFrame(columns), shown)
    message = f"{where}: {odd} outputs are no text (true, false) and are taken as they are written"
    jumbled = (
        f"{where}: {unlike} contexts are lists, but no turns with role and text, and are taken as they are written"
    )
    notes += noted(("output-not-text", odd, message), ("context-not-turns", unlike, jumbled))
    return Study(raters=Raters.infer({}), outputs=made, notes=tuple(notes), name=where)


def _gathered(frame: pl.DataFrame, *, where: str) -> pl.DataFrame:
    """One row per item from one row per output."""
    known = ("item", "system", "text", "output_image", *TOLD)
    check_columns(frame, where=where, required=known[:3], optional=known[3:])
    others = [name for name in frame.columns if name not in known]
    if others:
        raise InputError(
            f"{where}: texts beside {listed(others)}; make two tables, one of texts ({', '.join(known)}), one of scores"
        )
    keys = pl.DataFrame([label_column(frame, name, where=where, empty=name == "system") for name in ("item", "system")])
    given = frame["text"].is_not_null()
    if "output_image" in frame.columns:
        given |= frame["output_image"].is_not_null()
    refuse(
        given & (keys["system"] == ""),
        lambda rows, _: f"{where}: column 'system' is empty in row {rows}; every text needs the system that wrote it",
    )
    rows = frame.with_columns(keys)
    check_unique(rows.filter(given), ["item", "system"], where=where, what="output", hint="one row per output")
    items: dict[str, dict[str, Any]] = {}
    present = [name for name in TOLD if name in frame.columns]
    for number, row in enumerate(rows.iter_rows(named=True), start=1):
        own = items.setdefault(row["item"], {"item": row["item"], "outputs": {}, **dict.fromkeys(present)})
        image = row.get("output_image")
        if image is not None:
            own["outputs"][row["system"]] = {"text": row["text"], "images": image}
        elif row["text"] is not None:
            own["outputs"][row["system"]] = row["text"]
        for name in present:
            if row[name] is not None and own[name] not in (None, row[name]):
                raise InputError(f"{where}: item {row['item']!r} has another {name} in row {number}; give it once")
            own[name] = own[name] if row[name] is None else row[name]
    objects = dict.fromkeys(("outputs", *(name for name in present if frame[name].dtype.is_nested())), pl.Object)
    return pl.DataFrame(list(items.values()), schema_overrides=objects, infer_schema_length=None)


def _contexts(frame: pl.DataFrame, where: str) -> tuple[pl.Series, int]:
    """The context of every row, turns of a dialogue as JSON of one form; and how many lists are no dialogue."""
    given = frame["context"] if "context" in frame.columns else pl.Series(dtype=pl.Null)
    if not (given.dtype.is_nested() or given.dtype == pl.String):
        return label_column(frame, "context", where=where, empty=True), 0
    made, odd = list[str | None](), 0
    for cell in given:
        inner = _inner(cell)
        turns = turns_in(inner)
        if turns is None and cell is not None and not isinstance(cell, str):
            return label_column(frame, "context", where=where), 0  # which says that it holds no text
        odd += turns is None and isinstance(inner, list) and any(isinstance(own, dict) for own in inner)
        made.append(cell if turns is None else dialogue(turns))
    column = pl.DataFrame({"context": pl.Series(made, dtype=pl.String)})
    return label_column(column, "context", where=where, empty=True), odd


def _inner(cell: Any) -> Any:
    """What a cell holds: a list of a dataframe, or one as JSON."""
    if isinstance(cell, pl.Series):
        return cell.to_list()
    if not isinstance(cell, str) or not cell.lstrip().startswith("["):
        return cell
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        return cell


def _outputs(value: Any, where: str) -> list[tuple[str, str | bool, list[str]]]:
    """System, text and images of the outputs in a cell."""
    outputs = _decoded(value, where)
    if not isinstance(outputs, dict):
        raise InputError(f"{where}: outputs must be an object {{system: text}}")
    named = [(str(name).strip(), *_output(own, where)) for name, own in outputs.items() if own is not None]
    if len({name for name, _, _ in named} - {""}) < len(named):
        raise InputError(f"{where}: outputs name a system twice, or one without a name; every output needs its own")
    return [(name, text, images) for name, text, images in named if text is not None]


def _output(value: Any, where: str) -> tuple[str | bool | None, list[str]]:
    """Text and images of an output: a text, or an object that says both. Of a dataframe's structs, which have the keys
    of all rows, an output of nulls is none."""
    if isinstance(value, str | bool):
        return value, []
    if not isinstance(value, dict) or not set(value) <= set(OF_OUTPUT):
        raise InputError(f"{where}: outputs must be an object {{system: text}}, or {{system: {{text, image}}}}")
    told = {name: own for name, own in value.items() if own is not None}
    text = told.get("text", "" if told else None)
    if not isinstance(text, str | None) or len(told.keys() & {"image", "images"}) > 1:
        raise InputError(f"{where}: an output has a text, and an image or images")
    return text, [image for name in told.keys() & {"image", "images"} for image in _several(told[name], name, where)]


def _several(value: Any, name: str, where: str) -> list[str]:
    """The texts of a cell: one, a list, or a list as JSON."""
    if value is None or (isinstance(value, str) and not value.strip().startswith("[")):
        return [value] if value else []
    several = _decoded(value, where)
    if not isinstance(several, list) or not all(isinstance(text, str) for text in several):
        raise InputError(f"{where}: {name} must be a text or a list of texts")
    return several


def _meta(value: Any, where: str) -> str:
    """An object as JSON; of a dataframe's structs, which have the keys of all rows, those with a value."""
    if value is None or value == "":
        return ""
    told = _decoded(value, where)
    if not isinstance(told, dict):
        raise InputError(f'{where}: meta must be a JSON object, such as {{"year": 2024}}; context takes a text')
    if isinstance(value, str):
        return value
    return json.dumps({key: own for key, own in told.items() if own is not None}, ensure_ascii=False, default=str)


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
