"""Choice of the next question, with the probabilities that are logged with it."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random

import msgspec
import pytest

from custodes.annotate import assignment_policy
from custodes.annotate.assignments import Assignments, Quota
from custodes.annotate.participants import Unit
from custodes.annotate.service import Service
from custodes.annotate.views import Ask, Begin, Break, Decline, VisitEnd, Wait
from tests.annotate.studies import (
    answer,
    answer_correctly,
    check_restart,
    current_question,
    new_annotator,
    open_service,
    plan_of,
    query_rows,
    study,
)

DRAWS = 4000
UNKNOWN = {"gold_every": 0, "attention": 0}
"""Settings without known questions."""
ALONE = {"cap": 1.0, "overlap": 0.0, **UNKNOWN}
LONG = {"looks": (10, 40), "stop": "decided", "boundary": 9.0}
"""Two interim analyses that decide nothing."""


def check_frequencies(service: Service, label: str) -> list[assignment_policy.NextQuestion]:
    """Draw the next question of an annotator repeatedly from the same state, and check that roles and pairs (or rated
    outputs) have the probabilities that are logged with them."""
    state = service._log.state
    worker = next(candidate for candidate in state.workers.values() if candidate.label == label)
    draws = [assignment_policy.next_real_question(state, worker, Random(k)) for k in range(DRAWS)]
    choices = [choice for choice in draws if choice is not None and choice.unit is not None]
    for role in ("primary", "second"):
        same_role = [choice for choice in choices if choice.role == role]
        p = same_role[0].p_role
        assert len(same_role) / DRAWS == pytest.approx(p, abs=4 * (p * (1 - p) / DRAWS) ** 0.5)
        is_rating = service.plan.question.mode == "rate" and role == "primary"
        counts = Counter(choice.unit.id if is_rating else choice.unit.pair for choice in same_role)
        q = 1 / len(counts)
        assert {(choice.p_role, choice.p_pair) for choice in same_role} == {(p, q)}
        for n in counts.values():
            assert n / len(same_role) == pytest.approx(q, abs=4 * (q * (1 - q) / len(same_role)) ** 0.5 + 1e-9)
    return choices


@pytest.mark.parametrize("systems", [2, 4])
def test_logged_probabilities_match_frequencies(tmp_path: Path, systems: int) -> None:
    plan = plan_of(annotators={"batch": 30, **UNKNOWN, "overlap": 0.2}, seed=2)
    with open_service(study(tmp_path / "study.db", plan=plan, systems=systems)) as service:
        for k in range(4):
            token = new_annotator(service)
            for value in range(1 if systems == 2 else 3 + k):
                answer(service, token, value % 3 - 1)
        new_annotator(service)
        choices = check_frequencies(service, "w005")
        places = {choice.unit.place for choice in choices if choice.role == "primary" and choice.unit is not None}
        assert max(places) < 10  # within the interim analysis


def test_logged_probabilities_of_ratings_match_frequencies(tmp_path: Path) -> None:
    plan = plan_of(question={"mode": "rate"}, annotators={"cap": 1.0, "overlap": 0.25, "batch": 40, **UNKNOWN})
    with open_service(study(tmp_path / "study.db", plan=plan, systems=4, items=12)) as service:
        for n in (9, 14):
            token = new_annotator(service)
            for value in range(n):
                answer(service, token, 1 + value % 5)
        check_frequencies(service, "w002")


def work(service: Service, tokens: list[str], *, value: int = 0) -> Counter[str]:
    """Let annotators answer in turn until none has a task, and count why they ended."""
    ends: Counter[str] = Counter()
    remaining = list(tokens)
    while remaining:
        for token in list(remaining):
            view = service.view(token).result()
            if isinstance(view, Ask):
                answer_correctly(service, token, value)
            elif isinstance(view, Break):
                service.act(token, Begin()).result()
            elif isinstance(view, VisitEnd):
                ends[view.why] += 1
                remaining.remove(token)
            else:
                assert isinstance(view, Wait)  # others still have open questions
    return ends


def test_sides_are_balanced_in_every_prefix(tmp_path: Path) -> None:
    plan = plan_of(stopping={**LONG, "looks": (20, 40)}, annotators={"cap": 1.0, **UNKNOWN})
    with open_service(study(tmp_path / "study.db", plan=plan, systems=3, items=40)) as service:
        assert work(service, [new_annotator(service) for _ in range(6)]) == {"no-work": 6}
        query = "SELECT pair, place, \"order\" FROM answers WHERE role = 'primary' ORDER BY pair, place"
        rows = query_rows(service.path, query)
    orders = [tuple(order for row_pair, _, order in rows if row_pair == pair) for pair in range(3)]
    for order in orders:
        assert len(order) == 40
        assert all(abs(order[:n].count("ab") - order[:n].count("ba")) <= 1 for n in range(1, 41))
    assert len(set(orders)) == 3  # drawn per pair


def test_shares_are_limited_with_open_recruitment(tmp_path: Path) -> None:
    plan = plan_of(stopping=LONG, annotators={"overlap": 0.0, "recruit": "open", **UNKNOWN})
    with open_service(study(tmp_path / "study.db", plan=plan, items=60)) as service:
        tokens = [new_annotator(service) for _ in range(4)]
        work(service, tokens)
        assert service.snapshot().result().pairs[0].answered == 8  # two per annotator; more annotators are needed
        work(service, [new_annotator(service) for _ in range(20)])
        state = service._log.state
        assert max(worker.load[0] for worker in state.workers.values()) <= 4
        assert service.snapshot().result().pairs[0].answered == 40


@pytest.mark.parametrize("annotators", [1, 4])
def test_few_annotators_with_links_share_all_of_it(tmp_path: Path, annotators: int) -> None:
    plan = plan_of(stopping=LONG, annotators={"overlap": 0.0, **UNKNOWN})
    with open_service(study(tmp_path / "study.db", plan=plan, items=60)) as service:
        tokens = [new_annotator(service) for _ in range(annotators)]
        assert work(service, tokens) == {"no-work": annotators}
        pair, state = service.snapshot().result().pairs[0], service._log.state
        assert (pair.n, pair.is_open, pair.annotators) == (40, False, annotators)
        assert max(worker.load[0] for worker in state.workers.values()) <= -(-40 // annotators)


def test_absent_annotators_take_no_share(tmp_path: Path) -> None:
    plan = plan_of(stopping=LONG, annotators={"overlap": 0.0, **UNKNOWN})
    with open_service(study(tmp_path / "study.db", plan=plan, items=60)) as service:
        tokens = [new_annotator(service) for _ in range(4)]
        ((label, other_token),) = service.invite(1).result()
        assert assignment_policy.count_able_annotators(service._log.state) == 5
        service.act(other_token, Decline()).result()
        service.exclude("w004", "asked to").result()
        assert (label, assignment_policy.count_able_annotators(service._log.state)) == ("w005", 3)
        assert work(service, tokens) == {"no-work": 3, "excluded": 1}
        assert not service.snapshot().result().pairs[0].is_open


@pytest.mark.parametrize("mode", ["compare", "rate"])
def test_idle_annotators_give_no_more_second_opinions(tmp_path: Path, mode: str) -> None:
    annotators = {"recruit": "open", "cap": 1.0, "overlap": 0.12, "gold_every": 15, "attention": 0}
    plan = plan_of(question={"mode": mode}, stopping=LONG, annotators=annotators)
    gold_counts = {"gold": 30} if mode == "compare" else {}
    path = study(tmp_path / "study.db", plan=plan, systems=3, items=40, known_questions=gold_counts)
    with open_service(path) as service:
        work(service, [new_annotator(service) for _ in range(20)], value=int(mode == "rate"))
        now = service.snapshot().result()
    assert not any(pair.is_open for pair in now.pairs)
    assert now.primary == 120
    assert 5 <= now.second <= 0.12 * now.answers + assignment_policy.BEYOND
    assert max(person.gold_asked for person in now.annotators) <= 1 + assignment_policy.BEYOND


def test_known_comparisons_stand_at_random_places(tmp_path: Path) -> None:
    plan = plan_of(annotators={"cap": 1.0, "batches": 2}, stopping={**LONG, "looks": (60, 80)})
    known_questions = {"gold": 9, "attention": 9}
    path = study(tmp_path / "study.db", plan=plan, systems=4, items=80, known_questions=known_questions)
    with open_service(path) as service:
        assert work(service, [new_annotator(service) for _ in range(12)]) == {"finished": 12}
        rows = query_rows(
            service.path, "SELECT worker, batch, number, role, gold FROM assignment WHERE gold IS NOT NULL"
        )
    by_batch = Counter((worker, batch, role) for worker, batch, _, role, _ in rows)
    counts = {(batch, role, n) for (_, batch, role), n in by_batch.items()}
    assert counts == {(1, "gold", 2), (2, "gold", 1), (1, "attention", 1), (2, "attention", 1)}
    assert max(Counter((worker, gold) for worker, _, _, _, gold in rows).values()) == 1  # no known question is repeated
    assert len({number for _, _, number, _, _ in rows}) > 10


@pytest.mark.parametrize(
    ("values", "outcome", "agreed"),
    [((1, 1, -1), (4, 0, 0), (4, 4, 0)), ((1, 0, 0), (4, 0, 0), (0, 4, 4)), ((1, 0, -1), (0, 4, 0), (0, 0, 0))],
    ids=str,
)
def test_three_answers_count_by_the_sign_of_their_sum(
    tmp_path: Path, values: tuple[int, ...], outcome: tuple[int, ...], agreed: tuple[int, ...]
) -> None:
    plan = plan_of(annotators={**ALONE, "per_item": 3}, stopping={"looks": (4,), "stop": "decided"})
    with open_service(study(tmp_path / "study.db", plan=plan, items=4)) as service:
        tokens = []
        for value in values:
            tokens.append(token := new_annotator(service))
            for _ in range(4):
                flip = service._log.state.issued[current_question(service, token).assignment].flip
                answer(service, token, -value if flip else value)
            if len(tokens) < 3:
                assert service.snapshot().result().pairs[0].partial == 4 * len(tokens)
        assert work(service, tokens) == {"no-work": 3}
        now = service.snapshot().result()
        pair = now.pairs[0]
        assert (pair.n, pair.wins, pair.ties, pair.losses, pair.is_open) == (4, *outcome, False)
        # Each of four answers is compared with the answers of two others.
        assert [(person.doubled, person.agreed) for person in now.annotators] == [(8, equal) for equal in agreed]
        assert query_rows(service.path, "SELECT count(*) FROM battles") == [(12,)]


@pytest.mark.parametrize(("per_item", "budget", "outputs"), [(1, 7, [3, 2, 2]), (2, 7, [1, 1, 1]), (1, 30, [6, 6, 6])])
def test_ratings_end_with_their_budget(tmp_path: Path, per_item: int, budget: int, outputs: list[int]) -> None:
    """Ratings are spread evenly over systems in their fixed order, and continue after a larger budget."""
    plan = plan_of(question={"mode": "rate"}, annotators={**ALONE, "per_item": per_item}, stopping={"budget": budget})
    with open_service(study(tmp_path / "study.db", plan=plan, systems=3, items=6)) as service:
        tokens = [new_annotator(service) for _ in range(3)]
        assert work(service, tokens, value=4) == {"no-work": 3}
        pairs = service.snapshot().result().pairs
        assert [(pair.answered, pair.wanted, pair.is_open) for pair in pairs] == [(n, n, False) for n in outputs]
        assert service.snapshot().result().primary == per_item * sum(outputs)
        query = "SELECT max(u.place) FROM assignment a JOIN unit u ON u.unit = a.unit WHERE a.role = 'primary'"
        assert query_rows(service.path, query) == [(max(outputs) - 1,)]
        more = msgspec.structs.replace(plan, stopping=msgspec.structs.replace(plan.stopping, budget=budget + 6))
        service.replan(more).result()
        assert any(pair.is_open for pair in service.snapshot().result().pairs) == (budget < 18)
        check_restart(service)


def test_a_question_does_not_visit_every_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, the time of an answer is proportional to the number of items and pairs."""
    plan = plan_of(annotators=ALONE, stopping={"looks": (200,), "boundary": 9.0})
    with open_service(study(tmp_path / "study.db", plan=plan, items=200)) as service:
        token = new_annotator(service)
        visited, lacks = list[int](), Assignments.lacks

        def record(assignments: Assignments, unit: Unit) -> int:
            visited.append(unit.id)
            return lacks(assignments, unit)

        monkeypatch.setattr(Assignments, "lacks", record)
        answer(service, token, 1)
        n_pairs = len(service._log.state.assignments.units_of_pair)
        assert 0 < len(visited) < 10 * n_pairs


