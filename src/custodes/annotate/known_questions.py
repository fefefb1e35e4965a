"""Control questions: gold questions, qualification questions and examples from a file, and attention checks from the
study's texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from custodes.annotate.plan import StudyPlan
from custodes.annotate.study_material import Item, Pair, StudyMaterial, SystemOutput
from custodes.annotate.wording.translations import words
from custodes.data.loading import load_table
from custodes.data.table import check_columns, label_column, to_polars
from custodes.errors import InputError, shown, suggestion

Kind = Literal["gold", "attention", "qualification", "example"]
KINDS: tuple[Kind, ...] = get_args(Kind)
COLUMNS = ("kind", "item", "system_a", "system_b", "context", "text_a", "text_b", "expected", "why")
WORDS = {"1": 1, "equal": 0, "2": -1}
"""Expected answers to a comparison, and their values from the view of the first output."""
USUAL = "gold"
MOST_CHECKS = 40
"""Maximum number of attention checks in a study."""


@dataclass(frozen=True, kw_only=True)
class Known:
    """A control question.

    `expected` is the correct answer from the view of the first output (1, 0 or -1), or a rating. If the question uses a
    comparison of the study, `asked` is this comparison, which is then not a real question.
    """

    kind: Kind
    context: Item
    first: SystemOutput
    second: SystemOutput | None
    expected: int
    why: str = ""
    asked: tuple[str, Pair] | None = None

    def images(self) -> dict[str, tuple[str, ...]]:
        """Return the names of the images of each part of the question."""
        second = {} if self.second is None else {"second": self.second.images}
        return {"context": self.context.images, "first": self.first.images, **second}


def read_gold(gold: Any, material: StudyMaterial, plan: StudyPlan) -> list[Known]:
    """Read control questions from a table or file.

    A row names outputs of an item (item, system_a, system_b) or has separate texts (text_a, text_b, context). It also
    has the expected answer ('1', 'equal', '2', or a rating), the kind (default gold), and the reason for the answer.
    `InputError` names the row of an invalid question.
    """
    table = load_table(gold) if isinstance(gold, str | Path) else None
    frame, where = (table.frame, table.name) if table else (to_polars(gold, where="gold"), "gold")
    check_columns(frame, where=where, required=("expected",), optional=COLUMNS)
    columns = {name: label_column(frame, name, where=where, empty=True) for name in COLUMNS}
    rows = pl.DataFrame(columns).iter_rows(named=True)
    questions = [_known(row, material, plan, f"{where}, row {number}") for number, row in enumerate(rows, start=1)]
    if not questions:
        raise InputError(f"{where}: the table has no rows; give at least one question with a known answer")
    _check_answers(questions, where)
    return questions


def _check_answers(questions: Sequence[Known], where: str) -> None:
    """Raise `InputError` for questions that contradict each other, because no annotator could answer both as
    expected."""
    expected: dict[tuple[object, ...], tuple[int, int]] = {}
    for row, question in enumerate(questions, start=1):
        sides: tuple[object, ...] = (question.first, question.second)
        value = question.expected
        if question.second is not None and (question.second.text, question.second.images) < (
            question.first.text,
            question.first.images,
        ):
            sides, value = sides[::-1], -value
        before, answer = expected.setdefault((question.context.label, question.context.context, *sides), (row, value))
        if answer != value:
            raise InputError(
                f"{where}: rows {before} and {row} expect different answers to the same question; remove one of "
                f"the two rows"
            )


def _known(row: Mapping[str, str], material: StudyMaterial, plan: StudyPlan, where: str) -> Known:
    kind = row["kind"] or USUAL
    if kind not in KINDS:
        raise InputError(f"{where}: kind {kind!r} is not allowed; allowed: {', '.join(KINDS)}{suggestion(kind, KINDS)}")
    is_rating = plan.question.mode == "rate"
    expected = _expected(row["expected"], plan, where)
    comparison: tuple[str, Pair] | None = None
    if row["item"] and not row["text_a"]:
        if row["text_b"] or row["context"]:
            raise InputError(f"{where}: the row has both an item of the study and texts; give either an item or texts")
        item = next((candidate for candidate in material.items if candidate.label == row["item"]), None)
        if item is None:
            near = suggestion(row["item"], [candidate.label for candidate in material.items])
            raise InputError(f"{where}: the study has no item {shown(row['item'])}{near}")
        names = (row["system_a"],) if is_rating else (row["system_a"], row["system_b"])
        outputs = [_output(row["item"], name, material, where) for name in names]
        if not is_rating and row["system_a"] == row["system_b"]:
            raise InputError(f"{where}: system_a and system_b are both {row['system_a']!r}; give two different systems")
        low, high = min(names), max(names)
        comparison = (row["item"], (low, None if is_rating else high))
        context = item
    else:
        if row["system_a"] or row["system_b"]:
            raise InputError(
                f"{where}: the row has both systems and texts; give either an item with two systems, or texts"
            )
        needed = ("text_a",) if is_rating else ("text_a", "text_b")
        if missing := [name for name in needed if not row[name]]:
            raise InputError(f"{where}: {missing[0]} is empty; give the texts, or an item with system_a and system_b")
        outputs = [SystemOutput(text=row[name]) for name in needed]
        context = Item(label="", context=row["context"])
    if is_rating and row["text_b"]:
        raise InputError(f"{where}: text_b must be empty, because a rating concerns one text")
    if not is_rating and outputs[0] == outputs[1] and expected != 0:
        raise InputError(f"{where}: both outputs are equal, so expected must be 'equal'")
    second = None if is_rating else outputs[1]
    return Known(
        kind=kind, context=context, first=outputs[0], second=second, expected=expected, why=row["why"], asked=comparison
    )


def _expected(text: str, plan: StudyPlan, where: str) -> int:
    if plan.question.mode == "rate":
        low, high = plan.question.scale
        if not (text.removeprefix("-").isdecimal() and text.isascii() and low <= int(text) <= high):
            raise InputError(
                f"{where}: expected {text!r} is not allowed; give a whole number from {low} to {high}, "
                "the scale of the plan"
            )
        return int(text)
    if text not in WORDS:
        raise InputError(
            f"{where}: expected {text!r} is not allowed; allowed: {', '.join(WORDS)} (1: the first output is better)"
        )
    if text == "equal" and not plan.question.equal:
        raise InputError(f"{where}: expected is 'equal', but the plan does not allow this answer (equal = false)")
    return WORDS[text]


def _output(item: str, system: str, material: StudyMaterial, where: str) -> SystemOutput:
    if system not in material.systems:
        raise InputError(f"{where}: the study has no system {shown(system)}{suggestion(system, material.systems)}")
    if (item, system) not in material.outputs:
        raise InputError(f"{where}: {system!r} has no output for item {item!r}")
    return material.outputs[item, system]


def attention_checks(material: StudyMaterial, plan: StudyPlan) -> list[Known]:
    """Return attention checks that are created from the study's texts. Each check shows an output next to a text that
    states which answer to give.

    Items, systems and sides are drawn with the seed of the plan. The number of checks is the number that one annotator
    can get, but at most 40.
    """
    annotators = plan.annotators
    number_of_checks = min(annotators.attention * annotators.batches, MOST_CHECKS) if annotators.attention else 0
    w = words(plan.texts.language)
    rng = np.random.default_rng([plan.seed, 1])
    keys = [key for key, output in material.outputs.items() if not output.is_empty]
    drawn: Sequence[int] = rng.permutation(len(keys))[:number_of_checks].tolist()
    items = {item.label: item for item in material.items}
    questions = []
    for number, place in enumerate(drawn):
        item, _ = key = keys[place]
        if plan.question.mode == "rate":
            least = plan.question.scale[0]
            text = SystemOutput(text=w["check_rating"].format(least=least))
            questions.append(Known(kind="attention", context=items[item], first=text, second=None, expected=least))
            continue
        is_equal = plan.question.equal and number % 3 == 2
        check_text = SystemOutput(text=w["check_equal" if is_equal else "check_other"])
        sides = (material.outputs[key], check_text) if number % 2 == 0 else (check_text, material.outputs[key])
        expected = 0 if is_equal else 1 if number % 2 == 0 else -1
        questions.append(
            Known(kind="attention", context=items[item], first=sides[0], second=sides[1], expected=expected)
        )
    return questions
