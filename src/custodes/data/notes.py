"""Notes on exclusions, inferences and undefined values, with counts, so that nothing is dropped silently."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

ASPECT_PHRASE = " for aspect {!r}"
"""Part of a message that names the aspect."""

NO_ANSWERS = (
    "there are no scores, verdicts or answers of annotators yet; collect answers with custodes annotate, or add scores "
    "or verdicts with custodes score or judge"
)
"""Message for studies that contain only texts."""

SYSTEM_OF_FILE = "system-of-file"
"""Rule of the note on a table without a column of systems."""


@dataclass(frozen=True, kw_only=True)
class Note:
    """A note for the reader of a result.

    `rule` is a short stable name (`missing-score`, `constant-metric`). `count` is the number of cases (0 if the cases
    cannot be counted). `aspect` is the aspect that the note is about ('' for all aspects).
    """

    rule: str
    message: str
    count: int = 0
    aspect: str = ""


def build_notes(*entries: tuple[str, int, str], aspect: str = "") -> list[Note]:
    """Notes from tuples of rule, count and message, without tuples whose count is 0.

    A count of True means that the note applies but has no number.

    >>> [note.rule for note in build_notes(("seen", 2, "two seen"), ("unseen", 0, "none unseen"))]
    ['seen']
    """
    return [
        Note(rule=rule, message=message, count=0 if count is True else count, aspect=aspect)
        for rule, count, message in entries
        if count
    ]


def name_aspects(notes: Iterable[Note]) -> list[Note]:
    """The notes, with the aspect after the first clause of each message.

    >>> [note.message for note in name_aspects([Note(rule="few", message="few labels; add labels", aspect="a")])]
    ["few labels for aspect 'a'; add labels"]
    """
    notes_with_aspects = []
    for note in notes:
        first_clause, *further_clauses = re.split(r"(?=; |\. )", note.message, maxsplit=1)
        phrase = ASPECT_PHRASE.format(note.aspect) if note.aspect else ""
        notes_with_aspects.append(replace(note, message="".join([first_clause, phrase, *further_clauses])))
    return notes_with_aspects


def merge_notes(notes: Iterable[Note]) -> list[Note]:
    """The notes; notes that differ only in the aspect are merged into one note.

    >>> [note.message for note in merge_notes([
    ...     Note(rule="few", message="few items for aspect 'a'", aspect="a"),
    ...     Note(rule="few", message="few items for aspect 'b'", aspect="b"),
    ... ])]
    ["few items for aspects 'a' and 'b'"]
    """
    notes_of_key: dict[tuple[str, ...], list[Note]] = {}
    for note in notes:
        notes_of_key.setdefault(
            (
                note.rule,
                str(note.count),
                *(note.message.split(ASPECT_PHRASE.format(note.aspect), 1) if note.aspect else [note.message]),
            ),
            [],
        ).append(note)
    merged_notes = []
    for first_note, *further_notes in notes_of_key.values():
        *aspect_names, last_aspect = dict.fromkeys(
            repr(group_note.aspect) for group_note in (first_note, *further_notes)
        )
        if aspect_names:
            first_note = replace(
                first_note,
                message=first_note.message.replace(
                    ASPECT_PHRASE.format(first_note.aspect),
                    f" for aspects {', '.join(aspect_names)} and {last_aspect}",
                    1,
                ),
                aspect="",
            )
        merged_notes.append(first_note)
    return merged_notes
