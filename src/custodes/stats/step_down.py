"""Step-down tests of a family of hypotheses by the maximum statistic, from batches of draws under the hypotheses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from custodes.stats.arrays import Bools, Floats, Ints, chunks

SIGMAS = 4.0
"""A decision is clear if the estimated probability is at least this number of Monte Carlo standard errors away from the
threshold of the decision."""

_CACHE = 2  # divisor of the size of temporary arrays, so that they fit the cache

Statistics = Callable[[Ints], Floats]
"""Function that returns |statistic| of some hypotheses (k',) in n draws, as a new array (k', n). In the draws, all
hypotheses are true."""

Batch = tuple[int, Statistics]
"""A number n of draws, and the function that returns their statistics."""


class AdjustedPValues(NamedTuple):
    """Adjusted p-values of hypotheses (k,), NaN if not tested.

    `at_threshold` is whether the Monte Carlo error of the p-value spans the level.
    """

    p_adjusted: Floats
    at_threshold: Bools


def step_down(
    hypothesis_order: Ints,
    stages: Iterable[Iterable[Batch]],
    tail_sums: Callable[[Floats, Ints], tuple[Floats | Ints, Floats | Ints]],
    *,
    alpha: float,
    n_data_draws: int = 0,
    exact: bool = False,
    p_limits: tuple[Floats | float, Floats | float] = (0.0, 1.0),
    record: Callable[[Ints, Floats], None] | None = None,
) -> AdjustedPValues:
    """Adjusted p-values of a step-down test by the maximum statistic.

    Each hypothesis is compared with the maximum statistic over this hypothesis and all less extreme hypotheses. All
    hypotheses are tested with the draws of the first stage. Hypotheses whose p-value is too close to `alpha` for the
    number of draws are tested again with the draws of the next stage.

    Parameters
    ----------
    hypothesis_order : array of int of shape (k,)
        Positions of the hypotheses; the least extreme hypothesis is first.
    stages
        The batches of draws of each stage.
    tail_sums
        Function of two arrays: the largest statistics (m, n) of each of m hypotheses and all less extreme ones in n
        draws, and the positions (m,) of the hypotheses. It returns sums over draws of a value and of the squared value,
        (m,) each. The value is the probability that the largest statistic is at least the observed one, or the
        indicator of this event.
    alpha : float
        Level.
    n_data_draws : int, default 0
        1 if the data count as a further draw, else 0.
    exact : bool, default False
        Whether the draws are all possible draws.
    p_limits : pair of arrays of shape (k,), default (0, 1)
        Lower and upper limits of the p-values, for the hypotheses in the given order.
    record
        Function that is called with hypotheses and their draws (m, n). The function may modify the draws.

    Returns
    -------
    AdjustedPValues
        Results for the hypotheses in the given order.

    References
    ----------
    Romano and Wolf 2005.
    """
    n_hypotheses = len(hypothesis_order)
    p_values, p_monte_carlo_errors = np.ones((2, n_hypotheses))
    at_threshold, tested_positions = np.zeros(n_hypotheses, dtype=np.bool_), np.arange(n_hypotheses)
    for batches in stages:
        if not len(tested_positions):
            break
        tail_totals, square_totals, n_draws_of_hypothesis = np.zeros((3, n_hypotheses))
        for n_batch_draws, compute_statistics in batches:
            running_maximum = np.zeros(n_batch_draws)
            for hypothesis_slice in chunks(int(tested_positions[-1]) + 1, _CACHE * n_batch_draws):
                draw_statistics = compute_statistics(hypothesis_order[hypothesis_slice])
                positions_in_slice = tested_positions[
                    (tested_positions >= hypothesis_slice.start) & (tested_positions < hypothesis_slice.stop)
                ]
                # Maxima over each hypothesis to test and the hypotheses before it. A loop over rows takes a fourth of
                # the time of maximum.accumulate.
                maxima, row_stops = (
                    np.empty((len(positions_in_slice), n_batch_draws)),
                    (positions_in_slice - hypothesis_slice.start + 1).tolist(),
                )
                for tested_index, (start, stop) in enumerate(pairwise([0, *row_stops, len(draw_statistics)])):
                    for hypothesis_statistics in draw_statistics[start:stop]:
                        np.maximum(running_maximum, hypothesis_statistics, out=running_maximum)
                    maxima[tested_index : tested_index + 1] = running_maximum
                tail_and_square_sums = tail_sums(maxima, hypothesis_order[positions_in_slice])
                tail_totals[positions_in_slice] += tail_and_square_sums[0]
                square_totals[positions_in_slice] += tail_and_square_sums[1]
                n_draws_of_hypothesis[positions_in_slice] += n_batch_draws
                if record is not None:
                    record(
                        hypothesis_order[positions_in_slice],
                        draw_statistics[positions_in_slice - hypothesis_slice.start],
                    )
        mean_tail_probability, mean_square = (
            (totals[tested_positions] + n_data_draws) / (n_draws_of_hypothesis[tested_positions] + n_data_draws)
            for totals in (tail_totals, square_totals)
        )
        tail_variance = np.maximum(mean_square - mean_tail_probability**2, 0.0)
        lower_p_limits, upper_p_limits = (
            np.broadcast_to(p_limit, n_hypotheses)[tested_positions] for p_limit in p_limits
        )
        p_values[tested_positions] = mean_tail_probability.clip(lower_p_limits, upper_p_limits)
        p_monte_carlo_errors[tested_positions] = np.where(
            exact | (lower_p_limits >= upper_p_limits),
            0.0,
            np.sqrt(tail_variance / n_draws_of_hypothesis[tested_positions]),
        )
        lower_p_bounds, upper_p_bounds = (p_values + sigmas * p_monte_carlo_errors for sigmas in (-SIGMAS, SIGMAS))
        # From the most extreme hypothesis on, so that p-values do not decrease towards less extreme hypotheses.
        monotone_lower_bounds, monotone_upper_bounds = (
            np.maximum.accumulate(p_bounds[::-1])[::-1] for p_bounds in (lower_p_bounds, upper_p_bounds)
        )
        at_threshold = np.asarray((monotone_lower_bounds <= alpha) & (alpha < monotone_upper_bounds))
        tested_positions = np.flatnonzero(at_threshold & (lower_p_bounds <= alpha) & (alpha < upper_p_bounds))
    return AdjustedPValues(np.maximum.accumulate(p_values[::-1])[::-1], at_threshold)
