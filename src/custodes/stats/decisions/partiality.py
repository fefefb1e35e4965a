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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats import ABSENT
from custodes.stats.agreement.system_scores import blocks_of, common_items
from custodes.stats.arrays import Bools, Floats, Ints, Signs, chunks
from custodes.stats.ratios import ratio
from custodes.stats.resampling.resample import unit_sums

FEWEST_SYSTEMS = 5
"""To name a system takes three others that fix a line and a fourth that may itself be the favoured one."""

FEWEST_UNITS = 10
"""Clusters of items behind a system: with fewer its own error is not known."""

_APART = (
    1.5  # standard deviations of outputs between the best (or worst) system and the next: nothing is of like quality
)
_SIGN_SPREAD = 0.55  # the same standard deviation where only verdicts are known, on the probit scale of win rates
_REPEATED = 20  # repeated human ratings from which their noise is known
_CURVE_TRUST = 0.2  # relative error of the curvature seen within systems, where people's noise is known
_CURVE_TRUST_BLIND = 2.0  # where it is not: noise hides curvature
_TASTE_LEVEL = 0.99  # of an F test that people have tastes for systems; an allowance for none would cost power
_TAIL = 0.997  # about Holm's bound for eight systems
_KNOTS = 5
_KNOT_RANGE = (0.01, 0.99)
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


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Where people and one metric place every system: `human` and `metric` (systems,), their sampling covariances
    `hh`, `hm`, `mm` (systems, systems). `curvature` (systems,): what the curved part of the link, seen within
    systems, adds to the metric's means (already taken off `metric`), trusted up to a relative error `trust`;
    `bends` where people's noise is unknown, so that the curve over the systems must show its own curvature.
    `spread`: standard deviation of the quality of outputs of one system. `units` (systems,): clusters behind each;
    `connected` (systems,): joined to the others by common items; `met` (systems,): compared with all of these.
    `advantage` (systems, systems): by how much the metric prefers the first of two, as a normal deviate;
    `steepness`: what one unit of `metric` adds to it."""

    human: Floats
    metric: Floats
    hh: Floats
    hm: Floats
    mm: Floats
    curvature: Floats
    trust: float
    bends: bool
    spread: float
    units: Ints
    connected: Bools
    met: Bools
    advantage: Floats
    steepness: Floats


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


def score_placement(persons: Floats, metric: Floats, *, units: Ints) -> Placement:
    """From scores: persons (people, items, systems), metric (items, systems), NaN where not rated; units (items,) the
    clusters.

    The metric's scores become normal scores of their ranks over all outputs, so that no unit and no outlier matters.
    """
    from scipy.special import ndtri

    counted = np.isfinite(persons).sum(axis=0)
    persons = _level(persons)
    mask = (counted > 0) & np.isfinite(metric)
    mask &= mask.sum(axis=1, keepdims=True) > 1
    human = np.where(mask, np.nan_to_num(persons).sum(axis=0) / np.maximum(counted, 1), 0.0)
    seen = np.where(mask, _normal_scores(metric, mask), 0.0)
    own, of_people = _two_way(seen, mask), _two_way(human, mask)
    noise, taste = _noise(persons, counted, mask)
    quality, within, spread = _quality(human, of_people, mask, 0.0 if noise is None else noise)
    curved = _curved(quality, within, mask, own, of_people)
    people, metrics = (_by_unit(influence, units) for influence in (of_people.influence, curved.influence))
    cells = mask.astype(np.float64)
    n = cells.T @ cells
    apart = ratio(seen.T @ cells - cells.T @ seen, n)
    rate = _win_rates(seen, mask)
    squares = ratio((seen**2).T @ cells + cells.T @ seen**2 - 2 * seen.T @ seen, n)
    scatter = np.sqrt(np.maximum(squares - apart**2, 0.0))
    # Copies differ by nothing, and a shift would move them by all.
    usual = scatter[scatter > _LEVEL]
    scatter = np.maximum(scatter, (np.median(usual) if usual.size else 1.0) / 4)
    return Placement(
        human=of_people.effects,
        metric=own.effects - curved.effects,
        hh=_covariance(people, people) + taste * np.eye(len(taste)),
        hm=_covariance(people, metrics),
        mm=_covariance(metrics, metrics),
        curvature=curved.effects,
        trust=_CURVE_TRUST_BLIND if noise is None else _CURVE_TRUST,
        bends=noise is None,
        spread=spread,
        units=_units_behind(mask, units),
        connected=_connected(mask),
        met=np.ones(len(n), dtype=np.bool_),
        advantage=ndtri(np.clip(rate, 0.5 / np.maximum(n, 1), 1 - 0.5 / np.maximum(n, 1))),
        steepness=1 / scatter,
    )


def sign_placement(human: Signs, metric: Signs, pairs: Ints, *, units: Ints) -> Placement:
    """From verdicts: signs (pairs, items) of people and metric; pairs (pairs, 2) positions of the two systems; units
    (items,) the clusters.

    Places are probits of mean win rates, on which the link is straight if outputs vary normally.
    """
    from scipy.special import ndtri

    n_systems, n_units = int(pairs.max()) + 1, int(units.max()) + 1
    # Every opponent counts the same, however often it was met: else who met the weak more often would look good.
    margins, influence = np.zeros((2, n_systems)), np.zeros((2, n_systems, n_units))
    opponents, comparisons = np.zeros((2, n_systems))
    own = np.zeros((2, len(pairs)))  # the metric's margin and comparisons of each pair
    mask = np.zeros((len(units), n_systems), dtype=np.bool_)
    for block in chunks(len(pairs), 3 * human.shape[1]):
        both = (human[block] != ABSENT) & (metric[block] != ABSENT)
        sums = unit_sums(
            np.stack([np.where(both, human[block], 0), np.where(both, metric[block], 0), both]),
            units=units,
            n_units=n_units,
        )
        own[:, block] = sums[1:].sum(axis=2)
        number = sums[2].sum(axis=1)
        rate = np.nan_to_num(ratio(sums[:2].sum(axis=2), number))
        moved = (sums[:2] - rate[..., None] * sums[2]) / np.maximum(number, 1)[:, None]
        for side, sign in enumerate((1, -1)):  # a second system has the opposite margin
            systems = np.eye(n_systems)[:, pairs[block, side]]
            margins += sign * rate @ systems.T
            influence += sign * (systems @ moved)
            opponents += systems @ (number > 0)
            comparisons += systems @ number
            mask |= (both.T.astype(np.float32) @ systems.T.astype(np.float32)) > 0
    margins, influence = margins / np.maximum(opponents, 1), influence / np.maximum(opponents, 1)[:, None]
    least = 0.5 / np.maximum(comparisons, 1)
    rates = np.clip((1 + margins) / 2, least, 1 - least)
    places = ndtri(rates)
    steep = np.sqrt(np.pi / 2) * np.exp(places**2 / 2)  # of the probit of a margin
    influence = steep[..., None] * influence
    people, metrics = influence.transpose(0, 2, 1)
    won = np.full((n_systems, n_systems), np.nan)
    margin, compared = own
    least = 0.5 / np.maximum(compared, 1)
    rate = np.where(compared > 0, np.clip((1 + ratio(margin, compared)) / 2, least, 1 - least), np.nan)
    won[pairs[:, 0], pairs[:, 1]], won[pairs[:, 1], pairs[:, 0]] = rate, 1 - rate
    return Placement(
        human=places[0],
        metric=places[1],
        hh=_covariance(people, people),
        hm=_covariance(people, metrics),
        mm=_covariance(metrics, metrics),
        curvature=np.zeros(n_systems),
        trust=0.0,
        bends=True,
        spread=_SIGN_SPREAD,
        units=_units_behind(mask, units),
        connected=_connected(mask),
        met=opponents >= (opponents > 0).sum() - 1,
        advantage=ndtri(won),
        steepness=np.ones((n_systems, n_systems)),
    )


def partiality(placements: Sequence[Placement], *, alpha: float, confidence: float) -> Partiality:
    """Which metric is partial to which system, beyond what its accuracy, its curvature and people's noise explain.

    A system is left out, the curve of metric over people fitted through the others (errors in both), and its distance
    tested by Student's t. The clearest is named first and leaves the curve, then the next (Holm over all metrics and
    systems); it must stay clear (at `alpha`) whichever one other system is left out too.

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
    states = [_State.of(placement) for placement in placements]
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


