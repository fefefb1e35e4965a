"""Notes are values: equal where they say the same, so that each is told once."""

from dataclasses import FrozenInstanceError

import pytest

from custodes.data.notes import Note


def test_equal_notes_are_one() -> None:
    one, same = (
        Note(rule="missing-score", message="3 are missing", count=3),
        Note(rule="missing-score", message="3 are missing", count=3),
    )
    other = Note(rule="missing-score", message="3 are missing", count=3, aspect="style")
    assert list(dict.fromkeys([one, same, other])) == [one, other]
    assert (Note(rule="a", message="b").count, Note(rule="a", message="b").aspect) == (0, "")
    with pytest.raises(FrozenInstanceError):
        one.count = 4  # type: ignore[misc]
