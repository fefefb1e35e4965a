"""What a plan may say: checked when it is read, and what its stopping means for the items there are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from custodes.annotate.engine import ANYTIME, stopping_of
from custodes.annotate.plan import Ending, StudyPlan, converted
from custodes.arguments import at_least, check_storable, seed_or_generator
from custodes.data.notes import Note, noted
from custodes.errors import OptionError, shown

LANGUAGE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*")
CURRENCY = re.compile(r"[A-Z]{3}")
WIDEST = 100
"""Points between the ends of a scale at most."""
LOOKS_CUT = "looks-cut"
"""The note on looks that are more than a pair has items."""


def check_plan(plan: StudyPlan) -> StudyPlan:
    """The same plan; OptionError for the first thing in it that cannot be, or would change nothing."""
    plan = _typed(plan)
    if not plan.name.strip():
        raise OptionError("name='': a study needs a name")
    seed_or_generator("seed", plan.seed)
    for check in (_check_question, _check_texts, _check_people, _check_money):
        check(plan)
    try:
        stopping_of(plan, pairs=1)
    except OptionError as problem:
        raise OptionError(f"[stopping] {problem}") from None
    return plan


def _typed(plan: StudyPlan) -> StudyPlan:
    """The plan with every value of its declared type, which a struct that is made in Python need not have."""
    try:
        said = msgspec.to_builtins(plan)
        made = converted(said)
    except msgspec.ValidationError as problem:
        raise OptionError(in_words(str(problem))) from None
    except (TypeError, OverflowError) as problem:
        raise OptionError(f"plan: {problem}; give text, numbers, true or false") from None
    check_storable("plan", _texts_in(said))
    return made


def _texts_in(value: Any) -> Iterator[str]:
    """All texts of a plan."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for own in value.values() if isinstance(value, Mapping) else value:
            yield from _texts_in(own)


def in_words(problem: str) -> str:
    """What msgspec says, with the key as the file writes it: Expected `int`, got `str` - at `$.people.batch`."""
    what, _, place = problem.partition(" - at ")
    section, _, key = place.strip("`").removeprefix("$").removeprefix(".").partition(".")
    named = f"[{section}] {key}" if key else section
    kinds = {"`str`": "text in quotes", "`int`": "a whole number", "`float`": "a number", "`bool`": "true or false"}
    for kind, words in (
        ("`float | str`", "text or a number"),
        *kinds.items(),
        ("`array`", "a list"),
        ("`null`", "nothing"),
        ("`object`", "a section"),
    ):
        what = what.replace(kind, words)
    return f"{named}: {what[:1].lower()}{what[1:]}"


def _check_question(plan: StudyPlan) -> None:
    own = plan.question
    aspects = [aspect.strip() for aspect in own.aspects]
    if own.text and not own.text.strip():
        raise OptionError(
            f"[question] text={shown(own.text)}: say what people are asked, or nothing: the usual question"
        )
    if not aspects or len(set(aspects)) < len(aspects) or ("" in aspects and len(aspects) > 1):
        raise OptionError(f"[question] aspects={shown(own.aspects)}: one or more names, each once")
    low, high = own.scale
    if own.mode == "rate":
        if not low < high or high - low > WIDEST:
            raise OptionError(
                f"[question] scale={shown(own.scale)}: the least and the most of a rating, such as [1, 5], at most"
                f" {WIDEST} apart"
            )
        if own.labels and len(own.labels) != high - low + 1:
            raise OptionError(
                f"[question] labels: {len(own.labels)} words for the {high - low + 1} points of the scale; give one"
                " each, or none"
            )
        _idle("question", own, "mode is rate", equal=True, both_bad=False)
        usual = {key: value for key, value in msgspec.structs.asdict(Ending()).items() if key != "budget"}
        _idle("stopping", plan.stopping, "mode is rate, and ratings decide nothing", **usual)
    else:
        _idle("question", own, "mode is compare", scale=(1, 5), labels=())
    if own.both_bad and not own.equal:
        raise OptionError("[question] both_bad=true would change nothing: equal is false, and both bad is a kind of it")


