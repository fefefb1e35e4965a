"""Consistency in slices of items: position, repeats and failures."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from custodes.data.panel import label_codes
from custodes.data.study import Study
from custodes.evaluate.consistency.orders import both_orders
from custodes.evaluate.consistency.rater_preferences import OUTPUT, RaterPreferences, repeated_labels
from custodes.evaluate.consistency.repeats import equal_runs
from custodes.evaluate.slices import Ratios

FAILED = "failure_rate"


def ratios_of(study: Study, part: RaterPreferences) -> Ratios:
    """Return the ratios of every rater, with numerators and denominators as sums by item."""
    labels, sums = list[tuple[str, str]](), list[np.ndarray]()
    n = len(part.design.items)
    for name, rows in _rows(study, part):
        for rater in rows["rater"].unique().sort().to_list():
            of_rater = rows.filter(rater=rater)
            if name == FAILED and not of_rater["equal"].sum():
                continue
            item, is_equal_pair = of_rater["item"].to_numpy(), of_rater["equal"].to_numpy()
            labels.append((part.raters[rater], name))
            sums.append(
                np.stack([np.bincount(item, weights=weights, minlength=n) for weights in (is_equal_pair, None)])
            )
    ratio_sums = np.stack(sums) if sums else np.zeros((0, 2, n))
    return Ratios(labels=labels, numerator=ratio_sums[:, 0], denominator=ratio_sums[:, 1], units=part.design.units)


def _rows(study: Study, part: RaterPreferences) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the name of each statistic, with rows of rater, item and value `equal` (0 to 1)."""
    keys = ["rater", "item"]
    verdicts = part.asked.drop_nulls("preference").filter(pl.col("order") != 0)
    paired_verdicts = both_orders(verdicts)
    yield (
        "consistency",
        paired_verdicts.select(*keys, equal=(pl.col("preference") == pl.col("preference_ba")).cast(pl.Float64)),
    )
    # Only comparisons in both orders are used, so that the rate does not depend on quality.
    both_order_verdicts = verdicts.filter(pl.col("order").n_unique().over("rater", "comparison") > 1)
    decided_verdicts = both_order_verdicts.filter(pl.col("preference") != 0)
    yield "first_rate", decided_verdicts.select(*keys, equal=(pl.col("preference") == pl.col("order")).cast(pl.Float64))
    yield "agreement_within_order", equal_runs(part)[0].select(*keys, "equal")
    yield "agreement", _repeat_agreement(study, part)
    yield FAILED, part.asked.select(*keys, equal=pl.col("preference").is_null().cast(pl.Float64))


def _repeat_agreement(study: Study, part: RaterPreferences) -> pl.DataFrame:
    """Return the proportion of equal pairs among the repeated labels by a rater, for each output."""
    rows = repeated_labels(study, part.aspect)
    label_counts = rows.group_by("rater", *OUTPUT, "score").len().group_by("rater", *OUTPUT)
    n = pl.col("len").sum()
    shares = label_counts.agg(equal=(pl.col("len") * (pl.col("len") - 1)).sum() / (n * (n - 1)))
    return shares.select(
        rater=pl.Series(label_codes(shares["rater"], part.raters)),
        item=pl.Series(label_codes(shares["item"], part.design.items)),
        equal="equal",
    )
