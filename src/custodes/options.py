"""The options that verbs share: what is read, compared, resampled and written."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import Parameter, Token
from rich.console import Console

from custodes.console import print_result
from custodes.data.readers import read
from custodes.data.study import Study
from custodes.data.writing import write_table
from custodes.errors import InputError, OptionError, suggestion
from custodes.evaluate.result import Result
from custodes.files import check_writable, folder, write_atomically
from custodes.progress import silent

FILE_WIDTH = 120
"""Columns of text of a table that goes to a file."""


def whole(type_: Any, tokens: Sequence[Token]) -> int:
    """A whole number of at least 0; left to itself the parser would round 1.5."""
    text = tokens[0].value
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{text!r} is not a whole number of at least 0")
    return int(text)


def numbers(option: str, text: str | None) -> list[float] | None:
    """A comma list of numbers."""
    try:
        return None if text is None else [float(part) for part in text.split(",")]
    except ValueError:
        raise OptionError(f"{option} {text!r}: a comma list of numbers, such as 0,0.1,0.3") from None


def wholes(option: str, text: str | None) -> list[int] | None:
    """A comma list of whole numbers."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise OptionError(f"{option} {text!r}: a comma list of whole numbers, such as 10,20,40")
    return [int(part) for part in parts]


def _boundary(text: str | None) -> str | float | None:
    """The name of a boundary, or a number."""
    names = ("none", "pocock", "obrien-fleming")
    if text is None or text in names:
        return text
    try:
        return float(text)
    except ValueError:
        raise OptionError(
            f"--boundary {text!r}: allowed: {', '.join(names)}, or a number{suggestion(text, names)}"
        ) from None


