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
from custodes.errors import InputError, OptionError, listed, shown
from custodes.judging.judge import TIE, A, B, Judge
from custodes.judging.plan import JudgedTexts, lot, messages
from custodes.judging.prompt import Prompt

MOST = 100


class Labelled(NamedTuple):
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
    study, number = _given(judge.examples)
    all_texts = texts if study.outputs is None else texts.over(JudgedTexts.make(study.outputs))
    cases = {aspect: _cases(study, judge, aspect, all_texts) for aspect in judge.meanings}
    common = set.intersection(*(set(by_item) for by_item in cases.values()))
    if len(common) < number:
        raise InputError(
            f"examples: {number} items are requested, but {study.name} has only {len(common)} items with texts and "
            f"human verdicts on {listed(filter(None, judge.meanings)) or 'overall quality'}; request fewer"
        )
    order = sorted(common, key=lambda item: lot(seed, "example", item))
    first, *others = judge.meanings
    drawn, used = list[str](), {first: Counter[str]()}
    before: dict[str, Messages] = {aspect: [] for aspect in judge.meanings}
    while len(drawn) < number:
        item, case = _next(order, cases[first], used[first], drawn, seed)
        drawn.append(item)
        chosen = {first: case}
        for aspect in others:
            counts = used.setdefault(aspect, Counter())
            _, chosen[aspect] = _next([item], cases[aspect], counts, [], seed)
        for aspect, (systems, label) in chosen.items():
            used[aspect][label] += 1
            outputs = [all_texts.outputs[item][system] for system in systems]
            before[aspect] += messages(prompt, aspect, all_texts.material(item), outputs)
            before[aspect].append({"role": "assistant", "content": judge.answer(label)})
    message = (
        f"{number} items with human verdicts ({study.name}) are used as examples and are not judged: {', '.join(drawn)}"
    )
    return ShownExamples(before, tuple(drawn), [Note(rule="examples", message=message, count=number)])


def _given(examples: Any) -> tuple[Study, int]:
    """The study of examples, and the number of items."""
    wrong = (
        f"examples={shown(examples)} is not allowed; give STUDY:K, where STUDY is a file with human verdicts "
        f"and K is the number of items (1 to {MOST})"
    )
    if isinstance(examples, str):
        path, _, text = examples.rpartition(":")
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 4 else 0
        study = read(Path(path)) if path and 1 <= number <= MOST else None
    else:
        pair = examples if isinstance(examples, tuple) and len(examples) == 2 else (None, 0)
        study, number = pair[0] if isinstance(pair[0], Study) else None, pair[1]
    if study is None or isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= MOST:
        raise OptionError(wrong)
    if not study.humans:
        raise InputError(f"examples: {study.advice_on_annotators()}")
    return study, number


def _cases(study: Study, judge: Judge, aspect: str, texts: JudgedTexts) -> dict[str, list[Labelled]]:
    """The human labels of each item, for outputs with texts."""
    people = pl.col("rater").is_in(list(study.humans))
    rated, verdicts = study.ratings.frame.filter(people), study.preferences.where(people)
    by_item: dict[str, list[Labelled]] = {}
    if judge.mode == "pairwise":
        rows = _of(verdicts.settled("mean")[0], aspect)
        if rows.height:
            compared = combine_annotators(nw.from_native(rows.lazy().rename({"preference": "sign"})), "vote")
        else:
            scores = _means(_of(rated, aspect), study)
            threshold = pl.lit(human_threshold(scores["score"].to_numpy(), None))
            compared = score_differences(nw.from_native(scores.lazy().with_columns(rater=0, threshold=threshold)))
        for item, a, b, sign in compared.select(*OUTPUTS, "sign").sort(*OUTPUTS).collect().iter_rows():
            ways = [((a, b), TIE)] if not sign else [((a, b), A if sign > 0 else B), ((b, a), B if sign > 0 else A)]
            by_item.setdefault(item, []).extend(Labelled(*way) for way in ways)
    else:
        low, high = float(judge.answers[0]), float(judge.answers[-1])
        for item, system, score in _means(_of(rated, aspect), study).iter_rows():
            if not low <= score <= high:
                raise InputError(
                    f"examples: the human score {score:g} of {system!r} lies outside scale={judge.scale!r}"
                )
            label = min(judge.answers, key=lambda name: abs(float(name) - score))
            by_item.setdefault(item, []).append(Labelled((system,), label))
    with_texts = {
        item: [case for case in labelled if set(case.systems) <= texts.outputs.get(item, {}).keys()]
        for item, labelled in by_item.items()
    }
    return {item: labelled for item, labelled in with_texts.items() if labelled}


def _of(rows: pl.DataFrame, aspect: str) -> pl.DataFrame:
    """The rows of an aspect. If there are no rows of the aspect, the rows without an aspect are used. For overall
    quality (no aspect), the rows of all aspects are used if there are no rows without an aspect."""
    of_aspect = rows.filter(pl.col("aspect") == aspect)
    without = rows.filter(pl.col("aspect") == "")
    return of_aspect if of_aspect.height else without if without.height or aspect else rows


def _means(rows: pl.DataFrame, study: Study) -> pl.DataFrame:
    """A table with item, system and the mean human score, in a fixed order."""
    turned = [rater for rater, direction in study.raters.direction.items() if direction < 0]
    if rows.filter(pl.col("rater").is_in(turned)).height:
        raise InputError(f"examples: lower is better for {listed(turned)}; select annotators for whom higher is better")
    return (
        rows.filter(pl.col("item") != "").group_by("item", "system").agg(pl.col("score").mean()).sort("item", "system")
    )


def _next(
    order: Sequence[str],
    cases: Mapping[str, list[Labelled]],
    used: Counter[str],
    drawn: Sequence[str],
    seed: int,
) -> tuple[str, Labelled]:
    """The first item in random order that has the least used label."""
    free = [(place, item, case) for place, item in enumerate(order) if item not in drawn for case in cases[item]]
    _, item, case = min(
        free,
        key=lambda candidate: (used[candidate[2].label], candidate[0], lot(seed, candidate[1], *candidate[2].systems)),
    )
    return item, case
