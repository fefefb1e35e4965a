"""A single thread that performs all operations on a study. Operations that wait at the same time share one transaction.
An operation is acknowledged when its transaction is on disk, so a killed process or a full disk loses no acknowledged
operation. A disk can confirm only a few hundred transactions per second. One file is fast enough nevertheless, because
many operations share a transaction.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any, TypeVar

from custodes.annotate.study_file import SET_ID, StudyBusy, transaction
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
        self._lock, self._waiting_jobs = Lock(), deque[Job]()
        self._executor = ThreadPoolExecutor(1, "custodes-annotate") if threaded else None

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
        with self._lock:
            if self._is_closed:
                future.set_exception(StudyBusy("the study is closed; open it again"))
                return future
            self._waiting_jobs.append((future, operation))
            if self._executor is None:
                self._run_waiting_jobs()
            else:
                self._executor.submit(self._run_waiting_jobs)
        return future

    def close(self) -> None:
        """Finish the waiting operations, and accept no more operations."""
        with self._lock:
            self._is_closed = True
        if self._executor is not None:
            self._executor.shutdown()

    def _run_waiting_jobs(self) -> None:
        """Run all waiting operations, at most `MOST`. An earlier call may have run them already."""
        waiting_jobs = [self._waiting_jobs.popleft() for _ in range(min(MOST, len(self._waiting_jobs)))]
        running_jobs = [job for job in waiting_jobs if job[0].set_running_or_notify_cancel()]
        if running_jobs:
            self._run_jobs(running_jobs)

    def _run_jobs(self, jobs: Sequence[Job]) -> None:
        """Run several operations in one transaction."""
        has_transaction_begun = False
        try:
            if self._is_stale:
                self._reload_state()
                self._is_stale = False
            if self._problem is not None:
                self._problem = self._persisting_error()
            if self._problem is not None:
                self._run_read_only(jobs, self._problem)
                return
            with transaction(self._connection):
                has_transaction_begun = True
                results_and_errors = [self._try_operation(operation) for _, operation in jobs]
        except sqlite3.Error as problem:
            self._problem = problem
            if has_transaction_begun:  # otherwise nothing has changed, and reloading a large study takes long
                self._restore_state()
            _fail(jobs, _busy(problem))
        except BaseException as problem:
            self._restore_state()
            if len(jobs) == 1:
                _fail(jobs, problem)
                return
            for job in jobs:  # only this operation fails; the others are unaffected
                self._run_jobs([job])
        else:
            for (future, _), (operation_result, error) in zip(jobs, results_and_errors, strict=True):
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
                self._connection.execute(SET_ID)
        except sqlite3.Error as problem:
            return problem
        return None

    def _run_read_only(self, jobs: Sequence[Job], write_error: sqlite3.Error) -> None:
        """Run operations in read-only mode, because the file cannot be written.

        An operation that tries to write raises an error at its first row and leaves the state unchanged.
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

    def _restore_state(self) -> None:
        """Reload the state from the file, because the file has none of the changes of this transaction."""
        try:
            self._reload_state()
        except (sqlite3.Error, CustodesError):
            self._is_stale = True


def _busy(problem: sqlite3.Error) -> StudyBusy:
    if not isinstance(problem, sqlite3.OperationalError):  # a full disk or a lock would be an OperationalError
        return StudyBusy(f"the study file is damaged ({problem}); restore a backup")
    return StudyBusy(f"the study cannot be written at present ({problem}); nothing is lost, try again")


def _fail(jobs: Sequence[Job], problem: BaseException) -> None:
    for future, _ in jobs:
        future.set_exception(problem)
