"""Strict JSON: values have declared types, duplicate keys are rejected, and edited files are detected."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any, TypeVar

import msgspec

from custodes.errors import InputError

T = TypeVar("T")


def prepare_decoder(struct: type[T]) -> type[T]:
    """Resolve the types of the fields of a struct, and return the struct.

    If a struct is not prepared, its first use in several threads at once crashes the process."""
    msgspec.json.Decoder(struct)
    return struct


def digest(value: Any) -> str:
    """The SHA-256 of a value as JSON, in hexadecimal.

    >>> digest([1])[:8]
    '080a9ed4'
    """
    return hashlib.sha256(msgspec.json.encode(value)).hexdigest()


def decode(content: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode JSON text. Invalid content raises InputError with a short description.

    >>> decode(b"[1, 2]", msgspec.json.Decoder(list[int]))
    [1, 2]
    """
    try:
        value = decoder.decode(content)
        json.loads(content, object_pairs_hook=reject_duplicate_keys)  # msgspec would use the last of duplicate keys
    except msgspec.ValidationError as problem:
        raise InputError(f"invalid content: {_printable_message(problem)}") from None
    except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
        raise InputError(f"not the JSON that custodes writes: {_printable_message(problem)}") from None
    return value


def is_lossless(content: bytes, value: Any) -> bool:
    """Whether a JSON text has exactly the fields of the object decoded from it.

    >>> is_lossless(b'{"a": 1.0}', {"a": 1})
    True
    """
    return bool(msgspec.json.decode(content) == msgspec.json.decode(msgspec.json.encode(value)))


def _printable_message(problem: Exception) -> str:
    """Description of an error. Control characters are escaped, because the description may quote the file."""
    return "".join(filter(str.isprintable, str(problem)))[:_REASON]


_REASON = 200  # characters


def reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object from pairs of key and value.

    A duplicate key raises ValueError, because a parser would silently keep the last value.

    >>> reject_duplicate_keys([("a", 1), ("b", 2)])
    {'a': 1, 'b': 2}
    """
    json_object = dict(pairs)
    if len(json_object) < len(pairs):
        repeated_key = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"key {repeated_key!r} occurs twice in one object")
    return json_object
