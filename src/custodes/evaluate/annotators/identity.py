"""Whether a rater is one person, or a slot: a column filled by different persons."""

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
"""Minimum proportion of the tasks of similarly named raters for a rater to count as having answered all of them."""

SLOT = "a slot, which several persons may share"


def persons(study: Study, raters: Sequence[str], annotator_type: AnnotatorType) -> tuple[frozenset[str], list[Note]]:
    """The raters that are single persons, and notes on how this was determined.

    With 'auto' the raters table decides. Any other rater is a slot if its name is numbered (`annotator2`, `human_b`)
    and all raters with similar names answered (nearly) the same tasks, as in files with a column per slot.
    """
    if annotator_type != "auto":
        return frozenset(raters if annotator_type == "persons" else ()), []
    names = study.raters.frame.filter(pl.col("person"))["rater"]
    declared = frozenset(raters) & frozenset(names)
    slots = _slots(study, [name for name in raters if name not in declared])
    assumed = sorted(frozenset(raters) - declared - slots)
    how = "declare it with annotator_type='persons' or 'slots', or in the column 'person' of a raters table"
    return frozenset(raters) - slots, noted(
        (
            "slots",
            len(slots),
            "read as slots shared by several persons, as all names have the same tasks: "
            f"{listed(sorted(slots))}. They are not evaluated one by one; {how}",
        ),
        ("assumed-persons", len(assumed), f"each read as one person: {listed(assumed, limit=3)}; if not, {how}"),
    )


def is_numbered(name: str) -> bool:
    """Whether a name is generic: a common word with a number or letter.

    >>> is_numbered("annotator2"), is_numbered("human_b"), is_numbered("beatrix"), is_numbered("A2X9QK")
    (True, True, False, False)
    """
    return all(word in HUMAN or len(word) <= 1 for word in map(stem, parts(name)))


def _slots(study: Study, raters: Sequence[str]) -> frozenset[str]:
    """Raters with numbered names whose similarly named raters all answered the same tasks."""
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
