"""Results: declared tables, notes on undefined or excluded values, and a provenance."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from html import escape
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform
from zlib import crc32

import numpy as np
import polars as pl

import custodes as cu
from custodes.answers import formats
from custodes.answers.tables import TABLE, Table, TableData, View, table, with_attributes
from custodes.answers.views import views
from custodes.arguments import check_arguments
from custodes.control_characters import escape_controls
from custodes.data.notes import Note, merge_notes
from custodes.errors import CustodesError, OptionError, join_labels, short_repr, suggestion


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Record of how a result was computed.

    The record is printed as one line. If the record has a seed, the record and the data are enough to repeat the
    computation. `counted`: if the data are counts, the options that were used for counting.
    """

    question: str
    study: str
    digest: str
    options: Mapping[str, Any]
    seed: int | None
    versions: Mapping[str, str]
    dropped: tuple[Note, ...] = ()
    counted: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        value_of_entry = {"study": self.study, "digest": self.digest or None, **self.counted, **self.options}
        entry_texts = [
            self.question,
            # Options that are False are not printed: after `gate`, `status=False` would look like a failed gate.
            *(
                f"{entry_name}={_text(entry_value)}"
                for entry_name, entry_value in value_of_entry.items()
                if entry_value is not None and entry_value is not False
            ),
            f"seed={self.seed}",
            *(f"{package}={version}" for package, version in self.versions.items()),
        ]
        return escape_controls(" | ".join(entry_texts))

    def replay(self, study: Any = None) -> Any:
        """Repeat the question with the same options and seed. `study` must hold the data of the original computation.

        Raises `OptionError` if the result has no seed because the caller passed a generator.
        """
        if self.seed is None:
            raise OptionError(
                f"{self.question}: a result that was computed with a generator cannot be repeated; compute the "
                "result again with a seed as rng"
            )
        return getattr(cu, self.question)(*([] if study is None else [study]), **self.options, rng=self.seed)


MOST_PICTURES = 4
"""Maximum number of aspects whose main chart a notebook displays."""

NOT_SENT = Provenance(question="", study="", digest="", options={}, seed=None, versions={})


T = TypeVar("T")


def _declared_tables(result_class: Any) -> dict[str, Table]:
    return {
        class_field.name: class_field.metadata[TABLE]
        for class_field in fields(result_class)
        if TABLE in class_field.metadata
    }


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(table,))
def result(cls: type[T]) -> type[T]:
    """Turn a class with declared tables into a result: a frozen dataclass with keyword fields."""
    frozen_class = dataclass(frozen=True, kw_only=True, repr=False)(cls)
    frozen_class.__doc__ = with_attributes(frozen_class.__doc__, _declared_tables(frozen_class))
    return frozen_class


