"""Seriation: in which order to draw the rows of a distance matrix so that similar ones stand together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.ratios import mean_of_defined


def leaf_order(distance: NDArray[Any]) -> NDArray[np.intp]:
    """Order rows by average-linkage clustering with optimally ordered leaves: distance (n, n) -> row indices (n,).

    The matrix is symmetric; its diagonal is ignored, and NaN counts as the mean of the defined distances. Of the two
    directions the one whose first row has the smaller index is taken.

    >>> place = np.array([0.0, 9.0, 1.0])
    >>> leaf_order(np.abs(place[:, np.newaxis] - place)).tolist()
    [0, 2, 1]

    Source: Bar-Joseph, Gifford and Jaakkola 2001.
    """
    from scipy.cluster.hierarchy import leaves_list, linkage

    if len(distance) < 3:
        return np.arange(len(distance))
    pairs = distance[np.triu_indices(len(distance), 1)]
    pairs = np.where(np.isnan(pairs), np.nan_to_num(mean_of_defined(pairs)), pairs)
    order = leaves_list(linkage(pairs, method="average", optimal_ordering=True)).astype(np.intp)
    return order if order[0] < order[-1] else order[::-1]
