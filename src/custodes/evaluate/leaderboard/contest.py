"""A contest: the battles of one rater, and the standing that they give to systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from custodes.data.comparisons import Comparisons
from custodes.errors import listed
from custodes.evaluate.design import Design
from custodes.evaluate.leaderboard.covariates import SHOWN_FIRST, Covariate
from custodes.memory import check_memory
from custodes.stats import ABSENT
from custodes.stats.arrays import Bools, Floats, Ints, Signs
from custodes.stats.multiple_testing import STREAM
from custodes.stats.strength import battles as arrays_of
from custodes.stats.strength.corrected import corrected
from custodes.stats.strength.more_battles import more_battles
from custodes.stats.strength.ranks import Ranks, ranks
from custodes.stats.strength.strengths import Strengths, strengths
from custodes.stats.strength.win_rates import Met, beyond_systems, pair_rates, system_intervals, system_rates

TieModel = Literal["davidson", "half"]
"""What a tie is: an outcome with a parameter of its own, or half a win for each side."""

KNOWN_ORDERS = 0.1
"""Share of battles seen in one known order below which the order is not held equal: what both orders settled says
nothing of it, and a few others say too little."""

NOT_RANDOM = 0.01
"""Level of the tests that people's battles are a random part, or as many as the probabilities say; below it nothing is
corrected."""

FEWEST_DIFFERENT = 5
"""Battles in which people and the metric must differ; fewer do not tell how it errs, and errors would be nearly 0."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Contest:
    """The `battles` of one rater under one aspect, on the items of a `design`; with `people` (their battles) these are
    to be corrected by it."""

    rater: str
    aspect: str
    design: Design
    battles: Comparisons
    people: Comparisons | None = None

    @property
    def label(self) -> str:
        """What its random numbers hang on."""
        return f"{self.aspect}|{self.rater}"


