"""The glass ceiling: how much of people's judgement can all metrics together predict, and which one adds something?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.answers.question import Rng, question
from custodes.answers.result import Result, result
from custodes.answers.setting import Selection
from custodes.answers.tables import count, label, labels, score, share, table, with_interval
from custodes.arguments import at_least, one_of
from custodes.data.notes import Note, noted
from custodes.data.patterns import Patterns, select_labels
from custodes.data.study import Study
from custodes.errors import InputError, listed
from custodes.evaluate.ceiling.halo import halo_columns
from custodes.evaluate.ceiling.metric_paths import backward_columns, forward_columns, next_columns
from custodes.evaluate.ceiling.missing_information import information_columns, lasso_columns
from custodes.evaluate.ceiling.prediction_target import FOLDS, MODELS, Folds, Model, Target, target_of
from custodes.evaluate.judges import METRIC, Judges, few_clusters_notes, judges
from custodes.evaluate.parallel import each
from custodes.progress import Progress, silent
from custodes.stats import split_half
from custodes.stats.correlation import within_item
from custodes.stats.intervals import ANY, CORRELATION
from custodes.stats.learning import heldout
from custodes.stats.ratios import mean_of_defined
from custodes.stats.system_scores import weighted_item_mean

GAPS = (("humans", "metrics"), ("both", "metrics"), ("both", "humans"))
SPLITS = 20
"""Random halves of the annotators, where there are more ways to split them."""
LONE = "people rated one item or cluster only; holding items out takes two"


@result
class Ceiling(Result):
    """How much of people's judgement metrics predict. `metric` is a metric, `rater` also an aspect of people
    (`human:fluency`). See `ceiling`."""

    BY, PICTURE = "target", "prediction_bars"

    prediction: pl.DataFrame = table(
        "How well each target, an aspect that people rated, is predicted on held-out outputs.",
        label("features", "from `metrics`, from `humans` (people's other aspects), or from `both`", "Predicted from"),
        score(
            "kendall", "tau-b over the outputs of a held-out fold, mean over folds", "τ-b", interval=True, best="high"
        ),
        score(
            "kendall_item",
            "tau-b within items, mean over items; null with plain folds, where the outputs of an item come from several"
            " models",
            "τ-b within items",
            interval=True,
            best="high",
        ),
        count("columns", "raters predicted from", "Raters"),
        count("n", "outputs", "Outputs"),
    )
    gaps: pl.DataFrame = table(
        "Differences between two rows of `prediction`.",
        label("features_a", "a row of `prediction`", "Predicted from"),
        label("features_b", "another one", "Against"),
        score("difference", "of `kendall`, features_a minus features_b, from the same resamples", interval=True),
    )
    people: pl.DataFrame = table(
        "What people themselves leave to predict. No row for a target that a single person rated.",
        count("annotators", "who rated it"),
        score(
            "split_half", "tau-b of the means of two halves of them, in the same folds, mean over splits", interval=True
        ),
        score(
            "attainable",
            "tau-b that a perfect predictor, without ties, would reach with the mean of them all, ties and all; 0 where"
            " halves do not agree",
            interval=True,
        ),
    )
    halo: pl.DataFrame = table(
        "One annotator's rating of the target, predicted by ridge regression. Empty with one annotator or one aspect.",
        label(
            "source",
            "`same annotator` (their own other aspects), `other annotators` (the others' other aspects), `metrics`",
            "Predicted from",
        ),
        score(
            "kendall", "tau-b on held-out outputs, mean over annotators by how much they rated", "τ-b", interval=True
        ),
        score(
            "lead",
            "over `other annotators`, from the same resamples; null for these themselves",
            "Over other annotators",
            interval=True,
        ),
    )
    information: pl.DataFrame = table(
        "What people's other aspects know that metrics do not. No row where people rated one aspect.",
        score("alpha", "penalty of the lasso, from 1 down to .001", "Penalty α"),
        score(
            "mse_ratio", "held-out error with people's other aspects, over without", "Ratio of errors", interval=True
        ),
        score("mse_metrics", "the error without, in squared units of people's scale", "Error, metrics", best="low"),
        score("mse_both", "the error with them", "Error, both", best="low"),
        essential=False,
    )
    lasso: pl.DataFrame = table(
        "Weights of metrics and of people's other aspects along the penalty.",
        score("alpha", "penalty of the lasso", "Penalty α"),
        label("rater", "a metric, or another aspect of people"),
        label("kind", "`metric` or `human`"),
        score("weight", "standardised, fitted on all outputs"),
        essential=False,
    )
    forward: pl.DataFrame = table(
        "Metrics added one after the other, each time the one that helps most.",
        count("step", "from 1; 0 for those in use"),
        label("metric", "added at this step; at step 0 the first two in use, and how many others", "Metric added"),
        score("kendall", "held-out tau-b, from paths that were chosen without the fold", "τ-b", interval=True),
        score("gain", "over the step before; null at the first", interval=True),
        share("chosen", "share of folds whose own path has this metric by now", "Chosen so far in folds"),
    )
    backward: pl.DataFrame = table(
        "Metrics taken out one after the other, the most redundant first. No row with a single metric in use.",
        count("step", "from 1"),
        label(
            "metric",
            "taken out at this step, of those in use (none named: of all): the one least missed, by squared error on"
            " the folds that score it",
            "Taken out",
        ),
        score("kendall", "held-out tau-b of those that are left", "τ-b of the rest", interval=True),
        score("loss", "from the step before", interval=True),
        rows=lambda result: result.backward.filter(pl.col("step") <= 3),
    )
    next: pl.DataFrame = table(
        "What each metric would add or cost, the one that adds most first.",
        label("metric", "its name"),
        score(
            "added",
            "held-out tau-b it adds to those in use (none named: its own); null for those in use",
            "Gain if added",
            interval=True,
        ),
        score(
            "removed",
            "what is lost without it, of those in use (none named: of all), and of a single one all it has; null for"
            " others",
            "Loss if taken out",
            interval=True,
        ),
        rows=lambda result: result.next.filter(pl.int_range(pl.len()).over("target") < 5),
    )
    history: pl.DataFrame = table(
        "The prediction from all metrics that were out by each date. No row with fewer than two dates of release.",
        label("date", "of release, as the raters file gives it"),
        labels("newest", "metrics of this date", "New"),
        count("columns", "metrics out by then", "Metrics"),
        score("kendall", "held-out tau-b from all of them", "τ-b", interval=True),
    )
    left_out: pl.DataFrame = table(
        "Who could not take part, and why.", label("rater", "its name"), label("reason", "why"), by=""
    )


@question(
    "custodes ceiling ratings.csv --human 'expert*' --in-use 'bleu,rouge*'",
    folds="Held-out units: whole items, or single outputs (plain; leaks the item).",
    model="Prediction model.",
    in_use="Metrics in use, the start of the forward path: comma list of globs.",
)
def ceiling(
    study: Study,
    *,
    folds: Folds = "item",
    model: Model = "ridge",
    in_use: Patterns = None,
    steps: int = 10,
    confidence: float = 0.95,
    resamples: int = 1000,
    rng: Rng = 0,
    progress: Progress = silent,
    **selection: Unpack[Selection],
) -> Ceiling:
    """How well human ratings can be predicted: from all metrics, from the other aspects, and from both.

    Held out: five folds, of whole items (or clusters) with folds='item', of single outputs with 'plain' (the item
    leaks; for reproducing the paper). model: 'ridge' (regression) or 'xgboost' (boosted trees, as in the paper; needs
    the extra `learn`); forward path and gains always use ridge regression.
    in_use: patterns of the metrics that you have; the path starts there (default: from nothing), up to `steps` more;
    the backward path takes out up to `steps` of them (default: of all), its order chosen on the folds that score it.
    Missing scores: XGBoost has its own way, ridge and lasso take the mean in training.

    `kendall` is tau-b over the outputs of each held-out fold, averaged; `kendall_item` over the systems of each item
    (null with plain folds: different models predict them). Intervals: Student's over resampled clusters with the
    predictions kept, so they hold for these models, not for refitted ones. The path is chosen on all data; its scores
    come from paths chosen without the held-out fold. An aspect rated on one item or cluster only is left out. Raises
    `OptionError` for unknown names, `InputError` with fewer than two raters, systems, items or clusters.

    >>> import custodes as cu
    >>> result = cu.ceiling(cu.read("demo"), model="ridge", resamples=0, steps=2)
    >>> result.prediction.filter(target="fluency")["features"].to_list()
    ['metrics', 'humans', 'both']

    Source: Colombo et al. 2023 (glass ceiling), figures 1, 3, 7 and 8.
    """
    one_of("folds", folds, FOLDS)
    one_of("model", model, MODELS)
    at_least("steps", steps, 1)
    who = _without_lone_items(judges(study, **selection))
    targets, metrics = who.of_kind("human").tolist(), who.of_kind(METRIC)
    for wanting, message in (
        (not len(metrics), f"every metric is constant or has no scores ({listed(who.names)})"),
        (who.design.n_units < 2, "one item or cluster only; holding items out takes two"),
        (
            not targets,
            "nothing to predict: people gave verdicts only, constant ratings, or ratings of one item or cluster only",
        ),
    ):
        if wanting:
            raise InputError(f"{study.name}: {message}")
    in_use_places = metrics[:0] if in_use is None else _in_use(who, in_use)

    def answer(me: int, rng: np.random.Generator) -> tuple[dict[str, pl.DataFrame], list[int]]:
        of_models, of_people = rng.spawn(2)  # estimates do not depend on the number of resamples
        target = target_of(who, me, folds, resamples, rng)
        fit = partial(MODELS[model], seed=int(of_models.integers(2**31)))
        halo, strangers = halo_columns(target, confidence)
        return Ceiling.part(
            target.aspect,
            **_prediction_columns(target, fit, confidence),
            people=_people_columns(target, of_people, confidence),
            halo=halo,
            information=information_columns(target, confidence),
            lasso=lasso_columns(target),
            forward=forward_columns(target, in_use_places, steps, confidence),
            backward=backward_columns(target, in_use_places, steps, confidence),
            next=next_columns(target, in_use_places, confidence),
            history=_history_columns(target, fit, confidence),
        ), strangers

    answers = each(
        answer,
        targets,
        rng=np.random.default_rng(rng),
        progress=progress,
        desc="ceiling",
        label=who.rater_aspects.__getitem__,
        threads=model == "xgboost",
    )
    parts, strangers_of_targets = zip(*answers, strict=True)
    notes = [*who.notes, *few_clusters_notes(who.design.n_units, resamples)]
    result = Ceiling.of([*parts, Ceiling.part(left_out=who.left_out_columns())], notes)
    strangers = [who.people[i] for i in sorted(set().union(*strangers_of_targets))]
    return replace(result, notes=(*result.notes, *_notes(result, who, strangers)))


def _without_lone_items(who: Judges) -> Judges:
    """The judges without the aspects that people rated on one item or cluster only."""
    alone = {who.names[k]: who.rater_aspects[k] for k in who.of_kind("human") if _clusters(who, k) < 2}
    raters = np.array([name in alone for name in who.names])[:, np.newaxis, np.newaxis]
    aspects = np.array([aspect in alone.values() for aspect in who.aspects])[:, np.newaxis, np.newaxis, np.newaxis]
    return replace(
        who,
        scores=np.where(raters, np.nan, who.scores),
        annotators=np.where(aspects, np.nan, who.annotators),
        constant=(*who.constant, *alone),
        left_out=(*who.left_out, *((name, LONE) for name in alone)),
    )


def _clusters(who: Judges, rater: int) -> int:
    """How many clusters of items a rater rated."""
    return len(np.unique(who.design.units[np.isfinite(who.scores[rater]).any(axis=1)]))


def _in_use(who: Judges, patterns: Patterns) -> NDArray[np.intp]:
    """The positions among the metrics of those that patterns name; a rater of several aspects stands for each."""
    named = [(who.names[i], who.raters[i]) for i in who.of_kind(METRIC)]
    labels = list(dict.fromkeys(name for side in zip(*named, strict=True) for name in side))
    chosen = select_labels(patterns, labels, option="in_use", what="metric")
    return np.flatnonzero([not {*names}.isdisjoint(chosen) for names in named])


def _prediction_columns(target: Target, fit: heldout.Fit, confidence: float) -> dict[str, dict[str, Any]]:
    """What each set of features predicts, and the gaps between them."""
    names, sets = list(target.columns), list(target.columns.values())
    predicted = target.predicted((target.x[:, columns] for columns in sets), fit)
    draws = target.agreement(predicted)
    within = np.full_like(draws, np.nan)
    if target.whole:  # else the outputs of an item are predicted by different models
        by_item = within_item(target.grid(target.y), target.grid(predicted), kind="kendall")
        within = weighted_item_mean(by_item, units=target.who.design.units, weights=target.times)
    gaps = [(a, b) for a, b in GAPS if {a, b} <= {*names}]
    first, second = ([names.index(pair[side]) for pair in gaps] for side in (0, 1))
    return {
        "prediction": {
            "features": names,
            **with_interval("kendall", draws, confidence, clusters=target.n_clusters, bounds=CORRELATION),
            **with_interval("kendall_item", within, confidence, clusters=target.n_clusters, bounds=CORRELATION),
            "columns": [len(columns) for columns in sets],
            "n": len(target.y),
        },
        "gaps": {
            "features_a": [a for a, _ in gaps],
            "features_b": [b for _, b in gaps],
            **with_interval(
                "difference", draws[:, first] - draws[:, second], confidence, clusters=target.n_clusters, bounds=ANY
            ),
        },
    }


def _people_columns(target: Target, rng: np.random.Generator, confidence: float) -> dict[str, Any]:
    """How well half of the annotators predict the other half, and what that leaves to a perfect predictor."""
    if len(target.persons) < 2:
        return {}
    by_name = sorted(target.persons, key=target.who.people.__getitem__)  # halves do not depend on the order of people
    persons = np.stack([target.persons[person] for person in by_name])
    ways = split_half.halves(len(persons), most=SPLITS, rng=rng)
    draws = np.stack(
        [
            replace(target, y=target.rows(mean_of_defined(persons[one], axis=0))).agreement(
                target.rows(mean_of_defined(persons[other], axis=0))[np.newaxis]
            )
            for one, other in ways
        ]
    )
    defined = np.isfinite(draws[:, 0, 0])
    chosen = np.flatnonzero(defined | ~defined.any())  # where none says anything, their mean says nothing either
    split = draws[chosen].mean(axis=0)
    best = split_half.attainable(split, target.rows(persons).T, [ways[k] for k in chosen], rng=rng)
    return {
        "annotators": len(persons),
        **with_interval("split_half", split, confidence, clusters=target.n_clusters, bounds=CORRELATION),
        **with_interval("attainable", best, confidence, clusters=target.n_clusters, bounds=CORRELATION),
    }


def _history_columns(target: Target, fit: heldout.Fit, confidence: float) -> dict[str, Any]:
    """The prediction from all metrics that were out by each date of release (the paper's figure 1)."""
    dated = [(date, i) for i in target.columns["metrics"] if (date := target.who.dates[i]) is not None]
    dates = sorted({date for date, _ in dated})
    if len(dates) < 2:
        return {}
    sets = [[i for date, i in dated if date <= last] for last in dates]
    predicted = target.predicted((target.x[:, columns] for columns in sets), fit)
    return {
        "date": dates,
        "newest": [[target.who.names[i] for date, i in dated if date == last] for last in dates],
        "columns": [len(columns) for columns in sets],
        **with_interval(
            "kendall", target.agreement(predicted), confidence, clusters=target.n_clusters, bounds=CORRELATION
        ),
    }


def _notes(result: Ceiling, who: Judges, strangers: Sequence[str]) -> list[Note]:
    """What the design of the study does not let be said, where people cannot be compared with each other, and where
    something predicts them better than annotators with independent errors would allow; `strangers` have no part in the
    halo."""
    humans, metrics = who.of_kind("human"), who.of_kind(METRIC)
    rows = int(np.isfinite(who.scores[humans]).any(axis=0).sum())
    undated = sum(who.dates[i] is None for i in metrics)
    targets = result.prediction["target"].unique(maintain_order=True)
    alone = targets.filter(~targets.is_in(result.people["target"].to_list()))
    where = "" if len(alone) == len(targets) else f" of {listed(map(repr, alone))}"
    undivided = result.people.filter(pl.col("split_half").is_null())["target"]
    both = result.prediction.join(result.people, on="target", maintain_order="left")
    beyond = both.filter(pl.col("kendall_low") > pl.col("attainable_high"))["target"].unique(maintain_order=True)
    return noted(
        (
            "one-aspect",
            len(humans) < 2,
            "people rated one aspect only: nothing to say of other aspects (humans, both, information)",
        ),
        (
            "more-features-than-rows",
            len(metrics) if len(metrics) >= rows else 0,
            f"{len(metrics)} metrics and {rows} rated outputs: more features than data; expect predictions near 0",
        ),
        (
            "undated-metrics",
            undated if undated < len(metrics) else 0,
            f"{undated} metrics have no date of release, so the history leaves them out",
        ),
        (
            "two-clusters",
            min(_clusters(who, k) for k in humans) == 2,
            "people rated two items or clusters only: no forward path can be chosen without the held-out one",
        ),
        ("weights-unused", who.design.item_weights is not None, "item weights do not act on predictions"),
        (
            "one-annotator",
            len(alone),
            f"ratings{where} by one annotator: nothing to say of how people agree (people, halo)",
        ),
        (
            "no-split-half",
            len(undivided),
            f"annotators cannot be split in halves that rated the same outputs: {listed(map(repr, undivided))}",
        ),
        (
            "halo-annotators",
            len(strangers),
            "no part in the halo of an aspect, as they rated too little, or nothing that others did:"
            f" {listed(strangers)}",
        ),
        (
            "attainable-exceeded",
            len(beyond),
            f"predictions beyond what annotators' agreement allows: {listed(beyond)}; their errors are not independent"
            " there (or slots mix persons), so 'attainable' is no bound",
        ),
    )
