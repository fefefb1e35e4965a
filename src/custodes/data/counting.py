"""Outcome counts from a long table of ratings, computed inside a table engine without loading the rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl

from custodes.arguments import check_arguments
from custodes.data.comparisons import HUMAN
from custodes.data.outcome_counts import OutcomeCounts, count_cells, counting_origin, sum_batches
from custodes.data.table import check_columns
from custodes.data.table_engines import (
    collect_rows,
    convert_engine_errors,
    indicator,
    lazy_rows,
    match_aspects,
    resolve_metrics,
    resolve_names,
    split_batches,
)
from custodes.data.ties_and_orders import Aggregate, human_threshold, tie_rule
from custodes.errors import InputError, OptionError, join_labels, reject, suggestion
from custodes.progress import Progress, silent

WHERE = "count_pairs"


@check_arguments
@convert_engine_errors(WHERE)
def count_pairs(
    table: Any,
    *,
    human: str | Sequence[str],
    metrics: Sequence[str] | None = None,
    aspect: str = "",
    aggregate: Aggregate = "mean",
    human_ties: float | None = None,
    ties: float | Mapping[str, float] = 0.0,
    directions: Mapping[str, float] | None = None,
    systems: Sequence[str] | None = None,
    batches: int | None = None,
    progress: Progress = silent,
) -> OutcomeCounts:
    """Count wins, ties and losses of every pair of systems, by annotators and metrics, in the engine of the table.

    Returns
    -------
    OutcomeCounts
        Counts by pair of systems.

    Raises
    ------
    InputError
        For a table that cannot be read, or infinite scores.
    OptionError
        For an unknown name.

    Notes
    -----
    `table` is a long table with the columns `item, system, rater, score` and optionally `aspect`, in any
    dataframe that Narwhals supports: a Polars scan, a DuckDB relation, pandas and others. Several rows of one rater and
    output are averaged. The engine returns only one row per pair of systems. Rows without a score or an item are not
    counted.

    `human` are the annotators, `metrics` the metrics to compare (default: all raters except the annotators).
    `aggregate` is the rule that combines several annotators. With `mean`, the preference is the sign of the mean score
    difference over annotators who rated both outputs. With `vote`, the output that more annotators prefer wins.
    `human_ties` and `ties` are the largest score differences that count as ties; `ties` is one number, or one per
    metric. By default, only differences within rounding error are ties in human scores. `directions` has -1 for raters
    for which lower is better. If a metric has no rows of the `aspect`, its rows without an aspect are used. By default,
    `systems` are all systems that at least one selected rater rated. The counts of pairs without a common item are
    zero.

    Polars processes the items in `batches`, so that memory does not grow with the number of items. Each batch scans
    the table once. The default number of batches depends on the number of rows. DuckDB scans the table once, and
    writes to disk if it would exceed its own `memory_limit`.

    Examples
    --------
    >>> rows = [("1", "A", "ann", 5), ("1", "B", "ann", 3), ("1", "A", "bleu", 0.2), ("1", "B", "bleu", 0.4)]
    >>> table = pl.LazyFrame(rows, schema=["item", "system", "rater", "score"], orient="row")
    >>> count_pairs(table, human="ann").paired[0, 0].tolist()  # ann: A wins; bleu: B wins
    [[0, 0, 1], [0, 0, 0], [0, 0, 0]]
    """
    if invalid_thresholds := [
        threshold
        for threshold in [*(ties.values() if isinstance(ties, Mapping) else [ties]), human_ties or 0.0]
        if not 0 <= threshold < np.inf
    ]:
        raise OptionError(
            f"count_pairs: tie threshold {invalid_thresholds[0]} is not allowed; give a number of at least 0"
        )
    score_rows = _valid_rows(table)
    score_range_rows = _score_ranges(score_rows)
    rater_names = tuple(score_range_rows["rater"].unique().sort())
    annotators = resolve_names("human", human, rater_names, where=WHERE)
    metric_names = resolve_metrics(metrics, rater_names, annotators, where=WHERE)
    reject(
        (not annotators, "count_pairs: human is empty; name at least one annotator"),
        (
            not metric_names,
            f"count_pairs: there is no metric, as all raters are human ({join_labels(annotators)}); name fewer raters "
            "in human=..., or add scores of a metric",
        ),
    )
    direction_of_rater = {
        rater_name: direction
        for names_in_directions, direction in (directions or {}).items()
        for rater_name in resolve_names("directions", names_in_directions, rater_names, where=WHERE)
    }
    if invalid_directions := [direction for direction in direction_of_rater.values() if direction not in (1, -1)]:
        raise OptionError(
            f"count_pairs: directions hold {invalid_directions[0]}; allowed: 1 (higher is better), -1 (lower is better)"
        )
    resolve_names("ties", [*ties] if isinstance(ties, Mapping) else [], rater_names, where=WHERE)
    if systems is not None:
        systems = resolve_names(
            "systems", systems, tuple(score_range_rows["system"].unique().sort()), where=WHERE, what="system"
        )
    human_score_range_rows = score_range_rows.filter(pl.col("rater").is_in(list(annotators)))
    if aspect not in human_score_range_rows["aspect"]:
        aspect_labels = human_score_range_rows["aspect"].unique().sort()
        raise OptionError(
            f"count_pairs: aspect={aspect!r} was rated by no annotator; aspects of the annotators: "
            f"{join_labels(map(repr, aspect_labels))}{suggestion(aspect, aspect_labels)}"
        )
    score_range_rows, aspect_of_rater = match_aspects(score_range_rows, annotators, metric_names, aspect)
    if systems is not None:
        score_range_rows = score_range_rows.filter(pl.col("system").is_in(list(systems)))
        score_rows = score_rows.filter(nw.col("system").is_in(list(systems)))
    if not np.isfinite(score_range_rows.select("low", "high").drop_nulls().to_numpy()).all():
        raise InputError("count_pairs: a score is infinite; a score must be finite (empty where not rated)")
    human_score_range_rows = score_range_rows.filter(pl.col("rater").is_in(list(annotators)))
    human_sign_expression = _human_preference_expression(
        [f"score{annotator_index}" for annotator_index in range(len(annotators))],
        threshold=human_threshold(human_score_range_rows.select("low", "high").to_numpy(), human_ties),
        aggregate=aggregate,
    )
    negated_raters = {rater_name for rater_name, direction in direction_of_rater.items() if direction < 0}
    system_names = tuple(sorted(set(systems if systems is not None else score_range_rows["system"])))
    row_batches = split_batches(score_rows.filter(nw.col("item_level")), "item", batches, where=WHERE)
    outcome_count_frames = (
        _count_outcomes(
            row_batch,
            human_sign_expression=human_sign_expression,
            threshold_of_metric={
                rater_name: float(ties.get(rater_name, 0.0) if isinstance(ties, Mapping) else ties)
                for rater_name in metric_names
            },
            aspect_of_rater=aspect_of_rater,
            negated_raters=negated_raters,
        )
        for row_batch in progress(row_batches, total=len(row_batches), desc="counting pairs")
    )
    return OutcomeCounts.from_tables(
        sum_batches(outcome_count_frames, systems=system_names, metrics=metric_names),
        systems=system_names,
        metrics=metric_names,
        origin=counting_origin(
            human=human,
            metrics=metrics,
            systems=systems,
            aspect=aspect,
            aggregate=aggregate,
            ties=dict(ties) if isinstance(ties, Mapping) else float(ties),
            human_ties=human_ties,
            lower=sorted(negated_raters),
        ),
    )


def _count_outcomes(
    score_rows: nw.LazyFrame[Any],
    *,
    human_sign_expression: nw.Expr,
    threshold_of_metric: Mapping[str, float],
    aspect_of_rater: Mapping[str, str],
    negated_raters: Collection[str],
) -> pl.DataFrame:
    """The result of `count_joint_outcomes`, computed from a table with one column per rater. A single join of this
    table with itself is faster than a join of a table with one row per rater.

    `aspect_of_rater` has the aspect of each rater, with the annotators first. The columns of the raters are named
    `score0`, `score1` and so on, in the order of `aspect_of_rater`. `human_sign_expression` computes the preference of
    the annotators from the score differences in these columns. `threshold_of_metric` has the tie thresholds of the
    metrics. The scores of `negated_raters` are negated.
    """
    column_name_of_rater = {rater_name: f"score{rater_index}" for rater_index, rater_name in enumerate(aspect_of_rater)}
    score_expressions = [
        nw.when((nw.col("rater") == rater_name) & (nw.col("aspect") == aspect_of_rater[rater_name]))
        .then(nw.col("score") * -1 if rater_name in negated_raters else nw.col("score"))
        .alias(column_name)
        for rater_name, column_name in column_name_of_rater.items()
    ]
    output_rows = (
        score_rows.filter(nw.col("rater").is_in(list(column_name_of_rater)))
        .select("item", "system", *score_expressions)
        .group_by("item", "system")
        .agg(*(nw.col(column_name).mean() for column_name in column_name_of_rater.values()))
    )
    score_difference_rows = (
        output_rows.join(output_rows, on="item", how="inner", suffix="_b")
        .filter(nw.col("system") < nw.col("system_b"))
        .select(
            nw.col("system").alias("system_a"),
            "system_b",
            *(nw.col(column_name) - nw.col(f"{column_name}_b") for column_name in column_name_of_rater.values()),
        )
    )
    sign_expression_of_column = {
        column_name_of_rater[rater_name]: _sign_expression(column_name_of_rater[rater_name], tie_threshold)
        for rater_name, tie_threshold in threshold_of_metric.items()
    }
    return count_cells(
        score_difference_rows.select("system_a", "system_b", human_sign_expression, **sign_expression_of_column),
        list(sign_expression_of_column),
    )


def _sign_expression(column_name: str, threshold: float) -> nw.Expr:
    """The sign of a difference; null if the difference is null."""
    return nw.when(~nw.col(column_name).is_null()).then(tie_rule(nw.col(column_name), nw.lit(threshold)))


def _human_preference_expression(
    difference_column_names: Sequence[str], *, threshold: float, aggregate: Aggregate
) -> nw.Expr:
    """The preference of the combined annotators; null if no annotator rated both outputs."""
    n_annotators_expression = nw.sum_horizontal(
        *(indicator(~nw.col(column_name).is_null()) for column_name in difference_column_names)
    )
    if aggregate == "vote":
        sign_expression = tie_rule(
            nw.sum_horizontal(*(_sign_expression(column_name, threshold) for column_name in difference_column_names)),
            nw.lit(0),
        )
    else:
        sign_expression = tie_rule(
            nw.sum_horizontal(*difference_column_names) / n_annotators_expression, nw.lit(threshold)
        )
    return nw.when(n_annotators_expression > 0).then(sign_expression).alias(HUMAN)


def _valid_rows(table: Any) -> nw.LazyFrame[Any]:
    """A table with item, system, rater, aspect (strings), score (float) and item_level; rows without a score are
    dropped."""
    table_rows = lazy_rows(table, where=WHERE)
    schema = table_rows.collect_schema()
    check_columns(
        pl.DataFrame(schema=list(schema)),
        where="count_pairs",
        required=("item", "system", "rater", "score"),
        optional=("aspect", "repeat", "kind"),
    )
    if not schema["score"].is_numeric():
        raise InputError(
            f"count_pairs: column 'score' holds {schema['score']}, expected numbers; convert the column first"
        )
    has_score = ~nw.col("score").is_null()
    if schema["score"].is_float():
        has_score = has_score & ~nw.col("score").is_nan()
    has_item = ~nw.col("item").is_null()
    return table_rows.filter(has_score).select(
        "item",
        nw.col("system").cast(nw.String),
        nw.col("rater").cast(nw.String),
        (nw.col("aspect").cast(nw.String).fill_null("") if "aspect" in schema else nw.lit("")).alias("aspect"),
        nw.col("score").cast(nw.Float64),
        (has_item if schema["item"].is_numeric() else has_item & (nw.col("item").cast(nw.String) != "")).alias(
            "item_level"
        ),
    )


def _score_ranges(rows: nw.LazyFrame[Any]) -> pl.DataFrame:
    """The lowest and the highest score by rater, aspect and system, from one pass over the table."""
    item_score_expression = nw.when(nw.col("item_level")).then(nw.col("score"))
    return collect_rows(
        rows.select("rater", "aspect", "system", low=item_score_expression, high=item_score_expression)
        .group_by("rater", "aspect", "system")
        .agg(nw.col("low").min(), nw.col("high").max())
    )
