"""Labels that look alike and differ: case, composed letters, Cyrillic and Greek letters, hidden characters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

LATIN = str.maketrans(
    "АВЕЅІЈКМНОРСТУХ" + "асԁеһіјӏорԛѕхуԝ" + "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ" + "ανο",
    "ABESIJKMHOPCTYX" + "acdehijlopqsxyw" + "ABEZHIKMNOPTYX" + "avo",
)
"""Letters of Cyrillic and Greek that are drawn like a Latin one (a part of confusables.txt of the Unicode standard,
UTS #39)."""


def skeleton(label: str) -> str:
    """What a label looks like: two labels that people would take for one have the same.

    >>> skeleton("GPT\\u20114") == skeleton("gpt_4") == skeleton("GPT-4\\u200b") == "gpt-4"
    True
    """
    text = unicodedata.normalize("NFKC", label)
    text = "".join(sign for sign in text if unicodedata.category(sign) != "Cf")
    text = unicodedata.normalize("NFKC", text.translate(LATIN).casefold())
    parted = "".join("-" if unicodedata.category(sign) == "Pd" else sign for sign in text)
    return re.sub(r"[-_\s]+", "-", parted).strip("-")


def confusable(labels: Iterable[str]) -> list[list[str]]:
    """Sets of labels that look alike, in the order of the first of each."""
    sets: dict[str, list[str]] = {}
    for label in dict.fromkeys(labels):
        sets.setdefault(skeleton(label), []).append(label)
    return [group for group in sets.values() if len(group) > 1]


def escape_confusable(label: str) -> str:
    """A label with signs that cannot be seen, or that look like a Latin letter, written as escapes.

    >>> escape_confusable("GP\\u0422-4")
    "'GP\\\\u0422-4'"
    """
    ascii_, plain = ascii(label), repr(label)
    folded = label.translate(LATIN) != label
    hidden = any(unicodedata.category(sign) in ("Cf", "Pd", "Zs", "Mn") and not sign.isascii() for sign in label)
    return ascii_ if folded or hidden else plain
