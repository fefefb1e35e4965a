"""Resampling: bootstrap and jackknife weights, sign flips, and weighted sums in every resample.

Weights (1 + B, units) are the number of times that each resampling unit (a cluster of items) is drawn. The first row
consists of ones and stands for the data, so that the point estimate and the bootstrap use the same code.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from custodes.stats.arrays import CHUNK, Floats, chunks, equal_positions

# With at least this many units, positions are drawn and counted. This gives the same distribution as drawing
# multinomial numbers and is ten times as fast.
_MANY = 4096
_BLOCK = 8 * CHUNK  # number of eight-byte weights in memory at once


def bootstrap_weights(
    n_units: int, n_resamples: int, rng: np.random.Generator, *, dtype: DTypeLike = np.float64
) -> NDArray[Any]:
    """Number of times that each unit occurs in the data (once) and in each bootstrap resample.

    Parameters
    ----------
    n_units : int
        Number of units.
    n_resamples : int
        Number B of resamples.
    rng : numpy.random.Generator
        Random number generator for the resamples.
    dtype : default float64
        Type of the numbers. Use `uint8` for many units: it is practically impossible that a unit is drawn 256 times.

    Returns
    -------
    array of shape (1 + B, units)
        The first row consists of ones. Every row sums to `n_units`.

    References
    ----------
    Efron 1979, the multinomial form of the nonparametric bootstrap.

    Examples
    --------
    >>> bootstrap_weights(5, 3, np.random.default_rng(0)).sum(axis=1).tolist()
    [5.0, 5.0, 5.0, 5.0]
    """
    weights = np.ones((1 + n_resamples, n_units), dtype=dtype)
    # Resamples are drawn one at a time, so that results do not depend on the block size.
    for row_slice in chunks(n_resamples, n_units * CHUNK // _BLOCK):
        resample_weights = weights[1:][row_slice]
        if n_units < _MANY:
            resample_weights[:] = rng.multinomial(n_units, np.full(n_units, 1 / n_units), size=len(resample_weights))
        else:
            for unit_counts in resample_weights:
                unit_counts[:] = np.bincount(rng.integers(n_units, size=n_units), minlength=n_units)
    return weights


def with_point(weights: NDArray[Any]) -> NDArray[np.float64]:
    """Prepend a row of ones, the weights of the data: (B, units) -> (1 + B, units).

    >>> with_point(np.array([[2, 0]])).tolist()
    [[1.0, 1.0], [2.0, 0.0]]
    """
    return np.concatenate([np.ones((1, weights.shape[1])), weights])


def unit_sums(values: NDArray[Any], *, units: NDArray[np.integer[Any]], n_units: int) -> NDArray[np.float64]:
    """Sums over the items of each unit: (..., items) -> (..., units); 0 for a unit without items.

    >>> unit_sums(np.array([1.0, 2.0, 4.0]), units=np.array([1, 0, 1]), n_units=3).tolist()
    [2.0, 5.0, 0.0]
    """
    if len(units) == n_units and (units == np.arange(n_units)).all():
        return np.array(values, dtype=np.float64)
    sums_by_unit = np.zeros((*values.shape[:-1], n_units))
    if values.shape[-1]:
        sorted_item_indices = np.argsort(units, kind="stable")
        present_units, first_position_of_unit = np.unique(units[sorted_item_indices], return_index=True)
        sums_by_unit[..., present_units] = np.add.reduceat(
            values[..., sorted_item_indices], first_position_of_unit, axis=-1, dtype=np.float64
        )
    return sums_by_unit


def weighted_sums(weights: NDArray[Any], values_by_unit: NDArray[Any]) -> NDArray[np.float64]:
    """Weighted sums over units in every resample: weights (B, units), values_by_unit (..., units) -> (B,
    ...).

    One-byte weights are converted to floats in blocks of rows. If most units have only zero values, these units are
    skipped.

    >>> weighted_sums(np.array([[1.0, 1.0], [2.0, 0.0]]), np.array([3.0, 4.0])).tolist()
    [7.0, 6.0]
    """
    flat_values_by_unit = np.asarray(values_by_unit.reshape(-1, values_by_unit.shape[-1]), dtype=np.float64)
    nonzero_unit_indices = np.flatnonzero(flat_values_by_unit.any(axis=0))
    if 2 * len(nonzero_unit_indices) < flat_values_by_unit.shape[1]:  # with few pairs, most units have zero values
        weights, flat_values_by_unit = weights[:, nonzero_unit_indices], flat_values_by_unit[:, nonzero_unit_indices]
    resample_sums = np.empty((len(weights), len(flat_values_by_unit)))
    for row_slice in chunks(len(weights), weights.shape[1] * CHUNK // _BLOCK):
        np.matmul(np.asarray(weights[row_slice], dtype=np.float64), flat_values_by_unit.T, out=resample_sums[row_slice])
    return resample_sums.reshape(len(weights), *values_by_unit.shape[:-1])


def group_by_outputs(
    human: NDArray[np.float64], metrics: NDArray[np.float64]
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Group metrics by the set of outputs that have both a human rating and a rating by the metric.

    Yields the metric indices and the flat output indices of each group.

    >>> metrics = np.array([[[0.0, np.nan]], [[1.0, 2.0]]])
    >>> [(m.tolist(), o.tolist()) for m, o in group_by_outputs(np.zeros((1, 2)), metrics)]
    [([0], [0]), ([1], [0, 1])]
    """
    is_rated_by_human_and_metric = (~np.isnan(human) & ~np.isnan(metrics)).reshape(len(metrics), -1)
    for metric_indices in equal_positions(map(bytes, np.packbits(is_rated_by_human_and_metric, axis=1))):
        yield metric_indices, np.flatnonzero(is_rated_by_human_and_metric[metric_indices[0]])


def without_block(n_units: int, *, most: int) -> tuple[Floats, NDArray[np.intp]]:
    """Jackknife weights (blocks, units), and the block of each unit. Each row of weights leaves out the units of one
    block.

    Each unit is a block if there are at most `most` units. Otherwise units are assigned to `most` blocks in turn.

    >>> weights, block = without_block(3, most=2)
    >>> weights.tolist(), block.tolist()
    ([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0]], [0, 1, 0])

    Source: Quenouille 1956 and Tukey 1958, the jackknife.
    """
    block_of_unit = np.arange(n_units) % most
    return (np.arange(min(n_units, most))[:, np.newaxis] != block_of_unit).astype(np.float64), block_of_unit


def sign_flips(n_units: int, n: int, rng: np.random.Generator) -> NDArray[np.int8]:
    """Random signs of a paired permutation test: (n, units) of +1 and -1 with equal probability.

    >>> sign_flips(4, 2, np.random.default_rng(0)).shape
    (2, 4)

    Source: Fisher 1935.
    """
    return 2 * rng.integers(0, 2, size=(n, n_units), dtype=np.int8) - 1


def smallest_p_value(n_units: NDArray[Any] | float) -> Any:
    """Smallest p-value (...) of a two-sided test that flips the signs of `n_units` (...) independent units, 2^(1 - n).

    If the test uses all possible flips, no result has a smaller p-value. If the flips are random, the estimated p-value
    may be smaller.

    >>> smallest_p_value(np.array([5, 6])).tolist()
    [0.0625, 0.03125]
    """
    return np.exp2(1.0 - np.asarray(n_units))
