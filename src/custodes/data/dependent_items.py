"""Items that are resampled together: items that repeat another item, and items of one annotator.

Items repeat if they have the same texts or the same scores under different names. Items of one annotator belong
together if most items have one annotator and annotators prefer different systems.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import gcd
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from custodes.data.notes import Note, build_notes
from custodes.errors import join_labels
from custodes.stats.annotator_quality import taste_p

if TYPE_CHECKING:
    from custodes.data.study import Study

TASTES_RULE = "annotators-differ"
"""The note on annotators who rated different items and have different preferences."""
REPEATED_RULE = "repeated-items"
"""The note on items that occur several times."""

LEAST_CELLS = 6
"""Minimum number of scores or preferences of an item; with fewer, two items may agree by chance."""
FEWEST_CELLS = 3
"""Minimum mean number of scores or preferences per item; with fewer, equal items are no evidence of copies."""
LEAST_TEXT = 100
"""Minimum number of characters of all outputs of an item without a source; shorter outputs may be equal by chance."""
NEAR_COPY_SHARE = 0.5
"""Maximum proportion of cells (scores or preferences) in which two nearly equal items differ."""
LEAST_KINDS = 20
"""Minimum number of different items; with fewer, equal items are no evidence of copies. With fine-grained scores, half
as many items suffice."""
FINE = 6
"""Mean number of distinct scores of an item above which scores are too fine to be equal by chance."""
MOST_CHECKED = 20
"""Number of groups of equal items for which nearly equal items are counted."""
MOST_PER_ITEM = 1.5
"""Maximum mean number of annotators per item. Above this number, the items of one annotator are not a cluster."""
LEVEL = 0.25
"""Level of the test of equal preferences. If the p-value is larger, the items of one annotator are not resampled
together. The level is lenient, as usual for pooling variances, so that an undetected effect is too small to matter."""
CLEAR = 0.02
"""Largest p-value at which the note states that annotators differ; above this value, they may differ."""
FEWEST_ANNOTATORS = 3
"""Minimum number of annotators for results that generalise to further annotators. Two clusters say almost nothing about
further clusters."""


def dependent_items(study: Study, people: Sequence[str]) -> tuple[list[tuple[str, ...]], list[Note]]:
    """Groups of items that are resampled as one cluster, and notes on repeated items and on annotators who differ."""
    repeated_groups = repeated_items(study, people)
    annotator_groups, p_value, n_annotators = items_by_annotator(study, people, repeated_groups)
    n_copies = sum(len(group) - 1 for group in repeated_groups)
    examples = join_labels(
        (" = ".join(group[:4]) + (" = ..." if group[4:] else "") for group in repeated_groups), limit=3
    )
    scope_text = (
        f"Results describe only these annotators; general results need at least {FEWEST_ANNOTATORS} annotators"
        if n_annotators < FEWEST_ANNOTATORS
        else "Items of one annotator are resampled as one cluster, so results generalise to further annotators. More "
        "annotators narrow the intervals; more items have little effect"
    )
    notes = build_notes(
        (
            REPEATED_RULE,
            n_copies,
            f"{n_copies} items repeat another item under a different name, with equal texts or scores ({examples}). "
            "Each group of equal items is resampled as one cluster, but estimates count each item of the group; keep "
            "one item of each group",
        ),
        (
            TASTES_RULE if p_value <= CLEAR else "one-annotator",
            n_annotators,
            f"most items were rated by only one of {n_annotators} annotators, and the annotators "
            f"{'differ' if p_value <= CLEAR else 'may differ'} in their preferences among systems (permutation test, "
            f"p = {p_value:.2g}). {scope_text}",
        ),
    )
    return [*repeated_groups, *annotator_groups], notes


def fingerprint(*columns: str) -> pl.Expr:
    """The sum of the hashes of rows, which does not depend on the order of rows. Hashes have 44 bits, so that the sum
    cannot overflow."""
    return (pl.struct(columns).hash() // 2**20).sum()


def repeated_items(study: Study, people: Sequence[str]) -> list[tuple[str, ...]]:
    """Groups of two or more items with the same texts, or with the same scores by all metrics or by all `people`.

    Equal scores count only if a coincidence is unlikely. This holds if there are more equal items than nearly equal
    items, which differ in at most half of the cells, or if all items occur equally often. Items of one declared
    cluster are not a group, since a cluster is resampled as a whole.
    """
    other_raters = [name for name in study.raters.kind if name not in people]
    text_groups, items_with_text = _groups_by_text(study)
    groups = list(text_groups)
    # Labels have few values, so equal ones are no evidence.
    cells_of_rater_groups = [] if study.labels else [_rating_cells(study, raters) for raters in (people, other_raters)]
    summaries = [_summarise_items(cells) for cells in cells_of_rater_groups]
    groups_of_cells = [
        identical_items
        for cells, summary in zip(cells_of_rater_groups, summaries, strict=True)
        for identical_items in _groups_by_cells(cells, summary)
    ]
    # An item whose ratings by annotators, or by metrics, are unique is no copy.
    if cells_of_rater_groups and not any(
        summary.select(pl.struct("own", "n").is_unique().any()).item() for summary in summaries
    ):
        groups_of_cells += _uniform_groups(pl.concat(cells_of_rater_groups))
    groups += [
        identical_items for identical_items in groups_of_cells if not items_with_text.issuperset(identical_items)
    ]
    cluster_of_item = dict(study.items.frame.select("item", "cluster").iter_rows())
    clusters_of_groups = ({cluster_of_item.get(item) or item for item in group} for group in groups)
    return _merge_groups(
        [group for group, clusters in zip(groups, clusters_of_groups, strict=True) if len(clusters) > 1]
    )


def merge_clusters(items: pl.DataFrame, groups: list[tuple[str, ...]]) -> pl.DataFrame:
    """The items table (see `Items`) in which each group of items and the clusters of these items form one cluster."""
    grouped_items = pl.Series("item", [item for group in groups for item in group], dtype=pl.String)
    missing_items = grouped_items.to_frame().join(items, on="item", how="anti")
    frame = pl.concat([items, missing_items], how="diagonal").with_columns(
        pl.col("cluster", "group", "dataset").fill_null("")
    )
    cluster_of_item = dict(
        frame.select("item", pl.when(pl.col("cluster") != "").then("cluster").otherwise("item")).iter_rows()
    )
    merged_clusters = _merge_groups([tuple(dict.fromkeys(cluster_of_item[item] for item in group)) for group in groups])
    new_cluster = {cluster_name: group[0] for group in merged_clusters for cluster_name in group}
    changed_items = {item for item, cluster_name in cluster_of_item.items() if cluster_name in new_cluster}
    cluster = [
        new_cluster[cluster_of_item[item]] if item in changed_items else former_cluster
        for item, former_cluster in frame.select("item", "cluster").iter_rows()
    ]
    return frame.with_columns(cluster=pl.Series(cluster, dtype=pl.String))


def _groups_by_text(study: Study) -> tuple[list[tuple[str, ...]], set[str]]:
    """Groups of items with equal source, context, images and outputs, and all items with outputs."""
    if study.outputs is None or study.outputs.texts.is_empty():
        return [], set()
    texts = study.outputs.texts.filter(pl.col("item") != "")
    sources = study.outputs.sources.with_columns(pl.col("images").list.join("\n"))
    item_texts = (
        texts.group_by("item", maintain_order=True)
        .agg(outputs=fingerprint("system", "text"), n=pl.len(), length=pl.col("text").str.len_chars().sum())
        .join(sources.select("item", "source", "context", "images"), on="item", how="left", maintain_order="left")
        .with_columns(pl.col("source", "context", "images").fill_null(""))
    )
    has_source = (pl.col("source") != "") | (pl.col("context") != "") | (pl.col("images") != "")
    distinctive_items = item_texts.filter(pl.col("n") > 1, has_source | (pl.col("length") >= LEAST_TEXT))
    return _equal_groups(distinctive_items, "outputs", "n", "source", "context", "images"), set(item_texts["item"])


def _rating_cells(study: Study, raters: Sequence[str]) -> pl.DataFrame:
    """A table with one row per item and cell: `item`, `cell`, `value`. A cell is the rating of an output, or of a pair
    of outputs, by a rater."""
    is_selected = pl.col("rater").is_in(list(raters)) & (pl.col("item") != "")
    scores = study.ratings.frame.filter(is_selected).select(
        "item", cell=pl.struct("rater", "aspect", "repeat", "system", b=pl.lit("")).hash(), value="score"
    )
    verdicts = study.preferences.frame.filter(is_selected).select(
        "item",
        cell=pl.struct("rater", "aspect", "order", "system_a", b="system_b").hash(),
        value=pl.col("preference").cast(pl.Float64),
    )
    return pl.concat([scores, verdicts])


def _summarise_items(cells: pl.DataFrame) -> pl.DataFrame:
    """A table with one row per item: a fingerprint of the cells, the number of cells and the number of distinct
    values."""
    return cells.group_by("item", maintain_order=True).agg(
        own=fingerprint("cell", "value"), n=pl.len(), values=pl.col("value").n_unique()
    )


def _uniform_groups(cells: pl.DataFrame) -> list[tuple[str, ...]]:
    """Groups of k equal items, if every item occurs k times."""
    summary = _summarise_items(cells)
    items_of_kind = summary.group_by("own", "n", maintain_order=True).agg("item")["item"].to_list()
    n_copies = gcd(*map(len, items_of_kind))
    if _may_match_by_chance(summary) or n_copies < 2 or summary["n"].mean() < FEWEST_CELLS:  # type: ignore[operator]
        return []
    return [tuple(items[i :: len(items) // n_copies]) for items in items_of_kind for i in range(len(items) // n_copies)]


def _groups_by_cells(cells: pl.DataFrame, summary: pl.DataFrame) -> list[tuple[str, ...]]:
    """Groups of items with equal cells. The result is empty if nearly equal items are at least as frequent as equal
    items.

    `summary`: the rows of `_summarise_items`.
    """
    if _may_match_by_chance(summary):
        return []
    groups = _equal_groups(summary.filter(pl.col("n") >= LEAST_CELLS, pl.col("values") > 1), "own", "n")
    first_groups = groups[:MOST_CHECKED]
    n_copies = sum(len(group) - 1 for group in first_groups)
    return (
        groups
        if n_copies and n_copies > _count_near_copies(cells, summary, [group[0] for group in first_groups])
        else []
    )


def _may_match_by_chance(summary: pl.DataFrame) -> bool:
    """Whether items may be equal by chance, because there are too few items or the scores are too coarse."""
    is_coarse = summary.is_empty() or summary["values"].mean() < FINE  # type: ignore[operator]
    return summary.select("own", "n").n_unique() < (LEAST_KINDS if is_coarse else LEAST_KINDS // 2)


def _count_near_copies(cells: pl.DataFrame, summary: pl.DataFrame, items: list[str]) -> int:
    """The number of items that are nearly, but not exactly, equal to an item in a group."""
    sizes = summary.select("item", "n")
    matches = (
        cells.filter(pl.col("item").is_in(items))
        .join(cells, on=["cell", "value"], suffix="_other")
        .group_by("item", "item_other")
        .agg(equal=pl.len())
        .join(sizes, on="item")
        .join(sizes, left_on="item_other", right_on="item", suffix="_other")
    )
    n_different = pl.max_horizontal("n", "n_other") - pl.col("equal")
    return matches.filter(n_different > 0, n_different <= (NEAR_COPY_SHARE * pl.col("n")).floor()).height


def _equal_groups(frame: pl.DataFrame, *keys: str) -> list[tuple[str, ...]]:
    item_groups = frame.group_by(keys, maintain_order=True).agg("item").filter(pl.col("item").list.len() > 1)
    return [tuple(items) for items in item_groups["item"].to_list()]


def _merge_groups(groups: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The groups, where groups with a common label are merged. Labels and groups are in the order of first
    occurrence."""
    if not groups:
        return []
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    labels = list(dict.fromkeys(chain.from_iterable(groups)))
    position = {label: index for index, label in enumerate(labels)}
    first, other = np.array([(position[group[0]], position[label]) for group in groups for label in group]).T
    links = coo_array((np.ones(len(first)), (first, other)), shape=(len(labels), len(labels)))
    components = pl.DataFrame({"label": labels, "component": connected_components(links, directed=False)[1]})
    merged_groups = components.group_by("component", maintain_order=True).agg("label")["label"].to_list()
    return [tuple(group_labels) for group_labels in merged_groups if len(group_labels) > 1]


