"""Step-down tests of a family of estimates by the maximum statistic, with sign flips or resamples.

The p-value and the interval of an estimate use the same draws under the hypothesis. If there is an interval, p <= 1 -
confidence exactly if the interval excludes 0. The estimates of a family share their draws, so their dependence is
taken into account.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Bools, Floats, Ints, chunks
from custodes.stats.bootstrap import sign_flips, smallest_p_value
from custodes.stats.ratios import mean_of_defined, ratio
from custodes.stats.step_down import Batch, Statistics, step_down

STREAM = 20_240_229
"""Fixed seed of the random numbers of tests, so that decisions do not depend on the seed of an analysis."""

MOST_FLIPS = 10_000
"""Maximum number of sign flips for a p-value that is close to the level of the test. Large families of tests use fewer
sign flips."""

_FLIP_WORK = 5_000_000_000  # maximum of hypotheses x blocks x flips
_SECOND = 3000  # flips of the second stage
_FEW_BLOCKS = 20  # maximum number of blocks for which all flips may be enumerated
_SAME = 1e-9  # smaller differences of statistics (of order 1) are rounding errors
_ROUNDING = 1e-12  # rounding error of sums of values of at most 1
_CACHE = 2  # divisor of the size of temporary arrays, so that they fit the cache


@dataclass(frozen=True, kw_only=True)
class Family:
    """Estimates (k,) with intervals, unadjusted p-values, and p-values adjusted for the family; NaN where undefined.

    `at_threshold` is whether the Monte Carlo error of `p_adjusted` spans the level.
    """

    estimate: Floats
    low: Floats
    high: Floats
    p_value: Floats
    p_adjusted: Floats
    at_threshold: Bools

    def significant(self, alpha: float) -> Bools:
        """Whether each hypothesis is rejected despite Monte Carlo error: (k,).

        A hypothesis is rejected if `p_adjusted` is at most `alpha` and its Monte Carlo error does not span this level.
        `alpha` is the level of the tests.
        """
        return np.asarray((self.p_adjusted <= alpha) & ~self.at_threshold)


@dataclass(frozen=True, kw_only=True)
class Flips:
    """Random signs of blocks.

    `first` (n, blocks) are the flips (+-1) that every p-value uses. `exact` is whether these flips and the identity are
    all possible flips, up to a global sign. The flips do not depend on the seed of an analysis.
    """

    first: NDArray[np.int8]
    exact: bool

    @classmethod
    def from_block_count(cls, n_blocks: int, n_flips: int) -> Flips:
        """All possible flips if there are at most max(`MOST_FLIPS`, `n_flips`) of them, else `n_flips` random flips.

        There are no flips with fewer than two blocks.

        >>> Flips.from_block_count(3, 10).first.tolist()
        [[1, -1, 1], [1, 1, -1], [1, -1, -1]]
        """
        if n_blocks < 2 or not n_flips:
            return cls(first=np.ones((0, n_blocks), dtype=np.int8), exact=False)
        if n_blocks <= _FEW_BLOCKS and 2 ** (n_blocks - 1) - 1 <= max(n_flips, MOST_FLIPS):
            # The signs are the bits of even numbers, so that the first sign is never flipped.
            bit_patterns = np.arange(2, 2**n_blocks, 2)[:, np.newaxis] >> np.arange(n_blocks) & 1
            return cls(first=(1 - 2 * bit_patterns).astype(np.int8), exact=True)
        return cls(first=sign_flips(n_blocks, n_flips, np.random.default_rng(STREAM)), exact=False)

    def stages(self, n_hypotheses: int) -> Iterator[NDArray[np.int8]]:
        """Yield the first flips, then sets of further independent flips. With more hypotheses, sets are smaller."""
        n_first_flips, n_blocks = self.first.shape
        yield self.first
        most_flips = (
            0 if self.exact or not n_first_flips else min(MOST_FLIPS, _FLIP_WORK // max(1, n_hypotheses * n_blocks))
        )
        for stage, n_flips in enumerate((_SECOND, most_flips), start=1):
            if n_first_flips < n_flips <= most_flips:
                yield sign_flips(n_blocks, n_flips, np.random.default_rng([STREAM, stage]))


def wallace_factor(degrees_of_freedom: Floats) -> Floats:
    """Factor of the approximate normal quantile of Student's t, factor * sqrt(df * log(1 + t**2 / df)) (Wallace 1959).

    >>> wallace_factor(np.array([1.0, 100.0])).round(3).tolist()
    [0.818, 0.998]
    """
    return (8 * degrees_of_freedom + 1) / (8 * degrees_of_freedom + 3)


def flip_tests(
    estimate: Floats,
    jackknife_estimates: Floats,
    *,
    block_sizes: Bools | Ints | Floats,
    flips: Flips,
    confidence: float,
    alpha: float,
) -> Family:
    """Sign-flip tests of estimates that are nearly means over blocks of units.

    The tests flip the signs of jackknife pseudo-values, which are arbitrary under the hypothesis. The t statistic of
    each flip uses the variance of this flip, so that few blocks, and blocks of unequal size, are allowed. If estimates
    have different numbers of blocks, each t statistic is replaced by the t statistic with the same normal quantile for
    the largest number of blocks. The tests are exact for contributions that are symmetric around 0; otherwise, the
    tests are valid asymptotically, for many blocks. The interval contains a value d under the following condition: if d
    times the relative size of the block is subtracted from each pseudo-value, |t| is at most the critical t. For blocks
    of equal size, the interval is the estimate +- the critical t times the jackknife standard error. If an estimate has
    too few blocks to be significant at 1 - `confidence`, it has no p-value and no interval, and is not in the family.
    If the values d are not bounded, because few blocks have nearly all units, there is no interval.

    Parameters
    ----------
    estimate : array of shape (k,)
        Estimates.
    jackknife_estimates : array of shape (blocks, k)
        Estimates from the data without each block. The estimate is undefined if this is NaN for a block with data.
    block_sizes : array of shape (blocks, k)
        Number or weight of the units of a block that an estimate uses. If it is bool, all blocks have equal sizes.
    flips : Flips
        Flips of the blocks, common to all estimates. Further flips, up to `MOST_FLIPS`, are drawn for p-values close to
        `alpha`.
    confidence : float
        Level of the intervals.
    alpha : float
        Level of the family of tests.

    Returns
    -------
    Family

    References
    ----------
    Fisher 1935; Quenouille 1956; Busing, Meijer and van der Leeden 1999 for blocks of unequal size; Romano and Wolf
    2005 for the family (step-down of the largest t); Wallace 1959 for the normal quantile of t.

    Examples
    --------
    >>> estimate, jackknife_estimates = np.array([2.0]), np.array([[2.2], [2.0], [1.8], [2.1], [1.9], [2.0]])
    >>> flips = Flips(first=1 - 2 * (np.arange(64)[:, None] >> np.arange(6) & 1), exact=True)
    >>> block_sizes = np.ones((6, 1), dtype=bool)
    >>> result = flip_tests(
    ...     estimate, jackknife_estimates, block_sizes=block_sizes, flips=flips, confidence=0.9, alpha=0.1
    ... )
    >>> result.p_value.round(3).tolist()  # (2 + 1) / (64 + 1): all signs equal, one way or the other
    [0.046]
    """
    is_present_block = block_sizes > 0
    n_present_blocks = is_present_block.sum(axis=0)
    n_blocks_or_two = np.maximum(n_present_blocks, 2)
    is_defined = np.isfinite(estimate) & (n_present_blocks > 1)
    is_defined &= (np.isfinite(jackknife_estimates) | ~is_present_block).all(axis=0)
    block_sizes_in_use = block_sizes * is_defined
    scaled_pseudo_values = pseudo_values(estimate, jackknife_estimates, block_sizes_in_use)
    relative_sizes = _relative_sizes(block_sizes_in_use)
    residuals = scaled_pseudo_values - relative_sizes * np.nan_to_num(estimate[:, np.newaxis])
    residuals[np.abs(residuals) <= _SAME] = 0.0
    # |sum of signed values| / its largest possible value: monotone in |t|, because flips do not change squares.
    largest_possible_sums = np.sqrt(n_blocks_or_two * np.einsum("ku,ku->k", scaled_pseudo_values, scaled_pseudo_values))
    scaled_pseudo_values *= np.nan_to_num(ratio(np.ones(len(n_blocks_or_two)), largest_possible_sums))[:, np.newaxis]
    relative_statistic = np.minimum(np.abs(scaled_pseudo_values.sum(axis=1)), 1.0)
    degrees_of_freedom = n_blocks_or_two - 1.0
    # With t = r sqrt(df / (1 - r^2)), the squared normal quantile of t is -factor^2 df log(1 - r^2).
    scale_exponents = wallace_factor(degrees_of_freedom) ** 2 * degrees_of_freedom
    scale_exponents /= scale_exponents[is_defined].max(initial=_SAME)

    def rescale(relative_statistics: Floats, exponents: Floats) -> Floats:
        """Change statistics r (k', n) to those whose 1 - r^2 is the given power (k',) of 1 - r^2, in place."""
        is_changed = exponents != 1
        statistics_to_change = np.minimum(relative_statistics[is_changed], 1.0)
        with np.errstate(divide="ignore"):
            log_complements = exponents[is_changed, np.newaxis] * np.log1p(-(statistics_to_change**2))
        relative_statistics[is_changed] = np.sqrt(-np.expm1(log_complements))
        return relative_statistics

    def to_critical_t(common_scale_values: Floats) -> Floats:
        """|t| that corresponds to values (k,) on the common scale."""
        critical_statistics = np.minimum(
            rescale(common_scale_values[:, np.newaxis].copy(), 1 / scale_exponents)[:, 0], 1.0
        )
        with np.errstate(divide="ignore"):
            return np.asarray(
                np.sqrt(degrees_of_freedom)
                * critical_statistics
                / np.sqrt((1 - critical_statistics) * (1 + critical_statistics))
            )

    coordinates, directions = _factors(scaled_pseudo_values)

    def make_batch(flip_signs: NDArray[np.int8]) -> Batch:
        sign_columns = np.ascontiguousarray(flip_signs.T, dtype=np.float64)
        flipped_directions = sign_columns if directions is None else directions @ sign_columns

        def statistics(hypotheses: Ints) -> Floats:
            flipped_sums = coordinates[hypotheses] @ flipped_directions
            return rescale(np.abs(flipped_sums, out=flipped_sums), scale_exponents[hypotheses])

        return len(flip_signs), statistics

    smallest_p_values = smallest_p_value(n_present_blocks)
    relative_statistic[~is_defined | (smallest_p_values > 1 - confidence)] = np.nan
    standard_error = np.sqrt(np.einsum("ku,ku->k", residuals, residuals) / (n_blocks_or_two * degrees_of_freedom))

    def bound_distances(critical_values: Floats) -> tuple[Floats, Floats]:
        """Roots of |t(d)| = critical t, a quadratic equation, as distances from the estimate."""
        critical_t = to_critical_t(critical_values)
        squared_t_per_freedom = critical_t**2 / degrees_of_freedom
        square_coefficient = 1 - squared_t_per_freedom * ((relative_sizes**2).sum(axis=1) / n_blocks_or_two - 1)
        square_coefficient[~(square_coefficient > _SAME)] = np.nan  # the values are not bounded
        half_linear_coefficient = squared_t_per_freedom * (residuals * relative_sizes).sum(axis=1) / n_blocks_or_two
        discriminant_root = np.hypot(half_linear_coefficient, np.sqrt(square_coefficient) * critical_t * standard_error)
        lower_distances, upper_distances = (
            np.where(standard_error > 0, (discriminant_root + change) / square_coefficient, 0.0 * critical_values)
            for change in (half_linear_coefficient, -half_linear_coefficient)
        )
        return lower_distances, upper_distances

    return _family(
        np.where(is_defined, estimate, np.nan),
        rescale(np.maximum(relative_statistic[:, np.newaxis] * (1 - _SAME) - _SAME, 0.0), scale_exponents)[:, 0],
        ([make_batch(flip_signs)] for flip_signs in flips.stages(len(n_present_blocks)) if len(flip_signs)),
        confidence=confidence,
        alpha=alpha,
        exact=flips.exact,
        bound_distances=bound_distances,
        smallest_p=smallest_p_values,
    )


def pseudo_values(estimate: Floats, jackknife_estimates: Floats, block_sizes: Bools | Ints | Floats) -> Floats:
    """Jackknife pseudo-values (k, blocks) of estimates (k,), from estimates without each block (blocks, k).

    The pseudo-value of a mean is the sum over the block's units, divided by the mean of `block_sizes` (blocks, k).
    Pseudo-values of blocks of size 0 are 0, and rounding errors are replaced by 0.

    >>> pseudo_values(np.array([2.0]), np.array([[2.5], [1.5]]), np.ones((2, 1), dtype=bool)).tolist()
    [[1.5, 2.5]]
    >>> pseudo_values(np.array([2.0]), np.array([[5.0], [1.0]]), np.array([[3], [1]])).tolist()  # units 1, 1, 1 and 5
    [[1.5, 2.5]]
    """
    is_present_block, size_shares = block_sizes > 0, np.nan_to_num(ratio(block_sizes, block_sizes.sum(axis=0)))
    remaining_shares = np.where(is_present_block, 1 - size_shares, 0.0)
    jackknife_or_zero = np.where(is_present_block & np.isfinite(jackknife_estimates), jackknife_estimates, 0.0)
    jackknife_means = (remaining_shares * jackknife_or_zero).sum(axis=0) / np.maximum(
        remaining_shares.sum(axis=0), _SAME
    )
    sums_of_blocks = remaining_shares * (jackknife_means - jackknife_or_zero) + np.nan_to_num(size_shares * estimate)
    pseudo_value_matrix = (is_present_block.sum(axis=0) * sums_of_blocks).T
    pseudo_value_matrix[np.abs(pseudo_value_matrix) <= _SAME] = 0.0
    return np.ascontiguousarray(pseudo_value_matrix)


def _factors(matrix: Floats) -> tuple[Floats, Floats | None]:
    """Two factors (k, rank) and (rank, blocks) of a matrix (k, blocks), for faster products with signs.

    The entries are at most 1. The rank of differences between all pairs of metrics is below the number of metrics. The
    result is the matrix and None in two cases: the factors are not much smaller than the matrix, or their product does
    not equal the matrix up to rounding.
    """
    n_rows, n_columns = matrix.shape
    if n_rows <= n_columns:
        return matrix, None
    eigenvalues, eigenvectors = np.linalg.eigh(matrix.T @ matrix)
    directions = np.ascontiguousarray(eigenvectors[:, eigenvalues > _ROUNDING * eigenvalues[-1]].T)
    coordinates = matrix @ directions.T
    if 2 * len(directions) > n_columns or np.abs(coordinates @ directions - matrix).max() > _ROUNDING:
        return matrix, None
    return coordinates, directions


def _relative_sizes(block_sizes: Bools | Ints | Floats) -> Floats:
    """Sizes of blocks (k, blocks), divided by the mean size of the blocks that are not empty."""
    return np.ascontiguousarray(
        ((block_sizes > 0).sum(axis=0) * np.nan_to_num(ratio(block_sizes, block_sizes.sum(axis=0)))).T
    )


def bootstrap_tests(
    compute_draws: Statistics,
    draws_shape: tuple[int, int],
    *,
    n_units: int,
    n_effective_units: float,
    confidence: float,
    alpha: float,
) -> Family:
    """Bootstrap tests of estimates, for statistics that are not smooth.

    The statistic t is the estimate divided by the standard deviation of its resamples. The statistic is transformed
    from Student's t to a normal quantile. The normal quantile is compared with the resamples, centred and divided by
    the same standard deviation. The critical value is transformed back to Student's t. The interval is the estimate +-
    the transformed critical value times the standard deviation.

    Parameters
    ----------
    compute_draws
        Function of the positions of some estimates (k',). It returns these estimates from the data and from B
        resamples: (k', 1 + B), NaN if undefined.
    draws_shape : tuple of int
        Number k of estimates, and the number 1 + B.
    n_units : int
        Number of resampled units. If they are too few for any significant result, there are no p-values and no
        intervals.
    n_effective_units : float
        Effective number of these units, for the degrees of freedom.
    confidence : float
        Level of the intervals.
    alpha : float
        Level of the family of tests.

    Returns
    -------
    Family
        The tests. They are NaN if the estimate is NaN, or if fewer than half of its resamples are defined. There is no
        p-value and no interval if all resamples are equal but the estimate is not 0.

    References
    ----------
    Efron 1979; Romano and Wolf 2005 for the family.

    Examples
    --------
    >>> draws = np.array([[3.0, 2.0, 4.0, 1.0, 5.0, 3.0]])
    >>> result = bootstrap_tests(
    ...     lambda part: draws[part], draws.shape, n_units=100, n_effective_units=100, confidence=0.8, alpha=0.2
    ... )
    >>> result.p_value.round(3).tolist(), bool(result.low[0] > 0)
    ([0.167], True)
    """
    from scipy.special import ndtr, ndtri, stdtr, stdtrit

    n_estimates, n_draws = draws_shape[0], draws_shape[1] - 1
    estimate, mean_resample, resample_variance, n_defined_resamples = np.full((4, n_estimates), np.nan)
    degrees_of_freedom = max(1.0, n_effective_units - 1)
    for estimate_slice in chunks(n_estimates, _CACHE * (1 + n_draws)):
        values_by_estimate = compute_draws(np.arange(estimate_slice.start, estimate_slice.stop))
        resamples = np.where(np.isfinite(values_by_estimate[:, 1:]), values_by_estimate[:, 1:], np.nan)
        estimate[estimate_slice] = values_by_estimate[:, 0]
        n_defined_resamples[estimate_slice] = np.isfinite(resamples).sum(axis=1)
        mean_resample[estimate_slice] = mean_of_defined(resamples)
        resample_variance[estimate_slice] = mean_of_defined(
            (resamples - mean_resample[estimate_slice, np.newaxis]) ** 2
        )
    is_defined = (
        np.isfinite(estimate) & (n_defined_resamples > 0) & (2 * n_defined_resamples >= n_draws) & (n_units > 1)
    )
    standard_error = np.sqrt(resample_variance * (n_effective_units / degrees_of_freedom))
    is_varying = standard_error > _SAME
    is_testable = (
        is_defined & (is_varying | (np.abs(estimate) <= _SAME)) & (smallest_p_value(n_units) <= 1 - confidence)
    )
    standard_error_or_one = np.where(is_varying, standard_error, 1.0)

    def statistics(estimate_indices: Ints) -> Floats:
        deviations = compute_draws(estimate_indices)[:, 1:] - mean_resample[estimate_indices, np.newaxis]
        return np.asarray(
            np.nan_to_num(np.abs(deviations) / standard_error_or_one[estimate_indices, np.newaxis], posinf=0.0)
        )

    z_of_estimate = np.where(
        is_testable, -ndtri(stdtr(degrees_of_freedom, -np.abs(estimate) / standard_error_or_one)), np.nan
    )

    def bound_distances(critical_values: Floats) -> tuple[Floats, Floats]:
        critical_t = -stdtrit(degrees_of_freedom, ndtr(-critical_values))
        return (np.where(standard_error > 0, critical_t * standard_error, 0.0 * critical_values),) * 2

    return _family(
        np.where(is_defined, estimate, np.nan),
        z_of_estimate * (1 - _SAME) - _SAME,
        [[(n_draws, statistics)]] if n_draws else [],
        confidence=confidence,
        alpha=alpha,
        bound_distances=bound_distances,
    )


def _family(
    estimate: Floats,
    observed_statistic: Floats,
    stages: Iterable[Iterable[Batch]],
    *,
    confidence: float,
    alpha: float,
    bound_distances: Callable[[Floats], tuple[Floats, Floats]],
    exact: bool = False,
    smallest_p: Floats | float = 0.0,
) -> Family:
    """Tests of estimates (k,).

    `observed_statistic` is the observed |statistic| minus rounding error; NaN means that the estimate is not tested.
    `bound_distances` returns the distances (k,) of the lower and the upper bound from the estimates, from critical
    values of |statistic|.
    `smallest_p` is the smallest possible p-value.
    """
    p_value, p_adjusted, critical_value, largest_p_excluding_zero = np.full((4, len(estimate)), np.nan)
    at_threshold = np.zeros(len(estimate), dtype=np.bool_)

    def count_reached(draws: Floats, hypotheses: Ints) -> Ints:
        # By rows: count_nonzero with an axis is several times slower.
        return np.array(
            [
                np.count_nonzero(draws_of_hypothesis >= observed_value)
                for draws_of_hypothesis, observed_value in zip(
                    draws, observed_statistic[hypotheses].tolist(), strict=True
                )
            ]
        )

    def record(hypotheses: Ints, draws: Floats) -> None:
        n_draws = draws.shape[1]
        critical_rank = int(
            (1 - confidence) * (n_draws + 1) + _SAME
        )  # number of draws (including the data) that may reach the bound
        p_value[hypotheses] = (count_reached(draws, hypotheses) + 1) / (n_draws + 1)
        largest_p_excluding_zero[hypotheses] = (critical_rank + _SAME) / (n_draws + 1)
        if critical_rank:
            draws.partition(n_draws - critical_rank, axis=1)
            critical_value[hypotheses] = draws[:, n_draws - critical_rank]

    tested_order = np.argsort(observed_statistic, kind="stable")[
        : (~np.isnan(observed_statistic)).sum()
    ]  # without NaN, which is sorted last
    p_adjusted[tested_order], at_threshold[tested_order] = step_down(
        tested_order,
        stages,
        lambda largest_statistics, hypotheses: (count_reached(largest_statistics, hypotheses),) * 2,
        alpha=alpha,
        n_data_draws=1,
        exact=exact,
        record=record,
    )
    p_value = np.maximum(p_value, smallest_p)
    p_adjusted = np.maximum(p_adjusted, p_value)  # NaN without draws
    p_adjusted[tested_order[::-1]] = np.maximum.accumulate(p_adjusted[tested_order[::-1]])
    with np.errstate(invalid="ignore"):
        lower_distances, upper_distances = (
            np.where(np.isfinite(bound_distance), bound_distance, np.nan)
            for bound_distance in bound_distances(critical_value)
        )
    # Despite rounding errors, an interval must contain 0 if the test is not significant.
    is_zero_inside = p_value > largest_p_excluding_zero
    return Family(
        estimate=estimate,
        low=np.where(is_zero_inside, np.minimum(estimate - lower_distances, 0.0), estimate - lower_distances),
        high=np.where(is_zero_inside, np.maximum(estimate + upper_distances, 0.0), estimate + upper_distances),
        p_value=p_value,
        p_adjusted=p_adjusted,
        at_threshold=at_threshold,
    )
