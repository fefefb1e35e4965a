"""Safe HTML of texts: only allowed tags, no lost words, and a time limit."""

from __future__ import annotations

import re
import string
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from custodes.annotate import rendering, safe_html
from custodes.annotate.rendering import render, render_texts
from custodes.annotate.safe_html import Render, UnlikeError, plain, to_html, visible, words
from custodes.annotate.study_material import Item, StudyMaterial, SystemOutput
from custodes.errors import MissingExtraError
from custodes.progress import silent
from tests.annotate.hostile import PAYLOADS

RENDERINGS: tuple[Render, ...] = ("plain", "markdown", "markdown+math")


class Tags(HTMLParser):
    """HTML parser that collects tags with attributes, comments and declarations."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.other: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_comment(self, data: str) -> None:
        self.other.append(data)

    def handle_decl(self, decl: str) -> None:
        self.other.append(decl)


def check_allowed(html: str) -> None:
    tags = Tags()
    tags.feed(html)
    tags.close()
    assert not tags.other
    for tag, attributes in tags.found:
        assert tag in safe_html.TAGS | safe_html.MATH
        assert set((attributes.pop("class", "") or "").split()) <= safe_html.allowed_classes().get(tag, set())
        assert attributes.keys() <= safe_html.ATTRIBUTES.get(tag, set())


@pytest.mark.parametrize("how", RENDERINGS)
@pytest.mark.parametrize("text", PAYLOADS)
def test_hostile_texts_make_no_markup_of_their_own(text: str, how: Render) -> None:
    try:
        html = to_html(text, how)
    except UnlikeError:
        html = plain(text)
    check_allowed(html)
    assert words(visible(html)) == words(text)


MARKUP = ["\n\n", "](", "```", "$$", "\\(", "\\)", "&amp;", "<b>", "<!--", "---", "1. ", "- ", "|-|\n"]
SIGNS = [*string.punctuation, *MARKUP]
WORDS = [*"ab1 \n\t", "é", "漢", "\u202e", "\u200b", "\x0b", "😀", "\\frac{1}{2}", "python\n", "://", "    "]
PIECES = st.sampled_from([*SIGNS, *WORDS])


@given(st.lists(PIECES, max_size=30).map("".join), st.sampled_from(RENDERINGS))
def test_any_text_is_safe_and_whole(text: str, how: Render) -> None:
    try:
        html = to_html(text, how)
    except UnlikeError:
        return  # shown as plain text, see the next test
    check_allowed(html)
    assert words(visible(html)) == words(text)


@given(st.text(max_size=80))
def test_plain_text_is_safe_and_whole(text: str) -> None:
    html = plain(text)
    check_allowed(html)
    assert words(visible(html)) == words(text)


def test_markdown_is_drawn() -> None:
    html = to_html("# T\n\n1. a\n1. *b*\n\n> q\n\n| x |\n|:-:|\n| 1 |\n\n```python\nif x: pass\n```", "markdown")
    assert '<p class="heading-1">T</p>' in html
    assert html.count('<li value="1">') == 2  # numbers as they are written
    assert "<em>b</em>" in html
    assert '<td class="center">1</td>' in html
    assert '<span class="k">if</span> <span class="n">x</span>' in html
    assert "<blockquote>" in html


def test_links_references_and_images_are_text() -> None:
    html = to_html('[a](https://x.example "t") ![b](c.png) <https://y.example>\n\n[r]: https://z.example', "markdown")
    assert 'a (https://x.example "t")' in visible(html)
    assert "!b (c.png) https://y.example" in visible(html)
    assert "[r]: https://z.example" in visible(html)


def test_code_keeps_its_lines_and_spaces() -> None:
    code = "def f():\n    return 1\n\n\nx = '<b>'\n"
    html = to_html(f"```python\n{code}```", "markdown")
    inner = html[html.index("<code>") + 6 : html.index("</code>")]
    assert visible(inner) == code


def test_formulas_are_drawn_where_they_are_asked_for() -> None:
    text = "It costs $5 and $6, and $x^2$ or \\(y\\).\n\n$$\n\\begin{aligned} a &= b \\\\ - c &= d \\end{aligned}\n$$"
    assert "<math" not in to_html(text, "markdown")
    html = to_html(text, "markdown+math")
    assert html.count("<math") == 3
    assert "$5 and $6" in html
    assert re.search(r'alttext="x\^2"><mrow><msup>', html)
    assert html.count("<mtr>") == 2  # lines that begin with a sign are no list


def test_text_that_would_be_lost_is_refused() -> None:
    nested = "".join("  " * n + f"- a{n}\n" for n in range(200))  # deeper than the parser allows, which drops it
    with pytest.raises(UnlikeError):
        to_html(nested, "markdown")
    with pytest.raises(UnlikeError):
        to_html("| a |\n|---|\n| b | c |\n", "markdown")  # a table drops cells that have no heading


def test_both_outputs_of_an_item_are_shown_in_one_way() -> None:
    dropped = "| a |\n|---|\n| b | c |"
    material = StudyMaterial(
        items=(Item(label="1", context='[{"role": "U", "text": "*hi*"}]'), Item(label="2", source="**s**")),
        systems=("A", "B"),
        outputs={
            ("1", "A"): SystemOutput(text=dropped),
            ("1", "B"): SystemOutput(text="**b**"),
            ("2", "A"): SystemOutput(text="**a**"),
            ("2", "B"): SystemOutput(text="b"),
        },
    )
    result = render(material, "markdown", progress=silent)
    assert result.outputs["1", "B"] == "<p>**b**</p>"
    assert result.outputs["2", "A"] == "<p><strong>a</strong></p>"
    assert result.items["1"] == '<div class="turn"><p class="role">U</p><p><em>hi</em></p></div>'
    assert result.items["2"] == "<p><strong>s</strong></p>"
    assert [(note.rule, note.count) for note in result.notes()] == [("outputs-plain", 1)]


def test_rendering_has_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    long, slow = "x" * (safe_html.LONGEST + 1), "*a" * 20_000
    with monkeypatch.context() as patch:
        patch.setattr(rendering, "SECONDS", 0.001)  # too short for any machine
        result = render_texts([slow, long], "markdown", progress=silent)
    assert (result[slow].why, result[long].why) == ("slow", "long")
    result = render_texts([slow, "*a*"], "markdown", progress=silent)
    assert words(visible(result[slow].html)) == words(slow)
    assert result["*a*"].html == "<p><em>a</em></p>"


def test_markdown_names_its_missing_dependency(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "find_spec", lambda name: None)
    assert render_texts(["a"], "plain", progress=silent)["a"].html == "<p>a</p>"
    with pytest.raises(MissingExtraError, match=r"pip install 'custodes\[annotate\]'"):
        render_texts(["a"], "markdown", progress=silent)


def test_the_rendering_process_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """`annotate new` forwards standard error of the process, which under `-m` would contain a warning of the
    interpreter."""
    assert render_texts(["*a*"], "markdown", progress=silent)["*a*"].html == "<p><em>a</em></p>"
    assert capfd.readouterr() == ("", "")
