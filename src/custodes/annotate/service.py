"""The service of a study: people come and answer, the owner looks and steers, and all is on the disk before it is said.

Everything happens in one thread, one act after the other; what a future gives is committed.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import closing, suppress
from pathlib import Path
from typing import Literal, Self, TypeVar

import msgspec

from custodes.annotate import arrivals, study_file, visits
from custodes.annotate.arrivals import AGAIN, NEW, Addresses
from custodes.annotate.event_log import Clock, EventLog
from custodes.annotate.participants import Session, Worker
from custodes.annotate.plan import StudyPlan
from custodes.annotate.plan_rules import check_plan
from custodes.annotate.snapshot import Snapshot, snapshot_of
from custodes.annotate.state import state_of
from custodes.annotate.study_file import StudyBusy
from custodes.annotate.views import Act, Example, View
from custodes.annotate.visits import examples_of, view_of
from custodes.annotate.writer import Writer
from custodes.errors import InputError, OptionError, suggestion
from custodes.files import check_writable

__all__ = ["Service", "StudyBusy"]

T = TypeVar("T")
Control = Literal["pause", "resume", "stop", "reopen"]
CONTROLS: Mapping[str, str] = {"pause": "paused", "resume": "resumed", "stop": "stopped", "reopen": "reopened"}


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
        """Open a study, and know all that happened in it.

        Nobody else may have it open: `InputError`, as for a file that is none. `threaded=False`: everything is done at
        once by who asks. `durable=False`: a power cut may take the last answers (simulations).
        """
        place = study_file.check(path)
        lock = study_file.Lock(place)
        try:
            with study_file.told(place):
                base = study_file.connect(place, durable=durable)
            try:
                with study_file.told(place):
                    study_file.migrate(base, place)
                    made = cls(place, base, lock, Clock() if clock is None else clock, threaded=threaded)
                    try:
                        made.reload().result()
                    except BaseException:
                        made.close()
                        raise
                    return made
            except BaseException:
                base.close()
                raise
        except BaseException:
            lock.release()
            raise

    @property
    def plan(self) -> StudyPlan:
        """What holds now."""
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

    def state(self) -> bytes:
        """All that is known but clocks; equal bytes after a restart."""
        return self._do(lambda: state_of(self._log.state)).result()

    # --- people

    def invite(self, n: int) -> Future[list[tuple[str, str]]]:
        """Links of its own for so many people: their labels, and tokens that are kept nowhere else."""
        return self._do(lambda: arrivals.invite(self._log, n))

    def join(self, *, source: str, external_id: str, params: Mapping[str, str], address: str) -> Future[str | None]:
        """Somebody comes by an open link or from a platform: a token, or None where no more may come.

        The same `external_id` comes back to the visit that is open; '' is somebody new. From one address come at most
        `NEW` people in an hour, and `AGAIN` times one who was there before (of IPv6 its /64); addresses are not kept.
        """
        return self._do(
            lambda: arrivals.join(
                self._log,
                self._new,
                self._again,
                source=source,
                external_id=external_id,
                params=params,
                address=address,
            )
        )

    def view(self, token: str) -> Future[View | None]:
        """What a visit shows; None: there is none of this token. A question that is there stays the same."""
        return self._do(lambda: self._seen_by(token, lambda session: view_of(self._log, session)))

    def act(self, token: str, act: Act) -> Future[View | None]:
        """Do it, once, and what the visit shows then; None: no such visit, or a question of another one.

        `InputError` for an answer that cannot be given.
        """

        def done(session: Session) -> View | None:
            return view_of(self._log, session) if visits.do(self._log, session, act) else None

        return self._do(lambda: self._seen_by(token, done))

    def seen(self, token: str, assignment: int) -> Future[None]:
        """The page is open: its question is kept longer."""

        def alive(session: Session) -> None:
            for given in session.open:
                if given.id == assignment:
                    self._log.renew(given)

        return self._do(lambda: self._seen_by(token, alive))

    def _seen_by(self, token: str, what: Callable[[Session], T]) -> T | None:
        session = self._log.state.tokens.get(arrivals.hashed(token))
        return None if session is None else what(session)

    # --- the owner

    def control(self, what: Control, why: str = "") -> Future[None]:
        """Pause, resume, stop or reopen the study; what is so already stays so."""
        if what not in CONTROLS:
            raise OptionError(f"{what!r}: allowed are {', '.join(CONTROLS)}{suggestion(what, CONTROLS)}")
        wanted = {"pause": "paused", "stop": "stopped"}.get(what, "open")

        def steer() -> None:
            now = self._log.state.control
            if (what, now) == ("resume", "stopped") or (what, now) == ("pause", "stopped"):
                raise InputError(f"the study is stopped; reopen it first ({what} does not)")
            if now != wanted:
                self._log.event(CONTROLS[what], why=why)

        return self._do(steer)

    def address(self) -> Future[str]:
        """How links begin: where the study was last served, or for which address people were last invited; or ''."""
        return self._do(lambda: self._log.state.address)

    def set_address(self, url: str) -> Future[None]:
        """Record how links begin from now on."""

        def record() -> None:
            if url != self._log.state.address:
                self._log.event("address", url=url)

        return self._do(record)

    def exclude(self, worker: str, reason: str, by: Literal["owner", "rule"] = "owner") -> Future[None]:
        """Ask somebody no more, and count no answer of looks to come; completed looks stay as they were judged."""

        def leave_out() -> None:
            own = self._worker(worker)
            if not own.excluded:
                visits.exclude(self._log, own, by=by, reason=reason)

        return self._do(leave_out)

    def restore(self, worker: str) -> Future[None]:
        """Take an exclusion back; answers that somebody else gave in the meantime are second opinions."""

        def take_in() -> None:
            own = self._worker(worker)
            if own.excluded:
                visits.restore(self._log, own)

        return self._do(take_in)

    def forget(self, worker: str) -> Future[None]:
        """Blank all that says who somebody is, and what he wrote; the answers stay, under the label."""
        done = self._do(lambda: arrivals.forget(self._log, self._worker(worker)))

        def emptied(_: Future[None]) -> None:
            with suppress(sqlite3.Error):  # another program reads; the next one who writes does it
                self._base.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # the log beside the file still has the old rows

        done.add_done_callback(emptied)
        return done

    def replan(self, plan: StudyPlan) -> Future[None]:
        """Change what may change while people answer: texts, money, how many people and their share, more budget."""

        def change() -> None:
            old = self.plan
            check_plan(plan)
            now = msgspec.structs.replace(plan.stopping, budget=old.stopping.budget)
            fixed = {"seed": plan.seed == old.seed, "question": plan.question == old.question}
            fixed |= {"stopping": now == old.stopping, "per_item": plan.people.per_item == old.people.per_item}
            fixed["render"] = plan.texts.render == old.texts.render
            if changed := [name for name, is_same in fixed.items() if not is_same]:
                raise OptionError(f"{', '.join(changed)}: answers were given to the plan as it was; make a new study")
            new, known = plan.stopping.budget, old.stopping.budget
            if (known is None and new is not None) or (known is not None and new is not None and new < known):
                raise OptionError(f"budget={new}: it may only grow (now {known or 'without end'})")
            version = max(self._log.state.plans) + 1
            text = msgspec.json.encode(plan).decode()
            self._base.execute("INSERT INTO plan VALUES (?, ?, ?)", (version, self._clock.wall(), text))
            self._log.state.plans[version] = plan
            self._log.event("replanned", version=version)

        return self._do(change)

    def peek(self) -> Future[None]:
        """The owner looked at what is not judged yet: kept, and told with the results."""
        return self._do(lambda: self._log.event("peeked"))

    def snapshot(self) -> Future[Snapshot]:
        """The study now: completed looks, people, counts."""
        return self._do(lambda: snapshot_of(self._log, failing=self.failing))

    def reload(self) -> Future[None]:
        """Take in systems and items that were added to the file: they are asked about from now on."""

        def take_in() -> None:
            (pairs,) = self._base.execute("SELECT count(*) FROM pair").fetchone()
            (units,) = self._base.execute("SELECT coalesce(max(unit), 0) FROM unit").fetchone()
            if (pairs, units) != self._log.state.added:
                self._log.read()
                self._log.event("added", pairs=pairs, units=units)

        return self._do(take_in)

    def _worker(self, label: str) -> Worker:
        by_label = {own.label: own for own in self._log.state.workers.values()}
        if label not in by_label:
            raise InputError(f"no person {label!r} in this study{suggestion(label, by_label)}")
        return by_label[label]

    # --- the file

    def media(self, name: str) -> tuple[str, bytes] | None:
        """An image of the study: its type and bytes, read beside the acts, which do not wait for it."""
        with closing(study_file.connect(self.path, durable=False, reading=True)) as base:
            row = base.execute("SELECT type, bytes FROM media WHERE name = ?", (name,)).fetchone()
        return None if row is None else (row[0], row[1])

    def backup(self, path: str | Path) -> Future[Path]:
        """A copy of the file as it is now, beside the work; whole or not at all."""
        place = check_writable(path)
        future: Future[Path] = Future()

        def copy() -> None:
            try:
                future.set_result(study_file.copy(self.path, place))
            except BaseException as problem:
                future.set_exception(problem)

        if self._threaded:
            threading.Thread(target=copy, name="custodes-backup", daemon=True).start()
        else:
            copy()
        return future

    def close(self) -> None:
        """Finish what is waiting, and let another one have the file."""
        self._writer.close()
        self._base.close()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _do(self, act: Callable[[], T]) -> Future[T]:
        return self._writer.do(act)
