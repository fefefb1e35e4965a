"""The tables of a fit: methods side by side, whom they favour, what they are made of, where they fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.combine.methods import METHODS, Formula, Lesson
from custodes.combine.task import Task, aspect_of
from custodes.combine.validation import scores
from custodes.data.notes import Note
from custodes.data.panel import Floats
from custodes.data.raters import Raters
from custodes.data.ratings import Ratings
from custodes.data.study import Study
from custodes.evaluate.comparison import HUMAN
from custodes.evaluate.favoritism import favoritism
from custodes.evaluate.judges import METRIC
from custodes.evaluate.result import columns
from custodes.stats.learning.objective import Objective
from custodes.stats.resampling import resample

REFITS = 100
"""Bootstrap refits behind the intervals of weights; none of trees and `gp`."""


def comparison_table(
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


def difference_table(methods: tuple[str, ...], draws: Floats, confidence: float) -> pl.DataFrame:
    """Differences of the objective between methods, from the same folds and resamples."""
    first, second = np.triu_indices(len(methods), 1)
    difference = draws[:, first] - draws[:, second]
    low, high = resample.percentile_interval(difference[1:], confidence=confidence)
    labels = {
        "method_a": pl.Series([methods[i] for i in first], dtype=pl.String),
        "method_b": pl.Series([methods[i] for i in second], dtype=pl.String),
    }
    return pl.DataFrame(labels).hstack(columns({"difference": difference[0], "low": low, "high": high}))


def group_table(
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


def held_out_ratings(of: Task, methods: tuple[str, ...], predicted: Floats) -> Ratings:
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


def favoritism_table(
    study: Study,
    of: Task,
    methods: tuple[str, ...],
    ratings: Ratings,
    folds: str,
    confidence: float,
    resamples: int,
    seed: int | None,
) -> tuple[pl.DataFrame, list[Note]]:
    """Does a combination favour a system when it errs? From the held-out ratings, beside its accuracy."""
    names = ("sample_accuracy", "mean_abs_favi", "mean_abs_favi_chance")
    empty = pl.DataFrame(schema={"method": pl.String} | dict.fromkeys(names, pl.Float64))
    if folds == "system":
        message = "folds='system': the systems of an item are predicted by different models, so they are not compared"
        return empty, [Note(rule="no-favoritism", message=message)]
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


def weight_table(
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
    # Shares of the gain are never below 0 and grow with copies of rows, so resampling says nothing of them; of a blend
    # the linear half is resampled.
    refitted = {"blend": "ridge"}.get(base, base)
    refits = 0 if base == "gp" or base.startswith("xgboost") else min(resamples, REFITS)
    share = 0.5 if base == "blend" else 1.0
    draws = [share * METHODS[refitted](_resampled(lesson, rng)).weights for _ in range(refits)]
    weight = formula.importance if base.startswith("xgboost") else formula.weights
    low, high = resample.percentile_interval(np.reshape(draws, (refits, len(weight))), confidence=confidence)
    importance = formula.importance if formula.trees is not None else np.full(len(weight), np.nan)
    data = {"metric": list(of.names), "weight": weight, "low": low, "high": high, "importance": importance}
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


def pruning_table(of: Task, formula: Formula) -> pl.DataFrame:
    """The steps of pruning of the saved model, where it was pruned."""
    return pl.DataFrame(
        {
            "step": pl.Series(range(1, len(formula.pruned) + 1), dtype=pl.Int64),
            "metrics": pl.Series([step.metrics for step in formula.pruned], dtype=pl.Int64),
            "removed": pl.Series([of.names[step.removed] for step in formula.pruned], dtype=pl.String),
            "score": pl.Series([step.score for step in formula.pruned], dtype=pl.Float64),
        }
    )
