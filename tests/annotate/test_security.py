"""Attacks on the site: guessed links, paths to files, floods of requests, many annotators of one address, SQL
injection.

Each row of `docs/explanation/threats.md` has its test here, in `test_arrivals`, `test_owner` or
`site/test_owner_browser`.
"""

from __future__ import annotations

import ast
import csv
import io
import logging
import re
import secrets
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import custodes
from custodes.annotate.server import serve_in_thread
from custodes.annotate.service import Service
from tests.annotate.studies import current_question, new_annotator, plan_of, query_rows, state_of, study

pytest.importorskip("starlette")


from custodes.annotate.arrivals import network
from custodes.annotate.server import header_limit_protocol
from custodes.annotate.site import pages
from custodes.annotate.site.app import app
from custodes.annotate.site.guard import FIELDS, LARGEST
from tests.annotate.requests import URL, post, signed_in, visitor
from tests.annotate.site.studying import serve_app
from tests.waiting import PATIENCE, until


@contextmanager
def open_study(folder: Path, **sections: Any) -> Iterator[Service]:
    path = study(folder / "study.db", plan=plan_of(**sections))
    with closing(Service.open(path, durable=False)) as service:
        yield service


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with open_study(tmp_path) as service:
        yield service


def rows(service: Service, table: str) -> int:
    return int(query_rows(service.path, f"SELECT count(*) FROM {table}")[0][0])


def test_guessed_links_are_refused_and_then_limited(service: Service) -> None:
    token, client = new_annotator(service), visitor(service)
    paths = ("/s/{}", "/s/{}/help", "/admin?key={}")
    statuses = [client.get(paths[k % 3].format(secrets.token_urlsafe(16))).status_code for k in range(120)]
    assert statuses == [404, 404, 403] * 20 + [429] * 60
    client = visitor(service)
    for _ in range(60):
        client.post(f"/s/{secrets.token_urlsafe(16)}", data={"do": "begin"})
    assert client.get("/s/x").status_code == 429
    assert client.get(f"/s/{token}").status_code == 200  # a whole institution may share an address
    assert client.get("/s/x").headers["retry-after"] == "60"


def test_wrong_links_look_the_same(service: Service) -> None:
    token, client = new_annotator(service), visitor(service)
    similar_tokens = [token[:-1], token + "A", token.swapcase(), token[::-1], quote(token + "\0"), token + "%20"]
    assert {client.get(f"/s/{similar}").status_code for similar in similar_tokens} == {404}


def test_answers_to_questions_of_other_sessions_are_ignored(service: Service) -> None:
    token, other_token = new_annotator(service), new_annotator(service)
    ask = current_question(service, other_token)
    client = visitor(service)
    fields = {"do": "answer", "assignment": str(ask.assignment), "v0": "1", "seconds": "5"}
    before = rows(service, "judgment")
    for assignment in (ask.assignment, 0, -1, 10**9, 10**30):
        client.post(f"/s/{token}", data=fields | {"assignment": str(assignment)})
    assert rows(service, "judgment") == before
    assert current_question(service, other_token) == ask


def test_an_address_admits_five_annotators(tmp_path: Path) -> None:
    with open_study(tmp_path, annotators={"recruit": "open"}) as service:
        client = visitor(service)
        statuses = [
            client.post("/j/study", data={"name": f"p{k}"}, follow_redirects=False).status_code for k in range(10)
        ]
        assert statuses == [303] * 5 + [403] * 5
        for k in range(10):
            visitor(service, f"2001:db8:1:2:{k:x}::1").post("/j/study", data={"name": "x"}, follow_redirects=False)
        assert rows(service, "worker") == 10  # one network


def test_a_form_of_another_origin_makes_no_visit(tmp_path: Path) -> None:
    origins = ("https://evil.example", "null", "http://127.0.0.1:1", "https://testserver")
    foreign = [{"Sec-Fetch-Site": "same-site"}, {"Sec-Fetch-Site": "cross-site", "Origin": URL}]
    foreign += [{"Origin": origin} for origin in origins]
    with open_study(tmp_path, annotators={"recruit": "open"}) as service:
        client = visitor(service)
        for headers in foreign:
            reply = client.post("/j/study", data={"name": "x"}, headers=headers, follow_redirects=False)
            assert reply.status_code == 403, headers
        assert rows(service, "worker") == 0
        for same_origin in ({}, {"Origin": URL}, {"Sec-Fetch-Site": "same-origin"}):
            reply = client.post("/j/study", data={"name": "x"}, headers=same_origin, follow_redirects=False)
            assert reply.status_code == 303
        assert rows(service, "worker") == 3


