"""Labels that look equal but differ in case, composed letters, Cyrillic or Greek letters, or hidden characters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

LATIN = str.maketrans(
    "АВЕЅІЈКМНОРСТУХ" + "асԁеһіјӏорԛѕхуԝ" + "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ" + "ανο",
    "ABESIJKMHOPCTYX" + "acdehijlopqsxyw" + "ABEZHIKMNOPTYX" + "avo",
)
"""Cyrillic and Greek letters that look like Latin ones (a part of confusables.txt of the Unicode standard, UTS #39)."""


def skeleton(label: str) -> str:
    """Canonical form of a label: labels that look equal to a reader have the same form.

    >>> skeleton("GPT\\u20114") == skeleton("gpt_4") == skeleton("GPT-4\\u200b") == "gpt-4"
    True
    """
    text = unicodedata.normalize("NFKC", label)
    text = "".join(character for character in text if unicodedata.category(character) != "Cf")
    text = unicodedata.normalize("NFKC", text.translate(LATIN).casefold())
    hyphenated_text = "".join("-" if unicodedata.category(character) == "Pd" else character for character in text)
    return re.sub(r"[-_\s]+", "-", hyphenated_text).strip("-")


def confusable_groups(labels: Iterable[str]) -> list[list[str]]:
    """Sets of labels that look equal, in the order of first occurrence."""
    sets: dict[str, list[str]] = {}
    for label in dict.fromkeys(labels):
        sets.setdefault(skeleton(label), []).append(label)
    return [group for group in sets.values() if len(group) > 1]


def escape_confusable(label: str) -> str:
    """A label with escapes for characters that are invisible or look like a Latin letter.

    >>> escape_confusable("GP\\u0422-4")
    "'GP\\\\u0422-4'"
    """
    escaped, unescaped = ascii(label), repr(label)
    has_lookalikes = label.translate(LATIN) != label
    has_hidden = any(unicodedata.category(sign) in ("Cf", "Pd", "Zs", "Mn") and not sign.isascii() for sign in label)
    return escaped if has_lookalikes or has_hidden else unescaped
