"""Templates of instructions, consent and thanks, and the sentences that fill their blanks, by language.

and a file for each template.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import msgspec

from custodes.annotate.plan import StudyPlan


@dataclass(frozen=True, kw_only=True)
class Sentences:
    """`identity`: what is stored of a person, by how people come. `pay` has blanks for the price of an answer and of a
    batch. `question`: the usual one, by mode. `checks`: that there are questions with known answers; `qualification`:
    that some come first, with blanks for how many and how many must be right. `other`, `equal`, `rating`: what the text
    of an attention check says to answer."""

    question: Mapping[str, str]
    identity: Mapping[str, str]
    pay: str
    no_pay: str
    no_contact: str
    checks: str
    qualification: str
    other: str
    equal: str
    rating: str


ENGLISH = Sentences(
    question={"compare": "Which response is better?", "rate": "How good is this response?"},
    identity={
        "worker_id": "Your worker id stands for you; we never learn your name.",
        "links": "The link that you were given stands for you.",
        "open": "A number that we draw stands for you.",
    },
    pay="You are paid {answer} for an answer, {batch} for a batch.",
    no_pay="This page pays nothing.",
    no_contact="Write to the person who gave you the link.",
    checks="Some questions may have a known answer, to see whether texts are read. Who often answers these wrongly is"
    " asked nothing more.",
    qualification="The first {asked} questions have known answers: who has fewer than {passed} right is asked nothing"
    " more.",
    other="This is not a response. It is here to see whether both sides are read. Please answer that the other one is"
    " better.",
    equal="This is not a response. It is here to see whether both sides are read. Please answer that they are equal.",
    rating="This is not a response. It is here to see whether texts are read. Please give the rating {least}.",
)
GERMAN = Sentences(
    question={"compare": "Welche Antwort ist besser?", "rate": "Wie gut ist diese Antwort?"},
    identity={
        "worker_id": "Für Sie steht Ihre Worker-ID; Ihren Namen erfahren wir nie.",
        "links": "Für Sie steht der Link, den Sie bekommen haben.",
        "open": "Für Sie steht eine Nummer, die wir ziehen.",
    },
    pay="Sie bekommen {answer} für eine Antwort, {batch} für einen Durchgang.",
    no_pay="Diese Seite bezahlt nichts.",
    no_contact="Schreiben Sie an die Person, die Ihnen den Link gegeben hat.",
    checks="Bei manchen Fragen kann die Antwort bekannt sein, um zu sehen, ob Texte gelesen werden. Wer diese oft"
    " falsch beantwortet, wird nichts mehr gefragt.",
    qualification="Bei den ersten {asked} Fragen ist die Antwort bekannt: Wer weniger als {passed} davon richtig hat,"
    " wird nichts mehr gefragt.",
    other="Dies ist keine Antwort. Es steht hier, um zu sehen, ob beide Seiten gelesen werden. Bitte antworten Sie,"
    " dass die andere besser ist.",
    equal="Dies ist keine Antwort. Es steht hier, um zu sehen, ob beide Seiten gelesen werden. Bitte antworten Sie,"
    " dass beide gleich sind.",
    rating="Dies ist keine Antwort. Es steht hier, um zu sehen, ob Texte gelesen werden. Bitte geben Sie die Note"
    " {least}.",
)
LANGUAGES = {"en": ENGLISH, "de": GERMAN}


def spoken(language: str) -> str:
    """The language of ours for a language tag; English where we have none.

    >>> spoken("de-CH"), spoken("fr")
    ('de', 'en')
    """
    code = language.partition("-")[0].lower()
    return code if code in LANGUAGES else "en"


TEMPLATES = ("compare", "adequacy", "rate", "consent", "thanks")
"""Texts that a plan may name. `adequacy` is in the spirit of the instructions in Figure 4 of the correction paper
(Deriu et al. 2023), in words of our own."""
BLANK = re.compile(r"\{(\w+)\}")


@cache
def template(name: str, language: str = "en") -> str:
    """The text of a template in a language of ours, or in English."""
    code = spoken(language)
    return (files(__package__) / (f"{name}.md" if code == "en" else f"{name}.{code}.md")).read_text(encoding="utf-8")


def completed(plan: StudyPlan) -> StudyPlan:
    """The plan with the whole texts of the templates that it names, and of the usual ones and the usual question where
    it says nothing, every blank filled: a study holds each word that people saw.

    >>> completed(StudyPlan()).texts.thanks.strip()
    'Thank you. Your answers are saved.'
    """
    question_text = LANGUAGES[spoken(plan.texts.language)].question[plan.question.mode]
    question = msgspec.structs.replace(plan.question, text=plan.question.text or question_text)
    plan = msgspec.structs.replace(plan, question=question)
    texts, values = plan.texts, blanks(plan)
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
    filled = {key: BLANK.sub(lambda own: values.get(own[1], own[0]), text) for key, text in whole.items()}
    return msgspec.structs.replace(plan, texts=msgspec.structs.replace(texts, **filled))


def blanks(plan: StudyPlan) -> dict[str, str]:
    """What a text may leave to the plan: `{question}`, `{batch}` and so on.

    >>> sorted(blanks(StudyPlan()))
    ['batch', 'batches', 'checks', 'contact', 'identity', 'least', 'most', 'pay', 'question', 'title']
    """
    people, money = plan.people, plan.money
    sentences = LANGUAGES[spoken(plan.texts.language)]
    checks = [sentences.qualification.format(asked=people.qualification, passed=people.passed)] * bool(
        people.qualification
    )
    checks += [sentences.checks] * bool(people.attention or people.gold_every)
    answer, batch = (f"{price:.2f} {money.currency}" for price in (money.price, money.price * people.batch))
    return {
        "question": plan.question.text,
        "title": plan.texts.title or plan.name,
        "batch": str(people.batch),
        "batches": str(people.batches),
        "least": str(plan.question.scale[0]),
        "most": str(plan.question.scale[1]),
        "contact": plan.texts.contact or sentences.no_contact,
        "checks": " ".join(checks),
        "identity": sentences.identity["worker_id" if people.worker_id else people.recruit],
        "pay": sentences.pay.format(answer=answer, batch=batch) if money.price else sentences.no_pay,
    }
