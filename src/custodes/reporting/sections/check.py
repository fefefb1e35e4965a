"""Section: overview of the study."""

from __future__ import annotations

from collections.abc import Mapping

from custodes.answers.tables import label
from custodes.evaluate.check.check import check
from custodes.evaluate.check.rules import merge_aspects
from custodes.reporting.section import Context, Section
from custodes.reporting.tables import columns_with_values, table_html


def _build(context: Context) -> Mapping[str, str]:
    """HTML of the tables of coverage, missing ratings and ties, and of problems of the data."""
    aspect = [label("aspect", "what was rated")] if context.aspects != ("",) else []
    tables = {
        "summary": ("Ratings by aspect" if aspect else "Ratings", aspect, None),
        "raters": ("Raters", [], "aspect"),
        "problems": ("Problems of the data", aspect, None),
        "used": ("Metadata of the raters", [], None),
    }
    frames = {name: context.table(f"check.{name}") for name in tables}
    frames["problems"] = merge_aspects(frames["problems"])
    return {
        name: table_html(frame, [*first, *columns_with_values(columns, frame)], id=name, caption=caption, by=by)
        if frame.height
        else ""
        for name, (caption, first, by) in tables.items()
        for frame, columns in [(frames[name], context.table_declaration(f"check.{name}").columns)]
    }


RESAMPLES = 1000
"""Number of resamples of the test in `check`, independent of the resamples of the report.

The significance level of this test is 1 %, so it needs more resamples than an interval does.
"""

CHECK = Section(
    question="check",
    title="Data",
    ask=lambda context: context.ask(check, resamples=RESAMPLES),
    build=_build,
    required=True,
    alone=True,
    labels=True,
    of_metrics=True,
)
