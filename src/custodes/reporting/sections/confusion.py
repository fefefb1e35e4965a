"""Section: the confusion matrix of any metric and pair of systems."""

from __future__ import annotations

from custodes.plots.confusion import matrix
from custodes.reporting.section import Context, Figure, Section, empty_rows, render, spec_of


def confusion_section(context: Context) -> Section:
    """The nine counts behind every Favi-Score."""
    figure = Figure(
        id="confusion-matrix",
        title="People against {metric}",
        caption="Counts of items. Green: same preference. Red: the metric errs.",
        alt="Three by three table of people's preferences against the metric's, for the chosen pair of systems.",
        spec=spec_of(matrix(empty_rows())),
        table="favoritism.confusion",
        where={"aspect": "{aspect}", "metric": "{metric}", "system_a": "{system_a}", "system_b": "{system_b}"},
    )
    html = render("confusion.html", figure=figure, pairs=context.pairs)
    return Section(id="confusion", title="One pair of systems, item by item", html=html, charts=(figure,))
