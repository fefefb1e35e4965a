"""Words of the command line that mean the same in every verb, and how its words are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from cyclopts import Parameter, Token

from custodes.errors import shown

HOW: Mapping[str, Any] = {
    "name": "custodes",
    "version": lambda: f"custodes {version('custodes')}",
    "help_format": "markdown",
    "print_error": False,
    "exit_on_error": False,
    "result_action": "return_value",
    "suppress_keyboard_interrupt": False,  # `status_of` says it in its own words
}
"""How the command reads its words."""

SWITCH = Parameter(negative="", show_default=False)
"""An option without a value, off unless it is given."""

DIGITS = 40
"""No number that means anything is longer."""


def whole(type_: Any, tokens: Sequence[Token]) -> int:
    """A whole number of at least 0; left to itself the parser would round 1.5."""
    text = tokens[0].value
    if not is_whole(text):
        raise ValueError(f"{shown(text)} is not a whole number of at least 0")
    return int(text)


def is_whole(text: str) -> bool:
    """Whether a word is a whole number, and none so long that reading it takes forever."""
    return text.isascii() and text.isdigit() and len(text) <= DIGITS
