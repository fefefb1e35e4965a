"""A single thread that performs all operations on a study. Operations that wait at the same time share one transaction.

An operation is acknowledged when its transaction is on disk. So a killed process or a full disk loses no acknowledged
operation. A disk syncs only a few hundred times per second. A single file is still fast enough, because many operations
are committed at once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

from custodes.annotate.study_file import StudyBusy, transaction
from custodes.errors import CustodesError

T = TypeVar("T")
Job = tuple["Future[Any]", Callable[[], Any]]

MOST = 500
"""Maximum number of operations per transaction."""


class Writer:
    """Perform operations on a study one after the other. After a failure, the function `reload_state` reloads the state
    from the file.

    Without a thread, operations run immediately in the calling thread.
    """

    def __init__(self, connection: sqlite3.Connection, *, reload_state: Callable[[], object], threaded: bool) -> None:
        self._connection, self._reload_state = connection, reload_state
        self._is_stale = self._is_closed = False
        self._problem: sqlite3.Error | None = None
        self._job_queue: SimpleQueue[Job | None] = SimpleQueue()
        self._job_lock = Lock()
        self._thread: Thread | None = None
        if threaded:
            self._thread = Thread(target=self._run, name="custodes-annotate", daemon=True)
            self._thread.start()

    @property
    def write_failure(self) -> str:
        """The reason why nothing can be written, according to the latest operation, or '' if writing is possible."""
        if self._problem is None:
            return ""
        return "No space left" if self._problem.sqlite_errorcode == sqlite3.SQLITE_FULL else str(self._problem)

    def do(self, operation: Callable[[], T]) -> Future[T]:
        """Queue an operation and return its future. The result is available when the changes are on disk.

        An operation that fails with `CustodesError` has changed nothing. An operation fails with `StudyBusy` if the
        file could not be written.
        """
        future: Future[T] = Future()
        if self._is_closed:
            future.set_exception(StudyBusy("the study is closed; open it again"))
        elif self._thread is None:
            with self._job_lock:
                self._run_jobs([(future, operation)])
        else:
            self._job_queue.put((future, operation))
        return future

    def close(self) -> None:
        """Finish the waiting operations, and accept no more operations."""
        self._is_closed = True
        if self._thread is not None:
            self._job_queue.put(None)
            self._thread.join()
            while (job := self._next_job()) is not None:
                job[0].set_exception(StudyBusy("the study is closed; open it again"))

    def _run(self) -> None:
        while (job := self._job_queue.get()) is not None:
            jobs = [job]
            while len(jobs) < MOST and (job := self._next_job()) is not None:
                jobs.append(job)
            self._run_jobs(jobs)
            if self._is_closed and self._job_queue.empty():
                return

    def _next_job(self) -> Job | None:
        try:
            return self._job_queue.get_nowait()
        except Empty:
            return None

    def _run_jobs(self, jobs: Sequence[Job]) -> None:
        """Run several operations in one transaction."""
        jobs = [job for job in jobs if job[0].running() or job[0].set_running_or_notify_cancel()]
        try:
            if self._is_stale:
                self._reload_state()
                self._is_stale = False
            if self._problem is not None:
                self._problem = self._persisting_error()
            if self._problem is not None:
                self._run_read_only(jobs, self._problem)
                return
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as problem:
            self._problem = problem
            _fail(jobs, _busy(problem))
            return
        futures_and_outcomes = []
        try:
            for future, operation in jobs:
                futures_and_outcomes.append((future, self._try_operation(operation)))
            self._connection.execute("COMMIT")
        except sqlite3.Error as problem:
            self._problem = problem
            self._undo_transaction()
            _fail(jobs, _busy(problem))
            return
        except BaseException as problem:
            self._undo_transaction()
            if len(jobs) == 1:
                _fail(jobs, problem)
            else:  # only this operation fails; the others are unaffected
                for job in jobs:
                    self._run_jobs([job])
            return
        for future, (operation_result, error) in futures_and_outcomes:
            if error is None:
                future.set_result(operation_result)
            else:
                future.set_exception(error)

    def _persisting_error(self) -> sqlite3.Error | None:
        """Return the error that still prevents writing, or None. The test allocates space and rewrites a constant
        value."""
        try:
            with transaction(self._connection):
                self._connection.execute("SAVEPOINT room")
                self._connection.execute("CREATE TABLE room AS SELECT zeroblob(65536) AS bytes")
                self._connection.execute("ROLLBACK TO room")
                self._connection.execute("RELEASE room")
                self._connection.execute("PRAGMA application_id = 0x43555354")
        except sqlite3.Error as problem:
            return problem
        return None

    def _run_read_only(self, jobs: Sequence[Job], write_error: sqlite3.Error) -> None:
        """Run operations in read-only mode, because the file cannot be written.

        If an operation needs to write, it raises an error at its first row, and the state stays unchanged.
        """
        self._connection.execute("PRAGMA query_only = ON")
        for future, operation in jobs:
            try:
                future.set_result(operation())
            except sqlite3.Error:
                future.set_exception(_busy(write_error))
            except BaseException as problem:
                future.set_exception(problem)
        self._connection.execute("PRAGMA query_only = OFF")

    def _try_operation(self, operation: Callable[[], Any]) -> tuple[Any, CustodesError | None]:
        """Return the result of an operation, or the error with which the operation was refused before it changed
        anything."""
        n_changes_before = self._connection.total_changes
        try:
            return operation(), None
        except CustodesError as problem:
            if self._connection.total_changes > n_changes_before:
                raise AssertionError("refused after something was written") from problem
            return None, problem

    def _undo_transaction(self) -> None:
        """Undo all changes of this transaction: roll back the file, and reload the state."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        try:
            self._reload_state()
        except sqlite3.Error:
            self._is_stale = True


def _busy(problem: sqlite3.Error) -> StudyBusy:
    if not isinstance(problem, sqlite3.OperationalError):  # a full disk or a lock would be an OperationalError
        return StudyBusy(f"the study file is damaged ({problem}); restore a backup")
    return StudyBusy(f"the study cannot be written at present ({problem}); nothing is lost, try again")


def _fail(jobs: Sequence[Job], problem: BaseException) -> None:
    for future, _ in jobs:
        future.set_exception(problem)
