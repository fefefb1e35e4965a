"""The command `count`: counts of wins, ties and losses from tables of any size."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import narwhals as nw
from cyclopts import Parameter

import custodes as cu
from custodes.command_line import OUTPUT_OPTIONS, READING_OPTIONS, SELECTION, STATISTICS, SWITCH, whole
from custodes.console import say, tell
from custodes.data.counts import SUFFIX
from custodes.data.scanning import Engine, scanned
from custodes.data.table_engines import in_engine
from custodes.errors import OptionError, shown
from custodes.files import check_distinct_files, check_writable
from custodes.options import Reading, progress, read_by
from custodes.process import NOTHING_KEPT, Stoppable

Names = list[str] | None


def count(
    *files: Annotated[
        str, Parameter(help="Parquet, CSV or JSON Lines, of one kind; patterns such as 'part*.parquet'.")
    ],
    output: Annotated[
        str | None,
        Parameter(name=["--output", "-o"], help="File of the counts: NAME.counts.json.", group=OUTPUT_OPTIONS),
    ] = None,
    human: Annotated[
        Names, Parameter(help="Raters that are annotators (default: kind human).", negative="", group=SELECTION)
    ] = None,
    metrics: Annotated[
        Names, Parameter(help="Metrics (default: all other raters).", negative="", group=SELECTION)
    ] = None,
    aspect: Annotated[str, Parameter(help="Aspect to count.", group=SELECTION, show_default=False)] = "",
    systems: Annotated[Names, Parameter(help="Systems (default: all).", negative="", group=SELECTION)] = None,
    aggregate: Annotated[
        Literal["mean", "vote"] | None,
        Parameter(help="Scores: combine annotators by mean (default) or vote.", group=STATISTICS),
    ] = None,
    ties: Annotated[
        float | None, Parameter(help="Scores: metric scores tie up to this difference.", group=STATISTICS)
    ] = None,
    human_ties: Annotated[
        float | None, Parameter(help="Scores: human scores tie up to this difference.", group=STATISTICS)
    ] = None,
    lower: Annotated[
        Names,
        Parameter(help="Scores: raters with lower is better; comma list or repeated.", negative="", group=STATISTICS),
    ] = None,
    orders: Annotated[
        Literal["mean", "consistent"] | None,
        Parameter(help="Verdicts: combine both presentation orders (default: mean).", group=STATISTICS),
    ] = None,
    engine: Annotated[
        Engine,
        Parameter(help="polars (default; works in batches) or duckdb (can spill to a disk).", show_default=False),
    ] = "polars",
    memory_limit: Annotated[str | None, Parameter(help="duckdb: memory limit, such as 2GB.")] = None,
    spill: Annotated[str | None, Parameter(help="duckdb: folder for data above the memory limit.")] = None,
    batches: Annotated[
        int | None, Parameter(help="polars, scores: number of batches of items.", converter=whole)
    ] = None,
    column: Annotated[
        Names,
        Parameter(help="ROLE=NAME: role of a column; comma list or repeated.", negative="", group=READING_OPTIONS),
    ] = None,
    quiet: Annotated[bool, SWITCH, Parameter(help="No progress bar.", group=OUTPUT_OPTIONS)] = False,
) -> None:
    """Count wins, ties and losses of systems in tables of scores or verdicts, also tables larger than memory.

    The counts are an input of leaderboard. With human ratings and metrics they are also an input of favoritism, ranking
    and correction.

    Example: `custodes count 'battles*.parquet' --engine duckdb --memory-limit 2GB -o arena.counts.json`
    """
    if not files:
        raise OptionError("no input: give a file of scores or verdicts (Parquet, CSV or JSON Lines)")
    if output is None:
        raise OptionError("count: no output; give the file of the counts, as in -o NAME.counts.json")
    if not output.endswith(SUFFIX):
        raise OptionError(f"-o {output}: the name of a counts file must end in .counts.json; rename it")
    check_writable(output)
    check_distinct_files([output], read_by(files))
    of_scores: dict[str, Any] = {
        "aggregate": aggregate,
        "ties": ties,
        "human_ties": human_ties,
        "batches": batches,
        "directions": dict.fromkeys(lower, -1.0) if lower else None,
    }
    columns: Any = Reading(column=column).mapping  # `columns` does not apply here
    with (
        Stoppable(NOTHING_KEPT),
        progress("counting", quiet=quiet) as track,
        scanned(files, engine=engine, columns=columns, memory_limit=memory_limit, spill=spill) as table,
    ):
        scores = "score" in _columns(table)
        idle = {"orders": orders} if scores else of_scores
        for name, value in idle.items():
            if value is not None:
                what = "scores" if scores else "verdicts"
                raise OptionError(f"{name}={shown(value)} has no effect: the table holds {what}")
        options = {"metrics": metrics, "systems": systems, **of_scores, "orders": orders}
        options = {name: value for name, value in options.items() if value is not None}
        if scores:
            if not human:
                raise OptionError(
                    "count: no rater is known to be human; name the annotators, as in --human ann; all "
                    "others are metrics"
                )
            counts: Any = cu.count_pairs(table, human=human, aspect=aspect, progress=track, **options)
        else:
            counts = cu.count_battles(table, human=human, aspect=aspect, **options)
            for note in counts.notes:
                tell(f"note: {note.message}")
    say(str(cu.write_counts(counts, output)))


@in_engine("count")
def _columns(table: Any) -> list[str]:
    return list(nw.from_native(table).collect_schema())
