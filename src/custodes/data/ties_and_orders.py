"""Rules that turn scores and verdicts into preferences: ties, presentation orders, and the combination of annotators.

Every rule is implemented once, as an expression on a table. A study applies the expression in memory, and `count`
applies the expression in the engine of the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
"""Ways to merge verdicts in both presentation orders (and repeats): the sign of the mean (a contradiction is a tie),
only verdicts without contradiction, or the first verdict in the file."""

Table = nw.LazyFrame[Any]

OUTPUTS = ("item", "system_a", "system_b")
"""The columns that name two outputs of one item."""

FLOAT_NOISE = 1e-9
"""Relative difference up to which human ratings tie, since means of several annotators have rounding errors."""

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
    return nw.when(difference > threshold).then(nw.lit(1)).otherwise(conditional_value(difference < -threshold, -1, 0))


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
    output_pairs = scores.join(scores, on=["rater", "item"], how="inner", suffix="_b")
    output_pairs = output_pairs.filter(nw.col("system") < nw.col("system_b")).select(
        "rater",
        "item",
        nw.col("system").alias("system_a"),
        "system_b",
        (nw.col("score") - nw.col("score_b")).alias("difference"),
        "threshold",
    )
    return output_pairs.with_columns(
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
    comparison_column_names = ("rater", *OUTPUTS, "sign", "order", "difference", "threshold")
    score_comparisons = score_differences(scores).select(*comparison_column_names)
    if verdicts is None:
        return score_comparisons
    verdict_comparisons = verdicts.join(score_comparisons, on=["rater", *OUTPUTS], how="anti")
    null_expression = nw.lit(None).cast(nw.Float64)
    verdict_comparisons = verdict_comparisons.with_columns(
        nw.col("sign").cast(nw.Int8),
        nw.col("order").cast(nw.Float64),
        null_expression.alias("difference"),
        null_expression.alias("threshold"),
    )
    return nw.concat([score_comparisons, verdict_comparisons.select(*comparison_column_names)])


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
        sign_expression = vote_preference(nw.col("sign"))
    else:
        aggregated_rows = comparison_groups.agg(
            nw.col("difference").sum(),
            nw.col("difference").count().alias("n"),
            nw.col("threshold").max(),
            mean_order_expression,
        )
        sign_expression = mean_preference(*map(nw.col, ("difference", "n", "threshold")))
    return aggregated_rows.with_columns(sign_expression.cast(nw.Int8).alias("sign")).select(*OUTPUTS, "sign", "order")


def vote_preference(balance: nw.Expr) -> nw.Expr:
    """The side that more annotators prefer, otherwise a tie. This is the sign of the sum of all signs."""
    return tie_rule(balance, nw.lit(0))


def mean_preference(difference: nw.Expr, n: nw.Expr, threshold: nw.Expr) -> nw.Expr:
    """The preference for the mean score difference of n annotators, computed from the sum of the differences."""
    return tie_rule(difference / n, threshold)


def merge_orders(verdicts: Table, orders: Orders, *, key_column_names: Sequence[str] = ("rater", *OUTPUTS)) -> Table:
    """Merge the verdicts of a rater in both presentation orders, and repeated verdicts, into one verdict per
    comparison.

    Parameters
    ----------
    verdicts : table
        Columns rater, item, system_a, system_b, sign (null: unreadable or unanswered) and order (1 if system_a was
        shown first, -1 if system_b was shown first, 0 if unknown). 'first' also needs `row`, the position in the file.
    orders : {'mean', 'consistent', 'first'}
        'mean': the sign of the mean over orders, after averaging over the repeats of each order. 'consistent': the
        common verdict if all verdicts agree; other comparisons are excluded. 'first': the first verdict in the file.
    key_column_names : sequence of str
        The columns that identify a comparison.

    Returns
    -------
    table
        The keys, sign, order (the mean over orders), and the indicators `half` and `contradictory`. A comparison is
        `half` if it was queried in both orders and answered in only one order, so that the position preference of the
        rater does not cancel. An excluded comparison has no sign.
    """
    is_answered_expression, order_expression = ~nw.col("sign").is_null(), nw.col("order")
    if orders == "first":
        first_verdict_rows = verdicts.filter(is_answered_expression).with_columns(
            nw.col("row").min().over(*key_column_names).alias("first")
        )
        return first_verdict_rows.filter(nw.col("row") == nw.col("first")).select(
            *key_column_names,
            "sign",
            order_expression.cast(nw.Float64),
            nw.lit(0).alias("half"),
            nw.lit(0).alias("contradictory"),
        )
    summand_expression_of_column = dict[str, nw.Expr]()
    for order_name, order_code in (("ab", 1), ("ba", -1), ("unknown", 0)):
        is_in_order_expression = order_expression == order_code
        summand_expression_of_column |= {
            f"n_{order_name}": indicator(is_in_order_expression & is_answered_expression),
            f"sum_{order_name}": nw.when(is_in_order_expression & is_answered_expression)
            .then(nw.col("sign"))
            .otherwise(nw.lit(0)),
            f"lost_{order_name}": indicator(is_in_order_expression & ~is_answered_expression),
        }
    summand_expression_of_column["decided"] = (
        nw.when(is_answered_expression).then(nw.col("sign") * nw.col("sign")).otherwise(nw.lit(0))
    )
    comparison_total_rows = (
        verdicts.select(
            *key_column_names,
            **{
                column_name: summand_expression.cast(nw.Int64)
                for column_name, summand_expression in summand_expression_of_column.items()
            },
        )
        .group_by(*key_column_names)
        .agg(*(nw.col(column_name).sum() for column_name in summand_expression_of_column))
        .with_columns(*(nw.col(column_name).cast(nw.Int64) for column_name in summand_expression_of_column))
    )
    count_expression_of_order, sum_expression_of_order = (
        {order_name: nw.col(f"{column_prefix}_{order_name}") for order_name in ("ab", "ba", "unknown")}
        for column_prefix in ("n", "sum")
    )
    divisor_expression_of_order = {
        order_name: nw.when(count_expression > 0).then(count_expression).otherwise(nw.lit(1))
        for order_name, count_expression in count_expression_of_order.items()
    }
    # The sign of the sum of the means of both orders, computed with integers.
    sum_of_means_expression = (
        sum_expression_of_order["ab"] * divisor_expression_of_order["ba"] * divisor_expression_of_order["unknown"]
        + sum_expression_of_order["ba"] * divisor_expression_of_order["ab"] * divisor_expression_of_order["unknown"]
        + sum_expression_of_order["unknown"] * divisor_expression_of_order["ab"] * divisor_expression_of_order["ba"]
    )
    total_count_expression, total_sum_expression = (
        count_expression_of_order["ab"] + count_expression_of_order["ba"] + count_expression_of_order["unknown"],
        sum_expression_of_order["ab"] + sum_expression_of_order["ba"] + sum_expression_of_order["unknown"],
    )
    is_contradictory_expression = ~(
        (nw.col("decided") == 0)
        | (total_sum_expression == total_count_expression)
        | (total_sum_expression == -total_count_expression)
    )
    lacks_other_order_expression = (
        (count_expression_of_order["ab"] > 0) & (count_expression_of_order["ba"] == 0) & (nw.col("lost_ba") > 0)
    ) | ((count_expression_of_order["ba"] > 0) & (count_expression_of_order["ab"] == 0) & (nw.col("lost_ab") > 0))
    n_orders_expression = (
        indicator(count_expression_of_order["ab"] > 0)
        + indicator(count_expression_of_order["ba"] > 0)
        + indicator(count_expression_of_order["unknown"] > 0)
    )
    sum_of_orders_expression = indicator(count_expression_of_order["ab"] > 0) - indicator(
        count_expression_of_order["ba"] > 0
    )
    is_excluded_expression = (
        lacks_other_order_expression | is_contradictory_expression
        if orders == "consistent"
        else lacks_other_order_expression
    )
    return comparison_total_rows.filter(total_count_expression > 0).select(
        *key_column_names,
        nw.when(~is_excluded_expression).then(tie_rule(sum_of_means_expression, nw.lit(0))).alias("sign"),
        # The mean is 1 or -1 with one order, 0 with both orders, and 0.5 or -0.5 with one known and one unknown order.
        nw.when(n_orders_expression == 2)
        .then(sum_of_orders_expression / 2)
        .otherwise(sum_of_orders_expression / 1)
        .alias("order"),
        indicator(lacks_other_order_expression).alias("half"),
        indicator(is_contradictory_expression & ~lacks_other_order_expression).alias("contradictory"),
    )


def merging_notes(
    n_half_comparisons: int, n_contradictory_comparisons: int, orders: Orders, *, half_advice: str = ""
) -> list[Note]:
    """Notes on the numbers of comparisons that `merge_orders` marked as half and as contradictory. `half_advice`
    continues the message on half comparisons."""
    contradictory_text = (
        "are excluded because verdicts of one rater differ between presentation orders or repeats"
        if orders == "consistent"
        else "have verdicts of one rater that differ between presentation orders or repeats; the sign of the mean "
        "verdict is used"
    )
    half_text = "are excluded because they were queried in both orders and have a verdict in only one order"
    return build_notes(
        (HALF_RULE, n_half_comparisons, f"{n_half_comparisons} comparisons {half_text}{half_advice}"),
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
    for batch_scores, batch_verdicts in _iter_batches(scores, verdicts):
        verdict_table = nw.from_native(batch_verdicts.lazy()) if batch_verdicts.height else None
        comparison_rows = rater_comparisons(nw.from_native(batch_scores.lazy()), verdict_table).collect().lazy()
        comparison_batches.append(comparison_rows.select("rater", *OUTPUTS, "sign", "order").collect().to_native())
        human_rows = comparison_rows.filter(is_human_row_expression)
        if n_annotators > 1:
            human_rows = combine_annotators(human_rows, "vote" if has_human_verdicts else aggregate)
        combined_annotator_batches.append(
            human_rows.select(nw.lit(0).alias("rater"), *OUTPUTS, "sign", "order").collect().to_native()
        )
    return pl.concat(comparison_batches), pl.concat(combined_annotator_batches)


def _iter_batches(scores: pl.DataFrame, verdicts: pl.DataFrame) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """The scores and verdicts of all items in one batch, or in several batches of items if a join of all items needs
    much memory."""
    n_rows_of_rater_and_item = scores.group_by("rater", "item").len()["len"].cast(pl.Int64)
    n_batches = 1 + int((n_rows_of_rater_and_item * n_rows_of_rater_and_item).sum() or 0) // BATCH_ROWS
    for batch_index in range(n_batches):
        is_in_batch_expression = pl.col("item") % n_batches == batch_index
        yield filter_rows(scores, is_in_batch_expression), filter_rows(verdicts, is_in_batch_expression)


def human_threshold(scores: Floats, ties: float | None) -> float:
    """The largest difference of human scores that counts as a tie: `ties` (None: 0) plus rounding error, in score
    units."""
    score_range = np.nanmax(scores) - np.nanmin(scores) if np.isfinite(scores).any() else 0.0
    return float((ties or 0.0) + FLOAT_NOISE * score_range)
