"""Guesses of text columns (outputs, systems and sources), from names and cells."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from os.path import commonprefix

import polars as pl

from custodes.data.mapping.cell_types import (
    CHOICES,
    find_items,
    find_systems,
    has_text_role,
    holds_judgements,
    is_category,
    is_index,
    is_prose,
    is_text,
    may_be_scores,
)
from custodes.data.mapping.column_vocabulary import (
    CORE,
    OUTCOME_PAIRS,
    WINNER_WORDS,
    find_columns,
    find_side_pairs,
    looks_like_machine,
    lookup_names,
    name_stems,
    split_name,
    word_list,
)
from custodes.data.mapping.columns import TABLE_ROLES, Columns
from custodes.data.mapping.nested import nested_columns
from custodes.data.mapping.pattern import escape_braces, match_columns
from custodes.data.mapping.text_columns import ANSWERS, PAIR, expand_name
from custodes.data.outputs import parse_turns
from custodes.data.table import count_filled_cells

MIN_CROSSED_SHARE = 0.5
"""Minimum proportion of items that must have outputs of at least two systems, so that systems can be compared."""
OUTPUT_WORDS = "|".join(
    word_list(
        "outputs? responses? answers? completions? generations? generated predictions? pred hypothesis hyp summary"
        " translation text candidate reply replies result caption model system out"
    )
)
"""Regular expression of words for outputs in column names, for tables with a column of outputs per system."""
SIDES_OF_A_PAIR = frozenset(word_list("chosen rejected baseline candidate"))
UNCLEAR = frozenset(word_list("answer summary translation text content result reply caption candidate"))
"""Names of columns that hold outputs if the table has a column of systems, else perhaps sources or references."""
SIDE = r"[\W_]*(a|b|1|2|x|y|left|right)$"
"""Ending of a column name that distinguishes the two outputs of a pair."""

Roles = Iterator[tuple[dict[str, str], bool]]
"""Roles of columns, and whether the roles are certain."""


def text_guesses(frame: pl.DataFrame, declared_mapping: Columns) -> Iterator[tuple[Columns, bool]]:
    """Mappings of texts that may read a table, the most likely first, each with a flag that is true for a certain
    mapping."""
    declared_columns = set(declared_mapping.roles.values())
    free_columns = [name for name in frame.columns if name and name not in declared_columns]
    system_column_pairs = [
        column_pair for column_pair in find_side_pairs(free_columns) if are_systems(frame, column_pair)
    ]
    has_ratings = any(holds_judgements(frame[name]) or may_be_scores(frame[name]) for name in free_columns) or any(
        not WINNER_WORDS.isdisjoint(split_name(first_system_column)) for first_system_column, _ in system_column_pairs
    )
    for make_layouts in (
        (_pair_layouts,)
        if system_column_pairs
        else (_conversation_layouts, _system_column_layouts, _output_row_layouts, _system_name_layouts)
    ):
        for column_of_role, is_certain in make_layouts(frame, free_columns, declared_mapping.roles):
            yield declared_mapping.merge_defaults(Columns(roles=column_of_role)), is_certain and not has_ratings


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
    for name_pair in find_side_pairs(free_columns):
        if all(is_prose(frame[name]) or names_output(name) for name in name_pair):
            return {**dict(zip(PAIR, name_pair, strict=True)), **_item_text_roles(frame, free_columns, name_pair)}
    return {}


def _item_text_roles(frame: pl.DataFrame, free_columns: Sequence[str], output_columns: Sequence[str]) -> dict[str, str]:
    """The roles of columns that describe the item: source, context, references and images. Numbered references, such as
    `reference_1` and `reference_2`, become the glob `reference_*`."""
    assigned_columns = list(output_columns)
    column_of_role: dict[str, str] = {}
    for role in ("references", "source", "context", "images"):
        text_columns = [
            name
            for name in free_columns
            if name not in assigned_columns
            and (is_text(frame[name]) or (role in ("references", "images") and frame[name].dtype == pl.List(pl.String)))
        ]
        role_columns = [
            *find_columns(role, text_columns),
            *(name for name in text_columns if CORE.get(role, set()) & name_stems(name) and is_prose(frame[name])),
        ]
        if role_columns:
            has_only_numbered = role == "references" and all(name[-1].isdigit() for name in role_columns)
            column_of_role[role] = (
                f"{commonprefix(role_columns)}*"  # noqa: RUF071
                if has_only_numbered and len(set(role_columns)) > 1
                else role_columns[0]
            )
            assigned_columns += expand_name(column_of_role[role], free_columns)
    return column_of_role


def _item_columns(
    frame: pl.DataFrame,
    free_columns: Sequence[str],
    source_column: str | None,
    column_of_declared_role: Mapping[str, str],
) -> list[str]:
    """Candidate columns of the item: the declared column, or columns of labels and the source."""
    label_columns = [
        name for name in find_items(frame, free_columns) if frame[name].n_unique() > 1 and not is_prose(frame[name])
    ]
    all_columns = dict.fromkeys([*label_columns, *filter(None, [source_column])])
    return [column_of_declared_role["item"]] if "item" in column_of_declared_role else list(all_columns)


def _key_roles(
    frame: pl.DataFrame,
    free_columns: Sequence[str],
    source_column: str | None,
    column_of_declared_role: Mapping[str, str],
) -> Roles:
    """Columns of item and system in a table with one row per output, and whether both columns have usual names."""
    usual_system_columns, likely_system_columns = find_systems(frame, free_columns)
    declared_system_column = "system" if "system" in frame.columns else column_of_declared_role.get("system")
    system_columns: Sequence[str | None] = (
        [declared_system_column]
        if declared_system_column
        else [*usual_system_columns, *likely_system_columns][:CHOICES] or [None]
    )
    item_columns = _item_columns(frame, free_columns, source_column, column_of_declared_role)
    for system_column, item_column in product(system_columns, item_columns):
        if item_column != system_column and _is_crossed(frame, item_column, system_column):
            is_usual_system_column = system_column not in likely_system_columns and (
                system_column is None or frame[system_column].n_unique() > 1 or len(usual_system_columns) == 1
            )
            yield (
                {"item": item_column, **({"system": system_column} if system_column else {})},
                is_usual_system_column and (item_column == source_column or bool(find_columns("item", [item_column]))),
            )
    # In a log, each system has items of its own.
    for system_column, item_column in product(usual_system_columns, item_columns):
        is_log = frame[item_column].n_unique() == frame.height and frame[system_column].n_unique() > 1
        if is_log and item_column not in (source_column, system_column):
            yield {"item": item_column, "system": system_column}, False


def _is_crossed(frame: pl.DataFrame, item_column: str, system_column: str | None) -> bool:
    """Whether each pair of item and system occurs only once, and enough items have outputs of several systems."""
    has_one_system = system_column is None or frame[system_column].n_unique() < 2
    is_crossed_item = frame[item_column].value_counts()["count"] > 1
    return not frame.select({item_column, system_column} - {None}).is_duplicated().any() and (
        has_one_system or is_crossed_item.sum() >= MIN_CROSSED_SHARE * is_crossed_item.len()
    )


def _output_row_layouts(
    frame: pl.DataFrame, free_columns: Sequence[str], column_of_declared_role: Mapping[str, str]
) -> Roles:
    """Layout with one row per output, whose text is in a column that is named like an output."""
    for text_column in (
        [column_of_declared_role["text"]]
        if "text" in column_of_declared_role
        else _output_columns(frame, free_columns)[:CHOICES]
    ):
        column_of_item_role = _item_text_roles(frame, free_columns, [text_column])
        assigned_columns = {text_column, *(name for role, name in column_of_item_role.items() if role != "source")}
        key_columns = [name for name in free_columns if name not in assigned_columns]
        for column_of_key_role, is_certain in _key_roles(
            frame, key_columns, column_of_item_role.get("source"), column_of_declared_role
        ):
            yield (
                {**column_of_key_role, "text": text_column, **column_of_item_role},
                is_certain and ("system" in column_of_key_role or UNCLEAR.isdisjoint(lookup_names(text_column))),
            )


def _output_columns(frame: pl.DataFrame, free_columns: Sequence[str]) -> list[str]:
    """The columns of texts, except conversations and objects, that are named like outputs."""
    text_columns = [name for name in free_columns if is_text(frame[name]) and not _turns(frame[name])]
    return find_columns("text", [name for name in text_columns if not nested_columns(frame[[name]])])


def _turns(column: pl.Series) -> list[list[tuple[str, str]]]:
    """The turns of the first conversations in a column; empty if a cell is no conversation."""
    conversations = [parse_turns(cell) for cell in column.drop_nulls().head(20)]
    return [turns for turns in conversations if turns] if all(conversations) else []


def _conversation_layouts(
    frame: pl.DataFrame, free_columns: Sequence[str], column_of_declared_role: Mapping[str, str]
) -> Roles:
    """Layout with one row per conversation; the output is in the last turn or in a column of outputs."""
    for conversation_column in free_columns:
        conversations = _turns(frame[conversation_column])
        if not conversations:
            continue
        has_answers = 2 * sum(turns[-1][0].lower() in ANSWERS for turns in conversations) > len(conversations)
        other_columns = [name for name in free_columns if name != conversation_column]
        output_columns = [] if has_answers else _output_columns(frame, other_columns)[:1]
        if has_answers or output_columns:
            key_columns = [name for name in other_columns if name not in output_columns]
            references_column = _item_text_roles(frame, key_columns, []).get("references")
            column_of_role = {
                "messages": conversation_column,
                **({"text": output_columns[0]} if output_columns else {}),
                **({"references": references_column} if references_column else {}),
            }
            for column_of_key_role, is_certain in _key_roles(frame, key_columns, None, column_of_declared_role):
                yield {**column_of_key_role, **column_of_role}, is_certain
            for system_column in find_systems(frame, key_columns)[0][:1]:
                yield {"system": system_column, **column_of_role}, True


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


def _pair_layouts(
    frame: pl.DataFrame, free_columns: Sequence[str], column_of_declared_role: Mapping[str, str]
) -> Roles:
    """Layout with one row per pair of outputs, and columns for the systems of both outputs."""
    for system_column_pair in [
        column_pair for column_pair in find_side_pairs(free_columns) if are_systems(frame, column_pair)
    ]:
        column_of_output_role = pair_text_roles(frame, system_column_pair)
        assigned_columns = {
            *system_column_pair,
            *(name for role, name in column_of_output_role.items() if role != "source"),
        }
        for item_column in find_items(frame, [name for name in free_columns if name not in assigned_columns])[:1]:
            if column_of_output_role:
                yield (
                    {
                        "item": item_column,
                        **dict(zip(("system_a", "system_b"), system_column_pair, strict=True)),
                        **column_of_output_role,
                    },
                    item_column == column_of_output_role.get("source") or bool(find_columns("item", [item_column])),
                )


def _item_row_roles(
    frame: pl.DataFrame,
    free_columns: Sequence[str],
    output_columns: Sequence[str],
    column_of_declared_role: Mapping[str, str],
) -> dict[str, str] | None:
    """Roles of a table with one row per item; None if every candidate column for the item has duplicate values."""
    column_of_item_role = _item_text_roles(frame, free_columns, output_columns)
    other_columns = [name for name in free_columns if name not in output_columns]
    item_columns = _item_columns(frame, other_columns, column_of_item_role.get("source"), column_of_declared_role)
    unique_columns = [name for name in item_columns if frame[name].n_unique() == frame.height]
    likely_columns = [name for name in unique_columns if find_columns("item", [name]) or is_index(frame[name])]
    if item_columns and not unique_columns:
        return None
    item_column = next(iter(likely_columns or unique_columns), "item")
    return column_of_item_role if item_column == "item" else {"item": item_column, **column_of_item_role}


def _system_column_layouts(
    frame: pl.DataFrame, free_columns: Sequence[str], column_of_declared_role: Mapping[str, str]
) -> Roles:
    """Layout with one row per item, and columns with a common word for outputs: `output_gpt`, `output_claude`."""
    text_columns = [
        name
        for name in free_columns
        if not has_text_role(name) and (is_text(frame[name]) or not count_filled_cells(frame[name])[0])
    ]
    for pattern in dict.fromkeys(pattern for name in text_columns for pattern in _iter_name_patterns(name)):
        system_of_column = {
            name: label_by_role["system"]
            for name, label_by_role in match_columns(pattern, text_columns).items()
            if not has_text_role(label_by_role["system"])
        }
        if len(system_of_column) > 1 and any(is_prose(frame[name]) for name in system_of_column):
            if match_columns(pattern, free_columns).keys() != system_of_column.keys():
                pattern = pattern.replace("{system}", f"{{system:{','.join(system_of_column.values())}}}")
            column_of_role = _item_row_roles(frame, free_columns, list(system_of_column), column_of_declared_role)
            if column_of_role is not None:
                yield {**column_of_role, "text": pattern}, True


def _iter_name_patterns(name: str) -> Iterator[str]:
    """Possible patterns of a name, with a word for outputs or a path before the system, or with a word after it."""
    for regex in (
        rf"(?i)((?:.*[\W_])?(?:{OUTPUT_WORDS})(?:[\W_]+|(?=\d+$|[ab]$))|.*\.)(.+?)([)\]]?)",
        rf"(?i)(.*\.|)(.+?)([\W_]+(?:{OUTPUT_WORDS}))",
    ):
        if name_match := re.fullmatch(regex, name):
            yield f"{escape_braces(name_match[1])}{{system}}{escape_braces(name_match[3])}"


def _system_name_layouts(
    frame: pl.DataFrame, free_columns: Sequence[str], column_of_declared_role: Mapping[str, str]
) -> Roles:
    """Layout with one row per item, and one text column per system that has the name of the system."""
    item_columns = _item_text_roles(frame, free_columns, []).values()
    text_columns = [
        name
        for name in free_columns
        if not any(name in expand_name(column, free_columns) for column in item_columns)
        and not find_columns("item", [name])
        and is_text(frame[name])
        and not is_category(frame[name])
    ]
    key_columns = [name for name in free_columns if name not in text_columns]
    column_of_role = _item_row_roles(frame, key_columns, [], column_of_declared_role)
    if len(text_columns) > 1 and any(is_prose(frame[name]) for name in text_columns) and column_of_role is not None:
        remaining_columns = {*free_columns}.difference(column_of_role.values(), TABLE_ROLES)
        yield (
            {
                **column_of_role,
                "text": "{system}" if remaining_columns == {*text_columns} else f"{{system:{','.join(text_columns)}}}",
            },
            all(map(looks_like_machine, text_columns)) or set(text_columns) <= SIDES_OF_A_PAIR,
        )
