"""Labels of raters, systems and items: selection by globs, and labels that look equal.

Selections are comma lists of globs, such as `expert*,turker1`; a glob after `!` excludes labels. Labels that look equal
differ in case, composed letters, Cyrillic or Greek letters, or hidden characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from custodes.arguments import value_list
from custodes.errors import OptionError, join_labels, suggestion

Patterns = str | Sequence[str] | None
"""A comma list of globs, a sequence of such lists, or None for all labels."""


def select_labels(patterns: Patterns, labels: Sequence[str], *, option: str, what: str) -> tuple[str, ...]:
    """The labels that match, in the original order. A pattern without a match raises `OptionError` with a suggestion.

    A complete label matches itself even if it contains glob characters or commas. If all patterns are exclusions
    (`!x`), all remaining labels are selected.

    >>> select_labels("expert*,!expert2", ["expert1", "expert2", "bleu"], option="human", what="rater")
    ('expert1',)
    """
    if patterns is None:
        return tuple(labels)
    pattern_list = value_list(option, patterns, labels=labels)
    if not pattern_list:
        raise OptionError(f"{option}={patterns!r} matches no {what}; {what}s: {join_labels(labels)}")
    included_patterns = [pattern for pattern in pattern_list if not pattern.startswith("!") or pattern in labels]
    excluded_patterns = [pattern[1:] for pattern in pattern_list if pattern.startswith("!") and pattern not in labels]
    included_labels, excluded_labels = (
        {label for pattern in pattern_group for label in _matches(pattern, labels, option, what)}
        for pattern_group in (included_patterns, excluded_patterns)
    )
    selected_labels = (included_labels if included_patterns else set(labels)) - excluded_labels
    if not selected_labels:
        raise OptionError(f"{option}={patterns!r} excludes every {what}; {what}s: {join_labels(labels)}")
    return tuple(label for label in labels if label in selected_labels)


def _matches(pattern: str, labels: Sequence[str], option: str, what: str) -> list[str]:
    if pattern in labels:
        return [pattern]
    matching_labels = [label for label in labels if fnmatchcase(label, pattern)]
    if not matching_labels:
        raise OptionError(
            f"{option}={pattern!r}: no such {what}; {what}s: {join_labels(labels)}{suggestion(pattern, labels)}"
            if any(labels)
            else f"{option}={pattern!r}: the study has no {what}s; leave this option out"
        )
    return matching_labels


LATIN = str.maketrans(
    "АВЕЅІЈКМНОРСТУХ" + "асԁеһіјӏорԛѕхуԝ" + "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ" + "ανο",
    "ABESIJKMHOPCTYX" + "acdehijlopqsxyw" + "ABEZHIKMNOPTYX" + "avo",
)
"""Cyrillic and Greek letters that look like Latin ones (a part of confusables.txt of the Unicode standard, UTS #39)."""


def skeleton(label: str) -> str:
    """Canonical form of a label: labels that look equal to a reader have the same form.

    >>> skeleton("GPT\\u20114") == skeleton("gpt_4") == skeleton("GPT-4\\u200b") == "gpt-4"
    True
    """
    visible_text = "".join(
        character for character in unicodedata.normalize("NFKC", label) if unicodedata.category(character) != "Cf"
    )
    text_with_ascii_dashes = "".join(
        "-" if unicodedata.category(character) == "Pd" else character
        for character in unicodedata.normalize("NFKC", visible_text.translate(LATIN).casefold())
    )
    return re.sub(r"[-_\s]+", "-", text_with_ascii_dashes).strip("-")


def confusable_groups(labels: Iterable[str]) -> list[list[str]]:
    """Sets of labels that look equal, in the order of first occurrence."""
    labels_of_skeleton: dict[str, list[str]] = {}
    for label in dict.fromkeys(labels):
        labels_of_skeleton.setdefault(skeleton(label), []).append(label)
    return [
        equal_looking_labels for equal_looking_labels in labels_of_skeleton.values() if len(equal_looking_labels) > 1
    ]


def escape_confusable(label: str) -> str:
    """A label with escapes for characters that are invisible or look like a Latin letter.

    >>> escape_confusable("GP\\u0422-4")
    "'GP\\\\u0422-4'"
    """
    has_lookalike_characters = label.translate(LATIN) != label
    has_hidden_characters = any(
        unicodedata.category(character) in ("Cf", "Pd", "Zs", "Mn") and not character.isascii() for character in label
    )
    return ascii(label) if has_lookalike_characters or has_hidden_characters else repr(label)
