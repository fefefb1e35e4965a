"""Placement by scores: metrics beside people, on the outputs that both rated."""

from __future__ import annotations

import numpy as np

from custodes.stats.agreement.ranks import mid_ranks
from custodes.stats.arrays import Bools, Floats, Ints, unit_of
from custodes.stats.partiality.people import Effects, Side, level, side_of, two_way
from custodes.stats.partiality.placement import Placement, by_unit, covariance
from custodes.stats.ratios import ratio

_CURVE_TRUST = 0.2  # relative error of the curvature seen within systems, where people's noise is known
_CURVE_TRUST_BLIND = 2.0  # where it is not: noise hides curvature
_SAME = 1e-9  # a scatter that is none


def score_placement(persons: Floats, metric: Floats, *, units: Ints) -> Placement:
    """From scores: persons (people, items, systems), metric (items, systems), NaN where not rated; units (items,) the
    clusters.

    The metric's scores become normal scores of their ranks over all outputs, so that no unit and no outlier matters;
    people's are divided by a unit of their own.
    """
    return ScoredPeople(persons, units=units).placement(metric)


class ScoredPeople:
    """People's scores, beside which metrics are placed as in `score_placement`: what people say of the outputs that a
    metric scored is found once for one metric after the other that scored the same."""

    def __init__(self, persons: Floats, *, units: Ints) -> None:
        self._counted = np.isfinite(persons).sum(axis=0)
        self._persons = level(persons / unit_of(persons))
        self._units = units
        self._side: Side | None = None

    def placement(self, metric: Floats) -> Placement:
        """Of a metric (items, systems), NaN where it has no score."""
        from scipy.special import ndtri

        mask = (self._counted > 0) & np.isfinite(metric)
        mask &= mask.sum(axis=1, keepdims=True) > 1
        side = self._side
        if side is None or not np.array_equal(side.mask, mask):
            self._side = side = side_of(self._persons, self._counted, mask, self._units)
        n, cells = side.n, mask.astype(np.float64)
        seen = np.where(mask, _normal_scores(metric, mask), 0.0)
        own = two_way(seen, mask)
        curved = _curved(side, own)
        metrics = by_unit(curved.influence, self._units)
        apart = ratio(seen.T @ cells - cells.T @ seen, n)
        rate = _win_rates(seen, mask, n)
        squares = ratio((seen**2).T @ cells + cells.T @ seen**2 - 2 * seen.T @ seen, n)
        scatter = np.sqrt(np.maximum(squares - apart**2, 0.0))
        # Copies differ by nothing, and a shift would move them by all.
        usual = scatter[scatter > _SAME]
        scatter = np.maximum(scatter, (np.median(usual) if usual.size else 1.0) / 4)
        return Placement(
            human=side.effects,
            metric=own.effects - curved.effects,
            hh=side.covariance,
            hm=covariance(side.people, metrics),
            mm=covariance(metrics, metrics),
            curvature=curved.effects,
            trust=_CURVE_TRUST if side.noise_known else _CURVE_TRUST_BLIND,
            bends=not side.noise_known,
            spread=side.spread,
            units=side.units,
            connected=side.connected,
            met=np.ones(len(n), dtype=np.bool_),
            advantage=ndtri(np.clip(rate, 0.5 / np.maximum(n, 1), 1 - 0.5 / np.maximum(n, 1))),
            steepness=1 / scatter,
        )


def _win_rates(scores: Floats, mask: Bools, n: Floats) -> Floats:
    """(systems, systems): how often the first has the higher score of an item that both have, half for a tie; `n` of
    these items."""
    won = np.empty(n.shape)
    for s, own in enumerate(scores.T):
        both, own = mask & mask[:, [s]], own[:, None]
        won[s] = ((own > scores) & both).sum(axis=0) + 0.5 * ((own == scores) & both).sum(axis=0)
    return ratio(won, n)


def _curved(side: Side, own: Effects) -> Effects:
    """What the curved part of the link adds to the metric's mean of each system, and the influence of what remains."""
    bend = side.bend
    if bend is None:
        return Effects(np.zeros_like(own.effects), own.residuals, own.influence)
    fitted = bend.inverse @ np.einsum("jis,is->j", bend.regressors, own.residuals)
    unexplained = own.residuals - np.tensordot(fitted, bend.regressors, 1)
    error = (bend.inverse @ np.einsum("kis,is->ki", bend.regressors, unexplained))[1:]
    influence = own.influence - np.tensordot(fitted[1:], bend.influence, 1) - error.T @ bend.effects
    # The curved part leans on the mean of the system as quality does.
    leaning = np.nan_to_num(ratio(fitted[1:] @ bend.slopes, side.mask.sum(axis=0))) * bend.noise
    left = influence - (leaning - leaning.mean(axis=1, keepdims=True))
    return Effects(fitted[1:] @ bend.effects, unexplained, np.asarray(left))


def _normal_scores(values: Floats, mask: Bools) -> Floats:
    """Normal quantiles of mid-ranks over the mask; 0 elsewhere."""
    from scipy.special import ndtri

    scores = np.zeros(values.shape)
    if mask.any():
        scores[mask] = ndtri((mid_ranks(values[mask]) - 0.5) / mask.sum())
    return scores
