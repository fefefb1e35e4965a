"""Standard output, standard error and exit status of the command line. This module imports nothing large."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from errno import EBADF
from io import TextIOWrapper
from signal import SIGINT
from typing import TYPE_CHECKING, Any, NoReturn

from custodes.control_characters import escape_controls
from custodes.errors import CustodesError, CustodesWarning, short_repr
from custodes.process import interruption_message

if TYPE_CHECKING:
    from custodes.data.notes import Note


def print_line(text: str) -> None:
    """Print a line on standard output."""
    print(escape_controls(text))


def print_diagnostic(text: str) -> None:
    """Print a line on standard error, with the name of the program."""
    print(f"custodes: {escape_controls(text)}", file=sys.stderr)


def print_notes(notes: Iterable[Note]) -> None:
    """Print each note once on standard error."""
    for note in dict.fromkeys(notes):
        print_diagnostic(f"note: {note.message}")


def write_stdout(content: Iterable[bytes]) -> None:
    """Write bytes to standard output in parts; control characters are escaped if standard output is a terminal."""
    if sys.stdout.isatty():
        content = ("\n".join(map(escape_controls, chunk.decode().split("\n"))).encode() for chunk in content)
    sys.stdout.buffer.writelines(content)


@contextmanager
def quiet_pipe() -> Iterator[None]:
    """Ignore broken pipes. If the reader of a pipe stops early, the remaining output is discarded."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run_for_exit_status(work: Callable[[], int | None]) -> int:
    """Run the work of a command and return the exit status.

    The exit status is 0 for success, 1 for problems found, 2 for invalid input, 3 for an inconclusive result, and 130
    for an interruption."""
    try:
        exit_status = 0  # used if the reader of a pipe stops before the work is finished
        with quiet_pipe():
            exit_status = work() or 0
        return exit_status  # noqa: RET504
    except CustodesError as problem:
        error_message = str(problem)
    except MemoryError:
        error_message = "not enough memory for this question; select fewer raters or systems, or give fewer --resamples"
    except UnicodeEncodeError as problem:
        invalid_character = problem.object[problem.start : problem.end]
        error_message = (
            f"{invalid_character!r} in a name or an option is not valid text (a lone surrogate, or a byte that is not "
            f"UTF-8); correct the name or option"
        )
    except OSError as problem:
        failure_reason = "standard output is closed" if problem.errno == EBADF else problem.strerror
        error_message = (  # without a file name, it is an error of a stream; errors of files are reported elsewhere
            f"cannot write: {failure_reason}; choose another place"
            if problem.filename is None
            else f"cannot read {short_repr(problem.filename)}: {failure_reason}; give another file"
        )
    except KeyboardInterrupt:
        print_diagnostic(interruption_message(SIGINT))
        return 128 + SIGINT
    print_diagnostic(error_message)
    return 2


def run_and_exit(work: Callable[[], int]) -> NoReturn:
    """Run the work of the process, then exit with the status that the work returns."""
    warnings.showwarning = _warn
    for standard_stream in (sys.stdout, sys.stderr):
        if isinstance(standard_stream, TextIOWrapper):
            standard_stream.reconfigure(errors="replace")  # unsupported characters are shown as question marks
    exit_status = work()
    try:
        sys.stdout.flush()
    except OSError:  # already reported; the interpreter must not report it again on exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(exit_status)


def _warn(message: Warning | str, category: type[Warning], *other_arguments: Any, **other_options: Any) -> None:
    if issubclass(category, CustodesWarning):
        print_diagnostic(f"warning: {message}")
