"""The smallest number of comparisons whose removal changes the strongest system."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from custodes.errors import InputError
from custodes.stats.arrays import Floats, Ints, round_for_sorting
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
    """A removal of `number` comparisons, after which the system `successor` is the strongest."""

    successor: int
    number: int


def smallest_removal(battles: Battles, strengths: Strengths) -> Removal | None:
    """Search for the smallest set of comparisons whose removal makes another system the strongest; return the best set
    found.

    The comparisons with the largest influence on the difference between the leader and a candidate are removed in
    steps. A linear approximation gives the number of comparisons that must be removed, and each step removes half of
    this number. If even all comparisons that favour the leader have too small a sum, the step removes half of them.
    Then the model is refitted. The true minimum may be lower than the number found. The result is None in three cases.
    The leader's strength is finite only because of a penalty, the leader's component has no other system, or there are
    more than `MOST_PAIRS` pairs.

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
    Removal(successor=1, number=7)
    """
    counted_battles = battles.select_rows(battles.is_usable)
    battle_counts = count_by_kind(counted_battles, counted_battles.weight * counted_battles.multiplicity)
    n_battles_of_outcome = count_by_kind(counted_battles, counted_battles.multiplicity).outcomes
    estimated_strengths = strengths.draws[0]
    leader = int(np.nanargmax(round_for_sorting(estimated_strengths)))
    component_systems = np.flatnonzero(strengths.component == strengths.component[leader])
    n_pairs = len(np.unique(battle_counts.first * len(estimated_strengths) + battle_counts.second))
    if len(component_systems) < 2 or not strengths.bounded[leader] or n_pairs > MOST_PAIRS:
        return None
    mean_weight_of_outcome = np.nan_to_num(ratio(battle_counts.outcomes, n_battles_of_outcome))
    ties_are_half = bool(np.isnan(strengths.ties[0]))
    first_fit = _refit(battle_counts, strengths.component, ties_are_half=ties_are_half)
    if first_fit is None:
        return None
    ranked_systems = component_systems[
        np.argsort(-round_for_sorting(estimated_strengths[component_systems]), kind="stable")
    ]
    rivals = sorted(
        (rival for rival in ranked_systems.tolist() if rival != leader),
        key=lambda rival: _select_removals(first_fit, mean_weight_of_outcome, n_battles_of_outcome, leader, rival)[1],
    )
    removals = [
        _search_removal(
            battle_counts,
            mean_weight_of_outcome,
            n_battles_of_outcome,
            first_fit,
            leader,
            rival,
            strengths.component,
            ties_are_half=ties_are_half,
        )
        for rival in rivals[:_CANDIDATES]
    ]
    return min(filter(None, removals), key=lambda removal: removal.number, default=None)


def _search_removal(
    battle_counts: BattleCounts,
    mean_weight_of_outcome: Floats,
    n_battles_of_outcome: Floats,
    first_fit: Fit | None,
    leader: int,
    rival: int,
    component: Ints,
    *,
    ties_are_half: bool,
) -> Removal | None:
    """Return a removal in favour of `rival`; None if no removal helps."""
    n_remaining_of_outcome, new_fit = n_battles_of_outcome.copy(), first_fit
    while new_fit is not None:
        removal_order, n_needed_removals = _select_removals(
            new_fit, mean_weight_of_outcome, n_remaining_of_outcome, leader, rival
        )
        if not len(removal_order):
            return None
        n_removable_in_order = n_remaining_of_outcome.ravel()[removal_order]
        n_step_removals = max(1, int(min(n_needed_removals, n_removable_in_order.sum())) // 2)
        n_taken_in_order = np.clip(
            n_step_removals - (np.cumsum(n_removable_in_order) - n_removable_in_order), 0, n_removable_in_order
        )
        n_remaining_of_outcome.ravel()[removal_order] -= n_taken_in_order
        new_fit = _refit(
            replace(battle_counts, outcomes=mean_weight_of_outcome * n_remaining_of_outcome),
            component,
            ties_are_half=ties_are_half,
        )
        coefficients = np.zeros(len(component)) if new_fit is None else new_fit.coefficients[: len(component)]
        component_strengths = np.where(component == component[leader], coefficients, -np.inf)
        successor = int(component_strengths.argmax())
        if component_strengths[successor] - component_strengths[leader] > _SAME:
            return Removal(successor=successor, number=int((n_battles_of_outcome - n_remaining_of_outcome).sum()))
    return None


def _refit(battle_counts: BattleCounts, component: Ints, *, ties_are_half: bool) -> Fit | None:
    """Return the fit, with a penalty if necessary. None if no battle was won or lost, or if battles no longer connect
    the systems."""
    if not battle_counts.outcomes[:, [0, 2]].any():
        return None
    fit_counts = partial(fit, battle_counts, component=component, ties_are_half=ties_are_half)
    try:
        return fit_counts(penalised=False) or fit_counts(penalised=True)
    except InputError:
        return None


def _select_removals(
    current_fit: Fit, mean_weight_of_outcome: Floats, n_battles_of_outcome: Floats, leader: int, rival: int
) -> tuple[Ints, float]:
    """Return the comparisons to remove in favour of `rival` and the number that a linear approximation requires.

    The comparisons are flat positions in (kinds, outcomes), sorted by the effect of removing one comparison.
    """
    inverse_contrast = current_fit.inverse[leader] - current_fit.inverse[rival]
    residuals = current_fit.residual(current_fit.coefficients)
    strength_gains = (
        residuals[:, :, 0] * (current_fit.design @ inverse_contrast)[:, np.newaxis]
        + residuals[:, :, 1] * inverse_contrast[-1]
    )
    strength_gains = round_for_sorting(
        np.where(n_battles_of_outcome > 0, mean_weight_of_outcome * strength_gains, 0.0).ravel()
    )
    removal_order = np.argsort(-strength_gains, kind="stable")[: (strength_gains > 0).sum()]
    gains, n_battles = strength_gains[removal_order], n_battles_of_outcome.ravel()[removal_order]
    strength_gap = max(0.0, current_fit.coefficients[leader] - current_fit.coefficients[rival] - _SAME)
    cumulative_gain = np.cumsum(gains * n_battles)
    n_complete_outcomes = int(np.searchsorted(cumulative_gain, strength_gap))
    if n_complete_outcomes == len(removal_order):
        return removal_order, np.inf
    surplus_gain = cumulative_gain[n_complete_outcomes] - strength_gap
    n_unneeded = np.floor(surplus_gain / gains[n_complete_outcomes] + _SAME)
    return removal_order, float(n_battles[: n_complete_outcomes + 1].sum() - n_unneeded)
