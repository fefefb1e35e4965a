"""What was used: who judged, in which direction and on which scale, by which version, and what gives away a mix-up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from custodes.data.notes import Note
from custodes.data.study import Study
from custodes.errors import listed
from custodes.evaluate.check.problems import Problem

TRUNCATED = "truncated"
"""The rule on scores of texts that were cut, and the note of whoever made such scores."""


def used(chosen: Study) -> dict[str, Any]:
    """The columns of `used`: a row per rater, those whose kind nobody said as they count."""
    frame = chosen.raters.frame
    return {
        "rater": frame["rater"],
        "kind": frame["kind"],
        "higher_is_better": frame["higher_is_better"],
        "lowest": frame["low"],
        "highest": frame["high"],
        "cost": frame["cost"],
        "cost_unit": frame["cost_unit"].fill_null(""),
        "truncated": frame["truncated"],
        "signature": frame["signature"].fill_null(""),
    }


def mixed_up(chosen: Study, notes: Sequence[Note]) -> Iterator[Problem]:
    """Raters of one signature under several names, and scores of texts that were cut."""
    frame = chosen.raters.frame
    same = frame.drop_nulls("signature").group_by("signature", maintain_order=True).agg("rater")
    for names in same.filter(pl.col("rater").list.len() > 1)["rater"].to_list():
        message = (
            f"raters of one signature under several names: {listed(names)}; they are one rater, which counts several"
            " times: keep one, or mend the signatures in the raters file"
        )
        yield Problem("warning", "same-signature", message, names)
    cut = frame.filter(pl.col("truncated") > 0)
    if cut.height and TRUNCATED not in {note.rule for note in notes}:
        shares = cut.select("rater", "truncated").iter_rows()
        told = listed((f"{name} ({share:.0%} of outputs)" for name, share in shares), limit=5)
        message = (
            f"scores by texts that were cut to fit a model: {told}; what was cut off was not judged: compare such"
            " raters on short texts only, or take a model that holds more"
        )
        yield Problem("warning", TRUNCATED, message, cut["rater"].to_list())
