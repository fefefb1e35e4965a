"""Runtime validation of the arguments of public functions: types declared in the signatures, and common limits."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial, wraps
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from types import UnionType
from typing import Any, Literal, ParamSpec, TypeGuard, TypeVar, Union, Unpack, get_args, get_origin, get_type_hints

import numpy as np

from custodes.errors import OptionError, reject, short_repr, suggestion
from custodes.progress import Progress

P = ParamSpec("P")
R = TypeVar("R")

LARGEST = 10**9
"""Maximum integer that an option accepts."""

FEWEST_RESAMPLES = 20
"""Minimum number of resamples. With fewer resamples, the standard error of an estimate would itself have a relative
error of 1/6 or more."""


def check_between(name: str, value: float, low: float, high: float) -> float:
    """Check that an option lies strictly between two numbers."""
    if not (is_number(value) and low < value < high):
        raise OptionError(f"{name}={short_repr(value)}: must lie between {low:g} and {high:g}, both excluded")
    return value


def check_at_least(name: str, value: int, least: int) -> int:
    """Check that an option is an integer of at least `least` and at most `LARGEST`."""
    reject(
        (
            not is_whole(value) or value < least,
            f"{name}={short_repr(value)}: must be a whole number of at least {least}",
        ),
        (is_whole(value) and value > LARGEST, f"{name}={short_repr(value)}: must be at most {LARGEST}"),
    )
    return int(value)


def check_resamples(name: str, value: int) -> int:
    """Check the number of resamples: 0, or enough for an interval."""
    check_at_least(name, value, 0)
    if 0 < value < FEWEST_RESAMPLES:
        raise OptionError(
            f"{name}={value}: too few resamples for an interval; give at least "
            f"{FEWEST_RESAMPLES}, or 0 for no intervals"
        )
    return int(value)


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value is a number, excluding booleans and texts."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_whole(value: Any) -> TypeGuard[int]:
    """Whether a value is an integer of any type."""
    return is_number(value) and (isinstance(value, Integral) or (math.isfinite(value) and value == value // 1))


def check_one_of(name: str, value: Any, allowed: Any) -> Any:
    """Check that an option is one of the allowed values."""
    if not isinstance(value, str) or value not in allowed:
        suggestion_text = suggestion(value, allowed) if isinstance(value, str) else ""
        raise OptionError(f"{name}={short_repr(value)}; allowed: {', '.join(allowed)}{suggestion_text}")
    return value


LARGEST_SEED = 2**64 - 1
"""Maximum value of a seed, because JSON files of custodes hold no larger integer."""


def seed_or_generator(name: str, value: Any) -> Any:
    """Check a source of random numbers: a seed, a NumPy generator, or None for a new seed."""
    if value is None or isinstance(value, np.random.Generator):
        return value
    if isinstance(value, bool) or not (isinstance(value, Integral) and 0 <= int(value) <= LARGEST_SEED):
        raise OptionError(
            f"{name}={short_repr(value)}: must be a seed (a whole number from 0 to {LARGEST_SEED}), a NumPy generator "
            "or None"
        )
    return int(value)


def check_storable(description: str, labels: Iterable[str]) -> None:
    """Raise OptionError for a label with unpaired surrogates, because no file can hold such text."""
    for label in labels:
        if not label.isascii() and any("\ud800" <= character <= "\udfff" for character in label):
            raise OptionError(f"{description}: {short_repr(label)} has characters that cannot be written to a file")


def is_collection(value: Any) -> TypeGuard[Iterable[Any]]:
    """Whether a value is a collection of several values.

    >>> is_collection(["a"]), is_collection("a"), is_collection(np.array(5))
    (True, False, False)
    """
    is_single = isinstance(value, str | bytes | Mapping | PathLike) or getattr(value, "ndim", 1) == 0
    return isinstance(value, Iterable) and not is_single


def value_list(
    name: str, entries_or_text: str | Iterable[str], *, labels: Collection[str] = (), allow_descriptions: bool = False
) -> list[str]:
    """Values of a repeatable argument: each entry holds one value or a comma list.

    Parameters
    ----------
    name : str
        Name of the argument, for errors.
    entries_or_text : str or iterable of str
        One entry or several entries.
    labels : collection of str, default ()
        Labels of the data. Commas inside a label, or inside `!label` (which excludes a label), do not separate values.
    allow_descriptions : bool, default False
        Whether a value may be `NAME: text`. An entry with a colon is then a single value, whose text may contain
        commas.

    Returns
    -------
    list of str
        The values in order, without surrounding spaces or empty values.

    Raises
    ------
    OptionError
        If an entry is not text, or if a described value has a comma before its colon.

    Examples
    --------
    >>> value_list("aspects", ["coherence,fluency", "tone: warm, not stiff"], allow_descriptions=True)
    ['coherence', 'fluency', 'tone: warm, not stiff']
    >>> value_list("metrics", "f(a,b),bleu", labels=["f(a,b)", "bleu"])
    ['f(a,b)', 'bleu']
    """
    entries = [entries_or_text] if isinstance(entries_or_text, str) else entries_or_text
    if not is_collection(entries) or not all(isinstance(entry, str) for entry in entries):
        raise OptionError(f"{name}={short_repr(entries_or_text)}: must be a text or a list of texts")
    return [value for entry in entries for value in _values(name, entry, labels, allow_descriptions=allow_descriptions)]


def _values(name: str, entry: str, labels: Collection[str], *, allow_descriptions: bool) -> Iterator[str]:
    if entry in labels:
        yield entry
        return
    text_before_colon, colon, _ = entry.partition(":")
    if allow_descriptions and colon:
        if "," in text_before_colon:
            raise OptionError(
                f"{name}={short_repr(entry)}: a comma precedes the colon, but a value NAME: text cannot share a "
                "comma list with other values; repeat the option for each value (in Python, give a list of texts)"
            )
        yield entry.strip()
        return
    comma_parts = entry.split(",")
    while comma_parts:
        candidate_labels = [",".join(comma_parts[:n_parts]).strip() for n_parts in range(len(comma_parts), 1, -1)]
        longest_match = next(
            (
                candidate_label
                for candidate_label in candidate_labels
                if candidate_label in labels or candidate_label.removeprefix("!") in labels
            ),
            None,
        )
        if list_value := comma_parts[0].strip() if longest_match is None else longest_match:
            yield list_value
        comma_parts = comma_parts[
            1 if longest_match is None else len(candidate_labels) + 1 - candidate_labels.index(longest_match) :
        ]


def assignment_list(entries_or_text: str | Iterable[str], *, keys: Collection[str] = ()) -> list[str]:
    """Entries `KEY=VALUE` of a repeatable argument, given separately or as a comma list.

    A comma separates two entries only if a key of `keys` and `=` follow it. Without `keys`, any name counts as a key.
    All other commas belong to a value.

    >>> assignment_list(["stop=a,b,seed=1", "top_p=1"])
    ['stop=a,b', 'seed=1', 'top_p=1']
    """
    key_pattern = "|".join(map(re.escape, keys)) or r"[A-Za-z_]\w*"
    entries = [entries_or_text] if isinstance(entries_or_text, str) else entries_or_text
    return [
        assignment.strip() for entry in entries for assignment in re.split(rf",(?=\s*(?:{key_pattern})\s*=)", entry)
    ]


LIMITS: Mapping[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(
        ("confidence", "alpha", "gamma", "futility", "difference", "accuracy", "disagreement", "audit"),
        lambda name, value: check_between(name, value, 0, 1),
    ),
    **dict.fromkeys(("replications", "steps", "add", "budget"), lambda name, value: check_at_least(name, value, 1)),
    **dict.fromkeys(("metric_items", "ideal"), lambda name, value: check_at_least(name, value, 0)),
    "resamples": check_resamples,
    "rng": seed_or_generator,
}
"""Checks of the arguments of questions by argument name. These checks come after the checks of types."""


@cache
def argument_types(function: Callable[..., Any]) -> Mapping[str, Any]:
    """The types of all arguments of a function, including those of `**options: Unpack[...]`."""
    type_of_parameter = get_type_hints(function)
    option_classes = [
        get_args(parameter_type)[0]
        for parameter_type in type_of_parameter.values()
        if get_origin(parameter_type) is Unpack
    ]
    return {
        **type_of_parameter,
        **{
            parameter_name: parameter_type
            for option_class in option_classes
            for parameter_name, parameter_type in get_type_hints(option_class).items()
        },
    }


def check_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function so that all arguments are checked against the types of the signature."""
    signature = inspect.signature(function)

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        bound_arguments, type_of_argument = signature.bind(*args, **kwargs), argument_types(function)
        for argument_name, argument_value in bound_arguments.arguments.items():
            parameter = signature.parameters[argument_name]
            if argument_name in type_of_argument and parameter.kind not in (
                parameter.VAR_POSITIONAL,
                parameter.VAR_KEYWORD,
            ):
                bound_arguments.arguments[argument_name] = argument(
                    argument_name, argument_value, type_of_argument[argument_name]
                )
        return function(*bound_arguments.args, **bound_arguments.kwargs)

    return wrapper


