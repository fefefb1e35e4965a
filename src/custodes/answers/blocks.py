"""JSON in blocks of rows, so that a table of millions of rows never becomes dicts, or one text, all at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import polars as pl

from custodes.data.writing import row_blocks

INDENT = b"  "


def json_blocks(value: Any, margin: bytes = b"\n") -> Iterator[bytes]:
    """Plain values as JSON with an indent of two, non-finite numbers as null; a frame is a list of its rows.

    `margin` is the line break with the indent of the enclosing value.

    >>> b"".join(json_blocks({"n": 2, "rows": pl.DataFrame({"x": [1.5]})})).decode().split()
    ['{', '"n":', '2,', '"rows":', '[', '{', '"x":', '1.5', '}', ']', '}']
    """
    inner = margin + INDENT
    if isinstance(value, pl.DataFrame) and value.height:
        yield b"["
        for number, rows in enumerate(row_blocks(value)):
            # Between the brackets of the block's part list.
            yield b"," * bool(number) + _formatted(rows.to_dicts())[1:-2].replace(b"\n", margin)
        yield margin + b"]"
    elif isinstance(value, Mapping) and value:
        for number, (name, part) in enumerate(value.items()):
            yield (b"," if number else b"{") + inner + msgspec.json.encode(str(name)) + b": "
            yield from json_blocks(part, inner)
        yield margin + b"}"
    else:
        yield _formatted([] if isinstance(value, pl.DataFrame) else value).replace(b"\n", margin)


def _formatted(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=len(INDENT))
