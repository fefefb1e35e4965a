"""Texts made safe: HTML of an allow-list, made once when a study is made and never for a request."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

PARAGRAPHS = re.compile(r"\n[ \t]*\n\s*")


def plain(text: str) -> str:
    """Paragraphs, with line breaks kept.

    >>> plain("a < b\\nc\\n\\nd")
    '<p>a &lt; b<br>c</p><p>d</p>'
    """
    whole = "\n".join(text.replace("\0", "\ufffd").splitlines()).strip("\n")
    parts = [html.escape(part).replace("\n", "<br>") for part in PARAGRAPHS.split(whole) if part.strip()]
    return "".join(f"<p>{part}</p>" for part in parts)


def dialogue(turns: Sequence[tuple[str, str]]) -> str:
    """Turns of a dialogue, of role and HTML.

    >>> dialogue([("user", "<p>Hi</p>")])
    '<div class="turn"><p class="role">user</p><p>Hi</p></div>'
    """
    return "".join(f'<div class="turn"><p class="role">{html.escape(role)}</p>{own}</div>' for role, own in turns)
