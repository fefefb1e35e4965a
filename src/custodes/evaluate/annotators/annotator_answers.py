"""Answers of the annotators under one aspect as long arrays, and whether a rater is one person or a slot.

A slot is a rater of the file (such as `annotator2`) that stands for several persons.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl

from custodes.data.mapping.column_vocabulary import HUMAN, split_name, stem
from custodes.data.notes import Note, build_notes
from custodes.data.panel import label_codes
from custodes.data.preferences import ORDER_CODES, Preferences
from custodes.data.readers.arena import USERS, USERS_TOGETHER
from custodes.data.study import Study
from custodes.errors import join_labels
from custodes.evaluate.comparable import is_ordered
from custodes.evaluate.decision_graph import OUTCOMES
from custodes.evaluate.design import Design
from custodes.stats.annotator_models import AnnotatorLabels
from custodes.stats.arrays import Bools, Floats, Ints, Signs

VERDICTS, RATINGS = "verdicts", "ratings"
MOST_LABELS = 12
"""Maximum number of different scores of a rating scale. With more different scores, ratings count as numeric."""


AnnotatorType = Literal["auto", "persons", "slots"]

MOST_OF_TASKS = 0.9
"""Raters with similar names are slots if each of these raters answered at least this proportion of the tasks that at
least one of the raters answered."""

SLOT = "a slot, which several persons may share"


@dataclass(frozen=True, kw_only=True)
class AnnotatorAnswers:
    """Answers of the annotators under an aspect: `what` is `VERDICTS` or `RATINGS`.

    `raters` are the annotators, and `tasks` (item, system_a, system_b, system) are the tasks in sorted order. `answers`
    has a row per answer, and `value` (n,) is the value of the answer: 1, 0 or -1 for a verdict, otherwise the score.
    `words` are the names of the possible labels of an answer. The labels have an order unless `nominal` is true.
    Numeric scores that are no points of a rating scale have no labels (all codes are 0).

    `unit` (tasks,) is the block of clusters of each task. `seconds` (workers,) is the median time per answer, NaN if
    unknown. `sided` are four arrays about the decided verdicts with known presentation order: the annotator, the pair
    of systems, the preference, and which system was shown first.
    """

    aspect: str
    what: str
    raters: tuple[str, ...]
    tasks: pl.DataFrame
    answers: AnnotatorLabels
    value: Floats
    words: tuple[str, ...]
    unit: Ints
    n_units: int
    seconds: Floats
    nominal: bool = False
    sided: tuple[Ints, Ints, Signs, Signs] = 2 * (np.zeros(0, dtype=np.int64),) + 2 * (np.zeros(0, dtype=np.int8),)

    @property
    def continuous(self) -> bool:
        """Whether scores are numeric rather than points of a rating scale."""
        return not self.words

    @property
    def has_several_answers(self) -> Bools:
        """Whether several annotators answered the task, (tasks,)."""
        return self.answers.n_votes > 1

    @property
    def clusters(self) -> Ints:
        """Number of clusters of items in which the annotator shares a task with other annotators, (workers,)."""
        worker_of_answer, unit_of_answer = (
            self.answers.worker[self.is_shared_answer],
            self.unit[self.answers.task[self.is_shared_answer]],
        )
        n_units = int(unit_of_answer.max(initial=0)) + 1
        return np.bincount(
            np.unique(worker_of_answer * n_units + unit_of_answer) // n_units, minlength=len(self.raters)
        )

    @property
    def n_deviating(self) -> Ints:
        """Number of answers to shared tasks that differ from the annotator's most frequent answer, (workers,)."""
        shared_workers = self.answers.worker[self.is_shared_answer]
        distinct_values, value_codes = np.unique(self.value[self.is_shared_answer], return_inverse=True)
        worker_value_codes, answer_counts = np.unique(
            shared_workers * len(distinct_values) + value_codes, return_counts=True
        )
        n_most_frequent = np.zeros(len(self.raters), dtype=np.int64)
        np.maximum.at(n_most_frequent, worker_value_codes // max(len(distinct_values), 1), answer_counts)
        return np.bincount(shared_workers, minlength=len(self.raters)) - n_most_frequent

    @property
    def is_shared_answer(self) -> Bools:
        """For each answer, whether other annotators answered the same task: (n,)."""
        return np.asarray(self.has_several_answers[self.answers.task])


def annotator_answers(selected_study: Study, raters: Sequence[str]) -> tuple[list[AnnotatorAnswers], list[Note]]:
    """Return the answers of `raters` in a selected study for each aspect and type of answer, and notes.

    Second opinions are included. Each rater has one answer per task.
    """
    is_selected_rater_expression = pl.col("rater").is_in(list(raters))
    primary_preferences, second_opinion_preferences = (
        selected_study.preferences.queried_verdicts.select_rows(is_selected_rater_expression),
        selected_study.second.select_rows(is_selected_rater_expression),
    )
    all_preferences = Preferences(
        frame=pl.concat([primary_preferences.frame, second_opinion_preferences.frame]),
        missing=pl.concat([primary_preferences.missing, second_opinion_preferences.missing]),
    )
    merged_verdicts, order_notes = all_preferences.merge_verdicts("mean")
    score_rows = pl.concat([selected_study.ratings.frame, selected_study.second_ratings.frame]).filter(
        is_selected_rater_expression & (pl.col("item") != "")
    )
    first_score_rows = score_rows.group_by(["item", "system", "rater", "aspect"]).agg(
        pl.col("score").sort_by("repeat").first()
    )
    n_repeated_scores = score_rows.height - first_score_rows.height
    answers_of_aspects = []
    for aspect in sorted(pl.concat([merged_verdicts["aspect"], first_score_rows["aspect"]]).unique()):
        aspect_verdicts, unmerged_verdicts, aspect_ratings = (
            rows_of_all_aspects.filter(pl.col("aspect") == aspect)
            for rows_of_all_aspects in (merged_verdicts, all_preferences.frame, first_score_rows)
        )
        if aspect_verdicts.height:
            answers_of_aspects.append(_verdict_answers(selected_study, aspect, aspect_verdicts, unmerged_verdicts))
        if aspect_ratings.height:
            answers_of_aspects.append(_rating_answers(selected_study, aspect, aspect_ratings))
    return answers_of_aspects, [
        *order_notes,
        *build_notes(
            (
                "scored-again",
                n_repeated_scores,
                f"{n_repeated_scores} repeated scores of an output by the same annotator are excluded; only the first "
                "score of an output counts",
            )
        ),
    ]


def _verdict_answers(
    study: Study, aspect: str, verdict_rows: pl.DataFrame, unmerged_verdicts: pl.DataFrame
) -> AnnotatorAnswers:
    raters = tuple(verdict_rows["rater"].unique().sort())
    verdicts_with_order = unmerged_verdicts.with_columns(first_shown=ORDER_CODES.cast(pl.Int8)).filter(
        (pl.col("first_shown") != 0) & (pl.col("preference") != 0)
    )
    median_seconds_of_rater = dict(unmerged_verdicts.group_by("rater").agg(pl.col("seconds").median()).iter_rows())
    return _answers(
        study,
        verdict_rows.with_columns(
            _value=pl.col("preference").cast(pl.Float64), _label=1 - pl.col("preference").cast(pl.Int64)
        ),
        aspect=aspect,
        what=VERDICTS,
        raters=raters,
        words=OUTCOMES,
        seconds=np.array([median_seconds_of_rater[rater] for rater in raters], dtype=np.float64),
        sided=(
            label_codes(verdicts_with_order["rater"], raters),
            verdicts_with_order.select(pl.struct("system_a", "system_b").rank("dense") - 1)
            .to_series()
            .to_numpy()
            .astype(np.int64),
            verdicts_with_order["preference"].to_numpy(),
            verdicts_with_order["first_shown"].to_numpy(),
        ),
    )


def _rating_answers(study: Study, aspect: str, rating_rows: pl.DataFrame) -> AnnotatorAnswers:
    raters = tuple(rating_rows["rater"].unique().sort())
    distinct_scores = rating_rows["score"].unique().sort()
    label_scores = tuple(distinct_scores) if distinct_scores.len() <= MOST_LABELS else ()
    label_scale = study.labels.get(aspect)
    return _answers(
        study,
        rating_rows.with_columns(
            system_a=pl.lit(""),
            system_b=pl.lit(""),
            _value="score",
            _label=distinct_scores.search_sorted(rating_rows["score"]) if label_scores else pl.lit(0),
        ),
        aspect=aspect,
        what=RATINGS,
        raters=raters,
        seconds=np.full(len(raters), np.nan),
        words=tuple(
            label_scale.words[int(label_score)] if label_scale else f"{label_score:g}" for label_score in label_scores
        ),
        nominal=not is_ordered(study, aspect),
    )


def _answers(
    study: Study,
    answer_rows: pl.DataFrame,
    *,
    raters: tuple[str, ...],
    words: tuple[str, ...],
    **answer_fields: Any,
) -> AnnotatorAnswers:
    """Return the answers of `answer_rows` (with `_value`, `_label`), with codes of tasks, annotators and clusters."""
    task_column_names = [
        column_name for column_name in ("item", "system_a", "system_b", "system") if column_name in answer_rows.columns
    ]
    task_table = answer_rows.select(task_column_names).unique().sort(task_column_names).with_row_index("_task")
    coded_answers = (
        answer_rows.with_columns(_worker=pl.Series(label_codes(answer_rows["rater"], raters)))
        .join(task_table, on=task_column_names, how="left")
        .sort("_task", "_worker", "_label")
    )
    item_labels = tuple(task_table["item"].unique().sort())
    design = Design.from_study(study, items=item_labels, systems=()).group_into_blocks()
    return AnnotatorAnswers(
        raters=raters,
        tasks=task_table.drop("_task"),
        answers=AnnotatorLabels.from_labels(
            *(coded_answers[column_name].to_numpy() for column_name in ("_task", "_worker", "_label")),
            n_tasks=task_table.height,
            n_workers=len(raters),
            n_labels=max(1, len(words)),
        ),
        value=coded_answers["_value"].to_numpy(),
        words=words,
        unit=design.units[label_codes(task_table["item"], item_labels)],
        n_units=design.n_units,
        **answer_fields,
    )


def persons(study: Study, raters: Sequence[str], annotator_type: AnnotatorType) -> tuple[frozenset[str], list[Note]]:
    """Return the raters that are single persons, and notes on how single persons were identified.

    With 'auto', a rater is a person if the raters table says so. Any other rater is a slot if two conditions hold, as
    in files with one column per slot. The name is numbered (`annotator2`, `human_b`), and all raters with similar names
    answered nearly the same tasks.
    """
    if annotator_type != "auto":
        return frozenset(raters if annotator_type == "persons" else ()), []
    declared_persons = frozenset(raters) & frozenset(study.raters.frame.filter(pl.col("person"))["rater"])
    slot_names = _slots(study, [rater for rater in raters if rater not in declared_persons])
    pooled_raters = {USERS for note in study.notes if note.rule == USERS_TOGETHER} - declared_persons
    assumed_persons = sorted(frozenset(raters) - declared_persons - slot_names - pooled_raters)
    return frozenset(raters) - slot_names - pooled_raters, build_notes(
        (
            "slots",
            len(slot_names),
            f"{join_labels(sorted(slot_names))} answered the same tasks and were read as slots that several persons "
            "share, so they are not evaluated one by one. If each of them is one person, set annotator_type='persons' "
            "or person = true in a raters table",
        ),
        (
            "assumed-persons",
            len(assumed_persons),
            f"{join_labels(assumed_persons, limit=3)}: each rater is read as one person; if the raters are slots that "
            "several persons share, set annotator_type='slots'",
        ),
    )


def is_numbered(name: str) -> bool:
    """Whether a name is generic: it has only common words for annotators, and single letters or numbers.

    >>> is_numbered("annotator2"), is_numbered("human_b"), is_numbered("beatrix"), is_numbered("A2X9QK")
    (True, True, False, False)
    """
    return all(word in HUMAN or len(word) <= 1 for word in map(stem, split_name(name)))


def _slots(study: Study, raters: Sequence[str]) -> frozenset[str]:
    """Return the raters with numbered names that answered nearly the same tasks as all similarly named raters."""
    numbered_raters = [rater for rater in raters if is_numbered(rater)]
    is_numbered_rater_expression = pl.col("rater").is_in(numbered_raters)
    score_rows = study.ratings.frame.filter(is_numbered_rater_expression)
    task_rows = pl.concat(
        [
            score_rows.select("rater", "aspect", "item", "system", system_b=pl.lit("")),
            study.preferences.frame.filter(is_numbered_rater_expression)
            .select("rater", "aspect", "item", "system_b", system="system_a")
            .select("rater", "aspect", "item", "system", "system_b"),
        ]
    ).unique()
    task_rows = task_rows.with_columns(
        name_stem=pl.col("rater").replace_strict(
            {
                rater: "_".join(stem(name_part) for name_part in split_name(rater) if len(stem(name_part)) > 1)
                for rater in numbered_raters
            },
            return_dtype=pl.String,
        )
    )
    return frozenset(
        task_rows.group_by("name_stem", "rater")
        .len("answered")
        .join(task_rows.select(pl.exclude("rater")).unique().group_by("name_stem").len("tasks"), on="name_stem")
        .filter(pl.len().over("name_stem") > 1)
        .filter((pl.col("answered") >= MOST_OF_TASKS * pl.col("tasks")).all().over("name_stem"))["rater"]
    )
