"""Pearson, Spearman and Kendall correlation: over systems, within items, over all outputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from custodes.evaluate.agreement.statistic import Sample, Statistic, output_statistic
from custodes.evaluate.rater_comparison import RaterComparison
from custodes.stats.arrays import Floats
from custodes.stats.correlation import Kind, system_correlations, within_item
from custodes.stats.intervals import CORRELATION
from custodes.stats.pooled_correlation import pooled_correlation

KINDS: dict[Kind, str] = {"pearson": "Pearson r", "spearman": "Spearman ρ", "kendall": "Kendall τ-b"}
"""Kind to label."""


def _correlations_over_systems(sample: Sample, *, kind: Kind, population: bool = False) -> Floats:
    if kind == "kendall":
        return (sample.population_counts if population else sample.system_counts).tau_b
    return system_correlations(
        kind, *(sample.population_scores if population else sample.system_scores[:2]), pairs=sample.system_scores.pairs
    )


def _item_correlations(comparison: RaterComparison, *, kind: Kind) -> Floats:
    return within_item(comparison.human, comparison.metric_scores, kind=kind)


def _mean_item_correlations(sample: Sample, *, kind: Kind) -> Floats:
    return sample.item_mean(sample.per_item(partial(_item_correlations, kind=kind)))


def _correlations_over_outputs(sample: Sample, *, kind: Kind) -> Floats:
    comparison, design = sample.comparison, sample.comparison.design
    return pooled_correlation(
        kind,
        comparison.human,
        comparison.metric_scores,
        units=design.units,
        weights=sample.times,
        item_weights=design.weights,
    )


LEVELS: dict[str, tuple[str, Callable[..., Floats]]] = {
    "system": ("over systems", _correlations_over_systems),
    "item": ("within items", _mean_item_correlations),
    "global": ("over all outputs", _correlations_over_outputs),
}
"""For each level of a correlation: the end of its label, and the function that computes the correlation."""

SHOWN_FIRST = ("kendall_item", "pearson_global")

CORRELATIONS = tuple(
    Statistic(
        name=(name := f"{kind}_{level}"),
        label=f"{called} {where}",
        doc=f"{called} {where}{', averaged over items' if level == 'item' else ''}",
        # The file may contain scores of whole systems, so `system` needs no scores of outputs.
        compute=partial(compute, kind=kind) if level == "system" else output_statistic(partial(compute, kind=kind)),
        per_item=partial(_item_correlations, kind=kind) if level == "item" else None,
        bounds=CORRELATION,
        population=partial(_correlations_over_systems, kind=kind, population=True) if level == "system" else None,
        chance=0.0,
        smooth=level != "system" or kind == "pearson",
        compared=name in SHOWN_FIRST,
        essential=name in SHOWN_FIRST,
    )
    for kind, called in KINDS.items()
    for level, (where, compute) in LEVELS.items()
)
