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
from custodes.combine.methods import METHODS, Formula
from custodes.combine.normalise import Normalisation, contradictions
from custodes.combine.tables import (
    comparison_table,
    difference_table,
    favoritism_table,
    group_table,
    held_out_ratings,
    pruning_table,
    weight_table,
)
from custodes.combine.task import Task, outer_folds, task
from custodes.combine.validation import STATISTICS, lesson_of, scores, undefined, validated
from custodes.data.notes import Note
from custodes.data.ratings import Ratings
from custodes.data.study import Study
from custodes.errors import OptionError, listed, suggestion
from custodes.evaluate.check import BEYOND
from custodes.evaluate.comparison import Selection
from custodes.evaluate.judges import few_clusters_notes
from custodes.evaluate.parallel import one_core
from custodes.evaluate.result import Result, Rng, at_least, between, provenance, seeded
from custodes.progress import Progress, silent
from custodes.stats.learning.objective import OBJECTIVES, Objective
from custodes.stats.resampling import resample

DEFAULT = ("auto", "best", "equal", "ridge", "pairwise", "xgboost", "blend")


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
    each output. method: one or several of 'auto' (the blend, unless another quick one is clearly better in inner
    folds), 'best' (single metric), 'equal', 'ridge', 'pairwise' (logistic on preferences), 'xgboost', 'blend' (the mean
    of ridge and xgboost), 'xgboost-pruned', 'gp' (Bayesian optimisation of weights of the `top` metrics); the first one
    is fitted on everything and kept in `model`. objective: what 'best', 'gp', 'auto' and pruning maximise: 'kendall',
    'spearman', 'pearson' (over outputs) or 'accuracy' (pairs of outputs of one item in people's order). folds: 'item'
    (five folds of whole items or clusters, `repeats` times), or leave one 'system', 'dataset' or 'group' out, or a file
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
        if "gp" not in methods:
            raise OptionError(f"top={top} is for the method gp, which is not among {', '.join(methods)}")
    of = task(study, target=target, **selection)
    if objective == "accuracy" and not (np.isfinite(of.human).sum(axis=1) > 1).any():
        raise OptionError("objective='accuracy' compares outputs of an item, and people rated one of each: no pair")
    if of.verdicts and folds == "system":
        raise OptionError(
            "folds='system' with verdicts: an output's share of wins holds verdicts on the system held out"
        )
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
        ratings = held_out_ratings(of, methods, predicted[0])
        favour, favour_notes = favoritism_table(study, of, methods, ratings, folds, confidence, resamples, seed)
        lost = dict(zip(methods, undefined(of, predicted, held_out, objective).tolist(), strict=True))
        told = [
            *_notes(of, methods, formula, held_out, folds),
            *_lost_notes(lost, objective),
            *_scale_notes(of, scales),
        ]
        told += few_clusters_notes(of.n_units, resamples)
        notes = tuple(dict.fromkeys([*of.notes, *told, *cost_notes, *favour_notes]))
        made = provenance("combine_fit", study, options=options, seed=seed, notes=notes)
        comparison = comparison_table(methods, draws, predicted, of, held_out, objective, seconds, used, confidence)
        model = Combination.make(
            formula,
            of=of,
            scales=scales,
            method=formula.chosen or methods[0],
            objective=objective,
            validation=_validation(comparison.row(0, named=True), folds, len(held_out)),
            provenance={
                "digest": made.digest,
                "made": str(made),
                "outputs": len(rows),
                "items": int(np.isfinite(of.human).any(axis=1).sum()),
            },
        )
        tables = {
            "comparison": comparison,
            "differences": difference_table(methods, draws[objective], confidence),
            "favoritism": favour,
            "weights": weight_table(of, methods[0], formula, whole, confidence, resamples, generator),
            "groups": group_table(of, methods, predicted, held_out, objective, weights, confidence),
            "path": cost_path(of, price, held_out[0], weights, objective, confidence),
            "pruning": pruning_table(of, formula),
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


def _lost_notes(lost: Mapping[str, int], objective: str) -> list[Note]:
    """Methods that say nothing on some folds are scored on the others, which are not those of the other methods."""
    some = {name: n for name, n in lost.items() if n}
    if not some:
        return []
    listed_ = ", ".join(f"{name} ({n})" for name, n in some.items())
    message = f"{objective} undefined in folds where predictions are constant; scored on the other folds: {listed_}"
    return [Note(rule="undefined-folds", message=message, count=sum(some.values()))]


def _scale_notes(of: Task, scales: Normalisation) -> list[Note]:
    """Declared scales that the scores do not keep to."""
    with np.errstate(invalid="ignore"):
        rated = of.scores[:, np.isfinite(of.human)].T
        beyond = ((rated < scales.low) | (rated > scales.high)).sum(axis=0) / np.maximum(
            np.isfinite(rated).sum(axis=0), 1
        )
    names = [
        f"{name} ({share:.0%})"
        for name, share, source in zip(of.names, beyond, scales.source, strict=True)
        if source == "declared" and share > BEYOND
    ]
    message = f"scores beyond the low and high of the raters file are clipped: {listed(names)}; are the bounds right?"
    return [Note(rule="beyond-declared", message=message, count=len(names))] if names else []
