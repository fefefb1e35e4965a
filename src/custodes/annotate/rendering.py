"""All texts of a study as safe HTML: by processes that are ended where they take too long, both outputs of an item in
one way."""

from __future__ import annotations

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

import msgspec

from custodes.annotate import safe_html
from custodes.annotate.known_questions import Known
from custodes.annotate.material import Item, Material
from custodes.annotate.safe_html import ANSWERED, LONGEST, Render, TextRequest, TextResult
from custodes.data.notes import Note, noted
from custodes.data.outputs import turns_of
from custodes.errors import InputError, MissingExtraError
from custodes.progress import Progress

SECONDS = 2.0
"""Of a processor, that a text may take: a busy machine shows the same as an idle one."""
PATIENCE = 1.0 if sys.platform == "win32" else 15.0
"""By the clock it may take so many times that."""
START = 60.0
"""Seconds that a process may take to begin, on a machine that is busy."""
MOST = 8
"""Processes at once."""

WHY = {
    "long": f"are longer than {LONGEST:,} characters",
    "slow": f"take longer than {SECONDS:g} s",
    "unlike": "would have lost words",
    "failed": "could not be read",
}
"""Why a text is not shown as Markdown."""


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """HTML of every item's context and source, and of every output by item and system."""

    items: Mapping[str, str]
    outputs: Mapping[tuple[str, str], str]
    known: Sequence[tuple[str, str, str]] = ()
    refused: frozenset[str] = frozenset()
    notes: tuple[Note, ...] = ()


def render(material: Material, how: Render, *, known: Sequence[Known] = (), progress: Progress) -> Rendered:
    """All texts as they are shown; where one output of an item must be plain, all of them are, since form is judged.

    `known` are questions with a known answer, of which context and both outputs are made; `refused` are the items
    whose outputs are plain.
    """
    contexts = {item.label: _parts(item) for item in material.items}
    asked = [text for parts in contexts.values() for _, text in parts]
    asked += (own.text for own in material.outputs.values())
    asked += (text for own in known for text in (*(text for _, text in _parts(own.context)), *_sides(own)))
    made = rendered(asked, how, progress=progress)
    refused = frozenset(item for (item, _), own in material.outputs.items() if made[own.text].why)
    outputs = {
        (item, system): safe_html.plain(own.text) if item in refused else made[own.text].html
        for (item, system), own in material.outputs.items()
    }
    items = {item: _context(parts, made) for item, parts in contexts.items()}
    return Rendered(
        items=items,
        outputs=outputs,
        known=[_known(own, made) for own in known],
        refused=refused,
        notes=tuple(_notes(material, made, refused)),
    )


def _sides(known: Known) -> tuple[str, ...]:
    """The texts of the outputs of a known question."""
    return (known.first.text,) if known.second is None else (known.first.text, known.second.text)


def _known(known: Known, made: Mapping[str, TextResult]) -> tuple[str, str, str]:
    sides = _sides(known)
    is_plain = any(made[text].why for text in sides)
    first, *second = (safe_html.plain(text) if is_plain else made[text].html for text in sides)
    return _context(_parts(known.context), made), first, "".join(second)


def _parts(item: Item) -> list[tuple[str | None, str]]:
    """The texts above an item's outputs, each with its role in a dialogue."""
    turns = turns_of(item.context) if item.context else []
    said: list[tuple[str | None, str]] = [(None, item.context)] if turns is None else [*turns]
    return [*said, (None, item.source)] if item.source.strip() else said


def _context(parts: Sequence[tuple[str | None, str]], made: Mapping[str, TextResult]) -> str:
    """HTML of what stands above; plain as a whole where a part must be."""
    is_plain = any(made[text].why for _, text in parts)
    own = [(role, safe_html.plain(text) if is_plain else made[text].html) for role, text in parts]
    return "".join(html if role is None else safe_html.dialogue([(role, html)]) for role, html in own)


def _notes(material: Material, made: Mapping[str, TextResult], refused: frozenset[str]) -> list[Note]:
    """What is shown plain, and why."""
    reasons = Counter(made[own.text].why for own in material.outputs.values())
    told = [f"{n} {WHY[why]}" for why, n in reasons.items() if why]
    whole = (
        f"the outputs of {len(refused)} items are shown plain, all of an item alike: of their texts {', '.join(told)}"
    )
    above = sum(any(made[text].why for _, text in _parts(item)) for item in material.items)
    return noted(
        ("outputs-plain", len(refused), whole),
        ("contexts-plain", above, f"what stands above the outputs is shown plain for {above} items"),
    )


def rendered(asked: Iterable[str], how: Render, *, progress: Progress) -> dict[str, TextResult]:
    """HTML of each text, or why there is none."""
    known = list(dict.fromkeys(asked))
    if how == "plain":
        return {text: TextResult(html=safe_html.plain(text)) for text in known}
    for name in ("markdown_it", "pygments", "latex2mathml", "nh3"):
        if find_spec(name) is None:
            raise MissingExtraError(f"Markdown needs {name}: pip install 'custodes[annotate]'")
    short = [text for text in known if len(text) <= LONGEST]
    results = {text: TextResult(why="long") for text in known if len(text) > LONGEST}
    if not short:
        return results
    workers = [_Worker() for _ in range(min(MOST, os.cpu_count() or 1, len(short)))]
    free = SimpleQueue[_Worker]()
    for worker in workers:
        free.put(worker)

    def result(text: str) -> TextResult:
        worker = free.get()
        try:
            return worker.answer(TextRequest(text=text, how=how, seconds=SECONDS))
        finally:
            free.put(worker)

    threads = ThreadPoolExecutor(len(workers))
    try:
        results |= zip(short, progress(threads.map(result, short), total=len(short), desc="texts"), strict=True)
    finally:
        threads.shutdown(cancel_futures=True)
        for worker in workers:
            worker.end()
    return results


class _Worker:
    """A process that makes HTML of one text at a time; started again after a text that took too long."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def answer(self, request: TextRequest) -> TextResult:
        """HTML of a text, or why there is none."""
        if self._process is None:
            run = f"from {__package__}.safe_html import main; main()"
            command = [sys.executable, "-P", "-c", run]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment())
            # Libraries are loaded before the clock runs.
            if self._asked(self._process, TextRequest(text="", how="markdown+math"), START).why:
                raise InputError('texts: the process that makes HTML of Markdown did not start; take render = "plain"')
        return self._asked(self._process, request, SECONDS * PATIENCE)

    def _asked(self, process: subprocess.Popen[bytes], request: TextRequest, seconds: float) -> TextResult:
        assert process.stdin is not None
        assert process.stdout is not None
        timer = Timer(seconds, process.kill)
        timer.start()
        try:
            process.stdin.write(msgspec.json.encode(request) + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except OSError:  # it was ended while it was written to
            line = b""
        finally:
            timer.cancel()
        if not line.endswith(b"\n"):
            self.end()
            return TextResult(why="slow")
        return ANSWERED.decode(line)

    def end(self) -> None:
        """End the process, whatever it does."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        with suppress(OSError):  # what was not yet written
            process.communicate()


def _environment() -> dict[str, str]:
    """The environment, with custodes where this process has it."""
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))}
