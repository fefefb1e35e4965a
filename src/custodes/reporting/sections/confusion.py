"""Section: confusion matrix of a selected metric and pair of systems."""

from __future__ import annotations

from collections.abc import Sequence

from custodes.plots.confusion import matrix
from custodes.reporting.section import Context, Figure, Section, empty_rows, spec_of


def _figures(context: Context) -> Sequence[Figure]:
    return [
        Figure(
            id="confusion-matrix",
            title="Human preferences and preferences of {metric}",
            caption="Counts of items. Green: same preference. Red: the metric errs.",
            alt="Three-by-three table of preferences by annotators and by the metric, for the chosen pair of systems.",
            spec=spec_of(matrix(empty_rows())),
            table="favoritism.confusion",
            where={"aspect": "{aspect}", "metric": "{metric}", "system_a": "{system_a}", "system_b": "{system_b}"},
        )
    ]


CONFUSION = Section(
    question="confusion",
    title="Confusion matrix of a pair of systems",
    figures=_figures,
    build=lambda context: {
        "pairs": context.table("favoritism.pairs").select("system_a", "system_b").unique(maintain_order=True).rows()
    },
)
