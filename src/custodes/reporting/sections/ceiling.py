"""Section: prediction of human ratings from all metrics, and information that the metrics lack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from custodes.answers.tables import Column, label
from custodes.answers.wording import estimate_with_interval, interval, names, number
from custodes.evaluate.ceiling.ceiling import Ceiling, ceiling
from custodes.evaluate.ceiling.halo import SOURCES
from custodes.plots.ceiling import BOUNDS, FEATURES, bars, ratio_curve, release_lines, steps
from custodes.reporting.section import Context, Figure, Section, SelectionTable, empty_rows, spec_of
from custodes.reporting.tables import build_selection_table, table_html

CHOSEN = {"target": "{aspect}"}
ADDED = {
    "added": ("Alone", "τ-b of the metric alone"),
    "removed": ("Loss if removed", "decrease of τ-b if the metric is removed from all metrics"),
}
ADDED_IN_USE = {
    "added": ("Gain if added", "increase of τ-b if the metric is added to the metrics in use"),
    "removed": ("Loss if removed", "decrease of τ-b if the metric is removed from the metrics in use"),
}
"""Labels and descriptions of the gains in the table `next`: `ADDED` if no metrics are in use, otherwise
`ADDED_IN_USE`."""

GAP_TEXTS = {
    "humans": (
        "Human ratings of these aspects are predicted worse from all metrics than from the human ratings "
        "of other aspects",
        "Human ratings of these aspects are predicted better from all metrics than from the human ratings of "
        "other aspects",
        "predictions from all metrics and predictions from the human ratings of other aspects",
    ),
    "both": (
        "For these aspects, human ratings of other aspects improve the prediction from all metrics. The metrics lack "
        "information, or one annotator’s ratings of several aspects share errors",
        "For these aspects, human ratings of other aspects make the prediction from all metrics worse, by chance or "
        "because the data are few",
        "predictions from all metrics with and without the human ratings of other aspects",
    ),
}
"""Sentences on a prediction with human ratings of other aspects, compared with a prediction from all metrics.

