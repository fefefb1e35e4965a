"""What the owner of a study may see while it runs: completed looks, never a running estimate."""

from __future__ import annotations

from dataclasses import dataclass

from custodes.annotate.plan import StudyPlan
from custodes.data.notes import Note, noted


@dataclass(frozen=True, kw_only=True)
class PairNow:
    """A pair of systems (of ratings: one system, `second` ''): answers in and wanted by the present look, looks done
    and in all, and what the last completed look says (`decision` 1, 0, -1; None before the first)."""

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


@dataclass(frozen=True, kw_only=True)
class PersonNow:
    """A person: answers to real questions, median visible seconds, known comparisons right of those asked, how often
    the first shown was preferred of what was decided, second opinions that agree of those there are, refusals.
    `standing`: ok, watch, blocked or excluded; `flags` say why."""

    worker: int
    label: str
    source: str
    external_id: str
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
    """The whole study now; `state` is open, paused or stopped; `recent`: primary answers of the last 30 minutes of
    work, `paid`: answers of all kinds that are paid for, `last_answer` in seconds since the epoch."""

    plan: StudyPlan
    state: str
    pairs: tuple[PairNow, ...]
    people: tuple[PersonNow, ...]
    answers: int
    primary: int
    second: int
    gold: int
    refused: int
    late: int
    paid: int
    recent: int
    peeked: int
    comments: tuple[tuple[str, str, float], ...]
    """(worker, text, at), the newest first."""
    last_answer: float | None

    @property
    def notes(self) -> list[Note]:
        """What the tables do not say by themselves."""
        ended = [pair for pair in self.pairs if not (pair.is_open or pair.looks_done or pair.wanted) and pair.second]
        unjudged = sum(pair.impossible > 0 for pair in ended)
        told = (
            f"pairs that ended without a look, since people could judge none of their comparisons: {unjudged}; who"
            " refused too easily can be excluded, then they are asked again"
        )
        return noted(("unjudged", unjudged, told))
