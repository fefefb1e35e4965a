"""Section: whom each metric favours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from custodes.evaluate.favoritism import favoritism
from custodes.plots.favoritism import accuracy_scatter, by_system, heat_map, partial_map, point_rows
from custodes.reporting.section import Context, Figure, Section, empty_rows, spec_of
from custodes.reporting.tables import chosen_table, table_html

HERE = {"aspect": "{aspect}"}
OF_METRIC = {"aspect": "{aspect}", "metric": "{metric}"}


def _figures(context: Context) -> Sequence[Figure]:
    return [
        Figure(
            id="favoritism-accuracy",
            title="How often a metric errs, and how one-sidedly",
            caption="Right: errs seldom. Low: errs to both sides alike. Whisker: interval from resampled items. "
            "Named: the metric that agrees best with people, the chosen one (bold), and the ends of both axes; the "
            "table below has more.",
            alt="Scatter plot of mean absolute Favi-Score against sample accuracy, one point per metric.",
            spec=spec_of(accuracy_scatter(empty_rows(), "{metric}").properties(width="container")),
            table="favoritism-points",
            where=HERE,
        ),
        Figure(
            id="favoritism-map",
            title="Every metric and every system",
            caption="Mean Favi-Score of a system against every other one, from −2 to 2: orange where errors favour it, "
            "blue where they go against it, colour full at ±1.",
            alt="Heat map of the mean Favi-Score of every system by every metric, with the numbers in the cells.",
            spec=spec_of(heat_map(empty_rows())),
            table="favoritism.systems",
            where=HERE,
        ),
        Figure(
            id="favoritism-partiality",
            title="Partial to whom, beyond errors",
            caption="Points of a system's win rate that its quality does not explain: orange favoured, blue "
            "disfavoured. Bold with a star: beyond chance, all metrics and systems tested together. A question mark: "
            "inconclusive.",
            alt="Heat map of the partiality of every metric to every system, with the numbers in the cells.",
            spec=spec_of(partial_map(empty_rows())),
            table="favoritism.partiality",
            where=HERE,
        ),
        Figure(
            id="favoritism-systems",
            title="Whom {metric} favours",
            caption="One point per opponent; box: middle half; orange: median. Hollow points may be chance.",
            alt="Strip and box plot of the Favi-Scores of every system against every other one, for the chosen metric.",
            spec=spec_of(by_system(empty_rows()).properties(width="container")),
            table="favoritism.pairs",
            where=OF_METRIC,
            lines=("system_a", "system_b"),
        ),
    ]


def _build(context: Context) -> Mapping[str, str]:
    """How one-sided errors are, for whom, and what they do to decisions."""
    return {
        "table": table_html(
            context.table("favoritism.metrics").sort("mean_abs_favi", descending=True, nulls_last=True),
            context.declared("favoritism.metrics").columns,
            id="favoritism-metrics",
            caption="Favoritism of each metric",
            notes=context.notes("favoritism", "favi", "design-effect", "one-cluster", "overall-score"),
        )
    }


FAVORITISM = Section(
    question="favoritism",
    title="Who favours whom",
    ask=lambda context: context.ask(favoritism),
    figures=_figures,
    tables=lambda context: [
        chosen_table(
            context,
            "favoritism-pairs",
            "Every pair of systems, by the chosen metric",
            "favoritism.pairs",
            OF_METRIC,
        ),
        chosen_table(
            context,
            "favoritism-partiality-table",
            "Partiality to every system, by the chosen metric",
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
