"""Translations of the interface: the same keys and placeholders in every language, all of them used."""

from __future__ import annotations

import re

import pytest

from custodes.annotate.site import pages
from custodes.annotate.visits import SKIPPING
from custodes.annotate.wording import fill_plan_texts
from custodes.annotate.wording.translations import ENGLISH, LANGUAGES, words
from tests.annotate.site.gallery import WHY
from tests.annotate.studies import plan_of

TEMPLATES = [path.read_text() for path in sorted((pages.HERE / "templates").glob("*.html"))]
BLANKS = re.compile(r"\{(\w+)\}")


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_the_same_words_with_the_same_blanks(language: str) -> None:
    translation = LANGUAGES[language]
    assert list(translation) == list(ENGLISH)
    for key, text in translation.items():
        assert sorted(BLANKS.findall(text)) == sorted(BLANKS.findall(ENGLISH[key])), key
        assert text == text.strip() != "", key
    assert not [key for key in translation if hasattr(dict, key)], "a template would find the method of the dict"


def test_templates_use_all_words_and_no_others() -> None:
    assert {key for text in TEMPLATES for key in re.findall(r"\bw\.(\w+)", text)} <= set(ENGLISH)
    modules = ("pages.py", "app.py", "../wording/__init__.py", "../known_questions.py")
    source = "".join([*TEMPLATES, *((pages.HERE / name).read_text() for name in modules)])
    modes, kinds = (
        {f"question_{mode}{end}" for mode in ("compare", "rate") for end in ("", "_noun")},
        ("identity_links", "identity_open"),
    )
    of_session = {*SKIPPING, *WHY, *modes, *kinds}
    assert of_session <= set(ENGLISH)
    used = {key for key in ENGLISH if re.search(rf"\b{key.removesuffix('_what')}\b", source)}
    assert not {key for key in ENGLISH if re.sub("_(what|later)$", "", key) not in used | of_session}


def test_only_the_page_of_blocked_annotators_mentions_known_answers() -> None:
    for translation in (words("en"), words("de")):
        assert translation["blocked_what"] != translation["excluded_what"]
    assert "known" not in ENGLISH["excluded_what"]
    assert "bekannt" not in words("de")["excluded_what"]


def test_a_language_without_words_is_english() -> None:
    assert words("de")["next"] == words("DE-at")["next"] == "Weiter"
    assert words("ar") is words("") is ENGLISH


def test_instructions_and_pages_name_outputs_as_the_question_does() -> None:
    """The noun is that of the plan, else of the question, else the default; it may contain braces."""
    for text, noun, name in (
        ("Which summary is better?", "", "Summary"),
        ("Which summary is better?", "digest", "Digest"),
        ("Better?", "", "Response"),
        ("Better?", "{x}", "{x}"),
    ):
        plan = fill_plan_texts(plan_of(question={"text": text, "noun": noun}))
        assert f"**{name} 1**" in plan.texts.instructions
        assert words("en", plan.question.noun)["response"].format(number=1) == f"{name} 1"
