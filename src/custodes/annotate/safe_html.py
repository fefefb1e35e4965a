"""Conversion of texts to safe HTML with lists of allowed tags, and the process that converts Markdown.

No word of a text is lost. If the visible words differ from the words of the text, the conversion fails (`UnlikeError`),
and the caller displays the text as plain text. Links and images are displayed as their text and address. Link
definitions and character entities are displayed as they are written.

A dollar sign opens a formula if no white space follows. The next dollar sign closes the formula if it follows no white
space and precedes no digit (as in Pandoc). So `$5 and $6` stays text.
"""

from __future__ import annotations

import html
import json
import re
import signal
import string
import sys
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from markdown_it import MarkdownIt


Render = Literal["plain", "markdown", "markdown+math"]
PARAGRAPHS = re.compile(r"\n[ \t]*\n\s*")
LONGEST = 50_000
"""Maximum length of a text displayed as Markdown."""
SIGNS = frozenset(string.punctuation)
"""Characters that may be Markdown markup."""

ALIGNED = {"text-align:left": "left", "text-align:center": "center", "text-align:right": "right"}
CLASSES = {
    "div": {"turn", "language"},
    "p": {"role", *(f"heading-{n}" for n in range(1, 7))},
    "pre": {"code"},
    "th": set(ALIGNED.values()),
    "td": set(ALIGNED.values()),
}
"""Allowed classes by tag. The style sheet defines these classes; classes of spans are the short class names of
Pygments."""
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


TAG = re.compile(r"<[^>]*>")
FORMULA = re.compile(r'<math [^>]*?alttext="([^"]*)".*?</math>', re.DOTALL)
NUMBER = re.compile(r'<li value="([^"]*)">')
"""Patterns for parts of cleaned HTML. Attributes of cleaned HTML contain no angle brackets."""


class UnlikeError(ValueError):
    """The visible words differ from the words of the text."""


def to_html(text: str, text_format: Render) -> str:
    """Return safe HTML of a text. Raise `UnlikeError` if Markdown would not display all words as they are written.

    >>> to_html("**a** <b>", "markdown")
    '<p><strong>a</strong> &lt;b&gt;</p>'
    """
    if text_format == "plain":
        return plain(text)
    html_text = _sanitize_html(_markdown("math" in text_format).render(_storable(text))).strip()
    if words(visible(html_text)) != words(text):
        raise UnlikeError
    return html_text


def plain(text: str) -> str:
    """Return the paragraphs of a text as HTML. Line breaks and spaces are preserved.

    >>> plain("a < b\\nc\\n\\nd")
    '<p>a &lt; b<br>c</p><p>d</p>'
    """
    storable_text = "\n".join(_storable(text).splitlines()).strip("\n")
    paragraph_htmls = [
        html.escape(paragraph, quote=False).replace("\n", "<br>")
        for paragraph in PARAGRAPHS.split(storable_text)
        if paragraph.strip()
    ]
    return "".join(f"<p>{paragraph_html}</p>" for paragraph_html in paragraph_htmls)


def turn(role: str, content_html: str) -> str:
    """Return the HTML of a turn of a dialogue, from the role of the speaker and the HTML of the content.

    >>> turn("user", "<p>Hi</p>")
    '<div class="turn"><p class="role">user</p><p>Hi</p></div>'
    """
    role_html = html.escape(" ".join(_storable(role).split()), quote=False)
    return f'<div class="turn"><p class="role">{role_html}</p>{content_html}</div>'


@cache
def allowed_classes() -> dict[str, set[str]]:
    """Return the allowed classes by tag."""
    from pygments.token import STANDARD_TYPES

    return {**CLASSES, "span": set(STANDARD_TYPES.values())}


def _sanitize_html(html_text: str) -> str:
    """Return the HTML without tags, attributes and classes that are not allowed."""
    import nh3

    return nh3.clean(
        html_text,
        tags=TAGS | MATH,
        attributes=ATTRIBUTES,
        allowed_classes=allowed_classes(),
        url_schemes=set(),
        link_rel=None,
    )


