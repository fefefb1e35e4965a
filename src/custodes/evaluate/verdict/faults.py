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
    PROBE: "if only the form of an output changes, its outcome changes by {points} points (probe {factor})",
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
    flip_rows = (
        order_rows.filter(pl.col("flip_rate").is_not_null())
        .join(repeat_rows, on="rater", how="left", maintain_order="left")
        .to_dicts()
    )
    metrics = [standing_row["metric"] for standing_row in view.standing]
    flip_rows.sort(key=lambda row: metrics.index(row["rater"]) if row["rater"] in metrics else len(metrics))
    for flip_row in flip_rows[:MOST_NAMED]:
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
    for finding_row in sorted(significant_rows.to_dicts(), key=lambda row: row["rater"] not in view.leaders)[
        :MOST_NAMED
    ]:
        has_only_one_order = finding_row["kind"] == POSITION and finding_row["rater"] not in raters_with_both_orders
        finding_text = (ONE_ORDER if has_only_one_order else FAULTS[finding_row["kind"]]).format(
            points=estimate_with_interval(finding_row, "estimate", digits=0), factor=finding_row["factor"]
        )
        yield f"{finding_row['rater']} {finding_row['finding']}: {finding_text}."
    if significant_rows.height > MOST_NAMED:
        yield (
            f"In all, {plural(significant_rows.height, 'fault')} were found, in {significant_rows['rater'].n_unique()} "
            f"of {finding_rows['rater'].n_unique()} raters."
        )


def _failure_sentences(view: AspectResults) -> Iterator[str]:
    """Yield sentences on failure rates of judges, and on reasons for failures."""
    missing_rows = view.rows("consistency", "missing")
    failure_rows = missing_rows.filter(pl.col("failure_rate") >= LEAST_FAILED, factor=ALL)
    for failure_row in failure_rows.sort("failure_rate", descending=True, maintain_order=True).to_dicts()[:MOST_NAMED]:
        reason_rows = missing_rows.filter(factor=REASON, rater=failure_row["rater"])
        reasons_text = ", ".join(
            f"{reason} {percent(rate)}" for reason, rate in reason_rows.select("level", "failure_rate").iter_rows()
        )
        yield (
            f"{failure_row['rater']} gave no verdict in "
            f"{estimate_with_interval(failure_row, 'failure_rate', write=percent)} of "
            f"{plural(failure_row['queried'], 'question')}{f' ({reasons_text})' if reasons_text else ''}."
        )
