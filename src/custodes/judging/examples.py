"""Few-shot examples: human verdicts in the prompt of a judge. The items of the examples are not judged."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import narwhals as nw
import polars as pl

from custodes.data.notes import Note, build_notes
from custodes.data.reading import read
from custodes.data.study import Study
from custodes.data.ties_and_orders import OUTPUTS, combine_annotators, human_threshold, score_differences
from custodes.errors import InputError, OptionError, join_labels, short_repr
from custodes.judging.judge import TIE, A, B, Judge
from custodes.judging.plan import JudgedTexts, lot, messages
from custodes.judging.prompt import Prompt

MOST = 100


HumanLabel = tuple[tuple[str, ...], str]
"""One system, or two systems in presentation order, and the human label of the output or comparison."""

Messages = list[dict[str, Any]]


class ShownExamples(NamedTuple):
    """The examples of each aspect as messages, and the items of the examples."""

    before: Mapping[str, Messages]
    items: tuple[str, ...]
    notes: list[Note]


def examples_of(prompt: Prompt, texts: JudgedTexts, seed: int) -> ShownExamples:
    """Examples from random items, balanced over the human labels. All requests have the same examples."""
    judge = prompt.judge
    if judge.examples is None:
        return ShownExamples({}, (), [])
    example_study, n_example_items = _study_and_count(judge.examples)
    judged_and_example_texts = (
        texts if example_study.outputs is None else texts.merge_texts(JudgedTexts.make(example_study.outputs))
    )
    labels_by_item_of_aspect = {
        aspect: _human_labels(example_study, judge, aspect, judged_and_example_texts) for aspect in judge.meanings
    }
    common_items = set.intersection(*(set(labels_of_item) for labels_of_item in labels_by_item_of_aspect.values()))
    if len(common_items) < n_example_items:
        raise InputError(
            f"examples: {n_example_items} items are requested, but {example_study.name} has only {len(common_items)} "
            f"items with texts and human verdicts on {join_labels(filter(None, judge.meanings)) or 'overall quality'}; "
            "request fewer"
        )
    unused_items = sorted(common_items, key=lambda item: lot(seed, "example", item))
    example_items = list[str]()
    label_counts_of_aspect: dict[str, Counter[str]] = {aspect: Counter() for aspect in judge.meanings}
    messages_of_aspect: dict[str, Messages] = {aspect: [] for aspect in judge.meanings}
    while len(example_items) < n_example_items:
        candidate_items = unused_items
        for aspect, labels_of_item in labels_by_item_of_aspect.items():
            # The label of the first aspect determines the item.
            item, (systems, label) = _next(candidate_items, labels_of_item, label_counts_of_aspect[aspect], seed)
            candidate_items = [item]
            label_counts_of_aspect[aspect][label] += 1
            output_texts = [judged_and_example_texts.outputs[item][system] for system in systems]
            messages_of_aspect[aspect] += [
                *messages(prompt, aspect, judged_and_example_texts.material(item), output_texts),
                {"role": "assistant", "content": judge.answer(label)},
            ]
        example_items.append(item)
        unused_items.remove(item)
    note_message = (
        f"{n_example_items} items with human verdicts ({example_study.name}) are used as examples and are not judged: "
        f"{', '.join(example_items)}"
    )
    return ShownExamples(
        messages_of_aspect, tuple(example_items), build_notes(("examples", n_example_items, note_message))
    )


def _study_and_count(examples: Any) -> tuple[Study, int]:
    """The study of examples, and the number of items."""
    study, n_example_items = examples if isinstance(examples, tuple) and len(examples) == 2 else (None, 0)
    if isinstance(examples, str):
        path_text, _, count_text = examples.rpartition(":")
        n_example_items = int(count_text) if re.fullmatch("[0-9]{1,3}", count_text) else 0
        study = read(Path(path_text)) if path_text and 1 <= n_example_items <= MOST else None
    if not (isinstance(study, Study) and type(n_example_items) is int and 1 <= n_example_items <= MOST):
        raise OptionError(
            f"examples={short_repr(examples)} is not allowed; give STUDY:K, where STUDY is a file with human verdicts "
            f"and K is the number of items (1 to {MOST})"
        )
    if not study.humans:
        raise InputError(f"examples: {study.advice_on_annotators()}")
    return study, n_example_items


def _human_labels(study: Study, judge: Judge, aspect: str, texts: JudgedTexts) -> dict[str, list[HumanLabel]]:
    """The human labels of each item, for outputs with texts."""
    is_human_row = pl.col("rater").is_in(list(study.humans))
    human_rating_rows = _aspect_rows(study.ratings.frame.filter(is_human_row), aspect)
    items_and_labels: list[tuple[str, HumanLabel]] = []
    if judge.mode == "pairwise":
        verdict_rows = _aspect_rows(study.preferences.select_rows(is_human_row).merge_verdicts("mean")[0], aspect)
        if verdict_rows.height:
            sign_rows = combine_annotators(nw.from_native(verdict_rows.lazy().rename({"preference": "sign"})), "vote")
        else:
            mean_score_rows = _means(human_rating_rows, study)
            score_tie_threshold = pl.lit(human_threshold(mean_score_rows["score"].to_numpy(), None))
            sign_rows = score_differences(
                nw.from_native(mean_score_rows.lazy().with_columns(rater=0, threshold=score_tie_threshold))
            )
        for item, system_a, system_b, sign in sign_rows.select(*OUTPUTS, "sign").sort(*OUTPUTS).collect().iter_rows():
            winner, loser = (system_a, system_b) if sign > 0 else (system_b, system_a)
            pair_labels = [((winner, loser), A), ((loser, winner), B)] if sign else [((system_a, system_b), TIE)]
            items_and_labels += [(item, human_label) for human_label in pair_labels]
    else:
        lowest_score, highest_score = float(judge.answers[0]), float(judge.answers[-1])
        for item, system, mean_score in _means(human_rating_rows, study).iter_rows():
            if not lowest_score <= mean_score <= highest_score:
                raise InputError(
                    f"examples: the human score {mean_score:g} of system {system!r} lies outside scale={judge.scale!r}"
                )
            nearest_answer = min(judge.answers, key=lambda answer: abs(float(answer) - mean_score))
            items_and_labels.append((item, ((system,), nearest_answer)))
    labels_of_item: dict[str, list[HumanLabel]] = {}
    for item, (systems, label) in items_and_labels:
        if texts.outputs.get(item, {}).keys() >= {*systems}:
            labels_of_item.setdefault(item, []).append((systems, label))
    return labels_of_item


def _aspect_rows(rows: pl.DataFrame, aspect: str) -> pl.DataFrame:
    """The rows of an aspect. If there are no rows of the aspect, the rows without an aspect are used. If `aspect` is
    empty (overall quality), the rows without an aspect are used. If every row has an aspect, all rows are used instead.
    """
    for candidate_aspect in (aspect, ""):
        if (aspect_rows := rows.filter(aspect=candidate_aspect)).height:
            return aspect_rows
    return rows.clear() if aspect else rows


def _means(rating_rows: pl.DataFrame, study: Study) -> pl.DataFrame:
    """A table with item, system and the mean human score, in a fixed order."""
    reversed_raters = [rater for rater, direction in study.raters.direction.items() if direction < 0]
    if rating_rows.filter(pl.col("rater").is_in(reversed_raters)).height:
        raise InputError(
            f"examples: lower is better for {join_labels(reversed_raters)}; select annotators for whom higher is better"
        )
    return (
        rating_rows.filter(pl.col("item") != "")
        .group_by("item", "system")
        .agg(pl.col("score").mean())
        .sort("item", "system")
    )


def _next(
    items: Sequence[str], labels_of_item: Mapping[str, list[HumanLabel]], label_counts: Counter[str], seed: int
) -> tuple[str, HumanLabel]:
    """The next item for the examples and its human label: the label that is used least so far, and the first item with
    this label."""
    *_, item, human_label = min(
        (label_counts[label], item_index, lot(seed, item, *systems), item, (systems, label))
        for item_index, item in enumerate(items)
        for systems, label in labels_of_item[item]
    )
    return item, human_label
