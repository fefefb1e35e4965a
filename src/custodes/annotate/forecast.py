"""Forecast of remaining answers, hours and cost, from completed interim analyses only."""

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
"""Quantiles of the bounds of an 80 % interval, and the median."""
STRENGTHS = np.geomspace(1, 64, 13)
"""Grid for the weight (in answers) of the prior that all pairs share. The weight is smaller if pairs differ more."""
TIMED = 30
"""Minimum number of answers for using the times measured in the study."""


LONG = 86_400.0
"""Seconds without an answer after which no annotators are expected."""


class Range(NamedTuple):
    """A median with the bounds of an 80 % interval."""

    middle: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """Expected further answers, time and cost, and the cost so far.

    `answers` used for decisions, `paid` answers of all kinds, `hours` at the rate of the last half hour (None without
    answers in it, or if the study cannot finish; `stuck` gives the reason: all current `annotators` have reached their
    maximum, or `nobody` has answered for a day), `spent` and `cost` to come including the platform's fee, `wage` per
    hour (None with too few timed answers) and whether it `is_low`: below that of the plan.
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
    """Simulate the rest of the study from the posterior outcome proportions of every open pair, `DRAWS` times.

    The prior is a Dirichlet distribution around the tie rate of all pairs, with a weight drawn according to the
    similarity of pairs. Only completed interim analyses are used, so that no running results are revealed. Only human
    answers are used, although a metric may decide a pair earlier. Answers in incomplete analyses are subtracted.

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
    """An open pair at its last completed interim analysis: analyses done, outcomes, and annotations of each
    analysis."""

    done: int
    outcome: tuple[int, int, int]
    looks: tuple[int, ...]

    @classmethod
    def of(cls, pair: PairNow, ending: Ending) -> _Open:
        """An open pair;

        if it has too few items for the plan's last interim analysis, the current one ends at the last item.
        """
        looks = ending.looks[: pair.looks]
        if pair.looks_done == len(looks) - 1:
            looks = (*looks[:-1], min(looks[-1], pair.wanted))
        return cls(pair.looks_done, (pair.wins, pair.ties, pair.losses), looks)


@lru_cache(maxsize=8)
def _totals(
    ending: Ending, pairs: tuple[_Open, ...], outcomes: tuple[tuple[int, int, int], ...], n_pairs: int
) -> Floats:
    """Total answers of the open pairs at the end: (DRAWS,). The result is cached, because pages are viewed often."""
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
    """Draws of win, tie and loss proportions of pairs with outcomes (pairs, 3), given those of all pairs (..., 3):
    (DRAWS, pairs, 3). The prior is symmetric in the two systems of a pair."""
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
    """Tables of outcomes (..., 3) without a metric."""
    none = np.zeros((*outcomes.shape, 3), dtype=np.int64)
    return Counts(none, none[..., 0], outcomes)


def _all_of(now: Snapshot, deciding: Floats) -> Floats:
    """Paid answers of all kinds, given the number used for decisions (DRAWS,): these plus second opinions and control
    questions according to the policy, and refusals at the current rate.

    The number of additional questions for idle annotators is unknown: it is drawn uniformly between none and the
    maximum.
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
    places = each + beside  # a batch without its own control questions
    new = np.minimum(places, np.maximum(annotators.batch - before - gold_asked, 0) * (1 - first))
    known_questions = beside + rng.poisson(new * first / (1 - first) + (places - new) * later / (1 - later))
    return np.asarray(real + (comes * (known_questions + ~began * annotators.qualification)).sum(axis=1))


def _known_share(now: Snapshot, more: int) -> float:
    """Proportion of control questions in a batch: for a new annotator with gold questions, `more` of them are added."""
    annotators = now.plan.annotators
    gold = round(annotators.batch / annotators.gold_every) if annotators.gold_every and "gold" in now.known else 0
    number = gold + more * (gold > 0) + annotators.attention * ("attention" in now.known)
    return min(number, annotators.batch - 1) / annotators.batch


def _wage(annotators: Sequence[PersonNow], price: float) -> float | None:
    """Hourly earnings at the median over annotators of their median times, weighted by answers."""
    timed = sorted((one.seconds, one.answers) for one in annotators if one.seconds is not None and one.answers)
    if sum(answers for _, answers in timed) < TIMED:
        return None
    seconds = np.repeat([each for each, _ in timed], [answers for _, answers in timed])
    return float(price * 3600 / max(float(np.median(seconds)), 0.1))


def _range(draws: Floats) -> Range:
    low, middle, high = np.quantile(draws, INNER)
    return Range(float(middle), float(low), float(high))