def words(text: str) -> str:
    """Return the characters that must be preserved: all characters except white space and possible markup.

    >>> words("# a  *b* (c)")
    'abc'
    """
    return "".join(character for character in _storable(text) if character not in SIGNS and not character.isspace())


def visible(html_text: str) -> str:
    """Return the visible text of cleaned HTML. A formula is returned as its LaTeX source.

    >>> visible('<ol><li value="3">a</li></ol>')
    '3a'
    """
    return html.unescape(TAG.sub("", NUMBER.sub(r"\1", FORMULA.sub(r"\1", html_text))))


def _storable(text: str) -> str:
    """Return the text without characters that HTML cannot contain."""
    return text.replace("\0", "\ufffd")


@cache
def _markdown(with_math: bool) -> MarkdownIt:
    """Return a parser of CommonMark with tables. Syntax that could hide words (link definitions, entities, images,
    HTML) stays text."""
    from markdown_it import MarkdownIt
    from mdit_py_plugins.texmath.index import make_block_func, make_inline_func

    parser = MarkdownIt("commonmark", {"html": False, "breaks": True, "xhtmlOut": False}).enable("table")
    parser.disable(["reference", "image", "entity", "html_block", "html_inline"])
    # Addresses stay unchanged, because they are displayed as text and never followed.
    vars(parser).update(validateLink=lambda url: True, normalizeLink=str, normalizeLinkText=str)
    for rule_name, render_rule in _RULES.items():
        parser.add_render_rule(rule_name, render_rule)
    for opening_delimiter, formula_pattern in FORMULAS.items() if with_math else ():
        inline_rule_settings: Any = {"name": "formula", "tag": opening_delimiter, "rex": re.compile(formula_pattern)}
        parser.inline.ruler.before("escape", "formula", make_inline_func(inline_rule_settings))
        if opening_delimiter in DISPLAY:
            block_pattern = re.compile(rf"{formula_pattern}[ \t]*$", re.MULTILINE)
            # In a quotation, each line of a formula starts with a marker, so the formula is not a block there.
            block_rule_settings: Any = {**inline_rule_settings, "rex": block_pattern, "post": lambda source, end: True}
            parser.block.ruler.before(
                "fence", "formula", make_block_func(block_rule_settings), {"alt": ["paragraph", "blockquote", "list"]}
            )
    return parser


def _link_close(renderer: Any, tokens: Any, token_index: int, options: Any, env: Any) -> str:
    """Return the address that is displayed after the text of a link, or '' if the text is the address."""
    link_level = tokens[token_index].level
    opening_token = next(
        token for token in reversed(tokens[:token_index]) if token.type == "link_open" and token.level == link_level
    )
    if opening_token.markup == "autolink":
        return ""
    quoted_title = f' "{opening_token.attrs["title"]}"' if opening_token.attrs.get("title") else ""
    return html.escape(f" ({opening_token.attrs.get('href', '')}{quoted_title})", quote=False)


def _cell_open(renderer: Any, tokens: Any, token_index: int, options: Any, env: Any) -> str:
    cell_token = tokens[token_index]
    css_class = ALIGNED.get(str(cell_token.attrs.get("style", "")))
    return f'<{cell_token.tag} class="{css_class}">' if css_class else f"<{cell_token.tag}>"


def _fence(renderer: Any, tokens: Any, token_index: int, options: Any, env: Any) -> str:
    code_language = tokens[token_index].info.strip()
    language_html = f'<div class="language">{html.escape(code_language, quote=False)}</div>' if code_language else ""
    highlighted_code = highlight_code(tokens[token_index].content, code_language)
    return f'{language_html}<pre class="code"><code>{highlighted_code}</code></pre>'


def _formula(renderer: Any, tokens: Any, token_index: int, options: Any, env: Any) -> str:
    token = tokens[token_index]
    formula_html = mathml(token.content.strip(), display=token.markup in DISPLAY)
    return f"<p>{formula_html}</p>" if token.block else formula_html


