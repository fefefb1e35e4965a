"""Marks on the words that differ between two outputs."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from custodes.annotate.safe_html import plain, to_html
from custodes.annotate.site.pages import LONGEST_COMPARED, mark_differences
from custodes.annotate.views import Side

TEXTS = st.text(st.sampled_from("ab <>&*`\n$|-"), max_size=60)


def marks(first: str, second: str) -> tuple[list[str], list[str]]:
    marked_sides = mark_differences(Side(html=first), Side(html=second))
    assert marked_sides is not None
    first_marks, second_marks = (re.findall("<mark>(.*?)</mark>", side.html) for side in marked_sides)
    return first_marks, second_marks


@pytest.mark.parametrize(
    ("first", "second", "first_marks", "second_marks"),
    [
        ("<p>the cat sat</p>", "<p>the dog sat</p>", ["cat"], ["dog"]),
        ("<p>same</p>", "<ul><li>same</li></ul>", [], []),
        ("<p>a &amp; b</p>", "<p>a &lt; b</p>", ["&amp;"], ["&lt;"]),
        ("<p>x</p>", "", ["x"], []),
        ('<p>a <math alttext="x > 1"><mi>x</mi></math></p>', "<p>a</p>", [], []),
    ],
)
def test_words_that_differ(first: str, second: str, first_marks: list[str], second_marks: list[str]) -> None:
    assert marks(first, second) == (first_marks, second_marks)


@given(TEXTS, TEXTS)
def test_nothing_else_changes(first: str, second: str) -> None:
    sides = Side(html=plain(first), media=("a.png",)), Side(html=plain(second))
    marked_sides = mark_differences(*sides)
    assert marked_sides is not None
    for before, after in zip(sides, marked_sides, strict=True):
        assert re.sub("</?mark>", "", after.html) == before.html
        assert after.media == before.media
    assert marks(sides[0].html, sides[0].html) == ([], [])


def test_markdown_and_mathematics_stay() -> None:
    text = "# T\n\n- a `b & c`\n\n| x |\n|--:|\n| 1 |\n\n```python\ndef f(): return '<'\n```\n\n$a < b$"
    side = Side(html=to_html(text, "markdown+math"))
    marked_sides = mark_differences(side, Side(html=""))
    assert marked_sides is not None
    assert re.sub("</?mark>", "", marked_sides[0].html) == side.html


def test_long_outputs_are_left_alone() -> None:
    assert mark_differences(Side(html="<p>" + "a " * (LONGEST_COMPARED + 1) + "</p>"), Side(html="<p>a</p>")) is None
