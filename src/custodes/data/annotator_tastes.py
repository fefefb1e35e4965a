"""Studies in which most items have one annotator, and annotators may prefer different systems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from custodes.stats.annotator_quality import taste_p

if TYPE_CHECKING:
    from custodes.data.study import Study

MOST_PER_ITEM = 1.5
"""Maximum mean number of annotators per item. Above this number, the items of one annotator are not a cluster."""
LEVEL = 0.25
"""Level of the test of equal preferences. If the p-value is larger, the items of one annotator are not resampled
together. The level is lenient, as usual for pooling variances, so that an undetected effect is too small to matter."""
CLEAR = 0.02
"""Largest p-value at which the note states that annotators differ; above this value, they may differ."""


FEWEST = 3
"""Minimum number of annotators for results that generalise to further annotators. Two clusters say almost nothing about
further clusters."""


class Assignment(NamedTuple):
    """Groups of items by annotator, the number of annotators (`people`), and the p-value of the test of equal
    preferences.

    With fewer than `FEWEST` annotators there are no groups.
    """

    groups: list[tuple[str, ...]]
    p_value: float
    people: int = 0

    @property
    def message(self) -> str:
        """Text of the note."""
        differ_text = (
            f"most items were rated by only one of {self.people} annotators, and the annotators "
            f"{'differ' if self.p_value <= CLEAR else 'may differ'} in their "
            f"preferences among systems (permutation test, p = {self.p_value:.2g}). "
        )
        if self.people < FEWEST:
            return (
                f"{differ_text}Results describe only these annotators; general results need at least {FEWEST} "
                "annotators"
            )
        return (
            f"{differ_text}Items of one annotator are resampled as one cluster, so results generalise to further "
            "annotators. More annotators narrow the intervals; more items have little effect"
        )


def assignment(study: Study, people: Sequence[str], repeated: Sequence[Sequence[str]]) -> Assignment:
    """Items grouped by annotator, if most items have one annotator and annotators may have different preferences.

    There are no groups in four cases: there are fewer than `FEWEST` annotators, items have more than `MOST_PER_ITEM`
    annotators on average, a cluster of items or a group of repeated items has several annotators, or there is no
    evidence of different preferences.
    """
    no_assignment = Assignment([], float("nan"))
    if len(people) < 2:
        return no_assignment
    is_by_people = pl.col("rater").is_in(list(people)) & (pl.col("item") != "")
    scores, verdicts = study.ratings.frame.filter(is_by_people), study.preferences.frame.filter(is_by_people)
    tasks = pl.concat([frame.select("item", "rater") for frame in (scores, verdicts)]).unique(maintain_order=True)
    n_items = tasks["item"].n_unique()
    if not n_items or tasks.height > MOST_PER_ITEM * n_items or tasks["rater"].n_unique() < 2:
        return no_assignment
    unit_of_item = {item: repeated_group[0] for repeated_group in repeated for item in repeated_group}
    unit_of_item |= {
        item: cluster for item, cluster in study.items.frame.select("item", "cluster").iter_rows() if cluster
    }
    tasks = tasks.with_columns(unit=pl.col("item").replace(unit_of_item))
    first_tasks = tasks.unique("item", keep="first", maintain_order=True)
    if first_tasks.group_by("unit").agg(pl.col("rater").n_unique())["rater"].max() != 1:
        return no_assignment
    p_value = _taste_p_value(_preferences(scores, verdicts), tasks)
    if not p_value <= LEVEL:
        return no_assignment
    items_by_annotator = first_tasks.group_by("rater", maintain_order=True).agg("item")["item"].to_list()
    item_groups = (
        [tuple(annotator_items) for annotator_items in items_by_annotator] if len(items_by_annotator) >= FEWEST else []
    )
    return Assignment(item_groups, p_value, len(items_by_annotator))


def _preferences(scores: pl.DataFrame, verdicts: pl.DataFrame) -> pl.DataFrame:
    """A table of preferences for systems: item, rater, value, and `column`, the number of the combination of aspect and
    system.

    For scores, the value is the relative rank of the system among the outputs that the rater scored on the item, minus
    the mean relative rank of the system. For verdicts, the value is the verdict minus the mean verdict on the pair of
    systems; each verdict gives one row per system, with opposite signs.
    """
    task_keys, column_keys = ["item", "rater", "aspect", "repeat"], ["aspect", "system"]
    relative_rank = (
        pl.col("score").rank("average").over(task_keys) - (pl.len().over(task_keys) + 1) / 2
    ) / pl.len().over(task_keys)
    centred_scores = scores.with_columns(value=relative_rank).with_columns(
        pl.col("value") - pl.col("value").mean().over(column_keys)
    )
    pair_keys = ["aspect", "system_a", "system_b"]
    centred_verdicts = verdicts.with_columns(value=pl.col("preference") - pl.col("preference").mean().over(pair_keys))
    verdict_rows = [
        centred_verdicts.select("item", "rater", "aspect", system=system_column, value=sign * pl.col("value"))
        for system_column, sign in (("system_a", 1), ("system_b", -1))
    ]
    rows = pl.concat([centred_scores.select("item", "rater", "aspect", "system", "value"), *verdict_rows])
    return rows.select("item", "rater", "value", column=pl.struct(column_keys).rank("dense").cast(pl.Int64) - 1)


def _taste_p_value(preferences: pl.DataFrame, tasks: pl.DataFrame) -> float:
    from scipy.sparse import csr_array

    rows = preferences.join(tasks, on=["item", "rater"]).with_columns(
        task=pl.struct("unit", "rater").rank("dense").cast(pl.Int64) - 1,
        annotator=pl.col("rater").rank("dense").cast(pl.Int64) - 1,
    )
    n_tasks, n_columns = (rows[name].n_unique() for name in ("task", "column"))
    matrix = csr_array((rows["value"], (rows["task"], rows["column"])), shape=(n_tasks, n_columns))
    annotator_of_task = np.zeros(n_tasks, dtype=np.int64)
    annotator_of_task[rows["task"].to_numpy()] = rows["annotator"].to_numpy()
    return taste_p(matrix, annotator_of_task, np.random.default_rng(0))
