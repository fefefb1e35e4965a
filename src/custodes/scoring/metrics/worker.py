"""The metric `worker:COMMAND`, which can be any metric in any interpreter.

COMMAND is a command line that starts a worker, or the name of a worker.
"""

from __future__ import annotations

import hashlib
import os
import queue
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from custodes.errors import InputError, OptionError, short_repr, suggestion
from custodes.scoring.metric import Metric, MetricInputs, MetricResult, Need, Place, Rule, Scorer, Traits
from custodes.scoring.scripts import FOLDER, requirements, resolve_worker, script_text, split_command, workers
from custodes.scoring.worker import Hello, Process, WorkerAnswer

RULES: tuple[Rule, ...] = ("all", "first", "best", "mean")
PATIENCE = 600.0
"""Maximum time of an answer in seconds."""


class Cell(NamedTuple):
    """A row of a request, with the output and the column of its score."""

    output: int
    column: int
    row: Mapping[str, Any]


def parse_worker_command(text: str) -> tuple[list[str], float]:
    """Return the words of a command line, split without a shell, and the timeout of an answer in seconds.

    Settings may precede the command, as in `timeout=60 comet --model PATH`. `timeout` is in seconds. `run` is the
    interpreter that runs a script or a worker with a name, as in `run="uv run"` or `run=other/bin/python` (default:
    this Python).

    """
    settings: dict[str, str] = {}
    command_words = split_command(text)
    while command_words and command_words[0].partition("=")[0] in ("timeout", "run") and "=" in command_words[0]:
        setting_name, _, settings[setting_name] = command_words.pop(0).partition("=")
    if not command_words:
        worker_names_text = ", ".join(workers())
        raise OptionError(f"worker: give a command, as in 'worker:uv run mine.py', or one of {worker_names_text}")
    try:
        timeout = float(settings.get("timeout", PATIENCE))
    except ValueError:
        timeout = 0.0
    if not 0 < timeout <= 1e6:
        raise OptionError(f"worker: timeout={settings['timeout']} is not allowed; give a number of seconds above 0")
    full_command = resolve_worker(command_words)
    if full_command[0].endswith(".py"):
        if not Path(full_command[0]).is_file():
            raise InputError(f"worker: there is no script {short_repr(full_command[0])}")
        full_command[:0] = split_command(settings.get("run", "")) or [sys.executable]
    elif "run" in settings:
        raise OptionError(
            f"worker: run= applies only to scripts (NAME.py) and names of scripts, and "
            f"{command_words[0]!r} is neither; leave out run="
        )
    if shutil.which(full_command[0]) is None:
        hint = suggestion(full_command[0], workers())
        raise InputError(
            f"worker: there is no program {short_repr(full_command[0])}{hint}; custodes score --list shows all workers"
        )
    return full_command, timeout


def load(place: Place, *, command: str) -> Scorer:
    """Start the worker with one process per job; the processes use the given devices (`cuda:0,cuda:1`) in turn."""
    command_words, timeout = parse_worker_command(command)
    devices = place.device.split(",")
    environments = [
        {"CUSTODES_DEVICE": devices[i % len(devices)], "CUSTODES_BATCH": str(place.batch)}
        for i in range(max(place.jobs, len(devices)))
    ]
    starts_with_interpreter = Path(command_words[0]).name.startswith(("python", "pypy", "uv"))  # cannot change a score
    signature_words = command_words[starts_with_interpreter:]
    worker_name = " ".join(Path(word).name if os.sep in word else word for word in signature_words)
    signature_parts = ["worker", *map(digest_word, signature_words)]
    processes: list[Process] = []
    try:
        processes.extend(
            Process(command_words, name=worker_name, timeout=timeout, environment=environment)
            for environment in environments
        )
        hellos = [process.hello() for process in processes]
        if any(hello != hellos[0] for hello in hellos):
            raise InputError(f"worker {short_repr(worker_name)}: the processes of the worker report different metrics")
    except BaseException as problem:
        for process in processes:
            process.end()
        if (
            isinstance(problem, InputError)
            and "ModuleNotFoundError" in str(problem)
            and (missing_packages := requirements(command_words))
        ):
            advice_text = "give an interpreter that has them with run=PYTHON, or let uv install them with run='uv run'"
            raise InputError(f"{problem}; install {missing_packages}, or {advice_text}") from None
        raise

    def close() -> None:
        for process in processes:
            process.end()

    hello = hellos[0]
    rules = RULES[1:] if hello.each_reference else RULES
    return Scorer(
        signature=" ".join([*signature_parts, hello.metric, hello.version]),
        traits=Traits(
            needs=hello.needs,
            rules=rules if "references" in hello.needs else (),
            higher_is_better=hello.higher_is_better,
            low=hello.low,
            high=hello.high,
        ),
        score=lambda texts: score(texts, processes, hello, place.batch),
        close=close,
    )


