"""How the command ends: what went wrong is one line, and an exit status."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable
from errno import EBADF
from io import TextIOWrapper
from signal import SIGINT
from typing import Any, NoReturn

from cyclopts import CycloptsError, UnknownOptionError

from custodes.console import quiet_pipe, tell
from custodes.errors import CustodesError, CustodesWarning, OptionError, shown
from custodes.process import stopped


def status_of(work: Callable[[], int | None]) -> int:
    """Do it and return the exit status: 0 answered, 1 problems found, 2 bad input, 3 not told, 130 interrupted."""
    try:
        _check_threads()
        status = 0  # where the reader of a pipe leaves before there is one
        with quiet_pipe():
            status = work() or 0
        return status  # noqa: RET504
    except CustodesError as problem:
        message = str(problem)
    except CycloptsError as problem:
        message = " ".join(str(problem).split())
        if isinstance(problem, UnknownOptionError):  # its value may be a key, as in --api-key=...
            option = problem.token.keyword or problem.token.value
            message = message.replace(option, option.partition("=")[0])
    except MemoryError:
        message = "not enough memory for this question; select fewer raters or systems, or ask for fewer --resamples"
    except UnicodeEncodeError as problem:
        letter = problem.object[problem.start : problem.end]
        message = (
            f"{letter!r} is no text, in a name or an option: a lone surrogate, or a byte that is not UTF-8; mend it"
        )
    except OSError as problem:
        said = "standard output is closed" if problem.errno == EBADF else problem.strerror
        if problem.filename is None:  # of a stream; what is written to a file is told of where that is done
            message = f"cannot write: {said}; choose another place"
        else:
            message = f"cannot read {shown(problem.filename)}: {said}; give another file"
    except KeyboardInterrupt:
        tell(stopped(SIGINT))
        return 128 + SIGINT
    tell(message)
    return 2


def _check_threads() -> None:
    """Raise `OptionError` for a number of threads with which Polars ends the process."""
    if re.fullmatch(r"\+?0+", os.environ.get("POLARS_MAX_THREADS", "")):
        raise OptionError("POLARS_MAX_THREADS=0 is no number of threads; set it to 1 or more, or unset it")


def end(work: Callable[[], int]) -> NoReturn:
    """Do it as the command, and leave with its exit status."""
    warnings.showwarning = _warn
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a letter shows a question mark
    status = work()
    try:
        sys.stdout.flush()
    except OSError:  # told already, and not to be told again by the interpreter when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(status)


def _warn(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
    if issubclass(category, CustodesWarning):
        tell(f"warning: {message}")
