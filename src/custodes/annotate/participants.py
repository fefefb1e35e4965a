"""Annotators in the state of a study: identity, visit, assigned questions, units, counts of answers, and status.

The status of an annotator is ok, watch or blocked, with reasons. The status does not depend on which systems the
annotator prefers. Only control questions (gold, attention) block an annotator. Blocking is decided by a sequential test
of the accuracy .85 against the accuracy .45. All other criteria only set flags for the owner.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from types import MappingProxyType
from typing import Literal, NamedTuple

import msgspec

NOTHING: Mapping[int, int] = MappingProxyType({})
"""An empty mapping that all objects of `Unit` share. This saves memory, because there is a `Unit` for each possible
question."""


@dataclass(slots=True, eq=False)
class Annotator:
    """An annotator and the annotator's visit.

    `by`: who excluded the annotator (rule or owner). `agreed`: digest of the consent text that the annotator accepted.
    `finished`: whether the annotator ended the visit. `batch`: number of the current batch. `number`: position of the
    latest question in the batch. `control_kind_of_position`: kind of each control question, by position in the batch.
    `open`: open questions, of which the last one is displayed. `answered`: questions whose answers may be withdrawn.
    `codes`: completion codes, by reason for the end of the visit. `assigned_units`: units that were assigned to the
    annotator, answered or not. `refused`: units that the annotator could not judge. `load`: number of primary answers,
    refusals and open questions of each pair. `votes`: answers that count, by unit.
    """

    id: int
    label: str
    source: str
    external_id: str
    excluded: bool = False
    by: str = ""
    forgotten: bool = False
    qualified: bool | None = None
    agreed: str | None = None
    declined: bool = False
    begun: bool = False
    finished: bool = False
    batch: int = 0
    number: int = 0
    control_kind_of_position: Mapping[int, str] = field(default_factory=dict)
    open: list[IssuedQuestion] = field(default_factory=list)
    answered: list[IssuedQuestion] = field(default_factory=list)
    codes: dict[str, str] = field(default_factory=dict)
    last_item: int | None = None
    seen_items: set[int] = field(default_factory=set)
    assigned_units: set[int] = field(default_factory=set)
    seen_control_questions: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    load: Counter[int] = field(default_factory=Counter)
    votes: dict[int, IssuedQuestion] = field(default_factory=dict)
    work: Work = field(default_factory=lambda: Work())

    @property
    def is_able(self) -> bool:
        """Whether the annotator may get questions. The result is false if the annotator is excluded, erased or not
        qualified, or has declined or left."""
        return not (self.excluded or self.is_closed or self.qualified is False)

    @property
    def is_closed(self) -> bool:
        """Whether actions of the annotator are ignored, because the annotator has left or was erased."""
        return self.declined or self.forgotten


@dataclass(slots=True, eq=False)
class Work:
    """Counts of the answers of an annotator or of the whole study.

    `primary`: answers that are used for decisions. `second`: second opinions. Among the answers counted in `primary`
    and `second`, `equal` are ties, `decided` prefer one output, and `first_shown` prefer the output shown first.
    `refused`: questions that the annotator could not judge. `gold_asked`: answers to control questions, of which
    `gold_right` are correct. `trained`: answers to qualification questions, of which `training_right` are correct.
    `paid`: paid answers of all kinds. `times`: seconds for which each answered question was visible.
    """

    primary: int = 0
    second: int = 0
    refused: int = 0
    first_shown: int = 0
    decided: int = 0
    equal: int = 0
    gold_right: int = 0
    gold_asked: int = 0
    trained: int = 0
    training_right: int = 0
    paid: int = 0
    times: array[float] = field(default_factory=lambda: array("d"))

    @property
    def answers(self) -> int:
        """Number of answers to real questions."""
        return self.primary + self.second


class IssuedQuestion(msgspec.Struct, kw_only=True, eq=False):
    """A question that was assigned to an annotator.

    `again`: number of the assignment that this question repeats for a correction. `holds`: whether the question
    reserves an answer of the unit. `answer_role`: role of the answer, or '' before the answer.
    `value`: answer in the first aspect, or None for a refusal.
    """

    id: int
    worker: Annotator
    number: int
    unit: Unit | None
    gold: int | None
    role: str
    flip: int
    at: float
    again: int | None
    holds: bool = False
    expired: bool = False
    answer_role: str = ""
    value: int | None = None


class Unit(msgspec.Struct, kw_only=True, eq=False, gc=False):
    """An item of a pair at a position in the order of the pair.

    `votes`: answers that count, by annotator. `second_opinions`: by annotator. `refused`: annotators who could not
    judge the unit. `n_holders`: number of open primary questions on the unit. `n_open_second_opinions`: number of open
    questions for a second opinion.
    """

    id: int
    pair: int
    place: int
    item: int
    votes: Mapping[int, int] = NOTHING
    second_opinions: Mapping[int, int] = NOTHING
    refused: frozenset[int] = frozenset()
    n_holders: int = 0
    n_open_second_opinions: int = 0


FAST = 0.25
"""An annotator is flagged as fast if the median time is below this fraction of the typical time in the study."""
FEWEST = 16
"""Minimum number of timed answers for the flag `fast`. If 20 annotators are equally fast and times are log-normal (SD
of the log 1.2), fewer than 1 in 50 studies ever flag an annotator."""
SEEN = 8
"""Minimum number of questions for the flag `refuses`."""
SIDE = 0.95
RARE = 0.001


class AnnotatorStanding(NamedTuple):
    """The status of an annotator, and the reasons for it: `known` (control questions), `fast`, `one side`, `all equal`,
    `refuses`."""

    name: Literal["ok", "watch", "blocked"]
    flags: tuple[str, ...]


def annotator_standing(
    work: Work, totals: Work, *, typical_seconds: float | None, n_annotators: int
) -> AnnotatorStanding:
    """Return the status of an annotator. The status depends only on the counts and times of the annotator (`work`), and
    on the counts of the whole study (`totals`).

    `typical_seconds` is the typical median time of a comparison in the study, in visible seconds that the browser
    measured. `n_annotators` is the number of annotators. The tests of position and ties are adjusted for this number,
    so that only one study in a thousand flags a careful annotator.

    >>> from array import array
    >>> work = Work(gold_asked=4, gold_right=1, primary=30, decided=30, first_shown=30, times=array("d", [6.0] * 30))
    >>> annotator_standing(work, Work(primary=360, equal=66), typical_seconds=38.0, n_annotators=12)
    AnnotatorStanding(name='watch', flags=('fast', 'one side'))
    """
    n_judged_questions = work.answers + work.gold_asked
    equal_rate_among_others = (totals.equal - work.equal) / max(totals.answers - work.answers, 1)
    has_only_ties = 0 < work.answers == work.equal
    has_enough_times = typical_seconds is not None and len(work.times) >= FEWEST
    is_raised_of_flag = {
        "known": fails_control_questions(work),
        "fast": has_enough_times and median(work.times) < FAST * (typical_seconds or 0.0),
        "one side": _is_one_sided(work.first_shown, work.decided, n_annotators),
        "all equal": has_only_ties and n_annotators * equal_rate_among_others**work.answers < RARE,
        "refuses": work.refused + n_judged_questions >= SEEN and work.refused > n_judged_questions,
    }
    flags = tuple(flag for flag, is_raised in is_raised_of_flag.items() if is_raised)
    return AnnotatorStanding("blocked" if is_raised_of_flag["known"] else "watch" if flags else "ok", flags)


def fails_control_questions(work: Work) -> bool:
    """Whether the answers to control questions show that an annotator answers carelessly (a sequential test)."""
    from custodes.stats.stopping.sequential import sprt

    return sprt(work.gold_right, work.gold_asked - work.gold_right) < 0


def _is_one_sided(n_first_choices: int, n_decided_answers: int, n_annotators: int) -> bool:
    """Whether more than 95 % of the choices prefer the same side. The excess must be significant in a two-sided test,
    adjusted for the number of annotators of the study."""
    from scipy.special import bdtrc

    n_majority_choices = max(n_first_choices, n_decided_answers - n_first_choices)
    tail_probability = bdtrc(n_majority_choices - 1, n_decided_answers, 0.5)
    return bool(n_majority_choices > SIDE * n_decided_answers and 2 * tail_probability * n_annotators < RARE)
