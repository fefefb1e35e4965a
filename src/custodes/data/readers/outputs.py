"""Texts: one row per item with `outputs: {system: text}` (or `{text, image}` of a system), or one row per output with
`system, text` (and `output_image`); and optional `source`, `references`, `image` or `images`, `context` (a text, or a
list of turns with role and text), `meta`."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import polars as pl

from custodes.data.items import one_value_per_item
from custodes.data.loading import parse_json
from custodes.data.notes import Note, noted
from custodes.data.outputs import IMAGES, SCHEMA, Outputs, dialogue, turns_in
from custodes.data.raters import Raters
from custodes.data.readers.reader import Invalid, TableReader
from custodes.data.study import Study
from custodes.data.table import check_columns, check_unique, label_column, refuse
from custodes.errors import InputError, listed

OF_ITEM = ("source", "references", "image", "images", "context", "meta")
"""What a row may say of its item."""
OF_OUTPUT = ("text", "image", "images")
"""What an object may say of an output."""


def read_outputs(frame: pl.DataFrame, *, where: str, invalid: Invalid) -> Study:
    """A study of texts only, to be joined to ratings."""
    if {"image", "images"} <= set(frame.columns):
        raise InputError(f"{where}: columns 'image' and 'images' say the same; take one out")
    facts, cells, notes = (_item_rows if "outputs" in frame.columns else _output_rows)(frame, where=where)
    texts: list[tuple[str, str, str]] = []
    images: list[tuple[str, str, str]] = []
    odd = 0
    for item, system, value, place in cells:
        text, of_output = _output(value, place)
        if text is not None:
            odd += not isinstance(text, str)
            texts.append((item, system, text if isinstance(text, str) else json.dumps(text)))
            images += [(item, system, image) for image in of_output]
    if not texts:
        raise InputError(f"{where}: no output at all; give outputs as an object {{system: text}}")
    contexts, unlike = _contexts(facts, where)
    columns = [facts["item"], label_column(facts, "source", where=where, empty=True), contexts]
    for name in {"references", "image", "images"} & set(facts.columns):
        several = [_several(cell, name, f"{where}, row {row}") for row, cell in enumerate(facts[name], start=1)]
        columns.append(pl.Series("images" if name == "image" else name, several, dtype=pl.List(pl.String)))
    if "meta" in facts.columns:
        metas = [_meta(cell, f"{where}, row {row}") for row, cell in enumerate(facts["meta"], start=1)]
        columns.append(pl.Series("meta", metas, dtype=pl.String))
    outputs = Outputs.of(
        pl.DataFrame(texts, schema=SCHEMA, orient="row"),
        pl.DataFrame(columns),
        pl.DataFrame(images, schema=IMAGES, orient="row"),
    )
    notes += noted(
        (
            "output-not-text",
            odd,
            f"{where}: {odd} outputs are no text (true, false) and are taken as they are written",
        ),
        (
            "context-not-turns",
            unlike,
            f"{where}: {unlike} contexts are lists, but no turns with role and text, and are taken as they are written",
        ),
    )
    return Study(raters=Raters.infer({}), outputs=outputs, notes=tuple(notes), name=where)


Rows = tuple[pl.DataFrame, list[tuple[str, str, Any, str]], list[Note]]
"""A row per item with what is said of it; item, system, value and place of each output; and notes."""


def _item_rows(frame: pl.DataFrame, *, where: str) -> Rows:
    """One row per item, with its outputs in one cell."""
    notes = check_columns(frame, where=where, required=("item", "outputs"), optional=OF_ITEM)
    items = label_column(frame, "item", where=where)
    check_unique(items.to_frame(), ["item"], where=where, what="item", hint="one row per item")
    cells: list[tuple[str, str, Any, str]] = []
    for row, (item, cell) in enumerate(zip(items, frame["outputs"], strict=True), start=1):
        place = f"{where}, row {row}"
        outputs = _decoded(cell, place)
        if not isinstance(outputs, dict):
            raise InputError(f"{place}: outputs must be an object {{system: text}}")
        systems = [str(name).strip() for name, value in outputs.items() if value is not None]
        if len({*systems} - {""}) < len(systems):
            raise InputError(f"{place}: outputs name a system twice, or one without a name; every output needs its own")
        cells += [(item, str(name).strip(), value, place) for name, value in outputs.items() if value is not None]
    return frame.with_columns(items), cells, notes


def _output_rows(frame: pl.DataFrame, *, where: str) -> Rows:
    """One row per output."""
    required, optional = ("item", "system", "text"), ("output_image", *OF_ITEM)
    check_columns(frame, where=where, required=required, optional=optional)
    others = [name for name in frame.columns if name not in (*required, *optional)]
    if others:
        raise InputError(
            f"{where}: texts beside {listed(others)}; make two tables, one of texts"
            f" ({', '.join((*required, *optional))}), one of scores"
        )
    rows = frame.with_columns(label_column(frame, name, where=where, empty=name == "system") for name in required[:2])
    filled = frame.select(pl.any_horizontal(pl.col("^(text|output_image)$").is_not_null())).to_series()
    refuse(
        filled & (rows["system"] == ""),
        lambda rows, _: f"{where}: column 'system' is empty in row {rows}; every text needs the system that wrote it",
    )
    check_unique(rows.filter(filled), ["item", "system"], where=where, what="output", hint="one row per output")
    cells: list[tuple[str, str, Any, str]] = []
    for number, row in enumerate(rows.iter_rows(named=True), start=1):
        image = row.get("output_image")
        value = row["text"] if image is None else {"text": row["text"], "images": image}
        if value is not None:
            cells.append((row["item"], row["system"], value, f"{where}, row {number}"))
    return one_value_per_item(rows.select("item", pl.col("^(" + "|".join(OF_ITEM) + ")$")), where=where), cells, []


def _contexts(frame: pl.DataFrame, where: str) -> tuple[pl.Series, int]:
    """The context of every row, turns of a dialogue as JSON of one form; and how many lists are no dialogue."""
    given = frame["context"] if "context" in frame.columns else pl.Series(dtype=pl.Null)
    if not (given.dtype.is_nested() or given.dtype == pl.String):
        return label_column(frame, "context", where=where, empty=True), 0
    contexts, odd = list[str | None](), 0
    for cell in given:
        inner = cell.to_list() if isinstance(cell, pl.Series) else cell
        if isinstance(cell, str) and cell.lstrip().startswith("["):
            with suppress(ValueError, RecursionError):
                inner = json.loads(cell)
        turns = turns_in(inner)
        if turns is None and cell is not None and not isinstance(cell, str):
            return label_column(frame, "context", where=where), 0  # which says that it holds no text
        odd += turns is None and isinstance(inner, list) and any(isinstance(turn, dict) for turn in inner)
        contexts.append(cell if turns is None else dialogue(turns))
    column = pl.DataFrame({"context": pl.Series(contexts, dtype=pl.String)})
    return label_column(column, "context", where=where, empty=True), odd


def _output(value: Any, where: str) -> tuple[str | bool | None, list[str]]:
    """Text and images of an output: a text, or an object that says both. Of a dataframe's structs, which have the keys
    of all rows, an output of nulls is none."""
    if isinstance(value, str | bool):
        return value, []
    if not isinstance(value, dict) or not set(value) <= set(OF_OUTPUT):
        raise InputError(f"{where}: outputs must be an object {{system: text}}, or {{system: {{text, image}}}}")
    parts = {name: part for name, part in value.items() if part is not None}
    text = parts.get("text", "" if parts else None)
    if not isinstance(text, str | None) or len(parts.keys() & {"image", "images"}) > 1:
        raise InputError(f"{where}: an output has a text, and an image or images")
    return text, [image for name in parts.keys() & {"image", "images"} for image in _several(parts[name], name, where)]


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
    meta = _decoded(value, where)
    if not isinstance(meta, dict):
        raise InputError(f'{where}: meta must be a JSON object, such as {{"year": 2024}}; context takes a text')
    if isinstance(value, str):
        return value
    return json.dumps({key: part for key, part in meta.items() if part is not None}, ensure_ascii=False, default=str)


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
