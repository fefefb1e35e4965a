"""Setup of the process: closed standard streams are replaced, and on a signal incomplete files are removed."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

UNFINISHED: set[str] = set()
"""Temporary files and folders that are being written. Complete files and folders are renamed."""

CHILDREN: set[int] = set()
"""Process groups that this process started. The groups are ended when this process exits."""

SIGNAL_MESSAGES = {"SIGINT": "interrupted", "SIGTERM": "terminated", "SIGHUP": "the terminal was closed"}

NOTHING_KEPT = "nothing is written; repeat the command to start again"
"""Message after an interruption of work that has no intermediate results."""

_follows: list[str] = []
"""For messages on an interruption: what happens if the same command runs again."""

ARENA_MAX, MMAP_THRESHOLD, TRIM_THRESHOLD = -8, -3, -1
"""Numbers of the parameters in `malloc.h` (M_ARENA_MAX, ...)."""

KEPT_BYTES = 2**25
"""Two limits in bytes. The first is the freed memory at the end of the heap that is not returned to the system. The
second is the minimum size of an array that gets separate memory outside the heap.
"""

SHOW_CURSOR = b"\x1b[?25h"
"""Escape sequence that shows the cursor, which a progress bar hides."""


class Stoppable:
    """Context for work that may be interrupted. `follows` states what happens if the same command runs again."""

    def __init__(self, follows: str) -> None:
        self.follows = follows

    def __enter__(self) -> None:
        _follows[:] = [self.follows]

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is not KeyboardInterrupt:  # the signal handler calls `interruption_message`
            _follows.clear()


def interruption_message(signal_number: int) -> str:
    """Message on an interruption by a signal, with a statement of what happens if the command runs again."""
    message = ": ".join([SIGNAL_MESSAGES[signal.Signals(signal_number).name], *_follows])
    _follows.clear()
    return message


def open_streams() -> None:
    """Open the null device for each standard stream that the caller closed.

    Otherwise a file that is opened later could get the descriptor of the stream."""
    for descriptor, stream_name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            # Standard output gets a device that cannot be written to, so that a lost result raises an error.
            os.open(os.devnull, os.O_WRONLY if stream_name == "stderr" else os.O_RDONLY)
            setattr(sys, stream_name, os.fdopen(descriptor, "r" if stream_name == "stdin" else "w", closefd=False))


def exit_on_signals() -> None:
    """Exit immediately on Ctrl-C and similar signals. Signals that the parent process ignores stay ignored."""
    for signal_name in SIGNAL_MESSAGES:
        signal_number = getattr(signal, signal_name, None)  # not all systems have all signals
        if signal_number is not None and signal.getsignal(signal_number) is not signal.SIG_IGN:
            signal.signal(signal_number, _exit_on_signal)


def use_one_heap() -> None:
    """Let all threads allocate from one heap, so that memory freed by one thread can be used by another.

    The GNU C library gives each thread a separate heap, and returns little of a heap to the system. With C libraries
    other than GNU, `use_one_heap` has no effect. With one heap, the report on SummEval needs 526 MB instead of 638 MB,
    in the same time. By default, the GNU C library also returns a freed array of a few hundred kilobytes to the system
    at once, so the allocation of the next array of this size takes time. Ridge regression on SummEval takes a third
    less time because this function keeps such memory.
    """
    _call_allocator("mallopt", ARENA_MAX, 1)
    _call_allocator("mallopt", MMAP_THRESHOLD, KEPT_BYTES)
    _call_allocator("mallopt", TRIM_THRESHOLD, KEPT_BYTES)


def return_memory() -> None:
    """Return freed memory to the system. The GNU C library would keep this memory for later allocations."""
    _call_allocator("malloc_trim", 0)


def _call_allocator(function: str, *numbers: int) -> None:
    """Call a function of the allocator of the GNU C library. The call has no effect with other allocators."""
    import ctypes

    with suppress(AttributeError, OSError, TypeError):  # another C library, another system
        getattr(ctypes.CDLL(None), function)(*numbers)


def allow_open_files(max_open_files: int) -> None:
    """Raise the limit of open files and connections to this number, or as far as the system allows."""
    with suppress(ImportError, ValueError, OSError):  # Windows has no such limit
        import resource

        soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        new_limit = max_open_files if hard_limit == resource.RLIM_INFINITY else min(max_open_files, hard_limit)
        if soft_limit != resource.RLIM_INFINITY and soft_limit < new_limit:
            resource.setrlimit(resource.RLIMIT_NOFILE, (new_limit, hard_limit))


def _exit_on_signal(signal_number: int, frame: object) -> None:
    # Not an exception, because it would wait for running threads and could be caught.
    for remove_path in (os.unlink, os.rmdir):
        for unfinished_path in tuple(UNFINISHED):
            with suppress(OSError):
                remove_path(unfinished_path)
    for process_group in tuple(CHILDREN):
        with suppress(OSError):
            os.killpg(process_group, signal.SIGKILL)
    message_bytes = f"custodes: {interruption_message(signal_number)}\n".encode()
    with suppress(OSError):
        os.write(2, SHOW_CURSOR + message_bytes if os.isatty(2) else message_bytes)
    os._exit(128 + signal_number)
