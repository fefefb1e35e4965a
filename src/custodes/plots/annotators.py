"""Picture: how competent each person is, and who is named."""

from __future__ import annotations

from typing import Any

import polars as pl

from custodes.errors import OptionError
from custodes.evaluate.annotators.annotators import Annotators
from custodes.plots import alt, theme
from custodes.plots.choice import chosen, of_aspect, titled

READINGS = {"named": theme.VERMILION, "not named": theme.BLUE}


def annotator_competence(
    result: Annotators,
    *,
    what: str | None = None,
    aspect: str | None = None,
    width: int = theme.PAGE_WIDTH,
    dark: bool = False,
) -> alt.TopLevelMixin:
    """A dot and whiskers per person: how far each is right, the most competent first; red where a flag names one.

    `what` is 'verdicts' or 'ratings', by default the first with a competence. Raises `OptionError` for unknown names,
    and where no competence is told.

    >>> import custodes as cu
    >>> made = cu.annotators(cu.read("demo"), aspect="fluency", resamples=50)
    >>> annotator_competence(made).to_dict()["title"]
    'Competence of people (fluency)'
    """
    rows = result.annotators.filter(pl.col("competence").is_not_null())
    if rows.is_empty():
        raise OptionError("annotator_competence: no competence is told; see the column reason, and the notes")
    rows = chosen(rows, "what", what or str(rows["what"][0]), who="annotator_competence")
    rows, aspect = of_aspect(rows, aspect, who="annotator_competence")
    data = theme.inline(rows.with_columns(said=pl.col("flags").list.join(", ")).drop("flags"))
    return theme.themed(
        competence(data).properties(width=width), dark=dark, title=titled("Competence of people", aspect)
    )


def competence(data: Any, *, ends: bool = True) -> Any:
    """Rows of `Annotators.annotators` of one kind of answer, with their flags in words in `said`; `ends`: whether any
    has an interval."""
    base = alt.Chart(data).transform_calculate(reading="datum.said ? '{}' : '{}'".format(*READINGS))
    who = alt.Y("rater:N", title=None, sort=alt.EncodingSortField(field="competence", op="max", order="descending"))
    colour = alt.Color("reading:N", title=None, scale=alt.Scale(domain=list(READINGS), range=list(READINGS.values())))
    tooltip = [
        alt.Tooltip("rater:N"),
        alt.Tooltip("competence:Q", format=".2f"),
        alt.Tooltip("competence_low:Q", format=".2f", title="low"),
        alt.Tooltip("competence_high:Q", format=".2f", title="high"),
        alt.Tooltip("doubled:Q", title="answers that others gave too"),
        alt.Tooltip("said:N", title="flags"),
    ]
    x = alt.X("competence:Q", title="Competence: 1 is always right, 0 guesses")
    zero = alt.Chart(theme.inline(pl.DataFrame({"zero": [0]}))).encode(x="zero:Q")
    whiskers = (
        base.transform_filter("isValid(datum.competence_low)")
        .mark_rule(**theme.WHISKER)
        .encode(x=alt.X("competence_low:Q"), x2="competence_high:Q", y=who, color=colour)
    )
    return alt.layer(
        zero.mark_rule(color=theme.GREY, strokeDash=[3, 3]),
        *([whiskers] if ends else []),
        base.mark_point(opacity=1).encode(x=x, y=who, color=colour, tooltip=tooltip),
    ).properties(height=alt.Step(theme.ROW))