def test_skipped_outputs_cost_no_budget() -> None:
    quota = Quota([3, 1], budget=3)
    assert [list(quota.iterate_free_slots(pair)) for pair in (0, 1)] == [[0, 1], [0]]
    quota.impossible(1, 0)
    assert (list(quota.iterate_free_slots(0)), quota.is_open, quota.target) == ([0, 1, 2], [True, False], [3, 0])
    quota.impossible(0, 1)
    assert (list(quota.iterate_free_slots(0)), quota.target) == ([0, 2], [2, 0])
    quota = Quota([3, 3], budget=3)
    assert [list(quota.iterate_free_slots(pair)) for pair in (0, 1)] == [[0, 1], [0]]
    quota.set_budget(None)
    assert [list(quota.iterate_free_slots(pair)) for pair in (0, 1)] == [[0, 1, 2], [0, 1, 2]]


def test_a_budget_counts_the_answers_of_a_comparison(tmp_path: Path) -> None:
    stopping = {"looks": (4, 8), "stop": "decided", "boundary": "none", "budget": 10}
    plan = plan_of(annotators={**ALONE, "per_item": 3}, stopping=stopping)
    with open_service(study(tmp_path / "study.db", plan=plan, items=8)) as service:
        assert work(service, [new_annotator(service) for _ in range(3)]) == {"no-work": 3}
        now = service.snapshot().result()
        assert (now.primary, now.pairs[0].answered) == (9, 3)


def test_ratings_of_an_item_are_by_one_annotator_and_not_adjacent(tmp_path: Path) -> None:
    plan = plan_of(question={"mode": "rate"}, annotators={**ALONE, "batch": 60})
    with open_service(study(tmp_path / "study.db", plan=plan, systems=3, items=12)) as service:
        tokens = [new_annotator(service) for _ in range(2)]
        assert work(service, tokens, value=4) == {"no-work": 2}
        rows = query_rows(service.path, "SELECT rater, item, system, score FROM ratings")
        assert query_rows(service.path, "SELECT count(*) FROM battles") == [(0,)]
        assert all(not pair.is_open for pair in service.snapshot().result().pairs)
    assert len(rows) == 36
    raters = {item: {rater for rater, row_item, *_ in rows if row_item == item} for _, item, *_ in rows}
    assert sum(len(names) == 1 for names in raters.values()) >= 10
    for rater in ("w001", "w002"):
        items = [item for row_rater, item, *_ in rows if row_rater == rater]
        assert sum(a == b for a, b in pairwise(items)) <= 1  # only at the end
