"""The glass ceiling: how much of people's judgement can all metrics together predict, and which one adds something?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.data.notes import Note
from custodes.data.panel import Floats
from custodes.data.patterns import Patterns, select_labels
from custodes.data.study import Study
from custodes.errors import InputError, OptionError, listed, suggestion
from custodes.evaluate.ceiling.halo import halo_table
from custodes.evaluate.ceiling.metric_paths import backward_table, forward_table, next_table
from custodes.evaluate.ceiling.missing_information import information_table, lasso_table
from custodes.evaluate.ceiling.prediction_target import (
    FOLDS,
    Folds,
    Part,
    Target,
    interval_columns,
    ridge_fit,
    target_of,
)
from custodes.evaluate.comparison import Selection
from custodes.evaluate.judges import METRIC, Judges, few_clusters_notes, judges
from custodes.evaluate.parallel import each
from custodes.evaluate.people import mean_over_people
from custodes.evaluate.result import Result, Rng, at_least, between, columns, provenance, seeded, stacked
from custodes.progress import Progress, silent
from custodes.stats.agreement import reliability
from custodes.stats.learning import boost, heldout
from custodes.stats.resampling import resample

Model = Literal["xgboost", "ridge"]
MODELS: tuple[Model, ...] = ("xgboost", "ridge")
FEATURES = ("metrics", "humans", "both")
GAPS = (("humans", "metrics"), ("both", "metrics"), ("both", "humans"))
SPLITS = 20
"""Random halves of the annotators, where there are more ways to split them."""


@dataclass(frozen=True, kw_only=True)
class Ceiling(Result):
    """`prediction` of each target from metrics, other aspects, or both, with their `gaps`; what `people` themselves
    leave to predict; how much of what one aspect says of another goes with the annotator (`halo`); missing
    `information` and weights (`lasso`) along the penalty; the `forward` path, and the `backward` one that takes metrics
    out; which metric `next`; the `history` of release dates; who is `left_out`. See `ceiling`."""

    prediction: pl.DataFrame
    gaps: pl.DataFrame
    people: pl.DataFrame
    halo: pl.DataFrame
    information: pl.DataFrame
    lasso: pl.DataFrame
    forward: pl.DataFrame
    backward: pl.DataFrame
    next: pl.DataFrame
    history: pl.DataFrame
    left_out: pl.DataFrame


def ceiling(
    study: Study,
    *,
    folds: Folds = "item",
    model: Model = "xgboost",
    in_use: Patterns = None,
    steps: int = 10,
    confidence: float = 0.95,
    resamples: int = 1000,
    rng: Rng = 0,
    progress: Progress = silent,
    **selection: Unpack[Selection],
) -> Ceiling:
    """How much of people's judgement of each aspect can be predicted: from all metrics, from other aspects, from both.

    Held out: five folds, of whole items (or clusters) with folds='item', of single outputs with 'plain' (the item
    leaks; for reproducing the paper). model: 'xgboost' or 'ridge'; forward path and gains always use ridge regression.
    in_use: patterns of the metrics that you have; the path starts there (default: from nothing), up to `steps` more;
    the backward path takes out up to `steps` of them (default: of all), its order chosen on the folds that score it.
    Missing scores: XGBoost has its own way, ridge and lasso take the mean in training.

    `kendall` is tau-b over the outputs of each held-out fold, averaged; `kendall_item` over the systems of each item
    (null with plain folds: different models predict them). Intervals: percentiles over resampled clusters with the
    predictions kept, so they hold for these models, not for refitted ones. The path is chosen on all data; its scores
    come from paths chosen without the held-out fold. An aspect rated on one item or cluster only is left out. Raises
    `OptionError` for unknown names, `InputError` with fewer than two raters, systems, items or clusters.

    >>> import custodes as cu
    >>> made = cu.ceiling(cu.read("demo"), model="ridge", resamples=0, steps=2)
    >>> made.prediction.filter(target="fluency")["features"].to_list()
    ['metrics', 'humans', 'both']

    Source: Colombo et al. 2023 (glass ceiling), figures 1, 3, 7 and 8.
    """
    for name, value, allowed in (("folds", folds, FOLDS), ("model", model, MODELS)):
        if value not in allowed:
            raise OptionError(f"{name}={value!r}; allowed: {', '.join(allowed)}{suggestion(value, allowed)}")
    between("confidence", confidence, 0, 1)
    at_least("resamples", resamples, 0)
    at_least("steps", steps, 1)
    who = _without_lone_items(judges(study, **selection))
    metrics = who.of_kind(METRIC)
    if not len(metrics):
        raise InputError(f"{study.name}: every metric is constant or has no scores ({listed(who.names)})")
    if who.n_units < 2:
        raise InputError(f"{study.name}: one item or cluster only; holding items out takes two")
    given = metrics[:0] if in_use is None else _in_use(who, metrics, in_use)
    generator, seed = seeded(rng)
    parts = [Part(aspect=who.rater_aspects[k], me=int(k)) for k in who.of_kind("human")]
    if not parts:
        raise InputError(
            f"{study.name}: nothing to predict: people gave verdicts only, constant ratings, or ratings of one item or"
            " cluster only"
        )

    def answer(part: Part, rng: np.random.Generator) -> tuple[dict[str, pl.DataFrame], NDArray[np.intp]]:
        target = target_of(who, part, folds, resamples, rng)
        fit = _fit(model, int(rng.integers(2**31)))
        predicted = {
            name: heldout.cross_predicted(target.x[:, own], target.y, target.fold, groups=target.groups, fit=fit)
            for name, own in target.columns.items()
        }
        draws = target.kendall(np.stack(list(predicted.values())))
        halo, silent = halo_table(target, confidence)
        return {
            "prediction": _prediction_table(target, predicted, draws, confidence),
            "gaps": _gap_table(target, list(predicted), draws, confidence),
            "people": _people_table(target, rng, confidence),
            "halo": halo,
            "information": information_table(target, confidence),
            "lasso": lasso_table(target),
            "forward": forward_table(target, given, steps, confidence),
            "backward": backward_table(target, given, steps, confidence),
            "next": next_table(target, given, confidence),
            "history": _history_table(target, fit, confidence),
        }, silent

    answers, silent = zip(*each(answer, parts, rng=generator, progress=progress, desc="ceiling"), strict=True)
    tables = {name: stacked([own[name] for own in answers]) for name in answers[0]}
    people = study.select(**selection).humans
    made = [
        *_notes(who),
        *few_clusters_notes(who.n_units, resamples),
        *_people_notes(who, tables["people"]),
        *_halo_notes([people[i] for i in np.unique(np.concatenate(silent))]),
        *_bound_notes(tables),
    ]
    notes = tuple(dict.fromkeys([*who.notes, *made]))
    options = {
        **selection,
        "folds": folds,
        "model": model,
        "in_use": in_use,
        "steps": steps,
        "confidence": confidence,
        "resamples": resamples,
    }
    return Ceiling(
        provenance=provenance("ceiling", study, options=options, seed=seed, notes=notes),
        notes=notes,
        left_out=who.left_out_table([]),
        **tables,
    )


def _without_lone_items(who: Judges) -> Judges:
    """The judges without the aspects that people rated on one item or cluster only."""
    rated = [np.unique(who.units[np.isfinite(own).any(axis=1)]) for own in who.scores]
    alone = [k for k in who.of_kind("human") if len(rated[k]) < 2] if who.n_units > 1 else []
    if not alone:
        return who
    scores, annotators = who.scores.copy(), who.annotators.copy()
    scores[alone] = np.nan
    annotators[[who.aspects.index(who.rater_aspects[k]) for k in alone]] = np.nan
    names = [who.names[k] for k in alone]
    reason = "people rated one item or cluster only; holding items out takes two"
    return replace(
        who,
        scores=scores,
        annotators=annotators,
        constant=(*who.constant, *names),
        left_out=(*who.left_out, *((name, reason) for name in names)),
    )


def _in_use(who: Judges, metrics: NDArray[np.intp], patterns: Patterns) -> NDArray[np.intp]:
    """The metrics that patterns name; a rater of several aspects stands for each of them."""
    names, raters = [who.names[i] for i in metrics], [who.raters[i] for i in metrics]
    chosen = select_labels(patterns, list(dict.fromkeys([*names, *raters])), option="in_use", what="metric")
    return metrics[[name in chosen or rater in chosen for name, rater in zip(names, raters, strict=True)]]


def _fit(model: Model, seed: int) -> heldout.Fit:
    """What learns from a training part."""

    def xgboost(x: Floats, y: Floats, groups: NDArray[np.int64]) -> Callable[[Floats], Floats]:
        learnt = boost.boosted(x, y, seed=seed, **boost.SETTINGS)
        return lambda new: boost.predict_boosted(learnt, new)

    return ridge_fit if model == "ridge" else xgboost


def _prediction_table(target: Target, predicted: dict[str, Floats], draws: Floats, confidence: float) -> pl.DataFrame:
    within = np.full_like(draws, np.nan)
    if target.by == "item":  # else the outputs of an item are predicted by different models
        within = heldout.heldout_item_kendall(
            target.grid(target.y),
            target.grid(np.stack(list(predicted.values()))),
            units=target.who.units,
            weights=target.weights,
        )
    return columns(
        {
            "target": [target.aspect] * len(predicted),
            "features": list(predicted),
            **interval_columns("kendall", draws, confidence),
            **interval_columns("kendall_item", within, confidence),
            "columns": np.array([len(target.columns[name]) for name in predicted]),
            "n": np.full(len(predicted), len(target.y)),
        }
    )


def _gap_table(target: Target, features: list[str], draws: Floats, confidence: float) -> pl.DataFrame:
    """Differences between sets of features, from the same resamples."""
    gaps = [(a, b) for a, b in GAPS if a in features and b in features]
    pairs = np.array([[features.index(a), features.index(b)] for a, b in gaps], dtype=np.intp).reshape(-1, 2)
    difference = draws[:, pairs[:, 0]] - draws[:, pairs[:, 1]]
    low, high = resample.percentile_interval(difference[1:], confidence=confidence)
    text = pl.String
    return pl.DataFrame(
        {
            "target": pl.Series([target.aspect] * len(gaps), dtype=text),
            "features_a": pl.Series([a for a, _ in gaps], dtype=text),
            "features_b": pl.Series([b for _, b in gaps], dtype=text),
        }
    ).hstack(columns({"difference": difference[0], "low": low, "high": high}))


def _people_table(target: Target, rng: np.random.Generator, confidence: float) -> pl.DataFrame:
    """How well half of the annotators predict the other half, and what that leaves to a perfect predictor."""
    who = target.who
    persons = who.annotators[who.aspects.index(target.aspect)]
    persons = persons[np.isfinite(persons).any(axis=(1, 2))]
    total = len(persons)
    ways = reliability.halves(total, most=SPLITS, rng=rng) if total > 1 else []
    fold = target.fold_grid(target.fold)
    draws = [
        heldout.heldout_kendall(
            mean_over_people(persons[one]),
            mean_over_people(persons[other])[np.newaxis],
            fold,
            units=who.units,
            weights=target.weights,
        )
        for one, other in ways
    ]
    told = [k for k, own in enumerate(draws) if np.isfinite(own[0]).all()]
    if not ways:
        split = best = np.empty((len(target.weights), 0))
    elif not told:
        split = best = np.full((len(target.weights), 1), np.nan)
    else:
        split = np.mean([draws[k] for k in told], axis=0)
        marks = persons.reshape(total, -1)[:, target.row]
        best = reliability.attainable(split, marks, [ways[k] for k in told], rng=rng)
    n = split.shape[1]
    frame = columns(
        {
            "annotators": np.full(n, total),
            **interval_columns("split_half", split, confidence),
            **interval_columns("attainable", best, confidence),
        }
    )
    return frame.insert_column(0, pl.Series("target", [target.aspect] * n, dtype=pl.String))


def _history_table(target: Target, fit: heldout.Fit, confidence: float) -> pl.DataFrame:
    """The prediction from all metrics that were out by each date of release (the paper's figure 1)."""
    who = target.who
    dated = [(who.dates[i], i) for i in target.columns["metrics"] if who.dates[i] is not None]
    dates = sorted({str(date) for date, _ in dated})
    if len(dates) < 2:
        dates = []
    sets = [np.array([i for date, i in dated if str(date) <= last], dtype=np.intp) for last in dates]
    predicted = [
        heldout.cross_predicted(target.x[:, own], target.y, target.fold, groups=target.groups, fit=fit) for own in sets
    ]
    draws = target.kendall(np.stack(predicted)) if predicted else np.empty((len(target.weights), 0))
    newest = [[who.names[i] for date, i in dated if date == last] for last in dates]
    labels = pl.DataFrame(
        {
            "target": pl.Series([target.aspect] * len(dates), dtype=pl.String),
            "date": pl.Series(dates, dtype=pl.String),
            "newest": pl.Series(newest, dtype=pl.List(pl.String)),
            "columns": pl.Series([len(own) for own in sets], dtype=pl.Int64),
        }
    )
    return labels.hstack(columns(interval_columns("kendall", draws, confidence)))


def _bound_notes(tables: dict[str, pl.DataFrame]) -> list[Note]:
    """Where something predicts people better than annotators with independent errors would allow."""
    both = tables["prediction"].join(tables["people"], on="target", how="inner", maintain_order="left")
    beyond = both.filter(pl.col("low") > pl.col("attainable_high"))["target"].unique(maintain_order=True)
    if not beyond.len():
        return []
    message = (
        f"predictions beyond what annotators' agreement allows: {listed(beyond)}; their errors are not independent"
        " there (or slots mix persons), so 'attainable' is no bound"
    )
    return [Note(rule="attainable-exceeded", message=message, count=beyond.len())]


def _notes(who: Judges) -> list[Note]:
    notes = []
    metrics = who.of_kind(METRIC)
    if len(who.of_kind("human")) < 2:
        message = "people rated one aspect only: nothing to say of other aspects (humans, both, information)"
        notes.append(Note(rule="one-aspect", message=message))
    rows = int(np.isfinite(who.scores[who.of_kind("human")]).any(axis=0).sum())
    if len(metrics) >= rows:
        message = f"{len(metrics)} metrics and {rows} rated outputs: more features than data; expect predictions near 0"
        notes.append(Note(rule="more-features-than-rows", message=message, count=len(metrics)))
    dated = sum(who.dates[i] is not None for i in metrics)
    if 0 < dated < len(metrics):
        message = f"{len(metrics) - dated} metrics have no date of release, so the history leaves them out"
        notes.append(Note(rule="undated-metrics", message=message, count=len(metrics) - dated))
    rated = [who.units[np.isfinite(who.scores[k]).any(axis=1)] for k in who.of_kind("human")]
    if min(len(np.unique(units)) for units in rated) == 2:
        message = "people rated two items or clusters only: no forward path can be chosen without the held-out one"
        notes.append(Note(rule="two-clusters", message=message))
    if who.weights is not None:
        notes.append(Note(rule="weights-unused", message="item weights do not act on predictions"))
    return notes


def _people_notes(who: Judges, people: pl.DataFrame) -> list[Note]:
    targets = [who.rater_aspects[k] for k in who.of_kind("human")]
    alone = [target for target in targets if target not in set(people["target"])]
    notes = []
    if alone:
        where = "" if len(alone) == len(targets) else f" of {listed(map(repr, alone))}"
        message = f"ratings{where} by one annotator: nothing to say of how people agree (people, halo)"
        notes.append(Note(rule="one-annotator", message=message, count=len(alone)))
    apart = people.filter(pl.col("split_half").is_null())["target"]
    if not apart.is_empty():
        message = f"annotators cannot be split in halves that rated the same outputs: {listed(map(repr, apart))}"
        notes.append(Note(rule="no-split-half", message=message, count=apart.len()))
    return notes


def _halo_notes(silent: Sequence[str]) -> list[Note]:
    if not silent:
        return []
    message = (
        f"no part in the halo of an aspect, as they rated too little, or nothing that others did: {listed(silent)}"
    )
    return [Note(rule="halo-annotators", message=message, count=len(silent))]
