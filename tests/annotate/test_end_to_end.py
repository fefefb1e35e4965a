"""A complete study: created from texts, answered over HTTP, decided, exported, and read by other commands."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

import custodes as cu
from custodes import cli
from custodes.annotate.demo import demo_texts
from custodes.annotate.plan import AnnotatorPlan, StoppingRule, StudyPlan
from custodes.annotate.server import serve_in_thread
from tests.annotate.simulated_annotators import answer_all
from tests.annotate.studies import query_rows

pytest.importorskip("uvicorn")


PLAN = StudyPlan(
    name="whole",
    annotators=AnnotatorPlan(batch=8, overlap=0.2, cap=0.4),
    stopping=StoppingRule(looks=(6, 12), boundary="pocock", stop="futility"),
    seed=3,
)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a study that six simulated annotators have completed."""
    study = cu.annotate.new(demo_texts(items=24), tmp_path_factory.mktemp("whole") / "study.db", plan=PLAN)
    with serve_in_thread([study], tell=lambda text: None) as site:
        invitations = site.services["study"].invite(6).result()
        links = [f"{site.url}/s/{token}" for _, token in invitations]
        answer_all(links, study, PLAN, better=0.6, rng=PLAN.seed)
    return study


def test_annotators_decide_and_nobody_is_left_waiting(study: Path) -> None:
    pairs = cu.annotate.status(study).pairs
    assert not pairs["is_open"].any()
    assert (pairs["looks_done"] >= 1).all()
    decided = query_rows(study, "SELECT system_a, decision FROM looks WHERE decision <> 0")
    assert decided, "with so clear a difference some pair is decided"
    assert all(decision == 1 for _, decision in decided)  # systems are ordered by quality


def test_the_live_engine_makes_the_same_decisions(study: Path) -> None:
    """The live engine makes the same decisions after the same number of answers."""
    preferences = {
        (item, a, b): preference
        for item, a, b, preference in query_rows(
            study, "SELECT item, system_a, system_b, preference FROM battles WHERE role = 'primary'"
        )
    }
    ending = msgspec.structs.asdict(PLAN.stopping)
    stopping = cu.Stopping(**{name: ending[name] for name in ("stop", "looks", "boundary", "futility", "gamma")})
    items = [item for (item,) in query_rows(study, "SELECT label FROM item ORDER BY item")]
    systems = [system for (system,) in query_rows(study, "SELECT label FROM system ORDER BY system")]
    state = cu.live.start(systems, items, stopping=stopping, seed=PLAN.seed)
    while questions := cu.live.next_annotations(state):
        state = cu.live.record(state, [(*question, preferences[tuple(question)]) for question in questions])
    by_live = {(d.system_a, d.system_b): ("=+-".index(d.decision), d.annotations) for d in cu.live.decisions(state)}
    last = "SELECT system_a, system_b, decision, n FROM looks GROUP BY system_a, system_b HAVING look = max(look)"
    by_study = {(a, b): (decision % 3, n) for a, b, decision, n in query_rows(study, last)}
    assert by_study == by_live


def test_second_opinions_are_no_evidence_on_systems(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    roles = dict(query_rows(study, "SELECT role, count(*) FROM battles WHERE preference IS NOT NULL GROUP BY role"))
    assert roles["second"] > 0
    assert cu.read(study).preferences.frame.height == roles["primary"]
    capsys.readouterr()
    assert cli.run(["leaderboard", str(study), "--resamples", "20", "--format", "json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert {row["system"] for row in table["systems"]} == {"Aster", "Birch", "Cedar"}


def test_the_report_is_made_of_the_study_itself(study: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert cli.run(["report", str(study), "-o", str(page), "--resamples", "20"]) == 0
    html = page.read_text(encoding="utf-8")
    assert "Aster" in html
    assert "Annotators" in html
