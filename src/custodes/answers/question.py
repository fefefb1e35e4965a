"""The decorator `question` adds defaults, argument checks, documentation and provenance to a question."""

from __future__ import annotations

import inspect
import platform
import re
import types
from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from importlib.metadata import version
from pathlib import PurePath
from typing import Any, Literal, NamedTuple, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import polars as pl
from docstring_parser import DocstringStyle, parse

from custodes.answers.result import Provenance, Result
from custodes.answers.shared_arguments import DEFAULTS, HELP
from custodes.arguments import argument, argument_types, seed_or_generator
from custodes.data.counts import is_counts, read_counts
from custodes.data.outcome_counts import OutcomeCounts
from custodes.data.reading import read
from custodes.data.study import Study
from custodes.errors import NO_SLICES, InputError, OptionError, reject, short_repr, suggestion

Rng = int | np.random.Generator | None
"""A seed, a generator, or None, which draws a new seed and records it. The seed 0 has no special meaning."""

UNRECORDED = ("rng", "progress")
"""Arguments that are not among the recorded options: `rng` has a field of its own in the provenance, and `progress`
does not change any number of a result."""

COUNTED = (
    "numbers of equal outputs (n_outputs), which only the question rates supports; pass the table with one row per "
    "output"
)
ONE_FILE_OF_COUNTS = "counts cannot be combined with other data; give a single file of counts"
NOT_ENOUGH = (
    "this question needs the ratings of single items, which counts do not contain; pass the study instead of its counts"
)

SECTION = re.compile(r"^(?=(?:Notes|References|Examples)\n-+$)", re.MULTILINE)
"""Pattern of the beginning of a section of a docstring."""

FIRST: Mapping[str, str] = {
    "study": "Data: a study, or any input of `read`: a path, a dataframe, 'demo', or a list of these.",
    "pilot": "Pilot study, or an input that `read` accepts; None to plan from assumptions only.",
    "texts": "Study with the texts of outputs, or an input that `read` accepts.",
}

SHARED: Mapping[str, str] = {
    **HELP,
    "rng": "Random seed. In Python also a NumPy generator, or None, which draws a new seed and records it.",
    "progress": "Callable that wraps an iterable, for a progress bar.",
}
"""Descriptions of arguments that several functions have."""

RELATED: Mapping[str, str] = {
    "agreement": "favoritism, ranking, gate",
    "annotators": "check, consistency",
    "ceiling": "complementarity, combine",
    "check": "read, verdict",
    "combine": "validate, CombinedMetric",
    "complementarity": "ceiling, agreement",
    "consistency": "judge, favoritism",
    "correction": "leaderboard, protocol, plan",
    "favoritism": "agreement, ranking",
    "gate": "agreement",
    "leaderboard": "ranking, correction",
    "plan": "protocol, live",
    "protocol": "plan, correction",
    "ranking": "leaderboard, favoritism",
    "report": "verdict",
    "score": "judge, read",
    "validate": "combine",
    "verdict": "report",
}

RAISES = """Raises
------
InputError
    If the data cannot be read or are insufficient.
OptionError
    If a name is unknown or a value is not allowed."""

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R", bound=Result)


class Option(NamedTuple):
    """An argument of the command line, with its type, default and short description."""

    name: str
    kind: Any
    default: Any
    help: str


