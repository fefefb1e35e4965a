"""Layouts of labels: columns with labels of annotators and of judges, guessed or declared."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from custodes.data.labels import MOST_LABELS, POLARITY, is_binary, label_words, without_abstentions
from custodes.data.mapping.annotator_columns import parse_numbers
from custodes.data.mapping.cell_types import is_number, is_prose, looks_like_score
from custodes.data.mapping.column_vocabulary import (
    CONFIDENCES,
    HUMAN_WORDS,
    KINDS,
    NAMES,
    find_columns,
    find_side_pairs,
    looks_human,
    looks_like_person,
    lookup_names,
    normalise_name,
    split_name,
    stem,
    word_list,
)
from custodes.data.mapping.columns import Columns
from custodes.data.mapping.label_layout import (
    JUDGE,
    OWN_LAYOUT,
    LabelLayout,
    add_key_columns,
    has_reviewers,
    names_judge_version,
)
from custodes.data.mapping.pattern import ColumnPattern
from custodes.data.table import count_filled_cells

HUMAN = frozenset(
    word_list(
        "gold golden truth reference sme reviewer auditor manual annotation annotations annotated label_truth"
        " groundtruth user customer client feedback qa"
    )
)
"""Words in names of columns with human labels, in addition to the words for human ratings."""

EVALUATIONS = frozenset(word_list("grading evals evaluation evaluations"))
"""Words in names of columns with labels of a judge, unless the name looks human, as in `evaluation_by_expert`."""

NOT_LABELS = frozenset(
    word_list(
        "latency ms seconds sec time duration cost usd price token tokens reason reasoning comment explanation"
        " rationale critique model version name prompt id timestamp date created updated"
    )
)
"""Words in names of columns that describe a judgement but are not labels."""

LABEL_PERSONS = HUMAN_WORDS - {*word_list("prufer gutachter bewerter annotateur anotador annotatore")} | frozenset(
    ["expert"]
)
"""Last words in names of columns that more often hold labels than names of persons, such as `expert`, but not
`reviewer`."""

LABEL_WORDS = frozenset(word_list("label verdict result passed pass score rating annotation value"))
"""Words in column names that name no rater and no criterion."""

SCORE = frozenset(word_list("score scores prob probability logit confidence rating value"))
"""Words in names of columns that hold scores of a judge, in addition to its labels."""

LONG_LABEL = ("label", "string_value", "verdict", "passed", "result", "score", "value", "rating", "annotation")
LONG_ASPECT = word_list(
    "aspect criterion criteria name metric metric_name score_name assessment_name evaluation_name dimension"
)
AUTHORS = word_list("author author_id author_name author_user_id created_by")
"""Names of columns with the annotator of a label, in a table with one row per label."""
ROLES_OF_LABELS = word_list("item system cluster probability n_outputs repeat rater kind score aspect")
MOST_WORDS = 200
"""Maximum number of distinct texts of a column of labels or of rater names."""

LAYOUT_ROWS = 20_000
"""Number of rows from which a layout is guessed."""


def label_layout(frame: pl.DataFrame, declared_mapping: Columns) -> LabelLayout | None:
    """The layout of a table of labels; None for other tables.

    Without patterns, cells must be words or numbers of a known pair of labels; tables with other numbers are ratings.

    Parameters
    ----------
    frame : DataFrame
    declared_mapping : Columns
        Roles and patterns of the caller, which take precedence over guesses. Columns of other tables are ignored.
    """
    if not set(declared_mapping.roles) <= set(ROLES_OF_LABELS):
        return None
    declared_mapping = replace(
        declared_mapping, roles={role: name for role, name in declared_mapping.roles.items() if name in frame.columns}
    )
    if any(set(NAMES["system"]) & set(split_name(name)) for name, _ in find_side_pairs(frame.columns)):
        return None  # verdicts on two systems
    if not declared_mapping and {*OWN_LAYOUT.assigned_columns, *OWN_LAYOUT.systems} <= set(frame.columns):
        column_of_optional_role: dict[str, Any] = {
            name: name for name in ("cluster", "probability", "n_outputs") if name in frame.columns
        }
        return replace(OWN_LAYOUT, **column_of_optional_role)
    sample_rows = frame.head(LAYOUT_ROWS) if frame.height <= LAYOUT_ROWS else frame.sample(LAYOUT_ROWS, seed=0)
    words_of_column = {
        name: label_words(sample_rows[name]) for name in frame.columns if _may_hold_labels(sample_rows[name])
    }
    binary_columns = [
        name
        for name, word_series in words_of_column.items()
        if is_binary(without_abstentions(word_series.drop_nulls().unique()))
    ]
    layout = _long_layout(sample_rows, words_of_column, binary_columns, declared_mapping) or _wide_layout(
        sample_rows, words_of_column, binary_columns, declared_mapping
    )
    return None if layout is None else add_key_columns(frame, layout, declared_mapping)


def _may_hold_labels(column: pl.Series) -> bool:
    if column.dtype == pl.String:
        return column.n_unique() <= MOST_WORDS or is_number(column)
    return column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Categorical, pl.Enum)


def _wide_layout(
    frame: pl.DataFrame, words_of_column: dict[str, pl.Series], binary_columns: Sequence[str], declared_mapping: Columns
) -> LabelLayout | None:
    """Layout with one row per output, and a column for each rater. `binary_columns` have binary labels."""
    if "score" in declared_mapping.roles:
        return None
    reviewer_column = declared_mapping.roles.get("rater", "")  # the rater of the human labels
    match_of_column = declared_mapping.split(frame.columns)
    if match_of_column:
        return _declared_wide_layout(frame, words_of_column, binary_columns, declared_mapping, match_of_column)
    declared_columns = set(declared_mapping.roles.values())
    free_columns = [
        name for name in words_of_column if name not in declared_columns and not NOT_LABELS & set(split_name(name))
    ]
    human_columns = [
        name
        for name in free_columns
        if (looks_human(name) or HUMAN & set(split_name(name)))
        and split_name(name)[0] not in JUDGE
        and _has_few_words(words_of_column[name])
        and not is_prose(frame[name])
    ]
    judge_columns = [
        name
        for name in free_columns
        if name not in human_columns
        and (JUDGE | EVALUATIONS) & set(split_name(name))
        and (split_name(name)[0] in JUDGE or not looks_human(name))
    ]
    human_columns = _columns_without_names(human_columns, judge_columns, words_of_column)
    is_review_table = any(has_reviewers(frame[name]) for name in frame.columns)
    has_texts = bool(find_columns("text", frame.columns))
    flag_columns = _flag_columns(
        frame, [name for name in binary_columns if name not in (*declared_columns, *human_columns, *judge_columns)]
    )
    if not human_columns and is_review_table:
        human_columns = flag_columns
    elif not judge_columns and (human_columns or not has_texts):
        judge_columns = flag_columns
    # The confidence in a label is no label.
    judge_columns = [name for name in judge_columns if not CONFIDENCES & set(split_name(name))] or judge_columns
    binary_human_columns = [name for name in human_columns if name in binary_columns]
    has_binary_word_judge = any(
        name in binary_columns and _has_only_words([words_of_column[name]]) for name in judge_columns
    )
    has_score_columns = any(
        is_number(frame[name]) and looks_like_score(name) for name in frame.columns if name not in human_columns
    )
    are_human_columns_ratings = not binary_human_columns and not _has_only_words(
        words_of_column[name] for name in human_columns
    )
    if are_human_columns_ratings and (has_score_columns or not has_binary_word_judge):
        return None
    human_columns = binary_human_columns or human_columns
    has_binary_judge = any(name in binary_columns for name in judge_columns)
    judge_columns = [
        name
        for name in judge_columns
        if (_has_few_words(words_of_column[name]) or is_number(frame[name]))
        and (not has_binary_judge or name in binary_columns or SCORE & set(split_name(name)))
    ]
    # Without a judge, the words or the name of a column must show that the column holds human labels.
    are_human_columns_labels = all(
        _has_only_words([frame[name]]) and (name in binary_columns or LABEL_WORDS & set(split_name(name)))
        for name in human_columns
    )
    may_be_text_table = (has_texts and not is_review_table) or not human_columns
    has_human_labels = are_human_columns_labels or (
        len(human_columns) > 1 and _has_only_words(words_of_column[name] for name in human_columns)
    )
    judge_columns = [name for name in judge_columns if human_columns or name in binary_columns]
    has_only_reviewer = reviewer_column and not human_columns and not names_judge_version(reviewer_column)
    if has_only_reviewer or (not judge_columns and (may_be_text_table or not has_human_labels)):
        return None
    return LabelLayout(
        human=tuple(human_columns),
        metrics=tuple(judge_columns),
        criteria=_criteria(human_columns, judge_columns),
        rater=reviewer_column,
    )


def _declared_wide_layout(
    frame: pl.DataFrame,
    words_of_column: dict[str, pl.Series],
    binary_columns: Sequence[str],
    declared_mapping: Columns,
    match_of_column: Mapping[str, tuple[ColumnPattern, dict[str, str]]],
) -> LabelLayout | None:
    """Layout with one row per output. The columns of labels are those that the patterns of the caller match. The result
    is None for a table of ratings, scores or texts."""
    kind_of_column = {
        name: pattern.kind or label_by_role.get("kind", "")
        for name, (pattern, label_by_role) in match_of_column.items()
    }
    human_columns = [name for name, rater_kind in kind_of_column.items() if rater_kind == "human"]
    metric_columns = [name for name, rater_kind in kind_of_column.items() if rater_kind == "metric"]
    reviewer_column = declared_mapping.roles.get("rater", "")
    placeholder_roles = {role for _, label_by_role in match_of_column.values() for role in label_by_role}
    has_rater_twice = (
        reviewer_column
        and not names_judge_version(reviewer_column)
        and (not human_columns or any("rater" in match_of_column[name][1] for name in human_columns))
    )
    may_be_rating_table = "aspect" in placeholder_roles or "system" in (*declared_mapping.roles, *frame.columns)
    has_word_labels = all(name in words_of_column for name in human_columns) and _has_only_words(
        frame[name] for name in human_columns or metric_columns
    )
    is_review_table = reviewer_column and all(name in binary_columns for name in human_columns)
    are_judges_binary_words = bool(metric_columns) and all(
        name in binary_columns and _has_only_words([frame[name]]) for name in metric_columns
    )
    have_humans_few_words = all(
        name in words_of_column
        and _has_few_words(words_of_column[name])
        and not (parse_numbers(frame[name]) % 1 > 0).any()
        for name in human_columns
    )
    if (
        len(human_columns) + len(metric_columns) < len(kind_of_column)
        or has_rater_twice
        or placeholder_roles - {"rater", "kind", "aspect"}
        or (may_be_rating_table and not (has_word_labels or is_review_table or are_judges_binary_words))
        or not have_humans_few_words
        or not (human_columns or any(name in binary_columns for name in metric_columns))
    ):
        return None
    rater_and_criterion_of_column = {
        name: (label_by_role.get("rater") or pattern.constant_text or kind_of_column[name], label_by_role["aspect"])
        for name, (pattern, label_by_role) in match_of_column.items()
        if "aspect" in placeholder_roles
    }
    return LabelLayout(
        human=tuple(human_columns),
        metrics=tuple(metric_columns),
        criteria=rater_and_criterion_of_column,
        rater=reviewer_column,
    )


def _columns_without_names(
    human_columns: Sequence[str], judge_columns: Sequence[str], words_of_column: Mapping[str, pl.Series]
) -> list[str]:
    """The columns of human labels, except columns such as `reviewer` that hold names of people.

    A column named like `reviewer` holds labels if a cell is a known label, or occurs as a label in another column. If
    there is only one such column, as `expert`, it may also have two unknown words.
    """
    distinct_words_of_column = {
        name: {*words_of_column[name].drop_nulls()} for name in (*human_columns, *judge_columns)
    }
    non_person_columns = [
        name for name in distinct_words_of_column if name not in filter(looks_like_person, human_columns)
    ]

    def holds_labels(name: str) -> bool:
        column_words = distinct_words_of_column[name]
        known_label_words = {word for word in POLARITY if len(word) > 1}.union(  # `t` may be initials
            *(
                distinct_words_of_column[other_name]
                for other_name in non_person_columns or distinct_words_of_column
                if other_name != name
            )
        )
        last_word = [stem(word) for word in split_name(name) if stem(word)][-1]
        are_two_words_labels = (
            len(column_words) == 2 and last_word in LABEL_PERSONS and human_columns == [name] and non_person_columns
        )
        return is_binary(column_words) or not known_label_words.isdisjoint(column_words) or bool(are_two_words_labels)

    return [name for name in human_columns if not looks_like_person(name) or holds_labels(name)]


def _flag_columns(frame: pl.DataFrame, binary_columns: Sequence[str]) -> list[str]:
    """Columns with known binary labels and names such as `is_correct` or `passed`; empty if the table has scores."""
    if any(is_number(frame[name]) and looks_like_score(name) for name in frame.columns):
        return []
    flag_words = {*LABEL_WORDS, *POLARITY}
    return [
        name
        for name in binary_columns
        if (split_name(name)[0] in ("is", "has") or split_name(name)[-1] in flag_words)
        and (frame[name].dtype == pl.Boolean or not is_number(frame[name]))
    ]


def _criteria(human_columns: Sequence[str], judge_columns: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Rater and criterion of each column whose name contains both. Annotators and judges must have common criteria.

    >>> _criteria(["human_tone", "human_facts"], ["judge_tone", "judge_facts"])["judge_facts"]
    ('judge', 'facts')
    """
    rater_and_criterion_of_column: dict[str, tuple[str, str]] = {}
    for name in (*human_columns, *judge_columns):
        name_words = [word for word in re.split(r"[\W_]+", name) if word]
        rater_words = [word for word in name_words if word.lower() in JUDGE | EVALUATIONS | HUMAN or looks_human(word)]
        criterion_name = "_".join(
            [word for word in name_words if word not in rater_words and word.lower() not in LABEL_WORDS]
        )
        if not criterion_name or criterion_name not in name:
            return {}
        rater_and_criterion_of_column[name] = ("_".join(rater_words), criterion_name)
    common_criteria = {rater_and_criterion_of_column[name][1] for name in human_columns} & {
        rater_and_criterion_of_column[name][1] for name in judge_columns
    }
    if (
        len(common_criteria) < 2
        or {rater_and_criterion_of_column[name][1] for name in human_columns} - common_criteria
        or len(set(rater_and_criterion_of_column.values())) < len(rater_and_criterion_of_column)
    ):
        return {}
    return rater_and_criterion_of_column


