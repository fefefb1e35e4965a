"""Labels as answers of a judge: the allowed labels, the positive one of two labels, and the combination of labels over
aspects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import polars as pl

from custodes.data.labels import MOST_LABELS, POLARITY, is_binary, label_words
from custodes.data.notes import Note, noted
from custodes.errors import OptionError, shown

Combine = Literal["all", "any", "majority"]
"""Rules for a positive combined label: all aspects, any aspect, or more than half of the aspects are positive."""


def check_labels(labels: Sequence[str]) -> None:
    """Raise OptionError for labels that tables cannot represent or that readers cannot distinguish."""
    words = _words(labels)
    where = f"labels={shown(','.join(labels))}"
    if not 2 <= len(labels) <= MOST_LABELS:
        raise OptionError(f"{where}: {len(labels)} labels are given; give 2 to {MOST_LABELS} words, such as pass,fail")
    if any("\0" in label or "\n" in label for label in labels):
        raise OptionError(f"{where}: labels must be single lines without NUL")
    if None in words:
        raise OptionError(f"{where}: {labels[words.index(None)]!r} means an empty cell in tables; give another word")
    filled = [word for word in words if word is not None]
    if len(set(filled)) < len(filled):
        raise OptionError(f"{where}: labels must differ by more than case, spaces and hyphens")
    if is_binary(filled):
        if sorted(POLARITY[word] for word in filled) != [0, 1]:
            raise OptionError(
                f"{where}: both labels are positive words or both are negative words; give one of "
                f"each, such as pass,fail"
            )
    elif all(word.replace(".", "", 1).lstrip("-").isdigit() for word in filled):
        raise OptionError(f"{where}: labels must not be numbers; for scores give scale=LOW-HIGH")


def has_known_polarity(labels: Sequence[str]) -> bool:
    """Whether labels are a known pair such as pass and fail.

    >>> has_known_polarity(["Fail", "Pass"]), has_known_polarity(["kept", "lost"])
    (True, False)
    """
    return is_binary(word or "" for word in _words(labels))


def positive_label(labels: Sequence[str]) -> str:
    """The positive one of two labels. This is the label that is a known positive word; if neither word is known, the
    first label.

    >>> positive_label(["Fail", "Pass"]), positive_label(["kept", "lost"])
    ('Pass', 'kept')
    """
    if not has_known_polarity(labels):
        return labels[0]
    return next(label for label, word in zip(labels, _words(labels), strict=True) if POLARITY.get(word or "") == 1)


def positive_note(labels: Sequence[str]) -> list[Note]:
    """A note on which of two labels is positive, if readers cannot infer the positive label."""
    if len(labels) != 2 or has_known_polarity(labels):
        return []
    message = f"{labels[0]!r} counts as the positive label; in `custodes rates` give --positive {_words(labels)[0]}"
    return noted(("first-label-positive", 1, message))


def is_positive(rule: Combine, *, positives: int, negatives: int, aspects: int) -> bool | None:
    """Whether a combined label is positive; None if this depends on missing labels.

    >>> is_positive("all", positives=0, negatives=1, aspects=3), is_positive("all", positives=2, negatives=0, aspects=3)
    (False, None)
    """
    needed = {"all": aspects, "any": 1, "majority": aspects // 2 + 1}[rule]
    return True if positives >= needed else False if negatives > aspects - needed else None


def _words(labels: Sequence[str]) -> list[str | None]:
    return label_words(pl.Series(labels, dtype=pl.String)).to_list()
