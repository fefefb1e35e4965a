"""The command line: verbs to calls. With its `options` the only place that prints or exits."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, CycloptsError, Parameter

import custodes as cu
from custodes.data.writing import check_suffix, long_tables, write_table
from custodes.errors import CustodesError, CustodesWarning, OptionError, suggestion
from custodes.files import check_writable, folder, is_folder
from custodes.options import Inputs, Model, Output, Reading, Tested
from custodes.questions import QUESTIONS, RESULTS
from custodes.verbs import OUTPUT, READING, answered, arguments_of, verb, with_options

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

ALIASES = {"ranking": "rank", "correction": "correct"}
"""What verbs were called before."""


combine = App(
    name="combine",
    help="A better metric from those you have: fit it to people's ratings, apply it to new scores, validate it on other"
    " data.",
)
for name, asked in QUESTIONS.items():
    if name == "combine":
        app.command(combine)
        combine.command(verb(asked, Model()), name="fit")
    elif name == "validate":
        combine.command(verb(asked, first="model"), name="validate")
    else:
        told = Tested() if hasattr(RESULTS[name], "to_junit") else OUTPUT
        app.command(verb(asked, told), name=[name, *filter(None, [ALIASES.get(name)])])


@combine.command(name="score")
def combine_score(
    model: str,
    *inputs: Inputs,
    name: Annotated[str | None, Parameter(help="What the combined metric is called (default: as in the file).")] = None,
    output: Annotated[
        str | None, Parameter(name=["--output", "-o"], help="FILE (.csv .tsv .jsonl .parquet, .gz), else csv to print.")
    ] = None,
    reading: Reading = READING,
) -> None:
    """Score outputs with a combined metric: ratings that every other verb takes.

    Example: `custodes combine score coherence.json new_scores.csv -o combined.csv`
    """
    if output is not None:
        check_writable(output)
        check_suffix(output)
    combined = cu.CombinedMetric.load(model)
    ratings, notes = combined.score(reading.study(inputs), name=name)
    for note in notes:
        print(f"custodes: note: {note.message}", file=sys.stderr)
    if output is None:
        sys.stdout.buffer.write(ratings.write_csv().encode())
    else:
        print(write_table(ratings, output))


def report(
    *inputs: Inputs,
    figures: Annotated[Path | None, Parameter(help="Also save every figure into this folder.")] = None,
    figure_format: Annotated[Literal["svg", "pdf", "png"], Parameter(help="Format of the figures.")] = "svg",
    reading: Reading = READING,
    output: Output = OUTPUT,
    **options: Any,
) -> None:
    """All of it in one self-contained HTML file (default: report.html); its path is printed.

    With `--format json` every table goes to standard output, or to the file of `-o`.

    Example: `custodes report demo -o report.html --figures figures`
    """
    if output.output is not None and is_folder(output.output):
        raise OptionError(f"report: -o {output.output} is a folder; name one file (figures go to --figures DIR)")
    shape = "html" if output.output is None and output.format is None else output.shape
    if shape not in ("html", "json") or output.table is not None:
        raise OptionError(
            "report: tables come one by one from the verb of their question; here is html, or all as json"
        )
    output.check()
    study = reading.study(inputs)
    if figures is not None:
        folder(figures)
    made, seconds = answered(cu.report, study, output, arguments_of(cu.report, options))
    if figures is not None:
        made.save_figures(figures, format=figure_format)
    if shape == "html":
        print(made.save(output.output or "report.html"))
    else:
        output.send(output.timed(made.to_dict(), seconds))


app.command(with_options(report, cu.report), name="report")


@app.command
def convert(
    *inputs: Inputs,
    output: Annotated[str, Parameter(name=["--output", "-o"], help="FILE (.csv .tsv .jsonl .parquet, .gz) or DIR/.")],
    table: Annotated[
        str | None, Parameter(help="ratings, battles, raters, items or outputs (default: the first that has rows).")
    ] = None,
    reading: Reading = READING,
) -> None:
    """Any reader in, any long table out, in a form that custodes reads back.

    Example: `custodes convert scores.tsv --reader rewardbench -o study/`
    """
    if not is_folder(output):
        check_writable(output)
        check_suffix(output)
    tables = long_tables(reading.study(inputs))
    if table is not None and table not in tables:
        raise OptionError(f"convert: no table {table!r} here; tables: {', '.join(tables)}{suggestion(table, tables)}")
    if is_folder(output):
        target = folder(output)
        for name, frame in tables.items() if table is None else [(table, tables[table])]:
            # Texts are nested, which csv cannot hold.
            print(write_table(frame, target / f"{name}{'.jsonl' if name == 'outputs' else '.csv'}"))
        return
    print(write_table(tables[table or next(iter(tables))], output))


@app.command
def doctor(output: Output = OUTPUT) -> int:
    """What is installed, what each missing extra would give, and whether it works: a test of about 5 seconds.

    Exit status 1 where a needed package does not fit or a test fails.

    Example: `custodes doctor --format json`
    """
    output.check()
    found, seconds = answered(lambda _, progress: cu.doctor(), None, output, {})
    output.write(found, seconds)
    return int(found.status)


def run(argv: Sequence[str]) -> int:
    """Run a command line and return its exit status: 0 answered, 1 problems found, 2 bad input, 3 not told."""
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
