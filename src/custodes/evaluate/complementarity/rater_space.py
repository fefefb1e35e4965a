"""Principal components of the raters' ranks: effective dimension, coordinates and communities."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.answers.tables import with_interval
from custodes.data.notes import Note, build_notes
from custodes.evaluate.complementarity.distances import Distances, Rankings
from custodes.evaluate.rater_scores import RaterScores
from custodes.stats import communities, intervals, ordination, ranks
from custodes.stats.arrays import Floats, round_for_sorting
from custodes.stats.correlation import pearson

SHARE = 0.8
"""The effective dimension is the number of components that explain this proportion of the variance (Appendix B.1)."""

RESAMPLES = 200
NULL_DRAWS = 200
EMPTY = 1e-9
FEWEST = 4
"""Minimum number of raters for coordinates and communities."""

FEWEST_OBJECTS = 3


Structure = tuple[dict[str, dict[str, Any]], dict[str, Any], list[tuple[str, str]], list[Note]]
"""Tables of components and communities, the row of the table `summary` (empty if nothing can be computed), the excluded
raters with reasons, and notes."""


def structure(
    rankings: Rankings, distances: Distances, bootstrap_weights: Floats, confidence: float, rng: np.random.Generator
) -> Structure:
    """Return components and communities; `bootstrap_weights` (1 + B, clusters) are bootstrap weights of clusters."""
    raters, (placed_raters, incomplete_raters, rater_points, is_ranked_object, object_weights) = (
        rankings.who,
        _rank_space(rankings, bootstrap_weights),
    )
    linked_raters = np.unique(
        rankings.pairs[:, np.isfinite(distances.kept[0])]
    )  # raters with a defined distance to another rater
    unlinked_raters = np.setdiff1d(np.flatnonzero(raters.varies), linked_raters)
    columns_of_table, summary_row = dict[str, dict[str, Any]](), dict[str, Any]()
    left_out_raters = [
        *(
            (
                raters.names[rater_position],
                f"did not rate every {rankings.object_name}, so components exclude this rater",
            )
            for rater_position in incomplete_raters
        ),
        *(
            (raters.names[rater_position], "ranked nothing in common with other raters, so clusters exclude this rater")
            for rater_position in unlinked_raters
        ),
    ]
    notes = build_notes(
        (
            "partial-representation",
            int((~is_ranked_object).sum()),
            f"components and coordinates use {rater_points.shape[2]} of {rankings.values.shape[2]} "
            f"{rankings.object_name}s, because at least one rater did not rank the other {rankings.object_name}s",
        )
    )
    if len(placed_raters) > 1:
        explained_variance = ordination.explained_variance(rater_points, column_weights=object_weights)
        placed_order_by_name = np.argsort(
            [raters.names[rater_position] for rater_position in placed_raters]
        )  # sorted, so that permutations do not depend on the order of raters
        null_explained_variance = ordination.null_explained(
            rater_points[0, placed_order_by_name], n_draws=NULL_DRAWS, rng=rng
        )
        columns_of_table["components"] = _component_columns(
            explained_variance, null_explained_variance, confidence, raters.design.n_units
        )
        summary_row.update(
            raters=len(placed_raters),
            rankings=rankings.values.shape[1],
            ranked=rater_points.shape[2],
            **with_interval(
                "dimension",
                ordination.count_components(explained_variance, share=SHARE),
                confidence,
                clusters=raters.design.n_units,
                bounds=(1.0, np.inf),
            ),
            dimension_null=ordination.count_components(null_explained_variance, share=SHARE).mean(),
        )
    if len(placed_raters) >= FEWEST:
        x, y = ordination.coordinates(rater_points[0], k=2).T
        columns_of_table["coordinates"] = {**rater_columns(raters, placed_raters), "x": x, "y": y}
    if len(linked_raters) >= FEWEST:
        similarities, n_unconnected_pairs = _similarities(rankings, distances, linked_raters)
        unconnected_text = (
            f"{n_unconnected_pairs} pairs of raters ranked nothing in common; in the table clusters, these pairs "
            "have the average similarity"
        )
        notes += build_notes(("unconnected-raters", n_unconnected_pairs, unconnected_text))
        seed = int(rng.integers(2**31))
        community_labels = communities.communities(similarities[0], seed=seed)
        stability, rand_indices = communities.stability(similarities[1:], community_labels, seed=seed)
        community_of_rater = _rank_sum_communities(placed_raters, rater_points[0], seed)
        columns_of_table["clusters"] = {
            **rater_columns(raters, linked_raters),
            "cluster": community_labels + 1,
            "stability": stability,
            "rank_sum_cluster": [community_of_rater.get(rater_position) for rater_position in linked_raters.tolist()],
        }
        summary_row.update(
            clusters=int(community_labels.max()) + 1,
            modularity=communities.modularity(similarities[0], community_labels),
            clusters_agreement=rand_indices.mean() if len(rand_indices) else None,
            rank_sum_clusters=max(community_of_rater.values(), default=None),
        )
    return columns_of_table, summary_row, left_out_raters, notes


def _rank_space(
    rankings: Rankings, bootstrap_weights: Floats
) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats, NDArray[np.bool_], Floats | None]:
    """Return the raters as points in the space of the objects that every rater ranked.

    If too few objects are ranked by every rater, the space has all objects, and only raters that ranked all objects are
    points. The result has the raters in the space, the raters with gaps, the points (B, raters, objects), a mask of the
    objects used, and the weights of objects (B, objects) if objects are resampled instead of rankings.
    """
    varying_rater_positions, design = np.flatnonzero(rankings.who.varies), rankings.who.design
    ranked_scores = rankings.values[varying_rater_positions]
    item_weights = bootstrap_weights[: 1 + RESAMPLES, design.units] * design.weights
    is_system_level = rankings.level == "system"
    ranking_weights = item_weights if is_system_level else np.ones((1, ranked_scores.shape[1]))
    rater_points = ranks.representation(ranked_scores, weights=ranking_weights)
    is_ranked_object = np.isfinite(rater_points[0]).all(axis=0)
    if FEWEST_OBJECTS <= is_ranked_object.sum() < len(is_ranked_object):
        rater_points = ranks.representation(ranked_scores[:, :, is_ranked_object], weights=ranking_weights)
    else:
        is_ranked_object[:] = True
    # Points are checked instead of scores, because a score that is alone in its unit has no rank.
    is_complete_rater = np.isfinite(rater_points[0]).all(axis=1)
    # In a study with gaps, some resamples lack an object; intervals exclude these resamples.
    is_complete_resample = np.isfinite(rater_points[:, is_complete_rater]).all(axis=(1, 2))
    object_weights = None if is_system_level else item_weights[:, is_ranked_object]
    return (
        varying_rater_positions[is_complete_rater],
        varying_rater_positions[~is_complete_rater],
        rater_points[is_complete_resample][:, is_complete_rater],
        is_ranked_object,
        object_weights,
    )


def _rank_sum_communities(rater_positions: NDArray[np.intp], rater_points: Floats, seed: int) -> dict[int, int]:
    """Return the number of each rater's community (the first is 1).

    `rater_points` (raters, objects) holds the sums of ranks. Similarity is the correlation of the sums of ranks.
    Negative correlations count as 0, because Louvain's method needs non-negative weights.
    """
    if len(rater_points) < FEWEST:
        return {}
    similarities = np.nan_to_num(pearson(rater_points[:, np.newaxis], rater_points), nan=0.0)
    community_labels = communities.communities(round_for_sorting(np.maximum(similarities, 0.0)), seed=seed)
    return dict(zip(rater_positions.tolist(), (community_labels + 1).tolist(), strict=True))


def _similarities(rankings: Rankings, distances: Distances, linked_raters: NDArray[np.intp]) -> tuple[Floats, int]:
    """Return one minus the distances of `linked_raters`, (B, k, k), and the number of pairs with an undefined distance.

    Pairs with an undefined distance have the average similarity.
    """
    is_defined_distance = np.isfinite(distances.kept)
    n_defined_pairs_of_resample = is_defined_distance.sum(axis=1, keepdims=True)
    mean_distances = np.where(is_defined_distance, distances.kept, 0.0).sum(axis=1, keepdims=True) / np.maximum(
        n_defined_pairs_of_resample, 1
    )
    similarities = rankings.square(1.0 - np.where(is_defined_distance, distances.kept, mean_distances))
    return similarities[:, linked_raters[:, None], linked_raters], len(linked_raters) * (
        len(linked_raters) - 1
    ) // 2 - int(n_defined_pairs_of_resample[0, 0])


def rater_columns(all_raters: RaterScores, rater_positions: Iterable[int], suffix: str = "") -> dict[str, list[str]]:
    """Return the columns that identify raters, with `suffix` appended to the names of the columns."""
    return {
        f"rater{suffix}": [all_raters.names[i] for i in rater_positions],
        f"kind{suffix}": [all_raters.kinds[i] for i in rater_positions],
    }


def _component_columns(
    explained_variance: Floats, shuffled_variance: Floats, confidence: float, n_clusters: int
) -> dict[str, Any]:
    # Sums of ranks have a constant total, so the last component may have no variance.
    explained_variance, shuffled_variance = (
        variance_shares[:, explained_variance[0] > EMPTY]
        for variance_shares in (explained_variance, shuffled_variance.mean(axis=0, keepdims=True))
    )
    return {
        "component": np.arange(1, explained_variance.shape[1] + 1),
        **with_interval(
            "explained_variance", explained_variance, confidence, clusters=n_clusters, bounds=intervals.SHARE
        ),
        "cumulative": np.cumsum(explained_variance[0]),
        "null": shuffled_variance[0],
        "null_cumulative": np.cumsum(shuffled_variance[0]),
    }
