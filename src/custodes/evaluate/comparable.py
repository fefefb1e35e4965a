"""Checks whether the systems of a study can be compared, and messages for studies without comparisons."""

from __future__ import annotations

from custodes.data.notes import ASPECT_PHRASE, NO_ANSWERS
from custodes.data.study import Study
from custodes.errors import InputError, join_labels


class NotComparableError(InputError):
    """Error for a study in which nothing can be compared; `check` lists the reason among the problems."""


def too_few(selected_study: Study, needed_text: str) -> str:
    """Return the message for a study with fewer than two systems; `needed_text` says how many are needed."""
    if selected_study.systems:
        return (
            f"{selected_study.name}: only 1 system ({join_labels(selected_study.systems)}); {needed_text}; for rates "
            "of labels or of whole-number scores, use rates, which needs only one system"
        )
    if not selected_study.raters.frame.height:
        return f"{selected_study.name}: {NO_ANSWERS}"
    return (
        f"{selected_study.name}: no score or verdict is selected, so there is no system to compare. Select other "
        "raters or aspects, or at least two systems; in a running annotation study, see custodes annotate status"
    )


def label_of(aspect: str) -> str:
    """Return ' for aspect ...' as a part of messages; empty for studies without aspects."""
    return ASPECT_PHRASE.format(aspect) if aspect else ""


def check_ordered(study: Study, aspect: str) -> None:
    """Raise `NotComparableError` if the labels of an aspect have no order, so that no output is better."""
    if not is_ordered(study, aspect):
        label_names = study.labels[aspect].words
        aspect_advice = ", or select other aspects with aspect=NAME" if len(study.aspects) > 1 else ""
        raise NotComparableError(
            f"{study.name}: the labels{label_of(aspect)} ({join_labels(label_names, limit=3)}) have no order, so "
            f"they do not say which output is better; use rates, which compares the rate of each label, write ordered "
            f"labels as numbers{aspect_advice}"
        )


def is_ordered(study: Study, aspect: str) -> bool:
    """Whether the scores of an aspect have an order; three or more labels have an order only if they are integers."""
    label_scale = study.labels.get(aspect)
    return label_scale is None or label_scale.binary or label_scale.ordered
