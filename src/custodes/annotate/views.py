"""Views of a session and actions of an annotator: the interface between the service and the pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Side:
    """An output as displayed: safe HTML, and the names of images."""

    html: str
    media: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Ask:
    """The view of a question.

    `number` is the position of the question in a batch of `of` questions. `sides` are two outputs in displayed order,
    or one output to rate. If the annotator corrects an answer, `given` is the withdrawn answer, by aspect. `can_undo`:
    whether the previous answer may be withdrawn. `training`: whether the question is a qualification question.
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
    """A worked example of the instructions. `expected` is the correct answer from the view of the first output, or the
    correct rating. `why` explains this answer."""

    context: Side
    sides: tuple[Side, ...]
    expected: int
    why: str


@dataclass(frozen=True, kw_only=True)
class Consent:
    """The consent page. `digest` identifies the consent text."""

    digest: str


@dataclass(frozen=True, kw_only=True)
class Instructions:
    """The instructions, with worked examples."""

    examples: tuple[Example, ...]


@dataclass(frozen=True, kw_only=True)
class Break:
    """The page between two batches. `answers` is the number of answers that the annotator has given so far."""

    answers: int


@dataclass(frozen=True, kw_only=True)
class Wait:
    """The page of an annotator for whom no question is free, or of a study that the owner has paused. The page reloads
    after some seconds, because other annotators may leave questions unanswered."""

    seconds: int
    is_paused: bool = False


@dataclass(frozen=True, kw_only=True)
class VisitEnd:
    """The end of a visit.

    `why` is one of finished, no-work, failed, blocked (by a rule), excluded (by the owner), stopped, left (after paid
    work), declined (before paid work) and erased. `code` is the completion code.
    """

    why: str
    code: str | None
    answers: int
    later: bool = False
    """Whether this link may get questions later, because the study continues and the link is personal."""


View = Consent | Instructions | Ask | Break | Wait | VisitEnd


@dataclass(frozen=True, kw_only=True)
class Agree:
    """The annotator agrees to the consent text with this digest."""

    digest: str


@dataclass(frozen=True, kw_only=True)
class Decline:
    """The annotator declines the consent text, or leaves the study."""


@dataclass(frozen=True, kw_only=True)
class Begin:
    """The annotator has read the instructions, or ends the break."""


@dataclass(frozen=True, kw_only=True)
class Stop:
    """The annotator ends the visit after a batch."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The annotator answers a question.

    `values` has the answer for each aspect. In a comparison, it is 1 if the first output is better, 0 if both are
    equal, and -1 if the second output is better. Otherwise it is a rating. `seconds` is the time for which the question
    was visible.
    """

    assignment: int
    values: Mapping[str, int]
    seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class Skip:
    """The annotator cannot judge the question. `reason` is language, broken, offensive or other."""

    assignment: int
    reason: str
    seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class Undo:
    """The annotator withdraws the answer to the question before this assignment."""

    assignment: int


@dataclass(frozen=True, kw_only=True)
class Comment:
    """The annotator sends a comment to the owner."""

    text: str
    assignment: int | None = None


Act = Agree | Decline | Begin | Stop | Answer | Skip | Undo | Comment
