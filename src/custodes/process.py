"""The process as its caller has it: streams that were closed, and signals, which leave no half-written file."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

UNFINISHED: set[str] = set()
"""Files and folders that are being written under a name of their own, to be renamed when they are whole."""

CHILDREN: set[int] = set()
"""Groups of processes that were started to work for this one, to be ended with it."""

SAID = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "the terminal was closed"}

NOTHING_KEPT = "nothing is written; the same command starts again"
"""What follows after a stop of work that keeps nothing on the way."""

_follows: list[str] = []
"""What the same command does after a stop, of the work that is going on."""

ARENA_MAX = -8
"""The number of that parameter in `malloc.h` (M_ARENA_MAX)."""

SHOW_CURSOR = b"\x1b[?25h"
"""A progress bar hides the cursor."""


class Stoppable:
    """Work of a command that may be stopped, as a context; `follows` says what the same command does after a stop."""

    def __init__(self, follows: str) -> None:
        self.follows = follows

    def __enter__(self) -> None:
        _follows[:] = [self.follows]

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is not KeyboardInterrupt:  # whoever ends the command calls `stopped`
            _follows.clear()


def stopped(number: int) -> str:
    """Describe a stop by a signal, in one line: what happened, and what the same command does then."""
    words = ": ".join([SAID[signal.Signals(number).name], *_follows])
    _follows.clear()
    return words


def open_streams() -> None:
    """Give the place of a standard stream that the caller had closed to nobody: a file would be opened in it."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            # Standard output is open for reading only, so that an answer that is lost is told.
            os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            setattr(sys, name, os.fdopen(number, "r" if name == "stdin" else "w", closefd=False))


def watch() -> None:
    """Leave at once on Ctrl-C and its like, whatever is at work; a signal that the parent had ignored stays so."""
    for name in SAID:
        number = getattr(signal, name, None)  # not every system has each
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _leave)


def one_heap() -> None:
    """Let all threads take memory from one heap: what one of them gave back another can have.

    The GNU C library gives each thread a heap of its own and returns little of it; elsewhere nothing changes.
    Measured on SummEval's report: 526 MB instead of 638, in the same time.
    """
    _allocator("mallopt", ARENA_MAX, 1)


def return_memory() -> None:
    """Return freed memory to the system: the GNU C library keeps it for more of the same sizes."""
    _allocator("malloc_trim", 0)


def _allocator(function: str, *numbers: int) -> None:
    """Call a function of the GNU C library's allocator; nothing where the process has another one."""
    import ctypes

    with suppress(AttributeError, OSError, TypeError):  # another C library, another system
        getattr(ctypes.CDLL(None), function)(*numbers)


def allow_open_files(number: int) -> None:
    """Let the process open so many files and connections, or as many as the system allows."""
    with suppress(ImportError, ValueError, OSError):  # Windows has no such limit
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = number if hard == resource.RLIM_INFINITY else min(number, hard)
        if soft != resource.RLIM_INFINITY and soft < most:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _leave(number: int, frame: object) -> None:
    # No exception: it would wait for threads at work, and whoever catches all of them would swallow it.
    for remove in (os.unlink, os.rmdir):
        for name in tuple(UNFINISHED):
            with suppress(OSError):
                remove(name)
    for group in tuple(CHILDREN):
        with suppress(OSError):
            os.killpg(group, signal.SIGKILL)
    message = f"custodes: {stopped(number)}\n".encode()
    with suppress(OSError):
        os.write(2, SHOW_CURSOR + message if os.isatty(2) else message)
    os._exit(128 + number)
