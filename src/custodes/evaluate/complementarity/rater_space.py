"""Principal components of the raters' ranks: in how many dimensions do raters differ?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.data.notes import Note, build_notes
from custodes.evaluate.complementarity.distances import Rankings
from custodes.evaluate.rater_scores import RaterScores
from custodes.stats import ordination, ranks
from custodes.stats.arrays import Floats

SHARE = 0.8
"""The effective dimension is the number of components that explain this proportion of the variance (Appendix B.1)."""

NULL_DRAWS = 200
EMPTY = 1e-9
FEWEST_OBJECTS = 3


def component_columns(
    rankings: Rankings, rng: np.random.Generator
) -> tuple[dict[str, Any], list[tuple[str, str]], list[Note]]:
    """Return the columns of `components`, the raters without a place in this space with reasons, and notes."""
    raters, (placed_raters, incomplete_raters, rater_points, is_ranked_object) = rankings.who, _rank_space(rankings)
    left_out_raters = [
        (raters.names[rater_position], f"did not rate every {rankings.object_name}, so components exclude this rater")
        for rater_position in incomplete_raters
    ]
    notes = build_notes(
        (
            "partial-representation",
            int((~is_ranked_object).sum()),
            f"components use {rater_points.shape[1]} of {rankings.values.shape[2]} {rankings.object_name}s, because at "
            f"least one rater did not rank the other {rankings.object_name}s",
        )
    )
    if len(placed_raters) < 2:
        return {}, left_out_raters, notes
    object_weights = None if rankings.level == "system" else raters.design.weights[is_ranked_object]
    (explained_variance,) = ordination.explained_variance(rater_points[np.newaxis], column_weights=object_weights)
    placed_order_by_name = np.argsort(
        [raters.names[rater_position] for rater_position in placed_raters]
    )  # sorted, so that permutations do not depend on the order of raters
    null_variance = ordination.null_explained(rater_points[placed_order_by_name], n_draws=NULL_DRAWS, rng=rng).mean(
        axis=0
    )
    # Sums of ranks have a constant total, so the last component may have no variance.
    has_variance = explained_variance > EMPTY
    return (
        {
            "component": np.arange(1, has_variance.sum() + 1),
            "explained_variance": explained_variance[has_variance],
            "cumulative": np.cumsum(explained_variance[has_variance]),
            "null_cumulative": np.cumsum(null_variance[has_variance]),
        },
        left_out_raters,
        notes,
    )


def _rank_space(rankings: Rankings) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats, NDArray[np.bool_]]:
    """Return the raters as points in the space of the objects that every rater ranked.

    If too few objects are ranked by every rater, the space has all objects, and only raters that ranked all objects are
    points. The result has the raters in the space, the raters with gaps, the points (raters, objects), and a mask of
    the objects used.
    """
    varying_rater_positions, design = np.flatnonzero(rankings.who.varies), rankings.who.design
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
        f"rater{suffix}": [all_raters.names[i] for i in rater_positions],
        f"kind{suffix}": [all_raters.kinds[i] for i in rater_positions],
    }
