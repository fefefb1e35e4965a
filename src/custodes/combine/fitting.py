"""Fit a combined metric, and say honestly how good each way of combining is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.combine.combination import Combination
from custodes.combine.costs import cost_path, costs_of
from custodes.combine.methods import METHODS, Formula, Lesson, trees_on
from custodes.combine.normalise import contradictions
from custodes.combine.task import Task, aspect_of, outer_folds, task
from custodes.combine.validation import STATISTICS, lesson_of, scores, validated
from custodes.data.notes import Note
from custodes.data.panel import Floats
from custodes.data.raters import Raters
from custodes.data.ratings import Ratings
from custodes.data.study import Study
from custodes.errors import OptionError, listed, suggestion
from custodes.evaluate.comparison import HUMAN, Selection
from custodes.evaluate.favoritism import favoritism
from custodes.evaluate.judges import METRIC
from custodes.evaluate.parallel import one_core
from custodes.evaluate.result import Result, Rng, at_least, between, columns, provenance, seeded
from custodes.progress import Progress, silent
from custodes.stats import resample
from custodes.stats.objective import OBJECTIVES, Objective

DEFAULT = ("auto", "best", "equal", "ridge", "pairwise", "xgboost", "blend")
REFITS = 100
"""Bootstrap refits behind the intervals of weights; of trees a fifth as many, of `gp` none."""


@dataclass(frozen=True, kw_only=True)
class CombineFit(Result):
    """`comparison` of the methods on held-out data, their `differences`, their `favoritism`; `weights` of the saved
    model; `groups` of items; the `path` of score against cost; the `pruning`. `model` is the combination, fitted on
    everything by the first method; `held_out` are the ratings of every method for outputs it had not seen (of the
    first repeat). See `combine_fit`."""

    comparison: pl.DataFrame
    differences: pl.DataFrame
    favoritism: pl.DataFrame
    weights: pl.DataFrame
    groups: pl.DataFrame
    path: pl.DataFrame
    pruning: pl.DataFrame
    model: Combination
    held_out: Ratings


def combine_fit(
    study: Study,
    *,
    target: str | None = None,
    method: str | Sequence[str] = DEFAULT,
    objective: Objective = "kendall",
    folds: str | Path = "item",
    repeats: int = 3,
    top: int | None = None,
    costs: Mapping[str, float] | str | Path | None = None,
    confidence: float = 0.95,
    resamples: int = 1000,
    rng: Rng = 0,
    progress: Progress = silent,
    **selection: Unpack[Selection],
) -> CombineFit:
    """A combined metric calibrated to people's ratings, and every method's score on data it has not seen.

    target: an aspect, or 'mean:A,B' (None: the only one); where people gave verdicts, the share of wins less losses of
    each output. method: one or several of 'auto' (the best of the quick ones in inner folds), 'best' (single metric),
    'equal', 'ridge', 'pairwise' (logistic on preferences), 'xgboost', 'blend' (the mean of ridge and xgboost),
    'xgboost-pruned', 'gp' (Bayesian optimisation of weights of the `top` metrics); the first one is fitted on
    everything and kept in `model`. objective: what 'best', 'gp', 'auto' and pruning maximise: 'kendall', 'spearman',
    'pearson' (over outputs) or 'accuracy' (pairs of outputs of one item in people's order). folds: 'item' (five folds
    of whole items or clusters, `repeats` times), or leave one 'system', 'dataset' or 'group' out, or a file
    `item, fold`. costs: by metric, a table `metric, cost`, or the raters file's column.

    Scales, choices and weights are learnt in the training part alone. Scores are averages over held-out folds;
    intervals are percentiles over resampled clusters with the predictions kept. Raises `OptionError` for unknown names,
    `InputError` where there is nothing to learn.

    >>> import custodes as cu
    >>> made = cu.combine_fit(cu.read("demo"), target="fluency", method=["ridge", "best"], repeats=1, resamples=0)
    >>> made.comparison["method"].to_list()
    ['ridge', 'best']

    Source: Winata et al. 2024 (MetaMetrics), section 3.
    """
    methods = _checked_methods(method)
    folds, costs = str(folds), str(costs) if isinstance(costs, Path) else costs
    if objective not in OBJECTIVES:
        raise OptionError(
            f"objective={objective!r}; allowed: {', '.join(OBJECTIVES)}{suggestion(objective, OBJECTIVES)}"
        )
    if objective == "accuracy" and folds == "system":
        raise OptionError("objective='accuracy' compares systems of an item, and folds='system' holds out one: no pair")
    between("confidence", confidence, 0, 1)
    at_least("resamples", resamples, 0)
    at_least("repeats", repeats, 1)
    if top is not None:
        at_least("top", top, 1)
    of = task(study, target=target, **selection)
    if objective == "accuracy" and not (np.isfinite(of.human).sum(axis=1) > 1).any():
        raise OptionError("objective='accuracy' compares outputs of an item, and people rated one of each: no pair")
    price, cost_notes = costs_of(of, costs)
    generator, seed = seeded(rng)
    with one_core():
        (own,) = generator.spawn(1)  # so that the model depends neither on `repeats` nor on `resamples`
        held_out = outer_folds(of, folds, repeats=repeats, rng=generator)
        predicted, seconds, used = validated(of, methods, held_out, objective, top, generator, progress)
        weights = resample.with_point(resample.bootstrap_weights(of.n_units, resamples, generator))
        draws = {name: scores(of, predicted, held_out, name, weights) for name in STATISTICS}
        lesson = lesson_of(of, np.ones(of.human.shape, dtype=bool), objective, top, own)
        scales, rows, whole = lesson
        formula = METHODS[methods[0]](whole)
        options = {
            **selection,
            "target": of.target,
            "method": list(methods),
            "objective": objective,
            "folds": folds,
            "repeats": repeats,
            "top": top,
            "costs": costs if costs is None or isinstance(costs, str) else dict(costs),
            "confidence": confidence,
            "resamples": resamples,
        }
        ratings = _held_out_ratings(of, methods, predicted[0])
        favour, favour_notes = _favoritism_table(study, of, methods, ratings, confidence, resamples, seed)
        notes = tuple(
            dict.fromkeys([*of.notes, *_notes(of, methods, formula, held_out, folds), *cost_notes, *favour_notes])
        )
        made = provenance("combine_fit", study, options=options, seed=seed, notes=notes)
        comparison = _comparison_table(methods, draws, predicted, of, held_out, objective, seconds, used, confidence)
        model = Combination.make(
            formula,
            of=of,
            scales=scales,
            method=formula.chosen or methods[0],
            objective=objective,
            validation=_validation(comparison.row(0, named=True), folds, len(held_out)),
            provenance={"made": str(made), "outputs": len(rows), "items": int(np.isfinite(of.human).any(axis=1).sum())},
        )
        tables = {
            "comparison": comparison,
            "differences": _difference_table(methods, draws[objective], confidence),
            "favoritism": favour,
            "weights": _weight_table(of, methods[0], formula, whole, confidence, resamples, generator),
            "groups": _group_table(of, methods, predicted, held_out, objective, weights, confidence),
            "path": cost_path(of, price, held_out[0], weights, confidence),
            "pruning": _pruning_table(of, formula),
        }
        return CombineFit(
            provenance=made,
            notes=notes,
            model=model,
            held_out=ratings,
            **{name: table.select(pl.lit(of.target).alias("target"), pl.all()) for name, table in tables.items()},
        )


def _checked_methods(method: str | Sequence[str]) -> tuple[str, ...]:
    names = (method,) if isinstance(method, str) else tuple(dict.fromkeys(method))
    for name in names:
        if name not in METHODS:
            raise OptionError(f"method={name!r}; allowed: {', '.join(METHODS)}{suggestion(name, METHODS)}")
    if not names:
        raise OptionError(f"method is empty; allowed: {', '.join(METHODS)}")
    return names


def _comparison_table(
    methods: tuple[str, ...],
    draws: dict[str, Floats],
    predicted: Floats,
    of: Task,
    held_out: list[NDArray[np.intp]],
    objective: Objective,
    seconds: Floats,
    used: Floats,
    confidence: float,
) -> pl.DataFrame:
    data: dict[str, Any] = {"method": list(methods)}
    for name, values in draws.items():
        low, high = resample.percentile_interval(values[1:], confidence=confidence)
        ends = ("low", "high") if name == "kendall" else (f"{name}_low", f"{name}_high")
        data |= {name: values[0], ends[0]: low, ends[1]: high}
    each_repeat = np.stack(
        [
            scores(of, own[np.newaxis], [fold], objective, np.ones((1, of.n_units)))[0]
            for own, fold in zip(predicted, held_out, strict=True)
        ]
    )
    spread = each_repeat.std(axis=0, ddof=1) if len(held_out) > 1 else np.full(len(methods), np.nan)
    data |= {"spread": spread, "seconds": seconds.mean(axis=0), "metrics_used": used.mean(axis=0)}
    return columns(data)


def _difference_table(methods: tuple[str, ...], draws: Floats, confidence: float) -> pl.DataFrame:
    """Differences of the objective between methods, from the same folds and resamples."""
    first, second = np.triu_indices(len(methods), 1)
    difference = draws[:, first] - draws[:, second]
    low, high = resample.percentile_interval(difference[1:], confidence=confidence)
    labels = {
        "method_a": pl.Series([methods[i] for i in first], dtype=pl.String),
        "method_b": pl.Series([methods[i] for i in second], dtype=pl.String),
    }
    return pl.DataFrame(labels).hstack(columns({"difference": difference[0], "low": low, "high": high}))


def _group_table(
    of: Task,
    methods: tuple[str, ...],
    predicted: Floats,
    held_out: list[NDArray[np.intp]],
    objective: Objective,
    weights: Floats,
    confidence: float,
) -> pl.DataFrame:
    """The objective within each group of items, where there are groups: where does a combination fail?"""
    schema = {"method": pl.String, "group": pl.String, "items": pl.Int64} | dict.fromkeys(
        ("score", "low", "high"), pl.Float64
    )
    frames = [pl.DataFrame(schema=schema)]
    names = sorted({group for group in of.group if group})
    for group in names if len(names) > 1 else []:
        inside = np.array([own == group for own in of.group])
        folds = [np.where(inside[:, np.newaxis], fold, -1) for fold in held_out]
        if not any((fold >= 0).any() for fold in folds):
            continue
        draws = scores(of, predicted, folds, objective, weights)
        low, high = resample.percentile_interval(draws[1:], confidence=confidence)
        rated = int(np.isfinite(of.human[inside]).any(axis=1).sum())
        frames.append(
            columns(
                {
                    "method": list(methods),
                    "group": [group] * len(methods),
                    "items": np.full(len(methods), rated),
                    "score": draws[0],
                    "low": low,
                    "high": high,
                }
            )
        )
    return pl.concat(frames)


def _held_out_ratings(of: Task, methods: tuple[str, ...], predicted: Floats) -> Ratings:
    """The predictions of the first repeat as ratings, a rater a method."""
    rows, columns_ = np.nonzero(np.isfinite(of.human))
    items = [of.items[i] for i in rows]
    systems = [of.systems[k] for k in columns_]
    frames = []
    for name, own in zip(methods, predicted, strict=True):
        values = own[rows, columns_]
        frame = pl.DataFrame({"item": items, "system": systems, "score": pl.Series(values)}).with_columns(
            rater=pl.lit(name), aspect=pl.lit(aspect_of(of.target))
        )
        frames.append(frame.filter(pl.col("score").is_finite()))
    return Ratings.make(pl.concat(frames), where="held out")[0]


def _favoritism_table(
    study: Study,
    of: Task,
    methods: tuple[str, ...],
    ratings: Ratings,
    confidence: float,
    resamples: int,
    seed: int | None,
) -> tuple[pl.DataFrame, list[Note]]:
    """Does a combination favour a system when it errs? From the held-out ratings, beside its accuracy."""
    names = ("sample_accuracy", "mean_abs_favi", "mean_abs_favi_chance")
    empty = pl.DataFrame(schema={"method": pl.String} | dict.fromkeys(names, pl.Float64))
    if of.verdicts:
        message = "people gave verdicts: ask favoritism of the held-out ratings joined with them"
        return empty, [Note(rule="no-favoritism", message=message)]
    if not (np.isfinite(of.human).sum(axis=1) > 1).any():
        return empty, [Note(rule="no-favoritism", message="people rated no two outputs of one item: no favoritism")]
    rows, places = np.nonzero(np.isfinite(of.human))
    people = pl.DataFrame(
        {
            "item": [of.items[i] for i in rows],
            "system": [of.systems[k] for k in places],
            "score": of.human[rows, places],
        }
    ).with_columns(rater=pl.lit(HUMAN))
    both = Ratings.make(pl.concat([people, ratings.frame.select(people.columns)]))[0]
    judged = Study(
        ratings=both,
        raters=Raters.infer({HUMAN: "human", **dict.fromkeys(methods, METRIC)}),
        items=study.items,
        name=study.name,
    )
    made = favoritism(judged, confidence=confidence, resamples=resamples, rng=seed or 0)
    kept = [name for name in made.metrics.columns if name.startswith(names) or name == "metric"]
    return made.metrics.select(kept).rename({"metric": "method"}), []


def _weight_table(
    of: Task,
    method: str,
    formula: Formula,
    lesson: Lesson,
    confidence: float,
    resamples: int,
    rng: np.random.Generator,
) -> pl.DataFrame:
    """Weights of normalised metrics (trees alone: importances), with intervals from refits on resampled clusters."""
    base = formula.chosen or method
    refits = min(resamples, 0 if base == "gp" else REFITS if formula.trees is None else REFITS // 5)
    fit = (lambda part: trees_on(part, formula.used)) if base == "xgboost-pruned" else METHODS[base]
    again = [fit(_resampled(lesson, rng)) for _ in range(refits)]
    data: dict[str, Any] = {"metric": list(of.names)}
    parts = {"weight": (formula.weights, [own.weights for own in again])}
    if formula.trees is not None:
        gain = (formula.importance, [own.importance for own in again])
        parts = {"weight": gain, "importance": gain} if base.startswith("xgboost") else {**parts, "importance": gain}
    for name, (values, draws) in parts.items():
        low, high = resample.percentile_interval(np.reshape(draws, (refits, len(values))), confidence=confidence)
        ends = ("low", "high") if name == "weight" else (f"{name}_low", f"{name}_high")
        data |= {name: values, ends[0]: low, ends[1]: high}
    for name in ("importance", "importance_low", "importance_high"):
        data.setdefault(name, np.full(len(of.names), np.nan))
    return columns(data).sort(pl.col("weight").abs(), descending=True, maintain_order=True)


def _resampled(lesson: Lesson, rng: np.random.Generator) -> Lesson:
    """Whole groups drawn with replacement; copies of a group stay together in any inner fold."""
    members = np.unique(lesson.groups)
    drawn = rng.choice(members, size=len(members))
    rows = [np.flatnonzero(lesson.groups == group) for group in drawn]
    place = np.concatenate(rows)
    part = lesson.part(place)
    copy = np.repeat(np.arange(len(drawn)), [len(own) for own in rows])
    items = np.unique(np.stack([copy, part.items]), axis=1, return_inverse=True)[1]
    return Lesson(x=part.x, y=part.y, items=items, groups=part.groups, by=part.by, top=part.top, rng=rng)


def _pruning_table(of: Task, formula: Formula) -> pl.DataFrame:
    """The steps of pruning of the saved model, where it was pruned."""
    return pl.DataFrame(
        {
            "step": pl.Series(range(1, len(formula.pruned) + 1), dtype=pl.Int64),
            "metrics": pl.Series([step.metrics for step in formula.pruned], dtype=pl.Int64),
            "removed": pl.Series([of.names[step.removed] for step in formula.pruned], dtype=pl.String),
            "score": pl.Series([step.score for step in formula.pruned], dtype=pl.Float64),
        }
    )


def _validation(row: dict[str, Any], folds: str, repeats: int) -> dict[str, Any]:
    """What the file says of how good the combination is on data it had not seen."""
    return {"folds": folds, "repeats": repeats} | {name: row[name] for name in (*STATISTICS, "low", "high")}


def _notes(
    of: Task, methods: tuple[str, ...], formula: Formula, held_out: list[NDArray[np.intp]], folds: str
) -> list[Note]:
    notes = []
    if formula.chosen:
        notes.append(Note(rule="auto", message=f"auto chose {formula.chosen} on everything"))
    turned = contradictions(of.names, of.directions, x=of.scores.reshape(len(of.names), -1).T)
    if turned:
        message = f"direction against what is known of the metric: {listed(turned)}; see higher_is_better"
        notes.append(Note(rule="direction", message=message, count=len(turned)))
    unused = int((np.isfinite(of.human) & (held_out[0] < 0)).sum())
    if unused:
        notes.append(
            Note(rule="not-in-folds", message=f"{unused} rated outputs are in no fold of {folds}", count=unused)
        )
    if folds == "system":
        message = (
            "folds='system' trains on the items that it holds out: what metrics say of an item itself may help them"
        )
        notes.append(Note(rule="same-items", message=message))
    if len(methods) > 1:
        message = f"the model is that of the first method, {methods[0]}; choosing the best of a table flatters it"
        notes.append(Note(rule="first-method", message=message))
    if "gp" in (methods[0], formula.chosen):
        notes.append(Note(rule="no-weight-intervals", message="gp is too slow to refit: its weights have no intervals"))
    return notes
