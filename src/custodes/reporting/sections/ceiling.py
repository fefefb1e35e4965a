"""Section: prediction of human ratings from all metrics, and information that the metrics lack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from custodes.answers.tables import label
from custodes.answers.wording import estimate_with_interval, interval, names, number
from custodes.evaluate.ceiling.ceiling import Ceiling, ceiling
from custodes.evaluate.ceiling.halo import SOURCES
from custodes.plots.ceiling import BOUNDS, FEATURES, bars, ratio_curve, release_lines
from custodes.plots.paths import paths, steps
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
"""Labels and descriptions of the gains in the table `next`, if no metrics are in use and if metrics are in use."""


def _figures(context: Context) -> Sequence[Figure]:
    """The figures of predictions, of the information in other aspects, and of the contribution of each metric."""
    result: Any = context.results["ceiling"]
    ratio, history = (
        ([_ratio()] if result.information.height else []),
        ([_history(result)] if result.history.height else []),
    )
    return [_bars(result), *ratio, *_aspect_figures(result, _aspect_suffix(context)), *history]


def _aspect_suffix(context: Context) -> str:
    return " ({aspect})" if any(context.aspects) else ""


def _tables(context: Context) -> Sequence[SelectionTable]:
    captions = {
        "halo": "Halo effect by annotator",
        "next": "Gain and loss of each metric",
        "backward": f"Backward elimination, at most {context.results['ceiling'].provenance.options['steps']} steps",
    }
    tables = {
        name: build_selection_table(
            context, f"ceiling-{name}", caption + _aspect_suffix(context), f"ceiling.{name}", CHOSEN
        )
        for name, caption in captions.items()
        if context.table(f"ceiling.{name}").height
    }
    label_of_column = ADDED_IN_USE if context.results["ceiling"].provenance.options["in_use"] else ADDED
    columns = (
        replace(column, label=label_of_column[column.name][0], doc=label_of_column[column.name][1])
        if column.name in label_of_column
        else column
        for column in tables["next"].columns
    )
    return list((tables | {"next": replace(tables["next"], columns=tuple(columns))}).values())


def _build(context: Context) -> Mapping[str, Any]:
    result: Any = context.results["ceiling"]
    declared = [
        column for column in context.table_declaration("ceiling.prediction").columns if column.name != "features"
    ]
    return {
        "sentences": [*sentences(result), *halo_sentences(result)],
        "reached": prediction_texts(result),
        "table": table_html(
            _predictions(result),
            [label("target", "what is predicted", "Aspect"), label("what", "by what", "Predicted from"), *declared],
            id="ceiling-prediction",
            caption="Predictions of held-out outputs",
            notes=context.notes("ceiling"),
            by=None,
        ),
    }


def _bars(result: Ceiling) -> Figure:
    return Figure(
        id="ceiling-prediction",
        title="Prediction of human ratings",
        caption="Bars: Kendall τ-b between human ratings and held-out predictions. Whisker: interval from "
        "resampled items. Grey tick: one half of the annotators predicted by the other half. "
        "Vermilion tick: the bound of a perfect predictor, which is below 1 because human ratings "
        "are noisy.",
        alt="Bars of the agreement of predictions with human ratings by aspect; the table below holds the numbers.",
        spec=spec_of(bars(empty_rows(), result), width="container"),
        table="ceiling.prediction",
        lines=("target",),
    )


def _ratio() -> Figure:
    return Figure(
        id="ceiling-information",
        title="Information in other aspects that metrics lack",
        caption="Error of a lasso that predicts from the metrics and the human ratings of other aspects, "
        "divided by the error of a lasso that predicts from the metrics alone. Below the dashed "
        "line, the other aspects contain information that no metric has, or errors that the aspects share. Band: "
        "interval.",
        alt="Lines of the ratio of errors against the penalty of the lasso, with one line for every aspect.",
        spec=spec_of(ratio_curve(empty_rows()), width="container"),
        table="ceiling.information",
    )


def _aspect_figures(result: Ceiling, of_aspect: str) -> list[Figure]:
    """The figures that show one aspect, which the reader selects."""
    return [
        Figure(
            id="ceiling-lasso",
            title=f"Lasso weights of the raters{of_aspect}",
            caption="The penalty decreases from left to right. A rater that enters early and keeps a large "
            "weight contains information that other raters lack. Among near copies of "
            "one rater, it is arbitrary which copy enters first. Coloured lines: other human aspects.",
            alt="Lines of the standardised weight of every rater along the penalty of a lasso.",
            spec=spec_of(paths(empty_rows(), result), width="container"),
            table="ceiling.lasso",
            where=CHOSEN,
        ),
        Figure(
            id="ceiling-forward",
            title=f"Adding one metric at a time{of_aspect}",
            caption="Each step adds the metric with the largest gain. Whisker: interval. Filled blue point: the "
            "interval of the gain of this step is above 0. Vermilion point: this interval is below "
            "0. Each interval is for one step, not for the whole path.",
            alt="Line of the agreement of predictions with human ratings as metrics are added one by one.",
            spec=spec_of(steps(empty_rows()), width="container"),
            table="ceiling.forward",
            where=CHOSEN,
        ),
    ]


def _history(result: Ceiling) -> Figure:
    return Figure(
        id="ceiling-history",
        title="Prediction by release date of the metrics",
        caption="Agreement of human ratings with predictions from all metrics that were released up to each "
        "date. Metrics without a date are left out.",
        alt="Lines of the agreement of predictions with human ratings against dates of release, with one "
        "line for every aspect.",
        spec=spec_of(release_lines(empty_rows(), result), width="container"),
        table="ceiling.history",
    )


def _predictions(result: Ceiling) -> pl.DataFrame:
    """The rows of `prediction`, followed by the rows of `annotators`, for each aspect; predictors are in words."""
    rows = result.prediction.with_columns(what=pl.col("features").replace(FEATURES), order=pl.lit(0))
    bounds = [
        result.annotators.select(
            "target",
            what=pl.lit(label),
            **{f"kendall{bound}": f"{name}{bound}" for bound in ("", "_low", "_high")},
            order=pl.lit(1),
        )
        for name, label in BOUNDS.items()
    ]
    predictions = pl.concat([rows, *bounds], how="diagonal")
    rank_of_target = pl.col("target").replace_strict(
        {t: i for i, t in enumerate(rows["target"].unique(maintain_order=True))}
    )
    return predictions.sort(rank_of_target, "order", maintain_order=True)


def sentences(result: Ceiling) -> list[str]:
    """Sentences that compare predictions from metrics with predictions from human ratings of other aspects."""
    texts = []
    for a, b, better_text, worse_text in (
        (
            "humans",
            "metrics",
            "Human ratings of these aspects are predicted worse from all metrics than from the human ratings "
            "of other aspects",
            "Human ratings of these aspects are predicted better from all metrics than from the human "
            "ratings of other aspects",
        ),
        (
            "both",
            "metrics",
            "For these aspects, adding the human ratings of other aspects improves the prediction from all "
            "metrics: the metrics lack information, or one annotator’s ratings of several aspects share errors",
            "For these aspects, adding the human ratings of other aspects makes the prediction from all "
            "metrics worse, by chance or for lack of data",
        ),
    ):
        gaps = result.gaps.filter(features_a=a, features_b=b).drop_nulls("difference_low")
        kinds = [
            (better_text, gaps.filter(pl.col("difference_low") > 0)),
            (worse_text, gaps.filter(pl.col("difference_high") < 0)),
        ]
        texts += [f"{text}: {_join_differences(rows)}." for text, rows in kinds if rows.height]
        inconclusive_targets = gaps.filter((pl.col("difference_low") <= 0) & (pl.col("difference_high") >= 0))[
            "target"
        ].to_list()
        if inconclusive_targets:
            features_text = (
                "predictions from all metrics and predictions from the human ratings of other aspects"
                if a == "humans"
                else "predictions from all metrics with and without the human ratings of other aspects"
            )
            texts.append(f"No significant difference between {features_text}: {names(inconclusive_targets)}.")
    return texts


def halo_sentences(result: Ceiling) -> list[str]:
    """Sentences on the halo effect.

    A halo effect means that a rating is predicted better from the same annotator's ratings of other aspects than from
    other annotators' ratings of these aspects.
    """
    same_source, other_source, metric_source = SOURCES
    tau = {(row["target"], row["source"]): row["kendall"] for row in result.halo.iter_rows(named=True)}
    leads = result.halo.drop_nulls(["lead", "lead_low", "lead_high"])
    of_source = leads.filter(source=same_source)
    if of_source.is_empty():
        return []
    gain_texts = [
        f"{target} ({number(tau[target, same_source])} against {number(tau[target, other_source])})"
        for target in of_source.filter(pl.col("lead_low") > 0)["target"]
    ]
    texts = []
    if gain_texts:
        texts.append(
            "Part of the agreement between aspects is a halo effect of the annotator. A rating is predicted "
            "better (τ-b) from the same annotator’s ratings of other aspects than from other annotators’ "
            f"ratings of these aspects: {names(gain_texts)}."
        )
        metric_leads = leads.filter(pl.col("lead_high") >= 0, source=metric_source)
        metric_leads = metric_leads.join(
            of_source.filter(pl.col("lead_low") > 0), on="target", how="semi", maintain_order="left"
        )
        if metric_leads.height:
            texts.append(
                "Metrics do not predict a rating significantly worse than other annotators’ ratings of other "
                f"aspects do: {names(metric_leads['target'].to_list())}."
            )
    uncertain = of_source.filter(pl.col("lead_low") <= 0)
    for beginning, condition in (
        (
            "No significant halo effect: a rating is not predicted significantly better from the same annotator’s "
            "ratings of other aspects than from other annotators’ ratings of these aspects",
            pl.col("lead_high") >= 0,
        ),
        (
            "No halo effect: a rating is predicted better from other annotators’ ratings of other aspects than from "
            "the same annotator’s ratings of these aspects",
            pl.col("lead_high") < 0,
        ),
    ):
        if targets := uncertain.filter(condition)["target"].to_list():
            texts.append(f"{beginning}: {names(targets)}.")
    return texts


def _join_differences(gaps: pl.DataFrame) -> str:
    """A list of aspects, each with its difference and interval."""
    rows = gaps.iter_rows(named=True)
    return names(
        [
            f"{row['target']} (difference in τ-b {interval(abs(row['difference']), *_absolute_interval(row))})"
            for row in rows
        ]
    )


def _absolute_interval(row: Mapping[str, float]) -> tuple[float, float]:
    low, high = row["difference_low"], row["difference_high"]
    return (low, high) if row["difference"] >= 0 else (-high, -low)


def prediction_texts(result: Ceiling) -> list[tuple[str, str]]:
    """For each aspect, a text on the agreement of predictions from all metrics and the bound of a perfect predictor."""
    bounds = {row["target"]: row for row in result.annotators.iter_rows(named=True)}
    rows = {(row["target"], row["features"]): row for row in result.prediction.iter_rows(named=True)}
    texts = []
    for (aspect, features), row in rows.items():
        if features != "metrics" or row["kendall"] is None:
            continue
        opening = f"On {aspect}, all" if aspect else "All"
        text = (
            f"{opening} metrics together predict human ratings with τ-b {estimate_with_interval(row, 'kendall')} over "
            "held-out outputs"
        )
        bound = bounds.get(aspect)
        if bound is None or bound["attainable"] is None:
            is_disagreement = bound is not None and bound["split_half"] is not None and bound["split_half"] <= 0
            no_bound = "Halves of the annotators do not agree, so the bound of a perfect predictor cannot be estimated."
            texts.append((aspect, f"{text}. {no_bound}" if is_disagreement else f"{text}."))
            continue
        bound_text = estimate_with_interval(bound, "attainable")
        if _is_above_bound(row, bound):
            texts.append(
                (
                    aspect,
                    f"{text}. This exceeds {bound_text}, the bound of a perfect predictor if the errors of the "
                    f"{bound['annotators']} annotators are independent. So the errors are not independent, and the "
                    "bound cannot be estimated.",
                )
            )
            continue
        text += (
            f". A perfect predictor could reach {bound_text} if the errors of the {bound['annotators']} annotators are "
            "independent."
        )
        if any(_is_above_bound(rows.get((aspect, features)), bound) for features in ("humans", "both")):
            text += (
                " Predictions that use the other human aspects exceed this bound. So the errors are not independent, "
                "and the bound cannot be estimated."
            )
        elif row["kendall"] >= bound["attainable"]:
            text += " The metrics reach this bound, so these data do not show that better metrics are possible."
        texts.append((aspect, text))
    return texts


def _is_above_bound(row: Mapping[str, Any] | None, bound: Mapping[str, Any]) -> bool:
    """Whether the interval of a prediction is above the interval of the bound of a perfect predictor."""
    if row is None or row["kendall_low"] is None or bound["attainable_high"] is None:
        return False
    return bool(row["kendall_low"] > bound["attainable_high"])


CEILING = Section(
    question="ceiling",
    title="Glass ceiling: human ratings predicted from all metrics",
    ask=lambda context: context.ask(ceiling, model="ridge"),
    figures=_figures,
    tables=_tables,
    build=_build,
)
