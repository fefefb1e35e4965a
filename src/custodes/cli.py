"""The command line: verbs to calls. With its `options` the only place that prints or exits."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

import custodes as cu
from custodes.commands.annotate import annotate
from custodes.commands.beside import STREAMED, raters_place, tell_lower
from custodes.commands.count import count
from custodes.commands.judge import judge
from custodes.commands.score import score
from custodes.console import put, quiet_pipe, say, tell
from custodes.data.mapping.columns import Columns
from custodes.data.mapping.schema import Schema
from custodes.data.writing import RATED, TABLES, check_suffix, long_tables, without_formulas, write_table
from custodes.ending import end, status_of
from custodes.errors import OptionError, suggestion
from custodes.files import (
    STANDARD_INPUT,
    STANDARD_OUTPUT,
    check_apart,
    check_writable,
    folder,
    is_folder,
    is_stream,
    write_atomically,
)
from custodes.options import Inputs, Model, Output, QuoteFormulas, Reading, Tested, check_quoted, read_by
from custodes.questions import QUESTIONS, RESULTS
from custodes.verbs import OUTPUT, READING, answered, arguments_of, verb, with_options
from custodes.words import HOW

app = App(
    help="Judge the judges: which automatic metric or LLM judge agrees with people, whom it favours, which system is"
    " better.",
    **HOW,
)
app.register_install_completion_command()

PAGE = "report.html"
"""Where a report goes unless told otherwise."""

ALIASES = {"ranking": "rank", "correction": "correct"}
"""What verbs were called before."""


Selected = Annotated[list[str] | None, Parameter(help="Only these, as in every verb.", negative="")]
"""A part of a study, for `convert`."""

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
    quote_formulas: QuoteFormulas = False,
    reading: Reading = READING,
) -> None:
    """Score outputs with a combined metric: ratings that every other verb takes.

    Example: `custodes combine score coherence.json new_scores.csv -o combined.csv`
    """
    if output is not None:
        check_writable(output)
        check_suffix(output)
        if quote_formulas:
            check_quoted([output])
        check_apart([output], read_by(inputs, model, *reading.files))
    combined = cu.CombinedMetric.load(model)
    ratings, notes = combined.score(reading.study(inputs), name=name)
    for note in notes:
        tell(f"note: {note.message}")
    if output is None:
        put((without_formulas(ratings) if quote_formulas else ratings).write_csv().encode())
    else:
        written(write_table(ratings, output, quote_formulas=quote_formulas))


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
    read = read_by(inputs, *reading.files, *options.values())
    output.check(read)
    if shape == "html":
        check_apart([output.output or PAGE], read)
    study = reading.study(inputs)
    if figures is not None:
        folder(figures)
    made, seconds = answered(cu.report, study, output, arguments_of(cu.report, options))
    if figures is not None:
        made.save_figures(figures, format=figure_format)
    if shape == "html":
        say(str(made.save(output.output or PAGE)))
    else:
        output.send(output.timed(made.to_dict(), seconds))


app.command(with_options(report, cu.report), name="report")
app.command(count)
app.command(score)
app.command(judge)
app.command(annotate)


@app.command
def convert(
    *inputs: Inputs,
    output: Annotated[
        str,
        Parameter(
            name=["--output", "-o"],
            help="FILE (.csv .tsv .jsonl .parquet, .gz) or DIR/; .toml: how it is read, for --schema.",
        ),
    ],
    table: Annotated[
        str | None, Parameter(help="ratings, battles, raters, items or outputs (default: the first that has rows).")
    ] = None,
    human: Selected = None,
    metrics: Selected = None,
    systems: Selected = None,
    aspect: Selected = None,
    group: Selected = None,
    quote_formulas: QuoteFormulas = False,
    reading: Reading = READING,
) -> None:
    """Any reader in, any long table out, in a form that custodes reads back; or a schema file that says how to read it.

    Example: `custodes convert scores.tsv --reader rewardbench -o study/`
    """
    chosen = {"human": human, "metrics": metrics, "systems": systems, "aspect": aspect, "group": group}
    selection = {name: patterns for name, patterns in chosen.items() if patterns is not None}
    into, keeps = is_folder(output), output.endswith(".toml")
    if keeps and (table is not None or quote_formulas):
        said = "--table" if table is not None else "--quote-formulas"
        raise OptionError(f"convert: -o {output} keeps how tables are read, so {said} says nothing here")
    if not into:
        check_writable(output)
    if not into and not keeps:
        check_suffix(output)
    places = [Path(output, f"{name}.csv") for name in TABLES] if into else [output]
    if quote_formulas:
        check_quoted(places)
    check_apart(places, read_by(inputs, *reading.files))
    if keeps:
        say(str(write_schema(inputs, reading, selection, output)))
        return
    study = reading.selected(inputs, selection)
    for note in dict.fromkeys(study.notes):
        tell(f"note: {note.message}")
    tables = long_tables(study)
    if table is not None and table not in tables:
        raise OptionError(f"convert: no table {table!r} here; tables: {', '.join(tables)}{suggestion(table, tables)}")
    if into:
        target = folder(output)
        for name, frame in tables.items() if table is None else [(table, tables[table])]:
            written(write_table(frame, target / f"{name}.csv", quote_formulas=quote_formulas))
        if table in (None, *RATED):
            told = f" {target / 'raters.csv'}" if table is None else ""
            tell_lower(study.raters.frame, f"give --raters{told} where scores and verdicts are read")
        return
    name = table or next(iter(tables))
    parts = {Path(output): tables[name]}
    if name in RATED:
        raters = study.raters.only(list(tables[name]["rater"].unique(maintain_order=True)))
        if is_stream(output):
            tell_lower(raters.frame, STREAMED)
        elif place := raters_place(output, raters):
            check_apart([place], read_by(inputs, *reading.files))
            parts[place] = raters.frame
    for own, frame in parts.items():
        written(write_table(frame, own, quote_formulas=quote_formulas))


def written(place: Path) -> None:
    """Say where a table was written, but not in what it was written to."""
    if not is_stream(place):
        say(str(place))


def write_schema(inputs: Sequence[str], reading: Reading, selection: dict[str, list[str]], output: str) -> Path:
    """How these inputs are read and what of them is asked about, as a file for `--schema`; tried before it is kept."""
    check_writable(output)
    reading.selected(inputs, selection)
    before = Schema() if reading.schema is None else Schema.load(reading.schema)
    made = before.under(Columns.make(reading.mapping), reading.own, selection)
    if not (made.columns or made.reading or made.selection):
        raise OptionError(f"convert: nothing to keep in {output}; say --column, --columns, --reader or --human")
    return write_atomically(output, made.to_toml(Path(output).parent))


@app.command
def doctor(output: Output = OUTPUT) -> int:
    """What is installed, what each missing extra would give, and whether it works: a test of about 5 seconds.

    Exit status 1 where a needed package does not fit or a test fails.

    Example: `custodes doctor --format json`
    """
    output.check((), cu.Doctor.declared())
    found, seconds = answered(lambda _, progress: cu.doctor(), None, output, {})
    with quiet_pipe():
        output.write(found, seconds)
    return int(found.status)


def run(argv: Sequence[str]) -> int:
    """Run a command line and return its exit status."""
    return status_of(lambda: app(_with_streams(argv)))


def _with_streams(argv: Sequence[str]) -> list[str]:
    """The words of a command line; `-`, which would be taken for an option, by its longer name: standard output where
    it is an output, and standard input elsewhere."""
    words = []
    for before, word in zip(["", *argv], argv, strict=False):
        if word == "-":
            words.append(STANDARD_OUTPUT if before in ("-o", "--output") else STANDARD_INPUT)
        else:
            words.append(word[:-1] + STANDARD_OUTPUT if word in ("-o=-", "--output=-") else word)
    return words


def main() -> None:
    """The work of the command `custodes`."""
    end(lambda: run(sys.argv[1:]))
