"""Posterior of every pair's outcome proportions from a pilot study, with partial pooling over pairs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from custodes.stats.arrays import Bools, Floats, Ints, Signs, table_sums
from custodes.stats.strength.davidson import row_products

_SPREADS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)  # standard deviations of system effects and pair deviations, in logits
_TAIL = 2.0  # degrees of freedom of the t distribution of system effects; allows outliers
_LIKELY = 0.3  # prior mean of the pair deviations' standard deviation: system effects explain most differences
_STEPS = 50
_LONGEST = 2.0  # maximum step of Newton's method, in logits
_NEAR = 1e-6
_WIDE = 3.0  # prior standard deviation of the mean m in the logit of 'not a tie'


@dataclass(frozen=True, kw_only=True)
class Pilot:
    """Annotations of a pilot study.

    For each annotation, `pair` (n,) is the position of its pair, `unit` (n,) is the cluster of its item, and `sign`
    (n,) is the preference 1, 0 or -1. `systems` (pairs, 2) are the two systems of each pair.
    """

    pair: Ints
    unit: Ints
    sign: Signs
    systems: Ints

    @property
    def outcome(self) -> Ints:
        """Numbers of wins, ties and losses of each pair, (pairs, 3)."""
        return table_sums(self.pair, 1 - self.sign, shape=(len(self.systems), 3))


def posterior_shares(pilot: Pilot, *, n_draws: int, rng: np.random.Generator) -> Floats:
    """Return posterior draws (draws, pairs, 3) of every pair's proportions of wins, ties and losses.

    Two logistic models describe an annotation of systems a and b. The logit of the probability of 'not a tie' is m +
    u_a + u_b + a deviation of the pair. If there is no tie, the logit of the probability that the first system wins is
    s_a - s_b + a deviation of the pair. System effects have a t distribution, which allows outliers; deviations have a
    normal distribution. The standard deviations of system effects and of deviations are estimated on a grid, with a
    prior that favours small deviations. The estimate for a pair with few annotations, such as ten, thus also uses the
    annotations of all other pairs. If pairs share items or documents, their errors are correlated, and all annotations
    get less weight.

    >>> signs = np.array([1, 1, 1, 0, -1, 1, 1, 1, 1, 1, 0, -1, 1, 1, 0])
    >>> pair, unit = np.repeat(np.arange(3), 5), np.tile(np.arange(5), 3)
    >>> pilot = Pilot(pair=pair, unit=unit, sign=signs, systems=np.array([[0, 1], [0, 2], [1, 2]]))
    >>> result = posterior_shares(pilot, n_draws=200, rng=np.random.default_rng(0))
    >>> result.shape, bool((result.sum(axis=2).round(9) == 1).all())
    ((200, 3, 3), True)

    Source: Bradley and Terry 1952 with random effects; Laplace's approximation over a grid (Rue, Martino and Chopin
    2009). The application to pilots was developed for custodes.
    """
    is_untied_annotation = pilot.sign != 0
    win_logit_draws = _logits(
        pilot, pilot.sign > 0, is_untied_annotation, is_effect_difference=True, n_draws=n_draws, rng=rng
    )
    untied_logit_draws = _logits(
        pilot, is_untied_annotation, is_untied_annotation | True, is_effect_difference=False, n_draws=n_draws, rng=rng
    )
    win_rate_draws, untied_rate_draws = (
        1 / (1 + np.exp(-logit_draws)) for logit_draws in (win_logit_draws, untied_logit_draws)
    )
    return np.stack(
        [untied_rate_draws * win_rate_draws, 1 - untied_rate_draws, untied_rate_draws * (1 - win_rate_draws)], axis=-1
    )


def drawn_kinds(shares: Floats, n_items: int, rng: np.random.Generator) -> Signs:
    """Return random outcomes 0, 1 or 2 (..., items) with proportions (..., 3).

    >>> drawn_kinds(np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), 2, np.random.default_rng(0)).tolist()
    [[1, 1], [2, 2]]

    Source: by definition.
    """
    cumulative_shares = np.cumsum(shares, axis=-1)[..., np.newaxis, :2]
    uniform_draws = rng.random((*shares.shape[:-1], n_items))
    return np.asarray(
        (uniform_draws > cumulative_shares[..., 0]).astype(np.int8) + (uniform_draws > cumulative_shares[..., 1])
    )


def _logits(
    pilot: Pilot,
    is_hit: Bools,
    is_counted: Bools,
    *,
    is_effect_difference: bool,
    n_draws: int,
    rng: np.random.Generator,
) -> Floats:
    """Return draws (draws, pairs) of the logit of each pair's probability of a hit.

    `is_hit` (n,) marks the annotations that are hits, and `is_counted` (n,) the annotations that are counted. If
    `is_effect_difference` is true, a logit is the difference of two system effects plus a deviation of the pair.
    Otherwise, a logit is the sum of a mean, two system effects and a deviation.
    """
    from scipy.sparse import csr_array

    n_pairs, n_systems = len(pilot.systems), int(pilot.systems.max(initial=-1)) + 1
    second_system_sign, n_entries_per_row = (-1, 2) if is_effect_difference else (1, 3)
    column_indices = np.column_stack([pilot.systems, np.full(n_pairs, n_systems)])[:, :n_entries_per_row]
    design_entries = (
        np.tile([1.0, second_system_sign, 1.0][:n_entries_per_row], n_pairs),
        (np.repeat(np.arange(n_pairs), n_entries_per_row), column_indices.ravel()),
    )
    design = csr_array(design_entries, shape=(n_pairs, n_systems + n_entries_per_row - 2))
    pair_of_annotation, unit_of_annotation, is_counted_hit = (
        pilot.pair[is_counted],
        pilot.unit[is_counted],
        is_hit[is_counted],
    )
    n_hits, n_counted = (
        np.bincount(pair_indices, minlength=n_pairs).astype(np.float64)
        for pair_indices in (pair_of_annotation[is_counted_hit], pair_of_annotation)
    )
    annotation_weight = 1 / overlap(
        pilot.systems[pair_of_annotation],
        unit_of_annotation,
        is_counted_hit - (n_hits / np.maximum(n_counted, 1))[pair_of_annotation],
        second_system_sign,
    )
    system_sds, deviation_sds = np.array(list(product(_SPREADS, _SPREADS))).T
    effect_sds = np.column_stack(
        [np.tile(system_sds[:, np.newaxis], n_systems), np.full((len(deviation_sds), n_entries_per_row - 2), _WIDE)]
    )
    log_marginals, *grid_posteriors = _modes(
        n_hits * annotation_weight, n_counted * annotation_weight, design, effect_sds, deviation_sds
    )
    grid_weights = np.exp(log_marginals - log_marginals.max())
    n_draws_by_point = rng.multinomial(n_draws, grid_weights / grid_weights.sum())
    logit_draws = [
        _draw_logits(design, *posterior_of_point, n_draws=n_draws_of_point, rng=rng)
        for *posterior_of_point, n_draws_of_point in zip(*grid_posteriors, n_draws_by_point.tolist(), strict=True)
        if n_draws_of_point
    ]
    return np.asarray(rng.permutation(np.concatenate(logit_draws)))


def overlap(systems: Ints, unit: Ints, residuals: Floats, second_system_sign: int) -> float:
    """Return the variance inflation of system effects relative to independent annotations; it is at least 1.

    For each annotation, `systems` (n, 2) are its two systems, `unit` (n,) is the cluster of its item, and `residuals`
    (n,) is the residual. `second_system_sign` is the sign of the second system in the model.
    """
    cell_codes = systems.T.ravel() * (int(unit.max(initial=-1)) + 1) + np.tile(unit, 2)
    _, cell_of_entry = np.unique(cell_codes, return_inverse=True)
    residual_sum_of_cell = np.bincount(cell_of_entry, np.concatenate([residuals, second_system_sign * residuals]))
    independent_variance = 2 * (residuals**2).sum()
    return max(1.0, float((residual_sum_of_cell**2).sum() / independent_variance)) if independent_variance else 1.0


def _modes(
    n_hits: Floats, n_counted: Floats, design: Any, effect_sds: Floats, deviation_sds: Floats
) -> tuple[Floats, ...]:
    """Modes by Newton's method at each point of the grid of standard deviations `effect_sds` (grid, columns) and
    `deviation_sds` (grid,).

    Deviations of rows are eliminated, so a step solves equations with one unknown per column. The results are, for each
    point: the log marginal likelihood (grid,); the modes of the effects (grid, columns); the modes of the deviations
    (grid, rows); the precision of the effects, with the deviations integrated out (grid, columns, columns); the
    precision of each deviation given the effects (grid, rows); and how strongly the mean of each deviation depends on
    the effects (grid, rows).
    """
    (n_points, n_columns), deviation_sd_column = effect_sds.shape, deviation_sds[:, np.newaxis]
    # A sparse matrix on the left: on the right, SciPy transposes it anew in every product.
    transposed_design, transposed_products = design.T.tocsr(), row_products(design).T.tocsr()
    column_modes, row_modes = np.zeros((n_points, n_columns)), np.zeros((n_points, len(n_counted)))
    for _ in range(_STEPS):
        hit_probabilities = 1 / (1 + np.exp(-((design @ column_modes.T).T + row_modes)))
        curvatures, residuals = (
            n_counted * hit_probabilities * (1 - hit_probabilities),
            n_hits - n_counted * hit_probabilities,
        )
        row_precision = curvatures + 1 / deviation_sd_column**2
        prior_precision = (_TAIL + 1) / (_TAIL * effect_sds**2 + column_modes**2)
        column_precision = (transposed_products @ (curvatures - curvatures**2 / row_precision).T).T.reshape(
            n_points, n_columns, n_columns
        )
        column_precision[:, np.arange(n_columns), np.arange(n_columns)] += prior_precision
        row_gradient = residuals - row_modes / deviation_sd_column**2
        column_gradient = (
            transposed_design @ (residuals - curvatures / row_precision * row_gradient).T
        ).T - column_modes * prior_precision
        column_step = np.linalg.solve(column_precision, column_gradient[:, :, np.newaxis])[:, :, 0]
        row_step = (row_gradient - curvatures * (design @ column_step.T).T) / row_precision
        largest_step = np.maximum(np.abs(column_step).max(axis=1), np.abs(row_step).max(axis=1))[:, np.newaxis]
        step_scale = np.minimum(1.0, _LONGEST / np.maximum(largest_step, _NEAR))
        column_modes, row_modes = column_modes + step_scale * column_step, row_modes + step_scale * row_step
        if (largest_step < _NEAR).all():
            break
    logits = (design @ column_modes.T).T + row_modes
    log_marginal_likelihoods = (n_hits * logits - n_counted * np.logaddexp(0, logits)).sum(axis=1)
    log_marginal_likelihoods -= (_TAIL + 1) / 2 * np.log1p((column_modes / effect_sds) ** 2 / _TAIL).sum(
        axis=1
    ) + np.log(effect_sds).sum(axis=1)
    log_marginal_likelihoods -= np.linalg.slogdet(column_precision)[1] / 2 + deviation_sds / _LIKELY
    log_marginal_likelihoods -= (
        ((row_modes / deviation_sd_column) ** 2).sum(axis=1) / 2
        + len(n_counted) * np.log(deviation_sds)
        + np.log(row_precision).sum(axis=1) / 2
    )
    deviation_dependence = curvatures / row_precision
    return log_marginal_likelihoods, column_modes, row_modes, column_precision, row_precision, deviation_dependence


def _draw_logits(
    design: Any,
    column_modes: Floats,
    row_modes: Floats,
    column_precision: Floats,
    row_precision: Floats,
    deviation_dependence: Floats,
    *,
    n_draws: int,
    rng: np.random.Generator,
) -> Floats:
    """Draws of the logits (draws, rows), given the results of `_modes` at one point of the grid."""
    # with precision = L L' and standard normal z, the solution x of L' x = z has covariance (L L')^-1
    precision_root = np.linalg.cholesky(column_precision).T
    effect_deviations = design @ np.linalg.solve(precision_root, rng.standard_normal((len(precision_root), n_draws)))
    pair_deviations = rng.standard_normal(effect_deviations.shape) / np.sqrt(row_precision)[:, np.newaxis]
    modal_logits = (design @ column_modes + row_modes)[:, np.newaxis]
    return np.asarray(
        (modal_logits + (1 - deviation_dependence)[:, np.newaxis] * effect_deviations + pair_deviations).T
    )
