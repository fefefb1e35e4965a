"""Section: combined metrics, compared with the best single metric, with their weights and their favoritism."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from custodes.answers.tables import label, score
from custodes.answers.wording import estimate_with_interval, names, number, sentence
from custodes.combining.combine import LEFT_OUT, Combine, combine
from custodes.combining.generalisation import GAIN
from custodes.combining.methods import BEST, FAST, METHODS
from custodes.plots.combine import (
    cost_rows,
    costs,
    favoritism_points,
    has_wide_cost_range,
    methods,
    objective_of,
    weight_rows,
    weights,
)
from custodes.reporting.section import Context, Figure, Section, empty_rows, spec_of
from custodes.reporting.tables import table_html

CHOSEN = {"target": "{aspect}"}
SINGLE = BEST.name
LEAD = (
    "difference in τ-b from the best single metric on the same outputs; the interval is not adjusted for "
    "the number of combinations"
)


def _ask(context: Context) -> Combine:
    result: Combine = context.ask(
        combine, target=list(context.aspects), aspect=None, method=FAST, repeats=1, unseen="none"
    )
    # Times differ between runs, but the same seed must give the same page.
    return replace(result, comparison=result.comparison.with_columns(seconds=pl.lit(None, dtype=pl.Float64)))


def _figures(context: Context) -> Sequence[Figure]:
    result: Any = context.results["combine"]
    aspect_suffix = context.aspect_suffix
    has_intervals = result.weights["weight_low"].count() > 0
    cost_chart = costs(empty_rows(), log=has_wide_cost_range(result.path), objective=objective_of(result))
    return [
        Figure(
            id="combine-comparison",
            title=f"Agreement of combined metrics{aspect_suffix}",
            caption="Kendall τ-b with human ratings on held-out outputs. Whisker: interval from resampled items. "
            "Dashed: the best single metric, which is chosen without the held-out outputs.",
            alt="Dots with whiskers of the agreement with human ratings by method; the table below holds the numbers.",
            spec=spec_of(methods(empty_rows(), objective=objective_of(result)), width="container"),
            table="combine.comparison",
            where=CHOSEN,
            lines=("method",),
        ),
        *(
            [
                Figure(
                    id="combine-favoritism",
                    title=f"Favoritism and accuracy of combined metrics{aspect_suffix}",
                    caption="Horizontal: sample accuracy. Vertical: mean |Favi-Score| of the errors. If "
                    "there are few errors, chance alone makes |Favi-Score| large.",
                    alt="Scatter plot of the mean |Favi-Score| of errors against sample accuracy, with one point for "
                    "every way of combining.",
                    spec=spec_of(favoritism_points(empty_rows(), result), width="container"),
                    table="combine.favoritism",
                    where=CHOSEN,
                )
            ]
            if result.favoritism.height
            else []
        ),
        Figure(
            id="combine-weights",
            title=f"Weights of the combined metric{aspect_suffix}",
            caption="Ridge regression on all items. A weight is the change on the human scale from the lowest to "
            "the highest score of a metric, with the scores of the other metrics constant. Whisker: "
            "interval from refits on resampled items. Metrics that are near copies of each other have "
            "arbitrary weights: one may be negative while another is too large.",
            alt="Dots with whiskers of the weight of every metric in the combination, largest first.",
            spec=spec_of(weights(empty_rows(), has_intervals=has_intervals), width="container"),
            table="weights",
            where=CHOSEN,
            lines=("metric",),
        ),
        Figure(
            id="combine-costs",
            title=f"Agreement by cost{aspect_suffix}",
            caption="Kendall τ-b on held-out outputs at each budget. Metrics are added to ridge regression in "
            "the order of gain per cost. The cost of every metric is 1 if the raters file has no costs. "
            "Band: interval.",
            alt="Steps of Kendall τ-b with human ratings against the total cost of the metrics.",
            spec=spec_of(cost_chart, width="container"),
            table="costs",
            where=CHOSEN,
        ),
    ]


def _build(context: Context) -> Mapping[str, Any]:
    """The values of the template: methods of combining, compared with the best single metric on held-out outputs."""
    result: Any = context.results["combine"]
    omission_messages = [message for _, message in context.notes("combine", LEFT_OUT)]
    interval_columns = [column for column in context.table_declaration("combine.comparison").columns if column.interval]
    favoritism_columns = [
        column
        for column in context.table_declaration("combine.favoritism").columns
        if column.name.startswith("mean_abs_favi")
    ]
    partiality_columns = [
        column
        for column in context.table_declaration("combine.partiality").columns
        if column.name == "largest_partiality"
    ]
    difference_column = score("lead", LEAD, "Over the single metric", interval=True)
    return {
        "first": METHODS[first_method(result)].label,
        "left_out": [sentence(message) for message in omission_messages],
        "sentences": sentences(result),
        "table": table_html(
            comparison_rows(result),
            [
                label("what", "how metrics are combined", "Way of combining"),
                interval_columns[0],
                difference_column,
                *interval_columns[1:],
                *favoritism_columns,
                *partiality_columns,
            ],
            id="combine-comparison",
            caption="Ways of combining, on held-out outputs",
            notes=[note for note in context.notes("combine") if note[1] not in omission_messages],
            by="target",
        ),
    }


def first_method(result: Combine) -> str:
    """The name of the only method that is tested: the first method, which is chosen before any result is known."""
    return str(result.provenance.options["method"][0])


def comparison_rows(result: Combine) -> pl.DataFrame:
    """The rows of `comparison` with the difference from the single metric, favoritism and partiality, best first."""
    target_method_rows = result.comparison.select("target", "method").unique(maintain_order=True)
    difference_rows = [
        _difference_from_best(result, *target_and_method) for target_and_method in target_method_rows.iter_rows()
    ]
    source_of_column = {f"lead{suffix}": f"difference{suffix}" for suffix in ("", "_low", "_high")}
    target_method_rows = target_method_rows.with_columns(
        pl.Series(
            column_name,
            [difference_row[source_name] if difference_row else None for difference_row in difference_rows],
            dtype=pl.Float64,
        )
        for column_name, source_name in source_of_column.items()
    )
    target_rank_expression = pl.col("target").rle_id()
    return (
        result.comparison.join(target_method_rows, on=["target", "method"], how="left", maintain_order="left")
        .join(result.favoritism, on=["target", "method"], how="left", maintain_order="left")
        .join(result.partiality, on=["target", "method"], how="left", maintain_order="left")
        .with_columns(
            what=pl.col("method").replace({method_name: method.label for method_name, method in METHODS.items()})
        )
        .sort(target_rank_expression, pl.col("kendall"), descending=[False, True], nulls_last=True, maintain_order=True)
    )


def _difference_from_best(result: Combine, target: str, method: str) -> dict[str, Any] | None:
    """The difference of a method from the best single metric, with its interval."""
    for row in result.differences.filter(target=target).iter_rows(named=True):
        if (row["method_a"], row["method_b"]) == (method, SINGLE):
            return row
        if (row["method_a"], row["method_b"]) == (SINGLE, method) and row["difference"] is not None:
            reversed_row = {"difference": -row["difference"]}
            for suffix, opposite_suffix in (("_low", "_high"), ("_high", "_low")):
                opposite_bound = row[f"difference{opposite_suffix}"]
                reversed_row[f"difference{suffix}"] = None if opposite_bound is None else -opposite_bound
            return reversed_row
    return None


def sentences(result: Combine) -> list[tuple[str, str]]:
    """For each target, a text on the gain of the first combination over the best single metric on held-out items.

    The scores of the other methods follow, without a test.
    """
    targets_and_texts = []
    for target, combined_row, single_row, other_rows in _rivals(result):
        gain_rows = result.generalisation.filter(target=target, method=combined_row["method"]).drop_nulls("gain")
        gain_text = "".join(f"; {_gain(gain_row)}" for gain_row in gain_rows.iter_rows(named=True))
        targets_and_texts.append(
            (
                target,
                f"{f'On {target}, ' if target else 'Here '}{combined_row['what']} reaches τ-b "
                f"{estimate_with_interval(combined_row, 'kendall')} over "
                "held-out outputs. The single metric with the highest τ-b on the training items reaches "
                f"{estimate_with_interval(single_row, 'kendall')}{gain_text}.{_other_methods_sentence(other_rows)}",
            )
        )
    return targets_and_texts


def _gain(row: Mapping[str, Any]) -> str:
    """Part of a sentence that states whether there is a gain, with the gain and its interval."""
    if row["gain_low"] is None or row["gain_high"] is None:
        return f"the difference ({number(row['gain'])}) has no interval, so it is inconclusive"
    gain_text = estimate_with_interval(row, "gain")
    return (
        f"the gain is {gain_text}"
        if row["conclusion"] == GAIN
        else f"the difference of {gain_text} is not a significant gain"
    )


def _other_methods_sentence(other_rows: pl.DataFrame) -> str:
    scores_text = names([f"{row['what']} (τ-b {number(row['kendall'])})" for row in other_rows.iter_rows(named=True)])
    return f" Combinations that are not tested: {scores_text}." if scores_text else ""


def _rivals(result: Combine) -> list[tuple[str, dict[str, Any], dict[str, Any], pl.DataFrame]]:
    """For each target, the rows of the first combination, of the best single metric, and of all other methods.

    A target is left out if the first combination or the best single metric has no score.
    """
    compared_rows_of_targets = []
    is_first_combination_expression = pl.col("method") == first_method(result)
    rows = comparison_rows(result).drop_nulls("kendall")
    for (target,), target_rows in rows.group_by("target", maintain_order=True):
        first_combination_rows, single_rows = (
            target_rows.filter(is_first_combination_expression),
            target_rows.filter(method=SINGLE),
        )
        if first_combination_rows.height and single_rows.height:
            other_rows = target_rows.filter(~is_first_combination_expression, pl.col("method") != SINGLE)
            compared_rows_of_targets.append(
                (str(target), first_combination_rows.row(0, named=True), single_rows.row(0, named=True), other_rows)
            )
    return compared_rows_of_targets


COMBINE = Section(
    question="combine",
    title="Combined metric",
    ask=_ask,
    figures=_figures,
    build=_build,
    extra=lambda context: {
        "weights": weight_rows(context.table("combine.weights")),
        "costs": cost_rows(context.table("combine.path")),
    },
)