SECRETS = ("key", "base_url")
"""Arguments that may hold a key or a password. Errors do not show their values."""


def _argument_text(name: str, value: Any) -> str:
    """An argument and its value as text for an error message; a secret value is not included."""
    return f"{name} (not shown here)" if name in SECRETS else f"{name}={short_repr(value)}"


def members(declared_type: Any) -> tuple[Any, ...]:
    """The member types of a union."""
    if get_origin(declared_type) in (Union, UnionType):
        return tuple(member_type for type_argument in get_args(declared_type) for member_type in members(type_argument))
    return (declared_type,)


def argument(name: str, value: Any, declared_type: Any) -> Any:
    """The value of an argument, converted to the declared type.

    If the conversion is not possible, or if the value is outside the limits of the argument, OptionError is raised.

    >>> argument("resamples", np.int64(200), int)
    200
    """
    allowed_types = members(declared_type)
    if value is None and type(None) in allowed_types:
        return None
    converted_value = _convert_to_type(
        name, value, [allowed_type for allowed_type in allowed_types if allowed_type is not type(None)]
    )
    return LIMITS[name](name, converted_value) if name in LIMITS else converted_value


def check_fields(record: Any, checks: Mapping[str, Callable[[Any], Any]] | None = None) -> None:
    """Convert the fields of a frozen dataclass to their declared types. `checks` has other conversions by field."""
    for field_name, field_type in argument_types(record.__class__).items():
        field_value, converter = getattr(record, field_name), (checks or {}).get(field_name)
        object.__setattr__(
            record,
            field_name,
            converter(field_value) if converter else argument(field_name, field_value, field_type),
        )


