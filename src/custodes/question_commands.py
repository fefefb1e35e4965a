"""Questions as verbs of the command line. Every argument of a question becomes an option of the verb."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, get_origin, get_type_hints

from cyclopts import Group, Parameter
from numpy.typing import ArrayLike

import custodes as cu
from custodes.answers.effort import effort
from custodes.answers.question import UNRECORDED, Option, function_options
from custodes.answers.shared_arguments import HELP, PreferenceOptions, Selection
from custodes.arguments import members, value_list
from custodes.command_line import OUTPUT_OPTIONS, QUESTION, SELECTION, STATISTICS, SWITCH, parse_whole_number
from custodes.console import print_line, quiet_pipe
from custodes.data.loading import read_file_bytes
from custodes.errors import InputError, OptionError, join_labels, short_repr
from custodes.options import InputOptions, Inputs, ModelOutput, Output, TestOutput, input_files, progress

READING, OUTPUT = InputOptions(), Output()
OUTPUTS: Mapping[str, Output] = {"combine": ModelOutput(), "gate": TestOutput()}
"""Questions whose results are written to several files."""

DryRun = Annotated[
    bool, SWITCH, Parameter(group=OUTPUT_OPTIONS, help="Print the estimated run time and memory, then exit.")
]

STOPPING = "stopping"
"""The argument whose fields become options. The module with the type of this argument is imported only for questions
that have the argument."""
SHARED_GROUPS = {
    **dict.fromkeys([*PreferenceOptions.__annotations__, "confidence", "resamples", "alpha", "seed"], STATISTICS),
    **dict.fromkeys(Selection.__annotations__, SELECTION),
}
"""Groups of options that several questions share."""

SEVERAL = {"batch": str, "budget": str, "stop": Sequence[str]}
"""Fields of a stopping rule. If a field has several values, there is one rule for each value."""


def __getattr__(name: str) -> Callable[..., int]:
    """Return the verb of the question with this name."""
    if not hasattr(question := getattr(cu, name, None), "example"):
        raise AttributeError(name=name)
    return verb(question, OUTPUTS.get(name, OUTPUT))


def verb(question: Any, output: Output) -> Callable[..., int]:
    """Return the command that runs a question on its inputs and writes the result."""
    study_parameter, *_ = inspect.signature(question).parameters.values()
    result_class = get_type_hints(question)["return"]

    def command(
        *inputs: Inputs, dry_run: DryRun = False, reading: InputOptions = READING, output: Any = output, **options: Any
    ) -> int:
        output.check(input_files(inputs, *reading.files, *options.values()), result_class.table_declarations())
        arguments, study = arguments_of(question, options), None
        if inputs or study_parameter.default is study_parameter.empty:
            with progress(reading_title(inputs), quiet=output.quiet):
                study = reading.read_data(inputs)
        else:
            reading.refuse("no file is given")
        if dry_run:
            print_effort(question, study, arguments)
            return 0
        return int(output.answer(partial(question, study, **arguments), question.__name__))

    docstring_summary = " ".join((inspect.getdoc(question) or "").partition("\n\n")[0].split())
    command.__name__, command.__doc__ = question.__name__, f"{docstring_summary}\n\nExample: `{question.example}`"
    return with_options(command, question, group=QUESTION)


def reading_title(inputs: Sequence[str]) -> str:
    """Title of the progress display while the inputs are read."""
    return f"reading {join_labels(inputs, limit=2)}" if inputs else ""


def print_effort(question: Any, study: Any, arguments: dict[str, Any]) -> None:
    """Print the estimated run time and memory of a question."""
    default_of_argument = {
        argument_name: parameter.default for argument_name, parameter in inspect.signature(question).parameters.items()
    }
    with quiet_pipe():
        print_line(str(effort(question.__name__, study, default_of_argument | arguments)))


def with_options(
    command: Callable[..., Any], *functions: Callable[..., Any], group: Group | None = None
) -> Callable[..., Any]:
    """Return a command whose options are the arguments of functions, except arguments that the command itself declares.

    `group` is the help group of the options that only this verb has.
    """
    return with_parameters(
        command, [_parameter(option, group) for function in functions for option in _options(function)]
    )


def with_parameters(command: Callable[..., Any], more_parameters: Sequence[inspect.Parameter]) -> Callable[..., Any]:
    """Return a command with more parameters after its first parameter.

    If a parameter is a group of options, its default is an instance of the group."""
    type_of_parameter = get_type_hints(command, include_extras=True)
    first_parameter, *other_parameters = (
        command_parameter.replace(
            annotation=type(command_parameter.default)
            if isinstance(command_parameter.default, InputOptions | Output)
            else type_of_parameter[command_parameter.name]
        )
        for command_parameter in inspect.signature(command).parameters.values()
        if command_parameter.kind is not command_parameter.VAR_KEYWORD
    )
    option_parameters = [
        option_parameter for option_parameter in more_parameters if option_parameter.name not in type_of_parameter
    ]
    command.__signature__ = inspect.Signature([first_parameter, *option_parameters, *other_parameters])  # type: ignore[attr-defined]
    return command


def _options(function: Callable[..., Any]) -> Iterator[Option]:
    for option in function_options(function):
        if option.name == STOPPING:
            from custodes.evaluate.protocol.stopping import Stopping

            default_stopping = option.default if isinstance(option.default, Stopping) else Stopping()
            for field_name, option_type in get_type_hints(Stopping).items():
                yield Option(
                    field_name,
                    SEVERAL.get(field_name, option_type),
                    getattr(default_stopping, field_name),
                    HELP[field_name],
                )
        elif option.name == "rng":
            yield option._replace(name="seed", kind=int)
        elif option.name not in UNRECORDED:
            yield option


def _parameter(option: Option, group: Group | None) -> inspect.Parameter:
    option_type, help_text = _kind(option), option.help
    is_required = option.default is inspect.Parameter.empty
    is_shown_default = isinstance(option.default, str | int | float | tuple | list) and (
        option.default is not False and option.default not in ("", ())
    )
    if is_shown_default and "default" not in help_text:
        default_text = (
            ", ".join(map(str, option.default)) if isinstance(option.default, tuple | list) else option.default
        )
        help_text = f"{help_text.removesuffix('.')} (default: {default_text})."
    is_flag = option_type is bool
    cyclopts_settings: dict[str, Any] = {"negative": ""} if option_type in (bool, list[str]) else {}
    cyclopts_settings |= {"group": option_group} if (option_group := SHARED_GROUPS.get(option.name, group)) else {}
    cyclopts_settings |= (
        {"show_default": False} if is_flag else {"converter": parse_whole_number} if option_type is int else {}
    )
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=option.default if is_required else False if is_flag else None,
        annotation=Annotated[
            option_type if is_flag or is_required else option_type | None,
            Parameter(help=help_text, **cyclopts_settings),
        ],
    )


def _kind(option: Option) -> Any:
    """Type of an option on the command line. A simple declared type is used directly; any other value is a text that is
    parsed later."""
    declared_types = [declared_type for declared_type in members(option.kind) if declared_type is not type(None)]
    if len(declared_types) == 1 and (
        declared_types[0] in (bool, int, float, str) or get_origin(declared_types[0]) is Literal
    ):
        return declared_types[0]
    return list[str] if set(declared_types) & {Sequence[str], tuple[str, ...], Mapping[str, Any]} else str


def arguments_of(function: Callable[..., Any], options: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a function, from the values of the options."""
    value_of_argument = {
        argument_name: argument_value for argument_name, argument_value in options.items() if argument_value is not None
    }
    type_of_option = {
        option_declaration.name: option_declaration.kind for option_declaration in function_options(function)
    }
    if "seed" in value_of_argument:
        value_of_argument["rng"] = value_of_argument.pop("seed")
    stopping_arguments = _build_stopping_argument(value_of_argument) if STOPPING in type_of_option else {}
    return {
        argument_name: _parse_option_value(argument_name, type_of_option[argument_name], argument_value)
        for argument_name, argument_value in value_of_argument.items()
        if argument_name in type_of_option
    } | stopping_arguments