def score(texts: MetricInputs, processes: Sequence[Process], hello: Hello, batch: int) -> MetricResult:
    """Return the scores from the processes. Each process gets one batch at a time."""
    n_score_columns = max([1, *map(len, texts.references)]) if hello.each_reference else 1
    scores = np.full((len(texts.outputs), n_score_columns), np.nan)
    is_truncated_output = np.zeros(len(texts.outputs), dtype=np.bool_)
    reason_of_output: dict[int, str] = {}
    cpu_seconds = 0.0
    free_processes: queue.SimpleQueue[Process] = queue.SimpleQueue()
    for process in processes:
        free_processes.put(process)

    def ask(batch_cells: Sequence[Cell]) -> WorkerAnswer:
        process = free_processes.get()
        try:
            return process.ask([cell.row for cell in batch_cells])
        finally:
            free_processes.put(process)

    # Rows are sorted by length to reduce padding; scores must not depend on the order.
    sorted_cells = sorted(cells(texts, hello), key=lambda cell: len(cell.row["output"]))
    batch_size = min(batch, hello.max_batch or batch)
    cell_batches = [sorted_cells[start : start + batch_size] for start in range(0, len(sorted_cells), batch_size)]
    with ThreadPoolExecutor(len(processes)) as pool:
        try:
            for batch_cells, answer in zip(cell_batches, pool.map(ask, cell_batches), strict=True):
                cpu_seconds += answer.seconds
                for i, cell in enumerate(batch_cells):
                    cell_score = answer.scores[i]
                    reason = answer.why[i] if answer.why else None
                    if cell_score is None or not np.isfinite(cell_score):
                        reason_of_output.setdefault(
                            cell.output,
                            reason or f"the worker returned {'no score' if cell_score is None else cell_score}",
                        )
                    else:
                        scores[cell.output, cell.column] = cell_score
                    is_truncated_output[cell.output] |= bool(answer.truncated and answer.truncated[i])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:  # a waiting thread would block the pool
                process.end()
            raise
    scores[list(reason_of_output)] = np.nan  # a mean over only some of the references would not be comparable
    return MetricResult(values=scores, why=reason_of_output, truncated=is_truncated_output, seconds=cpu_seconds)


def cells(texts: MetricInputs, hello: Hello) -> Iterator[Cell]:
    """Yield the rows of a request, which contain the output and the inputs that the worker needs.

    If the worker scores each reference alone, there is one row per reference.
    """
    needs = hello.needs
    for output_index, (output_text, item_index) in enumerate(zip(texts.outputs, texts.item.tolist(), strict=True)):
        input_of_need: dict[Need, Any] = {"source": texts.sources[item_index], "context": texts.contexts[item_index]}
        row: dict[str, Any] = {
            "output": output_text,
            **{need: input_value for need, input_value in input_of_need.items() if need in needs},
        }
        if "image" in needs:
            row["images"] = list(texts.images[item_index])
        references = texts.references[item_index]
        if "references" not in needs:
            yield Cell(output_index, 0, row)
        elif hello.each_reference:
            for reference_index, reference in enumerate(references):
                yield Cell(output_index, reference_index, {**row, "references": [reference]})
        else:
            yield Cell(output_index, 0, {**row, "references": list(references)})


def digest_word(word: str) -> str:
    """Return a word of a command as it appears in the signature.

    If the word is the path of a file or folder (a script or a model), a digest of the content replaces the path.
    """
    prefix, equals_sign, path_text = word.rpartition("=")
    path = Path(path_text)
    try:
        if not path_text or not path.exists():  # an empty name would mean the current folder
            return word
        combined_hash = hashlib.sha256()
        for file in [path] if path.is_file() else sorted(file_ for file_ in path.rglob("*") if file_.is_file()):
            combined_hash.update(f"{file.relative_to(path)}\n".encode())
            if file.parent == FOLDER:
                combined_hash.update(hashlib.sha256(script_text(file).encode()).digest())
                continue
            with file.open("rb") as stream:
                combined_hash.update(hashlib.file_digest(stream, "sha256").digest())
    except (OSError, ValueError) as problem:
        if isinstance(problem, PermissionError):
            raise InputError(f"worker: {short_repr(path_text)} cannot be read") from None
        return word
    return f"{prefix}{equals_sign}{combined_hash.hexdigest()[:16]}"


WORKER = Metric(
    name="worker",
    gives=("Any metric in a separate process, in any interpreter: COMET, METEOR, CLIPScore, reward models."),
    source="custodes",
    load=load,
    traits=Traits(),
    parameters={"command": ""},
)
