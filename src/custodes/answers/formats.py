"""Views of a result for papers and pages: Markdown, LaTeX and HTML, with the best value of a column in bold."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from html import escape
from typing import Any

import msgspec
import polars as pl

from custodes.answers.tables import View
from custodes.control_characters import escape_controls
from custodes.data.writing import row_blocks

_SPECIAL = {letter: f"\\{letter}" for letter in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    "−": "$-$",
    "±": r"$\pm$",
    "τ": r"$\tau$",
    "ρ": r"$\rho$",
    "×": r"$\times$",
    "<": "$<$",
    ">": "$>$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "|": r"$|$",
}

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 75rem; margin: 1rem auto; padding: 0 1rem; }}
table {{ border-collapse: collapse; margin: 1.5rem 0 0; font-variant-numeric: tabular-nums; }}
caption {{ text-align: left; font-weight: bold; }}
th, td {{ padding: .2rem .6rem; border-bottom: 1px solid #ccc; text-align: left; vertical-align: top; }}
</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""


def markdown(views: Iterable[View]) -> str:
    """The views as tables in GitHub's Markdown, one below another."""
    table_texts = []
    for view in views:
        row_cells = [
            tuple(map(_escape_markdown, view.labels)),
            tuple("---:" if is_number else "---" for is_number in view.numeric),
        ]
        row_cells += _bold(view, _escape_markdown, "**{}**")
        row_texts = [f"| {' | '.join(cells)} |" for cells in row_cells if cells]
        title_text, more_text = (
            f"**{_escape_markdown(view.title)}**\n",
            view.more and f"\n{_escape_markdown(view.more)}",
        )
        table_texts.append("\n".join(filter(None, [title_text, *row_texts, more_text])))
    return "\n\n".join(table_texts) + "\n"


def latex(views: Iterable[View]) -> str:
    """The views as LaTeX tables (package booktabs), one below another."""
    table_texts = []
    for view in views:
        row_cells = [tuple(map(tex, view.labels)), *_bold(view, tex, r"\textbf{{{}}}")]
        # LaTeX would read [ or * at the beginning of a line as an argument of the preceding line break.
        row_texts = [
            ("{}" if line[0][:1] in ("[", "*") else "") + " & ".join(line) + r" \\" for line in row_cells if line
        ]
        column_formats = "".join("r" if is_number else "l" for is_number in view.numeric)
        table_lines = [
            f"% {' '.join(view.title.split())}",
            rf"\begin{{tabular}}{{{column_formats}}}",
            r"\toprule",
            *row_texts[:1],
            r"\midrule",
            *row_texts[1:],
            r"\bottomrule",
            r"\end{tabular}",
            *(f"% {line}" for line in view.more.splitlines()),
        ]
        table_texts.append("\n".join(table_lines))
    return "\n\n".join(table_texts) + "\n"


def html(views: Iterable[View]) -> str:
    """The views as HTML tables, one below another, as displayed in a notebook."""
    table_texts = []
    for view in views:
        # The alignment is explicit, since the style sheet of a notebook aligns all cells to the right.
        cell_styles = [f' style="text-align:{"right" if is_number else "left"}"' for is_number in view.numeric]
        header_cells = "".join(
            f"<th{cell_style}>{_plain(label)}</th>" for label, cell_style in zip(view.labels, cell_styles, strict=True)
        )
        row_texts = (
            "".join(
                f"<td{cell_style}>{cell_text}</td>"
                for cell_text, cell_style in zip(cell_texts, cell_styles, strict=True)
            )
            for cell_texts in _bold(view, _plain, "<b>{}</b>")
        )
        body_text = "".join(f"<tr>{row_text}</tr>" for row_text in row_texts)
        more_text = f"<p>{_plain(view.more)}</p>" if view.more else ""
        table_texts.append(
            f'<table><caption style="text-align:left">'
            f"{_plain(view.title)}</caption><thead><tr>{header_cells}</tr></thead><tbody>{body_text}</tbody></table>"
            f"{more_text}"
        )
    return "\n".join(table_texts)


def page(title: str, body: str) -> str:
    """A complete HTML page with this title and body."""
    return _PAGE.format(title=_plain(title), body=body)


def _bold(view: View, escape_cell: Callable[[str], str], bold_format: str) -> Iterator[tuple[str, ...]]:
    """The rows of a view: `escape_cell` converts each cell, and `bold_format` is the format of the best values."""
    for row_index, row in enumerate(view.rows):
        yield tuple(
            bold_format.format(escape_cell(cell_text))
            if (row_index, column_index) in view.best
            else escape_cell(cell_text)
            for column_index, cell_text in enumerate(row)
        )


def _escape_markdown(text: str) -> str:
    # In Markdown, brackets in a label could turn it into a link.
    return re.sub(r"[\\|*<`]|\](?=[(\[:])", r"\\\g<0>", escape_controls(" ".join(text.split())))


def _plain(text: str) -> str:
    return escape(escape_controls(" ".join(text.split())))


def tex(text: str) -> str:
    """The text with the special characters of LaTeX escaped."""
    text = re.sub(r"(?<![\w-])-(?=\d)", "−", escape_controls(text))
    return re.sub("|".join(map(re.escape, _SPECIAL)), lambda match: _SPECIAL[match[0]], text)


INDENT = b"  "


def json_blocks(value: Any, margin: bytes = b"\n") -> Iterator[bytes]:
    """Yield plain values as JSON with an indent of two spaces.

    Non-finite numbers become null, and a frame becomes a list of its rows. `margin` is a line break, followed by the
    indent of the enclosing value.

    >>> b"".join(json_blocks({"n": 2, "rows": pl.DataFrame({"x": [1.5]})})).decode().split()
    ['{', '"n":', '2,', '"rows":', '[', '{', '"x":', '1.5', '}', ']', '}']
    """
    inner_margin = margin + INDENT
    if isinstance(value, pl.DataFrame) and value.height:
        yield b"["
        for block_index, row_block in enumerate(row_blocks(value)):
            # The rows of this block without the brackets of their list.
            yield b"," * bool(block_index) + _format_json(row_block.to_dicts())[1:-2].replace(b"\n", margin)
        yield margin + b"]"
    elif isinstance(value, Mapping) and value:
        for block_index, (name, nested_value) in enumerate(value.items()):
            yield (b"," if block_index else b"{") + inner_margin + msgspec.json.encode(str(name)) + b": "
            yield from json_blocks(nested_value, inner_margin)
        yield margin + b"}"
    else:
        yield _format_json([] if isinstance(value, pl.DataFrame) else value).replace(b"\n", margin)


def _format_json(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=len(INDENT))
