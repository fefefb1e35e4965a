"""Clusters of items in what is made of counts: by how much the counts are divided, and what a reader is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import numpy as np

from custodes.data.notes import Note, noted
from custodes.evaluate.comparison import Counted, label_of
from custodes.stats import ABSENT, clusters
from custodes.stats.arrays import Floats, Ints, Signs, chunks
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
    units, raters = part.comparison.design.units, np.moveaxis(part.comparison.preferences.signs, 1, 0)
    return np.stack([_effects(clusters.outcomes, [own], 3, units, [margin_of])[0].effect for own in raters])


def table_effects(part: Counted, *statistics: Callable[[Counts], Floats]) -> list[DesignEffect]:
    """The design effect of statistics of tables, (pairs, metrics) each; of a part that is `clustered`."""
    assert part.comparison is not None
    human, units = part.comparison.human_signs, part.comparison.design.units
    of_metrics = [
        _effects(clusters.cells, [human, own], 15, units, [partial(_of_rows, own) for own in statistics])
        for own in part.comparison.metric_signs
    ]
    return [
        DesignEffect(*(np.stack(own, axis=1) for own in zip(*effects, strict=True)))
        for effects in zip(*of_metrics, strict=True)
    ]


def _of_rows(statistic: Callable[[Counts], Floats], rows: Floats) -> Floats:
    return statistic(Counts.of_row(rows))


def _effects(
    place: Callable[..., Signs],
    signs: Sequence[Signs],
    width: int,
    units: Ints,
    statistics: Sequence[Callable[[Floats], Floats]],
) -> list[DesignEffect]:
    """Of the tables that signs (pairs, items) make when placed in so many cells, a block of pairs at a time: (pairs,)
    each."""
    blocks = []
    for block in chunks(len(signs[0]), (width + 1) * units.size):
        counts = clusters.cluster_counts(place(*(own[block] for own in signs)), units=units, width=width)
        blocks.append([clusters.design_effect(own, counts) for own in statistics])
    return [
        DesignEffect(*(np.concatenate(own) for own in zip(*effects, strict=True)))
        for effects in zip(*blocks, strict=True)
    ]


def null_effects(part: Counted, raters: Iterable[Signs]) -> Floats:
    """What sign tests of raters (pairs, items) divide counts by: (raters, pairs); 1 without declared clusters."""
    if part.comparison is None or not clustered(part):
        return np.ones(())
    design, effects = part.comparison.design, []
    for own in raters:
        signs = np.where(own == ABSENT, 0, own)
        sums = unit_sums(signs, units=design.units, n_units=design.n_units)
        several = (sums != 0).sum(axis=-1)
        effects.append(clusters.null_effect(np.abs(signs).sum(axis=-1), (sums**2).sum(axis=-1), several))
    return np.stack(effects)


def shared_signs(part: Counted) -> Iterator[Iterable[Signs]]:
    """People's and the metrics' signs (pairs, items) on items that both rated, a metric after the other; none of
    counts."""
    if part.comparison is None:
        yield from ((), ())
        return
    comparison, absent = part.comparison, np.int8(ABSENT)
    yield (np.where(own != ABSENT, comparison.human_signs, absent) for own in comparison.metric_signs)
    yield (np.where(comparison.human_signs != ABSENT, own, absent) for own in comparison.metric_signs)


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
