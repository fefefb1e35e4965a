"""Glass ceiling: how well all metrics together predict human ratings, and how much each metric contributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, Unpack

import numpy as np
import polars as pl

from custodes.answers.question import Rng, question
from custodes.answers.result import Result, result
from custodes.answers.shared_arguments import Selection
from custodes.answers.tables import count, label, labels, score, share, table
from custodes.data.notes import Note, build_notes
from custodes.data.patterns import Patterns
from custodes.data.study import Study
from custodes.errors import InputError, OptionError, join_labels
from custodes.evaluate.ceiling import predictions
from custodes.evaluate.ceiling.halo import halo_columns
from custodes.evaluate.ceiling.metric_paths import forward_columns, next_columns
from custodes.evaluate.ceiling.prediction_target import (
    MODELS,
    Folds,
    Model,
    count_clusters,
    match_metrics,
    target_of,
    without_lone_items,
)
from custodes.evaluate.ceiling.system_level import system_target_of
from custodes.evaluate.parallel import map_parts
from custodes.evaluate.rater_scores import FEW, METRIC, RaterScores, few_clusters_notes, rater_scores
from custodes.progress import Progress, silent
from custodes.stats.learning import heldout

Level = Literal["output", "system"]


@result
class Ceiling(Result):
    """How well metrics predict human ratings. See `ceiling`.

    The column `metric` names a metric. The column `rater` names a metric or an aspect of the annotators
    (`human:fluency`)."""

    BY, PICTURE = "target", "prediction_bars"

    prediction: pl.DataFrame = table(
        "How well each target (an aspect that annotators rated) is predicted on held-out outputs.",
        label(
            "features",
            "features of the prediction: `metrics`, `humans` (other aspects of the annotators), or `both`",
            "Predicted from",
        ),
        score(
            "kendall",
            "Kendall's tau-b over the outputs of a held-out fold, averaged over folds; at level system, tau-b over "
            "pairs of systems",
            "τ-b",
            interval=True,
            best="high",
        ),
        score(
            "kendall_item",
            "Kendall's tau-b within items, averaged over items; null at the level of systems; also null with plain "
            "folds, because several models then predict the outputs of an item",
            "τ-b within items",
            interval=True,
            best="high",
        ),
        score(
            "r2",
            "proportion of the variance of human rank sums that is predicted. Each system is predicted by a model "
            "fitted to all other systems. Null at the level of outputs",
            "R²",
            interval=True,
            best="high",
            essential=False,
        ),
        count("n", "number of outputs; at level system, number of systems", "Outputs"),
    )
    gaps: pl.DataFrame = table(
        "Differences between two rows of `prediction`.",
        label("features_a", "a row of `prediction`", "Predicted from"),
        label("features_b", "another row of `prediction`", "Against"),
        score(
            "difference",
            "`kendall` with features_a minus `kendall` with features_b, from the same resamples",
            interval=True,
        ),
    )
    annotators: pl.DataFrame = table(
        "Reliability of the human ratings, which limits how well these ratings can be predicted. A target with one "
        "annotator has no row.",
        count("annotators", "number of annotators who rated the target"),
        score(
            "split_half",
            "Kendall's tau-b between the mean ratings of two halves of the annotators, averaged over folds and over "
            "splits into halves; at level system, tau-b between the rank sums by the two halves",
            interval=True,
        ),
        score(
            "attainable",
            "estimated tau-b of a predictor without errors, the upper bound for `kendall`. It is below 1 because the "
            "mean rating of the annotators has errors and ties. Null at the system level, or if `split_half` is 0 or "
            "less",
            interval=True,
        ),
    )
    halo: pl.DataFrame = table(
        "Halo effect: how well ridge regression predicts one annotator's ratings of the target aspect from the "
        "features in `source`. The table is empty with one annotator or one aspect.",
        label(
            "source",
            "features of the prediction: `same annotator` (other aspects rated by this annotator), `other annotators` "
            "(other aspects rated by other annotators), or `metrics`",
            "Predicted from",
        ),
        score(
            "kendall",
            "tau-b on held-out outputs; mean over annotators, weighted by numbers of ratings",
            "τ-b",
            interval=True,
        ),
        score(
            "lead",
            "`kendall` minus `kendall` of the row `other annotators`, from the same resamples; null in that row",
            "Over other annotators",
            interval=True,
        ),
    )
    information: pl.DataFrame = table(
        "Information that human ratings of other aspects contain and the metrics lack. The table is "
        "empty if annotators rated only one aspect.",
        score("alpha", "penalty of the lasso, from 1 down to .001", "Penalty α"),
        score(
            "mse_ratio",
            "held-out error with metrics and other aspects, divided by held-out error with metrics only",
            "Ratio of errors",
            interval=True,
        ),
        score(
            "mse_both",
            "held-out error with metrics and other aspects, in squared units of the human scale (at level system, of "
            "win rates)",
            "Error, both",
            best="low",
        ),
        essential=False,
    )
    lasso: pl.DataFrame = table(
        "Lasso weights of the metrics and of human ratings of other aspects, for each penalty.",
        score("alpha", "penalty of the lasso", "Penalty α"),
        label("rater", "a metric, or another aspect of the annotators"),
        label("kind", "`metric` or `human`"),
        score("weight", "standardised weight, fitted to all outputs (at level system, to all systems)"),
        essential=False,
    )
    forward: pl.DataFrame = table(
        "Forward selection: each step adds the metric with the largest gain.",
        count("step", "number of the step, from 1; step 0 has the metrics in use"),
        label(
            "metric",
            "metric added at this step; at step 0, the first two metrics in use and the number of further metrics in "
            "use",
            "Metric added",
        ),
        score("kendall", "held-out tau-b; the path for each fold is selected on the other folds", "τ-b", interval=True),
        score("gain", "gain over the previous step; null at the first step", interval=True),
        share(
            "chosen",
            "proportion of folds in which the path selected on the other folds contains this metric at this step or "
            "an earlier step",
            "Chosen so far in folds",
        ),
    )
    next: pl.DataFrame = table(
        "Gain from adding each metric and loss from removing it, with the largest gain first.",
        label("metric", "name of the metric"),
        score(
            "added",
            "gain in held-out tau-b if the metric is added to the metrics in use. If `in_use` is not set, tau-b of "
            "the metric alone. Null for metrics in use",
            "Gain if added",
            interval=True,
        ),
        score(
            "removed",
            "loss in held-out tau-b if the metric is removed from the metrics in use (if `in_use` is not set, from "
            "all metrics). For a single metric, its tau-b. Null for metrics not in use",
            "Loss if taken out",
            interval=True,
        ),
        rows=lambda result: result.next.filter(pl.int_range(pl.len()).over("target") < 5),
    )
    history: pl.DataFrame = table(
        "Prediction from all metrics released by each date. The table is empty with fewer than two release dates.",
        label("date", "date of release, from the raters file"),
        labels("newest", "metrics released on this date", "New"),
        score(
            "kendall",
            "held-out tau-b of the prediction from all metrics released by this date",
            "τ-b",
            interval=True,
        ),
    )
    left_out: pl.DataFrame = table(
        "Raters that are excluded, and why.",
        label("rater", "name of the rater"),
        label("reason", "why the rater is excluded"),
        by="",
    )


@question(
    "custodes ceiling ratings.csv --human 'expert*' --in-use 'bleu,rouge*'",
    level="What is predicted: ratings of single outputs, or rank sums of systems.",
    folds="Held-out units: whole items, or single outputs (plain; training then uses outputs of the same items).",
    model="Prediction model.",
    in_use="Metrics in use, from which forward selection starts; comma list of globs.",
    variants="Metrics to average, as a comma list of globs; the metrics that match one glob become one metric.",
)
def ceiling(
    study: Study,
    *,
    level: Level = "output",
    folds: Folds = "item",
    model: Model = "ridge",
    in_use: Patterns = None,
    variants: Patterns = None,
    steps: int = 10,
    confidence: float = 0.95,
    resamples: int = 1000,
    rng: Rng = 0,
    progress: Progress = silent,
    **selection: Unpack[Selection],
) -> Ceiling:
    """Estimate how well human ratings of an aspect are predicted from all metrics, from other aspects, and from both.

    Notes
    -----
    Cross-validation has five folds. With folds='item', a fold contains whole items (or clusters). With 'plain', a fold
    contains single outputs, so the training data contain other outputs of the held-out items. Use 'plain' to reproduce
    the paper. `model` is 'ridge' (regression) or 'xgboost' (boosted trees, as in the paper; needs the extra `learn`).
    The forward path, gains and losses always use ridge regression. XGBoost handles missing scores; ridge and lasso
    replace missing scores by the training mean. `variants` replaces the metrics that match a glob by the mean of their
    standardised scores. The name of the mean is the glob without `*`, as in figure 1 of the paper.

    The forward path starts with the metrics in `in_use` (default: none) and adds up to `steps` metrics. `kendall` is
    tau-b over the outputs of each held-out fold, averaged over folds. `kendall_item` is tau-b over the systems of each
    item, averaged over items (null with plain folds). Intervals are Student's t intervals over resampled clusters. The
    predictions are fixed, so the intervals do not include the variation between refitted models. An aspect that was
    rated on only one item or cluster is excluded.

    With level='system', the target is the sum of a system's ranks over items, and the features are rank sums by metrics
    or by other aspects. All rank sums are scaled to win rates against the other systems. `kendall` compares pairs of
    systems. To predict a pair, the model is fitted to all other systems, and ranks are computed among these systems
    only (leave-pair-out). For `r2` and `information`, one system is left out. Intervals resample systems. The tables of
    the forward path and of the halo effect are empty at this level. At least six systems are needed.

    References
    ----------
    Colombo et al. 2023 (glass ceiling), Figures 1, 3, and 7 to 9; Airola et al. 2011 (leave-pair-out cross-validation).

    Examples
    --------
    >>> import custodes as cu
    >>> result = cu.ceiling(cu.read("demo"), model="ridge", resamples=0, steps=1)
    >>> result.prediction.filter(target="fluency")["features"].to_list()
    ['metrics', 'humans', 'both']
    """
    if level == "system" and (folds != "item" or in_use is not None):
        raise OptionError(
            "folds and in_use are for level='output', but level='system' is set; omit folds and in_use, or set "
            "level='output'"
        )
    raters = without_lone_items(rater_scores(study, variants=variants, **selection))
    target_positions, metric_positions = raters.select_kind("human").tolist(), raters.select_kind(METRIC)
    for is_input_missing, message in (
        (
            not len(metric_positions),
            f"no metric has scores that vary (raters with scores: {join_labels(raters.names)}); select other metrics",
        ),
        (
            raters.design.n_units < 2,
            "there is only one item or cluster, but cross-validation needs two; give more items",
        ),
        (
            not target_positions,
            "there is nothing to predict, because human ratings are verdicts, are constant, or cover only one item or "
            "cluster",
        ),
    ):
        if is_input_missing:
            raise InputError(f"{study.name}: {message}")
    positions_in_use = metric_positions[:0] if in_use is None else match_metrics(raters, in_use)

    def answer_aspect(target_index: int, rng: np.random.Generator) -> tuple[dict[str, pl.DataFrame], list[int]]:
        model_generator, human_generator = rng.spawn(2)  # estimates do not depend on the number of resamples
        fit = partial(MODELS[model], seed=int(model_generator.integers(2**31)))
        if level == "system":
            return _system_level_tables(raters, target_index, fit, resamples, confidence, rng, human_generator), []
        target = target_of(raters, target_index, folds, resamples, rng)
        columns_of_halo, excluded_annotator_indices = halo_columns(target, confidence)
        return Ceiling.part(
            target.aspect,
            **predictions.prediction_columns(
                target, predictions.agreements(target, fit), len(target.y), confidence, target.n_clusters
            ),
            annotators=predictions.annotator_columns(target, human_generator, confidence),
            halo=columns_of_halo,
            information=predictions.information_columns(target, confidence),
            lasso=predictions.lasso_columns(target, target.x, target.y),
            forward=forward_columns(target, positions_in_use, steps, confidence),
            next=next_columns(target, positions_in_use, confidence),
            history=predictions.history_columns(
                target,
                lambda rater_sets: target.agreement(target.predict_from_raters(rater_sets, fit)),
                confidence,
                target.n_clusters,
            ),
        ), excluded_annotator_indices

    tables_and_excluded_indices = map_parts(
        answer_aspect,
        target_positions,
        rng=np.random.default_rng(rng),
        progress=progress,
        desc="ceiling",
        label=raters.rater_aspects.__getitem__,
        threads=model == "xgboost",
    )
    tables_of_targets, excluded_of_targets = zip(*tables_and_excluded_indices, strict=True)
    n_systems = len(raters.design.systems)
    result = Ceiling.from_parts(
        [*tables_of_targets, Ceiling.part(left_out=raters.left_out_rows())],
        [
            *raters.notes,
            *(
                few_clusters_notes(raters.design.n_units, resamples)
                if level == "output"
                else build_notes(
                    (
                        "few-systems",
                        n_systems if n_systems < FEW and resamples else 0,
                        f"{n_systems} systems: intervals are unreliable",
                    )
                )
            ),
        ],
    )
    return replace(
        result,
        notes=(
            *result.notes,
            *_notes(
                result, raters, level, [raters.people[index] for index in sorted(set().union(*excluded_of_targets))]
            ),
        ),
    )


def _system_level_tables(
    raters: RaterScores,
    target_index: int,
    fit: heldout.Fit,
    resamples: int,
    confidence: float,
    rng: np.random.Generator,
    human_generator: np.random.Generator,
) -> dict[str, pl.DataFrame]:
    """Return the tables of an aspect at the system level."""
    target = system_target_of(raters, target_index, resamples, rng)
    compute_agreement = partial(target.agreement, fit=fit)
    rater_sets = list(target.columns.values())
    return Ceiling.part(
        target.aspect,
        **predictions.prediction_columns(
            target,
            {
                "kendall": compute_agreement(rater_sets),
                "unexplained": target.unexplained_variance(rater_sets, fit),
            },
            target.n_clusters,
            confidence,
            target.n_clusters,
        ),
        annotators=target.split_half_columns(confidence, human_generator),
        information=target.information_columns(confidence),
        lasso=predictions.lasso_columns(target, target.rates.T, target.rates[target.target_index]),
        history=predictions.history_columns(target, compute_agreement, confidence, target.n_clusters),
    )


def _notes(result: Ceiling, raters: RaterScores, level: Level, excluded_annotators: Sequence[str]) -> list[Note]:
    """Return notes on the study design, on annotators that cannot be compared, and on predictions above the bound.

    The bound assumes that the errors of annotators are independent. The halo table excludes `excluded_annotators`.
    """
    human_positions, metric_positions = raters.select_kind("human"), raters.select_kind(METRIC)
    n_rated_outputs = int(np.isfinite(raters.scores[human_positions]).any(axis=0).sum())
    n_undated_metrics = sum(raters.dates[metric_position] is None for metric_position in metric_positions)
    target_names = result.prediction["target"].unique(maintain_order=True)
    one_annotator_targets = target_names.filter(~target_names.is_in(result.annotators["target"].to_list()))
    targets_text = (
        ""
        if len(one_annotator_targets) == len(target_names)
        else f" of {join_labels(map(repr, one_annotator_targets))}"
    )
    unsplit_targets = result.annotators.filter(pl.col("split_half").is_null())["target"]
    disagreeing_targets = result.annotators.filter(pl.col("split_half") <= 0, pl.lit(level == "output"))["target"]
    exceeding_targets = (
        result.prediction.join(result.annotators, on="target", maintain_order="left")
        .filter(pl.col("kendall_low") > pl.col("attainable_high"))["target"]
        .unique(maintain_order=True)
    )
    return build_notes(
        (
            "one-aspect",
            len(human_positions) < 2,
            "annotators rated only one aspect, so the features `humans` and `both` and the table `information` are "
            "left out",
        ),
        (
            "more-features-than-rows",
            len(metric_positions) if len(metric_positions) >= n_rated_outputs else 0,
            f"there are more features than data ({len(metric_positions)} metrics, {n_rated_outputs} rated outputs); "
            "expect tau-b near 0",
        ),
        (
            "undated-metrics",
            n_undated_metrics if n_undated_metrics < len(metric_positions) else 0,
            f"{n_undated_metrics} metrics have no release date, so the history excludes them",
        ),
        (
            "two-clusters",
            level == "output" and min(count_clusters(raters, rater_index) for rater_index in human_positions) == 2,
            "annotators rated only two items or clusters; the forward path needs at least three, so it has no values",
        ),
        (
            "weights-unused",
            level == "output" and raters.design.has_item_weights,
            "item weights do not affect predictions",
        ),
        (
            "one-annotator",
            len(one_annotator_targets),
            f"only one annotator gave ratings{targets_text}, so agreement between annotators is unknown (no rows "
            "in the tables annotators and halo)",
        ),
        (
            "no-split-half",
            len(unsplit_targets),
            f"for {join_labels(map(repr, unsplit_targets))}, annotators cannot be split into halves that "
            "rated the same outputs",
        ),
        (
            "no-attainable",
            len(disagreeing_targets),
            f"for {join_labels(map(repr, disagreeing_targets))}, halves of the annotators do not agree, so the "
            "tau-b that a perfect predictor could reach cannot be estimated",
        ),
        (
            "halo-annotators",
            len(excluded_annotators),
            f"the halo table excludes {join_labels(excluded_annotators)}, who share too few outputs with other "
            "annotators",
        ),
        (
            "attainable-exceeded",
            len(exceeding_targets),
            f"for {join_labels(exceeding_targets)}, predictions exceed the bound given by the agreement between "
            "annotators. The errors of annotators are not independent, or the ratings of one annotator come from "
            "several persons, so 'attainable' is not a bound",
        ),
    )
