"""Results as tables in the terminal: the essential columns, fitted to the width of the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from custodes.control_characters import escape_controls

if TYPE_CHECKING:
    from custodes.answers.result import Result
    from custodes.answers.tables import View

LONG_HEADER = 10
GAP = 2


class PipeSafeConsole(Console):
    """A Rich console that leaves broken pipes to `quiet_pipe`, because Rich itself would exit with status 1."""

    def on_broken_pipe(self) -> None:
        """Raise the error again. Rich calls this method while it handles a broken pipe."""
        raise


def print_result(result: Result, console: Console, *, table: str | None = None) -> None:
    """Print the essential tables of a result (or the named table with all columns) on a console."""
    console.print(
        Group(
            *[renderable for view in result.views(table) for renderable in _grids(view, console.width)],
            *[Text(escape_controls(f"note: {note}"), style="dim") for note in result.note_texts()],
            Text(escape_controls(str(result.provenance)), style="dim"),
        )
    )


def format_result(result: Result) -> str:
    """The essential tables of a result as text of the width of the terminal (80 columns if there is no terminal)."""
    text_buffer = StringIO()
    print_result(
        result,
        Console(
            file=text_buffer,
            width=get_terminal_size().columns,
            color_system=None,
            force_terminal=False,
            force_jupyter=False,
            highlight=False,
        ),
    )
    return "\n".join(output_line.rstrip() for output_line in text_buffer.getvalue().splitlines())


def _grids(view: View, width: int) -> Iterator[RenderableType]:
    """A view as one table, or as several tables if one is too wide. Each table begins with the label columns."""
    if view.title:
        yield Text(escape_controls(view.title), style="italic")
    cell_rows = [[escape_controls(cell) for cell in row_cells] for row_cells in view.rows]
    column_headers = [
        column_name.replace("_", "\n").replace(" (", "\n(") if len(column_name) > LONG_HEADER else column_name
        for column_name in map(escape_controls, view.header)
    ]
    column_widths = [
        max(map(cell_len, [*header.split("\n"), *(row_cells[column_position] for row_cells in cell_rows)])) + GAP
        for column_position, header in enumerate(column_headers)
    ]
    n_label_columns = list(view.numeric).index(True) if True in view.numeric else len(column_headers)
    free_width = width + GAP - sum(column_widths[:n_label_columns])
    column_index_blocks: list[list[int]] = [[]]
    for column_index in range(n_label_columns, len(column_headers)):
        if (
            column_index_blocks[-1]
            and sum(column_widths[column_position] for column_position in [*column_index_blocks[-1], column_index])
            > free_width
        ):
            column_index_blocks.append([])
        column_index_blocks[-1].append(column_index)
    for block_column_indices in column_index_blocks if column_headers else []:
        column_indices = [*range(n_label_columns), *block_column_indices]
        console_table = Table(
            box=SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False, padding=(0, 1, 0, 0)
        )
        for column_position in column_indices:
            console_table.add_column(
                Text(column_headers[column_position]),
                justify="right" if view.numeric[column_position] else "left",
                overflow="fold",
            )
        for row_cells in cell_rows:
            console_table.add_row(*(Text(row_cells[column_position]) for column_position in column_indices))
        yield from (console_table, Text(""))
    if view.more:
        yield Text("\n".join([*map(escape_controls, view.more.splitlines()), ""]), style="dim")
