"""The door of every question: an argument is of the type that its signature declares, and within the limits of all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from os import PathLike
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, Unpack, get_args, get_origin, get_type_hints

import numpy as np

from custodes.answers.setting import LARGEST, between, enough_resamples, is_number, is_whole, one_of
from custodes.errors import OptionError, shown
from custodes.progress import Progress

LIMITS: Mapping[str, Callable[[str, Any], Any]] = {
    **{name: lambda name, value: between(name, value, 0, 1) for name in ("confidence", "alpha", "gamma")},
    "resamples": enough_resamples,
}
"""What arguments that several questions share may be, beside their type."""


@cache
def declared(function: Callable[..., Any]) -> Mapping[str, Any]:
    """The types of all arguments of a function, those of `**options: Unpack[...]` among them."""
    hints = get_type_hints(function)
    unpacked = [get_args(kind)[0] for kind in hints.values() if get_origin(kind) is Unpack]
    return {**hints, **{name: kind for options in unpacked for name, kind in get_type_hints(options).items()}}


def members(kind: Any) -> tuple[Any, ...]:
    """The types that a value may have."""
    if get_origin(kind) in (Union, UnionType):
        return tuple(member for part in get_args(kind) for member in members(part))
    return (kind,)


def argument(name: str, value: Any, kind: Any) -> Any:
    """The value as Python's own of its declared type; OptionError for another type or beyond the limits of its name.

    >>> argument("resamples", np.int64(200), int)
    200
    """
    allowed = members(kind)
    if value is None and type(None) in allowed:
        return None
    made = _of_type(name, value, [own for own in allowed if own is not type(None)])
    return LIMITS[name](name, made) if name in LIMITS else made


def _of_type(name: str, value: Any, allowed: Sequence[Any]) -> Any:
    """The value as the first of its types that it fits."""
    words = [word for kind in allowed if get_origin(kind) is Literal for word in get_args(kind)]
    known = [_TYPES[kind] for kind in allowed if kind in _TYPES]
    if isinstance(value, str) and value in words:
        return value
    if words and (isinstance(value, str) or not known) and str not in allowed:
        return one_of(name, value, [*words, *(text for text, _ in known)])
    if len(known) + bool(words) < len(allowed):
        return value  # a type of its own is checked where it matters
    for _, taken in known:
        made = taken(value)
        if made is not None:
            return made
    wanted = " or ".join([*words, *dict.fromkeys(text for text, _ in known)])
    raise OptionError(f"{name}={shown(value)}: must be {wanted}")


def _flag(value: Any) -> bool | None:
    return bool(value) if isinstance(value, bool | np.bool_) else None


def _whole(value: Any) -> int | None:
    return int(value) if is_whole(value) and abs(value) <= LARGEST else None


def _number(value: Any) -> float | None:
    if not is_number(value):
        return None
    try:
        return value if isinstance(value, int) and abs(value) <= LARGEST else float(value)
    except OverflowError:  # a whole number beyond all others
        return None


def _text(value: Any) -> str | None:
    return str(value) if isinstance(value, str) else None


def _texts(value: Any) -> Any:
    if isinstance(value, str):  # one needs no list
        return str(value)
    several = isinstance(value, Iterable) and not isinstance(value, Mapping | bytes | PathLike)
    made = list(value) if several else [None]
    if not all(isinstance(own, str) for own in made):
        return None
    return value if isinstance(value, tuple | list) else made


def _path(value: Any) -> Any:
    return value if isinstance(value, PathLike) else None


def _numbers(value: Any) -> Any:
    several = isinstance(value, Sequence | np.ndarray) and getattr(value, "ndim", 1) == 1
    made = [_number(own) for own in (value if several else [value])]
    return made if made and None not in made else None


def _mapping(key: type, of: Callable[[Any], bool]) -> Callable[[Any], Any]:
    def taken(value: Any) -> Any:
        fits = (
            isinstance(value, Mapping) and all(isinstance(own, key) for own in value) and all(map(of, value.values()))
        )
        return dict(value) if fits else None

    return taken


_TYPES: Mapping[Any, tuple[str, Callable[[Any], Any]]] = {
    bool: ("True or False", _flag),
    int: (f"a whole number of at most {LARGEST}", _whole),
    float: ("a number", _number),
    str: ("text", _text),
    Sequence[str]: ("text, one or a list", _texts),
    Sequence[float]: ("a list of numbers", _numbers),
    Path: ("a path", _path),
    Progress: ("a callable that wraps an iterable", lambda value: value if callable(value) else None),
    Mapping[str, float]: ("numbers by name", _mapping(str, is_number)),
    Mapping[str, str]: ("names by name", _mapping(str, lambda own: isinstance(own, str))),
}
"""What a value must be, in words, and the value as Python's own, None where it is something else."""
