"""The verb `score`: texts in, ratings and what each metric is and costs out."""

from __future__ import annotations

import inspect
import sys
from contextlib import nullcontext
from typing import Annotated, Any

import polars as pl
from cyclopts import Parameter
from rich.console import Console

import custodes as cu
from custodes.answers.result import Result
from custodes.commands.beside import STREAMED, beside, check_raters, tell_lower
from custodes.console import quiet_pipe, say, tell
from custodes.data.writing import check_suffix, write_table
from custodes.errors import OptionError
from custodes.files import check_apart, check_writable, is_stream
from custodes.options import Inputs, QuoteFormulas, Reading, bar, check_quoted, named_by
from custodes.printing import Screen, print_result
from custodes.process import NOTHING_KEPT, Stoppable
from custodes.progress import silent
from custodes.scoring.listing import listing
from custodes.scoring.raters import Missing
from custodes.scoring.run import planned
from custodes.scoring.scripts import script_of
from custodes.verbs import READING
from custodes.words import SWITCH, whole

HELPS: dict[str, str] = cu.score.helps  # type: ignore[attr-defined]
NO_CACHE = "none"


def score(
    *inputs: Inputs,
    metric: Annotated[list[str] | None, Parameter(help=HELPS["metrics"], negative="")] = None,
    output: Annotated[
        str | None,
        Parameter(
            name=["--output", "-o"],
            help="FILE of ratings (.csv .tsv .jsonl .parquet, .gz); FILE.raters.csv beside it tells of metrics.",
        ),
    ] = None,
    list_metrics: Annotated[bool, SWITCH, Parameter(name="--list", help="Tell which metrics there are.")] = False,
    script: Annotated[str | None, Parameter(help="Print the script of a worker, such as comet, to be copied.")] = None,
    cache: Annotated[
        str | None, Parameter(help="FILE of kept scores, or none (default: FILE.cache.db beside the output).")
    ] = None,
    jobs: Annotated[int | None, Parameter(help=HELPS["jobs"], converter=whole)] = None,
    device: Annotated[str | None, Parameter(help=HELPS["device"])] = None,
    batch: Annotated[int | None, Parameter(help=HELPS["batch"], converter=whole)] = None,
    missing: Annotated[Missing | None, Parameter(help=HELPS["missing"])] = None,
    dry_run: Annotated[bool, SWITCH, Parameter(help="Tell what would be scored, and score nothing.")] = False,
    quiet: Annotated[bool, SWITCH, Parameter(help="No progress bar.")] = False,
    quote_formulas: QuoteFormulas = False,
    reading: Reading = READING,
) -> int:
    """Score texts by metrics: ratings that every other verb takes, and a table of what each metric is and costs.

    Exit status 1 where a metric failed or has no score of an output; the file is written, and what is not in it is
    told.

    Example: `custodes score texts.jsonl --metric rouge1 --metric bleu@first,mean -o scores.csv`
    """
    if list_metrics:
        shown(listing())
        return 0
    if script is not None:
        with quiet_pipe():
            print(script_of(script), end="")
        return 0
    if not metric:
        raise OptionError("score: no --metric; custodes score --list tells which there are")
    if output is None and not dry_run:
        raise OptionError("score: say where scores go, as in -o scores.csv")
    kept = kept_in(cache, output)
    places = written_to(output)
    if output is not None:
        check_suffix(output)
        if quote_formulas:
            check_quoted([output])
    for place in [*places, *([kept] if kept else [])]:
        check_writable(place)
    check_apart([*places, *([kept] if kept else [])], named_by(inputs, *reading.files))
    if output is not None:
        check_raters(places, output)
    given = {"device": device, "batch": batch, "missing": missing}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    study = reading.study(inputs)
    if dry_run:
        usual = {name: inspect.signature(cu.score).parameters[name].default for name in given}
        shown(planned(study, metric, cache=kept, **(usual | options)))
        return 0
    if jobs is not None:
        options["jobs"] = jobs
    follows = f"what was scored is kept in {kept}; the same command resumes" if kept else NOTHING_KEPT
    with Stoppable(follows), nullcontext(silent) if quiet or not sys.stderr.isatty() else bar() as progress:
        made = cu.score(study, metric, cache=kept, progress=progress, **options)
    for note in dict.fromkeys([*study.notes, *made.notes]):
        tell(f"note: {note.message}")
    tables = (made.ratings.with_columns(kind=pl.lit("metric")), made.raters)
    for place, table in zip(places, tables, strict=False):
        write_table(table, place, quote_formulas=quote_formulas)
        if not is_stream(place):
            say(str(place))
        else:
            tell_lower(made.raters, STREAMED)
    return made.status


def written_to(output: str | None) -> list[str]:
    """Where ratings go, and what is said of raters: beside them, but for a stream."""
    if output is None:
        return []
    return [output] if is_stream(output) else [output, str(beside(output, ".raters.csv"))]


def kept_in(cache: str | None, output: str | None) -> str | None:
    """The file of kept scores; none where nothing is to be kept, or there is no output that it could stand beside."""
    if cache is not None:
        return None if cache == NO_CACHE else cache
    return None if output is None or is_stream(output) else str(beside(output, ".cache.db"))


def shown(result: Result) -> None:
    """Print a table and its notes."""
    with quiet_pipe():
        console = Screen(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=120)
        print_result(result, console)
