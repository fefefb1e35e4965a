"""What a person's session shows, and what the person may do: the words between the service and the pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Side:
    """One output as it is shown: safe HTML, and the names of its images."""

    html: str
    media: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A question: `sides` are two outputs in the order shown, or one. `number` of `of` in its batch. `given`: what was
    answered before it was taken back. `training`: known comparisons that come first."""

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
    """A worked example of the instructions: what the right answer is (of the first side), and why."""

    context: Side
    sides: tuple[Side, ...]
    expected: int
    why: str


@dataclass(frozen=True, kw_only=True)
class Consent:
    """The page before everything: the text that is agreed to has this digest."""

    digest: str


@dataclass(frozen=True, kw_only=True)
class Instructions:
    """What to do, with examples."""

    examples: tuple[Example, ...]


@dataclass(frozen=True, kw_only=True)
class Break:
    """A batch is done, and there is more."""

    batches: int
    answers: int


@dataclass(frozen=True, kw_only=True)
class Wait:
    """Nothing free now, but others hold what may come back; ask again after some seconds."""

    seconds: int


@dataclass(frozen=True, kw_only=True)
class Done:
    """The end: `why` is one of finished, no-work, failed, blocked (by a rule), excluded (by the owner), stopped, left
    (after paid work), declined (before any), erased; `code` to be paid by."""

    why: str
    code: str | None
    answers: int
    later: bool = False
    """Whether more may come by this link: the study goes on, and the link is the person's own."""


@dataclass(frozen=True, kw_only=True)
class Paused:
    """The owner paused the study."""


View = Consent | Instructions | Ask | Break | Wait | Paused | Done


@dataclass(frozen=True, kw_only=True)
class Agree:
    """The person agrees to the text of this digest; `form`: what else was asked."""

    digest: str
    form: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Decline:
    """The person does not agree, or leaves."""


@dataclass(frozen=True, kw_only=True)
class Begin:
    """Instructions are read, or the break is over."""


@dataclass(frozen=True, kw_only=True)
class Stop:
    """The person has done enough: a batch is finished, and there will be no other in this visit."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """By aspect: 1 the first shown is better, 0 equal, -1 the second; or a rating. `seconds`: while it was visible.
    `both_bad`: equal, since both are bad."""

    assignment: int
    values: Mapping[str, int]
    seconds: float | None = None
    both_bad: bool = False


@dataclass(frozen=True, kw_only=True)
class Skip:
    """It cannot be judged: language, broken, offensive or other."""

    assignment: int
    reason: str
    seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class Undo:
    """Take back the last answer (the one before this assignment)."""

    assignment: int


@dataclass(frozen=True, kw_only=True)
class Comment:
    """Words to the owner."""

    text: str
    assignment: int | None = None


@dataclass(frozen=True, kw_only=True)
class Mark:
    """The person asks to see the words that differ."""

    assignment: int


Act = Agree | Decline | Begin | Stop | Answer | Skip | Undo | Comment | Mark
