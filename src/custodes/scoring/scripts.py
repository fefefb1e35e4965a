"""Workers that have a name: scripts in the folder `workers`, which can be copied, and commands of other packages."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from custodes.errors import InputError, OptionError, join_labels, reject, short_repr, suggestion
from custodes.plugins import load_plugins

FOLDER = Path(__file__).parent / "workers"
PROTOCOL = FOLDER / "worker_protocol.py"
"""Module that the scripts of `FOLDER` import. A copied script contains the text of this module, not the import."""


@dataclass(frozen=True, kw_only=True)
class WorkerCommand:
    """A worker with a name, used on the command line as `worker:NAME`.

    - `gives`: one sentence that says what the metric of the worker measures, for lists of workers.
    - `source`: the paper or project that defines the metric.
    - `command`: the words that start the worker. If the first word ends in `.py`, it is a script, which the interpreter
      of `run=` runs.

    Packages add workers by the entry point `custodes.workers`.
    """

    name: str
    gives: str
    source: str
    command: tuple[str, ...]


OURS = tuple(
    # The suffix of the file avoids hiding a package of the same name.
    WorkerCommand(name=name, gives=gives, source=source, command=(str(FOLDER / f"{name}_worker.py"),))
    for name, gives, source in (
        ("callable", "Any function of Python: MODULE:FUNCTION", "custodes"),
        ("meteor", "METEOR 1.5, by its Java program", "Denkowski and Lavie 2014"),
        ("comet", "COMET, CometKiwi, xCOMET", "Rei et al. 2020; unbabel-comet"),
        ("metricx", "MetricX-23 and -24", "Juraska et al. 2023, 2024; google-research/metricx"),
        ("clipscore", "CLIPScore and RefCLIPScore of captions", "Hessel et al. 2021"),
        ("reward", "Quality of an answer to a prompt, by a reward model", "RewardBench, Lambert et al. 2024"),
    )
)


@cache
def workers() -> dict[str, WorkerCommand]:
    """Return the built-in workers and the workers of installed packages, by name."""
    built_in_worker_of_name = {worker.name: worker for worker in OURS}
    return built_in_worker_of_name | {
        worker_name: plugin.value
        for worker_name, plugin in (
            load_plugins(
                "custodes.workers",
                WorkerCommand,
                built_in_worker_of_name,
                name=lambda worker: str(worker.name),
                check=_check,
            )
        ).items()
    }


def _check(worker: WorkerCommand) -> None:
    command_words: Sequence[object] = worker.command if isinstance(worker.command, tuple) else ()
    first_word = str(command_words[0]) if command_words else ""
    reject(
        (
            not command_words or not all(isinstance(word, str) for word in command_words),
            f"the command is {worker.command!r}, expected a tuple of words",
        ),
        (first_word.endswith(".py") and not Path(first_word).is_file(), f"the script {first_word} does not exist"),
        error=InputError,
    )


def split_command(text: str) -> list[str]:
    """Return the words of a command line, split as by a shell; on Windows, a backslash is an ordinary character."""
    try:
        command_words = shlex.split(text, posix=os.name == "posix")
    except ValueError as problem:
        raise OptionError(f"worker: {short_repr(text)} is not a command line: {problem}") from None
    return command_words if os.name == "posix" else [word.strip("\"'") for word in command_words]


def script_text(path: Path) -> str:
    """Return the text of a script.

    In a script of `FOLDER`, the import from `PROTOCOL` is replaced by the imported code, so that a copy is
    self-contained.
    """
    text = path.read_text(encoding="utf-8")
    if path.parent != FOLDER:
        return text
    _, _, protocol_text = PROTOCOL.read_text(encoding="utf-8").partition('"""\n\n')
    inlined_protocol = f"# --- the protocol ---\n{protocol_text}\n\n# --- the metric ---"
    return re.sub("^from worker_protocol import .*\n", lambda _: inlined_protocol, text, flags=re.MULTILINE)


def worker_script(name: str) -> str:
    """Return the text of a worker's script, for copying. Raises `OptionError` if the worker is not a script."""
    if name not in workers():
        raise OptionError(
            f"unknown worker {short_repr(name)}{suggestion(name, workers()) or f'; workers: {join_labels(workers())}'}"
        )
    command_words = workers()[name].command
    if not command_words[0].endswith(".py"):
        raise OptionError(f"worker {name!r} is the command {' '.join(command_words)!r}, not a script")
    return script_text(Path(command_words[0]))


def requirements(command_words: Sequence[str]) -> str:
    """Return the dependencies that the built-in script in a command declares; '' if there is no such script."""
    script_texts = [Path(word).read_text(encoding="utf-8") for word in command_words if Path(word).parent == FOLDER]
    dependency_list_texts = re.findall(r"^# dependencies = (.*)$", "\n".join(script_texts), re.MULTILINE)
    return ", ".join(re.findall(r'"([^"]+)"', "".join(dependency_list_texts)))