class _Effects(NamedTuple):
    """Of a two-way fit (item + system): effects (..., systems), what is left (..., items, systems), and what each item
    adds to the error of the effects (..., items, systems)."""

    effects: Floats
    residuals: Floats
    influence: Floats


@dataclass(kw_only=True)
class _Distance:
    """How far a system lies from the curve of the others."""

    shift: float
    error: float
    freedom: int

    @property
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
    def of(cls, placement: Placement) -> _State:
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
        state = cls(placement=placement, untold=untold, curve=sorted(curve), open=sorted(left))
        state.measure()
        return state

    def measure(self) -> None:
        self.distances = {s: self.distance(s, [t for t in self.curve if t != s]) for s in self.open}

    def distance(self, s: int, others: Sequence[int]) -> _Distance:
        shift, error = _left_out(self.placement, s, np.array(others))
        return _Distance(shift=shift, error=error, freedom=int(self.placement.units[s]) - 1)

    def nameable(self) -> list[tuple[int, _Distance]]:
        if len(self.curve) < FEWEST_SYSTEMS:
            return []
        return [(s, own) for s, own in self.distances.items() if s not in self.rivals and np.isfinite(own.p_value)]

    def rival(self, s: int) -> float:
        """The largest p-value of s when one other system is left out of the curve as well."""
        others = [t for t in self.curve if t != s]
        p_values = [self.distance(s, [u for u in others if u != t]).p_value for t in others]
        return float(np.nan_to_num(p_values, nan=1.0).max())

    def name(self, s: int) -> None:
        self.curve.remove(s)
        self.open.remove(s)
        self.rivals.clear()
        self.measure()


