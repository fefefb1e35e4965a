"""The estimator `mixture`: the metric as a noisy channel of human preference (Bayesian model of Deriu et al. 2023).

The prior of the human probabilities is p ~ Dirichlet(1), the prior of each row of the channel mu[h, .] ~ Dirichlet(1).
For human class h and metric class r, an item with both ratings has probability pi[h, r] = p_h mu[h, r]. An item with
only a metric rating has probability q_r = sum_h pi[h, r]. An item with only a human rating has probability p_h. Since
dpi = prod p_h^2 dp dmu, the posterior density of pi is

    prod pi[h, r]^N[h, r] * prod q_r^m_r * prod p_h^(a_h - 2)

where N, m and a are the paired, metric-only and human-only counts. Draws come from a proposal in which q and the
columns nu[., r] = pi[., r] / q_r are Dirichlet. The weights of the draws are the ratio of posterior and proposal. All
tables share the same normal random numbers. Each table gets as many draws as its decision needs. If a few draws of a
table have nearly all the weight, the draws are moved from the proposal to the posterior in steps (see
`tempering_posterior`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats
from custodes.stats.correction.dirichlet import human_posterior
from custodes.stats.correction.draw_sums import DrawSums, interval_bounds, is_precise_enough, with_bounds
from custodes.stats.correction.estimator import Counts, Estimate, Estimator
from custodes.stats.correction.poststratified import poststratified_margin
from custodes.stats.correction.tempering import class_pseudo_counts, tempering_posterior

MOST_DRAWS = 2**17
"""Maximum number of draws for a table. Drawing stops at this number, even if the precision is too low."""

_FIRST_QUICK, _FIRST = 256, 4096  # draws of the first batch, without and with an interval
_MOST_AT_ONCE = 4096  # maximum number of draws of a batch
_ENOUGH_QUICK, _ENOUGH = 64, 1000  # minimum number of effective draws for an error estimate, and for an interval
_EFFECTIVE_RATE = 0.1  # minimum proportion of effective draws, unless there are 1000 effective draws
_PRECISION_QUICK, _PRECISION = 0.003, 0.005  # target standard error of theta, without and with an interval
_GROUP = 500_000  # maximum number of draws of a group of tables that share gamma variates
_BLOCK = 32_768  # maximum number of draws computed at once for all tables, so that arrays fit the cache
_SMALLEST = np.float32(1e-30)
_NEARLY_NORMAL = 1000.0  # with a larger shape, gamma draws need no weights: up to four sigma, acceptance is above .997


def mixture_posterior(
    counts: Counts, *, confidence: float | None, gamma: float | None, rng: np.random.Generator, **_: object
) -> Estimate:
    """Return the posterior of the human win, tie and loss probabilities under the mixture model.

    Equal tables get equal results. The result of a table depends on the seed but not on other tables. Swapping the two
    systems gives exactly the mirrored result.

    Parameters
    ----------
    counts : Counts
        Tables (...) of counts or effective counts. An item with both ratings belongs to `paired` only.
    confidence : float or None
        Level of the equal-tailed intervals. If None, there are no intervals, and theta is only as precise as a decision
        requires.
    gamma : float or None
        Error level of decisions. Draws continue until theta is four standard errors away from gamma / 2 and 1 - gamma /
        2, or `MOST_DRAWS` are reached. If None, draws continue until the standard error of theta is at most .005.
    rng : numpy.random.Generator
        Provides the seed of all draws.

    Returns
    -------
    Estimate
        Of shape (...), with at least 1000 effective draws if there are intervals. Without metric-only items, the
        posterior has a closed form and `effective_draws` is NaN. Bounds are NaN if `confidence` is None. No other value
        is NaN: without ratings, the posterior is the prior.

    References
    ----------
    Deriu et al. 2023, Section 3.3 and Algorithm 1 (model, posterior and theta); the computation was developed for
    custodes.

    Examples
    --------
    >>> counts = Counts(np.array([[30, 5, 5], [5, 15, 5], [4, 6, 25]]), np.array([400, 200, 400]), np.zeros(3))
    >>> posterior = mixture_posterior(counts, confidence=0.95, gamma=None, rng=np.random.default_rng(0))
    >>> bool(0.65 < posterior.theta < 0.7)
    True
    """
    seed: list[int] = rng.integers(2**32, size=4).tolist()
    distinct_tables = counts.distinct_tables()
    distinct_counts = Counts.from_rows(distinct_tables.rows)
    # without human ratings, wins and losses are exchangeable, so theta is 1/2
    is_symmetric_table = distinct_tables.even | ~distinct_counts.human.any(axis=-1)
    # theta of a table that is its own mirror image is 1/2, so no draws are needed for its precision
    default_target_error = _PRECISION_QUICK if confidence is None else _PRECISION if gamma is None else 0.0
    target_errors = np.where(is_symmetric_table, np.inf, default_target_error)
    min_effective_draws, n_first_draws = (_ENOUGH_QUICK, _FIRST_QUICK) if confidence is None else (_ENOUGH, _FIRST)
    has_closed_form = ~distinct_counts.metric_only.any(axis=-1)
    closed_form_estimate = human_posterior(distinct_counts.human[has_closed_form], confidence=confidence)
    indices_and_estimates = [(np.flatnonzero(has_closed_form), closed_form_estimate)]
    # tables that still need draws, and tables that have enough draws
    unfinished_indices, finished_indices, n_draws = np.flatnonzero(~has_closed_form), np.empty(0, dtype=np.intp), 0
    n_tables = len(distinct_tables.rows)
    draw_sums = DrawSums(np.full(n_tables, -np.inf), np.zeros((8, n_tables)))
    bounds_of_table = np.full((2, n_tables, 4), np.nan)
    draws_of_table: dict[int, list[tuple[NDArray[Any], NDArray[Any]]]] = {
        table_index: [] for table_index in unfinished_indices.tolist()
    }
    while unfinished_indices.size:
        variates = shared_numbers(min(n_draws or n_first_draws, _MOST_AT_ONCE), [*seed, n_draws])
        n_draws += variates.shape[1]
        for table_indices in np.array_split(
            unfinished_indices, -(-unfinished_indices.size * variates.shape[1] // _GROUP)
        ):
            p_draws, log_weights = weighted_draws(Counts.from_rows(distinct_tables.rows[table_indices]), variates)
            draw_sums.add(table_indices, DrawSums.from_draws(p_draws, log_weights))
            if confidence is None:
                continue
            has_enough_draws = draw_sums.effective[table_indices] >= _ENOUGH
            for position, table_index in enumerate(table_indices.tolist()):
                if (table_draws := draws_of_table.get(table_index)) is None:
                    continue
                table_draws.append((p_draws[:, position], log_weights[position]))
                if has_enough_draws[position]:
                    table_p, table_log_weights = (
                        np.concatenate(draw_arrays, axis=-1) for draw_arrays in zip(*table_draws, strict=True)
                    )
                    bounds_of_table[:, table_index] = interval_bounds(table_p, table_log_weights, confidence)
                    del draws_of_table[table_index]
        if n_draws & (n_draws - 1):
            continue
        estimate = draw_sums.estimate(unfinished_indices, cautious=confidence is not None)
        n_effective = estimate.effective_draws
        has_precise_theta = is_precise_enough(estimate, precision=target_errors[unfinished_indices], gamma=gamma)
        is_finished = has_precise_theta | (n_draws >= MOST_DRAWS)
        is_finished &= n_effective >= max(min_effective_draws, min(_EFFECTIVE_RATE * n_draws, _ENOUGH))
        # tables with few draws are left out, because the variation of their weights is uncertain
        has_uneven_weights = ~is_finished & (n_draws >= _FIRST) & (n_draws * _ENOUGH > MOST_DRAWS * n_effective)
        for table_index in unfinished_indices[has_uneven_weights]:
            tempered_estimate = tempering_posterior(
                distinct_tables.rows[table_index],
                seed=seed,
                confidence=confidence,
                precision=target_errors[table_index],
                gamma=gamma,
            )
            indices_and_estimates.append((np.array([table_index]), tempered_estimate))
        finished_indices = np.append(finished_indices, unfinished_indices[is_finished])
        unfinished_indices = unfinished_indices[~(is_finished | has_uneven_weights)]
    finished_estimate = draw_sums.estimate(finished_indices, cautious=confidence is not None)
    indices_and_estimates.append(
        (finished_indices, with_bounds(finished_estimate, bounds_of_table[:, finished_indices]))
    )
    return distinct_tables.expand_estimate(Estimate.from_parts(indices_and_estimates).symmetrise(is_symmetric_table))


def shared_numbers(n_draws: int, seed: Sequence[int]) -> NDArray[np.float32]:
    """Return random numbers (21, draws) that all tables share. Twelve rows are normal variates, one for each gamma
    variate. Nine rows are exponential variates, one for each cell of the paired counts."""
    rng = np.random.Generator(np.random.SFC64([*seed, n_draws]))
    variates = np.empty((21, n_draws), dtype=np.float32)
    rng.standard_normal(out=variates[:12], dtype=np.float32)
    rng.standard_exponential(out=variates[12:], dtype=np.float32)
    return variates


def weighted_draws(counts: Counts, variates: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return draws for tables (t,) from the proposal: human probabilities (3, t, draws) and log weights (t, draws)."""
    # Single precision resolves a probability to 1e-7, far below the Monte Carlo error, and is twice as fast.
    pseudo_counts = class_pseudo_counts(counts)
    cell_shapes = counts.paired + pseudo_counts
    gamma_shapes = np.concatenate([cell_shapes.reshape(-1, 9), cell_shapes.sum(axis=1) + counts.metric_only], axis=1)
    # Tables with few items have few different counts.
    distinct_shapes_of_cell = [np.unique(shapes_of_cell, return_inverse=True) for shapes_of_cell in gamma_shapes.T]
    n_tables, n_draws = len(gamma_shapes), variates.shape[1]
    p_draws, log_weights = np.empty((3, n_tables, n_draws), np.float32), np.empty((n_tables, n_draws), np.float32)
    human_exponents = (counts.human_only - 2).astype(np.float32)
    cell_exponents = (1 - pseudo_counts[..., 0]).astype(np.float32)
    gammas_of_cell = [
        weighted_gammas(distinct_shapes, variates, variate_row)
        for variate_row, (distinct_shapes, _) in enumerate(distinct_shapes_of_cell)
    ]
    block_size = max(1, _BLOCK // n_draws)
    for first_table_index in range(0, n_tables, block_size):
        table_slice = slice(first_table_index, first_table_index + block_size)
        shape_indices = [shape_index_of_table[table_slice] for _, shape_index_of_table in distinct_shapes_of_cell]
        cell_draws = np.stack(
            [gamma_draws[indices] for (gamma_draws, _), indices in zip(gammas_of_cell, shape_indices, strict=True)]
        )
        block_log_weights = np.asarray(
            sum(
                log_acceptance[indices]
                for (_, log_acceptance), indices in zip(gammas_of_cell, shape_indices, strict=True)
            )
        )
        joint_draws, metric_draws = cell_draws[:9].reshape(3, 3, -1, n_draws), cell_draws[9:]  # [human, metric]
        joint_draws *= metric_draws / metric_draws.sum(axis=0) / np.maximum(joint_draws.sum(axis=0), _SMALLEST)
        p_draws[:, table_slice] = joint_draws.sum(axis=1)
        for human_outcome in range(3):
            log_p_human = np.log(np.maximum(p_draws[human_outcome, table_slice], _SMALLEST))
            block_log_weights += human_exponents[table_slice, human_outcome, np.newaxis] * log_p_human
            class_exponents = cell_exponents[table_slice, human_outcome]
            rare_class_tables = np.flatnonzero(class_exponents)
            for joint_cell_draws in joint_draws[human_outcome] if rare_class_tables.size else ():
                log_cell_draws = np.log(np.maximum(joint_cell_draws[rare_class_tables], _SMALLEST))
                block_log_weights[rare_class_tables] += class_exponents[rare_class_tables, np.newaxis] * log_cell_draws
        log_weights[table_slice] = block_log_weights
    return p_draws, log_weights


def weighted_gammas(
    gamma_shapes: Floats, variates: NDArray[np.float32], variate_row: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return gamma draws (t, draws) with shapes (t,), computed from a row of the shared numbers, and the log weights of
    the draws.

    The cube of a linear function of a normal variate is nearly a gamma variate; rejection sampling accepts this cube
    with a probability near 1. In this function, the probability of acceptance is the weight of the draw, so tables can
    share normal variates.

    Source: Marsaglia and Tsang 2000, "A simple method for generating gamma variables".
    """
    small_shape_indices = np.flatnonzero(gamma_shapes < 1)
    shifted_shapes = (gamma_shapes + (gamma_shapes < 1) - 1 / 3).astype(np.float32)[:, np.newaxis]
    normal_variates = variates[variate_row]
    cube_root = np.maximum(normal_variates / np.sqrt(9 * shifted_shapes) + 1, np.float32(1e-9))
    cube = cube_root * cube_root * cube_root
    log_acceptance = ((np.log(cube_root) * 3 - cube + 1) * shifted_shapes + normal_variates * normal_variates / 2) * (
        shifted_shapes < _NEARLY_NORMAL
    )
    gamma_draws = np.multiply(cube, shifted_shapes, out=cube)
    if small_shape_indices.size:
        # Gamma(a) is Gamma(a + 1) * U^(1 / a)
        gamma_draws[small_shape_indices] *= np.exp(
            -variates[12 + variate_row] / gamma_shapes[small_shape_indices, np.newaxis].astype(np.float32)
        )
    return gamma_draws, log_acceptance


MIXTURE = Estimator(
    name="mixture",
    estimate=mixture_posterior,
    point=poststratified_margin,
    adjusts_for_selection=True,
    quick=True,
)