@dataclass(frozen=True, kw_only=True)
class Rules:
    """How contests are decided: `covariates` by aspect."""

    covariates: Mapping[str, Sequence[Covariate]]
    tie_model: TieModel
    confidence: float
    resamples: int


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What a contest says: `made` and `ranks` of systems; `rates` (1 + B, systems) with their ends; `met`, the pairs;
    `more_battles` (pairs,) that would decide them; `fought` and `opponents` (systems,); `effects`, the names of the
    covariates; `unvaried`, those left out; `missing` battles without a covariate."""

    made: Strengths
    ranks: Ranks
    rates: Floats
    rates_low: Floats
    rates_high: Floats
    met: Met | None
    more_battles: Floats
    fought: Ints
    opponents: Ints
    effects: tuple[str, ...]
    unvaried: tuple[str, ...]
    missing: int

    @property
    def unknown(self) -> Bools:
        """(systems,): who met nobody, so that nothing is known of them."""
        return np.asarray(np.isnan(self.made.draws[0]))


@dataclass(frozen=True, kw_only=True)
class CorrectedStanding:
    """People's standing on all battles of a metric; null with a `reason` where it cannot be told. `labels` and
    `battles` are counts."""

    standing: Standing | None
    labels: int
    battles: int
    power: float
    saving: float
    p_random: float
    reason: str


def decided(contest: Contest, rng: np.random.Generator, *, rules: Rules) -> Standing | CorrectedStanding:
    """The standing of a contest, by one rater or corrected."""
    if contest.people is None:
        return _standing(contest, rng, rules)
    return _corrected(contest, contest.people, rng, rules)


def _standing(contest: Contest, rng: np.random.Generator, rules: Rules) -> Standing:
    battles, columns, unvaried, missing = _with_covariates(contest, rules)
    return standing(
        _arrays(battles, columns, contest.design).grouped(),
        rng,
        n_systems=len(contest.design.systems),
        tie_model=rules.tie_model,
        confidence=rules.confidence,
        resamples=rules.resamples,
        known_errors=True,
        effects=tuple(columns),
        unvaried=unvaried,
        missing=missing,
    )


def standing(
    arrays: arrays_of.Battles,
    rng: np.random.Generator,
    *,
    n_systems: int,
    tie_model: TieModel,
    confidence: float,
    resamples: int,
    known_errors: bool,
    effects: tuple[str, ...],
    unvaried: tuple[str, ...],
    missing: int,
) -> Standing:
    """What battles say, whose covariates are the `effects`; without any interval unless errors are known."""
    # Strengths, win rates, ranks and points of each system, and what is sorted of them.
    check_memory("resamples", resamples, 8 * (1 + resamples) * n_systems)
    made = strengths(arrays, n_systems=n_systems, ties=tie_model, resamples=resamples, rng=rng)
    # Not of the seed, so that a sentence with a win rate reads the same with every seed.
    rates = system_rates(arrays, n_systems=n_systems, resamples=resamples, rng=np.random.default_rng(STREAM))
    met = pair_rates(arrays, confidence=confidence)
    if not known_errors:
        nothing = np.full(len(met.first), np.nan)
        met = replace(met, low=nothing, high=nothing)
    low, high = system_intervals(rates, arrays, confidence=confidence)
    ranked = ranks(made, confidence=confidence)
    return Standing(
        made=made,
        ranks=ranked,
        rates=rates,
        rates_low=low,
        rates_high=high,
        met=met,
        more_battles=more_battles(made, met, ranked.apart, confidence=confidence),
        fought=_counted(arrays.first, arrays.second, n_systems, arrays.often),
        opponents=_counted(met.first, met.second, n_systems),
        effects=effects,
        unvaried=unvaried,
        missing=missing,
    )


def _corrected(contest: Contest, people: Comparisons, rng: np.random.Generator, rules: Rules) -> CorrectedStanding:
    n_systems = len(contest.design.systems)
    # Systems that people never judged are no part of what they would say.
    judged = _counted(people.first, people.second, n_systems) > 0
    asked_about = contest.battles.where(judged[contest.battles.first] & judged[contest.battles.second])
    battles, columns, unvaried, missing = _with_covariates(replace(contest, battles=asked_about), rules)
    human = looked_up(people, battles)
    asked = human != ABSENT
    known = contest.design.probability[battles.item]
    probability = known if np.isfinite(known).all() else None

    def untold(reason: str, p_random: float = np.nan) -> CorrectedStanding:
        return CorrectedStanding(
            standing=None,
            labels=int(asked.sum()),
            battles=len(battles),
            power=np.nan,
            saving=np.nan,
            p_random=p_random,
            reason=reason,
        )

    if asked.all() or not asked.any():
        return untold(f"people judged {'all' if len(asked) and asked.all() else 'none'} of its battles")
    if probability is None and np.isfinite(known).any():
        some = [contest.design.items[i] for i in np.unique(battles.item[np.isnan(known)])]
        return untold(f"the items table gives no probability for {len(some)} items ({listed(some, limit=2)})")
    different = int((human != battles.sign)[asked].sum())
    if different < FEWEST_DIFFERENT:
        known_errors = f"people and the metric differ on only {different} of {asked.sum()} battles"
        return untold(f"{known_errors}, so how it errs is not known")
    if reason := _no_common_order(people, battles, n_systems=n_systems):
        return untold(reason)
    if probability is not None and (
        reason := not_as_likely(probability, asked, item=battles.item, units=contest.design.units)
    ):
        return untold(reason)
    arrays = _arrays(battles, columns, contest.design)
    shares = beyond_systems(arrays.covariates[asked], battles.first[asked], battles.second[asked], n_systems=n_systems)
    if not shares.all():
        alike = [name for name, share in zip(columns, shares, strict=True) if not share]
        return untold(f"{listed(alike)} does not vary beyond the systems where people judged, so it is not held equal")
    made = corrected(
        arrays,
        human,
        n_systems=n_systems,
        ties=rules.tie_model,
        probability=probability,
        resamples=rules.resamples,
        rng=rng,
    )
    if probability is None and made.p_random < NOT_RANDOM:
        return untold("people's battles are not a random part of the metric's", made.p_random)
    nothing = np.full((1, n_systems), np.nan)
    standing = Standing(
        made=made.strengths,
        ranks=ranks(made.strengths, confidence=rules.confidence),
        rates=nothing,
        rates_low=nothing[0],
        rates_high=nothing[0],
        met=None,
        more_battles=np.empty(0),
        fought=_counted(battles.first, battles.second, n_systems),
        opponents=(_matrix(battles, n_systems) > 0).sum(axis=1),
        effects=tuple(columns),
        unvaried=unvaried,
        missing=missing,
    )
    return CorrectedStanding(
        standing=standing,
        labels=int(asked.sum()),
        battles=len(battles),
        power=made.power,
        saving=made.saving,
        p_random=made.p_random,
        reason="",
    )


def _no_common_order(people: Comparisons, battles: Comparisons, *, n_systems: int) -> str:
    """Why the presentation order, where it is known, cannot be held equal for people and a metric at once: it takes an
    order of each battle that both saw. Nothing where it can, or where nobody's order matters."""
    at, judged = _places(people, battles)
    theirs, its = people.order[at][judged], battles.order[judged]
    matters = (_order_matters(own, n_systems) for own in (battles, replace(battles.where(judged), order=theirs)))
    if (theirs == its).all() or not any(matters):
        return ""
    if theirs.any() and its.any():
        return "people and the metric saw outputs in different orders, so the order cannot be held equal"
    one, other = ("people", "the metric") if theirs.any() else ("the metric", "people")
    return f"{one} saw outputs in a known order and {other} in both or an unknown one, so it cannot be held equal"


