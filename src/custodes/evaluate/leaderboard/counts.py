"""Models of a leaderboard that are fitted to counts instead of a study."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import polars as pl

from custodes.answers.shared_arguments import PreferenceOptions
from custodes.data.notes import Note, build_notes
from custodes.data.outcome_counts import SIGNS, OutcomeCounts
from custodes.errors import InputError, OptionError, join_labels
from custodes.evaluate.clusters import check_default
from custodes.evaluate.leaderboard.bradley_terry import Model, Options, fit_counts
from custodes.evaluate.leaderboard.notes import uncorrected_notes


def models_of_counts(counts: OutcomeCounts, options: Options) -> tuple[list[Model], list[Note]]:
    """Return the models of counts, which have one aspect, and notes on the limitations of counts."""
    n_battles_of_rater = dict(counts.outcomes.group_by("rater").agg(pl.sum_horizontal(list(SIGNS)).sum()).iter_rows())
    dependent_raters = [rater for rater in counts.raters if counts.items.get(rater, 0) < n_battles_of_rater[rater]]
    model_specs: list[Model] = [
        (
            "",
            rater,
            f"|{rater}",
            partial(
                fit_counts,
                counts.outcomes.filter(rater=rater),
                systems=counts.systems,
                independent=rater not in dependent_raters,
                options=options,
            ),
        )
        for rater in counts.raters
    ]
    return model_specs, [
        *build_notes(
            (
                "counts-share-items",
                bool(dependent_raters),
                f"{join_labels(dependent_raters, limit=4)}: counts do not record which comparisons share an item, so "
                "there are no intervals and no tests; for intervals and tests, give the study instead of counts",
            )
        ),
        *uncorrected_notes(counts),
    ]


def check_counts(systems: Sequence[str], covariates: Sequence[str], setting: PreferenceOptions) -> None:
    """Raise `OptionError` for options that need more than counts, and `InputError` for fewer than two systems."""
    if covariates:
        raise OptionError(
            f"covariates={covariates[0]!r}: counts contain no texts and no scores; give the study instead of counts"
        )
    check_default(setting)
    if len(systems) < 2:
        raise InputError(f"counts: {len(systems)} systems are not enough; give counts of at least two systems")