The three sentences say that the prediction with human ratings is better, worse, or not significantly different.
"""


def _figures(context: Context) -> Sequence[Figure]:
    """The figures of predictions, of the information in other aspects, and of the contribution of each metric."""
    result: Any = context.results["ceiling"]
    figures = [
        Figure(
            id="ceiling-prediction",
            title="Prediction of human ratings",
            caption="Bars: Kendall τ-b between human ratings and held-out predictions. Whisker: interval from "
            "resampled items. Grey tick: agreement of one half of the annotators with the other half. Vermilion "
            "tick: the highest value that a perfect predictor can reach; it is below 1 because human ratings are "
            "noisy.",
            alt="Bars of the agreement of predictions with human ratings by aspect; the table below holds the numbers.",
            spec=spec_of(bars(empty_rows(), result), width="container"),
            table="ceiling.prediction",
            lines=("target",),
        ),
        Figure(
            id="ceiling-information",
            title="Information in other aspects that metrics lack",
            caption="Error of a lasso that predicts from the metrics and the human ratings of other aspects, "
            "divided by the error of a lasso that predicts from the metrics alone. Below the dashed line, human "
            "ratings of other aspects improve the prediction: these ratings contain information that no metric has, "
            "or share errors with the predicted aspect. Band: interval.",
            alt="Lines of the ratio of errors against the penalty of the lasso, with one line for every aspect.",
            spec=spec_of(ratio_curve(empty_rows()), width="container"),
            table="ceiling.information",
        ),
        Figure(
            id="ceiling-forward",
            title=f"Adding one metric at a time{context.aspect_suffix}",
            caption="Each step adds the metric with the largest gain. Whisker: interval. Filled blue point: the "
            "interval of the gain of this step is above 0. Vermilion point: the interval of the gain is below 0. "
            "Each interval holds for one step, not jointly for the whole path.",
            alt="Line of the agreement of predictions with human ratings as metrics are added one by one.",
            spec=spec_of(steps(empty_rows()), width="container"),
            table="ceiling.forward",
            where=CHOSEN,
        ),
        Figure(
            id="ceiling-history",
            title="Prediction by release date of the metrics",
            caption="Agreement of human ratings with predictions from all metrics that were released up to each "
            "date. Metrics without a date are left out.",
            alt="Lines of the agreement of predictions with human ratings against dates of release, with one "
            "line for every aspect.",
            spec=spec_of(release_lines(empty_rows(), result), width="container"),
            table="ceiling.history",
        ),
    ]
    return [figure for figure in figures if context.table(figure.table).height]


def _tables(context: Context) -> Sequence[SelectionTable]:
    caption_of_table = {"halo": "Halo effect by annotator", "next": "Gain and loss of each metric"}
    label_and_doc_of_column = ADDED_IN_USE if context.results["ceiling"].provenance.options["in_use"] else ADDED
    selection_tables = [
        build_selection_table(
            context, f"ceiling-{table_name}", caption + context.aspect_suffix, f"ceiling.{table_name}", CHOSEN
        )
        for table_name, caption in caption_of_table.items()
        if context.table(f"ceiling.{table_name}").height
    ]

    def described(column: Column) -> Column:
        label, doc = label_and_doc_of_column.get(column.name, (column.label, column.doc))
        return replace(column, label=label, doc=doc)

    return [replace(table, columns=tuple(map(described, table.columns))) for table in selection_tables]


def _build(context: Context) -> Mapping[str, Any]:
    result: Any = context.results["ceiling"]
    return {
        "sentences": [*sentences(result), *halo_sentences(result)],
        "reached": prediction_texts(result),
        "table": table_html(
            _predictions(result),
            [
                label("target", "what is predicted", "Aspect"),
                label("what", "by what", "Predicted from"),
                *[
                    column
                    for column in context.table_declaration("ceiling.prediction").columns
                    if column.name != "features"
                ],
            ],
            id="ceiling-prediction",
            caption="Predictions of held-out outputs",
            notes=context.notes("ceiling"),
            by=None,
        ),
    }


def _predictions(result: Ceiling) -> pl.DataFrame:
    """The rows of `prediction`, followed by the rows of `annotators`, for each aspect; predictors are in words."""
    prediction_rows = result.prediction.with_columns(what=pl.col("features").replace(FEATURES), order=pl.lit(0))
    prediction_and_bound_rows = pl.concat(
        [
            prediction_rows,
            *[
                result.annotators.select(
                    "target",
                    what=pl.lit(bound_label),
                    **{f"kendall{suffix}": f"{bound_name}{suffix}" for suffix in ("", "_low", "_high")},
                    order=pl.lit(1),
                )
                for bound_name, bound_label in BOUNDS.items()
            ],
        ],
        how="diagonal",
    )
    target_rank_expression = pl.col("target").replace_strict(
        {
            target: target_rank
            for target_rank, target in enumerate(prediction_rows["target"].unique(maintain_order=True))
        }
    )
    return prediction_and_bound_rows.sort(target_rank_expression, "order", maintain_order=True)


def sentences(result: Ceiling) -> list[str]:
    """Sentences that compare predictions from metrics with predictions from human ratings of other aspects."""
    sentence_texts = []
    for features, (better_text, worse_text, equal_text) in GAP_TEXTS.items():
        gap_rows = result.gaps.filter(features_a=features, features_b="metrics").drop_nulls("difference_low")
        is_better, is_worse = pl.col("difference_low") > 0, pl.col("difference_high") < 0
        sentence_texts += [
            f"{sentence_start}: {_join_differences(gap_rows.filter(condition))}."
            for sentence_start, condition in ((better_text, is_better), (worse_text, is_worse))
            if gap_rows.filter(condition).height
        ]
        if inconclusive_targets := gap_rows.filter(~is_better & ~is_worse)["target"].to_list():
            sentence_texts.append(
                f"On these aspects, {equal_text} do not differ significantly: {names(inconclusive_targets)}."
            )
    return sentence_texts


def halo_sentences(result: Ceiling) -> list[str]:
    """Sentences on the halo effect.

    A halo effect means that a rating is predicted better from the same annotator's ratings of other aspects than from
    other annotators' ratings of these aspects.
    """
    same_source, other_source, metric_source = SOURCES
    tau_of_target_and_source = {
        (row["target"], row["source"]): row["kendall"] for row in result.halo.iter_rows(named=True)
    }
    lead_rows = result.halo.drop_nulls(["lead", "lead_low", "lead_high"])
    same_source_rows = lead_rows.filter(source=same_source)
    halo_rows = same_source_rows.filter(pl.col("lead_low") > 0)
    sentence_texts = []
    if halo_rows.height:
        target_texts = [
            f"{target} ({number(tau_of_target_and_source[target, same_source])} against "
            f"{number(tau_of_target_and_source[target, other_source])})"
            for target in halo_rows["target"]
        ]
        sentence_texts.append(
            "Part of the agreement between aspects is a halo effect. The ratings of other aspects by the same "
            "annotator predict a rating better (τ-b) than the ratings of other aspects by other annotators do. "
            f"Predicted aspects: {names(target_texts)}."
        )
    rows_of_sentence_start = {
        "Predictions of a rating from the metrics are not significantly worse than predictions from other annotators’ "
        "ratings of other aspects": lead_rows.filter(pl.col("lead_high") >= 0, source=metric_source).join(
            halo_rows, on="target", how="semi", maintain_order="left"
        ),
        "No significant halo effect: the ratings of other aspects by the same annotator do not predict a rating "
        "significantly better than the ratings of other aspects by other annotators do. Predicted "
        "aspects": same_source_rows.filter(pl.col("lead_low") <= 0, pl.col("lead_high") >= 0),
        "No halo effect: the ratings of other aspects by other annotators predict a rating better than the ratings of "
        "other aspects by the same annotator do. Predicted aspects": same_source_rows.filter(pl.col("lead_high") < 0),
    }
    return sentence_texts + [
        f"{sentence_start}: {names(target_rows['target'].to_list())}."
        for sentence_start, target_rows in rows_of_sentence_start.items()
        if target_rows.height
    ]


def _join_differences(gap_rows: pl.DataFrame) -> str:
    """A list of aspects, each with the absolute value of its difference, and the interval of this value."""
    difference_texts = []
    for row in gap_rows.iter_rows(named=True):
        low, high = sorted([abs(row["difference_low"]), abs(row["difference_high"])])
        difference_texts.append(f"{row['target']} (difference in τ-b {interval(abs(row['difference']), low, high)})")
    return names(difference_texts)


def prediction_texts(result: Ceiling) -> list[tuple[str, str]]:
    """For each aspect, a text on the agreement of predictions from all metrics and the bound of a perfect predictor."""
    bound_row_of_aspect = {row["target"]: row for row in result.annotators.iter_rows(named=True)}
    row_of_aspect_and_features = {
        (prediction_row["target"], prediction_row["features"]): prediction_row
        for prediction_row in result.prediction.iter_rows(named=True)
    }
    aspects_and_texts = []
    for metric_row in result.prediction.filter(features="metrics").drop_nulls("kendall").iter_rows(named=True):
        aspect = metric_row["target"]
        aspect_text = (
            f"{f'On {aspect}, all' if aspect else 'All'} metrics together predict human ratings with τ-b "
            f"{estimate_with_interval(metric_row, 'kendall')} over held-out outputs."
        )
        bound_row = bound_row_of_aspect.get(aspect, {"attainable": None, "split_half": None})
        if bound_row["attainable"] is None:
            if bound_row["split_half"] is not None and bound_row["split_half"] <= 0:
                aspect_text += (
                    " Two halves of the annotators do not agree with each other, so it cannot be estimated how well "
                    "a perfect predictor would agree with the annotators."
                )
        elif _is_above_bound(metric_row, bound_row):
            aspect_text += (
                f" This τ-b exceeds {estimate_with_interval(bound_row, 'attainable')}, the bound of a perfect "
                f"predictor if the errors of the {bound_row['annotators']} annotators are independent. So the errors "
                "are not independent, and the bound cannot be estimated."
            )
        else:
            aspect_text += (
                f" A perfect predictor could reach τ-b {estimate_with_interval(bound_row, 'attainable')} if the errors "
                f"of the {bound_row['annotators']} annotators are independent."
            )
            if any(
                _is_above_bound(row_of_aspect_and_features.get((aspect, features)), bound_row)
                for features in ("humans", "both")
            ):
                aspect_text += (
                    " Predictions that use the other human aspects exceed this bound. So the errors are not "
                    "independent, and the bound cannot be estimated."
                )
            elif metric_row["kendall"] >= bound_row["attainable"]:
                aspect_text += (
                    " The metrics reach this bound, so these data do not show that better metrics are possible."
                )
        aspects_and_texts.append((aspect, aspect_text))
    return aspects_and_texts


def _is_above_bound(row: Mapping[str, Any] | None, bound_row: Mapping[str, Any]) -> bool:
    """Whether the interval of a prediction is above the interval of the bound of a perfect predictor."""
    if row is None or row["kendall_low"] is None or bound_row["attainable_high"] is None:
        return False
    return bool(row["kendall_low"] > bound_row["attainable_high"])


CEILING = Section(
    question="ceiling",
    title="Glass ceiling: human ratings predicted from all metrics",
    ask=lambda context: context.ask(ceiling, model="ridge"),
    figures=_figures,
    tables=_tables,
    build=_build,
)
