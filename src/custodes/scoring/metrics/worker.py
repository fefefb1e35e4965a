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
from contextlib import ExitStack, suppress
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from custodes.errors import InputError, OptionError, short_repr, suggestion
from custodes.scoring.encoder.files import file_digest
from custodes.scoring.metric import Metric, MetricInputs, MetricResult, Need, Place, Rule, Scorer, Traits
from custodes.scoring.scripts import FOLDER, requirements, script_text, split_command, workers
from custodes.scoring.worker import Hello, Process, WorkerAnswer

RULES: tuple[Rule, ...] = ("all", "first", "best", "mean")
PATIENCE = 600.0
"""Maximum time of an answer in seconds."""


FIELDS: Mapping[Need, str] = {"source": "source", "context": "context", "image": "images", "references": "references"}
"""Fields of a row, by input."""

Cell = tuple[int, int, Mapping[str, Any]]
"""Position of a score (index of the output, index of the column), and the row that is sent to the worker for this
score."""


def parse_worker_command(text: str) -> tuple[list[str], float]:
    """Return the words of a command line, split without a shell, and the timeout of an answer in seconds.

    Settings may precede the command, as in `timeout=60 comet --model PATH`. `timeout` is in seconds. `run` is the
    interpreter that runs a script or a worker with a name, as in `run="uv run"` or `run=other/bin/python` (default:
    this Python).

    """
    text_of_setting: dict[str, str] = {}
    command_words = split_command(text)
    while command_words and command_words[0].partition("=")[0] in ("timeout", "run") and "=" in command_words[0]:
        setting_name, _, text_of_setting[setting_name] = command_words.pop(0).partition("=")
    if not command_words:
        raise OptionError(f"worker: give a command, as in 'worker:uv run mine.py', or one of {', '.join(workers())}")
    timeout = 0.0
    with suppress(ValueError):
        timeout = float(text_of_setting.get("timeout", PATIENCE))
    if not 0 < timeout <= 1e6:
        raise OptionError(
            f"worker: timeout={text_of_setting['timeout']} is not allowed; give a number of seconds above 0"
        )
    worker = workers().get(command_words[0])
    full_command_words = [*(worker.command if worker else command_words[:1]), *command_words[1:]]
    if full_command_words[0].endswith(".py"):
        if not Path(full_command_words[0]).is_file():
            raise InputError(f"worker: there is no script {short_repr(full_command_words[0])}")
        full_command_words[:0] = split_command(text_of_setting.get("run", "")) or [sys.executable]
    elif "run" in text_of_setting:
        raise OptionError(
            f"worker: run= applies only to scripts (NAME.py) and names of scripts, and "
            f"{command_words[0]!r} is neither; leave out run="
        )
    if shutil.which(full_command_words[0]) is None:
        raise InputError(
            f"worker: there is no program {short_repr(full_command_words[0])}"
            f"{suggestion(full_command_words[0], workers())}; custodes score --list shows all workers"
        )
    return full_command_words, timeout


def load(place: Place, *, command: str) -> Scorer:
    """Start the worker with one process per job; the processes use the given devices (`cuda:0,cuda:1`) in turn."""
    command_words, timeout = parse_worker_command(command)
    devices = place.device.split(",")
    environment_of_process = [
        {"CUSTODES_DEVICE": devices[process_index % len(devices)], "CUSTODES_BATCH": str(place.batch)}
        for process_index in range(max(place.jobs, len(devices)))
    ]
    starts_with_interpreter = Path(command_words[0]).name.startswith(("python", "pypy", "uv"))  # cannot change a score
    signature_words = command_words[starts_with_interpreter:]
    worker_name = " ".join(Path(word).name if os.sep in word else word for word in signature_words)
    digested_words = ["worker", *map(digest_word, signature_words)]  # before a process can change its files
    processes: list[Process] = []
    with ExitStack() as exit_stack:  # ends all processes if one of them cannot be used
        for environment in environment_of_process:
            processes.append(Process(command_words, name=worker_name, timeout=timeout, environment=environment))
            exit_stack.callback(processes[-1].end)
        try:
            hello, *_ = [process.hello() for process in processes]
        except InputError as problem:
            missing_packages = requirements(command_words)
            if not missing_packages or "ModuleNotFoundError" not in str(problem):
                raise
            raise InputError(
                f"{problem}; install {missing_packages}, or give an interpreter that has them with run=PYTHON, or let "
                "uv install them with run='uv run'"
            ) from None
        end_processes = exit_stack.pop_all().close
    return Scorer(
        signature=" ".join([*digested_words, hello.metric, hello.version]),
        traits=Traits(
            needs=hello.needs,
            rules=RULES[hello.each_reference :] if "references" in hello.needs else (),
            higher_is_better=hello.higher_is_better,
            low=hello.low,
            high=hello.high,
        ),
        score=lambda texts: score(texts, processes, hello, place.batch),
        close=end_processes,
    )


