"""Results for papers and pages: Markdown, LaTeX and HTML, with the best value of a column in bold; and JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from html import escape
from typing import Any

import msgspec
import polars as pl

from custodes.answers.tables import View
from custodes.control_characters import escape_controls

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
    return "\n\n".join(map(_markdown_table, views)) + "\n"


def _markdown_table(view: View) -> str:
    cells_of_rows = [
        tuple(map(_escape_markdown, view.labels)),
        tuple("---:" if is_number_column else "---" for is_number_column in view.numeric),
        *_bold(view, _escape_markdown, "**{}**"),
    ]
    row_texts = [f"| {' | '.join(cells_of_row)} |" for cells_of_row in cells_of_rows if cells_of_row]
    title_text = f"**{_escape_markdown(view.title)}**\n"
    return "\n".join(filter(None, [title_text, *row_texts, view.more and f"\n{_escape_markdown(view.more)}"]))


def latex(views: Iterable[View]) -> str:
    """The views as LaTeX tables (package booktabs), one below another."""
    return "\n\n".join(map(_latex_table, views)) + "\n"


def _latex_table(view: View) -> str:
    row_texts = [
        _latex_row(cells_of_row)
        for cells_of_row in [tuple(map(tex, view.labels)), *_bold(view, tex, r"\textbf{{{}}}")]
        if cells_of_row
    ]
    column_formats = "".join("r" if is_number_column else "l" for is_number_column in view.numeric)
    return "\n".join(
        [
            f"% {' '.join(view.title.split())}",
            rf"\begin{{tabular}}{{{column_formats}}}",
            r"\toprule",
            *row_texts[:1],
            r"\midrule",
            *row_texts[1:],
            r"\bottomrule",
            r"\end{tabular}",
            *(f"% {omission_line}" for omission_line in view.more.splitlines()),
        ]
    )


def _latex_row(cells: Iterable[str]) -> str:
    row_text = " & ".join(cells) + r" \\"
    # LaTeX would read [ or * at the beginning of a line as an argument of the preceding line break.
    return "{}" + row_text if row_text.startswith(("[", "*")) else row_text


def html(views: Iterable[View]) -> str:
    """The views as HTML tables, one below another, as displayed in a notebook."""
    return "\n".join(map(_html_table, views))


def _html_table(view: View) -> str:
    # The alignment is explicit, since the style sheet of a notebook aligns all cells to the right.
    column_styles = [
        f' style="text-align:{"right" if is_number_column else "left"}"' for is_number_column in view.numeric
    ]
    header_html = "".join(
        f"<th{column_style}>{_plain(column_label)}</th>"
        for column_label, column_style in zip(view.labels, column_styles, strict=True)
    )
    row_htmls = (
        "".join(
            f"<td{column_style}>{cell_text}</td>"
            for cell_text, column_style in zip(cell_texts, column_styles, strict=True)
        )
        for cell_texts in _bold(view, _plain, "<b>{}</b>")
    )
    body_html = "".join(f"<tr>{row_html}</tr>" for row_html in row_htmls)
    omission_html = f"<p>{_plain(view.more)}</p>" if view.more else ""
    return (
        f'<table><caption style="text-align:left">'
        f"{_plain(view.title)}</caption><thead><tr>{header_html}</tr></thead><tbody>{body_html}</tbody></table>"
        f"{omission_html}"
    )


def page(title: str, body: str) -> str:
    """A complete HTML page with this title and body."""
    return _PAGE.format(title=_plain(title), body=body)


def _bold(view: View, escape_cell: Callable[[str], str], bold_format: str) -> Iterator[tuple[str, ...]]:
    """The rows of a view, with each cell converted by `escape_cell`, and the best values in the format
    `bold_format`."""
    for row_index, cells_of_row in enumerate(view.rows):
        yield tuple(
            bold_format.format(escape_cell(cell_text))
            if (row_index, column_index) in view.best
            else escape_cell(cell_text)
            for column_index, cell_text in enumerate(cells_of_row)
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


def to_json(value: Any) -> bytes:
    """Plain values as JSON with an indent of two spaces.

    Non-finite numbers become null, and a frame becomes a list of its rows.

    >>> to_json({"n": 2, "rows": pl.DataFrame({"x": [1.5]})}).decode().split()
    ['{', '"n":', '2,', '"rows":', '[', '{', '"x":', '1.5', '}', ']', '}']
    """
    return msgspec.json.format(msgspec.json.encode(value, enc_hook=pl.DataFrame.to_dicts), indent=2)
