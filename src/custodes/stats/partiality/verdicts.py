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

    n_systems, n_units, first, second = int(pairs.max()) + 1, int(units.max(initial=-1)) + 1, *pairs.T
    # Opponents have equal weights: otherwise a system that met weak opponents more often would look better.
    number, won = _by(pair, None, len(pairs)), [_by(pair, signs, len(pairs)) for signs in (human, metric)]
    rate = np.nan_to_num(ratio(np.stack(won), number))
    opponents, comparisons = (
        _by(first, per_pair, n_systems) + _by(second, per_pair, n_systems) for per_pair in (number > 0, number)
    )
    margins = np.stack([_by(first, rater_rate, n_systems) - _by(second, rater_rate, n_systems) for rater_rate in rate])
    margins = margins / np.maximum(opponents, 1)
    least = 0.5 / np.maximum(comparisons, 1)
    places = ndtri(np.clip((1 + margins) / 2, least, 1 - least))
    steep = np.sqrt(np.pi / 2) * np.exp(places**2 / 2)  # derivative of the probit of a margin
    # the influence of each cluster and pair on the positions of the pair's two systems
    cells, place = np.unique(pair.astype(np.int64) * max(1, n_units) + units, return_inverse=True)
    cell_pair, unit = cells // max(1, n_units), cells % max(1, n_units)
    a, b, count = first[cell_pair], second[cell_pair], _by(place, None, len(cells))
    moves = []
    for side, signs in enumerate((human, metric)):
        moved = (_by(place, signs, len(cells)) - rate[side, cell_pair] * count) / np.maximum(number[cell_pair], 1)
        weight = steep[side] / np.maximum(opponents, 1)
        values = np.concatenate([moved * weight[a], -moved * weight[b]])
        influence = csr_array((values, (np.tile(unit, 2), np.concatenate([a, b]))), shape=(n_units, n_systems))
        influence.eliminate_zeros()
        moves.append(influence)
    of_people, of_metric = moves
    seen = np.ones(2 * len(pair))
    both = np.concatenate([first[pair], second[pair]])
    by_item = csr_array((seen, (np.tile(items, 2), both)), shape=(int(items.max(initial=-1)) + 1, n_systems))
    by_unit = csr_array((seen, (np.tile(units, 2), both)), shape=(n_units, n_systems))
    return Placement(
        human=places[0],
        metric=places[1],
        hh=_covariance(of_people, of_people),
        hm=_covariance(of_people, of_metric),
        mm=_covariance(of_metric, of_metric),
        powers=np.stack([places[0] ** 2, places[0] ** 3]),
        powers_covariance=np.diag(np.square(POWERS)),
        spread=SPREAD,
        units=np.bincount(by_unit.indices, minlength=n_systems),
        connected=largest_block((by_item.T @ by_item).toarray() > 0, np.bincount(both, minlength=n_systems) > 0),
        met=opponents >= (opponents > 0).sum() - 1,
        advantage=ndtri(_won(won[1], number, pairs, n_systems)),
        steepness=np.ones((n_systems, n_systems)),
    )


def _by(of: Ints, values: Any, n: int) -> Floats:
    """Return the sums (n,) of values by position `of` (m,); counts if `values` is None."""
    return np.bincount(of, weights=values, minlength=n).astype(np.float64)


def _covariance(first: Any, second: Any) -> Floats:
    """Return the covariance (systems, systems) of sums over units, given two sparse influences (units, systems)."""
    n = int((np.diff(first.indptr) > 0).sum())
    return np.asarray((first.T @ second).toarray() * (n / max(n - 1, 1)))


def _won(margin: Floats, number: Floats, pairs: Ints, n_systems: int) -> Floats:
    """Return the proportion (systems, systems) of comparisons in which the metric prefers the first system.

    The proportion is NaN if the two systems were never compared.
    """
    won = np.full((n_systems, n_systems), np.nan)
    least = 0.5 / np.maximum(number, 1)
    rate = np.where(number > 0, np.clip((1 + ratio(margin, number)) / 2, least, 1 - least), np.nan)
    won[pairs[:, 0], pairs[:, 1]], won[pairs[:, 1], pairs[:, 0]] = rate, 1 - rate
    return won
