"""A complete study, created from texts and answered over HTTP, has the decisions of the live engine."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import custodes as cu
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


def test_the_live_engine_makes_the_same_decisions(tmp_path: Path) -> None:
    """The live engine makes the same decisions after the same number of answers."""
    study = cu.annotate.new(demo_texts(items=24), tmp_path / "study.db", plan=PLAN)
    with serve_in_thread([study], tell=lambda text: None) as site:
        invitations = site.services["study"].invite(6).result()
        links = [f"{site.url}/s/{token}" for _, token in invitations]
        answer_all(links, study, PLAN, better=0.6, rng=PLAN.seed)
    query = "SELECT item, system_a, system_b, preference FROM battles WHERE role = 'primary'"
    preferences = {(item, a, b): preference for item, a, b, preference in query_rows(study, query)}
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
    assert 1 in [decision for decision, _ in by_study.values()], "with so clear a difference some pair is decided"
    assert 2 not in [decision for decision, _ in by_study.values()], "systems are ordered by quality"
    assert not cu.annotate.status(study).pairs["is_open"].any()
