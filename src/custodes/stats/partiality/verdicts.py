"""Placement by verdicts: the win rate of each system against all opponents."""

from __future__ import annotations

from typing import Any

import numpy as np

from custodes.stats.arrays import Floats, Ints, Signs
from custodes.stats.partiality.placement import POWERS, Placement, largest_block
from custodes.stats.ratios import ratio

SPREAD = 0.55
"""Standard deviation of outputs of one system, on the probit scale of win rates."""


def sign_placement(human: Signs, metric: Signs, pair: Ints, pairs: Ints, *, items: Ints, units: Ints) -> Placement:
    """Return the placement from the verdicts (n,) of annotators and of a metric on the same comparisons.

    `pair`, `items` and `units` (n,) are the pair, item and cluster of each comparison; `pairs` (pairs, 2) are the two
    systems of each pair. The position of a system is the probit of its mean win rate. On this scale, the link is
    straight if outputs vary normally.
    """
    from scipy.sparse import csr_array
    from scipy.special import ndtri

    n_systems, n_units, first_system, second_system = int(pairs.max()) + 1, int(units.max(initial=-1)) + 1, *pairs.T
    # Opponents have equal weights: otherwise a system that met weak opponents more often would look better.
    n_comparisons_of_pair, sign_sums = (
        _by(pair, None, len(pairs)),
        [_by(pair, signs, len(pairs)) for signs in (human, metric)],
    )
    mean_signs = np.nan_to_num(ratio(np.stack(sign_sums), n_comparisons_of_pair))
    n_opponents, n_comparisons = (
        _by(first_system, pair_counts, n_systems) + _by(second_system, pair_counts, n_systems)
        for pair_counts in (n_comparisons_of_pair > 0, n_comparisons_of_pair)
    )
    margins = np.stack(
        [
            _by(first_system, rater_rate, n_systems) - _by(second_system, rater_rate, n_systems)
            for rater_rate in mean_signs
        ]
    )
    margins = margins / np.maximum(n_opponents, 1)
    smallest_rate = 0.5 / np.maximum(n_comparisons, 1)
    positions = ndtri(np.clip((1 + margins) / 2, smallest_rate, 1 - smallest_rate))
    slopes = np.sqrt(np.pi / 2) * np.exp(positions**2 / 2)  # derivative of the probit of a margin
    # the influence of each cluster and pair on the positions of the pair's two systems
    cells, cell_of_comparison = np.unique(pair.astype(np.int64) * max(1, n_units) + units, return_inverse=True)
    cell_pair, unit = cells // max(1, n_units), cells % max(1, n_units)
    a, b, n_in_cell = first_system[cell_pair], second_system[cell_pair], _by(cell_of_comparison, None, len(cells))
    influences = []
    for rater_index, signs in enumerate((human, metric)):
        mean_deviation = (
            _by(cell_of_comparison, signs, len(cells)) - mean_signs[rater_index, cell_pair] * n_in_cell
        ) / np.maximum(n_comparisons_of_pair[cell_pair], 1)
        weight = slopes[rater_index] / np.maximum(n_opponents, 1)
        influence_values = np.concatenate([mean_deviation * weight[a], -mean_deviation * weight[b]])
        influence = csr_array(
            (influence_values, (np.tile(unit, 2), np.concatenate([a, b]))), shape=(n_units, n_systems)
        )
        influence.eliminate_zeros()
        influences.append(influence)
    human_influence, metric_influence = influences
    ones = np.ones(2 * len(pair))
    both_systems = np.concatenate([first_system[pair], second_system[pair]])
    by_item = csr_array((ones, (np.tile(items, 2), both_systems)), shape=(int(items.max(initial=-1)) + 1, n_systems))
    by_unit = csr_array((ones, (np.tile(units, 2), both_systems)), shape=(n_units, n_systems))
    return Placement(
        human=positions[0],
        metric=positions[1],
        hh=_covariance(human_influence, human_influence),
        hm=_covariance(human_influence, metric_influence),
        mm=_covariance(metric_influence, metric_influence),
        powers=np.stack([positions[0] ** 2, positions[0] ** 3]),
        powers_covariance=np.diag(np.square(POWERS)),
        spread=SPREAD,
        units=np.bincount(by_unit.indices, minlength=n_systems),
        connected=largest_block(
            (by_item.T @ by_item).toarray() > 0, np.bincount(both_systems, minlength=n_systems) > 0
        ),
        met=n_opponents >= (n_opponents > 0).sum() - 1,
        advantage=ndtri(_win_proportions(sign_sums[1], n_comparisons_of_pair, pairs, n_systems)),
        steepness=np.ones((n_systems, n_systems)),
    )


def _by(positions: Ints, values: Any, n: int) -> Floats:
    """Return the sums (n,) of `values` (m,) with equal `positions` (m,), or the counts of positions if `values` is
    None."""
    return np.bincount(positions, weights=values, minlength=n).astype(np.float64)


def _covariance(first_influence: Any, second_influence: Any) -> Floats:
    """Return the covariance (systems, systems) of sums over units, given two sparse influences (units, systems)."""
    n_units = int((np.diff(first_influence.indptr) > 0).sum())
    return np.asarray((first_influence.T @ second_influence).toarray() * (n_units / max(n_units - 1, 1)))


def _win_proportions(margin: Floats, n_comparisons: Floats, pairs: Ints, n_systems: int) -> Floats:
    """Return the proportion (systems, systems) of comparisons in which the metric prefers the first system.

    The proportion is NaN if the two systems were never compared.
    """
    rate_matrix = np.full((n_systems, n_systems), np.nan)
    smallest_rate = 0.5 / np.maximum(n_comparisons, 1)
    rate = np.where(
        n_comparisons > 0, np.clip((1 + ratio(margin, n_comparisons)) / 2, smallest_rate, 1 - smallest_rate), np.nan
    )
    rate_matrix[pairs[:, 0], pairs[:, 1]], rate_matrix[pairs[:, 1], pairs[:, 0]] = rate, 1 - rate
    return rate_matrix
