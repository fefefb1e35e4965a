"""Options that the verbs share, for inputs and outputs."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import polars as pl
from cyclopts import Parameter
from rich.console import Console
from rich.markup import escape

from custodes.answers.formats import to_json
from custodes.answers.printing import PipeSafeConsole, print_result
from custodes.answers.question import NOT_ENOUGH, ONE_FILE_OF_COUNTS
from custodes.answers.shared_arguments import HELP
from custodes.arguments import assignment_list
from custodes.command_line import OUTPUT_OPTIONS, READING_OPTIONS, SWITCH, replace_argument_names
from custodes.console import print_diagnostic, print_line, quiet_pipe, write_stdout
from custodes.control_characters import escape_controls
from custodes.data.counts import is_counts, read_counts
from custodes.data.loading import PROBES, RATERS, glob_files, path_and_part, sidecar_tables
from custodes.data.mapping.columns import ROLES
from custodes.data.mapping.pattern import KINDS
from custodes.data.mapping.schema import Schema
from custodes.data.patterns import Patterns
from custodes.data.readers.reader import Invalid
from custodes.data.reading import read
from custodes.data.study import Study
from custodes.data.writing import check_suffix, csv_blocks, write_table
from custodes.errors import OptionError, join_labels, reject, suggestion
from custodes.files import check_distinct_files, check_writable, is_folder, is_stream, make_folder, write_atomically
from custodes.progress import Progress, silent

FILE_WIDTH = 120
"""Width of a table in a file or a pipe, in characters."""

Inputs = Annotated[
    str,
    Parameter(
        help="Files, folders or databases to read and join. The word demo stands for the example study, demo-texts "
        "for example texts without ratings, and - for standard input."
    ),
]

QuoteFormulas = Annotated[
    bool,
    SWITCH,
    Parameter(
        group=OUTPUT_OPTIONS,
        help="In CSV and TSV, put an apostrophe before text that a spreadsheet would read as a formula (=, +, -, @).",
    ),
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


@Parameter(name="*", group=READING_OPTIONS)
@dataclass(frozen=True, kw_only=True)
class InputOptions:
    """Options of inputs."""

    reader: Annotated[str | None, Parameter(help="Reader to use (default: chosen by suffix and columns).")] = None
    raters: Annotated[
        Path | None,
        Parameter(
            help="Table of raters: rater, kind, higher_is_better, low, high, person, own_system, date, cost, cost_unit."
        ),
    ] = None
    items: Annotated[
        Path | None, Parameter(help="Table of items: item, cluster, group, dataset, weight, probability, n_outputs.")
    ] = None
    column: Annotated[
        list[str] | None,
        Parameter(
            help="ROLE=NAME. NAME is a column, path (a.b), columns ({doc}/{segment}) or pattern (s.*; "
            "text, human, metric). Comma list or repeated. "
            f"Roles: {', '.join(ROLES)}.",
            negative="",
        ),
    ] = None
    columns: Annotated[
        list[str] | None,
        Parameter(
            help="Columns with scores, as patterns: 'human_{aspect}_{rater}', 'metric:{rater}'; repeatable.",
            negative="",
        ),
    ] = None
    schema: Annotated[
        Path | None, Parameter(help="Schema file (.toml) with stored options for reading; convert writes such files.")
    ] = None
    invalid: Annotated[
        Invalid | None,
        Parameter(
            help="How to treat unreadable verdicts: error (default), drop (exclude them if at most 5 % "
            "are unreadable) or force (exclude any number)."
        ),
    ] = None

    def refuse(self, reason: str) -> None:
        """Raise an error if an input option is given; `reason` states why such an option has no effect."""
        for option_field in fields(self):
            if (option_value := getattr(self, option_field.name)) != option_field.default:
                raise OptionError(f"--{option_field.name} {option_value} has no effect: {reason}")

    def study(self, inputs: Sequence[str]) -> Study:
        """Read and join the inputs."""
        has_counts = any(map(is_counts, inputs))
        reject(
            (not inputs, "there is no input; give a file, a folder, or the word demo"),
            (has_counts and len(inputs) > 1, f"{join_labels(inputs)}: {ONE_FILE_OF_COUNTS}"),
            (has_counts, f"{join_labels(inputs)}: {NOT_ENOUGH}"),
        )
        return read(*inputs, **self.reader_arguments, columns=self.column_mapping, schema=self.schema)

    def read_data(self, inputs: Sequence[str]) -> Any:
        """The data of a question: counts if the input is a file of counts, otherwise a study."""
        if len(inputs) == 1 and is_counts(inputs[0]):
            self.refuse(f"the input is a file of counts ({inputs[0]})")
            return read_counts(inputs[0])
        return self.study(inputs)

    def select_study(self, inputs: Sequence[str], selection: Mapping[str, Patterns]) -> Study:
        """The part of the inputs that the command line or the schema selects (default: the whole study)."""
        study = self.study(inputs)
        full_selection = {**study.selection, **selection}
        return study.select(**full_selection, one_side=True) if full_selection else study

    @property
    def files(self) -> list[Any]:
        """The input files among the values of these options, including the files named in a schema."""
        return [*vars(self).values(), *({} if self.schema is None else Schema.load(self.schema).reading).values()]

    @property
    def reader_arguments(self) -> dict[str, Any]:
        """The values of the arguments of `read`, except columns and schema."""
        return {"reader": self.reader, "raters": self.raters, "items": self.items, "invalid": self.invalid}

    @property
    def column_mapping(self) -> dict[str, str | list[str]]:
        """The column of each role, in the form that `read` accepts."""
        column_of_role: dict[str, str | list[str]] = {}
        for assignment_text in assignment_list(self.column or [], keys=(*ROLES, *KINDS)):
            role, equals_sign, column_name = assignment_text.partition("=")
            reject(
                (
                    not equals_sign or not column_name,
                    f"--column {assignment_text!r}: give ROLE=NAME, as in --column item=doc_id",
                ),
                (
                    role in column_of_role,
                    f"--column {assignment_text!r}: the role {role} has the column {column_of_role.get(role)!r} "
                    "already; give one column for each role",
                ),
                (
                    role == "score" and self.columns,
                    "--column score=… and --columns both name the columns of scores; remove one of these options",
                ),
            )
            column_of_role[role] = column_name
        return column_of_role | ({"score": self.columns} if self.columns else {})


def check_quoted(paths: Iterable[str | Path]) -> None:
    """Raise `OptionError` if no output is csv or tsv, so that `--quote-formulas` would have no effect."""
    if not any(is_folder(path) or re.search(r"\.[ct]sv(\.gz)?$", str(path).lower()) for path in paths):
        raise OptionError(
            "--quote-formulas applies only to csv and tsv; give --format csv, or an output file with the suffix .csv"
        )


@Parameter(name="*", group=OUTPUT_OPTIONS)
@dataclass(frozen=True, kw_only=True)
class Output:
    """Options of results: format and destination."""

    format: Annotated[
        Format | None, Parameter(help="table (default), json (all tables), csv (one table), md, latex or html.")
    ] = None
    table: Annotated[
        str | None, Parameter(help="Name of the table to print, with all columns (default for csv: the first table).")
    ] = None
    quiet: Annotated[bool, SWITCH, Parameter(help="Print no progress on standard error.")] = False
    quote_formulas: QuoteFormulas = False
    no_timing: Annotated[bool, SWITCH, Parameter(help="Omit the run time in seconds from json.")] = False
    output: Annotated[
        str | None,
        Parameter(
            name=["--output", "-o"],
            help="Output file (default: standard output). The suffix sets the format: .txt .json .csv .md "
            ".tex .html. DIR/ writes one csv per table.",
        ),
    ] = None

    @property
    def place(self) -> str | None:
        """The output file or folder for the tables; None means standard output."""
        return self.output

    @property
    def shape(self) -> Format:
        """The format of the output. The format follows from the suffix of the output file, or without a file from
        `--format`."""
        return SUFFIXES.get(Path(self.place or "").suffix.lower(), self.format or "table")

    def files(self, tables: Iterable[str] = ()) -> list[str | Path]:
        """Files that will be written. If the output is a folder, each of the `tables` of the result is a file."""
        if self.place is None:
            return []
        return [Path(self.place, f"{name}.csv") for name in tables] if is_folder(self.place) else [self.place]

    def check(self, inputs: Iterable[str | Path], tables: Iterable[str] = ()) -> None:
        """Check before any computation that outputs are writable and that no output is one of the `inputs`."""
        output_files = self.files(tables)
        if self.place is not None and is_folder(self.place):
            if self.format not in (None, "csv"):
                raise OptionError(
                    f"-o {self.place}: a folder gets one csv per table; to write {self.format}, give a file"
                )
        elif self.place is not None:
            suffix = Path(check_writable(self.place)).suffix.lower()
            reject(
                (
                    suffix not in SUFFIXES and not is_stream(self.place),
                    f"-o {self.place}: the suffix names no format; give a name that ends in "
                    f"{' '.join(SUFFIXES)}, or DIR/{suggestion(suffix, SUFFIXES)}",
                ),
                (
                    self.format not in (None, self.shape),
                    f"-o {self.place}: the suffix of the file contradicts --format {self.format}; change the suffix "
                    "or leave out --format",
                ),
            )
        check_distinct_files(output_files, inputs)
        if self.quote_formulas:
            check_quoted([self.place or f".{self.shape}", *output_files])

    def answer(self, ask: Callable[..., Any], title: str = "") -> int:
        """Run a question with `progress=`, write the result, and return its exit status."""
        result, seconds = self.time_question(ask, title)
        result.to_frame(self.table)  # raises for an unknown table before a file is overwritten
        with quiet_pipe():
            self.write(result, seconds)
        return int(result.status)

    def time_question(self, ask: Callable[..., Any], title: str = "") -> tuple[Any, float]:
        """Run a question with progress, and return the result and the run time in seconds."""
        start_seconds = time.perf_counter()
        with progress(title, quiet=self.quiet) as track:
            result = ask(progress=track)
        return result, time.perf_counter() - start_seconds

    def write(self, result: Any, seconds: float) -> None:
        """Write a result to its destination."""
        frame = result.to_frame(self.table)
        writer_of_format = {"md": result.to_markdown, "latex": result.to_latex, "html": result.to_html}
        if self.place is not None and is_folder(self.place):
            target_folder = make_folder(self.place)
            for table_name, table_frame in (result.tables() if self.table is None else {self.table: frame}).items():
                write_table(
                    _flatten_lists(table_frame), target_folder / f"{table_name}.csv", quote_formulas=self.quote_formulas
                )
        elif self.shape == "table" and self.place is None:
            print_result(_name_options(result), PipeSafeConsole(highlight=False), table=self.table)
        elif self.shape == "table":
            text_buffer = StringIO()
            text_console = Console(file=text_buffer, highlight=False, width=FILE_WIDTH)
            print_result(_name_options(result), text_console, table=self.table)
            self._send([text_buffer.getvalue().encode(errors="backslashreplace")])
        elif self.shape in writer_of_format:
            self._send([writer_of_format[self.shape](self.table).encode(errors="backslashreplace")])
        elif self.shape == "csv":
            self._send(csv_blocks(_flatten_lists(frame), quote_formulas=self.quote_formulas))
        else:
            self.write_json(result.to_values(), seconds)

    def write_json(self, result_fields: dict[str, Any], seconds: float) -> None:
        """Write a result as JSON with a final newline. The JSON includes the run time, unless `no_timing` is set."""
        if self.table is not None:
            result_fields = {
                field_name: result_fields[field_name] for field_name in ("question", "provenance", "notes", self.table)
            }
        self._send(
            [to_json(result_fields if self.no_timing else result_fields | {"seconds": round(seconds, 3)}), b"\n"]
        )

    def _send(self, content: Iterable[bytes]) -> None:
        if self.place is None:
            write_stdout(content)
        else:
            write_atomically(self.place, content)


def _name_options(result: Any) -> Any:
    """The result. Its notes and messages name options of the command line instead of arguments of functions."""
    options = {f"--{argument_name.replace('_', '-')}" for argument_name in HELP}
    message_frames = {name: frame for name, frame in result.tables().items() if "message" in frame.columns}
    return replace(
        result,
        notes=tuple(replace(note, message=replace_argument_names(note.message, options)) for note in result.notes),
        **{
            name: frame.with_columns(
                message=pl.Series(
                    [replace_argument_names(message, options) for message in frame["message"]], dtype=pl.String
                )
            )
            for name, frame in message_frames.items()
        },
    )


@Parameter(name="*", group=OUTPUT_OPTIONS)
@dataclass(frozen=True, kw_only=True)
class TestOutput(Output):
    """Options for results that are lists of tests."""

    junit: Annotated[Path | None, Parameter(help="Also write JUnit XML for CI systems.")] = None

    def files(self, tables: Iterable[str] = ()) -> list[str | Path]:
        """Files that will be written."""
        return [*super().files(tables), *([check_writable(self.junit)] if self.junit else [])]

    def write(self, result: Any, seconds: float) -> None:
        """Write a result to its destination, and its tests as JUnit XML."""
        if self.junit is not None:
            write_atomically(self.junit, result.to_junit(0.0 if self.no_timing else seconds))
        super().write(result, seconds)


@Parameter(name="*", group=OUTPUT_OPTIONS)
@dataclass(frozen=True, kw_only=True)
class ModelOutput(Output):
    """Options for a fitted metric. The output is the model file; the tables are printed on standard output."""

    output: Annotated[
        str,
        Parameter(name=["--output", "-o"], help="The model file (default: combination.json).", show_default=False),
    ] = "combination.json"
    held_out: Annotated[
        Path | None,
        Parameter(help="Also write the held-out predictions of each method as ratings: .csv .jsonl .parquet."),
    ] = None

    @property
    def place(self) -> None:
        """Destination of the tables: always None, which means standard output."""

    def files(self, tables: Iterable[str] = ()) -> list[str | Path]:
        """Files that will be written."""
        if not self.output.endswith(".json"):
            raise OptionError(
                f"-o {self.output}: the output is the model file, which is JSON; give a name that "
                f"ends in .json (tables go to standard output)"
            )
        if self.held_out is not None:
            check_suffix(self.held_out)
        return [check_writable(path) for path in (self.output, self.held_out) if path is not None]

    def write(self, result: Any, seconds: float) -> None:
        """Save the model, then print its tables."""
        if self.no_timing:
            result = replace(result, comparison=result.comparison.with_columns(seconds=pl.lit(None, dtype=pl.Float64)))
        result.model.save(self.output)
        if self.held_out is not None:
            write_table(
                result.held_out.frame.with_columns(kind=pl.lit("metric")),
                self.held_out,
                quote_formulas=self.quote_formulas,
            )
        super().write(result, seconds)
        print_diagnostic(f"model written to {self.output}")


def _flatten_lists(table: pl.DataFrame) -> pl.DataFrame:
    """A table for csv, with lists converted to text."""
    return table.with_columns(pl.col(pl.List(pl.String)).list.join("; "))


def input_files(inputs: Sequence[str], *option_values: Any, sidecars: bool = True) -> list[str | Path]:
    """Files that a command reads: the inputs, the tables next to the inputs, and all files given by options.

    `sidecars`: whether to include the tables of raters and probes next to the inputs (for scores, not for texts).
    """
    file_paths = [
        file_path for input_name in inputs for file_path in tuple(glob_files(Path(input_name))) or (input_name,)
    ]
    return [
        *file_paths,
        *[
            sidecar_path
            for table_kind in (RATERS, PROBES)
            for file_path in file_paths
            for sidecar_path in sidecar_tables(path_and_part(file_path)[0], table_kind)
            if sidecars
        ],
        *filter(os.path.isfile, _words(option_values)),
    ]


def print_output_path(path: Path) -> None:
    """Print the path of a written table, unless it is a stream."""
    if not is_stream(path):
        print_line(str(path))


def _words(option_value: Any) -> Iterator[str | Path]:
    if isinstance(option_value, str | Path):
        yield option_value
    elif isinstance(option_value, list | tuple):
        yield from chain.from_iterable(map(_words, option_value))


@contextmanager
def progress(title: str = "", *, quiet: bool = False) -> Iterator[Progress]:
    """Progress on standard error: a bar on a terminal, and nothing elsewhere."""
    if quiet or not sys.stderr.isatty():
        yield silent
        return
    from rich.progress import Progress as Bar
    from rich.progress import TimeElapsedColumn

    with Bar(*Bar.get_default_columns(), TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        if title:
            bar.add_task(escape(escape_controls(title)), total=None)
            bar.refresh()  # otherwise the bar appears only after a tenth of a second

        def track(iterable: Any, /, *, total: int | None = None, desc: str | None = None) -> Any:
            return bar.track(iterable, total=total, description=desc or "working")

        yield track
