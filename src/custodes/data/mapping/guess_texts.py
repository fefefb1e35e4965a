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
"""Minimum proportion of items with outputs of at least two systems for a comparison of systems."""
OUTPUT_WORDS = word_list(
    "output outputs response responses answer answers completion completions generation generations generated"
    " prediction predictions pred hypothesis hyp summary translation text candidate reply result caption model"
    " system out"
)
"""Words for outputs in column names, for tables with a column of outputs per system."""
SIDES_OF_A_PAIR = frozenset(word_list("chosen rejected baseline candidate"))
UNCLEAR = frozenset(word_list("answer summary translation text content result reply caption candidate"))
"""Names of columns that hold outputs if the table has a column of systems; otherwise, they may be sources or
references."""
HUMAN_RATING_WORDS = frozenset(word_list("rating ratings stars likert"))
SIDE = r"[\W_]*(a|b|1|2|x|y|left|right)$"
"""Ending of a column name that distinguishes the two outputs of a pair."""


def text_guesses(frame: pl.DataFrame, declared: Columns) -> Iterator[tuple[Columns, bool]]:
    """Mappings of texts that may read a table, the most likely mapping first, each with a flag that is true if the
    mapping is certain."""
    declared_columns = set(declared.roles.values())
    free_columns = [name for name in frame.columns if name and name not in declared_columns]
    has_ratings = any(holds_judgements(frame[name]) for name in free_columns) or any(
        may_be_scores(frame[name]) for name in free_columns
    )
    yielded_mappings = []
    system_column_pairs = [
        column_pair for column_pair in find_side_pairs(free_columns) if _are_systems(frame, column_pair)
    ]
    has_ratings |= any(not WINNER_WORDS.isdisjoint(split_name(first_column)) for first_column, _ in system_column_pairs)
    for make_layouts in (
        (_pair_layouts,)
        if system_column_pairs
        else (_conversation_layouts, _common_word_layouts, _output_row_layouts, _system_name_layouts)
    ):
        for roles, is_certain in make_layouts(frame, free_columns, declared.roles):
            columns = declared.merge_defaults(Columns(roles=roles))
            if columns not in yielded_mappings:
                yielded_mappings.append(columns)
                yield columns, is_certain and not has_ratings


Roles = Iterator[tuple[dict[str, str], bool]]


def score_text_roles(frame: pl.DataFrame, taken: Sequence[str]) -> dict[str, str]:
    """Roles of the text columns in a table of scores: the output, and columns of prose that describe the item."""
    free_columns = [name for name in frame.columns if name not in taken and is_prose(frame[name])]
    text_columns = (
        ["text"] if "text" in frame.columns and is_text(frame["text"]) else find_columns("text", free_columns)[:1]
    )
    return {"text": text_columns[0], **_item_text_roles(frame, free_columns, text_columns)} if text_columns else {}


def pair_text_roles(frame: pl.DataFrame, taken: Sequence[str]) -> dict[str, str]:
    """Roles of the columns with the two outputs in a table of verdicts, and of columns that describe the item."""
    free_columns = [name for name in frame.columns if name not in taken]
    output_column_pairs = [
        column_pair
        for column_pair in find_side_pairs(free_columns)
        if all(is_prose(frame[name]) for name in column_pair)
    ]
    return (
        {
            **dict(zip(PAIR, output_column_pairs[0], strict=True)),
            **_item_text_roles(frame, free_columns, output_column_pairs[0]),
        }
        if output_column_pairs
        else {}
    )


