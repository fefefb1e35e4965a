"""Guesses of the columns of verdicts (two systems and the winner), from names and cells."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from os.path import commonprefix

import polars as pl

from custodes.data.mapping.annotator_columns import parse_numbers
from custodes.data.mapping.cell_types import is_number, is_prose, is_time
from custodes.data.mapping.column_vocabulary import WINNER_WORDS, find_side_pairs, split_name
from custodes.data.mapping.guess_texts import CHOICES, names_output, pair_text_roles
from custodes.data.mapping.pattern import escape_braces, match_columns
from custodes.data.mapping.phrases import LETTERS, propose_phrases

SAMPLE_ROWS = 1000
"""Number of rows used to distinguish phrases and texts from labels."""
RATERS = ("rater", "aspect", "kind", "repeat")
"""Roles that distinguish several ratings of one output."""
ORDER_LABELS = ({"ab", "ba"}, {"original", "swapped"})
"""Parts of the names of two columns with verdicts in the two presentation orders."""

Guess = Iterator[tuple[dict[str, str], tuple[str, ...]]]
"""Roles and patterns to try."""
Verdicts = Iterator[tuple[dict[str, str], Sequence[str]]]
"""Roles of the columns of verdicts, and further roles."""


def verdict_layouts(
    frame: pl.DataFrame,
    free_columns: Sequence[str],
    candidates_of_role: Mapping[str, Sequence[str]],
    item_columns: Sequence[str],
) -> Guess:
    """Layouts with two systems and the winner.

    A column is tried as `preference` only if the column has this name or negative numbers. In a column `preference`, 0
    is a tie.
    """
    system_column_pairs = [
        column_pair
        for column_pair in find_side_pairs(free_columns)
        if not all(is_prose(frame[name]) or names_output(name) for name in column_pair)
    ][:CHOICES]
    first_rows = frame.head(SAMPLE_ROWS)
    phrase_pattern_of_column = {
        name: phrase_pattern
        for name in (free_columns if system_column_pairs else ())
        if first_rows[name].dtype == pl.String
        and first_rows[name].str.strip_chars().str.contains(r"\s").any()
        and not is_time(first_rows[name])
        and (phrase_pattern := propose_phrases(first_rows[name]))
    }
    id_columns = [
        name
        for name in free_columns
        if frame[name].n_unique() == frame.height
        and not (name in item_columns or name in phrase_pattern_of_column)
        and not (is_time(frame[name]) or is_prose(frame[name]))
    ]
    winner_columns = [
        name for name in candidates_of_role["winner"] if name in first_rows.columns and not is_prose(first_rows[name])
    ]
    is_winner_pattern = bool(candidates_of_role["winner"]) and candidates_of_role["winner"][0] not in first_rows.columns
    column_of_output_role = pair_text_roles(first_rows, [])  # used if no columns name the systems
    pair_mappings = [
        {"system_a": first_column, "system_b": second_column} for first_column, second_column in system_column_pairs
    ] or ([column_of_output_role] if column_of_output_role else [])
    for column_of_pair_role, item_column in product(pair_mappings, [*item_columns, *id_columns[:1]]):
        verdict_columns = [name for name in winner_columns if name not in (item_column, *column_of_pair_role.values())]
        phrase_columns = [
            name for name in phrase_pattern_of_column if name not in (item_column, *column_of_pair_role.values())
        ]
        for column_of_verdict_role, roles_to_assign in (
            *([({}, (*RATERS, "order"))] if is_winner_pattern else []),
            *_order_layouts(frame, verdict_columns),
            *_name_layouts(frame, column_of_pair_role, verdict_columns, free_columns),
            *_word_layouts(frame, verdict_columns),
            *_phrase_layouts(phrase_columns, phrase_pattern_of_column, has_order=bool(candidates_of_role["order"])),
        ):
            column_of_role = {"item": item_column, **column_of_pair_role, **column_of_verdict_role}
            column_of_role |= assign_roles(column_of_role, candidates_of_role, roles_to_assign)
            column_of_text_role = pair_text_roles(
                first_rows, [name for role, name in column_of_role.items() if role != "item"]
            )
            if column_of_text_role:
                yield column_of_role | column_of_text_role, ()
            yield column_of_role, ()


def _order_layouts(frame: pl.DataFrame, verdict_columns: Sequence[str]) -> Verdicts:
    """Layouts with a column of verdicts for each presentation order, for both meanings of A and B: columns or, with the
    phrase `{position}`, displayed positions. The meaning with fewer contradictions between the orders comes first."""
    for column_pair in combinations(verdict_columns[:CHOICES], 2):
        common_prefix = commonprefix(column_pair)  # noqa: RUF071
        common_suffix = commonprefix([name[::-1] for name in column_pair])[::-1]  # noqa: RUF071
        if {name[len(common_prefix) : len(name) - len(common_suffix)].lower() for name in column_pair} in ORDER_LABELS:
            winner_pattern = f"{escape_braces(common_prefix)}{{order}}{escape_braces(common_suffix)}"
            first_verdicts, second_verdicts = (
                frame[name].cast(pl.String).str.replace_all(r"[\W_]", "").str.to_lowercase() for name in column_pair
            )
            has_letters_in_both = first_verdicts.is_in(LETTERS) & second_verdicts.is_in(LETTERS)
            verdict_mappings = [{"winner": winner_pattern}, {"winner": winner_pattern, "phrase": "{position}"}]
            are_positions_likely = (has_letters_in_both & (first_verdicts != second_verdicts)).sum() > (
                has_letters_in_both & (first_verdicts == second_verdicts)
            ).sum()
            yield from (
                (column_of_verdict_role, RATERS)
                for column_of_verdict_role in (verdict_mappings[::-1] if are_positions_likely else verdict_mappings)
            )


def _name_layouts(
    frame: pl.DataFrame,
    column_of_pair_role: Mapping[str, str],
    verdict_columns: Sequence[str],
    free_columns: Sequence[str],
) -> Verdicts:
    """Layouts with the winner and the loser, or with the names of the systems and one column of verdicts per rater.

    If a column such as `is_tie` marks ties, there is no layout with the winner and the loser, because the column of
    winners lacks the ties.
    """
    first_system_column = column_of_pair_role.get("system_a")
    if not first_system_column or any(is_number(frame[name]) for name in column_of_pair_role.values()):
        return
    if WINNER_WORDS.isdisjoint(split_name(first_system_column)):
        yield from (
            ({"winner": winner_pattern}, ("repeat", "order"))
            for winner_pattern in _rater_patterns(verdict_columns, free_columns)
        )
    elif not any({"tie", "draw"} & set(split_name(name)) for name in free_columns):
        yield {"winner": first_system_column}, RATERS


def _word_layouts(frame: pl.DataFrame, verdict_columns: Sequence[str]) -> Verdicts:
    """Layouts with one column of verdicts."""
    for verdict_column in verdict_columns[:2]:
        for role in ("preference", "winner") if verdict_column == "preference" else ("winner", "preference"):
            if role == verdict_column or role == "winner" or parse_numbers(frame[verdict_column]).lt(0).any():
                yield {role: verdict_column}, (*RATERS, "order")


def _phrase_layouts(
    phrase_columns: Sequence[str], phrase_pattern_of_column: Mapping[str, str], *, has_order: bool
) -> Verdicts:
    """Layouts with a column of phrases, which mostly name an output by its position in the prompt of the judge."""
    for phrase_column in phrase_columns:
        position_pattern = phrase_pattern_of_column[phrase_column].replace("{winner}", "{position}")
        for phrase_pattern in (
            (position_pattern, phrase_pattern_of_column[phrase_column])
            if has_order
            else (phrase_pattern_of_column[phrase_column], position_pattern)
        ):
            yield {"winner": phrase_column, "phrase": phrase_pattern}, (*RATERS, "order")


def _rater_patterns(verdict_columns: Sequence[str], free_columns: Sequence[str]) -> Iterator[str]:
    """Patterns such as `{rater}_choice`, each for at least two columns of verdicts."""
    if len(verdict_columns) < 2:
        return
    for separator_match in re.finditer(r"[\W_]+", verdict_columns[0]):
        prefix, suffix = verdict_columns[0][: separator_match.end()], verdict_columns[0][separator_match.start() :]
        yield from (
            pattern
            for pattern in (f"{escape_braces(prefix)}{{rater}}", f"{{rater}}{escape_braces(suffix)}")
            if set(match_columns(pattern, free_columns)) == set(verdict_columns)
        )
    yield f"{{rater:{','.join(map(escape_braces, verdict_columns))}}}"


def assign_roles(
    column_of_assigned_role: Mapping[str, str], candidates_of_role: Mapping[str, Sequence[str]], roles: Sequence[str]
) -> dict[str, str]:
    """For each of the roles, the first candidate column that is not used yet."""
    column_of_further_role: dict[str, str] = {}
    for role in roles:
        unused_columns = [
            name
            for name in candidates_of_role[role]
            if name not in column_of_assigned_role.values() and name not in column_of_further_role.values()
        ]
        column_of_further_role |= {role: unused_columns[0]} if unused_columns else {}
    return column_of_further_role
