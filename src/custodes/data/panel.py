"""Panel: ratings as arrays of scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.data.comparisons import pair_codes
from custodes.data.study import Study, select_aspect_rows
from custodes.data.table import filter_rows
from custodes.stats.arrays import Floats, ReadOnlyArrays, table_sums
from custodes.stats.ratios import ratio


@dataclass(frozen=True, kw_only=True)
class Panel(ReadOnlyArrays):
    """Scores of raters on items and systems; higher is better.

    `values` (raters, items, systems) are scores of outputs. `system_scores` (raters, systems) are system-level scores
    from the file. A missing score is NaN. Repeats are averaged.
    """

    values: Floats
    system_scores: Floats
    raters: tuple[str, ...]
    items: tuple[str, ...]
    systems: tuple[str, ...]

    @classmethod
    def from_study(
        cls, study: Study, *, raters: Sequence[str], aspect: str, items: Sequence[str], systems: Sequence[str]
    ) -> Panel:
        """The scores of these raters for one aspect. If a rater has no scores for the aspect, its scores without an
        aspect are used."""
        rating_rows = select_aspect_rows(filter_rows(study.ratings.frame, pl.col("rater").is_in(list(raters))), aspect)
        rater_directions = np.array([*study.raters.select_raters(raters).direction.values()])
        output_score_rows, system_score_rows = (
            filter_rows(rating_rows, pl.col("item") != ""),
            rating_rows.filter(pl.col("item") == ""),
        )
        return cls(
            values=_mean_scores(output_score_rows, rater=raters, item=items, system=systems)
            * rater_directions[:, None, None],
            system_scores=_mean_scores(system_score_rows, rater=raters, system=systems) * rater_directions[:, None],
            raters=tuple(raters),
            items=tuple(items),
            systems=tuple(systems),
        )


def label_codes(labels: pl.Series, categories: Sequence[str]) -> NDArray[np.int64]:
    """The position of each label in `categories`; -1 for a missing label."""
    return labels.replace_strict(categories, range(len(categories)), default=-1, return_dtype=pl.Int64).to_numpy()


def pair_positions(rows: pl.DataFrame, systems: Sequence[str]) -> NDArray[np.int64]:
    """The position of the pair (`system_a`, `system_b`) of each row among all pairs of the sorted systems."""
    first_system_positions, second_system_positions = (
        label_codes(rows[column_name], systems) for column_name in ("system_a", "system_b")
    )
    return pair_codes(first_system_positions, second_system_positions, len(systems))


def _mean_scores(rows: pl.DataFrame, **labels_of_axis: Sequence[str]) -> Floats:
    """Mean scores as an array with one axis per column of labels; NaN if there is no score."""
    axis_lengths = tuple(map(len, labels_of_axis.values()))
    label_positions = np.array(
        [label_codes(rows[column_name], axis_labels) for column_name, axis_labels in labels_of_axis.items()]
    )
    is_row_in_array = (label_positions >= 0).all(axis=0)
    cell_positions = label_positions[:, is_row_in_array]
    return ratio(
        table_sums(*cell_positions, shape=axis_lengths, weights=rows["score"].to_numpy()[is_row_in_array]),
        table_sums(*cell_positions, shape=axis_lengths),
    )