def system_column_layouts(
    frame: pl.DataFrame, free_columns: Sequence[str]
) -> Iterator[tuple[dict[str, str], tuple[str, ...]]]:
    """Roles and patterns of a table with one row per item, and columns of texts and scores for each system.

    The columns are `answer_gpt` and `human_gpt`, or nested: `texts.gpt` and `scores.gpt.bleu`.
    """
    scores = [name for name in free_columns if is_number(frame[name]) and not is_fact(name)]
    for roles, _ in _common_word_layouts(frame, free_columns, {}):
        systems = {labels["system"] for labels in match_columns(roles["text"], free_columns).values()}
        raters: dict[tuple[str, str, str], list[str]] = {}  # texts before and after the system, and the rater
        for name, system in product(scores, systems):
            text_before, system_match, text_after = name.partition(system)
            separator, rater = re.fullmatch(r"([\W_]*)(.*)", text_after).groups()  # type: ignore[union-attr]
            if system_match and (separator or not rater) and "." not in rater and not text_before[-1:].isalnum():
                raters.setdefault((text_before, separator, rater), []).append(name)
        patterns: dict[str, list[str]] = {}
        for (text_before, separator, rater), columns in raters.items():
            if len(columns) > 1:
                kind_prefix = _kind_prefix(frame, text_before + rater, columns)
                pattern = f"{kind_prefix}{escape_braces(text_before)}{{system}}{escape_braces(separator)}"
                patterns.setdefault(pattern, []).append(escape_braces(rater))
        if patterns:
            yield (
                roles,
                tuple(
                    f"{pattern}{{rater:{','.join(rater_names)}}}" if any(rater_names) else pattern
                    for pattern, rater_names in patterns.items()
                ),
            )


def _kind_prefix(frame: pl.DataFrame, pattern: str, columns: Collection[str]) -> str:
    """Prefix of a pattern: `human:` or `metric:`."""
    is_rated = name_stems(pattern) & (ASPECTS | HUMAN_RATING_WORDS) and all(
        has_half_steps(frame[name]) for name in columns
    )
    return "human:" if looks_human(pattern) or is_rated else "metric:"


def _item_text_roles(frame: pl.DataFrame, free_columns: Sequence[str], outputs: Sequence[str]) -> dict[str, str]:
    """The roles of columns that describe the item: source, context, references and images."""
    remaining_columns = [name for name in free_columns if name not in outputs]
    roles: dict[str, str] = {}
    for role in ("references", "source", "context", "images"):
        may_be_list = role in ("references", "images")
        text_columns = [
            name
            for name in remaining_columns
            if is_text(frame[name]) or (may_be_list and frame[name].dtype == pl.List(pl.String))
        ]
        candidates = [
            *(_numbered_globs(remaining_columns, role) if role == "references" else ()),
            *find_columns(role, text_columns),
        ]
        role_words = CORE.get(role, frozenset())
        candidates += [
            name for name in text_columns if not role_words.isdisjoint(split_name(name)) and is_prose(frame[name])
        ]
        if candidates:
            roles[role] = candidates[0]
            remaining_columns = [
                name for name in remaining_columns if name not in expand_name(candidates[0], remaining_columns)
            ]
    return roles


def _numbered_globs(columns: Sequence[str], role: str) -> list[str]:
    """Globs of numbered columns: `reference_*` for `reference_1` and `reference_2`."""
    names_of_stem: dict[str, list[str]] = {}
    for name in columns:
        match = re.fullmatch(r"(.*?)[\W_]?\d+", name)
        if match and (match[1].lower() in NAMES[role] or not CORE[role].isdisjoint(split_name(match[1]))):
            names_of_stem.setdefault(match[1], []).append(name)
    return [
        f"{name_stem}*" for name_stem, names in names_of_stem.items() if len(names) > 1 and name_stem not in columns
    ]


def _item_candidates(frame: pl.DataFrame, free_columns: Sequence[str], source: str | None) -> list[str]:
    """Candidate columns for the item, the most likely column first: ids by name, the source, and columns of labels (the
    most values first)."""
    candidates = [
        name
        for name in free_columns
        if not (frame[name].dtype.is_float() or frame[name].dtype.is_nested() or is_time(frame[name]))
        and frame[name].n_unique() > 1
        and not is_measure(name)
    ]
    id_columns = [name for name in find_columns("item", candidates) if not is_prose(frame[name])]
    index_columns = [name for name in candidates if is_index(frame[name])]
    other_columns = (
        name
        for name in candidates
        if not (has_another_role(name, "item") or is_fact(name) or holds_judgements(frame[name]))
    )
    label_columns = [name for name in other_columns if not is_prose(frame[name])]
    label_columns.sort(key=lambda name: frame[name].n_unique(), reverse=True)
    return list(dict.fromkeys([*id_columns, *index_columns, *([source] if source else []), *label_columns]))


