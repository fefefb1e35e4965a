"""Placement: position of every system by human ratings and by one metric, with sampling covariances.

`sign_placement` is the placement by verdicts: the win rate of each system against all opponents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from custodes.stats.arrays import Bools, Floats, Ints, Signs, table_sums
from custodes.stats.bootstrap import unit_sums
from custodes.stats.ratios import ratio
from custodes.stats.system_scores import blocks_of, common_items

POWERS = (0.5, 0.2)
"""Prior standard deviations of the link's coefficients for squared and cubed quality.

The coefficients are in normal scores of the metric, and quality has a standard deviation of 1.
"""


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Position of every system by human ratings and by one metric.

    - `human`, `metric` (systems,): the positions, with sampling covariances `hh`, `hm`, `mm` (systems, systems).
    - `bend` (systems,): possible curvature of the link because human ratings have bounds, see `bend_of`.
    - `powers` (powers, systems): mean of squared and of cubed quality of each system. The effect of these powers
    through the link, as estimated within systems, is already subtracted from `metric`.
    - `powers_covariance` (powers, powers): covariance of the errors of the link's coefficients for `powers`.
    - `spread`: standard deviation of outputs of one system.
    - `units` (systems,): number of clusters with outputs of the system.
    - `connected` (systems,): whether the system belongs to the largest set of systems that common items connect.
    - `is_compared_with_all` (systems,): whether the system was compared with all connected systems.
    - `advantage` (systems, systems): how strongly the metric prefers the system of the row to the system of the column,
      as a normal deviate.
    - `steepness` (systems, systems): increase of `advantage` per unit of `metric`.
    """

    human: Floats
    metric: Floats
    hh: Floats
    hm: Floats
    mm: Floats
    bend: Floats
    powers: Floats
    powers_covariance: Floats
    spread: float
    units: Ints
    connected: Bools
    is_compared_with_all: Bools
    advantage: Floats
    steepness: Floats


def sum_by_unit(influence: Floats, units: Ints) -> Floats:
    """Return the sums (units, systems) of `influence` (items, systems) over the items of each unit."""
    return unit_sums(influence.T, units=units, n_units=int(units.max()) + 1).T


def covariance(first_influence: Any, second_influence: Any) -> Floats:
    """Return the covariance (systems, systems) of sums over units, given two influences (units, systems), which may be
    sparse."""
    n_influential_units = int((abs(first_influence).sum(axis=1) > 0).sum())
    products: Any = first_influence.T @ second_influence
    dense_products = products if isinstance(products, np.ndarray) else products.toarray()
    return np.asarray(dense_products * (n_influential_units / max(n_influential_units - 1, 1)))


def count_clusters(output_mask: Bools, units: Ints) -> Ints:
    """Return the number (systems,) of clusters that contain an output of the system."""
    return np.asarray((unit_sums(output_mask.T, units=units, n_units=int(units.max()) + 1) > 0).sum(axis=1))


def connected_systems(output_mask: Bools) -> Bools:
    """Return whether each system (systems,) belongs to the largest set of systems that are connected by common items.

    `output_mask` (items, systems) marks the outputs that exist.
    """
    return largest_block(common_items(output_mask), np.asarray(output_mask.any(axis=0)))


def largest_block(is_connected: Bools, is_present: Bools) -> Bools:
    """Return whether each system (systems,) is present and in the largest set that `is_connected` connects.

    `is_connected` (systems, systems) marks the pairs with a direct connection, `is_present` (systems,) the present
    systems.
    """
    component_of_system = blocks_of(is_connected)
    return np.asarray((component_of_system == np.bincount(component_of_system).argmax()) & is_present)


