"""The words of the pages: the same in every language, all used, none missing."""

from __future__ import annotations

import re

import pytest

from custodes.annotate.site import pages
from custodes.annotate.site.words import ENGLISH, LANGUAGES, words

TEMPLATES = [path.read_text() for path in sorted((pages.HERE / "templates").glob("*.html"))]
BLANKS = re.compile(r"\{(\w+)\}")


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_the_same_words_with_the_same_blanks(language: str) -> None:
    own = LANGUAGES[language]
    assert list(own) == list(ENGLISH)
    for key, text in own.items():
        assert sorted(BLANKS.findall(text)) == sorted(BLANKS.findall(ENGLISH[key])), key
        assert text == text.strip() != "", key
    assert not [key for key in own if hasattr(dict, key)], "a template would find the method of the dict"


def test_templates_use_words_that_there_are_and_all_of_them() -> None:
    used = {key for text in TEMPLATES for key in re.findall(r"\bw\.(\w+)", text)}
    assert used <= set(ENGLISH)
    source = (pages.HERE / "pages.py").read_text() + (pages.HERE / "app.py").read_text()
    source += (pages.HERE / "forms.py").read_text() + "".join(TEMPLATES)
    endings = ("finished", "no-work", "failed", "blocked", "stopped", "declined", "erased")
    unused = {
        key for key in ENGLISH if key.removesuffix("_what") not in endings and not re.search(rf"\b{key}\b", source)
    }
    assert not {key for key in unused if key.removesuffix("_what") not in source}


def test_a_language_without_words_is_english() -> None:
    assert words("de")["next"] == words("DE-at")["next"] == "Weiter"
    assert words("ar") is words("") is ENGLISH
