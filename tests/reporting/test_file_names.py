"""File names of figures are unique on all operating systems."""

from __future__ import annotations

import unicodedata

from hypothesis import given, settings
from hypothesis import strategies as st

from custodes.reporting.assembly import file_names

ODD = [
    "a/b",
    "a:b",
    "a_b",
    "A/B",
    "x" * 300,
    "x" * 301,
    "é",
    "e\u0301",
    "",
    ".",
    "..",
    "/",
    "\0",
    "con.",
    "模" * 200,
    "a.b",
]


@settings(max_examples=40)
@given(st.lists(st.one_of(st.sampled_from(ODD), st.text(max_size=5)), unique=True))
def test_names_are_short_safe_and_their_own_without_regard_to_case(labels: list[str]) -> None:
    names = file_names(labels)
    assert len(names) == len(labels)
    assert len({unicodedata.normalize("NFKC", name).casefold() for name in names}) == len(names)
    for name in names:
        assert 0 < len(f"{name}.svg".encode()) < 200
        assert all(letter.isalnum() or letter in "-_." for letter in name)
        assert not name.startswith((".", "_"))


def test_plain_labels_are_names_as_they_are() -> None:
    plain = ["fluency-agreement-intervals-kendall_item", "GPT-4o", "模型", "v1.5"]
    assert file_names(plain) == plain


def test_a_name_does_not_depend_on_the_order() -> None:
    assert sorted(file_names(ODD)) == sorted(file_names(ODD[::-1]))
