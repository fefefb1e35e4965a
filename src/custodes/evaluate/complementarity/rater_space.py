"""Principal components of the raters' ranks, and communities of raters: in how many dimensions do raters differ?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.data.notes import Note, build_notes
from custodes.evaluate.complementarity.distances import Rankings
from custodes.evaluate.rater_scores import RaterScores
from custodes.stats import ordination, ranks
from custodes.stats.arrays import Floats, round_for_sorting
from custodes.stats.communities import communities
from custodes.stats.correlation import pearson
from custodes.stats.ratios import mean_of_defined

SHARE = 0.8
"""The effective dimension is the number of components that explain this proportion of the variance (Appendix B.1)."""

NULL_DRAWS = 200
EMPTY = 1e-9
FEWEST = 4
"""Minimum number of raters for coordinates and communities."""

FEWEST_OBJECTS = 3


def space_columns(
    rankings: Rankings, pair_distances: Floats, rng: np.random.Generator
) -> tuple[dict[str, dict[str, Any]], list[tuple[str, str]], list[Note]]:
    """Return the columns of `components` and `coordinates`, the raters that the components exclude (with reasons), and
    notes. `pair_distances` (pairs,) are the distances of all pairs."""
    raters, (placed_rater_indices, incomplete_rater_indices, rater_points, is_ranked_object) = (
        rankings.rater_scores,
        _rank_space(rankings),
    )
    notes = build_notes(
        (
            "partial-representation",
            int((~is_ranked_object).sum()),
            f"components and coordinates use {rater_points.shape[1]} of {rankings.values.shape[2]} "
            f"{rankings.object_name}s, because at least one rater did not rank the other {rankings.object_name}s",
        )
    )
    component_columns = _component_columns(rankings, placed_rater_indices, rater_points, is_ranked_object, rng)
    coordinate_columns, n_unconnected_pairs = _coordinate_columns(
        rankings, placed_rater_indices, rater_points, pair_distances, seed=int(rng.integers(2**31))
    )
    notes += build_notes(
        (
            "unconnected-raters",
            n_unconnected_pairs,
            f"{n_unconnected_pairs} pairs of raters ranked no common outputs, so their similarity is unknown; "
            "communities are computed with the average similarity for these pairs",
        )
    )
    return (
        {"components": component_columns, "coordinates": coordinate_columns},
        [
            (
                raters.names[rater_position],
                f"did not rate every {rankings.object_name}, so components exclude this rater",
            )
            for rater_position in incomplete_rater_indices
        ],
        notes,
    )


def _component_columns(
    rankings: Rankings,
    placed_rater_indices: NDArray[np.intp],
    rater_points: Floats,
    is_ranked_object: NDArray[np.bool_],
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Return the columns of `components`, from the results of `_rank_space`."""
    if len(placed_rater_indices) < 2:
        return {}
    (explained_variance,) = ordination.explained_variance(
        rater_points[np.newaxis],
        column_weights=None if rankings.level == "system" else rankings.rater_scores.design.weights[is_ranked_object],
    )
    placed_order_by_name = np.argsort(
        [rankings.rater_scores.names[rater_position] for rater_position in placed_rater_indices]
    )  # sorted, so that permutations do not depend on the order of raters
    null_explained_variance = ordination.null_explained(
        rater_points[placed_order_by_name], n_draws=NULL_DRAWS, rng=rng
    ).mean(axis=0)
    # Sums of ranks have a constant total, so the last component may have no variance.
    has_variance = explained_variance > EMPTY
    return {
        "component": np.arange(1, has_variance.sum() + 1),
        "explained_variance": explained_variance[has_variance],
        "cumulative": np.cumsum(explained_variance[has_variance]),
        "null_cumulative": np.cumsum(null_explained_variance[has_variance]),
    }


