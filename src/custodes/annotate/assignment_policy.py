"""Selection of the next question of an annotator. The probability of the selection is stored.

The random order of the items of a pair is drawn when the study is created. A primary comparison is the first free
position of its pair, if possible one whose item is new to the annotator. So the first positions of an order are a
simple random sample of the items, whoever annotates. This module draws the pair and the role of the question.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from random import Random
from typing import NamedTuple

from custodes.annotate.participants import Annotator, Session, Unit
from custodes.annotate.plan import AnnotatorPlan
from custodes.annotate.state import StudyState

LEAST_CAP = 2
BEYOND = 3
"""The number of second opinions may exceed the planned proportion by this number, and so may the number of control
questions of an idle annotator."""
ACTIVE = 3
"""Maximum number of items whose outputs an annotator rates alternately."""


class NextQuestion(NamedTuple):
    """A question, with the probability of its role and the probability of its pair. For ratings, the second probability
    is that of the output."""

    role: str
    unit: Unit | None
    gold: int | None
    flip: int
    look: int | None
    p_role: float
    p_pair: float | None


def schedule(state: StudyState, batch: int, rng: Random) -> dict[int, str]:
    """Draw the positions of the control questions in a batch. Return the kind of control question at each position."""
    annotators, kinds = state.plan.annotators, [kind for kind, _ in state.gold.values()]
    gold = round(annotators.batch / annotators.gold_every) if annotators.gold_every else 0
    gold += gold > 0 and batch == 1  # new annotators get one more control question
    kinds_of_places = ["gold"] * (gold if "gold" in kinds else 0)
    kinds_of_places += ["attention"] * (annotators.attention if "attention" in kinds else 0)
    kinds_of_places = kinds_of_places[: annotators.batch - 1]
    return dict(
        zip(
            sorted(rng.sample(range(1, annotators.batch + 1), len(kinds_of_places))),
            rng.sample(kinds_of_places, len(kinds_of_places)),
            strict=True,
        )
    )


def known(state: StudyState, session: Session, kind: str, rng: Random) -> NextQuestion | None:
    """Return a random control question that this annotator has not seen, or None if there is none."""
    new = [number for number, (other, _) in state.gold.items() if other == kind and number not in session.worker.known]
    if not new:
        return None
    flip = 0 if state.plan.question.mode == "rate" else rng.getrandbits(1)
    return NextQuestion(kind, None, rng.choice(new), flip, None, 1.0, None)


def real(state: StudyState, session: Session, rng: Random) -> NextQuestion | None:
    """Return a comparison or a rating, or None if no question is free for this annotator."""
    worker = session.worker
    if state.plan.question.mode == "rate":
        primary = rating(state, session, rng)
    else:
        free = primaries(state, worker)
        primary = None
        if free:
            unit = free[rng.randrange(len(free))]
            look = state.assignments.engine.look[unit.pair]
            primary = NextQuestion("primary", unit, None, flip_of(state, unit), look, 1.0, 1 / len(free))
    share = state.plan.annotators.overlap
    doubled = seconds(state, worker) if has_room(state) else []
    if not doubled:
        return primary
    if primary is None:
        return _second(state, worker, doubled, 1.0, rng)
    if rng.random() < share:
        return _second(state, worker, doubled, share, rng)
    return primary._replace(p_role=1 - share)


def has_room(state: StudyState) -> bool:
    """Whether one more second opinion is allowed. The number of second opinions may exceed the planned proportion by
    `BEYOND`."""
    share = state.plan.annotators.overlap
    second = state.totals.second + state.assignments.asked_again + 1
    return share > 0 and second <= share * (state.totals.primary + second) + BEYOND


def has_room_known(state: StudyState, worker: Annotator) -> bool:
    """Whether an idle annotator may get one more control question. The number of the annotator's control questions may
    exceed the planned proportion by `BEYOND`."""
    every, work = state.plan.annotators.gold_every, worker.work
    return every > 0 and work.gold_asked + 1 <= work.answers / every + BEYOND


def cap(annotators: AnnotatorPlan, target: int, there: int | None) -> int:
    """Return the maximum number of answers that one annotator may give to a pair that needs `target` answers. `there`
    is the number of annotators, or None if it is unknown. If there are few annotators, the maximum is raised so that
    they can complete the study.

    >>> cap(AnnotatorPlan(), 10, None), cap(AnnotatorPlan(), 10, 4), cap(AnnotatorPlan(), 10, 1)
    (2, 3, 10)
    """
    even_share = ceil(target * annotators.per_item / there) if there else 0
    return max(LEAST_CAP, int(annotators.cap * target), even_share)


def there(state: StudyState) -> int | None:
    """Return the number of annotators who may answer. If annotators arrive by an open link, this number is unknown, and
    None is returned."""
    return (
        sum(worker.is_able for worker in state.workers.values()) if state.plan.annotators.recruit == "links" else None
    )


def below_cap(state: StudyState, worker: Annotator) -> list[int]:
    """Return the open pairs for which this annotator has not reached the cap."""
    engine, annotators, annotator_there = state.assignments.engine, state.plan.annotators, there(state)
    return [
        pair
        for pair, is_open in enumerate(engine.is_open)
        if is_open and worker.load[pair] < cap(annotators, engine.target[pair], annotator_there)
    ]


def primaries(state: StudyState, worker: Annotator) -> list[Unit]:
    """Return the unit that this annotator would get from each pair, if there is one."""
    units = [_first(state, worker, pair) for pair in below_cap(state, worker)]
    return [unit for unit in units if unit is not None]


def _first(state: StudyState, worker: Annotator, pair: int) -> Unit | None:
    """Return the first free unit whose item this annotator has not seen. If there is none, return the first free unit
    that this annotator never got, or None."""
    other = None
    for unit in state.assignments.wanted(pair):
        if unit.item not in worker.seen:
            return unit
        if other is None and unit.id not in worker.had:
            other = unit
    return other


def seconds(state: StudyState, worker: Annotator) -> list[int]:
    """Return the pairs with a unit that needs a second opinion and that this annotator never got."""
    return [
        pair
        for pair, units in enumerate(state.assignments.singles)
        if units and any(unit not in worker.had for unit in units)
    ]


def _second(state: StudyState, worker: Annotator, pairs: Sequence[int], p_role: float, rng: Random) -> NextQuestion:
    pair = pairs[rng.randrange(len(pairs))]
    able = [unit for number, unit in state.assignments.singles[pair].items() if number not in worker.had]
    able = [unit for unit in able if unit.item not in worker.seen] or able
    unit = able[rng.randrange(len(able))]
    n = state.assignments.seconds_given[pair]
    flip = 0 if state.plan.question.mode == "rate" else _side(state, f"second {pair}", n)
    look = state.assignments.engine.look[pair]
    return NextQuestion("second", unit, None, flip, look, p_role, 1 / len(pairs))


def flip_of(state: StudyState, unit: Unit) -> int:
    """Whether the second system is shown first. The sides are drawn with the seed of the plan and balanced in blocks of
    two positions, so the first positions of an order are balanced, whoever annotates. Several answers to one unit
    alternate between the sides."""
    turn = len(unit.votes) + len(unit.holders)
    return _side(state, str(unit.pair), unit.place) ^ (turn & 1)


def _side(state: StudyState, what: str, n: int) -> int:
    return Random(f"{state.plan.seed} {what} {n // 2}").getrandbits(1) ^ (n & 1)


def rating(state: StudyState, session: Session, rng: Random) -> NextQuestion | None:
    """Return an output to rate, or None if no output is free. An annotator with fewer than `ACTIVE` begun items gets an
    output of a new item, if there is one. Otherwise the output belongs to a begun item, if possible not to the latest
    item. If there is no such output, it belongs to an item that inactive annotators left."""
    worker = session.worker
    free: dict[int, list[Unit]] = {}
    for pair in range(len(state.assignments.places)):
        for unit in state.assignments.wanted(pair):
            if unit.id not in worker.had:
                free.setdefault(unit.item, []).append(unit)
    begun = [item for item in free if item in worker.seen]
    choice = [unit for item in begun if item != session.last_item for unit in free[item]]
    allowed = set(below_cap(state, worker))
    new = {
        item: [unit for unit in units if unit.pair in allowed]
        for item, units in free.items()
        if item not in worker.seen
    }
    if len(begun) < ACTIVE:
        beginnable = {item for item in new if len(state.began.get(item, ())) < state.plan.annotators.per_item}
        choice = _first_item(new, beginnable) or choice
    choice = choice or [unit for item in begun for unit in free[item]]
    choice = choice or _first_item(new, {item for item in new if _is_left(state, item)})
    if not choice:
        return None
    unit = choice[rng.randrange(len(choice))]
    return NextQuestion("primary", unit, None, 0, 0, 1.0, 1 / len(choice))


def _is_left(state: StudyState, item: int) -> bool:
    """Whether all annotators who began the item are inactive."""
    return not any(
        not issued.expired
        for worker in state.began.get(item, ())
        for session in worker.sessions
        for issued in session.open
    )


def _first_item(units: dict[int, list[Unit]], items: set[int]) -> list[Unit]:
    """Return the units of one of the `items`: the item that comes first in the orders."""
    able = [item for item in items if units[item]]
    first = min(able, key=lambda item: (min(unit.place for unit in units[item]), item), default=None)
    return [] if first is None else units[first]
