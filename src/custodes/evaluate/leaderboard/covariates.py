"""Covariates of comparisons: differences between two outputs in properties other than quality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from custodes.data.comparisons import Comparisons
from custodes.data.panel import label_codes
from custodes.data.study import Study, select_aspect_rows
from custodes.errors import OptionError, join_labels, suggestion
from custodes.stats.arrays import Floats, Ints

LENGTH = "length"
"""The covariate computed from texts: log ratio of the numbers of words of two outputs."""

SHOWN_FIRST = "shown first"
"""The covariate for the presentation order; it is used if the order is known and varies."""


TIES = "ties"
"""Name of the tie parameter of the Davidson model in the table `effects`."""

UNITS: Mapping[str, str] = {
    TIES: "odds of a tie to a win",
    SHOWN_FIRST: "log odds",
    LENGTH: "log odds per log ratio of words",
}
OTHER_UNIT = "log odds per standard deviation"
"""Units of effects by covariate. Covariates without an entry are standardised."""


@dataclass(frozen=True, kw_only=True)
class Covariate:
    """A numeric property of outputs: `rows` has the columns item, system and value."""

    name: str
    rows: pl.DataFrame

    def differences(self, comparisons: Comparisons) -> Floats:
        """(n,): value of the first output minus value of the second output; NaN if a value is missing."""
        n_systems = len(comparisons.systems)
        item = label_codes(self.rows["item"], comparisons.items)
        system = label_codes(self.rows["system"], comparisons.systems)
        known_rows = np.flatnonzero((item >= 0) & (system >= 0))
        output_codes = item[known_rows] * n_systems + system[known_rows]
        order = np.argsort(output_codes)
        output_codes, values = output_codes[order], self.rows["value"].to_numpy()[known_rows][order]
        first, second = (
            _value_of(comparisons.item.astype(np.int64) * n_systems + system_of_comparison, output_codes, values)
            for system_of_comparison in (comparisons.first, comparisons.second)
        )
        return first - second


def _value_of(outputs: Ints, known_outputs: Ints, known_values: Floats) -> Floats:
    """Return the values of `outputs`, looked up in sorted `known_outputs` with `known_values`; NaN for unknown outputs.

    >>> _value_of(np.array([2, 5, 9]), np.array([2, 9]), np.array([0.1, 0.9])).tolist()
    [0.1, nan, 0.9]
    """
    if not known_outputs.size:
        return np.full(len(outputs), np.nan)
    row = np.searchsorted(known_outputs, outputs).clip(max=known_outputs.size - 1)
    return np.where(known_outputs[row] == outputs, known_values[row], np.nan)


def check_names(names: Sequence[str], study: Study) -> None:
    """Raise `OptionError` for a covariate that the study lacks."""
    score_raters = study.ratings.frame.filter(pl.col("item") != "")["rater"].unique(maintain_order=True).to_list()
    for name in names:
        if name == LENGTH and study.outputs is None:
            raise OptionError(
                f"covariates={LENGTH!r}: {study.name} has no texts whose words could be counted; add a file of outputs"
            )
        if name != LENGTH and name not in score_raters:
            raise OptionError(
                f"covariates={name!r}: no rater with this name gave scores{suggestion(name, [LENGTH, *score_raters])}; "
                f"allowed are {LENGTH} (needs texts) and raters with scores "
                f"({join_labels(score_raters) or 'this study has none'})"
            )


def covariate(name: str, study: Study, *, aspect: str) -> Covariate:
    """Return the covariate `name`: the log number of words, or a rater's scores in standard deviations."""
    if name == LENGTH:
        assert study.outputs is not None
        log_words = pl.col("text").str.count_matches(r"\S+").clip(1).log()
        return Covariate(name=name, rows=study.outputs.texts.select("item", "system", value=log_words))
    rows = select_aspect_rows(study.ratings.frame.filter(pl.col("item") != "", pl.col("rater") == name), aspect)
    means = rows.group_by("item", "system", maintain_order=True).agg(value=pl.col("score").mean())
    standard_deviation = means["value"].std() or 1.0  # constant scores are rejected later
    return Covariate(name=name, rows=means.with_columns(pl.col("value") / standard_deviation))
