"""Few-shot examples: human verdicts in the prompt of a judge. The items of the examples are not judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import narwhals as nw
import polars as pl

from custodes.data.notes import Note
from custodes.data.reading import read
from custodes.data.study import Study
from custodes.data.ties_and_orders import OUTPUTS, combine_annotators, human_threshold, score_differences
from custodes.errors import InputError, OptionError, join_labels, short_repr
from custodes.judging.judge import TIE, A, B, Judge
from custodes.judging.plan import JudgedTexts, lot, messages
from custodes.judging.prompt import Prompt

MOST = 100


class HumanLabel(NamedTuple):
    """A human label of one output, or of two outputs in presentation order."""

    systems: tuple[str, ...]
    label: str


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
    study, n_examples = _study_and_count(judge.examples)
    all_texts = texts if study.outputs is None else texts.merge_texts(JudgedTexts.make(study.outputs))
    cases = {aspect: _cases(study, judge, aspect, all_texts) for aspect in judge.meanings}
    common_items = set.intersection(*(set(by_item) for by_item in cases.values()))
    if len(common_items) < n_examples:
        raise InputError(
            f"examples: {n_examples} items are requested, but {study.name} has only {len(common_items)} items with "
            f"texts and human verdicts on {join_labels(filter(None, judge.meanings)) or 'overall quality'}; request "
            "fewer"
        )
    order = sorted(common_items, key=lambda item: lot(seed, "example", item))
    first_aspect, *other_aspects = judge.meanings
    example_items, counts_of_aspect = list[str](), {first_aspect: Counter[str]()}
    messages_of_aspect: dict[str, Messages] = {aspect: [] for aspect in judge.meanings}
    while len(example_items) < n_examples:
        item, case = _next(order, cases[first_aspect], counts_of_aspect[first_aspect], example_items, seed)
        example_items.append(item)
        case_of_aspect = {first_aspect: case}
        for aspect in other_aspects:
            counts = counts_of_aspect.setdefault(aspect, Counter())
            _, case_of_aspect[aspect] = _next([item], cases[aspect], counts, [], seed)
        for aspect, (systems, label) in case_of_aspect.items():
            counts_of_aspect[aspect][label] += 1
            outputs = [all_texts.outputs[item][system] for system in systems]
            messages_of_aspect[aspect] += messages(prompt, aspect, all_texts.material(item), outputs)
            messages_of_aspect[aspect].append({"role": "assistant", "content": judge.answer(label)})
    message = (
        f"{n_examples} items with human verdicts ({study.name}) are used as examples and are not judged: "
        f"{', '.join(example_items)}"
    )
    return ShownExamples(
        messages_of_aspect, tuple(example_items), [Note(rule="examples", message=message, count=n_examples)]
    )


def _study_and_count(examples: Any) -> tuple[Study, int]:
    """The study of examples, and the number of items."""
    error_message = (
        f"examples={short_repr(examples)} is not allowed; give STUDY:K, where STUDY is a file with human verdicts "
        f"and K is the number of items (1 to {MOST})"
    )
    if isinstance(examples, str):
        path, _, text = examples.rpartition(":")
        n_examples = int(text) if text.isascii() and text.isdigit() and len(text) < 4 else 0
        study = read(Path(path)) if path and 1 <= n_examples <= MOST else None
    else:
        study_and_count = examples if isinstance(examples, tuple) and len(examples) == 2 else (None, 0)
        study, n_examples = study_and_count[0] if isinstance(study_and_count[0], Study) else None, study_and_count[1]
    if study is None or isinstance(n_examples, bool) or not isinstance(n_examples, int) or not 1 <= n_examples <= MOST:
        raise OptionError(error_message)
    if not study.humans:
        raise InputError(f"examples: {study.advice_on_annotators()}")
    return study, n_examples


def _cases(study: Study, judge: Judge, aspect: str, texts: JudgedTexts) -> dict[str, list[HumanLabel]]:
    """The human labels of each item, for outputs with texts."""
    is_human = pl.col("rater").is_in(list(study.humans))
    human_ratings, verdicts = study.ratings.frame.filter(is_human), study.preferences.select_rows(is_human)
    cases_of_item: dict[str, list[HumanLabel]] = {}
    if judge.mode == "pairwise":
        rows = _aspect_rows(verdicts.merge_verdicts("mean")[0], aspect)
        if rows.height:
            human_signs = combine_annotators(nw.from_native(rows.lazy().rename({"preference": "sign"})), "vote")
        else:
            scores = _means(_aspect_rows(human_ratings, aspect), study)
            threshold = pl.lit(human_threshold(scores["score"].to_numpy(), None))
            human_signs = score_differences(nw.from_native(scores.lazy().with_columns(rater=0, threshold=threshold)))
        for item, a, b, sign in human_signs.select(*OUTPUTS, "sign").sort(*OUTPUTS).collect().iter_rows():
            labels_of_orders = (
                [((a, b), TIE)] if not sign else [((a, b), A if sign > 0 else B), ((b, a), B if sign > 0 else A)]
            )
            cases_of_item.setdefault(item, []).extend(HumanLabel(*case_of_order) for case_of_order in labels_of_orders)
    else:
        low, high = float(judge.answers[0]), float(judge.answers[-1])
        for item, system, score in _means(_aspect_rows(human_ratings, aspect), study).iter_rows():
            if not low <= score <= high:
                raise InputError(
                    f"examples: the human score {score:g} of system {system!r} lies outside scale={judge.scale!r}"
                )
            label = min(judge.answers, key=lambda name: abs(float(name) - score))
            cases_of_item.setdefault(item, []).append(HumanLabel((system,), label))
    cases_with_texts = {
        item: [case for case in item_cases if set(case.systems) <= texts.outputs.get(item, {}).keys()]
        for item, item_cases in cases_of_item.items()
    }
    return {item: item_cases for item, item_cases in cases_with_texts.items() if item_cases}


def _aspect_rows(rows: pl.DataFrame, aspect: str) -> pl.DataFrame:
    """The rows of an aspect. If there are no rows of the aspect, the rows without an aspect are used. For overall
    quality (no aspect), the rows of all aspects are used if there are no rows without an aspect."""
    rows_of_aspect = rows.filter(pl.col("aspect") == aspect)
    rows_without_aspect = rows.filter(pl.col("aspect") == "")
    return (
        rows_of_aspect
        if rows_of_aspect.height
        else rows_without_aspect
        if rows_without_aspect.height or aspect
        else rows
    )


def _means(rows: pl.DataFrame, study: Study) -> pl.DataFrame:
    """A table with item, system and the mean human score, in a fixed order."""
    reversed_raters = [rater for rater, direction in study.raters.direction.items() if direction < 0]
    if rows.filter(pl.col("rater").is_in(reversed_raters)).height:
        raise InputError(
            f"examples: lower is better for {join_labels(reversed_raters)}; select annotators for whom higher is better"
        )
    return (
        rows.filter(pl.col("item") != "").group_by("item", "system").agg(pl.col("score").mean()).sort("item", "system")
    )


def _next(
    order: Sequence[str],
    cases: Mapping[str, list[HumanLabel]],
    label_counts: Counter[str],
    used_items: Sequence[str],
    seed: int,
) -> tuple[str, HumanLabel]:
    """An item and one of its human labels: the label that was used least, in the first item of `order` that has it."""
    candidates = [
        (rank, item, case) for rank, item in enumerate(order) if item not in used_items for case in cases[item]
    ]
    _, item, case = min(
        candidates,
        key=lambda candidate: (
            label_counts[candidate[2].label],
            candidate[0],
            lot(seed, candidate[1], *candidate[2].systems),
        ),
    )
    return item, case
