"""How annotators arrive: links, worker ids, limits per network address, completion codes, the way back.

Facts of the platforms: Prolific's three identifiers, its return link with a code that is fixed for the study, and its
signed links (docs.prolific.com, "Retrieve JSON Web Key Set" and "The study object"); the four parameters that
Mechanical Turk adds and the form that goes back to it (docs.aws.amazon.com, "How Mechanical Turk tasks are rendered"
and "ExternalQuestion"). Toloka adds nothing by itself: its task links to us with `worker_id` and `assignment_id`.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from custodes.annotate.event_log import EventLog
from custodes.annotate.participants import Session, Worker
from custodes.annotate.plan import Recruit, StudyPlan
from custodes.annotate.rows import SessionRow, WorkerRow
from custodes.annotate.views import Done
from custodes.annotate.visits import is_done
from custodes.arguments import at_least
from custodes.errors import InputError, MissingExtraError

HOUR = 3600.0
NEW, AGAIN = 5, 30
"""New people of one address in an hour, and how often somebody who was there before."""


class Addresses:
    """When people came from where, in memory only; `most` within an hour."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._came: dict[str, deque[float]] = {}

    def is_full(self, address: str, now: float) -> bool:
        """Whether as many as may have come from there within the hour."""
        for place in [place for place, times in self._came.items() if times[-1] <= now - HOUR]:
            del self._came[place]
        return sum(at > now - HOUR for at in self._came.get(network(address), ())) >= self._most

    def came(self, address: str, now: float) -> None:
        """One more."""
        self._came.setdefault(network(address), deque(maxlen=self._most)).append(now)


PREFIX = 64
"""Bits of an IPv6 address that a home or an institution has as one."""


def network(address: str) -> str:
    """What counts as one address: an IPv4 address, the first 64 bits of an IPv6 one; anything else as it is.

    >>> network("2001:db8::1") == network("2001:db8::2"), network("::ffff:192.0.2.1")
    (True, '192.0.2.1')
    """
    try:
        own = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(own, IPv6Address):
        return str(own.ipv4_mapped or ip_network((own, PREFIX), strict=False))
    return str(own)


SUBMIT_HOSTS = ("www.mturk.com", "workersandbox.mturk.com")
"""Where a form of Mechanical Turk may go."""
PREVIEW = "ASSIGNMENT_ID_NOT_AVAILABLE"
"""What Mechanical Turk says for the assignment while somebody only looks at it."""
COMPLETE = "https://app.prolific.com/submissions/complete"
ISSUER = "https://www.prolific.com"
TOKEN = "prolific_token"
LONGEST = 100
"""Characters of an identifier."""

_IDENTIFIER = re.compile(r"[0-9A-Za-z_.@+-]{1,100}")
_OWN_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,100}")


class Link(NamedTuple):
    """What a platform's link holds: the parameter that names the person, others that are kept. Of an open study the
    field for a name, where the plan asks for it."""

    person: str
    others: tuple[str, ...]


LINKS: Mapping[Recruit, Link] = {
    "open": Link("name", ()),
    "prolific": Link("PROLIFIC_PID", ("STUDY_ID", "SESSION_ID")),
    "mturk": Link("workerId", ("assignmentId", "hitId", "turkSubmitTo")),
    "toloka": Link("worker_id", ("assignment_id",)),
}


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """Somebody at the door: who it is by whose word, what else the link says. `verified`: the platform signed it.
    `preview`: somebody who only looks. An `external_id` of '' (open studies, and there always) is somebody new."""

    source: Recruit
    external_id: str
    params: Mapping[str, str] = field(default_factory=dict)
    verified: bool = False
    preview: bool = False


def arrival(plan: StudyPlan, params: Mapping[str, str], *, host: str) -> Arrival:
    """Who comes by a link with these parameters to a study at `host` (as browsers name it, with its port).

    Raises InputError, for the eyes of whoever came, where the study is by invitation, where what the platform adds is
    missing or no identifier, and where it must be signed and is not (forged, expired, made for another place).

    >>> from custodes.annotate.plan import People
    >>> toloka = StudyPlan(people=People(recruit="toloka"))
    >>> arrival(toloka, {"worker_id": "a1", "assignment_id": "7"}, host="").external_id
    'a1'
    """
    source = plan.people.recruit
    if source not in LINKS:
        raise InputError("this study is by invitation: open the link that was sent to you")
    link = LINKS[source]
    verified = False
    if source == "prolific" and (TOKEN in params or plan.people.signed):
        params, verified = _signed(params.get(TOKEN, ""), plan.people.keys, host), True
    kept = {name: _identifier(name, params[name]) for name in link.others if name in params and name != "turkSubmitTo"}
    if source == "mturk":
        if params.get("assignmentId", PREVIEW) == PREVIEW:
            return Arrival(source=source, external_id="", preview=True)
        kept["turkSubmitTo"] = _submit_to(params.get("turkSubmitTo", ""))
    person = params.get(link.person, "").strip()
    if source == "open":  # a name is whatever somebody types: it says who nobody is
        if not plan.people.named or not person:
            return Arrival(source=source, external_id="")
        if not _OWN_NAME.fullmatch(person):
            raise InputError(f"a name has 1 to {LONGEST} characters")
        return Arrival(source=source, external_id="", params={link.person: person})
    if not person:
        raise InputError(f"this link lacks {link.person}: please start from the page of {NAMES[source]}")
    _identifier(link.person, person)
    return Arrival(source=source, external_id=person, params=kept, verified=verified)


