from __future__ import annotations

from custodes.data.notes import Note, build_notes, merge_notes


def test_notes_that_differ_only_in_the_aspect_are_one() -> None:
    def few(aspect: str, count: int = 2, rule: str = "few") -> Note:
        return Note(rule=rule, message=f"few items for aspect {aspect!r}; add items", count=count, aspect=aspect)

    other = Note(rule="other", message="few items for aspect 'a'; add items")
    notes = [few("a"), other, few("b"), few("c"), few("a"), few("d", count=3), few("e", rule="lone"), other]
    assert merge_notes(notes) == [
        Note(rule="few", message="few items for aspects 'a', 'b' and 'c'; add items", count=2),
        other,
        few("d", count=3),
        few("e", rule="lone"),
    ]
    twice = Note(rule="r", message="A for aspect 'a' for aspect 'a'", aspect="a")
    assert merge_notes([twice, Note(rule="r", message="A for aspect 'b' for aspect 'a'", aspect="b")]) == [
        Note(rule="r", message="A for aspects 'a' and 'b' for aspect 'a'")
    ]


def test_notes_without_cases_are_left_out() -> None:
    assert build_notes(("one", 1, "m"), ("none", 0, "m"), ("yes", True, "n"), ("no", False, "n"), aspect="a") == [
        Note(rule="one", message="m", count=1, aspect="a"),
        Note(rule="yes", message="n", count=0, aspect="a"),
    ]
