"""Partiality: does a metric place a system higher than its quality, as people see it, explains?

A fair metric sees every output through one link: what it says depends on how good the output is, not on who wrote it.
So its means of systems lie on one curve over people's means, and a system off the curve of the others is favoured.
Three things must not be taken for favour: people's noise (their means are known up to an error), curvature of the link,
and the favour of another system, which bends the curve. Constants were chosen on simulated studies; how often the test
errs on these and on others stands in docs/explanation/statistics.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Bools, Floats, Ints
from custodes.stats.partiality.placement import Placement
from custodes.stats.ratios import ratio

FEWEST_SYSTEMS = 5
"""To name a system takes three others that fix a line and a fourth that may itself be the favoured one."""

FEWEST_UNITS = 10
"""Clusters of items behind a system: with fewer its own error is not known."""

# Standard deviations of outputs between the best (or worst) system and the next: then nothing is of like quality.
_APART = 1.5
_LEVEL = 1e-9  # means that differ by no more say nothing
_MOST_NOISE = 0.8  # of the variance of people's means; beyond that their slope is not corrected further


class Untold(IntEnum):
    """Why nothing can be said of a system."""

    TOLD = 0
    FEW_SYSTEMS = 1
    FEW_UNITS = 2
    APART = 3
    UNCONNECTED = 4
    LEVEL = 5
    END = 6
    UNRATED = 7
    UNMET = 8
    STILL = 9


class Partiality(NamedTuple):
    """For every metric and system, (metrics, systems): `shift`, by how much the metric places it above its quality, in
    the unit of the placement, with `low`, `high` and `p_value` of one test; `p_adjusted` for all metrics and systems,
    and for any one other system being favoured instead; `untold` (of `Untold`) why there is none."""

    shift: Floats
    low: Floats
    high: Floats
    p_value: Floats
    p_adjusted: Floats
    untold: NDArray[np.int8]


def partiality(
    placements: Sequence[Placement], *, alpha: float, confidence: float, systems: Sequence[int] | None = None
) -> Partiality:
    """Which metric is partial to which system, beyond what its accuracy, its curvature and people's noise explain.

    A system is left out, the curve of metric over people fitted through the others (errors in both), and its distance
    tested by Student's t. The clearest is named first and leaves the curve, then the next (Holm over all metrics and
    systems); it must stay clear (at `alpha`) whichever one other system is left out too. Only some `systems` are
    tested where their positions are given; the others fix the curve.

    >>> from custodes.stats.partiality.scores import score_placement
    >>> rng = np.random.default_rng(0)
    >>> quality = np.linspace(-1, 1, 6) + rng.normal(size=(80, 6))
    >>> persons = quality + rng.normal(size=(3, 80, 6))
    >>> metric = quality + rng.normal(size=(80, 6)) + np.array([0, 0, 0, 1, 0, 0])
    >>> placement = score_placement(persons, metric, units=np.arange(80))
    >>> found = partiality([placement], alpha=0.05, confidence=0.95)
    >>> np.flatnonzero(found.p_adjusted[0] <= 0.05).tolist()
    [3]

    Source: ours. Errors in variables: Fuller 1987; regression calibration: Carroll et al. 2006.
    """
    states = [_State.of(placement, systems) for placement in placements]
    shape = (len(states), len(placements[0].human) if placements else 0)
    values = np.full((5, *shape), np.nan)
    untold = np.array([state.untold for state in states], dtype=np.int8).reshape(shape)

    def record(m: int, s: int, distance: _Distance, adjusted: float) -> None:
        values[:, m, s] = distance.shift, *distance.interval(confidence), distance.p_value, adjusted

    left = sum(len(state.open) for state in states)
    highest = 0.0
    while True:
        ready = [(own.p_value, m, s) for m, state in enumerate(states) for s, own in state.nameable()]
        p, m, s = min(ready, default=(1.0, 0, 0))
        if not ready or p * left > alpha:
            break
        rival = states[m].rival(s)
        if rival > alpha:
            states[m].rivals[s] = rival
            continue
        highest = max(highest, p * left, rival)
        record(m, s, states[m].distances[s], highest)
        states[m].name(s)
        left -= 1
    for m, state in enumerate(states):
        for s, own in state.distances.items():
            if len(state.curve) < FEWEST_SYSTEMS:  # once some are named, too few fix the curve
                untold[m, s] = Untold.FEW_SYSTEMS
            elif np.isnan(own.p_value):
                untold[m, s] = Untold.STILL
            else:
                record(m, s, own, min(1.0, max(highest, own.p_value * left, state.rivals.get(s, 0.0))))
    shift, low, high, p_value, p_adjusted = values
    return Partiality(shift, low, high, p_value, p_adjusted, untold)


def win_rate_without(placement: Placement, shift: Floats) -> tuple[Floats, Ints, Ints]:
    """(systems,): the part of each system's win rate by the metric that is owed to its `shift`, its rank by win rate,
    and its rank without the shift; NaN shifts count as 0.

    Win rates are those of the data; how a shift moves them is taken from a normal law of differences, so that ties and
    steps of a coarse metric do not matter.
    """
    from scipy.special import ndtr

    off = ~np.eye(len(shift), dtype=np.bool_)
    known = np.isfinite(placement.advantage) & off
    moved = placement.advantage - np.nan_to_num(shift)[:, None] * placement.steepness
    won, kept = (np.where(known, ndtr(values), 0.0) for values in (placement.advantage, moved))
    met = np.where(known.any(axis=1), known.sum(axis=1), 1)
    rates, own = won.sum(axis=1) / met, kept.sum(axis=1) / met
    # What one system loses without its shift, the others gain against it.
    others = rates + (won - kept) / met[None, :]
    rank = 1 + (rates[None, :] > rates[:, None] + 1e-12).sum(axis=1)
    return rates - own, rank, 1 + ((others > own[:, None] + 1e-12) & off).sum(axis=1)


@dataclass(kw_only=True)
class _Distance:
    """How far a system lies from the curve of the others."""

    shift: float
    error: float
    freedom: int

    @cached_property
    def p_value(self) -> float:
        from scipy.special import stdtr

        return float(2 * stdtr(self.freedom, -abs(self.shift) / self.error)) if self.error > 0 else np.nan

    def interval(self, confidence: float) -> tuple[float, float]:
        from scipy.special import stdtrit

        half = float(stdtrit(self.freedom, (1 + confidence) / 2)) * self.error
        return self.shift - half, self.shift + half


@dataclass(kw_only=True)
class _State:
    """One metric while its partial systems are named: `curve` the systems that fix the curve, `open` those that may
    still be named, `rivals` the p-value of a system that another one explains as well."""

    placement: Placement
    untold: NDArray[np.int8]
    curve: list[int]
    open: list[int]
    distances: dict[int, _Distance] = field(default_factory=dict)
    rivals: dict[int, float] = field(default_factory=dict)

    @classmethod
    def of(cls, placement: Placement, asked: Sequence[int] | None) -> _State:
        untold = np.full(len(placement.human), Untold.TOLD, dtype=np.int8)
        untold[placement.units < FEWEST_UNITS] = Untold.FEW_UNITS
        untold[~placement.met] = Untold.UNMET
        untold[~placement.connected] = Untold.UNCONNECTED
        untold[placement.units == 0] = Untold.UNRATED
        told = untold == Untold.TOLD
        if told.any() and min(np.ptp(places[told]) for places in (placement.human, placement.metric)) < _LEVEL:
            untold[told] = Untold.LEVEL
        known = np.flatnonzero(untold == Untold.TOLD)
        left: list[int] = known[np.argsort(placement.human[known], kind="stable")].tolist()
        fixed: list[int] = []  # named by nobody, but the curve needs them
        if len(left) >= FEWEST_SYSTEMS:
            reach, places = _APART * placement.spread, placement.human[left]
            for side, gaps in ((0, np.diff(places)), (-1, np.diff(places)[::-1])):
                if gaps[0] > reach:
                    far = left.pop(side)
                    untold[far] = Untold.APART
                    # where the next stands off as well, or hardly any are left
                    if gaps[1] > reach or len(left) < FEWEST_SYSTEMS:
                        fixed.append(far)
        else:
            untold[left] = Untold.FEW_SYSTEMS
            left = []
        curve = sorted([*left, *fixed], key=lambda s: placement.human[s])
        if placement.bends:  # at the ends a bend of unknown size and favour are one thing
            for end in {*curve[:1], *curve[-1:]} - {*fixed}:
                untold[end] = Untold.END
                left.remove(end)
        tested = left if asked is None else [s for s in left if s in asked]
        state = cls(placement=placement, untold=untold, curve=sorted(curve), open=sorted(tested))
        state.measure()
        return state

    def measure(self) -> None:
        own = np.array(self.open, dtype=np.intp)
        self.distances = dict(zip(self.open, self.distance(own, self.curved_without(own)), strict=True))

    def curved_without(self, *left_out: Ints) -> Bools:
        """(k, systems): the systems of the curve without those left out, (k,) each."""
        others = np.zeros((len(left_out[0]), len(self.untold)), dtype=np.bool_)
        others[:, self.curve] = True
        for own in left_out:
            others[np.arange(len(own)), own] = False
        return others

    def distance(self, tested: Ints, others: Bools) -> list[_Distance]:
        shift, error = _left_out(self.placement, tested, others)
        freedom = self.placement.units[tested] - 1
        made = zip(shift.tolist(), error.tolist(), freedom.tolist(), strict=True)
        return [_Distance(shift=own, error=doubt, freedom=free) for own, doubt, free in made]

    def nameable(self) -> list[tuple[int, _Distance]]:
        if len(self.curve) < FEWEST_SYSTEMS:
            return []
        return [(s, own) for s, own in self.distances.items() if s not in self.rivals and np.isfinite(own.p_value)]

    def rival(self, s: int) -> float:
        """The largest p-value of s when one other system is left out of the curve as well."""
        others = np.array([t for t in self.curve if t != s], dtype=np.intp)
        own = np.full(len(others), s)
        p_values = [found.p_value for found in self.distance(own, self.curved_without(own, others))]
        return float(np.nan_to_num(p_values, nan=1.0).max())

    def name(self, s: int) -> None:
        self.curve.remove(s)
        self.open.remove(s)
        self.rivals.clear()
        self.measure()


def _left_out(placement: Placement, tested: Ints, others: Bools) -> tuple[Floats, Floats]:
    """The distances of systems (k,) from curves through others (k, systems), and their standard errors."""
    shift, error = np.full((2, len(tested)), np.nan)
    if len(tested):
        bent = placement.curvature
        curved = np.where(others, bent, -np.inf).max(axis=1) - np.where(others, bent, np.inf).min(axis=1) > 1e-9
        curved &= placement.trust > 0
        for with_curve in (False, True):
            at = np.flatnonzero(curved == with_curve)
            if at.size:
                shift[at], error[at] = _from_curve(placement, tested[at], others[at], curved=with_curve)
    return shift, error


def _from_curve(placement: Placement, tested: Ints, others: Bools, *, curved: bool) -> tuple[Floats, Floats]:
    """The same where all curves have the same terms."""
    own, inside = np.arange(len(tested)), others.astype(np.float64)
    n = inside.sum(axis=1)

    def centred(values: Floats) -> Floats:
        """(k, systems): values (k, systems) around the mean of the others."""
        return np.asarray(values - ((values * inside).sum(axis=1) / n)[:, np.newaxis])

    def spread(values: Floats) -> Floats:
        """(k, 1): the standard deviation of the others."""
        return np.asarray(np.sqrt((centred(values) ** 2 * inside).sum(axis=1) / n)[:, np.newaxis])

    def quadratic(matrix: Floats, vectors: Floats) -> Floats:
        """(k,): of one matrix (systems, systems) and vectors (k, systems)."""
        return np.asarray(((vectors @ matrix) * vectors).sum(axis=1))

    human = np.broadcast_to(placement.human, others.shape)
    unit = spread(human)
    unit = np.where(unit > 0, unit, 1.0)
    y, bent, scale = placement.metric, np.broadcast_to(placement.curvature, others.shape), unit[:, 0]
    # The expected sums of squared deviations of noise from its mean.
    noise, shared, metric = (
        inside @ values.diagonal() - quadratic(values, inside) / n
        for values in (placement.hh, placement.hm, placement.mm)
    )
    noise, shared = noise / scale**2, shared / scale
    x = centred(human / unit)
    rows, height = [x], np.ones(len(tested))
    if curved:
        rows.append(centred(bent) / (high := spread(bent)))
        height = high[:, 0]
    if placement.bends and n[0] > len(rows) + 1:
        rows.append(centred(x**2))
    terms = np.stack(rows, axis=1)  # (k, terms, systems)
    design, target = terms * inside[:, np.newaxis], terms[own, :, tested]
    left, right = design @ design.transpose(0, 2, 1), design @ y
    # People's means scatter more than the systems do, by their noise: take it off, or the slope is too flat.
    spared = np.minimum(noise, _MOST_NOISE * left[:, 0, 0])
    slope = np.nan_to_num(ratio(right[:, 0] - shared, left[:, 0, 0] - spared))
    left[:, 0, 0] -= spared
    right[:, 0] -= np.where(noise > 0, shared * np.nan_to_num(ratio(spared, noise)), 0.0)
    if curved:
        scatter = (metric - 2 * slope * shared + slope**2 * noise) / (n - 1)
        left[:, 1, 1] += scatter / (placement.trust * height) ** 2
    solved = np.linalg.pinv(left, hermitian=True)
    fitted = (solved @ right[..., np.newaxis])[..., 0]
    slope = fitted[:, 0] / scale
    weights = inside / n[:, np.newaxis] + ((target[:, np.newaxis] @ solved) @ design)[:, 0]
    shift = y[tested] - (inside @ y) / n - (target * fitted).sum(axis=1)
    contrast = np.where(others, -weights, 0.0)
    contrast[own, tested] = 1.0
    variance = (
        quadratic(placement.mm, contrast)
        - 2 * slope * quadratic(placement.hm, contrast)
        + slope**2 * quadratic(placement.hh, contrast)
    )
    doubt = placement.trust * (contrast @ placement.curvature) if curved else 0.0
    error = np.sqrt(np.maximum(variance, 0.0) + doubt**2)
    return shift, np.where(error > _LEVEL * float(np.ptp(y)), error, np.nan)
