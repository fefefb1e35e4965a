"""Problems of a study with labels: the notes of the question `rates`."""

from __future__ import annotations

from collections.abc import Iterator

from custodes.answers.question import Rng
from custodes.data.study import Study
from custodes.evaluate.check.problems import Problem
from custodes.evaluate.rates.notes import WARNINGS
from custodes.evaluate.rates.rates import rates


def label_problems(chosen: Study, rng: Rng) -> Iterator[Problem]:
    """Problems of the labels of a selected study; those that may reverse a conclusion are warnings."""
    before = set(chosen.notes)
    for note in rates(chosen, rng=rng).notes:
        if note not in before:
            yield Problem("warning" if note.rule in WARNINGS else "info", note.rule, note.message)
