"""Section: the study at a glance."""

from __future__ import annotations

from custodes.reporting.section import Column, Context, Section, render
from custodes.reporting.tables import table_html

SUMMARY = (
    Column(field="aspect", label="Aspect"),
    Column(field="items", label="Items", kind="int"),
    Column(field="clusters", label="Clusters", kind="int", title="documents or the like; what is resampled"),
    Column(field="systems", label="Systems", kind="int"),
    Column(field="people", label="People", kind="int"),
    Column(field="metrics", label="Metrics", kind="int"),
    Column(field="ratings", label="Ratings", kind="int"),
    Column(field="verdicts", label="Verdicts", kind="int"),
    Column(field="coverage", label="Coverage", kind="percent", title="rated share of item × system × rater"),
    Column(field="missing", label="Missing", kind="int"),
    Column(field="ties", label="People tie", kind="percent", title="share of people's comparisons that are ties"),
)
RATERS = (
    Column(field="rater", label="Rater"),
    Column(field="kind", label="Kind"),
    Column(field="ratings", label="Ratings", kind="int"),
    Column(field="verdicts", label="Verdicts", kind="int"),
    Column(field="coverage", label="Coverage", kind="percent"),
    Column(field="missing", label="Missing", kind="int"),
    Column(field="ties", label="Ties", kind="percent"),
    Column(field="low", label="Lowest", kind="number"),
    Column(field="high", label="Highest", kind="number"),
)
PROBLEMS = (
    Column(field="severity", label="Severity"),
    Column(field="aspect", label="Aspect"),
    Column(field="message", label="What"),
    Column(field="examples", label="Examples"),
)


def glance_section(context: Context) -> Section:
    """Coverage, missing cells, ties, and what would fool a reader."""
    summary, problems = context.table("check.summary"), context.table("check.problems")
    named = SUMMARY if context.aspects != ("",) else SUMMARY[1:]
    html = render(
        "glance.html",
        summary=table_html(summary, named, id="summary", caption="What was rated", switched=False),
        raters=table_html(context.table("check.raters"), RATERS, id="raters", caption="Raters"),
        problems=table_html(problems, PROBLEMS, id="problems", caption="What could fool you", switched=False)
        if problems.height
        else "",
    )
    return Section(id="glance", title="The study at a glance", html=html)
