"""How people come: links of platforms, forged and real signatures, the way back, codes compared."""

from __future__ import annotations

import base64
import hmac
import json
import threading
import time
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jwt
import polars as pl
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from custodes.annotate.arrivals import ISSUER, arrival, check_signed, code_of, ending
from custodes.annotate.completion_codes import matched, reconcile
from custodes.annotate.plan import Codes, People, StudyPlan
from custodes.annotate.service import Service
from custodes.annotate.views import Done
from custodes.errors import InputError
from tests.annotate.snapshots import person
from tests.annotate.studies import study

HOST = "ask.example.org"
IDS = {"PROLIFIC_PID": "5e9088a8a4b6ed018b45ba7b", "STUDY_ID": "671b8ae84509b9a624b95e13", "SESSION_ID": "671b8e95b17f"}
MTURK = {
    "workerId": "A1",
    "assignmentId": "3X",
    "hitId": "H1",
    "turkSubmitTo": "https://www.mturk.com",
}


def plan(**people: Any) -> StudyPlan:
    return StudyPlan(people=People(**people))


def test_a_platforms_parameters_are_kept() -> None:
    came = arrival(plan(recruit="prolific"), IDS | {"other": "x"}, host=HOST)
    assert (came.external_id, came.verified, came.preview) == (IDS["PROLIFIC_PID"], False, False)
    assert came.params == {"STUDY_ID": IDS["STUDY_ID"], "SESSION_ID": IDS["SESSION_ID"]}


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"PROLIFIC_PID": ""},
        {"PROLIFIC_PID": "{{%PROLIFIC_PID%}}"},
        {"PROLIFIC_PID": "a" * 101},
        {"PROLIFIC_PID": "a", "SESSION_ID": "<b>"},
        {"PROLIFIC_PID": "a\nb"},
    ],
    ids=["none", "empty", "placeholder", "long", "markup", "lines"],
)
def test_what_is_no_identifier_is_refused(params: dict[str, str]) -> None:
    with pytest.raises(InputError, match="start"):
        arrival(plan(recruit="prolific"), params, host=HOST)


def test_an_invited_study_has_no_open_door() -> None:
    with pytest.raises(InputError, match="by invitation"):
        arrival(plan(recruit="links"), {"worker": "me"}, host=HOST)


def test_a_name_is_nobody() -> None:
    """Whoever types it: it is kept, where the plan asks for it, and says who nobody is."""
    for named, kept in ((True, {"name": "Änne"}), (False, {})):
        came = arrival(plan(recruit="open", named=named), {"name": " Änne ", "worker": "w001"}, host=HOST)
        assert (came.external_id, came.params) == ("", kept)
    with pytest.raises(InputError, match="1 to 100 characters"):
        arrival(plan(recruit="open", named=True), {"name": "a\nb"}, host=HOST)


def test_a_preview_is_nobody() -> None:
    came = arrival(plan(recruit="mturk"), {"assignmentId": "ASSIGNMENT_ID_NOT_AVAILABLE"}, host=HOST)
    assert (came.preview, came.external_id, came.params) == (True, "", {})


@pytest.mark.parametrize(
    "place",
    [
        *(
            "",
            "https://evil.example",
            "http://www.mturk.com",
            "https://www.mturk.com.evil.example",
            "javascript:alert(1)",
        ),
        *("https://www.mturk.com@evil.example", "https://evil.example/www.mturk.com", "//www.mturk.com"),
    ],
)
def test_a_form_goes_to_mechanical_turk_alone(place: str) -> None:
    with pytest.raises(InputError, match="turkSubmitTo"):
        arrival(plan(recruit="mturk"), MTURK | {"turkSubmitTo": place}, host=HOST)
    done = Done(why="finished", code="K7", answers=15, params=MTURK | {"turkSubmitTo": place})
    with pytest.raises(InputError, match="turkSubmitTo"):
        ending(plan(recruit="mturk"), done)


def test_the_way_back() -> None:
    own = arrival(plan(recruit="mturk"), MTURK | {"turkSubmitTo": "https://workersandbox.mturk.com/x?y"}, host=HOST)
    back = ending(plan(recruit="mturk"), Done(why="finished", code="K7", answers=15, params=own.params))
    assert back.action == "https://workersandbox.mturk.com/mturk/externalSubmit"
    assert back.fields == {"assignmentId": "3X", "code": "K7", "answers": "15"}
    # https://docs.prolific.com: the code is the study's own
    fixed = plan(recruit="prolific", codes=Codes(finished="C1&x", failed="C2", no_work="C3"))
    links = {why: ending(fixed, Done(why=why, code="K7", answers=1, params={})).link for why in ("finished", "failed")}
    assert links["finished"] == "https://app.prolific.com/submissions/complete?cc=C1%26x"
    assert links["failed"] == "https://app.prolific.com/submissions/complete?cc=C2"


