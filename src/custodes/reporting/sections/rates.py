"""Section: rates of labels by judges, by annotators, and by judges after correction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from custodes.evaluate.rates.rates import rates
from custodes.plots.rates import (
    label_cells,
    rate_dots,
    rates_by_source,
    reliability_dots,
    roc_lines,
)
from custodes.reporting.section import Context, Figure, Section, empty_rows, spec_of
from custodes.reporting.tables import result_table_html

SHOWN = (
    ("rates", "Rates by system"),
    ("differences", "Differences between systems"),
    ("judges", "Agreement of judges with human labels"),
    ("replacement", "May a judge replace an annotator? (alternative annotator test)"),
)


def _figures(context: Context) -> Sequence[Figure]:
    figures = [
        Figure(
            id="rates-by-system",
            title="Rate of each system",
            caption="Vermilion: rate by the judge alone. Grey: rate by human labels alone. Blue: rate by the "
            "judge, corrected with human labels.",
            alt="Dots with whiskers: rates of each system by the judge, by the annotators and by both; the "
            "table has the numbers.",
            spec=spec_of(rate_dots(empty_rows()), width="container"),
            table="rates-by-source",
            lines=("row",),
            where={"aspect": "{aspect}"},
            opening=True,
        )
    ]
    if context.table("rates.confusion").height:
        figures.append(
            Figure(
                id="rates-labels",
                title="Labels of {metric} and annotators",
                caption="Outputs with both labels. Green: equal labels. Red: the judge errs.",
                alt="Table of counts by human label and by label of the judge.",
                spec=spec_of(label_cells(empty_rows())),
                table="rates.confusion",
                where={"aspect": "{aspect}", "metric": "{metric}"},
            )
        )
    if context.table("rates.roc").height:
        for table_name, title, caption, draw_chart in (
            ("roc", "ROC curve of {metric}", "Red: the threshold that turns scores into labels.", roc_lines),
            (
                "calibration",
                "Human labels by the score of {metric}",
                "Bins with equal numbers of labels; whiskers: Wilson intervals.",
                reliability_dots,
            ),
        ):
            figures.append(
                Figure(
                    id=f"rates-{table_name}",
                    title=title,
                    caption=caption,
                    alt=f"{title.format(metric='the judge')}.",
                    spec=spec_of(draw_chart(empty_rows()).properties(width=260, height=260)),
                    table=f"rates.{table_name}",
                    where={"aspect": "{aspect}", "metric": "{metric}"},
                )
            )
    return figures


def _build(context: Context) -> Mapping[str, Any]:
    html_tables = (
        result_table_html(
            context, f"rates.{table_name}", caption, notes=context.notes("rates") if table_name == "rates" else ()
        )
        for table_name, caption in SHOWN
    )
    return {"table": "\n".join(filter(None, html_tables))}


RATES = Section(
    question="rates",
    title="Rates",
    finding="rates",
    text="For each label of the judge, the rate by human labels is computed on the outputs with this label. The "
    "corrected rate is the mean of these rates, weighted by the frequency of the judge’s labels. TPR is the "
    "proportion of positive outputs that the judge recognises, and TNR is the proportion of negative outputs "
    "that the judge recognises.",
    ask=lambda context: context.ask(rates),
    figures=_figures,
    build=_build,
    extra=lambda context: {"rates-by-source": rates_by_source(context.table("rates.rates"))},
    compares_systems=False,
    pages=("labels",),
)
