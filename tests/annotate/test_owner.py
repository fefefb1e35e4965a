"""The owner's pages: authentication, content, confidentiality and actions."""

from __future__ import annotations

import base64
import csv
import io
import re
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from custodes.annotate import study_file
from custodes.annotate.service import Service
from custodes.annotate.study_file import StudyBusy
from custodes.annotate.study_status import status
from custodes.annotate.views import Ask, Begin, Break, Comment, Skip
from tests.annotate.studies import (
    add_systems,
    answer,
    current_question,
    new_annotator,
    plan_of,
    query_rows,
    state_of,
    study,
)

pytest.importorskip("starlette")

from starlette.testclient import TestClient

from custodes.annotate.site.app import app

URL = "http://testserver"
SAME_ORIGIN = {"Origin": URL}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    plan = plan_of(money={"price": 0.15}, annotators={"cap": 1.0}, stopping={"budget": 80})
    path = study(tmp_path / "study.db", systems=3, plan=plan)
    with closing(Service.open(path, durable=False)) as service:
        yield service


@pytest.fixture
def client(service: Service) -> Iterator[TestClient]:
    """Yield a client that is not signed in."""
    with TestClient(app({"hotel": service}, public_url=URL, secret="s" * 32, owner_key="the-key")) as client:
        yield client


@pytest.fixture
def owner(client: TestClient) -> TestClient:
    """Return a client that is signed in as the owner."""
    assert client.get("/admin?key=the-key").status_code == 200
    return client


def annotator_with_answers(service: Service, answers: int) -> str:
    token = new_annotator(service)
    for n in range(answers):
        if isinstance(answer(service, token, (1, 0, -1)[n % 3]), Break):
            service.act(token, Begin()).result()
    return token


def post(client: TestClient, path: str, headers: dict[str, str] = SAME_ORIGIN, **fields: str) -> Any:
    """Submit a form as a browser does."""
    return client.post(path, data=fields or {"sent": "1"}, headers=headers)


PAGES = ["/admin", "/admin/hotel", "/admin/hotel/questions", "/admin/hotel/annotators/w001", "/admin/hotel/codes.csv"]
FILES = ["/admin/hotel/export.zip", "/admin/hotel/backup.db"]
ACTS = ["pause", "resume", "stop", "reopen", "exclude", "restore", "forget", "invite", "replan", "peek"]


def test_pages_and_acts_need_a_key(client: TestClient, service: Service) -> None:
    before = state_of(service)
    for path in (*PAGES, *FILES, "/admin/none"):
        reply = client.get(path)
        assert reply.status_code == 403, path
        assert "serve" in reply.text
        assert "hotel" not in reply.text
    for act in ACTS:
        assert post(client, f"/admin/hotel/{act}", annotators="1", worker="w001").status_code == 403, act
    assert state_of(service) == before


def test_a_key_works_once(client: TestClient) -> None:
    first = client.get("/admin?key=the-key", follow_redirects=False)
    assert (first.status_code, first.headers["location"]) == (303, "/admin")
    cookie = first.headers["set-cookie"].lower()
    assert all(part in cookie for part in ("httponly", "samesite=strict", "path=/admin"))
    assert client.get("/admin").status_code == 200
    client.cookies.clear()
    assert client.get("/admin?key=the-key").status_code == 403


def test_head_requests_do_not_use_a_key(client: TestClient) -> None:
    """Link checkers send HEAD requests, which do not consume the key."""
    assert client.head("/admin?key=the-key").status_code == 403
    assert client.get("/admin?key=the-key").status_code == 200


def test_a_key_from_another_site(client: TestClient) -> None:
    """Browsers omit strict cookies on redirects from other sites, so the page contains a link."""
    page = client.get("/admin?key=the-key", headers={"Sec-Fetch-Site": "cross-site"}, follow_redirects=False)
    assert page.status_code == 200
    assert 'href="/admin"' in page.text
    assert client.get("/admin").status_code == 200


def test_another_link_signs_in_another_browser(owner: TestClient, service: Service) -> None:
    page = post(owner, "/admin/key")
    (key,) = re.findall(r"/admin\?key=([\w-]+)", page.text)
    owner.cookies.clear()
    assert owner.get("/admin").status_code == 403
    assert owner.get(f"/admin?key={key}").status_code == 200
    (cookie,) = owner.cookies.values()
    post(owner, "/admin/leave")
    assert owner.get("/admin").status_code == 403
    owner.cookies.set("custodes_owner", cookie, path="/admin")
    assert owner.get("/admin").status_code == 403  # a copied cookie is invalid after signing out


