"""Ordination of raters: principal components of their rankings, and seriation of distances.

Several functions share the array `points`, (raters, n) or (B, raters, n), without NaN. `points` has one row per rater
and one column per feature (ranks). Columns are centred over raters, but not scaled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, chunks
from custodes.stats.ratios import mean_of_defined, ratio

_CONSTANT = 1e-12  # deviations below this proportion of the values are rounding errors
_TIE = 1e-9  # relative difference below which two absolute values are equal


def explained_variance(points: NDArray[Any], *, column_weights: NDArray[Any] | None = None) -> Floats:
    """Proportion of variance of each component, largest first: points (B, raters, n) -> (B, min(raters - 1, n)).

    `column_weights` (n,) are weights of the features, 1 by default. Proportions sum to 1. A row is NaN if all raters
    are equal.

    >>> explained_variance(np.array([[[0.0, 0.0], [2.0, 0.0], [0.0, 1.0], [2.0, 1.0]]])).round(3).tolist()
    [[0.8, 0.2]]

    Source: Jolliffe and Cadima 2016; the glass ceiling paper, appendix B.1, figure 4.
    """
    _, n_raters, n_features = points.shape
    weights = np.ones(n_features) if column_weights is None else column_weights
    centred_points = points - points.mean(axis=1, keepdims=True)
    eigenvalues = np.linalg.eigvalsh(centred_points * weights @ centred_points.swapaxes(1, 2))[:, ::-1]
    # All further eigenvalues of the matrix between raters are 0.
    eigenvalues = np.maximum(eigenvalues[:, : min(n_raters - 1, n_features)], 0.0)
    eigenvalue_sum = eigenvalues.sum(axis=1, keepdims=True)
    uncentred_square_sums = (np.einsum("brn,brn->bn", points, points) @ weights)[:, np.newaxis]
    return ratio(eigenvalues, np.where(eigenvalue_sum > _CONSTANT**2 * uncentred_square_sums, eigenvalue_sum, 0.0))


def coordinates(points: NDArray[Any], *, k: int = 2) -> Floats:
    """Scores of the raters on the first k components: points (raters, n) -> scores (raters, k).

    On each component, the score with the largest absolute value is positive; for ties, the first such rater counts. So
    equal points give equal plots. Scores on missing components are 0.

    >>> coordinates(np.array([[0.0, 0.0], [0.0, 0.0], [4.0, 0.0], [8.0, 0.0]])).round(3).tolist()
    [[-3.0, 0.0], [-3.0, 0.0], [1.0, 0.0], [5.0, 0.0]]

    Source: Jolliffe and Cadima 2016; the glass ceiling paper, appendix B.2, figures 5 and 6.
    """
    left_vectors, singular_values, _ = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)
    n_nonzero_components = min(k, int(np.sum(singular_values > _CONSTANT * np.linalg.norm(points))))
    component_scores = np.zeros((len(points), k))
    component_scores[:, :n_nonzero_components] = (
        _orient_columns(left_vectors[:, :n_nonzero_components]) * singular_values[:n_nonzero_components]
    )
    return component_scores


def null_explained(points: NDArray[Any], *, n_draws: int, rng: np.random.Generator) -> Floats:
    """Proportions of variance for unrelated raters: points (raters, n) -> (n_draws, min(raters - 1, n)).

    In each draw, the values of each rater are permuted over features, independently of all other raters. Rows can be
    NaN as in `explained_variance`.

    >>> null_explained(np.eye(3), n_draws=5, rng=np.random.default_rng(0)).shape
    (5, 2)

    Source: parallel analysis, Horn 1965; by permutation, Buja and Eyuboglu 1992.
    """
    variance_proportions = np.empty((n_draws, min(len(points) - 1, points.shape[1])))
    for draw_slice in chunks(n_draws, points.size):
        permuted_points = rng.permuted(
            np.broadcast_to(points, (draw_slice.stop - draw_slice.start, *points.shape)), axis=-1
        )
        variance_proportions[draw_slice] = explained_variance(permuted_points)
    return variance_proportions


def leaf_order(distance: NDArray[Any]) -> NDArray[np.intp]:
    """Order of rows by average-linkage clustering with optimal leaf order: distance (n, n) -> row indices (n,).

    The matrix is symmetric. The diagonal of `distance` is ignored, and NaN counts as the mean of the defined distances.
    An order and its reverse are equally good; the one whose first row has the smaller index is returned.

    >>> place = np.array([0.0, 9.0, 1.0])
    >>> leaf_order(np.abs(place[:, np.newaxis] - place)).tolist()
    [0, 2, 1]

    Source: Bar-Joseph, Gifford and Jaakkola 2001.
    """
    from scipy.cluster.hierarchy import leaves_list, linkage

    if len(distance) < 3:
        return np.arange(len(distance))
    pair_distances = distance[np.triu_indices(len(distance), 1)]
    pair_distances = np.where(np.isnan(pair_distances), np.nan_to_num(mean_of_defined(pair_distances)), pair_distances)
    row_order = leaves_list(linkage(pair_distances, method="average", optimal_ordering=True)).astype(np.intp)
    return row_order if row_order[0] < row_order[-1] else row_order[::-1]


def _orient_columns(left_vectors: Floats) -> Floats:
    """Flip the signs of columns so that the entry with the largest absolute value is positive. If several entries are
    largest up to rounding, the first one counts."""
    absolute_values = np.abs(left_vectors)
    deciding_row_of_column = np.argmax(absolute_values >= (1 - _TIE) * absolute_values.max(axis=0, initial=0.0), axis=0)
    return np.asarray(left_vectors * np.sign(left_vectors[deciding_row_of_column, np.arange(left_vectors.shape[1])]))