def _build_stopping_argument(arguments: dict[str, Any]) -> dict[str, Any]:
    """Build the argument `stopping` from options, and remove these options from `arguments`.

    Each combination of the given values of `batch`, `budget` and `stop` is a stopping rule. Without options of stopping
    rules, the result is empty.
    """
    from custodes.evaluate.protocol.stopping import USUAL, Stopping, ineffective_fields

    type_of_field = get_type_hints(Stopping)
    value_of_option = {field_name: arguments.pop(field_name) for field_name in type_of_field if field_name in arguments}
    if not value_of_option:
        return {}
    values_of_listed_option: dict[str, list[Any]] = {
        field_name: numbers(f"--{field_name}", value_of_option.pop(field_name), int)
        for field_name in ("batch", "budget")
        if field_name in value_of_option
    }
    values_of_listed_option |= (
        {"stop": value_list("--stop", value_of_option.pop("stop"))} if "stop" in value_of_option else {}
    )
    value_of_unlisted_field = {
        field_name: _parse_option_value(field_name, type_of_field[field_name], option_value)
        for field_name, option_value in value_of_option.items()
    }
    option_combinations: list[dict[str, Any]] = [
        dict(zip(values_of_listed_option, option_values, strict=True))
        for option_values in product(*values_of_listed_option.values())
    ]
    unused_fields_by_combination = [
        set(ineffective_fields(combination.get("stop", USUAL.stop), value_of_unlisted_field.get("looks")))
        for combination in option_combinations
    ]
    # Options that no rule uses are rejected. An option that only some rules use is not passed to the others.
    fields_unused_by_all = set.intersection(*unused_fields_by_combination)
    return {
        STOPPING: [
            Stopping(
                **{
                    field_name: option_value
                    for field_name, option_value in (value_of_unlisted_field | combination).items()
                    if field_name not in unused_fields - fields_unused_by_all
                }
            )
            for combination, unused_fields in zip(option_combinations, unused_fields_by_combination, strict=True)
        ]
    }


