"""Results for papers and pages: Markdown, LaTeX and HTML, with the best value of a column in bold; and JSON.

A compact LaTeX table fits into one column of a two-column paper: it has one or two estimates with intervals, and
significance letters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from textwrap import wrap
from typing import Any

import msgspec
import polars as pl

from custodes.answers.tables import Column, Table, View
from custodes.answers.views import digits_of_column, split_by_aspect, title_with_aspect
from custodes.answers.wording import UNDEFINED, estimate_text, letter_ranges, p_value
from custodes.control_characters import escape_controls

_SPECIAL = {letter: f"\\{letter}" for letter in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    "−": "$-$",
    "±": r"$\pm$",
    "α": r"$\alpha$",
    "²": "$^2$",
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
    row_cell_tuples = [
        tuple(map(_escape_markdown, view.labels)),
        tuple("---:" if is_number_column else "---" for is_number_column in view.numeric),
        *_bold(view, _escape_markdown, "**{}**"),
    ]
    row_texts = [f"| {' | '.join(row_cells)} |" for row_cells in row_cell_tuples if row_cells]
    title_text = f"**{_escape_markdown(view.title)}**\n"
    return "\n".join(filter(None, [title_text, *row_texts, view.more and f"\n{_escape_markdown(view.more)}"]))


def latex(views: Iterable[View]) -> str:
    """The views as LaTeX tables (package booktabs), one below another."""
    return "\n\n".join(map(_latex_table, views)) + "\n"


def _latex_table(view: View) -> str:
    row_texts = [
        _latex_row(row_cells)
        for row_cells in [tuple(map(tex, view.labels)), *_bold(view, tex, r"\textbf{{{}}}")]
        if row_cells
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
    for row_index, row_cells in enumerate(view.rows):
        yield tuple(
            bold_format.format(escape_cell(cell_text))
            if (row_index, column_index) in view.best
            else escape_cell(cell_text)
            for column_index, cell_text in enumerate(row_cells)
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


MOST_ESTIMATES = 2
"""Maximum number of estimates with intervals that fit next to a label in one column of a two-column page."""

MOST_LABELS = 3
"""Maximum number of label columns. With this number of label columns, a table has room for only one estimate with an
interval. If there are more label columns, their labels become headings above the rows."""

LONG_TEXT = 40
"""Number of characters above which a label is broken into lines."""

HEADING_WIDTH = 14
"""Maximum number of characters in a line of a heading."""

LETTERS = "group"
"""Name of the column of significance letters."""


def compact_latex(table: Table, frame: pl.DataFrame, name: str, estimates: Sequence[str] = ()) -> str:
    """Return a LaTeX table (package booktabs) that fits into one column of a two-column paper.

    Parameters
    ----------
    table : Table
        The declaration of the table.
    frame : polars.DataFrame
        Rows of the table.
    name : str
        Name of the table, for the comment above each `tabular`.
    estimates : sequence of str, default ()
        Names of the columns of estimates. The significance letters refer to the first of these columns. If empty, the
        first essential columns with an interval are used; if there are none, the first essential numeric columns.

    Returns
    -------
    str
        One `tabular` per aspect. Significance letters are superscripts of the labels. The best row is bold if it
        differs significantly from all other rows.
    """
    return "\n\n".join(
        _tabular(table, aspect_rows, title_with_aspect(name, aspect_name), estimates)
        for aspect_name, aspect_rows in split_by_aspect(frame, table.by)
    )


def _tabular(table: Table, table_rows: pl.DataFrame, title: str, estimate_names: Sequence[str]) -> str:
    has_letters = LETTERS in table_rows.columns and table_rows[LETTERS].count() > 0
    label_columns = [
        column
        for column in table.columns
        if column.kind == "label" and column.essential and column.name not in (LETTERS, "note")
    ]
    constant_columns = [column for column in label_columns[:-1] if table_rows[column.name].n_unique() == 1]
    label_columns = [column for column in label_columns if column not in constant_columns]
    best_row_indices = (
        {*_significantly_best(table_rows, [column.name for column in label_columns[:-1]])}
        if has_letters
        else set[int]()
    )
    heading_columns = sorted(label_columns, key=lambda column: len(table_rows[column.name].rle()))[
        : max(0, len(label_columns) - MOST_LABELS)
    ]
    label_columns = [column for column in label_columns if column not in heading_columns]
    estimate_columns = _estimates(table, table_rows, estimate_names)
    if len(label_columns) == MOST_LABELS and any(column.interval for column in estimate_columns):
        estimate_columns = estimate_columns[:1]
    n_decimals_of_column_name = {column.name: digits_of_column(table_rows, column, 2) for column in estimate_columns}

    body_lines, previous_heading_text = [_latex_row(map(_heading, [*label_columns, *estimate_columns]))], ""
    for row_index, table_row in enumerate(table_rows.iter_rows(named=True)):
        heading_text = ", ".join(tex(str(table_row[column.name])) for column in heading_columns)
        if heading_text != previous_heading_text:
            body_lines += [
                r"\midrule",
                rf"\multicolumn{{{len(label_columns) + len(estimate_columns)}}}{{@{{}}l}}{{{heading_text}}} \\",
            ]
        if heading_text != previous_heading_text or not row_index:
            body_lines.append(r"\midrule")
        previous_heading_text = heading_text
        label_texts = [tex(str(table_row[column.name])) for column in label_columns]
        estimate_and_interval_texts = [
            _value(table_row, column, n_decimals_of_column_name[column.name]) for column in estimate_columns
        ]
        if row_index in best_row_indices:
            label_texts[-1] = rf"\textbf{{{label_texts[-1]}}}"
            estimate_and_interval_texts[:1] = [
                (rf"\textbf{{{value_text}}}", interval_text)
                for value_text, interval_text in estimate_and_interval_texts[:1]
            ]
        if has_letters and table_row[LETTERS]:
            label_texts[-1] += rf"\textsuperscript{{{tex(letter_ranges(table_row[LETTERS]))}}}"
        body_lines.append(
            _latex_row(
                [
                    *label_texts,
                    *(value_text + interval_text for value_text, interval_text in estimate_and_interval_texts),
                ]
            )
        )
    constant_labels_text = "".join(
        f", {column.name} {table_rows[column.name][0]}" for column in constant_columns if table_rows.height
    )
    comment_lines = [f"% {' '.join((title + constant_labels_text).split())}"]
    if has_letters:
        comment_lines.append("% Rows that share a letter do not differ significantly; bold: significantly best.")
    is_long_column = [
        any(len(str(label_text)) > LONG_TEXT for label_text in table_rows[column.name]) for column in label_columns
    ]
    column_formats_text = "".join(r"p{.75\columnwidth}" if is_long else "l" for is_long in is_long_column)
    return "\n".join(
        [
            *comment_lines,
            r"{\small\setlength{\tabcolsep}{4pt}%",
            rf"\begin{{tabular}}{{@{{}}{column_formats_text}{'r' * len(estimate_columns)}@{{}}}}",
            r"\toprule",
            *body_lines,
            r"\bottomrule",
            r"\end{tabular}}",
        ]
    )


def _estimates(table: Table, table_rows: pl.DataFrame, estimate_names: Sequence[str]) -> list[Column]:
    essential_columns = [column for column in table.columns if column.essential and column.is_number]
    candidate_columns = (
        [table.column(estimate_name) for estimate_name in estimate_names]
        or [column for column in essential_columns if column.interval]
        or essential_columns
    )
    return [column for column in candidate_columns if table_rows[column.name].count()][:MOST_ESTIMATES]


def _heading(column: Column) -> str:
    wrapped_lines = [
        tex(heading_line)
        for label_line in column.label.replace(" (", "\n(").splitlines()
        for heading_line in wrap(label_line, HEADING_WIDTH, break_long_words=False)
    ]
    alignment, heading_text = "r" if column.is_number else "l", r" \\ ".join(wrapped_lines)
    return rf"\shortstack[{alignment}]{{{heading_text}}}" if len(wrapped_lines) > 1 else heading_text


def _value(row: Mapping[str, Any], column: Column, digits: int) -> tuple[str, str]:
    """The text of an estimate, and the text of its interval in small type, both without leading zeros."""
    estimate = row[column.name]
    if estimate is None:
        return tex(UNDEFINED), ""
    if column.kind == "p":
        return tex(p_value(estimate)), ""
    value_and_interval = re.sub(r"(?<!\d)0\.", ".", estimate_text(estimate, *column.bounds(row), digits=digits))
    value_text, bracket, interval_text = value_and_interval.partition("[")
    return tex(value_text.strip()), rf" {{\scriptsize[{tex(interval_text)}}}" if bracket else ""


def _significantly_best(table_rows: pl.DataFrame, label_column_names: Sequence[str]) -> Iterator[int]:
    """Positions of the significantly best rows.

    In each group of rows with equal labels, the first row is the best. The position of this row is yielded if the row
    shares no significance letter with another row of the group.
    """
    table_rows = table_rows.with_row_index("place")
    for group_rows in (
        table_rows.partition_by(label_column_names, maintain_order=True) if label_column_names else [table_rows]
    ):
        letters_by_row = group_rows[LETTERS].to_list()
        is_compared_group = (
            len(letters_by_row) > 1
            and all(letters_by_row)
            and not any(row_letters[0].isdigit() for row_letters in letters_by_row)
        )
        if is_compared_group and not {*letters_by_row[0]} & {
            letter for row_letters in letters_by_row[1:] for letter in row_letters
        }:
            yield group_rows["place"][0]


def to_json(value: Any) -> bytes:
    """Plain values as JSON with an indent of two spaces.

    Non-finite numbers become null, and a frame becomes a list of its rows.

    >>> to_json({"n": 2, "rows": pl.DataFrame({"x": [1.5]})}).decode().split()
    ['{', '"n":', '2,', '"rows":', '[', '{', '"x":', '1.5', '}', ']', '}']
    """
    return msgspec.json.format(msgspec.json.encode(value, enc_hook=pl.DataFrame.to_dicts), indent=2)
