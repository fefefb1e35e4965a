"""Items that are resampled together: items that repeat another item, and items of one annotator.

Items repeat if they have the same texts or the same scores under different names. The items of one annotator are
resampled together if most items have a single annotator, and if annotators prefer different systems.
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
    from custodes.data.items import Items
    from custodes.data.study import Study

TASTES_RULE = "annotators-differ"
"""The note on annotators who rated different items and have different preferences."""
ANNOTATOR_RULES = (TASTES_RULE, "one-annotator")
"""The notes on items that one annotator rated. With at least `FEWEST_ANNOTATORS` annotators, the items of each
annotator are a cluster."""
REPEATED_RULE = "repeated-items"
"""The note on items that occur several times."""

LEAST_CELLS = 6
"""Minimum number of scores or preferences of an item; with fewer of them, two items may agree by chance."""
FEWEST_CELLS = 3
"""Minimum mean number of scores or preferences per item; with fewer of them, equal items are no evidence of copies."""
LEAST_TEXT = 100
"""Minimum number of characters of all outputs of an item without a source; shorter outputs may be equal by chance."""
NEAR_COPY_SHARE = 0.5
"""Maximum proportion of cells (scores or preferences) in which two nearly equal items differ."""
LEAST_KINDS = 20
"""Minimum number of different items; with fewer items, equal items are no evidence of copies. If scores are
fine-grained, half of this number is enough."""
FINE = 6
"""Mean number of distinct scores of an item above which scores are too fine to be equal by chance."""
MOST_CHECKED = 20
"""Maximum number of groups of equal items for which nearly equal items are counted."""
MOST_PER_ITEM = 1.5
"""Maximum mean number of annotators per item. Above this number, the items of one annotator are not a cluster."""
LEVEL = 0.25
"""Level of the test that all annotators have equal preferences. If the p-value is larger, the items of one annotator
are not resampled together. The level is high, as is usual before variances are pooled. An effect that the test misses
is then too small to matter."""
CLEAR = 0.02
"""Largest p-value at which the note states that annotators differ. Above this value, the note states that annotators
may differ."""
FEWEST_ANNOTATORS = 3
"""Minimum number of annotators for results that generalise to further annotators, because two clusters contain almost
no information about further clusters."""


def dependent_items(study: Study, annotators: Sequence[str]) -> tuple[list[tuple[str, ...]], list[Note]]:
    """Groups of items that are resampled as one cluster, and notes on repeated items and on annotators who differ."""
    repeated_item_groups = repeated_items(study, annotators)
    annotator_item_groups, p_value, n_annotators = items_by_annotator(study, annotators, repeated_item_groups)
    n_repeated_items = sum(len(item_group) - 1 for item_group in repeated_item_groups)
    examples_text = join_labels(
        (" = ".join(item_group[:4]) + (" = ..." if item_group[4:] else "") for item_group in repeated_item_groups),
        limit=3,
    )
    scope_text = (
        "Results describe only these annotators; results about annotators in general need at least "
        f"{FEWEST_ANNOTATORS} annotators"
        if n_annotators < FEWEST_ANNOTATORS
        else "Items of one annotator are resampled as one cluster, so results generalise to further annotators. More "
        "annotators make the intervals narrower; more items have little effect"
    )
    return [*repeated_item_groups, *annotator_item_groups], build_notes(
        (
            REPEATED_RULE,
            n_repeated_items,
            f"{n_repeated_items} items repeat another item under a different name, with equal texts or scores "
            f"({examples_text}). Each group of equal items is resampled as one cluster, but estimates "
            "count each item of the group; keep one item of each group",
        ),
        (
            ANNOTATOR_RULES[p_value > CLEAR],
            n_annotators,
            f"most items were rated by only one of {n_annotators} annotators, and the annotators "
            f"{'differ' if p_value <= CLEAR else 'may differ'} in their preferences among systems (permutation test, "
            f"p = {p_value:.2g}). {scope_text}",
        ),
    )


def fingerprint(*column_names: str) -> pl.Expr:
    """The sum of the hashes of rows, which does not depend on the order of rows. Hashes have 44 bits, so that the sum
    cannot overflow."""
    return (pl.struct(column_names).hash() // 2**20).sum()


def repeated_items(study: Study, annotators: Sequence[str]) -> list[tuple[str, ...]]:
    """Groups of two or more items with the same texts, or with the same scores by all metrics or by all
    `annotators`.

    Equal scores count only if a coincidence is unlikely. A coincidence is unlikely in two cases. First, there are more
    equal items than nearly equal items (items that differ in at most half of the cells). Second, all items occur
    equally often. Items of one declared cluster are not a group, since a cluster is resampled as a whole.
    """
    raters_except_annotators = [rater_name for rater_name in study.raters.kind if rater_name not in annotators]
    item_groups, items_with_text = _groups_by_text(study)
    # Labels have few values, so equal labels are no evidence of a repeated item.
    rating_cell_tables = (
        []
        if study.labels
        else [_rating_cells(study, rater_names) for rater_names in (annotators, raters_except_annotators)]
    )
    item_summary_tables = [_summarise_items(rating_cells) for rating_cells in rating_cell_tables]
    groups_with_equal_cells = [
        item_group
        for rating_cells, item_summary in zip(rating_cell_tables, item_summary_tables, strict=True)
        for item_group in _groups_by_cells(rating_cells, item_summary)
    ]
    # An item is no copy if its ratings by annotators, or its ratings by metrics, are unique.
    if rating_cell_tables and not any(
        item_summary.select(pl.struct("fingerprint", "n").is_unique().any()).item()
        for item_summary in item_summary_tables
    ):
        groups_with_equal_cells += _uniform_groups(pl.concat(rating_cell_tables))
    item_groups += [item_group for item_group in groups_with_equal_cells if not items_with_text.issuperset(item_group)]
    cluster_of_item = dict(study.items.frame.select("item", "cluster").iter_rows())
    return _merge_groups(
        [
            item_group
            for item_group in item_groups
            if len({cluster_of_item.get(item) or item for item in item_group}) > 1
        ]
    )


def merge_clusters(items: Items, item_groups: list[tuple[str, ...]]) -> pl.DataFrame:
    """The table of items (see `Items`) with merged clusters: the items of a group, and all items in their clusters,
    form one cluster. Items that are missing in the table are added."""
    item_rows = items.item_rows(
        pl.concat(
            [items.frame["item"], pl.Series("item", list(chain.from_iterable(item_groups)), dtype=pl.String)]
        ).unique(maintain_order=True)
    )
    unit_expression = pl.when(pl.col("cluster") != "").then("cluster").otherwise("item")
    unit_of_item = dict(item_rows.select("item", unit_expression).iter_rows())
    unit_groups = _merge_groups(
        [tuple(dict.fromkeys(unit_of_item[item] for item in item_group)) for item_group in item_groups]
    )
    return item_rows.with_columns(
        cluster=unit_expression.replace_strict(
            {unit: unit_group[0] for unit_group in unit_groups for unit in unit_group},
            default=pl.col("cluster"),
            return_dtype=pl.String,
        )
    )


def _groups_by_text(study: Study) -> tuple[list[tuple[str, ...]], set[str]]:
    """Groups of items with equal source, context, images and outputs, and all items with outputs."""
    if study.outputs is None or study.outputs.texts.is_empty():
        return [], set()
    item_text_rows = (
        study.outputs.texts.filter(pl.col("item") != "")
        .group_by("item", maintain_order=True)
        .agg(outputs=fingerprint("system", "text"), n=pl.len(), length=pl.col("text").str.len_chars().sum())
        .join(
            study.outputs.sources.select("item", "source", "context", pl.col("images").list.join("\n")),
            on="item",
            how="left",
            maintain_order="left",
        )
        .with_columns(pl.col("source", "context", "images").fill_null(""))
    )
    return _equal_groups(
        item_text_rows.filter(
            pl.col("n") > 1,
            pl.any_horizontal(pl.col("source", "context", "images") != "") | (pl.col("length") >= LEAST_TEXT),
        ),
        "outputs",
        "n",
        "source",
        "context",
        "images",
    ), set(item_text_rows["item"])


def _rating_cells(study: Study, raters: Sequence[str]) -> pl.DataFrame:
    """A table with one row per item and cell: `item`, `cell`, `value`. A cell is the rating of an output, or of a pair
    of outputs, by a rater."""
    is_selected_rating = pl.col("rater").is_in(list(raters)) & (pl.col("item") != "")
    return pl.concat(
        [
            study.ratings.frame.filter(is_selected_rating).select(
                "item", cell=pl.struct("rater", "aspect", "repeat", "system", b=pl.lit("")).hash(), value="score"
            ),
            study.preferences.frame.filter(is_selected_rating).select(
                "item",
                cell=pl.struct("rater", "aspect", "order", "system_a", b="system_b").hash(),
                value=pl.col("preference").cast(pl.Float64),
            ),
        ]
    )


def _summarise_items(rating_cells: pl.DataFrame) -> pl.DataFrame:
    """A table with one row per item: a fingerprint of the cells, the number of cells and the number of distinct
    values."""
    return rating_cells.group_by("item", maintain_order=True).agg(
        fingerprint=fingerprint("cell", "value"), n=pl.len(), values=pl.col("value").n_unique()
    )


def _uniform_groups(rating_cells: pl.DataFrame) -> list[tuple[str, ...]]:
    """Groups of k equal items, if every item occurs k times."""
    item_summary = _summarise_items(rating_cells)
    equal_item_lists = item_summary.group_by("fingerprint", "n", maintain_order=True).agg("item")["item"].to_list()
    n_copies_per_item = gcd(*map(len, equal_item_lists))
    if _may_match_by_chance(item_summary) or n_copies_per_item < 2 or item_summary["n"].mean() < FEWEST_CELLS:  # type: ignore[operator]
        return []
    return [
        tuple(equal_items[start_offset :: len(equal_items) // n_copies_per_item])
        for equal_items in equal_item_lists
        for start_offset in range(len(equal_items) // n_copies_per_item)
    ]


def _groups_by_cells(rating_cells: pl.DataFrame, item_summary: pl.DataFrame) -> list[tuple[str, ...]]:
    """Groups of items with equal cells. The result is empty if nearly equal items are at least as frequent as equal
    items.

    `item_summary`: the rows of `_summarise_items`.
    """
    if _may_match_by_chance(item_summary):
        return []
    item_groups = _equal_groups(
        item_summary.filter(pl.col("n") >= LEAST_CELLS, pl.col("values") > 1), "fingerprint", "n"
    )
    checked_item_groups = item_groups[:MOST_CHECKED]
    n_exact_copies = sum(len(item_group) - 1 for item_group in checked_item_groups)
    if n_exact_copies and n_exact_copies > _count_near_copies(
        rating_cells, item_summary, [item_group[0] for item_group in checked_item_groups]
    ):
        return item_groups
    return []


def _may_match_by_chance(item_summary: pl.DataFrame) -> bool:
    """Whether items may be equal by chance, because there are too few items or the scores are too coarse."""
    has_coarse_scores = item_summary.is_empty() or item_summary["values"].mean() < FINE  # type: ignore[operator]
    return item_summary.select("fingerprint", "n").n_unique() < (LEAST_KINDS if has_coarse_scores else LEAST_KINDS // 2)


def _count_near_copies(rating_cells: pl.DataFrame, item_summary: pl.DataFrame, representative_items: list[str]) -> int:
    """The number of items that are nearly, but not exactly, equal to an item in a group."""
    item_cell_count_rows = item_summary.select("item", "n")
    item_pair_match_rows = (
        rating_cells.filter(pl.col("item").is_in(representative_items))
        .join(rating_cells, on=["cell", "value"], suffix="_other")
        .group_by("item", "item_other")
        .agg(equal=pl.len())
        .join(item_cell_count_rows, on="item")
        .join(item_cell_count_rows, left_on="item_other", right_on="item", suffix="_other")
    )
    n_different_cells_expression = pl.max_horizontal("n", "n_other") - pl.col("equal")
    return item_pair_match_rows.filter(
        n_different_cells_expression > 0, n_different_cells_expression <= (NEAR_COPY_SHARE * pl.col("n")).floor()
    ).height


def _equal_groups(item_rows: pl.DataFrame, *key_column_names: str) -> list[tuple[str, ...]]:
    items_of_key = item_rows.group_by(key_column_names, maintain_order=True).agg("item")["item"]
    return list(map(tuple, items_of_key.filter(items_of_key.list.len() > 1).to_list()))


def _merge_groups(label_groups: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The groups; groups that have a label in common are merged. Labels and groups are in the order of first
    occurrence."""
    if not label_groups:
        return []
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    group_first_labels = [label_group[0] for label_group in label_groups for _ in label_group]
    distinct_labels, label_positions = np.unique(
        [group_first_labels, list(chain.from_iterable(label_groups))], return_inverse=True
    )
    adjacency_matrix = csr_array(
        (np.ones(len(group_first_labels), dtype=np.int64), tuple(label_positions)),
        shape=(len(distinct_labels), len(distinct_labels)),
    )
    _, component_of_label = connected_components(adjacency_matrix)
    component_rows = pl.DataFrame(
        {"label": chain.from_iterable(label_groups), "component": component_of_label[label_positions[1]]}
    )
    merged_groups = (
        component_rows.unique(maintain_order=True).group_by("component", maintain_order=True).agg("label")["label"]
    )
    return [tuple(merged_labels) for merged_labels in merged_groups if len(merged_labels) > 1]


