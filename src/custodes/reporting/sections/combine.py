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
    methods,
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
    return [
        Figure(
            id="combine-comparison",
            title=f"Agreement of combined metrics{aspect_suffix}",
            caption="Kendall τ-b with human ratings on held-out outputs. Whisker: interval from resampled items. "
            "Dashed: the best single metric, which is chosen without the held-out outputs.",
            alt="Dots with whiskers of the agreement with human ratings by method; the table below holds the numbers.",
            spec=spec_of(methods(empty_rows(), objective=result.model.objective), width="container"),
            table="combine.comparison",
            where=CHOSEN,
            lines=("method",),
        ),
        Figure(
            id="combine-weights",
            title=f"Weights of the combined metric{aspect_suffix}",
            caption="Ridge regression on all items. A weight is the change of the predicted human rating from the "
            "lowest to the highest score of a metric, if the other scores stay constant. Whisker: interval from "
            "refits on resampled items. If metrics are near copies of each other, their single weights have no "
            "meaning: one may be negative while another is too large.",
            alt="Dots with whiskers of the weight of every metric in the combination, largest first.",
            spec=spec_of(
                weights(empty_rows(), has_intervals=result.weights["weight_low"].count() > 0), width="container"
            ),
            table="weights",
            where=CHOSEN,
            lines=("metric",),
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
    return {
        "first": METHODS[first_method(result)].label,
        "left_out": [sentence(message) for message in omission_messages],
        "sentences": sentences(result),
        "table": table_html(
            comparison_rows(result),
            [
                label("what", "how metrics are combined", "Way of combining"),
                interval_columns[0],
                score("lead", LEAD, "Over the single metric", interval=True),
                *interval_columns[1:],
                *favoritism_columns,
                *[
                    column
                    for column in context.table_declaration("combine.partiality").columns
                    if column.name == "largest_partiality"
                ],
            ],
            id="combine-comparison",
            caption="Ways of combining, on held-out outputs",
            notes=[note for note in context.notes("combine") if note[1] not in omission_messages],
            by="target",
        ),
    }


def first_method(result: Combine) -> str:
    """The name of the first method. Only this method is tested, because it is chosen before any result is known."""
    return str(result.provenance.options["method"][0])


def comparison_rows(result: Combine) -> pl.DataFrame:
    """The rows of `comparison` with the difference from the single metric, favoritism and partiality, best first."""
    difference_rows = result.differences
    # Differences from the single metric; if it is the first method of a pair, the sign is changed.
    gain_over_single_rows = pl.concat(
        [
            difference_rows.filter(method_b=SINGLE).select(
                "target",
                method="method_a",
                lead="difference",
                lead_low="difference_low",
                lead_high="difference_high",
            ),
            difference_rows.filter(method_a=SINGLE).select(
                "target",
                method="method_b",
                lead=-pl.col("difference"),
                lead_low=-pl.col("difference_high"),
                lead_high=-pl.col("difference_low"),
            ),
        ]
    )
    method_rows = result.comparison
    for joined_rows in (gain_over_single_rows, result.favoritism, result.partiality):
        method_rows = method_rows.join(joined_rows, on=["target", "method"], how="left", maintain_order="left")
    return method_rows.with_columns(
        what=pl.col("method").replace({method_name: method.label for method_name, method in METHODS.items()})
    ).sort(pl.col("target").rle_id(), "kendall", descending=[False, True], nulls_last=True, maintain_order=True)


def sentences(result: Combine) -> list[tuple[str, str]]:
    """For each target, a text on the gain of the first combination over the best single metric on held-out items.

    The scores of the other methods follow, without a test.
    """
    targets_and_texts = []
    tested_method = first_method(result)
    for (target,), target_rows in comparison_rows(result).drop_nulls("kendall").group_by("target", maintain_order=True):
        row_of_method = {row["method"]: row for row in target_rows.iter_rows(named=True)}
        if tested_method not in row_of_method or SINGLE not in row_of_method:
            continue
        combined_row, single_row = row_of_method.pop(tested_method), row_of_method.pop(SINGLE)
        gain_text = "".join(
            f"; {_gain(gain_row)}"
            for gain_row in result.generalisation.filter(target=target, method=tested_method)
            .drop_nulls("gain")
            .iter_rows(named=True)
        )
        target_text = (
            f"{f'On {target}, ' if target else 'Here '}{combined_row['what']} reaches τ-b "
            f"{estimate_with_interval(combined_row, 'kendall')} over "
            "held-out outputs. The single metric with the highest τ-b on the training items reaches "
            f"{estimate_with_interval(single_row, 'kendall')}{gain_text}."
        )
        if row_of_method:
            other_methods = [f"{row['what']} (τ-b {number(row['kendall'])})" for row in row_of_method.values()]
            target_text += (
                f" For these combinations, the gain over the best single metric is not tested: {names(other_methods)}."
            )
        targets_and_texts.append((str(target), target_text))
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


COMBINE = Section(
    question="combine",
    title="Combined metric",
    ask=_ask,
    figures=_figures,
    build=_build,
    extra=lambda context: {
        "weights": weight_rows(context.table("combine.weights")),
    },
)
