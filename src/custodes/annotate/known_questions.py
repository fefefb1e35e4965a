"""Control questions: gold questions, qualification questions and examples from a file, and attention checks from the
study's texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Literal, cast, get_args

import numpy as np
import polars as pl

from custodes.annotate.plan import StudyPlan
from custodes.annotate.study_material import Item, Pair, StudyMaterial, SystemOutput
from custodes.annotate.wording import scale_bounds
from custodes.annotate.wording.translations import words
from custodes.data.loading import load_source
from custodes.data.table import check_columns, label_column
from custodes.errors import InputError, short_repr, suggestion

Kind = Literal["gold", "attention", "qualification", "example"]
KINDS: tuple[Kind, ...] = get_args(Kind)
COLUMNS = ("kind", "item", "system_a", "system_b", "context", "text_a", "text_b", "expected", "why")
WORDS = {"1": 1, "equal": 0, "2": -1}
"""Allowed words for the expected answer to a comparison. The value is 1 if the first output is better, and -1 if the
second is."""
USUAL = "gold"
MOST_CHECKS = 40
"""Maximum number of attention checks in a study."""


@dataclass(frozen=True, kw_only=True)
class ControlQuestion:
    """A control question.

    `expected` is the correct rating, or the correct comparison: 1 if the first output is better, 0 for equal, -1 if the
    second output is better. If the question uses a comparison of the study, `comparison` is its item and pair;
    annotators then get this comparison only as a control question.
    """

    kind: Kind
    context: Item
    first: SystemOutput
    second: SystemOutput | None
    expected: int
    why: str = ""
    comparison: tuple[str, Pair] | None = None

    def images(self) -> dict[str, tuple[str, ...]]:
        """Return the names of the images of each part of the question."""
        return {
            "context": self.context.images,
            "first": self.first.images,
            "second": () if self.second is None else self.second.images,
        }


def read_gold(gold: Any, material: StudyMaterial, plan: StudyPlan) -> list[ControlQuestion]:
    """Read control questions from a table or file.

    A row names outputs of an item (item, system_a, system_b) or has separate texts (text_a, text_b, context). A row
    also has the expected answer ('1', 'equal', '2', or a rating), the kind (default gold), and the reason for the
    answer. `InputError` names the row of an invalid question.
    """
    loaded_table = load_source(gold, "gold")
    check_columns(loaded_table.frame, where=loaded_table.name, required=("expected",), optional=COLUMNS)
    gold_rows = pl.DataFrame(
        [label_column(loaded_table.frame, column_name, where=loaded_table.name, empty=True) for column_name in COLUMNS]
    )
    control_questions = [
        _parse_control_question(row, material, plan, f"{loaded_table.name}, row {row_number}")
        for row_number, row in enumerate(gold_rows.iter_rows(named=True), start=1)
    ]
    _check_answers(control_questions, loaded_table.name)
    return control_questions


def _check_answers(control_questions: Sequence[ControlQuestion], table_name: str) -> None:
    """Raise `InputError` for questions that contradict each other, because no annotator could answer both as
    expected."""
    row_number_and_answer_of_content: dict[tuple[object, ...], tuple[int, int]] = {}
    for row_number, control_question in enumerate(control_questions, start=1):
        ordered_outputs: tuple[object, ...] = (control_question.first, control_question.second)
        expected_answer = control_question.expected
        if control_question.second is not None and astuple(control_question.second) < astuple(control_question.first):
            ordered_outputs, expected_answer = ordered_outputs[::-1], -expected_answer
        earlier_row_number, earlier_answer = row_number_and_answer_of_content.setdefault(
            (control_question.context.label, control_question.context.context, *ordered_outputs),
            (row_number, expected_answer),
        )
        if earlier_answer != expected_answer:
            raise InputError(
                f"{table_name}: rows {earlier_row_number} and {row_number} expect different answers to the same "
                f"question; remove one of the two rows"
            )


def _parse_control_question(
    row: Mapping[str, str], material: StudyMaterial, plan: StudyPlan, row_label: str
) -> ControlQuestion:
    side_letters = "a" if plan.question.mode == "rate" else "ab"
    row_systems = [row[f"system_{side_letter}"] for side_letter in side_letters]
    row_outputs: list[SystemOutput | None] = [
        SystemOutput(text=row[f"text_{side_letter}"]) for side_letter in side_letters
    ]
    context_item, item_label_and_pair = Item(label="", context=row["context"]), None
    has_output_names = bool(row["item"] and not row["text_a"])  # of the study, instead of texts
    if has_output_names:
        row_outputs = [material.outputs.get((row["item"], system)) for system in row_systems]
    for fails_check, error_message in (
        *_expectation_checks(row, plan),
        *(_name_checks(row, row_systems, material) if has_output_names else _text_checks(row, side_letters)),
        (len(row_systems) == 1 and row["text_b"], "text_b must be empty, because a rating concerns one text"),
        (
            row_outputs[:1] == row_outputs[1:] and row["expected"] != "equal",
            "both outputs are equal, so expected must be 'equal'",
        ),
    ):
        if fails_check:
            raise InputError(f"{row_label}: {error_message}")
    if has_output_names:
        context_item = next(item for item in material.items if item.label == row["item"])
        first_system, second_system = (*sorted(row_systems), None)[:2]
        item_label_and_pair = (row["item"], (str(first_system), second_system))
    return ControlQuestion(
        kind=cast(Kind, row["kind"] or USUAL),
        context=context_item,
        first=cast(SystemOutput, row_outputs[0]),
        second=row_outputs[1] if len(row_outputs) == 2 else None,
        expected=WORDS[row["expected"]] if len(row_outputs) == 2 else int(row["expected"]),
        why=row["why"],
        comparison=item_label_and_pair,
    )


def _expectation_checks(row: Mapping[str, str], plan: StudyPlan) -> list[tuple[object, str]]:
    """Return, for each check of the kind and the expected answer, whether a row fails, and the error message."""
    question_kind, expected_text = row["kind"] or USUAL, row["expected"]
    is_comparison, (lowest_rating, highest_rating) = plan.question.mode == "compare", plan.question.scale
    is_integer_text = expected_text.removeprefix("-").isdecimal() and expected_text.isascii()
    is_allowed_rating = is_integer_text and lowest_rating <= float(expected_text) <= highest_rating
    return [
        (
            question_kind not in KINDS,
            f"kind {question_kind!r} is not allowed; allowed: {', '.join(KINDS)}{suggestion(question_kind, KINDS)}",
        ),
        (
            not is_comparison and not is_allowed_rating,
            f"expected {expected_text!r} is not allowed; give a whole number from {lowest_rating} to {highest_rating}, "
            "the scale of the plan",
        ),
        (
            is_comparison and expected_text not in WORDS,
            f"expected {expected_text!r} is not allowed; allowed: {', '.join(WORDS)} (1: the first output is better)",
        ),
        (
            is_comparison and expected_text == "equal" and not plan.question.equal,
            "expected is 'equal', but the plan does not allow this answer (equal = false)",
        ),
    ]


def _name_checks(row: Mapping[str, str], systems: Sequence[str], material: StudyMaterial) -> list[tuple[object, str]]:
    """Return, for each check of a row that names outputs of the study, whether the row fails, and the error message."""
    item_label, item_labels = row["item"], material.labels()
    suggestion_text = "" if item_label in item_labels else suggestion(item_label, item_labels)
    checks: list[tuple[object, str]] = [
        (
            row["text_b"] or row["context"],
            "the row has both an item of the study and texts; give either an item or texts",
        ),
        (item_label not in item_labels, f"the study has no item {short_repr(item_label)}{suggestion_text}"),
    ]
    for system in systems:
        checks += [
            (
                system not in material.systems,
                f"the study has no system {short_repr(system)}{suggestion(system, material.systems)}",
            ),
            ((item_label, system) not in material.outputs, f"{system!r} has no output for item {item_label!r}"),
        ]
    return [
        *checks,
        (
            len(systems) == 2 and systems[0] == systems[1],
            f"system_a and system_b are both {systems[0]!r}; give two different systems",
        ),
    ]


def _text_checks(row: Mapping[str, str], side_letters: str) -> list[tuple[object, str]]:
    """Return, for each check of a row with texts, whether the row fails, and the error message."""
    return [
        (
            row["system_a"] or row["system_b"],
            "the row has systems as well as texts; give either an item with two systems, or texts",
        ),
        *(
            (
                not row[f"text_{side_letter}"],
                f"text_{side_letter} is empty; give the texts, or an item with system_a and system_b",
            )
            for side_letter in side_letters
        ),
    ]


def attention_checks(material: StudyMaterial, plan: StudyPlan) -> list[ControlQuestion]:
    """Return attention checks that are created from the study's texts. A comparison shows an output next to a text that
    states which answer to give; a rating shows only the text.

    Items and systems are drawn with the seed of the plan, and the side of the output alternates. The number of checks
    is the maximum that one annotator can get, but at most 40.
    """
    n_checks = min(plan.annotators.attention * plan.annotators.batches, MOST_CHECKS)
    phrase_of_key = words(plan.texts.language)
    rng = np.random.default_rng([plan.seed, 1])
    items_and_systems = [item_and_system for item_and_system, output in material.outputs.items() if not output.is_empty]
    sampled_indices: Sequence[int] = rng.permutation(len(items_and_systems))[:n_checks].tolist()
    item_of_label = {item.label: item for item in material.items}
    control_questions = []
    for check_number, sampled_index in enumerate(sampled_indices):
        item_label, _ = item_and_system = items_and_systems[sampled_index]
        is_study_output_first = check_number % 2 == 0
        question_outputs: tuple[SystemOutput, SystemOutput | None]
        if plan.question.mode == "rate":
            expected_answer = plan.question.scale[0]
            check_text = phrase_of_key["check_rating"].format(least=scale_bounds(plan.question)[0])
            question_outputs = SystemOutput(text=check_text), None
        else:
            expects_equal = plan.question.equal and check_number % 3 == 2
            check_output = SystemOutput(text=phrase_of_key["check_equal" if expects_equal else "check_other"])
            output = material.outputs[item_and_system]
            question_outputs = (output, check_output) if is_study_output_first else (check_output, output)
            expected_answer = (not expects_equal) * (1 if is_study_output_first else -1)
        control_questions.append(
            ControlQuestion(
                kind="attention",
                context=item_of_label[item_label],
                first=question_outputs[0],
                second=question_outputs[1],
                expected=expected_answer,
            )
        )
    return control_questions