def not_as_likely(probability: Floats, asked: Bools, *, item: Ints, units: Ints) -> str:
    """Why `probability` (battles,) is not how people were asked: more or fewer items than it lets expect. `asked` and
    `item` are those of battles, `units` (items,) the clusters.

    Items asked less their probabilities, over the larger of the errors that these give and that clusters show.
    """
    from scipy.special import erfc

    items, at, own = np.unique(item, return_index=True, return_inverse=True)
    judged = np.bincount(own, weights=asked, minlength=len(items)) > 0
    chance = probability[at]
    surplus = judged - chance
    by_unit = np.bincount(units[items], weights=surplus)
    variance = max(float((chance * (1 - chance)).sum()), float(by_unit @ by_unit))
    if not variance or erfc(abs(surplus.sum()) / np.sqrt(2 * variance)) >= NOT_RANDOM:
        return ""
    told = f"people judged {judged.sum()} of {len(items)} items where the items table's probabilities add up to"
    return f"{told} {chance.sum():.3g}"


def _with_covariates(contest: Contest, rules: Rules) -> tuple[Comparisons, dict[str, Floats], tuple[str, ...], int]:
    """The battles where all covariates are known, these by name, the names of those that do not vary, and how many
    battles are left out."""
    battles, n_systems = contest.battles, len(contest.design.systems)
    values = {own.name: own.differences(battles) for own in rules.covariates[contest.aspect]}
    unknown = [name for name, own in values.items() if np.isnan(own).all()]
    known = np.ones(len(battles), dtype=bool)
    for name in values.keys() - unknown:
        known &= np.isfinite(values[name])
    kept = battles if known.all() else battles.where(known)
    told = {name: own[known] for name, own in values.items() if name not in unknown}
    if _order_matters(kept, n_systems):
        told = {SHOWN_FIRST: kept.order, **told}
    stacked = np.stack([*told.values()], axis=1) if told else np.empty((len(kept), 0))
    shares = beyond_systems(stacked, kept.first, kept.second, n_systems=n_systems)
    constant = [name for name, share in zip(told, shares, strict=True) if not share]
    varied = {name: own for name, own in told.items() if name not in constant}
    return kept, varied, (*unknown, *constant), int((~known).sum())


def _order_matters(battles: Comparisons, n_systems: int) -> bool:
    """Whether the order is known of enough battles, and some pair was shown in one order and in the other."""
    return order_matters(battles.first * n_systems + battles.second, battles.order, None)


def order_matters(pair: Ints, order: Floats, often: Ints | None) -> bool:
    """The same by the number of the `pair` and the `order` of battles (n,), or of rows that stand for so many."""
    known = np.abs(order) == 1
    if not known.any() or np.average(known, weights=often) < KNOWN_ORDERS:
        return False
    seen = np.zeros((2, int(pair.max()) + 1), dtype=bool)
    for side, row in zip((1, -1), seen, strict=True):
        row[pair[order == side]] = True
    return bool(seen.all(axis=0).any())


def _arrays(battles: Comparisons, columns: Mapping[str, Floats], design: Design) -> arrays_of.Battles:
    """As the arithmetic takes it, clusters numbered from 0."""
    unit = design.units[battles.item]
    used = np.zeros(design.n_units, dtype=bool)
    used[unit] = True
    return arrays_of.Battles(
        first=battles.first,
        second=battles.second,
        sign=battles.sign,
        unit=(np.cumsum(used) - 1)[unit],
        weight=design.weights[battles.item],
        covariates=np.stack([*columns.values()], axis=1) if columns else np.empty((len(battles), 0)),
    )


def looked_up(people: Comparisons, battles: Comparisons) -> Signs:
    """(battles,): what people say of each, `ABSENT` where they do not."""
    at, judged = _places(people, battles)
    return np.where(judged, people.sign[at], ABSENT).astype(np.int8)


def _places(people: Comparisons, battles: Comparisons) -> tuple[Ints, Bools]:
    """(battles,): the row of people's on each, and whether it is one."""
    at = np.searchsorted(people.keys, battles.keys).clip(max=len(people) - 1)
    return at, people.keys[at] == battles.keys


def _counted(first: Ints, second: Ints, n_systems: int, often: Ints | None = None) -> Ints:
    """(systems,): how often each stands in either place."""
    found = [np.bincount(side, weights=often, minlength=n_systems) for side in (first, second)]
    return np.asarray(found[0] + found[1]).astype(np.int64)


def _matrix(battles: Comparisons, n_systems: int) -> NDArray[np.int64]:
    """(systems, systems): how often two met."""
    number = np.bincount(battles.first * n_systems + battles.second, minlength=n_systems**2)
    number = number.reshape(n_systems, n_systems)
    return np.asarray(number + number.T)
