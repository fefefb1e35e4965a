"""Combination of metrics: fit to human ratings and evaluation on held-out data."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, Unpack

import numpy as np
import polars as pl

from custodes.answers.question import Rng, question, refuse_ignored_argument
from custodes.answers.result import Provenance, Result, result
from custodes.answers.shared_arguments import Selection
from custodes.answers.tables import count, flag, label, points, score, share, table
from custodes.arguments import check_one_of, value_list
from custodes.combining.combined_metric import CombinedMetric, best_single_metric
from custodes.combining.costs import Costs, costs_of, path_columns
from custodes.combining.fit_notes import fit_notes
from custodes.combining.generalisation import estimate_generalisation
from custodes.combining.kinds import kinds_of
from custodes.combining.methods import BEST, DEFAULT, EVEN_HANDED, METHODS, Method
from custodes.combining.settings import Terms, Unseen
from custodes.combining.tables import (
    calibration_columns,
    comparison_columns,
    difference_columns,
    favoritism_columns,
    group_columns,
    held_out_ratings,
    pruning_columns,
    weight_columns,
)
from custodes.combining.task import Task, aspect_of, aspects_of, sample_task
from custodes.combining.task import task as build_task
from custodes.combining.trade_off import partiality_columns, trade_off_columns
from custodes.combining.training import training_data
from custodes.combining.trial import STATISTICS, cross_validate
from custodes.data.notes import Note, build_notes
from custodes.data.ratings import Ratings
from custodes.data.study import Study
from custodes.errors import CustodesError, OptionError, short_repr
from custodes.evaluate.parallel import limit_blas_threads
from custodes.progress import Progress, silent
from custodes.stats.learning.objective import Objective

LEFT_OUT = "no-combination"

PARTIALITY = (
    points(
        "largest_partiality",
        "largest absolute partiality to any system, on held-out items of the first repeat. The interval is "
        "simultaneous for all systems; a lower bound of 0 means that no partiality is significant, and "
        "`favoritism` may call it inconclusive",
        "Largest partiality",
        interval=True,
        best="low",
    ),
    label("system", "the system of `largest_partiality`"),
    points(
        "unseen_largest_partiality",
        "largest absolute partiality to any system. Each system is rated by models that were fitted without this "
        "system. Null if the method was not tested on unseen systems",
        "Largest partiality, system unseen",
        interval=True,
    ),
    label("unseen_system", "the system of `unseen_largest_partiality`"),
)


@result
class Combine(Result):
    """Combinations of metrics; see `combine`.

    `model` is the combination by the first method, fitted to all data. `held_out` are the ratings of held-out outputs
    by each method in the first repeat. If there are several targets, `model` and `held_out` are for the first target.
    """

    BY, PICTURE = "target", "method_comparison"

    comparison: pl.DataFrame = table(
        "Agreement of each method with annotators on held-out outputs.",
        label("method", "method of combining; the model of the first method is saved", "Way of combining"),
        score(
            "kendall",
            "Kendall's tau-b over the outputs of a held-out fold, averaged over folds and repeats",
            "Kendall τ-b",
            interval=True,
            best="high",
        ),
        score(
            "spearman",
            "Spearman's rho over the outputs of a held-out fold, averaged over folds and repeats",
            "Spearman ρ",
            interval=True,
            essential=False,
            best="high",
        ),
        score(
            "pearson",
            "Pearson's r over the outputs of a held-out fold, averaged over folds and repeats",
            "Pearson r",
            interval=True,
            essential=False,
            best="high",
        ),
        score(
            "accuracy",
            "proportion of pairs of outputs of an item that the method orders as the annotators do; human ties are "
            "left out; null with `folds='system'`",
            "Pairs in human order",
            interval=True,
            best="high",
        ),
        score("spread", "standard deviation of the objective over repeats; null with one repeat"),
        score("seconds", "mean seconds of a fit, without parts that were already fitted for another method"),
        score("metrics_used", "number of metrics in the fitted formula, averaged over fits"),
    )
    generalisation: pl.DataFrame = table(
        "Tests of whether a method is better than the best single metric on held-out items, systems, data sets or "
        "groups. With `unseen='none'`, the only rows are those for the units that `folds` holds out.",
        label(
            "unseen",
            "what is held out: items, systems together with items, data sets, groups, or the units of `folds`",
        ),
        label("method", "method, a row of `comparison`", "Way of combining"),
        count("n", "number of clusters of items, or number of held-out systems, data sets or groups", essential=False),
        score("score", "objective of the method on the held-out units", best="high"),
        score(
            "seen",
            "objective on the same comparisons as `score`, but by models whose training data contain other items of "
            "the held-out systems or data sets. Null if items are held out",
        ),
        score("single", "objective of the best single metric, which is selected in each training part"),
        score(
            "gain",
            "`score` minus `single`; the interval accounts for clusters of items, and for systems or data sets",
            interval=True,
        ),
        label(
            "conclusion",
            "`gain`: the interval of the gain lies above 0; `no gain`: it does not. Null without an interval",
        ),
    )
    differences: pl.DataFrame = table(
        "Differences between methods.",
        label("method_a", "a row of `comparison`"),
        label("method_b", "another row of `comparison`"),
        score("difference", "objective of method_a minus objective of method_b, on the same outputs", interval=True),
        rows=lambda made: made.differences.filter(pl.col("method_a") == pl.col("method_a").first()),
    )
    favoritism: pl.DataFrame = table(
        "Favoritism of the held-out ratings of the first repeat. There is no row if the human ratings are verdicts, "
        "if no item has two rated outputs, or if `folds='system'`.",
        label("method", "method, a row of `comparison`", "Way of combining"),
        score("mean_abs_favi", "mean of |favi| over pairs of systems", "Mean |Favi-Score|", interval=True),
        share("sample_accuracy", "as in `agreement`", best="high"),
    )
    partiality: pl.DataFrame = table(
        "Largest partiality of each method. There is no row in three cases: the human ratings are verdicts, fewer "
        "than five systems have ten rated items (or clusters), or `folds='system'`.",
        label("method", "method, a row of `comparison`", "Way of combining"),
        *PARTIALITY,
    )
    trade_off: pl.DataFrame = table(
        "Agreement and largest partiality for each penalty on partiality. There are rows only if the methods include "
        "`even-handed`, and the table `partiality` has rows.",
        score("penalty", "strength of the penalty; 0 is the method `ridge`"),
        flag("chosen", "whether `even-handed` chose this penalty on all data"),
        score("score", "objective on held-out outputs", interval=True),
        score("loss", "objective with penalty 0 minus objective with this penalty", interval=True),
        *PARTIALITY,
    )
    calibration: pl.DataFrame = table(
        "Shift of the saved model for each kind of output; empty if `calibrate_by` is not set.",
        label("kind", "value of the column, or range of the metric"),
        count("outputs", "number of rated outputs of the kind"),
        score(
            "shift",
            "number added to the predictions of this kind of output: the mean residual of the kind, shrunk towards 0 "
            "by ten added residuals of 0",
        ),
        essential=False,
    )
    weights: pl.DataFrame = table(
        "Weights and importance of the metrics in the saved model, the largest first.",
        label("metric", "name of the metric"),
        score(
            "weight",
            "change of the prediction from the lowest to the highest score of the metric. If the model consists only "
            "of trees, the value is the proportion of the error reduction that splits on this metric achieve, "
            "without interval",
            interval=True,
        ),
    )
    groups: pl.DataFrame = table(
        "Agreement within each group of items. There is no row if there are fewer than two groups.",
        label("method", "method, a row of `comparison`", "Way of combining"),
        label("group", "group of items"),
        count("items", "number of items of the group with a rated output"),
        score("score", "objective within the group", interval=True, best="high"),
        essential=False,
    )
    path: pl.DataFrame = table(
        "Metrics ordered by gain per cost, with the cumulative cost.",
        count("step", "number of the step, from 1"),
        label("metric", "metric that is added at this step"),
        score("cost", "cost of the metric; 1 if no costs are given"),
        score("total_cost", "cumulative cost"),
        score(
            "score",
            "objective on held-out folds, if the metrics for each fold are selected on the other folds, with at most "
            "the cost `total_cost`",
            interval=True,
        ),
        share(
            "chosen",
            "proportion of folds in which this metric is among the metrics that are selected with at most "
            "the cost `total_cost`",
        ),
        essential=False,
    )
    pruning: pl.DataFrame = table(
        "Metrics removed by pruning. There are rows only if the method of the saved model is `xgboost-pruned`.",
        count("step", "number of the step; step 1 has all metrics"),
        count("metrics", "number of metrics in the model"),
        label("removed", "metric removed after this step"),
        score("score", "objective on held-out inner folds"),
        essential=False,
    )
    model: CombinedMetric
    held_out: Ratings

    def with_provenance(self, provenance: Provenance) -> Self:
        """Return a copy with this provenance, which is also stored in the model."""
        return replace(
            super().with_provenance(provenance),
            model=self.model.with_provenance(provenance.digest, str(provenance), provenance.options.get("group")),
        )


@question(
    "custodes combine fit ratings.csv --target coherence --method ridge -o coherence.json",
    target="Target: ASPECT or mean:A,B. Comma list or repeated (default: the only aspect).",
    method=f"Methods: {', '.join(METHODS)}; comma list or repeated. The model of the first method is saved.",
    objective="Statistic to maximise.",
    folds=(
        "Held-out units: item (whole items), or system, dataset or group (one at a time). A table with the columns "
        "item and fold is also possible."
    ),
    repeats="Repetitions of the item folds.",
    unseen="Methods to test on unseen systems, data sets and groups.",
    top="Combine only this number of metrics: those with the highest objective in training (default: all metrics).",
    max_partiality="Limit on the largest partiality of even-handed, in points of win rate. Without a limit, the "
    "penalty with the least partiality is chosen among those that lower the objective by at most .01.",
    calibrate_by="Calibrate predictions separately for each value of this column of items, or for each quartile of "
    "this metric.",
    costs="Table with columns metric (or rater) and cost (default: costs in the raters table, or 1 for each metric).",
)
def combine(
    study: Study,
    *,
    target: str | Sequence[str] | None = None,
    method: str | Sequence[str] = DEFAULT,
    objective: Objective = "kendall",
    folds: str | Path = "item",
    repeats: int = 3,
    unseen: Unseen = "fast",
    top: int | None = None,
    max_partiality: float | None = None,
    calibrate_by: str | None = None,
    costs: Costs | Path | None = None,
    confidence: float = 0.95,
    resamples: int = 1000,
    rng: Rng = 0,
    progress: Progress = silent,
    **selection: Unpack[Selection],
) -> Combine:
    """Fit a combined metric to human ratings, and score each method on held-out data.

    Notes
    -----
    `target` is an aspect, 'mean:A,B', or several of these. A note names each target for which no combination can be
    fitted. For verdicts, the target is the proportion of wins minus the proportion of losses of each output. The first
    `method` is fitted to all data and saved in `model`.

    `objective` is 'kendall', 'spearman' or 'pearson' over outputs, or 'accuracy' on pairs of outputs of one item. The
    methods 'best', 'gp' and 'auto' and pruning maximise the objective. With `folds` = 'item', there are five folds of
    whole items or clusters, drawn `repeats` times. With 'system', 'dataset' or 'group', one system, data set or group
    is held out at a time. Folds can also come from a file with the columns item and fold. `unseen` selects the methods
    that are tested on unseen systems, data sets and groups: 'fast' ('equal' and 'ridge'), 'all' or 'none'. `costs`
    are a mapping from metric to cost, or a table file with the columns metric and cost (default: the raters file).

    'even-handed' penalises partiality. The penalty is the smallest with which the largest partiality is at most
    `max_partiality` points of win rate. Without `max_partiality`, 'even-handed' uses the penalty with the least
    partiality among the penalties that lower the objective by at most .01. `trade_off` has the objective and the
    partiality of each penalty.

    `calibrate_by` adds a separate constant for each kind of output, learned from the residuals of the training part.
    The kinds are values of a column of items, or quartiles of a metric such as length.

    If there are more than 20,000 rated outputs, a random sample of clusters with about 20,000 outputs is used.

    Scales, choices and weights are learned only from the training part of each fold. Scores are means over held-out
    folds. Intervals of scores are Student's t intervals from resampled clusters, without refitting. Intervals of
    differences and gains use the infinitesimal jackknife.

    References
    ----------
    Winata et al. 2024 (MetaMetrics), Section 3.

    Examples
    --------
    >>> import custodes as cu
    >>> methods = ["ridge", "best"]
    >>> made = cu.combine(cu.read("demo"), target="fluency", method=methods, repeats=1, resamples=0, unseen="none")
    >>> made.comparison["method"].to_list()
    ['ridge', 'best']
    """
    settings = Terms(
        methods=_methods(method, top),
        objective=objective,
        folds=str(folds),
        repeats=repeats,
        unseen=unseen,
        top=top,
        max_partiality=max_partiality,
        costs=str(costs) if isinstance(costs, Path) else costs,
        confidence=confidence,
        resamples=resamples,
    )
    if settings.folds != "item":
        ignored_options: dict[str, Any] = {"repeats": repeats} if repeats > 1 else {}  # the default
        ignored_options |= {"unseen": unseen} if unseen == "all" else {}
        refuse_ignored_argument(
            combine, f"it applies only to folds='item', but folds={short_repr(settings.folds)}", **ignored_options
        )
    if selection.get("aspect") is not None:
        raise OptionError(
            "aspect is not allowed, because target names the aspect; give target='ASPECT' or target='mean:A,B'"
        )
    selected_study = study.select(**selection)
    target_names = (
        [None]
        if target is None
        else list(dict.fromkeys(value_list("target", target, labels=selected_study.aspects, allow_descriptions=True)))
    )
    if not target_names:
        raise OptionError("target is empty; give an aspect, or leave target out")
    for target_name in target_names:
        aspects_of(target_name, selected_study.aspects)
    random_generator = np.random.default_rng(rng)
    # The random draws of a target do not depend on the other targets.
    generator_of_target = {target_name: deepcopy(random_generator) for target_name in target_names} | {
        target_names[0]: random_generator
    }
    has_several_targets = len(target_names) > 1

    def answer(target_name: str | None) -> Combine | CustodesError:
        try:
            rng_of_target = generator_of_target[target_name]
            task = build_task(selected_study, target_name)
            if calibrate_by is not None:
                task = replace(task, kinds=kinds_of(study, task.design, task.rated, calibrate_by))
            task = sample_task(task, rng_of_target)
            return _combine_target(task, settings, rng_of_target, silent if has_several_targets else progress)
        except CustodesError as error:
            return error

    # threadpoolctl allows only one thread at a time to set the limit, so it is set before the pool starts threads.
    n_workers = 1 if all(combining_method.fast for combining_method in settings.methods) else os.cpu_count()
    with limit_blas_threads(), ThreadPoolExecutor(n_workers) as thread_pool:
        results_or_errors = (
            list(progress(thread_pool.map(answer, target_names), total=len(target_names), desc="combine"))
            if has_several_targets
            else [answer(target_names[0])]
        )
    target_results = [result_or_error for result_or_error in results_or_errors if isinstance(result_or_error, Combine)]
    error_of_target = {
        target_name: result_or_error
        for target_name, result_or_error in zip(target_names, results_or_errors, strict=True)
        if isinstance(result_or_error, CustodesError)
    }
    if not target_results:
        raise next(iter(error_of_target.values()))
    notes = [note for result_or_error in target_results for note in result_or_error.notes]
    for target_name, target_error in error_of_target.items():
        notes += build_notes(
            (LEFT_OUT, 1, f"{target_name!r} cannot be combined: {target_error}"), aspect=aspect_of(target_name or "")
        )
    return Combine.from_parts(
        [result_or_error.tables() for result_or_error in target_results],
        notes,
        model=target_results[0].model,
        held_out=target_results[0].held_out,
    )


def _methods(method_selection: str | Sequence[str], top: int | None) -> tuple[Method, ...]:
    method_names = tuple(dict.fromkeys(value_list("method", method_selection)))
    if not method_names:
        raise OptionError(f"method is empty; allowed: {', '.join(METHODS)}")
    methods = tuple(METHODS[check_one_of("method", method_name, METHODS)] for method_name in method_names)
    if top is not None and method_names == (BEST.name,):
        raise OptionError(f"top={top} has no effect on the method best, which uses one metric; give another method")
    return methods


def _combine_target(task: Task, settings: Terms, rng: np.random.Generator, progress: Progress) -> Combine:
    """Return the result for one target: the evaluation of all methods, and the model of the first method."""
    settings.check(task)
    metric_costs, notes = costs_of(task, settings.costs)
    initial_rng = deepcopy(rng)
    model_rng, unseen_rng = rng.spawn(2)  # so that the model depends neither on `repeats` nor on `resamples`
    trial = cross_validate(task, settings, rng, progress)
    gain_columns, gain_notes, system_predictions = estimate_generalisation(trial, unseen_rng, progress)
    normalisation, training = training_data(task, settings, task.rated, model_rng, trial.inner)
    _, formula = training.learn(settings.methods[0])
    model_method = METHODS[formula.chosen] if formula.chosen else settings.methods[0]
    scores_of_repeats = trial.repeat_scores()
    method_ratings = held_out_ratings(trial)
    favoritism_table, favoritism_notes = favoritism_columns(trial, method_ratings, deepcopy(initial_rng))
    trade_off_table: dict[str, Any] = {}
    trade_off_notes: list[Note] = []
    if EVEN_HANDED in settings.methods:
        trade_off_table, trade_off_notes = trade_off_columns(
            trial, training.learn(EVEN_HANDED)[1].strength, initial_rng, progress
        )
    table_frames = Combine.part(
        task.target,
        comparison=comparison_columns(trial, scores_of_repeats),
        generalisation=gain_columns,
        differences=difference_columns(trial),
        favoritism=favoritism_table,
        partiality=partiality_columns(trial, system_predictions),
        trade_off=trade_off_table,
        calibration=calibration_columns(task, formula),
        weights=weight_columns(trial, formula, model_method, training, rng),
        groups=group_columns(trial),
        path=path_columns(trial, metric_costs),
        pruning=pruning_columns(task, formula),
    )
    first_method_row = table_frames["comparison"].row(0, named=True)
    generalisation_rows = table_frames["generalisation"].filter(method=first_method_row["method"])
    model = CombinedMetric.make(
        formula,
        of=task,
        scales=normalisation,
        method=model_method.name,
        objective=settings.objective,
        validation={"folds": settings.folds, "repeats": len(trial.folds)}
        | {
            statistic_name: first_method_row[statistic_name]
            for statistic_name in (*STATISTICS, "kendall_low", "kendall_high")
        }
        | {
            "unseen": generalisation_rows.drop("target", "method").to_dicts(),
            "single": best_single_metric(task, training),
        },
    )
    notes = [
        *task.notes,
        *fit_notes(trial, formula, model_method, normalisation, scores_of_repeats),
        *gain_notes,
        *notes,
        *favoritism_notes,
        *trade_off_notes,
    ]
    return Combine.from_parts([table_frames], notes, model=model, held_out=method_ratings)
