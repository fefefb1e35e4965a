"""The owner's pages: authentication, content, confidentiality and actions."""

from __future__ import annotations

import base64
import csv
import io
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from custodes.annotate.service import Service
from custodes.annotate.study_file import StudyBusy
from custodes.annotate.study_status import status
from custodes.annotate.views import Ask, Begin, Break, Comment, Skip
from tests.annotate import studies
from tests.annotate.studies import (
    answer,
    answer_correctly,
    current_question,
    new_annotator,
    plan_of,
    query_rows,
    state_of,
)

pytest.importorskip("starlette")

from starlette.testclient import TestClient

from tests.annotate.requests import SAME_ORIGIN, URL, post, signed_in, visitor


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    plan = plan_of(money={"price": 0.15}, annotators={"cap": 1.0}, stopping={"budget": 80})
    path = studies.study(tmp_path / "study.db", systems=3, plan=plan)
    with closing(Service.open(path, durable=False)) as service:
        yield service


@pytest.fixture
def client(service: Service) -> Iterator[TestClient]:
    """Yield a client that is not signed in."""
    with visitor(service) as client:
        yield client


@pytest.fixture
def owner(client: TestClient) -> TestClient:
    """Return a client that is signed in as the owner."""
    assert client.get("/admin?key=the-key").status_code == 200
    return client


def annotator_with_answers(service: Service, answers: int) -> str:
    token = new_annotator(service)
    for n in range(answers):
        if isinstance(answer_correctly(service, token, (1, 0, -1)[n % 3]), Break):
            service.act(token, Begin()).result()
    return token


PAGES = ["/admin", "/admin/study", "/admin/study/questions", "/admin/study/annotators/w001", "/admin/study/codes.csv"]
ACTS = ["pause", "resume", "stop", "reopen", "exclude", "forget", "invite", "replan"]


def test_pages_and_acts_need_a_key(client: TestClient, service: Service) -> None:
    before = state_of(service)
    for path in (*PAGES, "/admin/none"):
        reply = client.get(path)
        assert (reply.status_code, "serve" in reply.text, "study.db" in reply.text) == (403, True, False), path
    for act in ACTS:
        assert post(client, f"/admin/study/{act}", annotators="1", worker="w001").status_code == 403, act
    assert state_of(service) == before


def test_a_key_works_once(client: TestClient) -> None:
    assert client.head("/admin?key=the-key").status_code == 403  # link checkers do not use the key
    first = client.get("/admin?key=the-key", follow_redirects=False)
    assert (first.status_code, first.headers["location"]) == (303, "/admin")
    cookie = first.headers["set-cookie"].lower()
    assert all(part in cookie for part in ("httponly", "samesite=strict", "path=/admin"))
    assert client.get("/admin").status_code == 200
    client.cookies.clear()
    assert client.get("/admin?key=the-key").status_code == 403


def test_a_key_from_another_site(client: TestClient) -> None:
    """Browsers omit strict cookies on redirects from other sites, so the page contains a link."""
    page = client.get("/admin?key=the-key", headers={"Sec-Fetch-Site": "cross-site"}, follow_redirects=False)
    assert (page.status_code, 'href="/admin"' in page.text) == (200, True)
    assert client.get("/admin").status_code == 200


def test_a_sign_in_ends(owner: TestClient) -> None:
    (cookie,) = owner.cookies.values()
    post(owner, "/admin/leave")
    assert owner.get("/admin").status_code == 403
    owner.cookies.set("custodes_owner", cookie, path="/admin")
    assert owner.get("/admin").status_code == 403  # a copied cookie is invalid after signing out


def test_cookies_are_signed(owner: TestClient, service: Service) -> None:
    (value,) = owner.cookies.values()
    payload, _, rest = value.partition(".")
    other_client = visitor(service, secret="t" * 32)
    other_client.get("/admin?key=the-key")
    more = base64.b64encode(b'{"owner": true, "more": 1}').decode()
    forged = [payload, f"{payload}.", value[:-1], value[:-4] + "AAAA", f"{more}.{rest}", f"{more}.", "x", ""]
    for cookie in (*forged, *other_client.cookies.values()):
        owner.cookies.clear()
        owner.cookies.set("custodes_owner", cookie, path="/admin")
        assert owner.get("/admin").status_code == 403, cookie
    secure_client = visitor(service, public_url="https://ask.example.org")
    reply = secure_client.get("/admin?key=the-key", follow_redirects=False)
    assert "; secure" in reply.headers["set-cookie"].lower()


