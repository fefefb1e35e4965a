"""Pearson, Spearman and Kendall correlation: over systems, within items, over all outputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from custodes.evaluate.agreement.statistic import Level, Sample, Statistic, Swaps
from custodes.stats.agreement import correlation, kendall
from custodes.stats.arrays import Floats
from custodes.stats.resampling import permutation
from custodes.stats.resampling.resample import CORRELATION

KINDS: dict[str, tuple[str, Callable[..., Floats], Callable[..., Floats]]] = {
    "pearson": ("Pearson r", correlation.pearson, correlation.pooled_pearson),
    "spearman": ("Spearman ρ", correlation.spearman, correlation.pooled_spearman),
    "kendall": ("Kendall τ-b", kendall.kendall, kendall.pooled_kendall),
}
"""What each is called, and how it is computed over systems and over outputs."""

LEVELS: dict[str, tuple[str, Level]] = {
    "system": ("over systems", "system"),
    "item": ("within items", "item"),
    "global": ("over all outputs", "output"),
}


def _over_systems(sample: Sample, *, kind: str) -> Floats:
    human, metrics = sample.system_scores
    return KINDS[kind][1](human[:, None], metrics)


def _population(sample: Sample, *, kind: str) -> Floats:
    return KINDS[kind][1](*sample.population_scores)


def _within_items(sample: Sample, *, kind: Any) -> Floats:
    own, design = sample.comparison, sample.comparison.design
    within = correlation.within_item(own.human, own.metric_scores, kind=kind)
    return correlation.weighted_item_mean(
        within, units=design.units, weights=sample.times, item_weights=design.item_weights
    )


def _over_outputs(sample: Sample, *, kind: str) -> Floats:
    own, design = sample.comparison, sample.comparison.design
    return KINDS[kind][2](
        own.human, own.metric_scores, units=design.units, weights=sample.times, item_weights=design.item_weights
    )


def _swap_within(sample: Sample, swaps: Swaps) -> Floats:
    own = sample.comparison
    return swap_items(correlation.within_item(own.human, own.metric_scores, kind="kendall"), sample, swaps)


def swap_items(per_item: Floats, sample: Sample, swaps: Swaps) -> Floats:
    """p-values (pairs,) of the weighted means of a statistic of each item (metrics, items)."""
    design = sample.comparison.design
    over, under = np.nan_to_num(per_item, nan=0.0) * design.weights, np.isfinite(per_item) * design.weights
    return permutation.swap_mean(over, under, units=design.units, **vars(swaps))


def _swap_outputs(sample: Sample, swaps: Swaps) -> Floats:
    own = sample.comparison
    return permutation.swap_pearson(
        own.human, own.metric_scores, units=own.design.units, item_weights=own.design.weights, **vars(swaps)
    )


COMPUTE = {"system": _over_systems, "item": _within_items, "global": _over_outputs}
SWAP = {"kendall_item": _swap_within, "pearson_global": _swap_outputs}

CORRELATIONS = tuple(
    Statistic(
        name=(name := f"{kind}_{level}"),
        label=f"{called} {where}",
        doc=f"{called} {where}{', averaged over items' if level == 'item' else ''}",
        level=counted,
        compute=partial(COMPUTE[level], kind=kind),
        bounds=CORRELATION,
        population=partial(_population, kind=kind) if level == "system" else None,
        chance=0.0,
        swap=SWAP.get(name),
        essential=name in SWAP,
    )
    for kind, (called, _, _) in KINDS.items()
    for level, (where, counted) in LEVELS.items()
)
