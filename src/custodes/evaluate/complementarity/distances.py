"""Distances between the rankings of all raters, in every resample."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from custodes.data.notes import Note
from custodes.data.panel import Floats
from custodes.errors import listed
from custodes.evaluate.judges import METRIC, Judges
from custodes.progress import Progress
from custodes.stats.agreement import correlation
from custodes.stats.complementarity import rank_distance
from custodes.stats.resampling import resample

Level = Literal["system", "utterance"]
LEVELS: tuple[Level, ...] = ("system", "utterance")
KINDS = ("human-human", "human-metric", "metric-metric")
KEPT = 50
"""Resamples whose distances are kept pair by pair, for the stability of communities."""

BLOCK = 2_000_000
"""Distances or influences held at a time."""


@dataclass(frozen=True, kw_only=True)
class Distances:
    """Draws of distances, row 0 the estimate: `mean` and `low`, `high`, `n` (pairs,), `kinds` (B, 3) averages,
    `raters` (B, raters, 2) averages with people and with metrics, `first_draws` (1 + resamples kept, pairs)."""

    first: NDArray[np.intp]
    second: NDArray[np.intp]
    mean: Floats
    low: Floats
    high: Floats
    n: NDArray[np.int64]
    kinds: Floats
    raters: Floats
    first_draws: Floats


def ranked(who: Judges, level: Level) -> Floats:
    """(raters, units, things): systems ranked within items, or items within systems."""
    return who.scores if level == "system" else np.ascontiguousarray(np.swapaxes(who.scores, 1, 2))


def distances_of(
    who: Judges, level: Level, rule: rank_distance.Rule, weights: Floats, confidence: float, progress: Progress
) -> Distances:
    values = ranked(who, level)
    first, second = np.triu_indices(len(values), 1)
    mean, low, high = np.full((3, len(first)), np.nan)
    n = np.zeros(len(first), dtype=np.int64)
    kind_sums, kind_counts = np.zeros((2, len(weights), len(KINDS)))
    rater_sums, rater_counts = np.zeros((2, len(weights), len(values), 2))
    kept = weights[: 1 + KEPT]
    first_draws = np.empty((len(kept), len(first)))
    human = np.array([kind != METRIC for kind in who.kinds])
    kind = 2 - human[first].astype(int) - human[second]
    step = max(1, BLOCK // max(*values.shape[1:], len(weights)))
    blocks = range(0, len(first), step)
    for start in progress(blocks, total=len(blocks), desc="complementarity"):
        part = slice(start, min(start + step, len(first)))
        own, draws = _draws(who, level, values, first[part], second[part], rule, weights)
        n[part] = np.isfinite(own).sum(axis=1)
        mean[part] = draws[0]
        low[part], high[part] = resample.percentile_interval(draws[1:], confidence=confidence)
        first_draws[:, part] = draws[: len(kept)]
        defined = np.isfinite(draws)
        filled = np.where(defined, draws, 0.0)
        for k in range(len(KINDS)):
            kind_sums[:, k] += filled[:, kind[part] == k].sum(axis=1)
            kind_counts[:, k] += defined[:, kind[part] == k].sum(axis=1)
        for one, other in ((first[part], second[part]), (second[part], first[part])):
            place = {"units": one * 2 + ~human[other], "n_units": 2 * len(values)}
            rater_sums += resample.unit_sums(filled, **place).reshape(rater_sums.shape)
            rater_counts += resample.unit_sums(defined, **place).reshape(rater_counts.shape)
    with np.errstate(invalid="ignore", divide="ignore"):
        return Distances(
            first=first,
            second=second,
            mean=mean,
            low=low,
            high=high,
            n=n,
            kinds=kind_sums / kind_counts,
            raters=rater_sums / rater_counts,
            first_draws=first_draws,
        )


def rankers(who: Judges, level: Level) -> Judges:
    """The judges, where those who rank nothing at this level count as constant."""
    values = ranked(who, level)
    rated = np.isfinite(values)
    low, high = np.where(rated, values, np.inf).min(axis=2), np.where(rated, values, -np.inf).max(axis=2)
    flat = ~(low < high).any(axis=1)
    stuck = [name for name, own in zip(who.names, flat, strict=True) if own and name not in who.constant]
    if not stuck:
        return who
    reason = "never tells systems of an item apart" if level == "system" else "never tells items of a system apart"
    message = f"{reason}, so left out (it may vary otherwise): {listed(stuck)}"
    scores = who.scores.copy()
    scores[flat] = np.nan
    return replace(
        who,
        scores=scores,
        constant=(*who.constant, *stuck),
        left_out=(*who.left_out, *((name, reason) for name in stuck)),
        notes=(*who.notes, Note(rule="constant-rater", message=message, count=len(stuck))),
    )


def _draws(
    who: Judges,
    level: Level,
    values: Floats,
    first: NDArray[np.intp],
    second: NDArray[np.intp],
    rule: rank_distance.Rule,
    weights: Floats,
) -> tuple[Floats, Floats]:
    """Distances (pairs, units), and their means in every resample (B, pairs)."""
    if level == "system":
        own = rank_distance.rank_distances(values, first, second, rule=rule)
        return own, correlation.weighted_item_mean(own, units=who.units, weights=weights, item_weights=who.weights)
    own, influence = rank_distance.rank_distance_influence(values, first, second, rule=rule)
    by_unit = resample.unit_sums(influence, units=who.units, n_units=who.n_units)
    defined = np.isfinite(own)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(defined, own, 0.0).sum(axis=1) / defined.sum(axis=1)
    return own, np.clip(mean + (weights - 1) @ by_unit.T, 0.0, 1.0)


def square(distances: Distances, values: Floats, n: int) -> Floats:
    """(pairs,) -> symmetric (n, n) with a zero diagonal."""
    matrix = np.zeros((n, n))
    matrix[distances.first, distances.second] = values
    return matrix + matrix.T
