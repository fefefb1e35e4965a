"""Parsing of the command line: conventions of all verbs, and error messages that name options."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from cyclopts import App, CycloptsError, Group, MissingArgumentError, Parameter, Token, UnknownOptionError
from cyclopts.exceptions import RepeatArgumentError

from custodes.errors import NO_SLICES, CustodesError, OptionError, short_repr

HOW: Mapping[str, Any] = {
    "name": "custodes",
    "help_format": "markdown",
    "print_error": False,
    "exit_on_error": False,
    "result_action": "return_value",
    "group_parameters": Group("Options of the verb", sort_key=1),
    "suppress_keyboard_interrupt": False,  # `run_for_exit_status` reports it
}

QUESTION = Group("Question", sort_key=1)
SELECTION = Group(
    "Selection", sort_key=2, help="Each option takes a comma list of globs and can be repeated; ! excludes a name."
)
STATISTICS = Group("Statistics", sort_key=3)
READING_OPTIONS = Group("Reading", sort_key=4)
OUTPUT_OPTIONS = Group("Output", sort_key=5)
"""Groups of options shared by verbs."""

SWITCH = Parameter(negative="", show_default=False)
"""A switch: an option without a value, off by default."""

DIGITS = 40
"""Maximum number of digits of an integer."""

OPTION_NAMES: Mapping[str, str] = {"rng": "--seed", "directions": "--lower"}
"""Options whose names differ from those of the Python arguments."""


def call(app: App, argv: Sequence[str]) -> int | None:
    """Run the verb of a command line. Error messages name options of the command line, not arguments of functions."""
    try:
        exit_status: int | None = app(argv)
    except CycloptsError as problem:
        error_message = " ".join(str(problem).split())
        if isinstance(problem, MissingArgumentError) and (missing_name := _missing_name(problem, argv)):
            command_name = " ".join(problem.command_chain or ())
            error_message = f"{command_name}: {missing_name} is required; custodes {command_name} --help has an example"
        if isinstance(problem, UnknownOptionError):  # its value may be a key, as in --api-key=...
            option_text = problem.token.keyword or problem.token.value
            error_message = error_message.replace(option_text, option_text.partition("=")[0])
            if option_text.partition("=")[0] == "--by" and "--group" in _option_names(app, argv):
                error_message += f" {replace_argument_names(NO_SLICES, {'--group'})}."
        if isinstance(problem, RepeatArgumentError):
            error_message = (
                f"{problem.token.keyword} is given several times; give it once, as a comma list if its help says so"
            )
        raise OptionError(error_message) from None
    except CustodesError as problem:
        raise type(problem)(replace_argument_names(str(problem), _option_names(app, argv))) from None
    return exit_status


def _option_names(app: App, argv: Sequence[str]) -> set[str]:
    """Options of the verb of a command line."""
    return {
        option_name
        for declared_option in app.parse_commands(argv)[1][-1].assemble_argument_collection()
        for option_name in declared_option.names
    }


def replace_argument_names(message: str, options: set[str]) -> str:
    """An error message in which options of the command line replace arguments of functions.

    >>> replace_argument_names("tie_rate=2: must lie between 0 and 1", {"--tie-rate"})
    '--tie-rate 2: must lie between 0 and 1'
    >>> replace_argument_names("try --column aspect=criterion", {"--aspect"})
    'try --column aspect=criterion'
    """

    def option_of(match: re.Match[str]) -> str:
        option_name = OPTION_NAMES.get(match[1], f"--{match[1].replace('_', '-')}")
        return f"{option_name} " if option_name in options else match[0]

    return re.sub(r"(?<![\w.'\"-])(?<!in Python )(?<!--column )([a-z]\w*)=(?=\S)", option_of, message)


def _missing_name(problem: MissingArgumentError, argv: Sequence[str]) -> str:
    """The required option or argument that the command line lacks; '' if the option is present without a value."""
    if problem.argument is None or any(word.partition("=")[0] in problem.argument.names for word in argv):
        return ""
    return (
        problem.argument.name.removeprefix("--").upper()
        if problem.argument.field_info.is_positional
        else problem.argument.name
    )


def parse_whole_number(type_: Any, tokens: Sequence[Token]) -> int:
    """Parse an integer of at least 0; a text such as 1.5 is an error, although the parser would round it."""
    text = tokens[0].value
    if not is_whole(text):
        raise ValueError(f"{short_repr(text)} is not a whole number of at least 0")
    return int(text)


def is_whole(text: str) -> bool:
    """Whether a word is an integer with at most `DIGITS` digits."""
    return text.isascii() and text.isdigit() and len(text) <= DIGITS
