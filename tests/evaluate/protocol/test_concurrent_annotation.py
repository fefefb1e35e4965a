"""Concurrent annotation: decisions of each pair on complete prefixes in any order of answers, budgets, and undone
answers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from custodes.data.comparisons import pairs_of
from custodes.evaluate.protocol.annotations import order_answers
from custodes.evaluate.protocol.concurrent_annotation import ConcurrentAnnotation, Ruling
from custodes.evaluate.protocol.stopping import Stopping
from custodes.stats import ABSENT
from custodes.stats.correction.estimators import ESTIMATORS
from custodes.stats.stopping.allocation import annotation_order
from custodes.stats.stopping.replay import replay
from custodes.stats.stopping.sequential import stagewise
from tests.evaluate.protocol.engines import open_pairs, state_bytes
from tests.evaluate.protocol.scores import preferences_of, rated_pairs_of

N_ITEMS = 30
PAIRS = np.stack(pairs_of(("A", "B", "C", "D")), axis=1)
LOOKS = {"looks": (5, 12, 20), "boundary": "pocock", "stop": "futility"}


def annotation(
    *, estimator: str = "human", seed: int = 0, metric: Any = None, units: Any = None, pairs: int = 6, **options: Any
) -> ConcurrentAnnotation:
    rule = Stopping(**{**LOOKS, **options}).rule(ESTIMATORS[estimator], max_annotations=N_ITEMS, seed=seed)
    units = np.arange(N_ITEMS) if units is None else units
    orders = annotation_order(np.ones((6, N_ITEMS), dtype=bool), units, np.random.default_rng(seed))[:pairs]
    return ConcurrentAnnotation(orders=orders.tolist(), rule=rule, systems=PAIRS[:pairs], units=units, metric=metric)


def answer_all(
    study: ConcurrentAnnotation, signs: np.ndarray, choose: Callable[[list[int]], int]
) -> ConcurrentAnnotation:
    """Answer all requested places in the order that `choose` gives."""
    while open_pairs(study):
        requests = [(pair, place) for pair in open_pairs(study) for place in study.free_slots(pair)]
        pair, place = requests[choose(list(range(len(requests))))]
        study.answer(pair, place, int(signs[pair, study.orders[pair][place]]))
    return study


@pytest.mark.parametrize("seed", range(4))
def test_what_is_possible_after_all_is_asked_again(seed: int) -> None:
    """An interim analysis requests its free places and uses all usable places before its end, in any sequence of
    events."""
    rng, study = np.random.default_rng(seed), annotation(pairs=2, stop="decided", boundary=9.0)
    impossible: dict[int, list[int]] = {0: [], 1: []}
    for step in range(400):
        pair = int(rng.integers(2))
        if requests := study.free_slots(pair):
            place = int(rng.choice(requests))
            if rng.random() < 0.4:
                study.answer(pair, place, 1)
            else:
                study.impossible(pair, place)
                impossible[pair].append(place)
        if impossible[pair] and rng.random() < 0.1:
            used = {place for ruling in study.rulings for place in range(max(ruling.used) + 1) if ruling.pair == pair}
            back = study.possible(pair, impossible[pair])
            assert set(back).isdisjoint(used)
            assert {*impossible[pair]} - used >= {*back}
            impossible[pair] = [place for place in impossible[pair] if place not in back]
            assert study.is_open[pair] or not back
        assert all((len(study.free_slots(k)) > 0) == (k in open_pairs(study)) for k in range(2)), step
        lacking = [study.target[k] - study.n[k] for k in range(2)]
        assert all(len(study.free_slots(k)) == lacking[k] for k in range(2) if open_pairs(study).count(k)), step
    for ruling in study.rulings:
        assert len(ruling.used) == ruling.n


def test_a_pair_that_nobody_could_judge_begins_again() -> None:
    study, fresh = annotation(pairs=1), annotation(pairs=1)
    for place in range(N_ITEMS):
        study.impossible(0, place)
    assert (study.is_open, study.why, study.rulings) == ([False], ["items"], [])
    assert study.possible(0, range(N_ITEMS)) == [*range(N_ITEMS)]
    assert state_bytes(study) == state_bytes(fresh)
    for place in range(5):
        study.answer(0, place, 1)
    assert [ruling.used for ruling in study.rulings] == [(0, 1, 2, 3, 4)]
    assert study.possible(0, range(N_ITEMS)) == []


def test_a_look_ends_where_it_would_have_ended() -> None:
    study, fresh = annotation(pairs=1), annotation(pairs=1)
    for place in (0, 2):
        study.impossible(0, place)
    assert study.free_slots(0) == [1, 3, 4, 5, 6]
    study.possible(0, [0, 2])
    assert study.free_slots(0) == fresh.free_slots(0)
    for place in (0, 2):
        study.impossible(0, place)
    study.answer(0, 6, 1)  # beyond the places that are requested without the two
    study.possible(0, [0, 2])
    assert (study.free_slots(0), study.target) == ([0, 1, 2, 3, 4, 5], [7])


def at_random(seed: int) -> Callable[[list[int]], int]:
    rng = np.random.default_rng(seed)
    return lambda places: int(rng.choice(places))


@pytest.mark.parametrize(
    ("estimator", "budget", "clustered"),
    [
        ("human", None, False),
        ("human", 47, False),
        ("human", 47, True),
        ("pooled", 47, False),
        ("pooled", None, True),
        ("ppi", 47, False),
        ("ppi", None, True),
    ],
)
def test_answers_in_any_order_lead_where_the_replay_leads(estimator: str, budget: int | None, clustered: bool) -> None:
    signs, views = preferences_of(1), preferences_of(2)
    metric = views if estimator == "ppi" else np.full_like(views, ABSENT)
    units = np.arange(N_ITEMS) // 5 if clustered else np.arange(N_ITEMS)
    rated_pairs = rated_pairs_of(signs, metric=metric, units=units)
    studies = [
        answer_all(annotation(estimator=estimator, metric=metric, units=units, budget=budget), signs, choose)
        for choose in (lambda places: places[0], lambda places: places[-1], at_random(3))
    ]
    assert len({state_bytes(study) for study in studies}) == 1
    study = studies[0]
    end = replay(
        order_answers([rated_pairs], [0]),
        study.rule,
        reference_decisions=rated_pairs.reference(0.05),
        reference_proportions=rated_pairs.truth,
    )
    assert study.decision == end.decision[0].tolist()
    assert study.n == end.n[0].tolist()
    assert not any(study.is_open)


def test_a_common_look_waits_for_all_and_judges_all() -> None:
    study = annotation(estimator="pooled")
    *first, last = [(pair, place) for pair in range(6) for place in study.free_slots(pair)]
    assert [study.answer(pair, place, 1) for pair, place in first] == [None] * 29
    ruling = study.answer(*last, 1)
    assert isinstance(ruling, Ruling)
    assert ruling.pair == 5
    assert [r.pair for r in study.rulings] == list(range(6))


def test_a_ruling_says_what_it_rests_on() -> None:
    study = annotation(pairs=1, boundary="none")
    places = study.free_slots(0)
    assert places == [0, 1, 2, 3, 4]
    study.impossible(0, 2)
    assert study.free_slots(0) == [0, 1, 3, 4, 5]
    for place, sign in zip((5, 4, 3, 1), (1, 1, 0, -1), strict=True):
        assert study.answer(0, place, sign) is None
    study.withdraw(0, 1)
    assert (study.n, study.free_slots(0)) == ([3], [0, 1])
    study.answer(0, 1, 1)
    ruling = study.answer(0, 0, 1)
    assert ruling is not None
    assert ruling[:6] == (0, 0, 5, 4, 1, 0)
    assert ruling.used == (0, 1, 3, 4, 5)
    # theta = P(Beta(5, 1) > 1/2) = 1 - 2^-5, below .975: undecided, and the interval contains 0.
    assert (ruling.theta, ruling.decision, ruling.is_open) == (1 - 2**-5, 0, True)
    assert ruling.low < 0 < ruling.margin < ruling.high
    assert not study.is_in_current_look(0, 5)
    assert study.is_in_current_look(0, 6)


@pytest.mark.parametrize("estimator", ["human", "ppi", "poststratified"])
def test_the_interval_of_a_look_excludes_a_tie_where_it_decides(estimator: str) -> None:
    for seed in range(4):
        study = annotation(estimator=estimator, metric=preferences_of(seed + 50), seed=seed)
        for ruling in answer_all(study, preferences_of(seed, strength=1.0), at_random(seed)).rulings:
            assert (ruling.low > 0) == (ruling.decision == 1)
            assert (ruling.high < 0) == (ruling.decision == -1)


def test_items_that_run_out_make_a_look_smaller() -> None:
    study = annotation(pairs=1, looks=(30,), stop="decided")
    for place in range(20):
        study.impossible(0, place)
    assert study.free_slots(0) == list(range(20, 30))
    for place in range(20, 29):
        assert study.answer(0, place, 1) is None
    ruling = study.impossible(0, 29)
    assert ruling is not None
    assert (ruling.n, ruling.used, study.is_open, study.why) == (9, tuple(range(20, 29)), [False], ["rule"])
    nothing = annotation(pairs=1)
    while nothing.is_open[0]:
        assert nothing.impossible(0, nothing.free_slots(0)[0]) is None
    assert (nothing.n, nothing.why, nothing.rulings) == ([0], ["items"], [])


def test_the_last_of_a_budget_is_shared_by_place_when_all_have_theirs() -> None:
    # After 6 x 5 answers, 6 x 7 exceed the budget of 47: the remaining 17 are shared, and the first pairs get one more.
    study = annotation(budget=47, stop="decided")
    for pair in (5, 0, 3, 1, 2):
        for place in study.free_slots(pair):
            study.answer(pair, place, 0)
        assert study.free_slots(pair) == []
        assert study.is_open[pair]
    for place in study.free_slots(4):
        study.answer(4, place, 0)
    assert [len(study.free_slots(pair)) for pair in range(6)] == [3, 3, 3, 3, 3, 2]
    answer_all(study, np.zeros((6, N_ITEMS), dtype=np.int8), at_random(0))
    assert sum(study.n) == 47
    assert set(study.why) == {"budget"}
    study.set_budget(None)
    assert study.look == [2] * 6
    assert all(study.is_open)


def test_a_budget_covers_a_look_that_some_pairs_have_reached() -> None:
    # Two pairs have 5 answers each; the first requests 7 more, then both go up to 12, so 24 answers are enough.
    study = annotation(pairs=2, budget=24, stop="decided")
    for place in study.free_slots(0):
        study.answer(0, place, 0)
    assert [len(study.free_slots(pair)) for pair in (0, 1)] == [7, 5]
    less = annotation(pairs=2, budget=23, stop="decided")
    for place in less.free_slots(0):
        less.answer(0, place, 0)
    assert less.free_slots(0) == []  # The second interim analysis of both pairs needs 24.
    for place in less.free_slots(1):
        less.answer(1, place, 0)
    assert [len(less.free_slots(pair)) for pair in (0, 1)] == [7, 6]


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_whatever_happens_prefixes_are_judged_and_a_copy_goes_its_own_way(data: st.DataObject) -> None:
    options = {"budget": data.draw(st.sampled_from([None, 12, 40])), "pairs": 3}
    options["estimator"] = data.draw(st.sampled_from(["human", "human", "pooled"]))
    study, log = annotation(**options), []
    for _ in range(data.draw(st.integers(0, 80))):
        pair = data.draw(st.integers(0, 2))
        if not study.free_slots(pair):
            continue
        place = data.draw(st.sampled_from(study.free_slots(pair)))
        act = data.draw(st.sampled_from(["answer", "answer", "answer", "impossible", "withdraw"]))
        if act == "answer":
            log.append((pair, place, data.draw(st.sampled_from([1, 0, -1]))))
            study.answer(*log[-1])
        elif act == "impossible":
            log.append((pair, place, ABSENT))
            study.impossible(pair, place)
        elif log and log[-1][2] != ABSENT and study.is_in_current_look(*log[-1][:2]):
            study.withdraw(*log.pop()[:2])
    for ruling in study.rulings:
        settled = [place for place in range(max(ruling.used) + 1) if study.is_settled(ruling.pair, place)]
        assert len(settled) == max(ruling.used) + 1
        assert ruling.n == len(ruling.used) == ruling.wins + ruling.ties + ruling.losses
    assert sum(study.n) <= study.rule.budget
    repeated = annotation(**options)
    for pair, place, event in log:
        repeated.impossible(pair, place) if event == ABSENT else repeated.answer(pair, place, event)
    assert state_bytes(repeated) == state_bytes(study)
    before = state_bytes(study)
    answer_all(study.copy(), preferences_of(0), lambda places: places[0])
    assert state_bytes(study) == before


def test_the_margin_of_a_pair_that_ended_is_the_stage_wise_one() -> None:
    study = annotation(pairs=1, stop="decided")
    # 4 wins of 5 do not decide; 11 of 12 do.
    for place in range(12):
        ruling = study.answer(0, place, -1 if place == 4 else 1)
    assert ruling is not None
    assert (ruling.decision, ruling.is_open, ruling.look) == (1, False, 1)
    # Human ratings alone: the mean preference, and its spread with equal wins and losses (one pseudo-count of each of 3
    # kinds).
    score, error = np.array([10 / 12]), np.sqrt([(12 + 2) / (12 + 3) / 12])
    interval = stagewise(
        score, error, n_annotations=np.array([5, 12]), bounds=np.array(study.rule.bounds[:2]), level=0.05
    )
    assert (ruling.margin, ruling.low, ruling.high) == (interval.estimate[0], interval.low[0], interval.high[0])
    assert 0 < ruling.low < ruling.margin < 10 / 12
    stopped = annotation(pairs=1, stop="decided")
    for place in range(5):
        stopped.answer(0, place, -1 if place == 4 else 1)
    # After a stop by hand, the interval that is valid at all interim analyses still applies.
    assert stopped.rulings[-1].low < 0 < stopped.rulings[-1].margin


def test_analyses_are_common_if_items_that_a_pair_may_need_share_a_cluster() -> None:
    # At most 20 items of a pair are needed; every cluster gives one item before any gives a second item.
    assert annotation(pairs=2, units=np.arange(N_ITEMS) // 2).is_common  # 15 clusters
    assert not annotation(pairs=2, units=np.minimum(np.arange(N_ITEMS), 19)).is_common


def test_a_later_look_that_was_shortened_gets_its_planned_number_again() -> None:
    study = annotation(pairs=1, looks=(5, 12, 20), stop="decided", boundary=9.0)
    for place in range(5):
        study.answer(0, place, 1)
    refused = list(range(8, N_ITEMS))
    for place in refused:
        study.impossible(0, place)
    assert (study.target, study.free_slots(0)) == ([8], [5, 6, 7])
    assert study.possible(0, refused) == refused
    assert (study.target, study.free_slots(0)) == ([12], list(range(5, 12)))
