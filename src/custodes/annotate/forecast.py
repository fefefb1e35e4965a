"""Forecast of the remaining answers, hours and cost. The forecast uses outcomes of completed interim analyses only."""

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
"""Levels of three quantiles: the lower bound of an 80 % interval, the median, and the upper bound."""
STRENGTHS = np.geomspace(1, 64, 13)
"""Grid for the weight, in answers, of the prior that all pairs share. The more the pairs differ, the smaller this
weight is."""
TIMED = 30
"""Minimum number of timed answers for an estimate of the hourly wage."""


LONG = 86_400.0
"""Seconds without an answer after which no further annotators are expected."""


class Range(NamedTuple):
    """A median, and the bounds of an 80 % interval."""

    middle: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """Expected further answers, time and cost, and the cost so far.

    `answers`: expected further answers that are used for decisions. `paid`: expected further paid answers of all kinds.
    `hours`: expected further hours at the rate of the last half hour, or None if there were no answers in that time or
    the study cannot finish. `stuck`: reason why the study cannot finish, or ''. With 'annotators', the current
    interim analyses need more answers than the current annotators may give; with 'nobody', nobody has answered for a
    day. `spent` and `cost`: cost so far and expected further cost, including the platform's fee. `wage`: hourly wage,
    or None with too few timed answers. `is_low`: whether this wage is below the target wage of the plan.
    """

    answers: Range
    paid: Range
    hours: Range | None
    stuck: Literal["", "annotators", "nobody"]
    spent: float
    cost: Range
    wage: float | None
    is_low: bool


def forecast(now: Snapshot) -> Forecast:
    """Simulate the rest of the study `DRAWS` times, with outcome proportions from the posterior of each open pair.

    The prior is a Dirichlet distribution around the tie rate of all pairs. Its weight is drawn according to the
    similarity of pairs. Only outcomes of completed interim analyses are used, so the forecast reveals no running
    results. Answers that incomplete analyses already have are subtracted. Only human answers are used, although a
    metric may decide a pair earlier.

    Source: ours; posterior predictive simulation of the plan's stopping rule.
    """
    judged = [pair for pair in now.pairs if pair.is_open and pair.looks]
    open_pairs = tuple(_Open.of(pair, now.plan.stopping) for pair in judged)
    if now.state == "stopped" or not open_pairs:
        left = np.zeros(1)
    else:
        done = tuple((pair.wins, pair.ties, pair.losses) for pair in now.pairs)
        totals = _totals(now.plan.stopping, open_pairs, done, len(now.pairs))
        left = np.maximum(totals - sum(pair.answered for pair in judged), 0)
    if now.state != "stopped":  # ratings have no interim analyses: all requested answers are needed
        left = left + sum(pair.wanted - pair.answered for pair in now.pairs if pair.is_open and not pair.looks)
    left = left * now.plan.annotators.per_item
    if now.plan.stopping.budget is not None:
        left = np.minimum(left, max(now.plan.stopping.budget - now.primary, 0))
    answers, money = _range(left), now.plan.money
    each = money.price * (1 + money.fee)
    paid = _range(_all_of(now, left))
    pace, stuck = 2 * now.recent, _stuck(now)
    wage = _wage(now.annotators, money.price)
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


def _stuck(now: Snapshot) -> Literal["", "annotators", "nobody"]:
    if now.state != "open":
        return ""
    return "annotators" if now.reach.short else "nobody" if now.quiet is not None and now.quiet >= LONG else ""


class _Open(NamedTuple):
    """An open pair at its last completed interim analysis. `done` is the number of completed analyses, `outcome` has
    the numbers of wins, ties and losses, and `looks` has the number of answers at each analysis."""

    done: int
    outcome: tuple[int, int, int]
    looks: tuple[int, ...]

    @classmethod
    def of(cls, pair: PairNow, ending: Ending) -> _Open:
        """Return an open pair. If the pair has too few items for the last interim analysis of the plan, its last
        analysis uses all its items."""
        looks = ending.looks[: pair.looks]
        if pair.looks_done == len(looks) - 1:
            looks = (*looks[:-1], min(looks[-1], pair.wanted))
        return cls(pair.looks_done, (pair.wins, pair.ties, pair.losses), looks)


