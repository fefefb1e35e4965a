"""Known questions: reading, rejected rows, attention checks from the study's texts, no overlap with real questions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from custodes.annotate.known_questions import attention_checks, read_gold
from custodes.annotate.new_study import new
from custodes.annotate.plan import AnnotatorPlan, Question, StudyPlan, StudyTexts
from custodes.annotate.study_material import StudyMaterial
from custodes.data.reading import read
from custodes.errors import InputError
from tests.annotate.studies import orders, query_rows, texts

PLAN = StudyPlan(annotators=AnnotatorPlan(attention=0))
NO_EQUAL = StudyPlan(question=Question(equal=False))
TEXTS = {"item": "", "system_a": "", "system_b": ""}
RATE = StudyPlan(question=Question(mode="rate"), annotators=AnnotatorPlan(attention=0))


def material() -> StudyMaterial:
    return StudyMaterial.from_study(read(texts()))


def test_known_questions_are_kept_with_their_texts_and_not_asked_as_real_ones(tmp_path: Path) -> None:
    gold = tmp_path / "gold.csv"
    gold.write_text(
        "kind,item,system_a,system_b,context,text_a,text_b,expected,why\n"
        ",i0,C,A,,,,2,A is clear\n"
        "example,,,,Say hi,Hi,<b>,1,It is a greeting\n"
        "qualification,i1,A,B,,,,equal,\n"
    )
    path = new(texts(), tmp_path / "study.db", plan=PLAN, gold=gold)
    assert query_rows(path, "SELECT kind, context, first, second, expected, why FROM gold ORDER BY gold") == [
        ("gold", "", "<p>C says 0</p>", "<p>A says 0</p>", -1, "A is clear"),
        ("example", "<p>Say hi</p>", "<p>Hi</p>", "<p>&lt;b&gt;</p>", 1, "It is a greeting"),
        ("qualification", "", "<p>A says 1</p>", "<p>B says 1</p>", 0, ""),
    ]
    items_by_pair = orders(path)
    assert "i0" not in items_by_pair["A", "C"]
    assert "i1" not in items_by_pair["A", "B"]
    assert [len(items) for items in items_by_pair.values()] == [11, 11, 12]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"expected": "A"}, "gold, row 1: expected 'A' is not allowed; allowed: 1, equal, 2"),
        ({"expected": "9" * 5000}, "99' is not allowed; allowed: 1, equal, 2"),
        ({"kind": "golden"}, "gold, row 1: kind 'golden' is not allowed; allowed: gold, attention, qualification, ex"),
        ({"item": "i99"}, "gold, row 1: the study has no item 'i99' (did you mean 'i9'?)"),
        ({"system_b": "X"}, "gold, row 1: the study has no system 'X'"),
        ({"system_b": "A"}, "system_a and system_b are both 'A'; give two different systems"),
        ({"text_b": "x"}, "the row has both an item of the study and texts; give either an item or texts"),
        ({"item": "", "text_a": "x"}, "the row has systems as well as texts; give either an item with two systems, or"),
        ({**TEXTS, "text_a": "x"}, "text_b is empty"),
        ({**TEXTS, "text_a": "x", "text_b": "x"}, "row 1: both outputs are equal, so expected must be 'equal'"),
        ({"expected": "equal", "plan": NO_EQUAL}, "does not allow this answer (equal = false)"),
        ({**TEXTS, "text_a": "x", "text_b": "y", "plan": RATE}, "row 1: text_b must be empty"),
        ({"expected": "6", "plan": RATE}, "row 1: expected '6' is not allowed; give a whole number from 1 to 5"),
        ({"expected": "9" * 5000, "plan": RATE}, "99' is not allowed; give a whole number from 1 to 5"),
    ],
)
def test_invalid_rows_are_named(row: dict[str, Any], message: str) -> None:
    whole = {"item": "i0", "system_a": "A", "system_b": "B", "expected": "1", "plan": PLAN, **row}
    plan = whole.pop("plan")
    with pytest.raises(InputError) as error:
        read_gold(pl.DataFrame([whole]), material(), plan)
    assert message in str(error.value)


def test_a_question_has_one_answer() -> None:
    rows = {"item": ["i0", "i0"], "system_a": ["A", "B"], "system_b": ["B", "A"]}
    assert len(read_gold(pl.DataFrame({**rows, "expected": ["1", "2"]}), material(), PLAN)) == 2
    with pytest.raises(InputError, match="gold: rows 1 and 2 expect different answers to the same question; remove"):
        read_gold(pl.DataFrame({**rows, "expected": ["1", "1"]}), material(), PLAN)
    rated = pl.DataFrame({"item": ["i0", "i1"], "system_a": ["A", "B"], "expected": [5, 1]})
    assert [question.expected for question in read_gold(rated, material(), RATE)] == [5, 1]


def test_attention_checks_are_obvious_and_on_both_sides() -> None:
    checks = attention_checks(material(), StudyPlan(annotators=AnnotatorPlan(attention=2)))
    assert len(checks) == 36  # 2 x 20 batches at most, and there are 36 outputs
    assert len({(check.context.label, check.first.text, getattr(check.second, "text", "")) for check in checks}) == 36
    assert {check.expected for check in checks} == {1, 0, -1}
    for check in checks:
        assert check.second is not None
        sides = check.first, check.second
        instruction, output = sides if "This text only checks" in check.first.text else sides[::-1]
        assert "says" in output.text
        if check.expected:
            assert "the other text is better" in instruction.text
            assert (check.expected == 1) == (instruction is check.second)
        else:
            assert "both texts are equal" in instruction.text
    german = attention_checks(material(), StudyPlan(texts=StudyTexts(language="de")))
    assert all("Dieser Text prüft nur" in check.first.text + getattr(check.second, "text", "") for check in german)
    assert {check.expected for check in attention_checks(material(), NO_EQUAL)} == {1, -1}
    assert attention_checks(material(), PLAN) == []


def test_attention_checks_of_the_owner_take_the_place_of_ours(tmp_path: Path) -> None:
    gold = pl.DataFrame({"kind": ["attention"], "text_a": ["Press 1"], "text_b": ["no"], "expected": ["1"]})
    path = new(texts(), tmp_path / "study.db", gold=gold)
    assert query_rows(path, "SELECT count(*) FROM gold") == [(1,)]
