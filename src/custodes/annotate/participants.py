"""People as the service knows them: who they are, their visits, what is before them, and what their work amounts to."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

NOTHING: Mapping[int, int] = MappingProxyType({})
NOBODY: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class Annotator:
    """A person. `seen` items; `had` units, with what became of them; `refused`: units that could not be judged; `load`:
    primary answers, refusals and open questions of a pair; `lapsed`: answers that an exclusion set free."""

    id: int
    label: str
    source: str
    external_id: str
    sessions: list[Session] = field(default_factory=list)
    excluded: bool = False
    by: str = ""
    reason: str = ""
    forgotten: bool = False
    qualified: bool | None = None
    batches: int = 0
    seen: set[int] = field(default_factory=set)
    had: set[int] = field(default_factory=set)
    known: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    load: Counter[int] = field(default_factory=Counter)
    votes: dict[int, IssuedQuestion] = field(default_factory=dict)
    lapsed: dict[int, IssuedQuestion] = field(default_factory=dict)
    work: Work = field(default_factory=lambda: Work())

    @property
    def is_able(self) -> bool:
        """Whether they may be asked: they said yes (or nothing yet), and nothing ended their work."""
        has_declined = bool(self.sessions) and all(session.declined for session in self.sessions)
        return not (self.excluded or self.forgotten or self.qualified is False or has_declined)


@dataclass(slots=True, eq=False)
class Work:
    """What a person's answers amount to; `times`: seconds while a question was visible."""

    answers: int = 0
    refused: int = 0
    first_shown: int = 0
    decided: int = 0
    equal: int = 0
    right: int = 0
    asked: int = 0
    trained: int = 0
    training_right: int = 0
    agreed: int = 0
    doubled: int = 0
    paid: int = 0
    times: array[float] = field(default_factory=lambda: array("d"))


@dataclass(slots=True, eq=False)
class Session:
    """A visit. `finished`: its person wants no more. `number`: the last place of the batch that was given out; `known`:
    the kinds of known comparisons at places of the batch; `open`: what is before the person, the last one shown;
    `answered`: what may be taken back."""

    id: int
    worker: Annotator
    params: Mapping[str, str]
    agreed: str | None = None
    declined: bool = False
    begun: bool = False
    finished: bool = False
    batch: int = 0
    number: int = 0
    known: Mapping[int, str] = field(default_factory=dict)
    open: list[IssuedQuestion] = field(default_factory=list)
    answered: list[IssuedQuestion] = field(default_factory=list)
    codes: dict[str, str] = field(default_factory=dict)
    last_item: int | None = None

    @property
    def is_closed(self) -> bool:
        """Whether nothing that it sends is written down: its person left, or is forgotten."""
        return self.declined or self.worker.forgotten


@dataclass(slots=True, eq=False)
class IssuedQuestion:
    """A question that was given to somebody. `holds`: nobody else is asked it as primary; `counts`: what its answer
    counted as ('' before); `value`: the answer in the first aspect, None where it could not be judged."""

    id: int
    session: Session
    batch: int
    number: int
    unit: int | None
    gold: int | None
    role: str
    flip: int
    at: float
    again: int | None
    holds: bool = False
    expired: bool = False
    counts: str = ""
    value: int | None = None
    is_void: bool = False


@dataclass(slots=True, eq=False)
class Unit:
    """An item of a pair at its place. By person: `votes` that count, `seconds` beside them, who `refused`. `holders`:
    open questions of it; `asked`: open second opinions of it; `leased`: the engine knows that enough people have it.

    There are as many as all that could be asked, most of them untouched, so these share what is empty."""

    id: int
    pair: int
    place: int
    item: int
    votes: Mapping[int, int] = field(default_factory=lambda: NOTHING)
    seconds: Mapping[int, int] = field(default_factory=lambda: NOTHING)
    holders: frozenset[int] = NOBODY
    asked: frozenset[int] = NOBODY
    refused: frozenset[int] = NOBODY
    leased: bool = False
