"""The options that verbs share: what is read, and where results go."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import polars as pl
from cyclopts import Parameter
from rich.console import Console

from custodes.answers.result import Result
from custodes.console import print_result
from custodes.data.readers import read
from custodes.data.study import Study
from custodes.data.writing import check_suffix, write_table
from custodes.errors import OptionError, suggestion
from custodes.files import check_writable, folder, is_folder, write_atomically
from custodes.progress import silent

FILE_WIDTH = 120
"""Columns of text of a table that goes to a file."""

Inputs = Annotated[
    str, Parameter(help="Files, folders, databases to read and join, - for standard input, or the word demo.")
]
"""What a verb reads."""

SWITCH = Parameter(negative="", show_default=False)
"""An option without a value, off unless it is given."""

Format = Literal["table", "json", "csv", "md", "latex", "html"]
SUFFIXES: dict[str, Format] = {
    ".txt": "table",
    ".json": "json",
    ".csv": "csv",
    ".md": "md",
    ".tex": "latex",
    ".html": "html",
}
"""The format of a file by its name."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Reading:
    """Options of what is read."""

    reader: Annotated[str | None, Parameter(help="Force a reader instead of finding it by suffix and columns.")] = None
    raters: Annotated[
        Path | None, Parameter(help="Table: rater, kind, higher_is_better, low, high, person, date, cost.")
    ] = None
    items: Annotated[Path | None, Parameter(help="Table: item, cluster, group, dataset, weight, probability.")] = None
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
class Telling:
    """Options of what is printed."""

    format: Annotated[
        Format | None, Parameter(help="table (default): to read; json: everything; csv: one table; md, latex, html.")
    ] = None
    table: Annotated[str | None, Parameter(help="Which table of the result (csv: default the first).")] = None
    quiet: Annotated[bool, SWITCH, Parameter(help="No progress bar.")] = False
    no_timing: Annotated[bool, SWITCH, Parameter(help="Leave the seconds out of json.")] = False

    @property
    def place(self) -> str | None:
        """Where it goes: a file, a folder (with / at the end), or standard output."""
        return None

    @property
    def shape(self) -> Format:
        """The format asked for, or that of the file's name."""
        return self.format or "table"

    def write(self, result: Result, seconds: float) -> None:
        """Print or save a result."""
        frame = result.to_frame(self.table)
        if self.place is not None and is_folder(self.place):
            target = folder(self.place)
            for name, table in (result.tables() if self.table is None else {self.table: frame}).items():
                write_table(_flat(table), target / f"{name}.csv")
            return
        if self.shape == "table":
            if self.place is None:
                print_result(result, Console(highlight=False), table=self.table)
                return
            text = StringIO()
            print_result(result, Console(file=text, highlight=False, width=FILE_WIDTH), table=self.table)
            write_atomically(self.place, text.getvalue())
            return
        written = {
            "csv": lambda: _flat(frame).write_csv(),
            "md": lambda: result.to_markdown(self.table),
            "latex": lambda: result.to_latex(self.table),
            "html": lambda: result.to_html(self.table),
        }
        self.send(written[self.shape]().encode() if self.shape in written else self._json(result, seconds))

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

    def _json(self, result: Result, seconds: float) -> bytes:
        answer = result.to_dict()
        if self.table is not None:
            answer = {name: answer[name] for name in ("question", "provenance", "notes", self.table)}
        return self.timed(answer, seconds)

    def progress(self) -> Any:
        """A progress bar on standard error, and only on a terminal; a context that yields the callable."""
        return nullcontext(silent) if self.quiet or not sys.stderr.isatty() else bar()


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Output(Telling):
    """Options of what comes out, and where."""

    output: Annotated[
        str | None,
        Parameter(
            name=["--output", "-o"],
            help="File instead of standard output, its format by the suffix: .txt .json .csv .md .tex .html; or DIR/: a"
            " csv a table.",
        ),
    ] = None

    @property
    def place(self) -> str | None:
        """Where it goes: a file, a folder (with / at the end), or standard output."""
        return self.output

    @property
    def shape(self) -> Format:
        """The format asked for, or that of the file's name."""
        return super().shape if self.output is None else SUFFIXES.get(Path(self.output).suffix.lower(), super().shape)

    def check(self) -> None:
        """Refuse before the work what could not be written after it."""
        if self.output is None:
            return
        if is_folder(self.output):
            if self.format not in (None, "csv"):
                raise OptionError(f"-o {self.output}: a folder takes a csv a table; name a file for {self.format}")
            return
        check_writable(self.output)
        suffix = Path(self.output).suffix.lower()
        if suffix not in SUFFIXES and not _is_device(self.output):
            raise OptionError(
                f"-o {self.output}: the suffix says the format; allowed: {' '.join(SUFFIXES)}, or DIR/"
                f"{suggestion(suffix, SUFFIXES)}"
            )
        if self.format not in (None, self.shape):
            raise OptionError(f"-o {self.output}: the suffix says {self.shape} and --format {self.format}; say one")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Tested(Output):
    """Options of an answer that is a list of tests passed or not."""

    junit: Annotated[Path | None, Parameter(help="Also write JUnit XML, which systems for CI show.")] = None

    def check(self) -> None:
        """Refuse before the work what could not be written after it."""
        super().check()
        if self.junit is not None:
            check_writable(self.junit)
            if self.output is not None and Path(self.output).resolve() == self.junit.resolve():
                raise OptionError(f"--junit {self.junit}: that file is the one of -o; name another")

    def write(self, result: Result, seconds: float) -> None:
        """Print or save a result, and its tests as JUnit XML."""
        made: Any = result
        made.to_frame(self.table)  # an unknown table leaves the file of before
        if self.junit is not None:
            write_atomically(self.junit, made.to_junit(0.0 if self.no_timing else seconds))
        super().write(result, seconds)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Model(Telling):
    """Options of where a combined metric goes; its tables go to standard output."""

    model: Annotated[str, Parameter(name=["--output", "-o"], help="The model file.")] = "combination.json"
    held_out: Annotated[
        Path | None, Parameter(help="Also write ratings of what each method had not seen: .csv .jsonl .parquet.")
    ] = None

    def check(self) -> None:
        """Refuse before the work what could not be written after it."""
        if not self.model.endswith(".json"):
            raise OptionError(f"-o {self.model}: the model file is JSON; name it .json (tables go to standard output)")
        check_writable(self.model)
        if self.held_out is not None:
            check_writable(self.held_out)
            check_suffix(self.held_out)

    def write(self, result: Result, seconds: float) -> None:
        """Save the model, then tell its tables."""
        made: Any = result
        made.to_frame(self.table)  # an unknown table leaves the model of before
        if self.no_timing:
            made = replace(made, comparison=made.comparison.with_columns(seconds=pl.lit(None, dtype=pl.Float64)))
        made.model.save(self.model)
        if self.held_out is not None:
            write_table(made.held_out.frame.with_columns(kind=pl.lit("metric")), self.held_out)
        super().write(made, seconds)
        print(f"custodes: model written to {self.model}", file=sys.stderr)


def _is_device(path: str) -> bool:
    """Whether a place is there and no file, so that its name says nothing of what it takes."""
    return Path(path).exists() and not Path(path).is_file()


def _flat(table: pl.DataFrame) -> pl.DataFrame:
    """A table for csv: lists as text."""
    return table.with_columns(pl.col(pl.List(pl.String)).list.join("; "))


@contextmanager
def bar() -> Any:
    """A Rich progress bar as a `Progress` callable."""
    from rich.progress import Progress as RichProgress

    with RichProgress(console=Console(stderr=True), transient=True) as shown:

        def track(iterable: Any, /, *, total: int | None = None, desc: str | None = None) -> Any:
            return shown.track(iterable, total=total, description=desc or "working")

        yield track
