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

FEWEST_THINGS = 3


Structure = tuple[dict[str, dict[str, Any]], dict[str, Any], list[tuple[str, str]], list[Note]]
"""Tables of components and communities, the row of the table `summary` (empty if nothing can be computed), the excluded
raters with reasons, and notes."""


def structure(
    rankings: Rankings, distances: Distances, weights: Floats, confidence: float, rng: np.random.Generator
) -> Structure:
    """Return components and communities; `weights` (1 + B, clusters) are bootstrap weights of clusters."""
    raters, (placed_raters, incomplete_raters, points, is_used_thing, column_weights) = (
        rankings.who,
        _space(rankings, weights),
    )
    linked_raters = np.unique(
        rankings.pairs[:, np.isfinite(distances.kept[0])]
    )  # with a defined distance to another rater
    unlinked_raters = np.setdiff1d(np.flatnonzero(raters.varies), linked_raters)
    tables, summary = dict[str, dict[str, Any]](), dict[str, Any]()
    left_out = [
        *(
            (raters.names[i], f"did not rate every {rankings.object_name}, so components exclude this rater")
            for i in incomplete_raters
        ),
        *(
            (raters.names[i], "ranked nothing in common with other raters, so clusters exclude this rater")
            for i in unlinked_raters
        ),
    ]
    notes = build_notes(
        (
            "partial-representation",
            int((~is_used_thing).sum()),
            f"components and coordinates use {points.shape[2]} of {rankings.values.shape[2]} "
            f"{rankings.object_name}s, because at least one rater did not rank the other {rankings.object_name}s",
        )
    )
    if len(placed_raters) > 1:
        explained_variance = ordination.explained_variance(points, column_weights=column_weights)
        by_name = np.argsort([raters.names[i] for i in placed_raters])  # resamples do not depend on the order of raters
        null_variance = ordination.null_explained(points[0, by_name], n_draws=NULL_DRAWS, rng=rng)
        tables["components"] = _component_columns(explained_variance, null_variance, confidence, raters.design.n_units)
        summary.update(
            raters=len(placed_raters),
            rankings=rankings.values.shape[1],
            ranked=points.shape[2],
            **with_interval(
                "dimension",
                ordination.count_components(explained_variance, share=SHARE),
                confidence,
                clusters=raters.design.n_units,
                bounds=(1.0, np.inf),
            ),
            dimension_null=ordination.count_components(null_variance, share=SHARE).mean(),
        )
    if len(placed_raters) >= FEWEST:
        x, y = ordination.coordinates(points[0], k=2).T
        tables["coordinates"] = {**rater_columns(raters, placed_raters), "x": x, "y": y}
    if len(linked_raters) >= FEWEST:
        similarity, n_unconnected = _similarity(rankings, distances, linked_raters)
        unconnected_text = (
            f"{n_unconnected} pairs of raters ranked nothing in common; in the table clusters, these pairs have the "
            "average similarity"
        )
        notes += build_notes(("unconnected-raters", n_unconnected, unconnected_text))
        seed = int(rng.integers(2**31))
        labels = communities.communities(similarity[0], seed=seed)
        stability, rand_indices = communities.stability(similarity[1:], labels, seed=seed)
        community_of_rater = _rank_sum_communities(placed_raters, points[0], seed)
        tables["clusters"] = {
            **rater_columns(raters, linked_raters),
            "cluster": labels + 1,
            "stability": stability,
            "rank_sum_cluster": [community_of_rater.get(rater) for rater in linked_raters.tolist()],
        }
        summary.update(
            clusters=int(labels.max()) + 1,
            modularity=communities.modularity(similarity[0], labels),
            clusters_agreement=rand_indices.mean() if len(rand_indices) else None,
            rank_sum_clusters=max(community_of_rater.values(), default=None),
        )
    return tables, summary, left_out, notes