def test_cookies_are_signed(owner: TestClient, service: Service) -> None:
    (value,) = owner.cookies.values()
    payload, _, rest = value.partition(".")
    other_client = TestClient(app({"hotel": service}, public_url=URL, secret="t" * 32, owner_key="the-key"))
    other_client.get("/admin?key=the-key")
    more = base64.b64encode(b'{"owner": true, "more": 1}').decode()
    forged = [payload, f"{payload}.", value[:-1], value[:-4] + "AAAA", f"{more}.{rest}", f"{more}.", "x", ""]
    forged += list(other_client.cookies.values())
    for cookie in forged:
        owner.cookies.clear()
        owner.cookies.set("custodes_owner", cookie, path="/admin")
        assert owner.get("/admin").status_code == 403, cookie


def test_a_cookie_over_https_is_secure(service: Service) -> None:
    client = TestClient(app({"hotel": service}, public_url="https://ask.example.org", secret="s", owner_key="k"))
    reply = client.get("/admin?key=k", follow_redirects=False)
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


def test_forms_of_other_pages_do_nothing(owner: TestClient, service: Service) -> None:
    before = state_of(service)
    for kind, headers in FOREIGN.items():
        for path in ("/admin/key", "/admin/leave", *(f"/admin/hotel/{act}" for act in ACTS)):
            assert post(owner, path, headers, annotators="1", worker="w001").status_code == 403, (kind, path)
    assert state_of(service) == before


def test_own_forms_are_recognised_by_either_header(owner: TestClient, service: Service) -> None:
    for headers in (SAME_ORIGIN, {"Sec-Fetch-Site": "same-origin"}):
        assert post(owner, "/admin/hotel/pause", headers).status_code == 200
        assert service.snapshot().result().state == "paused"
        assert post(owner, "/admin/hotel/resume", headers).status_code == 200
        assert service.snapshot().result().state == "open"


def test_get_requests_change_nothing(owner: TestClient, service: Service) -> None:
    before = state_of(service)
    for act in ACTS:
        assert owner.get(f"/admin/hotel/{act}").status_code in (404, 405)
    for page in PAGES[:-2]:
        owner.get(page)
    assert state_of(service) == before


def test_an_open_pair_shows_no_numbers(owner: TestClient, service: Service) -> None:
    """Undecided pairs show no results, neither of current nor of completed interim analyses."""
    for _ in range(3):
        annotator_with_answers(service, 12)
    now = service.snapshot().result()
    page = owner.get("/admin/hotel").text
    rows = re.findall(r"<tr><th scope=\"row\">(s\d – s\d)</th>(.*?)</tr>", page, re.DOTALL)
    assert len(rows) == 3
    for pair, (name, cells) in zip(now.pairs, rows, strict=True):
        assert name == f"{pair.first} – {pair.second}"
        assert f"{pair.answered} of {pair.wanted}" in cells or not pair.is_open
        numbers = re.findall(r"<td[^>]*>(.*?)</td>", cells, re.DOTALL)
        if pair.is_open:
            assert numbers[2:5] == ["undecided", "–", "–"]
    assert any(pair.is_open for pair in now.pairs)


def test_who_began_and_what_is_finished(tmp_path: Path) -> None:
    plan = plan_of(annotators={"cap": 1.0, "overlap": 0.0}, stopping={"looks": (6,), "stop": "decided"})
    path = study(tmp_path / "study.db", plan=plan, known_questions={})
    with closing(Service.open(path, durable=False)) as service:
        token = annotator_with_answers(service, 2)
        service.invite(3).result()
        with TestClient(app({"hotel": service}, public_url=URL, secret="s" * 32, owner_key="the-key")) as client:
            client.get("/admin?key=the-key")
            assert "<dd>1<small>started, of 4 invited" in client.get("/admin/hotel").text
            assert ">1 of 4</td>" in client.get("/admin").text
            other_token = new_annotator(service)
            for current in (token, token, token, other_token):
                answer(service, current)
            assert 'class="state finished"' in client.get("/admin/hotel").text
    result = status(path)
    assert result.study.select("state", "invited", "began").row(0) == ("finished", 5, 2)
    with closing(study_file.connect(path, durable=False)) as base, base:
        add_systems(base, ["s2"], seed=0)
    with closing(Service.open(path, durable=False)) as service:
        assert service.state().result() == "open"


