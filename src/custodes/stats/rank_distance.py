"""Normalised Kendall distances between raters, and the influence of every ranked thing on these distances.

Several functions share these arrays. `values` (raters, units, n) contains one ranking of n things per rater and unit,
NaN if not rated. `first_raters` and `second_raters` (P,) are the two raters of each pair. Only things that both raters
rated are used. In each unit, w = (w_1 .. w_n) are weights of the things, which are 1 in the data. Sums are over ordered
pairs i != j of things, weighted by w_i w_j.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints, chunks
from custodes.stats.correlation import concordance, tie_counts
from custodes.stats.ranks import mid_ranks
from custodes.stats.ratios import ratio

PairTable = NDArray[Any]
Rule = Literal["tau-b", "strict", "half"]
RULES: tuple[Rule, ...] = get_args(Rule)

# Comparing all pairs of things is faster than sorting with at most this many things and at least this many pairs of
# raters (measured).
_COMPARED, _MANY_PAIRS = 128, 50


def rank_distances(values: Floats, first_raters: Ints, second_raters: Ints, *, rule: Rule) -> Floats:
    """Distance between the rankings of each pair of raters in each unit, from 0 (equal) to 1 (reversed): (P, units).

    `strict` is the proportion of pairs of things in opposite order. `half` is the same proportion, except that pairs
    tied by either rater count half. `tau-b` is (1 - tau-b) / 2. The distance is NaN with fewer than two shared things.
    For `tau-b`, it is also NaN if either rater ties all shared things.

    >>> values = np.array([[[1.0, 2, 3]], [[1.0, 3, 2]]])
    >>> rank_distances(values, np.array([0]), np.array([1]), rule="strict").round(3).tolist()
    [[0.333]]

    Source: Colombo et al. 2023, "The Glass Ceiling of Automatic Evaluation", equation 3 (d of one utterance);
    Kendall 1945 for tau-b.
    """
    return rank_distances_by_rule(values, first_raters, second_raters, rules=(rule,))[rule]


def rank_distances_by_rule(
    values: Floats, first_raters: Ints, second_raters: Ints, *, rules: Sequence[Rule]
) -> dict[Rule, Floats]:
    """Results of `rank_distances` (P, units) under several rules, by rule. The rules share computations.

    >>> values = np.array([[[1.0, 2, 2]], [[1.0, 3, 2]]])
    >>> result = rank_distances_by_rule(values, np.array([0]), np.array([1]), rules=("strict", "half"))
    >>> result["strict"].item(), round(result["half"].item(), 3)
    (0.0, 0.167)
    """
    distances_of_rule = {rule: np.empty((len(first_raters), values.shape[1])) for rule in rules}
    for pair_slice, unit_slice, pair_table in _chunks(values, first_raters, second_raters):
        for rule, distances in distances_of_rule.items():
            distances[pair_slice, unit_slice] = _distances_from_counts(pair_table, rule=rule)[0].T
    return distances_of_rule


def rank_distance_influence(
    values: Floats, first_raters: Ints, second_raters: Ints, *, rule: Rule
) -> tuple[Floats, Floats]:
    """`rank_distances` (P, units), and the influence of every thing on the mean distance over units (P, n).

    The influence is the derivative of the mean over the defined units with respect to the weight w of a thing. So mean
    + (w - 1) @ influence approximates the mean under the weights w to first order. The influence is 0 for a thing that
    either rater did not rate. The influence is NaN if no unit is defined.

    >>> values = np.array([[[1.0, 2, 3]], [[1.0, 3, 2]]])
    >>> rank_distance_influence(values, np.array([0]), np.array([1]), rule="strict")[1].round(3).tolist()
    [[-0.222, 0.111, 0.111]]

    Source: Jaeckel 1972, the infinitesimal jackknife.
    """
    distances = np.empty((len(first_raters), values.shape[1]))
    derivative_sum_of_thing = np.zeros((len(first_raters), values.shape[2]))
    for pair_slice, unit_slice, pair_table in _chunks(values, first_raters, second_raters):
        chunk_distances, coefficients_of_count = _distances_from_counts(pair_table, rule=rule)
        distances[pair_slice, unit_slice] = chunk_distances.T
        for count_index, count_coefficients in coefficients_of_count.items():
            derivative_sum_of_thing[pair_slice] += np.einsum("unp,up->pn", pair_table[count_index], count_coefficients)
    return distances, ratio(derivative_sum_of_thing, np.sum(~np.isnan(distances), axis=1, keepdims=True))


def _chunks(values: Floats, first_raters: Ints, second_raters: Ints) -> Iterator[tuple[slice, slice, PairTable]]:
    """Yield blocks of units and of pairs of raters, with the counts of each thing's pairs (5, units, n, P).

    The five counts are sufficient for all rules: concordant
    minus discordant pairs, pairs not tied by the first rater, pairs not tied by the second rater, pairs tied by neither
    rater, and all pairs.
    """
    n_units, n_things = values.shape[1:]
    ranks_by_rater = mid_ranks(values)
    count_thing_pairs = (
        _count_by_comparison if n_things <= _COMPARED and len(first_raters) >= _MANY_PAIRS else _count_by_sorting
    )
    for pair_slice in chunks(len(first_raters), n_things):
        for unit_slice in chunks(n_units, n_things * (pair_slice.stop - pair_slice.start)):
            yield (
                pair_slice,
                unit_slice,
                count_thing_pairs(ranks_by_rater[:, unit_slice], first_raters[pair_slice], second_raters[pair_slice]),
            )


_CONCORDANCE, _UNTIED_X, _UNTIED_Y, _UNTIED, _ALL = range(5)


def _distances_from_counts(pair_table: PairTable, *, rule: Rule) -> tuple[Floats, dict[int, Floats]]:
    """Distances (units, P), and coefficients of the counts by thing, which give the derivatives of the distances by w.

    The total of a count K over ordered pairs has the derivative 2 K_i with respect to w_i. Coefficients are 0 if the
    distance is undefined.
    """
    concordance, untied_x, untied_y, untied_in_both, n_pairs = pair_table.sum(axis=2, dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        if rule == "tau-b":
            tau_denominator = np.sqrt(untied_x * untied_y)
            tau = np.clip(concordance / tau_denominator, -1.0, 1.0)
            distances = (1 - tau) / 2
            coefficients_of_count = {
                _CONCORDANCE: -1 / tau_denominator,
                _UNTIED_X: tau / (2 * untied_x),
                _UNTIED_Y: tau / (2 * untied_y),
            }
        elif rule == "half":
            distances = (n_pairs - concordance) / (2 * n_pairs)
            coefficients_of_count = {_CONCORDANCE: -1 / n_pairs, _ALL: (1 - 2 * distances) / n_pairs}
        else:
            distances = (untied_in_both - concordance) / (2 * n_pairs)
            coefficients_of_count = {_CONCORDANCE: -1 / n_pairs, _UNTIED: 1 / n_pairs, _ALL: -2 * distances / n_pairs}
    is_defined_distance = ~np.isnan(distances)
    return distances, {
        count_index: np.where(is_defined_distance, count_coefficients, 0.0)
        for count_index, count_coefficients in coefficients_of_count.items()
    }


def _count_by_comparison(ranks: Floats, first_raters: Ints, second_raters: Ints) -> PairTable:
    """Counts by comparison of all pairs of things, from products of signs, in blocks of things."""
    distinct_raters, rater_indices = np.unique(np.concatenate([first_raters, second_raters]), return_inverse=True)
    # the two raters of each pair, as positions among the raters that occur in pairs
    first_rater_indices, second_rater_indices = np.split(rater_indices, 2)
    ranks = np.ascontiguousarray(ranks[distinct_raters].swapaxes(0, 1))  # (units, raters, n)
    n_units, n_raters, n_things = ranks.shape
    is_rated_by_rater = ~np.isnan(ranks)
    distinct_rated_masks, mask_index_of_rater = np.unique(
        is_rated_by_rater.swapaxes(0, 1).reshape(n_raters, -1), axis=0, return_inverse=True
    )
    # there are few patterns, because most raters rate the same systems
    rated_masks = (
        distinct_rated_masks.reshape(len(distinct_rated_masks), n_units, n_things).swapaxes(0, 1).astype(np.float32)
    )
    doubled_ranks = (2 * ranks).astype(np.float32)
    pair_table = np.zeros((5, n_units, n_things, len(first_raters)), dtype=np.float32)
    is_rated_by_both = (
        is_rated_by_rater[:, first_rater_indices] & is_rated_by_rater[:, second_rater_indices]
    ).swapaxes(1, 2)
    pair_table[_ALL] = is_rated_by_both * (is_rated_by_both.sum(axis=1, keepdims=True) - 1)
    for thing_slice in chunks(n_things, n_units * n_raters * max(n_things, n_raters)):
        signs = _signs(doubled_ranks[:, :, thing_slice].swapaxes(1, 2), doubled_ranks)
        pair_table[_CONCORDANCE, :, thing_slice] = _sign_products(signs, first_rater_indices, second_rater_indices)
        np.abs(signs, out=signs)
        pair_table[_UNTIED, :, thing_slice] = _sign_products(signs, first_rater_indices, second_rater_indices)
        mask_indicators_of_thing = rated_masks[:, :, thing_slice].swapaxes(1, 2)[:, :, np.newaxis]
        n_untied_by_mask = (signs @ rated_masks[:, np.newaxis].swapaxes(-1, -2)) * mask_indicators_of_thing
        pair_table[_UNTIED_X, :, thing_slice] = n_untied_by_mask[
            :, :, first_rater_indices, mask_index_of_rater.ravel()[second_rater_indices]
        ]
        pair_table[_UNTIED_Y, :, thing_slice] = n_untied_by_mask[
            :, :, second_rater_indices, mask_index_of_rater.ravel()[first_rater_indices]
        ]
    return pair_table


def _signs(block_ranks: NDArray[np.float32], ranks: NDArray[np.float32]) -> NDArray[np.float32]:
    """sign(rank_i - rank_j) of integers, 0 if either is missing: (units, b, raters), (units, raters, n) -> (units, b,
    raters, n)."""
    signs = block_ranks[..., np.newaxis] - ranks[:, np.newaxis]
    np.clip(signs, -1.0, 1.0, out=signs)
    if np.isnan(block_ranks).any() or np.isnan(ranks).any():
        np.nan_to_num(signs, copy=False)
    return signs


def _sign_products(
    signs: NDArray[np.float32], first_rater_indices: Ints, second_rater_indices: Ints
) -> NDArray[np.float32]:
    """Inner products of the sign vectors of each pair of raters: (units, b, raters, n) -> (units, b, P).

    Exact for integers below 2^24.
    """
    sign_products = signs @ signs.swapaxes(-1, -2)
    flat_products = sign_products.reshape(*sign_products.shape[:2], -1)
    return np.asarray(flat_products.take(first_rater_indices * signs.shape[2] + second_rater_indices, axis=-1))


def _count_by_sorting(ranks: Floats, first_raters: Ints, second_raters: Ints) -> PairTable:
    """Counts by sorting, in n sqrt(n) steps."""
    n_units, n_things = ranks.shape[1:]
    first_ranks, second_ranks = (
        ranks[raters_of_side].reshape(len(raters_of_side) * n_units, n_things)
        for raters_of_side in (first_raters, second_raters)
    )
    is_missing_for_either = np.isnan(first_ranks) | np.isnan(second_ranks)
    is_rated_by_both = ~is_missing_for_either
    n_missing_things = is_missing_for_either.sum(axis=1, keepdims=True)
    # Things missing for either rater rank highest on both sides: concordant with everything else.
    first_ranks, second_ranks = (
        np.where(is_missing_for_either, n_things + 1, rater_ranks) for rater_ranks in (first_ranks, second_ranks)
    )
    n_tied_with_thing_by_first, n_tied_with_thing_by_second, n_tied_with_thing_by_both = (
        tie_counts(rater_ranks)
        for rater_ranks in (first_ranks, second_ranks, (n_things + 2) * 2 * first_ranks + second_ranks)
    )
    n_things_rated_by_both = n_things - n_missing_things
    pair_table = np.empty((5, *first_ranks.shape), dtype=np.int32)
    pair_table[_CONCORDANCE] = concordance(first_ranks, second_ranks) - n_missing_things
    pair_table[_UNTIED_X], pair_table[_UNTIED_Y] = (
        n_things_rated_by_both - n_tied_with_thing_by_first,
        n_things_rated_by_both - n_tied_with_thing_by_second,
    )
    pair_table[_UNTIED], pair_table[_ALL] = (
        n_things_rated_by_both - n_tied_with_thing_by_first - n_tied_with_thing_by_second + n_tied_with_thing_by_both,
        n_things_rated_by_both - 1,
    )
    pair_table *= is_rated_by_both
    return np.moveaxis(pair_table.reshape(5, len(first_raters), n_units, n_things), (1, 2, 3), (3, 1, 2))
