"""Arrival and departure of annotators: invitations, open links, limits per network address, completion codes, and
erasure.

The same procedure serves all platforms. The plan names the link parameter that contains the worker's id. If a link
lacks the parameter for the worker's id, the worker types the id. At the end, a visit displays the completion code. If
the plan has a return link, the visit also displays this link with the code.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Mapping
from ipaddress import IPv6Address, ip_address, ip_network
from urllib.parse import quote

from custodes.annotate.event_log import EventLog
from custodes.annotate.participants import Annotator
from custodes.annotate.plan import IDENTIFIER, StudyPlan
from custodes.annotate.study_file import WorkerRow
from custodes.annotate.visits import digest_of
from custodes.arguments import check_at_least

HOUR = 3600.0
NEW, AGAIN = 5, 30
"""Maximum number of new annotators, and maximum number of returning annotators, who may arrive from one network address
in an hour."""
PREFIX = 64
"""Number of leading bits of an IPv6 address that all devices of a home or an institution share."""


class Addresses:
    """Times of recent arrivals by network address. The addresses are kept only in memory. At most `max_arrivals`
    arrivals from one address are allowed within `window_seconds`."""

    def __init__(self, max_arrivals: int, window_seconds: float = HOUR) -> None:
        self._max_arrivals, self._window_seconds = max_arrivals, window_seconds
        self._times_of_network: dict[str, deque[float]] = {}

    def is_full(self, address: str, now: float) -> bool:
        """Whether the network address has reached the limit."""
        window_start = now - self._window_seconds
        self._times_of_network = {
            network_name: arrival_times
            for network_name, arrival_times in self._times_of_network.items()
            if arrival_times[-1] > window_start
        }
        return (
            sum(arrival_time > window_start for arrival_time in self._times_of_network.get(network(address), ()))
            >= self._max_arrivals
        )

    def add(self, address: str, now: float) -> None:
        """Record an arrival from the network address."""
        self._times_of_network.setdefault(network(address), deque(maxlen=self._max_arrivals)).append(now)


def network(address: str) -> str:
    """Return the part of a network address to which limits apply: the whole IPv4 address, or the first 64 bits of an
    IPv6 address. Other text is returned unchanged.

    >>> network("2001:db8::1") == network("2001:db8::2"), network("::ffff:192.0.2.1")
    (True, '192.0.2.1')
    """
    try:
        ip_object = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(ip_object, IPv6Address):
        return str(ip_object.ipv4_mapped or ip_network((ip_object, PREFIX), strict=False))
    return str(ip_object)


def worker_id_of(plan: StudyPlan, params: Mapping[str, str]) -> str | None:
    """Return the worker's id in the parameters of a link or in a submitted form. Return '' if there is no id, or if the
    plan names no parameter for the id. Return None if the id is invalid.

    >>> from custodes.annotate.plan import AnnotatorPlan
    >>> plan = StudyPlan(annotators=AnnotatorPlan(recruit="open", worker_id="PID"))
    >>> worker_id_of(plan, {"PID": "a1"}), worker_id_of(plan, {}), worker_id_of(plan, {"PID": "two words"})
    ('a1', '', None)
    """
    # The query `?=x` has a parameter with an empty name, which is no worker id if the plan has no name for the id.
    worker_id = params.get(plan.annotators.worker_id, "").strip() if plan.annotators.worker_id else ""
    return worker_id if not worker_id or IDENTIFIER.fullmatch(worker_id) else None


def code_of(plan: StudyPlan, end_reason: str, visit_code: str | None) -> str | None:
    """Return the completion code of a visit that ended for the reason `end_reason` (see `VisitEnd`). If the plan has a
    fixed code for this reason, the fixed code is returned. Otherwise, the code of this visit is returned
    (`visit_code`).

    A visit gets no code if the annotator was erased, or declined before any work. Every other ended visit gets a code,
    even if the annotator was blocked. The owner sees the answers and the status next to the code, and decides about
    payment.

    >>> code_of(StudyPlan(), "finished", "K7")
    'K7'
    """
    plan_codes = plan.annotators.codes
    fixed_code_of_reason = {
        "finished": plan_codes.finished,
        "stopped": plan_codes.no_work or plan_codes.finished,
        **dict.fromkeys(("no-work", "left"), plan_codes.no_work),
        **dict.fromkeys(("failed", "blocked", "excluded"), plan_codes.failed),
    }
    return (fixed_code_of_reason[end_reason] or visit_code) if end_reason in fixed_code_of_reason else None


def return_link(plan: StudyPlan, code: str | None) -> str | None:
    """Return the link to the platform with the completion code, or None if there is no code or no return link."""
    return (
        plan.annotators.return_url.replace("{code}", quote(code, safe=""))
        if code and plan.annotators.return_url
        else None
    )


def invite(log: EventLog, n_annotators: int) -> list[tuple[str, str]]:
    """Create `n_annotators` annotators. Return their labels and the tokens of their links."""
    check_at_least("annotators", n_annotators, 1)
    return [
        _add_worker(log, source="links", external_id="", external_hash=secrets.token_hex(16))
        for _ in range(n_annotators)
    ]


def join(
    log: EventLog, new_arrivals: Addresses, returning_arrivals: Addresses, *, external_id: str, address: str
) -> str | None:
    """Return a token for an annotator who arrives by an open link. Return None if the study admits no more annotators,
    or if the network address has reached its limit for new or for returning annotators.
    """
    state, now = log.state, log.clock.steady()
    id_digest = digest_of(f"open\n{external_id}") if external_id else secrets.token_hex(16)
    worker = state.persons.get(("open", id_digest))
    is_admitted = state.control != "stopped" and len(state.workers) < state.plan.annotators.most
    arrivals = new_arrivals if worker is None else returning_arrivals
    if (worker is None and not is_admitted) or arrivals.is_full(address, now):
        return None
    arrivals.add(address, now)
    if worker is None:
        return _add_worker(log, source="open", external_id=external_id, external_hash=id_digest)[1]
    token = secrets.token_urlsafe(16)
    log.event("token", worker=worker, hash=digest_of(token))
    return token


def _add_worker(log: EventLog, *, source: str, external_id: str, external_hash: str) -> tuple[str, str]:
    """Return the label and the token of a new annotator."""
    label, token = f"w{len(log.state.workers) + 1:03d}", secrets.token_urlsafe(16)
    log.add_rows(WorkerRow(log.next, label, source, external_hash, external_id, digest_of(token), log.clock.wall()))
    return label, token


def forget(log: EventLog, worker: Annotator) -> None:
    """Erase the data that identify an annotator, and the annotator's comments. Other data do not change."""
    for update_statement in (
        "UPDATE worker SET external_id = '' WHERE worker = ?",
        "UPDATE event SET json = json_set(json, '$.text', '') WHERE kind = 'comment' AND worker = ?",
    ):
        log.connection.execute(update_statement, (worker.id,))
    log.event("forgotten", worker=worker)