def test_peeks_are_recorded(owner: TestClient, service: Service) -> None:
    annotator_with_answers(service, 6)
    assert "So far" not in owner.get("/admin/hotel").text
    page = post(owner, "/admin/hotel/peek").text
    assert "The study records how often this happens (1 so far)" in page
    assert "So far" in page
    expected = query_rows(
        service.path,
        "SELECT system_a, system_b, sum(answer = 1), sum(answer = 0), sum(answer = -1) FROM answers"
        " WHERE role = 'primary' GROUP BY pair",
    )
    displayed = re.findall(
        r'<th scope="row">(s\d) – (s\d)</th>.*?<td class="n">(\d+), (\d+), (\d+)</td></tr>', page, re.DOTALL
    )
    assert {(a, b): tuple(map(int, n)) for a, b, *n in displayed if n != ["0", "0", "0"]} == {
        (a, b): tuple(n) for a, b, *n in expected
    }
    assert "So far" not in owner.get("/admin/hotel").text


def test_annotators_are_excluded_and_restored(owner: TestClient, service: Service) -> None:
    annotator_with_answers(service, 3)
    fields = {"worker": "w001", "reason": "fell asleep"}
    page = owner.post("/admin/hotel/exclude", data=fields, headers=SAME_ORIGIN)
    assert "The annotator is excluded" in page.text
    assert service.snapshot().result().annotators[0].standing == "excluded"
    assert "Restore" in owner.get("/admin/hotel/annotators/w001").text
    owner.post("/admin/hotel/restore", data=fields, headers=SAME_ORIGIN)
    assert service.snapshot().result().annotators[0].standing != "excluded"


def test_invalid_acts_are_reported(owner: TestClient, service: Service) -> None:
    before = state_of(service)
    for act, fields in {
        "exclude": {"worker": "w999"},
        "invite": {"annotators": "0"},
        "replan": {"price": "-1", "most": "10", "budget": ""},
    }.items():
        reply = owner.post(f"/admin/hotel/{act}", data=fields, headers=SAME_ORIGIN)
        assert reply.status_code == 409, act
        assert 'role="alert"' in reply.text
    for annotators in ("", "x", "501", "1e3", "-1", "9" * 400, "²"):
        assert (
            owner.post("/admin/hotel/invite", data={"annotators": annotators}, headers=SAME_ORIGIN).status_code == 409
        )
    assert post(owner, "/admin/hotel/explode").status_code == 404
    assert post(owner, "/admin/none/pause").status_code == 404
    assert state_of(service) == before


def test_a_full_disk_is_reported_until_there_is_room(owner: TestClient, service: Service) -> None:
    message = "Answers cannot be written: No space left. The annotation pages keep the answers and send them again."
    token = new_annotator(service)
    (pages,) = service._connection.execute("PRAGMA page_count").fetchone()
    service._connection.execute(f"PRAGMA max_page_count = {pages}").fetchone()
    with pytest.raises(StudyBusy):
        service.invite(2000).result()
    for _ in range(3):  # reading does not end the failure
        for page in ("/admin", "/admin/hotel"):
            assert message in owner.get(page).text
        reply = owner.get("/health")
        assert (reply.status_code, reply.text) == (503, "cannot write")
        assert isinstance(service.view(token).result(), Ask)
    reply = post(owner, "/admin/hotel/pause")
    assert (reply.status_code, message in reply.text) == (503, True)
    service._connection.execute("PRAGMA max_page_count = 1000000").fetchone()
    reply = owner.get("/health")
    assert (reply.status_code, reply.text) == (200, "ok")
    assert not any("cannot be written" in owner.get(page).text for page in ("/admin", "/admin/hotel"))
    assert service.snapshot().result().answers == 0


def test_invitations_work(owner: TestClient, service: Service) -> None:
    page = owner.post("/admin/hotel/invite", data={"annotators": "3"}, headers=SAME_ORIGIN).text
    links = re.findall(rf"(w\d+) ({URL}/s/[\w-]+)", page)
    assert len({label for label, _ in links}) == len({link for _, link in links}) == 3
    assert all(owner.get(link).status_code == 200 for _, link in links)
    assert not any(link in owner.get("/admin/hotel").text for _, link in links)


def test_price_and_limits(owner: TestClient, service: Service) -> None:
    fields = {"price": "0.25", "most": "40", "budget": "90"}
    assert owner.post("/admin/hotel/replan", data=fields, headers=SAME_ORIGIN).status_code == 200
    assert (service.plan.money.price, service.plan.annotators.most, service.plan.stopping.budget) == (0.25, 40, 90)


