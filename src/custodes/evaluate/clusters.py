"""Outcome counts of one aspect, design effects of clusters of items, and whether annotated items are a random part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np

from custodes.answers.shared_arguments import DEFAULTS, PreferenceOptions
from custodes.answers.wording import p_value_phrase
from custodes.data.interim_analyses import SEQUENTIAL_RULE
from custodes.data.notes import Note, build_notes
from custodes.data.outcome_counts import OutcomeCounts
from custodes.data.study import Study
from custodes.errors import InputError, OptionError, join_labels
from custodes.evaluate.comparable import label_of
from custodes.evaluate.leaderboard.bradley_terry import NOT_RANDOM, match_comparisons
from custodes.evaluate.rater_comparison import RaterComparison, compare, require_shared_outputs
from custodes.stats import ABSENT
from custodes.stats.arrays import Floats
from custodes.stats.clusters import DesignEffect, design_effect, joint_outcomes, null_effect, outcomes
from custodes.stats.correction.estimator import Counts, margin_of
from custodes.stats.strength.random_part import p_random_within_pairs


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
    def n_effective_clusters(self) -> float:
        """Effective number of clusters of the items with human ratings, for intervals; 0 if the user gave counts."""
        return self.comparison.human_item_comparison.design.n_effective_units if self.comparison else 0.0

    @property
    def overall(self) -> tuple[str, ...]:
        """Metrics without a score for the aspect; the score of these metrics without an aspect is used instead."""
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
        return [
            AspectCounts(
                aspect=comparison.aspect,
                counts=OutcomeCounts.from_comparisons(comparison.preferences),
                comparison=comparison,
            )
            for comparison in require_shared_outputs(compare(study, **setting))
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
    for option_name, option_value in setting.items():
        if option_value != DEFAULTS[option_name]:  # type: ignore[literal-required]
            raise OptionError(
                f"{option_name}: selection and tie rules were already applied to the counts; set {option_name} when "
                "counting"
            )


def has_clusters(aspect_counts: AspectCounts) -> bool:
    """Whether the study declares clusters of several items; False if the user gave counts."""
    return aspect_counts.comparison is not None and aspect_counts.comparison.design.has_clusters


def margin_effects(aspect_counts: AspectCounts) -> Floats:
    """Return the design effects of margins, (raters, pairs), annotators first; NaN without clusters."""
    if aspect_counts.comparison is None or not has_clusters(aspect_counts):
        return np.full((1 + len(aspect_counts.counts.metrics), len(aspect_counts.counts.system_a)), np.nan)
    cluster_cells = aspect_counts.comparison.cells
    outcome_rows_of_raters = (cluster_cells.rows(outcomes(rater_signs), width=3) for rater_signs in cluster_cells.signs)
    return np.stack(
        [design_effect(margin_of, cluster_outcome_rows).effect for cluster_outcome_rows in outcome_rows_of_raters]
    )


def table_effects(aspect_counts: AspectCounts, *statistics: Callable[[Counts], Floats]) -> list[DesignEffect]:
    """Return the design effects (pairs, metrics) of each of `statistics`. The aspect must have clusters.

    A statistic is a function of the counts of human and metric outcomes.
    """
    assert aspect_counts.comparison is not None
    cluster_cells = aspect_counts.comparison.cells
    joint_rows_of_metrics = [
        cluster_cells.rows(joint_outcomes(cluster_cells.signs[0], metric_signs), width=15)
        for metric_signs in cluster_cells.signs[1:]
    ]

    def effect(statistic: Callable[[Counts], Floats]) -> DesignEffect:
        effects_by_metric = [
            design_effect(lambda row: statistic(Counts.from_rows(row)), joint_outcome_rows)
            for joint_outcome_rows in joint_rows_of_metrics
        ]
        return DesignEffect(*(np.stack(field_arrays, axis=1) for field_arrays in zip(*effects_by_metric, strict=True)))

    return [effect(statistic) for statistic in statistics]


def null_effects(
    aspect_counts: AspectCounts, *, shared_with_annotators: bool = False, of_human_ratings: bool = False
) -> Floats:
    """Return the design effects by which sign tests divide counts, to account for clusters; 1 without clusters.

    Parameters
    ----------
    aspect_counts : AspectCounts
        Counts of one aspect.
    shared_with_annotators : bool
        Whether to use only the comparisons that annotators and metric both rated.
    of_human_ratings : bool
        Used only if `shared_with_annotators`. True: test the human ratings of these comparisons; False (default): the
        metric ratings.

    Returns
    -------
    array of shape (raters, pairs), or (metrics, pairs) if `shared_with_annotators`
    """
    if aspect_counts.comparison is None or not has_clusters(aspect_counts):
        return np.ones(())
    cluster_cells = aspect_counts.comparison.cells
    preference_signs = cluster_cells.signs
    if shared_with_annotators:
        preference_signs = np.where(
            (preference_signs[:1] != ABSENT) & (preference_signs[1:] != ABSENT),
            preference_signs[:1] if of_human_ratings else preference_signs[1:],
            np.int8(ABSENT),
        )
    design_effects_of_raters = []
    for rater_signs in preference_signs:
        cluster_outcome_rows = cluster_cells.rows(outcomes(rater_signs), width=3)
        wins, _, losses = cluster_outcome_rows.counts.T
        net_wins = wins - losses
        design_effects_of_raters.append(
            null_effect(
                cluster_outcome_rows.total(wins + losses),
                cluster_outcome_rows.total(net_wins**2),
                cluster_outcome_rows.total(net_wins != 0),
            )
        )
    return np.stack(design_effects_of_raters)


def cluster_notes(aspect_counts: AspectCounts, human_design_effects: Sequence[float] | Floats) -> list[Note]:
    """Return the notes on clusters; `human_design_effects` (pairs,) are the design effects of human margins."""
    design, aspect_text = (
        aspect_counts.comparison.design if aspect_counts.comparison else None,
        label_of(aspect_counts.aspect),
    )
    if design is None:
        return build_notes(
            (
                "counts-without-clusters",
                True,
                "counts do not record which items share a document, so items are treated as independent. "
                "If items share documents, p-values are too small and intervals too narrow; give the study with "
                "its clusters instead",
            )
        )
    defined_design_effects = np.asarray(human_design_effects)[np.isfinite(human_design_effects)]
    mean_design_effect = defined_design_effects.mean() if defined_design_effects.size else np.nan
    n_single_cluster_pairs = int(np.isinf(human_design_effects).sum())
    return build_notes(
        (
            "design-effect",
            True if defined_design_effects.size else 0,
            f"{len(design.items)} items in {design.n_units} clusters{aspect_text}: the variance of human "
            f"margins is {mean_design_effect:.2f} times the variance for independent items (design effect, mean over "
            "pairs of systems). Tests, intervals and probabilities account for this design effect",
        ),
        (
            "one-cluster",
            n_single_cluster_pairs,
            f"{n_single_cluster_pairs} pairs of systems have ratings in only one cluster{aspect_text}, "
            "so the variance cannot be estimated",
        ),
        aspect=aspect_counts.aspect,
    )


def random_part_p_values(comparison: RaterComparison) -> Floats:
    """Return p-values (metrics,) of the hypothesis that annotated items are a random part within each pair of systems.

    The result is NaN for a metric that rated only annotated items. The result is also NaN for studies with interim
    analyses: the items are drawn at random, but the answers decide when annotation stops.
    """
    preferences, p_values = comparison.preferences, np.full(len(comparison.metrics), np.nan)
    human_comparisons = preferences.select_rater(0)
    if not len(human_comparisons) or any(note.rule == SEQUENTIAL_RULE for note in comparison.notes):
        return p_values
    for metric_index in range(len(p_values)):
        metric_comparisons = preferences.select_rater(1 + metric_index)
        if len(metric_comparisons):
            p_values[metric_index] = p_random_within_pairs(
                metric_comparisons.first,
                metric_comparisons.second,
                metric_comparisons.sign,
                match_comparisons(human_comparisons, metric_comparisons)[1],
                unit=comparison.design.units[metric_comparisons.item],
                n_systems=len(comparison.systems),
            )
    return p_values


def not_random_note(metrics: Sequence[str], p_values: Floats, consequence: str, *, aspect: str) -> list[Note]:
    """Return the note on the metrics with a significant result of `random_part_p_values`; empty without such metrics.

    `consequence` is a clause that says what follows for the results.
    """
    is_not_random = p_values < NOT_RANDOM
    metrics_text = join_labels(list(compress(metrics, is_not_random)), limit=4)
    return build_notes(
        (
            "not-random",
            int(is_not_random.sum()),
            f"{metrics_text}{label_of(aspect)}: the annotated items are not a random part of the items that the metric "
            f"rated ({p_value_phrase(p_values[is_not_random].max(initial=0.0))}), {consequence}. Let annotators rate a "
            "random part of the items",
        ),
        aspect=aspect,
    )
