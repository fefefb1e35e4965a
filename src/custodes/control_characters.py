"""Escape control characters, so that labels cannot affect a terminal, the direction of text or a drawing."""

from __future__ import annotations

import re

# Control characters of ISO 2022 (C0, delete, C1), line separators (U+2028), text direction (Unicode Annex 9), and
# noncharacters.
_UNSHOWN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef"
    + "".join(chr((plane << 16) + last) for plane in range(17) for last in (0xFFFE, 0xFFFF))
    + "]"
)


def escape_controls(text: str) -> str:
    r"""A text with its control characters escaped, so that it can be printed or drawn safely.

    Control characters (including line breaks), changes of text direction, lone surrogates and noncharacters are
    escaped. Letters of any script, joiners and emoji are unchanged. Escaping a second time changes nothing.

    >>> print(escape_controls("red\x1b[31m\u202eder"))
    red\x1b[31m\u202eder
    """
    return _UNSHOWN.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)
