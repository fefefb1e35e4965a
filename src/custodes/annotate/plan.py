"""The plan of a study: its sections and keys, with defaults and meanings."""

from __future__ import annotations

from collections.abc import Iterator
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


KEYS: dict[str, dict[str, str]] = {
    "": {
        "name": "a name for the study, and of its files",
        "seed": "a whole number that makes every order, side and place of a known comparison",
    },
    "question": {
        "text": "what people are asked; else: Which response is better? (rate: How good is this response?)",
        "mode": "compare: which of two outputs is better; rate: how good one output is",
        "aspects": 'what is answered by itself, each on the same page; the first one closes pairs; [""] is none',
        "equal": "whether people may say that both are equal",
        "both_bad": "whether they may say that both are equal because both are bad",
        "scale": "of a rating: the least and the most, whole numbers",
        "labels": "of a rating: words for the points of the scale, one each or none",
    },
    "texts": {
        "title": "what the pages are called",
        "instructions": "what to do: Markdown, @FILE beside the plan, or a template (compare, adequacy, rate)",
        "consent": "what people agree to before they begin: Markdown, @FILE, or a template (consent)",
        "thanks": "what is said at the end: Markdown, @FILE, or a template (thanks)",
        "contact": "whom people may write to; a study of people needs one",
        "language": "of the texts, such as en, de or ar",
        "render": "how outputs are shown: plain, markdown or markdown+math; both of a comparison in one way",
        "differences": "whether people may ask for the words that differ; it draws attention to form",
    },
    "people": {
        "recruit": "how people come: links (one each), open (one for all), prolific, mturk or toloka",
        "batch": "questions of one batch",
        "batches": "batches that one person may do",
        "cap": "the largest share of a pair's look that one person may answer; where all have links, they may always"
        " share it evenly",
        "per_item": "answers to a comparison that count; 1 decides most for the same money",
        "overlap": "the share of second opinions, which say how reliable people are and decide nothing; a few more at"
        " most, however idle people are",
        "gold_every": "one comparison with a known answer in so many questions; 0 asks none",
        "attention": "obvious comparisons in each batch, made from the texts of the study",
        "qualification": "comparisons with known answers before the first batch; 0 asks none",
        "passed": "how many of these must be right",
        "most": "people at most",
        "signed": "whether the parameters of a platform must be signed; prolific only",
        "named": "whether people are asked for a name, which they may leave out; open only",
        "keys": "where the keys of these signatures are: an address of the platform, or a file (JWKS)",
        "codes": "completion codes that the platform fixed for all; empty: each session has its own",
    },
    "money": {
        "price": "of an answer",
        "fee": "of the platform, as a share of the price",
        "wage": "for an hour, that should be reached",
        "currency": "of the price and the wage, such as USD or EUR",
    },
    "stopping": {
        "looks": "answers of a pair at which it may be closed, as far as there are items",
        "boundary": "what looks ask: pocock, obrien-fleming, a number that z must pass, or none (gamma is not kept)",
        "stop": "what closes a pair beside a decision: futility, equivalence, anytime, joined by +; or decided",
        "futility": "the chance of a decision below which a pair is closed",
        "equivalence": "the margin within which a pair is closed as equal; with stop equivalence",
        "gamma": "the chance of a decision on a pair without a difference",
        "family": "whether gamma is that of all pairs together",
        "budget": "answers that decide, in all: a comparison (an output that is rated) takes per_item of them; second"
        " opinions (overlap) and known questions (gold_every, attention, qualification) come on top",
        "estimator": "how people's answers are read: human, or with a metric mixture, ppi and others",
    },
}
"""By section ('' is the plan itself): key and meaning."""
SECTIONS = tuple(name for name in KEYS if name)


def rows() -> Iterator[tuple[str, str, str, str]]:
    """Section, key, default and meaning of every key.

    >>> next(rows())
    ('', 'name', 'study', 'a name for the study, and of its files')
    """
    plan = StudyPlan()
    for section, keys in KEYS.items():
        own: msgspec.Struct = getattr(plan, section) if section else plan
        for key, told in keys.items():
            yield section, key, _words(getattr(own, key)), told


def _words(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, msgspec.Struct):
        return ", ".join(f'{key} = "{own}"' for key, own in msgspec.structs.asdict(value).items())
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(f'"{own}"' if own == "" else str(own) for own in value) if isinstance(value, tuple) else str(value)
