"""The command `report`: write the answers to all questions on one page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from cyclopts import Parameter

from custodes.command_line import OUTPUT_OPTIONS, QUESTION
from custodes.console import print_line
from custodes.errors import reject
from custodes.files import check_distinct_files, is_folder, make_folder
from custodes.options import InputOptions, Inputs, Output, input_files, progress
from custodes.process import return_memory
from custodes.progress import Progress
from custodes.question_commands import OUTPUT, READING, DryRun, arguments_of, print_effort, reading_title, with_options
from custodes.reporting import report as make_report
from custodes.reporting.assembly import SECTION_PROGRESS

T = TypeVar("T")

PAGE = "report.html"
"""Default file of a report."""


def report(
    *inputs: Inputs,
    figures: Annotated[
        Path | None, Parameter(help="Also save every figure into this folder.", group=OUTPUT_OPTIONS)
    ] = None,
    figure_format: Annotated[
        Literal["svg", "pdf", "png"],
        Parameter(help="Format of the figures (default: svg).", group=OUTPUT_OPTIONS, show_default=False),
    ] = "svg",
    dry_run: DryRun = False,
    reading: InputOptions = READING,
    output: Output = OUTPUT,
    **options: Any,
) -> None:
    """Answer all questions in one self-contained HTML file (default: report.html) and print its path.

    With `--format json`, all tables are written to standard output, or to the file of `-o`.

    Example: `custodes report demo -o report.html --figures figures`
    """
    output_format = "html" if output.output is None and output.format is None else output.shape
    reject(
        (
            output.output is not None and is_folder(output.output),
            f"report: -o {output.output} is a folder; name one file (figures go to --figures DIR)",
        ),
        (
            output_format not in ("html", "json") or output.table is not None,
            "report: the format must be html, or json for all tables; for a single table use another command, such as "
            "custodes agreement",
        ),
    )
    input_paths = input_files(inputs, *reading.files, *options.values())
    output.check(input_paths)
    if output_format == "html":
        check_distinct_files([output.output or PAGE], input_paths)
    with progress(reading_title(inputs), quiet=output.quiet):
        study = reading.study(inputs)
    if dry_run:
        print_effort(make_report, study, arguments_of(make_report, options))
        return
    if figures is not None:
        make_folder(figures)
    report_arguments = arguments_of(make_report, options)
    report_page, elapsed_seconds = output.time_question(
        lambda progress: make_report(study, progress=memory_release_progress(progress), **report_arguments),
        "report",
    )
    if figures is not None:
        with progress("figures", quiet=output.quiet):
            report_page.save_figures(figures, format=figure_format)
    if output_format == "html":
        with progress("page", quiet=output.quiet):
            saved_path = report_page.save(output.output or PAGE)
        print_line(str(saved_path))
    else:
        output.write_json(report_page.to_values(), elapsed_seconds)


def memory_release_progress(progress: Progress) -> Progress:
    """A callable for `progress` that, after each section of the report, returns freed memory to the operating
    system."""

    def track(iterable: Iterable[T], /, *, total: int | None = None, desc: str | None = None) -> Iterator[T]:
        for element in progress(iterable, total=total, desc=desc):
            yield element
            if desc == SECTION_PROGRESS:
                return_memory()

    return track


with_options(report, make_report, group=QUESTION)
