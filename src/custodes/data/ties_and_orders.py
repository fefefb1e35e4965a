"""Rules that turn scores and verdicts into preferences: ties, presentation orders, and the combination of annotators.

Every rule is implemented once, as an expression on a table. A study applies the expression in memory, and `count`
applies the expression in the engine of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import narwhals as nw
import numpy as np
import polars as pl

from custodes.data.notes import Note, build_notes
from custodes.data.table import filter_rows
from custodes.data.table_engines import conditional_value, indicator
from custodes.stats.arrays import Floats

Aggregate = Literal["mean", "vote"]
"""Ways to combine annotators: the sign of the mean difference of scores, or a majority vote."""

Orders = Literal["mean", "consistent", "first"]
"""Ways to merge verdicts in both presentation orders (and repeats): the sign of the mean, only verdicts without
contradiction, or the first verdict in the file. With the sign of the mean, a contradiction is a tie."""

Table = nw.LazyFrame[Any]

OUTPUTS = ("item", "system_a", "system_b")
"""The columns that name two outputs of one item."""

FLOAT_NOISE = 1e-9
"""Relative difference up to which human ratings tie, because means over annotators have rounding errors."""

HALF_RULE = "half-judged"
"""The note on comparisons that were queried in both orders but have a verdict in only one."""

BATCH_ROWS = 1_000_000
"""Maximum number of pairs of scores to join at a time in memory."""


def tie_rule(difference: nw.Expr, threshold: nw.Expr) -> nw.Expr:
    """The preference for a difference: 1 or -1 (the sign) if the absolute difference exceeds the threshold, otherwise
    0.

    Parameters
    ----------
    difference, threshold : expressions
        Score of `system_a` minus score of `system_b`, and the largest difference that counts as a tie, in score units.
    """
    return (
        nw.when(difference > threshold).then(nw.lit(1)).otherwise(conditional_value(difference * -1 > threshold, -1, 0))
    )


def score_differences(scores: Table) -> Table:
    """Differences between the scores of all pairs of outputs of an item, for each rater.

    Parameters
    ----------
    scores : table
        Columns rater, item, system, score and threshold (the largest difference that counts as a tie); one row per
        output.

    Returns
    -------
    table
        Columns rater, item, system_a, system_b (system_a < system_b), difference, threshold, sign and order (0).
    """
    output_pair_rows = scores.join(scores, on=["rater", "item"], how="inner", suffix="_b")
    output_pair_rows = output_pair_rows.filter(nw.col("system") < nw.col("system_b")).select(
        "rater",
        "item",
        nw.col("system").alias("system_a"),
        "system_b",
        (nw.col("score") - nw.col("score_b")).alias("difference"),
        "threshold",
    )
    return output_pair_rows.with_columns(
        tie_rule(nw.col("difference"), nw.col("threshold")).cast(nw.Int8).alias("sign"), nw.lit(0.0).alias("order")
    )


def rater_comparisons(scores: Table, verdicts: Table | None) -> Table:
    """Preferences of each rater, from scores, and from verdicts on pairs of outputs that have no scores.

    Parameters
    ----------
    scores : table
        As for `score_differences`.
    verdicts : table or None
        Columns rater, item, system_a, system_b, sign and order; one row per comparison (see `merge_orders`).

    Returns
    -------
    table
        Columns rater, item, system_a, system_b, sign, order, difference and threshold (null for verdicts).
    """
    score_comparison_rows = score_differences(scores).select(
        "rater", *OUTPUTS, "sign", "order", "difference", "threshold"
    )
    if verdicts is None:
        return score_comparison_rows
    return nw.concat(
        [
            score_comparison_rows,
            verdicts.join(score_comparison_rows, on=["rater", *OUTPUTS], how="anti").select(
                "rater",
                *OUTPUTS,
                nw.col("sign").cast(nw.Int8),
                nw.col("order").cast(nw.Float64),
                nw.lit(None).cast(nw.Float64).alias("difference"),
                nw.lit(None).cast(nw.Float64).alias("threshold"),
            ),
        ]
    )


def combine_annotators(comparisons: Table, aggregate: Aggregate) -> Table:
    """Combine the preferences of several annotators into one preference per comparison.

    Parameters
    ----------
    comparisons : table
        Rows of annotators only, as from `rater_comparisons`.
    aggregate : {'mean', 'vote'}
        'mean': the sign of the mean difference over annotators who scored both outputs. 'vote': the side that more
        annotators prefer, otherwise a tie.

    Returns
    -------
    table
        Columns item, system_a, system_b, sign and order (the mean over annotators).
    """
    comparison_groups, mean_order_expression = comparisons.group_by(*OUTPUTS), nw.col("order").mean()
    if aggregate == "vote":
        aggregated_rows = comparison_groups.agg(nw.col("sign").cast(nw.Int64).sum(), mean_order_expression)
        sign_expression = tie_rule(nw.col("sign"), nw.lit(0))
    else:
        aggregated_rows = comparison_groups.agg(
            nw.col("difference").sum(),
            nw.col("difference").count().alias("n"),
            nw.col("threshold").max(),
            mean_order_expression,
        )
        sign_expression = tie_rule(nw.col("difference") / nw.col("n"), nw.col("threshold"))
    return aggregated_rows.with_columns(sign_expression.cast(nw.Int8).alias("sign")).select(*OUTPUTS, "sign", "order")


def merge_orders(verdicts: Table, orders: Orders, *, key_column_names: Sequence[str] = ("rater", *OUTPUTS)) -> Table:
    """Merge the verdicts of a rater in both presentation orders, and repeated verdicts, into one verdict per
    comparison.

    Parameters
    ----------
    verdicts : table
        Columns rater, item, system_a, system_b, sign and order. The sign is null if the verdict is unreadable or
        missing. The order is 1 if system_a was shown first, -1 if system_b was shown first, and 0 if it is unknown.
        'first' also needs `row`, the position in the file.
    orders : {'mean', 'consistent', 'first'}
        'mean': the sign of the mean over orders, after averaging over the repeats of each order. 'consistent': the
        common verdict if all verdicts agree; other comparisons are excluded. 'first': the first verdict in the file.
    key_column_names : sequence of str
        The columns that identify a comparison.

    Returns
    -------
    table
        The keys, sign, order (the mean over orders), and the indicators `half` and `contradictory`. A comparison is
        `half` if it was queried in both orders but answered in only one order. The position preference of the rater
        then does not cancel. The sign of an excluded comparison is null.
    """
    if orders == "first":
        return (
            verdicts.filter(~nw.col("sign").is_null())
            .with_columns(first=nw.col("row").min().over(*key_column_names))
            .filter(nw.col("row") == nw.col("first"))
            .select(
                *key_column_names, "sign", nw.col("order").cast(nw.Float64), half=nw.lit(0), contradictory=nw.lit(0)
            )
        )
    code_of_order = {"ab": 1, "ba": -1, "unknown": 0}
    comparison_rows = (
        verdicts.with_columns(
            **{
                f"sign_{order}": nw.when(nw.col("order") == order_code).then(nw.col("sign"))
                for order, order_code in code_of_order.items()
            },
            **{
                f"queried_{order}": indicator(nw.col("order") == order_code)
                for order, order_code in code_of_order.items()
            },
        )
        .group_by(*key_column_names)
        .agg(
            *(nw.col(f"sign_{order}").mean() for order in code_of_order),
            *(nw.col(f"queried_{order}").max() for order in code_of_order),
            nw.col("sign").min().alias("lowest_sign"),
            nw.col("sign").max().alias("highest_sign"),
        )
        .filter(~nw.col("lowest_sign").is_null())
    )
    is_answered_by_order = {order: ~nw.col(f"sign_{order}").is_null() for order in code_of_order}
    is_half_answered = (is_answered_by_order["ab"] & ~is_answered_by_order["ba"] & (nw.col("queried_ba") == 1)) | (
        is_answered_by_order["ba"] & ~is_answered_by_order["ab"] & (nw.col("queried_ab") == 1)
    )
    is_contradictory = nw.col("lowest_sign") != nw.col("highest_sign")
    return comparison_rows.select(
        *key_column_names,
        nw.when(~(is_half_answered | is_contradictory if orders == "consistent" else is_half_answered))
        .then(tie_rule(nw.sum_horizontal(*(f"sign_{order}" for order in code_of_order)), nw.lit(FLOAT_NOISE)))
        .alias("sign"),
        # The mean is 1 or -1 with one order, 0 with both orders, and 0.5 or -0.5 with one known and one unknown order.
        (
            (indicator(is_answered_by_order["ab"]) - indicator(is_answered_by_order["ba"]))
            / nw.sum_horizontal(*map(indicator, is_answered_by_order.values()))
        ).alias("order"),
        indicator(is_half_answered).alias("half"),
        indicator(is_contradictory & ~is_half_answered).alias("contradictory"),
    )


def merging_notes(
    n_half_comparisons: int, n_contradictory_comparisons: int, orders: Orders, *, half_advice: str = ""
) -> list[Note]:
    """Notes on the numbers of comparisons that `merge_orders` marked as half and as contradictory. `half_advice`
    continues the message on half comparisons."""
    contradictory_text = (
        "are excluded because verdicts of one rater differ between presentation orders or repeats"
        if orders == "consistent"
        else "have verdicts of one rater that differ between presentation orders or repeats; the mean verdict decides"
    )
    return build_notes(
        (
            HALF_RULE,
            n_half_comparisons,
            f"{n_half_comparisons} comparisons are excluded because they were queried in both orders and have a "
            f"verdict in only one order{half_advice}",
        ),
        (
            "torn-verdicts",
            n_contradictory_comparisons,
            f"{n_contradictory_comparisons} comparisons {contradictory_text}",
        ),
    )


def compare_in_memory(
    scores: pl.DataFrame, verdicts: pl.DataFrame, *, n_annotators: int, aggregate: Aggregate
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Apply the rules above to the rows of a study, in batches of items.

    Parameters
    ----------
    scores, verdicts : data frames
        As for `rater_comparisons`, with positions instead of labels. The first `n_annotators` raters are annotators.
    n_annotators : int
        Number of annotators.
    aggregate : {'mean', 'vote'}
        As for `combine_annotators`. Annotators vote if any of them gave verdicts.

    Returns
    -------
    tuple of data frames
        Tables with rater, item, system_a, system_b, sign and order: the rows of every rater, and the rows of all
        annotators combined (rater 0).
    """
    has_human_verdicts = verdicts.filter(pl.col("rater") < n_annotators).height > 0
    is_human_row_expression = nw.col("rater") < n_annotators
    comparison_batches, combined_annotator_batches = [], []
    # A join of all items may need much memory.
    n_batches = 1 + int((scores.group_by("rater", "item").len()["len"].cast(pl.Int64) ** 2).sum() or 0) // BATCH_ROWS
    for batch_index in range(n_batches):
        batch_score_rows, batch_verdict_rows = (
            filter_rows(rows, pl.col("item") % n_batches == batch_index) for rows in (scores, verdicts)
        )
        score_table, verdict_table = (nw.from_native(rows.lazy()) for rows in (batch_score_rows, batch_verdict_rows))
        comparison_rows = (
            rater_comparisons(score_table, verdict_table if batch_verdict_rows.height else None).collect().lazy()
        )
        comparison_batches.append(comparison_rows.select("rater", *OUTPUTS, "sign", "order").collect().to_native())
        human_rows = comparison_rows.filter(is_human_row_expression)
        if n_annotators > 1:
            human_rows = combine_annotators(human_rows, "vote" if has_human_verdicts else aggregate)
        combined_annotator_batches.append(
            human_rows.select(nw.lit(0).alias("rater"), *OUTPUTS, "sign", "order").collect().to_native()
        )
    return pl.concat(comparison_batches), pl.concat(combined_annotator_batches)


def human_threshold(scores: Floats, ties: float | None) -> float:
    """The largest difference of human scores that counts as a tie: `ties` (None: 0) plus rounding error, in score
    units."""
    finite_scores = scores[np.isfinite(scores)]
    return float((ties or 0.0) + FLOAT_NOISE * (np.ptp(finite_scores) if finite_scores.size else 0.0))