def _space(
    rankings: Rankings, weights: Floats
) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats, NDArray[np.bool_], Floats | None]:
    """Return the raters as points in the space of the things that every rater ranked.

    If too few things are ranked by every rater, the space has all things, and only raters that ranked all things are
    points. The result has the raters in the space, the raters with gaps, the points (B, raters, things), a mask of the
    things used, and the weights of things (B, things) if things are resampled instead of rankings.
    """
    varying_raters, design = np.flatnonzero(rankings.who.varies), rankings.who.design
    scores = rankings.values[varying_raters]
    item_weights = weights[: 1 + RESAMPLES, design.units] * design.weights
    ranks_systems = rankings.level == "system"
    ranking_weights = item_weights if ranks_systems else np.ones((1, scores.shape[1]))
    points = ranks.representation(scores, weights=ranking_weights)
    is_used_thing = np.isfinite(points[0]).all(axis=0)
    if FEWEST_THINGS <= is_used_thing.sum() < len(is_used_thing):
        points = ranks.representation(scores[:, :, is_used_thing], weights=ranking_weights)
    else:
        is_used_thing[:] = True
    # Points are checked instead of scores, because a score that is alone in its unit has no rank.
    is_complete = np.isfinite(points[0]).all(axis=1)
    # In a study with gaps, a resample can lack a thing; intervals exclude these resamples.
    is_usable = np.isfinite(points[:, is_complete]).all(axis=(1, 2))
    column_weights = None if ranks_systems else item_weights[:, is_used_thing]
    return (
        varying_raters[is_complete],
        varying_raters[~is_complete],
        points[is_usable][:, is_complete],
        is_used_thing,
        column_weights,
    )


def _rank_sum_communities(raters: NDArray[np.intp], points: Floats, seed: int) -> dict[int, int]:
    """Return the number of each rater's community (the first is 1).

    `points` (raters, things) holds the sums of ranks. Similarity is the correlation of the sums of ranks. Negative
    correlations count as 0, because Louvain's method needs non-negative weights.
    """
    if len(points) < FEWEST:
        return {}
    similarity = np.nan_to_num(pearson(points[:, np.newaxis], points), nan=0.0)
    labels = communities.communities(round_for_sorting(np.maximum(similarity, 0.0)), seed=seed)
    return dict(zip(raters.tolist(), (labels + 1).tolist(), strict=True))


def _similarity(rankings: Rankings, distances: Distances, linked_raters: NDArray[np.intp]) -> tuple[Floats, int]:
    """Return one minus the distances of `linked_raters`, (B, k, k), and the number of pairs with an undefined distance.

    Pairs with an undefined distance have the average similarity.
    """
    is_defined = np.isfinite(distances.kept)
    n_defined = is_defined.sum(axis=1, keepdims=True)
    mean_distance = np.where(is_defined, distances.kept, 0.0).sum(axis=1, keepdims=True) / np.maximum(n_defined, 1)
    similarity = rankings.square(1.0 - np.where(is_defined, distances.kept, mean_distance))
    return similarity[:, linked_raters[:, None], linked_raters], len(linked_raters) * (
        len(linked_raters) - 1
    ) // 2 - int(n_defined[0, 0])


def rater_columns(all_raters: RaterScores, raters: Iterable[int], suffix: str = "") -> dict[str, list[str]]:
    """Return the columns that identify raters, with `suffix` appended to the names of the columns."""
    return {
        f"rater{suffix}": [all_raters.names[i] for i in raters],
        f"kind{suffix}": [all_raters.kinds[i] for i in raters],
    }


def _component_columns(
    explained_variance: Floats, shuffled_variance: Floats, confidence: float, n_clusters: int
) -> dict[str, Any]:
    # Sums of ranks have a constant total, so the last component may be empty.
    explained_variance, shuffled_variance = (
        shares[:, explained_variance[0] > EMPTY]
        for shares in (explained_variance, shuffled_variance.mean(axis=0, keepdims=True))
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
