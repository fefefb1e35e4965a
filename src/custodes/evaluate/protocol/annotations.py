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
        """(pairs, 3): numbers of wins, ties and losses by human ratings."""
        return outcome_of(self.human)

    @property
    def metric_outcome(self) -> Ints:
        """(pairs, 3): numbers of wins, ties and losses by the metric over all items."""
        return outcome_of(self.metric) + self.metric_more

    @property
    def effect(self) -> Floats:
        """(pairs,): the design effect of all annotations."""
        return pooled_design_effect(self.human, units=self.units)

    @property
    def truth(self) -> Floats:
        """(pairs, 3): proportions of human outcomes, as posterior means under a uniform prior."""
        return shares_of(self.outcome)

    @property
    def mode(self) -> Floats:
        """(pairs, 3): proportions of human outcomes, as posterior modes under a uniform prior (as in the paper)."""
        return ratio(self.outcome, self.outcome.sum(axis=-1, keepdims=True))

    def reference(self, gamma: float) -> Signs:
        """(pairs,): the decisions with all annotations, from effective counts."""
        return decide_by_counts(self.outcome / self.effect[:, np.newaxis], gamma)


def decide_by_counts(effective_counts: Floats, gamma: float) -> Signs:
    """Return decisions from effective counts (..., outcomes); wins are first and losses are last."""
    return decide(human_theta(effective_counts[..., 0], effective_counts[..., -1]), gamma=gamma)


def shares_of(counts: Ints) -> Floats:
    """Return the posterior mean proportions under a uniform prior, from counts (..., 3)."""
    return np.asarray((counts + 1) / (counts.sum(axis=-1, keepdims=True) + 3))


def rated_pairs(comparison: RaterComparison, metric: str) -> RatedPairs:
    """Return the pairs with human ratings in a comparison, with the preferences of a metric ('none': no metric)."""
    human = comparison.human_signs
    is_rated = (human != ABSENT).any(axis=1)
    signs = np.full_like(human, ABSENT) if metric == NONE else comparison.metric_signs[comparison.metrics.index(metric)]
    return RatedPairs(
        human=human[is_rated],
        metric=signs[is_rated],
        metric_more=np.zeros((int(is_rated.sum()), 3), dtype=np.int64),
        systems=comparison.design.pairs[is_rated],
        units=comparison.design.units,
    )


def simulate_ideal_metric(pairs: RatedPairs, n_further_items: int, rng: np.random.Generator) -> RatedPairs:
    """Return the pairs with preferences of a simulated metric, whose errors follow the ideal mixture matrix.

    The metric also rates `n_further_items` items, for which human preferences are drawn from the outcome proportions of
    the pair.
    """
    cumulative_shares = np.cumsum(IDEAL_MIXTURE, axis=0)[:, np.where(pairs.human == ABSENT, 0, 1 - pairs.human)]
    metric_kinds = (rng.random(pairs.human.shape) > cumulative_shares[:2]).sum(axis=0)
    signs = np.where(pairs.human == ABSENT, ABSENT, 1 - metric_kinds).astype(np.int8)
    outcome = pairs.outcome
    shares = outcome / outcome.sum(axis=1, keepdims=True) @ IDEAL_MIXTURE.T
    return replace(pairs, metric=signs, metric_more=rng.multinomial(n_further_items, shares))


def permute_systems(pairs: RatedPairs, rng: np.random.Generator) -> RatedPairs:
    """Return the preferences of annotators and metric with systems permuted within every cluster.

    The two systems of each pair are then equal on average, and clusters stay whole."""
    n_systems, n_units = int(pairs.systems.max()) + 1, int(pairs.units.max()) + 1
    system_permutation = rng.permuted(np.tile(np.arange(n_systems), (n_units, 1)), axis=1)[pairs.units]
    first, second = (system_permutation[:, pairs.systems[:, k]].T for k in range(2))
    metric_totals = pairs.metric_more.sum(axis=0)
    expected_shares = (metric_totals + metric_totals[::-1]) / max(1, 2 * metric_totals.sum())
    metric_more = (
        rng.multinomial(pairs.metric_more.sum(axis=1), expected_shares) if metric_totals.any() else pairs.metric_more
    )
    signs = []
    for rater_signs in (pairs.human, pairs.metric):
        matrix = np.full((n_systems, n_systems, rater_signs.shape[1]), ABSENT, dtype=np.int8)
        matrix[pairs.systems[:, 0], pairs.systems[:, 1]] = rater_signs
        matrix[pairs.systems[:, 1], pairs.systems[:, 0]] = np.where(rater_signs == ABSENT, ABSENT, -rater_signs)
        signs.append(matrix[first, second, np.arange(rater_signs.shape[1])])
    return replace(pairs, human=signs[0], metric=signs[1], metric_more=metric_more)


def order_answers(replications: Sequence[RatedPairs], seeds: Sequence[int]) -> Answers:
    """Return the preferences of all replications, each in a random order that is drawn with the replication's seed."""
    is_rated = [pairs.human != ABSENT for pairs in replications]
    units = replications[0].units
    # Positions have the smallest integer type, because replications x pairs x items is a large number.
    smallest_type = np.min_scalar_type(-len(units))
    orders = np.stack(
        [
            annotation_order(is_available, units, np.random.default_rng(s)).astype(smallest_type)
            for is_available, s in zip(is_rated, seeds, strict=True)
        ]
    )
    kinds = np.stack(
        [
            np.take_along_axis(annotation_kinds(pairs.human, pairs.metric), order, axis=1)
            for pairs, order in zip(replications, orders, strict=True)
        ]
    )

    def items_after(n: Ints) -> PairItems:
        human_signs = np.full_like(kinds, ABSENT)
        human = np.where(np.arange(kinds.shape[2]) < n[..., np.newaxis], 1 - kinds // 4, np.int8(ABSENT))
        np.put_along_axis(human_signs, orders, human, axis=2)
        return PairItems(human=human_signs, systems=replications[0].systems, units=units)

    return Answers(
        kinds=kinds,
        available=np.stack([is_available.sum(axis=1) for is_available in is_rated]),
        metric=np.stack([pairs.metric_outcome for pairs in replications]),
        items=items_after,
        clustered=is_clustered(units),
    )


def comparisons_of(study: Study, setting: PreferenceOptions) -> tuple[RaterComparison, ...]:
    """Return the comparisons of annotators with the metrics; without metrics if `metrics` is None or 'none'."""
    if setting["metrics"] not in (None, NONE):
        return require_shared_outputs(compare(study, **setting))
    annotators, _ = study._chosen_annotators(setting["human"])
    if study._rater_rows(annotators).is_empty():
        study.select(human=setting["human"])  # raises InputError if annotators have no ratings yet
    raters = study.raters.with_kinds(dict.fromkeys(annotators, "human")).select_raters(annotators)
    annotators_only, setting = replace(study, raters=raters), {**setting, "metrics": None}
    return compare_selection(annotators_only.select(**selection_arguments(setting), one_side=True), setting)
