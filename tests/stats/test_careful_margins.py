"""Margins of people who look: what comes out of what was put in, and when nothing is said."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from custodes.stats.annotator_quality import FEWEST_DOUBLED, CarefulMargins, careful_margins
from tests.simulation.careful_crowd import World, rates


@dataclass
class Asked:
    """Answers to comparisons of known labels by people who look with known chances, and guess by a style of theirs."""

    sign: np.ndarray
    task: np.ndarray
    person: np.ndarray
    pair: np.ndarray
    primary: np.ndarray
    care: float

    def corrected(self, **changed: np.ndarray) -> CarefulMargins:
        named = {
            "sign": self.sign,
            "task": self.task,
            "person": self.person,
            "pair": self.pair,
            "primary": self.primary,
        }
        given = named | changed
        return careful_margins(**given, unit=given["task"], confidence=0.95)


def asked(
    rng: np.random.Generator,
    *,
    people: int = 40,
    pairs: int = 10,
    n: int = 60,
    spam: float = 0.2,
    overlap: float = 0.12,
    skill: float = 0.9,
    margin: float = -0.2,
) -> Asked:
    care = np.clip(rng.normal(skill, 0.07 * (skill < 1), people), 0, 1)
    care[: round(spam * people)] = 0
    style = np.array([[0.35, 0.3, 0.35], [0.5, 0, 0.5], [0.1, 0.8, 0.1]])[rng.integers(0, 3, people)]
    tasks = pairs * n
    truth = rng.choice([1, 0, -1], size=tasks, p=[0.35 + margin / 2, 0.3, 0.35 - margin / 2])
    first = rng.permutation(np.resize(np.arange(people), tasks))
    again = np.flatnonzero(rng.random(tasks) < overlap)
    task = np.concatenate([np.arange(tasks), again])
    person = np.concatenate([first, (first[again] + rng.integers(1, people, len(again))) % people])
    guess = (rng.random(len(task))[:, np.newaxis] > style[person].cumsum(axis=1)).sum(axis=1).clip(0, 2)
    said = np.where(rng.random(len(task)) < care[person], truth[task], 1 - guess)
    return Asked(
        sign=said.astype(np.float64),
        task=task,
        person=person,
        pair=np.repeat(np.arange(pairs), n),
        primary=(np.arange(len(task)) < tasks).astype(np.float64),
        care=float(care[first].mean()),
    )


def test_with_many_answers_care_and_margins_are_found() -> None:
    made = asked(np.random.default_rng(2), n=2500, people=400, spam=0.3)
    found = made.corrected()
    seen = np.bincount(made.pair, made.sign[: len(made.pair)]) / 2500
    assert found.care == pytest.approx(made.care, abs=0.03)
    assert found.care_low < made.care
    assert abs(seen.mean() + 0.2) > 0.05
    assert found.margin.mean() == pytest.approx(-0.2, abs=0.015)
    assert (found.low < found.margin).all()
    assert (found.margin < found.high).all()


def test_the_other_way_round_all_is_the_other_way_round() -> None:
    made = asked(np.random.default_rng(2))
    found, turned = made.corrected(), made.corrected(sign=-made.sign)
    np.testing.assert_array_equal(turned.margin, -found.margin)
    np.testing.assert_allclose(turned.low, -found.high, rtol=1e-12)
    assert turned.care == found.care


def test_the_order_of_rows_changes_nothing_but_rounding() -> None:
    made = asked(np.random.default_rng(3))
    order = np.random.default_rng(0).permutation(len(made.sign))
    shuffled = made.corrected(**{name: getattr(made, name)[order] for name in ("sign", "task", "person", "primary")})
    np.testing.assert_allclose(shuffled.margin, made.corrected().margin, rtol=1e-9)
    np.testing.assert_allclose(shuffled.low, made.corrected().low, rtol=1e-9)


def test_second_opinions_move_no_margin_as_seen() -> None:
    """Where all agree, a corrected margin is the one that first answers have."""
    n = 60
    task = np.concatenate([np.arange(n), np.arange(FEWEST_DOUBLED)])
    sign = np.where(task % 3 == 0, -1.0, 1.0)
    made = careful_margins(
        sign,
        task=task,
        person=np.concatenate([np.arange(n) % 7, 7 + np.arange(FEWEST_DOUBLED) % 5]),
        pair=np.zeros(n, dtype=np.int64),
        unit=task,
        primary=(np.arange(len(task)) < n).astype(np.float64),
        confidence=0.95,
    )
    assert (made.care, made.margin[0]) == (1.0, pytest.approx(1 / 3))


@pytest.mark.parametrize("why", ["few", "opposite", "ties", "nobody"])
def test_where_nothing_can_be_said(why: str) -> None:
    made = asked(np.random.default_rng(4))
    second = made.primary == 0
    if why == "few":
        kept = ~second | (np.cumsum(second) < FEWEST_DOUBLED)
        names = ("sign", "task", "person", "primary")
        found = made.corrected(**{name: getattr(made, name)[kept] for name in names})
        assert found.doubled == FEWEST_DOUBLED - 1
    elif why == "opposite":
        sign = np.where(second, -made.sign[made.task], made.sign)
        found = made.corrected(sign=sign)
    elif why == "ties":
        found = made.corrected(sign=np.zeros(len(made.sign)))
    else:
        found = made.corrected(person=np.zeros(len(made.sign), dtype=np.int64))
    assert np.isnan([found.margin, found.low, found.high]).all()
    assert np.isnan([found.care, found.care_low]).all()


def test_nearly_all_guesses_leave_an_open_end() -> None:
    """What is seen of a margin that is not 0 stays: careless answers turn none."""
    found = asked(np.random.default_rng(5), spam=0.8).corrected()
    assert np.isnan(found.low).all()
    assert np.isnan(found.high).any()
    clear = asked(np.random.default_rng(5), spam=0.6, margin=-0.6, people=40, pairs=2, n=200).corrected()
    assert np.isnan(clear.low).all()
    assert (clear.high < 0).all()


def test_answers_that_are_all_alike_leave_more_than_a_point() -> None:
    made = asked(np.random.default_rng(6), spam=0, skill=1, margin=-0.7)
    sign = np.where(made.pair[made.task] == 0, -1.0, made.sign)
    found = made.corrected(sign=sign)
    assert found.margin[0] == found.low[0] == -1
    assert found.high[0] > -1


def test_people_who_disagree_honestly_are_not_called_careless() -> None:
    """Their margin lies between the ends, although all that disagree count as careless in `margin` (.20 too large)."""
    made = rates(World(reliability=0.8, careless=0.2, overlap=0.5), studies=30)
    assert made.at_most > made.true + 0.1
    assert made.covered >= 0.95
    assert made.looked >= 0.95
