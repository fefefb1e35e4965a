"""Sentences on the decisions of a metric, and on its weaknesses: partiality and untested bias."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from custodes.answers.wording import estimate_with_interval, names, percent, plural
from custodes.data.comparisons import HUMAN
from custodes.evaluate.consistency.findings import LENGTH
from custodes.evaluate.partiality_table import INCONCLUSIVE
from custodes.evaluate.verdict.view import AspectResults, Row, applicable, rated_systems

_TESTS = {
    "none": "If each pair is tested alone",
    "holm": "If all pairs are tested together (Holm)",
    "bh": "If all pairs are tested together (Benjamini-Hochberg)",
}
"""Text of each correction of the sign tests."""


def weaknesses(view: AspectResults) -> Iterator[str]:
    """Return sentences on the weaknesses of the metric that agrees best, if it is better than chance."""
    if view.sided or not view.metrics_on_side("above"):
        return iter(())
    metric = view.standing[0]["metric"]
    finding_rows = [finding_row for finding_row in view.partial if finding_row["metric"] == metric]
    reason_of_unclear_system = inconclusive_systems(view, metric)
    return applicable(
        (
            finding_rows,
            f"{metric} {rated_systems(finding_rows)}. Do not compare "
            f"{'this system' if len(finding_rows) == 1 else 'these systems'} with others by {metric} alone.",
        ),
        (
            not finding_rows and is_partiality_tested(view, metric),
            f"{metric} does not significantly over-rate or under-rate any system, but this does not show that it rates "
            "all systems fairly.",
        ),
        (
            reason_of_unclear_system,
            f"Whether {metric} over-rates or under-rates {names([*reason_of_unclear_system])} is inconclusive: "
            f"{names([*dict.fromkeys(reason_of_unclear_system.values())])}.",
        ),
        (
            not is_length_tested(view, metric),
            f"Whether {metric} prefers longer outputs is not tested: the test needs texts of the outputs.",
        ),
    )


def decisions(view: AspectResults) -> Iterator[str]:
    """Yield sentences on the decisions of the metric that agrees best.

    A second sentence follows if decisions of the metric are no closer to the human decisions than no decision on any
    pair. The second sentence is omitted if annotators decide no pair.
    """
    metric = view.standing[0]["metric"] if view.standing else ""
    error_row = decisions_of(view, metric)
    if not error_row:
        return
    correct_text, reversed_text, missed_text = (
        estimate_with_interval(error_row, error_name, write=percent)
        for error_name in ("correct", "inversion", "omission")
    )
    correction = view.results["ranking"].provenance.options["correction"]
    yield (
        f"{_TESTS[correction]}, {metric} reaches the same decision as the annotators (better, worse or undecided) on "
        f"{correct_text} of {plural(error_row['pairs'], 'system pair')}. A metric that decided no pair would reach the "
        f"same decision on {percent(error_row['undecided'])} of the pairs. {metric} reverses {reversed_text} of the "
        f"pairs, misses a difference in {missed_text} and finds a difference that the "
        "annotators do not confirm in "
        f"{percent(error_row['insertion'])}."
    )
    if is_no_better_than_none(error_row):
        yield f"In these data, decisions by {metric} are no better than no decision."


def decisions_of(view: AspectResults, metric: str) -> Row:
    """Return the decision errors of a metric on the pairs of systems that annotators and metric compared.

    The result is a row of the table `errors` of `ranking` with two further values. `pairs` is the number of compared
    pairs. `undecided` is the proportion of these pairs that annotators leave undecided. The row is empty if the errors
    are undefined.
    """
    human_decisions = view.decisions.filter(rater=HUMAN).join(
        view.decisions.filter(rater=metric), on=["system_a", "system_b"], how="semi"
    )
    error_rows = view.rows("ranking", "errors").filter(pl.col("correct").is_not_null(), metric=metric).to_dicts()
    if not error_rows or not human_decisions.height:
        return {}
    return error_rows[0] | {
        "pairs": human_decisions.height,
        "undecided": human_decisions.filter(decision="=").height / human_decisions.height,
    }


def is_no_better_than_none(error_row: Row) -> bool:
    """Return whether leaving all pairs undecided would be at least as close to human decisions as the metric's
    decisions.

    The result is false if annotators decide no pair.
    """
    return bool(error_row) and error_row["correct"] - 1e-9 <= error_row["undecided"] < 1  # rounding error


def inconclusive_systems(view: AspectResults, metric: str) -> dict[str, str]:
    """Return the systems to which the partiality of a metric is inconclusive, with the reasons.

    Systems to which the partiality of every metric is inconclusive are left out, because a separate sentence names
    them.
    """
    is_inconclusive_expression = pl.col("finding") == INCONCLUSIVE
    inconclusive_rows = view.partiality.filter(
        is_inconclusive_expression, ~is_inconclusive_expression.all().over("system"), metric=metric
    )
    return dict(inconclusive_rows.select("system", "reason").iter_rows())


def is_partiality_tested(view: AspectResults, metric: str) -> bool:
    """Return whether the partiality of a metric to at least one system has a conclusive result (significant or not)."""
    return bool(view.partiality.filter(pl.col("finding") != INCONCLUSIVE, metric=metric)["partiality"].count())


def is_length_tested(view: AspectResults, metric: str) -> bool:
    """Return whether the preference of a metric for longer outputs is tested."""
    return bool(view.rows("consistency", "findings").filter(rater=metric, kind=LENGTH)["p_value"].count())