FOREIGN: dict[str, dict[str, str]] = {
    "nothing": {},
    "another origin": {"Origin": "https://evil.example"},
    "another port": {"Origin": f"{URL}:81"},
    "another scheme": {"Origin": URL.replace("http", "https")},
    "a sandbox": {"Origin": "null"},
    "another site": {"Sec-Fetch-Site": "cross-site", "Origin": URL},
    "another host of the site": {"Sec-Fetch-Site": "same-site", "Origin": URL},
    "an address bar": {"Sec-Fetch-Site": "none"},
}


def test_forms_of_other_pages_and_get_requests_change_nothing(owner: TestClient, service: Service) -> None:
    before = state_of(service)
    for kind, headers in FOREIGN.items():
        for path in ("/admin/leave", *(f"/admin/study/{act}" for act in ACTS)):
            assert post(owner, path, headers, annotators="1", worker="w001").status_code == 403, (kind, path)
    for act in ACTS:
        assert owner.get(f"/admin/study/{act}").status_code in (404, 405)
    for page in PAGES[:3]:
        assert owner.get(page).status_code == 200
    assert "No annotators yet" in owner.get("/admin/study").text
    assert state_of(service) == before


def test_own_forms_are_recognised_by_either_header(owner: TestClient, service: Service) -> None:
    for headers in (SAME_ORIGIN, {"Sec-Fetch-Site": "same-origin"}):
        for act, state in (("pause", "paused"), ("resume", "open")):
            assert post(owner, f"/admin/study/{act}", headers).status_code == 200
            assert service.state().result() == state


def test_an_open_pair_shows_no_numbers(owner: TestClient, service: Service) -> None:
    """Undecided pairs show no results, neither of current nor of completed interim analyses."""
    for _ in range(3):
        annotator_with_answers(service, 12)
    now = service.snapshot().result()
    page = owner.get("/admin/study").text
    rows = re.findall(r"<tr><th scope=\"row\">(s\d – s\d)</th>(.*?)</tr>", page, re.DOTALL)
    for pair, (name, cells) in zip(now.pairs, rows, strict=True):
        assert name == f"{pair.first} – {pair.second}"
        assert f"{pair.answered} of {pair.wanted}" in cells or not pair.is_open
        if pair.is_open:
            assert re.findall(r"<td[^>]*>(.*?)</td>", cells, re.DOTALL)[2:5] == ["undecided", "–", "–"]
    assert any(pair.is_open for pair in now.pairs)


def test_who_began_and_what_is_finished(tmp_path: Path) -> None:
    plan = plan_of(annotators={"cap": 1.0, "overlap": 0.0}, stopping={"looks": (6,), "stop": "decided"})
    path = studies.study(tmp_path / "study.db", plan=plan, known_questions={})
    with closing(Service.open(path, durable=False)) as service:
        token = annotator_with_answers(service, 2)
        service.invite(3).result()
        client = signed_in(service)
        assert "<dd>1<small>started, of 4 invited" in client.get("/admin/study").text
        assert ">1 of 4</td>" in client.get("/admin").text
        for current in (token, token, token, new_annotator(service)):
            answer(service, current)
        assert 'class="state finished"' in client.get("/admin/study").text
    assert status(path).study.select("state", "invited", "began").row(0) == ("finished", 5, 2)


def test_annotators_are_excluded(owner: TestClient, service: Service) -> None:
    annotator_with_answers(service, 9)
    page = owner.get("/admin/study/annotators/w001").text
    assert sum(map(page.count, ("shown</td>", "equal</td>", ", correct", ", incorrect"))) >= 9
    assert not re.search(r"\bs\d\b", page)  # no system is named
    assert owner.get("/admin/study/annotators/w002").status_code == 404
    page = post(owner, "/admin/study/exclude", worker="w001", reason="fell asleep").text
    assert "The annotator is excluded" in page
    assert service.snapshot().result().annotators[0].standing == "excluded"
    assert "<summary>Exclude" not in owner.get("/admin/study/annotators/w001").text


