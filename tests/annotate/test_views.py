"""Views of the study file for SQLite clients."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from custodes.annotate.service import Service
from custodes.annotate.views import Skip, Undo
from tests.annotate.studies import (
    ManualClock,
    answer_correctly,
    answer_to,
    current_question,
    expected_answer,
    new_annotator,
    open_service,
    plan_of,
    study,
)

PLAN = plan_of(
    annotators={"cap": 1.0, "gold_every": 8, "attention": 1, "overlap": 0.5, "batch": 16},
    stopping={"looks": (8, 40), "stop": "decided", "boundary": 9.0},
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Yield a service after answers with an undo, a skip, a late answer and an exclusion."""
    clock = ManualClock()
    path = study(tmp_path_factory.mktemp("views") / "study.db", plan=PLAN, systems=2, items=20)
    with open_service(path, clock) as service:
        first, second, third = (new_annotator(service) for _ in range(3))
        for value in (1, 0, 0, -1):
            clock.wait(10)
            answer_correctly(service, first, value)
        view = current_question(service, first)
        service.act(first, Undo(assignment=view.assignment)).result()
        answer_correctly(service, first, 1)
        while expected_answer(service, current_question(service, second)) is not None:
            answer_correctly(service, second, 0)
        broken = current_question(service, second).assignment
        clock.wait(3)
        service.act(second, Skip(assignment=broken, reason="broken", seconds=2.5)).result()
        for _ in range(7):
            answer_correctly(service, second, 0, seconds=None)
        question = current_question(service, first)
        clock.wait(5000)
        service.view(second).result()
        service.act(first, answer_to(service, question, 1)).result()
        answer_correctly(service, third, 1)
        while not service.snapshot().result().pairs[0].looks_done:
            answer_correctly(service, third, 1)
        service.exclude("w003", "asked to").result()
        yield service


def read(service: Service, query: str) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(service.path)) as base:
        base.row_factory = sqlite3.Row
        return [dict(row) for row in base.execute(query)]


def test_answers_contain_every_judgment(service: Service) -> None:
    rows = read(service, "SELECT * FROM answers")
    judged = read(service, "SELECT * FROM judgment ORDER BY judgment")
    assert [row["answer_id"] for row in rows] == [record["judgment"] for record in judged]
    assert {row["rater"] for row in rows} == {"w001", "w002", "w003"}
    assert [row["excluded"] for row in rows] == [int(row["rater"] == "w003") for row in rows]
    assert sum(row["taken_back"] for row in rows) == 1
    assert {row["role"] for row in rows} >= {"primary", "second"}
    for row in rows:
        assert (row["known"] is None) == (row["item"] is not None) == (row["expected"] is None)
        assert row["known"] is None or row["role"] == row["known"]
        assert row["p_role"] is None or 0 < row["p_role"] <= 1
        assert row["order"] in ("ab", "ba")
    assignments = {record["assignment"]: record for record in read(service, "SELECT * FROM assignment")}
    assert all(row["order"] == ("ba" if assignments[row["assignment"]]["flip"] else "ab") for row in rows)


def test_battles_contain_the_valid_answers(service: Service) -> None:
    rows = read(service, "SELECT * FROM battles")
    columns = "item system_a system_b rater kind aspect repeat order preference invalid role seconds"
    assert [*rows[0]] == columns.split()
    query = "SELECT * FROM answers WHERE item IS NOT NULL AND NOT taken_back AND rater <> 'w003' ORDER BY answer_id"
    answers = read(service, query)
    assert [(row["item"], row["preference"], row["rater"], row["role"]) for row in rows] == [
        (answer["item"], answer["answer"], answer["rater"], answer["role"]) for answer in answers
    ]
    assert len({(row["item"], row["rater"]) for row in rows}) == len(rows)  # only the last answer of an annotator
    refused = [row for row in rows if row["preference"] is None]
    assert [(row["invalid"], row["seconds"]) for row in refused] == [("broken", 2.5)]
    primary = [row["item"] for row in rows if row["role"] == "primary" and row["preference"] is not None]
    assert len(set(primary)) == len(primary)
    assert {(row["system_a"], row["system_b"], row["kind"]) for row in rows} == {("s0", "s1", "human")}


def test_other_views(service: Service) -> None:
    assert read(service, "SELECT rater, person, excluded FROM raters") == [
        {"rater": f"w00{k}", "person": 1, "excluded": int(k == 3)} for k in (1, 2, 3)
    ]
    assert read(service, "SELECT * FROM items")[3] == {"item": "i3", "cluster": "d1", "group": ""}
    assert read(service, "SELECT * FROM outputs")[1] == {"item": "i0", "system": "s1", "text": "text 0 1"}
    expected = {"item": "i2", "source": "source 2", "context": "", "references": "[]"}
    assert read(service, "SELECT * FROM sources")[2] == expected
    assert read(service, "SELECT * FROM ratings") == []
    (look,) = read(service, "SELECT * FROM looks")
    assert (look["system_a"], look["system_b"], look["look"], look["n"]) == ("s0", "s1", 1, 8)
    assert {row["look"] for row in read(service, "SELECT look FROM answers WHERE asked_as = 'primary'")} == {1}
    query = f"""SELECT answer FROM answers WHERE role = 'primary' AND NOT taken_back AND answer IS NOT NULL
        AND place IN (SELECT value FROM json_each('{look["used"]}'))"""
    answers = [row["answer"] for row in read(service, query)]
    assert (look["wins"], look["ties"], look["losses"]) == tuple(answers.count(value) for value in (1, 0, -1))
