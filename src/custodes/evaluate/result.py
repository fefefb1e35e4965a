"""Results tell how they were made: tables with labels, notes on what is undefined or left out, a provenance."""

from __future__ import annotations

import importlib
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.metadata import version
from typing import Any

import numpy as np
import polars as pl

from custodes.data.notes import Note
from custodes.data.study import Study
from custodes.errors import OptionError, suggestion

Rng = int | np.random.Generator | None
"""A seed, a generator, or None for a fresh seed that is recorded; 0 is a seed like any other."""


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """How a result was made: enough to print as one line and to make it again."""

    question: str
    study: str
    digest: str
    options: Mapping[str, Any]
    seed: int | None
    versions: Mapping[str, str]
    dropped: tuple[Note, ...] = ()

    def __str__(self) -> str:
        given = {name: value for name, value in self.options.items() if value is not None}
        parts = [self.question, f"study={self.study}", f"digest={self.digest}"]
        parts += [f"{name}={value}" for name, value in given.items()]
        parts += [f"seed={self.seed}", *(f"{name}={number}" for name, number in self.versions.items())]
        return " | ".join(parts)

    def replay(self, study: Study) -> Any:
        """Ask the same question of a study again, with the same options and seed."""
        question = getattr(importlib.import_module("custodes"), self.question)
        return question(study, **self.options, rng=self.seed)


@dataclass(frozen=True, kw_only=True)
class Result:
    """What every question returns: its tables are the fields that hold a frame, the first one is the main table."""

    provenance: Provenance
    notes: tuple[Note, ...]

    def tables(self) -> dict[str, pl.DataFrame]:
        """Table name to Polars frame, in the order of the documentation."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, pl.DataFrame)}

    def to_frame(self, table: str | None = None) -> pl.DataFrame:
        """One table, by default the main one, as a Polars frame (`.to_pandas()` makes it pandas)."""
        tables = self.tables()
        name = table or next(iter(tables))
        if name not in tables:
            raise OptionError(
                f"{self.provenance.question} has no table {name!r}; tables: {', '.join(tables)}"
                f"{suggestion(name, tables)}"
            )
        return tables[name]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, as the command line writes it: provenance, notes, tables as lists of rows."""
        made = self.provenance
        return {
            "question": made.question,
            "provenance": {
                "study": made.study,
                "digest": made.digest,
                "options": dict(made.options),
                "seed": made.seed,
                "versions": dict(made.versions),
                "dropped": [_note(note) for note in made.dropped],
            },
            "notes": [_note(note) for note in self.notes],
            **{name: table.to_dicts() for name, table in self.tables().items()},
        }


def _note(note: Note) -> dict[str, Any]:
    return {"rule": note.rule, "message": note.message, "count": note.count}


def seeded(rng: Rng) -> tuple[np.random.Generator, int | None]:
    """A generator and the seed to record (None where the caller's own generator cannot be replayed)."""
    if isinstance(rng, np.random.Generator):
        return rng, None
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if rng is None else int(rng)
    return np.random.default_rng(seed), seed


def provenance(
    question: str, study: Study | None, *, options: Mapping[str, Any], seed: int | None, notes: Sequence[Note]
) -> Provenance:
    """The provenance of a result on a study (None: made from counts)."""
    return Provenance(
        question=question,
        study="counts" if study is None else study.name,
        digest="" if study is None else study.fingerprint(),
        options=dict(options),
        seed=seed,
        versions={
            "custodes": version("custodes"),
            "numpy": np.__version__,
            "polars": pl.__version__,
            "python": platform.python_version(),
        },
        dropped=tuple(note for note in notes if note.count),
    )


def columns(data: Mapping[str, Any]) -> pl.DataFrame:
    """A frame from flat sequences and arrays; NaN in an array of numbers becomes null (undefined)."""
    made = []
    for name, values in data.items():
        if isinstance(values, np.ndarray):
            series = pl.Series(name, np.ascontiguousarray(values).ravel())
            made.append(series.fill_nan(None) if series.dtype.is_float() else series)
        else:
            made.append(pl.Series(name, values))
    return pl.DataFrame(made)


def stacked(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The tables of all aspects below each other."""
    return pl.concat(frames, how="vertical_relaxed")


def between(name: str, value: float, low: float, high: float) -> float:
    """An option that must lie strictly between two numbers."""
    if not low < value < high:
        raise OptionError(f"{name}={value}: must lie between {low:g} and {high:g}, both excluded")
    return value


def at_least(name: str, value: int, least: int) -> int:
    """An option that must be an integer of at least some size."""
    if value != int(value) or value < least:
        raise OptionError(f"{name}={value}: must be a whole number of at least {least}")
    return int(value)