def test_invalid_acts_are_reported(owner: TestClient, service: Service) -> None:
    before = state_of(service)
    numbers = ("0", "x", "501", "1e3", "-1", "9" * 400, "²")
    for act, fields in (
        ("exclude", {"worker": "w999"}),
        ("replan", {"price": "-1", "most": "10", "budget": ""}),
        *(("invite", {"annotators": number}) for number in numbers),
    ):
        reply = post(owner, f"/admin/study/{act}", **fields)
        assert (reply.status_code, 'role="alert"' in reply.text) == (409, True), fields
    for path in ("/admin/study/explode", "/admin/none/pause"):
        assert post(owner, path).status_code == 404
    assert state_of(service) == before


def test_a_full_disk_is_reported_until_there_is_room(owner: TestClient, service: Service) -> None:
    message = "Answers cannot be written: No space left. The annotation pages keep the answers and send them again."
    token = new_annotator(service)
    (pages,) = service._connection.execute("PRAGMA page_count").fetchone()
    service._connection.execute(f"PRAGMA max_page_count = {pages}").fetchone()
    with pytest.raises(StudyBusy):
        service.invite(2000).result()
    for _ in range(3):  # reading does not end the failure
        assert all(message in owner.get(page).text for page in ("/admin", "/admin/study"))
        reply = owner.get("/health")
        assert (reply.status_code, reply.text) == (503, "cannot write")
        assert isinstance(service.view(token).result(), Ask)
    reply = post(owner, "/admin/study/pause")
    assert (reply.status_code, message in reply.text) == (503, True)
    service._connection.execute("PRAGMA max_page_count = 1000000").fetchone()
    reply = owner.get("/health")
    assert (reply.status_code, reply.text) == (200, "ok")
    assert not any("cannot be written" in owner.get(page).text for page in ("/admin", "/admin/study"))
    assert service.snapshot().result().answers == 0


def test_invitations_limits_and_reasons(owner: TestClient, service: Service) -> None:
    page = post(owner, "/admin/study/invite", annotators="3").text
    links = re.findall(rf"(w\d+) ({URL}/s/[\w-]+)", page)
    assert len({label for label, _ in links}) == len({link for _, link in links}) == 3
    assert all(owner.get(link).status_code == 200 for _, link in links)
    assert not any(link in owner.get("/admin/study").text for _, link in links)
    assert post(owner, "/admin/study/replan", price="0.25", most="40", budget="90").status_code == 200
    assert (service.plan.money.price, service.plan.annotators.most, service.plan.stopping.budget) == (0.25, 40, 90)
    post(owner, "/admin/study/stop", why="the budget is spent")
    assert "Reopen" in owner.get("/admin/study").text
    assert "the budget is spent" in str(query_rows(service.path, "SELECT json FROM event WHERE kind = 'stopped'"))


def test_troubled_questions_comments_and_ids(owner: TestClient, service: Service) -> None:
    token = new_annotator(service)
    comment = Comment(text="<b>both</b> are off", assignment=current_question(service, token).assignment)
    service.act(token, comment).result()
    for _ in range(4):  # some are known comparisons
        service.act(token, Skip(assignment=current_question(service, token).assignment, reason="broken")).result()
    page = owner.get("/admin/study/questions").text
    assert "&lt;b&gt;both&lt;/b&gt; are off" in page
    assert "broken" in page
    service.join(external_id="anna", address="192.0.2.1").result()
    assert "anna" in owner.get("/admin/study/annotators/w002").text
    rows = list(csv.DictReader(io.StringIO(owner.get("/admin/study/codes.csv").text)))
    assert [row["external_id"] for row in rows] == ["", "anna"]


def test_a_study_of_ratings(tmp_path: Path) -> None:
    path = studies.study(tmp_path / "ratings.db", systems=3, plan=plan_of(question={"mode": "rate"}))
    with closing(Service.open(path, durable=False)) as service:
        token = new_annotator(service)
        for value in (1, 5, 5, 3):
            answer(service, token, value)
        client = signed_in(service)
        overview, person = (client.get(f"/admin/study{page}").text for page in ("", "/annotators/w001"))
        assert client.get("/admin/study/questions").status_code == 200
        for word in ("Interim analyses", "Decision", "Better, equal", "First shown", "Pair<"):
            assert word not in overview, word
        assert "First shown" not in person
        assert "5.00" in person
