"""Tolerant parsing of JSON replies, and conversion of the parsed values to values that can be stored."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

DEEPEST = 100
"""Maximum depth of a stored reply; a chat completion has about ten levels."""

SURROGATE = re.compile("[\ud800-\udfff]")


def without_surrogates(text: str) -> str:
    """A text in which lone surrogates are replaced by U+FFFD."""
    return text if text.isascii() else SURROGATE.sub("\ufffd", text)


def reply_json(content: bytes) -> Any:
    """The value of a JSON text.

    Lone surrogates and bytes that are not UTF-8 become U+FFFD when the value is stored. Raises ValueError for invalid
    or too deeply nested JSON.
    """
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return json.loads(content.decode(errors="replace"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def storable(value: Any, *, text: Callable[[str], str] = without_surrogates, level: int = 0) -> Any:
    """A JSON value with `text` applied to every string, and null for values deeper than `DEEPEST` levels. Raises
    TypeError for other values.

    >>> storable({"a": ["b", {"c": "\\ud800"}]}) == {"a": ["b", {"c": "\\ufffd"}]}
    True
    """
    if isinstance(value, str):
        return text(str(value))
    if value is None or isinstance(value, bool | int | float):
        return value
    if level >= DEEPEST:
        return None
    if isinstance(value, Mapping):
        return {text(str(name)): storable(part, text=text, level=level + 1) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [storable(part, text=text, level=level + 1) for part in value]
    raise TypeError(f"a {type(value).__name__} is no value of JSON")


def encoded(value: Mapping[str, Any]) -> bytes:
    """The JSON of a record, as bytes. Raises TypeError if the record has a value that JSON cannot represent."""
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        return msgspec.json.encode(storable(value))