def _idle(section: str, own: Any, why: str, **usual: Any) -> None:
    """Refuse what is not as by default and would change nothing."""
    for name, value in usual.items():
        if getattr(own, name) != value:
            raise OptionError(f"[{section}] {name}={shown(getattr(own, name))} would change nothing: {why}")


def _check_texts(plan: StudyPlan) -> None:
    if not LANGUAGE.fullmatch(plan.texts.language):
        raise OptionError(f"[texts] language={plan.texts.language!r}: a language tag, such as en, pt-BR or ar")


def _check_people(plan: StudyPlan) -> None:
    own = plan.people
    for name, least in (("batch", 1), ("batches", 1), ("per_item", 1), ("most", 1), *_FROM_NOUGHT):
        at_least(f"[people] {name}", getattr(own, name), least)
    _share("[people] cap", own.cap, low=0.0, most=1.0, includes_low=False)
    _share("[people] overlap", own.overlap, low=0.0, most=0.9)
    known = own.attention + (1 if own.gold_every and own.gold_every <= own.batch else 0)
    if known >= own.batch and own.batch > 1:
        raise OptionError(
            f"[people] attention={own.attention}: with known comparisons nothing is left of a batch of {own.batch};"
            " ask fewer, or make batches larger"
        )
    if own.gold_every == 1:
        raise OptionError("[people] gold_every=1: every question would have a known answer; say 2 or more, or 0")
    if own.passed > own.qualification:
        raise OptionError(
            f"[people] passed={own.passed}: more than the {own.qualification} questions of the qualification"
        )
    if own.qualification and not own.passed:
        raise OptionError(
            f"[people] qualification={own.qualification} would change nothing: say how many must be right (passed)"
        )
    budget = plan.stopping.budget
    if budget is not None and 0 < budget < own.per_item:
        raise OptionError(
            f"[stopping] budget={budget}: one comparison takes {own.per_item} answers (per_item); give at least so many"
        )
    if own.signed and own.recruit != "prolific":
        raise OptionError(f"[people] signed=true would change nothing: recruit is {own.recruit}, and prolific signs")
    if own.named and own.recruit != "open":
        raise OptionError(
            f"[people] named=true would change nothing: recruit is {own.recruit}, and open asks for names"
        )


_FROM_NOUGHT = (("gold_every", 0), ("attention", 0), ("qualification", 0), ("passed", 0))


def _check_money(plan: StudyPlan) -> None:
    own = plan.money
    for name in ("price", "wage"):
        _share(f"[money] {name}", getattr(own, name), low=0.0, most=1e6)
    _share("[money] fee", own.fee, low=0.0, most=10.0)
    if not CURRENCY.fullmatch(own.currency):
        raise OptionError(f"[money] currency={own.currency!r}: three capital letters, such as USD or EUR")


def _share(name: str, value: float, *, low: float, most: float, includes_low: bool = True) -> None:
    if not ((low <= value if includes_low else low < value) and value <= most):
        raise OptionError(f"{name}={value:g}: a number {'from' if includes_low else 'above'} {low:g} to {most:g}")


def notes_on(plan: StudyPlan, *, items: int) -> list[Note]:
    """What the looks mean for the items there are, and what a plan without a boundary costs; ratings have no looks."""
    if plan.question.mode == "rate":
        return []
    import numpy as np

    from custodes.stats.stopping.sequential import crossing_probability

    own, looks = plan.stopping, sorted({min(n, items) for n in plan.stopping.looks})
    cut = [n for n in own.looks if n > items]
    notes = noted(
        (
            LOOKS_CUT,
            len(cut),
            f"a pair has {items} items at most: it is looked at after {', '.join(map(str, looks))} answers",
        )
    )
    if own.boundary == "none" and ANYTIME not in own.stop.split("+") and len(looks) > 1:
        from scipy.special import ndtri

        chance = crossing_probability(np.full(len(looks), -ndtri(own.gamma / 2)), np.array(looks, dtype=float))
        notes += noted(
            (
                "no-boundary",
                True,
                f"boundary none: of pairs without a difference {chance:.2f} are declared different after"
                f" {len(looks)} looks, not {own.gamma:g}; pocock keeps it",
            )
        )
    return notes