def test_who_gets_which_code() -> None:
    fixed = plan(recruit="prolific", codes=Codes(finished="C1", failed="C2", no_work="C3"))
    given = {why: code_of(fixed, why, "K7") for why in ("finished", "no-work", "stopped", "failed", "blocked")}
    assert given == {"finished": "C1", "no-work": "C3", "stopped": "C3", "failed": "C2", "blocked": "C2"}
    assert [code_of(fixed, why, "K7") for why in ("left", "excluded")] == ["C3", "C2"]
    assert {code_of(fixed, why, "K7") for why in ("declined", "erased")} == {None}
    assert code_of(plan(), "stopped", "K7") == "K7"


@pytest.fixture(scope="module")
def private() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture
def keys(private: rsa.RSAPrivateKey, tmp_path: Path) -> str:
    """The public half as the set of keys that the platform publishes."""
    public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(private.public_key()))
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps({"keys": [public | {"kid": "k1", "alg": "RS256", "use": "sig"}]}))
    return str(path)


def signed(private: Any, *, kid: str = "k1", algorithm: str = "RS256", **claims: Any) -> str:
    usual = {"iss": ISSUER, "aud": f"https://{HOST}/j/study", "exp": time.time() + 60, "prolific": IDS}
    content = {name: value for name, value in (usual | claims).items() if value is not None}
    return jwt.encode(content, private, algorithm=algorithm, headers={"kid": kid})


@pytest.mark.parametrize("audience", [HOST, f"https://{HOST}", f"https://{HOST}/j/study", ["other", HOST]], ids=str)
def test_a_signed_link(private: rsa.RSAPrivateKey, keys: str, audience: Any) -> None:
    token = signed(private, aud=audience)
    came = arrival(plan(recruit="prolific", signed=True, keys=keys), {"prolific_token": token}, host=HOST)
    assert (came.external_id, came.verified) == (IDS["PROLIFIC_PID"], True)


def test_what_the_link_says_beside_the_signature_is_not_believed(private: rsa.RSAPrivateKey, keys: str) -> None:
    beside = {"prolific_token": signed(private), "PROLIFIC_PID": "somebody-else"}
    came = arrival(plan(recruit="prolific", keys=keys), beside, host=HOST)
    assert (came.external_id, came.verified) == (IDS["PROLIFIC_PID"], True)


BAD: dict[str, dict[str, Any]] = {
    "expired": {"exp": 1},
    "no expiry": {"exp": None},
    "other place": {"aud": "https://evil.example/ask.example.org"},
    "a longer host": {"aud": f"{HOST}.evil.example"},
    "no audience": {"aud": None},
    "other issuer": {"iss": "https://evil.example"},
    "no payload": {"prolific": None},
    "no person": {"prolific": {"STUDY_ID": "x"}},
    "payload is a text": {"prolific": "x"},
    "other key's name": {"kid": "k2"},
}


@pytest.mark.parametrize("wrong", BAD)
def test_forged_expired_or_misplaced_links_are_refused(private: rsa.RSAPrivateKey, keys: str, wrong: str) -> None:
    token = signed(private, **BAD[wrong])
    with pytest.raises(InputError, match="start"):
        arrival(plan(recruit="prolific", signed=True, keys=keys), {"prolific_token": token} | {}, host=HOST)


def test_forged_signatures_are_refused(private: rsa.RSAPrivateKey, keys: str) -> None:
    public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    good = signed(private)
    head, body, signature = good.split(".")
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    # the public key as the secret of an HMAC: the oldest trick against tokens that name their own algorithm
    named = base64.urlsafe_b64encode(b'{"alg":"HS256","kid":"k1"}').rstrip(b"=").decode()
    mark = hmac.digest(public, f"{named}.{body}".encode(), "sha256")
    hmacked = f"{named}.{body}.{base64.urlsafe_b64encode(mark).rstrip(b'=').decode()}"
    tokens = [signed(other), hmacked, signed(None, algorithm="none"), f"{head}.{body}."]
    tokens += [f"{head}.{body[:-4]}AAAA.{signature}", "", "x", "a.b.c", "é.é.é"]
    own = plan(recruit="prolific", signed=True, keys=keys)
    for token in tokens:
        with pytest.raises(InputError, match="not signed"):
            arrival(own, {"prolific_token": token} | IDS, host=HOST)
    with pytest.raises(InputError, match="not signed"):
        arrival(own, IDS, host=HOST)


