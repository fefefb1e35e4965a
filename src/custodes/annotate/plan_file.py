"""The plan of a study as a TOML file: functions to read, validate, change and write a plan."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec

from custodes.annotate.plan import KEYS, SECTIONS, StudyPlan, check_plan, convert_plan
from custodes.data.loading import decode_text, read_file_bytes
from custodes.errors import InputError, OptionError, reject, short_repr, suggestion

FROM_FILE = "@"
"""Prefix of a text that names a separate file next to the plan."""
PROSE = ("instructions", "consent", "thanks")
"""Keys whose value is a text, the name of a template, or the name of a file."""


def read_plan(path: str | Path) -> StudyPlan:
    """Read and validate a plan from a TOML file. `InputError` names the invalid key, what is allowed, and what to do.

    A value such as `instructions = "@instructions.md"` names a file next to the plan, from which the text is read.

    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp()) / "study.toml"
    >>> _ = place.write_text("[annotators]\\nbatch = 10\\n")
    >>> read_plan(place).annotators.batch
    10
    """
    plan_path = Path(path)
    try:
        toml_values = tomllib.loads(decode_text(read_file_bytes(plan_path), plan_path.name))
    except (ValueError, RecursionError) as problem:
        raise InputError(
            f"{plan_path.name}: not TOML: {problem}; `custodes annotate new --write-plan` writes an example"
        ) from None
    return plan_of(toml_values, where=plan_path.name, folder=plan_path.parent)


def plan_of(toml_values: Mapping[str, Any], *, where: str, folder: Path) -> StudyPlan:
    """Return the plan with these sections and keys. A text that starts with @ names a file in the folder."""
    for section_or_key, section_or_key_value in toml_values.items():
        if section_or_key in SECTIONS:
            if not isinstance(section_or_key_value, Mapping):
                raise InputError(
                    f"{where}: {section_or_key} = {short_repr(section_or_key_value)} is not a section; write "
                    f"[{section_or_key}]"
                )
            allowed_keys = KEYS[section_or_key]
            unknown_key_checks = (
                (
                    key not in allowed_keys,
                    f"{where}: [{section_or_key}] has the unknown key {key}{_key_advice(key, allowed_keys)}; "
                    f"keys: {', '.join(allowed_keys)}",
                )
                for key in section_or_key_value
            )
            reject(*unknown_key_checks, error=InputError)
        elif section_or_key not in KEYS[""]:
            raise InputError(
                f"{where}: unknown key {section_or_key}{_key_advice(section_or_key, (*KEYS[''], *SECTIONS))}; keys: "
                f"{', '.join(KEYS[''])}, and sections {', '.join(SECTIONS)}"
            )
    text_of_key = dict(toml_values.get("texts", {}))
    for key in PROSE:
        if str(text_of_key.get(key)).startswith(FROM_FILE):
            text_of_key[key] = _read_text_file(text_of_key[key], key, where=where, folder=folder)
    try:
        return check_plan(convert_plan({**toml_values, "texts": text_of_key}))
    except OptionError as problem:
        raise InputError(f"{where}: {problem}") from None


def _key_advice(key: str, allowed_keys: Iterable[str]) -> str:
    """Return advice on an unknown key: a similar key, or the section that has the key."""
    place_phrases = [
        f"in [{section}]" if section else "above the first section"
        for section, section_keys in KEYS.items()
        if key in section_keys
    ]
    return f"; this key belongs {place_phrases[0]}" if place_phrases else suggestion(key, allowed_keys)


def _read_text_file(value: str, key: str, *, where: str, folder: Path) -> str:
    """Return the text of the file that a value names."""
    text_path = folder / value.removeprefix(FROM_FILE)
    try:
        return decode_text(read_file_bytes(text_path), text_path.name)
    except InputError as problem:
        raise InputError(
            f"{where}: [texts] {key} = {value!r}: {problem}; give a file in the folder of the plan"
        ) from None


def change_plan(plan: StudyPlan, changes: Mapping[str, Mapping[str, Any]]) -> StudyPlan:
    """Return the plan, validated, with the values in `changes`, by section ('' is the plan itself) and key. The command
    line changes the plan of a file in this way, so options take precedence over the file.

    >>> change_plan(StudyPlan(), {"annotators": {"batch": 10}, "": {"seed": 3}}).annotators.batch
    10
    """
    changed_section_of_name = {
        section_name: msgspec.structs.replace(getattr(plan, section_name), **value_of_key)
        for section_name, value_of_key in changes.items()
        if section_name
    }
    return check_plan(msgspec.structs.replace(plan, **changes.get("", {}), **changed_section_of_name))


def to_toml(plan: StudyPlan) -> str:
    """Return the plan in the format that `read_plan` reads. Every key has its description as a comment. Keys without a
    value are comments, too.

    >>> to_toml(StudyPlan()).splitlines()[:2]
    ['# name of the study and of its files', 'name = "study"']
    """
    toml_lines = []
    for section, section_rows in groupby(rows(plan), key=itemgetter(0)):
        toml_lines += ["", f"[{section}]"] if section else []
        for _, key, key_value, description in section_rows:
            toml_lines += [f"# {description}", f"# {key} = " if key_value is None else f"{key} = {_toml(key_value)}"]
    return "\n".join(toml_lines) + "\n"


def rows(plan: StudyPlan) -> Iterator[tuple[str, str, Any, str]]:
    """Iterate over the section, key, value and description of every key of a plan.

    >>> next(rows(StudyPlan()))
    ('', 'name', 'study', 'name of the study and of its files')
    """
    for section, description_of_key in KEYS.items():
        section_struct: msgspec.Struct = getattr(plan, section) if section else plan
        for key, description in description_of_key.items():
            yield section, key, getattr(section_struct, key), description


def default_text(value: Any) -> str:
    """Return a default value as text for help and documentation.

    >>> default_text((10, 20, 40)), default_text(None), default_text(True)
    ('10, 20, 40', 'none', 'true')
    """
    if value is None:
        return "none"
    return value if isinstance(value, str) else _toml(value).strip("[]{} ")


def _toml(value: Any) -> str:
    """Return a value in TOML. A text with several lines has triple quotes."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, msgspec.Struct):
        value_of_field = msgspec.structs.asdict(value)
        return f"{{ {', '.join(f'{key} = {_toml(field_value)}' for key, field_value in value_of_field.items())} }}"
    escaped_lines = [
        json.dumps(text_line, ensure_ascii=False).replace("\x7f", "\\u007f")[1:-1] for text_line in value.split("\n")
    ]
    return f'"{escaped_lines[0]}"' if len(escaped_lines) == 1 else '"""\n' + "\n".join(escaped_lines) + '"""'
