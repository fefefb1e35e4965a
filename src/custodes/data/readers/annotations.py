"""Answers of annotation tools: a task's fields name the outputs it shows; who said what becomes scores or verdicts.

A project's own fields may have any name, so there is a convention: `item`, and `system` (or `model`) where a task shows
one output, `system_a` and `system_b` (or `model_a` and `model_b`) where it shows two; optional `aspect`, which is else
the name of the question. Of two outputs, a question NAME_a or NAME_b is about one of them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from custodes.data.notes import noted
from custodes.data.readers import words
from custodes.data.readers.battles import read_battles
from custodes.data.readers.nested import Found, label, number
from custodes.data.readers.reader import Invalid
from custodes.data.study import Study
from custodes.errors import InputError, listed

ITEM, ONE, TWO = "item", ("system", "model"), (("system_a", "system_b"), ("model_a", "model_b"))
MEANT = words.UNSURE | words.COLUMNS | words.PLACES | dict.fromkeys((*words.TIES, "both"), 0.0) | {"1": 1.0, "2": -1.0}
"""Words of a choice between two outputs, by what they mean: the first (1) is the one on the left."""
WINNERS = {1.0: "model_a", 0.0: "tie", -1.0: "model_b"}
NUMBERED = re.compile(r"([+-]?\d+(?:\.\d+)?)\s*[-–:.)]\s*\S.*")
"""A choice that begins with its number, such as `4 - good`."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """What one task shows: an item, and the outputs of one system or of two."""

    item: str
    systems: tuple[str, ...]
    aspect: str = ""


@dataclass(kw_only=True)
class Answers:
    """What people and models answered, collected answer by answer; `where` is what messages call the export, `way`
    another way to say which system a task shows."""

    where: str
    way: str = ""
    found: Found = field(init=False)
    answers: dict[str, list[tuple[Task, Any, str, str, str]]] = field(default_factory=lambda: defaultdict(list))
    unused: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.found = Found(where=self.where)

    def task(self, fields: Mapping[str, Any], number_of_task: str) -> Task:
        """The task that these fields describe; without a field `item`, the item is the task."""
        said = {name: _shown(fields[name]) for name in (ITEM, "aspect", *ONE, *TWO[0], *TWO[1]) if name in fields}
        said = {name: text for name, text in said.items() if text}
        pair = next((names for names in TWO if set(names) <= said.keys()), None)
        one = next((name for name in ONE if name in said), None)
        if not pair and not one:
            raise InputError(
                f"{self.where}: task {number_of_task} names no system: give its data a field 'system', or 'system_a'"
                f" and 'system_b' where it shows two outputs{self.way}; found: {listed(fields) or 'no field'}"
            )
        systems = tuple(said[name] for name in pair or (str(one),))
        return Task(item=said.get(ITEM, number_of_task), systems=systems, aspect=said.get("aspect", ""))

    def add(self, task: Task, question: str, value: Any, *, rater: str, kind: str, order: str = "") -> None:
        """One answer; a list of one is that one, and what is no number and no text is counted as not used."""
        while isinstance(value, list) and len(value) == 1:
            value = value[0]
        if value is None:
            return
        if isinstance(value, list | dict):
            self.unused[question] += 1
        else:
            self.answers[question].append((task, value, rater, kind, order))

    def study(self, *, invalid: Invalid, questions: str) -> Study:
        """The study of all answers; a question that is never answered by a number or a side is left out and noted."""
        runs: Counter[tuple[object, ...]] = Counter()
        battles: list[dict[str, str]] = []
        strays: Counter[str] = Counter()
        for question, answers in self.answers.items():
            read = [(given, _read(given[0], question, given[1])) for given in answers]
            if not any(meant for _, meant in read):
                self.unused[question] += len(answers)
                continue
            for (task, value, rater, kind, order), meant in read:
                if len(task.systems) == 1 or (meant and meant[0] != "winner"):
                    if meant is None:
                        strays[f"{question} {str(value)[:40]!r}"] += 1
                        continue
                    system, aspect, score = meant
                    aspect = task.aspect or aspect
                    run = runs[task.item, system, rater, aspect]
                    runs[task.item, system, rater, aspect] += 1
                    self.found.score(task.item, system, rater, score, kind=kind, aspect=aspect, repeat=str(run))
                    continue
                aspect = task.aspect or question
                run = runs[task.item, task.systems, rater, aspect]
                runs[task.item, task.systems, rater, aspect] += 1
                first, second = task.systems
                said = {"item": task.item, "model_a": first, "model_b": second, "rater": rater, "kind": kind}
                told = {"aspect": aspect, "order": order, "repeat": str(run)}
                battles.append(said | told | {"winner": str(meant[2] if meant else value)})
        if strays and invalid == "error":
            raise InputError(
                f"{self.where}: {strays.total()} answers are words where others are numbers"
                f" ({listed(strays, limit=3)}); begin choices with their number ('4 - good'), or leave such answers out"
                " and count them with invalid='drop' (--invalid drop)"
            )
        if not battles and not self.found.scores:
            raise InputError(
                f"{self.where}: no answer is a number or says which output is better; {questions}:"
                f" {listed([*self.unused, *self.answers]) or 'none was answered'}"
            )
        made = read_battles(pl.DataFrame(battles), where=self.where, invalid=invalid) if battles else None
        for own in battles:
            if self.found.kinds.setdefault(own["rater"], own["kind"]) != own["kind"]:
                raise InputError(f"{self.where}: {own['rater']!r} is human and metric; a rater has one kind")
        notes = noted(
            (
                "answers-not-read",
                self.unused.total(),
                f"{self.where}: answers that are no number and no side: {_counted(self.unused)}",
            ),
            (
                "unreadable-score",
                strays.total(),
                f"{self.where}: {strays.total()} answers are words among numbers, and were dropped",
            ),
        )
        preferences = made.preferences if made else None
        return self.found.study(digest="", preferences=preferences, notes=[*notes, *(made.notes if made else ())])


def _read(task: Task, question: str, value: Any) -> tuple[str, str, Any] | None:
    """System, aspect and score; or 'winner', aspect and who won; None where it is neither."""
    score = number(value)
    if score is None and isinstance(value, str) and (named := NUMBERED.fullmatch(value.strip())):
        score = float(named[1])
    if len(task.systems) == 1:
        return None if score is None else (task.systems[0], question, score)
    stem, _, side = question.rpartition("_")
    if stem and side in ("a", "b") and score is not None:
        return task.systems[side == "b"], stem, score
    systems = [system.lower() for system in task.systems]
    said = str(value).strip().lower()
    sign = 1.0 - 2.0 * systems.index(said) if said in systems else MEANT.get(words.plain(pl.Series([said])).item())
    return None if sign is None else ("winner", question, WINNERS[sign])


def _shown(value: Any) -> str:
    return label(value) if isinstance(value, str | int | float) else ""


def _counted(counts: Mapping[str, int]) -> str:
    return listed(f"{name} ({count})" for name, count in counts.items())


def check_fits(frame: pl.DataFrame, alternatives: Sequence[tuple[str, ...]], *, where: str, what: str) -> None:
    """Raise where a table has the columns of none of the alternatives, as a forced reader may find."""
    if not any(set(needed) <= set(frame.columns) for needed in alternatives):
        ways = " or ".join(", ".join(needed) for needed in alternatives)
        raise InputError(f"{where}: not the layout of {what}: columns {listed(frame.columns)}; needed: {ways}")
