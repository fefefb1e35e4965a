"""Texts in files of verdicts: outputs of systems and sources of items, from columns or conversations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from custodes.data.loading import parse_json
from custodes.data.outputs import SCHEMA, SOURCES, Outputs, turns_of
from custodes.errors import InputError


def outputs_of(
    texts: Iterable[tuple[str, str, str | None]], sources: Iterable[tuple[Any, ...]]
) -> tuple[Outputs | None, int]:
    """Outputs from tuples (item, system, text) and (item, source, optional references). The first tuple of each key is
    used.

    Returns
    -------
    outputs : Outputs or None
        The outputs; None if there is no text.
    count : int
        Number of further texts that differ from the first text with the same key.
    """
    rows = pl.DataFrame(list(texts), schema=SCHEMA, orient="row").drop_nulls()
    key = ["item", "system"]
    rows = rows.with_columns(pl.col(key).str.strip_chars())
    first = rows.unique(key, keep="first", maintain_order=True)
    if rows.is_empty():
        return None, 0
    inputs = list(sources)
    schema = {name: SOURCES[name] for name in ("item", "source", "references")[: len(inputs[0]) if inputs else 2]}
    unique = pl.DataFrame(inputs, schema=schema, orient="row").with_columns(pl.col("item").str.strip_chars())
    different = rows.join(first, on=key).filter(pl.col("text") != pl.col("text_right")).height
    return Outputs.of(first, unique.unique("item", keep="first", maintain_order=True)), different


def messages(cell: Any, *, where: str) -> list[tuple[str, str]]:
    """The pairs (role, text) of a conversation, which is `[{role, content}]` as a value or as JSON. A plain text is an
    answer.

    `content` is a text, or a list of parts as in the files of Arena. Only parts with `text` are used.
    """
    turns = turns_of(cell)
    if cell is None or turns:
        return turns or []
    if isinstance(cell, str):
        if not cell.lstrip().startswith("["):
            return [("assistant", cell)] if cell else []
        cell = parse_json(cell, where=where)
    answers = list(cell) if isinstance(cell, Sequence | pl.Series) else None
    if answers is None or not all(isinstance(answer, str | None) for answer in answers):
        raise InputError(f"{where}: a conversation must be a text or a list of {{role, content}}")
    return [("assistant", answer or "") for answer in answers]


def spoken(turns: Sequence[tuple[str, str]], role: str, turn: int = 0) -> str | None:
    """The text of a role in one turn (counted from 1), or in all turns if `turn` is 0 or does not exist; None if there
    is no text."""
    texts = [text for who, text in turns if (who == "user") == (role == "user") and who != "system"]
    if not texts:
        return None
    return texts[turn - 1] if 0 < turn <= len(texts) else "\n\n".join(texts)