@result
class Result:
    """Base class of all results. The tables of a result are its declared fields; the first table is the main table."""

    provenance: Provenance = field(default=NOT_SENT)
    notes: tuple[Note, ...] = ()

    PICTURE: ClassVar[str] = ""
    """The function of `custodes.plots` that draws the main chart."""

    BY: ClassVar[str] = "aspect"
    """Default name of the column before the declared columns of a table. A table can declare another name (`by`)."""

    @classmethod
    @cache
    def table_declarations(cls) -> dict[str, Table]:
        """The declaration of each table by table name, in the order of the documentation."""
        return {
            table_name: declaration if declaration.by is not None else replace(declaration, by=cls.BY)
            for table_name, declaration in _declared_tables(cls).items()
        }

    def tables(self) -> dict[str, pl.DataFrame]:
        """The Polars frame of each table by table name, in the order of the documentation."""
        return {name: getattr(self, name) for name in self.table_declarations()}

    @check_arguments
    def to_frame(self, table: str | None = None) -> pl.DataFrame:
        """The named table (default: the main table) as a Polars frame; `.to_pandas()` converts it to pandas."""
        frame_of_table = self.tables()
        table_name = next(iter(frame_of_table)) if table is None else table
        if table_name not in frame_of_table:
            raise OptionError(
                f"{self.provenance.question} has no table {short_repr(table_name)}; tables: {', '.join(frame_of_table)}"
                f"{suggestion(table_name, frame_of_table)}"
            )
        return frame_of_table[table_name]

    @check_arguments
    def views(self, table: str | None = None) -> Iterator[View]:
        """The views of the essential tables, or of the named table with all columns."""
        for table_name in self.table_declarations() if table is None else [table]:
            frame, declaration = self.to_frame(table_name), self.table_declarations()[table_name]
            if table is not None:
                yield from views(declaration, frame, table_name, all_columns=True)
            elif declaration.essential and not frame.is_empty():
                relevant_rows = declaration.rows(self) if declaration.rows else frame
                yield from views(
                    declaration, relevant_rows, table_name, n_omitted_rows=frame.height - relevant_rows.height
                )

    def note_texts(self) -> Iterator[str]:
        """The notes as sentences."""
        return (note.message for note in merge_notes(self.notes))

    def with_provenance(self, provenance: Provenance) -> Self:
        """The result with its provenance."""
        return replace(self, provenance=provenance)

    @property
    def status(self) -> int:
        """Exit status of the command line: 0 success, 1 problems found, 3 inconclusive (2 means invalid input)."""
        return 0

    def to_dict(self) -> dict[str, Any]:
        """The provenance, the notes and the tables (as lists of rows) as plain values, as in the JSON of a command."""
        return self.to_values() | {table_name: frame.to_dicts() for table_name, frame in self.tables().items()}

    def to_values(self) -> dict[str, Any]:
        """The same values as `to_dict`, except that the tables are frames."""
        provenance_values = _plain(self.provenance)
        if not self.provenance.counted:
            del provenance_values["counted"]
        return {
            "question": self.provenance.question,
            "provenance": provenance_values,
            "notes": [_plain(note) for note in self.notes],
            **self.tables(),
        }

    @classmethod
    def part(cls, label: str = "", **data: TableData) -> dict[str, pl.DataFrame]:
        """The tables of one aspect (or target), built from their columns or rows (see `Table.frame`).

        Declared tables without data are empty.

        Raises
        ------
        ValueError
            If a table is not declared, or if the columns of the data differ from the declared columns.
        """
        if unknown_table_names := [table_name for table_name in data if table_name not in cls.table_declarations()]:
            raise ValueError(f"{cls.__name__} declares no table {join_labels(map(repr, unknown_table_names))}")
        return {
            table_name: declaration.frame(data.get(table_name, ()), label, name=f"{cls.__name__}.{table_name}")
            for table_name, declaration in cls.table_declarations().items()
        }

    @classmethod
    def from_parts(
        cls, parts: Sequence[Mapping[str, pl.DataFrame]], notes: Iterable[Note], **other_fields: Any
    ) -> Self:
        """The result with the concatenated tables of all parts, and with each note once."""
        joined_frame_of_table: dict[str, Any] = {
            table_name: pl.concat([frame_of_table[table_name] for frame_of_table in parts])
            for table_name in cls.table_declarations()
        }
        return cls(notes=tuple(dict.fromkeys(notes)), **joined_frame_of_table, **other_fields)

    def to_markdown(self, table: str | None = None) -> str:
        """The essential tables (or the named table with all columns) in Markdown.

        Intervals are in brackets, and the best values are in bold.
        """
        return formats.markdown(self.views(table))

    @check_arguments
    def to_latex(self, table: str | None = None, *, compact: bool = False) -> str:
        """The tables in LaTeX, for the package booktabs.

        Parameters
        ----------
        table : str, optional
            Name of the table to write with all columns (default: all essential tables with their essential columns).
        compact : bool, default False
            Whether to write the main table (or `table`) so that it fits into one column of a paper. The narrow table
            has at most two estimates with intervals, and significance letters as superscripts. Only a row that is
            significantly the best is bold.

        Returns
        -------
        str
            One `tabular` environment per table and aspect, each below a comment with the name of the table.

        Raises
        ------
        OptionError
            If the result has no such table.

        Examples
        --------
        >>> import custodes as cu
        >>> result = cu.agreement(cu.read("demo"), aspect="fluency", metrics="judge,noise", resamples=50)
        >>> print(result.to_latex(compact=True).splitlines()[2])
        {\\small\\setlength{\\tabcolsep}{4pt}%
        """
        if not compact:
            return formats.latex(self.views(table))
        table_name = table or next(iter(self.table_declarations()))
        full_frame, declaration = self.to_frame(table_name), self.table_declarations()[table_name]
        relevant_rows = declaration.rows(self) if declaration.rows else full_frame
        estimate_names = declaration.compact(self) if declaration.compact else ()
        return formats.compact_latex(declaration, relevant_rows, table_name, estimate_names) + "\n"

    def to_html(self, table: str | None = None) -> str:
        """The tables as a small HTML page, with the notes and the provenance."""
        return formats.page(f"{self.provenance.question}: {self.provenance.study}", self._html(table))

    def _html(self, table: str | None = None) -> str:
        note_items_html = "".join(f"<li>{escape(note)}</li>\n" for note in self.note_texts())
        note_list_html = f"<ul>\n{note_items_html}</ul>\n" if note_items_html else ""
        return (
            f"{formats.html(self.views(table))}\n{note_list_html}<p><small>{escape(str(self.provenance))}</small></p>\n"
        )

    def _repr_html_(self) -> str:
        """HTML for a notebook: the main chart of each aspect as SVG, the essential tables, the notes and provenance."""
        return "\n".join([*self._pictures(), self._html()])

    def _pictures(self) -> Iterator[str]:
        """The main chart of each aspect as SVG; charts that cannot be drawn are left out."""
        if not self.PICTURE:
            return
        has_aspect_parameter = "aspect" in inspect.signature(getattr(cu.plots, self.PICTURE)).parameters
        main_frame = self.to_frame()
        aspects = main_frame["aspect"].unique(maintain_order=True).to_list() if "aspect" in main_frame.columns else []
        for aspect in aspects[:MOST_PICTURES] if has_aspect_parameter else [None]:
            with suppress(CustodesError):
                svg = (
                    self.plot(**({} if aspect is None else {"aspect": aspect}))
                    ._repr_mimebundle_()
                    .get("image/svg+xml", "")
                )
                # The charts of a page must not share ids.
                yield re.sub(r'( id="|url\(#|href="#)', rf"\g<1>p{crc32(svg.encode())}-", svg)

    def plot(self, **options: Any) -> Any:
        """The main chart as an Altair chart.

        `options` are the options of the function in `custodes.plots` that draws the chart. A notebook displays the
        chart as SVG, without a network connection.

        Raises `OptionError` if the result has no chart, or if an option of the chart is unknown.
        """
        if not self.PICTURE:
            raise OptionError(
                f"{self.provenance.question} has no chart; its tables: {', '.join(self.table_declarations())}"
            )
        draw_chart = getattr(cu.plots, self.PICTURE)
        _, *option_names = inspect.signature(draw_chart).parameters
        for option_name in options:
            if option_name not in option_names:
                raise OptionError(
                    f"the chart {self.PICTURE} has no option {option_name!r}; options: "
                    f"{', '.join(option_names)}{suggestion(option_name, option_names)}"
                )
        return check_arguments(draw_chart)(self, **options)

    def __str__(self) -> str:
        """The essential tables, the notes and the provenance as text of the width of the terminal."""
        from custodes.answers.printing import format_result

        return format_result(self)

    def __repr__(self) -> str:
        sizes_text = ", ".join(f"{table_name} ({frame.height} rows)" for table_name, frame in self.tables().items())
        return escape_controls(f"<{type(self).__name__} of {self.provenance.study}: {sizes_text}>")


def _text(value: Any) -> str:
    """The value of an option on one line; several values are separated by commas."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, tuple | list):
        # Entries with several parts contain commas.
        return ("; " if any(", " in str(element) for element in value) else ", ").join(map(str, value))
    return str(value)


def _plain(value: Any) -> Any:
    """A value converted to plain values; a record becomes a mapping of its fields, except `question`."""
    if is_dataclass(value):
        return {
            dataclass_field.name: _plain(getattr(value, dataclass_field.name))
            for dataclass_field in fields(value)
            if dataclass_field.name != "question"
        }
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(nested_value) for key, nested_value in value.items()}
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()  # a file name that is not UTF-8; JSON holds text only
    return [_plain(nested_value) for nested_value in value] if isinstance(value, tuple | list) else value
