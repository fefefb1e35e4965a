"""Posterior of the mixture model by sequential Monte Carlo, for tables whose weighted draws are too uneven.

The symbols are explained in `custodes.stats.correction.mixture`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats
from custodes.stats.correction.draw_sums import DrawSums, interval_bounds, is_precise_enough, with_bounds
from custodes.stats.correction.estimator import Counts, Estimate, stream_key

_POPULATIONS, _SIZE = 16, 256
_RESAMPLED_RATE = 0.6  # minimum proportion of effective draws after a temperature step
_STEP_MOVES, _LAST_MOVES, _ROUND, _THIN, _MOST_ROUNDS = 16, 40, 20, 4, 8
_MIXED = 1.01  # populations agree if R-hat is at most this


def tempering_posterior(
    table_row: NDArray[Any], *, seed: Sequence[int], confidence: float | None, precision: float, gamma: float | None
) -> Estimate:
    """Return the posterior (1,) of one table (15,) by sequential Monte Carlo.

    Draws from the proposal are moved under density * weight^t while t increases from 0 (proposal) to 1 (posterior).
    Moves change the log probabilities of q and of each column nu[., r]. On the scale of log probabilities, metric-only
    items affect only q, whatever their number. With data augmentation (Gibbs sampling), steps would become smaller with
    every metric-only item, and chains would hardly move.

    The 16 populations of 256 draws never exchange draws. The variation between populations gives the Monte Carlo error,
    and their R-hat shows whether the populations converged. At t = 1, moves continue until two conditions hold or a
    maximum number of moves is reached. R-hat must be at most 1.01, and theta must be precise enough for its purpose
    (see `is_precise_enough`). If R-hat stays larger, `theta_error` is the standard deviation between populations.

    Source: developed for custodes, by sequential Monte Carlo (Del Moral, Doucet and Jasra 2006) with the moves of
    differential evolution (ter Braak 2006).
    """
    populations = Populations(Counts.from_rows(table_row), np.random.default_rng([*seed, *stream_key(table_row)]))
    while populations.t < 1:
        populations.heat()
        populations.move(_STEP_MOVES)
    populations.move(_LAST_MOVES)
    # Populations are weighted by their evidence, so that resampling does not bias their mean.
    population_weights = np.exp(populations.log_evidence - populations.log_evidence.max())
    population_weights /= population_weights.sum()
    sampled_p_arrays: list[Floats] = []
    for _ in range(_MOST_ROUNDS):
        for _ in range(_ROUND):
            populations.move(_THIN)
            sampled_p_arrays.append(populations.p)
        sampled_p = np.stack(sampled_p_arrays, axis=1)  # (3, draws, populations, size)
        r_hat, n_effective = agreement(sampled_p[0] - sampled_p[2])
        n_effective *= 1 / (population_weights @ population_weights) / _POPULATIONS
        log_weights = np.broadcast_to(np.log(population_weights)[:, np.newaxis], sampled_p.shape[1:]).ravel()
        estimate = DrawSums.from_draws(sampled_p.reshape(3, 1, -1), log_weights[np.newaxis]).estimate(np.array([0]))
        weighted_deviations = population_weights * ((sampled_p[0] > sampled_p[2]).mean(axis=(0, 2)) - estimate.theta)
        # with so few populations, four standard errors of a normal distribution are about 5.6 of Student's t
        theta_error = 1.4 * np.sqrt(weighted_deviations @ weighted_deviations * _POPULATIONS / (_POPULATIONS - 1))
        theta_error *= 1 if r_hat <= _MIXED else np.sqrt(_POPULATIONS)
        # an event that occurs in no draw may still be possible
        theta_error = np.hypot(theta_error, 1 / n_effective)
        estimate = replace(estimate, theta_error=np.array([theta_error]), effective_draws=np.array([n_effective]))
        if r_hat <= _MIXED and is_precise_enough(estimate, precision=np.array([precision]), gamma=gamma).all():
            break
    if confidence is None:
        return estimate
    return with_bounds(estimate, interval_bounds(sampled_p.reshape(3, -1), log_weights, confidence)[:, np.newaxis])


def agreement(draws: Floats) -> tuple[float, float]:
    """Return R-hat, computed from the two halves in time of each population, and the effective number of independent
    draws, for values (draws, populations, size)."""
    half_length = len(draws) // 2
    population_halves = np.concatenate([draws[:half_length], draws[half_length : 2 * half_length]], axis=1)
    var_between, var_within = population_halves.mean(axis=(0, 2)).var(ddof=1), population_halves.var(axis=(0, 2)).mean()
    if not var_within > 0:
        return 1.0, float(draws.size)
    n_effective = var_within / max(draws.mean(axis=(0, 2)).var(ddof=1) / draws.shape[1], var_within / draws.size)
    return float(np.sqrt(1 + var_between / var_within)), float(n_effective)


class Populations:
    """Populations of draws for one table.

    `at` (4, 3, populations, size) are the log probabilities of q and of each nu[., r]. `p` (3, populations, size) are
    the human probabilities. `log_weights` (populations, size) are the log ratios of posterior and proposal.
    `log_evidence` (populations,) is the log evidence.
    """

    def __init__(self, counts: Counts, rng: np.random.Generator) -> None:
        self._rng, pseudo_counts = rng, class_pseudo_counts(counts)
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
        weights = np.exp(t_step * relative_log_weights)
        while t_step > 1e-9 and (weights.mean(axis=1) ** 2 / (weights**2).mean(axis=1)).mean() < _RESAMPLED_RATE:
            t_step *= 0.9
            weights = np.exp(t_step * relative_log_weights)
        self.t = min(1.0, self.t + t_step) if t_step < 1 - self.t else 1.0
        self.log_evidence = self.log_evidence + np.log(weights.mean(axis=1)) + t_step * self.log_weights.max(axis=1)
        cumulative_weights = weights.cumsum(axis=1) / weights.sum(axis=1, keepdims=True)
        resampling_points = (np.arange(_SIZE) + self._rng.random((_POPULATIONS, 1))) / _SIZE
        draw_indices = np.stack([*map(np.searchsorted, cumulative_weights, resampling_points)])
        # shuffled, because moves use the two halves of a population separately
        draw_indices = self._rng.permuted(np.minimum(draw_indices, _SIZE - 1), axis=1)
        population_indices = np.arange(_POPULATIONS)[:, np.newaxis]
        self.at, self.p = self.at[..., population_indices, draw_indices], self.p[..., population_indices, draw_indices]
        self.log_weights = self.log_weights[population_indices, draw_indices]

    def move(self, n_moves: int) -> None:
        """Propose `n_moves` moves of every draw: alternately a step along the difference of two draws from the other
        half of the population, and a new q or nu[., r] from the proposal."""
        half_size, rng, population_indices = _SIZE // 2, self._rng, np.arange(_POPULATIONS)[:, np.newaxis]
        draw_index_halves = np.arange(_SIZE).reshape(2, half_size)
        for move_index in range(n_moves):
            if move_index % 2:
                block = int(rng.integers(4))
                proposal = self.at.copy()
                proposal[block] = self._draw_proposal(block, proposal.shape[2:])
                self._accept(np.arange(_SIZE), proposal, fresh_block=block)
                continue
            for moved_half, other_half in (draw_index_halves, draw_index_halves[::-1]):
                first_draw_indices, second_draw_indices = other_half[
                    rng.integers(half_size, size=(2, _POPULATIONS, half_size))
                ]
                jump = (
                    self.at[..., population_indices, first_draw_indices]
                    - self.at[..., population_indices, second_draw_indices]
                )
                # moves all blocks or a random subset; a step length of 1 jumps between modes
                is_moved_block = rng.random((4, 1, _POPULATIONS, half_size)) < rng.choice([0.3, 1.0])
                step_lengths = rng.choice([0.25, 0.6, 1.0]) * rng.uniform(0.8, 1.2, (_POPULATIONS, half_size))
                noise = 1e-3 * rng.standard_normal(jump.shape)
                proposal = self.at[..., moved_half] + is_moved_block * (step_lengths * jump + noise)
                self._accept(moved_half, proposal - np.logaddexp.reduce(proposal, axis=1, keepdims=True))

    def _accept(self, draw_indices: NDArray[np.intp], proposal: Floats, *, fresh_block: int | None = None) -> None:
        """Accept or reject `proposal` (4, 3, populations, draws). It is a symmetric move of log odds or, with
        `fresh_block`, a draw of this block from the proposal distribution. The density of the proposal distribution
        cancels in the Metropolis-Hastings ratio."""
        proposed_p, proposed_log_weights = self._evaluate_draws(proposal)
        blocks = [block_index for block_index in range(4) if block_index != fresh_block]
        # in log odds the Dirichlet density is prod share^shape
        log_density_change = self._shapes[blocks][..., np.newaxis, np.newaxis] * (
            proposal[blocks] - self.at[blocks][..., draw_indices]
        )
        log_ratio = log_density_change.sum(axis=(0, 1)) + self.t * (
            proposed_log_weights - self.log_weights[:, draw_indices]
        )
        is_accepted_draw = np.log(self._rng.random(log_ratio.shape)) < log_ratio
        self.at, self.p, self.log_weights = self.at.copy(), self.p.copy(), self.log_weights.copy()
        for current_array, proposed_array in (
            (self.at, proposal),
            (self.p, proposed_p),
            (self.log_weights, proposed_log_weights),
        ):
            current_array[..., draw_indices] = np.where(
                is_accepted_draw, proposed_array, current_array[..., draw_indices]
            )

    def _evaluate_draws(self, log_probabilities: Floats) -> tuple[Floats, Floats]:
        """Return the human probabilities (3, ...) and the log ratio of posterior and proposal (...)."""
        log_joint = log_probabilities[0] + np.swapaxes(log_probabilities[1:], 0, 1)  # [human, metric]
        log_human = np.logaddexp.reduce(log_joint, axis=1)
        human_exponents, cell_exponents = (exponents[:, np.newaxis, np.newaxis] for exponents in self._powers)
        return np.exp(log_human), (human_exponents * log_human + cell_exponents * log_joint.sum(axis=1)).sum(axis=0)

    def _draw_proposal(self, block: int | slice, trailing_shape: tuple[int, ...]) -> Floats:
        """Log probabilities (..., 3, *trailing_shape) from the proposal, even below the float range."""
        gamma_shapes = self._shapes[block][..., np.newaxis, np.newaxis]
        # Gamma(a) is Gamma(a + 1) * U^(1 / a), whose logarithm does not underflow.
        draws_shape = (*gamma_shapes.shape[:-2], *trailing_shape)
        log_gammas = (
            np.log(self._rng.standard_gamma(gamma_shapes + 1, draws_shape))
            - self._rng.standard_exponential(draws_shape) / gamma_shapes
        )
        return np.asarray(log_gammas - np.logaddexp.reduce(log_gammas, axis=-3, keepdims=True))


def class_pseudo_counts(counts: Counts) -> Floats:
    """Return the pseudo-counts (..., 3, 1) of the human classes in the proposal.

    The effective number of draws is reliable if the fourth moment of the weights is finite. The fourth moment is
    finite if 9 c < n + 4 h + 4. Here c is the pseudo-count, n the number of paired items of the class, and h the
    number of items of the class with only human ratings. The result is nearly the largest such c, and at most 1.
    """
    weighted_n_items = counts.paired.sum(axis=-1) + 4 * counts.human_only
    return np.asarray(np.minimum((weighted_n_items + 3.5) / 9, 1.0)[..., np.newaxis])
