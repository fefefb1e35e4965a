"""Answers of annotation tools: a task's fields name the outputs it shows; who said what becomes scores or verdicts.

A project's own fields may have any name, so there is a convention: `item`, and `system` (or `model`) where a task shows
one output, `system_a` and `system_b` (or `model_a` and `model_b`) where it shows two; optional `aspect`, which is else
the name of the question. Of two outputs, a question NAME_a or NAME_b is about one of them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

import custodes.data.readers.words as words
from custodes.data.notes import noted
from custodes.data.raters import Raters
from custodes.data.ratings import Ratings
from custodes.data.readers.battles import read_battles
from custodes.data.readers.logs import label, number
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
class AnnotationExport:
    """Answers of people and models, collected one at a time; `where` is the name of the export in messages, `hint`
    another way to declare which system a task shows."""

    where: str
    hint: str = ""
    answers: dict[str, list[tuple[Task, Any, dict[str, str]]]] = field(default_factory=lambda: defaultdict(list))
    unused: Counter[str] = field(default_factory=Counter)

    def task(self, fields: Mapping[str, Any], number_of_task: str) -> Task:
        """The task that these fields describe; without a field `item`, the item is the task."""
        names = (ITEM, "aspect", *ONE, *TWO[0], *TWO[1])
        labels = {name: label(fields[name]) for name in names if isinstance(fields.get(name), str | int | float)}
        labels = {name: text for name, text in labels.items() if text}
        systems = next((names for names in (*TWO, *((name,) for name in ONE)) if set(names) <= labels.keys()), None)
        if systems is None:
            raise InputError(
                f"{self.where}: task {number_of_task} names no system: give its data a field 'system', or 'system_a'"
                f" and 'system_b' where it shows two outputs{self.hint}; found: {listed(fields) or 'no field'}"
            )
        return Task(
            item=labels.get(ITEM, number_of_task),
            systems=tuple(labels[name] for name in systems),
            aspect=labels.get("aspect", ""),
        )

    def add(self, task: Task, question: str, value: Any, *, rater: str, kind: str, order: str = "") -> None:
        """Add an answer; a list of one is its element, and other lists and objects are counted as not used."""
        while isinstance(value, list) and len(value) == 1:
            value = value[0]
        if isinstance(value, list | dict):
            self.unused[question] += 1
        elif value is not None:
            self.answers[question].append((task, value, {"rater": rater, "kind": kind, "order": order}))

    def study(self, *, invalid: Invalid, questions: str) -> Study:
        """The study of all answers; a question without any answer that is a number or a side is left out and noted."""
        scores, battles = list[dict[str, Any]](), list[dict[str, Any]]()
        strays: Counter[str] = Counter()
        for question, answers in self.answers.items():
            meanings = [_meaning(task, question, value) for task, value, _ in answers]
            if not any(meanings):
                self.unused[question] += len(answers)
                continue
            for (task, value, row), meaning in zip(answers, meanings, strict=True):
                if len(task.systems) == 2 and (meaning is None or meaning[0] == "winner"):
                    first, second = task.systems
                    winner = str(meaning[2] if meaning else value)
                    systems = {"item": task.item, "model_a": first, "model_b": second}
                    battles.append(row | systems | {"aspect": task.aspect or question, "winner": winner})
                elif meaning:
                    system, aspect, score = meaning
                    output = {"item": task.item, "system": system}
                    scores.append(row | output | {"aspect": task.aspect or aspect, "score": score})
                else:
                    strays[f"{question} {str(value)[:40]!r}"] += 1
        if strays and invalid == "error":
            raise InputError(
                f"{self.where}: {strays.total()} answers are words where others are numbers"
                f" ({listed(strays, limit=3)}); begin choices with their number ('4 - good'), or leave such answers out"
                " and count them with invalid='drop' (--invalid drop)"
            )
        if not battles and not scores:
            raise InputError(
                f"{self.where}: no answer is a number or says which output is better; {questions}:"
                f" {listed([*self.unused, *self.answers]) or 'none was answered'}"
            )
        kinds: dict[str, str] = {}
        for row in (*scores, *battles):
            if kinds.setdefault(row["rater"], row["kind"]) != row["kind"]:
                raise InputError(f"{self.where}: {row['rater']!r} is human and metric; a rater has one kind")
        by_question = ", ".join(f"{name} ({count})" for name, count in self.unused.items())
        notes = noted(
            (
                "answers-not-read",
                self.unused.total(),
                f"{self.where}: answers that are no number and no side: {by_question}",
            ),
            (
                "unreadable-score",
                strays.total(),
                f"{self.where}: {strays.total()} answers are words among numbers, and were dropped",
            ),
        )
        study = Study(raters=Raters.infer(kinds), notes=tuple(notes), name=self.where)
        if battles:
            verdicts = read_battles(_with_repeats(battles), where=self.where, invalid=invalid)
            study = replace(study, preferences=verdicts.preferences, notes=(*study.notes, *verdicts.notes))
        if scores:
            ratings = _with_repeats(scores).drop("order", "kind")
            study = replace(study, ratings=Ratings.make(ratings, where=self.where)[0])
        return study


def _with_repeats(answers: list[dict[str, Any]]) -> pl.DataFrame:
    """A row per answer; answers of one rater to the same question on the same outputs are repeats."""
    frame = pl.DataFrame(answers, infer_schema_length=None)
    keys = [name for name in ("item", "system", "model_a", "model_b", "rater", "aspect") if name in frame.columns]
    return frame.with_columns(repeat=pl.int_range(pl.len()).over(keys).cast(pl.String))


def _meaning(task: Task, question: str, value: Any) -> tuple[str, str, Any] | None:
    """System, aspect and score; or 'winner', aspect and the winner; None where it is neither."""
    score = number(value)
    if score is None and isinstance(value, str) and (match := NUMBERED.fullmatch(value.strip())):
        score = float(match[1])
    if len(task.systems) == 1:
        return None if score is None else (task.systems[0], question, score)
    stem, _, side = question.rpartition("_")
    if stem and side in ("a", "b") and score is not None:
        return task.systems[side == "b"], stem, score
    systems = [system.lower() for system in task.systems]
    word = str(value).strip().lower()
    sign = 1.0 - 2.0 * systems.index(word) if word in systems else MEANT.get(words.plain(pl.Series([word])).item())
    return None if sign is None else ("winner", question, WINNERS[sign])
