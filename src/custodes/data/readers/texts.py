"""Texts in files of verdicts: outputs and sources of items, from columns or conversations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from custodes.data.loading import parse_json
from custodes.data.outputs import SCHEMA, SOURCES, Outputs
from custodes.errors import InputError


def outputs_of(
    texts: Iterable[tuple[str, str, str | None]], sources: Iterable[tuple[Any, ...]]
) -> tuple[Outputs | None, int]:
    """Outputs from (item, system, text) and (item, source, optional references), the first of each key.

    Returns
    -------
    outputs : Outputs or None
        None without any text.
    count : int
        Number of further texts that differ from the first with the same key.
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
    """A conversation, `[{role, content}]` as a value or as JSON, as (role, text) pairs; a plain text is an answer.

    `content` is a text or a list of parts, of which those with `text` are used (as in Arena's files).
    """
    if isinstance(cell, str) and cell.lstrip().startswith("["):
        cell = parse_json(cell, where=where)
    if cell is None:
        return []
    if isinstance(cell, str):
        return [("assistant", cell)] if cell else []
    turns = list(cell) if isinstance(cell, Sequence | pl.Series) else None
    if turns is None or not all(isinstance(turn, dict | str | None) for turn in turns):
        raise InputError(f"{where}: a conversation must be a text or a list of {{role, content}}")
    turns = [turn if isinstance(turn, dict) else {"role": "assistant", "content": turn} for turn in turns]
    return [(str(turn.get("role") or ""), _text(turn.get("content"), where=where)) for turn in turns]


def spoken(turns: Sequence[tuple[str, str]], role: str, turn: int = 0) -> str | None:
    """The text of a role in one turn (counted from 1, if it exists) or in all turns; None without any."""
    texts = [text for who, text in turns if (who == "user") == (role == "user") and who != "system"]
    if not texts:
        return None
    return texts[turn - 1] if 0 < turn <= len(texts) else "\n\n".join(texts)


def _text(content: Any, *, where: str) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    parts = list(content) if isinstance(content, Sequence | pl.Series) else [content]
    if not all(isinstance(part, dict | str) for part in parts):
        raise InputError(f"{where}: the content of a message must be a text, or a list of parts with `text`")
    return "\n".join(str(part if isinstance(part, str) else part.get("text") or "") for part in parts)