def _left_out(placement: Placement, s: int, others: Ints) -> tuple[float, float]:
    """The distance of a system from the curve through others, and its standard error."""
    unit = float(placement.human[others].std()) or 1.0
    x, y, bent = placement.human / unit, placement.metric, placement.curvature
    hh, hm, mm = placement.hh / unit**2, placement.hm / unit, placement.mm
    inside = np.ix_(others, others)
    noise, shared, own = (_contrast(values[inside]) for values in (hh, hm, mm))
    middle = x[others].mean()
    rows = [x - middle]
    if curved := placement.trust > 0 and np.ptp(bent[others]) > 1e-9:
        rows.append((bent - bent[others].mean()) / (height := float(bent[others].std())))
    if placement.bends and len(others) > len(rows) + 1:
        square = (x - middle) ** 2
        rows.append(square - square[others].mean())
    design, target = np.stack(rows)[:, others], np.stack(rows)[:, s]
    left, right = design @ design.T, design @ y[others]
    # People's means scatter more than the systems do, by their noise: take it off, or the slope is too flat.
    spared = min(noise, _MOST_NOISE * left[0, 0])
    slope = (right[0] - shared) / (left[0, 0] - spared) if left[0, 0] > spared else 0.0
    left[0, 0] -= spared
    right[0] -= shared * spared / noise if noise > 0 else 0.0
    if curved:
        scatter = (own - 2 * slope * shared + slope**2 * noise) / (len(others) - 1)
        left[1, 1] += scatter / (placement.trust * height) ** 2
    solved = np.linalg.pinv(left, hermitian=True)
    slope = float((solved @ right)[0])
    weights = 1 / len(others) + target @ solved @ design
    shift = float(y[s] - y[others].mean() - target @ solved @ right)
    contrast = np.zeros(len(x))
    contrast[others], contrast[s] = -weights, 1.0
    variance = float(contrast @ (mm - slope * (hm + hm.T) + slope**2 * hh) @ contrast)
    doubt = placement.trust * float(contrast @ bent) if curved else 0.0
    error = float(np.sqrt(max(variance, 0.0) + doubt**2))
    return shift, error if error > _LEVEL * float(np.ptp(y)) else np.nan


def _contrast(covariance: Floats) -> float:
    """The expected sum of squared deviations of noise from its mean."""
    return float(np.trace(covariance)) - float(covariance.sum()) / len(covariance)


def _win_rates(scores: Floats, mask: Bools) -> Floats:
    """(systems, systems): how often the first has the higher score of an item that both have, half for a tie."""
    rates = np.full((mask.shape[1], mask.shape[1]), np.nan)
    for s, own in enumerate(scores.T):
        both = mask & mask[:, [s]]
        won = (own[:, None] > scores) + 0.5 * (own[:, None] == scores)
        rates[s] = ratio((won * both).sum(axis=0), both.sum(axis=0))
    return rates


