"""A single thread that performs all operations on a study. Operations that wait at the same time share one transaction.

An operation is acknowledged when its transaction is on disk. So a killed process or a full disk loses no acknowledged
operation. A disk syncs only some hundred times per second. A single file is still fast enough, because many operations
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
    """Perform operations on a study one after the other. After a failure, the function `again` reloads the state from
    the file.

    Without a thread, operations run immediately in the calling thread.
    """

    def __init__(self, base: sqlite3.Connection, *, again: Callable[[], object], threaded: bool) -> None:
        self._base, self._again = base, again
        self._is_stale = self._is_closed = False
        self._problem: sqlite3.Error | None = None
        self._waiting: SimpleQueue[Job | None] = SimpleQueue()
        self._one = Lock()
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

        An operation that fails with `CustodesError` has changed nothing. It fails with `StudyBusy` if the file could
        not be written.
        """
        future: Future[T] = Future()
        if self._is_closed:
            future.set_exception(StudyBusy("the study is closed; open it again"))
        elif self._thread is None:
            with self._one:
                self._run_jobs([(future, operation)])
        else:
            self._waiting.put((future, operation))
        return future

    def close(self) -> None:
        """Finish the waiting operations, and accept no more operations."""
        self._is_closed = True
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()
            while (job := self._next_job()) is not None:
                job[0].set_exception(StudyBusy("the study is closed; open it again"))

    def _run(self) -> None:
        while (job := self._waiting.get()) is not None:
            jobs = [job]
            while len(jobs) < MOST and (job := self._next_job()) is not None:
                jobs.append(job)
            self._run_jobs(jobs)
            if self._is_closed and self._waiting.empty():
                return

    def _next_job(self) -> Job | None:
        try:
            return self._waiting.get_nowait()
        except Empty:
            return None

    def _run_jobs(self, jobs: Sequence[Job]) -> None:
        """Run several operations in one transaction."""
        jobs = [job for job in jobs if job[0].running() or job[0].set_running_or_notify_cancel()]
        try:
            if self._is_stale:
                self._again()
                self._is_stale = False
            if self._problem is not None:
                self._problem = self._persisting_error()
            if self._problem is not None:
                self._read(jobs, self._problem)
                return
            self._base.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as problem:
            self._problem = problem
            _fail(jobs, _busy(problem))
            return
        results = []
        try:
            for future, operation in jobs:
                results.append((future, self._try_operation(operation)))
            self._base.execute("COMMIT")
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
        for future, (value, error) in results:
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)

    def _persisting_error(self) -> sqlite3.Error | None:
        """Return the error that still prevents writing, or None. The test allocates space and rewrites a constant
        value."""
        try:
            with transaction(self._base):
                self._base.execute("SAVEPOINT room")
                self._base.execute("CREATE TABLE room AS SELECT zeroblob(65536) AS bytes")
                self._base.execute("ROLLBACK TO room")
                self._base.execute("RELEASE room")
                self._base.execute("PRAGMA application_id = 0x43555354")
        except sqlite3.Error as problem:
            return problem
        return None

    def _read(self, jobs: Sequence[Job], write_error: sqlite3.Error) -> None:
        """Run operations in read-only mode, because the file cannot be written.

        An operation that writes fails at its first row, before it changes the state.
        """
        self._base.execute("PRAGMA query_only = ON")
        for future, operation in jobs:
            try:
                future.set_result(operation())
            except sqlite3.Error:
                future.set_exception(_busy(write_error))
            except BaseException as problem:
                future.set_exception(problem)
        self._base.execute("PRAGMA query_only = OFF")

    def _try_operation(self, operation: Callable[[], Any]) -> tuple[Any, CustodesError | None]:
        """Return the result of an operation, or the error with which the operation was refused before it changed
        anything."""
        n_changes_before = self._base.total_changes
        try:
            return operation(), None
        except CustodesError as problem:
            if self._base.total_changes > n_changes_before:
                raise AssertionError("refused after something was written") from problem
            return None, problem

    def _undo_transaction(self) -> None:
        """Undo all changes of this transaction: roll back the file, and reload the state."""
        if self._base.in_transaction:
            self._base.execute("ROLLBACK")
        try:
            self._again()
        except sqlite3.Error:
            self._is_stale = True


def _busy(problem: sqlite3.Error) -> StudyBusy:
    if not isinstance(problem, sqlite3.OperationalError):  # neither a full disk nor a lock
        return StudyBusy(f"the study file is damaged ({problem}); restore a backup")
    return StudyBusy(f"the study cannot be written at present ({problem}); nothing is lost, try again")


def _fail(jobs: Sequence[Job], problem: BaseException) -> None:
    for future, _ in jobs:
        future.set_exception(problem)