def test_networks() -> None:
    same = {network(address) for address in ("2001:db8::1", "2001:db8::ffff:1", "2001:DB8:0:0::9%eth0")}
    assert len(same) == 1
    assert network("2001:db8:0:1::1") not in same
    assert network("::ffff:192.0.2.1") == network("192.0.2.1") != network("192.0.2.2")
    assert network("testclient") == "testclient"


TRAVERSAL = [
    *("../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%2e%2e/%2e%2e/etc/passwd"),
    *("..%252f..%252fetc%252fpasswd", "....//....//etc/passwd", "..\\..\\etc\\passwd"),
    *("..%5c..%5cetc%5cpasswd", "%c0%ae%c0%ae/etc/passwd", "/etc/passwd", "//etc/passwd"),
    *("file:///etc/passwd", "study.db", "../study.db", "Study"),
    *("study%00", "%00", "app.py", "../app.py", "owner.css%00.png", "~root"),
]


def test_no_path_leads_to_a_file(service: Service, tmp_path: Path) -> None:
    (tmp_path / "link.png").symlink_to("/etc/passwd")
    client = signed_in(service)
    for folder in ("/m/", "/static/", "/", "/j/", "/admin/", "/admin/study/", "/admin/study/annotators/"):
        for path in [*TRAVERSAL, "link.png", str(tmp_path / "link.png"), quote(str(service.path), safe="")]:
            reply = client.get(folder + path)
            assert reply.status_code in (400, 404, 405), folder + path
            assert "root:" not in reply.text
            assert not reply.content.startswith(b"SQLite")


def test_what_is_too_large_is_refused(service: Service) -> None:
    token = new_annotator(service)
    client = visitor(service)
    before = state_of(service)

    def chunks() -> Iterator[bytes]:
        yield b"do=comment&text="
        for _ in range(100):
            yield b"x" * 1024

    form_headers = {"Content-Type": "application/x-www-form-urlencoded"}
    replies = [
        client.post(f"/s/{token}", data={"do": "comment", "text": "x" * LARGEST}),
        client.post(f"/s/{token}", content=chunks(), headers=form_headers),
        client.post(f"/s/{token}", data={f"f{k}": "1" for k in range(FIELDS + 1)}),
    ]
    assert [reply.status_code for reply in replies] == [413] * 3
    assert client.post(f"/s/{token}", content=b"\xff%ff=%00", headers=form_headers).status_code == 422
    for content_type in ("multipart/form-data; boundary=x", "application/json", "text/plain", ""):
        assert client.post(f"/s/{token}", content=b"{}", headers={"Content-Type": content_type}).status_code == 415
    assert state_of(service) == before


WORDS = [
    *("'; DROP TABLE judgment; --", '" OR 1=1 --', "w001' OR '1'='1", "\0", "%s", "{}", "{{7*7}}", "${7*7}"),
    *("?", ":a", "é" * 50, "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"), "\u202e", "'" * 500),
]


def test_sql_in_texts_has_no_effect(service: Service) -> None:
    token = new_annotator(service)
    tables = {name: rows(service, name) for name in ("worker", "assignment", "unit", "judgment")}
    client = signed_in(service)
    for word in WORDS:
        client.post(f"/s/{token}", data={"do": "comment", "text": word})
        client.post(f"/s/{token}", data={"do": "skip", "assignment": "1", "reason": word})
        for act in ("exclude", "forget"):
            post(client, f"/admin/study/{act}", worker=word, reason=word)
        assert client.get(f"/admin/study/annotators/{quote(word, safe='')}").status_code in (400, 404)
        assert client.get(f"/s/{quote(word, safe='')}").status_code in (404, 429)
    assert {name: rows(service, name) for name in tables} == tables
    assert client.get("/admin/study/questions").status_code == 200
    assert ">49<" not in "".join(client.get("/admin/study/questions").text.split())