def _two_way(values: Floats, mask: Bools) -> _Effects:
    """Least squares of item + system on (..., items, systems), 0 outside the mask; effects sum to 0."""
    n = np.maximum(mask.sum(axis=1, keepdims=True), 1)
    centred = np.where(mask, values - values.sum(axis=-1, keepdims=True) / n, 0.0)
    seen = mask.astype(np.float64)
    solved = np.linalg.pinv(np.diag(seen.sum(axis=0)) - (seen / n).T @ seen, hermitian=True)
    effects = centred.sum(axis=-2) @ solved
    fitted = effects[..., None, :] - (effects[..., None, :] * mask).sum(axis=-1, keepdims=True) / n
    residuals = np.where(mask, centred - fitted, 0.0)
    return _Effects(effects, residuals, residuals @ solved)


def _level(persons: Floats) -> Floats:
    """People (people, items, systems) brought to one level: who rates low throughout must not make those look bad whom
    he happened to rate."""
    ratings = persons.reshape(len(persons), -1).T
    rated = np.isfinite(ratings)
    own = _two_way(np.where(rated, ratings, 0.0), rated & (rated.sum(axis=1, keepdims=True) > 1)).effects
    return persons - own[:, None, None]


def _noise(persons: Floats, counted: Ints, mask: Bools) -> tuple[float | None, Floats]:
    """The variance of people's mean of an output that their noise makes (None where hardly anything was rated twice),
    and that of their mean of each system (systems,) that their tastes for systems make, which more items do not shrink.
    """
    from scipy.special import fdtri, ndtri, stdtrit

    repeated = (counted > 1) & mask
    freedom = int((counted - 1)[repeated].sum())
    if freedom < _REPEATED:
        return None, np.zeros(mask.shape[1])
    rated = np.isfinite(persons) & repeated
    mean = np.where(rated, np.nan_to_num(persons), 0.0).sum(axis=0) / np.maximum(counted, 1)
    deviation = np.where(rated, np.nan_to_num(persons) - mean, 0.0)
    number = rated.sum(axis=1)  # (people, systems)
    own = np.nan_to_num(ratio(deviation.sum(axis=1), number))
    seen = number > 0
    crossed = int(seen.sum()) - int(seen.any(axis=0).sum()) - int(seen.any(axis=1).sum()) + 1
    within = float((deviation**2).sum() - (number * own**2).sum()) / max(freedom - crossed, 1)
    noise = within * float((1 / counted[mask]).mean())
    if crossed < 1:
        return noise, np.zeros(mask.shape[1])
    between = float((number * own**2).sum()) / crossed
    if between <= within * fdtri(crossed, max(freedom - crossed, 1), _TASTE_LEVEL):
        return noise, np.zeros(mask.shape[1])
    # Few people show how large tastes are, so they count as wide as Student's t does where findings are made.
    wider = float(stdtrit(crossed, _TAIL) / ndtri(_TAIL)) ** 2
    tastes = wider * (between - within) / float(number[seen].mean())
    raters = np.maximum((np.isfinite(persons) & mask).any(axis=1).sum(axis=0), 1)
    return noise, np.asarray(tastes / raters)


def _quality(human: Floats, of_people: _Effects, mask: Bools, noise: float) -> tuple[Floats, float, float]:
    """The expected quality of each output given what people said of it and of its item (items, systems), the
    reliability of what is particular to an output, and the standard deviation of outputs of one system."""
    n_items, n_systems = int(mask.any(axis=1).sum()), int(mask.any(axis=0).sum())
    per_item = np.maximum(mask.sum(axis=1), 1)
    freedom = max(int(mask.sum()) - n_items - n_systems + 1, 1)
    particular = float((of_people.residuals**2).sum() / freedom)
    ease = (human.sum(axis=1) - (of_people.effects * mask).sum(axis=1)) / per_item
    rated = mask.any(axis=1)
    ease = np.where(rated, ease - ease[rated].mean(), 0.0)
    between = float((per_item * ease**2).sum() / max(n_items - 1, 1))
    within = max(0.0, 1 - noise / particular) if particular > 0 else 0.0
    shared = max(0.0, 1 - noise / between) if between > 0 else 0.0
    quality = of_people.effects + shared * ease[:, None] + within * of_people.residuals
    items = max(between - particular, 0.0) / float(per_item[rated].mean())
    return np.where(mask, quality, 0.0), within, float(np.sqrt(max(particular - noise, 0.0) + items))


