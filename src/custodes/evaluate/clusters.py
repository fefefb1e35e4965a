"""Outcome counts of one aspect, of a study or as they were given, and what clusters of items do to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from custodes.answers.setting import DEFAULTS, Setting
from custodes.data.cells import OutcomeCounts
from custodes.data.comparisons import Joint
from custodes.data.notes import Note, noted
from custodes.data.study import Study
from custodes.errors import InputError, OptionError, listed
from custodes.evaluate.comparison import Comparison, compare, label_of, with_outputs
from custodes.stats import clusters
from custodes.stats.arrays import Floats, chunks
from custodes.stats.clusters import DesignEffect
from custodes.stats.correction.estimator import Counts, margin_of


@dataclass(frozen=True, kw_only=True)
class Counted:
    """Pair counts of one aspect, and the comparison behind them where they were not given ready-made."""

    aspect: str
    counts: OutcomeCounts
    comparison: Comparison | None

    @property
    def n_clusters(self) -> int:
        """How many clusters can be resampled; 0 where counts were given ready-made."""
        return self.comparison.design.n_units if self.comparison else 0

    @property
    def overall(self) -> tuple[str, ...]:
        """The metrics whose score without an aspect is compared with the aspect."""
        return self.comparison.overall if self.comparison else ()

    @property
    def notes(self) -> tuple[Note, ...]:
        """The notes of the comparison, or of the counting."""
        return self.comparison.notes if self.comparison else self.counts.notes


def counted(study: Study | OutcomeCounts, setting: Setting) -> list[Counted]:
    """The counts of every aspect of a study, or those that were given, which are selected and tied already."""
    if not isinstance(study, OutcomeCounts):
        comparisons = with_outputs(compare(study, **setting))
        return [Counted(aspect=c.aspect, counts=OutcomeCounts.of(c.preferences), comparison=c) for c in comparisons]
    for name, value in setting.items():
        if value != DEFAULTS[name]:  # type: ignore[literal-required]
            raise OptionError(f"{name}: counts are already selected and tied; give it when counting")
    study.check_both_sides()
    if not study.paired.any():
        raise InputError(
            f"people and metrics ({listed(study.metrics, limit=3)}) have no item in common, so nothing compares them;"
            " count items that both rated"
        )
    return [Counted(aspect="", counts=study, comparison=None)]


def clustered(part: Counted) -> bool:
    """Whether some items are said to belong together."""
    return part.comparison is not None and part.comparison.design.clustered


def margin_effects(part: Counted, raters: int | None = None) -> Floats:
    """The design effect of margins (raters, pairs), people first, of all or so many; NaN without declared clusters."""
    raters = 1 + len(part.counts.metrics) if raters is None else raters
    if part.comparison is None or not clustered(part):
        return np.full((raters, len(part.counts.system_a)), np.nan)
    return np.stack([_effects(part.comparison, (r,), 3, [margin_of])[0].effect for r in range(raters)])


def table_effects(part: Counted, *statistics: Callable[[Counts], Floats]) -> list[DesignEffect]:
    """The design effect of statistics of tables, (pairs, metrics) each; of a part that is `clustered`."""
    assert part.comparison is not None
    of_rows = [partial(_of_rows, own) for own in statistics]
    of_metrics = [_effects(part.comparison, (0, 1 + m), 15, of_rows) for m in range(len(part.counts.metrics))]
    return [
        DesignEffect(*(np.stack(own, axis=1) for own in zip(*effects, strict=True)))
        for effects in zip(*of_metrics, strict=True)
    ]


def _of_rows(statistic: Callable[[Counts], Floats], rows: Floats) -> Floats:
    return statistic(Counts.of_row(rows))


def _effects(
    comparison: Comparison, raters: tuple[int, ...], width: int, statistics: Sequence[Callable[[Floats], Floats]]
) -> list[DesignEffect]:
    """Of the tables of one rater, or of people and a metric: (pairs,) each, a block of pairs at a time."""
    rows, n_pairs = comparison.preferences.joint(*raters), len(comparison.design.pairs)
    cells = clusters.cells(*rows.signs) if len(raters) > 1 else clusters.outcomes(rows.signs[0])
    units, blocks = comparison.design.units[rows.item], []
    for block in chunks(n_pairs, 2 * (width + 1) * (1 + len(rows.pair) // n_pairs)):
        inside = slice(*np.searchsorted(rows.pair, (block.start, block.stop)))
        made = clusters.cluster_rows(
            rows.pair[inside] - block.start,
            cells[inside],
            units[inside],
            width=width,
            n_tables=block.stop - block.start,
        )
        blocks.append([clusters.effects_of(own, made) for own in statistics])
    return [
        DesignEffect(*(np.concatenate(own) for own in zip(*effects, strict=True)))
        for effects in zip(*blocks, strict=True)
    ]


def null_effects(part: Counted, raters: Iterable[Joint]) -> Floats:
    """What sign tests of raters, each by itself, divide counts by: (raters, pairs); 1 without declared clusters."""
    if part.comparison is None or not clustered(part):
        return np.ones(())
    design, n_pairs, effects = part.comparison.design, len(part.counts.system_a), []
    for rows in raters:
        sign = rows.signs[0]
        known, place = np.unique(rows.pair * design.n_units + design.units[rows.item], return_inverse=True)
        sums, pair = np.bincount(place, weights=sign, minlength=len(known)), known // design.n_units
        effects.append(
            clusters.null_effect(
                np.bincount(rows.pair, weights=np.abs(sign), minlength=n_pairs),
                np.bincount(pair, weights=sums**2, minlength=n_pairs),
                np.bincount(pair, weights=sums != 0, minlength=n_pairs),
            )
        )
    return np.stack(effects)


def shared_rows(part: Counted) -> Iterator[Iterable[Joint]]:
    """People's and the metrics' signs on what both rated, a metric after the other; none of counts."""
    for who in (0, 1):
        yield (_shared(part, m, who) for m in range(len(part.counts.metrics)))


def _shared(part: Counted, m: int, who: int) -> Joint:
    assert part.comparison is not None
    rows = part.comparison.preferences.joint(0, 1 + m)
    both = rows.by_all
    return Joint(rows.pair[both], rows.item[both], rows.signs[who : who + 1, both])


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