@pytest.mark.parametrize("text", [None, "{}", "[", '{"keys": [{"kty": "RSA"}]}'], ids=["none", "empty", "cut", "part"])
def test_keys_that_are_none(tmp_path: Path, text: str | None) -> None:
    """The owner is told where they should be; whoever comes is not."""
    place = tmp_path / "none.json"
    if text is not None:
        place.write_text(text)
    own = plan(recruit="prolific", signed=True, keys=str(place))
    with pytest.raises(InputError, match=r"none.json: not a set of public keys \(JWKS\)"):
        check_signed(own, host=HOST)
    with pytest.raises(InputError, match="keys cannot be had now") as told:
        arrival(own, {"prolific_token": "a.b.c"}, host=HOST)
    assert "none.json" not in str(told.value)


def test_a_site_without_a_name_believes_no_signature(private: rsa.RSAPrivateKey, keys: str) -> None:
    """Else whoever has a token for another place would name that place in the header Host."""
    own = plan(recruit="prolific", signed=True, keys=keys)
    with pytest.raises(InputError, match="--public-url"):
        check_signed(own, host="")
    for audience in ("", "https:", []):
        with pytest.raises(InputError, match="not signed"):
            arrival(own, {"prolific_token": signed(private, aud=audience)}, host="")


def test_the_header_host_is_no_audience(private: rsa.RSAPrivateKey, keys: str, tmp_path: Path) -> None:
    from starlette.testclient import TestClient

    from custodes.annotate.site.app import app

    own = plan(recruit="prolific", signed=True, keys=keys)
    link = {"prolific_token": signed(private)}
    with closing(Service.open(study(tmp_path / "study.db", plan=own), durable=False)) as service:
        for public_url, status in ((f"https://{HOST}", 200), ("", 400), ("https://other.example", 400)):
            client = TestClient(app({"study": service}, public_url=public_url), base_url=f"https://{HOST}")
            assert client.get("/j/study", params=link).status_code == status


def test_keys_of_an_address(private: rsa.RSAPrivateKey, keys: str) -> None:
    asked = []

    class Keys(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            content = Path(keys).read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Keys) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            own = plan(recruit="prolific", signed=True, keys=f"http://127.0.0.1:{server.server_port}/jwks.json")
            for _ in range(3):
                assert arrival(own, {"prolific_token": signed(private)}, host=HOST).verified
            assert asked == ["/jwks.json"]  # kept
        finally:
            server.shutdown()
            thread.join()
    with pytest.raises(InputError, match="cannot be had now"):
        arrival(
            plan(recruit="prolific", signed=True, keys=f"http://127.0.0.1:{server.server_port}/gone.json"),
            {"prolific_token": signed(private)},
            host=HOST,
        )


def test_codes_are_compared() -> None:
    people = (
        *(person(1, external_id="A", code="K1", answers=15), person(2, external_id="B", code="K2", standing="blocked")),
        *(person(3, external_id="C", code="K3", answers=30), person(4, external_id="D"), person(5, code="K5")),
    )
    frame = pl.DataFrame(
        {
            "Participant id": ["A", "B", "A", "Z", "Z", "D"],
            "Completion code": ["K1", "NOCODE", "K1", "K2", "x", None],
            "Status": ["APPROVED", "", "", "", "", ""],
        }
    )
    rows = list(matched(frame, people, StudyPlan(), name="codes.csv"))
    seen = [(row["person"], row["worker"], row["verdict"]) for row in rows]
    assert seen == [
        *(("A", "w001", "ours"), ("B", "w002", "no such code"), ("A", "w001", "twice"), ("Z", "", "another's code")),
        *(("Z", "", "unknown"), ("D", "w004", "no such code"), ("C", "w003", "missing")),
    ]
    fixed = plan(recruit="prolific", codes=Codes(finished="C1"))
    frame = pl.DataFrame({"WorkerId": ["B", "Z"], "Answer.code": ["C1", "C1"]})
    assert [row["verdict"] for row in matched(frame, people[1:2], fixed, name="x")] == ["ours", "unknown"]
    with pytest.raises(InputError, match=r"list.csv: no column of codes"):
        list(matched(frame.drop("Answer.code"), people, fixed, name="list.csv"))


def test_a_platforms_list_against_a_study(tmp_path: Path) -> None:
    path = study(tmp_path / "study.db", plan=plan(recruit="prolific", codes=Codes(finished="C1")))
    with closing(Service.open(path, threaded=False, durable=False)) as service:
        for who in ("A", "B"):
            service.join(source="prolific", external_id=who, params={}, address=who).result()
        listed = tmp_path / "codes.csv"
        listed.write_text("Participant id,Status,Completion code\nA,APPROVED,C1\nB,AWAITING REVIEW,NOCODE\n")
        made = reconcile(path, listed)  # also while it is served
    assert made.codes["verdict"].to_list() == ["ours", "no such code"]
    assert made.status == 1
    listed.write_text("Status,Completion code\nAPPROVED,C1\n")
    with pytest.raises(InputError, match=r"codes.csv: no column of people"):
        reconcile(path, listed)