def _system_candidates(frame: pl.DataFrame, free_columns: Sequence[str]) -> tuple[list[str], list[str]]:
    """Candidate columns for the system, found by name (columns with several labels first), and then candidates found by
    cells."""
    columns = [
        frame[name]
        for name in find_columns("system", free_columns)
        if not (frame[name].dtype.is_nested() or is_time(frame[name]))
    ]
    found_by_name = [
        column.name
        for column in columns
        if column.n_unique() <= max(1, min(MOST_SYSTEMS, column.len() / 2))
        and not (column.dtype.is_float() or is_prose(column))
    ]
    found_by_name.sort(key=lambda name: frame[name].n_unique() < 2)
    found_by_cells = [
        name
        for name in free_columns
        if name not in found_by_name
        and may_be_systems(frame[name])
        and not is_fact(name)
        and not has_another_role(name, "system")
        and CATEGORIES.isdisjoint(split_name(name))
    ]
    return found_by_name, found_by_cells


def _is_crossed(frame: pl.DataFrame, item: str, system: str | None) -> bool:
    """Whether each combination of item and system occurs only once, and enough items have outputs of several
    systems."""
    system_expressions = [] if system is None else [pl.col(system).alias("system")]
    keys = frame.select(pl.col(item).cast(pl.String).alias("item"), *system_expressions)
    if keys.is_duplicated().any():
        return False
    if system is None or frame[system].n_unique() < 2:
        return True
    return bool((keys.group_by("item").len()["len"] > 1).mean() >= MIN_CROSSED_SHARE)  # type: ignore[operator]


def _key_candidates(
    frame: pl.DataFrame, free_columns: Sequence[str], source: str | None, declared_roles: Mapping[str, str]
) -> Iterator[tuple[dict[str, str], bool]]:
    """Columns of item and system in a table with one row per output, and whether both columns have usual names."""
    found_by_name, found_by_cells = _system_candidates(frame, free_columns)
    declared_system = "system" if "system" in frame.columns else declared_roles.get("system")
    systems = [declared_system] if declared_system else [*found_by_name, *found_by_cells][:CHOICES]
    items = (
        [declared_roles["item"]]
        if "item" in declared_roles
        else _item_candidates(frame, free_columns, source)[:CHOICES]
    )
    for system, item in product(systems or [None], items):  # type: ignore[list-item]
        if system == item or not _is_crossed(frame, item, system):
            continue
        has_usual_system = system in (None, *found_by_name, *declared_roles.values(), "system")
        is_certain = has_usual_system and (item == source or item in find_columns("item", [item]))
        has_several_systems = system is None or frame[system].n_unique() > 1
        yield (
            {"item": item, **({"system": system} if system else {})},
            is_certain and (has_several_systems or len(found_by_name) == 1),
        )


def _output_row_layouts(frame: pl.DataFrame, free_columns: Sequence[str], declared_roles: Mapping[str, str]) -> Roles:
    """Layout with one row per output, whose text is in a column that is named like an output."""
    text_columns = [name for name in free_columns if is_text(frame[name]) and not _are_conversations(frame[name])]
    for text in [declared_roles["text"]] if "text" in declared_roles else find_columns("text", text_columns)[:CHOICES]:
        item_roles = _item_text_roles(frame, free_columns, [text])
        for key_roles, is_certain in _key_candidates(
            frame, [name for name in free_columns if name != text], item_roles.get("source"), declared_roles
        ):
            other_columns = {text, *(name for role, name in item_roles.items() if role != "source")}
            if other_columns.isdisjoint(key_roles.values()):
                is_unambiguous = "system" in key_roles or not set(lookup_names(text)) & UNCLEAR
                yield {**key_roles, "text": text, **item_roles}, is_certain and is_unambiguous