def _has_few_words(column: pl.Series) -> bool:
    """Whether a column has few distinct words, or no values."""
    return column.drop_nulls().n_unique() <= MOST_LABELS


def _has_only_words(columns: Iterable[pl.Series]) -> bool:
    return all(count_filled_cells(column)[1] == 0 for column in columns)


def _long_layout(
    frame: pl.DataFrame, words_of_column: dict[str, pl.Series], binary_columns: Sequence[str], declared_mapping: Columns
) -> LabelLayout | None:
    """Layout with one row per label, and a column for the rater or the kind. `binary_columns` have binary labels."""
    if declared_mapping.patterns:
        return None
    column_of_declared_role = declared_mapping.roles

    def columns_of_role(role: str, usual_names: Sequence[str]) -> list[str]:
        return (
            [column_of_declared_role[role]]
            if role in column_of_declared_role
            else list(
                dict.fromkeys(
                    name for usual_name in usual_names for name in words_of_column if usual_name in lookup_names(name)
                )
            )
        )

    kind_columns = [
        name
        for name in columns_of_role("kind", NAMES["kind"])
        if name in words_of_column and set(words_of_column[name].unique()) <= KINDS.keys()
    ]
    if not kind_columns:
        return None
    assigned_columns = {*column_of_declared_role.values(), kind_columns[0]}
    rater_kinds = words_of_column[kind_columns[0]].replace_strict(KINDS)
    label_columns = [
        name
        for name in columns_of_role("score", LONG_LABEL)
        if ("score" in column_of_declared_role or name not in assigned_columns)
        and name in words_of_column
        and words_of_column[name].drop_nulls().len()
    ]
    binary_label_columns = [name for name in label_columns if name in binary_columns]
    has_no_system_column = "system" not in column_of_declared_role and not find_columns(
        "system", frame.columns
    )  # no table of ratings
    nominal_label_columns = [
        name
        for name in label_columns
        if "score" in column_of_declared_role
        or (_has_few_words(words_of_column[name]) and (has_no_system_column or _has_only_words([frame[name]])))
    ]
    ranked_label_columns = (
        sorted(binary_label_columns, key=lambda name: is_number(frame[name])) or nominal_label_columns
    )
    if not ranked_label_columns:
        return None
    assigned_columns.add(ranked_label_columns[0])
    rater_columns = [
        name
        for name in [
            *find_columns("rater", list(words_of_column)),
            *(name for name in words_of_column if normalise_name(name) in AUTHORS),
        ]
        if name not in assigned_columns
        and normalise_name(name) not in LONG_ASPECT
        and not _count_common_values(words_of_column[name], rater_kinds)
    ]
    rater_column = column_of_declared_role.get("rater") or next(iter(rater_columns), "")
    aspect_columns = [
        name
        for name in columns_of_role("aspect", LONG_ASPECT)
        if (
            name in column_of_declared_role.values()
            or (name not in {*assigned_columns, rater_column} and not words_of_column[name].null_count())
        )
        and (
            rater_kinds.n_unique() < 2 or _count_common_values(words_of_column.get(name, frame[name]), rater_kinds) > 0
        )
    ]
    aspect_columns.sort(key=lambda name: name.rpartition(".")[0] != ranked_label_columns[0].rpartition(".")[0])
    return LabelLayout(
        label=ranked_label_columns[0],
        kind=kind_columns[0],
        rater=rater_column,
        aspect=aspect_columns[0] if aspect_columns else "",
        item=column_of_declared_role.get("item") or _find_item_column(frame, rater_kinds, assigned_columns),
    )


def _count_common_values(column: pl.Series, rater_kinds: pl.Series) -> int:
    """The number of values of a column that occur both in rows of human raters and in rows of metrics."""
    value_kind_rows = pl.DataFrame({"value": column.cast(pl.String), "kind": rater_kinds}).drop_nulls().unique()
    return value_kind_rows.height - value_kind_rows["value"].n_unique()


def _find_item_column(frame: pl.DataFrame, rater_kinds: pl.Series, assigned_columns: Iterable[str]) -> str:
    """The column with the most values that occur both in rows of human raters and in rows of metrics."""
    candidate_columns = [name for name in frame.columns if name not in set(assigned_columns)]
    likely_columns = [
        *find_columns("item", candidate_columns),
        *(name for name in candidate_columns if "id" in split_name(name)),
    ]
    n_common_values_of_column = {
        name: _count_common_values(frame[name], rater_kinds)
        for name in (*likely_columns, *candidate_columns)
        if not (frame[name].dtype.is_nested() or frame[name].dtype.is_float())
    }
    best_column = max(n_common_values_of_column, key=n_common_values_of_column.__getitem__, default="")
    return best_column if n_common_values_of_column.get(best_column) else next(iter(likely_columns), "")
