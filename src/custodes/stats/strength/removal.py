"""The smallest number of comparisons whose removal changes the strongest system."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

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
    counted_battles = battles.select_rows(battles.is_usable)
    kinds = count_by_kind(counted_battles, counted_battles.weight * counted_battles.multiplicity)
    n_of_outcome = count_by_kind(counted_battles, counted_battles.multiplicity).outcomes
    estimate = strengths.draws[0]
    leader = int(np.nanargmax(round_for_sorting(estimate)))
    component_systems = np.flatnonzero(strengths.component == strengths.component[leader])
    n_pairs = len(np.unique(kinds.first * len(estimate) + kinds.second))
    if len(component_systems) < 2 or not strengths.bounded[leader] or n_pairs > MOST_PAIRS:
        return None
    mean_weight = np.nan_to_num(ratio(kinds.outcomes, n_of_outcome))
    ties_are_half = bool(np.isnan(strengths.ties[0]))
    first_fit = _refit(kinds, strengths.component, ties_are_half=ties_are_half)
    if first_fit is None:
        return None
    candidates = [
        int(system)
        for system in component_systems[np.argsort(-round_for_sorting(estimate[component_systems]), kind="stable")]
        if system != leader
    ]
    costs = [_select_removals(first_fit, mean_weight, n_of_outcome, leader, system)[1] for system in candidates]
    cheapest_rivals = [candidates[cost_rank] for cost_rank in np.argsort(costs, kind="stable")[:_CANDIDATES]]
    removals = [
        Removal(leader=leader, successor=successor, number=n_removed)
        for system in cheapest_rivals
        if (
            result := _search(
                kinds,
                mean_weight,
                n_of_outcome,
                first_fit,
                leader,
                system,
                strengths.component,
                ties_are_half=ties_are_half,
            )
        )
        for successor, n_removed in [result]
    ]
    return min(removals, key=lambda removal: removal.number, default=None)


def _search(
    kinds: BattleCounts,
    mean_weight: Floats,
    n_of_outcome: Floats,
    current_fit: Fit,
    leader: int,
    rival: int,
    component: Ints,
    *,
    ties_are_half: bool,
) -> tuple[int, int] | None:
    """Return the leader after removals in favour of `rival` and the number of removals; None if no removal helps."""
    n_left, n_removed = n_of_outcome.copy(), 0
    while True:
        order, n_needed = _select_removals(current_fit, mean_weight, n_left, leader, rival)
        if not np.isfinite(n_needed):
            return None
        n_step = max(1, int(n_needed) // 2)
        n_available = n_left.ravel()[order]
        n_taken = np.clip(n_step - (np.cumsum(n_available) - n_available), 0, n_available)
        n_left = n_left.copy()
        n_left.ravel()[order] -= n_taken
        n_removed += int(n_taken.sum())
        new_fit = _refit(replace(kinds, outcomes=mean_weight * n_left), component, ties_are_half=ties_are_half)
        if new_fit is None:
            return None
        current_fit = new_fit
        strength = np.where(component == component[leader], current_fit.coefficients[: len(component)], -np.inf)
        successor = int(strength.argmax())
        if strength[successor] - strength[leader] > _SAME:
            return successor, n_removed


def _refit(kinds: BattleCounts, component: Ints, *, ties_are_half: bool) -> Fit | None:
    """Return the fit, with a penalty if necessary; None if no battle was won or lost."""
    if not kinds.outcomes[:, [0, 2]].any():
        return None
    unpenalised_fit = fit(kinds, component=component, ties_are_half=ties_are_half, penalised=False)
    return (
        fit(kinds, component=component, ties_are_half=ties_are_half, penalised=True)
        if unpenalised_fit is None
        else unpenalised_fit
    )


def _select_removals(
    current_fit: Fit, mean_weight: Floats, n_of_outcome: Floats, leader: int, rival: int
) -> tuple[Ints, float]:
    """Return the comparisons to remove in favour of `rival` and the number that a linear approximation requires.

    The comparisons are flat positions in (kinds, outcomes), sorted by the effect of removing one comparison.
    """
    direction = current_fit.inverse[leader] - current_fit.inverse[rival]
    n_design = current_fit.design.shape[1]
    residual = current_fit.residual(current_fit.coefficients)
    gain = residual[:, :, 0] * (current_fit.design @ direction[:n_design])[:, np.newaxis]
    if current_fit.has_ties:
        gain = gain + residual[:, :, 1] * direction[-1]
    gain = round_for_sorting(np.where(n_of_outcome > 0, mean_weight * gain, 0.0).ravel())
    gain_order = np.argsort(-gain, kind="stable")
    gain_order = gain_order[gain[gain_order] > 0]
    strength_gap = max(0.0, current_fit.coefficients[leader] - current_fit.coefficients[rival] - _SAME)
    cumulative_gain = np.cumsum(gain[gain_order] * n_of_outcome.ravel()[gain_order])
    n_complete = int(np.searchsorted(cumulative_gain, strength_gap))
    if n_complete == len(gain_order):
        return gain_order, np.inf
    gain_before = (
        cumulative_gain[n_complete] - gain[gain_order[n_complete]] * n_of_outcome.ravel()[gain_order[n_complete]]
    )
    n_before = n_of_outcome.ravel()[gain_order[:n_complete]].sum()
    return gain_order, float(n_before + np.ceil((strength_gap - gain_before) / gain[gain_order[n_complete]] - _SAME))
