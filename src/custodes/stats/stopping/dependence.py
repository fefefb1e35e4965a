"""What annotations of the same documents are worth: their design effect."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats import ABSENT
from custodes.stats.arrays import Floats, Signs
from custodes.stats.correction.estimator import Counts
from custodes.stats.resampling.resample import unit_sums


def is_clustered(units: NDArray[np.integer[Any]]) -> bool:
    """Whether some items share a cluster: (items,)."""
    return len(np.unique(units)) < len(units)


def design_effect(signs: Signs, *, units: NDArray[np.integer[Any]]) -> Floats:
    """How many annotations are worth one independent one, at least 1: signs (..., pairs, items), units (items,) ->
    (..., pairs).

    1 + (k - 1) rho, with k the mean number of annotations of a cluster that an annotation of the pair shares, itself
    included. The correlation rho within clusters is one for all pairs of a study, each pair about its own mean; its
    standard error over clusters is added, since few clusters leave it unsure. Exactly 1 where no two annotations of a
    pair share a cluster.

    >>> signs = np.array([[1, 1, -1, -1, 1, 1, -1, -1]])
    >>> design_effect(signs, units=np.array([0, 0, 1, 1, 2, 2, 3, 3])).tolist()
    [2.0]
    >>> design_effect(signs, units=np.arange(8)).tolist()
    [1.0]

    Source: Kish 1965, "Survey Sampling" (the design effect); the moment estimator of one correlation is ours.
    """
    rated = signs != ABSENT
    n_units = int(units.max(initial=-1)) + 1
    number = unit_sums(rated, units=units, n_units=n_units)  # (..., pairs, units)
    n = number.sum(axis=-1)
    shared = (number**2).sum(axis=-1) / np.maximum(n, 1)
    if (shared <= 1).all():
        return np.ones(n.shape)
    values = np.where(rated, signs, 0)
    mean = values.sum(axis=-1) / np.maximum(n, 1)
    total = unit_sums(values, units=units, n_units=n_units)
    squares = unit_sums(values**2, units=units, n_units=n_units)
    centre = mean[..., np.newaxis]
    square = squares - 2 * centre * total + number * centre**2  # squared residuals, and below the square of their sum
    together = (total - number * centre) ** 2
    clusters = (number > 0).sum(axis=-1)
    # A pair's mean is fitted to the same clusters: both sums are that much too small.
    own = np.where(shared > 1, n / np.maximum(n - 1, 1), 0.0)[..., np.newaxis] * square
    between = np.where(shared > 1, clusters / np.maximum(clusters - 1, 1), 0.0)[..., np.newaxis] * together
    excess = (between - own).sum(axis=-2)  # (..., units)
    most = ((shared - 1)[..., np.newaxis] * own).sum(axis=-2)
    whole = most.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = excess.sum(axis=-1, keepdims=True) / whole
        error = np.sqrt(((excess - rho * most) ** 2).sum(axis=-1, keepdims=True)) / whole
    # Without any spread nothing is known of rho: annotations that agree may do so because they share a document.
    likely = np.clip(np.where(whole > 0, rho + error, 1.0), 0.0, 1.0)
    return np.asarray(1 + np.maximum(shared - 1, 0.0) * likely)


def effective(counts: Counts, effect: Floats, *, whole: bool) -> Counts:
    """Tables (...) by what their annotations are worth, effect (...): to the next `whole` number for estimators that
    take tables apart into single answers.

    >>> effective(Counts(*(np.full(shape, 6) for shape in ((3, 3), 3, 3))), np.array(4.0), whole=False).human_only[0]
    np.float64(1.5)

    Source: Kish 1965 (the effective sample size).
    """
    parts = (part / effect[(..., *[np.newaxis] * (part.ndim - effect.ndim))] for part in counts)
    return Counts(*(np.rint(part) if whole else part for part in parts))
