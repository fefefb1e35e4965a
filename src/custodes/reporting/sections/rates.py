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

SQUARE = {"width": 260, "height": 260}
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
        ),
        *(
            Figure(
                id=f"rates-{id_suffix}",
                title=title,
                caption=caption,
                alt=alt,
                spec=spec_of(chart),
                table=f"rates.{table_name}",
                where={"aspect": "{aspect}", "metric": "{metric}"},
            )
            for id_suffix, table_name, title, caption, alt, chart in (
                (
                    "labels",
                    "confusion",
                    "Labels of {metric} and annotators",
                    "Outputs with both labels. Green: equal labels. Red: the judge errs.",
                    "Table of counts by human label and by label of the judge.",
                    label_cells(empty_rows()),
                ),
                (
                    "roc",
                    "roc",
                    "ROC curve of {metric}",
                    "Red: the threshold that turns scores into labels.",
                    "ROC curve of the judge.",
                    roc_lines(empty_rows()).properties(**SQUARE),
                ),
                (
                    "calibration",
                    "calibration",
                    "Human labels by the score of {metric}",
                    "Bins with equal numbers of labels; whiskers: Wilson intervals.",
                    "Human labels by the score of the judge.",
                    reliability_dots(empty_rows()).properties(**SQUARE),
                ),
            )
        ),
    ]
    return [figure for figure in figures if figure.opening or context.table(figure.table).height]


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
