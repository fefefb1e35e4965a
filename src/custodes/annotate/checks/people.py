"""People: whether strangers are checked, paid, and told what they must be told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from statistics import median

import msgspec

from custodes.annotate.plan import StudyPlan
from custodes.annotate.reach import FEW_PEOPLE
from custodes.annotate.wording import completed
from custodes.annotate.wording.sentences import LANGUAGES
from custodes.data.notes import Note
from custodes.evaluate.check.problems import Problem
from custodes.stats.reliability import FEWEST_PEOPLE

STRANGERS = ("open", "prolific", "mturk", "toloka")
"""Ways of recruiting whose people nobody knows."""
PAID = ("prolific", "mturk", "toloka")
SECONDS = 40.0
"""An answer takes about so long where nobody has answered yet: 1.5 a minute (Deriu et al. 2023, appendix)."""
FEWEST = 10
"""Answers from which on their own times count."""


def problems(
    plan: StudyPlan, *, known: Sequence[str], seconds: Sequence[float], links: int, notes: Sequence[Note]
) -> Iterator[Problem]:
    """All that is wrong with how people are asked; `known`: kinds of the known questions; `seconds`: times so far;
    `links`: people who may answer, where they have links of their own; `notes`: on those who are there."""
    yield from (Problem("warning", note.rule, note.message) for note in notes)
    if 0 < links < FEWEST_PEOPLE and not any(note.rule == FEW_PEOPLE for note in notes):
        yield Problem(
            "warning",
            FEW_PEOPLE,
            f"{links} people have a link: decisions will speak of these people only. With 3 people .23 of pairs that"
            " are alike for most people are declared different, with 5 .16, with 10 .10, with 20 .08; invite more",
        )
    yield from _checked(plan, known)
    yield from _paid(plan, seconds)
    yield from _told(plan)


def _checked(plan: StudyPlan, known: Sequence[str]) -> Iterator[Problem]:
    people = plan.people
    gold = sum(kind == "gold" for kind in known)
    if people.recruit in STRANGERS and not gold:
        yield Problem(
            "warning",
            "no-gold",
            f"people come by {people.recruit}, and no comparison has a known answer: who clicks at random is found by"
            " attention checks alone; give --gold with some dozen clear cases",
        )
    most = ceil(people.batch * people.batches / people.gold_every) if people.gold_every else 0
    if 0 < gold < most:
        yield Problem(
            "info",
            "little-gold",
            f"{gold} comparisons with known answers, and one person may meet {most}: who has seen all of them is asked"
            " none any more",
        )


def _paid(plan: StudyPlan, seconds: Sequence[float]) -> Iterator[Problem]:
    money, people = plan.money, plan.people
    if not money.price:
        if people.recruit in PAID:
            yield Problem(
                "warning",
                "no-price",
                f"people come by {people.recruit}, and the plan says no price: cost and wage cannot be told; say"
                " [money] price, of one answer",
            )
        return
    measured = len(seconds) >= FEWEST
    typical = median(seconds) if measured else SECONDS
    hourly = money.price * 3600 / typical
    if hourly < money.wage:
        whence = "the median so far" if measured else "as in other studies; rehearse, or time yourself"
        yield Problem(
            "warning",
            "low-pay",
            f"{money.price:g} {money.currency} an answer is {hourly:.2f} an hour at {typical:.0f} s ({whence}), below"
            f" the wage of {money.wage:g}; pay {money.wage * typical / 3600:.2f}",
        )


def _told(plan: StudyPlan) -> Iterator[Problem]:
    texts = plan.texts
    if not texts.contact.strip():
        yield Problem(
            "warning",
            "no-contact",
            "people are not told whom they may write to; say [texts] contact, an address that somebody reads",
        )
    elif texts.contact not in texts.consent:
        yield Problem(
            "warning", "consent-without-contact", "the consent does not hold the contact; write {contact} in it"
        )
    price = f"{plan.money.price:.2f}"
    if plan.money.price and price not in texts.consent:
        yield Problem(
            "warning",
            "consent-without-pay",
            f"the consent does not say what is paid ({price} {plan.money.currency} an answer); write {{pay}} in it",
        )
    usual = completed(msgspec.structs.replace(plan, texts=type(texts)(title=texts.title, contact=texts.contact))).texts
    english = [key for key in ("instructions", "consent") if getattr(texts, key) == getattr(usual, key)]
    if plan.question.text == LANGUAGES["en"].question[plan.question.mode]:
        english = ["question", *english]
    if texts.language.partition("-")[0].lower() not in LANGUAGES and english:
        yield Problem(
            "warning",
            "english-texts",
            f"the language of the study is {texts.language}, and these texts are the usual English ones:"
            f" {', '.join(english)}; write your own. Attention checks are in English, too: give your own in --gold",
        )
