"""Invalid edits of JSON files, for tests of readers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

ODD = [
    *(None, True, False, 0, 1, -1, 2, 10**9, 10**20, -(10**20), 0.5, -0.0, 1e308, -1e308, 5e-324, 1.0),
    *("", "A", "i0", "human", "ridge", "\x00", "\ud800", "\x1b[2J", "x" * 300, "decided", "NaN"),
    *([], {}, [[]], [1], ["A", "A"], {"": 1}, [None], [True] * 3, {"metric": 3}),
]
"""Values of unexpected type or size."""
WORDS = [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"{}", b"[]", b'"', b",", b":", b"\x00", b"\xff", b"9" * 400, b""]
"""Byte strings that replace parts of a file."""


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path to every part of a JSON value."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield (*path, key)
        yield from places(part, (*path, key))


@st.composite
def edited(draw: st.DrawFn, content: Any) -> Any:
    """Draw a JSON value with one to three parts changed, removed, duplicated or moved."""
    result = deepcopy(content)
    for _ in range(draw(st.integers(1, 3))):
        ways = list(places(result))
        if not ways:
            break
        *to, last = draw(st.sampled_from(ways))
        parent = result
        for part in to:
            parent = parent[part]
        how = draw(st.sampled_from(["odd", "number", "remove", "copy", "double", "name"]))
        if how == "remove":
            del parent[last]
        elif how == "double" and isinstance(parent, list):
            parent.insert(last, deepcopy(parent[last]))
        elif how == "name" and isinstance(parent, dict):
            parent[draw(st.sampled_from(["", "i1", "extra", "format", "trees"]))] = parent.pop(last)
        elif how == "copy":
            source: Any = result
            for part in draw(st.sampled_from(ways)):
                try:
                    source = source[part]
                except (KeyError, IndexError, TypeError):
                    break
            parent[last] = deepcopy(source)
        elif how == "number":
            parent[last] = draw(st.integers(-3, 300) | st.floats(allow_nan=False, allow_infinity=False))
        else:
            parent[last] = deepcopy(draw(st.sampled_from(ODD)))
    return result


@st.composite
def torn(draw: st.DrawFn, content: bytes) -> bytes:
    """Draw bytes with a part replaced, truncated or duplicated."""
    start = draw(st.integers(0, len(content)))
    end = draw(st.integers(start, min(len(content), start + 60)))
    put = draw(st.sampled_from([*WORDS, content[start:end] * 2]) | st.binary(max_size=8))
    tail = b"" if draw(st.integers(0, 9)) == 0 else content[end:]
    return content[:start] + put + tail


def as_json(value: Any) -> bytes:
    """Encode a JSON value as bytes, including lone surrogates."""
    return json.dumps(value).encode()