def _convert_to_type(name: str, value: Any, allowed_types: Sequence[Any]) -> Any:
    """The value, converted to the first allowed type that accepts the value; OptionError if no type does."""
    literal_values = [
        literal
        for allowed_type in allowed_types
        if get_origin(allowed_type) is Literal
        for literal in get_args(allowed_type)
    ]
    type_texts_and_converters = [_TYPES[allowed_type] for allowed_type in allowed_types if allowed_type in _TYPES]
    if isinstance(value, str) and value in literal_values:
        return value
    if literal_values and (isinstance(value, str) or not type_texts_and_converters) and str not in allowed_types:
        return check_one_of(name, value, [*literal_values, *(type_text for type_text, _ in type_texts_and_converters)])
    if (
        not type_texts_and_converters
        and allowed_types[0] is not Any
        and len(allowed_types) == 1
        and isinstance(allowed_type := allowed_types[0], type)
    ):
        if not isinstance(value, allowed_type):
            raise OptionError(f"{_argument_text(name, value)}: must be a {allowed_type.__name__}")
        return value
    if len(type_texts_and_converters) + bool(literal_values) < len(allowed_types):
        return value  # unions with other types are checked by the function
    for _, converter in type_texts_and_converters:
        converted_value = converter(value)
        if converted_value is not None:
            return converted_value
    expected_text = " or ".join(
        [*literal_values, *dict.fromkeys(type_text for type_text, _ in type_texts_and_converters)]
    )
    raise OptionError(f"{_argument_text(name, value)}: must be {expected_text}")


def _number(value: Any) -> float | None:
    if not is_number(value):
        return None
    try:
        return value if isinstance(value, int) and abs(value) <= LARGEST else float(value)
    except OverflowError:  # an integer too large to convert
        return None


def _text(value: Any) -> str | None:
    return str(value) if isinstance(value, str) else None


def _texts(value: Any) -> Any:
    if isinstance(value, str):  # a single value needs no list
        return str(value)
    texts = list(value) if is_collection(value) else [None]
    if not all(isinstance(text, str) for text in texts):
        return None
    return value if isinstance(value, tuple | list) else texts


def _numbers(value: Any) -> Any:
    is_sequence = isinstance(value, Sequence | np.ndarray) and getattr(value, "ndim", 1) == 1
    converted_numbers = [_number(number) for number in (value if is_sequence else [value])]
    return converted_numbers if converted_numbers and None not in converted_numbers else None


def _mapping(convert_value: Callable[[Any], Any], value: Any) -> Any:
    if not (isinstance(value, Mapping) and all(isinstance(name, str) for name in value)):
        return None
    converted_value_of_name = {str(name): convert_value(value[name]) for name in value}
    return None if None in converted_value_of_name.values() else converted_value_of_name


_TYPES: Mapping[Any, tuple[str, Callable[[Any], Any]]] = {
    bool: ("True or False", lambda value: bool(value) if isinstance(value, bool | np.bool_) else None),
    int: (
        f"a whole number of at most {LARGEST}",
        lambda value: int(value) if is_whole(value) and abs(value) <= LARGEST else None,
    ),
    float: ("a number", _number),
    str: ("text", _text),
    Sequence[str]: ("a text or a list of texts", _texts),
    Sequence[float]: ("a list of numbers", _numbers),
    Path: ("a path", lambda value: value if isinstance(value, PathLike) else None),
    Progress: ("a callable that wraps an iterable", lambda value: value if callable(value) else None),
    Mapping[str, float]: ("a mapping from names to numbers", partial(_mapping, _number)),
    Mapping[str, str]: ("a mapping from names to names", partial(_mapping, _text)),
    Mapping[str, Sequence[float]]: (
        "a mapping from each name to a number or a list of numbers",
        partial(_mapping, _numbers),
    ),
}
"""For each type of an argument: its description, and a converter that returns None for an invalid value."""
