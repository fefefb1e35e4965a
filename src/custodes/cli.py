"""The command line: flags to calls. The only place that prints or exits."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib.metadata import version
from io import StringIO, TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import App, CycloptsError, Parameter, Token
from rich.console import Console

import custodes as cu
from custodes.console import print_result
from custodes.data.writing import check_suffix, long_tables, write_table
from custodes.errors import CustodesError, CustodesWarning, OptionError, suggestion
from custodes.evaluate.result import Result
from custodes.files import check_writable, folder, write_atomically
from custodes.progress import silent

app = App(
    name="custodes",
    help="Judge the judges: which automatic metric or LLM judge agrees with people, whom it favours, which system is"
    " better.",
    version=lambda: f"custodes {version('custodes')}",
    help_format="markdown",
    print_error=False,
    exit_on_error=False,
    result_action="return_value",
)
app.register_install_completion_command()

Answer = Callable[..., Result]
FILE_WIDTH = 120
"""Columns of text of a table that goes to a file."""


def _whole(type_: Any, tokens: Sequence[Token]) -> int:
    """A whole number of at least 0; left to itself the parser would round 1.5."""
    text = tokens[0].value
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{text!r} is not a whole number of at least 0")
    return int(text)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Reading:
    """Options of what is read."""

    reader: Annotated[str | None, Parameter(help="Force a reader instead of finding it by suffix and columns.")] = None
    raters: Annotated[Path | None, Parameter(help="Table: rater, kind, higher_is_better, low, high, person.")] = None
    items: Annotated[Path | None, Parameter(help="Table: item, cluster, group, dataset, weight.")] = None
    invalid: Annotated[Literal["error", "drop"], Parameter(help="Unreadable verdicts: refuse, or drop and count.")] = (
        "error"
    )

    def study(self, inputs: tuple[str, ...]) -> cu.Study:
        """Read and join the inputs."""
        if not inputs:
            raise OptionError("no input: give a file, a folder, or the word demo")
        return cu.read(*inputs, reader=self.reader, raters=self.raters, items=self.items, invalid=self.invalid)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Choice:
    """Options of what is compared, and of how scores become preferences (None: the default of the question)."""

    human: Annotated[str | None, Parameter(help="Which raters are people: comma list of globs, ! excludes.")] = None
    metrics: Annotated[str | None, Parameter(help="Which metrics; also @aspect and @noaspect.")] = None
    systems: Annotated[str | None, Parameter(help="Which systems.")] = None
    aspect: Annotated[str | None, Parameter(help="Which aspects of people's ratings (default: each).")] = None
    group: Annotated[str | None, Parameter(help="Which groups of items (domain, subset).")] = None
    aggregate: Annotated[Literal["mean", "vote"] | None, Parameter(help="Several people (default: mean).")] = None
    human_ties: Annotated[float | None, Parameter(help="People tie up to this difference (default: 0).")] = None
    ties: Annotated[str | None, Parameter(help="Metrics tie: exact (default), up to a number, or calibrated.")] = None
    orders: Annotated[
        Literal["mean", "consistent", "first"] | None,
        Parameter(help="Verdicts of both presentation orders (default: mean)."),
    ] = None
    seed: Annotated[int, Parameter(converter=_whole, help="Seed of every random number.")] = 0

    def arguments(self) -> dict[str, Any]:
        """The arguments that were given."""
        values = {**vars(self), "rng": self.seed}
        del values["seed"]
        if self.ties is not None and self.ties not in ("exact", "calibrated"):
            try:
                values["ties"] = float(self.ties)
            except ValueError:
                raise OptionError(
                    f"--ties {self.ties!r}: allowed: exact, calibrated, or a number"
                    f"{suggestion(self.ties, ('exact', 'calibrated'))}"
                ) from None
        return {name: value for name, value in values.items() if value is not None}


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Resampling:
    """Options of the intervals (None: the default of the question)."""

    confidence: Annotated[float | None, Parameter(help="Level of the intervals (default: 0.95).")] = None
    resamples: Annotated[
        int | None, Parameter(converter=_whole, help="Resamples behind the intervals (default: 1000).")
    ] = None

    def arguments(self) -> dict[str, Any]:
        """The arguments that were given."""
        return {name: value for name, value in vars(self).items() if value is not None}


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Output:
    """Options of what comes out."""

    format: Annotated[
        Literal["table", "json", "csv"], Parameter(help="table: to read; json: everything; csv: one table.")
    ] = "table"
    table: Annotated[str | None, Parameter(help="Which table of the result (csv: default the first).")] = None
    output: Annotated[
        str | None, Parameter(name=["--output", "-o"], help="File instead of standard output; DIR/: a csv a table.")
    ] = None
    quiet: Annotated[bool, Parameter(negative="", help="No progress bar.")] = False
    no_timing: Annotated[bool, Parameter(negative="", help="Leave the seconds out of json.")] = False

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

    def write(self, result: Result, verb: str, seconds: float) -> None:
        """Print or save a result."""
        if self.table is not None:
            result.to_frame(self.table)
        if self.output is not None and self.output.endswith("/"):
            target = folder(self.output)
            tables = result.tables() if self.table is None else {self.table: result.to_frame(self.table)}
            for name, table in tables.items():
                write_table(_flat(table), target / f"{name}.csv")
            return
        if self.format == "table":
            if self.output is None:
                print_result(result, Console(highlight=False), table=self.table)
                return
            text = StringIO()
            print_result(result, Console(file=text, highlight=False, width=FILE_WIDTH), table=self.table)
            write_atomically(self.output, text.getvalue())
            return
        if self.format == "csv":
            content = _flat(result.to_frame(self.table)).write_csv().encode()
        else:
            content = self._json(result, verb, seconds)
        self.send(content)

    def send(self, content: bytes) -> None:
        """To the file, or to standard output."""
        if self.output is None:
            sys.stdout.buffer.write(content)
        else:
            write_atomically(self.output, content)

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


def _answer(
    verb: str, question: Answer, inputs: tuple[str, ...], reading: Reading, output: Output, arguments: dict[str, Any]
) -> Result:
    output.check()
    study = reading.study(inputs)
    start = time.perf_counter()
    with output.progress() as progress:
        result = question(study, progress=progress, **arguments)
    output.write(result, verb, time.perf_counter() - start)
    return result


READING, CHOICE, RESAMPLING, OUTPUT = Reading(), Choice(), Resampling(), Output()


@app.command
def check(*inputs: str, reading: Reading = READING, choice: Choice = CHOICE, output: Output = OUTPUT) -> int:
    """What a study holds and what would fool its reader. Exit status 1 if it finds warnings or errors, else 0.

    Example: `custodes check ratings.csv --human 'expert*'`
    """
    result = _answer("check", cu.check, inputs, reading, output, choice.arguments())
    serious = set(result.to_frame("problems")["severity"]) & {"warning", "error"}
    return 1 if serious else 0


@app.command
def agreement(
    *inputs: str,
    reading: Reading = READING,
    choice: Choice = CHOICE,
    resampling: Resampling = RESAMPLING,
    output: Output = OUTPUT,
) -> None:
    """How well each metric agrees with people, with intervals and paired tests between metrics.

    Example: `custodes agreement ratings.csv --human 'expert*' --aspect coherence`
    """
    _answer("agreement", cu.agreement, inputs, reading, output, choice.arguments() | resampling.arguments())


@app.command
def favoritism(
    *inputs: str,
    reading: Reading = READING,
    choice: Choice = CHOICE,
    resampling: Resampling = RESAMPLING,
    output: Output = OUTPUT,
) -> None:
    """Whom each metric favours: Favi-Scores per pair and system, and the decisions they flip.

    Example: `custodes favoritism battles.csv --invalid drop --format csv --table systems`
    """
    _answer("favoritism", cu.favoritism, inputs, reading, output, choice.arguments() | resampling.arguments())


@app.command
def rank(
    *inputs: str,
    alpha: Annotated[float | None, Parameter(help="Level of the sign test.")] = None,
    test: Annotated[Literal["asymptotic", "exact"] | None, Parameter(help="Sign test: normal or binomial.")] = None,
    correction: Annotated[
        Literal["none", "holm", "bh"] | None, Parameter(help="Correction over the pairs of a rater.")
    ] = None,
    kld: Annotated[Literal["mean", "mode"] | None, Parameter(help="Outcome estimate behind the divergence.")] = None,
    reading: Reading = READING,
    choice: Choice = CHOICE,
    resampling: Resampling = RESAMPLING,
    output: Output = OUTPUT,
) -> None:
    """The ranking by people and by each metric, ranking graphs, and the kinds of error each metric makes.

    Example: `custodes rank demo --correction holm --format json -o ranking.json`
    """
    given = {"alpha": alpha, "test": test, "correction": correction, "kld": kld}
    options = {name: value for name, value in given.items() if value is not None}
    arguments = choice.arguments() | resampling.arguments() | options
    _answer("rank", cu.ranking, inputs, reading, output, arguments)


@app.command
def report(
    *inputs: str,
    figures: Annotated[Path | None, Parameter(help="Also save every figure into this folder.")] = None,
    figure_format: Annotated[Literal["svg", "pdf", "png"], Parameter(help="Format of the figures.")] = "svg",
    reading: Reading = READING,
    choice: Choice = CHOICE,
    resampling: Resampling = RESAMPLING,
    output: Output = OUTPUT,
) -> None:
    """All of it in one self-contained HTML file (default: report.html); its path is printed.

    With `--format json` every table goes to standard output, or to the file of `-o`.

    Example: `custodes report demo -o report.html --figures figures`
    """
    if output.format == "csv" or output.table is not None:
        raise OptionError(
            "report: tables come one by one from the verb of their question; here is html, or all as json"
        )
    if output.output is not None and output.output.endswith("/"):
        raise OptionError(f"report: -o {output.output} is a folder; name one file (figures go to --figures DIR)")
    output.check()
    study = reading.study(inputs)
    if figures is not None:
        folder(figures)
    start = time.perf_counter()
    with output.progress() as progress:
        made = cu.report(study, progress=progress, **choice.arguments(), **resampling.arguments())
    if figures is not None:
        made.save_figures(figures, format=figure_format)
    if output.format == "table":
        print(made.save(output.output or "report.html"))
        return
    output.send(output.timed(made.to_dict(), time.perf_counter() - start))


@app.command
def convert(
    *inputs: str,
    output: Annotated[str, Parameter(name=["--output", "-o"], help="FILE (.csv .tsv .jsonl .parquet, .gz) or DIR/.")],
    table: Annotated[
        str | None, Parameter(help="ratings, battles, raters, items or outputs (default: the first that has rows).")
    ] = None,
    reading: Reading = READING,
) -> None:
    """Any reader in, any long table out, in a form that custodes reads back.

    Example: `custodes convert scores.tsv --reader rewardbench -o study/`
    """
    if not output.endswith("/"):
        check_writable(output)
        check_suffix(output)
    study = reading.study(inputs)
    tables = long_tables(study)
    if table is not None and table not in tables:
        raise OptionError(f"convert: no table {table!r} here; tables: {', '.join(tables)}{suggestion(table, tables)}")
    if output.endswith("/"):
        target = folder(output)
        for name, frame in tables.items() if table is None else [(table, tables[table])]:
            # Texts are nested, which csv cannot hold.
            print(write_table(frame, target / f"{name}{'.jsonl' if name == 'outputs' else '.csv'}"))
        return
    print(write_table(tables[table or next(iter(tables))], output))


def run(argv: Sequence[str]) -> int:
    """Run a command line and return its exit status: 0 answered, 1 problems found, 2 bad input or options."""
    try:
        status = app(list(argv)) or 0
        sys.stdout.flush()
        return status
    except CustodesError as problem:
        message = str(problem)
    except CycloptsError as problem:
        message = " ".join(str(problem).split())
    except BrokenPipeError:
        # The reader of a pipe has left, which is no error; what is still buffered goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except MemoryError:
        message = "not enough memory for this question; select fewer raters or systems, or ask for fewer --resamples"
    except OSError as problem:
        message = f"cannot write: {problem.strerror}; choose another place"
    except KeyboardInterrupt:
        message = "interrupted"
    print(f"custodes: {message}", file=sys.stderr)
    return 2


def main() -> None:
    """The entry point of the command `custodes`."""
    warnings.showwarning = _warn
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a letter shows a question mark
    sys.exit(run(sys.argv[1:]))


def _warn(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
    if issubclass(category, CustodesWarning):
        print(f"custodes: warning: {message}", file=sys.stderr)
