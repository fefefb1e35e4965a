"""Guesses of a mapping for a table that no reader accepts, from names and cells. A mapping "reads" a table if a reader
accepts the mapped table. Only a guess that reads the table is shown."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, product
from os.path import commonprefix

import polars as pl

from custodes.data.mapping.annotator_columns import metric_column_patterns, nested_patterns, people_patterns
from custodes.data.mapping.cell_types import (
    CATEGORIES,
    cluster_role,
    has_another_role,
    holds_judgements,
    invalid_score_cell,
    is_index,
    is_informative,
    is_number,
    is_text,
    is_time,
    looks_like_score,
    may_be_labels,
    may_be_scores,
    may_be_systems,
    varies_within_items,
)
from custodes.data.mapping.column_vocabulary import (
    ASPECTS,
    AVERAGES,
    GENERIC,
    IDS,
    NAMES,
    PEOPLE_ROLES,
    find_averages,
    find_columns,
    find_side_pairs,
    is_fact,
    is_measure,
    looks_human,
    name_stems,
    normalise_name,
    parse_kinds,
    split_name,
)
from custodes.data.mapping.columns import TABLE_ROLES, Columns
from custodes.data.mapping.guess_texts import (
    CHOICES,
    are_systems,
    score_text_roles,
    system_column_layouts,
    text_guesses,
)
from custodes.data.mapping.guess_verdicts import RATERS, SAMPLE_ROWS, Guess, assign_roles, verdict_layouts
from custodes.data.mapping.pattern import escape_braces, match_columns
from custodes.data.mapping.text_columns import TEXTS

GUESS_ROWS = 5000
"""Number of rows from which guesses are derived."""


def find_certain_mapping(
    frame: pl.DataFrame, declared: Columns, reads: Callable[[pl.DataFrame, Columns], bool]
) -> Columns | None:
    """The mapping of texts that reads the table and is certain according to names and cells; None if there is none."""
    first_rows = frame.head(GUESS_ROWS)
    for text_mapping, is_certain in text_guesses(frame.head(SAMPLE_ROWS), declared):
        if text_mapping != declared and reads(first_rows, text_mapping):
            return text_mapping if is_certain and (frame.height <= GUESS_ROWS or reads(frame, text_mapping)) else None
    return None


def suggest_mapping(
    frame: pl.DataFrame,
    declared: Columns,
    reads: Callable[[pl.DataFrame, Columns, int], bool],
    wrong: str,
    flattened_columns: Collection[str] = (),
) -> str:
    """Advice such as `; try --column item=doc_id ...`, with the first guess that reads the table; '' if there is none.

    `declared` is the mapping of the user, which is a part of all guesses. `flattened_columns` are the columns from
    nested cells. A guess that would drop a score column because of invalid cells is not suggested. The advice then
    names the cell to correct, unless the message `wrong` already names that cell.
    """
    first_rows = frame.head(GUESS_ROWS)
    has_score_columns = any(looks_like_score(name) for name in first_rows.columns if is_number(first_rows[name]))
    text_mappings = (
        mapping
        for mapping, _ in text_guesses(frame.head(SAMPLE_ROWS), declared)
        # texts alone would drop the scores, which does not matter if there is only one system
        if not has_score_columns or _has_one_system(frame, mapping)
    )
    candidate_mappings = chain(guesses(first_rows, declared, flattened_columns), text_mappings)
    has_verdict_columns = find_side_pairs(first_rows.columns) and find_columns("winner", first_rows.columns)
    if not has_score_columns and not has_verdict_columns and score_text_roles(frame.head(SAMPLE_ROWS), []):
        candidate_mappings = chain(
            sorted(text_mappings, key=lambda mapping: _has_one_system(frame, mapping)),
            guesses(first_rows, declared, flattened_columns),
        )
    for mapping in candidate_mappings:
        min_n_systems = 1 if _has_one_system(frame, mapping) else 2
        if (
            mapping != declared
            and reads(first_rows, mapping, min_n_systems)
            and (frame.height <= GUESS_ROWS or reads(frame, mapping, min_n_systems))
        ):
            invalid_cell_text = (
                invalid_score_cell(
                    frame,
                    [name for name in frame.columns if name not in mapping.roles.values() and name not in TABLE_ROLES],
                )
                if mapping.match_patterns(frame.columns)
                else ""
            )
            if invalid_cell_text:
                return (
                    ""
                    if invalid_cell_text in wrong
                    else f"; {invalid_cell_text} is not a number: correct this cell, then a mapping can be suggested; "
                    "if the column holds labels, map the columns of labels, as in --columns 'human:{rater:NAME}' "
                    "--columns 'metric:{rater:NAME}'"
                )
            advice_text = f"; try {format_options(mapping)} (in Python columns={mapping.mapping})"
            per_system_mapping = replace(mapping, patterns=("metric:{system}",))
            if min_n_systems == 1 and mapping.patterns == ("{rater}",) and reads(first_rows, per_system_mapping, 2):
                advice_text += (
                    f", or, if each of these columns has the scores of one system, {format_options(per_system_mapping)}"
                )
            return advice_text
    return ""


def _has_one_system(frame: pl.DataFrame, mapping: Columns) -> bool:
    """Whether a mapping names no column of systems, or a column with only one system."""
    if {"output_a", "system_a"} & mapping.roles.keys() or any(
        "{system" in name_or_pattern for name_or_pattern in (mapping.roles.get("text", ""), *mapping.patterns)
    ):
        return False
    system_column_name = mapping.roles.get("system", "system")
    return system_column_name not in frame.columns or frame[system_column_name].n_unique() < 2


def format_options(columns: Columns) -> str:
    """A mapping as command-line options."""
    return " ".join(
        [
            *(
                f"--column {shlex.quote(f'{role}={name_or_pattern}')}"
                for role, name_or_pattern in columns.roles.items()
            ),
            *(f"--columns {shlex.quote(pattern)}" for pattern in columns.patterns),
        ]
    )


def guesses(frame: pl.DataFrame, declared: Columns, flattened_columns: Collection[str] = ()) -> Iterator[Columns]:
    """Mappings that may read a table of verdicts, a long table, a wide table, or a table of one system; the likeliest
    first."""
    declared_columns = set(declared.roles.values())
    free_columns = [name for name in frame.columns if name and name not in declared_columns]
    rater_columns = [*find_columns("rater", free_columns), *(name for name in free_columns if name.endswith(".*.name"))]
    candidates_of_role = {
        **{role: find_columns(role, free_columns) for role in ("item", "system", "score", *RATERS, "winner", "order")},
        "rater": [name for name in rater_columns if may_be_labels(frame[name])],
        "kind": [
            name
            for name in find_columns("kind", free_columns)
            if frame[name].dtype == pl.String and not parse_kinds(frame[name]).null_count()
        ],
        **{role: [name] for role, name in declared.roles.items()},
    }
    number_columns = [
        name for name in free_columns if is_number(frame[name]) and not is_fact(name) and not is_index(frame[name])
    ]
    has_system_column_pair = any(
        set(NAMES["system"]) & set(split_name(name)) for name, _ in find_side_pairs(free_columns)
    )
    item_columns, system_columns = _key_candidates(frame, free_columns, candidates_of_role)
    yield from _complete_guesses(
        declared, verdict_layouts(frame, free_columns, candidates_of_role, item_columns), frame.columns
    )
    if (candidates_of_role["winner"] and has_system_column_pair) or any(
        are_systems(frame.head(SAMPLE_ROWS), column_pair) for column_pair in find_side_pairs(free_columns)
    ):
        return  # no other layout is possible
    column_of_text_role = (
        {} if "text" in declared.roles else score_text_roles(frame.head(SAMPLE_ROWS), [*declared_columns])
    )
    # If every row is a different item, no two systems can be compared.
    item_columns.sort(key=lambda item_column: frame[item_column].n_unique() == frame.height)
    key_mappings = [
        {"item": item_column, "system": system_column, **cluster_role(frame, item_column)}
        for item_column, system_column in product(item_columns, system_columns)
        if item_column != system_column
    ]
    single_system_key_mappings = list[dict[str, str]]()
    if "system" not in (*declared.roles, *frame.columns):
        yield from _complete_guesses(declared, system_column_layouts(frame, free_columns), frame.columns)
        if not has_system_column_pair and not declared.patterns and any(may_be_scores(column) for column in frame):
            single_system_key_mappings = _single_system_keys(frame, free_columns, number_columns, column_of_text_role)
    for make_layouts, column_of_key_role in (
        *product((_long_layouts, _half_long_layouts, _wide_layouts), key_mappings),
        *product((_long_layouts, _wide_layouts), single_system_key_mappings),
    ):
        item_column = column_of_key_role["item"]
        score_columns = [
            name
            for name in number_columns
            if name not in column_of_key_role.values() and is_informative(frame, name, item_column)
        ]
        aspect_columns = [
            name
            for name in candidates_of_role["aspect"]
            if normalise_name(name) != "question" or varies_within_items(frame, name, item_column)
        ]
        layouts = list(
            make_layouts(
                frame,
                column_of_key_role,
                score_columns,
                {**candidates_of_role, "aspect": aspect_columns},
                declared,
                flattened_columns,
            )
        )
        yield from _complete_guesses(
            declared,
            chain(_add_text_roles(layouts, column_of_text_role, declared), layouts),
            frame.columns,
        )


def _single_system_keys(
    frame: pl.DataFrame,
    free_columns: Sequence[str],
    number_columns: Sequence[str],
    column_of_text_role: Mapping[str, str],
) -> list[dict[str, str]]:
    """Candidate mappings of the item in a table of one system. A constant column may hold the name of the system."""
    constant_system_columns = [
        name for name in find_columns("system", free_columns) if frame[name].n_unique() == 1 and is_text(frame[name])
    ]
    item_columns = [
        *(
            name
            for name in find_columns("item", free_columns)
            if not is_time(frame[name]) and name not in number_columns
        ),
        *(
            name
            for name in free_columns
            if split_name(name)[-1] in IDS or (is_index(frame[name]) and not is_measure(name))
        ),
        *([column_of_text_role["source"]] if "source" in column_of_text_role else []),
    ]
    column_of_system_role = {"system": constant_system_columns[0]} if constant_system_columns else {}
    return [{"item": item_column, **column_of_system_role} for item_column in dict.fromkeys(item_columns)]


def _add_text_roles(
    layouts: Sequence[tuple[dict[str, str], tuple[str, ...]]], column_of_text_role: Mapping[str, str], declared: Columns
) -> Guess:
    """Layouts of scores, with the text columns of the table added. The source may serve as the item."""
    for column_of_role, patterns in layouts:
        column_of_added_role = {
            role: name
            for role, name in column_of_text_role.items()
            if name not in column_of_role.values() or (role == "source" and name == column_of_role["item"])
        }
        if "text" in column_of_added_role and (patterns or declared.patterns or "score" in column_of_role):
            yield {**column_of_role, **column_of_added_role}, patterns


def _complete_guesses(declared: Columns, layouts: Guess, column_names: Sequence[str]) -> Iterator[Columns]:
    """Guesses, with the user's mapping added. Columns with the name of their role, and patterns without a match, are
    left out."""
    for column_of_role, patterns in layouts:
        roles_sharing_column = {
            role
            for role, other_role in (("source", "item"), ("winner", "system_a"))
            if column_of_role.get(role) == column_of_role.get(other_role)
        }
        if len(set(column_of_role.values())) == len({*column_of_role} - roles_sharing_column):
            column_of_guessed_role = {
                role: name
                for role, name in column_of_role.items()
                if (role != name or role in TEXTS or role in roles_sharing_column) and role not in declared.roles
            }
            all_patterns = tuple(dict.fromkeys((*declared.patterns, *patterns)))
            guessed_mapping = Columns(roles={**column_of_guessed_role, **declared.roles}, patterns=all_patterns)
            matched_patterns = {
                *declared.patterns,
                *(() if "score" in declared.roles else guessed_mapping.match_patterns(column_names)),
            }
            yield Columns(
                roles=declared.roles, patterns=tuple(pattern for pattern in all_patterns if pattern in matched_patterns)
            ).merge_defaults(Columns(roles=column_of_guessed_role))


def _key_candidates(
    frame: pl.DataFrame, free_columns: Sequence[str], candidates_of_role: Mapping[str, Sequence[str]]
) -> tuple[list[str], list[str]]:
    """Candidate columns for the item and for the system: first by name, then by the number of distinct labels."""
    n_distinct_of_column = {name: frame[name].n_unique() for name in free_columns if not frame[name].dtype.is_nested()}
    label_columns = [
        name for name in n_distinct_of_column if not frame[name].dtype.is_float() and not looks_human(name)
    ]
    likely_item_columns = sorted(
        (
            name
            for name in label_columns
            if n_distinct_of_column[name] > 1
            and may_be_labels(frame[name])
            and not (is_measure(name) or is_time(frame[name]) or holds_judgements(frame[name]))
        ),
        key=n_distinct_of_column.__getitem__,
        reverse=True,
    )
    item_columns = list(dict.fromkeys([*candidates_of_role["item"], *likely_item_columns]))
    likely_system_columns = sorted(
        (
            name
            for name in label_columns
            if may_be_systems(frame[name])
            and not (has_another_role(name, "system", "item") or name.endswith(".*.name") or is_fact(name))
            and CATEGORIES.isdisjoint(split_name(name))
            and (
                not item_columns
                or any(varies_within_items(frame, name, item_column) for item_column in item_columns[:CHOICES])
            )
        ),
        key=n_distinct_of_column.__getitem__,
    )
    usual_system_columns = [
        name
        for name in candidates_of_role["system"]
        if n_distinct_of_column.get(name, 2) > 1 and not is_time(frame[name])
    ]
    return item_columns[:CHOICES], list(dict.fromkeys([*usual_system_columns, *likely_system_columns]))[:CHOICES]


def _long_layouts(
    frame: pl.DataFrame,
    column_of_key_role: dict[str, str],
    number_columns: Sequence[str],
    candidates_of_role: Mapping[str, Sequence[str]],
    declared: Columns,
    flattened_columns: Collection[str],
) -> Guess:
    """Layouts with one row per rating."""
    score_columns = [
        name for name in candidates_of_role["score"] if name in number_columns or name in declared.roles.values()
    ]
    aspect_columns = [name for name in number_columns if ASPECTS & name_stems(name)]
    if len(aspect_columns) > 1:  # next to an aspect such as fluency, overall is an aspect too
        score_columns = [
            name for name in score_columns if name not in aspect_columns or name in declared.roles.values()
        ]
    if not score_columns and len(number_columns) == 1 and not ASPECTS & name_stems(number_columns[0]):
        score_columns = list(number_columns)
    column_of_further_role = assign_roles(column_of_key_role, candidates_of_role, ("rater", "aspect", "kind", "repeat"))
    for score_column in score_columns[:2]:
        if "rater" in column_of_further_role and score_column not in column_of_further_role.values():
            yield {**column_of_key_role, **column_of_further_role, "score": score_column}, ()
            yield {**column_of_key_role, "rater": column_of_further_role["rater"], "score": score_column}, ()


def _half_long_layouts(
    frame: pl.DataFrame,
    column_of_key_role: dict[str, str],
    number_columns: Sequence[str],
    candidates_of_role: Mapping[str, Sequence[str]],
    declared: Columns,
    flattened_columns: Collection[str],
) -> Guess:
    """Layouts with one row per rater and output, and a column per aspect."""
    column_of_further_role = assign_roles(column_of_key_role, candidates_of_role, ("rater", "repeat"))
    aspect_columns = [name for name in number_columns if name not in column_of_further_role.values()]
    if (
        "rater" not in column_of_further_role
        or any(map(looks_human, aspect_columns))
        or all(GENERIC.issuperset(split_name(name)) for name in aspect_columns)
    ):
        return
    kind_prefix = "human:" if PEOPLE_ROLES & set(split_name(column_of_further_role["rater"])) else ""
    rating_columns = [
        name
        for name in aspect_columns
        if set(split_name(name)) & (ASPECTS | GENERIC) and not AVERAGES & set(split_name(name))
    ] or aspect_columns
    assigned_columns = (*aspect_columns, *column_of_key_role.values(), *column_of_further_role.values())
    other_number_columns = [name for name in frame.columns if is_number(frame[name]) and name not in assigned_columns]
    common_prefix = re.sub(r"[^\W_]*$", "", commonprefix(rating_columns)) if len(rating_columns) > 1 else ""  # noqa: RUF071
    for pattern in (
        f"{escape_braces(common_prefix)}{{aspect}}",
        f"{{aspect:{','.join(map(escape_braces, rating_columns))}}}",
    ):
        if match_columns(pattern, [*aspect_columns, *other_number_columns]).keys() == set(rating_columns):
            yield {**column_of_key_role, **column_of_further_role}, (f"{kind_prefix}{pattern}",)


def _wide_layouts(
    frame: pl.DataFrame,
    column_of_key_role: dict[str, str],
    number_columns: Sequence[str],
    candidates_of_role: Mapping[str, Sequence[str]],
    declared: Columns,
    flattened_columns: Collection[str],
) -> Guess:
    """Layouts with one row per output, and a column per rater."""
    column_of_further_role = {
        role: name
        for role, name in assign_roles(column_of_key_role, candidates_of_role, ("aspect", "repeat")).items()
        if name == role
    }
    score_columns = [
        name
        for name in number_columns
        if name not in column_of_further_role.values() and (name == "score" or name not in TABLE_ROLES)
    ]
    object_patterns, ungrouped_columns = nested_patterns(
        frame, [name for name in score_columns if name in flattened_columns]
    )
    if object_patterns:
        score_columns = ungrouped_columns + [name for name in score_columns if name not in flattened_columns]
    human_patterns, human_columns = people_patterns(frame, score_columns)
    # Numbers that are not scores, such as the latency of a request, match no pattern.
    other_number_columns = [
        name
        for name in frame.columns
        if name not in (*column_of_key_role.values(), *score_columns, *column_of_further_role.values())
        and is_number(frame[name])
        and name not in TABLE_ROLES
    ]
    if human_patterns or object_patterns:
        aspects = {
            label_by_role.get("aspect", "")
            for pattern in human_patterns
            for label_by_role in match_columns(pattern, human_columns).values()
        }
        metric_patterns = metric_column_patterns(
            score_columns, human_columns, other_number_columns, sorted(aspects - {""})
        )
        yield {**column_of_key_role, **column_of_further_role}, (*object_patterns, *human_patterns, *metric_patterns)
    elif human_columns:
        return
    average_columns = find_averages(score_columns)
    if average_columns or other_number_columns or flattened_columns:
        non_average_columns = [
            name
            for name in score_columns
            if name not in average_columns and (not flattened_columns or frame[name].n_unique() > 1)
        ]
        if non_average_columns:
            yield {**column_of_key_role, **column_of_further_role}, (f"{{rater:{','.join(non_average_columns)}}}",)
        return
    yield {**column_of_key_role, **column_of_further_role}, ()
    yield {**column_of_key_role, **column_of_further_role}, ("{rater}",)