def bend_of(latent_positions: Floats, positions: Floats) -> Floats:
    """Return scaled latent positions minus positions (systems,), both centred; the scale is fitted by least squares.

    Positions by human ratings compress the differences of systems near a bound. A metric need not compress these
    differences, so the curve of a fair metric lies between positions and latent positions. The result is 0 if positions
    and latent positions are not positively correlated.

    >>> bend_of(np.array([-2.0, 0.0, 2.0]), np.array([-1.0, 0.0, 1.0])).tolist()
    [0.0, 0.0, 0.0]
    """
    latent_deviations, deviations = latent_positions - latent_positions.mean(), positions - positions.mean()
    product_sum = float(latent_deviations @ deviations)
    least_squares_scale = float(deviations @ deviations) / product_sum if product_sum > 0 else 0.0
    return latent_deviations * least_squares_scale - deviations if least_squares_scale else np.zeros(len(positions))


SPREAD = 0.55
"""Standard deviation of outputs of one system, on the probit scale of win rates."""


def sign_placement(
    human_verdicts: Signs,
    metric_verdicts: Signs,
    pair_of_comparison: Ints,
    pair_systems: Ints,
    *,
    items: Ints,
    units: Ints,
) -> Placement:
    """Return the placement from the verdicts (n,) of annotators and of a metric on the same comparisons.

    `pair_of_comparison`, `items` and `units` (n,) are the pair, item and cluster of each comparison; `pair_systems`
    (pairs, 2) are the two systems of each pair. The position of a system is the probit of its mean win rate. On the
    probit scale, the link is straight if outputs vary normally.
    """
    from scipy.sparse import csr_array
    from scipy.special import ndtri

    n_systems, n_units, first_systems, second_systems = (
        int(pair_systems.max()) + 1,
        int(units.max(initial=-1)) + 1,
        *pair_systems.T,
    )
    # Opponents have equal weights: otherwise a system that met weak opponents more often would look better.
    n_comparisons_of_pair, sign_sums_by_rater = (
        table_sums(pair_of_comparison, shape=(len(pair_systems),)),
        [
            table_sums(pair_of_comparison, shape=(len(pair_systems),), weights=rater_signs)
            for rater_signs in (human_verdicts, metric_verdicts)
        ],
    )
    mean_signs_by_rater = np.nan_to_num(ratio(np.stack(sign_sums_by_rater), n_comparisons_of_pair))
    n_opponents, n_comparisons = (
        table_sums(first_systems, shape=(n_systems,), weights=pair_masks_or_counts)
        + table_sums(second_systems, shape=(n_systems,), weights=pair_masks_or_counts)
        for pair_masks_or_counts in (n_comparisons_of_pair > 0, n_comparisons_of_pair)
    )
    system_margins_by_rater = np.stack(
        [
            table_sums(first_systems, shape=(n_systems,), weights=mean_signs_of_rater)
            - table_sums(second_systems, shape=(n_systems,), weights=mean_signs_of_rater)
            for mean_signs_of_rater in mean_signs_by_rater
        ]
    )
    system_margins_by_rater = system_margins_by_rater / np.maximum(n_opponents, 1)
    smallest_win_rate = 0.5 / np.maximum(n_comparisons, 1)
    positions_by_rater = ndtri(np.clip((1 + system_margins_by_rater) / 2, smallest_win_rate, 1 - smallest_win_rate))
    # Human ties compress the differences of the best (or worst) systems if many outputs are equally good (or bad).
    decided_rate_of_pair = np.nan_to_num(
        ratio(
            table_sums(pair_of_comparison, shape=(len(pair_systems),), weights=human_verdicts != 0),
            n_comparisons_of_pair,
        )
    )
    n_decided_opponents = table_sums(first_systems, shape=(n_systems,), weights=decided_rate_of_pair) + table_sums(
        second_systems, shape=(n_systems,), weights=decided_rate_of_pair
    )
    decided_margins = np.nan_to_num(ratio(system_margins_by_rater[0] * n_opponents, n_decided_opponents))
    bend = bend_of(
        ndtri(np.clip((1 + decided_margins) / 2, smallest_win_rate, 1 - smallest_win_rate)), positions_by_rater[0]
    )
    probit_slopes = np.sqrt(np.pi / 2) * np.exp(positions_by_rater**2 / 2)  # derivative of the probit of a margin
    # the influence of each cluster and pair on the positions of the pair's two systems
    cell_codes, cell_of_comparison = np.unique(
        pair_of_comparison.astype(np.int64) * n_units + units, return_inverse=True
    )
    pair_of_cell, unit_of_cell = cell_codes // n_units, cell_codes % n_units
    first_system_of_cell, second_system_of_cell, n_comparisons_of_cell = (
        first_systems[pair_of_cell],
        second_systems[pair_of_cell],
        table_sums(cell_of_comparison, shape=cell_codes.shape),
    )
    influence_matrices = []
    for rater_index, rater_signs in enumerate((human_verdicts, metric_verdicts)):
        deviation_of_cell = (
            table_sums(cell_of_comparison, shape=cell_codes.shape, weights=rater_signs)
            - mean_signs_by_rater[rater_index, pair_of_cell] * n_comparisons_of_cell
        ) / np.maximum(n_comparisons_of_pair[pair_of_cell], 1)
        influence_weight_of_system = probit_slopes[rater_index] / np.maximum(n_opponents, 1)
        influence_values = np.concatenate(
            [
                deviation_of_cell * influence_weight_of_system[first_system_of_cell],
                -deviation_of_cell * influence_weight_of_system[second_system_of_cell],
            ]
        )
        influence_matrix = csr_array(
            (
                influence_values,
                (np.tile(unit_of_cell, 2), np.concatenate([first_system_of_cell, second_system_of_cell])),
            ),
            shape=(n_units, n_systems),
        )
        influence_matrices.append(influence_matrix)
    human_influence, metric_influence = influence_matrices
    appearance_entries = np.ones(2 * len(pair_of_comparison))
    system_of_appearance = np.concatenate([first_systems[pair_of_comparison], second_systems[pair_of_comparison]])
    appearances_by_item = csr_array(
        (appearance_entries, (np.tile(items, 2), system_of_appearance)),
        shape=(int(items.max(initial=-1)) + 1, n_systems),
    )
    appearances_by_unit = csr_array(
        (appearance_entries, (np.tile(units, 2), system_of_appearance)), shape=(n_units, n_systems)
    )
    return Placement(
        human=positions_by_rater[0],
        metric=positions_by_rater[1],
        hh=covariance(human_influence, human_influence),
        hm=covariance(human_influence, metric_influence),
        mm=covariance(metric_influence, metric_influence),
        bend=bend,
        powers=np.stack([positions_by_rater[0] ** 2, positions_by_rater[0] ** 3]),
        powers_covariance=np.diag(np.square(POWERS)),
        spread=SPREAD,
        units=np.bincount(appearances_by_unit.indices, minlength=n_systems),
        connected=largest_block(
            (appearances_by_item.T @ appearances_by_item).toarray() > 0,
            np.bincount(system_of_appearance, minlength=n_systems) > 0,
        ),
        is_compared_with_all=n_opponents >= (n_opponents > 0).sum() - 1,
        advantage=ndtri(_win_proportions(sign_sums_by_rater[1], n_comparisons_of_pair, pair_systems, n_systems)),
        steepness=np.ones((n_systems, n_systems)),
    )


def _win_proportions(sign_sums: Floats, n_comparisons: Floats, pair_systems: Ints, n_systems: int) -> Floats:
    """Return the proportion (systems, systems) of comparisons in which the metric prefers the first system.

    The proportion is NaN if the two systems were never compared.
    """
    proportion_matrix = np.full((n_systems, n_systems), np.nan)
    smallest_proportion = 0.5 / np.maximum(n_comparisons, 1)
    win_proportion_of_pair = np.where(
        n_comparisons > 0,
        np.clip((1 + ratio(sign_sums, n_comparisons)) / 2, smallest_proportion, 1 - smallest_proportion),
        np.nan,
    )
    (
        proportion_matrix[pair_systems[:, 0], pair_systems[:, 1]],
        proportion_matrix[pair_systems[:, 1], pair_systems[:, 0]],
    ) = (
        win_proportion_of_pair,
        1 - win_proportion_of_pair,
    )
    return proportion_matrix
