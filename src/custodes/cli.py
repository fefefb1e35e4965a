"""The command line: flags to calls. With its `options` the only place that prints or exits."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import version
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, Literal

import polars as pl
from cyclopts import App, CycloptsError, Parameter

import custodes as cu
from custodes.data.writing import check_suffix, long_tables, write_table
from custodes.errors import CustodesError, CustodesWarning, OptionError, suggestion
from custodes.evaluate.result import Result
from custodes.files import check_writable, folder
from custodes.options import (
    Choice,
    Output,
    PilotReading,
    Reading,
    Resampling,
    Selecting,
    Stopping,
    Targeting,
    Telling,
    channel_table,
    numbers,
    whole,
    wholes,
)

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


def _answer(
    verb: str,
    question: Answer,
    inputs: Sequence[str] | None,
    reading: PilotReading,
    output: Output,
    arguments: dict[str, Any],
) -> Result:
    """Ask a question about some inputs (None: about no study) and write its answer."""
    output.check()
    study = None if inputs is None else reading.study(inputs)
    start = time.perf_counter()
    with output.progress() as progress:
        result = question(study, progress=progress, **arguments)
    output.write(result, verb, time.perf_counter() - start)
    return result


READING, PILOT, OUTPUT, TELLING = Reading(), PilotReading(), Output(), Telling()
SELECTING, TARGETING, CHOICE = Selecting(), Targeting(), Choice()
RESAMPLING, STOPPING = Resampling(), Stopping()


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
def correct(
    *inputs: str,
    estimator: Annotated[
        list[str] | None,
        Parameter(
            help="mixture (default), human, ppi, inversion, poststratified, naive or pooled; repeatable.", negative=""
        ),
    ] = None,
    sampler: Annotated[
        Literal["exact", "nuts"] | None, Parameter(help="Sampler of the mixture model (default: exact).")
    ] = None,
    gamma: Annotated[float | None, Parameter(help="Decided beyond 1 - gamma/2 (default: 0.05).")] = None,
    equivalence: Annotated[float | None, Parameter(help="Mark pairs whose margin is surely smaller.")] = None,
    confidence: Annotated[float | None, Parameter(help="Level of the intervals (default: 0.95).")] = None,
    reading: Reading = READING,
    choice: Choice = CHOICE,
    output: Output = OUTPUT,
) -> None:
    """Every pair's outcome from few human and many metric preferences, beside the naive and the human-only answer.

    Example: `custodes correct partly_annotated.csv --metrics judge --format csv`
    """
    options = _given(estimator=estimator, sampler=sampler, gamma=gamma, equivalence=equivalence, confidence=confidence)
    _answer("correct", cu.correction, inputs, reading, output, choice.arguments() | options)


@app.command
def protocol(
    *inputs: str,
    estimator: Annotated[
        list[str] | None, Parameter(help="As in correct (default: human, or mixture with metrics).", negative="")
    ] = None,
    batch: Annotated[int | None, Parameter(converter=whole, help="Annotations a round (default: 10).")] = None,
    budget: Annotated[int | None, Parameter(converter=whole, help="Annotations in all.")] = None,
    replications: Annotated[int | None, Parameter(converter=whole, help="Replays (default: 20).")] = None,
    null: Annotated[bool, Parameter(negative="", help="Also false decisions under the permutation null.")] = False,
    ideal: Annotated[int | None, Parameter(converter=whole, help="Also an ideal metric on so many items.")] = None,
    stopping: Stopping = STOPPING,
    reading: Reading = READING,
    choice: Choice = CHOICE,
    output: Output = OUTPUT,
) -> None:
    """Replay the annotation protocol on an annotated study: how few annotations give the same decisions.

    People alone unless `--metrics PATTERN` lets metrics help.

    Example: `custodes protocol demo --looks 10,20,40 --boundary pocock --null`
    """
    options = _given(
        estimator=estimator,
        batch=batch,
        budget=budget,
        replications=replications,
        null=null,
        ideal=ideal,
    )
    _answer("protocol", cu.protocol, inputs, reading, output, choice.arguments() | stopping.arguments() | options)


@app.command
def plan(
    *,
    pilot: Annotated[
        list[str] | None, Parameter(help="A small annotated study to plan from; repeatable.", negative="")
    ] = None,
    margins: Annotated[str | None, Parameter(help="Assumed p_win - p_loss, one a pair: 0,0.1,0.3.")] = None,
    tie_rate: Annotated[float | None, Parameter(help="Assumed share of ties (default: 0.3).")] = None,
    channel: Annotated[
        str | None, Parameter(help="How a metric answers: a 3x3 .csv [human, metric], or ideal.")
    ] = None,
    items: Annotated[int | None, Parameter(converter=whole, help="Items to annotate (default: 100).")] = None,
    metric_items: Annotated[
        int | None, Parameter(converter=whole, help="Further items that the metric rates (default: 0).")
    ] = None,
    estimator: Annotated[
        list[str] | None, Parameter(help="As in correct (default: human, or mixture with a metric).", negative="")
    ] = None,
    batch: Annotated[str | None, Parameter(help="Annotations a round (default: 10), or several: 5,10.")] = None,
    budget: Annotated[str | None, Parameter(help="Annotations in all, or several: 500,1000.")] = None,
    replications: Annotated[int | None, Parameter(converter=whole, help="Simulated studies (default: 100).")] = None,
    stopping: Stopping = STOPPING,
    reading: PilotReading = PILOT,
    choice: Choice = CHOICE,
    output: Output = OUTPUT,
) -> None:
    """Before anybody is paid: how many annotations it will take, how often it will err, what a metric saves.

    From assumptions, or from a pilot study.

    Example: `custodes plan --margins 0,0.1,0.3 --items 200 --looks 10,20,40 --boundary pocock`
    """
    options = _given(
        margins=numbers("--margins", margins),
        tie_rate=tie_rate,
        channel=channel_table(channel),
        items=items,
        metric_items=metric_items,
        estimator=estimator,
        batch=wholes("--batch", batch),
        budget=wholes("--budget", budget),
        replications=replications,
    )
    _answer("plan", cu.plan, pilot, reading, output, choice.arguments() | stopping.arguments() | options)


@app.command
def complementarity(
    *inputs: str,
    level: Annotated[
        Literal["system", "utterance"] | None, Parameter(help="Rank systems by item (default), or items by system.")
    ] = None,
    distance: Annotated[
        Literal["tau-b", "strict", "half", "ordinal"] | None, Parameter(help="What ties do (default: tau-b).")
    ] = None,
    people: Annotated[
        Literal["aspects", "annotators"] | None, Parameter(help="A rater an aspect (default), or an annotator.")
    ] = None,
    reading: Reading = READING,
    choice: Selecting = SELECTING,
    resampling: Resampling = RESAMPLING,
    output: Output = OUTPUT,
) -> None:
    """How differently metrics and people rank, how many directions they span, and who belongs together.

    Example: `custodes complementarity ratings.csv --raters raters.csv --distance half`
    """
    options = _given(level=level, distance=distance, people=people)
    arguments = choice.arguments() | resampling.arguments() | options
    _answer("complementarity", cu.complementarity, inputs, reading, output, arguments)


@app.command
def ceiling(
    *inputs: str,
    folds: Annotated[
        Literal["item", "plain"] | None, Parameter(help="Hold out whole items (default), or outputs: leaks the item.")
    ] = None,
    model: Annotated[Literal["xgboost", "ridge"] | None, Parameter(help="What predicts (default: xgboost).")] = None,
    in_use: Annotated[str | None, Parameter(help="Metrics that you have: what does another add?")] = None,
    steps: Annotated[int | None, Parameter(converter=whole, help="Steps of the forward path (default: 10).")] = None,
    reading: Reading = READING,
    choice: Selecting = SELECTING,
    resampling: Resampling = RESAMPLING,
    output: Output = OUTPUT,
) -> None:
    """How much of people's judgement all metrics together predict, and which metric adds something new.

    Example: `custodes ceiling ratings.csv --human 'expert*' --in-use 'bleu,rouge*'`
    """
    options = _given(folds=folds, model=model, in_use=in_use, steps=steps)
    arguments = choice.arguments() | resampling.arguments() | options
    _answer("ceiling", cu.ceiling, inputs, reading, output, arguments)


combine = App(
    name="combine", help="A better metric from those you have: fit it to people's ratings, apply it to new scores."
)
app.command(combine)


@combine.command(name="fit")
def combine_fit(
    *inputs: str,
    target: Annotated[str | None, Parameter(help="ASPECT, or mean:A,B (default: the only one).")] = None,
    method: Annotated[
        list[str] | None,
        Parameter(
            help="auto, best, equal, ridge, pairwise, xgboost, blend, xgboost-pruned or gp; comma list or repeated, the"
            " first is kept (default: auto, beside the quick ones).",
            negative="",
        ),
    ] = None,
    objective: Annotated[
        Literal["kendall", "spearman", "pearson", "accuracy"] | None, Parameter(help="What is maximised.")
    ] = None,
    folds: Annotated[
        str | None, Parameter(help="item (default), or leave one system, dataset or group out, or a FILE item, fold.")
    ] = None,
    repeats: Annotated[int | None, Parameter(converter=whole, help="Repeats of the item folds (default: 3).")] = None,
    top: Annotated[int | None, Parameter(converter=whole, help="So many metrics for gp (default: all).")] = None,
    costs: Annotated[str | None, Parameter(help="Table: metric, cost (default: of the raters file, or 1).")] = None,
    model: Annotated[
        str, Parameter(name=["--output", "-o"], help="The model file (default: combination.json).")
    ] = "combination.json",
    held_out: Annotated[
        Path | None, Parameter(help="Also write ratings of what each method had not seen: .csv .jsonl .parquet.")
    ] = None,
    reading: Reading = READING,
    choice: Targeting = TARGETING,
    resampling: Resampling = RESAMPLING,
    output: Telling = TELLING,
) -> None:
    """Fit a combined metric, compare the ways of combining on held-out data, and write the model file.

    Example: `custodes combine fit ratings.csv --target coherence --method ridge -o coherence.json`
    """
    if not model.endswith(".json"):
        raise OptionError(f"-o {model}: the model file is JSON; name it .json (tables go to standard output)")
    check_writable(model)
    if held_out is not None:
        check_writable(held_out)
        check_suffix(held_out)
    methods = None if method is None else [name.strip() for given in method for name in given.split(",")]
    options = _given(
        target=target, method=methods, objective=objective, folds=folds, repeats=repeats, top=top, costs=costs
    )
    study = reading.study(inputs)
    start = time.perf_counter()
    with output.progress() as progress:
        made = cu.combine(study, progress=progress, **choice.arguments(), **resampling.arguments(), **options)
    if output.no_timing:
        made = replace(made, comparison=made.comparison.with_columns(seconds=None))
    made.to_frame(output.table)  # an unknown table leaves the model of before
    made.model.save(model)
    if held_out is not None:
        write_table(made.held_out.frame.with_columns(kind=pl.lit("metric")), held_out)
    output.write(made, "combine fit", time.perf_counter() - start)
    print(f"custodes: model written to {model}", file=sys.stderr)


@combine.command(name="score")
def combine_score(
    model: str,
    *inputs: str,
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
    combination = cu.CombinedMetric.load(model)
    ratings, notes = combination.score(reading.study(inputs), name=name)
    for note in notes:
        print(f"custodes: note: {note.message}", file=sys.stderr)
    if output is None:
        sys.stdout.buffer.write(ratings.write_csv().encode())
    else:
        print(write_table(ratings, output))


def _given(**options: Any) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}


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