def score(texts: MetricInputs, processes: Sequence[Process], hello: Hello, requested_batch_size: int) -> MetricResult:
    """Return the scores from the processes. Each process gets one batch at a time."""
    score_matrix = np.full(
        (len(texts.outputs), (max([1, *map(len, texts.references)]) if hello.each_reference else 1)), np.nan
    )
    is_truncated_output = np.zeros(len(texts.outputs), dtype=np.bool_)
    reason_of_output: dict[int, str] = {}
    cpu_seconds = 0.0
    free_process_queue: queue.SimpleQueue[Process] = queue.SimpleQueue()
    for process in processes:
        free_process_queue.put(process)

    def ask(batch_cells: Sequence[Cell]) -> WorkerAnswer:
        process = free_process_queue.get()
        try:
            return process.ask([row for _, _, row in batch_cells])
        finally:
            free_process_queue.put(process)

    # Rows are sorted by length to reduce padding; scores must not depend on the order.
    sorted_cells = sorted(cells(texts, hello), key=lambda cell: len(cell[2]["output"]))
    batch_size = min(requested_batch_size, hello.max_batch or requested_batch_size)
    cell_batches = [sorted_cells[start : start + batch_size] for start in range(0, len(sorted_cells), batch_size)]
    with ThreadPoolExecutor(len(processes)) as thread_pool:
        try:
            for batch_cells, worker_answer in zip(cell_batches, thread_pool.map(ask, cell_batches), strict=True):
                cpu_seconds += worker_answer.seconds
                reasons, truncation_flags = worker_answer.why or repeat(None), worker_answer.truncated or repeat(False)
                for (output_index, column_index, _), cell_score, reason, is_truncated in zip(
                    batch_cells, worker_answer.scores, reasons, truncation_flags, strict=False
                ):
                    if cell_score is None or not np.isfinite(cell_score):
                        displayed_score = "no score" if cell_score is None else cell_score
                        reason_of_output.setdefault(output_index, reason or f"the worker returned {displayed_score}")
                    else:
                        score_matrix[output_index, column_index] = cell_score
                    is_truncated_output[output_index] |= is_truncated
        except BaseException:
            thread_pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:  # a waiting thread would block the pool
                process.end()
            raise
    score_matrix[list(reason_of_output)] = np.nan  # a mean over only some of the references would not be comparable
    return MetricResult(values=score_matrix, why=reason_of_output, truncated=is_truncated_output, seconds=cpu_seconds)


def cells(texts: MetricInputs, hello: Hello) -> Iterator[Cell]:
    """Yield the rows of a request, which contain the output and the inputs that the worker needs.

    If the worker scores each reference alone, there is one row per reference.
    """
    inputs_of_field = {field: texts.of_need(need) for need, field in FIELDS.items() if need in hello.needs}
    for output_index, (output_text, item_index) in enumerate(zip(texts.outputs, texts.item.tolist(), strict=True)):
        row = {"output": output_text, **{field: inputs[item_index] for field, inputs in inputs_of_field.items()}}
        if hello.each_reference and "references" in row:
            for reference_index, reference in enumerate(texts.references[item_index]):
                yield output_index, reference_index, {**row, "references": [reference]}
        else:
            yield output_index, 0, row


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
        for file_path in [path] if path.is_file() else sorted(filter(Path.is_file, path.rglob("*"))):
            content_digest = (
                hashlib.sha256(script_text(file_path).encode()).hexdigest()
                if (file_path.parent == FOLDER)
                else file_digest(file_path)
            )
            combined_hash.update(f"{file_path.relative_to(path)}\n".encode() + bytes.fromhex(content_digest))
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
