"""Principal components of the raters' ranks: effective dimension, coordinates and communities."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.answers.tables import with_interval
from custodes.data.notes import Note, noted
from custodes.evaluate.complementarity.distances import Distances, Rankings
from custodes.evaluate.rater_scores import RaterScores
from custodes.stats import communities, intervals, ordination, ranks
from custodes.stats.arrays import Floats, up_to_rounding
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
    rankings: Rankings, distances: Distances, times: Floats, confidence: float, rng: np.random.Generator
) -> Structure:
    """Return components and communities; `times` (1 + B, clusters) are bootstrap weights of the clusters of items."""
    who, (placed, gaps, points, shared, column_weights) = rankings.who, _space(rankings, times)
    linked = np.unique(rankings.pairs[:, np.isfinite(distances.kept[0])])  # with a defined distance to another rater
    alone = np.setdiff1d(np.flatnonzero(who.varies), linked)
    tables, summary = dict[str, dict[str, Any]](), dict[str, Any]()
    left_out = [
        *((who.names[i], f"did not rate every {rankings.thing}, so components exclude this rater") for i in gaps),
        *((who.names[i], "ranked nothing in common with other raters, so clusters exclude this rater") for i in alone),
    ]
    notes = noted(
        (
            "partial-representation",
            int((~shared).sum()),
            f"components and coordinates use {points.shape[2]} of {rankings.values.shape[2]} "
            f"{rankings.thing}s, because at least one rater did not rank the other {rankings.thing}s",
        )
    )
    if len(placed) > 1:
        explained = ordination.explained_variance(points, column_weights=column_weights)
        by_name = np.argsort([who.names[i] for i in placed])  # resamples do not depend on the order of raters
        null = ordination.null_explained(points[0, by_name], n_draws=NULL_DRAWS, rng=rng)
        tables["components"] = _component_columns(explained, null, confidence, who.design.n_units)
        summary.update(
            raters=len(placed),
            rankings=rankings.values.shape[1],
            ranked=points.shape[2],
            **with_interval(
                "dimension",
                ordination.needed(explained, share=SHARE),
                confidence,
                clusters=who.design.n_units,
                bounds=(1.0, np.inf),
            ),
            dimension_null=ordination.needed(null, share=SHARE).mean(),
        )
    if len(placed) >= FEWEST:
        x, y = ordination.coordinates(points[0], k=2).T
        tables["coordinates"] = {**labelled(who, placed), "x": x, "y": y}
    if len(linked) >= FEWEST:
        similarity, unconnected = _similarity(rankings, distances, linked)
        unlike = (
            f"{unconnected} pairs of raters ranked nothing in common; in the table clusters, these pairs have the "
            "average similarity"
        )
        notes += noted(("unconnected-raters", unconnected, unlike))
        seed = int(rng.integers(2**31))
        labels = communities.communities(similarity[0], seed=seed)
        stable, rand = communities.stability(similarity[1:], labels, seed=seed)
        by_sums = _rank_sum_communities(placed, points[0], seed)
        tables["clusters"] = {
            **labelled(who, linked),
            "cluster": labels + 1,
            "stability": stable,
            "rank_sum_cluster": [by_sums.get(rater) for rater in linked.tolist()],
        }
        summary.update(
            clusters=int(labels.max()) + 1,
            modularity=communities.modularity(similarity[0], labels),
            clusters_agreement=rand.mean() if len(rand) else None,
            rank_sum_clusters=max(by_sums.values(), default=None),
        )
    return tables, summary, left_out, notes


def _space(
    rankings: Rankings, times: Floats
) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats, NDArray[np.bool_], Floats | None]:
    """Return the raters as points in the space of the things that every rater ranked.

    If too few things are ranked by every rater, the space has all things, and only raters that ranked all things are
    points. The result has the raters in the space, the raters with gaps, the points (B, raters, things), a mask of the
    things used, and the weights of things (B, things) if things are resampled instead of rankings.
    """
    varies, design = np.flatnonzero(rankings.who.varies), rankings.who.design
    values = rankings.values[varies]
    drawn = times[: 1 + RESAMPLES, design.units] * design.weights
    by_system = rankings.level == "system"
    weights = drawn if by_system else np.ones((1, values.shape[1]))
    points = ranks.representation(values, weights=weights)
    shared = np.isfinite(points[0]).all(axis=0)
    if FEWEST_THINGS <= shared.sum() < len(shared):
        points = ranks.representation(values[:, :, shared], weights=weights)
    else:
        shared[:] = True
    # Points are checked instead of scores, because a score that is alone in its unit has no rank.
    whole = np.isfinite(points[0]).all(axis=1)
    # In a study with gaps, a resample can lack a thing; intervals exclude these resamples.
    usable = np.isfinite(points[:, whole]).all(axis=(1, 2))
    column_weights = None if by_system else drawn[:, shared]
    return varies[whole], varies[~whole], points[usable][:, whole], shared, column_weights


def _rank_sum_communities(raters: NDArray[np.intp], points: Floats, seed: int) -> dict[int, int]:
    """Return the number of each rater's community (the first is 1).

    `points` (raters, things) holds the sums of ranks. Similarity is the correlation of the sums of ranks. Negative
    correlations count as 0, because Louvain's method needs non-negative weights.
    """
    if len(points) < FEWEST:
        return {}
    similarity = np.nan_to_num(pearson(points[:, np.newaxis], points), nan=0.0)
    labels = communities.communities(up_to_rounding(np.maximum(similarity, 0.0)), seed=seed)
    return dict(zip(raters.tolist(), (labels + 1).tolist(), strict=True))


def _similarity(rankings: Rankings, distances: Distances, linked: NDArray[np.intp]) -> tuple[Floats, int]:
    """Return one minus distance (B, linked, linked), and the number of pairs with an undefined distance.

    Pairs with an undefined distance have the average similarity.
    """
    defined = np.isfinite(distances.kept)
    n = defined.sum(axis=1, keepdims=True)
    mean = np.where(defined, distances.kept, 0.0).sum(axis=1, keepdims=True) / np.maximum(n, 1)
    similarity = rankings.square(1.0 - np.where(defined, distances.kept, mean))
    return similarity[:, linked[:, None], linked], len(linked) * (len(linked) - 1) // 2 - int(n[0, 0])


def labelled(who: RaterScores, raters: Iterable[int], end: str = "") -> dict[str, list[str]]:
    """Return the columns that identify raters, with `end` appended to the names of the columns."""
    return {f"rater{end}": [who.names[i] for i in raters], f"kind{end}": [who.kinds[i] for i in raters]}


def _component_columns(explained: Floats, null: Floats, confidence: float, clusters: int) -> dict[str, Any]:
    # Sums of ranks have a constant total, so the last component may be empty.
    explained, null = (shares[:, explained[0] > EMPTY] for shares in (explained, null.mean(axis=0, keepdims=True)))
    return {
        "component": np.arange(1, explained.shape[1] + 1),
        **with_interval("explained_variance", explained, confidence, clusters=clusters, bounds=intervals.SHARE),
        "cumulative": np.cumsum(explained[0]),
        "null": null[0],
        "null_cumulative": np.cumsum(null[0]),
    }
