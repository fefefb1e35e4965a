"""What is written beside a file of scores or verdicts, and what must not be: its raters table is read with it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import polars as pl

from custodes.console import tell
from custodes.data.loading import files_of_sidecar, load_table, sidecar_raters
from custodes.data.raters import Raters
from custodes.data.reading import takes_raters
from custodes.errors import InputError, OptionError, listed

STREAMED = "a stream carries no raters table; give --raters where it is read"


def beside(output: str | Path, ending: str) -> Path:
    """A file beside another: scores.csv.gz gives scores.raters.csv."""
    place = Path(output)
    return place.with_name(Path(place.name.removesuffix(".gz")).stem + ending)


def check_raters(places: Iterable[str | Path], output: str | Path) -> None:
    """Raise `OptionError` where a place is that of the raters table of another file of scores or verdicts than the
    output."""
    for place in map(Path, places):
        for file in files_of_sidecar(place):
            if os.path.realpath(file) != os.path.realpath(output) and takes_raters(file):
                raise OptionError(
                    f"cannot write {place}: it would be read with {file.name}, which stands beside it; name another"
                    " output, or take that file out"
                )


def raters_place(output: str, raters: Raters) -> Path | None:
    """Where the raters table of an output goes; None where the output read without one says the same of its raters,
    or with the one that lies beside it already."""
    known, found, place = Raters.infer(raters.kind), sidecar_raters(Path(output)), beside(output, ".raters.csv")
    try:
        for own in found:
            known, _ = known.described(load_table(own).frame, where=own.name)
        if len(found) < 2 and known.frame.equals(raters.frame):
            return None
    except InputError:
        pass  # it says something else
    other = [own for own in found if own != place]
    if other:
        raise OptionError(
            f"cannot write {output}: {listed(own.name for own in other)} beside it would be read with it, and says"
            " something else of its raters; name another output, or take that file out"
        )
    check_raters([place], output)
    return place


def tell_lower(raters: pl.DataFrame, why: str) -> None:
    """Tell of which raters lower is better, where those who read their scores cannot know it."""
    lower = raters.filter(~pl.col("higher_is_better"))["rater"]
    if lower.len():
        tell(f"note: lower is better: {listed(lower)}; {why}")
