"""Code with its words in classes: keywords, strings, comments, numbers, names of functions, errors."""

from __future__ import annotations

import html

LONGEST = 20_000
"""Characters of a piece of code whose words are told apart."""


def highlighted(code: str, language: str) -> str:
    """HTML of a piece of code in a language that Pygments knows; of others, as it is.

    >>> highlighted("x = 1", "python")
    'x = <span class="m">1</span>'
    """
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    name = language.split(maxsplit=1)[0] if language.strip() else ""
    if not name or len(code) > LONGEST:
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