def _curved(quality: Floats, within: float, mask: Bools, own: _Effects, of_people: _Effects) -> _Effects:
    """What the curved part of the link adds to the metric's mean of each system, and the influence of what remains.

    The link is a natural spline of quality, fitted to outputs within items and systems, so that neither favour nor a
    difference between systems can bend it.
    """
    flat = _Effects(np.zeros_like(own.effects), own.residuals, own.influence)
    if within <= 0:
        return flat
    known = quality[mask]
    scale = float(known.std())
    knots = np.linspace(float(np.quantile(known, _KNOT_RANGE[0])), float(np.quantile(known, _KNOT_RANGE[1])), _KNOTS)
    if scale <= 0 or knots[0] == knots[-1]:
        return flat
    # What is straight in the basis belongs to the line, so that turning both scales round turns nothing else.
    centred = known - known.mean()
    straight = _spline(known / scale, knots / scale) @ centred / (centred @ centred)
    basis = np.where(mask, _spline(quality / scale, knots / scale) - straight[:, None, None] * quality, 0.0)
    line, bends = _two_way(quality, mask), _two_way(basis, mask)
    regressors = np.concatenate([line.residuals[None], bends.residuals])
    gram = np.einsum("jis,kis->jk", regressors, regressors)
    solved = np.linalg.pinv(gram, hermitian=True)
    fitted = solved @ np.einsum("jis,is->j", regressors, own.residuals)
    unexplained = own.residuals - np.einsum("j,jis->is", fitted, regressors)
    error = np.einsum("jk,kis,is->ij", solved, regressors, unexplained)[:, 1:]
    influence = own.influence - np.einsum("j,jis->is", fitted[1:], bends.influence) - error @ bends.effects
    # Quality leans on the mean of the system as far as an output's own rating is noise, and so does the curved part.
    step = 1e-4
    above, below = (_spline(quality / scale + side, knots / scale) for side in (step, -step))
    slopes = (above - below) / (2 * step * scale) - straight[:, None, None]
    steep = ratio(np.where(mask, np.einsum("j,jis->is", fitted[1:], slopes), 0.0).sum(axis=0), mask.sum(axis=0))
    leaning = (1 - within) * np.nan_to_num(steep) * of_people.influence
    left = influence - (leaning - leaning.mean(axis=1, keepdims=True))
    return _Effects(fitted[1:] @ bends.effects, unexplained, np.asarray(left))


def _spline(x: Floats, knots: Floats) -> Floats:
    """The curved part of a natural cubic spline: (...) -> (knots - 2, ...)."""
    cubes = np.maximum(x[None] - knots.reshape(-1, *[1] * x.ndim), 0.0) ** 3
    ends = (cubes[:-1] - cubes[-1]) / (knots[-1] - knots[:-1]).reshape(-1, *[1] * x.ndim)
    return np.asarray(ends[:-1] - ends[-1])


def _normal_scores(values: Floats, mask: Bools) -> Floats:
    """Normal quantiles of mid-ranks over the mask; 0 elsewhere."""
    from scipy.special import ndtri
    from scipy.stats import rankdata

    scores = np.zeros(values.shape)
    if mask.any():
        scores[mask] = ndtri((rankdata(values[mask]) - 0.5) / mask.sum())
    return scores


def _by_unit(influence: Floats, units: Ints) -> Floats:
    """(items, systems) -> (units, systems)."""
    return unit_sums(influence.T, units=units, n_units=int(units.max()) + 1).T


def _covariance(first: Floats, second: Floats) -> Floats:
    """Of sums over units: influences (units, systems) -> (systems, systems)."""
    n = int((first != 0).any(axis=1).sum())
    return np.asarray(first.T @ second * (n / max(n - 1, 1)))


def _units_behind(mask: Bools, units: Ints) -> Ints:
    """(systems,): clusters in which each system was seen."""
    return np.asarray((unit_sums(mask.T, units=units, n_units=int(units.max()) + 1) > 0).sum(axis=1))


def _connected(mask: Bools) -> Bools:
    """(systems,): whether each belongs to the largest set of systems that common items join."""
    part = blocks_of(common_items(mask))
    return np.asarray((part == np.bincount(part).argmax()) & mask.any(axis=0))
