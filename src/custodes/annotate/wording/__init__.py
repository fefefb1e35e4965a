"""Templates of instructions, consent and thanks in each language, and the values of their placeholders."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

import msgspec

from custodes.annotate.plan import Question, StudyPlan
from custodes.annotate.wording.translations import words

TEMPLATES = ("compare", "adequacy", "rate", "consent", "thanks")
"""Names of templates that a plan may use. The template `adequacy` follows the instructions in Figure 4 of the
correction paper (Deriu et al. 2023)."""
PLACEHOLDER = re.compile(r"\{(\w+)\}")
NOUN = re.compile(r"(?:Which(?: of (?:these|the) two)?|Welche[rs]?|How \w+ is (?:this|the)) ([^\W\d_]+)", re.IGNORECASE)
"""Pattern of a question that contains the noun for an output."""
NO_NOUN = {"is", "one", "of", "do", "does", "would", "ist", "von", "der", "beiden"}
"""Words other than nouns that may follow `Which` or `How good is this` in a question."""


def noun_of(question: str) -> str:
    """Return the noun that a question uses for an output, or '' if the question contains no such noun.

    >>> noun_of("Which summary is better?"), noun_of("How good is this answer?"), noun_of("Which is better?")
    ('summary', 'answer', '')
    """
    noun_match = NOUN.match(question)
    return "" if noun_match is None or noun_match[1].lower() in NO_NOUN else noun_match[1]


@cache
def template(name: str, language: str = "en") -> str:
    """Return the text of a template in a language (a BCP 47 tag), or in English if that language is not available."""
    language_code = words(language)["code"]
    return (files(__package__) / (f"{name}.md" if language_code == "en" else f"{name}.{language_code}.md")).read_text(
        encoding="utf-8"
    )


def fill_plan_texts(plan: StudyPlan) -> StudyPlan:
    """Return the plan with all texts of the study filled in.

    Names of templates and missing texts are replaced by the templates, a missing question by the default question, and
    placeholders by their values. A study stores every text that participants saw.

    >>> fill_plan_texts(StudyPlan()).texts.thanks.strip()
    'Thank you. Your answers are saved.'
    """
    question_key = f"question_{plan.question.mode}" + ("_noun" if plan.question.noun else "")
    default_question = words(plan.texts.language)[question_key].replace("{noun}", plan.question.noun)
    question_text = plan.question.text or default_question
    filled_question_plan = msgspec.structs.replace(
        plan.question, text=question_text, noun=plan.question.noun or noun_of(question_text)
    )
    plan = msgspec.structs.replace(plan, question=filled_question_plan)
    study_texts, value_of_placeholder = plan.texts, placeholders(plan)
    default_template_name_of_key = {
        "instructions": "rate" if plan.question.mode == "rate" else "compare",
        "consent": "consent",
        "thanks": "thanks",
    }
    template_name_or_text_of_key = {
        key: getattr(study_texts, key).strip() or template_name
        for key, template_name in default_template_name_of_key.items()
    }
    text_of_key = {
        key: template(template_name, study_texts.language) if template_name in TEMPLATES else getattr(study_texts, key)
        for key, template_name in template_name_or_text_of_key.items()
    }
    # Braces without a known placeholder stay as they are.
    filled_text_of_key = {
        key: PLACEHOLDER.sub(lambda match: value_of_placeholder.get(match[1], match[0]), template_text)
        for key, template_text in text_of_key.items()
    }
    return msgspec.structs.replace(plan, texts=msgspec.structs.replace(study_texts, **filled_text_of_key))


def label_of_two_points(question: Question) -> dict[int, str]:
    """Return the labels of a rating scale with two points, such as 0: fail and 1: pass. The result is empty for other
    scales and for scales without labels."""
    is_labelled = question.mode == "rate" and len(question.labels) == 2 == question.scale[1] - question.scale[0] + 1
    return dict(zip(question.scale, question.labels, strict=True)) if is_labelled else {}


def scale_bounds(question: Question) -> tuple[str, str]:
    """Return the lowest and the highest rating, with their labels if the scale has two points and labels.

    >>> scale_bounds(Question(mode="rate", scale=(0, 1), labels=("fail", "pass")))
    ('0 (fail)', '1 (pass)')
    """
    label_of_rating = label_of_two_points(question)
    lowest_rating_text, highest_rating_text = (
        f"{rating} ({label_of_rating[rating]})" if label_of_rating else str(rating) for rating in question.scale
    )
    return lowest_rating_text, highest_rating_text


def placeholders(plan: StudyPlan) -> dict[str, str]:
    """Return the values of the placeholders in texts, such as `{question}` and `{batch}`.

    >>> placeholders(StudyPlan())["scale"]
    'Use the whole scale, from 1 (worst) to 5 (best).'
    """
    annotator_plan, payment_plan, phrase_of_key = plan.annotators, plan.money, words(plan.texts.language)
    check_sentences = [
        phrase_of_key["qualification"].format(number=annotator_plan.qualification, passed=annotator_plan.passed)
    ] * bool(annotator_plan.qualification)
    check_sentences += [phrase_of_key["checks"]] * bool(annotator_plan.attention or annotator_plan.gold_every)
    answer_price_text, batch_price_text = (
        f"{price:.2f} {payment_plan.currency}"
        for price in (payment_plan.price, payment_plan.price * annotator_plan.batch)
    )
    noun = plan.question.noun or phrase_of_key["noun"]
    lowest_rating_text, highest_rating_text = scale_bounds(plan.question)
    scale_key = "scale_of_labels" if label_of_two_points(plan.question) else "scale"
    return {
        "question": plan.question.text,
        "noun": noun,
        "name": noun[:1].upper() + noun[1:],
        "title": plan.texts.title or plan.name,
        "batch": str(annotator_plan.batch),
        "batches": str(annotator_plan.batches),
        "least": lowest_rating_text,
        "most": highest_rating_text,
        "scale": phrase_of_key[scale_key].format(least=lowest_rating_text, most=highest_rating_text),
        "contact": plan.texts.contact or phrase_of_key["no_contact"],
        "checks": " ".join(check_sentences),
        "identity": phrase_of_key[
            "identity_worker_id" if annotator_plan.worker_id else f"identity_{annotator_plan.recruit}"
        ],
        "pay": phrase_of_key["pay"].format(answer=answer_price_text, batch=batch_price_text)
        if payment_plan.price
        else phrase_of_key["no_pay"],
    }
