"""Control questions: gold questions, qualification questions and examples from a file, and attention checks from the
study's texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Literal, cast, get_args

import numpy as np
import polars as pl

from custodes.annotate.plan import StudyPlan
from custodes.annotate.study_material import Item, Pair, StudyMaterial, SystemOutput
from custodes.annotate.wording import scale_bounds
from custodes.annotate.wording.translations import words
from custodes.data.reading import load_source
from custodes.data.table import check_columns, label_column
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
        image_names_of_second_part = {} if self.second is None else {"second": self.second.images}
        return {"context": self.context.images, "first": self.first.images, **image_names_of_second_part}


def read_gold(gold: Any, material: StudyMaterial, plan: StudyPlan) -> list[ControlQuestion]:
    """Read control questions from a table or file.

    A row names outputs of an item (item, system_a, system_b) or has separate texts (text_a, text_b, context). A row
    also has the expected answer ('1', 'equal', '2', or a rating), the kind (default gold), and the reason for the
    answer. `InputError` names the row of an invalid question.
    """
    loaded_table = load_source(gold, "gold")
    check_columns(loaded_table.frame, where=loaded_table.name, required=("expected",), optional=COLUMNS)
    text_frame = pl.DataFrame(
        [label_column(loaded_table.frame, column_name, where=loaded_table.name, empty=True) for column_name in COLUMNS]
    )
    control_questions = [
        _parse_control_question(row, material, plan, f"{loaded_table.name}, row {row_number}")
        for row_number, row in enumerate(text_frame.iter_rows(named=True), start=1)
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
    row: Mapping[str, str], material: StudyMaterial, plan: StudyPlan, row_text: str
) -> ControlQuestion:
    for fails_check, error_message in _row_checks(row, material, plan):
        if fails_check:
            raise InputError(f"{row_text}: {error_message}")
    is_rating_study, item_label_and_pair = plan.question.mode == "rate", None
    context_item = Item(label="", context=row["context"])
    if _names_outputs(row):
        context_item = next(item for item in material.items if item.label == row["item"])
        systems = sorted(row[f"system_{side_letter}"] for side_letter in _side_letters(plan))
        item_label_and_pair = (row["item"], (systems[0], None if is_rating_study else systems[1]))
    first_output, *second_outputs = _outputs(row, material, plan)
    return ControlQuestion(
        kind=cast(Kind, row["kind"] or USUAL),
        context=context_item,
        first=first_output,
        second=second_outputs[0] if second_outputs else None,
        expected=int(row["expected"]) if is_rating_study else WORDS[row["expected"]],
        why=row["why"],
        asked=item_label_and_pair,
    )


def _names_outputs(row: Mapping[str, str]) -> bool:
    """Whether a row names outputs of the study, instead of texts."""
    return bool(row["item"] and not row["text_a"])


def _side_letters(plan: StudyPlan) -> str:
    return "a" if plan.question.mode == "rate" else "ab"


def _outputs(row: Mapping[str, str], material: StudyMaterial, plan: StudyPlan) -> list[SystemOutput]:
    """Return the outputs of a valid row: one for a rating, and two for a comparison."""
    if _names_outputs(row):
        return [material.outputs[row["item"], row[f"system_{side_letter}"]] for side_letter in _side_letters(plan)]
    return [SystemOutput(text=row[f"text_{side_letter}"]) for side_letter in _side_letters(plan)]


def _row_checks(row: Mapping[str, str], material: StudyMaterial, plan: StudyPlan) -> Iterator[tuple[object, str]]:
    """Yield two values for each check of a row: whether the row fails the check, and the error message. A later check
    may assume that the row has passed all earlier checks."""
    question_kind, expected_text, item_label = row["kind"] or USUAL, row["expected"], row["item"]
    is_rating_study, (lowest_rating, highest_rating) = plan.question.mode == "rate", plan.question.scale
    yield (
        question_kind not in KINDS,
        f"kind {question_kind!r} is not allowed; allowed: {', '.join(KINDS)}{suggestion(question_kind, KINDS)}",
    )
    if is_rating_study:
        is_integer_text = expected_text.removeprefix("-").isdecimal() and expected_text.isascii()
        yield (
            not (is_integer_text and lowest_rating <= int(expected_text) <= highest_rating),
            f"expected {expected_text!r} is not allowed; give a whole number from {lowest_rating} to {highest_rating}, "
            "the scale of the plan",
        )
    else:
        yield (
            expected_text not in WORDS,
            f"expected {expected_text!r} is not allowed; allowed: {', '.join(WORDS)} (1: the first output is better)",
        )
        yield (
            expected_text == "equal" and not plan.question.equal,
            "expected is 'equal', but the plan does not allow this answer (equal = false)",
        )
    if _names_outputs(row):
        yield (
            row["text_b"] or row["context"],
            "the row has both an item of the study and texts; give either an item or texts",
        )
        item_labels, systems = material.labels(), material.systems
        suggestion_text = "" if item_label in item_labels else suggestion(item_label, item_labels)
        yield item_label not in item_labels, f"the study has no item {short_repr(item_label)}{suggestion_text}"
        for system in (row[f"system_{side_letter}"] for side_letter in _side_letters(plan)):
            yield system not in systems, f"the study has no system {short_repr(system)}{suggestion(system, systems)}"
            yield (item_label, system) not in material.outputs, f"{system!r} has no output for item {item_label!r}"
        yield (
            not is_rating_study and row["system_a"] == row["system_b"],
            f"system_a and system_b are both {row['system_a']!r}; give two different systems",
        )
    else:
        yield (
            row["system_a"] or row["system_b"],
            "the row has systems as well as texts; give either an item with two systems, or texts",
        )
        for side_letter in _side_letters(plan):
            yield (
                not row[f"text_{side_letter}"],
                f"text_{side_letter} is empty; give the texts, or an item with system_a and system_b",
            )
    yield is_rating_study and row["text_b"], "text_b must be empty, because a rating concerns one text"
    first_output, *second_outputs = _outputs(row, material, plan)
    yield (
        [first_output] == second_outputs and expected_text != "equal",
        "both outputs are equal, so expected must be 'equal'",
    )


def attention_checks(material: StudyMaterial, plan: StudyPlan) -> list[ControlQuestion]:
    """Return attention checks that are created from the study's texts. A comparison shows an output next to a text that
    states which answer to give; a rating shows only such a text.

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
        displayed_outputs: tuple[SystemOutput, SystemOutput | None]
        if plan.question.mode == "rate":
            expected_answer = plan.question.scale[0]
            check_text = phrase_of_key["check_rating"].format(least=scale_bounds(plan.question)[0])
            displayed_outputs = SystemOutput(text=check_text), None
        else:
            expects_equal, is_study_output_first = plan.question.equal and check_number % 3 == 2, check_number % 2 == 0
            check_output = SystemOutput(text=phrase_of_key["check_equal" if expects_equal else "check_other"])
            output = material.outputs[item_and_system]
            displayed_outputs = (output, check_output) if is_study_output_first else (check_output, output)
            expected_answer = (not expects_equal) * (1 if is_study_output_first else -1)
        first_output, second_output = displayed_outputs
        context_item = item_of_label[item_label]
        control_questions.append(
            ControlQuestion(
                kind="attention",
                context=context_item,
                first=first_output,
                second=second_output,
                expected=expected_answer,
            )
        )
    return control_questions
