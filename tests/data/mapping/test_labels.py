"""Layouts of tables of labels: columns of annotators and judges, declared or guessed."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from custodes.data.mapping.columns import Columns
from custodes.data.mapping.label_layout import LabelLayout
from custodes.data.mapping.labels import label_layout

N = 40
PAIR, WORDS, STEPS, CODES = ["pass", "fail"] * 20, ["good", "fair", "poor", "fair"] * 10, [1, 2, 3, 4] * 10, [0, 1] * 20
SCORES, TEXTS = [k / 7 for k in range(N)], [f"it says number {k}" for k in range(N)]
MANY, TOO_MANY = [f"w{k % 20}" for k in range(N)], [f"w{k % 21}" for k in range(N)]
KINDS, TWO, NAMES = {"kind": ["human", "llm"] * 20}, [k // 2 for k in range(N)], ["ann", "bob"] * 20
BOTH = ["human:{rater:human}", "metric:{rater:judge}"]
BY_ASPECT = ["human_{aspect}", "metric:judge_{aspect}"]


def layout(columns: dict[str, Any], **declared: Any) -> LabelLayout | None:
    return label_layout(pl.DataFrame({"id": range(N)} | columns), Columns.make(declared))


def raters(found: LabelLayout | None) -> str | None:
    return None if found is None else f"{' '.join(found.human)} | {' '.join(found.metrics)}".strip()


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        # names of annotators and of judges
        ({"human": PAIR, "judge": PAIR}, "human | judge"),
        ({"SME": PAIR, "judge_human": PAIR}, "SME | judge_human"),
        ({"human": PAIR, "judge_reason": PAIR}, "human |"),
        ({"human": PAIR, "expert_grading": PAIR, "evals": PAIR}, "human expert_grading | evals"),
        ({"human": PAIR, "judge": PAIR, "model_a": PAIR, "model_b": PAIR}, None),  # verdicts
        # cells of annotators
        ({"human": MANY, "judge": PAIR}, "human | judge"),
        ({"human": TOO_MANY, "judge": PAIR}, "| judge"),
        ({"human": ["one two three"] * N, "judge": PAIR}, "| judge"),
        ({"human": PAIR, "expert": WORDS, "judge": PAIR}, "human | judge"),
        ({"human": STEPS, "judge": PAIR}, "human | judge"),
        ({"human": STEPS, "judge": WORDS}, None),
        ({"human": STEPS, "judge": CODES}, None),
        ({"human": STEPS, "judge": PAIR, "fluency": STEPS}, None),
        ({"human": WORDS, "judge": STEPS}, "human | judge"),
        # cells of judges
        ({"human": PAIR, "judge": MANY}, "human | judge"),
        ({"human": PAIR, "judge": TOO_MANY}, "human |"),
        ({"human": PAIR, "judge": SCORES}, "human | judge"),
        ({"human": PAIR, "judge": PAIR, "llm_x": WORDS, "llm_score": SCORES, "llm": SCORES}, "human | judge llm_score"),
        ({"human": PAIR, "judge": WORDS, "llm": SCORES, "llm_certainty": SCORES}, "human | judge llm"),
        ({"human": PAIR, "llm_confidence": SCORES}, "human | llm_confidence"),
        # flags instead of judges
        ({"human": PAIR, "has_x": PAIR, "x_passed": PAIR, "x_OK": PAIR, "x": PAIR}, "human | has_x x_passed x_OK"),
        ({"human": PAIR, "is_x": [True, False] * 20}, "human | is_x"),
        ({"human": PAIR, "is_x": CODES}, "human |"),
        ({"human": PAIR, "passed": PAIR, "fluency": STEPS}, "human |"),
        ({"human": PAIR, "passed": PAIR, "output": TEXTS}, "human | passed"),
        ({"passed": PAIR, "output": TEXTS}, None),
        ({"passed": PAIR}, "| passed"),
        # only judges
        ({"judge": PAIR, "llm_tone": WORDS}, "| judge"),
        ({"judge": WORDS}, None),
        # only annotators
        ({"human": PAIR}, "human |"),
        ({"human": PAIR, "output": TEXTS}, None),
        ({"human": CODES}, None),
        ({"human": WORDS}, None),
        ({"human_label": WORDS}, "human_label |"),
        ({"human_label": STEPS}, None),
        ({"expert_1": WORDS, "expert_2": WORDS[::-1]}, "expert_1 expert_2 |"),
        ({"expert_1": list("abcd") * 10, "expert_2": list("bcde") * 10}, "expert_1 expert_2 |"),
        ({"expert_1": STEPS, "expert_2": STEPS}, None),
        # labels by, or names of, people
        ({"reviewer": PAIR}, "reviewer |"),
        ({"reviewer": NAMES}, None),
        ({"reviewer": NAMES, "judge": PAIR}, "| judge"),
        ({"reviewer": ["", None] * 20, "human": PAIR, "judge": PAIR}, "human | judge"),
        ({"reviewer": ["good", "x", "y", "z"] * 10, "judge": WORDS}, "reviewer | judge"),
        ({"reviewer": ["ann", "fail", "y", "z"] * 10, "judge": WORDS}, "reviewer | judge"),
        ({"reviewer": ["ann", "t", "y", "z"] * 10, "judge": WORDS}, None),
        ({"expert_2": NAMES, "judge": PAIR}, "expert_2 | judge"),
        ({"expert": ["ann", "bob", "cy", "di"] * 10, "judge": PAIR}, "| judge"),
        ({"expert": NAMES, "human_label": WORDS, "judge": WORDS}, "human_label | judge"),
        ({"labelled_by": NAMES, "human": ["ann", "x"] * 20, "judge": PAIR}, "human | judge"),
        ({"reviewer": [7, 8] * 20, "judge": PAIR}, "| judge"),
        ({"reviewer_1": WORDS, "reviewer_2": WORDS}, "reviewer_1 reviewer_2 |"),
        ({"reviewer": NAMES, "annotator": ["cy", "di"] * 20}, None),
        ({"reviewer": NAMES, "verdict": PAIR}, "verdict |"),
        ({"reviewer": NAMES, "verdict": PAIR, "judge": PAIR}, "verdict | judge"),
        ({"reviewer": NAMES, "verdict": PAIR, "output": TEXTS}, "verdict |"),
        ({"reviewer": NAMES, "output": TEXTS}, None),
        ({"reviewer": ["gpt-4", "gpt-5"] * 20, "verdict": PAIR}, "| verdict"),
    ],
)  # fmt: skip
def test_columns_of_annotators_and_judges(columns: dict[str, Any], expected: str | None) -> None:
    assert raters(layout(columns)) == expected


@pytest.mark.parametrize(
    ("columns", "declared", "expected"),
    [
        ({"human": PAIR, "judge": PAIR}, {"item": "zzz"}, "human | judge"),
        ({"human": PAIR, "judge": PAIR}, {"score": "judge"}, None),
        ({"human": PAIR, "judge": PAIR}, {"source": "judge"}, None),
        ({"human": PAIR, "judge": PAIR, "who": NAMES}, {"rater": "who"}, "human | judge"),
        ({"judge": PAIR, "who": NAMES}, {"rater": "who"}, None),
        ({"human": PAIR, "judge": PAIR}, {"score": BOTH}, "human | judge"),
        ({"human": PAIR, "judge": PAIR}, {"score": ["{rater}"]}, None),
        ({"human": PAIR, "judge": PAIR, "w": MANY}, {"score": ["human:human", BOTH[1]], "rater": "w"}, "human | judge"),
        ({"human": PAIR, "judge": PAIR, "who": MANY}, {"score": BOTH, "rater": "who"}, None),
        ({"judge": PAIR, "who": MANY}, {"score": [BOTH[1]], "rater": "who"}, None),
        ({"human_A": PAIR, "human_B": PAIR}, {"score": ["human_{system}"]}, None),
        # tables of ratings
        ({"human_x": PAIR, "judge_x": WORDS}, {"score": BY_ASPECT}, "human_x | judge_x"),
        ({"human_x": CODES, "judge_x": WORDS}, {"score": BY_ASPECT}, None),
        ({"human_x": CODES, "judge_x": CODES}, {"score": BY_ASPECT}, None),
        ({"human_x": CODES, "judge_x": PAIR}, {"score": BY_ASPECT}, "human_x | judge_x"),
        ({"human_x": CODES, "who": MANY}, {"score": ["human:human_{aspect}"], "rater": "who"}, "human_x |"),
        ({"human_x": STEPS, "who": MANY}, {"score": ["human:human_{aspect}"], "rater": "who"}, None),
        ({"human": CODES, "judge": CODES}, {"score": BOTH}, "human | judge"),
        ({"human": CODES, "judge": CODES, "system": NAMES}, {"score": BOTH}, None),
        ({"human": CODES, "judge": CODES, "v": NAMES}, {"score": BOTH, "system": "v"}, None),
        ({"human": PAIR, "judge": SCORES, "v": NAMES}, {"score": BOTH, "system": "v"}, "human | judge"),
        ({"human": [1.0, 2.5] * 20, "judge": PAIR}, {"score": BOTH}, None),
        ({"human": MANY, "judge": PAIR}, {"score": BOTH}, "human | judge"),
        ({"human": TOO_MANY, "judge": PAIR}, {"score": BOTH}, None),
        ({"judge": PAIR, "system": NAMES}, {"score": [BOTH[1]]}, "| judge"),
        ({"judge": CODES, "system": NAMES}, {"score": [BOTH[1]]}, None),
        ({"judge": WORDS}, {"score": [BOTH[1]]}, None),
    ],
)  # fmt: skip
def test_declared_columns(columns: dict[str, Any], declared: dict[str, Any], expected: str | None) -> None:
    found = layout(columns, **declared)
    assert raters(found) == expected
    assert found is None or found.rater == declared.get("rater", "")


@pytest.mark.parametrize(
    ("names", "patterns", "criteria"),
    [
        ("human_x human_y judge_x judge_y judge_z", [], "human.x human.y judge.x judge.y judge.z"),
        ("Human_rating_x expert_y LLM_judge_x evals.y", [], "Human.x expert.y LLM_judge.x evals.y"),
        ("human_x human_y gpt_judge_x gpt_judge_y", [], ""),
        ("human_x judge_x", [], ""),
        ("human_x human_y human_z judge_x judge_y", [], ""),
        ("human_x human_y judge_x judge_y judge", [], ""),
        ("human_x human_x_label human_y judge_x judge_y", [], ""),
        ("human_a_x human_b_x", ["human_{rater}_{aspect}"], "a.x b.x"),
        ("human_x judge_x", BY_ASPECT, "human.x judge.x"),
        ("x.human x.metric", ["{aspect}.{kind}"], "human.x metric.x"),
    ],
)
def test_criteria_in_the_names_of_columns(names: str, patterns: list[str], criteria: str) -> None:
    found = layout(dict.fromkeys(names.split(), PAIR), **({"score": patterns} if patterns else {}))
    assert found is not None
    assert {*found.human, *found.metrics} == {*names.split()}
    assert list(found.criteria.values()) == [tuple(text.split(".")) for text in criteria.split()]
    assert set(found.criteria) == ({*names.split()} if criteria else set())


@pytest.mark.parametrize(
    ("columns", "declared", "expected"),
    [
        (KINDS | {"label": PAIR}, {}, "label kind - - id"),
        (KINDS | {"label": PAIR}, {"score": ["metric:label"]}, None),
        ({"kind": ["human", "dog"] * 20, "label": PAIR}, {}, None),
        ({"kind": ["human", None] * 20, "label": PAIR}, {}, None),
        ({"k": KINDS["kind"], "l": PAIR}, {"kind": "k", "score": "l"}, "l k - - id"),
        ({"k": KINDS["kind"], "label": PAIR}, {}, None),
        # labels
        (KINDS | {"label": WORDS}, {}, "label kind - - id"),
        (KINDS | {"label": STEPS}, {}, "label kind - - id"),
        (KINDS | {"label": SCORES}, {}, None),
        (KINDS | {"label": TOO_MANY}, {}, None),
        (KINDS | {"label": TOO_MANY}, {"score": "label"}, "label kind - - id"),
        (KINDS | {"label": WORDS, "model": NAMES}, {}, "label kind - - id"),
        (KINDS | {"label": STEPS, "model": NAMES}, {}, None),
        (KINDS | {"label": STEPS, "v": NAMES}, {"system": "v"}, None),
        (KINDS | {"label": CODES, "verdict": PAIR}, {}, "verdict kind - - id"),
        (KINDS | {"label": ["", None] * 20, "verdict": WORDS}, {}, "verdict kind - - id"),
        # raters, aspects and items
        (KINDS | {"label": PAIR, "judge": ["ann", "gpt"] * 20}, {}, "label kind judge - id"),
        (KINDS | {"label": PAIR, "judge": ["ann"] * N}, {}, "label kind - - judge"),
        (KINDS | {"label": PAIR, "authorUserId": ["ann", None] * 20}, {}, "label kind authorUserId - id"),
        (KINDS | {"label": PAIR, "author": ["ann"] * N, "userId": TWO}, {}, "label kind - - userId"),
        (KINDS | {"label": PAIR, "criterion": list("ttss") * 10, "item": TWO}, {}, "label kind - criterion item"),
        (KINDS | {"label": PAIR, "criterion": ["t", "t", None, "s"] * 10, "item": TWO}, {}, "label kind - - item"),
        (KINDS | {"label": PAIR, "criterion": ["t", "s"] * 20}, {}, "label kind - - id"),
        ({"kind": ["human"] * N, "label": PAIR, "criterion": ["t", "s"] * 20}, {}, "label kind - criterion id"),
        (KINDS | {"label": PAIR, "w": NAMES, "c": TWO}, {"rater": "w", "aspect": "c"}, "label kind w c id"),
        (KINDS | {"label": PAIR, "x.name": TWO, "criterion": list("ttss") * 10}, {}, "label kind - criterion x.name"),
        (KINDS | {"label": PAIR, "zzz": TWO}, {}, "label kind - - zzz"),
        (KINDS | {"label": PAIR, "zzz": TWO}, {"item": "id"}, "label kind - - id"),
    ],
)
def test_a_row_for_each_label(columns: dict[str, Any], declared: dict[str, Any], expected: str | None) -> None:
    found = layout(columns, **declared)
    names = found and found.label and [found.label, found.kind, found.rater, found.aspect, found.item]
    assert (" ".join(name or "-" for name in names) if names else None) == expected
