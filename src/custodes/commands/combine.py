"""The command `combine`: fit a combined metric, score new outputs, and validate on other data."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from custodes import question_commands
from custodes.combining.combined_metric import CombinedMetric
from custodes.command_line import HOW, OUTPUT_OPTIONS
from custodes.console import print_notes, write_stdout
from custodes.data.writing import check_suffix, csv_blocks, write_table
from custodes.files import check_distinct_files, check_writable
from custodes.options import (
    InputOptions,
    Inputs,
    QuoteFormulas,
    check_quoted,
    input_files,
    print_output_path,
)
from custodes.question_commands import READING

combine = App(name="combine", group_parameters=HOW["group_parameters"])
combine.command(question_commands.combine, name="fit")
combine.command(question_commands.validate, name="validate")


@combine.command
def score(
    *inputs: Inputs,
    model: Annotated[
        str, Parameter(help="The model file (default: combination.json).", show_default=False)
    ] = "combination.json",
    name: Annotated[
        str | None, Parameter(help="Name of the combined metric (default: the name in the model file).")
    ] = None,
    output: Annotated[
        str | None,
        Parameter(
            name=["--output", "-o"],
            help="Output file that ends in .csv, .tsv, .jsonl or .parquet, or in .gz after one of these (default: CSV "
            "on standard output).",
            group=OUTPUT_OPTIONS,
        ),
    ] = None,
    quote_formulas: QuoteFormulas = False,
    reading: InputOptions = READING,
) -> None:
    """Compute the scores of a combined metric and write the scores as ratings, which every other verb reads.

    Example: `custodes combine score new_scores.csv --model coherence.json -o combined.csv`
    """
    if output is not None:
        check_writable(output)
        check_suffix(output)
        if quote_formulas:
            check_quoted([output])
        check_distinct_files([output], input_files(inputs, model, *reading.files))
    combined_score_rows, notes = CombinedMetric.load(model).score(reading.study(inputs), name=name)
    print_notes(notes)
    if output is None:
        write_stdout(csv_blocks(combined_score_rows, quote_formulas=quote_formulas))
    else:
        print_output_path(write_table(combined_score_rows, output, quote_formulas=quote_formulas))
