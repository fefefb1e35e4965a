"""What the owner of a study may see while it runs: completed looks, never a running estimate."""

from __future__ import annotations

from dataclasses import dataclass

from custodes.annotate.plan import StudyPlan
from custodes.annotate.reach import Reach, notes_on
from custodes.data.notes import Note, noted


@dataclass(frozen=True, kw_only=True)
class PairNow:
    """A pair of systems (of ratings: one system, `second` ''): answers in and wanted by the present look, looks done
    and in all, what the last completed look says (`decision` 1, 0, -1; None before the first), and how many people's
    answers count (`people`)."""

    first: str
    second: str
    answered: int
    wanted: int
    looks_done: int
    looks: int
    is_open: bool
    decision: int | None
    n: int
    wins: int
    ties: int
    losses: int
    margin: float | None
    low: float | None
    high: float | None
    impossible: int
    people: int


@dataclass(frozen=True, kw_only=True)
class PersonNow:
    """A person, who `began` or has only a link: answers to real questions, median visible seconds, known comparisons
    right of those asked, how often the first shown was preferred of what was decided, second opinions that agree of
    those there are, refusals. `name`: given at an open door. `standing`: ok, watch, blocked or excluded; `flags` say
    why."""

    worker: int
    label: str
    source: str
    external_id: str
    name: str
    began: bool
    answers: int
    batches: int
    seconds: float | None
    gold_right: int
    gold_asked: int
    first_shown: int
    decided: int
    equal: int
    agreed: int
    doubled: int
    refused: int
    standing: str
    flags: tuple[str, ...]
    code: str | None


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The whole study now; `state` is open, paused, stopped, or finished where no pair is open; `failing`: why answers
    cannot be written, '' where they can; `recent`: primary answers of the last 30 minutes of work, `paid`: answers of
    all kinds that are paid for, `last_answer` in seconds since the epoch; `reach`: whether the people there are can
    finish what is asked now."""

    plan: StudyPlan
    state: str
    failing: str
    pairs: tuple[PairNow, ...]
    people: tuple[PersonNow, ...]
    answers: int
    primary: int
    second: int
    gold: int
    refused: int
    late: int
    paid: int
    known: frozenset[str]
    """Kinds of the known questions that there are."""
    recent: int
    peeked: int
    comments: tuple[tuple[str, str, float], ...]
    """(worker, text, at), the newest first."""
    last_answer: float | None
    quiet: float | None
    """Seconds since then."""
    reach: Reach

    @property
    def notes(self) -> list[Note]:
        """What its owner must know of the people, and of what they could not judge."""
        judged_by = [pair.people for pair in self.pairs if pair.looks_done]
        ended = [pair for pair in self.pairs if not (pair.is_open or pair.looks_done or pair.wanted) and pair.second]
        unjudged = sum(pair.impossible > 0 for pair in ended)
        told = (
            f"pairs that ended without a look, since people could judge none of their comparisons: {unjudged}; who"
            " refused too easily can be excluded, then they are asked again"
        )
        reached = notes_on(self.reach, has_links=self.plan.people.recruit == "links", judged_by=judged_by)
        return [*reached, *noted(("unjudged", unjudged, told))]