def _are_conversations(column: pl.Series) -> bool:
    """Whether the cells are conversations."""
    cells = column.drop_nulls().head(20)
    return cells.len() > 0 and all(parse_turns(cell) is not None for cell in cells)


def _conversation_layouts(frame: pl.DataFrame, free_columns: Sequence[str], declared_roles: Mapping[str, str]) -> Roles:
    """Layout with one row per conversation; the output is in the last turn or in a column of outputs."""
    for name in [name for name in free_columns if _are_conversations(frame[name])]:
        remaining_columns = [other_column for other_column in free_columns if other_column != name]
        last_speakers = [
            turns[-1][0].lower() for cell in frame[name].drop_nulls().head(20) if (turns := parse_turns(cell))
        ]
        ends_in_answer = sum(speaker in ANSWERS for speaker in last_speakers) * 2 > len(last_speakers)
        texts = [
            other_column
            for other_column in remaining_columns
            if is_text(frame[other_column]) and not _are_conversations(frame[other_column])
        ]
        output_roles = {} if ends_in_answer else dict(zip(("text",), find_columns("text", texts), strict=False))
        if not ends_in_answer and not output_roles:
            continue
        remaining_columns = [
            other_column for other_column in remaining_columns if other_column not in output_roles.values()
        ]
        item_roles = {
            role: column
            for role, column in _item_text_roles(frame, remaining_columns, []).items()
            if role == "references"
        }
        roles = {"messages": name, **output_roles, **item_roles}
        for key_roles, is_certain in _key_candidates(frame, remaining_columns, None, declared_roles):
            yield {**key_roles, **roles}, is_certain
        system_columns = _system_candidates(frame, remaining_columns)[0][:1]
        yield {**({"system": system_columns[0]} if system_columns else {}), **roles}, bool(system_columns)


def _are_systems(frame: pl.DataFrame, pair: Sequence[str]) -> bool:
    """Whether two columns hold the systems of a pair."""
    return all(
        is_text(frame[name]) and find_columns("system", [_remove_side(name)]) and not is_prose(frame[name])
        for name in pair
    )


def _remove_side(name: str) -> str:
    """The name of a column without the part that distinguishes the two outputs of a pair; `system` if no part
    remains."""
    outcome_words = {side_word for pair in OUTCOME_PAIRS for side_word in pair}
    return re.sub(SIDE, "", "_".join(word for word in split_name(name) if word not in outcome_words) or "system")


def _pair_layouts(frame: pl.DataFrame, free_columns: Sequence[str], declared_roles: Mapping[str, str]) -> Roles:
    """Layout with one row per pair of outputs, and columns for the systems of both outputs."""
    text_pairs = [
        column_pair
        for column_pair in find_side_pairs(free_columns)
        if all(is_prose(frame[name]) for name in column_pair)
    ]
    system_pairs = [column_pair for column_pair in find_side_pairs(free_columns) if _are_systems(frame, column_pair)]
    for (a, b), (first_output, second_output) in product(system_pairs, text_pairs):
        item_roles = _item_text_roles(frame, free_columns, [a, b, first_output, second_output])
        remaining_columns = [name for name in free_columns if name not in (a, b, first_output, second_output)]
        for item in _item_candidates(frame, remaining_columns, item_roles.get("source"))[:1]:
            is_certain = item == item_roles.get("source") or item in find_columns("item", [item])
            yield (
                {
                    "item": item,
                    "system_a": a,
                    "system_b": b,
                    "output_a": first_output,
                    "output_b": second_output,
                    **item_roles,
                },
                is_certain,
            )