def test_stopped_with_a_reason(owner: TestClient, service: Service) -> None:
    owner.post("/admin/hotel/stop", data={"why": "the budget is spent"}, headers=SAME_ORIGIN)
    page = owner.get("/admin/hotel").text
    assert "Reopen" in page
    assert "the budget is spent" in str(query_rows(service.path, "SELECT json FROM event WHERE kind = 'stopped'"))


def test_a_persons_answers_name_no_system(owner: TestClient, service: Service) -> None:
    annotator_with_answers(service, 9)
    page = owner.get("/admin/hotel/annotators/w001").text
    assert sum(map(page.count, ("shown</td>", "equal</td>", ", correct", ", incorrect"))) >= 9
    assert not re.search(r"\bs\d\b", page)
    assert owner.get("/admin/hotel/annotators/w002").status_code == 404


def test_a_copy_is_the_study(owner: TestClient, service: Service, tmp_path: Path) -> None:
    annotator_with_answers(service, 5)
    reply = owner.get("/admin/hotel/backup.db")
    assert reply.headers["content-disposition"].endswith('filename="hotel.db"')
    copy = tmp_path / "copy.db"
    copy.write_bytes(reply.content)
    with closing(Service.open(copy, durable=False)) as copied_service:
        assert state_of(copied_service) == state_of(service)


def test_troubled_questions_and_comments(owner: TestClient, service: Service) -> None:
    token = new_annotator(service)
    service.act(
        token, Comment(text="<b>both</b> are off", assignment=current_question(service, token).assignment)
    ).result()
    for _ in range(4):  # some are known comparisons
        service.act(token, Skip(assignment=current_question(service, token).assignment, reason="broken")).result()
    page = owner.get("/admin/hotel/questions").text
    assert "&lt;b&gt;both&lt;/b&gt; are off" in page
    assert "broken" in page
    assert "&lt;b&gt;both" in owner.get("/admin/hotel").text


def test_ids_of_workers(owner: TestClient, service: Service) -> None:
    service.join(external_id="anna", params={}, address="192.0.2.1").result()
    assert "anna" in owner.get("/admin/hotel/annotators/w001").text
    rows = list(csv.DictReader(io.StringIO(owner.get("/admin/hotel/codes.csv").text)))
    assert [row["external_id"] for row in rows] == ["anna"]


def test_a_study_of_ratings(tmp_path: Path) -> None:
    path = study(tmp_path / "ratings.db", systems=3, plan=plan_of(question={"mode": "rate"}))
    with closing(Service.open(path, durable=False)) as service:
        token = new_annotator(service)
        for value in (1, 5, 3):
            answer(service, token, value)
        client = TestClient(app({"hotel": service}, public_url=URL, secret="s", owner_key="the-key"))
        client.get("/admin?key=the-key")
        for page in ("/admin/hotel", "/admin/hotel/annotators/w001", "/admin/hotel/questions"):
            assert client.get(page).status_code == 200
        overview = client.get("/admin/hotel").text
        for word in ("Looks", "Ruling", "running numbers", "Better, equal", "First shown", "Pair<"):
            assert word not in overview, word
        reply = client.post("/admin/hotel/peek", data={"a": ""}, headers=SAME_ORIGIN)
        assert (reply.status_code, service.snapshot().result().peeked) == (409, 0)
        assert "First shown" not in client.get("/admin/hotel/annotators/w001").text
        assert "5.00" in client.get("/admin/hotel/annotators/w001").text


def test_a_study_as_files(owner: TestClient, service: Service) -> None:
    annotator_with_answers(service, 4)
    service.control("stop").result()  # of undecided pairs only completed interim analyses count
    reply = owner.get("/admin/hotel/export.zip")
    assert reply.headers["content-disposition"].endswith('filename="hotel.zip"')
    with zipfile.ZipFile(io.BytesIO(reply.content)) as packed:
        names = packed.namelist()
        assert "hotel/battles.csv" in names
        lines = packed.read("hotel/battles.csv").decode().splitlines()
    assert len(lines) - 1 == service.snapshot().result().answers


def test_every_page_of_a_study_without_annotators(owner: TestClient) -> None:
    for page in PAGES[:3]:
        assert owner.get(page).status_code == 200
    assert "No annotators yet" in owner.get("/admin/hotel").text