def document_arguments(example_command: str, /, **helps: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Document all arguments of a function for `help` and the command line, and check the arguments in every call.

    `example_command`: a command line that calls the function. `helps`: descriptions of the arguments of the function
    (descriptions of shared arguments are in `HELP`). Arguments of `**options: Unpack[...]` become arguments of the
    function, with the defaults in `DEFAULTS`.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        signature = _explicit_signature(function)

        @wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
            for argument_name in kwargs:
                if argument_name not in signature.parameters:
                    raise TypeError(f"{function.__name__}: {_unknown_argument_message(argument_name, signature)}")
            bound_arguments = signature.bind(*args, **kwargs)
            bound_arguments.apply_defaults()
            type_of_argument, (data_argument_name, *other_argument_names) = (
                argument_types(function),
                bound_arguments.arguments,
            )
            bound_arguments.arguments[data_argument_name] = _read_data_argument(function, bound_arguments.args[0])
            for argument_name in other_argument_names:
                bound_arguments.arguments[argument_name] = argument(
                    argument_name, bound_arguments.arguments[argument_name], type_of_argument[argument_name]
                )
            return function(*bound_arguments.args, **bound_arguments.kwargs)

        wrapper.__doc__ = with_sections(function, signature, helps)
        wrapper.__signature__ = signature  # type: ignore[attr-defined]
        wrapper.example, wrapper.helps = example_command, helps  # type: ignore[attr-defined]
        return wrapper

    return decorate


def _unknown_argument_message(name: str, signature: inspect.Signature) -> str:
    """Error message for an unknown argument, with the correct way to pass it if there is one."""
    _, *known_argument_names = signature.parameters
    if name == "by" and "group" in known_argument_names:
        return f"unknown argument {name!r}: {NO_SLICES}"
    suggestion_text = suggestion(name, known_argument_names)
    return f"unknown argument {name!r}{suggestion_text}; arguments: {', '.join(known_argument_names)}"


def _read_data_argument(function: Callable[..., Any], data: Any) -> Any:
    """Convert the first argument of a question to the type that the question needs.

    A source, or a list of sources, is read as a study or as counts.
    """
    data_name, *_ = inspect.signature(function).parameters
    data_type = get_type_hints(function)[data_name]
    data_sources = data if isinstance(data, list | tuple) else [data]
    if any(map(is_counts, data_sources)):
        reject((len(data_sources) > 1, f"{function.__name__}: {ONE_FILE_OF_COUNTS}"))
        data = read_counts(data_sources[0])
    if isinstance(data, data_type):
        return data
    if isinstance(data, OutcomeCounts):
        raise OptionError(f"{function.__name__}: {NOT_ENOUGH}")
    try:
        return read(*data_sources)
    except (InputError, OptionError) as problem:
        error_class = InputError if isinstance(problem, InputError) else OptionError
        raise error_class(f"{function.__name__}: {problem}") from None


def question(
    example_command: str, /, *, accepts_equal_outputs: bool = False, **helps: str
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Turn a function that returns a result into a question: document it, and add a provenance to its result.

    The function receives as `rng` either the recorded seed or the caller's generator. The first argument of the
    function is the data: a study, counts, or None. `accepts_equal_outputs`: whether the question can use rows that
    stand for several equal outputs (column `n_outputs`).
    """

    def decorate(ask: Callable[P, R]) -> Callable[P, R]:
        @wraps(ask)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            options: dict[str, Any] = dict(kwargs)
            options["rng"], recorded_seed = resolve_seed(options["rng"])
            (data,) = args
            study = data if isinstance(data, Study) else None
            if study and study.items.has_equal_outputs and not accepts_equal_outputs:
                raise OptionError(f"{study.name} holds {COUNTED}")
            if study:
                options |= {
                    option_name: selection_patterns
                    for option_name, selection_patterns in study.selection.items()
                    if options.get(option_name, selection_patterns) is None
                }
            result = ask(*args, **options)
            count_origin = data.origin if isinstance(data, OutcomeCounts) else None
            # For counts, selection and tie rules were applied when counting.
            unrecorded_options = (*UNRECORDED, *DEFAULTS) if count_origin else UNRECORDED
            study_name, study_digest = "assumptions", ""
            if study:
                study_name, study_digest = study.name, study.fingerprint()
            elif count_origin:
                study_name, study_digest = count_origin.name, count_origin.digest
            provenance = Provenance(
                question=ask.__name__,
                study=study_name,
                digest=study_digest,
                counted=count_origin.how if count_origin else {},
                options={
                    option_name: str(option_value) if isinstance(option_value, PurePath) else option_value
                    for option_name, option_value in options.items()
                    if option_name not in unrecorded_options
                },
                seed=recorded_seed,
                versions=versions(),
                dropped=tuple(note for note in result.notes if note.count),
            )
            return result.with_provenance(provenance)

        return document_arguments(example_command, **helps)(wrapper)

    return decorate


def function_options(function: Any) -> list[Option]:
    """The keyword arguments of a function except `progress`, with their descriptions.

    The descriptions come from `document_arguments`, from `HELP`, or from the section Parameters of the docstring.
    """
    type_of_argument = argument_types(function)
    help_of_parameter = {
        parameter_doc.arg_name: " ".join((parameter_doc.description or "").split())
        for parameter_doc in parse(function.__doc__ or "", DocstringStyle.NUMPYDOC).params
    }
    help_of_option = {**HELP, **help_of_parameter, **getattr(function, "helps", {})}
    return [
        Option(
            parameter.name, type_of_argument[parameter.name], parameter.default, help_of_option.get(parameter.name, "")
        )
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.name != "progress"
    ]


def _explicit_signature(ask: Callable[..., Any]) -> inspect.Signature:
    """The signature of a function, with `**options: Unpack[T]` replaced by the options in `T`."""
    signature, default_of_option = inspect.signature(ask), dict[str, Any](DEFAULTS)
    parameters = list(signature.parameters.values())
    option_classes = [
        get_args(get_type_hints(ask)[parameter.name])[0]
        for parameter in parameters
        if parameter.kind is parameter.VAR_KEYWORD
    ]
    explicit_parameters = [
        *(parameter for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD),
        *[
            inspect.Parameter(
                option_name,
                inspect.Parameter.KEYWORD_ONLY,
                default=default_of_option[option_name],
                annotation=annotation.__forward_arg__,
            )
            for option_class in option_classes
            for option_name, annotation in option_class.__annotations__.items()
        ],
    ]
    return signature.replace(parameters=sorted(explicit_parameters, key=lambda parameter: parameter.name in UNRECORDED))


def refuse_ignored_argument(function: Callable[..., Any], why: str, **values: Any) -> None:
    """Raise OptionError for an argument that has no effect although it differs from its default.

    `why` is the reason why the argument has no effect.
    """
    parameter_of_name = inspect.signature(function).parameters
    for argument_name, argument_value in values.items():
        if argument_value != parameter_of_name[argument_name].default:
            raise OptionError(f"{argument_name}={short_repr(argument_value)} has no effect: {why}")


def resolve_seed(rng: Rng) -> tuple[int | np.random.Generator, int | None]:
    """The seed or generator to pass to a question, and the seed to record. If the caller passes a generator, the
    recorded seed is None, because a result with a generator cannot be replayed.
    """
    rng = seed_or_generator("rng", rng)
    if isinstance(rng, np.random.Generator):
        return rng, None
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if rng is None else rng
    return seed, seed


@cache
def versions() -> dict[str, str]:
    """Versions of Python, custodes and the numerical libraries."""
    return {
        "custodes": version("custodes"),
        "numpy": np.__version__,
        "polars": pl.__version__,
        "python": platform.python_version(),
    }


def with_sections(function: Callable[..., Any], signature: inspect.Signature, helps: Mapping[str, str]) -> str | None:
    """The docstring with Parameters, Returns, Raises and See Also added; None if docstrings are stripped."""
    if function.__doc__ is None:
        return None
    description_text, *further_sections = SECTION.split(inspect.cleandoc(function.__doc__))
    related_text = RELATED.get(function.__name__)
    result_class = get_type_hints(function)["return"]
    table_names_text = ", ".join(
        f"`{table_name}`" for table_name in getattr(result_class, "table_declarations", dict)()
    )
    return "\n\n".join(
        section_text.strip()
        for section_text in [
            description_text,
            _parameters(signature, argument_types(function), {**FIRST, **SHARED, **helps}),
            f"Returns\n-------\n{result_class.__name__}"
            + (
                f"\n    Tables {table_names_text}; their columns: `help(cu.{result_class.__name__})`."
                if table_names_text
                else ""
            ),
            RAISES,
            *([f"See Also\n--------\n{related_text}"] if related_text else []),
            *further_sections,
        ]
    )


def _parameters(
    signature: inspect.Signature, type_of_parameter: Mapping[str, Any], help_of_parameter: Mapping[str, str]
) -> str:
    docstring_lines = ["Parameters", "----------"]
    for parameter_name, parameter in signature.parameters.items():
        parameter_type = type_of_parameter.get(parameter_name, parameter.annotation)
        has_default = parameter.default is not parameter.empty and not callable(parameter.default)
        default_text = f", default {parameter.default!r}" if has_default else ""
        type_text = parameter_type if isinstance(parameter_type, str) else type_name(parameter_type)
        help_text = help_of_parameter.get(parameter_name)
        docstring_lines += [
            f"{parameter_name} : {type_text}{default_text}",
            *([f"    {help_text}"] if help_text else []),
        ]
    return "\n".join(docstring_lines)


def type_name(kind: Any) -> str:
    """Return a type in the notation of the documentation.

    >>> type_name(Literal["a", "b"] | None), type_name(Sequence[str] | float)
    ("{'a', 'b'} or None", 'sequence of str or float')
    """
    if kind is None or kind is types.NoneType:
        return "None"
    origin, type_arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return f"{{{', '.join(map(repr, type_arguments))}}}"
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(map(type_name, type_arguments)))
    name_of_origin: dict[Any, str] = {Callable: "callable", Mapping: "mapping", dict: "mapping"}
    if origin in (Sequence, list, tuple) and type_arguments:
        return f"sequence of {type_name(type_arguments[0])}"
    return name_of_origin.get(origin, str(getattr(kind, "__name__", kind)))
