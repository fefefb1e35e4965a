"""Placement by verdicts over pairs x items: the reference for the computation from rows."""

from __future__ import annotations

import numpy as np

from custodes.stats import ABSENT
from custodes.stats.arrays import Ints, Signs, chunks
from custodes.stats.bootstrap import unit_sums
from custodes.stats.partiality.placement import (
    POWERS,
    SPREAD,
    Placement,
    bend_of,
    covariance,
    largest_block,
    sign_placement,
)
from custodes.stats.ratios import ratio
from custodes.stats.system_scores import common_items


def of_signs(human: Signs, metric: Signs, pairs: Ints, *, units: Ints) -> Placement:
    """Return rows from signs (pairs, items) and units (items,) where both raters have a verdict."""
    pair, item = np.nonzero((human != ABSENT) & (metric != ABSENT))
    return sign_placement(human[pair, item], metric[pair, item], pair, pairs, items=item, units=units[item])


def by_definition(human: Signs, metric: Signs, pairs: Ints, *, units: Ints) -> Placement:
    """Return the placement by signs (pairs, items) of humans and metric, pairs (pairs, 2) of system positions, and
    clusters units (items,). Places are probits of mean win rates, whose relation is linear for normal outputs."""
    from scipy.special import ndtri

    n_systems, n_units = int(pairs.max()) + 1, int(units.max()) + 1
    # Every opponent has equal weight whatever its number of comparisons; otherwise many comparisons with weak opponents
    # would raise a system.
    margins, influence = np.zeros((2, n_systems)), np.zeros((2, n_systems, n_units))
    opponents, comparisons, decided = np.zeros((3, n_systems))
    metric_sums = np.zeros((2, len(pairs)))  # the metric's margin and comparisons of each pair
    mask = np.zeros((len(units), n_systems), dtype=np.bool_)
    for block in chunks(len(pairs), 3 * human.shape[1]):
        common = (human[block] != ABSENT) & (metric[block] != ABSENT)
        sums = unit_sums(
            np.stack([np.where(common, human[block], 0), np.where(common, metric[block], 0), common]),
            units=units,
            n_units=n_units,
        )
        metric_sums[:, block] = sums[1:].sum(axis=2)
        number = sums[2].sum(axis=1)
        decided_rate = np.nan_to_num(ratio((common & (human[block] != 0)).sum(axis=1), number))
        rate = np.nan_to_num(ratio(sums[:2].sum(axis=2), number))
        influences = (sums[:2] - rate[..., None] * sums[2]) / np.maximum(number, 1)[:, None]
        for side, sign in enumerate((1, -1)):  # The second system has the opposite margin.
            systems = np.eye(n_systems)[:, pairs[block, side]]
            margins += sign * rate @ systems.T
            influence += sign * (systems @ influences)
            opponents += systems @ (number > 0)
            comparisons += systems @ number
            decided += systems @ decided_rate
            mask |= (common.T.astype(np.float32) @ systems.T.astype(np.float32)) > 0
    decided_margins = np.nan_to_num(ratio(margins[0], decided))
    margins, influence = margins / np.maximum(opponents, 1), influence / np.maximum(opponents, 1)[:, None]
    least = 0.5 / np.maximum(comparisons, 1)
    rates = np.clip((1 + margins) / 2, least, 1 - least)
    places = ndtri(rates)
    bend = bend_of(ndtri(np.clip((1 + decided_margins) / 2, least, 1 - least)), places[0])
    steep = np.sqrt(np.pi / 2) * np.exp(places**2 / 2)  # of the probit of a margin
    influence = steep[..., None] * influence
    human_influence, metrics = influence.transpose(0, 2, 1)
    won = np.full((n_systems, n_systems), np.nan)
    margin, compared = metric_sums
    least = 0.5 / np.maximum(compared, 1)
    rate = np.where(compared > 0, np.clip((1 + ratio(margin, compared)) / 2, least, 1 - least), np.nan)
    won[pairs[:, 0], pairs[:, 1]], won[pairs[:, 1], pairs[:, 0]] = rate, 1 - rate
    return Placement(
        human=places[0],
        metric=places[1],
        hh=covariance(human_influence, human_influence),
        hm=covariance(human_influence, metrics),
        mm=covariance(metrics, metrics),
        bend=bend,
        powers=np.stack([places[0] ** 2, places[0] ** 3]),
        powers_covariance=np.diag(np.square(POWERS)),
        spread=SPREAD,
        units=(unit_sums(mask.T, units=units, n_units=n_units) > 0).sum(axis=1),
        connected=largest_block(common_items(mask), np.asarray(mask.any(axis=0))),
        is_compared_with_all=opponents >= (opponents > 0).sum() - 1,
        advantage=ndtri(won),
        steepness=np.ones((n_systems, n_systems)),
    )
