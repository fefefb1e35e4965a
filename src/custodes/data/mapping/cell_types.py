"""What a column may hold, from its name and cells: numbers, scores, times, texts, systems or categories."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from custodes.data.mapping.annotator_columns import parse_numbers
from custodes.data.mapping.column_vocabulary import (
    ASPECTS,
    CLUSTERS,
    CORE,
    GENERIC,
    IDS,
    NAMES,
    SCORERS,
    TIME,
    TRUTH,
    find_columns,
    is_fact,
    is_measure,
    looks_human,
    looks_like_machine,
    lookup_names,
    name_stems,
    normalise_name,
    split_name,
    word_list,
)
from custodes.data.table import MISSING_TOKENS, count_filled_cells

BLANKS = 2
"""Minimum mean number of blanks per cell for a column of prose."""
LABEL = 80
"""Maximum number of characters of a label."""
CHOICES = 4
"""Maximum number of columns that are tried for a role."""
MOST_SYSTEMS = 200
FEWEST = 10
"""Minimum number of rows of a table in which consecutive numbers count as row numbers."""
CATEGORY = 0.2
"""Maximum ratio of distinct values to rows in a column of categories. A column of categories holds short words and does
not have the name of a model or metric."""
CATEGORIES = frozenset(
    word_list(
        "category categories group topic language lang split subset domain type tag tags difficulty level source_type"
        " dataset task comment comments note notes remark explanation rationale reason feedback label verdict critique"
        " reasoning justification"
    )
)
"""Words in the names of columns with descriptions of items or with ratings of outputs."""
SIZES = frozenset(
    word_list("length len size count counts num n words chars characters sentences difficulty level turn turns")
)
"""Words in the names of numeric columns that describe a text, such as its length."""

ALMOST_NUMBER = r"^(#[A-Z/0-9!?]+|[+-]?\d[\d.,'\u2019\s]*(%|/\s*\d+|\s*[-(:]\s*\D.*)?)$"
"""Pattern of cells that occur in columns of scores although they are not numbers: `1.234,5`, `50%`, `4/5`, `4 - good`,
`#REF!`."""


def is_number(column: pl.Series) -> bool:
    """Whether all cells are numbers or empty, and at least one is a number."""
    n_filled_cells, n_numbers = count_filled_cells(column)
    return 0 < n_filled_cells == n_numbers


def has_fractions(column: pl.Series) -> bool:
    """Whether a column holds numbers, not all whole, and thus no labels."""
    numbers = parse_numbers(column).drop_nulls()
    return is_number(column) and bool((numbers != numbers.round()).any())


def scored_pairs(frame: pl.DataFrame) -> list[str]:
    """The names NAME of all pairs of number columns NAME_chosen and NAME_rejected, except human ratings and lengths.

    >>> scored_pairs(pl.DataFrame({"rm_chosen": [1.5], "rm_rejected": [0.5], "text_chosen": ["a"]}))
    ['rm']
    """
    return [
        metric_name
        for metric_name in (name.removesuffix("_chosen") for name in frame.columns if name.endswith("_chosen"))
        if f"{metric_name}_rejected" in frame.columns
        and not (is_fact(metric_name) or looks_human(metric_name) or SIZES & set(split_name(metric_name)))
        and all(is_number(frame[f"{metric_name}_{side}"]) for side in ("chosen", "rejected"))
    ]


def looks_like_score(name: str) -> bool:
    """Whether a numeric column has the name of a score."""
    return not is_fact(name) and (looks_human(name) or not name_stems(name).isdisjoint(ASPECTS | GENERIC | SCORERS))


def may_be_scores(column: pl.Series) -> bool:
    """Whether a column may hold scores. Row numbers, and properties of a request or text such as the number of tokens,
    are not scores."""
    return (
        is_number(column)
        and not (is_fact(column.name) or find_columns("item", [column.name]) or SIZES & name_stems(column.name))
        and column.n_unique() > 1
        and not is_index(column)
    )


def is_index(column: pl.Series) -> bool:
    """Whether the cells are row numbers."""
    if column.len() < FEWEST or not is_number(column) or column.null_count() or column.n_unique() < column.len():
        return False
    return bool((column.cast(pl.Float64).diff().drop_nulls() == 1).all())


def holds_judgements(column: pl.Series) -> bool:
    """Whether a column holds judgements of outputs: scores, binary labels, or the winner of a pair."""
    if is_number(column) or column.dtype == pl.Boolean:
        return looks_like_score(column.name)
    if column.dtype != pl.String:
        return False
    distinct_labels = set(column.drop_nulls().str.strip_chars().str.to_lowercase().unique().head(len(TRUTH) + 1)) - {""}
    is_named_like_judgement = looks_human(column.name) or not {"outcome", *CORE["winner"]}.isdisjoint(
        lookup_names(column.name)
    )
    return bool(distinct_labels) and (distinct_labels <= TRUTH or (is_named_like_judgement and not is_prose(column)))


def is_text(column: pl.Series) -> bool:
    """Whether a column holds text rather than numbers, times or structures."""
    n_filled_cells, n_numbers = count_filled_cells(column) if column.dtype == pl.String else (0, 0)
    return n_filled_cells > n_numbers and not is_time(column)


def is_time(column: pl.Series) -> bool:
    """Whether the cells are times."""
    cells = column.drop_nulls()
    has_only_time_texts = (
        column.dtype == pl.String and cells.len() > 0 and cells.str.strip_chars().str.contains(TIME).all()
    )
    return column.dtype.is_temporal() or bool(has_only_time_texts)


def is_prose(column: pl.Series) -> bool:
    """Whether the cells of a column are texts with several words on average."""
    if not is_text(column):
        return False
    cells = column.drop_nulls().str.strip_chars()
    return bool(cells.filter(cells != "").str.count_matches(r"\s+").mean() >= BLANKS)  # type: ignore[operator]


def may_be_systems(column: pl.Series) -> bool:
    """Whether the labels of a column may be systems. There must be several short labels, which are not times, numbers
    or ratings."""
    if not is_text(column):
        return False
    stripped_labels = column.drop_nulls().str.strip_chars()
    lowercase_labels = set(stripped_labels.str.to_lowercase().unique())
    return (
        2 <= len(lowercase_labels) <= min(MOST_SYSTEMS, column.len() / 2)
        and bool((stripped_labels.str.len_chars() <= LABEL).all())
        and not lowercase_labels <= TRUTH
        and not is_prose(column)
    )


def has_another_role(name: str, *roles: str) -> bool:
    """Whether a column has the name of a role other than `roles`."""
    return not {
        usual_name for role, usual_names in NAMES.items() if role not in roles for usual_name in usual_names
    }.isdisjoint(lookup_names(name))


def has_text_role(name: str) -> bool:
    """Whether a name is the name of a source, a reference or another text, and not the name of a system."""
    normalised_name = normalise_name(name)
    return len(normalised_name) > 1 and any(
        normalised_name in NAMES[role] for role in ("text", "source", "references", "context", "item")
    )


def is_category(column: pl.Series) -> bool:
    """Whether a column holds descriptions of items or ratings of outputs, such as a category, an address or a
    rating."""
    if not CATEGORIES.isdisjoint(split_name(column.name)) or is_fact(column.name):
        return True
    return (
        column.n_unique() <= max(2, CATEGORY * column.len())
        and not is_prose(column)
        and not looks_like_machine(column.name)
    )


def may_be_labels(column: pl.Series) -> bool:
    """Whether cells may be labels of raters or items: a label occurs at least twice on average, and the cells are not
    numbers with a decimal point."""
    if column.dtype.is_nested() or column.dtype.is_float() or column.n_unique() > column.len() / 2:
        return False
    return not (is_number(column) and column.cast(pl.String).str.contains(".", literal=True).any())


def varies_within_items(frame: pl.DataFrame, column_name: str, item_column_name: str) -> bool:
    """Whether a column has several values for an item. A column with one value for each item describes the items."""
    return column_name != item_column_name and bool(
        (frame.group_by(item_column_name).agg(pl.col(column_name).n_unique())[column_name] > 1).any()
    )


def cluster_role(frame: pl.DataFrame, item_column_name: str) -> dict[str, str]:
    """The column of documents or dialogues with several items each, by the role `cluster`; empty if there is none."""
    n_items = frame[item_column_name].n_unique()
    cluster_column_names = [
        column_name
        for column_name in frame.columns
        if column_name != item_column_name
        and normalise_name(column_name) in CLUSTERS
        and 1 < frame[column_name].n_unique() < n_items
        and frame.select(item_column_name, column_name).n_unique() == n_items
    ]
    return {"cluster": cluster_column_names[0]} if cluster_column_names else {}


def find_items(frame: pl.DataFrame, column_names: Sequence[str]) -> list[str]:
    """Candidate columns of the item: columns with a usual name (texts last), and then columns of labels, those with the
    most values first."""
    possible_label_columns = [
        name
        for name in column_names
        if not (
            frame[name].dtype.is_float() or frame[name].dtype.is_nested() or is_time(frame[name]) or is_measure(name)
        )
    ]
    usual_columns = find_columns("item", possible_label_columns)
    other_columns = [
        name
        for name in possible_label_columns
        if name not in usual_columns
        and frame[name].n_unique() > 1
        and not (has_another_role(name, "item") or holds_judgements(frame[name]) or is_prose(frame[name]))
    ]
    return [
        *sorted(usual_columns, key=lambda name: is_prose(frame[name])),
        *sorted(other_columns, key=lambda name: frame[name].n_unique(), reverse=True),
    ][:CHOICES]


def find_systems(frame: pl.DataFrame, column_names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Candidate columns of the system: columns with a usual name (those with several labels first), and columns whose
    cells may be systems."""
    usual_columns = [
        name
        for name in find_columns("system", column_names)
        if not (frame[name].dtype.is_nested() or frame[name].dtype.is_float())
        and not (is_time(frame[name]) or is_prose(frame[name]))
        and frame[name].n_unique() <= max(1, min(MOST_SYSTEMS, frame.height / 2))
    ]
    likely_columns = [
        name
        for name in column_names
        if name not in usual_columns
        and may_be_systems(frame[name])
        and not (is_fact(name) or has_another_role(name, "system"))
        and CATEGORIES.isdisjoint(split_name(name))
    ]
    return sorted(usual_columns, key=lambda name: frame[name].n_unique() < 2)[:CHOICES], likely_columns[:CHOICES]


def invalid_score_cell(frame: pl.DataFrame, column_names: Sequence[str]) -> str:
    """Text such as `NAME 'cell' in row 1`, for the first column of scores with cells that are not numbers.

    A column is a column of scores if at least half of its cells are numbers or begin like numbers.
    """
    for name in column_names:
        n_filled_cells, n_numbers = count_filled_cells(frame[name])
        if n_numbers == n_filled_cells or not is_text(frame[name]) or IDS & set(split_name(name)):
            continue
        cells = frame[name].str.strip_chars()
        is_invalid = (
            cells.is_not_null() & ~cells.str.to_lowercase().is_in(MISSING_TOKENS) & parse_numbers(cells).is_null()
        )
        if 2 * (n_numbers + (is_invalid & cells.str.contains(ALMOST_NUMBER)).sum()) >= n_filled_cells:
            row_index = int(is_invalid.arg_true()[0])
            return f"{name} {cells[row_index]!r} in row {row_index + 1}"
    return ""
