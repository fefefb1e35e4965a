"""Schema files in TOML, which state how the tables of a study are read and which data are selected."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from custodes.data.loading import decode_text, read_file_bytes
from custodes.data.mapping.columns import Columns
from custodes.data.patterns import Patterns
from custodes.data.study import SELECTION
from custodes.errors import InputError, OptionError, reject, suggestion

TABLE = "columns"
PATHS = ("raters", "items")
WORDS = ("reader", "invalid")
KEYS = (TABLE, *WORDS, *PATHS, *SELECTION)


@dataclass(frozen=True, kw_only=True)
class Schema:
    """The content of a schema file: the columns by role, further arguments of `read` (`reading`), and the options that
    select data in every question (`selection`)."""

    columns: Columns = field(default_factory=Columns)
    reading: Mapping[str, Any] = field(default_factory=dict)
    selection: Mapping[str, Patterns] = field(default_factory=dict)

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read a schema from a TOML file. Paths are relative to the file. Unknown keys raise an error with a
        suggestion."""
        toml_path = Path(path)
        try:
            toml_value_of_key = tomllib.loads(decode_text(read_file_bytes(toml_path), toml_path.name))
        except (ValueError, RecursionError) as error:
            raise InputError(f'{toml_path.name}: not TOML: {error}; an example: reader = "ratings"') from None
        for toml_key, toml_value in toml_value_of_key.items():
            is_text_list = isinstance(toml_value, list) and all(isinstance(element, str) for element in toml_value)
            is_allowed_value = isinstance(toml_value, str) or (is_text_list and toml_key in SELECTION)
            reject(
                (
                    toml_key not in KEYS,
                    f"{toml_path.name}: unknown key {toml_key!r}{suggestion(toml_key, KEYS)}; keys: {', '.join(KEYS)}",
                ),
                (
                    toml_key != TABLE and not is_allowed_value,
                    f"{toml_path.name}: {toml_key} = {toml_value!r} is not a text; write the value in quotes, such as "
                    f'{toml_key} = "..."',
                ),
                error=InputError,
            )
        try:
            column_mapping = Columns.make(toml_value_of_key.get(TABLE, {}))
        except OptionError as error:
            raise InputError(f"{toml_path.name}: {error}") from None
        return cls(
            columns=column_mapping,
            reading={
                toml_key: toml_path.parent / toml_value if toml_key in PATHS else toml_value
                for toml_key, toml_value in toml_value_of_key.items()
                if toml_key in (*WORDS, *PATHS)
            },
            selection={
                toml_key: toml_value_of_key[toml_key] for toml_key in SELECTION if toml_key in toml_value_of_key
            },
        )

    def merge_arguments(
        self, columns: Columns, reading: Mapping[str, Any], selection: Mapping[str, Patterns] | None = None
    ) -> Schema:
        """The schema with the arguments of a caller added. Arguments that are not None take precedence."""
        return replace(
            self,
            columns=columns.merge_defaults(self.columns),
            reading={
                **self.reading,
                **{
                    option_name: option_value
                    for option_name, option_value in reading.items()
                    if option_value is not None
                },
            },
            selection={**self.selection, **(selection or {})},
        )

    def to_toml(self, folder: Path) -> str:
        """The schema as TOML text, with paths relative to the folder of the file."""
        value_of_key = {
            **self.reading,
            **{
                toml_key: os.path.relpath(self.reading[toml_key], folder)
                for toml_key in PATHS
                if toml_key in self.reading
            },
            **self.selection,
        }
        toml_lines = [
            f"{toml_key} = {_format_toml(value_of_key[toml_key])}" for toml_key in KEYS if toml_key in value_of_key
        ]
        if self.columns:
            toml_lines += [
                "",
                f"[{TABLE}]",
                *(
                    f"{role} = {_format_toml(name_or_patterns)}"
                    for role, name_or_patterns in self.columns.mapping.items()
                ),
            ]
        return "\n".join(toml_lines).strip() + "\n"


def _format_toml(value: Any) -> str:
    """A text or a list of texts as TOML. A JSON string is also a string of TOML, except that TOML requires DEL to be
    escaped."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_format_toml, value))}]"
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
