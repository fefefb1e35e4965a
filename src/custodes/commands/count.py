"""The verb `count`: a table of any size in, counts out, for the questions that counts can answer."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Annotated, Any, Literal

import narwhals as nw
from cyclopts import Parameter

import custodes as cu
from custodes.console import say, tell
from custodes.data.counts import SUFFIX
from custodes.data.engines import in_engine
from custodes.data.scanning import Engine, scanned
from custodes.errors import InputError, OptionError
from custodes.files import check_apart, check_writable
from custodes.options import Reading, bar, read_by
from custodes.process import NOTHING_KEPT, Stoppable
from custodes.progress import silent
from custodes.words import SWITCH, whole

Names = list[str] | None


def count(
    *files: Annotated[
        str, Parameter(help="Parquet, CSV or JSON Lines, of one kind; patterns such as 'part*.parquet'.")
    ],
    output: Annotated[str | None, Parameter(name=["--output", "-o"], help="FILE.counts.json.")] = None,
    human: Annotated[
        Names, Parameter(help="The people; comma list or repeated (default: kind human).", negative="")
    ] = None,
    metrics: Annotated[
        Names, Parameter(help="The metrics; comma list or repeated (default: all others).", negative="")
    ] = None,
    aspect: Annotated[str, Parameter(help="The aspect that is counted.")] = "",
    systems: Annotated[Names, Parameter(help="Only these; comma list or repeated.", negative="")] = None,
    aggregate: Annotated[
        Literal["mean", "vote"] | None, Parameter(help="Scores: several people by mean (the default) or vote.")
    ] = None,
    ties: Annotated[float | None, Parameter(help="Scores: the largest difference of a metric that ties.")] = None,
    human_ties: Annotated[float | None, Parameter(help="Scores: the same of people.")] = None,
    lower: Annotated[
        Names, Parameter(help="Scores: raters of which lower is better; comma list or repeated.", negative="")
    ] = None,
    orders: Annotated[
        Literal["mean", "consistent"] | None, Parameter(help="Verdicts: how both orders become one (default: mean).")
    ] = None,
    engine: Annotated[Engine, Parameter(help="polars (works in batches), or duckdb (spills to a disk).")] = "polars",
    memory_limit: Annotated[str | None, Parameter(help="duckdb: memory that it may take, such as 2GB.")] = None,
    spill: Annotated[str | None, Parameter(help="duckdb: folder for what is beyond that.")] = None,
    batches: Annotated[int | None, Parameter(help="polars, scores: parts of items.", converter=whole)] = None,
    column: Annotated[
        Names, Parameter(help="ROLE=NAME: what a column of yours is; comma list or repeated.", negative="")
    ] = None,
    quiet: Annotated[bool, SWITCH, Parameter(help="No progress bar.")] = False,
) -> None:
    """Count wins, ties and losses in tables that need not fit in memory, scores or verdicts: for leaderboard and, where
    people and metrics judged, for favoritism, ranking and correction.

    Example: `custodes count 'battles*.parquet' --engine duckdb --memory-limit 2GB -o arena.counts.json`
    """
    if not files:
        raise OptionError("no input: give a file of scores or verdicts (Parquet, CSV or JSON Lines)")
    if output is None:
        raise OptionError("count: no output: say where the counts go, as in -o NAME.counts.json")
    if not output.endswith(SUFFIX):
        raise OptionError(f"-o {output}: counts are kept in a file named ….counts.json, by which they are known")
    check_writable(output)
    check_apart([output], read_by(files))
    given = {"metrics": metrics, "systems": systems}
    of_scores: dict[str, Any] = {
        "aggregate": aggregate,
        "ties": ties,
        "human_ties": human_ties,
        "batches": batches,
        "directions": dict.fromkeys(lower, -1.0) if lower else None,
    }
    roles = Reading(column=column).mapping
    with (
        Stoppable(NOTHING_KEPT),
        _in_words_of_the_command(),
        nullcontext(silent) if quiet or not sys.stderr.isatty() else bar("counting") as progress,
        scanned(files, engine=engine, columns=roles, memory_limit=memory_limit, spill=spill) as table,  # type: ignore[arg-type]
    ):
        own = {name: value for name, value in (given | of_scores).items() if value is not None}
        if "score" in _columns(table):
            _refuse("scores", orders=orders)
            if not human:
                raise OptionError("count: say who are people, as in --human ann; all others are metrics")
            made: Any = cu.count_pairs(table, human=human, aspect=aspect, progress=progress, **own)
        else:
            _refuse("verdicts", **of_scores)
            more = {"orders": orders} if orders else {}
            made = cu.count_battles(table, human=human, aspect=aspect, **own, **more)
            for note in made.notes:
                tell(f"note: {note.message}")
    say(str(cu.write_counts(made, output)))


@in_engine("count")
def _columns(table: Any) -> list[str]:
    return list(nw.from_native(table).collect_schema())


SAID = {
    r"^count_(pairs|battles):": "count:",
    r"(?<= )(human|metrics|systems|aspect|batches)=": r"--\1 ",
    r"(?<= )directions=": "--lower ",
    r"name fewer in human,": "name fewer with --human,",
    "hold the table in DuckDB, which spills, or count scores in more batches$": "give --engine duckdb, which spills, or"
    " of scores more --batches",
    "raise its memory_limit, or set temp_directory to": "raise --memory-limit, or set --spill to",
}
"""What the library says, and how the command line says it."""


@contextmanager
def _in_words_of_the_command() -> Iterator[None]:
    """Errors of the functions that count name the options of the command."""
    try:
        yield
    except (InputError, OptionError) as problem:
        text = str(problem)
        for words, own in SAID.items():
            text = re.sub(words, own, text)
        raise type(problem)(text) from None


def _refuse(what: str, **options: Any) -> None:
    """Refuse an option that would change nothing."""
    for name, value in options.items():
        if value is not None:
            shown = "lower" if name == "directions" else name.replace("_", "-")
            raise OptionError(f"--{shown} would change nothing: the table holds {what}")
