"""Metric in a separate process with any interpreter. Rows and scores are lines of JSON on standard input and output.

The protocol is described in `docs/howto/run-a-worker.md`. If a worker ends, hangs or breaks the protocol, it is
stopped, and its earlier answers are kept. The error message is one line with the name of the worker and the last line
of its standard error.

"""

from __future__ import annotations

import contextlib
import json
import math
import os
import queue
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import IO, Annotated, Any, Literal, TypeVar

import msgspec

from custodes.control_characters import escape_controls
from custodes.errors import InputError, short_repr
from custodes.process import CHILDREN
from custodes.scoring.metric import Need
from custodes.strict_json import prepare_decoder

Line = TypeVar("Line", bound=msgspec.Struct)

LONGEST = 1 << 26
"""Maximum length of a line of the worker, in bytes."""
KEPT = 1 << 16
"""Number of bytes that are kept from the end of the worker's standard error."""
ROUNDING = 1e-5
"""Tolerance for scores that are outside a bound because of rounding to single precision. The tolerance is relative to
the absolute value of the bound, or to 1 if this is larger."""
GOODBYE = 5.0
"""Maximum time in seconds to wait until a worker has exited."""


Finite = Annotated[float, msgspec.Meta(ge=-1e300, le=1e300)]


@prepare_decoder
class Hello(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """First line of a worker, which describes its metric.

    - `version`: everything about the library and the model that can change a score.
    - `each_reference`: whether each row has exactly one reference.
    - `max_batch`: maximum number of rows of a request.
    """

    protocol: Literal[1]
    metric: str
    version: str
    needs: tuple[Need, ...] = ()
    each_reference: bool = False
    higher_is_better: bool = True
    low: Finite | None = None
    high: Finite | None = None
    max_batch: Annotated[int, msgspec.Meta(ge=1)] | None = None

    def __post_init__(self) -> None:
        if self.low is not None and self.high is not None and self.low >= self.high:
            raise ValueError(f"'low' of {self.low:g} is not below 'high' of {self.high:g}")
        if escape_controls(signature_text := f"{self.metric} {self.version}") != signature_text:
            raise ValueError(f"'metric' or 'version' in {short_repr(signature_text)} contains control characters")

    @property
    def bounds(self) -> dict[str, float]:
        """The declared bounds, by name."""
        return {
            bound_name: bound for bound_name, bound in (("low", self.low), ("high", self.high)) if bound is not None
        }

    def allows(self, score: float) -> bool:
        """Return whether a score is within the bounds, up to rounding error."""
        return all(
            (score - bound) * (1 if bound_name == "high" else -1) <= ROUNDING * max(1.0, abs(bound))
            for bound_name, bound in self.bounds.items()
        )


@prepare_decoder
class WorkerAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Answer to a request.

    `scores` has one score per row, null for a missing score. `why` has the reasons of missing scores. `truncated` says
    whether a text was truncated. `seconds` has the CPU seconds.
    """

    id: int
    scores: list[float | None]
    seconds: Annotated[float, msgspec.Meta(ge=0, le=1e300)]
    why: list[str | None] | None = None
    truncated: list[bool] | None = None


class Process:
    """A running worker. `name` identifies it in messages. `timeout` is the maximum time of an answer in seconds."""

    def __init__(
        self, command_words: Sequence[str], *, name: str, timeout: float, environment: Mapping[str, str]
    ) -> None:
        self.name, self.timeout = f"worker {short_repr(name)}", timeout
        self._asked = self._answered = 0
        self._failed: str | None = None
        has_process_groups = os.name == "posix"
        try:
            self._process = subprocess.Popen(
                list(command_words),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, **environment},
                process_group=0 if has_process_groups else None,
            )
            guard_process = _start_guard(self._process.pid) if has_process_groups else None
        except (OSError, ValueError) as problem:
            problem_text = getattr(problem, "strerror", None) or problem
            raise InputError(f"{self.name}: {short_repr(command_words[0])} cannot be started: {problem_text}") from None
        if has_process_groups:
            CHILDREN.add(self._process.pid)
        self._to_write: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._heard: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.end = weakref.finalize(self, _end, self._process, self._to_write, guard_process)
        self._errors = Tail()
        for thread_function, *thread_arguments in (
            (_write, self._process.stdin, self._to_write),
            (_queue_lines, self._process.stdout, self._heard),
            (self._errors.read, self._process.stderr),
        ):
            self._error_thread = threading.Thread(target=thread_function, args=thread_arguments, daemon=True)
            self._error_thread.start()

    def hello(self) -> Hello:
        """Return the worker's first line; the timeout is extended if the worker writes to standard error."""
        self._hello = self._parse_line(self._line("its first line", waits_for_activity=True), Hello, "its first line")
        return self._hello

    def ask(self, rows: Sequence[Mapping[str, Any]]) -> WorkerAnswer:
        """Return the worker's complete answer for some rows. Raises `InputError` if the worker gives no complete
        answer."""
        if self._failed is not None:
            raise InputError(self._failed)
        try:
            self._asked += 1
            # Only ASCII is sent, so that the encoding of the worker's input and lone surrogates do not matter.
            self._to_write.put(json.dumps({"id": self._asked, "rows": rows}).encode() + b"\n")
            answer = self._parse_line(self._line("an answer"), WorkerAnswer, "an answer")
            self._check(answer, len(rows))
        except BaseException:  # after an interrupt, the worker would still answer the previous request
            self.end()
            raise
        self._answered += len(rows)
        return answer

    def _check(self, answer: WorkerAnswer, n_rows: int) -> None:
        if answer.id != self._asked:
            raise self._stop_with_error(f"the worker answered request {answer.id}, expected {self._asked}")
        for field_name, row_values in (("scores", answer.scores), ("why", answer.why), ("truncated", answer.truncated)):
            if row_values is not None and len(row_values) != n_rows:
                raise self._stop_with_error(
                    f"the worker returned {len(row_values)} values of {field_name!r} for {n_rows} rows"
                )
        for score in answer.scores:
            if score is not None and math.isfinite(score) and not self._hello.allows(score):
                raise self._stop_with_error(
                    f"the worker returned {score:g} for metric {self._hello.metric!r}, which declares "
                    + " and ".join(f"{bound_name}={bound:g}" for bound_name, bound in self._hello.bounds.items())
                )

    def _line(self, line_name: str, *, waits_for_activity: bool = False) -> bytes:
        line_bytes = None
        while line_bytes is None:
            n_error_bytes_before = self._errors.heard
            try:
                line_bytes = self._heard.get(timeout=self.timeout)
            except queue.Empty:
                if not (waits_for_activity and self._errors.heard > n_error_bytes_before):
                    raise self._stop_with_error(
                        f"the worker hangs: {line_name} did not arrive within {self.timeout:g} seconds; allow longer "
                        "with timeout=SECONDS"
                    ) from None
        if not line_bytes.endswith(b"\n"):
            raise self._stop_with_error(
                f"the worker printed a line of over {LONGEST} bytes"
                if len(line_bytes) >= LONGEST
                else self._exit_description()
            )
        return line_bytes

    def _exit_description(self) -> str:
        try:
            exit_status = self._process.wait(GOODBYE)
        except subprocess.TimeoutExpired:
            return "the worker closed its output"
        # A shell or uv adds 128 to the number of the signal that ended its child.
        signal_number = -exit_status if exit_status < 0 else exit_status - 128
        if signal_number not in {*signal.Signals}:
            return f"the worker ended with exit status {exit_status}"
        return f"the worker was terminated by {signal.Signals(signal_number).name}" + (
            " (memory may have run out: try a smaller --batch)" if signal_number == signal.SIGKILL else ""
        )

    def _parse_line(self, line: bytes, struct_type: type[Line], line_name: str) -> Line:
        try:
            return msgspec.convert(json.loads(line), struct_type)  # json.loads accepts NaN, as written by Python
        except msgspec.ValidationError as problem:
            raise self._stop_with_error(f"{line_name} is invalid: {problem}") from None
        except (ValueError, RecursionError):
            displayed_line = short_repr(line.decode(errors="replace").strip())
            raise self._stop_with_error(
                f"the worker printed {displayed_line}, expected {line_name} as JSON; libraries must print to standard "
                "error"
            ) from None

    def _stop_with_error(self, problem_text: str) -> InputError:
        """Stop the worker and return the error."""
        self.end()
        self._error_thread.join(GOODBYE)  # with a limit, because a child of the worker may keep standard error open
        last_error_line = self._errors.last()
        progress_text = f" (after {self._answered} rows)" if self._answered else ""
        last_line_text = f"; the last line of its output: {last_error_line}" if last_error_line else ""
        self._failed = f"{self.name}: {problem_text}{progress_text}{last_line_text}"
        return InputError(self._failed)


class Tail:
    """The last bytes of a stream."""

    def __init__(self) -> None:
        self.heard = 0
        self._bytes = b""

    def read(self, stream: IO[bytes]) -> None:
        """Read the stream to its end."""
        with stream:
            while chunk := os.read(stream.fileno(), KEPT):
                self._bytes = (self._bytes + chunk)[-KEPT:]
                self.heard += len(chunk)

    def last(self) -> str:
        """Return the last line that is not empty; '' if there is none."""
        text_lines = self._bytes.decode(errors="replace").replace("\r", "\n").split("\n")
        return next((repr(line.strip()[:400]) for line in reversed(text_lines) if line.strip()), "")


def _write(stream: IO[bytes], line_queue: queue.SimpleQueue[bytes]) -> None:
    with contextlib.suppress(OSError, ValueError), stream:  # if the worker has ended, its missing answer is the error
        while line := line_queue.get():
            stream.write(line)
            stream.flush()


def _queue_lines(stream: IO[bytes], line_queue: queue.SimpleQueue[bytes]) -> None:
    with stream:
        while line := stream.readline(LONGEST):
            line_queue.put(line)
    line_queue.put(b"")


GUARD = """
import os, signal, sys
sys.stdin.read()
os.killpg(int(sys.argv[1]), signal.SIGKILL)
"""


def _start_guard(process_group_id: int) -> subprocess.Popen[bytes]:
    """Return a process that kills the process group when this process ends.

    The guard works even if this process is killed, because the input of the guard then ends.
    """
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", GUARD, str(process_group_id)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        process_group=0,
    )


def _end(
    process: subprocess.Popen[bytes],
    line_queue: queue.SimpleQueue[bytes],
    guard_process: subprocess.Popen[bytes] | None,
) -> None:
    """Kill the process and all its children immediately; lost results can be computed again."""
    line_queue.put(b"")
    if guard_process is not None:  # the guard is stopped first, because the id of the group may be reused after its end
        guard_process.kill()
        guard_process.communicate()
    with contextlib.suppress(OSError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()
    CHILDREN.discard(process.pid)
