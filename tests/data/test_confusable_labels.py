from __future__ import annotations

import polars as pl
import pytest

import custodes as cu
from custodes.data.patterns import confusable_groups, escape_confusable

ALIKE = {
    "case": ("GPT-4", "gpt-4"),
    "composed": ("caf\u00e9", "cafe\u0301"),
    "Cyrillic": ("GPT-4", "G\u0420\u0422-4"),
    "Cyrillic small": ("aster", "\u0430st\u0435r"),
    "Greek": ("BERT", "\u0392\u0395RT"),
    "full width": ("A1", "\uff21\uff11"),
    "zero width": ("Aster", "As\u200bter"),
    "soft hyphen": ("Aster", "As\u00adter"),
    "byte order mark": ("Aster", "\ufeffAster"),
    "hyphens": ("gpt-4", "gpt\u20114"),
    "dash": ("gpt-4", "gpt\u20134"),
    "underscore": ("gpt-4", "gpt_4"),
    "blanks": ("gpt 4", "gpt  4"),
    "no-break": ("gpt 4", "gpt\u00a04"),
    "sharp s": ("Strauß", "STRAUSS"),
    "ligature": ("office", "o\ufb03ce"),
}


@pytest.mark.parametrize("labels", ALIKE.values(), ids=ALIKE)
def test_labels_that_look_alike(labels: tuple[str, str]) -> None:
    assert confusable_groups(["other", *labels]) == [list(labels)]
    assert len({escape_confusable(label) for label in labels}) == 2


def test_labels_that_do_not() -> None:
    assert (
        confusable_groups(
            ["a", "b", "a", "gpt-4", "gpt-4o", "gpt4", "bleu1", "bleu2", "\u00e9", "e", "", "日本", "\U0001f600"]
        )
        == []
    )


def test_names_that_differ_only_in_blanks_are_noted_in_every_answer() -> None:
    table = pl.DataFrame(
        {"item": [k // 3 for k in range(9)], "system": ["A 1", "A\u00a0 1", " B "] * 3, "human": range(9)}
    )
    messages = [note.message for note in cu.leaderboard(table, resamples=0).notes if note.rule == "look-alikes"]
    assert [message.split(": ")[1] for message in messages] == ["'A 1' = 'A\\xa0 1'; use one spelling"]
    assert cu.check(table).problems.filter(rule="look-alikes").height == 1
