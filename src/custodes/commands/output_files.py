"""Files that `score`, `judge` and `convert` write: tables and their sidecar files.

Sidecar files are written next to a file of scores or verdicts and are read together with this file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from custodes.console import print_diagnostic
from custodes.data.loading import PROBES, RATERS, files_of_sidecar, load_table, sidecar_tables
from custodes.data.raters import Raters
from custodes.data.reading import takes_raters
from custodes.data.writing import check_suffix, write_table
from custodes.errors import InputError, OptionError, join_labels
from custodes.files import check_distinct_files, check_writable, is_stream
from custodes.options import print_output_path
from custodes.process import NOTHING_KEPT

NO_CACHE = "none"
"""Value of `--cache` that disables the cache."""

STREAMED = "a stream has no raters table, so give a raters table (--raters) to the command that reads the stream"


def sidecar_path(output: str | Path, ending: str) -> Path:
    """Path of a sidecar file. For example, the raters table of scores.csv.gz is scores.raters.csv."""
    path = Path(output)
    return path.with_name(Path(path.name.removesuffix(".gz")).stem + ending)


@dataclass(frozen=True, kw_only=True)
class OutputFiles:
    """Output files of scores or verdicts: the table (key ''), the tables next to this file by name, and the cache."""

    tables: Mapping[str, Path]
    cache: Path | None

    @classmethod
    def make(cls, output: str | None, cache: str | None, **suffix_of_table: str) -> OutputFiles:
        """The paths for an output; empty without an output. `suffix_of_table`: the suffixes of sidecar tables, by name
        of the table. A stream has no sidecar files."""
        path_of_table = {} if output is None else {"": Path(output)}
        cache_path = None if cache in (None, NO_CACHE) else Path(cache)
        if output is not None and not is_stream(output):
            path_of_table |= {
                table_name: sidecar_path(output, sidecar_suffix)
                for table_name, sidecar_suffix in suffix_of_table.items()
            }
            cache_path = sidecar_path(output, ".cache.db") if cache is None else cache_path
        return cls(tables=path_of_table, cache=cache_path)

    @property
    def follows(self) -> str:
        """A statement of what happens if the same command runs again after an interruption."""
        return f"results are stored in {self.cache}; repeat the command to continue" if self.cache else NOTHING_KEPT

    def check(self, input_paths: Iterable[str | Path], *further_outputs: Path) -> None:
        """Raise an error before the work starts if an output cannot be written or would overwrite an input."""
        output_paths = [*self.tables.values(), *further_outputs, *([self.cache] if self.cache else [])]
        if self.tables:
            check_suffix(self.tables[""])
        for output_path in output_paths:
            check_writable(output_path)
        check_distinct_files(output_paths, input_paths)
        if self.tables:
            check_raters(output_paths, self.tables[""])

    def write(self, frame_of_table: Mapping[str, pl.DataFrame], *, quote_formulas: bool = False) -> None:
        """Write the tables and print their paths. If a table is absent, an earlier file of this table is removed."""
        for table_name, table_path in self.tables.items():
            if table_name in frame_of_table:
                print_output_path(write_table(frame_of_table[table_name], table_path, quote_formulas=quote_formulas))
            else:
                table_path.unlink(missing_ok=True)


def check_raters(output_paths: Iterable[str | Path], ratings_path: str | Path) -> None:
    """Raise `OptionError` if an output path would be read as the raters or probes table of another file in the
    folder."""
    for output_path in map(Path, output_paths):
        table_kind_text = "probes" if PROBES in output_path.name else "raters table"
        for data_file_path in files_of_sidecar(output_path):
            if os.path.realpath(data_file_path) != os.path.realpath(ratings_path) and takes_raters(data_file_path):
                raise OptionError(
                    f"cannot write {output_path}: it would be read as the {table_kind_text} of {data_file_path.name} "
                    f"in the same folder; give another output, or move {data_file_path.name}"
                )


def raters_sidecar(output: str, raters: Raters) -> Path | None:
    """Path of the raters table of an output.

    The path is None if no table is needed, because the reader infers the same raters, or because the folder already
    contains an equal table.
    """
    inferred_raters = Raters.infer(raters.kind)
    existing_sidecar_paths, new_sidecar_path = sidecar_tables(Path(output), RATERS), sidecar_path(output, ".raters.csv")
    with suppress(InputError):  # a table in the folder contradicts the raters
        for existing_path in existing_sidecar_paths:
            inferred_raters, _ = inferred_raters.merge_side_table(
                load_table(existing_path).frame, where=existing_path.name
            )
        if len(existing_sidecar_paths) < 2 and inferred_raters.frame.equals(raters.frame):
            return None
    conflicting_sidecar_paths = [
        existing_path for existing_path in existing_sidecar_paths if existing_path != new_sidecar_path
    ]
    if conflicting_sidecar_paths:
        raise OptionError(
            f"cannot write {output}: {join_labels(existing_path.name for existing_path in conflicting_sidecar_paths)} "
            "in the same folder would be read with the output, but describes the raters differently; give another "
            "output, or remove the existing file"
        )
    check_raters([new_sidecar_path], output)
    return new_sidecar_path


def print_lower_is_better(raters: pl.DataFrame, reason: str) -> None:
    """Print a note on raters for which lower is better, with the reason why no raters table is written (`reason`)."""
    reversed_raters = raters.filter(~pl.col("higher_is_better"))["rater"]
    if reversed_raters.len():
        print_diagnostic(f"note: lower scores are better for {join_labels(reversed_raters)}; {reason}")


def print_next_step(file: Path, *, has_labels: bool) -> None:
    """Print the command that reads a new file of scores, verdicts or labels."""
    print_diagnostic(
        f"next: custodes rates {file}, with a file of human labels of some outputs (custodes labelling {file} selects "
        "the outputs)"
        if has_labels
        else f"next: custodes report {file}, with a file of human ratings if you have one (custodes annotate new "
        "collects them)"
    )