def test_statements_are_constants() -> None:
    """SQL statements are constants with bound parameters, never formatted texts."""
    violations = []
    for path in sorted(Path(custodes.__file__).parent.joinpath("annotate").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = getattr(node.func, "attr", "") if isinstance(node, ast.Call) else ""
            if name in ("execute", "executemany", "executescript") and isinstance(node, ast.Call) and node.args:
                first = node.args[0]
                if isinstance(first, ast.JoinedStr | ast.BinOp) or (
                    isinstance(first, ast.Call) and getattr(first.func, "attr", "") in ("format", "join", "replace")
                ):
                    violations.append(f"{path.name}:{node.lineno}")
    assert violations == []


FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", '=cmd|"/c calc"!A1', "=HYPERLINK(1)"]


def test_formulas_in_codes_are_escaped(service: Service) -> None:
    for word in FORMULAS:
        service.join(external_id=word, address=word).result()
    reply = signed_in(service).get("/admin/study/codes.csv")
    assert reply.headers["content-disposition"] == 'attachment; filename="study-codes.csv"'
    rows = list(csv.DictReader(io.StringIO(reply.text, newline="")))
    assert [row["external_id"] for row in rows] == [f"'{word}" for word in FORMULAS]


def test_no_log_holds_a_key(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    token = new_annotator(service)
    client = visitor(service)
    with caplog.at_level(logging.DEBUG):
        client.get(f"/s/{token}")
        assert not client.cookies  # annotators get none
        client.get("/admin?key=the-key")
        client.get(f"/s/{token}/help")
        client.post(f"/s/{token}", data={"do": "begin"})
        client.post(f"/s/{token}/seen", data={"assignment": "1", "seconds": "3"})
        client.get(f"/s/{token}x")
        client.request("P" * 50, f"/s/{token}")
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("custodes")]
    assert re.fullmatch(r"GET show 200 \d+ ms", ours[0])
    assert any(line.startswith("OTHER ") for line in ours)
    assert not [line for line in ours for key in (token, "the-key", "192.0.2") if key in line]


def test_headers_of_everything(service: Service) -> None:
    token, client = new_annotator(service), signed_in(service)
    static = f"/static/{next(iter(pages.static()))}"
    paths = ("/admin", "/admin/study", "/admin/study/codes.csv", "/none", "/health")
    for path in (f"/s/{token}", "/s/none", *paths, static):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cache-control"] == ("public, max-age=31536000, immutable" if path == static else "no-store")
        assert "access-control-allow-origin" not in headers


# --- connections


@contextmanager
def listening(service: Service, *, seconds: float, **more: Any) -> Iterator[int]:
    """Serve the site with the protocol of `serve` and a shorter timeout, and yield its port."""
    site = app({"study": service}, public_url="", secret="s" * 32, owner_key="k")
    with serve_app(site, http=header_limit_protocol(seconds), **more) as url:
        yield int(url.rpartition(":")[2])


def talk(port: int, *parts: bytes, wait: float = PATIENCE) -> bytes:
    """Send bytes, and return the reply until the server closes the connection or `wait` seconds pass."""
    with socket.create_connection(("127.0.0.1", port), timeout=wait) as line:
        for part in parts:
            line.sendall(part)
        data = b""
        with closing(line.makefile("rb")) as reply:
            while chunk := reply.read1(65536):
                data += chunk
        return data


def test_long_headers_are_refused_and_long_bodies_are_not_cut_off(service: Service) -> None:
    """A proxy sends headers and body in one piece."""
    with listening(service, seconds=2 * PATIENCE) as port:
        fine = b"GET /health HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 8000 + b"\r\nConnection: close\r\n\r\n"
        assert b"200 OK" in talk(port, fine)
        for size, status in ((40_000, b"404"), (70_000, b"413")):
            head = f"POST /s/{'x' * 22} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {size}\r\n"
            kind = b"Content-Type: application/x-www-form-urlencoded\r\n\r\n"
            assert status in talk(port, head.encode() + kind + b"t=" + b"y" * (size - 2)).partition(b"\r\n")[0]


def test_idle_connections_time_out(service: Service) -> None:
    with listening(service, seconds=0.2, timeout_keep_alive=1) as port:
        request = b"GET /health HTTP/1.1\r\nHost: x\r\n"
        assert talk(port) == b""
        assert talk(port, request) == b""  # incomplete headers
        # an incomplete second request; on a slow machine `until` tries again
        until(lambda: talk(port, request + b"\r\n", b"GET /health HT").count(b"200 OK") == 1)


def test_settings_of_serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`serve` applies the timeouts of these tests and ignores addresses that a visitor claims."""
    monkeypatch.setattr("custodes.annotate.server.header_limit_protocol", lambda: header_limit_protocol(2 * PATIENCE))
    with serve_in_thread([study(tmp_path / "study.db")], port=0) as site:
        try:
            data = talk(site.port, b"GET /health HTTP/1.1\r\nX: " + b"y" * 40_000)
        except ConnectionError:
            data = b""
        assert data == b""
        lines = [f"GET /s/{k} HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.{k}\r\n" for k in range(70)]
        payload = "\r\n".join([*lines[:-1], f"{lines[-1]}Connection: close\r\n", ""]).encode()
        replies = talk(site.port, payload)
        assert (replies.count(b"HTTP/1.1 404"), replies.count(b"HTTP/1.1 429")) == (60, 10)


def test_others_are_served_beside_slow_ones(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    """Thirty requests are answered beside 200 incomplete ones, without a warning."""
    token = new_annotator(service)
    with listening(service, seconds=2 * PATIENCE) as port, ExitStack() as lines:
        for k in range(200):
            line = lines.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE))
            head = b"POST /s/x HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"
            line.sendall(head + (b"Content-Length: 60000\r\n\r\na=" if k % 2 else b""))
        for _ in range(30):
            reply = talk(port, f"GET /s/{token} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            assert b"200 OK" in reply
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
