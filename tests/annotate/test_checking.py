"""Problems that `check` reports before annotation, and its silence on sound studies."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from custodes.annotate.check_study import check, text_problems
from custodes.annotate.new_study import new
from custodes.annotate.plan import Question, StoppingRule, StudyPlan, StudyTexts
from custodes.annotate.study_material import Item, StudyMaterial, SystemOutput
from custodes.annotate.study_status import status
from custodes.annotate.views import Ask, Skip, Undo
from custodes.errors import InputError
from tests.annotate.studies import (
    answer,
    current_question,
    expected_answer,
    new_annotator,
    open_service,
    plan_of,
    texts,
)

SOUND = StudyPlan(texts=StudyTexts(contact="a@b.example"))


def rules(path: Path) -> list[str]:
    return check(path).problems["rule"].to_list()


def rules_of_texts(tmp_path: Path, rows: dict[str, list[str]], **columns: object) -> list[str]:
    """Return the rules that fire on outputs by system."""
    texts = [(f"i{k}", name, text) for name, outputs in rows.items() for k, text in enumerate(outputs)]
    frame = pl.DataFrame(texts, schema=["item", "system", "text"], orient="row")
    frame = frame.with_columns(**{name: pl.lit(value) for name, value in columns.items()})
    return rules(new(frame, tmp_path / f"{len(list(tmp_path.iterdir()))}.db", plan=SOUND))


def test_a_sound_study_has_no_problem(tmp_path: Path) -> None:
    path = new(texts(items=40), tmp_path / "study.db", plan=SOUND)
    before = path.read_bytes()
    result = check(path)
    assert result.problems.height == 0
    assert list(result.note_texts()) == ["no problems found"]
    assert result.status == 0
    assert result.summary.select("items", "systems", "pairs", "questions", "known").row(0) == (40, 3, 3, 120, 20)
    assert path.read_bytes() == before


def test_outputs_that_name_their_system(tmp_path: Path) -> None:
    rows = {"A": [f"a {k}." for k in range(40)], "Birch": [f"b {k}." for k in range(40)]}
    rows["A"][3] = "As an AI language model, I cannot say."
    rows["Birch"][7] = "I am Claude, made by Anthropic."
    assert rules_of_texts(tmp_path, rows) == ["names-itself"]
    rows["A"][3], rows["Birch"][7] = "ok.", "Here birch speaks."
    assert rules_of_texts(tmp_path, rows) == ["names-system"]
    assert rules_of_texts(tmp_path, rows, source="Write of a birch.") == []  # the source contains the word, too


def test_form_that_differs_between_systems(tmp_path: Path) -> None:
    rows = {"A": [f"- a {k}." for k in range(40)], "B": [f"b {k}." for k in range(40)]}
    assert rules_of_texts(tmp_path, rows) == ["unlike-format"]
    rows = {"A": [f"a {k} and" for k in range(40)], "B": [f"b {k}." for k in range(40)]}
    assert rules_of_texts(tmp_path, rows) == ["unlike-ending"]


@pytest.mark.parametrize(
    ("text", "is_cut"),
    [
        *(("and then the", True), ("and the **big**", True), ("Well.\nFirst,", True), ("a list (as", True)),
        *(("so x is \\[x = 1\\]", False), ("so\n```\nx = y\n```", False), ("| a | b |\n| c | d", False)),
        *(("All:\n- some milk", False), ("All:\n2. some milk", False), ("Great news \N{PARTY POPPER}", False)),
        *(('He says "yes"', False), ("see https://a.example/b", False), ("Paris", False), ("# In a word", False)),
    ],
)
def test_truncated_outputs(text: str, is_cut: bool) -> None:
    texts_by_system = {"A": [text] * 40, "B": ["Whole."] * 40}
    items = tuple(Item(label=f"i{k}") for k in range(40))
    outputs = {
        (f"i{k}", name): SystemOutput(text=output)
        for name, texts in texts_by_system.items()
        for k, output in enumerate(texts)
    }
    problems = text_problems(StudyMaterial(items=items, systems=("A", "B"), outputs=outputs), [("A", "B")])
    assert ("unlike-ending" in [problem.rule for problem in problems]) == is_cut


@pytest.mark.parametrize(
    ("budget", "expected"), [(None, []), (36, []), (30, [("info", "small-budget")]), (2, [("error", "small-budget")])]
)
def test_a_budget_of_ratings(tmp_path: Path, budget: int | None, expected: list[tuple[str, str]]) -> None:
    plan = StudyPlan(texts=SOUND.texts, question=Question(mode="rate"), stopping=StoppingRule(budget=budget))
    problem = check(new(texts(items=12), tmp_path / "study.db", plan=plan)).problems
    assert problem.select("severity", "rule").rows() == expected


@pytest.mark.slow
def test_false_warnings_about_form_are_rare() -> None:
    rng = np.random.default_rng(0)
    n_flagged = 0
    for _ in range(1000):
        names = ["A", "B", "C", "D"]
        hard = rng.random(30)  # items differ in the probability of lists and cut endings
        outputs = {
            (f"i{k}", name): SystemOutput(
                text=f"{'- ' if rng.random() < hard[k] else ''}x y{'.' if rng.random() < hard[k] else ''}"
            )
            for k in range(30)
            for name in names
        }
        items = tuple(Item(label=f"i{k}") for k in range(30))
        material = StudyMaterial(items=items, systems=tuple(names), outputs=outputs)
        pairs = [(a, b) for a in names for b in names if a < b]
        n_flagged += any(text_problems(material, pairs))
    assert n_flagged <= 60


CONTACT = {"contact": "a@b.example"}


@pytest.mark.parametrize(
    ("sections", "items", "rule"),
    [
        ({"texts": {}}, 40, "no-contact"),
        ({"texts": {**CONTACT, "consent": "Do you agree?"}}, 40, "consent-without-contact"),
        ({"money": {"price": 0.01}}, 40, "low-pay"),
        ({"texts": {**CONTACT, "consent": "{contact}"}, "money": {"price": 0.2}}, 40, "consent-without-pay"),
        ({"texts": {**CONTACT, "language": "fr"}}, 40, "english-texts"),
        ({"annotators": {"recruit": "open", "worker_id": "PID"}}, 40, "no-gold"),
        ({"annotators": {"recruit": "open", "worker_id": "PID"}}, 40, "no-price"),
        ({}, 7, "few-items"),
        ({}, 30, "looks-cut"),
        ({"annotators": {"recruit": "open", "most": 5}}, 40, "too-few-annotators"),
        ({"annotators": {"most": 10, "batch": 2, "batches": 1, "attention": 0}}, 40, "little-work"),
        ({"stopping": {"budget": 20}}, 40, "small-budget"),
        ({"stopping": {"looks": (2, 4)}}, 40, "decides-nothing"),
        ({"stopping": {"boundary": "none"}}, 40, "no-boundary"),
    ],
)
def test_problems_of_plans(sections: dict[str, Any], items: int, rule: str, tmp_path: Path) -> None:
    plan = plan_of(**{"texts": CONTACT} | sections)
    result = check(new(texts(items=items), tmp_path / "study.db", plan=plan))
    severity = result.problems.filter(rule=rule)["severity"].item()
    assert result.status == int(severity != "info")


def test_gold_that_runs_out(tmp_path: Path) -> None:
    gold = pl.DataFrame({"item": ["i0"], "system_a": ["A"], "system_b": ["B"], "expected": ["1"]})
    path = new(texts(items=41), tmp_path / "study.db", plan=SOUND, gold=gold)
    assert rules(path) == ["little-gold", "known-answers"]


def test_answers_are_counted_as_in_the_status(tmp_path: Path) -> None:
    """The count has one answer per comparison, and no refusals, withdrawn answers and control questions."""
    plan = plan_of(question={"aspects": ("fluency", "depth")}, annotators={"cap": 1.0, "batch": 10, "attention": 2})
    path = new(texts(), tmp_path / "study.db", plan=plan)
    with open_service(path) as service:
        token, n_controls = new_annotator(service), 0
        answer(service, token)
        service.act(token, Undo(assignment=current_question(service, token).assignment)).result()
        service.act(token, Skip(assignment=current_question(service, token).assignment, reason="other")).result()
        while isinstance(view := service.view(token).result(), Ask):
            n_controls += expected_answer(service, view) is not None
            answer(service, token)
    assert n_controls > 0
    assert check(path).summary["answers"].item() == status(path).study["answers"].item() == 9 - n_controls


def test_a_study_that_another_program_changed_is_one_line(tmp_path: Path) -> None:
    path = new(texts(), tmp_path / "study.db", plan=SOUND)
    with closing(sqlite3.connect(path)) as base, base:
        base.execute("UPDATE plan SET json = '{}x'")
    with pytest.raises(InputError, match="this study cannot be read"):
        check(path)
