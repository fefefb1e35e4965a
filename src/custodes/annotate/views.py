"""Views of a session, and actions of an annotator: the interface between service and pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Side:
    """One output as displayed: safe HTML, and the names of its images."""

    html: str
    media: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A question: `sides` are two outputs in displayed order, or one. `number` of `of` in its batch. `given`: the
    withdrawn answer, if it is corrected. `training`: qualification questions.
    """

    assignment: int
    number: int
    of: int
    context: Side
    sides: tuple[Side, ...]
    given: Mapping[str, int] = field(default_factory=dict)
    can_undo: bool = False
    training: bool = False


@dataclass(frozen=True, kw_only=True)
class Example:
    """A worked example of the instructions: the correct answer (for the first side), and why."""

    context: Side
    sides: tuple[Side, ...]
    expected: int
    why: str


@dataclass(frozen=True, kw_only=True)
class Consent:
    """The consent page; `digest` identifies the text."""

    digest: str


@dataclass(frozen=True, kw_only=True)
class Instructions:
    """The instructions, with examples."""

    examples: tuple[Example, ...]


@dataclass(frozen=True, kw_only=True)
class Break:
    """A batch is complete, and further batches follow."""

    batches: int
    answers: int


@dataclass(frozen=True, kw_only=True)
class Wait:
    """There is no free question now, but others may leave some unanswered; the page reloads after some seconds."""

    seconds: int


@dataclass(frozen=True, kw_only=True)
class Done:
    """The end of a visit: `why` is one of finished, no-work, failed, blocked (by a rule), excluded (by the owner),
    stopped, left (after paid work), declined (before any), erased; `code` is the completion code."""

    why: str
    code: str | None
    answers: int
    later: bool = False
    """Whether more questions may come by this link: the study continues, and the link is personal."""


@dataclass(frozen=True, kw_only=True)
class Paused:
    """The owner paused the study."""


View = Consent | Instructions | Ask | Break | Wait | Paused | Done


@dataclass(frozen=True, kw_only=True)
class Agree:
    """Consent to the text with this digest; `form`: other fields."""

    digest: str
    form: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Decline:
    """The annotator refused consent, or left."""


@dataclass(frozen=True, kw_only=True)
class Begin:
    """The instructions were read, or the break is over."""


@dataclass(frozen=True, kw_only=True)
class Stop:
    """The annotator ends the visit after a batch."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """By aspect: 1 the first output is better, 0 equal, -1 the second; or a rating. `seconds`: visible time.
    `both_bad`: equal, since both are bad."""

    assignment: int
    values: Mapping[str, int]
    seconds: float | None = None
    both_bad: bool = False


@dataclass(frozen=True, kw_only=True)
class Skip:
    """The question cannot be judged: language, broken, offensive or other."""

    assignment: int
    reason: str
    seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class Undo:
    """Withdraw the last answer (the one before this assignment)."""

    assignment: int


@dataclass(frozen=True, kw_only=True)
class Comment:
    """A comment to the owner."""

    text: str
    assignment: int | None = None


@dataclass(frozen=True, kw_only=True)
class Mark:
    """Request to highlight differing words."""

    assignment: int


Act = Agree | Decline | Begin | Stop | Answer | Skip | Undo | Comment | Mark