def items_by_annotator(
    study: Study, annotators: Sequence[str], repeated_item_groups: Sequence[Sequence[str]]
) -> tuple[list[tuple[str, ...]], float, int]:
    """Items grouped by annotator, the p-value of the test of equal preferences, and the number of annotators. The last
    two values are NaN and 0 if the test is not possible or not significant.

    There are no groups in four cases: there are fewer than `FEWEST_ANNOTATORS` annotators; items have more than
    `MOST_PER_ITEM` annotators on average; a cluster of items or a group of repeated items has several annotators;
    there is no evidence of different preferences.
    """
    empty_result: tuple[list[tuple[str, ...]], float, int] = ([], float("nan"), 0)
    is_annotator_row = pl.col("rater").is_in(list(annotators)) & (pl.col("item") != "")
    score_rows, verdict_rows = (
        rating_rows.filter(is_annotator_row) for rating_rows in (study.ratings.frame, study.preferences.frame)
    )
    annotation_task_rows = pl.concat(
        [rating_rows.select("item", "rater") for rating_rows in (score_rows, verdict_rows)]
    ).unique(maintain_order=True)
    if (
        annotation_task_rows.height > MOST_PER_ITEM * annotation_task_rows["item"].n_unique()
        or annotation_task_rows["rater"].n_unique() < 2
    ):
        return empty_result
    resampling_unit_of_item = {
        item: repeated_group[0] for repeated_group in repeated_item_groups for item in repeated_group
    } | dict(study.items.frame.filter(pl.col("cluster") != "").select("item", "cluster").iter_rows())
    annotation_task_rows = annotation_task_rows.with_columns(unit=pl.col("item").replace(resampling_unit_of_item))
    first_task_rows = annotation_task_rows.unique("item", keep="first", maintain_order=True)
    if first_task_rows.group_by("unit").agg(pl.col("rater").n_unique())["rater"].max() != 1:
        return empty_result
    p_value = _taste_p_value(_system_preferences(score_rows, verdict_rows), annotation_task_rows)
    if not p_value <= LEVEL:
        return empty_result
    annotator_item_lists = first_task_rows.group_by("rater", maintain_order=True).agg("item")["item"].to_list()
    return (
        [*map(tuple, annotator_item_lists)] if len(annotator_item_lists) >= FEWEST_ANNOTATORS else [],
        p_value,
        len(annotator_item_lists),
    )