def channel_table(text: str | None) -> list[list[float]] | str | None:
    """A 3x3 table [human, metric] from a .csv of three lines, or the word `ideal`."""
    if text is None or text == "ideal":
        return text
    try:
        lines = Path(text).read_text(encoding="utf-8").splitlines()
        return [[float(cell) for cell in line.split(",")] for line in lines if line.strip()]
    except OSError:
        raise InputError(f"--channel {text}: no such file; give a .csv of 3x3 numbers, or the word ideal") from None
    except ValueError:
        raise InputError(
            f"{text}: three lines of three numbers are needed: a line each for people's win, tie and loss, in it how"
            " often the metric says win, tie, loss; no header"
        ) from None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PilotReading:
    """Options of what is read, where no table of items is needed."""

    reader: Annotated[str | None, Parameter(help="Force a reader instead of finding it by suffix and columns.")] = None
    raters: Annotated[
        Path | None, Parameter(help="Table: rater, kind, higher_is_better, low, high, person, date, cost.")
    ] = None
    invalid: Annotated[Literal["error", "drop"], Parameter(help="Unreadable verdicts: refuse, or drop and count.")] = (
        "error"
    )

    def study(self, inputs: Sequence[str]) -> Study:
        """Read and join the inputs."""
        if not inputs:
            raise OptionError("no input: give a file, a folder, or the word demo")
        return read(*inputs, **vars(self))


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Reading(PilotReading):
    """Options of what is read."""

    items: Annotated[Path | None, Parameter(help="Table: item, cluster, group, dataset, weight.")] = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Targeting:
    """Options of what is compared where a target says which aspect (None: everything), and the seed."""

    human: Annotated[str | None, Parameter(help="Which raters are people: comma list of globs, ! excludes.")] = None
    metrics: Annotated[str | None, Parameter(help="Which metrics; also @aspect and @noaspect.")] = None
    systems: Annotated[str | None, Parameter(help="Which systems.")] = None
    group: Annotated[str | None, Parameter(help="Which groups of items (domain, subset).")] = None
    seed: Annotated[int, Parameter(converter=whole, help="Seed of every random number.")] = 0

    def arguments(self) -> dict[str, Any]:
        """The arguments that were given."""
        values = {**vars(self), "rng": self.seed}
        del values["seed"]
        return {name: value for name, value in values.items() if value is not None}


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Selecting(Targeting):
    """Options of what is compared (None: everything), and the seed."""

    aspect: Annotated[str | None, Parameter(help="Which aspects of people's ratings (default: each).")] = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Choice(Selecting):
    """Options of what is compared, and of how scores become preferences (None: the default of the question)."""

    aggregate: Annotated[Literal["mean", "vote"] | None, Parameter(help="Several people (default: mean).")] = None
    human_ties: Annotated[float | None, Parameter(help="People tie up to this difference (default: 0).")] = None
    ties: Annotated[str | None, Parameter(help="Metrics tie: exact (default), up to a number, or calibrated.")] = None
    orders: Annotated[
        Literal["mean", "consistent", "first"] | None,
        Parameter(help="Verdicts of both presentation orders (default: mean)."),
    ] = None

    def arguments(self) -> dict[str, Any]:
        """The arguments that were given."""
        values = super().arguments()
        if self.ties is not None and self.ties not in ("exact", "calibrated"):
            try:
                values["ties"] = float(self.ties)
            except ValueError:
                raise OptionError(
                    f"--ties {self.ties!r}: allowed: exact, calibrated, or a number"
                    f"{suggestion(self.ties, ('exact', 'calibrated'))}"
                ) from None
        return values


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Resampling:
    """Options of the intervals (None: the default of the question)."""

    confidence: Annotated[float | None, Parameter(help="Level of the intervals (default: 0.95).")] = None
    resamples: Annotated[
        int | None, Parameter(converter=whole, help="Resamples behind the intervals (default: 1000).")
    ] = None

    def arguments(self) -> dict[str, Any]:
        """The arguments that were given."""
        return {name: value for name, value in vars(self).items() if value is not None}


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Stopping:
    """Options of when a pair is decided (None: the default of the question)."""

    looks: Annotated[str | None, Parameter(help="Annotations of a pair at each look, 10,20,40, not a batch.")] = None
    boundary: Annotated[
        str | None, Parameter(help="Of repeated looks: none (default), pocock, obrien-fleming or a |z|.")
    ] = None
    stop: Annotated[
        list[str] | None,
        Parameter(help="decided (default), futility, equivalence, anytime, joined by +; repeatable.", negative=""),
    ] = None
    futility: Annotated[float | None, Parameter(help="Least chance of being decided (default: 0.2).")] = None
    equivalence: Annotated[float | None, Parameter(help="Margin that does not matter.")] = None
    gamma: Annotated[float | None, Parameter(help="Decided beyond 1 - gamma/2 (default: 0.05).")] = None

    def arguments(self) -> dict[str, Any]:
        """The arguments that were given."""
        values = {**vars(self), "looks": wholes("--looks", self.looks), "boundary": _boundary(self.boundary)}
        return {name: value for name, value in values.items() if value is not None}


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Telling:
    """Options of what is printed."""

    format: Annotated[
        Literal["table", "json", "csv"], Parameter(help="table: to read; json: everything; csv: one table.")
    ] = "table"
    table: Annotated[str | None, Parameter(help="Which table of the result (csv: default the first).")] = None
    quiet: Annotated[bool, Parameter(negative="", help="No progress bar.")] = False
    no_timing: Annotated[bool, Parameter(negative="", help="Leave the seconds out of json.")] = False

    @property
    def place(self) -> str | None:
        """Where it goes: a file, or standard output."""
        return None

    def write(self, result: Result, verb: str, seconds: float) -> None:
        """Print or save a result."""
        if self.table is not None:
            result.to_frame(self.table)
        if self.place is not None and self.place.endswith("/"):
            target = folder(self.place)
            tables = result.tables() if self.table is None else {self.table: result.to_frame(self.table)}
            for name, table in tables.items():
                write_table(_flat(table), target / f"{name}.csv")
            return
        if self.format == "table":
            if self.place is None:
                print_result(result, Console(highlight=False), table=self.table)
                return
            text = StringIO()
            print_result(result, Console(file=text, highlight=False, width=FILE_WIDTH), table=self.table)
            write_atomically(self.place, text.getvalue())
            return
        if self.format == "csv":
            content = _flat(result.to_frame(self.table)).write_csv().encode()
        else:
            content = self._json(result, verb, seconds)
        self.send(content)

    def send(self, content: bytes) -> None:
        """To the file, or to standard output."""
        if self.place is None:
            sys.stdout.buffer.write(content)
        else:
            write_atomically(self.place, content)

    def timed(self, answer: dict[str, Any], seconds: float) -> bytes:
        """An answer as JSON with an indent of two and a newline at the end; with its seconds unless unwanted."""
        whole = answer if self.no_timing else answer | {"seconds": round(seconds, 3)}
        return msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"

    def _json(self, result: Result, verb: str, seconds: float) -> bytes:
        answer = {**result.to_dict(), "question": verb}
        if self.table is not None:
            kept = {"question", "provenance", "notes", self.table}
            answer = {name: value for name, value in answer.items() if name in kept}
        return self.timed(answer, seconds)

    def progress(self) -> Any:
        """A progress bar on standard error, and only on a terminal; a context that yields the callable."""
        return nullcontext(silent) if self.quiet or not sys.stderr.isatty() else bar()


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Output(Telling):
    """Options of what comes out, and where."""

    output: Annotated[
        str | None, Parameter(name=["--output", "-o"], help="File instead of standard output; DIR/: a csv a table.")
    ] = None

    @property
    def place(self) -> str | None:
        """Where it goes: a file, or standard output."""
        return self.output

    def check(self) -> None:
        """Refuse before the work what could not be written after it."""
        if self.output is None:
            return
        if not self.output.endswith("/"):
            check_writable(self.output)
        elif self.format != "csv":
            raise OptionError(
                f"-o {self.output}: a folder takes --format csv (a file a table); name a file for the rest"
            )


def _flat(table: Any) -> Any:
    """A table for csv: lists as text."""
    import polars as pl

    return table.with_columns(pl.col(pl.List(pl.String)).list.join("; "))


@contextmanager
def bar() -> Any:
    """A Rich progress bar as a `Progress` callable."""
    from rich.progress import Progress as RichProgress

    with RichProgress(console=Console(stderr=True), transient=True) as shown:

        def track(iterable: Any, /, *, total: int | None = None, desc: str | None = None) -> Any:
            return shown.track(iterable, total=total, description=desc or "working")

        yield track
