"""Outcome counts of one aspect, and the design effects of clusters of items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from custodes.answers.shared_arguments import DEFAULTS, PreferenceOptions
from custodes.data.notes import Note, build_notes
from custodes.data.outcome_counts import OutcomeCounts
from custodes.data.study import Study
from custodes.errors import InputError, OptionError, join_labels
from custodes.evaluate.comparable import label_of
from custodes.evaluate.rater_comparison import RaterComparison, compare, require_shared_outputs
from custodes.stats import ABSENT
from custodes.stats.arrays import Floats
from custodes.stats.clusters import DesignEffect, design_effect, joint_outcomes, null_effect, outcomes
from custodes.stats.correction.estimator import Counts, margin_of


@dataclass(frozen=True, kw_only=True)
class AspectCounts:
    """Outcome counts of each pair of systems for one aspect, and their source (None if the user gave counts)."""

    aspect: str
    counts: OutcomeCounts
    comparison: RaterComparison | None

    @property
    def n_clusters(self) -> int:
        """Number of clusters to resample; 0 if the user gave counts."""
        return self.comparison.design.n_units if self.comparison else 0

    @property
    def overall(self) -> tuple[str, ...]:
        """Metrics that have no score for the aspect, so that their score without an aspect is used."""
        return self.comparison.overall if self.comparison else ()

    @property
    def notes(self) -> tuple[Note, ...]:
        """The notes of the comparison, or the notes of the counts if there is no comparison."""
        return self.comparison.notes if self.comparison else self.counts.notes


def counts_by_aspect(study: Study | OutcomeCounts, setting: PreferenceOptions) -> list[AspectCounts]:
    """Return the pair counts of each aspect of a study; counts that the user gave form a single part.

    Selection and tie rules were already applied to counts that the user gave, so `setting` must have default values.
    """
    if not isinstance(study, OutcomeCounts):
        comparisons = require_shared_outputs(compare(study, **setting))
        return [
            AspectCounts(aspect=c.aspect, counts=OutcomeCounts.from_comparisons(c.preferences), comparison=c)
            for c in comparisons
        ]
    check_default(setting)
    study.check_both_sides()
    if not study.paired.any():
        raise InputError(
            f"annotators and metrics ({join_labels(study.metrics, limit=3)}) have no item in common; give data "
            "in which some items have both human and metric ratings"
        )
    return [AspectCounts(aspect="", counts=study, comparison=None)]


def check_default(setting: PreferenceOptions) -> None:
    """Raise `OptionError` if `setting` has a selection or tie rule, which cannot be applied to counts."""
    for name, value in setting.items():
        if value != DEFAULTS[name]:  # type: ignore[literal-required]
            raise OptionError(
                f"{name}: selection and tie rules were already applied to the counts; set {name} when counting"
            )


def has_clusters(aspect_counts: AspectCounts) -> bool:
    """Whether the study declares clusters of several items; False if the user gave counts."""
    return aspect_counts.comparison is not None and aspect_counts.comparison.design.has_clusters


def margin_effects(aspect_counts: AspectCounts, n_raters: int | None = None) -> Floats:
    """Return the design effects of the margins of the first `n_raters` raters, (raters, pairs); NaN without clusters.

    Annotators come first. By default, the design effects of all raters are returned.
    """
    n_raters = 1 + len(aspect_counts.counts.metrics) if n_raters is None else n_raters
    if aspect_counts.comparison is None or not has_clusters(aspect_counts):
        return np.full((n_raters, len(aspect_counts.counts.system_a)), np.nan)
    cells = aspect_counts.comparison.cells
    outcome_rows = (cells.rows(outcomes(signs), width=3) for signs in cells.signs[:n_raters])
    return np.stack([design_effect(margin_of, table).effect for table in outcome_rows])


def table_effects(aspect_counts: AspectCounts, *statistics: Callable[[Counts], Floats]) -> list[DesignEffect]:
    """Return the design effects (pairs, metrics) of each of `statistics`. The aspect must have clusters.

    A statistic is a function of the counts of human and metric outcomes.
    """
    assert aspect_counts.comparison is not None
    cells = aspect_counts.comparison.cells
    joint_rows = [cells.rows(joint_outcomes(cells.signs[0], signs), width=15) for signs in cells.signs[1:]]
    effects_of_statistics = (
        [
            design_effect(lambda row, statistic=statistic: statistic(Counts.from_rows(row)), table)  # type: ignore[misc]
            for table in joint_rows
        ]
        for statistic in statistics
    )
    return [
        DesignEffect(*(np.stack(values, axis=1) for values in zip(*effects, strict=True)))
        for effects in effects_of_statistics
    ]


def null_effects(aspect_counts: AspectCounts, *, shared: bool = False, people: bool = False) -> Floats:
    """Return the numbers by which sign tests divide counts to account for clusters; 1 without clusters.

    Parameters
    ----------
    aspect_counts : AspectCounts
        Counts of one aspect.
    shared : bool
        Whether to use only the comparisons that annotators and metric both rated.
    people : bool
        Used only if `shared`. True: test the human ratings of these comparisons; False (default): the metric ratings.

    Returns
    -------
    array of shape (raters, pairs), or (metrics, pairs) if `shared`
    """
    if aspect_counts.comparison is None or not has_clusters(aspect_counts):
        return np.ones(())
    cells = aspect_counts.comparison.cells
    signs = cells.signs
    if shared:
        is_shared = (signs[:1] != ABSENT) & (signs[1:] != ABSENT)
        signs = np.where(is_shared, signs[:1] if people else signs[1:], np.int8(ABSENT))
    effects = []
    for rater_signs in signs:
        rows = cells.rows(outcomes(rater_signs), width=3)
        wins, _, losses = rows.counts.T
        net_wins = wins - losses
        effects.append(null_effect(rows.total(wins + losses), rows.total(net_wins**2), rows.total(net_wins != 0)))
    return np.stack(effects)


def cluster_notes(aspect_counts: AspectCounts, people: Sequence[float] | Floats) -> list[Note]:
    """Return the notes on clusters; `people` (pairs,) are the design effects of human margins."""
    design, label = (
        aspect_counts.comparison.design if aspect_counts.comparison else None,
        label_of(aspect_counts.aspect),
    )
    if design is None:
        message = (
            "counts do not record which items share a document, so items are treated as independent. "
            "If items share documents, p-values are too small and intervals too narrow; give the study with "
            "its clusters instead"
        )
        return build_notes(("counts-without-clusters", True, message))
    defined_effects = np.asarray(people)[np.isfinite(people)]
    mean_effect = defined_effects.mean() if defined_effects.size else np.nan
    message = (
        f"{len(design.items)} items in {design.n_units} clusters{label}: the variance of human "
        f"margins is {mean_effect:.2f} times the variance for independent items (design effect, mean over pairs "
        "of systems). Tests, intervals and probabilities account for this design effect"
    )
    n_single = int(np.isinf(people).sum())
    single_text = (
        f"{n_single} pairs of systems have ratings in only one cluster{label}, so the variance cannot be estimated"
    )
    return build_notes(
        ("design-effect", True if defined_effects.size else 0, message),
        ("one-cluster", n_single, single_text),
        aspect=aspect_counts.aspect,
    )
