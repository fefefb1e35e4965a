"""Annotators in the state of the service: identity, visits, open questions, and counts of their work."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

NOTHING: Mapping[int, int] = MappingProxyType({})
NOBODY: frozenset[int] = frozenset()
"""Empty containers, shared because there is one `Unit` per possible question."""


@dataclass(slots=True, eq=False)
class Annotator:
    """An annotator. `seen` items; `had`: units that the annotator got, with their outcome; `refused`: units that could
    not be judged; `load`: primary answers, refusals and open questions by pair; `lapsed`: answers that an exclusion
    freed."""

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
        """Whether the annotator may get questions: consent is given (or not yet requested), and the work has not
        ended."""
        has_declined = bool(self.sessions) and all(session.declined for session in self.sessions)
        return not (self.excluded or self.forgotten or self.qualified is False or has_declined)


@dataclass(slots=True, eq=False)
class Work:
    """Counts of an annotator's answers. `answers` to real questions, of which `decided` are no ties (`equal`) and
    `first_shown` prefer the output shown first; `gold_right` of `gold_asked` control questions, `training_right` of
    `trained` qualification questions; `agreed` of `doubled` comparisons with second opinions; `paid` answers of all
    kinds. `times`: seconds while a question was visible."""

    answers: int = 0
    refused: int = 0
    first_shown: int = 0
    decided: int = 0
    equal: int = 0
    gold_right: int = 0
    gold_asked: int = 0
    trained: int = 0
    training_right: int = 0
    agreed: int = 0
    doubled: int = 0
    paid: int = 0
    times: array[float] = field(default_factory=lambda: array("d"))


@dataclass(slots=True, eq=False)
class Session:
    """A visit. `finished`: the annotator ended the visit. `number`: the last assigned position of the batch; `known`:
    kinds of the control questions by position in the batch; `open`: open questions, the last one displayed; `answered`:
    answers that may be withdrawn."""

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
        """Whether actions of the visit are ignored because the annotator has left or was erased."""
        return self.declined or self.worker.forgotten


@dataclass(slots=True, eq=False)
class IssuedQuestion:
    """An assigned question. `holds`: the unit is not given to others as primary; `counts`: role of its answer (''
    before); `value`: the answer in the first aspect, None for a refusal."""

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
    """An item of a pair at its position. By annotator: `votes` that count, second opinions (`seconds`), and who
    `refused`. `holders`: its open questions; `asked`: its open second opinions; `leased`: whether the engine has it as
    leased."""

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
