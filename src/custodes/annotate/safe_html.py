"""Texts as safe HTML of an allow-list, and the process that makes it of Markdown.

Nothing that a text says is lost on the way: where the words that are seen are not those that were written, a text is
refused here (`Unlike`), and shown plain by whoever asked. A link is shown as its words and its address, an image as its
words and its address, too, a reference and an entity as they are written.

A dollar opens where no white space follows it, and the next one closes where none comes before it and no digit
follows it (as in Pandoc), so that `$5 and $6` stays money.
"""

from __future__ import annotations

import html
import re
import signal
import string
import sys
from collections.abc import Sequence
from functools import cache
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    from markdown_it import MarkdownIt


Render = Literal["plain", "markdown", "markdown+math"]
PARAGRAPHS = re.compile(r"\n[ \t]*\n\s*")
LONGEST = 50_000
"""Characters of a text that is shown as Markdown."""
SIGNS = frozenset(string.punctuation)
"""What Markdown may take for markup."""

ALIGNED = {"text-align:left": "left", "text-align:center": "center", "text-align:right": "right"}
CLASSES = {
    "div": {"turn", "language"},
    "p": {"role", *(f"heading-{n}" for n in range(1, 7))},
    "span": {"k", "s", "c", "m", "f", "e"},
    "pre": {"code"},
    "th": set(ALIGNED.values()),
    "td": set(ALIGNED.values()),
}
"""Classes that HTML of ours may have, which the stylesheet knows."""
TAGS = {
    *("p", "br", "div", "span", "strong", "em", "code", "pre", "blockquote", "ul", "ol", "li", "hr"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
MATH = {
    *("math", "mrow", "mi", "mn", "mo", "ms", "mtext", "mspace", "mfrac", "msqrt", "mroot", "mstyle", "msub", "msup"),
    *("msubsup", "munder", "mover", "munderover", "mtable", "mtr", "mtd", "mpadded", "menclose"),
}
OF_MATH = {
    *("mathvariant", "stretchy", "fence", "separator", "form", "lspace", "rspace", "width", "height", "depth"),
    *("linethickness", "accent", "movablelimits", "columnalign", "rowspacing", "columnspacing", "columnlines"),
    *("rowlines", "displaystyle", "scriptlevel", "minsize", "maxsize", "largeop", "notation"),
}
ATTRIBUTES = {"li": {"value"}, **dict.fromkeys(MATH, OF_MATH), "math": {"display", "alttext", *OF_MATH}}


class Unlike(ValueError):  # noqa: N818  said of a text
    """The words that would be seen are not those of the text."""


def shown(text: str, how: Render) -> str:
    """Safe HTML of a text; `Unlike` where Markdown would show other words than were written.

    >>> shown("**a** <b>", "markdown")
    '<p><strong>a</strong> &lt;b&gt;</p>'
    """
    if how == "plain":
        return plain(text)
    made = cleaned(_markdown("math" in how).render(_whole(text))).strip()
    if words(visible(made)) != words(text):
        raise Unlike
    return made


def prose(text: str) -> str:
    """HTML of what the owner of a study wrote, as Markdown where that loses no word.

    >>> prose("**Read** both.")
    '<p><strong>Read</strong> both.</p>'
    """
    try:
        return shown(text, "markdown")
    except Unlike:
        return plain(text)


def plain(text: str) -> str:
    """Paragraphs, with line breaks and spaces between words kept.

    >>> plain("a < b\\nc\\n\\nd")
    '<p>a &lt; b<br>c</p><p>d</p>'
    """
    whole = "\n".join(_whole(text).splitlines()).strip("\n")
    parts = [html.escape(part, quote=False).replace("\n", "<br>") for part in PARAGRAPHS.split(whole) if part.strip()]
    return "".join(f"<p>{part}</p>" for part in parts)


def dialogue(turns: Sequence[tuple[str, str]]) -> str:
    """Turns of a dialogue, of role and HTML.

    >>> dialogue([("user", "<p>Hi</p>")])
    '<div class="turn"><p class="role">user</p><p>Hi</p></div>'
    """
    said = [(html.escape(" ".join(_whole(role).split()), quote=False), own) for role, own in turns]
    return "".join(f'<div class="turn"><p class="role">{role}</p>{own}</div>' for role, own in said)


def cleaned(made: str) -> str:
    """HTML without anything that is not on the list: tags, attributes and classes."""
    import nh3

    return nh3.clean(
        made, tags=TAGS | MATH, attributes=ATTRIBUTES, allowed_classes=CLASSES, url_schemes=set(), link_rel=None
    )


def words(text: str) -> str:
    """What must not be lost of a text: all but white space and what may be a sign of markup.

    >>> words("# a  *b* (c)")
    'abc'
    """
    return "".join(letter for letter in _whole(text) if letter not in SIGNS and not letter.isspace())


def visible(made: str) -> str:
    """The text that a person sees of HTML of ours; of a formula, as it was written.

    >>> visible('<ol><li value="3">a</li></ol>')
    '3a'
    """
    reader = _Visible()
    reader.feed(made)
    reader.close()
    return "".join(reader.parts)


class _Visible(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.in_math = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "math":
            self.in_math = True
        self.parts += (value or "" for name, value in attrs if name in ("alttext", "value"))

    def handle_endtag(self, tag: str) -> None:
        self.in_math = self.in_math and tag != "math"

    def handle_data(self, data: str) -> None:
        if not self.in_math:
            self.parts.append(data)


def _whole(text: str) -> str:
    """The text without what no page can hold."""
    return text.replace("\0", "\ufffd")


@cache
def _markdown(with_math: bool) -> MarkdownIt:
    """CommonMark with tables; what would hide a word (references, entities, images, HTML) is text."""
    from markdown_it import MarkdownIt

    class Parser(MarkdownIt):
        """Addresses as they are written: they are shown as text, and never followed."""

        def validateLink(self, url: str) -> bool:  # noqa: N802
            return True

        def normalizeLink(self, url: str) -> str:  # noqa: N802
            return url

        def normalizeLinkText(self, link: str) -> str:  # noqa: N802
            return link

    made = Parser("commonmark", {"html": False, "breaks": True, "xhtmlOut": False}).enable("table")
    made.disable(["reference", "image", "entity", "html_block", "html_inline"])
    if with_math:
        add_formulas(made)
    for name, rule in _RULES.items():
        made.add_render_rule(name, rule)
    return made


def _heading_open(own: Any, tokens: Any, at: int, options: Any, env: Any) -> str:
    # The headings of a page are the page's own: those of an output only look like some.
    return f'<p class="heading-{tokens[at].tag[1:]}">'


def _heading_close(own: Any, tokens: Any, at: int, options: Any, env: Any) -> str:
    return "</p>"


def _item_open(own: Any, tokens: Any, at: int, options: Any, env: Any) -> str:
    """Numbers as they are written, also where they do not count up."""
    return f'<li value="{html.escape(tokens[at].info)}">' if tokens[at].info else "<li>"


def _link_open(own: Any, tokens: Any, at: int, options: Any, env: Any) -> str:
    return ""


def _link_close(own: Any, tokens: Any, at: int, options: Any, env: Any) -> str:
    """The address after the words of a link, as text; of an address alone nothing more."""
    depth, start = 1, at - 1
    while start >= 0 and depth:
        depth += {"link_close": 1, "link_open": -1}.get(tokens[start].type, 0)
        start -= 1
    opened = tokens[start + 1]
    if opened.markup == "autolink":
        return ""
    title = f' "{opened.attrs["title"]}"' if opened.attrs.get("title") else ""
    return html.escape(f" ({opened.attrs.get('href', '')}{title})", quote=False)


def _cell_open(own: Any, tokens: Any, at: int, options: Any, env: Any) -> str:
    place = ALIGNED.get(str(tokens[at].attrs.get("style", "")))
    return f'<{tokens[at].tag} class="{place}">' if place else f"<{tokens[at].tag}>"


def _fence(own: Any, tokens: Any, at: int, options: Any, env: Any) -> str:

    said = tokens[at].info.strip()
    language = f'<div class="language">{html.escape(said, quote=False)}</div>' if said else ""
    return f'{language}<pre class="code"><code>{highlighted(tokens[at].content, said)}</code></pre>'


_RULES = {
    "heading_open": _heading_open,
    "heading_close": _heading_close,
    "list_item_open": _item_open,
    "link_open": _link_open,
    "link_close": _link_close,
    "th_open": _cell_open,
    "td_open": _cell_open,
    "fence": _fence,
}


INLINE = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"))
BLOCK = (("$$", "$$"), ("\\[", "\\]"))
ALIGNED_LINES = re.compile(r"\\(begin|end)\{(?:align|aligned|split|eqnarray)\*?\}")
"""Lines aligned at their signs, which are drawn as the columns of an array."""
LONGEST_FORMULA = 2_000
"""Characters of a formula."""


def add_formulas(markdown: MarkdownIt) -> None:
    """Let a parser know formulas."""
    markdown.inline.ruler.before("escape", "formula", _inline)
    markdown.block.ruler.before("fence", "formulas", _block, {"alt": ["paragraph", "blockquote", "list"]})
    markdown.add_render_rule("formula", _drawn)


def mathml(formula: str, *, display: bool) -> str:
    """MathML of a formula with the formula as its alternative text; as code where it is none.

    >>> mathml("x^2", display=False)[:40]
    '<math display="inline" alttext="x^2"><mr'
    """
    from latex2mathml.converter import convert

    try:
        made = str(
            convert(
                ALIGNED_LINES.sub(lambda own: r"\begin{array}{rl}" if own[1] == "begin" else r"\end{array}", formula)
            )
        )
        _, _, inner = made.partition(">")
        inner, closing, _ = inner.rpartition("</math>")
    except Exception:  # whatever it cannot read; there is no one kind of error
        closing = ""
    if not closing or len(formula) > LONGEST_FORMULA:
        return f"<code>{html.escape(formula, quote=False)}</code>"
    kind = "block" if display else "inline"
    return f'<math display="{kind}" alttext="{html.escape(formula)}">{inner}</math>'


def _drawn(own: Any, tokens: Any, at: int, options: Any, env: Any) -> str:
    token = tokens[at]
    made = mathml(token.content, display=token.markup in ("$$", "\\["))
    return f"<p>{made}</p>" if token.block else made


def _inline(state: Any, silent: bool) -> bool:
    source, start = state.src, state.pos
    found = next((own for own in INLINE if source.startswith(own[0], start)), None)
    if found is None:
        return False
    begin, end = found
    first = start + len(begin)
    last = _closing(source, begin, end, first, state.posMax)
    if last < 0 or not source[first:last].strip():
        return False
    if not silent:
        token = state.push("formula", "math", 0)
        token.content, token.markup = source[first:last].strip(), begin
    state.pos = last + len(end)
    return True


def _closing(source: str, begin: str, end: str, first: int, most: int) -> int:
    """Where a formula ends, -1 for none."""
    limit = min(most, first + LONGEST_FORMULA)
    if begin == "$" and (first >= most or source[first].isspace()):
        return -1
    at = source.find(end, first, limit)
    while at >= 0 and begin.startswith("$") and source[at - 1] == "\\":
        at = source.find(end, at + 1, limit)
    is_money = begin == "$" and at >= 0 and (source[at - 1].isspace() or source[at + 1 : at + 2].isdigit())
    return -1 if is_money else at


def _block(state: Any, start: int, end: int, silent: bool) -> bool:
    first = state.bMarks[start] + state.tShift[start]
    found = next((own for own in BLOCK if state.src.startswith(own[0], first)), None)
    if found is None:
        return False
    begin, close = found
    for line in range(start, end):
        from_ = first + len(begin) if line == start else state.bMarks[line] + state.tShift[line]
        if line > start and state.sCount[line] < state.blkIndent:
            return False
        text = state.src[from_ : state.eMarks[line]].rstrip()
        if text.endswith(close) and not text.endswith("\\" + close):
            break
        if close in text:
            return False  # words follow it on the line: a formula within a paragraph
    else:
        return False
    if silent:
        return True
    whole = state.getLines(start, line + 1, state.blkIndent, False).strip()
    token = state.push("formula", "math", 0)
    token.block, token.markup = True, begin
    token.content = whole[len(begin) : -len(close)].strip()
    token.map = [start, line + 1]
    state.line = line + 1
    return True


LONGEST_CODE = 20_000
"""Characters of a piece of code whose words are told apart."""


def highlighted(code: str, language: str) -> str:
    """HTML of a piece of code in a language that Pygments knows; of others, as it is.

    >>> highlighted("x = 1", "python")
    'x = <span class="m">1</span>'
    """
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    name = language.split(maxsplit=1)[0] if language.strip() else ""
    if not name or len(code) > LONGEST_CODE:
        return html.escape(code, quote=False)
    try:
        lexer = get_lexer_by_name(name, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return html.escape(code, quote=False)
    parts = []
    for kind, text in lexer.get_tokens(code):
        own = _class_of(kind)
        inner = html.escape(text, quote=False)
        parts.append(f'<span class="{own}">{inner}</span>' if own and text.strip() else inner)
    return "".join(parts)


def _class_of(kind: object) -> str:
    from pygments import token

    known = (
        (token.Keyword, "k"),
        (token.Operator.Word, "k"),
        (token.Comment, "c"),
        (token.Literal.Number, "m"),
        (token.Literal, "s"),
        (token.Name.Function, "f"),
        (token.Name.Class, "f"),
        (token.Name.Tag, "f"),
    )
    return next((name for own, name in known if kind in own), "")


class TextRequest(msgspec.Struct):
    """A text, how it is shown, and the CPU seconds that it may take; 0: as many as it takes."""

    text: str
    how: Render
    seconds: float = 0.0


class TextResult(msgspec.Struct):
    """Its HTML; or why there is none: unlike (other words would be seen), failed."""

    html: str = ""
    why: str = ""


ASKED, ANSWERED = msgspec.json.Decoder(TextRequest), msgspec.json.Decoder(TextResult)


def main() -> None:
    """Answer until the input ends."""
    for line in sys.stdin.buffer:
        asked = ASKED.decode(line)
        _limit(asked.seconds)
        try:
            answer = TextResult(html=shown(asked.text, asked.how))
        except Unlike:
            answer = TextResult(why="unlike")
        except (Exception, RecursionError):  # whatever a parser fails with, the text is shown plain
            answer = TextResult(why="failed")
        _limit(0.0)
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()


def _limit(seconds: float) -> None:
    """End this process after so many seconds of work, whatever it does then; not where there are no such timers."""
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_PROF, seconds)  # SIGPROF ends a process that does not handle it
