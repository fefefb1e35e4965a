"""Panel: ratings as arrays of scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.data.study import Study, of_aspect
from custodes.stats.arrays import Floats, read_only, require


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Scores of raters on items x systems, higher is better.

    `values` (raters, items, systems) and `system_scores` (raters, systems; given by the file, not averaged here) are
    NaN if not rated. Repeats are averaged.
    """

    values: Floats
    system_scores: Floats
    raters: tuple[str, ...]
    items: tuple[str, ...]
    systems: tuple[str, ...]

    def __post_init__(self) -> None:
        shape = (len(self.raters), len(self.items), len(self.systems))
        require(
            self.values.shape == shape,
            f"values have shape {self.values.shape}, expected {shape} (raters, items, systems)",
        )
        read_only(self)

    @classmethod
    def from_study(
        cls, study: Study, *, raters: Sequence[str], aspect: str, items: Sequence[str], systems: Sequence[str]
    ) -> Panel:
        """The scores of these raters for one aspect; without rows of the aspect, a rater's rows without an aspect."""
        rows = of_aspect(study.ratings.frame.filter(pl.col("rater").is_in(list(raters))), aspect)
        means = rows.group_by("rater", "item", "system").agg(pl.col("score").mean())
        directions = study.raters.direction
        direction = np.array([directions[rater] for rater in raters])
        single, whole = means.filter(pl.col("item") != ""), means.filter(pl.col("item") == "")
        return cls(
            values=_filled(single, rater=raters, item=items, system=systems) * direction[:, None, None],
            system_scores=_filled(whole, rater=raters, system=systems) * direction[:, None],
            raters=tuple(raters),
            items=tuple(items),
            systems=tuple(systems),
        )


def label_codes(labels: pl.Series, categories: Sequence[str]) -> NDArray[np.int64]:
    """The position of each label in `categories`; -1 for a missing label."""
    table = pl.DataFrame(
        {"label": list(categories), "code": range(len(categories))}, schema={"label": pl.String, "code": pl.Int64}
    )
    codes = labels.alias("label").to_frame().join(table, on="label", how="left", maintain_order="left")
    return codes["code"].fill_null(-1).to_numpy()


def _filled(means: pl.DataFrame, **axes: Sequence[str]) -> Floats:
    """Mean scores as an array with one axis per column of labels; NaN without a score."""
    codes = np.array([label_codes(means[name], categories) for name, categories in axes.items()])
    values, inside = np.full([len(categories) for categories in axes.values()], np.nan), (codes >= 0).all(axis=0)
    values[tuple(codes[:, inside])] = means["score"].to_numpy()[inside]
    return values
