"""Human preferences in random order and preferences of a metric, as input for the simulation of a protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from custodes.answers.shared_arguments import NONE, PreferenceOptions, selection_arguments
from custodes.data.study import Study
from custodes.evaluate.rater_comparison import RaterComparison, compare, compare_selection, require_shared_outputs
from custodes.stats import ABSENT
from custodes.stats.arrays import Floats, Ints, Signs
from custodes.stats.clusters import is_clustered, pooled_design_effect
from custodes.stats.correction.dirichlet import human_theta
from custodes.stats.correction.estimator import PairItems, decide
from custodes.stats.ratios import ratio
from custodes.stats.stopping.allocation import annotation_kinds, annotation_order, outcome_of
from custodes.stats.stopping.replay import Answers

IDEAL = "ideal"
"""Name of the simulated metric of Deriu et al. 2023, Appendix E."""

IDEAL_MIXTURE = np.array([[0.8, 0.25, 0.1], [0.1, 0.5, 0.1], [0.1, 0.25, 0.8]])
"""Mixture matrix [metric, human] of the ideal metric, with columns that sum to 1 (Deriu et al. 2023, Appendix E)."""


@dataclass(frozen=True, kw_only=True)
class RatedPairs(PairItems):
    """Pairs of systems with human ratings, and the preferences of a metric.

    `metric` (pairs, items) are the preferences, or `ABSENT` without a preference. `metric_more` (pairs, 3) counts the
    wins, ties and losses by the metric on further items.
    """

    metric: Signs
    metric_more: Ints

    @property
    def outcome(self) -> Ints:
        """Numbers of wins, ties and losses by human ratings: (pairs, 3)."""
        return outcome_of(self.human)

    @property
    def metric_outcome(self) -> Ints:
        """Numbers of wins, ties and losses by the metric over all items: (pairs, 3)."""
        return outcome_of(self.metric) + self.metric_more

    @property
    def effect(self) -> Floats:
        """The design effect of all annotations, (pairs,)."""
        return pooled_design_effect(self.human, units=self.units)

    @property
    def truth(self) -> Floats:
        """Proportions of human outcomes, as posterior means under a uniform prior: (pairs, 3)."""
        return shares_of(self.outcome)

    @property
    def mode(self) -> Floats:
        """Proportions of human outcomes, as posterior modes under a uniform prior (as in the paper): (pairs, 3)."""
        return ratio(self.outcome, self.outcome.sum(axis=-1, keepdims=True))

    def reference(self, gamma: float) -> Signs:
        """The decisions with all annotations, from effective counts: (pairs,)."""
        return decide_by_counts(self.outcome / self.effect[:, np.newaxis], gamma)


def decide_by_counts(effective_counts: Floats, gamma: float) -> Signs:
    """Return decisions from effective counts (..., outcomes); wins are first and losses are last."""
    return decide(human_theta(effective_counts[..., 0], effective_counts[..., -1]), gamma=gamma)


def shares_of(outcome_counts: Ints) -> Floats:
    """Return the posterior mean proportions under a uniform prior, from counts (..., 3)."""
    return np.asarray((outcome_counts + 1) / (outcome_counts.sum(axis=-1, keepdims=True) + 3))


def rated_pairs(comparison: RaterComparison, metric: str) -> RatedPairs:
    """Return the pairs with human ratings in a comparison, with the preferences of a metric ('none': no metric)."""
    human_signs = comparison.human_signs
    is_rated_pair = (human_signs != ABSENT).any(axis=1)
    metric_signs = (
        np.full_like(human_signs, ABSENT)
        if metric == NONE
        else comparison.metric_signs[comparison.metrics.index(metric)]
    )
    return RatedPairs(
        human=human_signs[is_rated_pair],
        metric=metric_signs[is_rated_pair],
        metric_more=np.zeros((int(is_rated_pair.sum()), 3), dtype=np.int64),
        systems=comparison.design.pairs[is_rated_pair],
        units=comparison.design.units,
    )


def simulate_ideal_metric(pairs: RatedPairs, n_further_items: int, rng: np.random.Generator) -> RatedPairs:
    """Return the pairs with preferences of a simulated metric, whose errors follow the ideal mixture matrix.

    The metric also rates `n_further_items` items, for which human preferences are drawn from the outcome proportions of
    the pair.
    """
    metric_outcome_cdf = np.cumsum(IDEAL_MIXTURE, axis=0)[:, np.where(pairs.human == ABSENT, 0, 1 - pairs.human)]
    metric_outcome_codes = (rng.random(pairs.human.shape) > metric_outcome_cdf[:2]).sum(axis=0)
    metric_signs = np.where(pairs.human == ABSENT, ABSENT, 1 - metric_outcome_codes).astype(np.int8)
    human_outcome_counts = pairs.outcome
    metric_outcome_shares = human_outcome_counts / human_outcome_counts.sum(axis=1, keepdims=True) @ IDEAL_MIXTURE.T
    return replace(pairs, metric=metric_signs, metric_more=rng.multinomial(n_further_items, metric_outcome_shares))


def permute_systems(pairs: RatedPairs, rng: np.random.Generator) -> RatedPairs:
    """Return the preferences of annotators and metric with systems permuted within every cluster.

    The two systems of each pair are then equal on average, and clusters stay whole."""
    n_systems, n_clusters = int(pairs.systems.max()) + 1, int(pairs.units.max()) + 1
    permuted_systems_of_item = rng.permuted(np.tile(np.arange(n_systems), (n_clusters, 1)), axis=1)[pairs.units]
    first_system_indices, second_system_indices = (
        permuted_systems_of_item[:, pairs.systems[:, side_index]].T for side_index in range(2)
    )
    metric_outcome_totals = pairs.metric_more.sum(axis=0)
    symmetric_outcome_shares = (metric_outcome_totals + metric_outcome_totals[::-1]) / max(
        1, 2 * metric_outcome_totals.sum()
    )
    further_outcome_counts = (
        rng.multinomial(pairs.metric_more.sum(axis=1), symmetric_outcome_shares)
        if metric_outcome_totals.any()
        else pairs.metric_more
    )
    human_and_metric_signs = np.stack([pairs.human, pairs.metric])
    signs_of_ordered_pair = np.full((2, n_systems, n_systems, human_and_metric_signs.shape[2]), ABSENT, dtype=np.int8)
    signs_of_ordered_pair[:, pairs.systems[:, 0], pairs.systems[:, 1]] = human_and_metric_signs
    signs_of_ordered_pair[:, pairs.systems[:, 1], pairs.systems[:, 0]] = np.where(
        human_and_metric_signs == ABSENT, ABSENT, -human_and_metric_signs
    )
    human_signs, metric_signs = signs_of_ordered_pair[
        :, first_system_indices, second_system_indices, np.arange(human_and_metric_signs.shape[2])
    ]
    return replace(pairs, human=human_signs, metric=metric_signs, metric_more=further_outcome_counts)


def order_answers(replications: Sequence[RatedPairs], seeds: Sequence[int]) -> Answers:
    """Return the preferences of all replications, each in a random order that is drawn with the replication's seed."""
    human_rated_masks = [replication.human != ABSENT for replication in replications]
    cluster_of_item = replications[0].units
    # Positions have the smallest integer type, because replications x pairs x items is a large number.
    order_dtype = np.min_scalar_type(-len(cluster_of_item))
    item_orders = np.stack(
        [
            annotation_order(is_human_rated, cluster_of_item, np.random.default_rng(seed)).astype(order_dtype)
            for is_human_rated, seed in zip(human_rated_masks, seeds, strict=True)
        ]
    )
    annotation_kind_codes = np.stack(
        [
            np.take_along_axis(annotation_kinds(replication.human, replication.metric), item_order, axis=1)
            for replication, item_order in zip(replications, item_orders, strict=True)
        ]
    )

    def items_after(n_answers: Ints) -> PairItems:
        human_signs = np.full_like(annotation_kind_codes, ABSENT)
        human_signs_by_position = np.where(
            np.arange(annotation_kind_codes.shape[2]) < n_answers[..., np.newaxis],
            1 - annotation_kind_codes // 4,
            np.int8(ABSENT),
        )
        np.put_along_axis(human_signs, item_orders, human_signs_by_position, axis=2)
        return PairItems(human=human_signs, systems=replications[0].systems, units=cluster_of_item)

    return Answers(
        kinds=annotation_kind_codes,
        available=np.stack([is_human_rated.sum(axis=1) for is_human_rated in human_rated_masks]),
        metric=np.stack([replication.metric_outcome for replication in replications]),
        items=items_after,
        clustered=is_clustered(cluster_of_item),
    )


def comparisons_of(study: Study, setting: PreferenceOptions) -> tuple[RaterComparison, ...]:
    """Return the comparisons of annotators with the metrics; without metrics if `metrics` is None or 'none'."""
    if setting["metrics"] not in (None, NONE):
        return require_shared_outputs(compare(study, **setting))
    annotator_names, _ = study._chosen_annotators(setting["human"])
    if study._rater_rows(annotator_names).is_empty():
        study.select(human=setting["human"])  # raises InputError if there are no human ratings yet

    def compare_annotators() -> tuple[RaterComparison, ...]:
        annotators_only_study = replace(
            study,
            raters=study.raters.with_kinds(dict.fromkeys(annotator_names, "human")).select_raters(annotator_names),
        )
        annotators_only_setting: PreferenceOptions = {**setting, "metrics": None}
        selected_study = annotators_only_study.select(**selection_arguments(annotators_only_setting), one_side=True)
        return compare_selection(selected_study, annotators_only_setting)

    return study.once(("annotators alone", repr(setting)), compare_annotators)