def _system_preferences(score_rows: pl.DataFrame, verdict_rows: pl.DataFrame) -> pl.DataFrame:
    """A table of preferences for systems: item, rater, value, and `column`, the number of the combination of aspect and
    system.

    For scores, the value is the relative rank of the system among the outputs that the rater scored on the item, minus
    the mean relative rank of the system. For verdicts, the value is the verdict minus the mean verdict on the pair of
    systems; each verdict gives one row per system, with opposite signs.
    """
    task_key_column_names, aspect_and_system_column_names = ["item", "rater", "aspect", "repeat"], ["aspect", "system"]
    relative_rank_expression = (
        pl.col("score").rank("average").over(task_key_column_names) - (pl.len().over(task_key_column_names) + 1) / 2
    ) / pl.len().over(task_key_column_names)
    centred_score_rows = score_rows.with_columns(value=relative_rank_expression).with_columns(
        pl.col("value") - pl.col("value").mean().over(aspect_and_system_column_names)
    )
    centred_verdict_rows = verdict_rows.with_columns(
        value=pl.col("preference") - pl.col("preference").mean().over(["aspect", "system_a", "system_b"])
    )
    identifier_column_names = ("item", "rater", "aspect")
    return pl.concat(
        [
            centred_score_rows.select(*identifier_column_names, "system", "value"),
            centred_verdict_rows.select(*identifier_column_names, system="system_a", value="value"),
            centred_verdict_rows.select(*identifier_column_names, system="system_b", value=-pl.col("value")),
        ]
    ).select(
        "item", "rater", "value", column=pl.struct(aspect_and_system_column_names).rank("dense").cast(pl.Int64) - 1
    )


def _taste_p_value(system_preferences: pl.DataFrame, annotation_task_rows: pl.DataFrame) -> float:
    from scipy.sparse import csr_array

    preference_rows = system_preferences.join(annotation_task_rows, on=["item", "rater"]).with_columns(
        task=pl.struct("unit", "rater").rank("dense").cast(pl.Int64) - 1,
        annotator=pl.col("rater").rank("dense").cast(pl.Int64) - 1,
    )
    n_tasks, n_aspect_system_columns = (preference_rows[column_name].n_unique() for column_name in ("task", "column"))
    annotator_of_task = np.zeros(n_tasks, dtype=np.int64)
    annotator_of_task[preference_rows["task"].to_numpy()] = preference_rows["annotator"].to_numpy()
    return taste_p(
        csr_array(
            (preference_rows["value"], (preference_rows["task"], preference_rows["column"])),
            shape=(n_tasks, n_aspect_system_columns),
        ),
        annotator_of_task,
        np.random.default_rng(0),
    )
