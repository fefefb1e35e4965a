"""Sentences on biases and failures of judges: presentation order, length, own systems, missing verdicts."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from custodes.answers.wording import estimate_with_interval, percent, plural
from custodes.evaluate.consistency.findings import CONFIDENCE, FAILURES, LENGTH, OWN, POSITION, PROBE
from custodes.evaluate.consistency.missing import ALL, REASON
from custodes.evaluate.partiality_table import INCONCLUSIVE
from custodes.evaluate.verdict.view import MOST_NAMED, AspectResults

FAULTS = {
    POSITION: "an output shown first has a margin of {points} points over the same output shown second",
    LENGTH: "longer outputs have a margin of {points} points, adjusted for human preference",
    OWN: "the partiality to {factor} is {points} points of win rate, adjusted for quality",
    CONFIDENCE: "mean confidence minus accuracy by human verdicts is {points} points",
    PROBE: "the form of an output alone changes its outcome by {points} points (probe {factor})",
    FAILURES: "its rate of missing verdicts depends on the {factor}",
}
"""Text for the estimate of a finding, by kind of finding."""
ONE_ORDER = "the first position has a margin of {points} points, assuming random orders"
"""Text for a position effect of a judge that saw each comparison in one order."""
LEAST_FAILED = 0.01
"""Minimum failure rate that is reported."""


def faults(view: AspectResults) -> Iterator[str]:
    """Yield sentences on preferences that change with the presentation order, and on findings about judges."""
    order_rows, finding_rows = view.rows("consistency", "orders"), view.rows("consistency", "findings")
    repeat_rows = view.rows("consistency", "repeats").select("rater", "agreement_within_order")
    rank_of_metric = {standing_row["metric"]: rank for rank, standing_row in enumerate(view.standing)}
    flip_rows = order_rows.filter(pl.col("flip_rate").is_not_null()).join(
        repeat_rows, on="rater", how="left", maintain_order="left"
    )
    for flip_row in sorted(
        flip_rows.to_dicts(), key=lambda flip_row: rank_of_metric.get(flip_row["rater"], len(rank_of_metric))
    )[:MOST_NAMED]:
        repeat_text = (
            f" When a query is repeated in the same order, {percent(flip_row['agreement_within_order'])} of the "
            "verdicts agree."
        )
        yield (
            f"{flip_row['rater']} reverses its preference in "
            f"{estimate_with_interval(flip_row, 'flip_rate', write=percent)} of "
            f"{plural(flip_row['n_both_orders'], 'comparison')} when the presentation order is reversed (a change from "
            "or to a tie is not counted)." + ("" if flip_row["agreement_within_order"] is None else repeat_text)
        )
    yield from _failure_sentences(view)
    significant_rows = finding_rows.filter(~pl.col("finding").is_in(["", INCONCLUSIVE])).sort("p_adjusted", "p_value")
    raters_with_both_orders = set(order_rows.filter(pl.col("n_both_orders") > 0)["rater"])
    # Judges of the top group come first.
    for finding_row in sorted(
        significant_rows.to_dicts(), key=lambda finding_row: finding_row["rater"] not in view.leaders
    )[:MOST_NAMED]:
        has_only_one_order = finding_row["kind"] == POSITION and finding_row["rater"] not in raters_with_both_orders
        finding_template = ONE_ORDER if has_only_one_order else FAULTS[finding_row["kind"]]
        finding_text = finding_template.format(
            points=estimate_with_interval(finding_row, "estimate", digits=0), factor=finding_row["factor"]
        )
        yield f"{finding_row['rater']} {finding_row['finding']}: {finding_text}."
    if significant_rows.height > MOST_NAMED:
        n_raters_with_faults, n_raters = significant_rows["rater"].n_unique(), finding_rows["rater"].n_unique()
        yield (
            f"In all, {plural(significant_rows.height, 'fault')} were found, in {n_raters_with_faults} of {n_raters} "
            "raters."
        )


def _failure_sentences(view: AspectResults) -> Iterator[str]:
    """Yield sentences on failure rates of judges, reasons for failures, and comparisons that failures exclude."""
    missing_rows = view.rows("consistency", "missing")
    order_rows = view.rows("consistency", "orders").select("rater", "n_half_answered")
    failure_rows = (
        missing_rows.filter(factor=ALL)
        .join(order_rows, on="rater", how="left", maintain_order="left")
        .filter((pl.col("failure_rate") >= LEAST_FAILED) | (pl.col("n_half_answered") > 0))
        .sort("failure_rate", descending=True, maintain_order=True)
    )
    for failure_row in failure_rows.head(MOST_NAMED).to_dicts():
        reason_rows = missing_rows.filter(factor=REASON, rater=failure_row["rater"])
        reasons_and_rates = reason_rows.select("level", "failure_rate").rows()
        reasons_text = ", ".join(f"{reason} {percent(rate)}" for reason, rate in reasons_and_rates)
        failure_text = (
            f"{failure_row['rater']} gave no verdict in "
            f"{estimate_with_interval(failure_row, 'failure_rate', write=percent)} of "
            f"{plural(failure_row['queried'], 'question')}{f' ({reasons_text})' if len(reasons_and_rates) > 1 else ''}."
        )
        half_answered_text = (
            " Of the comparisons queried in both orders, "
            f"{plural(failure_row['n_half_answered'], 'comparison has', 'comparisons have')} a verdict in only one "
            "order. Questions that combine both orders into one verdict exclude such comparisons."
        )
        yield failure_text + (half_answered_text if failure_row["n_half_answered"] else "")
