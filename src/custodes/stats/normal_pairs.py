"""Step-down tests of all differences of jointly normal estimates, and the distribution of the largest difference."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from custodes.stats.arrays import Bools, Floats, Ints, bisect_condition, chunks, make_read_only
from custodes.stats.bootstrap import smallest_p_value
from custodes.stats.multiple_testing import STREAM
from custodes.stats.step_down import AdjustedPValues, Batch, step_down

FIRST_DIRECTIONS, MOST_DIRECTIONS = 250, 32_000
"""Number of random directions for every p-value, and maximum number for a p-value that is close to the level."""

_WORK, _FEWEST_DIRECTIONS = 100_000_000, 4000  # maximum of pairs x directions, and minimum of directions
_GROWTH = 4  # growth of the number of directions per stage
_MAXIMUM_DIRECTIONS = 1000  # number of directions for the distribution of a maximum
_BATCH = 1000  # number of directions at a time
_SAME = 1e-9  # smaller differences of log odds are rounding errors
_NO_VARIANCE = 1e-9  # smaller relative variances are rounding errors: systems with the same outcomes on every item
_TINY = np.finfo(np.float64).tiny


def pair_tests(
    estimate: Floats, covariance: Floats, first_indices: Ints, second_indices: Ints, *, n_units: float, alpha: float
) -> AdjustedPValues:
    """Tests of equality for pairs of jointly normal estimates.

    The tests are step-down tests by the largest |z|. The t statistic of a pair, with `n_units` - 1 degrees of freedom,
    is first transformed to z. A normal vector is a random direction times a random length, whose square has a
    chi-square distribution. Only directions are drawn, because the tail of the length can be computed exactly.

    Parameters
    ----------
    estimate : array of shape (p,)
        Estimates.
    covariance : array of shape (p, p)
        Covariance of the estimates.
    first_indices, second_indices : array of int of shape (k,)
        Positions of the two estimates of each pair.
    n_units : float
        Number of units from which the covariance was estimated. If they are too few for any significant result at
        `alpha`, no pair is tested.
    alpha : float
        Level of the family of tests. Directions are added, up to a maximum, until each p-value is clearly above or
        below this level.

    Returns
    -------
    AdjustedPValues
        P-values of the pairs.

    References
    ----------
    Romano and Wolf 2005 (step-down); Deak 1980 (random directions).

    Examples
    --------
    >>> result = pair_tests(
    ...     np.array([0.0, 2.0, 2.1]), np.eye(3) / 4, np.array([0, 0, 1]), np.array([1, 2, 2]), n_units=500, alpha=0.05
    ... )
    >>> result.p_adjusted.round(2).tolist(), result.at_threshold.tolist()
    ([0.01, 0.01, 0.89], [False, False, False])
    """
    from scipy.special import chdtrc, ndtr, ndtri, stdtr

    absolute_differences = np.abs(estimate[first_indices] - estimate[second_indices])
    difference_variances, is_varying_difference = variance_of_differences(covariance, first_indices, second_indices)
    is_tested_pair = (is_varying_difference | (absolute_differences <= _SAME)) & (smallest_p_value(n_units) <= alpha)
    standard_error = np.sqrt(np.where(is_varying_difference, difference_variances, 1.0))
    t_statistics = np.where(is_varying_difference, absolute_differences, 0.0) / standard_error
    z_scores = np.where(is_tested_pair, -ndtri(stdtr(n_units - 1, -t_statistics)), np.nan)
    pairs_by_ascending_z = np.argsort(z_scores, kind="stable")[: int(is_tested_pair.sum())]
    unadjusted_p, n_estimates = 2 * ndtr(-z_scores[pairs_by_ascending_z]), len(covariance)
    largest_n_directions = min(MOST_DIRECTIONS, max(_FEWEST_DIRECTIONS, _WORK // max(1, len(pairs_by_ascending_z))))
    n_stages = 1 + int(np.ceil(np.log(largest_n_directions / FIRST_DIRECTIONS) / np.log(_GROWTH)))
    n_directions_of_stage = np.minimum(FIRST_DIRECTIONS * _GROWTH ** np.arange(n_stages), largest_n_directions)
    random_directions = _Directions(covariance, first_indices, second_indices, standard_error)

    def tail_sums(largest_statistics: Floats, pair_indices: Ints) -> tuple[Floats, Floats]:
        with np.errstate(over="ignore"):  # if no pair varies, the tail is 1 for z = 0, otherwise 0
            tail_probabilities = chdtrc(
                n_estimates, (z_scores[pair_indices, np.newaxis] / np.maximum(largest_statistics, _TINY)) ** 2
            )
        return tail_probabilities.sum(axis=1), (tail_probabilities**2).sum(axis=1)

    p_adjusted, at_threshold = np.full(len(z_scores), np.nan), np.zeros(len(z_scores), dtype=np.bool_)
    p_adjusted[pairs_by_ascending_z], at_threshold[pairs_by_ascending_z] = step_down(
        pairs_by_ascending_z,
        map(random_directions.batches, n_directions_of_stage.tolist()),
        tail_sums,
        alpha=alpha,
        # lower limit: the exact p-value of one pair; upper limit: Bonferroni's p-value
        p_limits=(unadjusted_p, np.minimum(np.arange(1, len(pairs_by_ascending_z) + 1) * unadjusted_p, 1.0)),
    )
    return AdjustedPValues(p_adjusted, at_threshold)


class _Directions:
    """Random directions of jointly normal estimates, with statistics of pairs (k,).

    The statistic of a pair is |difference| divided by the `standard_error` of the pair.
    """

    def __init__(self, covariance: Floats, first_indices: Ints, second_indices: Ints, standard_error: Floats) -> None:
        eigenvalues, eigenvectors = np.linalg.eigh(covariance)
        # The symmetric root does not depend on signs and rotations of eigenvectors.
        self._root = np.asarray((eigenvectors * np.sqrt(eigenvalues.clip(0.0))) @ eigenvectors.T)
        self._first_indices, self._second_indices, self._standard_error = first_indices, second_indices, standard_error
        self._n_drawn = 0

    def batches(self, n_directions: int) -> Iterator[Batch]:
        """Yield `n_directions` further directions in batches."""
        unit_vectors = _unit_vectors(len(self._root), self._n_drawn, n_directions)
        self._n_drawn += n_directions
        for batch_unit_vectors in np.array_split(unit_vectors, range(_BATCH, n_directions, _BATCH)):
            projections = np.ascontiguousarray((batch_unit_vectors @ self._root).T)  # (estimates, directions)

            def statistics(pair_indices: Ints, projections: Floats = projections) -> Floats:
                differences = projections[self._first_indices[pair_indices]]
                differences -= projections[self._second_indices[pair_indices]]
                return np.abs(differences, out=differences) / self._standard_error[pair_indices, np.newaxis]

            yield len(batch_unit_vectors), statistics


@lru_cache(maxsize=8)
def _unit_vectors(dimension: int, n_skipped: int, n_vectors: int) -> Floats:
    """Random unit vectors (n, dimension), without the first `n_skipped` vectors of the sequence.

    The vectors do not depend on the covariance, so they are cached.
    """
    vectors = np.random.default_rng(STREAM).standard_normal((n_skipped + n_vectors, dimension))[n_skipped:]
    return make_read_only(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


class NormalMaximum:
    """Distribution of the largest |z| over pairs of jointly normal estimates, if all true values are equal.

    Parameters
    ----------
    covariance : array of shape (p, p)
        Covariance of the estimates.
    first_indices, second_indices : array of int of shape (k,)
        Positions of the two estimates of each pair. Their difference must have a positive variance.
    n : int, default 1000
        Number of random directions.

    References
    ----------
    Deak 1980.

    Examples
    --------
    >>> one_pair = NormalMaximum(np.eye(2), np.array([0]), np.array([1]))
    >>> three = NormalMaximum(np.eye(3), np.array([0, 0, 1]), np.array([1, 2, 2]))
    >>> round(one_pair.quantile(0.05), 1), round(three.quantile(0.05), 1)
    (2.0, 2.3)
    """

    def __init__(
        self, covariance: Floats, first_indices: Ints, second_indices: Ints, *, n: int = _MAXIMUM_DIRECTIONS
    ) -> None:
        self._n_pairs, self._n_estimates = len(first_indices), len(covariance)
        standard_error = np.sqrt(variance_of_differences(covariance, first_indices, second_indices)[0])
        self._largest_statistics = np.concatenate(
            [
                np.max(
                    [
                        compute_statistics(np.arange(self._n_pairs)[pair_slice]).max(axis=0)
                        for pair_slice in chunks(self._n_pairs, n_batch_directions)
                    ],
                    axis=0,
                )
                for n_batch_directions, compute_statistics in _Directions(
                    covariance, first_indices, second_indices, standard_error
                ).batches(n)
            ]
        )

    def tail(self, value: float) -> float:
        """Probability that the largest |z| is at least `value`."""
        from scipy.special import chdtrc

        return float(chdtrc(self._n_estimates, (value / self._largest_statistics) ** 2).mean())

    def quantile(self, alpha: float) -> float:
        """Value that the largest |z| exceeds with probability `alpha`; at most the quantile by Bonferroni's
        inequality."""
        from scipy.special import ndtri

        return float(
            bisect_condition(lambda value: self.tail(value) > alpha, 0.0, -ndtri(alpha / 2 / self._n_pairs), steps=36)
        )


def variance_of_differences(covariance: Floats, first_indices: Ints, second_indices: Ints) -> tuple[Floats, Bools]:
    """For each pair of estimates, the variance of the difference, and whether the variance exceeds rounding error: (k,)
    each.

    `first_indices` and `second_indices` (k,) are the positions of the two estimates of each pair.

    >>> same = np.array([[0.3, 0.3, 0.0], [0.3, 0.3 + 1e-16, 0.0], [0.0, 0.0, 0.2]])
    >>> variance_of_differences(same, np.array([0, 0]), np.array([1, 2]))[1].tolist()
    [False, True]
    """
    variance_sum = covariance[first_indices, first_indices] + covariance[second_indices, second_indices]
    variance = np.asarray(variance_sum - 2 * covariance[first_indices, second_indices])
    return variance, np.asarray(variance > _NO_VARIANCE * variance_sum)
