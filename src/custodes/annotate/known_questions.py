"""Control questions: gold questions, qualification questions and examples from a file, and attention checks from the
study's texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
import polars as pl

from custodes.annotate.plan import StudyPlan
from custodes.annotate.study_material import Item, Pair, StudyMaterial, SystemOutput
from custodes.annotate.wording.translations import words
from custodes.data.loading import load_table
from custodes.data.table import check_columns, label_column, to_polars
from custodes.errors import InputError, short_repr, suggestion

Kind = Literal["gold", "attention", "qualification", "example"]
KINDS: tuple[Kind, ...] = get_args(Kind)
COLUMNS = ("kind", "item", "system_a", "system_b", "context", "text_a", "text_b", "expected", "why")
WORDS = {"1": 1, "equal": 0, "2": -1}
"""Expected answers to a comparison, and their values from the view of the first output."""
USUAL = "gold"
MOST_CHECKS = 40
"""Maximum number of attention checks in a study."""


@dataclass(frozen=True, kw_only=True)
class ControlQuestion:
    """A control question.

    `expected` is the correct answer from the view of the first output (1, 0 or -1), or a rating. If the question uses a
    comparison of the study, `asked` is this comparison, which is then used only as a control question.
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
        second_images = {} if self.second is None else {"second": self.second.images}
        return {"context": self.context.images, "first": self.first.images, **second_images}


def read_gold(gold: Any, material: StudyMaterial, plan: StudyPlan) -> list[ControlQuestion]:
    """Read control questions from a table or file.

    A row names outputs of an item (item, system_a, system_b) or has separate texts (text_a, text_b, context). It also
    has the expected answer ('1', 'equal', '2', or a rating), the kind (default gold), and the reason for the answer.
    `InputError` names the row of an invalid question.
    """
    table = load_table(gold) if isinstance(gold, str | Path) else None
    frame, table_name = (table.frame, table.name) if table else (to_polars(gold, where="gold"), "gold")
    check_columns(frame, where=table_name, required=("expected",), optional=COLUMNS)
    labels_of_column = {column: label_column(frame, column, where=table_name, empty=True) for column in COLUMNS}
    rows = pl.DataFrame(labels_of_column).iter_rows(named=True)
    questions = [
        _parse_control_question(row, material, plan, f"{table_name}, row {number}")
        for number, row in enumerate(rows, start=1)
    ]
    if not questions:
        raise InputError(f"{table_name}: the table has no rows; give at least one question with a known answer")
    _check_answers(questions, table_name)
    return questions


def _check_answers(questions: Sequence[ControlQuestion], where: str) -> None:
    """Raise `InputError` for questions that contradict each other, because no annotator could answer both as
    expected."""
    first_row_and_answer: dict[tuple[object, ...], tuple[int, int]] = {}
    for row, question in enumerate(questions, start=1):
        outputs: tuple[object, ...] = (question.first, question.second)
        row_answer = question.expected
        if question.second is not None and (question.second.text, question.second.images) < (
            question.first.text,
            question.first.images,
        ):
            outputs, row_answer = outputs[::-1], -row_answer
        earlier_row, earlier_answer = first_row_and_answer.setdefault(
            (question.context.label, question.context.context, *outputs), (row, row_answer)
        )
        if earlier_answer != row_answer:
            raise InputError(
                f"{where}: rows {earlier_row} and {row} expect different answers to the same question; remove one of "
                f"the two rows"
            )


def _parse_control_question(
    row: Mapping[str, str], material: StudyMaterial, plan: StudyPlan, where: str
) -> ControlQuestion:
    for is_wrong, message in _checks(row, material, plan):
        if is_wrong:
            raise InputError(f"{where}: {message}")
    is_rating, item_and_pair = plan.question.mode == "rate", None
    context = Item(label="", context=row["context"])
    if _is_comparison(row):
        context = next(item for item in material.items if item.label == row["item"])
        systems = sorted(row[f"system_{side}"] for side in _sides(plan))
        item_and_pair = (row["item"], (systems[0], None if is_rating else systems[1]))
    first_output, *second_outputs = _outputs(row, material, plan)
    return ControlQuestion(
        kind=cast(Kind, row["kind"] or USUAL),
        context=context,
        first=first_output,
        second=second_outputs[0] if second_outputs else None,
        expected=int(row["expected"]) if is_rating else WORDS[row["expected"]],
        why=row["why"],
        asked=item_and_pair,
    )


def _is_comparison(row: Mapping[str, str]) -> bool:
    """Whether a row names outputs of the study, instead of texts."""
    return bool(row["item"] and not row["text_a"])


def _sides(plan: StudyPlan) -> str:
    return "a" if plan.question.mode == "rate" else "ab"


