"""Texts, in a table with one row per item or one row per output. With a row per item, a cell `outputs` contains all
outputs as `{system: text}`, or with `{text, image}` in place of a text. With a row per output, the columns are `system,
text` (and `output_image`). Optional columns are `source`, `references`, `image` or `images`, `context` (a text, or a
list of turns with role and text) and `meta`.

Texts may also be files in a folder, with one folder per system and one file per item, `SYSTEM/ITEM.txt`. Folders such
as `sources`, `references` and `contexts` hold texts of the items.

Other readers use `build_outputs`, `parse_messages` and `role_text` for the texts in logs and in files of verdicts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from custodes.data.items import merge_item_rows
from custodes.data.loading import decode_text, holds_table, parse_json, read_file_bytes
from custodes.data.mapping.column_vocabulary import is_fact, normalise_name
from custodes.data.mapping.pattern import UnfitError
from custodes.data.notes import Note, build_notes
from custodes.data.outputs import IMAGES, SCHEMA, SOURCES, Outputs, format_dialogue, parse_turns, select_first_values
from custodes.data.raters import Raters
from custodes.data.readers.reader import Invalid, PathReader, TableReader
from custodes.data.study import Study
from custodes.data.table import check_columns, check_unique, count_filled_cells, digest_of, label_column, refuse
from custodes.errors import InputError, join_labels

ITEM_FIELDS = ("source", "references", "image", "images", "context", "meta")
"""Columns that describe an item."""
MTME_FOLDERS = ("system-outputs", "human-scores", "metric-scores")
"""Folders of mt-metrics-eval, whose files have a line per segment."""
ROLE_OF_FOLDER = {
    **dict.fromkeys(("source", "src", "prompt", "input", "question", "document", "article"), "source"),
    **dict.fromkeys(("reference", "ref", "gold", "target", "ground_truth"), "references"),
    **dict.fromkeys(("context", "background", "evidence"), "context"),
}
"""Names of folders (singular or plural) with texts of the items."""


def read_outputs(frame: pl.DataFrame, *, where: str, invalid: Invalid) -> Study:
    """A study of texts only, to be joined to ratings."""
    if {"image", "images"} <= set(frame.columns):
        raise InputError(f"{where}: columns 'image' and 'images' have the same meaning; remove one")
    fact_table, output_records, notes = (_item_rows if "outputs" in frame.columns else _output_rows)(frame, where=where)
    parsed_outputs = [
        (item, system, *_output(output_value, location)) for item, system, output_value, location in output_records
    ]
    text_tuples = [
        (item, system, parsed_text if isinstance(parsed_text, str) else json.dumps(parsed_text))
        for item, system, parsed_text, _ in parsed_outputs
        if parsed_text is not None
    ]
    image_tuples = [(item, system, image) for item, system, _, images in parsed_outputs for image in images]
    n_boolean_outputs = sum(isinstance(parsed_text, bool) for _, _, parsed_text, _ in parsed_outputs)
    if not text_tuples:
        raise InputError(f"{where}: no outputs; give outputs as an object {{system: text}}")
    fact_series_list = [fact_table["item"], label_column(fact_table, "source", where=where, empty=True)]
    for column_name in (column_name for column_name in CELLS if column_name in fact_table.columns):
        column_cells = fact_table[column_name]
        if column_name == "context" and not column_cells.dtype.is_nested():
            column_cells = label_column(fact_table, column_name, where=where, empty=True)
        converted_cells = [
            CELLS[column_name](cell, column_name, f"{where}, row {row_number}")
            for row_number, cell in enumerate(column_cells, start=1)
        ]
        stored_column_name = "images" if column_name == "image" else column_name
        fact_series_list.append(pl.Series(stored_column_name, converted_cells, dtype=SOURCES[stored_column_name]))
    keys_with_image = {(item, system) for item, system, _ in image_tuples}
    empty_output_descriptions = [
        f"{system} of {item}"
        for item, system, output_text in text_tuples
        if not output_text and (item, system) not in keys_with_image
    ]
    outputs = Outputs.from_sources(
        pl.DataFrame(text_tuples, schema=SCHEMA, orient="row"),
        pl.DataFrame(fact_series_list),
        pl.DataFrame(image_tuples, schema=IMAGES, orient="row"),
    )
    notes += build_notes(
        (
            "output-not-text",
            n_boolean_outputs,
            f"{where}: {n_boolean_outputs} outputs are true or false instead of text and are read as the words "
            "true and false",
        ),
        (
            "empty-output",
            len(empty_output_descriptions),
            f"{where}: the text of {len(empty_output_descriptions)} of {len(text_tuples)} outputs is empty "
            f"({join_labels(empty_output_descriptions, limit=3)}); empty texts count as outputs, so remove the rows "
            "of outputs that do not exist",
        ),
    )
    return Study(raters=Raters.infer({}), outputs=outputs, notes=tuple(notes), name=where)


Rows = tuple[pl.DataFrame, list[tuple[str, str, Any, str]], list[Note]]
"""A table of items with descriptions, a table of outputs (item, system, value and position), and notes."""


def _item_rows(frame: pl.DataFrame, *, where: str) -> Rows:
    """The texts in a table with one row per item, where one cell holds all outputs of the item."""
    notes = check_columns(frame, where=where, required=("item", "outputs"), optional=ITEM_FIELDS)
    item_labels = label_column(frame, "item", where=where)
    check_unique(item_labels.to_frame(), ["item"], where=where, what="item", hint="one row per item")
    output_records: list[tuple[str, str, Any, str]] = []
    for row_number, (item, outputs_cell) in enumerate(zip(item_labels, frame["outputs"], strict=True), start=1):
        location = f"{where}, row {row_number}"
        output_of_system = _decode_cell(outputs_cell, location)
        if not isinstance(output_of_system, dict):
            raise InputError(f"{location}: outputs must be an object {{system: text}}")
        systems_and_outputs = [
            (str(system_name).strip(), output_value)
            for system_name, output_value in output_of_system.items()
            if output_value is not None
        ]
        if len({system for system, _ in systems_and_outputs if system}) < len(systems_and_outputs):
            raise InputError(
                f"{location}: two outputs have the same system, or a system has no name; give each output a different "
                f"system"
            )
        output_records += [(item, system, output_value, location) for system, output_value in systems_and_outputs]
    return frame.with_columns(item_labels), output_records, notes


def _output_rows(frame: pl.DataFrame, *, where: str) -> Rows:
    """The texts in a table with one row per output."""
    required_column_names, optional_column_names = ("item", "system", "text"), ("output_image", *ITEM_FIELDS)
    notes = check_columns(frame, where=where, required=required_column_names, optional=optional_column_names)
    score_column_names = [
        column_name
        for column_name in frame.columns
        if column_name not in (*required_column_names, *optional_column_names)
        and not is_fact(column_name)
        and count_filled_cells(frame[column_name])[1]
    ]
    if score_column_names:
        raise UnfitError(
            f"{where}: the table has texts and scores ({join_labels(score_column_names)})",
            "; map both, as in --column text=text --columns 'metric:{rater}'",
        )
    rows_with_checked_labels = frame.with_columns(
        label_column(frame, column_name, where=where, empty=column_name == "system")
        for column_name in required_column_names[:2]
    )
    is_filled_expression = pl.any_horizontal(pl.col("^(text|output_image)$").is_not_null())
    is_filled_row = rows_with_checked_labels.select(is_filled_expression).to_series()
    refuse(
        is_filled_row & (rows_with_checked_labels["system"] == ""),
        lambda row_numbers, _: (
            f"{where}: column 'system' is empty in row {row_numbers}; name the system that wrote each text"
        ),
    )
    check_unique(
        rows_with_checked_labels.filter(is_filled_row),
        ["item", "system"],
        where=where,
        what="output",
        hint="one row per output",
    )
    # An empty cell is an empty output, unless images may be the output or another row has the text.
    is_empty_output = rows_with_checked_labels.select(
        ~is_filled_expression.any().over("item", "system")
        & (pl.col("system") != "")
        & pl.struct("item", "system").is_first_distinct()
        & ("output_image" not in frame.columns)
    ).to_series()
    is_output = is_filled_row | is_empty_output
    output_records = [
        (
            row["item"],
            row["system"],
            {"text": row["text"], "images": row["output_image"]}
            if row.get("output_image") is not None
            else ("" if row["text"] is None else row["text"]),
            f"{where}, row {row_index + 1}",
        )
        for row_index, row in zip(
            is_output.arg_true(), rows_with_checked_labels.filter(is_output).iter_rows(named=True), strict=True
        )
    ]
    return (
        merge_item_rows(
            rows_with_checked_labels.select("item", pl.col("^(" + "|".join(ITEM_FIELDS) + ")$")), where=where
        ),
        output_records,
        notes,
    )


def _output(output_value: Any, where: str) -> tuple[str | bool | None, list[str]]:
    """The text and the images of an output, from a text or from an object with text and images.

    In a dataframe, every row has the keys of all rows, so an output whose values are all null counts as missing.
    """
    if isinstance(output_value, str | bool):
        return output_value, []
    if not isinstance(output_value, dict) or not set(output_value) <= {"text", "image", "images"}:
        raise InputError(f"{where}: outputs must be an object {{system: text}}, or {{system: {{text, image}}}}")
    value_of_field = {
        field_name: field_value for field_name, field_value in output_value.items() if field_value is not None
    }
    output_text = value_of_field.pop("text", "" if value_of_field else None)
    if not isinstance(output_text, str | None) or len(value_of_field) > 1:
        raise InputError(
            f"{where}: the text of an output is not a text, or the output has both image and images; give a text, and "
            "one of image and images"
        )
    return output_text, [
        image_name
        for field_name, field_value in value_of_field.items()
        for image_name in _read_texts(field_value, field_name, where)
    ]


def _read_texts(value: Any, column_name: str, where: str) -> list[str]:
    """The texts in a cell, which is a single text, a list, or a list as JSON."""
    if value is None or (isinstance(value, str) and not value.strip().startswith("[")):
        return [value] if value else []
    texts = _decode_cell(value, where)
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise InputError(f"{where}: {column_name} must be a text or a list of texts")
    return texts


def _format_meta(value: Any, column_name: str, where: str) -> str:
    """An object as JSON.

    In a dataframe, every row has the keys of all rows, so keys without a value are removed.
    """
    if value is None or value == "":
        return ""
    meta_object = _decode_cell(value, where)
    if not isinstance(meta_object, dict):
        raise InputError(
            f'{where}: {column_name} must be a JSON object, such as {{"year": 2024}}; plain text belongs in context'
        )
    filled_meta = {meta_key: meta_value for meta_key, meta_value in meta_object.items() if meta_value is not None}
    return value if isinstance(value, str) else json.dumps(filled_meta, ensure_ascii=False, default=str)


def _format_context(value: Any, column_name: str, where: str) -> str:
    """The context as text. The turns of a dialogue become normalised JSON."""
    turns = parse_turns(value)
    if turns is None and isinstance(value, pl.Series | dict):
        raise InputError(f"{where}: {column_name} must be a text, or a list of turns with role and text")
    return format_dialogue(turns) if turns is not None else value or ""


def _decode_cell(value: Any, where: str) -> Any:
    if isinstance(value, pl.Series):
        return value.to_list()
    return parse_json(value, where=where) if isinstance(value, str) else value


def build_outputs(
    texts: Iterable[tuple[str, str, str | None]],
    sources: Iterable[tuple[str, str | None, list[str]]],
    *,
    where: str,
) -> tuple[Outputs | None, list[Note]]:
    """Outputs from tuples (item, system, text) and (item, source, references), and a note on outputs with several
    texts. The outputs are None if there is no text. The first non-empty text of an output and the first source of an
    item are used."""
    text_rows = pl.DataFrame(list(texts), schema=SCHEMA, orient="row").drop_nulls()
    source_rows = pl.DataFrame(
        list(sources),
        {column_name: SOURCES[column_name] for column_name in ("item", "source", "references")},
        orient="row",
    ).with_columns(pl.col("item").str.strip_chars())
    first_text_rows, first_source_rows, notes = select_first_values(
        text_rows.with_columns(pl.col("item", "system").str.strip_chars()),
        source_rows.unique("item", keep="first", maintain_order=True),
        where=where,
    )
    return (Outputs.from_sources(first_text_rows, first_source_rows) if text_rows.height else None), notes


def parse_messages(cell: Any, *, where: str) -> list[tuple[str, str]]:
    """The pairs (role, text) of a conversation, which is `[{role, content}]` as a value or as JSON. A plain text is an
    answer.

    `content` is a text, or a list of parts as in the files of Arena. Only parts with `text` are used.
    """
    turns = parse_turns(cell)
    if cell is None or turns:
        return turns or []
    if isinstance(cell, str):
        if not cell.lstrip().startswith("["):
            return [("assistant", cell)] if cell else []
        cell = parse_json(cell, where=where)
    answer_texts = list(cell) if isinstance(cell, Sequence | pl.Series) else None
    if answer_texts is None or not all(isinstance(answer_text, str | None) for answer_text in answer_texts):
        raise InputError(f"{where}: a conversation must be a text or a list of {{role, content}}")
    return [("assistant", answer_text or "") for answer_text in answer_texts]


def role_text(turns: Sequence[tuple[str, str]], role: str, turn_number: int = 0) -> str | None:
    """The text of a role in one turn (counted from 1), or None if there is no text. If `turn_number` is 0 or does not
    exist, it is the text in all turns."""
    turn_texts = [
        turn_text for speaker, turn_text in turns if (speaker == "user") == (role == "user") and speaker != "system"
    ]
    if not turn_texts:
        return None
    return turn_texts[turn_number - 1] if 0 < turn_number <= len(turn_texts) else "\n\n".join(turn_texts)


CELLS: dict[str, Callable[[Any, str, str], Any]] = {
    **dict.fromkeys(("references", "image", "images"), _read_texts),
    "meta": _format_meta,
    "context": _format_context,
}
"""The function that reads the cells of a column. Its arguments are the cell, the name of the column, and the place to
name in messages."""

READER = TableReader(
    name="outputs",
    columns=(("item", "outputs"), ("item", "system", "text")),
    make=read_outputs,
    absent=("rater", "score"),
)


def read_texts_folder(path: Path, *, part: str | None, invalid: Invalid) -> Study:
    """The study of the texts below a folder; an item is the name of a file without its suffix."""
    folder_name = path.resolve().name
    if part is not None:
        raise InputError(f"{folder_name}: a folder of texts has no parts; remove '::{part}'")
    bytes_of_file = {file: read_file_bytes(file) for folder in _folders(path) for file in _text_files(folder)}
    name_of_file = {file: file.relative_to(path).as_posix() for file in bytes_of_file}
    file_tuples = [
        (
            file.stem,
            file.parent.name,
            decode_text(file_bytes, f"{folder_name}/{name_of_file[file]}").rstrip("\r\n"),
            _role(file.parent.name),
        )
        for file, file_bytes in bytes_of_file.items()
    ]
    digest_texts = [f"{name_of_file[file]}\0{file_bytes.hex()}\0" for file, file_bytes in bytes_of_file.items()]
    file_rows = pl.DataFrame(file_tuples, schema={**SCHEMA, "role": pl.String}, orient="row")
    output_frame = file_rows.filter(pl.col("role").is_null()).drop("role")
    if output_frame.is_empty():
        raise InputError(f"{folder_name}: no outputs; give a folder for each system, SYSTEM/ITEM.txt")
    for (role,), role_rows in file_rows.drop_nulls("role").group_by("role", maintain_order=True):
        check_unique(role_rows, ["item"], where=folder_name, what=f"file of {role}", hint="one file per item")
        output_frame = output_frame.join(
            role_rows.select("item", pl.col("text").alias(str(role))), on="item", how="left", maintain_order="left"
        )
    study = read_outputs(output_frame, where=folder_name, invalid=invalid)
    system_names = output_frame["system"].unique(maintain_order=True)
    n_expected_outputs = output_frame["item"].n_unique() * system_names.len()
    notes = build_notes(
        (
            "texts-folder",
            True,
            f"{folder_name}: each folder is read as a system ({join_labels(system_names)}), and each file as an item",
        ),
        (
            "missing-outputs",
            n_expected_outputs - output_frame.height,
            f"{folder_name}: {n_expected_outputs - output_frame.height} of {n_expected_outputs} outputs have no file",
        ),
    )
    return replace(study, notes=(*notes, *study.notes), digest=digest_of(*digest_texts))


def _folders(path: Path) -> Iterator[Path]:
    return (entry for entry in sorted(path.iterdir()) if entry.is_dir() and not entry.name.startswith("."))


def _text_files(folder: Path) -> list[Path]:
    return [
        file
        for file in sorted(folder.iterdir())
        if file.is_file() and file.suffix.lower() in (".txt", ".md") and not file.name.startswith(".")
    ]


def _role(name: str) -> str | None:
    """The role of the files in a folder with this name, such as `sources`; None for outputs."""
    return ROLE_OF_FOLDER.get(normalise_name(name).removesuffix("s"))


def _is_texts_folder(path: Path) -> bool:
    with suppress(OSError):
        if path.is_dir() and not holds_table(path) and not any((path / name).is_dir() for name in MTME_FOLDERS):
            return sum(_role(folder.name) is None and bool(_text_files(folder)) for folder in _folders(path)) > 1
    return False


TEXTS_FOLDER = PathReader(name="texts_folder", fits=_is_texts_folder, make=read_texts_folder)
