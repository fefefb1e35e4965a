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

KNOWN_ORDERS = 0.1
"""Strengths are adjusted for the presentation order only if at least this proportion of comparisons has a known order.

Comparisons that are merged over both orders carry no information on the effect of the order."""

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
        """Value of the first output minus value of the second output, (n,); NaN if a value is missing."""
        n_systems = len(comparisons.systems)
        output_value_table = self.rows.select(
            "value",
            item=pl.Series(label_codes(self.rows["item"], comparisons.items)),
            system=pl.Series(label_codes(self.rows["system"], comparisons.systems)),
        ).filter(pl.col("item") >= 0, pl.col("system") >= 0)
        output_value_table = output_value_table.select("value", code=pl.col("item") * n_systems + pl.col("system"))
        first_values, second_values = (
            pl.DataFrame({"code": comparisons.item.astype(np.int64) * n_systems + system_of_comparison})
            .join(output_value_table, on="code", how="left", maintain_order="left")["value"]
            .fill_null(np.nan)
            .to_numpy()
            for system_of_comparison in (comparisons.first, comparisons.second)
        )
        return np.asarray(first_values - second_values)


def check_names(covariate_names: Sequence[str], study: Study) -> None:
    """Raise `OptionError` for a covariate that the study lacks."""
    scoring_rater_names = (
        study.ratings.frame.filter(pl.col("item") != "")["rater"].unique(maintain_order=True).to_list()
    )
    for covariate_name in covariate_names:
        if covariate_name == LENGTH and study.outputs is None:
            raise OptionError(
                f"covariates={LENGTH!r}: {study.name} has no texts whose words could be counted; add a file of outputs"
            )
        if covariate_name != LENGTH and covariate_name not in scoring_rater_names:
            raise OptionError(
                f"covariates={covariate_name!r}: no rater with this name gave scores"
                f"{suggestion(covariate_name, [LENGTH, *scoring_rater_names])}; "
                f"allowed are {LENGTH} (needs texts) and raters with scores "
                f"({join_labels(scoring_rater_names) or 'this study has none'})"
            )


def covariate(name: str, study: Study, *, aspect: str) -> Covariate:
    """Return the covariate `name`: the log number of words, or a rater's scores in standard deviations."""
    if name == LENGTH:
        assert study.outputs is not None
        return Covariate(
            name=name,
            rows=study.outputs.texts.select(
                "item", "system", value=pl.col("text").str.count_matches(r"\S+").clip(1).log()
            ),
        )
    mean_score_table = (
        select_aspect_rows(study.ratings.frame.filter(pl.col("item") != "", pl.col("rater") == name), aspect)
        .group_by("item", "system", maintain_order=True)
        .agg(value=pl.col("score").mean())
    )
    return Covariate(
        name=name, rows=mean_score_table.with_columns(pl.col("value") / (mean_score_table["value"].std() or 1.0))
    )


def order_matters(pair_codes: Ints, presentation_orders: Floats, n_comparisons: Ints | None = None) -> bool:
    """Whether the presentation order of enough comparisons is known, and some pair was shown in both orders.

    `pair_codes` and `presentation_orders` (n,) describe the rows. `n_comparisons` (n,) is the number of comparisons in
    each row; None means 1.
    """
    is_known_order = np.abs(presentation_orders) == 1
    if not is_known_order.any() or np.average(is_known_order, weights=n_comparisons) < KNOWN_ORDERS:
        return False
    return bool(np.intersect1d(pair_codes[presentation_orders == 1], pair_codes[presentation_orders == -1]).size)
