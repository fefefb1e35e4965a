"""The command `convert`: convert any input format to long tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from custodes.answers.shared_arguments import HELP
from custodes.command_line import OUTPUT_OPTIONS, SELECTION
from custodes.commands.output_files import STREAMED, print_lower_is_better, raters_sidecar
from custodes.console import print_diagnostic, print_line, print_notes
from custodes.data.mapping.columns import Columns
from custodes.data.mapping.schema import Schema
from custodes.data.readers.every_eval_ever import write_every_eval_ever
from custodes.data.writing import RATING_TABLES, TABLES, check_suffix, long_tables, write_table
from custodes.errors import OptionError, join_labels, reject, suggestion
from custodes.files import check_distinct_files, check_writable, is_folder, is_stream, make_folder, write_atomically
from custodes.options import (
    InputOptions,
    Inputs,
    QuoteFormulas,
    check_quoted,
    input_files,
    print_output_path,
)
from custodes.question_commands import READING

CONTENT = {"battles": "verdicts", "items": "groups, clusters or weights of items", "outputs": "texts"}
"""Descriptions of the contents of tables, for the note on tables that are not written."""

Selected = Annotated[list[str] | None, Parameter(negative="", group=SELECTION)]


def convert(
    *inputs: Inputs,
    output: Annotated[
        str,
        Parameter(
            name=["--output", "-o"],
            help="Output file (.csv .tsv .jsonl .parquet, .gz), DIR/, or a schema file for --schema (.toml).",
            group=OUTPUT_OPTIONS,
        ),
    ],
    table: Annotated[
        str | None,
        Parameter(
            help="Table to write: ratings, battles (verdicts), raters, items or outputs (default: the first of these "
            "tables with rows).",
            group=OUTPUT_OPTIONS,
        ),
    ] = None,
    to: Annotated[
        Literal["tables", "every-eval-ever"],
        Parameter(help="Format: long tables, or the JSON of Every Eval Ever in DIR/.", group=OUTPUT_OPTIONS),
    ] = "tables",
    human: Annotated[Selected, Parameter(help=HELP["human"])] = None,
    metrics: Annotated[Selected, Parameter(help=HELP["metrics"])] = None,
    systems: Annotated[Selected, Parameter(help=HELP["systems"])] = None,
    aspect: Annotated[Selected, Parameter(help=HELP["aspect"])] = None,
    group: Annotated[Selected, Parameter(help=HELP["group"])] = None,
    quote_formulas: QuoteFormulas = False,
    reading: InputOptions = READING,
) -> None:
    """Convert any input format to long tables, or write a schema file that describes how to read the input.

    Example: `custodes convert scores.tsv --reader rewardbench -o study/`
    """
    patterns_of_option = {"human": human, "metrics": metrics, "systems": systems, "aspect": aspect, "group": group}
    selection_patterns = {
        option_name: patterns for option_name, patterns in patterns_of_option.items() if patterns is not None
    }
    is_folder_output, is_schema_output = is_folder(output), output.endswith(".toml")
    ineffective_option = "--table" if table is not None else "--quote-formulas" if quote_formulas else ""
    reject(
        (
            is_schema_output and ineffective_option,
            f"convert: -o {output} is a schema file, which stores only how tables are read, so {ineffective_option} "
            f"has no effect; leave {ineffective_option} out",
        ),
        (
            to == "every-eval-ever" and (not is_folder_output or ineffective_option),
            "convert: --to every-eval-ever writes a folder of JSON; give -o DIR/, and leave out --table and "
            "--quote-formulas",
        ),
    )
    if not is_folder_output:
        check_writable(output)
    if not is_folder_output and not is_schema_output:
        check_suffix(output)
    output_paths = [Path(output, f"{table_name}.csv") for table_name in TABLES] if is_folder_output else [output]
    if quote_formulas:
        check_quoted(output_paths)
    check_distinct_files(output_paths, input_files(inputs, *reading.files))
    if is_schema_output:
        print_line(str(write_schema(inputs, reading, selection_patterns, output)))
        return
    study = reading.select_study(inputs, selection_patterns)
    print_notes(study.notes)
    if n_probe_rows := study.probes.height:
        print_diagnostic(
            f"note: the probes ({n_probe_rows} rows) are not converted; to keep them, copy VERDICTS.probes.csv from "
            "the folder of the verdicts, and name the copy NEW.probes.csv if the new verdicts are in NEW.csv"
        )
    if to == "every-eval-ever":
        if n_verdicts := study.preferences.frame.height:
            print_diagnostic(
                f"note: the verdicts ({n_verdicts}) are left out, because Every Eval Ever holds only scores"
            )
        for output_path in write_every_eval_ever(study, make_folder(output)):
            print_output_path(output_path)
        return
    frame_of_table = long_tables(study)
    if table is not None and table not in frame_of_table:
        raise OptionError(
            f"convert: the input has no table {table!r}; tables: "
            f"{', '.join(frame_of_table)}{suggestion(table, frame_of_table)}"
        )
    if is_folder_output:
        target_folder = make_folder(output)
        for table_name, frame in frame_of_table.items() if table is None else [(table, frame_of_table[table])]:
            print_output_path(write_table(frame, target_folder / f"{table_name}.csv", quote_formulas=quote_formulas))
        if table in (None, *RATING_TABLES):
            raters_file_hint = f" {target_folder / 'raters.csv'}" if table is None else ""
            print_lower_is_better(
                study.raters.frame, f"give --raters{raters_file_hint} when you read scores and verdicts"
            )
        return
    table_name = table or next(iter(frame_of_table))
    lost_table_names = (
        []
        if table
        else [lost_table_name for lost_table_name in frame_of_table if lost_table_name not in (table_name, "raters")]
    )
    if lost_table_names:
        print_diagnostic(
            f"note: {output} holds only the table {table_name}; the input also has "
            f"{join_labels(CONTENT.get(lost_table_name, lost_table_name) for lost_table_name in lost_table_names)}. "
            "To keep all tables, give -o DIR/"
        )
    frame_of_file = {Path(output): frame_of_table[table_name]}
    if table_name in RATING_TABLES:
        written_raters = study.raters.select_raters(
            list(frame_of_table[table_name]["rater"].unique(maintain_order=True))
        )
        if is_stream(output):
            print_lower_is_better(written_raters.frame, STREAMED)
        elif sidecar_path := raters_sidecar(output, written_raters):
            check_distinct_files([sidecar_path], input_files(inputs, *reading.files))
            frame_of_file[sidecar_path] = written_raters.frame
    for target_file, frame in frame_of_file.items():
        print_output_path(write_table(frame, target_file, quote_formulas=quote_formulas))


def write_schema(
    inputs: Sequence[str], reading: InputOptions, selection_patterns: dict[str, list[str]], output: str
) -> Path:
    """Read and select these inputs as a test, and write the options to a file for `--schema`."""
    reading.select_study(inputs, selection_patterns)
    schema = (Schema() if reading.schema is None else Schema.load(reading.schema)).merge_arguments(
        Columns.make(reading.column_mapping), reading.reader_arguments, selection_patterns
    )
    if not (schema.columns or schema.reading or schema.selection):
        raise OptionError(
            f"convert: no option is given that {output} could store; give --column, --columns, --reader or --human"
        )
    return write_atomically(output, schema.to_toml(Path(output).parent))
