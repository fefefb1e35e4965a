"""What a study will still need: bounds that must hold, and intervals that cover."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from custodes.annotate.forecast import Range, forecast, people_only, rule_of
from custodes.annotate.plan import Ending, Money, People, StudyPlan
from custodes.stats.stopping.rules import rule_on
from tests.annotate.snapshots import pair, person, snapshot

PAIRS = 10


def test_nothing_is_left_of_a_study_that_is_over() -> None:
    closed = pair(is_open=False, n=20, wins=18, losses=2, decision=1, looks_done=2, answered=20)
    for now in (snapshot(closed), snapshot(pair(), state="stopped")):
        assert forecast(now).answers == Range(0, 0, 0)


def test_answers_lie_between_the_next_look_and_the_last() -> None:
    now = snapshot(*(pair(second=str(i), answered=3) for i in range(4)))
    ahead = forecast(now).answers
    assert 4 * 7 <= ahead.low <= ahead.middle <= ahead.high <= 4 * 37
    # what is in already is not asked again
    more = forecast(snapshot(*(pair(second=str(i), answered=8) for i in range(4)))).answers
    assert more == Range(*(value - 20 for value in ahead))


def test_ratings_are_asked_as_planned() -> None:
    now = snapshot(pair(second="", looks=0, answered=12, wanted=50), pair(second="", looks=0, answered=0, wanted=50))
    assert forecast(now).answers == Range(88, 88, 88)


def test_answers_are_those_of_people_where_several_are_one_answer() -> None:
    one = snapshot(pair(second="", looks=0, answered=12, wanted=50))
    for budget, left in ((None, 3 * 38), (100, 100)):
        plan = StudyPlan(people=People(per_item=3), stopping=Ending(budget=budget))
        now = replace(one, plan=plan, primary=0)
        assert forecast(now).answers == Range(left, left, left)


def test_the_budget_is_a_bound() -> None:
    plan = StudyPlan(stopping=Ending(budget=30))
    now = snapshot(*(pair(second=str(i), answered=5) for i in range(4)), plan=plan)
    assert forecast(now).answers == Range(10, 10, 10)


def test_items_may_end_before_the_last_look() -> None:
    now = snapshot(pair(answered=12, wanted=14, looks_done=1, looks=2, n=10, wins=4, ties=2, losses=4))
    assert forecast(now).answers == Range(2, 2, 2)


@pytest.mark.parametrize(
    "ending",
    [
        *(Ending(stop="anytime"), Ending(stop="decided", boundary="none"), Ending(family=True), Ending(boundary=2.5)),
        Ending(stop="futility+equivalence", equivalence=0.2, boundary="obrien-fleming"),
    ],
    ids=lambda ending: f"{ending.stop}-{ending.boundary}-{ending.family}",
)
def test_every_rule_of_a_plan(ending: Ending) -> None:
    ahead = forecast(snapshot(pair(), pair(second="Cedar"), plan=StudyPlan(stopping=ending))).answers
    assert 20 <= ahead.low <= ahead.high <= 80


def test_money_and_wage() -> None:
    plan = StudyPlan(money=Money(price=0.2, fee=0.25, wage=12.0), people=People(attention=0, gold_every=0, overlap=0.0))
    slow, fast = (person(i, seconds=value, answers=n) for i, value, n in ((1, 120.0, 20), (2, 40.0, 30)))
    now = snapshot(pair(answered=5), plan=plan, paid=60, recent=10, people=(slow, fast))
    ahead = forecast(now)
    assert ahead.spent == pytest.approx(60 * 0.2 * 1.25)
    assert ahead.paid == ahead.answers  # nothing but answers that decide
    assert ahead.cost == pytest.approx([value * 0.25 for value in ahead.answers])
    assert ahead.hours == pytest.approx([value / 20 for value in ahead.answers])
    assert ahead.wage == pytest.approx(3600 / 40 * 0.2)  # 30 of 50 answers took 40 s each
    assert not ahead.is_low
    assert forecast(snapshot(pair(), plan=plan, people=(slow, person(3, seconds=90.0, answers=40)))).is_low


def test_what_is_not_known_is_not_said() -> None:
    ahead = forecast(snapshot(pair(), people=(person(1, seconds=3.0, answers=29),)))
    assert (ahead.wage, ahead.hours, ahead.is_low) == (None, None, False)


def test_others_than_deciding_answers_are_paid_too() -> None:
    planned = forecast(snapshot(pair()))
    # 1 of 15 known, one attention check of 15, 12 % second opinions
    assert planned.paid.middle == pytest.approx(planned.answers.middle / ((1 - 2 / 15) * 0.88))
    seen = forecast(snapshot(pair(), primary=100, paid=130))
    assert seen.paid.middle == pytest.approx(1.3 * seen.answers.middle)


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
    """Whole studies with known shares, forecast before a look: 120 each; .8 has a standard error of .037."""
    rng = np.random.default_rng(look)
    covered = [_forecast_covers(WORLDS[world](rng), look, rng) for _ in range(120)]
    assert np.mean(covered) >= 0.8 - 2 * 0.037


def _forecast_covers(shares: Any, stage: int, rng: np.random.Generator) -> bool:
    looks = Ending().looks
    rule = rule_of(Ending(), most=looks[-1], pairs=PAIRS)
    counts, is_open, ahead, begun = np.zeros((PAIRS, 3), dtype=np.int64), np.ones(PAIRS, dtype=bool), None, 0
    for look, target in enumerate(looks):
        if look == stage:
            begun, ahead = int(counts.sum()), forecast(snapshot(*map(_pair, counts, is_open, [look] * PAIRS))).answers
        counts = counts + rng.multinomial(np.where(is_open, target - counts.sum(axis=1), 0), shares)
        last = np.full(int(is_open.sum()), looks[-1])
        _, goes_on, _ = rule_on(rule, people_only(counts[is_open]), look=look, last=last, items=None, judged=is_open)
        is_open[is_open] = goes_on & (target < looks[-1])
        if not is_open.any():
            break
    return ahead is None or ahead.low <= counts.sum() - begun <= ahead.high


def _pair(counts: Any, is_open: bool, look: int) -> Any:
    wins, ties, losses = counts.tolist()
    n = wins + ties + losses
    own = {"n": n, "wins": wins, "ties": ties, "losses": losses, "answered": n, "is_open": bool(is_open)}
    return pair(**own, looks_done=look if is_open else 1, wanted=Ending().looks[look])