def items_by_annotator(
    study: Study, people: Sequence[str], repeated: Sequence[Sequence[str]]
) -> tuple[list[tuple[str, ...]], float, int]:
    """Items grouped by annotator, if most items have one annotator and annotators may have different preferences; the
    p-value of the test of equal preferences, and the number of annotators (0 if there is no such test).

    There are no groups in four cases: there are fewer than `FEWEST_ANNOTATORS` annotators, items have more than
    `MOST_PER_ITEM` annotators on average, a cluster of items or a group of repeated items has several annotators, or
    there is no evidence of different preferences.
    """
    no_groups: tuple[list[tuple[str, ...]], float, int] = ([], float("nan"), 0)
    is_by_people = pl.col("rater").is_in(list(people)) & (pl.col("item") != "")
    scores, verdicts = study.ratings.frame.filter(is_by_people), study.preferences.frame.filter(is_by_people)
    tasks = pl.concat([frame.select("item", "rater") for frame in (scores, verdicts)]).unique(maintain_order=True)
    n_items = tasks["item"].n_unique()
    if tasks.height > MOST_PER_ITEM * n_items or tasks["rater"].n_unique() < 2:
        return no_groups
    unit_of_item = {item: repeated_group[0] for repeated_group in repeated for item in repeated_group}
    unit_of_item |= {
        item: cluster for item, cluster in study.items.frame.select("item", "cluster").iter_rows() if cluster
    }
    tasks = tasks.with_columns(unit=pl.col("item").replace(unit_of_item))
    first_tasks = tasks.unique("item", keep="first", maintain_order=True)
    if first_tasks.group_by("unit").agg(pl.col("rater").n_unique())["rater"].max() != 1:
        return no_groups
    p_value = _taste_p_value(_preferences(scores, verdicts), tasks)
    if not p_value <= LEVEL:
        return no_groups
    item_groups = list(map(tuple, first_tasks.group_by("rater", maintain_order=True).agg("item")["item"].to_list()))
    return item_groups if len(item_groups) >= FEWEST_ANNOTATORS else [], p_value, len(item_groups)


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
