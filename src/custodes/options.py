"""The options that verbs share: what is read, and where results go."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields, replace
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import polars as pl
from cyclopts import Parameter
from rich.console import Console
from rich.markup import escape

from custodes.answers.blocks import json_blocks
from custodes.answers.question import NOT_ENOUGH
from custodes.answers.result import Result
from custodes.arguments import assignment_list
from custodes.console import put, tell
from custodes.data.counts import is_counts, read_counts
from custodes.data.loading import matches, path_and_part, sidecar_raters
from custodes.data.mapping.columns import ROLES
from custodes.data.mapping.schema import Schema
from custodes.data.patterns import Patterns
from custodes.data.readers.reader import Invalid
from custodes.data.reading import read
from custodes.data.study import Study
from custodes.data.writing import check_suffix, csv_blocks, write_table
from custodes.errors import OptionError, listed, suggestion
from custodes.files import check_apart, check_writable, folder, is_folder, is_stream, write_atomically
from custodes.printing import Screen, print_result
from custodes.progress import silent
from custodes.visible import visible
from custodes.words import SWITCH

FILE_WIDTH = 120
"""Columns of text of a table that goes to a file."""

Inputs = Annotated[
    str, Parameter(help="Files, folders, databases to read and join, - for standard input, or the word demo.")
]
"""What a verb reads."""

QuoteFormulas = Annotated[
    bool,
    SWITCH,
    Parameter(help="In csv and tsv, put ' before text that a spreadsheet would run as a formula (=, +, -, @)."),
]

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
        Path | None,
        Parameter(help="Table: rater, kind, higher_is_better, low, high, person, own_system, date, cost, cost_unit."),
    ] = None
    items: Annotated[Path | None, Parameter(help="Table: item, cluster, group, dataset, weight, probability.")] = None
    column: Annotated[
        list[str] | None,
        Parameter(
            help=f"ROLE=NAME: what a column of yours is; comma list or repeated. Roles: {', '.join(ROLES)}.",
            negative="",
        ),
    ] = None
    columns: Annotated[
        list[str] | None,
        Parameter(
            help="Which columns hold scores: 'human_{aspect}_{rater}', 'metric:{rater}'; repeatable.", negative=""
        ),
    ] = None
    schema: Annotated[Path | None, Parameter(help="TOML that keeps these options; convert writes it.")] = None
    invalid: Annotated[
        Invalid | None,
        Parameter(help="Unreadable verdicts: refuse (the default), drop and count up to 5 %, or drop however many."),
    ] = None

    def refuse(self, about: str) -> None:
        """Refuse what says how to read where nothing is read; `about` is the option that names what would be."""
        for own in fields(self):
            if (value := getattr(self, own.name)) != own.default:
                raise OptionError(f"--{own.name} {value} describes what is read, and nothing is; give --{about} FILE")

    def study(self, inputs: Sequence[str]) -> Study:
        """Read and join the inputs."""
        if not inputs:
            raise OptionError("no input: give a file, a folder, or the word demo")
        if len(inputs) == 1 and is_counts(inputs[0]):
            raise OptionError(f"{inputs[0]}: {NOT_ENOUGH}")
        if any(map(is_counts, inputs)):
            raise OptionError(f"{listed(inputs)}: counts are given alone, to a question that takes them")
        return read(*inputs, **self.own, columns=self.mapping, schema=self.schema)

    def about(self, inputs: Sequence[str]) -> Any:
        """What a question is asked about: counts, if their file is the one input, else a study."""
        if len(inputs) == 1 and is_counts(inputs[0]):
            for own in fields(self):
                if getattr(self, own.name) != own.default:
                    raise OptionError(f"--{own.name} would change nothing: {inputs[0]} holds counts")
            return read_counts(inputs[0])
        return self.study(inputs)

    def selected(self, inputs: Sequence[str], selection: Mapping[str, Patterns]) -> Study:
        """The part of the inputs that is chosen, here or in the schema; everything where nothing is."""
        study = self.study(inputs)
        chosen = {**study.selection, **selection}
        return study.select(**chosen, one_side=True) if chosen else study

    @property
    def files(self) -> list[Any]:
        """The values of these options, of which some are files that are read; those that a schema names, too."""
        kept = {} if self.schema is None else Schema.load(self.schema).reading
        return [*vars(self).values(), *kept.values()]

    @property
    def own(self) -> dict[str, Any]:
        """What is read, beside columns and schema."""
        return {"reader": self.reader, "raters": self.raters, "items": self.items, "invalid": self.invalid}

    @property
    def mapping(self) -> dict[str, str | list[str]]:
        """Role to column, as `read` takes it."""
        made: dict[str, str | list[str]] = {}
        for text in assignment_list(self.column or [], keys=ROLES):
            role, sign, name = text.partition("=")
            if not sign or not name:
                raise OptionError(f"--column {text!r}: say ROLE=NAME, as in --column item=doc_id")
            if role in made:
                raise OptionError(f"--column {text!r}: {role} is {made[role]!r} already; a role is one column")
            made[role] = name
        if self.columns and "score" in made:
            raise OptionError("--column score=… and --columns both say where scores are; say one")
        return made | ({"score": self.columns} if self.columns else {})


def check_quoted(places: Iterable[str | Path]) -> None:
    """Raise `OptionError` for `--quote-formulas` where no file is one that a spreadsheet opens as text."""
    if not any(is_folder(place) or re.search(r"\.[ct]sv(\.gz)?$", str(place).lower()) for place in places):
        raise OptionError("--quote-formulas: only csv and tsv are quoted; ask for --format csv, or name a .csv")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Telling:
    """Options of what is printed."""

    format: Annotated[
        Format | None, Parameter(help="table (default): to read; json: everything; csv: one table; md, latex, html.")
    ] = None
    table: Annotated[str | None, Parameter(help="Which table of the result (csv: default the first).")] = None
    quiet: Annotated[bool, SWITCH, Parameter(help="No progress on standard error.")] = False
    quote_formulas: QuoteFormulas = False
    no_timing: Annotated[bool, SWITCH, Parameter(help="Leave the seconds out of json.")] = False

    @property
    def place(self) -> str | None:
        """Where it goes: a file, a folder (with / at the end), or standard output."""
        return None

    @property
    def shape(self) -> Format:
        """The format asked for, or that of the file's name."""
        return self.format or "table"

    def files(self, tables: Iterable[str] = ()) -> list[str | Path]:
        """What will be written; `tables` are those of the result, of which each is a file in a folder."""
        if self.place is None:
            return []
        return [Path(self.place, f"{name}.csv") for name in tables] if is_folder(self.place) else [self.place]

    def check(self, read: Iterable[str | Path], tables: Iterable[str] = ()) -> None:
        """Refuse before the work what could not be written after it, and what would be written over what is `read`."""
        files = self.files(tables)
        check_apart(files, read)
        if self.quote_formulas:
            check_quoted([self.place or f".{self.shape}", *files])

    def write(self, result: Result, seconds: float) -> None:
        """Print or save a result."""
        frame = result.to_frame(self.table)
        if self.place is not None and is_folder(self.place):
            target = folder(self.place)
            for name, table in (result.tables() if self.table is None else {self.table: frame}).items():
                write_table(_flat(table), target / f"{name}.csv", quote_formulas=self.quote_formulas)
            return
        if self.shape == "table":
            if self.place is None:
                print_result(result, Screen(highlight=False), table=self.table)
                return
            text = StringIO()
            print_result(result, Console(file=text, highlight=False, width=FILE_WIDTH), table=self.table)
            write_atomically(self.place, text.getvalue())
            return
        written = {"md": result.to_markdown, "latex": result.to_latex, "html": result.to_html}
        if self.shape in written:
            self._send([written[self.shape](self.table).encode(errors="backslashreplace")])
        elif self.shape == "csv":
            self._send(csv_blocks(_flat(frame), quote_formulas=self.quote_formulas))
        else:
            self.tell_whole(result.told_whole(), seconds)

    def tell_whole(self, answer: dict[str, Any], seconds: float) -> None:
        """An answer as JSON with a newline at the end; with its seconds unless unwanted."""
        if self.table is not None:
            answer = {name: answer[name] for name in ("question", "provenance", "notes", self.table)}
        whole = answer if self.no_timing else answer | {"seconds": round(seconds, 3)}
        self._send(chain(json_blocks(whole), [b"\n"]))

    def _send(self, content: Iterable[bytes]) -> None:
        """To the file, or to standard output."""
        if self.place is None:
            put(content)
        else:
            write_atomically(self.place, content)

    def progress(self, doing: str = "", *, lines: bool = False) -> Any:
        """Progress on standard error: a context that yields the callable.

        On a terminal it is a bar; elsewhere a line per part of the work where `lines`, else nothing.
        """
        if not self.quiet and sys.stderr.isatty():
            return bar(doing)
        return nullcontext(silent if self.quiet or not lines else in_lines(doing))


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Output(Telling):
    """Options of what comes out, and where."""

    output: Annotated[
        str | None,
        Parameter(
            name=["--output", "-o"],
            help="File instead of standard output, its format by the suffix: .txt .json .csv .md .tex .html; or DIR/:"
            " one csv per table.",
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

    def check(self, read: Iterable[str | Path], tables: Iterable[str] = ()) -> None:
        """Refuse before the work what could not be written after it, and what would be written over what is `read`."""
        if self.output is not None:
            self._check_place(self.output)
        super().check(read, tables)

    def _check_place(self, output: str) -> None:
        if is_folder(output):
            if self.format not in (None, "csv"):
                raise OptionError(f"-o {output}: a folder takes one csv per table; name a file for {self.format}")
            return
        check_writable(output)
        suffix = Path(output).suffix.lower()
        if suffix not in SUFFIXES and not is_stream(output):
            raise OptionError(
                f"-o {output}: the suffix says the format; allowed: {' '.join(SUFFIXES)}, or DIR/"
                f"{suggestion(suffix, SUFFIXES)}"
            )
        if self.format not in (None, self.shape):
            raise OptionError(f"-o {output}: the suffix says {self.shape} and --format {self.format}; say one")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Tested(Output):
    """Options of an answer that is a list of tests passed or not."""

    junit: Annotated[Path | None, Parameter(help="Also write JUnit XML, which systems for CI show.")] = None

    def files(self, tables: Iterable[str] = ()) -> list[str | Path]:
        """What will be written."""
        return [*super().files(tables), *([self.junit] if self.junit else [])]

    def check(self, read: Iterable[str | Path], tables: Iterable[str] = ()) -> None:
        """Refuse before the work what could not be written after it, and what would be written over what is `read`."""
        if self.junit is not None:
            check_writable(self.junit)
        super().check(read, tables)

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

    def files(self, tables: Iterable[str] = ()) -> list[str | Path]:
        """What will be written."""
        return [self.model, *([self.held_out] if self.held_out else [])]

    def check(self, read: Iterable[str | Path], tables: Iterable[str] = ()) -> None:
        """Refuse before the work what could not be written after it, and what would be written over what is `read`."""
        if not self.model.endswith(".json"):
            raise OptionError(f"-o {self.model}: the model file is JSON; name it .json (tables go to standard output)")
        check_writable(self.model)
        if self.held_out is not None:
            check_writable(self.held_out)
            check_suffix(self.held_out)
        super().check(read, tables)

    def write(self, result: Result, seconds: float) -> None:
        """Save the model, then tell its tables."""
        made: Any = result
        made.to_frame(self.table)  # an unknown table leaves the model of before
        if self.no_timing:
            made = replace(made, comparison=made.comparison.with_columns(seconds=pl.lit(None, dtype=pl.Float64)))
        made.model.save(self.model)
        if self.held_out is not None:
            write_table(
                made.held_out.frame.with_columns(kind=pl.lit("metric")),
                self.held_out,
                quote_formulas=self.quote_formulas,
            )
        super().write(made, seconds)
        tell(f"model written to {self.model}")


def _flat(table: pl.DataFrame) -> pl.DataFrame:
    """A table for csv: lists as text."""
    return table.with_columns(pl.col(pl.List(pl.String)).list.join("; "))


def read_by(inputs: Sequence[str], *options: Any) -> list[str | Path]:
    """What a command reads: its inputs with the raters tables beside them, and every file that is the value of an
    option, or one of its values."""
    beside = [side for file in _files(inputs) for side in sidecar_raters(*path_and_part(file))]
    return [*named_by(inputs, *options), *beside]


def named_by(inputs: Sequence[str], *options: Any) -> list[str | Path]:
    """What a command reads but for raters tables beside its inputs, which are not read with texts."""
    return [*_files(inputs), *filter(os.path.isfile, _words(options))]


def _files(inputs: Sequence[str]) -> list[str | Path]:
    """The inputs, of a pattern its files."""
    return [found for name in inputs for found in tuple(matches(Path(name))) or (name,)]


def _words(value: Any) -> Iterator[str | Path]:
    if isinstance(value, str | Path):
        yield value
    elif isinstance(value, list | tuple):
        yield from chain.from_iterable(map(_words, value))


def in_lines(doing: str) -> Any:
    """A `Progress` callable that prints a line before each part of the outermost loop, by the title of the part."""
    running = False

    def track(iterable: Any, /, *, total: int | None = None, desc: str | None = None) -> Any:
        nonlocal running
        if running:  # a loop within a part
            yield from iterable
            return
        running = True
        try:
            for number, part in enumerate(iterable, start=1):
                title = getattr(part, "title", desc or "working")
                tell(f"{doing}: {number} of {total}: {title}" if total else f"{doing}: {number}: {title}")
                yield part
        finally:
            running = False

    return track


@contextmanager
def bar(doing: str = "") -> Any:
    """A Rich progress bar as a `Progress` callable; what is `doing` stands in it from the start, with its seconds."""
    from rich.progress import Progress as RichProgress
    from rich.progress import TimeElapsedColumn

    columns = (*RichProgress.get_default_columns(), TimeElapsedColumn())
    with RichProgress(*columns, console=Console(stderr=True), transient=True) as shown:
        if doing:
            shown.add_task(escape(visible(doing)), total=None)
            shown.refresh()  # or it is not seen before a tenth of a second is over, in which a core may have no time

        def track(iterable: Any, /, *, total: int | None = None, desc: str | None = None) -> Any:
            return shown.track(iterable, total=total, description=desc or "working")

        yield track
