"""The command `count`: count wins, ties and losses, or outputs with equal labels, in tables of any size."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import narwhals as nw
from cyclopts import Parameter

import custodes as cu
from custodes.arguments import value_list
from custodes.command_line import OUTPUT_OPTIONS, READING_OPTIONS, SELECTION, STATISTICS, SWITCH, parse_whole_number
from custodes.console import print_line, print_notes
from custodes.data.counts import SUFFIX
from custodes.data.mapping.column_vocabulary import ENGLISH
from custodes.data.readers.battles import SYSTEMS
from custodes.data.table_engines import Engine, convert_engine_errors, scan_sources
from custodes.data.writing import SUFFIXES, write_table
from custodes.errors import CustodesError, OptionError, join_labels, reject, short_repr
from custodes.files import check_distinct_files, check_writable
from custodes.options import InputOptions, input_files, progress
from custodes.process import NOTHING_KEPT, Stoppable

Names = list[str] | None
SCORES = [[(role,)] for role in ("item", "system", "rater", "score")]
VERDICTS = [[("item",)], SYSTEMS, [("preference",), ("winner",)]]
"""Required columns of tables of scores and of verdicts, each with its alternative names. Messages show the last
name."""


def count(
    *files: Annotated[
        str,
        Parameter(
            help="Files of one format (Parquet, CSV or JSON Lines). Patterns such as 'part*.parquet' are allowed."
        ),
    ],
    output: Annotated[
        str,
        Parameter(
            name=["--output", "-o"],
            help="File for the counts: NAME.counts.json for scores and verdicts, or a table (.csv .tsv "
            ".jsonl .parquet) for labels.",
            group=OUTPUT_OPTIONS,
            show_default=False,
        ),
    ] = "",
    human: Annotated[
        Names,
        Parameter(help="Raters to treat as annotators (default: raters of kind human).", negative="", group=SELECTION),
    ] = None,
    metrics: Annotated[
        Names, Parameter(help="Metrics (default: all other raters).", negative="", group=SELECTION)
    ] = None,
    aspect: Annotated[str, Parameter(help="Aspect to count.", group=SELECTION, show_default=False)] = "",
    systems: Annotated[Names, Parameter(help="Systems (default: all).", negative="", group=SELECTION)] = None,
    by: Annotated[
        Names,
        Parameter(help="Labels: columns to keep for slices; comma list or repeated.", negative="", group=SELECTION),
    ] = None,
    aggregate: Annotated[
        Literal["mean", "vote"] | None,
        Parameter(help="Scores: combine annotators by mean (default) or vote.", group=STATISTICS),
    ] = None,
    ties: Annotated[
        float | None,
        Parameter(help="Scores: largest difference of two metric scores that counts as a tie.", group=STATISTICS),
    ] = None,
    human_ties: Annotated[
        float | None,
        Parameter(help="Scores: largest difference of two human scores that counts as a tie.", group=STATISTICS),
    ] = None,
    lower: Annotated[
        Names,
        Parameter(
            help="Scores: raters for which lower is better; comma list or repeated.", negative="", group=STATISTICS
        ),
    ] = None,
    orders: Annotated[
        Literal["mean", "consistent"] | None,
        Parameter(
            help="Verdicts: how to combine the verdicts in both presentation orders (default: mean).", group=STATISTICS
        ),
    ] = None,
    engine: Annotated[
        Engine,
        Parameter(
            help="Table engine: polars (default, works in batches) or duckdb (can use a disk if memory is too small).",
            show_default=False,
        ),
    ] = "polars",
    memory_limit: Annotated[str | None, Parameter(help="duckdb: memory limit, such as 2GB.")] = None,
    spill: Annotated[str | None, Parameter(help="duckdb: folder for data that exceed the memory limit.")] = None,
    batches: Annotated[
        int | None,
        Parameter(help="polars with scores or labels: number of batches of items.", converter=parse_whole_number),
    ] = None,
    column: Annotated[
        Names,
        Parameter(help="ROLE=NAME: role of a column; comma list or repeated.", negative="", group=READING_OPTIONS),
    ] = None,
    columns: Annotated[
        Names,
        Parameter(
            help="Labels: columns with labels, as patterns: 'human:{rater:sme}', 'metric:{rater:grader}'; repeatable.",
            negative="",
            group=READING_OPTIONS,
        ),
    ] = None,
    quiet: Annotated[bool, SWITCH, Parameter(help="Print no progress bar.", group=OUTPUT_OPTIONS)] = False,
) -> None:
    """Count wins, ties and losses of systems, or outputs with equal labels, even in tables larger than memory.

    The verb `leaderboard` reads counts of scores and of verdicts. If these counts include human ratings and metrics,
    `favoritism`, `ranking` and `correction` also read them. The verb `rates` reads counts of labels.

    Example: `custodes count 'battles*.parquet' --engine duckdb --memory-limit 2GB -o arena.counts.json`
    """
    is_label_counts = output.endswith(SUFFIXES)
    reject(
        (not files, "there is no input; give a file of scores or verdicts (Parquet, CSV or JSON Lines)"),
        (not output, "count: no output file is given; give one, as in -o NAME.counts.json"),
        (
            not (is_label_counts or output.endswith(SUFFIX)),
            f"-o {output}: the name of a file of counts must end in .counts.json, or in {join_labels(SUFFIXES)} for "
            "counts of labels; rename the file",
        ),
    )
    check_writable(output)
    check_distinct_files([output], input_files(files))
    score_options: dict[str, Any] = {
        "aggregate": aggregate,
        "ties": ties,
        "human_ties": human_ties,
        "batches": batches,
        "directions": dict.fromkeys(lower, -1.0) if lower else None,
    }
    if is_label_counts:
        _refuse_idle_options(
            {
                "human": human,
                "metrics": metrics,
                "systems": systems,
                "aspect": aspect or None,
                "orders": orders,
                **score_options,
                "batches": None,
            },
            "labels; name their columns with --columns",
        )
    else:
        _refuse_idle_options({"by": by, "columns": columns}, "scores or verdicts; to count labels, give -o NAME.csv")
    column_of_role: Any = InputOptions(column=column).column_mapping
    with (
        _named_verb(),
        Stoppable(NOTHING_KEPT),
        progress("counting", quiet=quiet) as track_progress,
        scan_sources(
            files,
            engine=engine,
            columns={} if is_label_counts else column_of_role,
            memory_limit=memory_limit,
            spill=spill,
        ) as scanned_table,
    ):
        if is_label_counts:
            label_count_frame = cu.count_labels(
                scanned_table,
                columns=InputOptions(column=column, columns=columns).column_mapping,
                by=value_list("by", by or []),
                name=Path(files[0]).stem,
                batches=batches,
                progress=track_progress,
            )
            print_line(str(write_table(label_count_frame, output)))
            return
        column_names = _columns(scanned_table)
        has_scores = "score" in column_names
        _check_columns(column_names, has_scores=has_scores)
        _refuse_idle_options(
            {"orders": orders} if has_scores else score_options, "scores" if has_scores else "verdicts"
        )
        value_of_option = {"metrics": metrics, "systems": systems, **score_options, "orders": orders}
        count_options = {
            option_name: option_value
            for option_name, option_value in value_of_option.items()
            if option_value is not None
        }
        if has_scores:
            if not human:
                raise OptionError(
                    "count: the data do not state which raters are human; name the annotators, as in --human "
                    "ann; all other raters are then metrics"
                )
            outcome_counts: Any = cu.count_pairs(
                scanned_table, human=human, aspect=aspect, progress=track_progress, **count_options
            )
        else:
            outcome_counts = cu.count_battles(scanned_table, human=human, aspect=aspect, **count_options)
            print_notes(outcome_counts.notes)
    print_line(str(cu.write_counts(outcome_counts, output)))


def _refuse_idle_options(options: dict[str, Any], content_text: str) -> None:
    """Raise `OptionError` for an option that has no effect on a table with this content."""
    for option_name, option_value in options.items():
        if option_value is not None:
            raise OptionError(f"{option_name}={short_repr(option_value)} has no effect: the table holds {content_text}")


def _check_columns(column_names: Sequence[str], *, has_scores: bool) -> None:
    """Raise `OptionError` for a column that is missing, with the option that names it."""
    missing_roles = [
        role
        for role_alternatives in (SCORES if has_scores else VERDICTS)
        if not any({*roles} <= {*column_names} for roles in role_alternatives)
        for role in role_alternatives[-1]
    ]
    if missing_roles:
        likely_column_of_role = {
            role: next(
                (column_name for column_name in column_names if column_name.lower() in ENGLISH.get(role, ())), "NAME"
            )
            for role in missing_roles
        }
        column_options = [f"{role}={column_name}" for role, column_name in likely_column_of_role.items()]
        further_columns_text = "" if has_scores else " (for scores: also system, rater and score)"
        raise OptionError(
            f"count: the table has no column {join_labels(missing_roles)}"
            f"{further_columns_text}; name the columns, as in --column {','.join(column_options)}. Columns: "
            f"{join_labels(column_names)}"
        )


@contextmanager
def _named_verb() -> Iterator[None]:
    """In error messages that begin with the name of a function, replace this name by the name of the verb."""
    try:
        yield
    except CustodesError as problem:
        raise type(problem)(re.sub(r"^count_(battles|labels|pairs):", "count:", str(problem))) from None


@convert_engine_errors("count")
def _columns(table: Any) -> list[str]:
    return list(nw.from_native(table).collect_schema())