_RULES: dict[str, Callable[..., str]] = {
    # Heading levels belong to the page. Headings of an output only look like headings.
    "heading_open": lambda _, tokens, token_index, *__: f'<p class="heading-{tokens[token_index].tag[1:]}">',
    "heading_close": lambda *_: "</p>",
    # The number of a list item is displayed as written, even if the numbers are not consecutive.
    "list_item_open": lambda _, tokens, token_index, *__: (
        f'<li value="{html.escape(tokens[token_index].info)}">' if tokens[token_index].info else "<li>"
    ),
    "link_open": lambda *_: "",
    "link_close": _link_close,
    "th_open": _cell_open,
    "td_open": _cell_open,
    "fence": _fence,
    "formula": _formula,
}


FORMULAS = {
    "$": r"\$(?!\s)((?:[^$\\]|\\[\s\S]){1,2000}?)(?<!\s)\$(?!\d)",
    "$$": r"\$\$((?:[^$\\]|\\[\s\S]|\$(?!\$)){1,2000}?)\$\$",
    r"\(": r"\\\(([\s\S]{1,2000}?)\\\)",
    r"\[": r"\\\[([\s\S]{1,2000}?)\\\]",
}
"""Opening delimiters of formulas, and the pattern of a whole formula. A formula has at most 2,000 characters."""
DISPLAY = ("$$", r"\[")
"""Opening delimiters of formulas that may be displayed as blocks."""
ALIGNED_LINES = re.compile(r"\\(begin|end)\{(?:align|aligned|split|eqnarray)\*?\}")
"""Pattern of the beginning or the end of an environment with aligned lines. The environment is displayed as an array
with two columns."""


def mathml(formula: str, *, display: bool) -> str:
    """Return the MathML of a formula, with the source as alternative text. If the formula is not valid, return its
    source as code.

    >>> mathml("x^2", display=False)[:40]
    '<math display="inline" alttext="x^2"><mr'
    """
    from latex2mathml.converter import convert

    replacement_of_begin_or_end = {"begin": r"\begin{array}{rl}", "end": r"\end{array}"}
    try:
        mathml_text = convert(ALIGNED_LINES.sub(lambda match: replacement_of_begin_or_end[match[1]], formula))
    except Exception:  # the converter raises various errors
        mathml_text = ""
    inner_mathml, closing_tag, _ = mathml_text.partition(">")[2].rpartition("</math>")
    if not closing_tag:
        return f"<code>{html.escape(formula, quote=False)}</code>"
    display_mode = "block" if display else "inline"
    return f'<math display="{display_mode}" alttext="{html.escape(formula)}">{inner_mathml}</math>'


def highlight_code(code: str, language: str) -> str:
    """Return code as HTML. The code is highlighted if Pygments supports the language.

    >>> highlight_code("x = 1\\n", "python")
    '<span class="n">x</span> <span class="o">=</span> <span class="mi">1</span>\\n'
    """
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        lexer = get_lexer_by_name((language.split() or [""])[0], stripnl=False, ensurenl=False)
    except ClassNotFound:
        return html.escape(code, quote=False)
    return str(highlight(code, lexer, HtmlFormatter(nowrap=True)))


class TextResult(NamedTuple):
    """The HTML of a text, or the reason why the text has no HTML. The reasons are the keys of `rendering.WHY`."""

    html: str = ""
    why: str = ""


def main() -> None:
    """Convert texts until the input ends. A request is a line with a text, its format, and the limit of CPU seconds (0
    means no limit). A response is a line with a `TextResult`."""
    for request_line in sys.stdin.buffer:
        text, text_format, cpu_seconds = json.loads(request_line)
        _limit_cpu_time(cpu_seconds)
        try:
            conversion_result = TextResult(html=to_html(text, text_format))
        except UnlikeError:
            conversion_result = TextResult(why="unlike")
        except (Exception, RecursionError):  # after any error of a parser, the text is displayed as plain text
            conversion_result = TextResult(why="failed")
        _limit_cpu_time(0.0)
        print(json.dumps(conversion_result), flush=True)


def _limit_cpu_time(cpu_seconds: float) -> None:
    """End this process when it has used this many further seconds of CPU time. 0 removes the limit. On Windows, there
    is no limit."""
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds)  # SIGPROF ends a process that does not handle it
