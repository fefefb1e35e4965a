"""Section: biases of judges, and consistency of the verdicts of judges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

from custodes.errors import InputError
from custodes.evaluate.consistency.committee import BEST, CHOSEN
from custodes.evaluate.consistency.consistency import Consistency, consistency
from custodes.evaluate.consistency.findings import CONFIDENCE, FAILURES, LENGTH, NEEDS, OWN, POSITION, PROBE
from custodes.evaluate.consistency.missing import ALL, REASON, SYSTEM
from custodes.plots.consistency import AXES, calibration, faults, flips, symmetry
from custodes.reporting.section import Context, Figure, Section, empty_rows, spec_of
from custodes.reporting.tables import result_table_html

TABLES = ("findings", "orders", "confusion", "reliability")
CAPTIONS = {
    POSITION: "Points on the right: the judge prefers the output shown first.",
    LENGTH: "Points on the right: the judge prefers longer outputs more than the annotators do, adjusted for the "
    "noise of "
    "human ratings.",
    OWN: "Points on the right: the judge over-rates its own systems, compared with human ratings.",
    CONFIDENCE: "Points on the right: the judge is overconfident, because its mean confidence exceeds its accuracy "
    "by human ratings.",
    PROBE: "Points on the right: the same output does better in the changed form than in the original form.",
}
SHOWN = (
    ("findings", "Tests of judges (smallest p-value first)"),
    ("orders", "Comparisons judged in both orders"),
    ("repeats", "Repeated comparisons"),
    ("missing", "Failures"),
    ("length", "Length"),
    ("probes", "Probes: the same outputs in another form"),
    ("confidence", "Calibration of the probabilities"),
    ("panels", "Accuracy of single judges and metrics, and of majority votes (a tie counts half)"),
)

ELSEWHERE = ", chosen on other items"

ROWS_OF_TABLE: Mapping[str, Callable[[pl.DataFrame], pl.DataFrame]] = {
    "findings": lambda rows: rows.filter(pl.col("estimate").is_not_null() | pl.col("p_value").is_not_null()).sort(
        "p_value", nulls_last=True, maintain_order=True
    ),
    "panels": lambda rows: rows.with_columns(
        pl.col("panel").replace([BEST, CHOSEN], [f"{BEST}{ELSEWHERE}", f"{CHOSEN}{ELSEWHERE}"])
    ),
    "missing": lambda rows: rows.filter(pl.col("factor").is_in([ALL, REASON, SYSTEM])),
}
"""Selection and order of the displayed rows of a table; other tables are displayed as they are."""
EXAMINED = ("findings", "orders", "repeats", "length", "probes", "confidence")
"""The section exists if at least one of these tables has a row, or if several judges are compared."""

NOTES = {
    "findings": ("inconclusive", "no-texts"),
    "orders": ("few-clusters", "half-judged", "one-order"),
    "panels": ("not-in-committee",),
}


def _ask(context: Context) -> Consistency:
    result: Consistency = context.ask(consistency)
    if result.panels.height < 2 and all(result.to_frame(table_name).is_empty() for table_name in EXAMINED):
        raise InputError(
            "the study has no verdicts and no texts, does not say which systems are a judge's own, and has no two "
            "judges that can be compared with human ratings"
        )
    return result


def _repeat_for_aspects(context: Context, table_name: str) -> pl.DataFrame:
    """A table in which each row without an aspect is repeated for every human aspect.

    The page displays the rows of one aspect at a time.
    """
    table_rows = context.results["consistency"].to_frame(table_name)
    rows_without_aspect = table_rows.filter(~pl.col("aspect").is_in(list(context.aspects)))
    return pl.concat(
        [
            table_rows.filter(pl.col("aspect").is_in(list(context.aspects))),
            *[rows_without_aspect.with_columns(aspect=pl.lit(aspect)) for aspect in context.aspects],
        ]
    )


def _figures(context: Context) -> Sequence[Figure]:
    finding_rows, order_rows = _repeat_for_aspects(context, "findings"), _repeat_for_aspects(context, "orders")
    kinds = [kind for kind in AXES if finding_rows.filter(pl.col("kind") == kind)["estimate"].count()]
    figures = [
        Figure(
            id=f"consistency-{kind.split()[0]}",
            title=AXES[kind],
            caption=f"{CAPTIONS[kind]} Coloured: significant after adjustment for all judges and kinds of fault.",
            alt=f"Dots with whiskers: {AXES[kind]}, for every judge; the table below has the numbers.",
            spec=spec_of(faults(empty_rows(), axis_title=AXES[kind]), width="container"),
            table="consistency-findings",
            lines=("rater", "factor"),
            where={"aspect": "{aspect}", "kind": kind},
        )
        for kind in kinds
    ]
    if _repeat_for_aspects(context, "reliability").height:
        figures.append(
            Figure(
                id="consistency-calibration",
                title="Calibration of {metric}",
                caption="On the dashed line, the judge is calibrated; below the line, the judge is overconfident. "
                "Whiskers: intervals from resampled items.",
                alt="Line with whiskers: accuracy of the judge by its confidence.",
                spec=spec_of(calibration(empty_rows())),
                table="consistency-reliability",
                where={"aspect": "{aspect}", "rater": "{metric}"},
            )
        )
    if not order_rows["flip_rate"].count():
        return figures
    return [
        *figures,
        Figure(
            id="consistency-flips",
            title="Flip rate: the winner changes with the order",
            caption="Comparisons judged in both orders. Whisker: interval from resampled items.",
            alt="Dots with whiskers: flip rate for every judge; the table below has the numbers.",
            spec=spec_of(flips(empty_rows()), width="container"),
            table="consistency-orders",
            lines=("rater",),
            where={"aspect": "{aspect}"},
        ),
        Figure(
            id="consistency-confusion",
            title="Verdicts of {metric} in both orders",
            caption="Green: same verdict in both orders. Red: the first position gains. Blue: the second position "
            "gains.",
            alt="Three by three table: outcome of a system shown first, by outcome of the same system shown second.",
            spec=spec_of(symmetry(empty_rows())),
            table="consistency-confusion",
            where={"aspect": "{aspect}", "rater": "{metric}"},
        ),
    ]


def _build(context: Context) -> Mapping[str, Any]:
    """The values of the template: the table of tests, then the other tables that have rows."""
    html_tables = []
    for table_name, caption in SHOWN:
        table_rows = ROWS_OF_TABLE.get(table_name, pl.DataFrame.clone)(_repeat_for_aspects(context, table_name))
        html_tables.append(
            result_table_html(
                context,
                f"consistency.{table_name}",
                caption,
                rows=table_rows,
                notes=context.notes("consistency", *NOTES.get(table_name, ("none",))),
            )
        )
    return {"table": "\n".join([f"<p>{_untested_text(context)}</p>", *filter(None, html_tables)])}


def _untested_text(context: Context) -> str:
    """Sentences on the kinds of fault that were tested, and on the kinds of fault that cannot be tested with these
    data."""
    test_rows = context.results["consistency"].to_frame("findings").filter(pl.col("p_value").is_not_null())
    tested_kinds = test_rows["kind"].unique().to_list()
    tested_kind_names = [kind_name for fault_kind, (kind_name, _) in NEEDS.items() if fault_kind in tested_kinds]
    failure_rates = context.results["consistency"].to_frame("missing").filter(factor=ALL)["failure_rate"]
    has_no_failures = failure_rates.len() > 0 and failure_rates.max() == 0
    untested_texts = [
        f"{kind_name} ({missing_data_text})"
        for fault_kind, (kind_name, missing_data_text) in NEEDS.items()
        if fault_kind not in tested_kinds and not (fault_kind == FAILURES and has_no_failures)
    ]
    tested_text = (
        f"Tested: {', '.join(tested_kind_names)}. "
        if tested_kind_names
        else "No kind of fault can be tested with these data. "
    )
    tested_text += "No verdict is missing. " if has_no_failures else ""
    return tested_text + (
        f"Data are missing for tests of these kinds of fault: {', '.join(untested_texts)}." if untested_texts else ""
    )


CONSISTENCY = Section(
    question="consistency",
    title="Consistency of judges",
    finding="faults",
    text="A consistent judge gives the same verdict if the presentation order changes or the query is "
    "repeated, and does not prefer outputs because of their length or origin. A fault counts as significant only "
    "after adjustment for all judges and kinds of fault. A judge without a significant fault may still have a fault "
    "that these data cannot show.",
    ask=_ask,
    figures=_figures,
    build=_build,
    extra=lambda context: {f"consistency-{name}": _repeat_for_aspects(context, name) for name in TABLES},
    compares_systems=False,
    pages=("both", "metrics"),
)
