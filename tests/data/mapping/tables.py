"""Tables with typical column names of users."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import polars as pl

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
