"""Labels that Vega and its renderer can display without errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from custodes.control_characters import escape_controls

# Vega uses labels as keys of plain objects, where these names (of ECMAScript's Object.prototype) exist already.
_TAKEN = re.compile(
    r"(?<!\w)(constructor|__defineGetter__|__defineSetter__|hasOwnProperty|__lookupGetter__|__lookupSetter__"
    r"|isPrototypeOf|propertyIsEnumerable|toLocaleString|toString|valueOf|__proto__)(?![\w\u200b(])"
)
_MARKED = "\\1\u200b"
"""Replacement for each name: the name and a zero-width space. The replacement looks like the name, but is a different
key."""

# In a page, these texts would close the script element of a specification, or leave it open (HTML, 4.12.1.3).
_ENDING = re.compile(r"<(?=/?script|!--)", re.IGNORECASE)


def drawable(content: Any) -> Any:
    r"""A label, a row or a whole specification with texts that are safe to draw.

    Control characters are escaped. A zero-width space is inserted into names of Object.prototype and into script tags.
    Equal labels become equal texts, even within a longer text. If the function is applied twice, the second application
    changes nothing.

    >>> drawable([{"metric": "bell\x07", "value": 1}])
    [{'metric': 'bell\\x07', 'value': 1}]
    """
    if isinstance(content, str):
        escaped_text = "\n".join(map(escape_controls, content.split("\n")))  # a line break is displayed as a space
        return _ENDING.sub("<\u200b", _TAKEN.sub(_MARKED, escaped_text))
    if isinstance(content, Mapping):
        return {key: drawable(nested_content) for key, nested_content in content.items()}
    return [drawable(nested_content) for nested_content in content] if isinstance(content, list | tuple) else content
