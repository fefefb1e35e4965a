"""Verdicts that are phrases, such as `A: Summary #1 is more coherent.`, and the patterns that read phrases, such as
`{winner}:*`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

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
TIES = ("equally", "equal", "a tie", "tied", "no difference", "no preference", "both are", "the same", "similar")
BETTER = re.compile(
    r"\b(better|best|wins?|won|winner|prefer\w*|superior|stronger|more|choose|chosen|select\w*|verdict|choice|answer)\b",
    re.I,
)
WORSE = re.compile(r"\b(worse|worst|los\w+|inferior|weaker|less|not|poorer|fails?)\b", re.I)
TOKEN = re.compile(r"""(?<![\w.])[\[(#"'*]*\b(A|B|C|1|2|left|right|first|second)\b(?:'(?!\w)|[\])"*])*""")
"""A word for an output in a phrase, possibly in quotes or brackets."""
MAX_PATTERNS = 6
"""Maximum number of proposed patterns of phrases, without the pattern of ties."""
MIN_COVERAGE = 0.5
"""Minimum proportion of cells that proposed patterns must be able to read."""
LONGEST = 400
"""Number of characters of a cell from which patterns are derived."""


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

    `patterns_text` lists patterns separated by `|`; `*` is any text. `{winner}` is a word for the better output.
    `{position}` is also a word for the better output, but A and 1 mean the output shown first. `{tie:equal*,both*}`
    is a phrase for a tie. A single word needs no pattern.
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
    allowed_words: Collection[str],
    *,
    has_position_pattern: bool,
) -> str:
    """The verdict of a phrase as one word, '' if no pattern matches."""
    for pattern_kind, pattern in (("position" if has_position_pattern else "winner", SINGLE), *kinds_and_patterns):
        phrase_match = pattern.fullmatch(cell)
        if phrase_match and pattern_kind == "tie":
            return "tie"
        if phrase_match and _normalise_word(phrase_match[1]) in allowed_words:
            return (
                LETTERS.get(phrase_match[1].lower(), phrase_match[1]) if pattern_kind == "position" else phrase_match[1]
            )
    return ""


def _normalise_word(word: str) -> str:
    return re.sub(r"[\W_]", "", word.lower())


def propose_phrases(cells: pl.Series) -> str:
    """Patterns that read most cells of a column; '' if no patterns do.

    A pattern is derived from cells that differ only in the word for an output. The pattern contains a word such as
    better, begins with the word for the output, or has this word in double brackets.

    >>> propose_phrases(pl.Series(["A: It is clear.", "B: It is short.", "Both are equally good."]))
    '{winner}:*|{tie:*equally*}'
    """
    count_of_cell = Counter(cell.strip()[:LONGEST] for cell in cells.drop_nulls() if cell.strip())
    word_counts_of_template: dict[str, Counter[str]] = {}
    for cell, n_occurrences in count_of_cell.items():
        for template, word in _iter_templates(cell):
            word_counts_of_template.setdefault(template, Counter())[word] += n_occurrences
    count_of_template = {
        template: sum(word_counts.values())
        for template, word_counts in word_counts_of_template.items()
        if len({*word_counts} - {"C"}) > 1
    }
    chosen_templates: list[str] = []
    count_of_unread_cell = {
        cell: n_occurrences for cell, n_occurrences in count_of_cell.items() if not SINGLE.fullmatch(cell)
    }
    for template in sorted(count_of_template, key=lambda template: count_of_template[template], reverse=True):
        _, template_regex = _compile_pattern(template)
        count_of_remaining_cell = {
            cell: n_occurrences
            for cell, n_occurrences in count_of_unread_cell.items()
            if not template_regex.fullmatch(cell)
        }
        if len(count_of_remaining_cell) < len(count_of_unread_cell) and len(chosen_templates) < MAX_PATTERNS:
            chosen_templates.append(template)
            count_of_unread_cell = count_of_remaining_cell
    candidate_tie_cells = [cell.lower() for cell in count_of_unread_cell if not TOKEN.search(cell)]
    n_cells_of_tie_phrase = {tie_phrase: sum(tie_phrase in cell for cell in candidate_tie_cells) for tie_phrase in TIES}
    if chosen_templates and any(n_cells_of_tie_phrase.values()):
        chosen_templates.append(f"{{tie:*{max(TIES, key=n_cells_of_tie_phrase.__getitem__)}*}}")
    n_cells, n_unread_cells = sum(count_of_cell.values()), sum(count_of_unread_cell.values())
    return "|".join(chosen_templates) if chosen_templates and n_cells - n_unread_cells >= MIN_COVERAGE * n_cells else ""


def _iter_templates(cell: str) -> Iterator[tuple[str, str]]:
    """Candidate patterns for a phrase, each with the word that it reads."""
    for output_word_match in TOKEN.finditer(cell):
        cell_text_before_word, cell_text_after_word = cell[: output_word_match.start()], cell[output_word_match.end() :]
        if set(cell_text_before_word + cell_text_after_word) & set("{}|*"):
            continue
        sentence_before_word = re.split(r"(?<=[.!?\n])\s+", cell_text_before_word)[-1]
        leading_wildcard = "*" if sentence_before_word != cell_text_before_word else ""
        clause_after_word = re.split(r"[.!?\n,;]", cell_text_after_word, maxsplit=1)[0]
        following_punctuation_match = re.match(r"\s*[:.)\-\u2013,]", cell_text_after_word)
        if WORSE.search(sentence_before_word + clause_after_word):
            continue
        output_word = output_word_match[1].upper()
        if output_word_match[0].startswith("[[") and not set(output_word_match[0]) & set("*#"):
            opening_brackets, closing_brackets = output_word_match[0].split(output_word_match[1])
            yield f"*{opening_brackets}{{winner}}{closing_brackets}*", output_word
        elif not sentence_before_word.strip() and following_punctuation_match:
            yield f"{leading_wildcard}{{winner}}{following_punctuation_match[0]}*", output_word
        elif BETTER.search(sentence_before_word):
            yield f"{leading_wildcard}{sentence_before_word}{{winner}}*", output_word
        elif better_word_match := BETTER.search(clause_after_word):
            yield (
                f"{leading_wildcard}{sentence_before_word}{{winner}}{clause_after_word[: better_word_match.end()]}*",
                output_word,
            )
