"""Schema files in TOML, which state how the tables of a study are read and which data are selected."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from custodes.data.loading import read_small_file, utf8_text
from custodes.data.mapping.columns import Columns
from custodes.data.patterns import Patterns
from custodes.data.study import SELECTION
from custodes.errors import InputError, OptionError, suggestion

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
        toml_file = Path(path)
        try:
            toml_values = tomllib.loads(utf8_text(read_small_file(toml_file, "a schema"), toml_file.name))
        except OSError as error:
            raise InputError(f"schema {toml_file}: cannot be read: {error.strerror}") from None
        except (ValueError, RecursionError) as error:
            raise InputError(f'{toml_file.name}: not TOML: {error}; an example: reader = "ratings"') from None
        for key, value in toml_values.items():
            if key not in KEYS:
                raise InputError(
                    f"{toml_file.name}: unknown key {key!r}{suggestion(key, KEYS)}; keys: {', '.join(KEYS)}"
                )
            is_text_list = isinstance(value, list) and key in SELECTION and all(isinstance(text, str) for text in value)
            if key != TABLE and not (isinstance(value, str) or is_text_list):
                raise InputError(
                    f"{toml_file.name}: {key} = {value!r} is not a text; write the value in quotes, such as {key} = "
                    '"..."'
                )
        try:
            columns = Columns.make(toml_values.get(TABLE, {}))
        except OptionError as error:
            raise InputError(f"{toml_file.name}: {error}") from None
        reading = {key: toml_values[key] for key in WORDS if key in toml_values}
        reading |= {key: toml_file.parent / toml_values[key] for key in PATHS if key in toml_values}
        return cls(
            columns=columns,
            reading=reading,
            selection={key: toml_values[key] for key in SELECTION if key in toml_values},
        )

    def merge_arguments(
        self, columns: Columns, reading: Mapping[str, Any], selection: Mapping[str, Patterns] | None = None
    ) -> Schema:
        """The schema with the arguments of a caller added. Arguments take precedence if they are not None."""
        reading_options = {name: value for name, value in reading.items() if value is not None}
        return replace(
            self,
            columns=columns.merge_defaults(self.columns),
            reading={**self.reading, **reading_options},
            selection={**self.selection, **(selection or {})},
        )

    def to_toml(self, folder: Path) -> str:
        """The schema as TOML text, with paths relative to the folder of the file."""
        path_of_key = {key: os.path.relpath(self.reading[key], folder) for key in PATHS if key in self.reading}
        value_of_key = {**self.reading, **path_of_key, **self.selection}
        lines = [f"{key} = {_format_toml(value_of_key[key])}" for key in KEYS if key in value_of_key]
        if self.columns:
            lines += [
                "",
                f"[{TABLE}]",
                *(f"{role} = {_format_toml(name)}" for role, name in self.columns.mapping.items()),
            ]
        return "\n".join(lines).strip() + "\n"


def _format_toml(value: Any) -> str:
    """A text or a list of texts as TOML. A JSON string is a basic string of TOML, except that DEL must be escaped in
    TOML."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_format_toml, value))}]"
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