def _outputs(row: Mapping[str, str], material: StudyMaterial, plan: StudyPlan) -> list[SystemOutput]:
    """Return the outputs of a valid row: one for a rating, and two for a comparison."""
    if _is_comparison(row):
        return [material.outputs[row["item"], row[f"system_{side}"]] for side in _sides(plan)]
    return [SystemOutput(text=row[f"text_{side}"]) for side in _sides(plan)]


def _checks(row: Mapping[str, str], material: StudyMaterial, plan: StudyPlan) -> Iterator[tuple[object, str]]:
    """Yield a pair for each check of a row: true if a value is not allowed, and the message. A later check may assume
    that the earlier ones have passed."""
    kind, expected, item = row["kind"] or USUAL, row["expected"], row["item"]
    is_rating, (low, high) = plan.question.mode == "rate", plan.question.scale
    yield kind not in KINDS, f"kind {kind!r} is not allowed; allowed: {', '.join(KINDS)}{suggestion(kind, KINDS)}"
    if is_rating:
        is_integer = expected.removeprefix("-").isdecimal() and expected.isascii()
        yield (
            not (is_integer and low <= int(expected) <= high),
            f"expected {expected!r} is not allowed; give a whole number from {low} to {high}, the scale of the plan",
        )
    else:
        yield (
            expected not in WORDS,
            f"expected {expected!r} is not allowed; allowed: {', '.join(WORDS)} (1: the first output is better)",
        )
        yield (
            expected == "equal" and not plan.question.equal,
            "expected is 'equal', but the plan does not allow this answer (equal = false)",
        )
    if _is_comparison(row):
        yield (
            row["text_b"] or row["context"],
            "the row has both an item of the study and texts; give either an item or texts",
        )
        labels, systems = material.labels(), material.systems
        suggestion_text = "" if item in labels else suggestion(item, labels)
        yield item not in labels, f"the study has no item {short_repr(item)}{suggestion_text}"
        for system in (row[f"system_{side}"] for side in _sides(plan)):
            yield system not in systems, f"the study has no system {short_repr(system)}{suggestion(system, systems)}"
            yield (item, system) not in material.outputs, f"{system!r} has no output for item {item!r}"
        yield (
            not is_rating and row["system_a"] == row["system_b"],
            f"system_a and system_b are both {row['system_a']!r}; give two different systems",
        )
    else:
        yield (
            row["system_a"] or row["system_b"],
            "the row has systems as well as texts; give either an item with two systems, or texts",
        )
        for side in _sides(plan):
            yield (
                not row[f"text_{side}"],
                f"text_{side} is empty; give the texts, or an item with system_a and system_b",
            )
    yield is_rating and row["text_b"], "text_b must be empty, because a rating concerns one text"
    first_output, *second_outputs = _outputs(row, material, plan)
    yield (
        [first_output] == second_outputs and expected != "equal",
        "both outputs are equal, so expected must be 'equal'",
    )


def attention_checks(material: StudyMaterial, plan: StudyPlan) -> list[ControlQuestion]:
    """Return attention checks that are created from the study's texts. A comparison shows an output next to a text that
    states which answer to give; a rating shows only such a text.

    Items and systems are drawn with the seed of the plan, and the side of the output alternates. The number of checks
    is the maximum that one annotator can get, but at most 40.
    """
    annotator_plan = plan.annotators
    n_checks = min(annotator_plan.attention * annotator_plan.batches, MOST_CHECKS) if annotator_plan.attention else 0
    phrases = words(plan.texts.language)
    rng = np.random.default_rng([plan.seed, 1])
    keys = [key for key, output in material.outputs.items() if not output.is_empty]
    sampled_indices: Sequence[int] = rng.permutation(len(keys))[:n_checks].tolist()
    item_of_label = {item.label: item for item in material.items}
    questions = []
    for number, key_index in enumerate(sampled_indices):
        item, _ = key = keys[key_index]
        sides: tuple[SystemOutput, SystemOutput | None]
        if plan.question.mode == "rate":
            expected = plan.question.scale[0]
            sides = SystemOutput(text=phrases["check_rating"].format(least=expected)), None
        else:
            expects_equal, is_output_first = plan.question.equal and number % 3 == 2, number % 2 == 0
            check_output = SystemOutput(text=phrases["check_equal" if expects_equal else "check_other"])
            output = material.outputs[key]
            sides = (output, check_output) if is_output_first else (check_output, output)
            expected = (not expects_equal) * (1 if is_output_first else -1)
        questions.append(
            ControlQuestion(
                kind="attention", context=item_of_label[item], first=sides[0], second=sides[1], expected=expected
            )
        )
    return questions
