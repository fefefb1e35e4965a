"""What several judges are worth together: how alike they err, and what a majority of which of them gains."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from custodes.answers.tables import with_interval
from custodes.data.study import Study
from custodes.evaluate.consistency.material import Material
from custodes.stats import ABSENT
from custodes.stats.arrays import Floats
from custodes.stats.judging.committee import (
    best_subset,
    chosen_elsewhere,
    correct,
    effective_size,
    error_correlation,
    majority,
    mean_of,
)
from custodes.stats.resampling import resample

FOLDS = 5
MOST_JUDGES = 60
FEWEST = 12
"""Clusters that all judges and people share, below which nothing is chosen."""
MOST_LEFT_OUT = 0.5
"""A judge with less than this share of the comparisons of the one with most is left out."""

EVERYBODY, BEST, CHOSEN = "all", "best single judge", "best majority"


def committee_columns(
    study: Study, part: Material, times: Floats, confidence: float
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The columns of `committee` and of `panels`; empty with fewer than two judges, or without people."""
    decided = part.people != ABSENT
    metrics = part.of_kind("metric")
    rated = {r: int((decided & (part.signs[r] != ABSENT)).sum()) for r in metrics}
    most = max(rated.values(), default=0)
    judges = [r for r in metrics if rated[r] and rated[r] >= MOST_LEFT_OUT * most][:MOST_JUDGES]
    if len(judges) < 2:
        return {}, {}
    used = decided & (part.signs[judges] != ABSENT).all(axis=0)
    unit = part.unit[used]
    if len(np.unique(unit)) < FEWEST:
        return {}, {}
    verdicts, people = part.signs[judges][:, used], part.people[used]
    right = correct(verdicts, people)
    correlation = error_correlation(1 - right, units=unit, weights=times)
    size = effective_size(len(judges), correlation)
    ends: dict[str, Any] = {"confidence": confidence, "clusters": part.n_units}
    names = [part.raters[r] for r in judges]
    table = {
        "judges": len(judges),
        "comparisons": int(used.sum()),
        "left_out": [[part.raters[r] for r in metrics if r not in judges]],
        **_single(with_interval("correlation", correlation, bounds=resample.CORRELATION, **ends)),
        **_single(with_interval("effective", size, bounds=(0.0, float(len(judges))), **ends)),
    }
    subset, single = chosen_elsewhere(verdicts, people, fold=_folds(unit))
    every = correct(majority(verdicts, range(len(judges))), people)
    members = [(*range(len(judges)),), best_subset(verdicts, people), (int(right.mean(axis=1).round(12).argmax()),)]
    members += [(j,) for j in range(len(judges))]
    values = np.stack([every, subset, single, *right])
    accuracy = mean_of(values, units=unit, weights=times)
    gain = mean_of(values - single, units=unit, weights=times).round(12)
    gain[:, 2] = np.nan  # against itself
    one, verdicts_each, cost = _one_verdict(study, part, judges, used)
    panels = {
        "panel": [EVERYBODY, CHOSEN, BEST, *names],
        "judges": [[names[j] for j in own] for own in members],
        "size": [len(own) for own in members],
        **with_interval("accuracy", accuracy, bounds=resample.SHARE, **ends),
        **with_interval("gain", gain, bounds=resample.ANY, **ends),
        "one_verdict": np.array([one[own[0]] if len(own) == 1 else np.nan for own in members]),
        "cost_per_correct": [sum(cost[j] * verdicts_each[j] for j in own) for own in members] / accuracy[0],
        "one_cost_per_correct": np.array([cost[own[0]] / one[own[0]] if len(own) == 1 else np.nan for own in members]),
    }
    return table, panels


def _single(columns: dict[str, Floats]) -> dict[str, float]:
    return {name: float(value) for name, value in columns.items()}


def _folds(unit: Any) -> Any:
    """(n,): whole clusters, dealt in turn."""
    _, place = np.unique(unit, return_inverse=True)
    return place % FOLDS


def _one_verdict(study: Study, part: Material, judges: list[int], used: Any) -> tuple[Floats, Floats, Floats]:
    """(judges,): how often one verdict alone, in one order, is right; how many a comparison took; what one costs.

    NaN where a judge gave scores or one verdict a comparison, and where no cost is said.
    """
    n_pairs = max(1, len(part.design.pairs))
    key = part.item[used] * n_pairs + part.pair[used]
    rows = part.asked.drop_nulls("preference").filter(pl.col("comparison").is_in(key.tolist()))
    place = np.searchsorted(key, rows["comparison"].to_numpy())
    right = correct(rows["preference"].to_numpy(), part.people[used][place])
    own = rows.select("rater", "comparison").with_columns(right=right)
    by = own.group_by("rater", "comparison").agg(pl.col("right").mean(), pl.len().alias("n"))
    means = {r: (m, n) for r, m, n in by.group_by("rater").agg(pl.col("right").mean(), pl.col("n").mean()).iter_rows()}
    known = [means.get(r, (np.nan, np.nan)) for r in judges]
    one = np.array([right if n > 1 else np.nan for right, n in known])
    # A score is of one output, and a comparison needs two.
    each = np.array([2.0 if np.isnan(n) else n for _, n in known])
    costs = dict(zip(study.raters.frame["rater"], study.raters.frame["cost"], strict=True))
    return one, each, np.array([costs.get(part.raters[r]) or np.nan for r in judges], dtype=np.float64)
