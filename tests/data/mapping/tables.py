"""Tables with typical column names of users, and the mapping that the error for a table proposes."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl
import pytest

import custodes as cu

SYSTEMS = ("Aster", "Birch", "Cedar")
METRICS = ("bleu", "rouge", "chrf")


def outputs(items: int = 8) -> list[tuple[str, str]]:
    """Return item and system of every output."""
    return [(f"d{item}", system) for item in range(items) for system in SYSTEMS]


def wide(*columns: str, item: str = "doc_id", system: str = "model", text: bool = True) -> pl.DataFrame:
    """Return a row per output, with integers in the human columns and fractions in the metric columns."""
    draw = random.Random(0)
    rows = [
        {
            item: doc,
            system: model,
            **({"output": f"What {model} wrote of {doc}."} if text else {}),
            **{name: round(draw.random(), 3) if name.startswith(METRICS) else draw.randint(1, 5) for name in columns},
        }
        for doc, model in outputs()
    ]
    return pl.DataFrame(rows)


def half(
    *columns: str,
    rater: str = "annotator",
    item: str = "doc_id",
    system: str = "model",
    label: Callable[[int], object] = "w{}".format,
) -> pl.DataFrame:
    """Return a row per output and one of two annotators."""
    draw = random.Random(0)
    rows: Sequence[dict[str, object]] = [
        {item: doc, system: model, rater: label(person), **{name: draw.randint(1, 5) for name in columns}}
        for doc, model in outputs()
        for person in range(2)
    ]
    return pl.DataFrame(rows)


def as_text(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame as read from a CSV file: all cells are text."""
    return pl.read_csv(frame.write_csv().encode(), infer_schema=False)


def rows(columns: str, systems: Sequence[str] = ("",), items: int = 12) -> list[dict[str, Any]]:
    """Return a row for each item and system.

    `columns` is a list such as `id=item, meta.model=system, reply=text, ann=mark:2`. A name with dots is a path in
    nested objects. `text:A` is the output of the system A, and a content that is not in `cells` is a constant.
    """

    def cell(content: str, item: int, system: str) -> Any:
        kind, _, argument = content.partition(":")
        who = argument or system
        cells = {
            "item": item,
            "system": system,
            "prompt": f"Write about number {item}, please.",
            "text": f"What {who} writes about number {item}.",
            "mark": 1 + (item * int(argument or 1) + len(system)) % 5 if kind == "mark" else 0,
            "share": (item * 7 + len(who)) % 11 / 11,
            "time": f"2026-03-{item + 1:02d}T10:00:00Z",
            "number": 100 + item,
            "messages": turns(item, system),
            "question": turns(item, system)[:2],
        }
        return cells.get(kind, content)

    table = []
    for item in range(items):
        for system in systems:
            row: dict[str, Any] = {}
            for column in columns.split(", "):
                name, _, content = column.rpartition("=")
                *path, last = name.split(".")
                place = row
                for key in path:
                    place = place.setdefault(key, {})
                place[last] = cell(content, item, system)
            table.append(row)
    return table


def turns(item: int, system: str) -> list[dict[str, str]]:
    """Return a conversation: an instruction, a prompt and an output."""
    speakers = (("system", "Be brief."), ("user", f"Write about number {item}, please."))
    answer = ("assistant", f"What {system} writes about number {item}.")
    return [{"role": role, "content": words} for role, words in (*speakers, answer)]


def proposed(*sources: Any, columns: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the mapping that the error for a table proposes."""
    with pytest.raises(cu.InputError) as error:
        cu.read(*sources, columns=columns)
    mapping: dict[str, Any] = ast.literal_eval(re.search(r"in Python columns=(\{.*\})\)", str(error.value))[1])  # type: ignore[index]
    return mapping