def _coordinate_columns(
    rankings: Rankings,
    placed_rater_indices: NDArray[np.intp],
    rater_points: Floats,
    pair_distances: Floats,
    *,
    seed: int,
) -> tuple[dict[str, Any], int]:
    """Return the columns of `coordinates`, and the number of pairs with an undefined distance in the communities.

    Pairs with an undefined distance have the average similarity. Negative correlations of rank sums count as 0, because
    Louvain's method needs non-negative weights.
    """
    coordinates_and_clusters = np.full((4, len(rankings.rater_scores.names)), np.nan)  # x, y, cluster, rank_sum_cluster
    if len(placed_rater_indices) >= FEWEST:
        coordinates_and_clusters[:2, placed_rater_indices] = ordination.coordinates(rater_points).T
        coordinates_and_clusters[3, placed_rater_indices] = 1 + communities(
            round_for_sorting(
                np.maximum(np.nan_to_num(pearson(rater_points[:, np.newaxis], rater_points), nan=0.0), 0.0)
            ),
            seed=seed,
        )
    is_defined = np.isfinite(pair_distances)
    # Raters with a defined distance to another rater.
    linked_rater_indices = np.unique(rankings.pairs[:, is_defined])
    n_unconnected_pairs = 0
    if len(linked_rater_indices) >= FEWEST:
        similarity = np.zeros(2 * (len(rankings.rater_scores.names),))
        similarity[tuple(rankings.pairs)] = 1.0 - np.where(is_defined, pair_distances, mean_of_defined(pair_distances))
        similarity = (similarity + similarity.T)[np.ix_(linked_rater_indices, linked_rater_indices)]
        coordinates_and_clusters[2, linked_rater_indices] = 1 + communities(similarity, seed=seed)
        n_unconnected_pairs = len(linked_rater_indices) * (len(linked_rater_indices) - 1) // 2 - int(is_defined.sum())
    shown_rater_indices = np.flatnonzero(np.isfinite(coordinates_and_clusters).any(axis=0))
    x, y, cluster, rank_sum_cluster = coordinates_and_clusters[:, shown_rater_indices]
    return {
        **rater_columns(rankings.rater_scores, shown_rater_indices),
        "x": x,
        "y": y,
        "cluster": cluster,
        "rank_sum_cluster": rank_sum_cluster,
    }, n_unconnected_pairs


def _rank_space(rankings: Rankings) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats, NDArray[np.bool_]]:
    """Return the raters as points in the space of the objects that every rater ranked.

    If too few objects are ranked by every rater, the space has all objects, and only raters that ranked all objects are
    points. The result has the raters in the space, the raters with gaps, the points (raters, objects), and a mask of
    the objects used.
    """
    varying_rater_positions, design = np.flatnonzero(rankings.rater_scores.varies), rankings.rater_scores.design
    ranked_scores = rankings.values[varying_rater_positions]
    ranking_weights = design.weights if rankings.level == "system" else np.ones(ranked_scores.shape[1])
    rater_points = ranks.representation(ranked_scores, weights=ranking_weights)
    is_ranked_object = np.asarray(np.isfinite(rater_points).all(axis=0))
    if FEWEST_OBJECTS <= is_ranked_object.sum() < len(is_ranked_object):
        rater_points = ranks.representation(ranked_scores[:, :, is_ranked_object], weights=ranking_weights)
    else:
        is_ranked_object[:] = True
    # Points are checked instead of scores, because a score that is alone in its unit has no rank.
    is_complete_rater = np.asarray(np.isfinite(rater_points).all(axis=1))
    return (
        varying_rater_positions[is_complete_rater],
        varying_rater_positions[~is_complete_rater],
        rater_points[is_complete_rater],
        is_ranked_object,
    )


def rater_columns(all_raters: RaterScores, rater_positions: Iterable[int], suffix: str = "") -> dict[str, list[str]]:
    """Return the columns that identify raters, with `suffix` appended to the names of the columns."""
    return {
        f"rater{suffix}": [all_raters.names[rater_position] for rater_position in rater_positions],
        f"kind{suffix}": [all_raters.kinds[rater_position] for rater_position in rater_positions],
    }
