"""Labels as a picture can hold them: with any other, Vega throws, or the renderer takes the process with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from custodes.control_characters import escape_controls

# Vega looks labels up in plain objects, where these names (of ECMAScript's Object.prototype) are taken.
_TAKEN = re.compile(
    r"(?<!\w)(constructor|__defineGetter__|__defineSetter__|hasOwnProperty|__lookupGetter__|__lookupSetter__"
    r"|isPrototypeOf|propertyIsEnumerable|toLocaleString|toString|valueOf|__proto__)(?![\w\u200b(])"
)
_MARKED = "\\1\u200b"
"""The same name with a space of no width behind it: another key, and the same to the eye."""

# A page may hold a specification in a script of its own, which these would end or leave open (HTML, 4.12.1.3).
_ENDING = re.compile(r"<(?=/?script|!--)", re.IGNORECASE)


def drawable(part: Any) -> Any:
    r"""A label, a row or a whole specification with its texts made harmless: control characters as escapes; names that
    every object of JavaScript has, and tags of scripts, with a space of no width in them.

    The same label is the same wherever it stands, also as a part of a longer one. Doing it twice changes nothing.

    >>> drawable([{"metric": "bell\x07", "value": 1}])
    [{'metric': 'bell\\x07', 'value': 1}]
    """
    if isinstance(part, str):
        lines = "\n".join(map(escape_controls, part.split("\n")))  # a line break is drawn as a blank
        return _ENDING.sub("<\u200b", _TAKEN.sub(_MARKED, lines))
    if isinstance(part, Mapping):
        return {name: drawable(value) for name, value in part.items()}
    return [drawable(value) for value in part] if isinstance(part, list | tuple) else part
