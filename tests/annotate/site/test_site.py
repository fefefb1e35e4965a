"""Routes of the annotation site over HTTP, from arrival to completion code, and the errors of each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from starlette.testclient import TestClient

from custodes.annotate.service import Service, StudyBusy
from custodes.annotate.site import pages
from custodes.annotate.site.app import app
from tests.annotate.site.studying import SYSTEMS, hidden_fields, image_study, judgments, new_study, new_token, open_copy
from tests.annotate.studies import query_rows


class Visitor:
    """An annotator with a link and a browser without JavaScript."""

    def __init__(self, client: TestClient, token: str) -> None:
        self.client, self.path = client, f"/s/{token}"

    def get(self) -> str:
        reply = self.client.get(self.path)
        assert reply.status_code == 200
        return reply.text

    def post(self, status: int = 200, **fields: str) -> str:
        reply = self.client.post(self.path, data=fields)
        assert reply.status_code == status
        return reply.text

    def first_question(self) -> str:
        """Give consent, begin, and return the page of the first question."""
        page = self.get()
        if 'value="agree"' in page:
            page = self.post(do="agree", agree="1", digest=hidden_fields(page)["digest"])
        return self.post(do="begin")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_study(tmp_path_factory.mktemp("study") / "study.db")


@pytest.fixture
def service(template: Path, tmp_path: Path) -> Iterator[Service]:
    with open_copy(template, tmp_path / "study.db") as service:
        yield service


def site(service: Service, name: str = "hotels", **options: str) -> TestClient:
    return TestClient(app({name: service}, **{"secret": "s", "owner_key": "k"} | options))


@pytest.fixture
def visitor(service: Service) -> Iterator[Visitor]:
    with site(service) as client:
        yield Visitor(client, new_token(service))


def set_recruiting(service: Service, recruit: Any, **annotators: Any) -> None:
    """Change how annotators are recruited."""
    plan = replace(service.plan, annotators=replace(service.plan.annotators, recruit=recruit, **annotators))
    service.replan(plan).result()


def test_a_whole_session(visitor: Visitor, service: Service) -> None:
    page = visitor.get()
    assert "We ask which text is better." in page
    assert "Instructions" in visitor.post(do="agree", agree="1", digest=hidden_fields(page)["digest"])
    page = visitor.post(do="begin")
    visited = [page]
    for number in (1, 2, 3):
        assert f"Comparison {number} of 3" in page
        assert visitor.path in visitor.client.get(f"{visitor.path}/help").text  # the instructions again
        page = visitor.post(**hidden_fields(page), v0="1", seconds="0.0001")
        visited.append(page)
    assert "Time for a break" in page
    page = visitor.post(do="begin")
    for _ in range(3):
        page = visitor.post(**hidden_fields(page), v0="0")
    (code,) = re.findall(r'id="code" readonly value="(\w+)"', page)
    assert visitor.get() == page
    rows = [(abs(answer), seconds) for _, answer, _, seconds in judgments(service.path)]
    assert rows == [(1.0, 0.0001)] * 3 + [(0.0, None)] * 3
    assert code in str(query_rows(service.path, "SELECT json FROM event WHERE kind = 'code'"))
    assert not any(name in text for text in [*visited, page] for name in SYSTEMS)


def test_invalid_answers(visitor: Visitor, service: Service) -> None:
    page = visitor.first_question()
    form = hidden_fields(page)
    assert visitor.client.post(f"{visitor.path}/seen", data={"assignment": form["assignment"]}).status_code == 204
    assert visitor.client.post(f"{visitor.path}/seen", data={"assignment": "x"}).status_code == 422
    for fields in ({"v0": "2"}, {"v0": "x"}, {}, {"assignment": "x", "v0": "1"}):
        assert 'role="status"' in visitor.post(422, **form | fields)
    assert "Please answer every question" in visitor.post(422, **form)
    assert not judgments(service.path)
    assert visitor.get() == page


def test_undo_skip_and_comment(visitor: Visitor, service: Service) -> None:
    first = visitor.first_question()
    second = visitor.post(**hidden_fields(first), v0="1")
    assert "Change my last answer" not in first
    repeated = visitor.post(do="undo", assignment=hidden_fields(second)["assignment"])
    assert "Your last answer has been withdrawn." in repeated
    assert "aria-current=true" in repeated
    third = visitor.post(**hidden_fields(repeated), v0="-1")
    assignment = hidden_fields(third)["assignment"]
    assert "Comparison 2 of 3" in visitor.post(do="comment", text="Ünclear", assignment=assignment)
    fourth = visitor.post(do="skip", reason="broken", assignment=assignment, seconds="0.0001")
    assert "Comparison 3 of 3" in fourth
    assert judgments(service.path)[-1][1:] == (None, "broken", 0.0001)
    assert "Ünclear" in str(query_rows(service.path, "SELECT json FROM event WHERE kind = 'comment'"))


def test_forms_redirect_to_the_page(visitor: Visitor) -> None:
    """A redirect follows each form, so that back and reload do not submit it again."""
    page = visitor.first_question()
    headers = {"Sec-Fetch-Mode": "navigate"}
    reply = visitor.client.post(
        visitor.path, data=dict(hidden_fields(page), v0="1"), headers=headers, follow_redirects=False
    )
    assert (reply.status_code, reply.headers["location"]) == (303, visitor.path)
    fields = {"do": "comment", "text": "x"}
    reply = visitor.client.post(visitor.path, data=fields, headers=headers)
    assert "your comment has been sent" in reply.text
    assert "I have read" not in visitor.client.get(visitor.path, params={"said": "agree_tick"}).text


def test_paused_and_stopped(visitor: Visitor, service: Service) -> None:
    page = visitor.first_question()
    service.control("pause").result()
    paused = visitor.get()
    assert "The study is paused" in paused
    assert '<meta http-equiv="refresh"' in paused
    service.control("resume").result()
    assert visitor.get() == page
    service.control("stop").result()
    assert "The study is closed" in visitor.get()


def test_unsaved_answers_return_with_the_page(
    visitor: Visitor, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = visitor.first_question()

    def full(token: str, act: object) -> None:
        raise StudyBusy("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(service, "act", full)
        reply = visitor.client.post(visitor.path, data=dict(hidden_fields(page), v0="-1", seconds="4.0"))
    assert (reply.status_code, reply.headers["retry-after"]) == (503, "5")
    assert "not saved yet" in reply.text
    assert dict(hidden_fields(reply.text)) == dict(hidden_fields(page), v0="-1", seconds="4.0")
    assert "Comparison 2 of 3" in visitor.post(**hidden_fields(reply.text))
    assert len(judgments(service.path)) == 1


def test_unknown_paths(service: Service) -> None:
    with site(service) as client:
        for path in ("/", "/x", "/s/", "/s/nobody", "/s/nobody/help", "/j/none", "/j/hotels", "/m/none"):
            reply = client.get(path)
            assert (reply.status_code, "Page not found" in reply.text) == (404, True), path
        for path in ("/j/hotels", "/s/nobody/seen"):  # the study has personal links
            assert client.post(path, data={"worker": "x", "assignment": "1"}).status_code == 404


def test_a_link_of_one_of_several_studies(template: Path, tmp_path: Path, service: Service) -> None:
    with open_copy(template, tmp_path / "two.db") as second, TestClient(app({"one": service, "two": second})) as client:
        for current in (second, service):
            token = new_token(current)
            Visitor(client, token).first_question()
            assert len(query_rows(current.path, "SELECT 1 FROM assignment")) == 1
        assert client.get("/s/nobody").status_code == 404
        assert client.get("/").status_code == 404


def test_health(visitor: Visitor, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    assert visitor.client.get("/health").text == "ok"
    monkeypatch.setattr("custodes.annotate.site.app.HEALTHY", 0.0)
    assert visitor.client.get("/health").status_code == 503


def test_static_files(service: Service) -> None:
    with site(service) as client:
        for name, file in pages.static().items():
            assert client.get(f"/static/{name}").content == file.bytes


def test_an_open_study(service: Service) -> None:
    set_recruiting(service, "open")
    with site(service) as client:
        assert "worker id" not in client.get("/").text
        reply = client.get("/j/hotels?=x%20y")  # a parameter with an empty name
        assert (reply.status_code, "worker id" in reply.text) == (200, False)
        reply = client.post("/j/hotels", data={"website": ""})
        path = reply.url.path
        assert f'href="{path}"' in reply.text  # the first page shows the address for returning
        question = Visitor(client, path.removeprefix("/s/")).first_question()
        second_reply = client.post("/j/hotels", data={"worker": "x"})  # every arrival is a new annotator
        assert second_reply.url.path != path
        assert "We ask which text is better." in second_reply.text
        assert hidden_fields(client.get(path).text) == hidden_fields(question)  # the same question
        assert client.post("/j/hotels", data={"worker": "x", "website": "spam"}).status_code == 400
        set_recruiting(service, "open", most=2)
        reply = client.post("/j/hotels", data={"name": ""})
        assert (reply.status_code, "No more participants at the moment" in reply.text) == (403, True)
    assert query_rows(service.path, "SELECT external_id, external_hash = '' FROM worker") == [("", 0), ("", 0)]


def test_a_worker_types_the_id(service: Service) -> None:
    set_recruiting(service, "open", worker_id="workerId", batches=1)
    with site(service) as client:
        page = client.get("/j/hotels?hitId=H1").text
        assert "Your worker id" in page
        assert dict(hidden_fields(page)) == {}
        reply = client.post("/j/hotels", data={"hitId": "H1", "workerId": " "})
        assert (reply.status_code, "Your worker id" in reply.text) == (422, True)
        reply = client.post("/j/hotels", data={"workerId": "two words", "hitId": "H1"})
        assert (reply.status_code, "This worker id is not valid" in reply.text) == (400, True)
        assert dict(hidden_fields(reply.text)) == {}
        reply = client.post("/j/hotels", data={"hitId": "H1", "workerId": "A1"})
        visitor = Visitor(client, reply.url.path.removeprefix("/s/"))
        page = visitor.first_question()
        same_visit = client.post("/j/hotels", data={"hitId": "H1", "workerId": "A1"})
        assert hidden_fields(same_visit.text) == hidden_fields(page)  # the same visit
        for _ in range(3):
            page = visitor.post(**hidden_fields(page), v0="1")
        assert 'id="code"' in page  # for pasting into the task
        client.get("/admin?key=k")
        assert client.get("/admin/hotels").text.count("A1") == 1
        service.forget("w001").result()
        assert client.get("/admin/hotels").text.count("A1") == 0


PROLIFIC = {"PROLIFIC_PID": "5f1d", "STUDY_ID": "st", "SESSION_ID": "se"}


def test_annotators_of_a_platform(service: Service) -> None:
    back = "https://app.prolific.com/submissions/complete?cc={code}"
    set_recruiting(service, "open", worker_id="PROLIFIC_PID", return_url=back, batches=1)
    with site(service) as client:
        reply = client.get("/j/hotels?PROLIFIC_PID=%7B%7Bx%7D%7D&STUDY_ID=st")
        assert (reply.status_code, "This worker id is not valid" in reply.text) == (400, True)
        assert '<input name="PROLIFIC_PID"' in reply.text  # the worker can type it
        page = client.get("/j/hotels", params=PROLIFIC | {"note": "two words"}).text
        assert dict(hidden_fields(page)) == {"PROLIFIC_PID": "5f1d"}
        assert query_rows(service.path, "SELECT 1 FROM worker") == []  # opening a link creates no annotator
        reply = client.post("/j/hotels", data=hidden_fields(page))
        visitor = Visitor(client, reply.url.path.removeprefix("/s/"))
        page = visitor.first_question()
        for _ in range(3):
            page = visitor.post(**hidden_fields(page), v0="1")
        code = re.search(r'id="code" readonly value="(\w+)"', page)
        assert code is not None
        assert f'href="{back.format(code=code[1])}"' in page
    assert query_rows(service.path, "SELECT source, external_id FROM worker") == [("open", "5f1d")]


def test_images(tmp_path: Path) -> None:
    with open_copy(image_study(tmp_path), tmp_path / "copy.db") as service, site(service) as client:
        page = Visitor(client, new_token(service)).first_question()
        images = re.findall(r'<img src="(/m/\w{64}\.png)" alt="Image of Response \d">', page)
        assert len(set(images)) == 2
        for image in images:
            reply = client.get(image)
            assert reply.content.startswith(b"\x89PNG")
            assert reply.headers["content-type"] == "image/png"
            assert reply.headers["content-security-policy"] == "sandbox"
        assert client.get("/m/" + "0" * 64 + ".png").status_code == 404
        assert not any(name in page for name in SYSTEMS)