NAMES: Mapping[Recruit, str] = {
    "links": "the study",
    "open": "the study",
    "prolific": "Prolific",
    "mturk": "Mechanical Turk",
    "toloka": "Toloka",
}


def _identifier(name: str, value: str) -> str:
    if not _IDENTIFIER.fullmatch(value):
        raise InputError(f"this link's {name} is no identifier: please start again from the page that sent you here")
    return value


def _submit_to(value: str) -> str:
    """The scheme and host to which a form of Mechanical Turk may go, nowhere else."""
    parts = urlsplit(value)
    if parts.scheme != "https" or parts.netloc not in SUBMIT_HOSTS:
        raise InputError("this link's turkSubmitTo is not Mechanical Turk: please start again from its page")
    return f"https://{parts.netloc}"


def _signed(token: str, keys: str, host: str) -> dict[str, str]:
    """What a token of Prolific says, once its signature (RS256), issuer, expiry and audience (our host, or an address
    there) are checked. What the link says beside it is not looked at."""
    import jwt

    try:
        key = _key_set(keys)(token)
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=["RS256"],
            issuer=ISSUER,
            options={"require": ["exp", "aud", "iss"], "verify_aud": False},
        )
    except (jwt.PyJWKClientConnectionError, InputError):
        raise InputError("the platform's keys cannot be had now: please try again in some minutes") from None
    except (jwt.PyJWTError, ValueError):
        raise InputError(_UNSIGNED) from None
    audience = claims["aud"] if isinstance(claims["aud"], list) else [claims["aud"]]
    if not host or host not in {_host(place) for place in audience}:
        raise InputError(_UNSIGNED)
    payload = claims.get("prolific")
    if not isinstance(payload, dict):
        raise InputError(_UNSIGNED)
    return {str(name): value for name, value in payload.items() if isinstance(value, str)}


_UNSIGNED = (
    "this link is not signed by Prolific for this study, or it is too old: please start again from Prolific's page"
)


def _host(place: Any) -> str:
    """Of an address, or of a name alone."""
    text = place if isinstance(place, str) else ""
    return urlsplit(text if "://" in text else f"//{text}").netloc


def check_signed(plan: StudyPlan, *, host: str) -> None:
    """Tell the owner, before anybody comes, why signed links of a study could not be checked.

    Raises InputError where a file of keys is none, or where the site does not know its own name; MissingExtraError
    without PyJWT.

    >>> check_signed(StudyPlan(), host="")
    """
    if not plan.people.signed:
        return
    try:
        import jwt  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("signed links need PyJWT: pip install 'custodes[annotate]'") from error
    if not host:
        raise InputError("signed links are made for one address: serve the study with --public-url")
    _key_set(plan.people.keys)


@lru_cache(maxsize=16)
def _key_set(where: str) -> Callable[[str], Any]:
    """From a token to the public key that its header names: of a file, or of an address that is asked once a day."""
    import jwt

    if urlsplit(where).scheme in ("http", "https"):
        client = jwt.PyJWKClient(where, cache_keys=True, lifespan=86_400, timeout=10)
        return lambda token: client.get_signing_key_from_jwt(token).key
    try:
        known = jwt.PyJWKSet.from_json(Path(where).read_text())
    except (OSError, ValueError, jwt.PyJWTError) as problem:
        raise InputError(f"{where}: not a set of public keys (JWKS) ({problem})") from None

    def of(token: str) -> Any:
        named = jwt.get_unverified_header(token).get("kid")
        for key in known.keys:
            if key.key_id == named:
                return key.key
        raise jwt.InvalidTokenError("no such key")

    return of


class WayBack(NamedTuple):
    """How a session ends: the `code` to show, a `link` back to the platform, or a form: `action` and its `fields`."""

    code: str | None
    link: str | None = None
    action: str | None = None
    fields: Mapping[str, str] = {}


