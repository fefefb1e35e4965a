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
from threading import Timer, local
from types import TracebackType

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
    _check_installed()
    short = [text for text in known if len(text) <= LONGEST]
    made = {text: TextResult(why="long") for text in known if len(text) > LONGEST}
    if short:
        with _Workers(how, min(MOST, os.cpu_count() or 1, len(short))) as workers:
            answers = progress(workers.each(short), total=len(short), desc="texts")
            made |= zip(short, answers, strict=True)
    return made


def _check_installed() -> None:
    for name in ("markdown_it", "pygments", "latex2mathml", "nh3"):
        if find_spec(name) is None:
            raise MissingExtraError(f"Markdown needs {name}: pip install 'custodes[annotate]'")


class _Workers:
    """Processes, one a thread."""

    def __init__(self, how: Render, number: int) -> None:
        self._how = how
        self._own = local()
        self._all: list[_Worker] = []
        self._threads = ThreadPoolExecutor(number)

    def __enter__(self) -> _Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.shutdown(cancel_futures=True)
        for worker in self._all:
            worker.end()

    def each(self, asked: Sequence[str]) -> Iterable[TextResult]:
        """The answer to each text, in their order."""
        return self._threads.map(self._answer, asked)

    def _answer(self, text: str) -> TextResult:
        worker: _Worker | None = getattr(self._own, "worker", None)
        if worker is None or worker.is_over:
            worker = self._own.worker = _Worker()
            self._all.append(worker)
        return worker.answer(TextRequest(text=text, how=self._how, seconds=SECONDS))


class _Worker:
    """A process that answers one text at a time."""

    def __init__(self) -> None:
        run = f"from {__package__}.safe_html import main; main()"
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", run], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment()
        )
        if self._asked(
            TextRequest(text="", how="markdown+math"), START
        ).why:  # libraries are loaded before the clock runs
            raise InputError('texts: the process that makes HTML of Markdown did not start; take render = "plain"')

    @property
    def is_over(self) -> bool:
        """Whether it was ended."""
        return self._process.poll() is not None

    def answer(self, asked: TextRequest) -> TextResult:
        """HTML of a text, or why there is none."""
        return self._asked(asked, SECONDS * PATIENCE)

    def _asked(self, asked: TextRequest, seconds: float) -> TextResult:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        timer = Timer(seconds, self._process.kill)
        timer.start()
        try:
            self._process.stdin.write(msgspec.json.encode(asked) + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:  # it was ended while it was written to
            line = b""
        finally:
            timer.cancel()
        if not line.endswith(b"\n"):
            self.end()
            return TextResult(why="slow")
        return ANSWERED.decode(line)

    def end(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):  # what was not yet written
                    stream.close()
        self._process.wait()


def _environment() -> dict[str, str]:
    """The environment, with custodes where this process has it."""
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))}
