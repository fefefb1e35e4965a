"""Guesses of a mapping for a table that no reader accepts, from names and cells. A mapping "reads" a table if a reader
accepts the mapped table. Only a guess that reads the table is shown."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations, product
from os.path import commonprefix

import polars as pl

from custodes.data.mapping.annotator_columns import (
    metric_column_patterns,
    nested_patterns,
    parse_numbers,
    people_patterns,
)
from custodes.data.mapping.cell_types import (
    cluster_role,
    has_another_role,
    holds_judgements,
    invalid_score_cell,
    is_index,
    is_informative,
    is_number,
    is_prose,
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
    WINNER_WORDS,
    find_averages,
    find_columns,
    find_side_pairs,
    is_fact,
    is_measure,
    kind_words,
    looks_human,
    name_stems,
    normalise_name,
    split_name,
)
from custodes.data.mapping.columns import TABLE_ROLES, Columns
from custodes.data.mapping.guess_texts import (
    CHOICES,
    pair_text_roles,
    score_text_roles,
    system_column_layouts,
    text_guesses,
)
from custodes.data.mapping.pattern import escape_braces, match_columns
from custodes.data.mapping.phrases import LETTERS, may_be_phrases, propose_phrases
from custodes.data.mapping.text_columns import TEXTS

GUESS_ROWS = 5000
"""Number of rows from which guesses are derived."""

SAMPLE_ROWS = 1000
"""Number of rows used to distinguish phrases and texts from labels."""

RATERS = ("rater", "aspect", "kind", "repeat")
ORDER_LABELS = ({"ab", "ba"}, {"original", "swapped"})
"""Parts of the names of two columns with verdicts in the two presentation orders."""
ROLES_GUESSED = ("item", "system", "score", *RATERS, "winner", "order")

Guess = Iterator[tuple[dict[str, str], tuple[str, ...]]]
"""Roles and patterns to try."""
Verdicts = Iterator[tuple[dict[str, str], Sequence[str]]]
"""Roles of the columns of verdicts, and further roles."""


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
    nested: Collection[str] = (),
) -> str:
    """Advice such as `; try --column item=doc_id ...`, with the first guess that reads the table; '' if there is none.

    `declared` is the mapping of the user, which is a part of all guesses. `nested` are the columns from nested cells. A
    guess that would drop a score column because of invalid cells is not suggested. The advice then names the cell to
    correct, unless the message `wrong` already names that cell.
    """
    first_rows = frame.head(GUESS_ROWS)
    text_mappings: Iterable[Columns] = (mapping for mapping, _ in text_guesses(frame.head(SAMPLE_ROWS), declared))
    has_score_columns = any(looks_like_score(name) for name in first_rows.columns if is_number(first_rows[name]))
    if has_score_columns:  # texts alone would drop the scores, which does not matter if there is only one system
        text_mappings = (mapping for mapping in text_mappings if _has_one_system(frame, mapping))
    groups_of_mappings = [guesses(first_rows, declared, nested), text_mappings]
    has_verdict_columns = find_side_pairs(first_rows.columns) and find_columns("winner", first_rows.columns)
    if not has_score_columns and not has_verdict_columns and score_text_roles(frame.head(SAMPLE_ROWS), []):
        groups_of_mappings = [
            sorted(text_mappings, key=lambda mapping: _has_one_system(frame, mapping)),
            groups_of_mappings[0],
        ]
    for mapping in chain(*groups_of_mappings):
        n_systems = 1 if _has_one_system(frame, mapping) else 2
        if (
            mapping != declared
            and reads(first_rows, mapping, n_systems)
            and (frame.height <= GUESS_ROWS or reads(frame, mapping, n_systems))
        ):
            free_column_names = [
                name for name in frame.columns if name not in mapping.roles.values() and name not in TABLE_ROLES
            ]
            invalid_cell_text = (
                invalid_score_cell(frame, free_column_names) if mapping.match_patterns(frame.columns) else ""
            )
            if invalid_cell_text:
                return (
                    ""
                    if invalid_cell_text in wrong
                    else f"; {invalid_cell_text} is not a number: correct this cell, then a mapping can be suggested"
                )
            return f"; try {format_options(mapping)} (in Python columns={mapping.mapping})"
    return ""


def _has_one_system(frame: pl.DataFrame, guess: Columns) -> bool:
    """Whether a mapping names no column of systems, or a column with only one system."""
    if {"output_a", "system_a"} & guess.roles.keys() or any(
        "{system" in column_or_pattern for column_or_pattern in (guess.roles.get("text", ""), *guess.patterns)
    ):
        return False
    system_column = guess.roles.get("system", "system")
    return system_column not in frame.columns or frame[system_column].n_unique() < 2


def format_options(columns: Columns) -> str:
    """A mapping as command-line options."""
    option_texts = [f"--column {shlex.quote(f'{role}={name}')}" for role, name in columns.roles.items()]
    return " ".join([*option_texts, *(f"--columns {shlex.quote(pattern)}" for pattern in columns.patterns)])


def guesses(frame: pl.DataFrame, declared: Columns, nested: Collection[str] = ()) -> Iterator[Columns]:
    """Mappings that may read a table, the most likely first: of verdicts, long and wide tables, and a single system."""
    declared_columns = set(declared.roles.values())
    free = [name for name in frame.columns if name and name not in declared_columns]
    candidates = {
        role: [declared.roles[role]] if role in declared.roles else find_columns(role, free) for role in ROLES_GUESSED
    }
    number_columns = [
        name for name in free if is_number(frame[name]) and not is_fact(name) and not is_index(frame[name])
    ]
    if "rater" not in declared.roles:
        rater_columns = [*candidates["rater"], *(name for name in free if name.endswith(".*.name"))]
        candidates["rater"] = [name for name in rater_columns if may_be_labels(frame[name])]
    if "kind" not in declared.roles:
        candidates["kind"] = [name for name in candidates["kind"] if kind_words(frame[name]) is not None]
    has_system_pairs = any(set(NAMES["system"]) & set(split_name(name)) for name, _ in find_side_pairs(free))
    item_columns, system_columns = _key_candidates(frame, free, candidates)
    yield from _complete_guesses(declared, _verdict_layouts(frame, free, candidates, item_columns), frame.columns)
    if candidates["winner"] and has_system_pairs:
        return  # no other layout is possible
    text_roles = {} if "text" in declared.roles else score_text_roles(frame.head(SAMPLE_ROWS), [*declared_columns])
    key_pairs = [(item, system) for item, system in product(item_columns, system_columns) if item != system][
        : CHOICES * CHOICES
    ]
    # If every row is a different item, no two systems can be compared.
    key_pairs.sort(key=lambda pair: frame[pair[0]].n_unique() == frame.height)
    cluster_roles = {} if "cluster" in declared.roles else {item: cluster_role(frame, item) for item in item_columns}
    base_mappings = [{"item": item, "system": system, **cluster_roles.get(item, {})} for item, system in key_pairs]
    single_system_mappings: list[dict[str, str]] = []
    if "system" not in (*declared.roles, *frame.columns):
        yield from _complete_guesses(declared, system_column_layouts(frame, free), frame.columns)
        if not has_system_pairs and not declared.patterns and any(may_be_scores(column) for column in frame):
            single_system_mappings = _single_system_keys(frame, free, number_columns, text_roles)
    for make_layouts, base in (
        *product((_long_layouts, _half_long_layouts, _wide_layouts), base_mappings),
        *product((_long_layouts, _wide_layouts), single_system_mappings),
    ):
        item = base["item"]
        score_columns = [
            name for name in number_columns if name not in base.values() and is_informative(frame, name, item)
        ]
        aspect_columns = [
            name
            for name in candidates["aspect"]
            if normalise_name(name) != "question" or varies_within_items(frame, name, item)
        ]
        layouts = list(
            make_layouts(frame, base, score_columns, {**candidates, "aspect": aspect_columns}, declared, nested)
        )
        yield from _complete_guesses(
            declared, chain(_add_text_roles(layouts, text_roles, declared), layouts), frame.columns
        )


def _single_system_keys(
    frame: pl.DataFrame, free: Sequence[str], numbers: Sequence[str], text_roles: Mapping[str, str]
) -> list[dict[str, str]]:
    """Candidate mappings of the item in a table of one system. A constant column may hold the name of the system."""
    systems = [name for name in find_columns("system", free) if frame[name].n_unique() == 1 and is_text(frame[name])]
    item_columns = [
        *(name for name in find_columns("item", free) if not is_time(frame[name]) and name not in numbers),
        *(name for name in free if split_name(name)[-1] in IDS or (is_index(frame[name]) and not is_measure(name))),
        *([text_roles["source"]] if "source" in text_roles else []),
    ]
    system_role = {"system": systems[0]} if systems else {}
    return [{"item": item, **system_role} for item in dict.fromkeys(item_columns)]


def _add_text_roles(
    layouts: Sequence[tuple[dict[str, str], tuple[str, ...]]], text_roles: Mapping[str, str], declared: Columns
) -> Guess:
    """Layouts of scores, with the text columns of the table added. The source may serve as the item."""
    for roles, patterns in layouts:
        added_roles = {
            role: name
            for role, name in text_roles.items()
            if name not in roles.values() or (role == "source" and name == roles["item"])
        }
        if "text" in added_roles and (patterns or declared.patterns or "score" in roles):
            yield {**roles, **added_roles}, patterns


def _complete_guesses(declared: Columns, layouts: Guess, names: Sequence[str]) -> Iterator[Columns]:
    """Guesses, with the user's mapping added. Columns with the name of their role, and patterns without a match, are
    left out."""
    for roles, patterns in layouts:
        allowed_equal = (("source", "item"), ("winner", "system_a"))
        roles_sharing_column = {role for role, other_role in allowed_equal if roles.get(role) == roles.get(other_role)}
        if len(set(roles.values())) == len({*roles} - roles_sharing_column):
            guessed_roles = {
                role: name
                for role, name in roles.items()
                if (role != name or role in TEXTS or role in roles_sharing_column) and role not in declared.roles
            }
            all_patterns = tuple(dict.fromkeys((*declared.patterns, *patterns)))
            guessed_columns = Columns(roles={**guessed_roles, **declared.roles}, patterns=all_patterns)
            matched_patterns = {
                *declared.patterns,
                *(() if "score" in declared.roles else guessed_columns.match_patterns(names)),
            }
            merged_patterns = tuple(pattern for pattern in all_patterns if pattern in matched_patterns)
            yield Columns(roles=declared.roles, patterns=merged_patterns).merge_defaults(Columns(roles=guessed_roles))


def _key_candidates(
    frame: pl.DataFrame, free: Sequence[str], candidates: Mapping[str, Sequence[str]]
) -> tuple[list[str], list[str]]:
    """Candidate columns for the item and for the system: first by name, then by the number of distinct labels."""
    n_values = {name: frame[name].n_unique() for name in free if not frame[name].dtype.is_nested()}
    label_columns = [name for name in n_values if not frame[name].dtype.is_float() and not looks_human(name)]
    possible_item_columns = [
        name
        for name in label_columns
        if n_values[name] > 1
        and may_be_labels(frame[name])
        and not (is_time(frame[name]) or holds_judgements(frame[name]))
    ]
    likely_item_columns = sorted(possible_item_columns, key=n_values.__getitem__, reverse=True)
    items = list(dict.fromkeys([*candidates["item"], *(name for name in likely_item_columns if not is_measure(name))]))
    possible_system_columns = [
        name for name in label_columns if may_be_systems(frame[name]) and not has_another_role(name, "system", "item")
    ]
    likely_system_columns = sorted(
        (
            name
            for name in possible_system_columns
            if not (name.endswith(".*.name") or is_fact(name))
            and (not items or any(varies_within_items(frame, name, item) for item in items[:CHOICES]))
        ),
        key=n_values.__getitem__,
    )
    usual_columns = [name for name in candidates["system"] if n_values.get(name, 2) > 1 and not is_time(frame[name])]
    return items[:CHOICES], list(dict.fromkeys([*usual_columns, *likely_system_columns]))[:CHOICES]


def _verdict_layouts(
    frame: pl.DataFrame, free: Sequence[str], candidates: Mapping[str, Sequence[str]], items: Sequence[str]
) -> Guess:
    """Layouts with two systems and the winner.

    A column is tried as `preference` only if the column has this name or negative numbers. In a column `preference`, 0
    is a tie.
    """
    column_pairs = [pair for pair in find_side_pairs(free) if not all(is_prose(frame[name]) for name in pair)][:CHOICES]
    head = frame.head(SAMPLE_ROWS)
    phrase_columns = [name for name in free if column_pairs and may_be_phrases(head[name]) and not is_time(head[name])]
    phrases = {name: phrase for name in phrase_columns if (phrase := propose_phrases(head[name]))}
    unique_columns = [name for name in free if frame[name].n_unique() == frame.height and not is_time(frame[name])]
    id_columns = [name for name in unique_columns if not (name in items or name in phrases or is_prose(frame[name]))]
    winner_columns = [name for name in candidates["winner"] if name in head.columns and not is_prose(head[name])]
    is_winner_pattern = bool(candidates["winner"]) and candidates["winner"][0] not in head.columns
    output_roles = pair_text_roles(head, [])  # used if no columns name the systems
    bases = [{"system_a": a, "system_b": b} for a, b in column_pairs] or ([output_roles] if output_roles else [])
    for base, item_column in product(bases, [*items, *id_columns[:1]]):
        verdict_columns = [name for name in winner_columns if name not in (item_column, *base.values())]
        phrase_columns = [name for name in phrases if name not in (item_column, *base.values())]
        for verdict_roles, further_roles in (
            *([({}, (*RATERS, "order"))] if is_winner_pattern else []),
            *_order_layouts(frame, verdict_columns),
            *_name_layouts(frame, base, verdict_columns, free),
            *_word_layouts(frame, verdict_columns),
            *_phrase_layouts(phrase_columns, phrases, has_order=bool(candidates["order"])),
        ):
            roles = {"item": item_column, **base, **verdict_roles}
            roles |= _assign_roles(roles, candidates, further_roles)
            text_roles = pair_text_roles(head, [name for role, name in roles.items() if role != "item"])
            yield from ((all_roles, ()) for all_roles in ([roles | text_roles, roles] if text_roles else [roles]))


def _order_layouts(frame: pl.DataFrame, verdict_columns: Sequence[str]) -> Verdicts:
    """Layouts with a column of verdicts for each presentation order. A and B mean columns or, with the phrase
    `{position}`, displayed positions. The meaning with fewer contradictions between the orders comes first."""
    for names in combinations(verdict_columns[:CHOICES], 2):
        prefix, suffix = commonprefix(names), commonprefix([name[::-1] for name in names])[::-1]  # noqa: RUF071
        if {name[len(prefix) : len(name) - len(suffix)].lower() for name in names} in ORDER_LABELS:
            pattern = f"{escape_braces(prefix)}{{order}}{escape_braces(suffix)}"
            first, second = (
                frame[name].cast(pl.String).str.replace_all(r"[\W_]", "").str.to_lowercase() for name in names
            )
            is_letter = first.is_in(LETTERS) & second.is_in(LETTERS)
            layouts = [{"winner": pattern}, {"winner": pattern, "phrase": "{position}"}]
            names_positions = (is_letter & (first != second)).sum() > (is_letter & (first == second)).sum()
            yield from ((layout, RATERS) for layout in (layouts[::-1] if names_positions else layouts))


def _name_layouts(
    frame: pl.DataFrame, base: Mapping[str, str], verdict_columns: Sequence[str], free: Sequence[str]
) -> Verdicts:
    """Layouts with the winner and the loser, or with the names of the systems and one column of verdicts per rater."""
    first_column = base.get("system_a", "")
    if not first_column or any(is_number(frame[name]) for name in base.values()):
        return
    if WINNER_WORDS.isdisjoint(split_name(first_column)):
        yield from (({"winner": pattern}, ("repeat", "order")) for pattern in _rater_patterns(verdict_columns, free))
    else:
        yield {"winner": first_column}, RATERS


def _word_layouts(frame: pl.DataFrame, verdict_columns: Sequence[str]) -> Verdicts:
    """Layouts with one column of verdicts."""
    for verdict_column in verdict_columns[:2]:
        has_negative_number = parse_numbers(frame[verdict_column]).lt(0).any()
        for role in ("preference", "winner") if verdict_column == "preference" else ("winner", "preference"):
            if role == verdict_column or role == "winner" or has_negative_number:
                yield {role: verdict_column}, (*RATERS, "order")


def _phrase_layouts(phrase_columns: Sequence[str], phrases: Mapping[str, str], *, has_order: bool) -> Verdicts:
    """Layouts with a column of phrases, which mostly name an output by its position in the prompt of the judge."""
    for column in phrase_columns:
        position_pattern = phrases[column].replace("{winner}", "{position}")
        for phrase in (position_pattern, phrases[column]) if has_order else (phrases[column], position_pattern):
            yield {"winner": column, "phrase": phrase}, (*RATERS, "order")


def _rater_patterns(verdict_columns: Sequence[str], free: Sequence[str]) -> Iterator[str]:
    """Patterns such as `{rater}_choice`, each for at least two columns of verdicts."""
    if len(verdict_columns) < 2:
        return
    patterns = []
    for separator_match in re.finditer(r"[\W_]+", verdict_columns[0]):
        prefix, suffix = verdict_columns[0][: separator_match.end()], verdict_columns[0][separator_match.start() :]
        patterns += [f"{escape_braces(prefix)}{{rater}}", f"{{rater}}{escape_braces(suffix)}"]
    yield from (pattern for pattern in patterns if set(match_columns(pattern, free)) == set(verdict_columns))
    yield f"{{rater:{','.join(map(escape_braces, verdict_columns))}}}"


def _assign_roles(
    base: Mapping[str, str], candidates: Mapping[str, Sequence[str]], roles: Sequence[str]
) -> dict[str, str]:
    """For each of the roles, the first candidate column that is not used yet."""
    further_roles: dict[str, str] = {}
    for role in roles:
        free = [name for name in candidates[role] if name not in base.values() and name not in further_roles.values()]
        further_roles |= {role: free[0]} if free else {}
    return further_roles


def _long_layouts(
    frame: pl.DataFrame,
    base: dict[str, str],
    numbers: Sequence[str],
    candidates: Mapping[str, Sequence[str]],
    declared: Columns,
    nested: Collection[str],
) -> Guess:
    """Layouts with one row per rating."""
    score_columns = [name for name in candidates["score"] if name in numbers or name in declared.roles.values()]
    aspects = [name for name in numbers if ASPECTS & name_stems(name)]
    if len(aspects) > 1:  # next to an aspect such as fluency, overall is an aspect too
        score_columns = [name for name in score_columns if name not in aspects or name in declared.roles.values()]
    if not score_columns and len(numbers) == 1 and not ASPECTS & name_stems(numbers[0]):
        score_columns = list(numbers)
    further_roles = _assign_roles(base, candidates, ("rater", "aspect", "kind", "repeat"))
    for score_column in score_columns[:2]:
        if "rater" in further_roles and score_column not in further_roles.values():
            yield {**base, **further_roles, "score": score_column}, ()
            yield {**base, "rater": further_roles["rater"], "score": score_column}, ()


def _half_long_layouts(
    frame: pl.DataFrame,
    base: dict[str, str],
    numbers: Sequence[str],
    candidates: Mapping[str, Sequence[str]],
    declared: Columns,
    nested: Collection[str],
) -> Guess:
    """Layouts with one row per rater and output, and a column per aspect."""
    further_roles = _assign_roles(base, candidates, ("rater", "repeat"))
    aspects = [name for name in numbers if name not in further_roles.values()]
    if (
        "rater" not in further_roles
        or any(map(looks_human, aspects))
        or all(GENERIC.issuperset(split_name(name)) for name in aspects)
    ):
        return
    kind_prefix = "human:" if PEOPLE_ROLES & set(split_name(further_roles["rater"])) else ""
    rating_columns = [
        name for name in aspects if set(split_name(name)) & (ASPECTS | GENERIC) and not AVERAGES & set(split_name(name))
    ]
    rating_columns = rating_columns or aspects
    assigned_columns = (*aspects, *base.values(), *further_roles.values())
    other_number_columns = [name for name in frame.columns if is_number(frame[name]) and name not in assigned_columns]
    prefix = re.sub(r"[^\W_]*$", "", commonprefix(rating_columns)) if len(rating_columns) > 1 else ""  # noqa: RUF071
    for pattern in (f"{escape_braces(prefix)}{{aspect}}", f"{{aspect:{','.join(map(escape_braces, rating_columns))}}}"):
        if match_columns(pattern, [*aspects, *other_number_columns]).keys() == set(rating_columns):
            yield {**base, **further_roles}, (f"{kind_prefix}{pattern}",)


def _wide_layouts(
    frame: pl.DataFrame,
    base: dict[str, str],
    numbers: Sequence[str],
    candidates: Mapping[str, Sequence[str]],
    declared: Columns,
    nested: Collection[str],
) -> Guess:
    """Layouts with one row per output, and a column per rater."""
    further_roles = {
        role: name for role, name in _assign_roles(base, candidates, ("aspect", "repeat")).items() if name == role
    }
    scores = [
        name for name in numbers if name not in further_roles.values() and (name == "score" or name not in TABLE_ROLES)
    ]
    object_patterns, flat_columns = nested_patterns(frame, [name for name in scores if name in nested])
    if object_patterns:
        scores = flat_columns + [name for name in scores if name not in nested]
    patterns, human_columns = people_patterns(frame, scores)
    # Numbers that are not scores, such as the latency of a request, match no pattern.
    other_number_columns = [
        name
        for name in frame.columns
        if name not in (*base.values(), *scores, *further_roles.values())
        and is_number(frame[name])
        and name not in TABLE_ROLES
    ]
    if patterns or object_patterns:
        aspects = {
            row.get("aspect", "") for pattern in patterns for row in match_columns(pattern, human_columns).values()
        }
        metric_patterns = metric_column_patterns(scores, human_columns, other_number_columns, sorted(aspects - {""}))
        yield {**base, **further_roles}, (*object_patterns, *patterns, *metric_patterns)
    elif human_columns:
        return
    if find_averages(scores) or other_number_columns or nested:
        single_score_columns = [
            name for name in scores if name not in find_averages(scores) and (not nested or frame[name].n_unique() > 1)
        ]
        if single_score_columns:
            yield {**base, **further_roles}, (f"{{rater:{','.join(single_score_columns)}}}",)
        return
    yield {**base, **further_roles}, ()
    yield {**base, **further_roles}, ("{rater}",)
