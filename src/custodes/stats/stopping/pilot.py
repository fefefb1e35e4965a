"""Posterior of every pair's outcome proportions from a pilot study, with partial pooling over pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from custodes.stats.arrays import Bools, Floats, Ints, Signs, chunks, table_sums
from custodes.stats.correction.dirichlet import human_theta
from custodes.stats.correction.estimator import decide
from custodes.stats.stopping.replay import Answers, replay
from custodes.stats.stopping.rules import Rule

_SPREADS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)  # standard deviations of system effects and pair deviations, in logits
_TAIL = 2.0  # degrees of freedom of the t distribution of system effects; allows outliers
_LIKELY = 0.3  # prior mean of the pair deviations' standard deviation: system effects explain most differences
_STEPS = 50
_LONGEST = 2.0  # maximum step of Newton's method, in logits
_NEAR = 1e-6
_WIDE = 3.0  # prior standard deviation of the mean m in the logit of 'not a tie'

_WIDER = 1.2
_WIDER_SHARED = 0.4
"""Constants of `share_interval`.

`python -m tests.real.calibrate_forecast` fits these constants to replayed pilots of all real data sets. It evaluates
each data set with constants that are fitted to the remaining data sets.
"""


@dataclass(frozen=True, kw_only=True)
class Pilot:
    """Annotations of a pilot study.

    For each annotation, `pair` (n,) is the position of its pair, `unit` (n,) the cluster of its item, and `sign` (n,)
    the preference 1, 0 or -1. `systems` (pairs, 2) are the two systems of each pair.
    """

    pair: Ints
    unit: Ints
    sign: Signs
    systems: Ints

    @property
    def outcome(self) -> Ints:
        """Numbers of wins, ties and losses of each pair, (pairs, 3)."""
        return table_sums(self.pair, 1 - self.sign, shape=(len(self.systems), 3))


def posterior_shares(pilot: Pilot, *, draws: int, rng: np.random.Generator) -> Floats:
    """Return posterior draws (draws, pairs, 3) of every pair's proportions of wins, ties and losses.

    There are two logistic models, for an annotation of systems a and b. The logit of the probability of 'not a tie' is
    m + u_a + u_b + a deviation of the pair. If there is no tie, the logit of the probability that the first system wins
    is s_a - s_b + a deviation of the pair. System effects have a t distribution, which allows outliers; deviations have
    a normal distribution. The standard deviations of system effects and of deviations are estimated on a grid, with a
    prior that favours small deviations. A pair with ten annotations thus borrows strength from all pairs. If pairs
    share items or documents, their errors are correlated, and all annotations get less weight.

    >>> signs = np.array([1, 1, 1, 0, -1, 1, 1, 1, 1, 1, 0, -1, 1, 1, 0])
    >>> pair, unit = np.repeat(np.arange(3), 5), np.tile(np.arange(5), 3)
    >>> pilot = Pilot(pair=pair, unit=unit, sign=signs, systems=np.array([[0, 1], [0, 2], [1, 2]]))
    >>> result = posterior_shares(pilot, draws=200, rng=np.random.default_rng(0))
    >>> result.shape, bool((result.sum(axis=2).round(9) == 1).all())
    ((200, 3, 3), True)

    Source: Bradley and Terry 1952 with random effects; Laplace's approximation over a grid (Rue, Martino and Chopin
    2009). The application to pilots is ours.
    """
    is_untied = pilot.sign != 0
    win_logit = _logits(pilot, pilot.sign > 0, is_untied, difference=True, draws=draws, rng=rng)
    untied_logit = _logits(pilot, is_untied, is_untied | True, difference=False, draws=draws, rng=rng)
    win, untied_rate = (1 / (1 + np.exp(-logit)) for logit in (win_logit, untied_logit))
    return np.stack([untied_rate * win, 1 - untied_rate, untied_rate * (1 - win)], axis=-1)


def continue_pilot(counts: Ints, shares: Floats, *, items: int, rng: np.random.Generator) -> Answers:
    """Return one simulated study per draw, in which each pair has annotations of `items` items.

    The annotations of the pilot, `counts` (pairs, 3), come first, in random order. All further annotations are drawn
    with the proportions `shares` (draws, pairs, 3).

    >>> rng = np.random.default_rng(0)
    >>> result = continue_pilot(np.array([[2, 0, 0]]), np.array([[[0.0, 0.0, 1.0]]]), items=4, rng=rng)
    >>> result.kinds.tolist()
    [[[3, 3, 11, 11]]]

    Source: ours.
    """
    positions, n_annotated = np.arange(items), counts.sum(axis=1)[:, np.newaxis]
    outcome_ends = np.cumsum(counts, axis=1)[:, np.newaxis, :2]
    annotated_outcomes = (positions[:, np.newaxis] >= outcome_ends).sum(axis=-1).astype(np.int8)
    kinds = np.empty((*shares.shape[:2], items), dtype=np.int8)
    for draw_slice in chunks(len(kinds), kinds[0].size):
        shape = kinds[draw_slice].shape
        random_order = np.argsort(rng.random(shape) + (positions >= n_annotated), axis=-1)
        kinds[draw_slice] = np.take_along_axis(np.broadcast_to(annotated_outcomes, shape), random_order, axis=-1)
    for draw_slice in chunks(len(kinds), kinds[0].size):
        kinds[draw_slice] = np.where(
            positions < n_annotated, kinds[draw_slice], drawn_kinds(shares[draw_slice], items, rng)
        )
    kinds *= 4
    kinds += 3
    return Answers(
        kinds=kinds,
        available=np.full(kinds.shape[:2], items),
        metric=np.zeros((*kinds.shape[:2], 3), dtype=np.int64),
    )


def drawn_kinds(shares: Floats, items: int, rng: np.random.Generator) -> Signs:
    """Return random outcomes 0, 1 or 2 (..., items) with proportions (..., 3).

    >>> drawn_kinds(np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), 2, np.random.default_rng(0)).tolist()
    [[1, 1], [2, 2]]

    Source: by definition.
    """
    outcome_limits = np.cumsum(shares, axis=-1)[..., np.newaxis, :2]
    uniforms = rng.random((*shares.shape[:-1], items))
    return np.asarray((uniforms > outcome_limits[..., 0]).astype(np.int8) + (uniforms > outcome_limits[..., 1]))


def forecast(answers: Answers, rule: Rule) -> tuple[Floats, Floats]:
    """Return two results (draws,) of a protocol without a metric in simulated studies.

    The first is the proportion of annotations used, averaged over pairs. The second is the proportion of pairs with the
    same decision as with all annotations.

    Source: ours; simulates the predictive distribution of Spiegelhalter, Freedman and Blackburn 1986.
    """
    human = answers.kinds // 4
    wins, losses = ((human == kind).sum(axis=-1) for kind in (0, 2))
    reference = decide(human_theta(wins, losses), gamma=rule.gamma)
    replay_result = replay(answers, rule, reference=reference, truth=np.full((human.shape[1], 3), 1 / 3))
    return (replay_result.n / answers.available).mean(axis=1), replay_result.correct[-1]


def shared_items(pilot: Pilot) -> float:
    """Return the mean proportion of a pair's items that another pair shares.

    It is 0 if there is only one pair, and 1 if all pairs have the same items.

    >>> pair, unit = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 2])
    >>> shared_items(Pilot(pair=pair, unit=unit, sign=np.ones(4, dtype=np.int8), systems=np.array([[0, 1], [0, 2]])))
    0.5

    Source: by definition.
    """
    pair_units = np.unique(np.stack([pilot.pair, pilot.unit]), axis=1)
    n_pairs_of_unit = np.bincount(pair_units[1])
    return float(
        (n_pairs_of_unit * (n_pairs_of_unit - 1)).sum() / max(1, n_pairs_of_unit.sum() * (len(pilot.systems) - 1))
    )


def share_interval(shares: Floats, *, confidence: float, shared: float) -> tuple[float, float]:
    """Return an interval for the proportion of annotations used, given draws `shares` (draws,) of this proportion.

    The shortest interval that contains `confidence` of the draws is widened by a factor around its centre. The square
    of the factor increases linearly with `shared`, the result of `shared_items`: the errors of pairs that share items
    are correlated, and the draws do not fully include this correlation. The interval contains the mean of the draws.

    >>> low, high = share_interval(np.linspace(0, 1, 101), confidence=0.9, shared=0.0)
    >>> round((high - low) / 0.9, 3) == _WIDER
    True

    Source: ours; calibrated like a conformal interval with normalised errors (Lei et al. 2018).
    """
    centre, half_width = shortest_interval(shares, confidence=confidence)
    half_width *= _WIDER * float(np.sqrt(1 + _WIDER_SHARED * shared))
    mean = float(shares.mean())
    return min(centre - half_width, mean), max(centre + half_width, mean)


def shortest_interval(values: Floats, *, confidence: float) -> tuple[float, float]:
    """Return the centre and half-width of the shortest interval that contains `confidence` of the values (n,).

    If several intervals are equally short, the middle interval is returned.

    >>> shortest_interval(np.array([0.0, 4.0, 5.0, 5.0, 6.0]), confidence=0.8)
    (5.0, 1.0)

    Source: by definition.
    """
    sorted_values = np.sort(values)
    n_inside = math.ceil(confidence * len(sorted_values) - _NEAR)
    widths = sorted_values[n_inside - 1 :] - sorted_values[: len(sorted_values) - n_inside + 1]
    shortest_starts = np.flatnonzero(widths <= widths.min() + 1e-12)
    start_index = shortest_starts[len(shortest_starts) // 2]
    low, high = sorted_values[start_index], sorted_values[start_index + n_inside - 1]
    return float((low + high) / 2), float((high - low) / 2)


class _Modes(NamedTuple):
    """Modes of the effects of columns (systems) and of the deviations of rows (pairs), at every point of the grid.

    - `column` (grid, columns), `row` (grid, rows): the modes.
    - `column_precision` (grid, columns, columns): precision of the effects, with the deviations integrated out.
    - `row_precision` (grid, rows): precision of each deviation given the effects.
    - `follows` (grid, rows): how strongly the mean of each deviation depends on the effects.
    - `height` (grid,): log marginal likelihood.
    """

    column: Floats
    row: Floats
    column_precision: Floats
    row_precision: Floats
    follows: Floats
    height: Floats


def _logits(
    pilot: Pilot, is_hit: Bools, is_counted: Bools, *, difference: bool, draws: int, rng: np.random.Generator
) -> Floats:
    """Return draws (draws, pairs) of the logit of each pair's probability of a hit.

    `is_hit` (n,) marks the annotations that are hits, and `is_counted` (n,) the annotations that are counted. If
    `difference` is true, a logit is the difference of two system effects plus a deviation of the pair. Otherwise it is
    the sum of a mean, two system effects and a deviation.
    """
    from scipy.sparse import csr_array

    n_pairs, n_systems = len(pilot.systems), int(pilot.systems.max(initial=-1)) + 1
    sign, n_entries = (-1, 2) if difference else (1, 3)
    columns = np.column_stack([pilot.systems, np.full(n_pairs, n_systems)])[:, :n_entries]
    design_entries = (
        np.tile([1.0, sign, 1.0][:n_entries], n_pairs),
        (np.repeat(np.arange(n_pairs), n_entries), columns.ravel()),
    )
    design = csr_array(design_entries, shape=(n_pairs, n_systems + n_entries - 2))
    pair, unit, is_counted_hit = pilot.pair[is_counted], pilot.unit[is_counted], is_hit[is_counted]
    n_hits, n_counted = (
        np.bincount(pairs, minlength=n_pairs).astype(np.float64) for pairs in (pair[is_counted_hit], pair)
    )
    annotation_weight = 1 / overlap(
        pilot.systems[pair], unit, is_counted_hit - (n_hits / np.maximum(n_counted, 1))[pair], sign
    )
    system_sd, row_sd = np.array(list(product(_SPREADS, _SPREADS))).T
    column_sd = np.column_stack(
        [np.tile(system_sd[:, np.newaxis], n_systems), np.full((len(row_sd), n_entries - 2), _WIDE)]
    )
    modes = _modes(n_hits * annotation_weight, n_counted * annotation_weight, design, column_sd, row_sd)
    grid_weights = np.exp(modes.height - modes.height.max())
    n_draws_by_point = rng.multinomial(draws, grid_weights / grid_weights.sum())
    logit_draws = [
        _draw_logits(modes, g, design, int(n_draws_by_point[g]), rng) for g in np.flatnonzero(n_draws_by_point).tolist()
    ]
    return np.asarray(rng.permutation(np.concatenate(logit_draws)))


def overlap(systems: Ints, unit: Ints, error: Floats, sign: int) -> float:
    """Return the variance inflation of system effects relative to independent annotations; it is at least 1.

    For each annotation, `systems` (n, 2) are its two systems, `unit` (n,) the cluster of its item, `error` (n,) the
    residual, and `sign` the sign of the second system in the model.
    """
    cells = systems.T.ravel() * (int(unit.max(initial=-1)) + 1) + np.tile(unit, 2)
    _, cell_index = np.unique(cells, return_inverse=True)
    cell_sums = np.bincount(cell_index, np.concatenate([error, sign * error]))
    independent_variance = 2 * (error**2).sum()
    return max(1.0, float((cell_sums**2).sum() / independent_variance)) if independent_variance else 1.0


def _modes(n_hits: Floats, n_counted: Floats, design: Any, column_sd: Floats, row_sd: Floats) -> _Modes:
    """Modes by Newton's method at each point of the grid of standard deviations `column_sd` (grid, columns) and
    `row_sd` (grid,).

    Deviations of rows are eliminated, so a step solves equations with one unknown per column.
    """
    from scipy.sparse import csr_array

    (n_points, n_columns), row_sd_column = column_sd.shape, row_sd[:, np.newaxis]
    n_entries = int(design.indptr[1])  # number of entries of each row
    column_indices, values = design.indices.reshape(-1, n_entries), design.data.reshape(-1, n_entries)
    product_columns = (column_indices[:, :, np.newaxis] * n_columns + column_indices[:, np.newaxis]).reshape(
        len(n_counted), -1
    )
    products = (values[:, :, np.newaxis] * values[:, np.newaxis]).reshape(len(n_counted), -1)
    entry_products = csr_array(
        (products.ravel(), product_columns.ravel(), np.arange(len(n_counted) + 1) * n_entries**2),
        shape=(len(n_counted), n_columns**2),
    )
    column_modes, row_modes = np.zeros((n_points, n_columns)), np.zeros((n_points, len(n_counted)))
    for _ in range(_STEPS):
        probability = 1 / (1 + np.exp(-(column_modes @ design.T + row_modes)))
        weight, residuals = n_counted * probability * (1 - probability), n_hits - n_counted * probability
        row_precision = weight + 1 / row_sd_column**2
        prior_precision = (_TAIL + 1) / (_TAIL * column_sd**2 + column_modes**2)
        precision = ((weight - weight**2 / row_precision) @ entry_products).reshape(n_points, n_columns, n_columns)
        precision[:, np.arange(n_columns), np.arange(n_columns)] += prior_precision
        row_gradient = residuals - row_modes / row_sd_column**2
        column_gradient = (residuals - weight / row_precision * row_gradient) @ design - column_modes * prior_precision
        column_step = np.linalg.solve(precision, column_gradient[:, :, np.newaxis])[:, :, 0]
        row_step = (row_gradient - weight * (column_step @ design.T)) / row_precision
        largest_step = np.maximum(np.abs(column_step).max(axis=1), np.abs(row_step).max(axis=1))[:, np.newaxis]
        step_scale = np.minimum(1.0, _LONGEST / np.maximum(largest_step, _NEAR))
        column_modes, row_modes = column_modes + step_scale * column_step, row_modes + step_scale * row_step
        if (largest_step < _NEAR).all():
            break
    logit = column_modes @ design.T + row_modes
    log_marginal = (n_hits * logit - n_counted * np.logaddexp(0, logit)).sum(axis=1)
    log_marginal -= (_TAIL + 1) / 2 * np.log1p((column_modes / column_sd) ** 2 / _TAIL).sum(axis=1) + np.log(
        column_sd
    ).sum(axis=1)
    log_marginal -= np.linalg.slogdet(precision)[1] / 2 + row_sd / _LIKELY
    log_marginal -= (
        ((row_modes / row_sd_column) ** 2).sum(axis=1) / 2
        + len(n_counted) * np.log(row_sd)
        + np.log(row_precision).sum(axis=1) / 2
    )
    return _Modes(column_modes, row_modes, precision, row_precision, weight / row_precision, log_marginal)


def _draw_logits(modes: _Modes, grid_index: int, design: Any, draws: int, rng: np.random.Generator) -> Floats:
    """Draws of the logits (draws, rows) at point `grid_index` of the grid."""
    # with precision = L L' and standard normal z, the solution x of L' x = z has covariance (L L')^-1
    root = np.linalg.cholesky(modes.column_precision[grid_index]).T
    effect_deviations = design @ np.linalg.solve(root, rng.standard_normal((len(root), draws)))
    pair_deviations = (
        rng.standard_normal(effect_deviations.shape) / np.sqrt(modes.row_precision[grid_index])[:, np.newaxis]
    )
    mode = ((design @ modes.column[grid_index]) + modes.row[grid_index])[:, np.newaxis]
    return np.asarray((mode + (1 - modes.follows[grid_index])[:, np.newaxis] * effect_deviations + pair_deviations).T)