@lru_cache(maxsize=8)
def _totals(
    ending: Ending, pairs: tuple[_Open, ...], outcomes: tuple[tuple[int, int, int], ...], n_pairs: int
) -> Floats:
    """Return draws (DRAWS,) of the total number of answers that the open pairs have at the end. The result is cached,
    because pages are viewed often."""
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
                annotator_only(counts[judged]),
                look=look,
                last=np.broadcast_to(last, n.shape)[judged],
                items=None,
                judged=judged,
            )
            is_open[judged] = goes_on & (n < last)[judged]
    return np.asarray(n.sum(axis=1), dtype=np.float64)


def _shares(outcomes: Ints, all_pairs: Ints, rng: np.random.Generator) -> Floats:
    """Return draws (DRAWS, pairs, 3) of the proportions of wins, ties and losses. `outcomes` (pairs, 3) are the counts
    of the open pairs, and `all_pairs` (..., 3) are the counts of all pairs. The prior is symmetric in the two systems
    of a pair."""
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


def annotator_only(outcomes: NDArray[np.integer]) -> Counts:
    """Return tables of human outcomes (..., 3) without a metric."""
    none = np.zeros((*outcomes.shape, 3), dtype=np.int64)
    return Counts(none, none[..., 0], outcomes)


def _all_of(now: Snapshot, deciding: Floats) -> Floats:
    """Return draws of the number of paid answers of all kinds, given the number of answers used for decisions (DRAWS,).
    Second opinions and control questions are added according to the policy, and refusals at the current rate.

    The number of additional questions for idle annotators is unknown. It is drawn uniformly between 0 and the maximum.
    """
    if not deciding.any():
        return deciding
    rng, annotators = np.random.default_rng(0), now.plan.annotators
    primary = np.resize(deciding, DRAWS) * annotators.per_item
    idle = rng.random(DRAWS)
    ceiling = (annotators.overlap * (now.primary + primary) + BEYOND) / (1 - annotators.overlap) - now.second
    drawn = rng.poisson(primary * annotators.overlap / (1 - annotators.overlap))
    second = np.clip(drawn + idle * (ceiling - drawn), 0, np.maximum(ceiling, 0)) * (annotators.overlap > 0)
    real = (primary + second) * (1 + now.refused / max(now.answers, 1))
    able = [person for person in now.annotators if person.standing in ("ok", "watch")]
    began = np.array([person.began for person in able], dtype=bool)
    comes = began | (rng.random((DRAWS, len(able))) < rng.random((DRAWS, 1)))
    gold_asked = np.array([person.gold_asked for person in able])
    before = np.array([person.answers + person.refused for person in able])
    each = (real / np.maximum(comes.sum(axis=1), 1))[:, np.newaxis]
    first, later = _known_share(now, 1), _known_share(now, 0)
    beside = np.zeros_like(each)
    if annotators.gold_every and "gold" in now.known:
        room = np.floor((before + each) / annotators.gold_every + BEYOND) - gold_asked - each * later / (1 - later)
        beside = idle[:, np.newaxis] * np.maximum(room, 0)
    places = each + beside  # positions of batches, without the scheduled control questions
    new = np.minimum(places, np.maximum(annotators.batch - before - gold_asked, 0) * (1 - first))
    known_questions = beside + rng.poisson(new * first / (1 - first) + (places - new) * later / (1 - later))
    return np.asarray(real + (comes * (known_questions + ~began * annotators.qualification)).sum(axis=1))


def _known_share(now: Snapshot, more: int) -> float:
    """Return the proportion of control questions in a batch. `more` is the number of additional gold questions in this
    batch; it has no effect if the study has no gold questions."""
    annotators = now.plan.annotators
    gold = round(annotators.batch / annotators.gold_every) if annotators.gold_every and "gold" in now.known else 0
    number = gold + more * (gold > 0) + annotators.attention * ("attention" in now.known)
    return min(number, annotators.batch - 1) / annotators.batch


def _wage(annotators: Sequence[PersonNow], price: float) -> float | None:
    """Return the hourly wage at the typical time of an answer, or None with too few timed answers. The typical time is
    the median of the annotators' median times, weighted by their numbers of answers."""
    timed = sorted((one.seconds, one.answers) for one in annotators if one.seconds is not None and one.answers)
    if sum(answers for _, answers in timed) < TIMED:
        return None
    seconds = np.repeat([each for each, _ in timed], [answers for _, answers in timed])
    return float(price * 3600 / max(float(np.median(seconds)), 0.1))


def _range(draws: Floats) -> Range:
    low, middle, high = np.quantile(draws, INNER)
    return Range(float(middle), float(low), float(high))
