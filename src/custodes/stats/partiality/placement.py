"""Placement: position of every system by human ratings and by one metric, with sampling covariances.

`sign_placement` is the placement by verdicts: the win rate of each system against all opponents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from custodes.stats.arrays import Bools, Floats, Ints, Signs
from custodes.stats.bootstrap import unit_sums
from custodes.stats.ratios import ratio
from custodes.stats.system_scores import blocks_of

POWERS = (0.5, 0.2)
"""Prior standard deviations of the link's coefficients for squared and cubed quality.

The coefficients are in normal scores of the metric, and quality has a standard deviation of 1.
"""


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Position of every system by human ratings and by one metric.

    - `human` and `metric` (systems,) are the positions. `hh`, `hm` and `mm` (systems, systems) are their sampling
      covariances.
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


def bounded_probit(proportions: Floats, n: Floats) -> Floats:
    """Return the probit (...) of proportions (...) of `n` observations, at least half an observation away from 0 and
    1."""
    from scipy.special import ndtri

    margin = 0.5 / np.maximum(n, 1)
    return np.asarray(ndtri(np.clip(proportions, margin, 1 - margin)))


def largest_block(is_connected: Bools, is_present: Bools) -> Bools:
    """Return whether each system (systems,) is present and in the largest set that `is_connected` connects.

    `is_connected` (systems, systems) marks the pairs with a direct connection, `is_present` (systems,) the present
    systems.
    """
    component_of_system = blocks_of(is_connected)
    return np.asarray((component_of_system == np.bincount(component_of_system).argmax()) & is_present)


def bend_of(latent_positions: Floats, positions: Floats) -> Floats:
    """Return scaled latent positions minus positions (systems,), both centred; the scale is fitted by least squares.

    Positions by human ratings compress the differences of systems near a bound. A metric may or may not compress these
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

    `pair_of_comparison`, `items` and `units` (n,) are the pair, item and cluster of each comparison. `pair_systems`
    (pairs, 2) are the two systems of each pair. The position of a system is the probit of its mean win rate. On the
    probit scale, the link is straight if outputs vary normally.
    """
    from scipy.sparse import csr_array

    n_pairs, n_systems = len(pair_systems), int(pair_systems.max()) + 1
    first_systems, second_systems = pair_systems.T
    # (pairs, systems): 1 for the first and -1 for the second system of the pair
    pair_contrasts = csr_array(
        (np.repeat([1.0, -1.0], n_pairs), (np.tile(np.arange(n_pairs), 2), pair_systems.T.ravel())),
        shape=(n_pairs, n_systems),
    )

    def sum_by_pair(rows: Ints, values: Any) -> Any:
        """Return the sums (rows, pairs) of values (n,), or of one value for every comparison, as a sparse array."""
        return csr_array(
            (np.broadcast_to(values, rows.shape).astype(np.float64), (rows, pair_of_comparison)),
            shape=(int(rows.max(initial=-1)) + 1, n_pairs),
        )

    counts_of_unit, counts_of_item = sum_by_pair(units, 1.0), sum_by_pair(items, 1.0)
    signs_of_unit = [sum_by_pair(units, verdicts) for verdicts in (human_verdicts, metric_verdicts)]
    n_comparisons_of_pair, *sign_sums = (table.sum(axis=0) for table in (counts_of_unit, *signs_of_unit))
    mean_signs = np.nan_to_num(ratio(np.stack(sign_sums), n_comparisons_of_pair))
    # Human ties compress the differences of the best (or worst) systems if many outputs are equally good (or bad).
    decided_rates = np.nan_to_num(ratio(sum_by_pair(units, human_verdicts != 0).sum(axis=0), n_comparisons_of_pair))
    n_opponents, n_comparisons, n_decided_opponents = np.stack(
        [n_comparisons_of_pair > 0, n_comparisons_of_pair, decided_rates]
    ) @ abs(pair_contrasts)
    # Opponents have equal weights: otherwise a system that met weak opponents more often would look better.
    margins = mean_signs @ pair_contrasts / np.maximum(n_opponents, 1)
    positions = bounded_probit((1 + margins) / 2, n_comparisons)
    decided_margins = np.nan_to_num(ratio(margins[0] * n_opponents, n_decided_opponents))
    # derivative of the probit of a margin with respect to the mean sign of each pair
    probit_slopes = np.sqrt(np.pi / 2) * np.exp(positions**2 / 2) / np.maximum(n_opponents, 1)
    human_influence, metric_influence = (
        (signs - counts_of_unit.multiply(means)).multiply(1 / np.maximum(n_comparisons_of_pair, 1)).tocsr()
        @ pair_contrasts.multiply(slopes).tocsr()
        for signs, means, slopes in zip(signs_of_unit, mean_signs, probit_slopes, strict=True)
    )
    outputs_of_item = counts_of_item @ abs(pair_contrasts)
    advantage = np.full((n_systems, n_systems), np.nan)  # NaN if the two systems were never compared
    advantage[first_systems, second_systems] = bounded_probit(
        (1 + ratio(sign_sums[1], n_comparisons_of_pair)) / 2, n_comparisons_of_pair
    )
    advantage[second_systems, first_systems] = -advantage[first_systems, second_systems]
    return Placement(
        human=positions[0],
        metric=positions[1],
        hh=covariance(human_influence, human_influence),
        hm=covariance(human_influence, metric_influence),
        mm=covariance(metric_influence, metric_influence),
        bend=bend_of(bounded_probit((1 + decided_margins) / 2, n_comparisons), positions[0]),
        powers=np.stack([positions[0] ** 2, positions[0] ** 3]),
        powers_covariance=np.diag(np.square(POWERS)),
        spread=SPREAD,
        units=np.asarray((counts_of_unit @ abs(pair_contrasts) > 0).sum(axis=0)),
        connected=largest_block((outputs_of_item.T @ outputs_of_item).toarray() > 0, n_comparisons > 0),
        is_compared_with_all=n_opponents >= (n_opponents > 0).sum() - 1,
        advantage=advantage,
        steepness=np.ones((n_systems, n_systems)),
    )
