"""Distances between the rankings of all raters in every resample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from custodes.answers.tables import with_interval
from custodes.data.notes import build_notes
from custodes.errors import join_labels
from custodes.evaluate.rater_scores import METRIC, RaterScores
from custodes.progress import Progress
from custodes.stats import bootstrap, intervals, rank_distance
from custodes.stats.arrays import Floats, chunks
from custodes.stats.clusters import effective_clusters_by_row
from custodes.stats.ratios import ratio
from custodes.stats.system_scores import weighted_item_mean

Level = Literal["system", "utterance"]
KINDS = ("human-human", "human-metric", "metric-metric")


@dataclass(frozen=True, kw_only=True)
class Rankings:
    """The rankings of the raters.

    At level 'system', the systems are ranked within each item. At level 'utterance', the items are ranked within each
    system. In the code, the ranked systems (or items) are `objects`, and the items (or systems) within which the
    objects are ranked are `units`. A rater without any ranking counts as constant.
    """

    rater_scores: RaterScores
    level: Level

    @classmethod
    def from_rater_scores(cls, raters: RaterScores, level: Level) -> Rankings:
        """Return the rankings of the raters. A rater with equal scores for all objects of every unit is excluded."""
        rankings = cls(rater_scores=raters, level=level)
        lowest_scores, highest_scores = (
            reduce_scores(rankings.values, axis=2) for reduce_scores in (np.fmin.reduce, np.fmax.reduce)
        )
        is_flat_rater = ~(lowest_scores < highest_scores).any(axis=1)
        flat_raters = tuple(raters.names[rater_index] for rater_index in np.flatnonzero(is_flat_rater & raters.varies))
        if not flat_raters:
            return rankings
        reason = f"rates all {rankings.object_name}s of every {rankings.unit} equally"
        message = (
            f"{join_labels(flat_raters)}: excluded, because the rater {reason} (scores differ only between "
            f"{rankings.unit}s)"
        )
        return cls(
            rater_scores=replace(
                raters,
                scores=np.where(is_flat_rater[:, None, None], np.nan, raters.scores),
                constant=raters.constant + flat_raters,
                left_out=(*raters.left_out, *((rater, reason) for rater in flat_raters)),
                notes=(*raters.notes, *build_notes(("constant-rater", len(flat_raters), message))),
            ),
            level=level,
        )

    @cached_property
    def values(self) -> Floats:
        """The scores that are ranked, (raters, units, objects)."""
        scores = self.rater_scores.scores
        return scores if self.level == "system" else np.ascontiguousarray(np.swapaxes(scores, 1, 2))

    @cached_property
    def pairs(self) -> NDArray[np.intp]:
        """The positions of the two raters of each pair, (2, pairs)."""
        return np.stack(np.triu_indices(len(self.rater_scores.names), 1))

    @cached_property
    def kind(self) -> NDArray[np.intp]:
        """The kind of each pair, as a position in `KINDS`: (pairs,)."""
        return np.asarray((np.array(self.rater_scores.kinds) == METRIC)[self.pairs].sum(axis=0))

    @property
    def unit(self) -> str:
        """Name of the unit within which objects are ranked."""
        return "item" if self.level == "system" else "system"

    @property
    def object_name(self) -> str:
        """Name of the ranked objects."""
        return "system" if self.level == "system" else "item"

    def blocks(self, n_resamples: int) -> list[slice]:
        """Return blocks of pairs that are small enough for the memory with this number of resamples."""
        return list(chunks(len(self.kind), max(*self.values.shape[1:], n_resamples) // 2))

    def mean(self, distances: Floats, weights: Floats) -> Floats:
        """Weighted means of distances (pairs, units): (1 + B, pairs). The weights belong to clusters or systems."""
        design = self.rater_scores.design
        if self.level == "utterance":
            return weighted_item_mean(distances, units=np.zeros(distances.shape[1], dtype=int), weights=weights[:1, :1])
        return weighted_item_mean(distances, units=design.units, weights=weights, item_weights=design.weights)

    def cluster_shares(self, pair_slice: slice) -> Floats:
        """For each pair of raters, the proportion of items in each cluster: (pairs, clusters); NaN without an item.

        An item counts if both raters scored at least one output of the item, at level 'system' at least two outputs.
        """
        design, has_score = self.rater_scores.design, np.isfinite(self.rater_scores.scores)
        first_raters, second_raters = self.pairs[:, pair_slice]
        item_weight_sums = bootstrap.unit_sums(
            ((has_score[first_raters] & has_score[second_raters]).sum(axis=2) >= (2 if self.level == "system" else 1))
            * design.weights,
            units=design.units,
            n_units=design.n_units,
        )
        return ratio(item_weight_sums, item_weight_sums.sum(axis=1, keepdims=True))


@dataclass(frozen=True, kw_only=True)
class Distances:
    """Distances in every resample; row 0 is the estimate.

    `kinds` (1 + B, 3) are averages by kind of pair. `raters` (1 + B, raters, 2) are the averages of each rater with
    annotators and with metrics. `kind_clusters` (3,) and `rater_clusters` (raters, 2) are the effective numbers of
    clusters for the averages by kind of pair and by rater. `columns` has the mean distance of each pair with bounds,
    and the number `n` of rankings.
    """

    columns: dict[str, NDArray[Any]]
    kinds: Floats
    raters: Floats
    kind_clusters: Floats
    rater_clusters: Floats

    @classmethod
    def from_rankings(
        cls,
        rankings: Rankings,
        rule: rank_distance.Rule,
        bootstrap_weights: Floats,
        confidence: float,
        progress: Progress,
    ) -> Distances:
        """Return the distances of all pairs of raters; `bootstrap_weights` (1 + B, clusters) are bootstrap weights."""
        columns_of_blocks = []
        n_raters, (first_raters, second_raters) = len(rankings.values), rankings.pairs
        is_human_rater = np.array(rankings.rater_scores.kinds) != METRIC
        group_of_pair_arrays = (
            rankings.kind,
            *(
                len(KINDS) + 2 * rater_indices + ~is_human_rater[other_rater_indices]
                for rater_indices, other_rater_indices in (
                    (first_raters, second_raters),
                    (second_raters, first_raters),
                )
            ),
        )
        n_groups = len(KINDS) + 2 * n_raters
        group_sums_and_counts = np.zeros((2, len(bootstrap_weights), n_groups))
        share_sums_and_counts = np.zeros((2, rankings.rater_scores.design.n_units, n_groups))
        pair_slices = rankings.blocks(len(bootstrap_weights))
        for pair_slice in progress(pair_slices, total=len(pair_slices), desc="complementarity"):
            ranking_distances, mean_distances = _resampled_distances(rankings, pair_slice, rule, bootstrap_weights)
            cluster_shares = rankings.cluster_shares(pair_slice)
            columns_of_blocks.append(
                {
                    **with_interval(
                        "complementarity",
                        mean_distances,
                        confidence,
                        clusters=effective_clusters_by_row(np.nan_to_num(cluster_shares)),
                        bounds=intervals.SHARE,
                    ),
                    "n": np.isfinite(ranking_distances).sum(axis=1),
                }
            )
            groups_of_pairs = [group_of_pair[pair_slice] for group_of_pair in group_of_pair_arrays]
            group_sums_and_counts += defined_sums(mean_distances, groups_of_pairs, n_groups)
            share_sums_and_counts += defined_sums(cluster_shares.T, groups_of_pairs, n_groups)
        group_means = ratio(*group_sums_and_counts)
        n_clusters_of_group = effective_clusters_by_row(np.nan_to_num(ratio(*share_sums_and_counts)).T)
        return cls(
            columns={
                column_name: np.concatenate([columns_of_block[column_name] for columns_of_block in columns_of_blocks])
                for column_name in columns_of_blocks[0]
            },
            kinds=group_means[:, : len(KINDS)],
            raters=group_means[:, len(KINDS) :].reshape(-1, n_raters, 2),
            kind_clusters=n_clusters_of_group[: len(KINDS)],
            rater_clusters=n_clusters_of_group[len(KINDS) :].reshape(n_raters, 2),
        )


def _resampled_distances(
    rankings: Rankings, pair_slice: slice, rule: rank_distance.Rule, bootstrap_weights: Floats
) -> tuple[Floats, Floats]:
    """Return the distances (pairs, units), and the mean distances in every resample (1 + B, pairs)."""
    if rankings.level == "system":
        distances = rank_distance.rank_distances(rankings.values, *rankings.pairs[:, pair_slice], rules=[rule])[0]
        return distances, rankings.mean(distances, bootstrap_weights)
    distances, ranking_influences = rank_distance.rank_distance_influence(
        rankings.values, *rankings.pairs[:, pair_slice], rule=rule
    )
    design = rankings.rater_scores.design
    return distances, np.clip(
        rankings.mean(distances, bootstrap_weights)
        + (bootstrap_weights - 1)
        @ bootstrap.unit_sums(ranking_influences, units=design.units, n_units=design.n_units).T,
        0.0,
        1.0,
    )


def defined_sums(values: Floats, groupings: Sequence[NDArray[np.intp]], n_groups: int) -> Floats:
    """Sum and number of the defined values (..., pairs) in each group: (2, ..., groups).

    Each of the `groupings` (pairs,) assigns one group to every pair, so a pair may be in several groups.
    """
    is_defined = np.isfinite(values)
    values_and_counts = np.stack([np.where(is_defined, values, 0.0), is_defined])
    return np.asarray(
        sum(
            bootstrap.unit_sums(values_and_counts, units=group_of_pair, n_units=n_groups) for group_of_pair in groupings
        )
    )
