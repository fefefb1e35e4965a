"""Selection of labels by comma lists of globs, such as `expert*,turker1`. A glob after `!` excludes labels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import translate

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
    selected_labels = (
        set(labels)
        if not included_patterns
        else {match for pattern in included_patterns for match in _matches(pattern, labels, option, what)}
    )
    selected_labels -= {match for pattern in excluded_patterns for match in _matches(pattern, labels, option, what)}
    if not selected_labels:
        raise OptionError(f"{option}={patterns!r} excludes every {what}; {what}s: {join_labels(labels)}")
    return tuple(label for label in labels if label in selected_labels)


def _matches(pattern: str, labels: Sequence[str], option: str, what: str) -> list[str]:
    if pattern in labels:
        return [pattern]
    matcher = re.compile(translate(pattern))
    matching_labels = [label for label in labels if matcher.match(label)]
    if not matching_labels:
        raise OptionError(
            f"{option}={pattern!r}: no such {what}; {what}s: {join_labels(labels)}{suggestion(pattern, labels)}"
        )
    return matching_labels
