from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from custodes.data.patterns import confusable_groups, escape_confusable, select_labels
from custodes.errors import OptionError

ALL = "expert1, expert2, turker1, BLEU, f(a,b), rouge[l], !odd"
LABELS = ("expert1", "expert2", "turker1", "BLEU", "f(a,b)", "rouge[l]", "!odd")


def choose(patterns: object) -> tuple[str, ...]:
    return select_labels(patterns, LABELS, option="human", what="rater")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        *((None, LABELS), ("expert*", ("expert1", "expert2"))),
        *(("turker1, expert1", ("expert1", "turker1")), ("expert*,!expert2", ("expert1",))),
        ("!expert*,!BLEU", ("turker1", "f(a,b)", "rouge[l]", "!odd")),
        ("f(a,b)", ("f(a,b)",)),
        ("BLEU,f(a,b),turker1", ("turker1", "BLEU", "f(a,b)")),
        ("*,!f(a,b)", ("expert1", "expert2", "turker1", "BLEU", "rouge[l]", "!odd")),
        ("rouge[l]", ("rouge[l]",)),
        ("!rouge[l],!expert*", ("turker1", "BLEU", "f(a,b)", "!odd")),
        *(("expert[12]", ("expert1", "expert2")), ("!odd", ("!odd",)), (["f(a,b)", "BLEU"], ("BLEU", "f(a,b)"))),
        *((["expert1,turker1"], ("expert1", "turker1")), ("tur*?", ("turker1",))),
    ],
)
def test_selection(patterns: object, expected: tuple[str, ...]) -> None:
    assert choose(patterns) == expected


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        ("expret1", f"human='expret1': no such rater; raters: {ALL} (did you mean 'expert1'?)"),
        ("bleu", f"human='bleu': no such rater; raters: {ALL} (did you mean 'BLEU'?)"),
        ("zzz*", f"human='zzz*': no such rater; raters: {ALL}"),
        ("", f"human='' matches no rater; raters: {ALL}"),
        ("BLEU,!BLEU", f"human='BLEU,!BLEU' excludes every rater; raters: {ALL}"),
    ],
)
def test_a_pattern_without_a_hit_raises(patterns: str, message: str) -> None:
    with pytest.raises(OptionError, match=f"^{re.escape(message)}$"):
        choose(patterns)


def test_a_study_without_aspects_has_none_to_choose() -> None:
    with pytest.raises(OptionError, match="aspect='X': the study has no aspects; leave this option out"):
        select_labels("X", [""], option="aspect", what="aspect")
    assert select_labels("*", [""], option="aspect", what="aspect") == ("",)


@given(st.lists(st.text(min_size=1, max_size=5).filter(lambda t: t == t.strip()), min_size=1, max_size=5, unique=True))
def test_any_label_selects_itself_and_a_list_of_all_selects_all(labels: list[str]) -> None:
    for label in labels:
        assert select_labels(label, labels, option="o", what="w") == (label,)
    assert select_labels(labels, labels, option="o", what="w") == tuple(labels)


def test_commas_in_labels_do_not_split_them() -> None:
    labels = ["a", "f(a,b)", "f(a,b,c)"]
    assert select_labels("a,f(a,b,c) ,!f(a,b)", labels, option="o", what="w") == ("a", "f(a,b,c)")


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
