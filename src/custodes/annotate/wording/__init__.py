"""What people are told: templates of instructions, consent and thanks, and their blanks filled from the plan."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

import msgspec

from custodes.annotate.plan import StudyPlan
from custodes.annotate.wording.sentences import LANGUAGES, spoken

TEMPLATES = ("compare", "adequacy", "rate", "consent", "thanks")
"""Texts that a plan may name. `adequacy` is in the spirit of the instructions in Figure 4 of the correction paper
(Deriu et al. 2023), in words of our own."""
BLANK = re.compile(r"\{(\w+)\}")


@cache
def template(name: str, language: str = "en") -> str:
    """The text of a template in a language of ours, or in English."""
    own = spoken(language)
    return (files(__package__) / (f"{name}.md" if own == "en" else f"{name}.{own}.md")).read_text(encoding="utf-8")


def completed(plan: StudyPlan) -> StudyPlan:
    """The plan with the whole texts of the templates that it names, and of the usual ones and the usual question where
    it says nothing, every blank filled: a study holds each word that people saw.

    >>> completed(StudyPlan()).texts.thanks.strip()
    'Thank you. Your answers are saved.'
    """
    said = LANGUAGES[spoken(plan.texts.language)].question[plan.question.mode]
    question = msgspec.structs.replace(plan.question, text=plan.question.text or said)
    plan = msgspec.structs.replace(plan, question=question)
    texts, known = plan.texts, blanks(plan)
    usual = {
        "instructions": "rate" if plan.question.mode == "rate" else "compare",
        "consent": "consent",
        "thanks": "thanks",
    }
    named = {key: getattr(texts, key).strip() or name for key, name in usual.items()}
    whole = {
        key: template(name, texts.language) if name in TEMPLATES else getattr(texts, key) for key, name in named.items()
    }
    # Braces that are no blank of ours stay.
    filled = {key: BLANK.sub(lambda own: known.get(own[1], own[0]), text) for key, text in whole.items()}
    return msgspec.structs.replace(plan, texts=msgspec.structs.replace(texts, **filled))


def blanks(plan: StudyPlan) -> dict[str, str]:
    """What a text may leave to the plan: `{question}`, `{batch}` and so on.

    >>> sorted(blanks(StudyPlan()))
    ['batch', 'batches', 'checks', 'contact', 'identity', 'least', 'most', 'pay', 'question', 'title']
    """
    people, money = plan.people, plan.money
    said = LANGUAGES[spoken(plan.texts.language)]
    checks = [said.qualification.format(asked=people.qualification, passed=people.passed)] * bool(people.qualification)
    checks += [said.checks] * bool(people.attention or people.gold_every)
    answer, batch = (f"{price:.2f} {money.currency}" for price in (money.price, money.price * people.batch))
    return {
        "question": plan.question.text,
        "title": plan.texts.title or plan.name,
        "batch": str(people.batch),
        "batches": str(people.batches),
        "least": str(plan.question.scale[0]),
        "most": str(plan.question.scale[1]),
        "contact": plan.texts.contact or said.no_contact,
        "checks": " ".join(checks),
        "identity": said.identity[people.recruit],
        "pay": said.pay.format(answer=answer, batch=batch) if money.price else said.no_pay,
    }
