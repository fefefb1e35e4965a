"""Section: overview of the study."""

from __future__ import annotations

from collections.abc import Mapping

from custodes.answers.tables import label
from custodes.evaluate.check.check import check
from custodes.evaluate.check.rules import merge_aspects
from custodes.reporting.section import Context, Section
from custodes.reporting.tables import table_html


def _build(context: Context) -> Mapping[str, str]:
    """HTML of the tables of coverage, missing ratings and ties, and of problems of the data."""
    aspect_columns = [label("aspect", "what was rated")] if context.aspects != ("",) else []
    layout_of_table = {
        "summary": ("Ratings by aspect" if aspect_columns else "Ratings", aspect_columns, None),
        "raters": ("Raters", [], "aspect"),
        "problems": ("Problems of the data", aspect_columns, None),
    }
    html_of_table = {}
    for table_name, (caption, leading_columns, grouping_column) in layout_of_table.items():
        table_rows = context.table(f"check.{table_name}")
        table_rows = merge_aspects(table_rows) if table_name == "problems" else table_rows
        html_of_table[table_name] = (
            table_html(
                table_rows,
                [*leading_columns, *context.table_declaration(f"check.{table_name}").columns],
                id=table_name,
                caption=caption,
                by=grouping_column,
            )
            if table_rows.height
            else ""
        )
    return html_of_table


CHECK = Section(
    question="check",
    title="Data",
    ask=lambda context: context.ask(check),
    build=_build,
    required=True,
    pages=("both", "humans", "metrics", "labels"),
)
