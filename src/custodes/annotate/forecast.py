"""What a study will still need: answers, hours and money, from completed looks only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from custodes.annotate.assignment_policy import BEYOND
from custodes.annotate.plan import Ending, StudyPlan, rule_of
from custodes.annotate.snapshot import PairNow, PersonNow, Snapshot
from custodes.stats.arrays import Floats, Ints
from custodes.stats.correction.estimator import Counts
from custodes.stats.stopping.rules import rule_on

DRAWS = 200
INNER = (0.1, 0.5, 0.9)
"""The ends of an interval of 80 %, and the median between them."""
STRENGTHS = np.geomspace(1, 64, 13)
"""Answers that what pairs have in common may be worth: the fewer, the more pairs differ."""
TIMED = 30
"""Answers from which on a study says what an answer takes."""


LONG = 86_400.0
"""Seconds without an answer from which on nobody may be expected to come."""


class Range(NamedTuple):
    """A median and the ends of an interval of 80 %."""

    middle: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What is still to come, and what was spent. `answers` that decide, `paid` answers of all kinds, `hours` at the
    pace of the last half hour (None: nobody answered then, or it cannot finish; `stuck` says why: the `people` there
    have had their share, or `nobody` has come for a day), `spent` and `cost` to come with the platform's fee, `wage`
    an hour (None while too few answers were timed) and whether it `is_low`: below the plan's."""

    answers: Range
    paid: Range
    hours: Range | None
    stuck: Literal["", "people", "nobody"]
    spent: float
    cost: Range
    wage: float | None
    is_low: bool


def forecast(now: Snapshot) -> Forecast:
    """Play the study to its end from the posterior of every open pair's shares, `DRAWS` times.

    The prior is a Dirichlet around the share of ties of all pairs together, as strong as the pairs are alike (a draw of
    its strength each time). Only completed looks count, so that no running number shows through, and people's answers
    alone, though a metric may end a pair earlier. The answers of a look that is under way are subtracted.

    Source: ours; posterior predictive draws of the rule of the plan.
    """
    judged = [pair for pair in now.pairs if pair.is_open and pair.looks]
    open_pairs = tuple(_Open.of(pair, now.plan.stopping) for pair in judged)
    if now.state == "stopped" or not open_pairs:
        left = np.zeros(1)
    else:
        done = tuple((pair.wins, pair.ties, pair.losses) for pair in now.pairs)
        totals = _totals(now.plan.stopping, open_pairs, done, len(now.pairs))
        left = np.maximum(totals - sum(pair.answered for pair in judged), 0)
    if now.state != "stopped":  # ratings are not judged: all that is wanted is asked
        left = left + sum(pair.wanted - pair.answered for pair in now.pairs if pair.is_open and not pair.looks)
    left = left * now.plan.people.per_item
    if now.plan.stopping.budget is not None:
        left = np.minimum(left, max(now.plan.stopping.budget - now.primary, 0))
    answers, money = _range(left), now.plan.money
    each = money.price * (1 + money.fee)
    paid = _range(_all_of(now, left))
    pace, stuck = 2 * now.recent, _stuck(now)
    wage = _wage(now.people, money.price)
    return Forecast(
        answers=answers,
        paid=paid,
        hours=Range(*(value / pace for value in answers)) if pace and not stuck else None,
        stuck=stuck,
        spent=now.paid * each,
        cost=Range(*(value * each for value in paid)),
        wage=wage,
        is_low=wage is not None and money.price > 0 and wage < money.wage,
    )


def _stuck(now: Snapshot) -> Literal["", "people", "nobody"]:
    if now.state != "open":
        return ""
    return "people" if now.reach.short else "nobody" if now.quiet is not None and now.quiet >= LONG else ""


class _Open(NamedTuple):
    """An open pair at its last completed look: how many were done, outcomes, and the annotations of each look."""

    done: int
    outcome: tuple[int, int, int]
    looks: tuple[int, ...]

    @classmethod
    def of(cls, pair: PairNow, ending: Ending) -> _Open:
        """Items may end before the plan's last look; the look under way says where."""
        looks = ending.looks[: pair.looks]
        if pair.looks_done == len(looks) - 1:
            looks = (*looks[:-1], min(looks[-1], pair.wanted))
        return cls(pair.looks_done, (pair.wins, pair.ties, pair.losses), looks)


@lru_cache(maxsize=8)
def _totals(
    ending: Ending, pairs: tuple[_Open, ...], outcomes: tuple[tuple[int, int, int], ...], n_pairs: int
) -> Floats:
    """Answers that the open pairs have in the end, all together: (DRAWS,). Kept, since looks are few and pages many."""
    rng = np.random.default_rng(0)
    shares = _shares(np.array([pair.outcome for pair in pairs]), np.array(outcomes), rng)
    counts = np.broadcast_to(np.array([pair.outcome for pair in pairs]), shares.shape).copy()
    n = counts.sum(axis=-1)
    last = np.array([pair.looks[-1] for pair in pairs])
    is_open = np.ones(n.shape, dtype=bool)
    plan = StudyPlan(stopping=msgspec.structs.replace(ending, budget=None, estimator=None))
    rule = rule_of(plan, pairs=n_pairs, items=int(last.max()), has_metric=False)
    for look, _ in enumerate(rule.looks):
        ends = np.array([pair.looks[look] if pair.done <= look < len(pair.looks) else 0 for pair in pairs])
        more = np.where(is_open, np.maximum(ends - n, 0), 0)
        counts += rng.multinomial(more, shares)
        n = n + more
        judged = more > 0
        if judged.any():
            _, goes_on, _ = rule_on(
                rule,
                people_only(counts[judged]),
                look=look,
                last=np.broadcast_to(last, n.shape)[judged],
                items=None,
                judged=judged,
            )
            is_open[judged] = goes_on & (n < last)[judged]
    return np.asarray(n.sum(axis=1), dtype=np.float64)


