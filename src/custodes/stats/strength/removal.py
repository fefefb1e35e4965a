"""The smallest number of comparisons whose removal changes the strongest system."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from custodes.stats.arrays import Floats, Ints, up_to_rounding
from custodes.stats.ratios import ratio
from custodes.stats.strength.battles import BattleCounts, Battles, count_by_kind
from custodes.stats.strength.davidson import Fit, fit
from custodes.stats.strength.more_battles import MOST_PAIRS
from custodes.stats.strength.strengths import Strengths

_CANDIDATES = 2
"""Number of candidates for the new leader: the systems that need the fewest removals by a linear approximation."""
_SAME = 1e-9  # smaller differences of log odds are rounding errors


@dataclass(frozen=True, kw_only=True)
class Removal:
    """A removal of comparisons that changes the leader.

    `leader` is the strongest system before the removal, `successor` the strongest system after the removal, and
    `number` the number of removed comparisons.
    """

    leader: int
    successor: int
    number: int


def smallest_removal(battles: Battles, strengths: Strengths) -> Removal | None:
    """Return the smallest removal of comparisons that was found to make another system the strongest.

    The comparisons with the largest influence on the difference between the leader and a candidate are removed in
    steps. Each step removes half of the number that a linear approximation requires, and then the model is refitted.
    The true minimum may be lower than the number found. The result is None if the leader's strength is finite only
    because of a penalty, if the leader's component has no other system, or if there are more than `MOST_PAIRS` pairs.

    References
    ----------
    Broderick, Giordano and Meager 2020 (influence of removed data); Huang, Shen, Wei and Broderick 2025 (leaderboards).

    Examples
    --------
    >>> from custodes.stats.strength.strengths import strengths
    >>> battles = Battles(
    ...     first=np.zeros(100, dtype=int), second=np.ones(100, dtype=int), unit=np.arange(100), weight=np.ones(100),
    ...     sign=np.repeat([1, -1], [53, 47]).astype(np.int8), covariates=np.empty((100, 0)),
    ... )
    >>> fit = strengths(battles, n_systems=2, ties="davidson", resamples=0, rng=np.random.default_rng(0))
    >>> smallest_removal(battles, fit)
    Removal(leader=0, successor=1, number=7)
    """
    rows = battles.where(battles.counted)
    same = count_by_kind(rows, rows.weight * rows.often)
    number = count_by_kind(rows, rows.often).outcomes
    estimate = strengths.draws[0]
    leader = int(np.nanargmax(up_to_rounding(estimate)))
    others = np.flatnonzero(strengths.component == strengths.component[leader])
    n_pairs = len(np.unique(same.first * len(estimate) + same.second))
    if len(others) < 2 or not strengths.bounded[leader] or n_pairs > MOST_PAIRS:
        return None
    weight = np.nan_to_num(ratio(same.outcomes, number))
    half = bool(np.isnan(strengths.ties[0]))
    first = _refit(same, strengths.component, half=half)
    if first is None:
        return None
    candidates = [
        int(system)
        for system in others[np.argsort(-up_to_rounding(estimate[others]), kind="stable")]
        if system != leader
    ]
    costs = [_removed(first, weight, number, leader, system)[1] for system in candidates]
    nearest = [candidates[place] for place in np.argsort(costs, kind="stable")[:_CANDIDATES]]
    removals = [
        Removal(leader=leader, successor=successor, number=count)
        for system in nearest
        if (result := _search(same, weight, number, first, leader, system, strengths.component, half=half))
        for successor, count in [result]
    ]
    return min(removals, key=lambda removal: removal.number, default=None)


def _search(
    same: BattleCounts,
    weight: Floats,
    number: Floats,
    current: Fit,
    leader: int,
    rival: int,
    component: Ints,
    *,
    half: bool,
) -> tuple[int, int] | None:
    """Return the leader after removals in favour of `rival` and the number of removals; None if no removal helps."""
    left, count = number.copy(), 0
    while True:
        order, needed = _removed(current, weight, left, leader, rival)
        if not np.isfinite(needed):
            return None
        step = max(1, int(needed) // 2)
        available = left.ravel()[order]
        taken = np.clip(step - (np.cumsum(available) - available), 0, available)
        left = left.copy()
        left.ravel()[order] -= taken
        count += int(taken.sum())
        refitted = _refit(replace(same, outcomes=weight * left), component, half=half)
        if refitted is None:
            return None
        current = refitted
        strength = np.where(component == component[leader], current.coefficients[: len(component)], -np.inf)
        successor = int(strength.argmax())
        if strength[successor] - strength[leader] > _SAME:
            return successor, count


def _refit(same: BattleCounts, component: Ints, *, half: bool) -> Fit | None:
    """Return the fit, with a penalty if necessary; None if no battle was won or lost."""
    if not same.outcomes[:, [0, 2]].any():
        return None
    plain = fit(same, component=component, ties_are_half=half, penalised=False)
    return fit(same, component=component, ties_are_half=half, penalised=True) if plain is None else plain


def _removed(current: Fit, weight: Floats, number: Floats, leader: int, rival: int) -> tuple[Ints, float]:
    """Return the comparisons to remove in favour of `rival` and the number that a linear approximation requires.

    The comparisons are flat positions in (kinds, outcomes), sorted by the effect of removing one comparison.
    """
    direction = current.inverse[leader] - current.inverse[rival]
    width = current.design.shape[1]
    residual = current.residual(current.coefficients)
    gain = residual[:, :, 0] * (current.design @ direction[:width])[:, np.newaxis]
    if current.has_ties:
        gain = gain + residual[:, :, 1] * direction[-1]
    gain = up_to_rounding(np.where(number > 0, weight * gain, 0.0).ravel())
    order = np.argsort(-gain, kind="stable")
    order = order[gain[order] > 0]
    gap = max(0.0, current.coefficients[leader] - current.coefficients[rival] - _SAME)
    reached = np.cumsum(gain[order] * number.ravel()[order])
    place = int(np.searchsorted(reached, gap))
    if place == len(order):
        return order, np.inf
    before = reached[place] - gain[order[place]] * number.ravel()[order[place]]
    counts = number.ravel()[order[:place]].sum()
    return order, float(counts + np.ceil((gap - before) / gain[order[place]] - _SAME))
