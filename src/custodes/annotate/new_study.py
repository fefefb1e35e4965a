"""Creation of a study from texts: random orders of the questions, and a file with a row for every text and every
question."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from custodes.annotate import study_file
from custodes.annotate.assignments import clusters_of
from custodes.annotate.event_log import Clock
from custodes.annotate.known_questions import ControlQuestion, attention_checks, read_gold
from custodes.annotate.plan import StudyPlan, check_plan, rule_of
from custodes.annotate.plan_file import read_plan
from custodes.annotate.rendering import StudyHtml, render
from custodes.annotate.study_material import (
    Medium,
    Pair,
    StudyMaterial,
    load_images,
    metric_signs,
    pairs_of,
    read_material,
)
from custodes.annotate.wording import fill_plan_texts
from custodes.answers.wording import plural
from custodes.arguments import check_arguments
from custodes.data.notes import Note, build_notes
from custodes.data.patterns import Patterns
from custodes.errors import InputError, join_labels, reject, short_repr
from custodes.files import check_writable
from custodes.progress import Progress, silent
from custodes.stats import ABSENT
from custodes.stats.arrays import Ints
from custodes.stats.correction.estimators import ESTIMATORS
from custodes.stats.stopping.allocation import annotation_order

MISSING, EMPTY = -1, -2
"""Codes for a missing output and for an empty output."""
LOOKS_CUT = "looks-cut"
"""Name of the note on interim analyses that need more items than a pair has."""


@check_arguments
def new(
    texts: Any,
    path: str | Path,
    *,
    plan: StudyPlan | str | Path | None = None,
    systems: Patterns = None,
    pairs: Sequence[str] | None = None,
    gold: Any = None,
    metric: str | None = None,
    progress: Progress = silent,
) -> Path:
    """Create an annotation study: a SQLite file with all texts and the order of all questions.

    `texts` are data in any form that `read` accepts (paths or dataframes), or a `Study`. The data need outputs of at
    least two systems, or of one system for ratings. `plan` is a `StudyPlan` or the path of a TOML file. `systems`
    selects systems by patterns. `pairs` names pairs of systems as 'A:B' (default: all pairs). `metric` names a metric
    that has scores of the same outputs, for estimators that use a metric.

    `gold` is a table of control questions or its path. The table has the column `expected`. The table also has either
    `item`, `system_a` and `system_b`, or `text_a`, `text_b` and `context`; the columns `kind` and `why` are optional.
    If the table has no attention checks, attention checks are created from the texts. Comparisons of identical outputs
    are excluded and counted in a note. All notes are stored in the file (see `check`).

    Raises `InputError` if the texts give no question or the file of the plan is invalid, and `OptionError` for an
    invalid `StudyPlan` or another invalid argument. If an error is raised, no file is created.

    >>> import polars as pl, tempfile
    >>> texts = pl.DataFrame({"item": ["1", "1"], "system": ["X", "Y"], "text": ["Yes.", "No."]})
    >>> new(texts, Path(tempfile.mkdtemp()) / "study.db").name
    'study.db'
    """
    study_path = check_writable(path)
    if not isinstance(plan, StudyPlan):
        plan = StudyPlan() if plan is None else read_plan(plan)
    plan = fill_plan_texts(check_plan(plan))
    _check_options(plan, metric)
    input_study, material = read_material(texts, systems=systems)
    material, media = load_images(material, progress=progress)
    control_questions = _read_control_questions(gold, material, plan)
    selected_pairs = pairs_of(material.systems, pairs, mode=plan.question.mode)
    item_orders, notes_on_omissions = _draw_item_orders(material, selected_pairs, control_questions, plan)
    max_items = max(map(len, item_orders))
    metric_rows: list[tuple[int, int, str, int]] = []
    if metric is not None:
        metric_name, sign_matrix = metric_signs(
            input_study, metric, material, selected_pairs, aspect=plan.question.aspects[0]
        )
        metric_rows = [
            (int(pair_index), int(item_index), metric_name, int(sign_matrix[pair_index, item_index]))
            for pair_index, item_index in np.argwhere(sign_matrix != ABSENT)
        ]
    elif plan.question.mode == "compare":
        rule_of(plan, n_pairs=len(selected_pairs), max_items=max_items, has_metric=False)
    study_html = render(material, plan.texts.render, questions=control_questions, progress=progress)

    def fill(connection: sqlite3.Connection) -> None:
        written_at = Clock().wall()
        _add_texts(connection, material, study_html, media, written_at)
        for pair_number, (pair, item_order) in enumerate(zip(selected_pairs, item_orders, strict=True)):
            system_ids = [None if system is None else material.systems.index(system) for system in pair]
            connection.execute("INSERT INTO pair VALUES (?, ?, ?)", (pair_number, *system_ids))
            unit_rows = [(pair_number, position, item_index) for position, item_index in enumerate(item_order)]
            connection.executemany("INSERT INTO unit (pair, place, item) VALUES (?, ?, ?)", unit_rows)
        connection.executemany(
            "INSERT INTO metric SELECT unit, ?3, ?4 FROM unit WHERE pair = ?1 AND item = ?2", metric_rows
        )
        connection.executemany(
            "INSERT INTO gold (kind, context, first, second, media, expected, why) VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    control_question.kind,
                    *question_htmls,
                    json.dumps(control_question.images()),
                    control_question.expected,
                    control_question.why,
                )
                for control_question, question_htmls in zip(
                    control_questions, study_html.control_questions, strict=True
                )
            ],
        )
        notes = (
            *input_study.notes,
            *notes_on_omissions,
            *missing_output_notes(material),
            *empty_output_notes(material),
            *study_html.notes(),
            *plan_notes(plan, max_items=max_items),
        )
        connection.executemany(
            "INSERT INTO event (at, kind, json) VALUES (?, 'note', ?)",
            [(written_at, json.dumps(asdict(note), ensure_ascii=False)) for note in notes],
        )

    study_file.create(study_path, plan, fill)
    return study_path


def _read_control_questions(gold: Any, material: StudyMaterial, plan: StudyPlan) -> list[ControlQuestion]:
    """Return the control questions of a table. If the table has no attention checks, attention checks from the texts
    are added."""
    control_questions = [] if gold is None else read_gold(gold, material, plan)
    n_qualification_questions = sum(control_question.kind == "qualification" for control_question in control_questions)
    if plan.annotators.qualification > n_qualification_questions:
        raise InputError(
            f"[annotators] qualification={plan.annotators.qualification}, but gold has {n_qualification_questions} "
            f"questions of kind qualification; add questions, or reduce the number"
        )
    has_attention_checks = any(control_question.kind == "attention" for control_question in control_questions)
    return control_questions if has_attention_checks else [*control_questions, *attention_checks(material, plan)]


def _check_options(plan: StudyPlan, metric_name: str | None) -> None:
    """Raise `OptionError` for a metric that would have no effect, and for an aspect with a description. The command
    `judge` accepts descriptions of aspects, but a plan has only names of aspects."""
    estimator_name = plan.stopping.estimator
    aspect_checks = (
        (
            ": " in aspect,
            f"aspects={short_repr(aspect)} has a description, but here an aspect is only a name; give "
            f"{short_repr(aspect.partition(': ')[0].strip())}, and describe this aspect in the instructions",
        )
        for aspect in plan.question.aspects
    )
    reject(
        *aspect_checks,
        (
            metric_name is not None and plan.question.mode == "rate",
            f"metric={metric_name!r} has no effect, because annotators rate outputs and no pair is decided",
        ),
        (
            metric_name is not None and estimator_name is not None and not ESTIMATORS[estimator_name].uses_metric,
            f"metric={metric_name!r} has no effect, because the estimator {estimator_name} uses no metric",
        ),
    )


# --- items of the questions, and their order


def _draw_item_orders(
    material: StudyMaterial, pairs: Sequence[Pair], control_questions: Sequence[ControlQuestion], plan: StudyPlan
) -> tuple[list[list[int]], list[Note]]:
    """Return the items of each pair in random order, and notes on questions that are not asked. Raise `InputError` if
    there is no question at all."""
    is_askable_comparison, n_identical_comparisons, n_empty_comparisons = find_askable(material, pairs)
    column_of_item_label = {item_label: column_index for column_index, item_label in enumerate(material.labels())}
    n_control_comparisons = 0
    for item_label, pair in {
        control_question.comparison for control_question in control_questions if control_question.comparison is not None
    }:
        if pair in pairs:  # the comparison is only used as a control question
            pair_index, item_index = pairs.index(pair), column_of_item_label[item_label]
            n_control_comparisons += bool(is_askable_comparison[pair_index, item_index])
            is_askable_comparison[pair_index, item_index] = False
    if not is_askable_comparison.any():
        needed_outputs_text = "an output" if pairs[0][1] is None else "two outputs that differ"
        raise InputError(
            f"nothing to annotate: no item has {needed_outputs_text} ({len(material.items)} items, "
            f"{len(material.systems)} systems, {n_identical_comparisons} comparisons of identical outputs, "
            f"{n_control_comparisons} with known answers)"
        )
    # The random draws are the same as in `evaluate.protocol.live`.
    cluster_numbers = clusters_of([item.cluster for item in material.items])
    item_orders = draw_orders(is_askable_comparison, cluster_numbers, np.random.default_rng(plan.seed), pairs)
    return item_orders, omission_notes(
        is_askable_comparison,
        pairs,
        n_identical=n_identical_comparisons,
        n_empty=n_empty_comparisons,
        n_control=n_control_comparisons,
    )


def draw_orders(
    is_askable_comparison: NDArray[np.bool_], cluster_numbers: Ints, rng: np.random.Generator, pairs: Sequence[Pair]
) -> list[list[int]]:
    """Return the available items of each pair in random order. Each pair of systems has a different order. If outputs
    are rated, all systems have the same order, so that a limited budget covers the same items of all systems."""
    is_rating_study = any(second_system is None for _, second_system in pairs)
    is_orderable_item = (
        np.asarray(is_askable_comparison.any(axis=0))[np.newaxis] if is_rating_study else is_askable_comparison
    )
    item_orders = np.broadcast_to(
        annotation_order(is_orderable_item, cluster_numbers, rng), is_askable_comparison.shape
    )
    return [
        [int(item_index) for item_index in item_order if is_available_item[item_index]]
        for item_order, is_available_item in zip(item_orders, is_askable_comparison, strict=True)
    ]


def find_askable(material: StudyMaterial, pairs: Sequence[Pair]) -> tuple[NDArray[np.bool_], int, int]:
    """Return a boolean array (pairs, items) that is true where a question is possible. Also return two counts:
    comparisons of identical outputs, and comparisons of two empty outputs. Annotators see an output without content as
    "(empty)"."""
    row_of_system = {system: row_index for row_index, system in enumerate(material.systems)}
    column_of_item_label = {item_label: column_index for column_index, item_label in enumerate(material.labels())}
    # Outputs that look equal have equal codes.
    appearance_codes = np.full((len(row_of_system), len(column_of_item_label)), MISSING, dtype=np.int64)
    code_of_text_and_images: dict[object, int] = {}
    for (item_label, system), output in material.outputs.items():
        text_and_images = (" ".join(output.text.split()), output.images)
        appearance_codes[row_of_system[system], column_of_item_label[item_label]] = (
            EMPTY
            if output.is_empty
            else code_of_text_and_images.setdefault(text_and_images, len(code_of_text_and_images))
        )
    first_output_codes = appearance_codes[[row_of_system[first_system] for first_system, _ in pairs]]
    second_output_codes = appearance_codes[
        [
            row_of_system[first_system if second_system is None else second_system]
            for first_system, second_system in pairs
        ]
    ]
    is_comparison = np.array([[second_system is not None] for _, second_system in pairs], dtype=bool).reshape(-1, 1)
    has_both_outputs = (first_output_codes != MISSING) & (second_output_codes != MISSING)
    is_equal_looking = has_both_outputs & is_comparison & (first_output_codes == second_output_codes)
    n_empty_comparisons = int((is_equal_looking & (first_output_codes == EMPTY)).sum())
    return has_both_outputs & ~is_equal_looking, int(is_equal_looking.sum()) - n_empty_comparisons, n_empty_comparisons


def omission_notes(
    is_askable_comparison: NDArray[np.bool_], pairs: Sequence[Pair], *, n_identical: int, n_empty: int, n_control: int
) -> list[Note]:
    """Return notes on questions that are not asked, with reasons."""
    empty_pair_names = [
        " and ".join(filter(None, pair))
        for pair, n_items in zip(pairs, is_askable_comparison.sum(axis=1), strict=True)
        if not n_items
    ]
    is_rating_study = any(second_system is None for _, second_system in pairs)
    question_noun = "outputs" if is_rating_study else "comparisons"
    empty_pair_phrase = "systems have no output to rate" if is_rating_study else "pairs have no item to compare"
    identical_outputs_message = (
        f"{n_identical} comparisons of identical outputs are not shown, and do not count as ties or wins"
    )
    return build_notes(
        ("same-output", n_identical, identical_outputs_message),
        ("empty-outputs", n_empty, f"{n_empty} comparisons are not shown, because both outputs are empty"),
        (
            "known-answers",
            n_control,
            f"{n_control} {question_noun} have a known answer and are used only as control questions",
        ),
        (
            "nothing-to-ask",
            len(empty_pair_names),
            f"{len(empty_pair_names)} {empty_pair_phrase}: {', '.join(empty_pair_names[:3])}",
        ),
    )


def empty_output_notes(material: StudyMaterial) -> list[Note]:
    """Return a note on outputs without text and images."""
    empty_output_keys = [item_and_system for item_and_system, output in material.outputs.items() if output.is_empty]
    system_names_text = join_labels(sorted({system for _, system in empty_output_keys}), limit=3)
    note_message = (
        f"{plural(len(empty_output_keys), 'output')} without content ({system_names_text}): annotators "
        'see "(empty)" and judge it like any other output; leave out outputs that are empty only because their '
        "collection failed"
    )
    return build_notes(("outputs-empty", len(empty_output_keys), note_message))


def missing_output_notes(material: StudyMaterial) -> list[Note]:
    """Return a note on systems without an output for some items."""
    n_expected_outputs = len(material.items) * len(material.systems)
    n_missing_outputs = n_expected_outputs - len(material.outputs)
    n_outputs_of_system = Counter(system for _, system in material.outputs)
    system_names_text = join_labels(
        (system for system in material.systems if n_outputs_of_system[system] < len(material.items)), limit=3
    )
    note_message = (
        f"{n_missing_outputs} of {n_expected_outputs} outputs are missing ({system_names_text}), so no question shows "
        "them"
    )
    return build_notes(("outputs-missing", n_missing_outputs, note_message))


def plan_notes(plan: StudyPlan, *, max_items: int) -> list[Note]:
    """Return notes on interim analyses that need more items than a pair has, and on a plan without a boundary. Rating
    studies get no notes."""
    if plan.question.mode == "rate":
        return []
    stopping_plan = plan.stopping
    analysis_sizes = sorted({min(planned_size, max_items) for planned_size in stopping_plan.looks})
    n_cut_analyses = sum(planned_size > max_items for planned_size in stopping_plan.looks)
    sizes_text = ", ".join(map(str, analysis_sizes))
    notes = build_notes(
        (
            LOOKS_CUT,
            n_cut_analyses,
            f"a pair has at most {max_items} items, so interim analyses take place after {sizes_text} answers",
        )
    )
    if stopping_plan.boundary == "none" and len(analysis_sizes) > 1:
        from scipy.special import ndtri

        from custodes.stats.stopping.sequential import crossing_probability

        false_decision_rate = crossing_probability(
            np.full(len(analysis_sizes), -ndtri(stopping_plan.gamma / 2)), np.array(analysis_sizes, dtype=float)
        )
        notes += build_notes(
            (
                "no-boundary",
                True,
                f"boundary none: with {len(analysis_sizes)} interim analyses, a pair without a difference is declared "
                f"different with probability {false_decision_rate:.2f}, not {stopping_plan.gamma:g}; use boundary "
                "pocock",
            )
        )
    return notes


# --- rows of the file


def _add_texts(
    connection: sqlite3.Connection,
    material: StudyMaterial,
    study_html: StudyHtml,
    media: Iterable[Medium],
    written_at: float,
) -> None:
    """Add systems, items, outputs and images to the file. Each image is stored once."""
    id_of_system = {system: row_id for row_id, system in enumerate(material.systems)}
    id_of_item_label = {item_label: row_id for row_id, item_label in enumerate(material.labels())}
    connection.executemany(
        "INSERT INTO system VALUES (?, ?, ?)", [(row_id, system, written_at) for system, row_id in id_of_system.items()]
    )
    connection.executemany(
        "INSERT INTO item VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                *(row_id, item.label, item.cluster, item.group, item.source, item.context),
                *(study_html.items[item.label], json.dumps(item.images), item.meta, json.dumps(item.references)),
            )
            for row_id, item in enumerate(material.items)
        ],
    )
    connection.executemany(
        "INSERT INTO output VALUES (?, ?, ?, ?, ?)",
        [
            (
                *(id_of_item_label[item_label], id_of_system[system], output.text),
                *(study_html.outputs[item_label, system], json.dumps(output.images)),
            )
            for (item_label, system), output in material.outputs.items()
        ],
    )
    connection.executemany(
        "INSERT OR IGNORE INTO media VALUES (?, ?, ?)", [(medium.name, medium.type, medium.content) for medium in media]
    )
