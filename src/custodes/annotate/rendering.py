"""Convert all texts of a study to safe HTML, in processes with a time limit. All outputs of an item have the same
format."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from queue import SimpleQueue
from threading import Timer

from custodes.annotate import safe_html
from custodes.annotate.known_questions import ControlQuestion
from custodes.annotate.safe_html import LONGEST, Render, TextResult
from custodes.annotate.study_material import Item, StudyMaterial
from custodes.data.notes import Note, build_notes
from custodes.data.outputs import parse_turns
from custodes.errors import InputError, MissingExtraError
from custodes.progress import Progress

SECONDS = 2.0
"""Maximum CPU seconds per text. The limit is on CPU time, so that the load of the machine does not change the
result."""
PATIENCE = 1.0 if sys.platform == "win32" else 15.0
"""Limit of the elapsed time, as a multiple of the limit of CPU time."""
START = 60.0
"""Maximum seconds until a process has started, also on a loaded machine."""
MOST = 8
"""Maximum number of parallel processes."""

WHY = {
    "long": f"are longer than {LONGEST:,} characters",
    "slow": f"take longer than {SECONDS:g} s",
    "unlike": "would lose words",
    "failed": "could not be read",
}
"""Reasons why texts are not displayed as Markdown, in the words of the notes."""


@dataclass(frozen=True, kw_only=True)
class StudyHtml:
    """The HTML of all texts.

    `items` has the text above the outputs of each item. `outputs` has each output by item and system.
    `reasons` has the reason (a key of `WHY`) for each output that cannot be displayed as Markdown, by item and system.
    `n_plain_contexts` is the number of items with plain text above the outputs. `control_questions` has the context and
    both outputs of each control question.
    """

    items: Mapping[str, str]
    outputs: Mapping[tuple[str, str], str]
    reasons: Mapping[tuple[str, str], str]
    n_plain_contexts: int
    control_questions: Sequence[tuple[str, str, str]]

    def notes(self) -> list[Note]:
        """Return notes on texts that are displayed as plain text, with reasons."""
        n_outputs_of_reason = Counter(self.reasons.values())
        reasons_text = ", ".join(f"{n_outputs} {WHY[reason]}" for reason, n_outputs in n_outputs_of_reason.items())
        n_plain_items = len({item_label for item_label, _ in self.reasons})
        return build_notes(
            (
                "outputs-plain",
                n_plain_items,
                f"the outputs of {n_plain_items} items are displayed as plain text, because some of these outputs "
                f"cannot be displayed as Markdown ({reasons_text}); all outputs of an item have the same format",
            ),
            (
                "contexts-plain",
                self.n_plain_contexts,
                f"the text above the outputs is displayed as plain text for {self.n_plain_contexts} items",
            ),
        )


def render(
    material: StudyMaterial, text_format: Render, *, questions: Sequence[ControlQuestion] = (), progress: Progress
) -> StudyHtml:
    """Convert all texts to the HTML that is displayed. If one output of an item must be plain text, all outputs of the
    item are plain text, because different formats would influence annotators.

    `questions` are control questions; their context and both outputs are converted, too.
    """
    turns_of_item = {item.label: _turns(item) for item in material.items}
    control_turns_and_texts = [
        (_turns(question.context), [output.text for output in (question.first, question.second) if output is not None])
        for question in questions
    ]
    texts_to_convert = [text for turns in turns_of_item.values() for _, text in turns]
    texts_to_convert += (output.text for output in material.outputs.values())
    texts_to_convert += (
        text
        for turns, output_texts in control_turns_and_texts
        for text in (*(text for _, text in turns), *output_texts)
    )
    result_of_text = render_texts(texts_to_convert, text_format, progress=progress)
    reason_of_output = {
        item_and_system: result_of_text[output.text].why
        for item_and_system, output in material.outputs.items()
        if result_of_text[output.text].why
    }
    plain_text_items = {item_label for item_label, _ in reason_of_output}
    control_htmls = []
    for turns, output_texts in control_turns_and_texts:
        first_html, *second_htmls = _joint(output_texts, result_of_text)
        control_htmls.append((_context(turns, result_of_text), first_html, "".join(second_htmls)))
    return StudyHtml(
        items={item_label: _context(turns, result_of_text) for item_label, turns in turns_of_item.items()},
        outputs={
            item_and_system: _joint(
                [output.text], result_of_text, must_be_plain=item_and_system[0] in plain_text_items
            )[0]
            for item_and_system, output in material.outputs.items()
        },
        reasons=reason_of_output,
        n_plain_contexts=sum(any(result_of_text[text].why for _, text in turns) for turns in turns_of_item.values()),
        control_questions=control_htmls,
    )


def _joint(texts: Sequence[str], result_of_text: Mapping[str, TextResult], *, must_be_plain: bool = False) -> list[str]:
    """Return the HTML of texts that are displayed together. If one of the texts must be plain text, all texts are plain
    text."""
    must_be_plain = must_be_plain or any(result_of_text[text].why for text in texts)
    return [safe_html.plain(text) if must_be_plain else result_of_text[text].html for text in texts]


def _turns(item: Item) -> list[tuple[str | None, str]]:
    """Return the texts above the outputs of an item. A turn of a dialogue has the role of its speaker; any other text
    has the role None."""
    dialogue = parse_turns(item.context) if item.context else []
    turns: list[tuple[str | None, str]] = [(None, item.context)] if dialogue is None else [*dialogue]
    return [*turns, (None, item.source)] if item.source.strip() else turns


def _context(turns: Sequence[tuple[str | None, str]], result_of_text: Mapping[str, TextResult]) -> str:
    """Return the HTML of the text above the outputs."""
    turn_htmls = _joint([text for _, text in turns], result_of_text)
    return "".join(
        turn_html if role is None else safe_html.turn(role, turn_html)
        for (role, _), turn_html in zip(turns, turn_htmls, strict=True)
    )


def render_texts(texts: Iterable[str], text_format: Render, *, progress: Progress) -> dict[str, TextResult]:
    """Return the HTML of each text, or the reason why the text has no HTML."""
    distinct_texts = list(dict.fromkeys(texts))
    if text_format == "plain":
        return {text: TextResult(html=safe_html.plain(text)) for text in distinct_texts}
    for module_name in ("markdown_it", "mdit_py_plugins", "pygments", "latex2mathml", "nh3"):
        if find_spec(module_name) is None:
            raise MissingExtraError(f"Markdown needs {module_name}: pip install 'custodes[annotate]'")
    short_texts = [text for text in distinct_texts if len(text) <= LONGEST]
    result_of_text = {text: TextResult(why="long") for text in distinct_texts if len(text) > LONGEST}
    converter_processes = [_Process() for _ in range(min(MOST, os.cpu_count() or 1, len(short_texts)))]
    free_process_queue = SimpleQueue[_Process]()
    for converter_process in converter_processes:
        free_process_queue.put(converter_process)

    def convert(text: str) -> TextResult:
        converter_process = free_process_queue.get()
        try:
            return converter_process.convert(text, text_format)
        finally:
            free_process_queue.put(converter_process)

    thread_pool = ThreadPoolExecutor(max(1, len(converter_processes)))
    try:
        result_of_text |= zip(
            short_texts,
            progress(thread_pool.map(convert, short_texts), total=len(short_texts), desc="texts"),
            strict=True,
        )
    finally:
        thread_pool.shutdown(cancel_futures=True)
        for converter_process in converter_processes:
            converter_process.end()
    return result_of_text


class _Process:
    """A process that converts one text at a time. The process is started again after a timeout."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def convert(self, text: str, text_format: Render) -> TextResult:
        """Return the HTML of a text, or the reason why the text has no HTML."""
        if self._process is None:
            python_statement = f"from {__package__}.safe_html import main; main()"
            command_arguments = [sys.executable, "-P", "-c", python_statement]
            environment_variables = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
            self._process = subprocess.Popen(
                command_arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment_variables
            )
            # Libraries are loaded before the time is measured.
            if self._result(self._process, ("", "markdown+math", 0.0), START).why:
                raise InputError('texts: the process that converts Markdown did not start; set render = "plain"')
        return self._result(self._process, (text, text_format, SECONDS), SECONDS * PATIENCE)

    def _result(
        self, process: subprocess.Popen[bytes], request: tuple[str, Render, float], timeout_seconds: float
    ) -> TextResult:
        assert process.stdin is not None
        assert process.stdout is not None
        kill_timer = Timer(timeout_seconds, process.kill)
        kill_timer.start()
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            response_line = process.stdout.readline()
        except OSError:  # the process ended while receiving the request
            response_line = b""
        finally:
            kill_timer.cancel()
        if not response_line.endswith(b"\n"):
            self.end()
            return TextResult(why="slow")
        return TextResult(*json.loads(response_line))

    def end(self) -> None:
        """Kill the process."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        with suppress(OSError):  # the process may have output that nobody reads
            process.communicate()
