"""Propose a mapping for a table that no reader accepts, based on column names and cells.

A mapping "reads" a table if a reader accepts the mapped table. Only a guess that reads the table is shown.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, product

import polars as pl

from custodes.data.mapping.annotator_columns import metric_patterns, nested_patterns, people_patterns
from custodes.data.mapping.cell_types import (
    CHOICES,
    cluster_role,
    find_items,
    find_systems,
    has_fractions,
    invalid_score_cell,
    is_index,
    is_number,
    is_prose,
    is_text,
    looks_like_score,
    may_be_labels,
    may_be_scores,
    varies_within_items,
)
from custodes.data.mapping.column_vocabulary import (
    ASPECTS,
    GENERIC,
    IDS,
    NAMES,
    SCORERS,
    WINNER_WORDS,
    find_averages,
    find_columns,
    find_side_pairs,
    is_fact,
    looks_human,
    looks_like_person,
    name_stems,
    parse_kinds,
    split_name,
)
from custodes.data.mapping.columns import TABLE_ROLES, Columns
from custodes.data.mapping.guess_texts import are_systems, names_output, pair_text_roles, score_text_roles, text_guesses
from custodes.data.mapping.pattern import escape_braces, match_columns
from custodes.data.mapping.phrases import propose_phrases
from custodes.data.mapping.text_columns import TEXTS

GUESS_ROWS = 5000
"""Number of rows from which guesses are derived."""
RATERS = ("rater", "aspect", "kind", "repeat")
"""Roles that distinguish several ratings of one output."""

Guess = Iterator[tuple[dict[str, str], Sequence[str]]]
"""Roles and patterns to try."""


def find_certain_mapping(
    frame: pl.DataFrame, declared_mapping: Columns, can_read: Callable[[pl.DataFrame, Columns], bool]
) -> Columns | None:
    """The mapping of texts that reads the table and is certain according to names and cells; None if there is none."""
    first_rows = frame.head(GUESS_ROWS)
    for text_mapping, is_certain in text_guesses(first_rows, declared_mapping):
        if text_mapping != declared_mapping and can_read(first_rows, text_mapping):
            return (
                text_mapping if is_certain and (frame.height <= GUESS_ROWS or can_read(frame, text_mapping)) else None
            )
    return None


def suggest_mapping(
    frame: pl.DataFrame,
    declared_mapping: Columns,
    can_read: Callable[[pl.DataFrame, Columns, int], bool],
    error_message: str,
    flattened_columns: Collection[str] = (),
) -> str:
    """Advice such as `; try --column item=doc_id ...`, with the first guess that reads the table; '' if there is none.

    `declared_mapping` is the mapping of the user, which is a part of all guesses. `flattened_columns` are the columns
    from nested cells. A guess that would drop a score column because of invalid cells is not suggested. Instead, the
    advice names the cell to correct, if `error_message` does not name it already.
    """
    first_rows = frame.head(GUESS_ROWS)
    has_scores = any(looks_like_score(name) for name in first_rows.columns if is_number(first_rows[name]))
    text_mappings = [mapping for mapping, _ in text_guesses(first_rows, declared_mapping)]
    if has_scores and not all(_has_one_system(frame, mapping) for mapping in text_mappings):
        text_mappings = []  # texts alone would drop the scores, which does not matter if there is only one system
    for mapping in chain(guesses(first_rows, declared_mapping, flattened_columns), text_mappings):
        min_n_systems = 1 if _has_one_system(frame, mapping) else 2
        if (
            mapping != declared_mapping
            and can_read(first_rows, mapping, min_n_systems)
            and (frame.height <= GUESS_ROWS or can_read(frame, mapping, min_n_systems))
        ):
            unmapped_columns = [name for name in frame.columns if name not in (*mapping.roles.values(), *TABLE_ROLES)]
            invalid_cell_text = (
                invalid_score_cell(frame, unmapped_columns) if mapping.match_patterns(frame.columns) else ""
            )
            if invalid_cell_text:
                return (
                    ""
                    if invalid_cell_text in error_message
                    else f"; {invalid_cell_text} is not a number: correct this cell, then a mapping can be suggested; "
                    "if the column holds labels, map the columns of labels, as in --columns 'human:{rater:NAME}' "
                    "--columns 'metric:{rater:NAME}'"
                )
            advice_text = f"; try {format_options(mapping)} (in Python columns={mapping.mapping})"
            system_mapping = replace(mapping, patterns=("metric:{system}",))
            if min_n_systems == 1 and mapping.patterns == ("{rater}",) and can_read(first_rows, system_mapping, 2):
                advice_text += (
                    f", or, if each of these columns has the scores of one system, {format_options(system_mapping)}"
                )
            return advice_text
    return ""


def _has_one_system(frame: pl.DataFrame, mapping: Columns) -> bool:
    """Whether a mapping names no column of systems, or a column with only one system."""
    system_column_name = mapping.roles.get("system", "system")
    has_system_roles = {"output_a", "system_a"} & mapping.roles.keys()
    has_system_pattern = any(
        "{system" in name_or_pattern for name_or_pattern in (mapping.roles.get("text", ""), *mapping.patterns)
    )
    return not (has_system_roles or has_system_pattern) and (
        system_column_name not in frame.columns or frame[system_column_name].n_unique() < 2
    )


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


def guesses(
    frame: pl.DataFrame, declared_mapping: Columns, flattened_columns: Collection[str] = ()
) -> Iterator[Columns]:
    """Mappings that may read a table of verdicts, a long table, a wide table, or a table of one system; the likeliest
    first."""
    declared_columns = set(declared_mapping.roles.values())
    free_columns = [name for name in frame.columns if name and name not in declared_columns]
    candidates_of_role = {
        **{role: find_columns(role, free_columns) for role in ("score", *RATERS, "winner", "order")},
        "rater": [name for name in find_columns("rater", free_columns) if may_be_labels(frame[name])],
        "kind": [
            name
            for name in find_columns("kind", free_columns)
            if frame[name].dtype == pl.String and not parse_kinds(frame[name]).null_count()
        ],
        **{role: [name] for role, name in declared_mapping.roles.items()},
    }
    item_columns = candidates_of_role.get("item") or find_items(frame, free_columns)
    system_column_pairs = [
        column_pair
        for column_pair in find_side_pairs(free_columns)
        if not all(is_prose(frame[name]) or names_output(name) or has_fractions(frame[name]) for name in column_pair)
    ][:CHOICES]
    layouts = _verdict_layouts(frame, free_columns, candidates_of_role, system_column_pairs, item_columns)
    has_system_names = any({*NAMES["system"]} & {*split_name(name)} for name, _ in system_column_pairs)
    if not (candidates_of_role["winner"] and has_system_names) and not any(
        are_systems(frame, column_pair) for column_pair in system_column_pairs
    ):
        layouts = chain(
            layouts,
            _score_layouts(frame, free_columns, candidates_of_role, item_columns, declared_mapping, flattened_columns),
        )
    for column_of_role, patterns in layouts:
        yield _complete_guess(declared_mapping, column_of_role, patterns, frame.columns)


def _score_layouts(
    frame: pl.DataFrame,
    free_columns: Sequence[str],
    candidates_of_role: Mapping[str, Sequence[str]],
    item_columns: Sequence[str],
    declared_mapping: Columns,
    flattened_columns: Collection[str],
) -> Guess:
    """Layouts of scores: first for tables with a column of systems, then for tables of one system."""
    number_columns = [
        name for name in free_columns if is_number(frame[name]) and not (is_fact(name) or is_index(frame[name]))
    ]
    usual_system_columns, likely_system_columns = find_systems(frame, free_columns)
    system_columns = candidates_of_role.get("system") or [*usual_system_columns, *likely_system_columns][:CHOICES]
    # If every row is a different item, no two systems can be compared.
    item_columns = sorted(item_columns, key=lambda name: frame[name].n_unique() == frame.height)
    key_mappings = [
        {"item": item_column, "system": system_column, **cluster_role(frame, item_column)}
        for item_column, system_column in product(item_columns, system_columns)
        if item_column != system_column and frame[system_column].n_unique() > 1
    ]
    column_of_text_role = (
        {} if "text" in declared_mapping.roles else score_text_roles(frame, list(declared_mapping.roles.values()))
    )
    if (
        "system" not in (*declared_mapping.roles, *frame.columns)
        and not declared_mapping.patterns
        and any(map(may_be_scores, frame))
    ):
        id_columns = [
            name
            for name in item_columns
            if name not in number_columns
            and (find_columns("item", [name]) or split_name(name)[-1] in IDS or is_index(frame[name]))
        ]
        constant_system_entries = [("system", name) for name in usual_system_columns if frame[name].n_unique() == 1][:1]
        key_mappings += [{"item": item_column, **dict(constant_system_entries)} for item_column in id_columns]
    for column_of_key_role in key_mappings:
        for column_of_role, patterns in chain(
            _long_layouts(column_of_key_role, number_columns, candidates_of_role, frame),
            _wide_layouts(frame, column_of_key_role, number_columns, flattened_columns),
        ):
            column_of_unused_text_role = {
                role: name
                for role, name in column_of_text_role.items()
                if name not in column_of_role.values() or (role == "source" and name == column_of_role["item"])
            }
            yield (
                {**column_of_role, **(column_of_unused_text_role if "text" in column_of_unused_text_role else {})},
                patterns,
            )


def _long_layouts(
    column_of_key_role: Mapping[str, str],
    number_columns: Sequence[str],
    candidates_of_role: Mapping[str, Sequence[str]],
    frame: pl.DataFrame,
) -> Guess:
    """Layouts with one row per rating, or with one row per rater and output and a column per aspect."""
    column_of_role = {**column_of_key_role, **_assign_roles(column_of_key_role, candidates_of_role, RATERS)}
    score_columns = [name for name in number_columns if name not in column_of_role.values()]
    aspect_columns = [name for name in score_columns if ASPECTS & name_stems(name)]
    if "rater" not in column_of_role or any(map(looks_human, score_columns)):
        return
    # next to an aspect such as fluency, overall is an aspect too
    usual_columns = [
        name for name in candidates_of_role["score"] if len(aspect_columns) < 2 or name not in aspect_columns
    ] or (score_columns if len(score_columns) == 1 and not aspect_columns else [])
    # if raters are persons, each row repeats the metric scores of its output
    has_metric_scores = looks_like_person(column_of_role["rater"]) and "kind" not in column_of_role
    for score_column in [name for name in usual_columns if name not in column_of_role.values()][:2]:
        metric_columns = [name for name in score_columns if name != score_column and SCORERS & name_stems(name)]
        if metric_columns and has_metric_scores:
            yield column_of_role, [f"human:{escape_braces(score_column)}", _metric_pattern(metric_columns)]
        yield {**column_of_role, "score": score_column}, ()
    rating_columns = [name for name in score_columns if {*split_name(name)} & (ASPECTS | GENERIC)] or score_columns
    other_columns = [name for name in frame.columns if is_number(frame[name]) and name not in column_of_role.values()]
    if not all(GENERIC.issuperset(split_name(name)) for name in rating_columns):
        aspect_pattern = f"{{aspect:{','.join(map(escape_braces, rating_columns))}}}"
        metric_columns = [name for name in score_columns if name not in rating_columns and SCORERS & name_stems(name)]
        if metric_columns and has_metric_scores:
            yield column_of_role, [f"human:{aspect_pattern}", _metric_pattern(metric_columns)]
        yield (
            {role: name for role, name in column_of_role.items() if role not in ("aspect", "kind")},
            ["{aspect}" if {*other_columns} == {*rating_columns} else aspect_pattern],
        )


def _metric_pattern(metric_columns: Sequence[str]) -> str:
    return f"metric:{{rater:{','.join(map(escape_braces, metric_columns))}}}"


def _wide_layouts(
    frame: pl.DataFrame,
    column_of_key_role: Mapping[str, str],
    number_columns: Sequence[str],
    flattened_columns: Collection[str],
) -> Guess:
    """Layouts with one row per output, and a column per rater."""
    column_of_role = dict(column_of_key_role) | {role: role for role in ("aspect", "repeat") if role in frame.columns}
    non_score_columns = (*column_of_role.values(), *find_averages(number_columns))
    score_columns = [
        name
        for name in number_columns
        if name not in non_score_columns
        and (name == "score" or name not in TABLE_ROLES)
        and (
            looks_like_score(name)
            or frame[column_of_key_role["item"]].n_unique() == frame.height
            or varies_within_items(frame, name, column_of_key_role["item"])
        )
    ]
    object_patterns, other_paths = nested_patterns(frame, [name for name in score_columns if name in flattened_columns])
    plain_columns = [name for name in score_columns if name not in flattened_columns or name in other_paths]
    human_patterns, human_columns = people_patterns(frame, plain_columns, number_columns)
    metric_columns = [name for name in plain_columns if name not in human_columns and not looks_human(name)]
    # Numbers that are not scores, such as the latency of a request, match no pattern.
    other_columns = [
        name
        for name in frame.columns
        if is_number(frame[name])
        and name not in (*column_of_role.values(), *human_columns, *metric_columns, *TABLE_ROLES)
    ]
    if human_patterns or object_patterns:
        human_aspects = {
            label_by_role.get("aspect", "")
            for pattern in human_patterns
            for label_by_role in match_columns(pattern, human_columns).values()
        }
        yield (
            column_of_role,
            [*object_patterns, *human_patterns, *metric_patterns(metric_columns, other_columns, human_aspects - {""})],
        )
    elif score_columns and not human_columns:
        yield (
            column_of_role,
            [f"{{rater:{','.join(map(escape_braces, score_columns))}}}" if other_columns else "{rater}"],
        )


def _verdict_layouts(
    frame: pl.DataFrame,
    free_columns: Sequence[str],
    candidates_of_role: Mapping[str, Sequence[str]],
    system_column_pairs: Sequence[Sequence[str]],
    item_columns: Sequence[str],
) -> Guess:
    """Layouts with two systems, or two outputs without names of systems, and the winner. The winner is a column of
    verdicts, a column of phrases, or the first of the two columns `winner` and `loser`."""
    placeholder = "position" if candidates_of_role["order"] else "winner"
    phrases_of_column = {
        name: propose_phrases(frame[name], placeholder)
        for name in free_columns
        if system_column_pairs and is_text(frame[name])
    }
    for system_column_pair, item_column in product(system_column_pairs or [()], item_columns):
        column_of_system_role: dict[str, str] = dict(zip(("system_a", "system_b"), system_column_pair, strict=False))
        column_of_pair_role = column_of_system_role or pair_text_roles(frame, [])
        other_columns = [name for name in free_columns if name not in (item_column, *column_of_pair_role.values())]
        verdict_columns = [
            name
            for name in candidates_of_role["winner"]
            if name not in frame.columns or (name in other_columns and not is_prose(frame[name]))
        ]
        verdict_mappings = [
            *(
                [{"winner": f"{{rater:{','.join(map(escape_braces, verdict_columns))}}}"}]
                if verdict_columns[1:]
                else []
            ),
            *({"preference" if name == "preference" else "winner": name} for name in verdict_columns),
            *(
                {"winner": name, "phrase": phrases}
                for name, phrases in phrases_of_column.items()
                if phrases and name in other_columns
            ),
        ]
        if WINNER_WORDS & {*split_name(system_column_pair[0] if system_column_pair else "")} and not any(
            {"tie", "draw"} & {*split_name(name)} for name in free_columns
        ):
            verdict_mappings.append({"winner": system_column_pair[0]})
        for column_of_verdict_role in (
            verdict_mappings if column_of_pair_role and item_column not in system_column_pair else ()
        ):
            column_of_role = {"item": item_column, **column_of_pair_role, **column_of_verdict_role}
            column_of_role |= _assign_roles(column_of_role, candidates_of_role, (*RATERS, "order"))
            yield (
                column_of_role
                | pair_text_roles(frame, [name for role, name in column_of_role.items() if role != "item"]),
                (),
            )


def _assign_roles(
    column_of_assigned_role: Mapping[str, str], candidates_of_role: Mapping[str, Sequence[str]], roles: Sequence[str]
) -> dict[str, str]:
    """For each of the roles, the first candidate column that is not used yet."""
    column_of_role: dict[str, str] = {}
    for role in roles:
        used_columns = (*column_of_assigned_role.values(), *column_of_role.values())
        unused_columns = [name for name in candidates_of_role[role] if name not in used_columns]
        column_of_role.update((role, name) for name in unused_columns[:1])
    return column_of_role


def _complete_guess(
    declared_mapping: Columns, column_of_role: Mapping[str, str], patterns: Sequence[str], column_names: Sequence[str]
) -> Columns:
    """A guess, with the user's mapping added. Columns with the name of their role, and patterns without a match, are
    left out."""
    assigned_columns = list(column_of_role.values())
    column_of_guessed_role = {
        role: name
        for role, name in column_of_role.items()
        if (role != name or role in TEXTS or assigned_columns.count(name) > 1) and role not in declared_mapping.roles
    }
    all_patterns = (
        () if "score" in declared_mapping.roles else tuple(dict.fromkeys((*declared_mapping.patterns, *patterns)))
    )
    matched_patterns = Columns(
        roles={**column_of_guessed_role, **declared_mapping.roles}, patterns=all_patterns
    ).match_patterns(column_names)
    kept_patterns = tuple(
        pattern for pattern in all_patterns if pattern in (*declared_mapping.patterns, *matched_patterns)
    )
    return Columns(roles=declared_mapping.roles, patterns=kept_patterns).merge_defaults(
        Columns(roles=column_of_guessed_role)
    )
