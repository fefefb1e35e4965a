"""What a study of people's answers asks, of whom, for how much, and when it stops: a TOML file, kept in the study."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from custodes.sealed import layout

Recruit = Literal["links", "open", "prolific", "mturk", "toloka"]


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What people are asked of two outputs (`compare`) or of one (`rate`); `text` '': the usual question.

    `aspects`: each is answered by itself on one page; the first decides when a pair is closed. A single '' is a
    question without an aspect. `equal`: whether a tie is offered; `both_bad`: whether a tie may be said to be one of
    bad outputs. `scale`: the least and the most of a rating; `labels`: words for its points."""

    text: str = ""
    mode: Literal["compare", "rate"] = "compare"
    aspects: tuple[str, ...] = ("",)
    equal: bool = True
    both_bad: bool = False
    scale: tuple[int, int] = (1, 5)
    labels: tuple[str, ...] = ()


class Texts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What people read. `render`: how outputs and contexts are shown, both of a pair in one way; `language` of the page
    and of the outputs (BCP 47); `differences`: whether people may ask for the words that differ."""

    title: str = ""
    instructions: str = ""
    consent: str = ""
    thanks: str = ""
    contact: str = ""
    language: str = "en"
    render: Literal["plain", "markdown", "markdown+math"] = "plain"
    differences: bool = False


class Codes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Completion codes that the platform fixed beforehand, one for all (Prolific): of those who finished, who `failed`
    known comparisons, for whom no work was left or who left amid a batch. '': each session has a code of its own."""

    finished: str = ""
    failed: str = ""
    no_work: str = ""


class People(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who is asked, and how their work is checked.

    `batch`: questions of one; `batches`: how many a person may do; `cap`: the largest share of a pair's look by one
    person; `per_item`: answers to a comparison that count (1: as many items as possible); `overlap`: the share of
    second opinions; `gold_every`: one known comparison in so many; `attention`: obvious ones a batch; `qualification`:
    known comparisons first, of which `passed` must be right; `most`: people at most; `signed`: whether a platform's
    parameters must be signed, by one of `keys` (a JWKS: the platform's address of it, or a file); `named`: whether who
    comes by an open link is asked for a name, which is kept with the visit and opens nothing."""

    recruit: Recruit = "links"
    batch: int = 15
    batches: int = 20
    cap: float = 0.1
    per_item: int = 1
    overlap: float = 0.12
    gold_every: int = 15
    attention: int = 1
    qualification: int = 0
    passed: int = 0
    most: int = 1000
    signed: bool = False
    named: bool = False
    keys: str = "https://api.prolific.com/.well-known/study/jwks.json"
    codes: Codes = Codes()


class Money(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`price` of an answer, `fee` of the platform as a share of it, and the hourly `wage` that should be reached."""

    price: float = 0.0
    fee: float = 0.0
    wage: float = 12.0
    currency: str = "USD"


class Ending(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a pair is decided and when nobody is asked any more, as `Stopping` has it.

    `family`: whether the level is that of all pairs together (gamma divided by their number).
    """

    looks: tuple[int, ...] = (10, 20, 40)
    boundary: str | float = "pocock"
    stop: str = "futility"
    futility: float = 0.2
    equivalence: float | None = None
    gamma: float = 0.05
    family: bool = False
    budget: int | None = None
    estimator: str | None = None


@layout
class StudyPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All there is to say of a study before it begins. `seed` makes its orders, sides and places of gold."""

    name: str = "study"
    question: Question = Question()
    texts: Texts = Texts()
    people: People = People()
    money: Money = Money()
    stopping: Ending = Ending()
    seed: int = 0


PLAN = msgspec.json.Decoder(StudyPlan)
"""Reads a plan that a study keeps."""


def converted(said: Any) -> StudyPlan:
    """A plan of what somebody says; `msgspec.ValidationError` for what cannot be one."""
    return msgspec.convert(said, StudyPlan)
