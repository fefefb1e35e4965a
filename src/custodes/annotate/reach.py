"""Whether the people there are can finish what is asked now, and of whom decisions speak: told wherever a study is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from custodes.annotate import policy
from custodes.annotate.book import Book
from custodes.annotate.people import Worker
from custodes.data.notes import Note, noted
from custodes.errors import listed
from custodes.stats.reliability import FEWEST_PEOPLE

STANDSTILL, FEW_PEOPLE = "standstill", "few-people"


@dataclass(frozen=True, kw_only=True)
class Reach:
    """Of the answers that present looks lack: how many are `free`, which nobody has before them, and how many of these
    are `short`, which nobody there may give. `able`: who may give some; `idle`: how many others could answer, and may
    give none."""

    free: int = 0
    short: int = 0
    able: tuple[str, ...] = ()
    idle: int = 0

    @property
    def there(self) -> int:
        """Everybody who may be asked."""
        return len(self.able) + self.idle


def reach_of(book: Book) -> Reach:
    """How far the people there are get."""
    if book.ballots.asking is None or book.control == "stopped":
        return Reach()
    ballots, plan, known = book.ballots, book.plan.people, policy.there(book)
    people = [own for own in book.workers.values() if own.is_able]
    free, short, able = 0, 0, set[int]()
    for pair in ballots.engine.open_pairs():
        units = {unit.id: ballots.lacks(unit) for unit in ballots.wanted(pair)}
        most, lacking = policy.cap(plan, ballots.engine.target[pair], known), sum(units.values())
        free, short = free + lacking, short + lacking
        for worker in people:
            more = min(most - worker.load[pair], len(units) - len(worker.had & units.keys()))
            if more > 0 and not _is_through(worker, batch=plan.batch, batches=plan.batches):
                able.add(worker.id)
                short -= min(more, lacking)
                lacking -= min(more, lacking)
    labels = tuple(book.workers[number].label for number in sorted(able))
    return Reach(free=free, short=short, able=labels, idle=len(people) - len(able))


def _is_through(worker: Worker, *, batch: int, batches: int) -> bool:
    """Whether somebody has done all batches."""
    is_within = any(own.batch == worker.batches and own.number < batch for own in worker.sessions)
    return worker.batches >= batches and not is_within


def notes_on(reach: Reach, *, has_links: bool, judged_by: Sequence[int]) -> list[Note]:
    """What an owner must know of the people; `judged_by`: how many people gave the answers of each pair that was
    judged."""
    few = [people for people in judged_by if people < FEWEST_PEOPLE]
    return [
        *_standstill(reach, has_links=has_links),
        *noted(
            (
                FEW_PEOPLE,
                len(few),
                f"{len(few)} pairs were judged by fewer than {FEWEST_PEOPLE} people, the fewest {min(few, default=0)}:"
                f" this speaks of these {_some(few)} people only",
            )
        ),
    ]


def _some(few: Sequence[int]) -> str:
    low, high = min(few, default=0), max(few, default=0)
    return f"{low}" if low == high else f"{low} to {high}"


def _standstill(reach: Reach, *, has_links: bool) -> Iterator[Note]:
    if not reach.there:
        return
    way_out = "raise the cap (Price and limits on the owner's page)"
    if reach.short:
        yield Note(
            rule=STANDSTILL,
            message=f"the {reach.there} people there are cannot finish the present looks: {reach.short} of {reach.free}"
            " answers that are free are beyond what each may give ([people] cap, batches); ask more people, or"
            f" {way_out}",
        )
    elif has_links and reach.free and len(reach.able) <= reach.idle:
        yield Note(
            rule=STANDSTILL,
            message=f"the {reach.free} answers that are free in the present looks can come from {listed(reach.able)}"
            f" alone, and the other {reach.idle} have given their share; remind them, exclude who does not come back"
            f" (then others may do more), or {way_out}",
        )
