"""The words in which two outputs differ, marked in their HTML: on request only, since it draws attention to form."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import lru_cache
from html.parser import HTMLParser

from custodes.annotate.session import Side

LONGEST = 3000
"""Words of an output; longer ones stay as they are."""

_SPACE = re.compile(r"(\s+)")


@lru_cache(maxsize=512)
def marked(first: Side, second: Side) -> tuple[Side, Side] | None:
    """Both with the words that the other one lacks in `mark`; None where one is too long. Formulas are not compared.

    >>> [side.html for side in marked(Side(html="<p>a b</p>"), Side(html="<p>a <em>c</em></p>"))]
    ['<p>a <mark>b</mark></p>', '<p>a <em><mark>c</mark></em></p>']
    """
    one, two = _Parts.of(first.html), _Parts.of(second.html)
    if max(len(one.words), len(two.words)) > LONGEST:
        return None
    blocks = SequenceMatcher(None, one.compared(), two.compared()).get_matching_blocks()
    in_one = {block.a + k for block in blocks for k in range(block.size)}
    in_two = {block.b + k for block in blocks for k in range(block.size)}
    return Side(html=one.html(in_one), media=first.media), Side(html=two.html(in_two), media=second.media)


class _Parts(HTMLParser):
    """Tags, words and spaces of HTML as they stand there; `words`: the places of the words that are compared."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.parts: list[str] = []
        self.words: list[int] = []
        self._in_math = False
        self._text = ""

    @classmethod
    def of(cls, html: str) -> _Parts:
        made = cls()
        made.feed(html)
        made.close()
        made._end()
        return made

    def compared(self) -> list[str]:
        """The words that are compared."""
        return [self.parts[at] for at in self.words]

    def html(self, common: set[int]) -> str:
        """All of it, the words not in `common` marked."""
        other = {at for k, at in enumerate(self.words) if k not in common}
        return "".join(f"<mark>{part}</mark>" if at in other else part for at, part in enumerate(self.parts))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._end()
        self._in_math = self._in_math or tag == "math"
        self.parts.append(self.get_starttag_text() or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._end()
        self.parts.append(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        self._end()
        self._in_math = self._in_math and tag != "math"
        self.parts.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        self._text += data

    def handle_entityref(self, name: str) -> None:
        self._text += f"&{name};"

    def handle_charref(self, name: str) -> None:
        self._text += f"&#{name};"

    def _end(self) -> None:
        """A run of text is over."""
        for part in filter(None, _SPACE.split(self._text)):
            if not self._in_math and not part.isspace():
                self.words.append(len(self.parts))
            self.parts.append(part)
        self._text = ""
