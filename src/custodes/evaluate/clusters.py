"""Clusters of items in what is made of counts: by how much the counts are divided, and what a reader is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from custodes.data.notes import Note, noted
from custodes.evaluate.comparison import Counted, label_of
from custodes.stats import ABSENT, clusters
from custodes.stats.arrays import Floats, Signs
from custodes.stats.clusters import DesignEffect
from custodes.stats.correction.estimator import Counts, margin_of
from custodes.stats.resampling.resample import unit_sums


def clustered(part: Counted) -> bool:
    """Whether some items are said to belong together."""
    return part.comparison is not None and part.comparison.design.clustered


def margin_effects(part: Counted) -> Floats:
    """The design effect of every rater's margin (raters, pairs), people first; NaN without declared clusters."""
    if part.comparison is None or not clustered(part):
        return np.full((1 + len(part.counts.metrics), len(part.counts.system_a)), np.nan)
    effects = []
    for signs in np.moveaxis(part.comparison.preferences.signs, 1, 0):
        cells = clusters.outcomes(signs)
        counts = np.stack([(cells == k).sum(axis=-1) for k in range(3)], axis=-1)
        effects.append(clusters.design_effect(margin_of, counts, cells, units=part.comparison.design.units).effect)
    return np.stack(effects)


def table_effects(part: Counted, *statistics: Callable[[Counts], Floats]) -> list[DesignEffect]:
    """The design effect of statistics of tables, (pairs, metrics) each; of a part that is `clustered`."""
    assert part.comparison is not None
    rows = Counts(part.counts.paired, part.counts.metric_only, part.counts.human_only).rows
    made = []
    for m, metric in enumerate(part.comparison.metric_signs):
        cells = clusters.cells(part.comparison.human_signs, metric)
        made.append(
            [
                clusters.design_effect(
                    lambda own, statistic=statistic: statistic(Counts.of_row(own)),  # type: ignore[misc]
                    rows[:, m],
                    cells,
                    units=part.comparison.design.units,
                )
                for statistic in statistics
            ]
        )
    return [
        DesignEffect(*(np.stack(own, axis=1) for own in zip(*of_metrics, strict=True)))
        for of_metrics in zip(*made, strict=True)
    ]


def null_effects(part: Counted, raters: Iterable[Signs]) -> Floats:
    """What sign tests of raters (pairs, items) divide counts by: (raters, pairs); 1 without declared clusters."""
    if part.comparison is None or not clustered(part):
        return np.ones(())
    design, effects = part.comparison.design, []
    for own in raters:
        signs = np.where(own == ABSENT, 0, own)
        sums = unit_sums(signs, units=design.units, n_units=design.n_units)
        effects.append(clusters.null_effect(np.abs(signs).sum(axis=-1), (sums**2).sum(axis=-1)))
    return np.stack(effects)


def cluster_notes(part: Counted, people: Sequence[float] | Floats) -> list[Note]:
    """What a reader must know of clusters; `people` (pairs,) are the design effects of their margins."""
    design, where = part.comparison.design if part.comparison else None, label_of(part.aspect)
    if design is None:
        message = (
            "counts do not tell which items belong to one document, so all are taken to be independent: if they come in"
            " documents, p-values are too small and intervals too narrow; give the study with its clusters instead"
        )
        return noted(("counts-without-clusters", True, message))
    known = np.asarray(people)[np.isfinite(people)]
    mean = known.mean() if known.size else np.nan
    message = (
        f"{len(design.items)} items in {design.n_units} clusters{where}: the variance of people's margins is {mean:.2f}"
        " times that of independent items (design effect, mean over pairs of systems); tests, intervals and"
        " probabilities allow for it"
    )
    alone = int(np.isinf(people).sum())
    single = f"{alone} pairs of systems are rated in one cluster only{where}, so nothing is known of how they vary"
    return noted(
        ("design-effect", True if known.size else 0, message), ("one-cluster", alone, single), aspect=part.aspect
    )