def _shares(outcomes: Ints, all_pairs: Ints, rng: np.random.Generator) -> Floats:
    """Draws of win, tie and loss shares of pairs with outcomes `own` (pairs, 3), by all pairs' (..., 3): (DRAWS, pairs,
    3). Neither system of a pair is better beforehand."""
    from scipy.special import gammaln

    ties = (all_pairs[:, 1].sum() + 1) / (all_pairs.sum() + 3)
    mean = np.array([(1 - ties) / 2, ties, (1 - ties) / 2])
    alpha = STRENGTHS[:, np.newaxis] * mean
    fit = gammaln(alpha.sum(axis=-1)) - gammaln(alpha.sum(axis=-1) + all_pairs.sum(axis=-1, keepdims=True))
    fit = fit + (gammaln(alpha + all_pairs[:, np.newaxis]) - gammaln(alpha)).sum(axis=-1)
    likely = fit.sum(axis=0)
    weight = np.exp(likely - likely.max())
    strength = rng.choice(STRENGTHS, size=DRAWS, p=weight / weight.sum())
    drawn = rng.standard_gamma(strength[:, np.newaxis, np.newaxis] * mean + outcomes)
    return np.asarray(drawn / drawn.sum(axis=-1, keepdims=True))


def people_only(outcomes: NDArray[np.integer]) -> Counts:
    """Tables of outcomes (..., 3) without a metric."""
    none = np.zeros((*outcomes.shape, 3), dtype=np.int64)
    return Counts(none, none[..., 0], outcomes)


def _all_of(now: Snapshot, deciding: Floats) -> Floats:
    """Answers of all kinds that are paid for, for so many to come that decide (DRAWS,): with second opinions and known
    questions as the policy gives them, and refusals as often as so far.

    Who comes and how often people are idle, when both are asked up to their ceilings, is not known: both are drawn
    evenly between none and all.
    """
    if not deciding.any():
        return deciding
    rng, people = np.random.default_rng(0), now.plan.people
    primary = np.resize(deciding, DRAWS) * people.per_item
    idle = rng.random(DRAWS)
    ceiling = (people.overlap * (now.primary + primary) + BEYOND) / (1 - people.overlap) - now.second
    drawn = rng.poisson(primary * people.overlap / (1 - people.overlap))
    second = np.clip(drawn + idle * (ceiling - drawn), 0, np.maximum(ceiling, 0)) * (people.overlap > 0)
    real = (primary + second) * (1 + now.refused / max(now.answers, 1))
    able = [person for person in now.people if person.standing in ("ok", "watch")]
    began = np.array([person.began for person in able], dtype=bool)
    comes = began | (rng.random((DRAWS, len(able))) < rng.random((DRAWS, 1)))
    gold_asked = np.array([person.gold_asked for person in able])
    before = np.array([person.answers + person.refused for person in able])
    each = (real / np.maximum(comes.sum(axis=1), 1))[:, np.newaxis]
    first, later = _known_share(now, 1), _known_share(now, 0)
    beside = np.zeros_like(each)
    if people.gold_every and "gold" in now.known:
        room = np.floor((before + each) / people.gold_every + BEYOND) - gold_asked - each * later / (1 - later)
        beside = idle[:, np.newaxis] * np.maximum(room, 0)
    places = each + beside  # all of a batch but those of its own known questions
    new = np.minimum(places, np.maximum(people.batch - before - gold_asked, 0) * (1 - first))
    known_questions = beside + rng.poisson(new * first / (1 - first) + (places - new) * later / (1 - later))
    return np.asarray(real + (comes * (known_questions + ~began * people.qualification)).sum(axis=1))


def _known_share(now: Snapshot, more: int) -> float:
    """Of a batch, the known questions: `more` of those with gold for somebody new."""
    people = now.plan.people
    gold = round(people.batch / people.gold_every) if people.gold_every and "gold" in now.known else 0
    number = gold + more * (gold > 0) + people.attention * ("attention" in now.known)
    return min(number, people.batch - 1) / people.batch


def _wage(people: Sequence[PersonNow], price: float) -> float | None:
    """What an hour of comparisons brings at the median of people's medians, each as often as it was answered."""
    timed = sorted((one.seconds, one.answers) for one in people if one.seconds is not None and one.answers)
    if sum(answers for _, answers in timed) < TIMED:
        return None
    seconds = np.repeat([each for each, _ in timed], [answers for _, answers in timed])
    return float(price * 3600 / max(float(np.median(seconds)), 0.1))


def _range(draws: Floats) -> Range:
    low, middle, high = np.quantile(draws, INNER)
    return Range(float(middle), float(low), float(high))
