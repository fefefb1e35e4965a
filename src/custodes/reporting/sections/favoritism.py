"""Section: favoritism of each metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from custodes.evaluate.favoritism import favoritism
from custodes.plots.confusion import matrix
from custodes.plots.favoritism import (
    ALL_NAMED,
    accuracy_scatter,
    favoritism_box_plot,
    partial_map,
    point_rows,
)
from custodes.reporting.section import Context, Figure, Section, empty_rows, spec_of
from custodes.reporting.tables import build_selection_table, table_html

HERE = {"aspect": "{aspect}"}
OF_METRIC = {"aspect": "{aspect}", "metric": "{metric}"}


def _figures(context: Context) -> Sequence[Figure]:
    return [
        Figure(
            id="favoritism-accuracy",
            title="Accuracy and one-sidedness of errors",
            caption="Circle: sample accuracy. Square: system accuracy. The further right a metric is, the fewer "
            "errors it makes. The lower a metric is, the less its errors favour single systems. "
            "Whisker: interval from "
            f"resampled items. With more than {ALL_NAMED} metrics, only these are labelled: the metric that agrees "
            "best with the annotators, the chosen metric (bold), and the extremes.",
            alt="Scatter plot of mean absolute Favi-Score by sample and system accuracy, two points per metric.",
            spec=spec_of(accuracy_scatter(empty_rows(), "{metric}"), width="container"),
            table="favoritism-points",
            where=HERE,
        ),
        Figure(
            id="favoritism-partiality",
            title="Partiality of each metric to each system",
            caption="Percentage points of win rate by the metric that the quality of the system does not explain. "
            "Orange: favoured. Blue: "
            "disfavoured. Bold with a star: significant in a joint test of all metrics and systems. "
            "Question mark: inconclusive.",
            alt="Heat map of the partiality of every metric to every system, with the numbers in the cells.",
            spec=spec_of(partial_map(empty_rows())),
            table="favoritism.partiality",
            where=HERE,
        ),
        Figure(
            id="favoritism-systems",
            title="Favi-Scores of each system by {metric}",
            caption="One point per opponent. Box: quartiles. Orange line: median. Hollow point: interval contains 0.",
            alt="Strip and box plot of the Favi-Scores of every system against every other system, for the "
            "chosen metric.",
            spec=spec_of(favoritism_box_plot(empty_rows()), width="container"),
            table="favoritism.pairs",
            where=OF_METRIC,
            lines=("system_a", "system_b"),
        ),
        Figure(
            id="confusion-matrix",
            title="Human preferences and preferences of {metric}",
            caption="Counts of items. Green: same preference. Red: the metric errs.",
            alt="Three-by-three table of preferences by annotators and by the metric, for the chosen pair of systems.",
            spec=spec_of(matrix(empty_rows())),
            table="favoritism.pairs",
            where=OF_METRIC | {"system_a": "{system_a}", "system_b": "{system_b}"},
        ),
    ]


def _build(context: Context) -> Mapping[str, Any]:
    """The values of the template: HTML of the table of favoritism by metric, and the pairs of systems."""
    return {
        "table": table_html(
            context.table("favoritism.metrics").sort("mean_abs_favi", descending=True, nulls_last=True),
            context.table_declaration("favoritism.metrics").columns,
            id="favoritism-metrics",
            caption="Favoritism of each metric",
            notes=context.notes("favoritism", "favi", "design-effect", "one-cluster", "overall-score"),
        ),
        "pairs": context.table("favoritism.pairs").select("system_a", "system_b").unique(maintain_order=True).rows(),
    }


FAVORITISM = Section(
    question="favoritism",
    title="Favoritism",
    finding="favours",
    ask=lambda context: context.ask(favoritism),
    figures=_figures,
    tables=lambda context: [
        build_selection_table(
            context,
            "favoritism-pairs",
            "Pairs of systems by the chosen metric",
            "favoritism.pairs",
            OF_METRIC,
        ),
        build_selection_table(
            context,
            "favoritism-partiality-table",
            "Partiality to each system by the chosen metric",
            "favoritism.partiality",
            OF_METRIC,
        ),
    ],
    build=_build,
    extra=lambda context: {
        "favoritism-points": point_rows(
            context.table("favoritism.metrics"), {aspect: [name] for aspect, name in context.best.items()}
        )
    },
    required=True,
)
