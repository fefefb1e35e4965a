"""Pearson, Spearman and Kendall correlation: over systems, within items, over all outputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from custodes.evaluate.agreement.statistic import Sample, Statistic, of_outputs
from custodes.evaluate.comparison import Comparison
from custodes.stats.agreement import correlation, kendall
from custodes.stats.agreement.system_scores import over_systems
from custodes.stats.arrays import Floats
from custodes.stats.intervals import CORRELATION

KINDS: dict[str, tuple[str, Callable[..., Floats]]] = {
    "pearson": ("Pearson r", correlation.pooled_pearson),
    "spearman": ("Spearman ρ", correlation.pooled_spearman),
    "kendall": ("Kendall τ-b", kendall.pooled_kendall),
}
"""What each is called, and how it is computed over outputs."""

LEVELS: dict[str, str] = {
    "system": "over systems",
    "item": "within items",
    "global": "over all outputs",
}


def _over_systems(sample: Sample, *, kind: Any) -> Floats:
    scores = sample.system_scores
    return over_systems(kind, scores.people, scores.metrics, pairs=scores.pairs)


def _population(sample: Sample, *, kind: Any) -> Floats:
    return over_systems(kind, *sample.population_scores, pairs=sample.system_scores.pairs)


def _per_item(comparison: Comparison, *, kind: Any) -> Floats:
    return correlation.within_item(comparison.human, comparison.metric_scores, kind=kind)


def _within_items(sample: Sample, *, kind: Any) -> Floats:
    return sample.item_mean(sample.per_item(f"{kind}_item", partial(_per_item, kind=kind)))


def _of_people(sample: Sample, human: Floats, metrics: Floats, *, kind: str) -> Floats:
    design = sample.comparison.design
    return KINDS[kind][1](human, metrics, units=design.units, weights=sample.times, item_weights=design.item_weights)


def _over_outputs(sample: Sample, *, kind: str) -> Floats:
    return _of_people(sample, sample.comparison.human, sample.comparison.metric_scores, kind=kind)


def _computed(level: str, kind: str) -> Callable[[Sample], Floats]:
    own: Callable[[Sample], Floats] = partial(COMPUTE[level], kind=kind)
    return own if level == "system" else of_outputs(own)  # of systems the file may have scores


COMPUTE = {"system": _over_systems, "item": _within_items, "global": _over_outputs}
RANKED = ("spearman", "kendall")
"""What sorts outputs, and does so once for the people of several aspects."""

SHOWN_FIRST = ("kendall_item", "pearson_global")

CORRELATIONS = tuple(
    Statistic(
        name=(name := f"{kind}_{level}"),
        label=f"{called} {where}",
        doc=f"{called} {where}{', averaged over items' if level == 'item' else ''}",
        compute=_computed(level, kind),
        of_people=partial(_of_people, kind=kind) if level == "global" and kind in RANKED else None,
        per_item=partial(_per_item, kind=kind) if level == "item" else None,
        bounds=CORRELATION,
        population=partial(_population, kind=kind) if level == "system" else None,
        chance=0.0,
        smooth=level != "system" or kind == "pearson",
        compared=name in SHOWN_FIRST,
        essential=name in SHOWN_FIRST,
    )
    for kind, (called, _) in KINDS.items()
    for level, where in LEVELS.items()
)
