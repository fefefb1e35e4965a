"""The service of a study: annotators come and answer, the owner looks and steers.

Everything happens in one thread, one act after the other; the result of a future is on the disk.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, closing, suppress
from functools import wraps
from pathlib import Path
from typing import Concatenate, Literal, ParamSpec, Self, TypeVar

import msgspec

from custodes.annotate import arrivals, study_file, visits
from custodes.annotate.arrivals import AGAIN, NEW, Addresses
from custodes.annotate.event_log import Clock, EventLog
from custodes.annotate.participants import Annotator, Session
from custodes.annotate.plan import StudyPlan, check_plan
from custodes.annotate.snapshot import Snapshot, snapshot_of, state_name
from custodes.annotate.study_file import StudyBusy
from custodes.annotate.views import Act, Example, View
from custodes.annotate.visits import examples_of, view_of
from custodes.annotate.writer import Writer
from custodes.errors import InputError, OptionError, suggestion
from custodes.files import check_writable

__all__ = ["Service", "StudyBusy"]

T = TypeVar("T")
P = ParamSpec("P")
Control = Literal["pause", "resume", "stop", "reopen"]
CONTROLS: Mapping[str, str] = {"pause": "paused", "resume": "resumed", "stop": "stopped", "reopen": "reopened"}


def committed(method: Callable[Concatenate[Service, P], T]) -> Callable[Concatenate[Service, P], Future[T]]:
    """A method as an act of the writer thread: its future is done when everything that it wrote is on the disk."""

    @wraps(method)
    def submit(self: Service, /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        return self._do(lambda: method(self, *args, **kwargs))

    return submit


class Service:
    """An open study; one at a time holds its file. Open it by `Service.open`, and close it."""

    def __init__(
        self, path: Path, base: sqlite3.Connection, lock: study_file.Lock, clock: Clock, *, threaded: bool
    ) -> None:
        self.path = path
        self._base, self._lock, self._clock = base, lock, clock
        self._log = EventLog(base, clock)
        self._new, self._again = Addresses(NEW), Addresses(AGAIN)
        self._writer = Writer(base, again=self._log.read, threaded=threaded)
        self._threaded = threaded

    @classmethod
    def open(
        cls, path: str | Path, *, clock: Clock | None = None, threaded: bool = True, durable: bool = True
    ) -> Service:
        """Open a study, and read everything that happened in it.

        Nobody else may have it open: `InputError`, as for a file that is none. `threaded=False`: acts are done at once
        by the caller. `durable=False`: a power cut may take the last answers (simulations).
        """
        place = study_file.check(path)
        with ExitStack() as opened, study_file.told(place):
            lock = study_file.Lock(place)
            opened.callback(lock.release)
            base = study_file.connect(place, durable=durable)
            opened.callback(base.close)
            service = cls(place, base, lock, Clock() if clock is None else clock, threaded=threaded)
            opened.callback(service._writer.close)
            service._take_in().result()
            opened.pop_all()
        return service

    @property
    def plan(self) -> StudyPlan:
        """The plan that holds now."""
        return self._log.state.plan

    @property
    def examples(self) -> tuple[Example, ...]:
        """Worked examples of the instructions."""
        with closing(study_file.connect(self.path, durable=False, reading=True)) as base:
            return examples_of(base)

    @property
    def failing(self) -> str:
        """Why answers cannot be written, as the last act found; '' where they can."""
        return self._writer.failing

    # --- annotators

    @committed
    def invite(self, n: int) -> list[tuple[str, str]]:
        """Links for so many annotators: their labels, and tokens that are stored nowhere else."""
        return arrivals.invite(self._log, n)

    @committed
    def join(self, *, external_id: str, params: Mapping[str, str], address: str) -> str | None:
        """A token for a worker who comes by the open link; None where no more may come.

        The same `external_id` comes back to the visit that is open; '' is somebody new. From one network address come
        at most `NEW` workers in an hour, and `AGAIN` times one who was there before (of IPv6 its /64); addresses are
        not stored.
        """
        return arrivals.join(self._log, self._new, self._again, external_id=external_id, params=params, address=address)

    @committed
    def view(self, token: str) -> View | None:
        """What a visit shows; None: there is none of this token. A question that is there stays the same."""
        session = self._session(token)
        return None if session is None else view_of(self._log, session)

    @committed
    def act(self, token: str, act: Act) -> View | None:
        """Do it, once, and show the visit then; None: no such visit, or a question of another one.

        `InputError` for an answer that cannot be given.
        """
        session = self._session(token)
        return view_of(self._log, session) if session is not None and visits.do(self._log, session, act) else None

    @committed
    def seen(self, token: str, assignment: int) -> None:
        """The page is open: its question is kept longer."""
        session = self._session(token)
        for issued in session.open if session else ():
            if issued.id == assignment:
                self._log.renew(issued)

    def _session(self, token: str) -> Session | None:
        return self._log.state.tokens.get(arrivals.hashed(token))

    # --- the owner

    def control(self, what: Control, why: str = "") -> Future[None]:
        """Pause, resume, stop or reopen the study; what is so already stays so."""
        if what not in CONTROLS:
            raise OptionError(f"{what!r} is not allowed; allowed: {', '.join(CONTROLS)}{suggestion(what, CONTROLS)}")
        return self._do(lambda: self._control(what, why))

    def _control(self, what: Control, why: str) -> None:
        now = self._log.state.control
        if now == "stopped" and what in ("resume", "pause"):
            raise InputError(f"the study is stopped, so {what} has no effect; reopen it first")
        if now != {"pause": "paused", "stop": "stopped"}.get(what, "open"):
            self._log.event(CONTROLS[what], why=why)

    @committed
    def address(self) -> str:
        """How links begin: where the study was last served, or for which address people were last invited; or ''."""
        return self._log.state.address

    @committed
    def set_address(self, url: str) -> None:
        """Record how links begin from now on."""
        if url != self._log.state.address:
            self._log.event("address", url=url)

    @committed
    def exclude(self, worker: str, reason: str, by: Literal["owner", "rule"] = "owner") -> None:
        """Ask somebody no more, and count no answer of looks to come; completed looks stay as they were judged."""
        annotator = self._worker(worker)
        if not annotator.excluded:
            visits.exclude(self._log, annotator, by=by, reason=reason)

    @committed
    def restore(self, worker: str) -> None:
        """Take an exclusion back; answers that somebody else gave in the meantime are second opinions."""
        annotator = self._worker(worker)
        if annotator.excluded:
            visits.restore(self._log, annotator)

    def forget(self, worker: str) -> Future[None]:
        """Blank what identifies an annotator, and the comments; the answers stay, under the label."""
        done = self._do(lambda: arrivals.forget(self._log, self._worker(worker)))

        def emptied(_: Future[None]) -> None:
            with suppress(sqlite3.Error):  # another program reads; the next one who writes does it
                self._base.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # the log beside the file still has the old rows

        done.add_done_callback(emptied)
        return done

    @committed
    def replan(self, plan: StudyPlan) -> None:
        """Change what may change while people answer: texts, money, how many people and their share, more budget."""
        old = self.plan
        check_plan(plan)
        now = msgspec.structs.replace(plan.stopping, budget=old.stopping.budget)
        fixed = {"seed": plan.seed == old.seed, "question": plan.question == old.question}
        fixed |= {"stopping": now == old.stopping, "per_item": plan.people.per_item == old.people.per_item}
        fixed["render"] = plan.texts.render == old.texts.render
        if changed := [name for name, is_same in fixed.items() if not is_same]:
            raise OptionError(f"{', '.join(changed)}: cannot be changed after the first answer; create a new study")
        new, before = plan.stopping.budget, old.stopping.budget
        if (before is None and new is not None) or (before is not None and new is not None and new < before):
            raise OptionError(f"budget={new}: it can only be increased (now {before or 'unlimited'})")
        version = max(self._log.state.plans) + 1
        text = msgspec.json.encode(plan).decode()
        self._base.execute("INSERT INTO plan VALUES (?, ?, ?)", (version, self._clock.wall(), text))
        self._log.state.plans[version] = plan
        self._log.event("replanned", version=version)

    @committed
    def peek(self) -> None:
        """Record that the owner looked at a look that is not complete; results tell of it."""
        self._log.event("peeked")

    @committed
    def state(self) -> str:
        """Whether the study is open, paused, stopped or finished."""
        return state_name(self._log.state)

    @committed
    def snapshot(self) -> Snapshot:
        """The study now: completed looks, people, counts."""
        return snapshot_of(self._log, failing=self.failing)

    @committed
    def _take_in(self) -> None:
        """Ask about the systems and items that were added to the file since it was last open."""
        (pairs,) = self._base.execute("SELECT count(*) FROM pair").fetchone()
        (units,) = self._base.execute("SELECT coalesce(max(unit), 0) FROM unit").fetchone()
        if (pairs, units) != self._log.state.added:
            self._log.event("added", pairs=pairs, units=units)

    def _worker(self, label: str) -> Annotator:
        by_label = {worker.label: worker for worker in self._log.state.workers.values()}
        if label not in by_label:
            raise InputError(f"no annotator {label!r} in this study{suggestion(label, by_label)}")
        return by_label[label]

    # --- the file

    def media(self, name: str) -> tuple[str, bytes] | None:
        """An image of the study: its type and bytes, read beside the acts, which do not wait for it."""
        with closing(study_file.connect(self.path, durable=False, reading=True)) as base:
            row = base.execute("SELECT type, bytes FROM media WHERE name = ?", (name,)).fetchone()
        return None if row is None else (row[0], row[1])

    def backup(self, path: str | Path) -> Path:
        """Copy the file as it is now, beside the acts, which do not wait for it; whole or not at all."""
        return study_file.copy(self.path, check_writable(path))

    def close(self) -> None:
        """Finish what is waiting, and let another one have the file."""
        self._writer.close()
        self._base.close()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _do(self, what: Callable[[], T]) -> Future[T]:
        return self._writer.do(what)
