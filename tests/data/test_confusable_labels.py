from __future__ import annotations

import pytest

from custodes.data.patterns import confusable_groups, escape_confusable


@pytest.mark.parametrize(
    "labels",
    [
        *(("GPT-4", "gpt-4"), ("Strauß", "STRAUSS"), ("A1", "\uff21\uff11"), ("office", "o\ufb03ce")),
        ("caf\u00e9", "cafe\u0301"),  # composed
        *(("GPT-4", "G\u0420\u0422-4"), ("aster", "\u0430st\u0435r"), ("BERT", "\u0392\u0395RT")),  # Cyrillic, Greek
        *(("Aster", "As\u200bter"), ("Aster", "As\u00adter"), ("Aster", "\ufeffAster")),  # hidden characters
        *(("gpt-4", "gpt\u20114"), ("gpt-4", "gpt\u20134"), ("gpt-4", "gpt_4")),  # dashes
        *(("gpt 4", "gpt  4"), ("gpt 4", "gpt\u00a04")),  # blanks
    ],
    ids=ascii,
)
def test_labels_that_look_equal(labels: tuple[str, str]) -> None:
    assert confusable_groups(["other", *labels]) == [list(labels)]
    assert len({escape_confusable(label) for label in labels}) == 2


def test_labels_that_do_not() -> None:
    labels = ["a", "b", "a", "gpt-4", "gpt-4o", "gpt4", "bleu1", "bleu2", "\u00e9", "e", "", "日本", "\U0001f600"]
    assert confusable_groups(labels) == []
