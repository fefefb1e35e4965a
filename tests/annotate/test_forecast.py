"""Forecasts of the remaining work of a study: bounds hold, and intervals cover."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from custodes.annotate.forecast import Range, annotator_only, forecast
from custodes.annotate.plan import AnnotatorPlan, Money, StoppingRule, StudyPlan, rule_of
from custodes.annotate.snapshot import PairNow, Reach
from custodes.stats.stopping.rules import analyse_tables
from tests.annotate.snapshots import pair, person, snapshot

PAIRS = 10


CLOSED = pair(is_open=False, n=20, wins=18, losses=2, decision=1, looks_done=2, answered=20)
RATINGS = [pair(second="", looks=0, answered=n, wanted=50) for n in (12, 0)]
FIVE_ANSWERS = [pair(second=str(i), answered=5) for i in range(4)]
FEW_ITEMS = pair(answered=12, wanted=14, looks_done=1, looks=2, n=10, wins=4, ties=2, losses=4)


@pytest.mark.parametrize(
    ("pairs", "budget", "answers"),
    [([CLOSED], None, 0), (RATINGS, None, 88), (FIVE_ANSWERS, 30, 10), ([FEW_ITEMS], None, 2)],
    ids=["finished", "ratings", "budget", "few items"],
)
def test_certain_numbers_of_answers(pairs: list[PairNow], budget: int | None, answers: int) -> None:
    plan = StudyPlan(stopping=StoppingRule(budget=budget))
    assert forecast(snapshot(*pairs, plan=plan)).answers == Range(answers, answers, answers)


def test_answers_lie_between_the_next_look_and_the_last() -> None:
    now = snapshot(*(pair(second=str(i), answered=3) for i in range(4)))
    ahead = forecast(now).answers
    assert 4 * 7 <= ahead.low <= ahead.middle <= ahead.high <= 4 * 37
    # existing answers are not repeated
    more = forecast(snapshot(*(pair(second=str(i), answered=8) for i in range(4)))).answers
    assert more == Range(*(value - 20 for value in ahead))


def test_answers_count_every_annotator_of_a_majority() -> None:
    current = snapshot(pair(second="", looks=0, answered=12, wanted=50))
    for budget, remaining in ((None, 3 * 38), (100, 100)):
        plan = StudyPlan(annotators=AnnotatorPlan(per_item=3), stopping=StoppingRule(budget=budget))
        now = replace(current, plan=plan, primary=0)
        half_answered = replace(now, pairs=(replace(now.pairs[0], partial=20),))
        assert forecast(half_answered).answers.middle == min(remaining, 3 * 38 - 20)
        assert forecast(now).answers == Range(remaining, remaining, remaining)
        alone = StudyPlan(annotators=AnnotatorPlan(per_item=3, overlap=0.0), stopping=plan.stopping)
        without_extras = replace(now, plan=alone, control_kinds=frozenset())
        assert forecast(without_extras).paid == forecast(without_extras).answers == Range(*[remaining] * 3)


@pytest.mark.parametrize(
    "ending",
    [{"stop": "decided", "boundary": "none"}, {"family": True}, {"boundary": 2.5}, {"boundary": "obrien-fleming"}],
    ids=str,
)
def test_every_rule_of_a_plan(ending: dict[str, Any]) -> None:
    plan = StudyPlan(stopping=StoppingRule(**ending))
    ahead = forecast(snapshot(pair(), pair(second="Cedar"), plan=plan)).answers
    assert 20 <= ahead.low <= ahead.high <= 80


def test_money_and_wage() -> None:
    plan = StudyPlan(
        money=Money(price=0.2, fee=0.25, wage=12.0), annotators=AnnotatorPlan(attention=0, gold_every=0, overlap=0.0)
    )
    slow, fast = (person(i, seconds=value, primary=n) for i, value, n in ((1, 120.0, 20), (2, 40.0, 30)))
    now = snapshot(pair(answered=5), plan=plan, paid=60, recent=10, annotators=(slow, fast))
    ahead = forecast(now)
    assert ahead.spent == pytest.approx(60 * 0.2 * 1.25)
    assert ahead.paid == ahead.answers  # only primary answers
    assert ahead.cost == pytest.approx([value * 0.25 for value in ahead.answers])
    assert ahead.hours == pytest.approx([value / 20 for value in ahead.answers])
    assert ahead.wage == pytest.approx(3600 / 40 * 0.2)  # 30 of 50 answers took 40 s each
    assert not ahead.is_low
    assert forecast(snapshot(pair(), plan=plan, annotators=(slow, person(3, seconds=90.0, primary=40)))).is_low


def test_wage_and_hours_are_unknown_without_data() -> None:
    ahead = forecast(snapshot(pair(), annotators=(person(1, seconds=3.0, primary=29),)))
    assert (ahead.wage, ahead.hours, ahead.is_low) == (None, None, False)


def test_second_ratings_and_known_questions_are_paid() -> None:
    """40 primary answers, with second ratings (12 % of all) and known questions (2 in 15)."""
    pairs = [pair(second=str(i), looks=0, wanted=10) for i in range(4)]
    annotators = tuple(person(i) for i in range(4))
    ahead = forecast(snapshot(*pairs, annotators=annotators))
    assert ahead.answers == Range(40, 40, 40)
    # 40 of 1 − .12 real questions, which are 13 of 15 questions of a batch
    assert ahead.paid == pytest.approx([40 / 0.88 * 15 / 13] * 3)
    alone = StudyPlan(annotators=AnnotatorPlan(overlap=0.0))
    refused = forecast(
        snapshot(*pairs, annotators=annotators, control_kinds=frozenset(), plan=alone, primary=10, refused=5)
    )
    assert refused.paid == Range(60, 60, 60)


@pytest.mark.parametrize(
    ("fields", "stuck"),
    [
        ({"reach": Reach(free=8, short=3), "quiet": 60.0}, "annotators"),
        ({"quiet": 90_000.0}, "nobody"),
        ({"quiet": 3_600.0}, ""),
        ({"quiet": 90_000.0, "state": "paused"}, ""),
    ],
    ids=str,
)
def test_no_hours_where_a_study_cannot_finish(fields: dict[str, Any], stuck: str) -> None:
    ahead = forecast(snapshot(pair(answered=5), recent=10, **fields))
    assert (ahead.stuck, ahead.hours is None) == (stuck, bool(stuck))


def _constant(*shares: float) -> Callable[[np.random.Generator], Any]:
    return lambda rng: np.tile(shares, (PAIRS, 1))


WORLDS: dict[str, Callable[[np.random.Generator], Any]] = {
    "null": _constant(0.35, 0.3, 0.35),
    "strong": _constant(0.7, 0.1, 0.2),
    "mixed": lambda rng: rng.dirichlet([3, 2, 3], PAIRS),
    "two kinds": lambda rng: np.where(rng.random((PAIRS, 1)) < 0.5, [0.34, 0.32, 0.34], [0.75, 0.1, 0.15]),
}


@pytest.mark.slow
@pytest.mark.parametrize("look", [0, 1])
@pytest.mark.parametrize("world", WORLDS)
def test_intervals_of_80_percent_cover(world: str, look: int) -> None:
    """Intervals of 80 % cover in 120 complete studies with known proportions (standard error .037)."""
    rng = np.random.default_rng(look)
    covered = [_forecast_covers(WORLDS[world](rng), look, rng) for _ in range(120)]
    assert np.mean(covered) >= 0.8 - 2 * 0.037


def _forecast_covers(shares: Any, stage: int, rng: np.random.Generator) -> bool:
    looks = StoppingRule().looks
    rule = rule_of(StudyPlan(), n_pairs=PAIRS, max_items=looks[-1], has_metric=False)
    counts, is_open, ahead, n_before = np.zeros((PAIRS, 3), dtype=np.int64), np.ones(PAIRS, dtype=bool), None, 0
    for look, target in enumerate(looks):
        if look == stage:
            n_before = int(counts.sum())
            ahead = forecast(snapshot(*map(_pair, counts, is_open, [look] * PAIRS))).answers
        counts = counts + rng.multinomial(np.where(is_open, target - counts.sum(axis=1), 0), shares)
        options: dict[str, Any] = {"items": None, "is_analysed_pair": is_open, "analysis_index": look}
        last = np.full(int(is_open.sum()), looks[-1])
        _, goes_on, _ = analyse_tables(rule, annotator_only(counts[is_open]), n_at_last_analysis=last, **options)
        is_open[is_open] = goes_on & (target < looks[-1])
        if not is_open.any():
            break
    return ahead is None or ahead.low <= counts.sum() - n_before <= ahead.high


def _pair(counts: Any, is_open: bool, look: int) -> Any:
    wins, ties, losses = counts.tolist()
    n = wins + ties + losses
    fields = {"n": n, "wins": wins, "ties": ties, "losses": losses, "answered": n, "is_open": bool(is_open)}
    return pair(**fields, looks_done=look if is_open else 1, wanted=StoppingRule().looks[look])
