"""Templates of instructions, consent and thanks, and the sentences that fill their placeholders, in each language."""

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
    """The sentences that fill placeholders, in one language.

    `question` is the default question of each mode. `noun` is the default noun for an output. `identity` says how
    participants are identified, for each way of recruitment. `pay` has placeholders for the price of an answer and for
    the price of a batch. `checks` announces control questions. `qualification` announces the qualification questions at
    the start; it has placeholders for their number and for the number that must be answered correctly. `other`, `equal`
    and `rating` are the texts of attention checks.
    """

    question: Mapping[str, str]
    noun: str
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
    noun="response",
    identity={
        "worker_id": "We identify you by your worker id. We never learn your name.",
        "links": "We identify you by your personal link.",
        "open": "We identify you by a random number.",
    },
    pay="You receive {answer} for each answer, which is {batch} for a complete batch.",
    no_pay="There is no payment for this study.",
    no_contact="Please write to the person who sent you the link.",
    checks="Some questions are control questions with a known answer. Control questions show whether participants"
    " read the texts. If you answer too many of them incorrectly, your participation ends.",
    qualification="The first {number} questions have known answers. You can continue if you answer at least {passed} of"
    " them correctly.",
    other="This text is not a response. It checks whether participants read both texts. Please answer that the other"
    " text is better.",
    equal="This text is not a response. It checks whether participants read both texts. Please answer that both texts"
    " are equal.",
    rating="This text is not a response. It checks whether participants read the texts. Please give the rating"
    " {least}.",
)
GERMAN = Sentences(
    question={"compare": "Welche Antwort ist besser?", "rate": "Wie gut ist diese Antwort?"},
    noun="Antwort",
    identity={
        "worker_id": "Wir erkennen Sie an Ihrer Worker-ID. Ihren Namen erfahren wir nie.",
        "links": "Wir erkennen Sie an Ihrem persönlichen Link.",
        "open": "Wir erkennen Sie an einer zufälligen Nummer.",
    },
    pay="Sie erhalten {answer} für jede Antwort, das sind {batch} für einen vollständigen Durchgang.",
    no_pay="Diese Studie wird nicht bezahlt.",
    no_contact="Bitte schreiben Sie an die Person, die Ihnen den Link geschickt hat.",
    checks="Einige Fragen sind Kontrollfragen, deren Antwort bekannt ist. Kontrollfragen zeigen, ob die"
    " Teilnehmenden die Texte lesen. Wenn Sie zu viele davon falsch beantworten, endet Ihre Teilnahme.",
    qualification="Bei den ersten {number} Fragen ist die Antwort bekannt. Sie können weitermachen, wenn Sie mindestens"
    " {passed} davon richtig beantworten.",
    other="Dieser Text ist keine Antwort. Er prüft, ob die Teilnehmenden beide Texte lesen. Bitte antworten Sie, dass"
    " der andere Text besser ist.",
    equal="Dieser Text ist keine Antwort. Er prüft, ob die Teilnehmenden beide Texte lesen. Bitte antworten Sie, dass"
    " beide Texte gleich sind.",
    rating="Dieser Text ist keine Antwort. Er prüft, ob die Teilnehmenden die Texte lesen. Bitte geben Sie die"
    " Bewertung {least}.",
)
LANGUAGES = {"en": ENGLISH, "de": GERMAN}


def available_language(language: str) -> str:
    """The available language that a language tag names, or English if that language is not available.

    >>> available_language("de-CH"), available_language("fr")
    ('de', 'en')
    """
    code = language.partition("-")[0].lower()
    return code if code in LANGUAGES else "en"


TEMPLATES = ("compare", "adequacy", "rate", "consent", "thanks")
"""Names of templates that a plan may use. The template `adequacy` follows the instructions in Figure 4 of the
correction paper (Deriu et al. 2023)."""
PLACEHOLDER = re.compile(r"\{(\w+)\}")
NOUN = re.compile(r"(?:Which(?: of (?:these|the) two)?|Welche[rs]?|How \w+ is (?:this|the)) ([^\W\d_]+)", re.IGNORECASE)
"""Pattern of a question that contains the noun for an output."""
NO_NOUN = {"is", "one", "of", "do", "does", "would", "ist", "von", "der", "beiden"}
"""Words that may stand at the position of the noun but are not nouns."""


def noun_of(question: str) -> str:
    """The noun for an output that a question contains, or '' if the question contains none.

    >>> noun_of("Which summary is better?"), noun_of("How good is this answer?"), noun_of("Which is better?")
    ('summary', 'answer', '')
    """
    noun = NOUN.match(question)
    return "" if noun is None or noun[1].lower() in NO_NOUN else noun[1]


@cache
def template(name: str, language: str = "en") -> str:
    """The text of a template in the language of a tag, or in English if that language is not available."""
    code = available_language(language)
    return (files(__package__) / (f"{name}.md" if code == "en" else f"{name}.{code}.md")).read_text(encoding="utf-8")


def completed(plan: StudyPlan) -> StudyPlan:
    """The plan with all texts of the study.

    Names of templates and missing texts are replaced by the templates, a missing question by the default question, and
    placeholders by their values. A study stores every text that participants saw.

    >>> completed(StudyPlan()).texts.thanks.strip()
    'Thank you. Your answers are saved.'
    """
    question_text = LANGUAGES[available_language(plan.texts.language)].question[plan.question.mode]
    text = plan.question.text or question_text
    question = msgspec.structs.replace(plan.question, text=text, noun=plan.question.noun or noun_of(text))
    plan = msgspec.structs.replace(plan, question=question)
    texts, values = plan.texts, placeholders(plan)
    usual = {
        "instructions": "rate" if plan.question.mode == "rate" else "compare",
        "consent": "consent",
        "thanks": "thanks",
    }
    named = {key: getattr(texts, key).strip() or name for key, name in usual.items()}
    whole = {
        key: template(name, texts.language) if name in TEMPLATES else getattr(texts, key) for key, name in named.items()
    }
    # Braces without a known placeholder stay as they are.
    filled = {key: PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), text) for key, text in whole.items()}
    return msgspec.structs.replace(plan, texts=msgspec.structs.replace(texts, **filled))


def placeholders(plan: StudyPlan) -> dict[str, str]:
    """The values of the placeholders in texts, such as `{question}` and `{batch}`.

    >>> sorted(placeholders(StudyPlan()))
    ['batch', 'batches', 'checks', 'contact', 'identity', 'least', 'most', 'name', 'noun', 'pay', 'question', 'title']
    """
    annotators, money = plan.annotators, plan.money
    sentences = LANGUAGES[available_language(plan.texts.language)]
    checks = [sentences.qualification.format(number=annotators.qualification, passed=annotators.passed)] * bool(
        annotators.qualification
    )
    checks += [sentences.checks] * bool(annotators.attention or annotators.gold_every)
    answer, batch = (f"{price:.2f} {money.currency}" for price in (money.price, money.price * annotators.batch))
    noun = plan.question.noun or sentences.noun
    return {
        "question": plan.question.text,
        "noun": noun,
        "name": noun[:1].upper() + noun[1:],
        "title": plan.texts.title or plan.name,
        "batch": str(annotators.batch),
        "batches": str(annotators.batches),
        "least": str(plan.question.scale[0]),
        "most": str(plan.question.scale[1]),
        "contact": plan.texts.contact or sentences.no_contact,
        "checks": " ".join(checks),
        "identity": sentences.identity["worker_id" if annotators.worker_id else annotators.recruit],
        "pay": sentences.pay.format(answer=answer, batch=batch) if money.price else sentences.no_pay,
    }
