"""How well does each metric agree with people?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Unpack

import numpy as np
import polars as pl

from custodes.data.notes import Note
from custodes.data.panel import Floats
from custodes.data.study import Study
from custodes.errors import OptionError, suggestion
from custodes.evaluate.comparison import Comparison, Setting, compare, label_of, settings
from custodes.evaluate.parallel import each
from custodes.evaluate.result import Result, Rng, at_least, between, columns, provenance, seeded, stacked
from custodes.progress import Progress, silent
from custodes.stats import ABSENT
from custodes.stats.agreement import accuracy, correlation, kendall
from custodes.stats.resampling import permutation, resample

STATISTICS = (
    "sample_accuracy",
    "system_accuracy",
    "pairwise_accuracy",
    "pearson_system",
    "pearson_item",
    "pearson_global",
    "spearman_system",
    "spearman_item",
    "spearman_global",
    "kendall_system",
    "kendall_item",
    "kendall_global",
    "acc_eq",
    "acc_eq_epsilon",
    "spa",
)
COMPARED = ("sample_accuracy", "pairwise_accuracy", "kendall_item", "pearson_global", "acc_eq")
"""Statistics whose differences between metrics can be tested by swapping items."""

SPA_PERMUTATIONS = 1000


@dataclass(frozen=True, kw_only=True)
class Agreement(Result):
    """`metrics`: one row per aspect and metric, every statistic with `_low` and `_high`;
    `comparisons`: one row per aspect, pair of metrics and statistic. See `agreement`."""

    metrics: pl.DataFrame
    comparisons: pl.DataFrame


def agreement(
    study: Study,
    *,
    confidence: float = 0.95,
    resamples: int = 1000,
    compare_by: Sequence[str] = COMPARED,
    rng: Rng = 0,
    progress: Progress = silent,
    **setting: Unpack[Setting],
) -> Agreement:
    """How well each metric agrees with people, in every common statistic, with intervals and paired tests.

    Per metric: `n` comparisons (item x pair of systems) rated by both; `sample_accuracy` (Favi-Score paper, Def. 11),
    `system_accuracy` (Def. 10), `pairwise_accuracy` (Kocmi et al. 2021); Pearson, Spearman, Kendall tau-b over system
    scores (`_system`), within items averaged over them (`_item`), over all outputs (`_global`); `acc_eq` with its
    epsilon (Deutsch et al. 2023); `spa` (Thompson et al. 2024). Undefined is null, with a note.

    Intervals: percentiles of a paired bootstrap over clusters of items, `resamples` shared by all metrics (0: none).
    Between metrics: difference, its interval from the same resamples, and a permutation p-value (clusters swapped
    between the two metrics after standardising) for the statistics in `compare_by`; not corrected for multiplicity.

    setting: see `Setting` (human, metrics, systems, aspect, group, aggregate, human_ties, ties, orders).

    >>> import custodes as cu
    >>> result = cu.agreement(cu.read("demo"), resamples=0, compare_by=())
    >>> result.metrics.columns[:4]
    ['aspect', 'metric', 'n', 'sample_accuracy']
    """
    between("confidence", confidence, 0, 1)
    at_least("resamples", resamples, 0)
    for name in compare_by:
        if name not in COMPARED:
            raise OptionError(f"compare_by={name!r}; allowed: {', '.join(COMPARED)}{suggestion(name, COMPARED)}")
    comparisons = compare(study, **setting)
    generator, seed = seeded(rng)

    def answer(comparison: Comparison, rng: np.random.Generator) -> tuple[pl.DataFrame, pl.DataFrame, list[Note]]:
        draws = _statistics(comparison, resamples, rng)
        metrics = _metric_table(comparison, draws, confidence)
        between_metrics = _comparison_table(comparison, draws, compare_by, confidence, resamples, rng)
        return metrics, between_metrics, [*comparison.notes, *_undefined_notes(comparison, draws)]

    answers = list(each(answer, comparisons, rng=generator, progress=progress, desc="agreement"))
    notes = tuple(dict.fromkeys(note for _, _, own in answers for note in own))
    options = {**settings(setting), "confidence": confidence, "resamples": resamples, "compare_by": list(compare_by)}
    return Agreement(
        provenance=provenance("agreement", study, options=options, seed=seed, notes=notes),
        notes=notes,
        metrics=stacked([metrics for metrics, _, _ in answers]),
        comparisons=stacked([between_metrics for _, between_metrics, _ in answers]),
    )


def _statistics(comparison: Comparison, resamples: int, rng: np.random.Generator) -> dict[str, Floats]:
    """Statistic to (1 + resamples, metrics); the first row is the estimate itself."""
    units, weights = comparison.units, _item_weights(comparison)
    n_units = len(comparison.clusters)
    drawn = resample.bootstrap_weights(n_units, resamples if n_units > 1 else 0, rng)
    times = resample.with_point(drawn)
    human, metrics = comparison.human, comparison.metric_scores
    signs_h, signs_m = comparison.human_signs, comparison.metric_signs
    values: dict[str, Floats] = {
        "sample_accuracy": accuracy.sample_accuracy(signs_h, signs_m, units=units, weights=times),
        "system_accuracy": accuracy.system_accuracy(signs_h, signs_m, units=units, weights=times),
    }
    means_h, means_m = _system_scores(comparison, times)
    values["pairwise_accuracy"] = accuracy.pairwise_accuracy(means_h, means_m)
    values["pearson_system"] = correlation.pearson(means_h[:, None], means_m)
    values["spearman_system"] = correlation.spearman(means_h[:, None], means_m)
    values["kendall_system"] = kendall.kendall(means_h[:, None], means_m)
    for kind in ("pearson", "spearman", "kendall"):
        within = correlation.within_item(human, metrics, kind=kind)
        values[f"{kind}_item"] = correlation.weighted_item_mean(
            within, units=units, weights=times, item_weights=weights
        )
    pooled_by = {
        "pearson": correlation.pooled_pearson,
        "spearman": correlation.pooled_spearman,
        "kendall": kendall.pooled_kendall,
    }
    for name, pooled in pooled_by.items():
        values[f"{name}_global"] = pooled(human, metrics, units=units, weights=times, item_weights=weights)
    values["acc_eq"], values["acc_eq_epsilon"] = accuracy.acc_eq(
        human, metrics, human_tie=comparison.human_tie, units=units, weights=times, item_weights=weights
    )
    flips = resample.sign_flips(n_units, SPA_PERMUTATIONS, rng)
    values["spa"] = accuracy.spa(human, metrics, units=units, weights=times, flips=flips)
    return {name: values[name] for name in STATISTICS}


def _item_weights(comparison: Comparison) -> Floats | None:
    """None where all items weigh the same, which is the common and faster case."""
    return None if (comparison.weights == 1).all() else comparison.weights


def _system_scores(comparison: Comparison, times: Floats) -> tuple[Floats, Floats]:
    """(resamples, systems) of people and (resamples, metrics, systems): means over items, or the file's own score.

    A system-level score of the file is resampled by the shift of the mean of the same metric's segment scores.
    """
    both = np.concatenate([comparison.human[None], comparison.metric_scores])
    given = np.concatenate([comparison.human_system[None], comparison.metric_system])
    means = correlation.system_means(
        both, units=comparison.units, weights=times, item_weights=_item_weights(comparison)
    )
    shift = np.nan_to_num(means - means[:1], nan=0.0)
    scores = np.where(np.isfinite(given), given + shift, means)
    return scores[:, 0], scores[:, 1:]


def _metric_table(comparison: Comparison, draws: dict[str, Floats], confidence: float) -> pl.DataFrame:
    n_metrics = len(comparison.metrics)
    rated = (comparison.human_signs != ABSENT) & (comparison.metric_signs != ABSENT)
    data: dict[str, object] = {
        "aspect": [comparison.aspect] * n_metrics,
        "metric": list(comparison.metrics),
        "n": rated.sum(axis=(1, 2)),
    }
    for name, values in draws.items():
        low, high = resample.percentile_interval(values[1:], confidence=confidence)
        data |= {name: values[0], f"{name}_low": low, f"{name}_high": high}
    return columns(data)


def _comparison_table(
    comparison: Comparison,
    draws: dict[str, Floats],
    compare_by: Sequence[str],
    confidence: float,
    resamples: int,
    rng: np.random.Generator,
) -> pl.DataFrame:
    pairs = np.array(list(combinations(range(len(comparison.metrics)), 2)), dtype=np.int64).reshape(-1, 2)
    first, second = pairs[:, 0], pairs[:, 1]
    names = comparison.metrics
    n_units = len(comparison.clusters)
    flips = resample.sign_flips(n_units, resamples if n_units > 1 else 0, rng)
    frames = []
    for statistic in compare_by:
        values = draws[statistic]
        differences = values[:, first] - values[:, second]
        low, high = resample.percentile_interval(differences[1:], confidence=confidence)
        p_value = _swap_p_values(comparison, statistic, draws, flips, first, second)
        frames.append(
            columns(
                {
                    "aspect": [comparison.aspect] * len(pairs),
                    "metric_a": [names[i] for i in first],
                    "metric_b": [names[i] for i in second],
                    "statistic": [statistic] * len(pairs),
                    "difference": differences[0],
                    "low": low,
                    "high": high,
                    "p_value": p_value,
                }
            )
        )
    return stacked(frames) if frames else pl.DataFrame(schema=COMPARISON_SCHEMA)


COMPARISON_SCHEMA = {
    **dict.fromkeys(("aspect", "metric_a", "metric_b", "statistic"), pl.String),
    **dict.fromkeys(("difference", "low", "high", "p_value"), pl.Float64),
}


def _swap_p_values(
    comparison: Comparison,
    statistic: str,
    draws: dict[str, Floats],
    flips: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
) -> Floats:
    """p of 'the two metrics agree equally well', by swapping whole clusters between them."""
    if not len(flips) or not len(first):
        return np.full(len(first), np.nan)
    units, weights = comparison.units, comparison.weights
    human, metrics = comparison.human, comparison.metric_scores
    pairs = {"flips": flips, "first": first, "second": second}
    if statistic == "pearson_global":
        return permutation.swap_pearson(human, metrics, units=units, item_weights=weights, **pairs)
    if statistic == "pairwise_accuracy":
        return permutation.swap_pairwise_accuracy(human, metrics, units=units, item_weights=weights, **pairs)
    if statistic == "sample_accuracy":
        rated = (comparison.human_signs != ABSENT) & (comparison.metric_signs != ABSENT)
        right = rated & (comparison.human_signs == comparison.metric_signs)
        over, under = right.sum(axis=1).astype(np.float64), rated.sum(axis=1).astype(np.float64)
    else:
        if statistic == "kendall_item":
            per_item = correlation.within_item(human, metrics, kind="kendall")
        else:
            tie, epsilon = comparison.human_tie, draws["acc_eq_epsilon"][0]
            per_item = accuracy.item_accuracy(human, metrics, human_tie=tie, epsilon=epsilon)
        under = np.isfinite(per_item) * weights
        over = np.nan_to_num(per_item, nan=0.0) * weights
    return permutation.swap_mean(over, under, units=units, **pairs)


def _undefined_notes(comparison: Comparison, draws: dict[str, Floats]) -> list[Note]:
    """Name what stayed undefined for a reason that the design of the study does not already give."""
    label = label_of(comparison.aspect)
    notes = []
    if len(comparison.systems) < 3:
        message = f"two systems{label}: correlations over systems are 1, -1 or undefined and say little"
        notes.append(Note(rule="two-systems", message=message, count=2))
    given = np.isfinite(comparison.metric_system).any(axis=1) | np.isfinite(comparison.human_system).any()
    if given.any():
        message = f"system-level scores of the file are used where given{label}; elsewhere the mean over items"
        notes.append(Note(rule="system-scores-given", message=message, count=int(given.sum())))
    within = np.isfinite(correlation.within_item(comparison.human, comparison.metric_scores, kind="pearson"))
    lost = int((np.isfinite(comparison.human).sum(axis=1) > 1).sum() * len(comparison.metrics) - within.sum())
    if lost and np.isfinite(draws["pearson_item"][0]).any():
        message = f"{lost} item correlations{label} left out of the means: people or metric are constant on the item"
        notes.append(Note(rule="undefined-item-correlations", message=message, count=lost))
    return notes
