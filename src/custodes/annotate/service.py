"""The service of a study: the operations of annotators and of the owner.

All operations run in one thread, one after the other. When the future of an operation is done, its changes are on disk.
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
from custodes.annotate.participants import Annotator
from custodes.annotate.plan import StudyPlan, check_plan
from custodes.annotate.snapshot import Snapshot, snapshot_of, state_name
from custodes.annotate.study_file import StudyBusy
from custodes.annotate.views import Act, Example, View
from custodes.annotate.visits import digest_of, examples_of, view_of
from custodes.annotate.writer import Writer
from custodes.arguments import check_one_of
from custodes.errors import InputError, reject, suggestion
from custodes.files import check_writable

__all__ = ["Service", "StudyBusy"]

T = TypeVar("T")
P = ParamSpec("P")
Control = Literal["pause", "resume", "stop", "reopen"]
CONTROLS: Mapping[str, str] = {"pause": "paused", "resume": "resumed", "stop": "stopped", "reopen": "reopened"}


def run_in_writer(method: Callable[Concatenate[Service, P], T]) -> Callable[Concatenate[Service, P], Future[T]]:
    """Run a method in the writer thread. The returned future is done when all changes are on disk."""

    @wraps(method)
    def submit(self: Service, /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        return self._writer.do(lambda: method(self, *args, **kwargs))

    return submit


class Service:
    """An open study. Only one service at a time can open a study file. Open a service with `Service.open`, and close it
    at the end."""

    def __init__(self, path: Path, resources: ExitStack, clock: Clock, *, threaded: bool, durable: bool) -> None:
        self.path, self._resources = path, resources
        resources.enter_context(study_file.lock_study(path))
        self._connection = resources.enter_context(closing(study_file.connect(path, durable=durable)))
        self._log = EventLog(self._connection, clock)
        self._new_arrivals, self._returning_arrivals = Addresses(NEW), Addresses(AGAIN)
        self._writer = Writer(self._connection, reload_state=self._log.read, threaded=threaded)
        resources.callback(self._writer.close)

    @classmethod
    def open(
        cls, path: str | Path, *, clock: Clock | None = None, threaded: bool = True, durable: bool = True
    ) -> Service:
        """Open a study and replay its event log.

        Raise `InputError` if the file is not a study, or if another process has the study open. With `threaded=False`,
        operations run immediately in the calling thread. With `durable=False`, which is for simulations, a power
        failure may lose the latest answers.
        """
        study_path = study_file.check(path)
        with ExitStack() as exit_stack, study_file.sqlite_errors(study_path):
            service = cls(study_path, exit_stack, clock or Clock(), threaded=threaded, durable=durable)
            service._resources = exit_stack.pop_all()
        return service

    @property
    def plan(self) -> StudyPlan:
        """The current plan."""
        return self._log.state.plan

    @property
    def examples(self) -> tuple[Example, ...]:
        """The worked examples of the instructions."""
        with study_file.reading(self.path) as connection:
            return examples_of(connection)

    @property
    def write_failure(self) -> str:
        """The reason why answers cannot be written, according to the latest operation, or '' if they can be written."""
        return self._writer.write_failure

    # --- annotators

    @run_in_writer
    def invite(self, n_annotators: int) -> list[tuple[str, str]]:
        """Create links for `n_annotators` annotators. Return the label and the token of each annotator. The study
        stores only hashes of tokens."""
        return arrivals.invite(self._log, n_annotators)

    @run_in_writer
    def join(self, *, external_id: str, address: str) -> str | None:
        """Return a token for a worker who arrives by the open link. Return None if the worker is not admitted.

        A worker with a known `external_id` continues the earlier visit. With an empty `external_id`, the worker counts
        as new. In one hour, at most `NEW` new workers and `AGAIN` returning workers may arrive from one network address
        (for IPv6, from one /64 network). Network addresses are not stored.
        """
        return arrivals.join(
            self._log, self._new_arrivals, self._returning_arrivals, external_id=external_id, address=address
        )

    @run_in_writer
    def view(self, token: str) -> View | None:
        """Return the current page of a visit, or None for an unknown token. An open question is displayed again."""
        worker = self._visitor(token)
        return None if worker is None else view_of(self._log, worker)

    @run_in_writer
    def act(self, token: str, action: Act) -> View | None:
        """Perform an action once, and return the next page. Return None for an unknown visit, or for a question that
        belongs to another visit.

        Raise `InputError` for an invalid answer.
        """
        worker = self._visitor(token)
        return view_of(self._log, worker) if worker is not None and visits.do(self._log, worker, action) else None

    @run_in_writer
    def renew_lease(self, token: str, assignment: int) -> None:
        """Extend the lease of a question, because its page is still open."""
        worker = self._visitor(token)
        for issued_question in worker.open if worker else ():
            if issued_question.id == assignment:
                self._log.renew(issued_question)

    def has_visit(self, token: str) -> bool:
        """Whether a token belongs to a visit of this study. The check does not wait for other operations."""
        return self._visitor(token) is not None

    def _visitor(self, token: str) -> Annotator | None:
        return self._log.state.tokens.get(digest_of(token))

    # --- the owner

    @run_in_writer
    def control(self, what: Control, why: str = "") -> None:
        """Pause, resume, stop or reopen the study. If the study is already in the requested state, nothing changes."""
        check_one_of("control", what, CONTROLS)
        current_control = self._log.state.control
        if current_control == "stopped" and what in ("resume", "pause"):
            raise InputError(f"the study is stopped, so {what} has no effect; reopen the study first")
        if current_control != {"pause": "paused", "stop": "stopped"}.get(what, "open"):
            self._log.event(CONTROLS[what], why=why)

    @run_in_writer
    def exclude(self, worker_label: str, reason: str, by: Literal["owner", "rule"] = "owner") -> None:
        """Exclude an annotator, who gets no more questions. The answers are removed from incomplete interim analyses.

        Completed analyses do not change.
        """
        annotator = self._worker(worker_label)
        if not annotator.excluded:
            visits.exclude(self._log, annotator, by=by, reason=reason)

    def forget(self, worker_label: str) -> Future[None]:
        """Erase the data that identify an annotator, and the annotator's comments. The answers remain in the study
        under the annotator's label."""
        erasure_future = self._writer.do(lambda: arrivals.forget(self._log, self._worker(worker_label)))

        def empty_write_ahead_log(_: Future[None]) -> None:
            with suppress(sqlite3.Error):  # fails while another program reads; a later writer empties the log
                self._connection.execute(
                    "PRAGMA wal_checkpoint(TRUNCATE)"
                )  # the write-ahead log still contains the old rows

        erasure_future.add_done_callback(empty_write_ahead_log)
        return erasure_future

    @run_in_writer
    def replan(self, plan: StudyPlan) -> None:
        """Change settings of the plan that may change during annotation: texts, payment, limits of annotators, and the
        budget, which can only be increased."""
        old_plan = self.plan
        check_plan(plan)
        new_budget, old_budget = plan.stopping.budget, old_plan.stopping.budget
        is_changed_of_setting = {
            "seed": plan.seed != old_plan.seed,
            "question": plan.question != old_plan.question,
            "stopping": msgspec.structs.replace(plan.stopping, budget=old_budget) != old_plan.stopping,
            "per_item": plan.annotators.per_item != old_plan.annotators.per_item,
            "render": plan.texts.render != old_plan.texts.render,
        }
        changed_settings_text = ", ".join(
            setting_name for setting_name, is_changed in is_changed_of_setting.items() if is_changed
        )
        reject(
            (
                changed_settings_text,
                f"{changed_settings_text}: cannot be changed in an existing study; create a new study",
            ),
            (
                new_budget is not None and (old_budget is None or new_budget < old_budget),
                f"budget={new_budget}: the budget can only be increased (now {old_budget or 'unlimited'})",
            ),
        )
        plan_version = max(self._log.state.plans) + 1
        self._connection.execute(
            "INSERT INTO plan VALUES (?, ?, ?)",
            (plan_version, self._log.clock.wall(), msgspec.json.encode(plan).decode()),
        )
        self._log.state.plans[plan_version] = plan
        self._log.event("replanned", version=plan_version)

    @run_in_writer
    def state(self) -> str:
        """Return the state of the study: open, paused, stopped or finished."""
        return state_name(self._log.state)

    @run_in_writer
    def snapshot(self) -> Snapshot:
        """Return the current status: completed interim analyses, annotators and counts."""
        return snapshot_of(self._log, write_failure=self.write_failure)

    def _worker(self, label: str) -> Annotator:
        worker_of_label = {worker.label: worker for worker in self._log.state.workers.values()}
        if label not in worker_of_label:
            raise InputError(f"no annotator {label!r} in this study{suggestion(label, worker_of_label)}")
        return worker_of_label[label]

    # --- the file

    def media(self, name: str) -> tuple[str, bytes] | None:
        """Return the type and the content of an image of the study. The image is read without waiting for other
        operations."""
        with study_file.reading(self.path) as connection:
            image_row: tuple[str, bytes] | None = connection.execute(
                "SELECT type, bytes FROM media WHERE name = ?", (name,)
            ).fetchone()
            return image_row

    def backup(self, path: str | Path) -> Path:
        """Copy the file in its current state, without blocking operations. The copy is complete or does not exist."""
        return study_file.copy(self.path, check_writable(path))

    def close(self) -> None:
        """Finish the waiting operations and release the file."""
        self._resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
