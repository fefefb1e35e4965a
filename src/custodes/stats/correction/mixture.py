"""The estimator `mixture`: the metric as a noisy channel of human preference (Bayesian model of Deriu et al. 2023).

The prior of the human probabilities is p ~ Dirichlet(1), the prior of each row of the channel mu[h, .] ~ Dirichlet(1).
For human class h and metric class r, an item with both ratings has probability pi[h, r] = p_h mu[h, r], a metric-only
item q_r = sum_h pi[h, r], and a human-only item p_h. Since dpi = prod p_h^2 dp dmu, the posterior density of pi is

    prod pi[h, r]^N[h, r] * prod q_r^m_r * prod p_h^(a_h - 2)

where N, m and a are the paired, metric-only and human-only counts. Draws come from a proposal in which q and the
columns nu[., r] = pi[., r] / q_r are Dirichlet; their weights are the ratio of posterior and proposal. All tables share
the same normal random numbers. Each table gets as many draws as its decision needs. If the weights of a table are too
uneven, its draws are moved from the proposal to the posterior in steps (see `tempering_posterior`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Bools, Floats, Ints
from custodes.stats.correction.dirichlet import human_posterior
from custodes.stats.correction.estimator import Counts, Estimate, Estimator, stream_key
from custodes.stats.correction.poststratified import poststratified_margin
from custodes.stats.ratios import ratio

MOST_DRAWS = 2**17
"""Maximum number of draws for a table. With this number of draws, any precision is accepted."""

_FIRST_QUICK, _FIRST = 256, 4096  # draws of the first batch, without and with an interval
_MOST_AT_ONCE = 4096  # maximum number of draws of a batch
_ENOUGH_QUICK, _ENOUGH = 64, 1000  # minimum number of effective draws for an error estimate, and for an interval
_EFFECTIVE_RATE = 0.1  # minimum proportion of effective draws, unless there are 1000 effective draws
_PRECISION_QUICK, _PRECISION = 0.003, 0.005  # target standard error of theta, without and with an interval
_GROUP = 500_000  # maximum number of draws of a group of tables that share gamma variates
_COLUMNS = 2048  # maximum number of draws computed at once for one table
_BLOCK = 32_768  # maximum number of draws computed at once for all tables, so that arrays fit the cache
_SMALLEST = np.float32(1e-30)
_NEARLY_NORMAL = 1000.0  # with a larger shape, gamma draws need no weights: up to four sigma, acceptance is above .997
_POPULATIONS, _SIZE = 16, 256
_RESAMPLED_RATE = 0.6  # minimum proportion of effective draws after a temperature step
_STEP_MOVES, _LAST_MOVES, _ROUND, _THIN, _MOST_ROUNDS = 16, 40, 20, 4, 8
_MIXED = 1.01  # populations agree if R-hat is at most this


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
        Level of the equal-tailed intervals. If None, there are no intervals, and theta is only as precise as the
        decision requires.
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
    Deriu et al. 2023, Section 3.3 and Algorithm 1 (model, posterior and theta); the computation is ours.

    Examples
    --------
    >>> counts = Counts(np.array([[30, 5, 5], [5, 15, 5], [4, 6, 25]]), np.array([400, 200, 400]), np.zeros(3))
    >>> posterior = mixture_posterior(counts, confidence=0.95, gamma=None, rng=np.random.default_rng(0))
    >>> bool(0.65 < posterior.theta < 0.7)
    True
    """
    seed: list[int] = rng.integers(2**32, size=4).tolist()
    tables = counts.distinct_tables()
    row_counts = Counts.from_rows(tables.rows)
    # without human ratings, wins and losses are exchangeable, so theta is 1/2
    is_even_table = tables.even | ~row_counts.human.any(axis=-1)
    # theta of a table that is its own mirror image is 1/2, so no draws are needed for its precision
    default_target_error = _PRECISION_QUICK if confidence is None else _PRECISION if gamma is None else 0.0
    target_errors = np.where(is_even_table, np.inf, default_target_error)
    n_least_effective, n_first_draws = (_ENOUGH_QUICK, _FIRST_QUICK) if confidence is None else (_ENOUGH, _FIRST)
    is_closed_form = ~row_counts.metric_only.any(axis=-1)
    parts = [(np.flatnonzero(is_closed_form), human_posterior(row_counts.human[is_closed_form], confidence=confidence))]
    # tables that still need draws, and tables that have enough draws
    unfinished_rows, finished_row_groups, n_draws = np.flatnonzero(~is_closed_form), [np.empty(0, dtype=np.intp)], 0
    draw_sums, row_bounds = _Sums.empty(len(is_even_table)), np.full((2, len(is_even_table), 4), np.nan)
    draws_by_row: dict[int, list[tuple[NDArray[Any], NDArray[Any]]]] = {row: [] for row in unfinished_rows.tolist()}
    while unfinished_rows.size:
        variates = shared_numbers(min(n_draws or n_first_draws, _MOST_AT_ONCE), [*seed, n_draws])
        n_draws += variates.shape[1]
        for rows in np.array_split(unfinished_rows, -(-unfinished_rows.size * variates.shape[1] // _GROUP)):
            p, log_weights = weighted_draws(Counts.from_rows(tables.rows[rows]), variates)
            draw_sums.add(rows, _Sums.from_draws(p, log_weights))
            if confidence is None:
                continue
            has_enough_draws = draw_sums.effective[rows] >= _ENOUGH
            for place, row in enumerate(rows.tolist()):
                if (row_draws := draws_by_row.get(row)) is None:
                    continue
                row_draws.append((p[:, place], log_weights[place]))
                if has_enough_draws[place]:
                    row_p, row_logs = (np.concatenate(arrays, axis=-1) for arrays in zip(*row_draws, strict=True))
                    row_bounds[:, row] = _bounds(row_p, row_logs, confidence)
                    del draws_by_row[row]
        if n_draws & (n_draws - 1):
            continue
        estimate = draw_sums.estimate(unfinished_rows, cautious=confidence is not None)
        n_effective = estimate.effective_draws
        has_precise_theta = _is_precise_enough(estimate, precision=target_errors[unfinished_rows], gamma=gamma)
        is_finished = has_precise_theta | (n_draws >= MOST_DRAWS)
        is_finished &= n_effective >= max(n_least_effective, min(_EFFECTIVE_RATE * n_draws, _ENOUGH))
        # tables with few draws are left out, because the variation of their weights is uncertain
        has_uneven_weights = ~is_finished & (n_draws >= _FIRST) & (n_draws * _ENOUGH > MOST_DRAWS * n_effective)
        for row in unfinished_rows[has_uneven_weights]:
            options: dict[str, Any] = {"confidence": confidence, "precision": target_errors[row], "gamma": gamma}
            parts.append((np.array([row]), tempering_posterior(tables.rows[row], seed=seed, **options)))
        finished_row_groups.append(unfinished_rows[is_finished])
        unfinished_rows = unfinished_rows[~(is_finished | has_uneven_weights)]
    rows = np.concatenate(finished_row_groups)
    parts.append((rows, _with_bounds(draw_sums.estimate(rows, cautious=confidence is not None), row_bounds[:, rows])))
    return tables.expand_estimate(Estimate.from_parts(parts).symmetrise(is_even_table))


def _is_precise_enough(estimate: Estimate, *, precision: Floats, gamma: float | None) -> Bools:
    """Return whether theta (...) is precise enough or far enough from the thresholds of a decision."""
    is_precise = estimate.theta_error <= precision
    return is_precise if gamma is None else is_precise | ~estimate.at_threshold(gamma=gamma)


def shared_numbers(n_draws: int, seed: Sequence[int]) -> NDArray[np.float32]:
    """Return random numbers (21, draws) that all tables share: twelve rows of normal variates, one for each gamma
    variate, and nine rows of exponential variates, one for each cell of the paired counts."""
    rng = np.random.Generator(np.random.SFC64([*seed, n_draws]))
    variates = np.empty((21, n_draws), dtype=np.float32)
    rng.standard_normal(out=variates[:12], dtype=np.float32)
    rng.standard_exponential(out=variates[12:], dtype=np.float32)
    return variates


def weighted_draws(counts: Counts, variates: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return draws for tables (t,) from the proposal: human probabilities (3, t, draws) and log weights (t, draws)."""
    # Single precision resolves a probability to 1e-7, far below the Monte Carlo error, and is twice as fast.
    pseudo_counts = _pseudo_counts(counts)
    cell_shapes = counts.paired + pseudo_counts
    gamma_shapes = np.concatenate([cell_shapes.reshape(-1, 9), cell_shapes.sum(axis=1) + counts.metric_only], axis=1)
    # Tables with few items have few different counts.
    distinct_shapes = [np.unique(shape, return_inverse=True) for shape in gamma_shapes.T]
    n_tables, n_draws = len(gamma_shapes), variates.shape[1]
    p, log_weights = np.empty((3, n_tables, n_draws), np.float32), np.empty((n_tables, n_draws), np.float32)
    human_exponents = (counts.human_only - 2).astype(np.float32)
    cell_exponents = (1 - pseudo_counts[..., 0]).astype(np.float32)
    for first_draw in range(0, n_draws, _COLUMNS):
        draw_range = slice(first_draw, min(first_draw + _COLUMNS, n_draws))
        gammas = [weighted_gammas(shape, variates[:, draw_range], k) for k, (shape, _) in enumerate(distinct_shapes)]
        block_size = max(1, _BLOCK // (draw_range.stop - first_draw))
        for table_range in (slice(row, row + block_size) for row in range(0, n_tables, block_size)):
            shape_indices = [inverse[table_range] for _, inverse in distinct_shapes]
            cell_draws = [values[index] for (values, _), index in zip(gammas, shape_indices, strict=True)]
            log_sums = np.asarray(sum(logs[index] for (_, logs), index in zip(gammas, shape_indices, strict=True)))
            q = cell_draws[9:]
            q_total = q[0] + q[1] + q[2]
            for r in range(3):
                scale = q[r] / q_total / np.maximum(cell_draws[r] + cell_draws[3 + r] + cell_draws[6 + r], _SMALLEST)
                for cell in cell_draws[r:9:3]:
                    cell *= scale
            for h in range(3):
                class_draws = cell_draws[3 * h : 3 * h + 3]
                p_human = np.add(class_draws[0] + class_draws[1], class_draws[2], out=p[h, table_range, draw_range])
                log_sums += human_exponents[table_range, h, np.newaxis] * np.log(np.maximum(p_human, _SMALLEST))
                class_exponents = cell_exponents[table_range, h]
                rare_class_rows = np.flatnonzero(class_exponents)
                for cell in class_draws if rare_class_rows.size else ():
                    log_cell_draws = np.log(np.maximum(cell[rare_class_rows], _SMALLEST))
                    log_sums[rare_class_rows] += class_exponents[rare_class_rows, np.newaxis] * log_cell_draws
            log_weights[table_range, draw_range] = log_sums
    return p, log_weights


def _pseudo_counts(counts: Counts) -> Floats:
    """Return the pseudo-counts (..., 3, 1) of the human classes in the proposal.

    The effective number of draws is reliable if the fourth moment of the weights is finite. This requires 9 c < n + 4 h
    + 4, where c is the pseudo-count, n the number of paired items of the class, and h the number of its items with only
    human ratings. The result is nearly the largest such c, and at most 1.
    """
    n_items = counts.paired.sum(axis=-1) + 4 * counts.human_only
    return np.asarray(np.minimum((n_items + 3.5) / 9, 1.0)[..., np.newaxis])


def weighted_gammas(
    gamma_shapes: Floats, variates: NDArray[np.float32], row: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return gamma draws (t, draws) with shapes (t,), computed from a row of the numbers, and their log weights.

    The cube of a linear function of a normal variate is nearly a gamma variate; rejection sampling accepts this cube
    with a probability near 1. Here this probability is the weight of the draw, so tables can share normal variates.

    Source: Marsaglia and Tsang 2000, "A simple method for generating gamma variables".
    """
    small_rows = np.flatnonzero(gamma_shapes < 1)
    d = (gamma_shapes + (gamma_shapes < 1) - 1 / 3).astype(np.float32)[:, np.newaxis]
    normal_variates = variates[row]
    root = np.maximum(normal_variates / np.sqrt(9 * d) + 1, np.float32(1e-9))
    cube = root * root * root
    log_acceptance = ((np.log(root) * 3 - cube + 1) * d + normal_variates * normal_variates / 2) * (d < _NEARLY_NORMAL)
    cube *= d
    if small_rows.size:
        # Gamma(a) is Gamma(a + 1) * U^(1 / a)
        cube[small_rows] *= np.exp(-variates[12 + row] / gamma_shapes[small_rows, np.newaxis].astype(np.float32))
    return cube, log_acceptance


_POWERS = np.array([1, 2, 1, 2, 1, 1, 1, 1])[:, np.newaxis]  # power of the weights in each row of `_Sums`


@dataclass(frozen=True)
class _Sums:
    """Sums over weighted draws of tables (t,).

    `top` (t,) is the largest log weight; weights are divided by the largest weight. The rows of `values` (8, t) are
    sums of weights and of squared weights over all draws, the same sums over the draws with p_win > p_loss, and
    weighted sums of the three p and of the squared margin.
    """

    top: Floats
    values: Floats

    @classmethod
    def empty(cls, n_tables: int) -> _Sums:
        """Return the sums of n tables without draws."""
        return cls(np.full(n_tables, -np.inf), np.zeros((8, n_tables)))

    @classmethod
    def from_draws(cls, p: NDArray[Any], log_weights: NDArray[Any]) -> _Sums:
        """Return the sums over draws p (3, t, n) with log weights (t, n)."""
        largest_log_weights = log_weights.max(axis=1)
        weights = np.exp(log_weights - largest_log_weights[:, np.newaxis])
        margin = p[0] - p[2]
        is_better, weight_squares = margin > 0, weights**2
        mean_terms = (weights * values for values in (*p, margin**2))
        terms = (weights, weight_squares, weights * is_better, weight_squares * is_better, *mean_terms)
        return cls(largest_log_weights, np.stack([term.sum(axis=1, dtype=np.float64) for term in terms]))

    def add(self, rows: Ints, other_sums: _Sums) -> None:
        """Add the sums of further draws to the tables at some positions."""
        new_top = np.maximum(self.top[rows], other_sums.top)
        sums_and_tops = ((self.values[:, rows], self.top[rows]), (other_sums.values, other_sums.top))
        self.values[:, rows] = sum(values * np.exp(_POWERS * (old_top - new_top)) for values, old_top in sums_and_tops)
        self.top[rows] = new_top

    @property
    def effective(self) -> Floats:
        """The number (t,) of effective draws (Kish)."""
        return ratio(self.values[0] ** 2, self.values[1])

    def estimate(self, rows: Ints, *, cautious: bool) -> Estimate:
        """Return the estimates of the tables at some positions, without intervals.

        The standard error of theta combines the standard error by the delta method with the effect of one more draw,
        because an event that occurs in no draw may still be possible. The additional draw has the average weight
        sum(w^2) / sum(w). If `cautious` is true, it has the largest weight, because the squared weights alone
        underestimate the error if few draws dominate.
        """
        weight_sum, squared_weight_sum, better_sum, better_squared_sum, *moment_sums = self.values[:, rows]
        n_effective = self.effective[rows]
        theta = np.minimum(better_sum / weight_sum, 1.0)
        scaled_variance = better_squared_sum * (1 - 2 * theta) + theta**2 * squared_weight_sum
        one_draw_effect = 1 / weight_sum if cautious else 1 / n_effective
        mean_p = (np.stack(moment_sums[:3]) / weight_sum).T
        margin = mean_p[:, 0] - mean_p[:, 2]
        undefined_bounds = np.full((2, len(margin), 4), np.nan)
        return Estimate(
            p=mean_p,
            p_low=undefined_bounds[0, :, :3],
            p_high=undefined_bounds[1, :, :3],
            margin=margin,
            margin_low=undefined_bounds[0, :, 3],
            margin_high=undefined_bounds[1, :, 3],
            theta=theta,
            effective_draws=n_effective,
            theta_error=np.hypot(np.sqrt(np.maximum(scaled_variance, 0.0)) / weight_sum, one_draw_effect),
            sd=np.sqrt(np.maximum(moment_sums[3] / weight_sum - margin**2, 0.0)),
        )


def _bounds(p_draws: NDArray[Any], log_weights: NDArray[Any], confidence: float) -> Floats:
    """Return bounds (2, 4) of p and of the margin, given draws p (3, n) with log weights (n,)."""
    tail = (1 - confidence) / 2
    weights = np.exp(log_weights - log_weights.max())
    return weighted_quantiles(np.concatenate([p_draws, p_draws[:1] - p_draws[2:]]), weights, (tail, 1 - tail)).T


def _with_bounds(estimate: Estimate, bounds: Floats) -> Estimate:
    """Return the estimates (t,) with the bounds (2, t, 4) of their intervals."""
    low, high = bounds
    return replace(estimate, p_low=low[:, :3], p_high=high[:, :3], margin_low=low[:, 3], margin_high=high[:, 3])


def weighted_quantiles(values: NDArray[Any], weights: NDArray[Any], probabilities: Sequence[float]) -> Floats:
    """Return quantiles (k, probabilities) of draws (k, n) with weights (n,).

    Systematic resampling by weight gives n draws of equal weight, whose order statistics are returned. This takes half
    the time of weighted order statistics.

    >>> weighted_quantiles(np.array([[3.0, 1.0, 2.0, 9.0]]), np.array([1.0, 1.0, 2.0, 0.0]), (0.25, 0.5, 1.0)).tolist()
    [[1.0, 2.0, 3.0]]

    Source: Kitagawa 1996, "Monte Carlo filter and smoother" (systematic resampling).
    """
    n = len(weights)
    cumulative_weights = weights.cumsum(dtype=np.float64)
    n_copies = np.diff(np.floor(cumulative_weights * (n / cumulative_weights[-1]) + 0.5), prepend=0.0).astype(np.int64)
    resampled_values = values.take(np.repeat(np.arange(n), n_copies)[:n], axis=1)
    quantile_positions = np.ceil(np.asarray(probabilities) * n).astype(np.int64).clip(1, n) - 1
    return np.asarray(np.sort(resampled_values, axis=1)[:, quantile_positions], dtype=np.float64)


def tempering_posterior(
    row: NDArray[Any], *, seed: Sequence[int], confidence: float | None, precision: float, gamma: float | None
) -> Estimate:
    """Return the posterior (1,) of one table (15,) by sequential Monte Carlo.

    Draws from the proposal are moved under density * weight^t while t increases from 0 (proposal) to 1 (posterior).
    Moves change the log probabilities of q and of each column nu[., r]. On this scale the metric-only items, however
    many, affect only q. With data augmentation (Gibbs), the steps would shrink with the number of metric-only items,
    and chains would hardly move.

    The 16 populations of 256 draws never exchange draws. Their variation gives the Monte Carlo error, and their R-hat
    shows whether they converged. Moves at t = 1 continue until R-hat is at most 1.01 and theta is precise enough for
    its purpose (see `_is_precise_enough`), or until a limit is reached. If R-hat stays larger, `theta_error` is the
    standard deviation between populations.

    Source: ours, by sequential Monte Carlo (Del Moral, Doucet and Jasra 2006) with the moves of differential evolution
    (ter Braak 2006).
    """
    populations = _Populations(Counts.from_rows(row), np.random.default_rng([*seed, *stream_key(row)]))
    while populations.t < 1:
        populations.heat()
        populations.move(_STEP_MOVES)
    populations.move(_LAST_MOVES)
    # Populations are weighted by their evidence, so that resampling does not bias their mean.
    population_weights = np.exp(populations.log_evidence - populations.log_evidence.max())
    population_weights /= population_weights.sum()
    p_by_round: list[Floats] = []
    for _ in range(_MOST_ROUNDS):
        for _ in range(_ROUND):
            populations.move(_THIN)
            p_by_round.append(populations.p)
        p = np.stack(p_by_round, axis=1)  # (3, draws, populations, size)
        r_hat, n_effective = agreement(p[0] - p[2])
        n_effective *= 1 / (population_weights @ population_weights) / _POPULATIONS
        log_weights = np.broadcast_to(np.log(population_weights)[:, np.newaxis], p.shape[1:]).ravel()
        draw_sums = _Sums.from_draws(p.reshape(3, 1, -1), log_weights[np.newaxis])
        estimate = draw_sums.estimate(np.array([0]), cautious=False)
        weighted_deviations = population_weights * ((p[0] > p[2]).mean(axis=(0, 2)) - estimate.theta)
        # with so few populations, four standard errors of a normal distribution are about 5.6 of Student's t
        theta_error = 1.4 * np.sqrt(weighted_deviations @ weighted_deviations * _POPULATIONS / (_POPULATIONS - 1))
        theta_error *= 1 if r_hat <= _MIXED else np.sqrt(_POPULATIONS)
        # an event that occurs in no draw may still be possible
        theta_error = np.hypot(theta_error, 1 / n_effective)
        estimate = replace(estimate, theta_error=np.array([theta_error]), effective_draws=np.array([n_effective]))
        if r_hat <= _MIXED and _is_precise_enough(estimate, precision=np.array([precision]), gamma=gamma).all():
            break
    if confidence is None:
        return estimate
    return _with_bounds(estimate, _bounds(p.reshape(3, -1), log_weights, confidence)[:, np.newaxis])


def agreement(draws: Floats) -> tuple[float, float]:
    """Return R-hat, computed from the two halves in time of each population, and the effective number of independent
    draws, for values (draws, populations, size)."""
    half_length = len(draws) // 2
    halves = np.concatenate([draws[:half_length], draws[half_length : 2 * half_length]], axis=1)
    var_between, var_within = halves.mean(axis=(0, 2)).var(ddof=1), halves.var(axis=(0, 2)).mean()
    if not var_within > 0:
        return 1.0, float(draws.size)
    n_effective = var_within / max(draws.mean(axis=(0, 2)).var(ddof=1) / draws.shape[1], var_within / draws.size)
    return float(np.sqrt(1 + var_between / var_within)), float(n_effective)


class _Populations:
    """Populations of draws for one table.

    `at` (4, 3, populations, size) are the log probabilities of q and of each nu[., r], `p` (3, populations, size) the
    human probabilities, `log_weights` (populations, size) the log ratios of posterior and proposal, and `log_evidence`
    (populations,) the log evidence.
    """

    def __init__(self, counts: Counts, rng: np.random.Generator) -> None:
        self._rng, pseudo_counts = rng, _pseudo_counts(counts)
        cell_shapes = counts.paired + pseudo_counts
        self._shapes = np.concatenate([[cell_shapes.sum(axis=0) + counts.metric_only], cell_shapes.T])
        self._powers = counts.human_only - 2, 1 - pseudo_counts[:, 0]
        self.t, self.log_evidence = 0.0, np.zeros(_POPULATIONS)
        self.at = self._draw_proposal(slice(None), (_POPULATIONS, _SIZE))
        self.p, self.log_weights = self._evaluate_draws(self.at)

    def heat(self) -> None:
        """Increase t as far as possible while at least 60 % of draws stay effective on average; resample by weight."""
        relative_log_weights = self.log_weights - self.log_weights.max(axis=1, keepdims=True)
        t_step = 1 - self.t
        while t_step > 1e-9 and _effective_rate(t_step * relative_log_weights) < _RESAMPLED_RATE:
            t_step *= 0.9
        self.t = min(1.0, self.t + t_step) if t_step < 1 - self.t else 1.0
        weights = np.exp(t_step * relative_log_weights)
        self.log_evidence = self.log_evidence + np.log(weights.mean(axis=1)) + t_step * self.log_weights.max(axis=1)
        cumulative_weights = weights.cumsum(axis=1) / weights.sum(axis=1, keepdims=True)
        points = (np.arange(_SIZE) + self._rng.random((_POPULATIONS, 1))) / _SIZE
        draw_indices = np.stack([np.searchsorted(*arrays) for arrays in zip(cumulative_weights, points, strict=True)])
        # shuffled, because moves use the two halves of a population separately
        draw_indices = self._rng.permuted(np.minimum(draw_indices, _SIZE - 1), axis=1)
        population_indices = np.arange(_POPULATIONS)[:, np.newaxis]
        self.at, self.p = self.at[..., population_indices, draw_indices], self.p[..., population_indices, draw_indices]
        self.log_weights = self.log_weights[population_indices, draw_indices]

    def move(self, n_moves: int) -> None:
        """Propose `n_moves` moves of every draw: alternately a step along the difference of two draws from the other
        half of the population, and a new q or nu[., r] from the proposal."""
        half_size, rng, population_indices = _SIZE // 2, self._rng, np.arange(_POPULATIONS)[:, np.newaxis]
        halves = np.arange(_SIZE).reshape(2, half_size)
        for move_index in range(n_moves):
            if move_index % 2:
                block = int(rng.integers(4))
                proposal = self.at.copy()
                proposal[block] = self._draw_proposal(block, proposal.shape[2:])
                self._accept(np.arange(_SIZE), proposal, fresh_block=block)
                continue
            for moved_half, other_half in (halves, halves[::-1]):
                first_draws, second_draws = other_half[rng.integers(half_size, size=(2, _POPULATIONS, half_size))]
                jump = self.at[..., population_indices, first_draws] - self.at[..., population_indices, second_draws]
                # moves all blocks or a random subset; a step length of 1 jumps between modes
                is_moved_block = rng.random((4, 1, _POPULATIONS, half_size)) < rng.choice([0.3, 1.0])
                step_lengths = rng.choice([0.25, 0.6, 1.0]) * rng.uniform(0.8, 1.2, (_POPULATIONS, half_size))
                noise = 1e-3 * rng.standard_normal(jump.shape)
                proposal = self.at[..., moved_half] + is_moved_block * (step_lengths * jump + noise)
                self._accept(moved_half, proposal - _log_sum_exp(proposal, axis=1))

    def _accept(self, draws: NDArray[np.intp], proposal: Floats, *, fresh_block: int | None = None) -> None:
        """Accept or reject `proposal` (4, 3, populations, draws): a symmetric move of log odds or, with `fresh_block`,
        a draw of this block from the proposal distribution. Its density cancels in the Metropolis-Hastings ratio."""
        proposed_p, proposed_log_weights = self._evaluate_draws(proposal)
        blocks = [block for block in range(4) if block != fresh_block]
        # in log odds the Dirichlet density is prod share^shape
        change = self._shapes[blocks][..., np.newaxis, np.newaxis] * (proposal[blocks] - self.at[blocks][..., draws])
        log_ratio = change.sum(axis=(0, 1)) + self.t * (proposed_log_weights - self.log_weights[:, draws])
        is_accepted_draw = np.log(self._rng.random(log_ratio.shape)) < log_ratio
        self.at, self.p, self.log_weights = self.at.copy(), self.p.copy(), self.log_weights.copy()
        for state, proposed in ((self.at, proposal), (self.p, proposed_p), (self.log_weights, proposed_log_weights)):
            state[..., draws] = np.where(is_accepted_draw, proposed, state[..., draws])

    def _evaluate_draws(self, log_probabilities: Floats) -> tuple[Floats, Floats]:
        """Return the human probabilities (3, ...) and the log ratio of posterior and proposal (...)."""
        log_joint = log_probabilities[0] + np.swapaxes(log_probabilities[1:], 0, 1)  # [human, metric]
        log_human = _log_sum_exp(log_joint, axis=1)[:, 0]
        human_exponents, cell_exponents = (exponents[:, np.newaxis, np.newaxis] for exponents in self._powers)
        return np.exp(log_human), (human_exponents * log_human + cell_exponents * log_joint.sum(axis=1)).sum(axis=0)

    def _draw_proposal(self, block: int | slice, draw_shape: tuple[int, ...]) -> Floats:
        """Return log probabilities (..., 3, *size) from the proposal, also for probabilities too small for a float."""
        shapes = self._shapes[block][..., np.newaxis, np.newaxis]
        # Gamma(a) is Gamma(a + 1) * U^(1 / a), whose logarithm does not underflow.
        shape = (*shapes.shape[:-2], *draw_shape)
        logs = np.log(self._rng.standard_gamma(shapes + 1, shape)) - self._rng.standard_exponential(shape) / shapes
        return np.asarray(logs - _log_sum_exp(logs, axis=-3))


def _log_sum_exp(values: Floats, *, axis: int) -> Floats:
    largest_values = values.max(axis=axis, keepdims=True)
    return np.asarray(largest_values + np.log(np.exp(values - largest_values).sum(axis=axis, keepdims=True)))


def _effective_rate(log_weights: Floats) -> float:
    weights = np.exp(log_weights)
    return float((weights.mean(axis=1) ** 2 / (weights**2).mean(axis=1)).mean())


MIXTURE = Estimator(
    name="mixture",
    label="Mixture model",
    doc="Bayesian model of the metric as a noisy measurement of the human preference (Deriu et al. 2023).",
    estimate=mixture_posterior,
    point=poststratified_margin,
    adjusts_for_selection=True,
    quick=True,
)
