"""Options of the command line for the keys of a plan, derived from the declaration of the plan."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
from cyclopts import Parameter

from custodes.annotate.plan import KEYS, StudyPlan, rows
from custodes.annotate.plan_file import change_plan, plan_of, read_plan
from custodes.arguments import members, value_list
from custodes.errors import OptionError, short_repr
from custodes.question_commands import with_parameters

NAMES = {("question", "text"): "question", ("question", "aspects"): "aspects"}
"""Options whose names differ from the key in the plan."""
SINGLE = {"aspects": "aspect"}
"""Alternative names (in the singular) of repeatable options."""
IN_A_FILE = {("annotators", "codes")}
"""Keys that only a plan file can set, because a table cannot be given on the command line."""


def add_plan_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command whose `**options` become options for the keys of a plan."""
    return with_parameters(command, [_option(*row) for row in rows() if row[:2] not in IN_A_FILE])


def build_plan(path: Path | None, options: dict[str, Any]) -> StudyPlan:
    """The plan of a file, or the default plan. Options of the command line replace the values of the plan."""
    plan = StudyPlan() if path is None else read_plan(path)
    changes: dict[str, dict[str, Any]] = {}
    for section, keys in KEYS.items():
        section_values = getattr(plan, section) if section else plan
        type_of_key = get_type_hints(type(section_values))
        for key in keys:
            option_value = options.get(_name(section, key))
            if option_value is not None:
                changes.setdefault(section, {})[key] = _value(_name(section, key), type_of_key[key], option_value)
    if "texts" in changes:  # @FILE is relative to the current folder
        texts = plan_of({"texts": changes["texts"]}, where="options", folder=Path()).texts
        changes["texts"] = {key: getattr(texts, key) for key in changes["texts"]}
    return change_plan(plan, changes)


def _name(section: str, key: str) -> str:
    return NAMES.get((section, key), key)


def _option(section: str, key: str, default: str, text: str) -> inspect.Parameter:
    name = _name(section, key)
    default_text = f" (default: {default})" if default and default != '""' else ""
    text = f"{text[0].upper()}{text[1:]}{default_text}."
    kind: Any = str | None
    cli_parameter = Parameter(help=text)
    if name in SINGLE:
        kind, cli_parameter = (
            list[str] | None,
            Parameter(name=[f"--{name}", f"--{SINGLE[name]}"], help=text, negative=""),
        )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, cli_parameter]
    )


def _value(name: str, kind: Any, text: Any) -> Any:
    """A text of the command line converted to a value of a plan; several texts are converted to a list."""
    entries = (value_list(name, text, described=name in SINGLE) or [""]) if get_origin(kind) is tuple else []
    try:
        if entries:
            entry_type = get_args(kind)[0]
            return tuple(msgspec.convert(entry, entry_type, strict=False) for entry in entries)
        if float in members(kind):
            with suppress(ValueError):
                return float(text)
        return msgspec.convert(text, kind, strict=False)
    except (msgspec.ValidationError, ValueError):
        raise OptionError(
            f"--{name.replace('_', '-')} {short_repr(text)} is not allowed; give {_expected_type(kind)}"
        ) from None


def _expected_type(kind: Any) -> str:
    if get_origin(kind) is tuple:
        return "a comma list, such as 10,20,40" if get_args(kind)[0] is int else "a comma list"
    literals = [literal for member in members(kind) for literal in get_args(member)]
    if literals:
        return " or ".join(map(str, literals))
    type_texts = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    return " or ".join(type_texts[member] for member in members(kind) if member in type_texts)
