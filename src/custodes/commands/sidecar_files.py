"""Sidecar files, which are written next to a file of scores or verdicts and are read together with this file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
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

STREAMED = "a stream has no raters table, so give --raters to the command that reads the stream"


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
    def make(cls, output: str | None, cache: str | None, **endings: str) -> OutputFiles:
        """The paths for an output, if there is one. `endings`: the suffixes of sidecar tables, by name of the table.

        A stream has no sidecar files."""
        if output is None or is_stream(output):
            path_of_table = {} if output is None else {"": Path(output)}
            return cls(tables=path_of_table, cache=None if cache in (None, NO_CACHE) else Path(cache))
        path_of_table = {"": Path(output)} | {name: sidecar_path(output, ending) for name, ending in endings.items()}
        cache_file = sidecar_path(output, ".cache.db") if cache is None else Path(cache)
        return cls(tables=path_of_table, cache=None if cache == NO_CACHE else cache_file)

    @property
    def follows(self) -> str:
        """A statement of what happens if the same command runs again after an interruption."""
        return f"results are stored in {self.cache}; repeat the command to continue" if self.cache else NOTHING_KEPT

    def check(self, inputs: Iterable[str | Path], *further_outputs: Path) -> None:
        """Raise an error before the work starts if an output cannot be written or would overwrite an input."""
        paths = [*self.tables.values(), *further_outputs, *([self.cache] if self.cache else [])]
        if self.tables:
            check_suffix(self.tables[""])
        for path in paths:
            check_writable(path)
        check_distinct_files(paths, inputs)
        if self.tables:
            check_raters(paths, self.tables[""])

    def write(self, tables: Mapping[str, pl.DataFrame], *, quote_formulas: bool = False) -> None:
        """Write the tables and print their paths. If a table is absent, an earlier file of this table is removed."""
        for name, path in self.tables.items():
            if name in tables:
                print_output_path(write_table(tables[name], path, quote_formulas=quote_formulas))
            else:
                path.unlink(missing_ok=True)


def check_raters(paths: Iterable[str | Path], output: str | Path) -> None:
    """Raise `OptionError` if a path would be read as the table of raters or probes of a file other than the output."""
    for path in map(Path, paths):
        kind = "probes" if PROBES in path.name else "raters table"
        for file in files_of_sidecar(path):
            if os.path.realpath(file) != os.path.realpath(output) and takes_raters(file):
                raise OptionError(
                    f"cannot write {path}: it would be read as the {kind} of {file.name} in the same "
                    f"folder; give another output, or move {file.name}"
                )


def raters_sidecar(output: str, raters: Raters) -> Path | None:
    """Path of the raters table of an output.

    The path is None if the reader infers the same raters without a table, or from an existing table in the folder.
    """
    inferred_raters, sidecars, path = (
        Raters.infer(raters.kind),
        sidecar_tables(Path(output), RATERS),
        sidecar_path(output, ".raters.csv"),
    )
    try:
        for sidecar in sidecars:
            inferred_raters, _ = inferred_raters.merge_side_table(load_table(sidecar).frame, where=sidecar.name)
        if len(sidecars) < 2 and inferred_raters.frame.equals(raters.frame):
            return None
    except InputError:
        pass  # a table in the folder contradicts the raters
    other_sidecars = [sidecar for sidecar in sidecars if sidecar != path]
    if other_sidecars:
        raise OptionError(
            f"cannot write {output}: {join_labels(sidecar.name for sidecar in other_sidecars)} in the same folder "
            "would be read with the output, but describes the raters differently; give another output, or remove the "
            "existing file"
        )
    check_raters([path], output)
    return path


def print_lower_is_better(raters: pl.DataFrame, reason: str) -> None:
    """Print a note on raters for which lower is better, with the reason why no raters table is written (`reason`)."""
    reversed_raters = raters.filter(~pl.col("higher_is_better"))["rater"]
    if reversed_raters.len():
        print_diagnostic(f"note: lower scores are better for {join_labels(reversed_raters)}; {reason}")