def code_of(plan: StudyPlan, why: str, own: str | None) -> str | None:
    """The completion code of a session that ended so (as in `Done.why`): the platform's, or its `own`.

    Who declined before any work gets none, nor does one whose data are erased. Who left later gets one, and so does who
    was blocked: what the work was worth is for the owner to say, who sees answers and standing beside the code.

    >>> code_of(StudyPlan(), "finished", "K7")
    'K7'
    """
    codes = plan.people.codes
    fixed = {"finished": codes.finished, "stopped": codes.no_work or codes.finished, "no-work": codes.no_work}
    fixed |= {"left": codes.no_work} | dict.fromkeys(("failed", "blocked", "excluded"), codes.failed)
    return (fixed[why] or own) if why in fixed else None


def ending(plan: StudyPlan, done: Done) -> WayBack:
    """The code of a session that is over and the way back to where its person came from.

    >>> ending(StudyPlan(), Done(why="finished", code="K7", answers=15, params={}))
    WayBack(code='K7', link=None, action=None, fields={})
    """
    code = code_of(plan, done.why, done.code)
    if code is None:
        return WayBack(None)
    if plan.people.recruit == "prolific":
        return WayBack(code, link=f"{COMPLETE}?{urlencode({'cc': code})}")
    if plan.people.recruit == "mturk" and "assignmentId" in done.params and "turkSubmitTo" in done.params:
        fields = {"assignmentId": done.params["assignmentId"], "code": code, "answers": str(done.answers)}
        return WayBack(code, action=f"{_submit_to(done.params['turkSubmitTo'])}/mturk/externalSubmit", fields=fields)
    return WayBack(code)


def hashed(token: str) -> str:
    """What is kept of a token, or of who somebody is elsewhere."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


def invite(log: EventLog, n: int) -> list[tuple[str, str]]:
    """New people with a visit each: labels and tokens."""
    at_least("people", n, 1)
    made = []
    for _ in range(n):
        worker = _arrived(log, source="links", external_id="", external_hash=secrets.token_hex(16))
        made.append((worker.label, _visit(log, worker, {})))
    return made


def join(
    log: EventLog,
    new: Addresses,
    again: Addresses,
    *,
    source: str,
    external_id: str,
    params: Mapping[str, str],
    address: str,
) -> str | None:
    """A token for somebody who comes; None where no more may: `new` people, or any `again`, from this address."""
    state, now = log.state, log.clock.steady()
    who = hashed(f"{source}\n{external_id}") if external_id else secrets.token_hex(16)
    worker = state.persons.get((source, who))
    if worker is None:
        if state.control == "stopped" or len(state.workers) >= state.plan.people.most or new.is_full(address, now):
            return None
        worker = _arrived(log, source=source, external_id=external_id, external_hash=who)
        new.came(address, now)
        return _visit(log, worker, params)
    if again.is_full(address, now):
        return None
    again.came(address, now)
    last = worker.sessions[-1]
    if last.params != dict(params) and not worker.forgotten and _is_over(log, last):
        return _visit(log, worker, params)
    token = secrets.token_urlsafe(16)
    # A platform pays by what it said last: another task may go on with the same visit.
    said: dict[str, Any] = {"hash": hashed(token)}
    if not worker.forgotten and last.params != dict(params):
        said["params"] = dict(params)
    log.event("token", session=last, **said)
    return token


def _is_over(log: EventLog, session: Session) -> bool:
    """Whether its batch is done, so that coming again is a visit of its own."""
    return is_done(log, session) and session.worker.batches < log.state.plan.people.batches


def _arrived(log: EventLog, *, source: str, external_id: str, external_hash: str) -> Worker:
    row = WorkerRow(
        worker=log.next,
        label=f"w{len(log.state.workers) + 1:03d}",
        source=source,
        external_hash=external_hash,
        external_id=external_id,
        at=log.clock.wall(),
    )
    log.put(row)
    return log.state.workers[row.worker]


def _visit(log: EventLog, worker: Worker, params: Mapping[str, str]) -> str:
    token = secrets.token_urlsafe(16)
    kept = json.dumps(dict(params), ensure_ascii=False)
    log.put(SessionRow(log.next, worker.id, hashed(token), log.clock.wall(), kept))
    return token


def forget(log: EventLog, worker: Worker) -> None:
    """Blank what names somebody, everywhere: the one thing that is ever rewritten."""
    base = log.base
    base.execute("UPDATE worker SET external_id = '' WHERE worker = ?", (worker.id,))
    base.execute("UPDATE session SET params = '{}' WHERE worker = ?", (worker.id,))
    base.execute(
        "UPDATE event SET json = json_set(json, '$.form', json_object()) WHERE kind = 'consent' AND worker = ?",
        (worker.id,),
    )
    base.execute(
        "UPDATE event SET json = json_set(json, '$.text', '') WHERE kind = 'comment' AND worker = ?", (worker.id,)
    )
    base.execute(
        "UPDATE event SET json = json_remove(json, '$.params') WHERE kind = 'token' AND worker = ?", (worker.id,)
    )
    log.event("forgotten", worker=worker)