def _parse_option_value(name: str, option_type: Any, option_value: Any) -> Any:
    """The text of an option on the command line, converted to the type of the option."""
    declared_types = [declared_type for declared_type in members(option_type) if declared_type is not type(None)]
    option_flag = f"--{name.replace('_', '-')}"
    if isinstance(option_value, list):
        return option_value[0] if len(option_value) == 1 and str in declared_types else option_value
    if not isinstance(option_value, str):
        return option_value
    if members(ArrayLike)[0] in declared_types:
        return channel_table(option_value)
    if Sequence[float] in declared_types:
        return numbers(option_flag, option_value)
    if Sequence[int] in declared_types or tuple[int, ...] in declared_types:
        return tuple(numbers(option_flag, option_value, int))
    if float in declared_types:
        with suppress(ValueError):  # the question interprets or rejects a word
            return float(option_value)
    return option_value


def numbers(option: str, text: str, number_type: type[Any] = float) -> list[Any]:
    """The numbers in a comma list."""
    try:
        return [number_type(number_text) for number_text in text.split(",")]
    except ValueError:
        allowed_text = "whole numbers, such as 10,20,40" if number_type is int else "numbers, such as 0,0.1,0.3"
        raise OptionError(f"{option} {short_repr(text)}: must be a comma list of {allowed_text}") from None


def channel_table(text: str) -> list[list[float]] | str:
    """A 3x3 table [human, metric] from a .csv with three lines, or the word `ideal`."""
    if text == "ideal":
        return text
    try:
        return [
            [float(number_text) for number_text in line.split(",")]
            for line in read_file_bytes(Path(text)).decode("utf-8").splitlines()
            if line.strip()
        ]
    except ValueError:
        raise InputError(
            f"{text}: give three lines without a header, one for each human outcome (win, tie, loss); "
            "each line holds three numbers, the frequencies of win, tie and loss by the metric"
        ) from None
