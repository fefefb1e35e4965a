"""Guesses of text columns (outputs, systems and sources), from names and cells."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product

import polars as pl

from custodes.data.mapping.annotator_columns import has_half_steps
from custodes.data.mapping.cell_types import (
    CATEGORIES,
    MOST_SYSTEMS,
    has_another_role,
    has_text_role,
    holds_judgements,
    is_category,
    is_index,
    is_number,
    is_prose,
    is_text,
    is_time,
    may_be_scores,
    may_be_systems,
)
from custodes.data.mapping.column_vocabulary import (
    ASPECTS,
    CORE,
    NAMES,
    OUTCOME_PAIRS,
    WINNER_WORDS,
    find_columns,
    find_side_pairs,
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
from custodes.data.mapping.columns import TABLE_ROLES, Columns
from custodes.data.mapping.pattern import escape_braces, match_columns
from custodes.data.mapping.text_columns import ANSWERS, PAIR, expand_name
from custodes.data.outputs import parse_turns
from custodes.data.table import count_filled_cells

CHOICES = 4
"""Maximum number of candidate columns that are tried for a role."""
MIN_CROSSED_SHARE = 0.5
"""Minimum proportion of items that must have outputs of at least two systems, so that systems can be compared."""
OUTPUT_WORDS = word_list(
    "output outputs response responses answer answers completion completions generation generations generated"
    " prediction predictions pred hypothesis hyp summary translation text candidate reply result caption model"
    " system out"
)
"""Words for outputs in column names, for tables with a column of outputs per system."""
SIDES_OF_A_PAIR = frozenset(word_list("chosen rejected baseline candidate"))
UNCLEAR = frozenset(word_list("answer summary translation text content result reply caption candidate"))
"""Names of columns that hold outputs if the table has a column of systems, else perhaps sources or references."""
HUMAN_RATING_WORDS = frozenset(word_list("rating ratings stars likert"))
SIDE = r"[\W_]*(a|b|1|2|x|y|left|right)$"
"""Ending of a column name that distinguishes the two outputs of a pair."""


def text_guesses(frame: pl.DataFrame, declared: Columns) -> Iterator[tuple[Columns, bool]]:
    """Mappings of texts that may read a table, the most likely first, each with a flag that is true for a certain
    mapping."""
    declared_columns = set(declared.roles.values())
    free_columns = [name for name in frame.columns if name and name not in declared_columns]
    system_column_pairs = [name_pair for name_pair in find_side_pairs(free_columns) if are_systems(frame, name_pair)]
    has_ratings = any(holds_judgements(frame[name]) or may_be_scores(frame[name]) for name in free_columns) or any(
        not WINNER_WORDS.isdisjoint(split_name(first_system_column)) for first_system_column, _ in system_column_pairs
    )
    for make_layouts in (
        (_pair_layouts,)
        if system_column_pairs
        else (_conversation_layouts, _common_word_layouts, _output_row_layouts, _system_name_layouts)
    ):
        for column_of_role, is_certain in make_layouts(frame, free_columns, declared.roles):
            yield declared.merge_defaults(Columns(roles=column_of_role)), is_certain and not has_ratings


Roles = Iterator[tuple[dict[str, str], bool]]


def score_text_roles(frame: pl.DataFrame, assigned_columns: Sequence[str]) -> dict[str, str]:
    """Roles of the text columns in a table of scores: the output, and columns of prose that describe the item."""
    free_columns = [name for name in frame.columns if name not in assigned_columns and is_prose(frame[name])]
    output_columns = (
        ["text"] if "text" in frame.columns and is_text(frame["text"]) else find_columns("text", free_columns)[:1]
    )
    return (
        {"text": output_columns[0], **_item_text_roles(frame, free_columns, output_columns)} if output_columns else {}
    )


def names_output(name: str) -> bool:
    """Whether the name of one column of a pair says that the column holds outputs, not names of systems.

    >>> names_output("response_a"), names_output("fields.response1"), names_output("response_model_a")
    (True, True, False)
    """
    return split_name(re.sub(SIDE, "", name.lower()))[-1].removesuffix("s") in CORE["text"] | {"text"}


def pair_text_roles(frame: pl.DataFrame, assigned_columns: Sequence[str]) -> dict[str, str]:
    """Roles of the columns with the two outputs in a table of verdicts, and of columns that describe the item."""
    free_columns = [name for name in frame.columns if name not in assigned_columns]
    output_name_pairs = [
        name_pair
        for name_pair in find_side_pairs(free_columns)
        if all(is_prose(frame[name]) or names_output(name) for name in name_pair)
    ]
    return (
        {
            **dict(zip(PAIR, output_name_pairs[0], strict=True)),
            **_item_text_roles(frame, free_columns, output_name_pairs[0]),
        }
        if output_name_pairs
        else {}
    )


def system_column_layouts(
    frame: pl.DataFrame, free_columns: Sequence[str]
) -> Iterator[tuple[dict[str, str], tuple[str, ...]]]:
    """Roles and patterns of a table with one row per item, and columns of texts and scores for each system.

    The columns are `answer_gpt` and `human_gpt`, or nested: `texts.gpt` and `scores.gpt.bleu`.
    """
    score_columns = [name for name in free_columns if is_number(frame[name]) and not is_fact(name)]
    for column_of_role, _ in _common_word_layouts(frame, free_columns, {}):
        system_names = {
            label_by_role["system"] for label_by_role in match_columns(column_of_role["text"], free_columns).values()
        }
        column_names_of_name_parts: dict[
            tuple[str, str, str], list[str]
        ] = {}  # texts before and after the system, and the rater
        for name, system_name in product(score_columns, system_names):
            text_before, matched_system_name, text_after = name.partition(system_name)
            separator, rater_name = re.fullmatch(r"([\W_]*)(.*)", text_after).groups()  # type: ignore[union-attr]
            if (
                matched_system_name
                and (separator or not rater_name)
                and "." not in rater_name
                and not text_before[-1:].isalnum()
            ):
                column_names_of_name_parts.setdefault((text_before, separator, rater_name), []).append(name)
        rater_names_of_pattern_start: dict[str, list[str]] = {}
        for (text_before, separator, rater_name), column_names in column_names_of_name_parts.items():
            if len(column_names) > 1:
                kind_prefix = _kind_prefix(frame, text_before + rater_name, column_names)
                pattern_start = f"{kind_prefix}{escape_braces(text_before)}{{system}}{escape_braces(separator)}"
                rater_names_of_pattern_start.setdefault(pattern_start, []).append(escape_braces(rater_name))
        if rater_names_of_pattern_start:
            yield (
                column_of_role,
                tuple(
                    f"{pattern_start}{{rater:{','.join(rater_names)}}}" if any(rater_names) else pattern_start
                    for pattern_start, rater_names in rater_names_of_pattern_start.items()
                ),
            )


def _kind_prefix(frame: pl.DataFrame, name_without_system: str, column_names: Collection[str]) -> str:
    """Prefix of a pattern: `human:` or `metric:`."""
    is_human_rating = name_stems(name_without_system) & (ASPECTS | HUMAN_RATING_WORDS) and all(
        has_half_steps(frame[name]) for name in column_names
    )
    return "human:" if looks_human(name_without_system) or is_human_rating else "metric:"


def _item_text_roles(frame: pl.DataFrame, free_columns: Sequence[str], output_columns: Sequence[str]) -> dict[str, str]:
    """The roles of columns that describe the item: source, context, references and images."""
    remaining_columns = [name for name in free_columns if name not in output_columns]
    column_of_role: dict[str, str] = {}
    for role in ("references", "source", "context", "images"):
        may_hold_lists = role in ("references", "images")
        text_columns = [
            name
            for name in remaining_columns
            if is_text(frame[name]) or (may_hold_lists and frame[name].dtype == pl.List(pl.String))
        ]
        role_words = CORE.get(role, frozenset())
        columns_or_globs = [
            *(_numbered_globs(remaining_columns, role) if role == "references" else ()),
            *find_columns(role, text_columns),
            *(name for name in text_columns if not role_words.isdisjoint(split_name(name)) and is_prose(frame[name])),
        ]
        if columns_or_globs:
            column_of_role[role] = columns_or_globs[0]
            remaining_columns = [
                name for name in remaining_columns if name not in expand_name(columns_or_globs[0], remaining_columns)
            ]
    return column_of_role


def _numbered_globs(column_names: Sequence[str], role: str) -> list[str]:
    """Globs of numbered columns: `reference_*` for `reference_1` and `reference_2`."""
    names_of_stem: dict[str, list[str]] = {}
    for name in column_names:
        number_match = re.fullmatch(r"(.*?)[\W_]?\d+", name)
        if number_match and (
            number_match[1].lower() in NAMES[role] or not CORE[role].isdisjoint(split_name(number_match[1]))
        ):
            names_of_stem.setdefault(number_match[1], []).append(name)
    return [
        f"{name_stem}*"
        for name_stem, stem_column_names in names_of_stem.items()
        if len(stem_column_names) > 1 and name_stem not in column_names
    ]


def _item_candidates(frame: pl.DataFrame, free_columns: Sequence[str], source_column: str | None) -> list[str]:
    """Candidate columns for the item: columns named like ids, the source, and columns of labels (the most values
    first)."""
    candidate_columns = [
        name
        for name in free_columns
        if not (frame[name].dtype.is_float() or frame[name].dtype.is_nested() or is_time(frame[name]))
        and frame[name].n_unique() > 1
        and not is_measure(name)
    ]
    id_columns = [name for name in find_columns("item", candidate_columns) if not is_prose(frame[name])]
    row_number_columns = [name for name in candidate_columns if is_index(frame[name])]
    label_columns = [
        name
        for name in candidate_columns
        if not (has_another_role(name, "item") or is_fact(name) or holds_judgements(frame[name]))
        and not is_prose(frame[name])
    ]
    label_columns.sort(key=lambda name: frame[name].n_unique(), reverse=True)
    return list(
        dict.fromkeys([*id_columns, *row_number_columns, *([source_column] if source_column else []), *label_columns])
    )


def _system_candidates(frame: pl.DataFrame, free_columns: Sequence[str]) -> tuple[list[str], list[str]]:
    """Candidate columns for the system, by name (columns with several labels first), and then candidates by cells."""
    usual_system_columns = [
        name
        for name in find_columns("system", free_columns)
        if not (frame[name].dtype.is_nested() or frame[name].dtype.is_float())
        and not (is_time(frame[name]) or is_prose(frame[name]))
        and frame[name].n_unique() <= max(1, min(MOST_SYSTEMS, frame.height / 2))
    ]
    usual_system_columns.sort(key=lambda name: frame[name].n_unique() < 2)
    likely_system_columns = [
        name
        for name in free_columns
        if name not in usual_system_columns
        and may_be_systems(frame[name])
        and not is_fact(name)
        and not has_another_role(name, "system")
        and CATEGORIES.isdisjoint(split_name(name))
    ]
    return usual_system_columns, likely_system_columns


def _is_crossed(frame: pl.DataFrame, item_column: str, system_column: str | None) -> bool:
    """Whether each pair of item and system occurs only once, and enough items have outputs of several systems."""
    system_expressions = [] if system_column is None else [pl.col(system_column).alias("system")]
    key_table = frame.select(pl.col(item_column).cast(pl.String).alias("item"), *system_expressions)
    has_one_system = system_column is None or frame[system_column].n_unique() < 2
    is_crossed_item = key_table.group_by("item").len()["len"] > 1
    return not key_table.is_duplicated().any() and (
        has_one_system or is_crossed_item.sum() >= MIN_CROSSED_SHARE * is_crossed_item.len()
    )


def _key_candidates(
    frame: pl.DataFrame, free_columns: Sequence[str], source_column: str | None, declared_roles: Mapping[str, str]
) -> Iterator[tuple[dict[str, str], bool]]:
    """Columns of item and system in a table with one row per output, and whether both columns have usual names."""
    usual_system_columns, likely_system_columns = _system_candidates(frame, free_columns)
    declared_system_column = "system" if "system" in frame.columns else declared_roles.get("system")
    system_columns = (
        [declared_system_column]
        if declared_system_column
        else [*usual_system_columns, *likely_system_columns][:CHOICES]
    )
    item_columns = (
        [declared_roles["item"]]
        if "item" in declared_roles
        else _item_candidates(frame, free_columns, source_column)[:CHOICES]
    )
    for system_column, item_column in product(system_columns or [None], item_columns):  # type: ignore[list-item]
        if system_column == item_column or not _is_crossed(frame, item_column, system_column):
            continue
        has_usual_system_name = system_column in (None, *usual_system_columns, *declared_roles.values(), "system")
        is_certain = has_usual_system_name and (
            item_column == source_column or item_column in find_columns("item", [item_column])
        )
        yield (
            {"item": item_column, **({"system": system_column} if system_column else {})},
            is_certain
            and (system_column is None or frame[system_column].n_unique() > 1 or len(usual_system_columns) == 1),
        )


def _output_row_layouts(frame: pl.DataFrame, free_columns: Sequence[str], declared_roles: Mapping[str, str]) -> Roles:
    """Layout with one row per output, whose text is in a column that is named like an output."""
    for text_column in (
        [declared_roles["text"]] if "text" in declared_roles else _output_columns(frame, free_columns)[:CHOICES]
    ):
        column_of_item_role = _item_text_roles(frame, free_columns, [text_column])
        for column_of_key_role, is_certain in _key_candidates(
            frame,
            [name for name in free_columns if name != text_column],
            column_of_item_role.get("source"),
            declared_roles,
        ):
            non_key_columns = {text_column, *(name for role, name in column_of_item_role.items() if role != "source")}
            if non_key_columns.isdisjoint(column_of_key_role.values()):
                yield (
                    {**column_of_key_role, "text": text_column, **column_of_item_role},
                    is_certain and ("system" in column_of_key_role or UNCLEAR.isdisjoint(lookup_names(text_column))),
                )


def _output_columns(frame: pl.DataFrame, free_columns: Sequence[str]) -> list[str]:
    """The columns of texts, except conversations, that are named like outputs."""
    return find_columns(
        "text", [name for name in free_columns if is_text(frame[name]) and not _are_conversations(frame[name])]
    )


def _are_conversations(column: pl.Series) -> bool:
    """Whether the cells are conversations."""
    cells = column.drop_nulls().head(20)
    return cells.len() > 0 and all(parse_turns(cell) is not None for cell in cells)


def _conversation_layouts(frame: pl.DataFrame, free_columns: Sequence[str], declared_roles: Mapping[str, str]) -> Roles:
    """Layout with one row per conversation; the output is in the last turn or in a column of outputs."""
    for conversation_column in [name for name in free_columns if _are_conversations(frame[name])]:
        remaining_columns = [name for name in free_columns if name != conversation_column]
        last_speakers = [
            turns[-1][0].lower()
            for cell in frame[conversation_column].drop_nulls().head(20)
            if (turns := parse_turns(cell))
        ]
        do_most_end_in_answer = sum(speaker in ANSWERS for speaker in last_speakers) * 2 > len(last_speakers)
        output_columns = [] if do_most_end_in_answer else _output_columns(frame, remaining_columns)[:1]
        if not do_most_end_in_answer and not output_columns:
            continue
        remaining_columns = [name for name in remaining_columns if name not in output_columns]
        column_of_item_role = {
            role: reference_column
            for role, reference_column in _item_text_roles(frame, remaining_columns, []).items()
            if role == "references"
        }
        column_of_role = {
            "messages": conversation_column,
            **({"text": output_columns[0]} if output_columns else {}),
            **column_of_item_role,
        }
        for column_of_key_role, is_certain in _key_candidates(frame, remaining_columns, None, declared_roles):
            yield {**column_of_key_role, **column_of_role}, is_certain
        system_columns = _system_candidates(frame, remaining_columns)[0][:1]
        yield {**({"system": system_columns[0]} if system_columns else {}), **column_of_role}, bool(system_columns)


def are_systems(frame: pl.DataFrame, name_pair: Sequence[str]) -> bool:
    """Whether two columns hold the systems of a pair."""
    return all(
        is_text(frame[name]) and find_columns("system", [_remove_side(name)]) and not is_prose(frame[name])
        for name in name_pair
    )


def _remove_side(name: str) -> str:
    """The name of a column without the part that distinguishes the outputs of a pair; `system` if nothing remains."""
    outcome_words = {side_word for outcome_pair in OUTCOME_PAIRS for side_word in outcome_pair}
    return re.sub(SIDE, "", "_".join(word for word in split_name(name) if word not in outcome_words) or "system")


def _pair_layouts(frame: pl.DataFrame, free_columns: Sequence[str], declared_roles: Mapping[str, str]) -> Roles:
    """Layout with one row per pair of outputs, and columns for the systems of both outputs."""
    text_name_pairs = [
        name_pair for name_pair in find_side_pairs(free_columns) if all(is_prose(frame[name]) for name in name_pair)
    ]
    system_name_pairs = [name_pair for name_pair in find_side_pairs(free_columns) if are_systems(frame, name_pair)]
    for system_name_pair, text_name_pair in product(system_name_pairs, text_name_pairs):
        pair_columns = (*system_name_pair, *text_name_pair)
        column_of_item_role = _item_text_roles(frame, free_columns, pair_columns)
        source_column = column_of_item_role.get("source")
        remaining_columns = [name for name in free_columns if name not in pair_columns]
        for item_column in _item_candidates(frame, remaining_columns, source_column)[:1]:
            is_certain = item_column == source_column or item_column in find_columns("item", [item_column])
            yield (
                {
                    "item": item_column,
                    **dict(zip(("system_a", "system_b", *PAIR), pair_columns, strict=True)),
                    **column_of_item_role,
                },
                is_certain,
            )


def _item_row_roles(
    frame: pl.DataFrame, free_columns: Sequence[str], output_columns: Sequence[str], declared_roles: Mapping[str, str]
) -> dict[str, str] | None:
    """Roles of a table with one row per item; None if every candidate column for the item has duplicate values."""
    column_of_item_role = _item_text_roles(frame, free_columns, output_columns)
    item_columns = (
        [declared_roles["item"]]
        if "item" in declared_roles
        else _item_candidates(
            frame, [name for name in free_columns if name not in output_columns], column_of_item_role.get("source")
        )
    )
    unique_item_columns = [name for name in item_columns if frame[name].n_unique() == frame.height]
    likely_item_columns = [
        name
        for name in unique_item_columns
        if name == column_of_item_role.get("source") or find_columns("item", [name]) or is_index(frame[name])
    ]
    if item_columns and not unique_item_columns:
        return None
    item_column = next(iter(likely_item_columns or unique_item_columns), "item")
    return column_of_item_role if item_column == "item" else {"item": item_column, **column_of_item_role}


def _common_word_layouts(frame: pl.DataFrame, free_columns: Sequence[str], declared_roles: Mapping[str, str]) -> Roles:
    """Layout with one row per item, and columns with a common word for outputs: `output_gpt`, `output_claude`."""
    candidate_columns = [name for name in free_columns if not has_text_role(name)]
    text_columns = [
        name for name in candidate_columns if is_text(frame[name]) or not count_filled_cells(frame[name])[0]
    ]
    for pattern in dict.fromkeys(pattern for name in text_columns for pattern in _iter_name_patterns(name)):
        label_by_role_of_column = {
            name: label_by_role
            for name, label_by_role in match_columns(pattern, text_columns).items()
            if not has_text_role(label_by_role["system"])
        }
        if len(label_by_role_of_column) < 2 or not any(is_prose(frame[name]) for name in label_by_role_of_column):
            continue
        if set(match_columns(pattern, free_columns)) != set(label_by_role_of_column):
            systems_text = ",".join(label_by_role["system"] for label_by_role in label_by_role_of_column.values())
            pattern = pattern.replace("{system}", f"{{system:{systems_text}}}")
        column_of_role = _item_row_roles(frame, free_columns, list(label_by_role_of_column), declared_roles)
        if column_of_role is not None and not set(label_by_role_of_column) & set(column_of_role.values()):
            yield {**column_of_role, "text": pattern}, True


def _iter_name_patterns(name: str) -> Iterator[str]:
    """Possible patterns of a name, with a word for outputs before or after the system."""
    output_words_regex = "|".join(OUTPUT_WORDS)
    prefix_match = re.match(rf"(?i)((?:.*[\W_])?(?:{output_words_regex})(?:[\W_]+|(?=\d+$|[ab]$)))(.+?)([)\]]?)$", name)
    if prefix_match:
        yield f"{escape_braces(prefix_match[1])}{{system}}{escape_braces(prefix_match[3])}"
    suffix_match = re.match(rf"(?i)(.+?)([\W_]+(?:{output_words_regex}))$", name)
    if suffix_match:
        yield f"{{system}}{escape_braces(suffix_match[2])}"
    parent_path, dot, last_key = name.rpartition(".")
    if dot:
        yield f"{escape_braces(parent_path)}.{{system}}"
        grandparent_path, dot, _ = parent_path.rpartition(".")
        if dot and normalise_name(last_key) in OUTPUT_WORDS:
            yield f"{escape_braces(grandparent_path)}.{{system}}.{escape_braces(last_key)}"


def _system_name_layouts(frame: pl.DataFrame, free_columns: Sequence[str], declared_roles: Mapping[str, str]) -> Roles:
    """Layout with one row per item, and one text column per system that has the name of the system."""
    item_columns = {*_item_text_roles(frame, free_columns, []).values(), *find_columns("item", free_columns)}
    text_columns = [
        name
        for name in free_columns
        if name not in item_columns and is_text(frame[name]) and not is_category(frame[name])
    ]
    has_system_column = any(may_be_systems(frame[name]) for name in find_columns("system", free_columns))
    if has_system_column or len(text_columns) < 2 or not any(is_prose(frame[name]) for name in text_columns):
        return
    column_of_role = _item_row_roles(
        frame, [name for name in free_columns if name not in text_columns], [], declared_roles
    )
    if column_of_role is not None:
        is_certain = all(looks_like_machine(name) for name in text_columns) or set(text_columns) <= SIDES_OF_A_PAIR
        remaining_columns = [
            name for name in free_columns if name not in column_of_role.values() and name not in TABLE_ROLES
        ]
        pattern = "{system}" if set(remaining_columns) == set(text_columns) else f"{{system:{','.join(text_columns)}}}"
        yield {**column_of_role, "text": pattern}, is_certain
