"""Figure: estimated competence of each annotator, with significant findings."""

from __future__ import annotations

from typing import Any

import polars as pl

import custodes.plots.alt as alt
import custodes.plots.theme as theme
from custodes.errors import OptionError
from custodes.evaluate.annotators.annotators import Annotators
from custodes.plots.choice import select_rows, title_with_aspect

READINGS = {"significant finding": theme.VERMILION, "no significant finding": theme.BLUE}


def annotator_competence(
    result: Annotators,
    *,
    answer_type: str | None = None,
    aspect: str | None = None,
    width: int = theme.PAGE_WIDTH,
) -> alt.TopLevelMixin:
    """Dot plot of the estimated competence of each annotator, the highest first.

    Annotators with a significant finding are red. Only annotators with an estimate are shown; the axis title states how
    many annotators have no estimate.

    Parameters
    ----------
    result : Annotators
        Result of `annotators`.
    answer_type : str, optional
        'verdicts' or 'ratings'; default: the first type for which an annotator has an estimate.
    aspect : str, optional
        Aspect to draw; required if the result has several aspects.
    width : int, default 455
        Width of the plot in pixels.

    Returns
    -------
    altair.TopLevelMixin
        The chart. A notebook displays it as SVG; `custodes.plots.save` writes it to a file.

    Raises
    ------
    OptionError
        If a name is unknown, or if no annotator has an estimate.

    Examples
    --------
    >>> import custodes as cu
    >>> reliability = {"ann": 0.9, "bea": 0.8, "cy": 0.6}
    >>> made = cu.simulate(items=40, quality={"A": [0.5], "B": [0.0]}, annotators=reliability, metrics=[], rng=0)
    >>> annotator_competence(cu.annotators(made.study, resamples=20)).to_dict()["title"]
    'Competence of annotators'
    """
    annotator_rows = (
        result.annotators.drop_nulls("competence")
        .with_columns(flag_names=pl.col("flags").list.join(", "))
        .drop("flags")
    )
    if annotator_rows.is_empty():
        raise OptionError(
            "annotator_competence: no annotator has an estimate of competence; see the notes and the column reason"
        )
    annotator_rows, answer_type, aspect = select_rows(
        annotator_rows,
        "annotator_competence",
        answer_type=answer_type or annotator_rows["answer_type"][0],
        aspect=aspect,
    )
    return theme.apply_theme(
        _competence(
            theme.embed_rows(annotator_rows),
            n_omitted_annotators=result.annotators.filter(answer_type=answer_type, aspect=aspect).height
            - annotator_rows.height,
        ),
        title=title_with_aspect("Competence of annotators", aspect),
        width=width,
    )


def _competence(data: Any, *, n_omitted_annotators: int) -> Any:
    """Draw the annotators of one answer type, with their flags in the column `flag_names`."""
    base_chart = alt.Chart(data).transform_calculate(reading="datum.flag_names ? '{}' : '{}'".format(*READINGS))
    omission_text = f" ({n_omitted_annotators} without an estimate are not shown)" if n_omitted_annotators else ""
    return alt.layer(
        theme.reference_line(data, x=0),
        base_chart.mark_point(opacity=1).encode(
            x=alt.X("competence:Q", title=f"Competence: 1 = always correct, 0 = guessing{omission_text}"),
            y=alt.Y(
                "rater:N", title=None, sort=alt.EncodingSortField(field="competence", op="max", order="descending")
            ),
            color=theme.category_colour("reading", READINGS),
            tooltip=[
                alt.Tooltip("rater:N"),
                alt.Tooltip("competence:Q", format=".2f"),
                alt.Tooltip("n_multiply_rated:Q", title="tasks that other annotators also answered"),
                alt.Tooltip("flag_names:N", title="flags"),
            ],
        ),
        height=alt.Step(theme.ROW),
    )
