"""Which question a person gets next, with the probability that it was this one, which is kept with it.

Within a pair the first free place of an order that was drawn beforehand is taken, so the items of a prefix are a simple
random sample whoever comes; what is drawn here is the role and the pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from random import Random
from typing import NamedTuple

from custodes.annotate.book import Book
from custodes.annotate.people import Session, Unit, Worker
from custodes.annotate.plan import People

EVEN = "even-1"
"""Comparisons: all open pairs alike."""
TOGETHER = "together-1"
"""Ratings: all outputs of an item by one person, apart from each other where that can be."""
LEAST_CAP = 2
BEYOND = 3
"""So many second opinions, and known comparisons of an idle person, may be more than their share of the answers."""
ACTIVE = 3
"""Items whose outputs one person rates in turn."""


class Choice(NamedTuple):
    """What is asked, and how it was chosen: one of `eligible` pairs (of ratings: outputs)."""

    role: str
    unit: Unit | None
    gold: int | None
    flip: int
    look: int | None
    eligible: int | None
    p_role: float
    p_pair: float | None
    policy: str


def schedule(book: Book, batch: int, rng: Random) -> dict[int, str]:
    """The places of known comparisons in a batch, by kind."""
    people, kinds = book.plan.people, [kind for kind, _ in book.gold.values()]
    gold = round(people.batch / people.gold_every) if people.gold_every else 0
    gold += gold > 0 and batch == 1  # somebody new is looked at twice
    wanted = ["gold"] * (gold if "gold" in kinds else 0)
    wanted += ["attention"] * (people.attention if "attention" in kinds else 0)
    wanted = wanted[: people.batch - 1]
    return dict(zip(sorted(rng.sample(range(1, people.batch + 1), len(wanted))), _mixed(wanted, rng), strict=True))


def _mixed(names: Sequence[str], rng: Random) -> list[str]:
    return rng.sample(names, len(names))


def known(book: Book, session: Session, kind: str, rng: Random) -> Choice | None:
    """A known comparison that this person has not seen."""
    new = [number for number, (own, _) in book.gold.items() if own == kind and number not in session.worker.known]
    if not new:
        return None
    flip = 0 if book.plan.question.mode == "rate" else rng.getrandbits(1)
    return Choice(kind, None, rng.choice(new), flip, None, None, 1.0, None, EVEN)


def real(book: Book, session: Session, rng: Random) -> Choice | None:
    """A comparison or a rating; None where there is none for this person now."""
    worker = session.worker
    if book.plan.question.mode == "rate":
        primary = rating(book, session, rng)
    else:
        free = primaries(book, worker)
        primary = None
        if free:
            unit = free[rng.randrange(len(free))]
            p = 1 / len(free)
            look = book.ballots.engine.look[unit.pair]
            primary = Choice("primary", unit, None, flip_of(book, unit), look, len(free), 1.0, p, EVEN)
    share = book.plan.people.overlap
    doubled = seconds(book, worker) if has_room(book) else []
    if not doubled:
        return primary
    if primary is None:
        return _second(book, worker, doubled, 1.0, rng)
    if rng.random() < share:
        return _second(book, worker, doubled, share, rng)
    return primary._replace(p_role=1 - share)


def has_room(book: Book) -> bool:
    """Whether one more second opinion is no more than their share of the answers, and `BEYOND`."""
    share = book.plan.people.overlap
    second = book.totals.second + book.ballots.asked_again + 1
    return share > 0 and second <= share * (book.totals.primary + second) + BEYOND


def has_room_known(book: Book, worker: Worker) -> bool:
    """Whether somebody who is idle may be asked one more known comparison: no more than their share, and `BEYOND`."""
    every, work = book.plan.people.gold_every, worker.work
    return every > 0 and work.asked + 1 <= work.answers / every + BEYOND


def cap(people: People, target: int, there: int | None) -> int:
    """Answers of one person to a pair with so many in its looks at most; `there`: how many people there are, where that
    is known. Then they can do all of it, however few they are.

    >>> cap(People(), 10, None), cap(People(), 10, 4), cap(People(), 10, 1)
    (2, 3, 10)
    """
    alike = ceil(target * people.per_item / there) if there else 0
    return max(LEAST_CAP, int(people.cap * target), alike)


def there(book: Book) -> int | None:
    """How many people may answer, where each has a link of their own; None where nobody knows who will come."""
    return sum(own.is_able for own in book.workers.values()) if book.plan.people.recruit == "links" else None


def below_cap(book: Book, worker: Worker) -> set[int]:
    """Open pairs of which this person has not had their share."""
    engine, people, known = book.ballots.engine, book.plan.people, there(book)
    return {
        pair
        for pair, is_open in enumerate(engine.is_open)
        if is_open and worker.load[pair] < cap(people, engine.target[pair], known)
    }


def primaries(book: Book, worker: Worker) -> list[Unit]:
    """Of every eligible pair the unit that this person would get."""
    own = below_cap(book, worker)
    units = [_first(book, worker, pair) for pair in book.ballots.engine.open_pairs() if pair in own]
    return [unit for unit in units if unit is not None]


def _first(book: Book, worker: Worker, pair: int) -> Unit | None:
    """The first free place whose item this person has not seen, else the first that he has not had."""
    other = None
    for unit in book.ballots.wanted(pair):
        if unit.item not in worker.seen:
            return unit
        if other is None and unit.id not in worker.had:
            other = unit
    return other


def seconds(book: Book, worker: Worker) -> list[int]:
    """Pairs with a unit that others have answered, and that this person never had."""
    return [
        pair
        for pair, units in enumerate(book.ballots.singles)
        if units and any(unit not in worker.had for unit in units)
    ]


def _second(book: Book, worker: Worker, pairs: Sequence[int], p_role: float, rng: Random) -> Choice:
    pair = pairs[rng.randrange(len(pairs))]
    able = [unit for number, unit in book.ballots.singles[pair].items() if number not in worker.had]
    able = [unit for unit in able if unit.item not in worker.seen] or able
    unit = able[rng.randrange(len(able))]
    n = book.ballots.seconds_given[pair]
    flip = 0 if book.plan.question.mode == "rate" else _side(book, f"second {pair}", n)
    look = book.ballots.engine.look[pair]
    return Choice("second", unit, None, flip, look, len(pairs), p_role, 1 / len(pairs), EVEN)


def flip_of(book: Book, unit: Unit) -> int:
    """Whether the second system is shown first: balanced in blocks of two places, drawn by the seed of the plan, so
    that the answers of a prefix are balanced whoever gave them; where several people answer, they take turns."""
    turn = len(unit.votes) + len(unit.holders)
    return _side(book, str(unit.pair), unit.place) ^ (turn & 1)


def _side(book: Book, what: str, n: int) -> int:
    return Random(f"{book.plan.seed} {what} {n // 2}").getrandbits(1) ^ (n & 1)


def rating(book: Book, session: Session, rng: Random) -> Choice | None:
    """An output of an item that this person has begun, not the one before; or of a new item; or what others left."""
    worker = session.worker
    free: dict[int, list[Unit]] = {}
    for pair in book.ballots.engine.open_pairs():
        for unit in book.ballots.wanted(pair):
            if unit.id not in worker.had:
                free.setdefault(unit.item, []).append(unit)
    begun = [item for item in free if item in worker.seen]
    choice = [unit for item in begun if item != session.last_item for unit in free[item]]
    own = below_cap(book, worker)
    new = {
        item: [unit for unit in units if unit.pair in own] for item, units in free.items() if item not in worker.seen
    }
    if len(begun) < ACTIVE:
        choice = _first_item(new, {item for item in new if _is_new(book, item)}) or choice
    choice = choice or [unit for item in begun for unit in free[item]]
    choice = choice or _first_item(new, {item for item in new if _is_left(book, item)})
    if not choice:
        return None
    unit = choice[rng.randrange(len(choice))]
    return Choice("primary", unit, None, 0, 0, len(choice), 1.0, 1 / len(choice), TOGETHER)


def _is_new(book: Book, item: int) -> bool:
    """Whether one more person may begin it."""
    return len(book.began.get(item, ())) < book.plan.people.per_item


def _is_left(book: Book, item: int) -> bool:
    """Whether nobody who began it is at work."""
    return not any(
        not given.expired for worker in book.began.get(item, ()) for own in worker.sessions for given in own.open
    )


def _first_item(units: dict[int, list[Unit]], items: set[int]) -> list[Unit]:
    """The outputs of the first of these items."""
    able = [item for item in items if units[item]]
    first = min(able, key=lambda item: (min(unit.place for unit in units[item]), item), default=None)
    return [] if first is None else units[first]
