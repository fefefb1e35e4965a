"""What is written beside a file of scores or verdicts, and what must not be: its raters table is read with it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from custodes.console import tell
from custodes.data.loading import files_of_sidecar, load_table, sidecar_raters
from custodes.data.raters import Raters
from custodes.data.reading import takes_raters
from custodes.data.writing import check_suffix, write_table
from custodes.errors import InputError, OptionError, listed
from custodes.files import check_distinct_files, check_writable, is_stream
from custodes.options import say_written
from custodes.process import NOTHING_KEPT

NO_CACHE = "none"
"""The value of `--cache` that keeps no answers."""

STREAMED = "a stream carries no raters table; give --raters where it is read"


def sidecar_path(output: str | Path, ending: str) -> Path:
    """A file beside another: scores.csv.gz gives scores.raters.csv."""
    place = Path(output)
    return place.with_name(Path(place.name.removesuffix(".gz")).stem + ending)


@dataclass(frozen=True, kw_only=True)
class OutputFiles:
    """Files of scores or verdicts: their table (under ''), tables beside it by name, and the cache of answers."""

    tables: Mapping[str, Path]
    cache: Path | None

    @classmethod
    def make(cls, output: str | None, cache: str | None, **endings: str) -> OutputFiles:
        """The places of an output, if any; nothing stands beside a stream. `endings`: name of a table to its ending."""
        if output is None or is_stream(output):
            tables = {} if output is None else {"": Path(output)}
            return cls(tables=tables, cache=None if cache in (None, NO_CACHE) else Path(cache))
        tables = {"": Path(output)} | {name: sidecar_path(output, ending) for name, ending in endings.items()}
        cache_file = sidecar_path(output, ".cache.db") if cache is None else Path(cache)
        return cls(tables=tables, cache=None if cache == NO_CACHE else cache_file)

    @property
    def follows(self) -> str:
        """What the same command does after a stop."""
        return f"answers are kept in {self.cache}; the same command resumes" if self.cache else NOTHING_KEPT

    def check(self, read: Iterable[str | Path], *written: Path) -> None:
        """Refuse, before the work, what could not be written after it, and what would be written over what is read."""
        places = [*self.tables.values(), *written, *([self.cache] if self.cache else [])]
        if self.tables:
            check_suffix(self.tables[""])
        for place in places:
            check_writable(place)
        check_distinct_files(places, read)
        if self.tables:
            check_raters(places, self.tables[""])

    def write(self, tables: Mapping[str, pl.DataFrame], *, quote_formulas: bool = False) -> None:
        """Write tables to their places, and print these."""
        for name, place in self.tables.items():
            say_written(write_table(tables[name], place, quote_formulas=quote_formulas))


def check_raters(places: Iterable[str | Path], output: str | Path) -> None:
    """Raise `OptionError` where a place is that of the raters table of another file of scores or verdicts than the
    output."""
    for place in map(Path, places):
        for file in files_of_sidecar(place):
            if os.path.realpath(file) != os.path.realpath(output) and takes_raters(file):
                raise OptionError(
                    f"cannot write {place}: it would be read as the raters table of {file.name} in the same "
                    "folder; name another output, or move that file"
                )


def raters_sidecar(output: str, raters: Raters) -> Path | None:
    """Where the raters table of an output goes; None where the output read without one says the same of its raters,
    or with the one that lies beside it already."""
    inferred, sidecars, place = (
        Raters.infer(raters.kind),
        sidecar_raters(Path(output)),
        sidecar_path(output, ".raters.csv"),
    )
    try:
        for sidecar in sidecars:
            inferred, _ = inferred.described(load_table(sidecar).frame, where=sidecar.name)
        if len(sidecars) < 2 and inferred.frame.equals(raters.frame):
            return None
    except InputError:
        pass  # it says something else
    other = [sidecar for sidecar in sidecars if sidecar != place]
    if other:
        raise OptionError(
            f"cannot write {output}: {listed(sidecar.name for sidecar in other)} in its folder would be read with it"
            " and describes its raters differently; name another output, or remove that file"
        )
    check_raters([place], output)
    return place


def print_lower_is_better(raters: pl.DataFrame, why: str) -> None:
    """Tell of which raters lower is better, where those who read their scores cannot know it."""
    lower = raters.filter(~pl.col("higher_is_better"))["rater"]
    if lower.len():
        tell(f"note: lower is better: {listed(lower)}; {why}")
