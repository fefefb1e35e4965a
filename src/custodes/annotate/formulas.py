"""Formulas of LaTeX in Markdown, as MathML that browsers draw: $…$, $$…$$, \\(…\\) and \\[…\\].

A dollar opens where no white space follows it, and the next one closes where none comes before it and no digit
follows it (as in Pandoc), so that `$5 and $6` stays money.
"""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

INLINE = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"))
BLOCK = (("$$", "$$"), ("\\[", "\\]"))
ALIGNED = re.compile(r"\\(begin|end)\{(?:align|aligned|split|eqnarray)\*?\}")
"""Lines aligned at their signs, which are drawn as the columns of an array."""
LONGEST = 2_000
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
            convert(ALIGNED.sub(lambda own: r"\begin{array}{rl}" if own[1] == "begin" else r"\end{array}", formula))
        )
        _, _, inner = made.partition(">")
        inner, closing, _ = inner.rpartition("</math>")
    except Exception:  # whatever it cannot read; there is no one kind of error
        closing = ""
    if not closing or len(formula) > LONGEST:
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
    limit = min(most, first + LONGEST)
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
