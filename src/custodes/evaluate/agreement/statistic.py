"""Definition of a statistic of agreement: name, description, chance level and computation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.answers.tables import Column, score, with_interval
from custodes.evaluate.agreement.choices import PreferenceMargins, are_choices, category_sums, margins
from custodes.evaluate.rater_comparison import RaterComparison
from custodes.stats import bootstrap, intervals, multiple_testing
from custodes.stats.arrays import Bools, Floats, Ints, equal_positions, make_read_only
from custodes.stats.correlation import ConcordanceCounts, pair_counts
from custodes.stats.population import population_values
from custodes.stats.ratios import ratio
from custodes.stats.system_scores import common_items, system_fit, weighted_item_mean

FEWEST = 4
"""Minimum number of clusters for an interval; see docs/explanation/statistics/intervals.md."""

PERMUTATIONS = 1000
"""Number of sign flips of each test between two systems in soft pairwise accuracy."""


def drawn_flips(rng: np.random.Generator) -> Callable[[RaterComparison], NDArray[np.int8]]:
    """Return a function that draws the sign flips (`PERMUTATIONS`, clusters) of a comparison.

    The sign flips do not depend on other draws from the generator.
    """
    seed = int(rng.spawn(1)[0].integers(2**63))
    return lambda comparison: bootstrap.sign_flips(comparison.design.n_units, PERMUTATIONS, np.random.default_rng(seed))


class SystemScores(NamedTuple):
    """System scores of the annotators and of the metrics; both arrays are (1 + B, metrics, systems).

    The human scores depend on the metric, because human scores use only the outputs that annotators and metric share.
    `pairs` (metrics, systems, systems) marks the pairs of systems that can be compared: the two systems share an item,
    or both have system-level scores in the file.
    """

    people: Floats
    metrics: Floats
    pairs: Bools


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A comparison of raters and its resamples.

    `times` (1 + B, clusters) are bootstrap weights in the form that `bootstrap.weighted_sums` takes; row 0 is the data.
    `flips` (n, clusters) are signs +-1, shared by the tests of all pairs of systems. `columns` (clusters,) is the
    column of each cluster in `times`. The column is -1 if an earlier cluster has equal preferences; the column of the
    earlier cluster then represents both clusters. `columns` is None if scores can be compared (see `resampled_groups`).
    If `redraws_levels` is true, resamples contain the error of the annotators' levels (severity). Jackknife samples
    never contain the error of levels.
    """

    comparison: RaterComparison
    times: NDArray[Any]
    flips: NDArray[np.int8]
    columns: Ints | None = None
    redraws_levels: bool = True

    def per_item(self, compute: Callable[[RaterComparison], Floats]) -> Floats:
        """The value of `compute` for the comparison, (metrics, items); NaN if there are only preferences."""
        if are_choices(self.comparison):
            return np.full((len(self.comparison.metrics), len(self.comparison.items)), np.nan)
        return compute(self.comparison)

    @cached_property
    def system_scores(self) -> SystemScores:
        """System scores by the annotators and every metric, from the outputs that both rated or from the file.

        If the file contains the metric's system-level score of a system, the human system score uses all outputs with
        human ratings. If the file contains the human system-level score, the metric's system score uses all outputs
        with metric scores. In a resample, each system-level score of the file is shifted by as much as the resample
        shifts the score that is fitted to items.
        """
        comparison, level_errors = self.comparison, self.level_errors
        if are_choices(comparison):
            nan_scores = np.full((len(self.times), *comparison.metric_system.shape), np.nan)
            return SystemScores(
                people=nan_scores,
                metrics=nan_scores,
                pairs=holds_for_both(comparison.metric_system > np.inf),
            )
        has_human_score, has_metric_score = np.isfinite(comparison.human), np.isfinite(comparison.metric_scores)
        file_score_masks = np.isfinite(comparison.human_system), np.isfinite(comparison.metric_system)
        is_used_for_human = has_human_score & (has_metric_score | file_score_masks[1][:, np.newaxis])
        is_used_for_metric = has_metric_score & (has_human_score | file_score_masks[0])
        comparable_pair_masks = [
            np.stack([common_items(used_output_mask) for used_output_mask in used_output_masks])
            | holds_for_both(has_file_score)
            for used_output_masks, has_file_score in (
                (is_used_for_human, file_score_masks[0]),
                (is_used_for_metric, file_score_masks[1]),
            )
        ]
        human_system_scores, metric_system_scores = np.empty((2, len(self.times), *file_score_masks[1].shape))
        for metric_indices in group_equal_rows(is_used_for_human, is_used_for_metric):
            is_used_output = is_used_for_human[metric_indices[0]]
            human_scores_of_group = self._fit_system_scores(
                comparison.unrounded_human[np.newaxis],
                comparison.human_system[np.newaxis],
                is_used_output=is_used_output,
            )
            if level_errors is not None:
                # System scores are linear in the levels of annotators.
                level_effects = replace(self, times=self.times[:1])._fit_system_scores(
                    self.level_weights, np.full(comparison.human_system.shape, np.nan), is_used_output=is_used_output
                )[0]
                human_scores_of_group[1:, 0] -= np.where(
                    np.isfinite(comparison.human_system), 0.0, level_errors @ np.nan_to_num(level_effects)
                )
            human_system_scores[:, metric_indices] = human_scores_of_group
            metric_system_scores[:, metric_indices] = self._fit_system_scores(
                comparison.metric_scores[metric_indices],
                comparison.metric_system[metric_indices],
                is_used_output=is_used_for_metric[metric_indices[0]],
            )
        return SystemScores(
            people=human_system_scores,
            metrics=metric_system_scores,
            pairs=comparable_pair_masks[0] & comparable_pair_masks[1],
        )

    @cached_property
    def level_weights(self) -> Floats:
        """Weight of each annotator in the mean rating of an output, (annotators, items, systems)."""
        has_rating = np.isfinite(self.comparison.persons)
        return ratio(has_rating, has_rating.sum(axis=0))

    @cached_property
    def level_errors(self) -> Floats | None:
        """Errors of the annotators' levels in the resamples, (B, annotators); None without adjustment for levels.

        The errors are normal, with the covariance of the least-squares fit of levels.
        """
        annotator_levels = self.comparison.scores.levels
        if annotator_levels is None or not self.redraws_levels:
            return None
        normal_draws = np.random.default_rng(multiple_testing.STREAM).normal(
            size=(len(self.times) - 1, len(annotator_levels.values))
        )
        # With the symmetric root and with sorted names, draws do not depend on the order of annotators.
        eigenvalues, eigenvectors = np.linalg.eigh(annotator_levels.covariance)
        covariance_root = (eigenvectors * np.sqrt(np.maximum(eigenvalues, 0.0))) @ eigenvectors.T
        return np.asarray(normal_draws[:, np.argsort(np.argsort(self.comparison.people))] @ covariance_root)

    def _fit_system_scores(self, scores: Floats, file_scores: Floats, *, is_used_output: Bools) -> Floats:
        """Means over the outputs `is_used_output` (items, systems), or `file_scores`: (1 + B, raters, systems)."""
        design = self.comparison.design
        fitted_scores = system_fit(
            scores, is_used_output, units=design.units, weights=self.times, item_weights=design.weights
        )
        return np.where(
            np.isfinite(file_scores),
            file_scores + np.nan_to_num(fitted_scores - fitted_scores[:1], nan=0.0),
            fitted_scores,
        )

    def item_mean(self, item_values: Floats) -> Floats:
        """Means over items of the defined values of `item_values` (k, items): (1 + B, k)."""
        design = self.comparison.design
        return weighted_item_mean(item_values, units=design.units, weights=self.times, item_weights=design.weights)

    @cached_property
    def population_scores(self) -> tuple[Floats, Floats]:
        """Simulated system scores for very many items, by annotators and by metric: both (B, metrics, systems)."""
        human_system_scores, metric_system_scores, _ = self.system_scores
        return make_read_only(
            population_values(
                human_system_scores, metric_system_scores, n_units=self.comparison.design.n_effective_units
            )
        )

    @cached_property
    def system_counts(self) -> ConcordanceCounts:
        """Numbers of pairs of systems by their order in the system scores, (1 + B, metrics) each."""
        return pair_counts(*self.system_scores[:2], pairs=self.system_scores.pairs)

    @cached_property
    def population_counts(self) -> ConcordanceCounts:
        """Numbers of pairs of systems by their order in `population_scores`, (B, metrics) each."""
        return pair_counts(*self.population_scores, pairs=self.system_scores.pairs)

    @cached_property
    def column_of_item(self) -> Ints:
        """The column of each item in `times`, (items,); -1 if another cluster represents the cluster of the item."""
        cluster_of_item = self.comparison.design.units
        return cluster_of_item if self.columns is None else self.columns[cluster_of_item]

    @cached_property
    def preference_totals(self) -> Floats:
        """Total weights of all comparisons, equal preferences, human ties and metric ties: (4, 1 + B, metrics)."""
        weight_sums = category_sums(self.comparison, self.column_of_item, self.times.shape[1])
        return np.moveaxis(bootstrap.weighted_sums(self.times, weight_sums), 1, 0)

    @cached_property
    def margins(self) -> PreferenceMargins:
        """Margins of systems from preferences."""
        return margins(self.comparison, self.times, self.column_of_item)


