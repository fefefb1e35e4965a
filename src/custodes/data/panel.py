"""Panel: the bridge from ratings to arrays of scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.data.study import Study, of_aspect
from custodes.stats.arrays import Floats


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Scores of raters on items x systems, higher is better.

    `values` (raters, items, systems) and `system_scores` (raters, systems; given by the file, not averaged here) are
    NaN where nothing was rated. Repeats are averaged.
    """

    values: Floats
    system_scores: Floats
    raters: tuple[str, ...]
    items: tuple[str, ...]
    systems: tuple[str, ...]

    def __post_init__(self) -> None:
        assert self.values.shape == (len(self.raters), len(self.items), len(self.systems))
        self.values.setflags(write=False)
        self.system_scores.setflags(write=False)

    @classmethod
    def from_study(
        cls, study: Study, *, raters: Sequence[str], aspect: str, items: Sequence[str], systems: Sequence[str]
    ) -> Panel:
        """The scores of these raters for one aspect; a rater without rows for it by its rows without aspect."""
        rows = of_aspect(study.ratings.frame.filter(pl.col("rater").is_in(list(raters))), aspect)
        means = rows.group_by("rater", "item", "system").agg(pl.col("score").mean())
        direction = np.array([study.raters.direction[rater] for rater in raters])
        single = means.filter(pl.col("item") != "")
        shape = (len(raters), len(items), len(systems))
        codes = [label_codes(single["rater"], raters), label_codes(single["item"], items)]
        values = _filled(shape, [*codes, label_codes(single["system"], systems)], single["score"])
        whole = means.filter(pl.col("item") == "")
        codes = [label_codes(whole["rater"], raters), label_codes(whole["system"], systems)]
        system_scores = _filled((len(raters), len(systems)), codes, whole["score"])
        return cls(
            values=values * direction[:, None, None],
            system_scores=system_scores * direction[:, None],
            raters=tuple(raters),
            items=tuple(items),
            systems=tuple(systems),
        )


def label_codes(labels: pl.Series, known: Sequence[str]) -> NDArray[np.int64]:
    """The position of each label in `known`; -1 for a label that is not there."""
    table = pl.DataFrame(
        {"label": list(known), "code": range(len(known))}, schema={"label": pl.String, "code": pl.Int64}
    )
    found = labels.alias("label").to_frame().join(table, on="label", how="left", maintain_order="left")
    return found["code"].fill_null(-1).to_numpy()


def _filled(shape: tuple[int, ...], codes: list[NDArray[np.int64]], scores: pl.Series) -> Floats:
    values = np.full(shape, np.nan)
    inside = np.all([code >= 0 for code in codes], axis=0) if codes[0].size else np.zeros(0, dtype=bool)
    values[tuple(code[inside] for code in codes)] = scores.to_numpy()[inside]
    return values
