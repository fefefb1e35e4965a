"""Whether a rater is one person or a slot. A slot is a column of a file that different persons filled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import polars as pl

from custodes.data.mapping.column_vocabulary import HUMAN, parts, stem
from custodes.data.notes import Note, noted
from custodes.data.study import Study
from custodes.errors import listed

AnnotatorType = Literal["auto", "persons", "slots"]

WHOLE = 0.9
"""Similarly named raters are slots if each of them answered at least this proportion of the tasks of all of them."""

SLOT = "a slot, which several persons may share"


def persons(study: Study, raters: Sequence[str], annotator_type: AnnotatorType) -> tuple[frozenset[str], list[Note]]:
    """Return the raters that are single persons, and notes on how this was determined.

    With 'auto', a rater is a person if the raters table says so. Any other rater is a slot if the name is numbered
    (`annotator2`, `human_b`) and if all raters with similar names answered nearly the same tasks, as in files with one
    column per slot.
    """
    if annotator_type != "auto":
        return frozenset(raters if annotator_type == "persons" else ()), []
    names = study.raters.frame.filter(pl.col("person"))["rater"]
    declared = frozenset(raters) & frozenset(names)
    slots = _slots(study, [name for name in raters if name not in declared])
    assumed = sorted(frozenset(raters) - declared - slots)
    how = "declare this with annotator_type='persons' or 'slots', or in the column 'person' of a raters table"
    return frozenset(raters) - slots, noted(
        (
            "slots",
            len(slots),
            f"{listed(sorted(slots))} answered the same tasks and were read as slots that several persons "
            f"share. Slots are not evaluated one by one; {how}",
        ),
        (
            "assumed-persons",
            len(assumed),
            f"{listed(assumed, limit=3)}: each rater is read as one person; if a rater is a slot, {how}",
        ),
    )


def is_numbered(name: str) -> bool:
    """Whether a name is generic: it has only common words for annotators, and single letters or numbers.

    >>> is_numbered("annotator2"), is_numbered("human_b"), is_numbered("beatrix"), is_numbered("A2X9QK")
    (True, True, False, False)
    """
    return all(word in HUMAN or len(word) <= 1 for word in map(stem, parts(name)))


def _slots(study: Study, raters: Sequence[str]) -> frozenset[str]:
    """Return the raters with numbered names that answered nearly the same tasks as all similarly named raters."""
    likely = [name for name in raters if is_numbered(name)]
    ours = pl.col("rater").is_in(likely)
    scores, verdicts = study.ratings.frame.filter(ours), study.preferences.frame.filter(ours)
    rows = pl.concat(
        [
            scores.select("rater", "aspect", "item", "system", system_b=pl.lit("")),
            verdicts.select("rater", "aspect", "item", "system_b", system="system_a").select(
                "rater", "aspect", "item", "system", "system_b"
            ),
        ]
    ).unique()
    names = {name: "_".join(stem(part) for part in parts(name) if len(stem(part)) > 1) for name in likely}
    rows = rows.with_columns(like=pl.col("rater").replace_strict(names, return_dtype=pl.String))
    tasks = rows.select(pl.exclude("rater")).unique().group_by("like").len("tasks")
    numbers = rows.group_by("like", "rater").len("own").join(tasks, on="like")
    several = numbers.filter(pl.len().over("like") > 1)
    whole = several.filter((pl.col("own") >= WHOLE * pl.col("tasks")).all().over("like"))
    return frozenset(whole["rater"])