def holds_for_both(condition: Bools) -> Bools:
    """Whether the condition (..., systems) holds for both systems of a pair: (..., systems, systems)."""
    return np.asarray(condition[..., np.newaxis] & condition[..., np.newaxis, :])


def group_equal_rows(*masks: Bools) -> list[NDArray[np.intp]]:
    """Return groups of rows (positions). The rows of a group are equal in all of the masks (rows, ...)."""
    return equal_positions(
        b"".join(np.packbits(mask_row).tobytes() for mask_row in mask_rows) for mask_rows in zip(*masks, strict=True)
    )


def output_statistic(compute: Callable[[Sample], Floats]) -> Callable[[Sample], Floats]:
    """Return a function that computes a statistic of output scores, or NaN if no output has human and metric scores.

    Without a check for output scores, verdicts on a hundred systems would fill the memory.
    """

    def compute_or_nan(sample: Sample) -> Floats:
        item_scores = sample.comparison.scores
        if (np.isfinite(item_scores.human) & np.isfinite(item_scores.metrics)).any():
            return compute(sample)
        return np.full((len(sample.times), len(item_scores.metrics)), np.nan)

    return compute_or_nan


@dataclass(frozen=True, kw_only=True)
class Statistic:
    """A statistic of agreement.

    `compute` returns the values (1 + B, metrics) of a sample. If the statistic is a mean over items, `per_item` returns
    the values (metrics, items). Two metrics are then compared on the items where both have a value.

    `chance` is the chance level (None if not defined). If the chance level depends on ties, `chance` is a function of a
    sample that returns (1 + B, metrics). `smooth` tells whether a single cluster changes the statistic only slightly.
    Differences of smooth statistics are tested with sign flips of each cluster's contribution, all other differences
    with the bootstrap. `compared` statistics are tested by default, and `essential` statistics are displayed first.

    The interval is a Student's t interval from the resamples, limited to `bounds`. By default, the interval is for the
    value that samples with the same number of items would give. If the bootstrap is not valid for the value in a very
    large sample of items, `population` simulates this value (B, metrics), and the interval uses percentiles of the
    simulation. There is no interval from fewer than `FEWEST` clusters, because coverage was below 85 % in some
    simulated studies.
    """

    name: str
    label: str
    doc: str
    compute: Callable[[Sample], Floats]
    per_item: Callable[[RaterComparison], Floats] | None = None
    bounds: intervals.Bounds = intervals.ANY
    population: Callable[[Sample], Floats] | None = None
    chance: float | Callable[[Sample], Floats] | None = None
    smooth: bool = True
    compared: bool = False
    essential: bool = False

    @property
    def column(self) -> Column:
        """The declaration of the table column with the statistic."""
        return score(self.name, self.doc, self.label, interval=True, essential=self.essential, best="high")

    def with_interval(self, column_name: str, sample: Sample, draws: Floats, confidence: float) -> dict[str, Floats]:
        """Return the estimate (row 0 of `draws`) as a column with this name, and the bounds as two columns."""
        design = sample.comparison.design
        has_interval = design.n_units >= FEWEST
        if self.population is None or not has_interval:
            draws = draws if has_interval else draws[:1]
            return with_interval(column_name, draws, confidence, clusters=design.n_effective_units, bounds=self.bounds)
        low, high = intervals.expanded_interval(
            draws[0],
            self.population(sample),
            confidence=confidence,
            n_units=design.n_effective_units,
            bounds=self.bounds,
        )
        return {column_name: draws[0], f"{column_name}_low": low, f"{column_name}_high": high}

    @property
    def chance_column(self) -> Column | None:
        """The declaration of the column with the chance level; None if all metrics have the same chance level."""
        doc = (
            f"chance level of `{self.name}`: expected value if human and metric preferences were independent, "
            "with the same proportions of ties"
        )
        return (
            score(f"{self.name}_chance", doc, f"{self.label} by chance", essential=False)
            if callable(self.chance)
            else None
        )

    def chance_of(self, sample: Sample) -> Floats:
        """The chance level, NaN if the statistic has no chance level: (1 + B, metrics)."""
        if callable(self.chance):
            return self.chance(sample)
        return np.full(
            (len(sample.times), len(sample.comparison.metrics)), np.nan if self.chance is None else self.chance
        )
