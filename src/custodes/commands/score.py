"""The command `score`: write metric scores of texts, and a table of the metrics and their costs."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import polars as pl
from cyclopts import Parameter

import custodes as cu
from custodes.answers.printing import PipeSafeConsole, print_result
from custodes.answers.question import function_options
from custodes.answers.result import Result
from custodes.command_line import OUTPUT_OPTIONS, SWITCH
from custodes.commands.output_files import STREAMED, OutputFiles, print_lower_is_better, print_next_step
from custodes.console import print_notes, quiet_pipe
from custodes.errors import reject
from custodes.options import FILE_WIDTH, InputOptions, Inputs, QuoteFormulas, check_quoted, input_files, progress
from custodes.process import Stoppable
from custodes.question_commands import READING, arguments_of, with_options
from custodes.scoring.listing import list_all_metrics
from custodes.scoring.run import plan_scoring
from custodes.scoring.scripts import worker_script

METRICS: str = cu.score.helps["metrics"]  # type: ignore[attr-defined]


def score(
    *inputs: Inputs,
    metrics: Annotated[list[str] | None, Parameter(name="--metric", help=METRICS, negative="")] = None,
    output: Annotated[
        str | None,
        Parameter(
            name=["--output", "-o"],
            help="File for the ratings (.csv .tsv .jsonl .parquet, .gz); FILE.raters.csv describes the metrics.",
            group=OUTPUT_OPTIONS,
        ),
    ] = None,
    list_metrics: Annotated[
        bool, SWITCH, Parameter(name="--list", help="Print the available metrics, then exit.")
    ] = False,
    script: Annotated[
        str | None, Parameter(help="Print the script of the worker with this name, such as comet, then exit.")
    ] = None,
    cache: Annotated[
        str | None, Parameter(help="File for cached scores, or none (default: FILE.cache.db).", group=OUTPUT_OPTIONS)
    ] = None,
    dry_run: Annotated[
        bool,
        SWITCH,
        Parameter(help="Print the number of scores that would be computed, then exit.", group=OUTPUT_OPTIONS),
    ] = False,
    quiet: Annotated[
        bool, SWITCH, Parameter(help="Print no progress bar and no next step.", group=OUTPUT_OPTIONS)
    ] = False,
    quote_formulas: QuoteFormulas = False,
    reading: InputOptions = READING,
    **options: Any,
) -> int:
    """Compute metric scores of texts, and write them as ratings with a table of the metrics and their costs.

    Every other verb reads the written ratings. The exit status is 1 if a metric failed or has no score for an output.
    The file is written even if scores are missing, and notes list the missing scores.

    Example: `custodes score texts.jsonl --metric rouge1 --metric bleu@first,mean -o scores.csv`
    """
    if list_metrics:
        print_table(list_all_metrics())
        return 0
    if script is not None:
        with quiet_pipe():
            print(worker_script(script), end="")
        return 0
    metrics = metrics or []
    reject(
        (not metrics, "score: no metric is given; give --metric NAME (custodes score --list shows all)"),
        (output is None and not dry_run, "score: no output file is given; give one, as in -o scores.csv"),
    )
    output_files = OutputFiles.make(output, cache, raters=".raters.csv")
    if output is not None and quote_formulas:
        check_quoted([output])
    output_files.check(input_files(inputs, *reading.files, sidecars=False))
    study, score_arguments = reading.study(inputs), arguments_of(cu.score, options)
    if dry_run:
        print_notes(study.notes)
        value_of_argument = (
            {option.name: option.default for option in function_options(cu.score)}
            | score_arguments
            | {"cache": output_files.cache}
        )
        print_table(
            plan_scoring(
                study,
                metrics,
                **{
                    option_name: value_of_argument[option_name]
                    for option_name in ("cache", "device", "batch", "missing")
                },
            )
        )
        return 0
    with Stoppable(output_files.follows), progress(quiet=quiet) as track_progress:
        score_result = cu.score(study, metrics, cache=output_files.cache, progress=track_progress, **score_arguments)
    print_notes([*study.notes, *score_result.notes])
    output_files.write(
        {"": score_result.ratings.with_columns(kind=pl.lit("metric")), "raters": score_result.raters},
        quote_formulas=quote_formulas,
    )
    if "raters" not in output_files.tables:
        print_lower_is_better(score_result.raters, STREAMED)
    elif not quiet:
        print_next_step(output_files.tables[""], has_labels=False)
    return score_result.status


def print_table(result: Result) -> None:
    """Print the table of a result and the notes of the result."""
    with quiet_pipe():
        print_result(result, PipeSafeConsole(highlight=False, width=None if sys.stdout.isatty() else FILE_WIDTH))


with_options(score, cu.score)
