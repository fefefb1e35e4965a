"""Docstrings of public functions: numpydoc sections from the signature and the declared descriptions."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from custodes.answers.shared_arguments import HELP
from custodes.arguments import argument_types

SECTION = re.compile(r"^(?=(?:Notes|References|Examples)\n-+$)", re.MULTILINE)
"""Pattern of the beginning of a section that the docstring already contains."""

FIRST: Mapping[str, str] = {
    "study": "Data: a study, or an input that `read` accepts (a path, a dataframe, 'demo', or a list of these).",
    "pilot": "Pilot study, or an input that `read` accepts; None to plan from assumptions only.",
    "texts": "Study with the texts of outputs, or an input that `read` accepts.",
}
"""Descriptions of first arguments."""

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
"""Related functions."""

RAISES = """Raises
------
InputError
    If the data cannot be read or are insufficient.
OptionError
    If a name is unknown or a value is not allowed."""


def with_sections(function: Callable[..., Any], signature: inspect.Signature, helps: Mapping[str, str]) -> str | None:
    """The docstring with Parameters, Returns, Raises and See Also added; None if docstrings are stripped."""
    if function.__doc__ is None:
        return None
    description, *own_sections = SECTION.split(inspect.cleandoc(function.__doc__))
    kind_of_parameter = argument_types(function)
    sections = [
        _parameters(signature, kind_of_parameter, {**FIRST, **SHARED, **helps}),
        _returns(get_type_hints(function)["return"]),
        RAISES,
    ]
    if function.__name__ in RELATED:
        sections.append(f"See Also\n--------\n{RELATED[function.__name__]}")
    return "\n\n".join(section.strip() for section in (description, *sections, *own_sections))


def _parameters(signature: inspect.Signature, kinds: Mapping[str, Any], helps: Mapping[str, str]) -> str:
    lines = ["Parameters", "----------"]
    for name, parameter in signature.parameters.items():
        kind = kinds.get(name, parameter.annotation)
        default = "" if parameter.default is parameter.empty else _default(parameter.default)
        lines += [f"{name} : {kind if isinstance(kind, str) else type_name(kind)}{default}"]
        lines += [f"    {helps[name]}"] if helps.get(name) else []
    return "\n".join(lines)


def _default(value: Any) -> str:
    return "" if callable(value) else f", default {value!r}"


def _returns(result: Any) -> str:
    lines = ["Returns", "-------", result.__name__]
    if hasattr(result, "declared"):
        tables = ", ".join(f"`{name}`" for name in result.table_declarations())
        lines.append(f"    Tables {tables}; their columns: `help(cu.{result.__name__})`.")
    return "\n".join(lines)


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
    if isinstance(origin, type) and issubclass(origin, Callable):  # type: ignore[arg-type]
        return "callable"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "mapping"
    if isinstance(origin, type) and issubclass(origin, Sequence) and type_arguments:
        return f"sequence of {type_name(type_arguments[0])}"
    return str(getattr(kind, "__name__", kind))
