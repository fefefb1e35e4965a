"""Parts of a study that tests compare."""

from __future__ import annotations

from custodes.data.outputs import Outputs
from custodes.data.study import Study


def outputs_of(study: Study) -> Outputs:
    """Return the texts of a study, which must have some."""
    assert study.outputs is not None
    return study.outputs


def note_counts(study: Study) -> dict[str, int]:
    """Return the count of each note of a study by its rule."""
    return {note.rule: note.count for note in study.notes}


def note_messages(study: Study) -> dict[str, str]:
    """Return the message of each note of a study by its rule, without the name of the table."""
    return {note.rule: note.message.removeprefix(f"{study.name}: ") for note in study.notes}