def _item_row_roles(
    frame: pl.DataFrame, free_columns: Sequence[str], outputs: Sequence[str], declared_roles: Mapping[str, str]
) -> dict[str, str] | None:
    """Roles of a table with one row per item; None if every candidate column for the item has duplicate values."""
    item_roles = _item_text_roles(frame, free_columns, outputs)
    remaining_columns = [name for name in free_columns if name not in outputs]
    items = (
        [declared_roles["item"]]
        if "item" in declared_roles
        else _item_candidates(frame, remaining_columns, item_roles.get("source"))
    )
    unique_columns = [name for name in items if frame[name].n_unique() == frame.height]
    likely_columns = [
        n for n in unique_columns if n == item_roles.get("source") or find_columns("item", [n]) or is_index(frame[n])
    ]
    if items and not unique_columns:
        return None
    item = next(iter(likely_columns or unique_columns), "item")
    return item_roles if item == "item" else {"item": item, **item_roles}


def _common_word_layouts(frame: pl.DataFrame, free_columns: Sequence[str], declared_roles: Mapping[str, str]) -> Roles:
    """Layout with one row per item, and columns with a common word for outputs: `output_gpt`, `output_claude`."""
    candidates = [name for name in free_columns if not has_text_role(name)]
    text_columns = [name for name in candidates if is_text(frame[name]) or not count_filled_cells(frame[name])[0]]
    for pattern in dict.fromkeys(pattern for name in text_columns for pattern in _iter_name_patterns(name)):
        labels_of_column = {
            name: labels_of_name
            for name, labels_of_name in match_columns(pattern, text_columns).items()
            if not has_text_role(labels_of_name["system"])
        }
        if len(labels_of_column) < 2 or not any(is_prose(frame[name]) for name in labels_of_column):
            continue
        if set(match_columns(pattern, free_columns)) != set(labels_of_column):
            systems = ",".join(labels["system"] for labels in labels_of_column.values())
            pattern = pattern.replace("{system}", f"{{system:{systems}}}")
        roles = _item_row_roles(frame, free_columns, list(labels_of_column), declared_roles)
        if roles is not None and not set(labels_of_column) & set(roles.values()):
            yield {**roles, "text": pattern}, True


def _iter_name_patterns(name: str) -> Iterator[str]:
    """Possible patterns of a name, with a word for outputs before or after the system."""
    words = "|".join(OUTPUT_WORDS)
    prefix_match = re.match(rf"(?i)((?:.*[\W_])?(?:{words})(?:[\W_]+|(?=\d+$|[ab]$)))(.+?)([)\]]?)$", name)
    if prefix_match:
        yield f"{escape_braces(prefix_match[1])}{{system}}{escape_braces(prefix_match[3])}"
    suffix_match = re.match(rf"(?i)(.+?)([\W_]+(?:{words}))$", name)
    if suffix_match:
        yield f"{{system}}{escape_braces(suffix_match[2])}"
    parent, dot, last_part = name.rpartition(".")
    if dot:
        yield f"{escape_braces(parent)}.{{system}}"
        grandparent, dot, _ = parent.rpartition(".")
        if dot and normalise_name(last_part) in OUTPUT_WORDS:
            yield f"{escape_braces(grandparent)}.{{system}}.{escape_braces(last_part)}"


def _system_name_layouts(frame: pl.DataFrame, free_columns: Sequence[str], declared_roles: Mapping[str, str]) -> Roles:
    """Layout with one row per item, and one text column per system that has the name of the system."""
    item_roles = _item_text_roles(frame, free_columns, [])
    used_columns = {*item_roles.values(), *find_columns("item", free_columns)}
    if any(may_be_systems(frame[name]) for name in find_columns("system", free_columns)):
        return
    text_columns = [
        name
        for name in free_columns
        if name not in used_columns and is_text(frame[name]) and not is_category(frame[name])
    ]
    if len(text_columns) < 2 or not any(is_prose(frame[name]) for name in text_columns):
        return
    roles = _item_row_roles(frame, [name for name in free_columns if name not in text_columns], [], declared_roles)
    if roles is not None:
        is_certain = all(looks_like_machine(name) for name in text_columns) or set(text_columns) <= SIDES_OF_A_PAIR
        remaining_columns = [name for name in free_columns if name not in roles.values() and name not in TABLE_ROLES]
        pattern = "{system}" if set(remaining_columns) == set(text_columns) else f"{{system:{','.join(text_columns)}}}"
        yield {**roles, "text": pattern}, is_certain
