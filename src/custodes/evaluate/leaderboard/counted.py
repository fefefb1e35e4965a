"""Standings from counts: what battles say whose rows never left their engine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from custodes.data.cells import SIGNS, OutcomeCounts
from custodes.data.notes import Note
from custodes.data.panel import label_codes
from custodes.errors import InputError, OptionError, listed
from custodes.evaluate.leaderboard.contest import Standing, TieModel, order_matters, standing
from custodes.evaluate.leaderboard.covariates import SHOWN_FIRST
from custodes.stats.strength.battles import Battles
from custodes.stats.strength.win_rates import beyond_systems


@dataclass(frozen=True, kw_only=True)
class Tally:
    """The counts of one rater: `arrays`, whose rows stand for several battles; `alone`, whether every battle is of an
    item of its own, so that errors follow from counts."""

    rater: str
    arrays: Battles
    alone: bool
    unvaried: tuple[str, ...]

    @property
    def label(self) -> str:
        """What its random numbers hang on: as of battles without an aspect."""
        return f"|{self.rater}"


def tallies(counts: OutcomeCounts) -> tuple[tuple[str, ...], list[Tally], list[Note]]:
    """The systems, a tally for each rater, and what a reader must know.

    Raises `InputError` where there are fewer than two systems or no battle.
    """
    systems = counts.systems
    if len(systems) < 2:
        raise InputError(f"counts: {len(systems)} systems; a leaderboard compares two or more")
    made = [_tally(counts, rater, systems) for rater in counts.raters]
    shared = [tally.rater for tally in made if not tally.alone]
    notes = list(counts.notes)
    if shared:
        told = (
            f"{listed(shared, limit=4)}: counts do not say which battles are of one item, and some are (or may be), so"
            " there are no intervals and no tests; give the study itself for these"
        )
        notes.append(Note(rule="counts-share-items", message=told))
    return systems, made, notes


def _tally(counts: OutcomeCounts, rater: str, systems: tuple[str, ...]) -> Tally:
    rows = counts.outcomes.filter(pl.col("rater") == rater)
    first, second = (label_codes(rows[name], systems) for name in ("system_a", "system_b"))
    order, outcomes = rows["order"].to_numpy(), rows.select(list(SIGNS)).to_numpy()
    varied, unvaried = np.empty((len(rows), 0)), tuple[str, ...]()
    battles = outcomes.sum(axis=1)
    if order_matters(first * len(systems) + second, order, battles):
        told = order[:, np.newaxis]
        if beyond_systems(told, first, second, n_systems=len(systems)).all():
            varied = told
        else:
            unvaried = (SHOWN_FIRST,)
    row, cell = np.nonzero(outcomes)
    times = outcomes[row, cell]
    arrays = Battles(
        first=first[row],
        second=second[row],
        sign=np.array([*SIGNS.values()], dtype=np.int8)[cell],
        unit=np.arange(len(row)),
        weight=np.ones(len(row)),
        covariates=varied[row],
        times=times,
    )
    alone = counts.items.get(rater, 0) >= int(times.sum())
    return Tally(rater=rater, arrays=arrays, alone=alone, unvaried=unvaried)


def standing_of(
    own: Tally, rng: np.random.Generator, *, n_systems: int, tie_model: TieModel, confidence: float, resamples: int
) -> Standing:
    """The standing that counts give; without intervals where battles share items."""
    effects = (SHOWN_FIRST,) * own.arrays.covariates.shape[1]
    return standing(
        own.arrays,
        rng,
        n_systems=n_systems,
        tie_model=tie_model,
        confidence=confidence,
        resamples=resamples if own.alone else 0,
        known_errors=own.alone,
        effects=effects,
        unvaried=own.unvaried,
        missing=0,
    )


def refuse_more(covariates: tuple[str, ...], setting: dict[str, object], defaults: dict[str, object]) -> None:
    """Refuse what counts cannot be asked."""
    if covariates:
        raise OptionError(f"covariates={covariates[0]!r}: counts know no texts and no scores; give the study itself")
    for name, value in setting.items():
        if value != defaults[name]:
            raise OptionError(f"{name}: counts are already selected and settled; give it when counting")
