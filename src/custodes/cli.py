"""The command line. A verb is imported when it is called; the list of verbs is printed without importing a verb."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

from custodes.console import print_line, run_and_exit, run_for_exit_status
from custodes.files import STANDARD_INPUT, STANDARD_OUTPUT

if TYPE_CHECKING:
    from cyclopts import App

ABOUT = "Which metric or LLM judge agrees with annotators, which systems it\nover-rates, and which system is better."

USAGE = f"""Usage: custodes VERB INPUT... [OPTIONS]

{ABOUT}

{{verbs}}

custodes VERB --help: options of a verb
custodes --version: version
custodes --install-completion: completion of verbs and options in the shell"""

QUESTIONS: Mapping[str, str] = {
    "check": "Data summary, and problems that would distort results",
    "leaderboard": "Which system is best, by annotators and by each metric",
    "agreement": "How well each metric agrees with the annotators",
    "annotators": "Agreement and reliability of the annotators",
    "rates": "Pass rates by a judge's labels, corrected by human labels",
    "favoritism": "Which systems each metric over-rates or under-rates",
    "consistency": "Position bias, length bias and self-preference of LLM judges",
    "ranking": "Which pairs of systems a metric decides differently from the annotators",
    "verdict": "Summary of the results in sentences",
    "correction": "Outcome of each pair, from few human and many metric ratings",
    "protocol": "Replay of an annotation protocol: how many ratings are enough",
    "labelling": "How many human labels a pass rate needs, and which outputs to label next",
    "route": "Which labels of a judge to accept, and which outputs annotators should label instead",
    "plan": "Cost and error rates of a protocol, before annotating",
    "complementarity": "How differently metrics and annotators rank systems",
    "ceiling": "How well all metrics together predict human ratings",
    "combine": "A combined metric from the metrics of the study",
    "validate": "Validation of a combined metric on another data set",
    "gate": "Whether a metric satisfies requirements; the exit status can stop a CI job",
}
"""All questions in the order of the documentation, with the descriptions that the list of verbs shows.

The Python function, the verb, the section of the report and the page of the documentation have the name of the
question. The class of the result has the capitalized name.
"""

VERB_GROUPS: Mapping[str, Sequence[str]] = {
    "Start here": ("check", "leaderboard", "agreement", "favoritism", "judge", "rates", "report"),
    "More about metrics, judges and annotators": (
        "verdict",
        "ranking",
        "consistency",
        "annotators",
        "complementarity",
        "ceiling",
    ),
    "Few human ratings, and annotation studies": ("labelling", "route", "correction", "protocol", "plan", "annotate"),
    "Metrics: compute, combine, test": ("score", "combine", "gate"),
    "Data and installation": ("convert", "count", "doctor"),
}
"""Groups of verbs: the heading of each group, and the verbs of the group."""

VERBS: Mapping[str, str] = {
    **{name: line for name, line in QUESTIONS.items() if name != "validate"},
    "combine": "A combined metric from the metrics of a study: fit, score, validate",
    "report": "Answers to all questions in one HTML file",
    "count": "Counts of wins, ties and losses from tables larger than memory",
    "score": "Scores of texts by metrics",
    "judge": "Verdicts of an LLM judge on texts",
    "annotate": "Annotation studies: plan, serve, monitor, export",
    "convert": "Conversion of any input format to long tables",
    "doctor": "Installed packages, and a test of the installation",
}

WITH_SUBCOMMANDS = ("combine", "annotate")


def run(argv: Sequence[str]) -> int:
    """Run a command line and return its exit status."""
    return run_for_exit_status(lambda: _run(list(argv)))


def _run(argv: list[str]) -> int | None:
    if argv == ["--version"]:
        print_line(f"custodes {version('custodes')}")
    elif argv in ([], ["-h"], ["--help"]):
        print(
            USAGE.format(verbs="\n\n".join(_format_verb_list(heading, verbs) for heading, verbs in VERB_GROUPS.items()))
        )
    else:
        from custodes.command_line import call

        return call(app(), _replace_stream_dashes(argv))
    return 0


def _format_verb_list(heading: str, verbs: Sequence[str]) -> str:
    verb_column_width = max(map(len, VERBS)) + 2
    return "\n".join([f"{heading}:", *(f"  {verb:{verb_column_width}}{VERBS[verb]}" for verb in verbs)])


def app() -> App:
    """The app with all verbs. A verb is registered by its import path, and is imported when it is called."""
    from cyclopts import App

    from custodes.command_line import HOW

    cli_app = App(help=ABOUT, version=version("custodes"), **HOW)
    cli_app.register_install_completion_command()
    for verb, verb_description in VERBS.items():
        module_name = (
            "custodes.question_commands"
            if verb in QUESTIONS and verb not in WITH_SUBCOMMANDS
            else f"custodes.commands.{verb}"
        )
        cli_app.command(
            f"{module_name}:{verb}", name=verb, **({"help": verb_description} if verb in WITH_SUBCOMMANDS else {})
        )
    return cli_app


def _replace_stream_dashes(argv: Sequence[str]) -> list[str]:
    """The command-line arguments with `-` replaced by the path of a stream.

    After `-o`, the stream is standard output, otherwise standard input. The argument is replaced because the parser
    would read `-` as an option."""
    arguments = [re.sub("^(-o|--output)=-$", rf"\1={STANDARD_OUTPUT}", argument) for argument in argv]
    for argument_index, argument in enumerate(argv):
        if argument == "-":
            is_output = argument_index > 0 and argv[argument_index - 1] in ("-o", "--output")
            arguments[argument_index] = STANDARD_OUTPUT if is_output else STANDARD_INPUT
    return arguments


def main() -> None:
    """Run the command `custodes`."""
    run_and_exit(lambda: run(sys.argv[1:]))
