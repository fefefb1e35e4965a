"""The report section on annotators, and reports of studies with human ratings only."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.annotate.plan import Money, StudyPlan
from custodes.data.study import Study
from custodes.errors import InputError
from custodes.evaluate.annotators.annotators import Annotators
from custodes.reporting import Report
from custodes.reporting.sections.annotators import (
    ANNOTATORS,
    INFLATED,
    cost_sentences,
    last_interim_analyses,
    looks_sentences,
)
from tests.data.annotation_files import Said, connected, exclude, look, new_file, say

SYSTEMS = ("Aster", "Birch", "Cedar")
PAIRS = (("Aster", "Birch"), ("Aster", "Cedar"), ("Birch", "Cedar"))


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Twelve annotators, of whom an excluded one gave all ratings that prefer Birch to Cedar."""
    path = tmp_path_factory.mktemp("people") / "study.db"
    plan = StudyPlan(money=Money(price=0.2, fee=0.3))
    new_file(path, items=[f"d{n}" for n in range(30)], systems=SYSTEMS, plan=plan)
    rng = np.random.default_rng(0)
    with closing(connected(path)) as base:
        for pair, (first, second) in enumerate(PAIRS):
            for n in range(30):
                worker, partner = (int(value) for value in rng.choice(11, 2, replace=False) + 1)
                answer = int(rng.choice([1, 0, -1], p=[0.6, 0.2, 0.2])) if pair < 2 else -1
                if pair == 2 and n < 20:
                    worker, answer = 12, 1
                answers = Said(
                    worker=worker, item=f"d{n}", first=first, second=second, answer=answer, flip=n % 2, seconds=20
                )
                say(base, answers)
                if n % 2:
                    say(base, Said(**{**vars(answers), "worker": partner, "role": "second"}))
        look(base, 0, 1, (5, 3, 2), 0, is_open=1)
        look(base, 0, 2, (18, 6, 6), 1)
        look(base, 1, 1, (9, 1, 0), 1)
        look(base, 2, 1, (20, 0, 10), 1)
        exclude(base, 12)
    return cu.read(path)


@pytest.fixture(scope="module")
def people_report(study: Study) -> Report:
    return cu.report(study, resamples=20)


def test_a_page_of_people_alone(people_report: Report) -> None:
    assert set(people_report.results) == {"check", "leaderboard", "annotators"}
    assert set(people_report.context.absent) == {"protocol", "plan"}
    assert "{metric}" not in people_report.html.split('<script type="text/plain"')[0]
    assert people_report.verdict.provenance.question == "verdict"
    kinds = people_report.verdict.verdict["kind"].unique(maintain_order=True).to_list()
    assert kinds == ["design", "best", "annotators", "labels"]


def test_the_section_tells_who_answered_and_what_stopped(people_report: Report) -> None:
    section = people_report.html.split('id="annotators">')[1].split("</details>")[0]
    for phrase in (
        "Half of the answers took 20 seconds or less.",
        "20 answers of excluded annotators are left out (number of these annotators: 1)",
        "Interim analyses",
        "Number and agreement of annotators",
        "excluded annotators, the data no longer support the earlier decision on Birch and Cedar",
        "a true margin of 0.20, the mean margin of such pairs was 0.46",
    ):
        assert phrase in section.replace("\u00a0", " "), phrase
    assert "Competence of annotators" not in section  # no annotator shares enough tasks with others


def test_what_was_judged_stands_beside_what_counts_now(study: Study) -> None:
    rows = last_interim_analyses(study).select("system_a", "system_b", "looks", "n", "said", "margin_now").rows()
    assert [row[:5] for row in rows] == [
        ("Aster", "Birch", 2, 30, "Aster"),
        ("Aster", "Cedar", 1, 10, "Aster"),
        ("Birch", "Cedar", 1, 30, "Birch"),
    ]
    assert rows[2][5] == -1
    lines = looks_sentences(last_interim_analyses(study))
    assert lines[0] == INFLATED
    assert lines[1].endswith("the earlier decision on Birch and Cedar.")


def test_without_looks_or_decisions_nothing_is_said_of_them(study: Study) -> None:
    assert looks_sentences(last_interim_analyses(cu.read("demo"))) == []
    open_ = study.looks.with_columns(decision=pl.lit(0, dtype=pl.Int64))
    assert looks_sentences(open_.with_columns(said=pl.lit("="))) == []


def test_pay_by_the_hour(study: Study) -> None:
    n = study.preferences.frame.height + study.second.frame.height
    assert cost_sentences(study).endswith(
        f"cost {n * 0.26:.2f} usd. At the median time per answer, the cost is 46.80 usd per hour."
    )
    assert cost_sentences(cu.read("demo")) == ""


def test_one_person_has_nobody_to_be_compared_with() -> None:
    rows = pl.DataFrame(
        {"item": ["1", "2"], "system_a": "A", "system_b": "B", "rater": "ann", "kind": "human", "winner": "A"}
    )
    people_report = cu.report(cu.read(rows), resamples=20)
    assert people_report.context.absent["annotators"].startswith("the study has fewer than two annotators")


def test_nobody_to_ask_about() -> None:
    rows = pl.DataFrame({"item": ["1"], "system": ["A"], "rater": ["ann"], "kind": ["human"], "score": [1]})
    with pytest.raises(InputError, match="only 1 system"):
        cu.report(cu.read(rows), resamples=20)


def test_slots_are_named_and_have_no_flags(demo_report: Report) -> None:
    def section(result: Annotators) -> str:
        results = {**demo_report.results, "annotators": result}
        changed = replace(demo_report.context, results=results)
        return ANNOTATORS.html(changed, *ANNOTATORS.build_content(changed))

    persons, slots = (
        section(cu.annotators(cu.read("demo"), annotator_type=kind, resamples=20)) for kind in ("persons", "slots")
    )
    assert ">Flags<" in persons
    assert ">Flags<" not in slots
