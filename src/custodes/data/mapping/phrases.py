"""Verdicts that are phrases, such as `A: Summary #1 is more coherent.`, and the patterns that read phrases, such as
`{winner}:*`."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import polars as pl

from custodes.data.mapping.column_vocabulary import word_list
from custodes.data.notes import Note, build_notes
from custodes.data.preferences import UNREADABLE
from custodes.data.table import format_counts, label_column
from custodes.errors import OptionError

PLACEHOLDER = re.compile(r"\{\{|\}\}|\{(winner|position|tie:[^{}]+)\}")
"""A placeholder, or a double brace, which is a literal brace."""
WORD = r"""[\[(#"'*]*(\w(?:[\w.\-]*\w)?)[\])"'*]*"""
"""A word of a verdict, possibly in quotes or brackets."""
SINGLE = re.compile(rf"\s*{WORD}[.!]?\s*")
LETTERS = {"a": "left", "1": "left", "first": "left", "b": "right", "2": "right", "second": "right", "c": "tie"}
"""Words for the output shown first, for the output shown second, and for a tie."""
WORDS = word_list(
    "a b c 1 2 tie tied draw equal same even both neither first second left right modela modelb systema systemb"
    " responsea responseb response1 response2 outputa outputb output1 output2 answera answerb assistanta assistantb"
)
"""Single words that are verdicts. Names of systems are verdicts, too."""
COMMON_PATTERNS = (
    *("*[[{winner}]]*", "{winner}:*", "{winner}.*", "*{winner} is better*", "*{winner} is more*", "*prefer {winner}*"),
    *("*winner is {winner}*", "*better* is {winner}*", "*{winner} wins*"),
)
"""Patterns of phrases that are proposed if they read verdicts for both outputs."""
TIE_PATTERN = "{tie:*equally*,*a tie*,*no difference*,*no preference*,*the same*}"
MIN_COVERAGE = 0.5
"""Minimum proportion of phrases that proposed patterns must be able to read."""
MAX_CELLS, LONGEST = 1000, 400
"""Number of cells, and of characters of a cell, that are examined for patterns."""


def replace_phrases(
    mapped_table: pl.DataFrame, phrase_patterns_text: str, *, where: str
) -> tuple[pl.DataFrame, list[Note]]:
    """The table of verdicts with each phrase replaced by a word, and notes."""
    system_column_names = [
        name for name in mapped_table.columns if name in ("system_a", "system_b", "model_a", "model_b")
    ]
    verdict_words, invalid_reasons, notes = read_phrases(
        label_column(mapped_table, "winner", where=where, empty=True),
        phrase_patterns_text,
        system_names={
            str(system_label) for name in system_column_names for system_label in mapped_table[name].unique()
        },
        where=where,
    )
    return mapped_table.with_columns(verdict_words.alias("winner"), invalid_reasons.alias("invalid")), notes


def read_phrases(
    cells: pl.Series, patterns_text: str, *, system_names: Collection[str], where: str
) -> tuple[pl.Series, pl.Series, list[Note]]:
    """The word of the verdict in each phrase, the reason if a phrase has no verdict, and a note on the number of
    phrases without a verdict.

    `patterns_text` lists patterns separated by `|`; `*` is any text. `{winner}` stands for a word that names the better
    output. `{position}` also stands for such a word, but A and 1 mean the output shown first. `{tie:equal*,both*}`
    stands for a phrase that means a tie. A cell with a single word needs no pattern.
    """
    kinds_and_patterns = compile_phrases(patterns_text)
    has_position_pattern = any(pattern_kind == "position" for pattern_kind, _ in kinds_and_patterns)
    allowed_words = {*WORDS, *map(_normalise_word, system_names)}
    word_of_cell = {
        cell: _read_verdict(cell, kinds_and_patterns, allowed_words, has_position_pattern=has_position_pattern)
        for cell in cells.unique()
        if cell is not None
    }
    verdict_words = cells.replace_strict(word_of_cell, default=None, return_dtype=pl.String)
    is_unread_cell = (verdict_words.fill_null("") == "") & (cells.fill_null("").str.strip_chars() != "")
    note_message = (
        f"{where}: {is_unread_cell.sum()} verdicts match no pattern of phrases and count as not rated "
        f"({format_counts(cells.filter(is_unread_cell).str.slice(0, 40))})"
    )
    return (
        verdict_words.fill_null(""),
        pl.select(pl.when(is_unread_cell).then(pl.lit(UNREADABLE)).otherwise(pl.lit(""))).to_series(),
        build_notes(("unread-phrases", int(is_unread_cell.sum()), note_message)),
    )


def compile_phrases(patterns_text: str) -> list[tuple[str, re.Pattern[str]]]:
    """The kind and the regular expression of each pattern. An invalid pattern raises `OptionError`."""
    return [_compile_pattern(pattern_text) for pattern_text in patterns_text.split("|")]


def _compile_pattern(pattern_text: str) -> tuple[str, re.Pattern[str]]:
    """The kind of a pattern and its regular expression."""
    placeholder_matches = [
        placeholder_match for placeholder_match in PLACEHOLDER.finditer(pattern_text.strip()) if placeholder_match[1]
    ]
    if len(placeholder_matches) != 1 or set(PLACEHOLDER.sub("", pattern_text)) & set("{}"):
        raise OptionError(
            f"columns: phrase={pattern_text.strip()!r}: give one of {{winner}}, {{position}} and {{tie:GLOB}} in each "
            "pattern, and {{ and }} for literal braces, as in '{winner}:*|Summary {winner} is better*'"
        )
    placeholder_start, placeholder_end = placeholder_matches[0].span()
    text_before, text_after = (
        side_text.replace("{{", "{").replace("}}", "}")
        for side_text in (pattern_text.strip()[:placeholder_start], pattern_text.strip()[placeholder_end:])
    )
    placeholder_kind, _, globs_text = placeholder_matches[0][1].partition(":")
    word_regex = "(?:" + "|".join(_glob_regex(glob) for glob in globs_text.split(",")) + ")" if globs_text else WORD
    return placeholder_kind, re.compile(
        rf"\s*{_glob_regex(text_before)}{word_regex}{_glob_regex(text_after)}\s*", re.I | re.S
    )


def _glob_regex(text: str) -> str:
    """A glob as a regular expression, in which blanks match any white space."""
    return r"\s+".join(".*".join(map(re.escape, glob_word.split("*"))) for glob_word in re.split(r"\s+", text))


def _read_verdict(
    cell: str,
    kinds_and_patterns: Sequence[tuple[str, re.Pattern[str]]],
    allowed_winner_words: Collection[str],
    *,
    has_position_pattern: bool,
) -> str:
    """The verdict of a phrase as one word, '' if no pattern matches."""
    for pattern_kind, pattern in (("position" if has_position_pattern else "winner", SINGLE), *kinds_and_patterns):
        phrase_match = pattern.fullmatch(cell)
        if phrase_match and pattern_kind == "tie":
            return "tie"
        if phrase_match and _normalise_word(phrase_match[1]) in allowed_winner_words:
            return (
                LETTERS.get(phrase_match[1].lower(), phrase_match[1]) if pattern_kind == "position" else phrase_match[1]
            )
    return ""


def _normalise_word(word: str) -> str:
    return re.sub(r"[\W_]", "", word.lower())


def propose_phrases(cells: pl.Series, placeholder: str = "winner") -> str:
    """Common patterns that read most phrases among the first cells of a column; '' if no pattern reads verdicts for
    both outputs.

    >>> propose_phrases(pl.Series(["A: It is clear.", "B: It is short.", "Both are equally good."]))
    '{winner}:*|{tie:*equally*,*a tie*,*no difference*,*no preference*,*the same*}'
    """
    phrases = [cell[:LONGEST] for cell in cells.drop_nulls().head(MAX_CELLS) if not SINGLE.fullmatch(cell)]

    def read(patterns_text: str) -> list[str]:
        kinds_and_patterns = compile_phrases(patterns_text)
        verdict_words = (
            _read_verdict(phrase, kinds_and_patterns, WORDS, has_position_pattern=False) for phrase in phrases
        )
        return list(filter(None, verdict_words))

    patterns = [pattern for pattern in COMMON_PATTERNS if len(set(read(pattern))) > 1]
    proposed_patterns_text = "|".join([*patterns, *([TIE_PATTERN] if read(TIE_PATTERN) else [])])
    has_coverage = patterns and len(read(proposed_patterns_text)) >= MIN_COVERAGE * len(phrases)
    return proposed_patterns_text.replace("winner", placeholder) if has_coverage else ""
