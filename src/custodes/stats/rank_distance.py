"""Normalised Kendall distances between raters, and the influence of every ranked object (system or item) on these
distances.

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
from custodes.stats.correlation import concordance
from custodes.stats.ranks import SortedRows, difference_signs, mid_ranks
from custodes.stats.ratios import ratio

PairTable = NDArray[Any]
Rule = Literal["tau-b", "strict", "half"]
RULES: tuple[Rule, ...] = get_args(Rule)

MOST_COMPARED = 127
"""Maximum number of ranked objects up to which all pairs are compared, which is faster than sorting; counts then fit
int8."""

_CACHE = 4  # divisor of the size of temporary arrays, so that they fit the cache


def rank_distances(values: Floats, first_raters: Ints, second_raters: Ints, *, rules: Sequence[Rule]) -> Floats:
    """Distance between the rankings of each pair of raters in each unit, from 0 (equal) to 1 (reversed): (rules, P,
    units).

    `strict` is the proportion of pairs of things in opposite order. `half` is the same proportion, except that pairs
    tied by either rater count half. `tau-b` is (1 - tau-b) / 2. The distance is NaN with fewer than two shared things.
    For `tau-b`, the distance is also NaN if either rater ties all shared things.

    >>> values = np.array([[[1.0, 2, 2]], [[1.0, 3, 2]]])
    >>> rank_distances(values, np.array([0]), np.array([1]), rules=("strict", "half")).round(3).tolist()
    [[[0.0]], [[0.167]]]

    Source: Colombo et al. 2023, "The Glass Ceiling of Automatic Evaluation", equation 3 (d of one utterance);
    Kendall 1945 for tau-b.
    """
    distances = np.empty((len(rules), len(first_raters), values.shape[1]))
    for pair_slice, unit_slice, pair_counts in _chunks(values, first_raters, second_raters):
        distances[:, pair_slice, unit_slice] = [_distances_from_counts(pair_counts, rule=rule)[0].T for rule in rules]
    return distances


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
    derivative_sum_by_pair_and_thing = np.zeros((len(first_raters), values.shape[2]))
    for pair_slice, unit_slice, pair_counts in _chunks(values, first_raters, second_raters):
        chunk_distances, coefficients_of_count = _distances_from_counts(pair_counts, rule=rule)
        distances[pair_slice, unit_slice] = chunk_distances.T
        for count_index, count_coefficients in coefficients_of_count:
            derivative_sum_by_pair_and_thing[pair_slice] += np.einsum(
                "unp,up->pn", pair_counts[count_index], count_coefficients
            )
    return distances, ratio(derivative_sum_by_pair_and_thing, np.sum(~np.isnan(distances), axis=1, keepdims=True))


def _chunks(values: Floats, first_raters: Ints, second_raters: Ints) -> Iterator[tuple[slice, slice, PairTable]]:
    """Yield blocks of units and of pairs of raters, with the counts of each thing's pairs (5, units, n, P).

    The five counts are sufficient for all rules. They are concordant minus discordant pairs, pairs not tied by the
    first rater, pairs not tied by the second rater, pairs tied by neither rater, and all pairs.
    """
    n_units, n_things = values.shape[1:]
    ranks_by_rater = mid_ranks(values)
    count_thing_pairs = _count_by_comparison if n_things <= MOST_COMPARED else _count_by_sorting
    for pair_slice in chunks(len(first_raters), _CACHE * n_things):
        for unit_slice in chunks(n_units, _CACHE * n_things * (pair_slice.stop - pair_slice.start)):
            yield (
                pair_slice,
                unit_slice,
                count_thing_pairs(ranks_by_rater[:, unit_slice], first_raters[pair_slice], second_raters[pair_slice]),
            )


_CONCORDANCE, _UNTIED_X, _UNTIED_Y, _UNTIED, _ALL = range(5)


def _distances_from_counts(pair_counts: PairTable, *, rule: Rule) -> tuple[Floats, list[tuple[int, Floats]]]:
    """Distances (units, P), and coefficients of the counts by thing, which give the derivatives of the distances by w.

    The total of a count K over ordered pairs has the derivative 2 K_i with respect to w_i. Coefficients are 0 if the
    distance is undefined.
    """
    concordance, untied_x, untied_y, untied_in_both, n_pairs = pair_counts.sum(axis=2, dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        if rule == "tau-b":
            tau_denominator = np.sqrt(untied_x * untied_y)
            tau = np.clip(concordance / tau_denominator, -1.0, 1.0)
            distances = (1 - tau) / 2
            coefficients = [
                (_CONCORDANCE, -1 / tau_denominator),
                (_UNTIED_X, tau / (2 * untied_x)),
                (_UNTIED_Y, tau / (2 * untied_y)),
            ]
        else:
            counted, n_counted = (_ALL, n_pairs) if rule == "half" else (_UNTIED, untied_in_both)
            distances = (n_counted - concordance) / (2 * n_pairs)
            coefficients = [(_CONCORDANCE, -1 / n_pairs), (counted, 1 / n_pairs), (_ALL, -2 * distances / n_pairs)]
    return distances, [(count, np.where(np.isnan(distances), 0.0, values)) for count, values in coefficients]


def _count_by_comparison(ranks: Floats, first_raters: Ints, second_raters: Ints) -> PairTable:
    """Counts by comparison of all pairs of things."""
    first_ranks, second_ranks = (
        np.moveaxis(ranks[raters], -1, 0).astype(np.float32, order="C") for raters in (first_raters, second_raters)
    )  # (n, P, units)
    is_rated_by_both = ~(np.isnan(first_ranks) | np.isnan(second_ranks))
    pair_counts = np.zeros((5, *first_ranks.shape), dtype=np.int8)
    for thing_index, is_thing_rated in enumerate(is_rated_by_both):
        is_counted_pair = is_rated_by_both & is_thing_rated
        first_signs, second_signs = (
            difference_signs(rater_ranks, rater_ranks[thing_index]) * is_counted_pair
            for rater_ranks in (first_ranks, second_ranks)
        )
        sign_products = first_signs * second_signs
        for total, summands in zip(  # in the order of the five counts
            pair_counts,
            (sign_products, np.abs(first_signs), np.abs(second_signs), np.abs(sign_products), is_counted_pair),
            strict=True,
        ):
            total += summands
    pair_counts[_ALL] -= is_rated_by_both
    return np.moveaxis(pair_counts, (1, 2, 3), (2, 3, 1))


def _count_by_sorting(ranks: Floats, first_raters: Ints, second_raters: Ints) -> PairTable:
    """Counts by sorting, in n sqrt(n) steps."""
    n_units, n_things = ranks.shape[1:]
    first_ranks, second_ranks = (
        ranks[raters_of_side].reshape(len(raters_of_side) * n_units, n_things)
        for raters_of_side in (first_raters, second_raters)
    )
    is_missing_for_either = np.isnan(first_ranks) | np.isnan(second_ranks)
    n_missing_things = is_missing_for_either.sum(axis=1, keepdims=True)
    # Things missing for either rater rank highest on both sides: concordant with everything else.
    first_ranks, second_ranks = (
        np.where(is_missing_for_either, n_things + 1, rater_ranks) for rater_ranks in (first_ranks, second_ranks)
    )
    n_tied_with_thing_by_first, n_tied_with_thing_by_second, n_tied_with_thing_by_both = (
        SortedRows.from_values(rater_ranks).tie_counts()
        for rater_ranks in (first_ranks, second_ranks, (n_things + 2) * 2 * first_ranks + second_ranks)
    )
    n_untied_by_first, n_untied_by_second = (
        n_things - n_missing_things - n_tied for n_tied in (n_tied_with_thing_by_first, n_tied_with_thing_by_second)
    )
    pair_counts = np.empty((5, *first_ranks.shape), dtype=np.int32)
    pair_counts[_CONCORDANCE] = concordance(first_ranks, second_ranks) - n_missing_things
    pair_counts[_UNTIED_X], pair_counts[_UNTIED_Y] = n_untied_by_first, n_untied_by_second
    pair_counts[_UNTIED] = n_untied_by_first - n_tied_with_thing_by_second + n_tied_with_thing_by_both
    pair_counts[_ALL] = n_things - n_missing_things - 1
    pair_counts[:, is_missing_for_either] = 0
    return np.moveaxis(pair_counts.reshape(5, len(first_raters), n_units, n_things), (1, 2, 3), (3, 1, 2))
