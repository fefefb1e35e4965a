"""Setup of the process: closed standard streams, and signals that leave no half-written files."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

UNFINISHED: set[str] = set()
"""Temporary files and folders being written, to be renamed when complete."""

CHILDREN: set[int] = set()
"""Process groups started for this process, to be ended with it."""

SAID = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "the terminal was closed"}

NOTHING_KEPT = "nothing is written; repeat the command to start again"
"""Message after an interruption of work without intermediate results."""

_follows: list[str] = []
"""Effect of running the same command again after an interruption of the current work."""

ARENA_MAX, MMAP_THRESHOLD, TRIM_THRESHOLD = -8, -3, -1
"""Numbers of the parameters in `malloc.h` (M_ARENA_MAX, ...)."""

KEPT_BYTES = 2**25
"""Freed memory at the end of the heap that is kept for the next arrays, and size from which an array has its own."""

SHOW_CURSOR = b"\x1b[?25h"
"""Escape sequence that shows the cursor, which a progress bar hides."""


class Stoppable:
    """Context for work that may be interrupted; `follows` describes the effect of running the same command again."""

    def __init__(self, follows: str) -> None:
        self.follows = follows

    def __enter__(self) -> None:
        _follows[:] = [self.follows]

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is not KeyboardInterrupt:  # the signal handler calls `stopped`
            _follows.clear()


def stopped(number: int) -> str:
    """Message on an interruption by a signal, in one line, with the effect of running the command again."""
    words = ": ".join([SAID[signal.Signals(number).name], *_follows])
    _follows.clear()
    return words


def open_streams() -> None:
    """Open the null device for standard streams that the caller closed; otherwise a file could get their descriptor."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            # Standard output is open for reading only, so that a lost result raises an error.
            os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            setattr(sys, name, os.fdopen(number, "r" if name == "stdin" else "w", closefd=False))


def watch() -> None:
    """Exit immediately on Ctrl-C and similar signals, whatever is running; signals ignored by the parent stay
    ignored."""
    for name in SAID:
        number = getattr(signal, name, None)  # not all systems have all signals
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _leave)


def one_heap() -> None:
    """Let all threads allocate from one heap, so that memory freed by one thread can be used by another.

    The GNU C library gives each thread its own heap and returns little of it; elsewhere nothing changes. Measured on
    SummEval's report: 526 MB instead of 638, in the same time. It also returns freed arrays of some hundred kilobytes
    at once, and the next array of this size waits for the system: ridge regression on SummEval takes a third less time
    if they are kept.
    """
    _allocator("mallopt", ARENA_MAX, 1)
    _allocator("mallopt", MMAP_THRESHOLD, KEPT_BYTES)
    _allocator("mallopt", TRIM_THRESHOLD, KEPT_BYTES)


def return_memory() -> None:
    """Return freed memory to the system; the GNU C library keeps it for later allocations."""
    _allocator("malloc_trim", 0)


def _allocator(function: str, *numbers: int) -> None:
    """Call a function of the GNU C library's allocator; no effect with other allocators."""
    import ctypes

    with suppress(AttributeError, OSError, TypeError):  # another C library, another system
        getattr(ctypes.CDLL(None), function)(*numbers)


def allow_open_files(number: int) -> None:
    """Raise the limit of open files and connections to this number, or as far as the system allows."""
    with suppress(ImportError, ValueError, OSError):  # Windows has no such limit
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = number if hard == resource.RLIM_INFINITY else min(number, hard)
        if soft != resource.RLIM_INFINITY and soft < most:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _leave(number: int, frame: object) -> None:
    # No exception: it would wait for running threads, and could be caught.
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
