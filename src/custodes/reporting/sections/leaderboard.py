"""Section: leaderboard by human ratings, by corrected human ratings, and by the selected metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from custodes.data.comparisons import HUMAN
from custodes.errors import InputError
from custodes.evaluate.leaderboard.leaderboard import CORRECTED, Leaderboard, best_corrected, leaderboard
from custodes.plots.leaderboard import heat_map, panels, strengths
from custodes.reporting.section import ONE_SIDED, Context, Figure, Section, SelectionTable, empty_rows, spec_of
from custodes.reporting.tables import build_selection_table, table_html

PEOPLE, CORRECTED_PEOPLE = "human ratings", "human ratings, corrected by a metric"
"""Displayed names of the raters in the first figure."""

RATER_KINDS = (("human", HUMAN, "human ratings"), ("metric", "{metric}", "{metric}"))
"""Parts of the section. Each part has a name, the rater of its figures and tables, and the displayed rater name."""


def _rater_kinds(context: Context) -> Sequence[tuple[str, str, str]]:
    return (
        RATER_KINDS
        if context.metrics and context.has_people
        else RATER_KINDS[1:]
        if context.metrics
        else RATER_KINDS[:1]
    )


def _ask(context: Context) -> Leaderboard:
    result: Leaderboard = context.ask(leaderboard)
    if set(result.systems["aspect"].unique()) <= set(context.one_sided_aspects):
        raise InputError(ONE_SIDED)
    return result


def _human_rows(context: Context) -> pl.DataFrame:
    """The rows of human ratings, and of human ratings corrected by the metric with the largest saving.

    The column `rater` has the displayed names.
    """
    system_rows = context.table("leaderboard.systems")
    result: Any = context.results["leaderboard"]
    corrected_rows = system_rows.join(
        best_corrected(result).select("aspect", rater=CORRECTED + pl.col("metric")),
        on=["aspect", "rater"],
        how="semi",
        maintain_order="left",
    )
    return _add_panel_column(
        pl.concat(
            [
                system_rows.filter(rater=HUMAN).with_columns(rater=pl.lit(PEOPLE)),
                corrected_rows.with_columns(rater=pl.lit(CORRECTED_PEOPLE)),
            ]
        )
    )


def _add_panel_column(strength_rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with the column `panel`, which is the connected component of each row's system."""
    return strength_rows.with_columns(panel=pl.col("part").cast(pl.String))


def _panel_figures(strength_rows: pl.DataFrame, figure: Figure) -> list[Figure]:
    """The figure, once for each connected component of the systems, or once if all systems are connected."""
    component_numbers = panels(strength_rows)
    if len(component_numbers) < 2:
        return [figure]
    return [
        replace(
            figure,
            id=f"{figure.id}-{component_number}" if panel_index else figure.id,
            title=f"{figure.title}: connected component {component_number} of the systems",
            where={**figure.where, "panel": str(component_number)},
        )
        for panel_index, component_number in enumerate(component_numbers)
    ]


def _metric_rows(context: Context) -> pl.DataFrame:
    """The rows of the figure of the selected metric."""
    return _add_panel_column(
        context.table("leaderboard.systems").filter(
            pl.col("rater") != HUMAN, ~pl.col("rater").str.starts_with(CORRECTED)
        )
    )


def _figures(context: Context) -> Sequence[Figure]:
    human_rows = context.table("leaderboard-shown")
    rater_names = [rater_name for rater_name in (PEOPLE, CORRECTED_PEOPLE) if rater_name in human_rows["rater"]]
    metric_rows = context.table("leaderboard-by-metric")
    n_systems = human_rows["system"].n_unique()
    has_corrected_ratings = CORRECTED_PEOPLE in rater_names  # corrected ratings have strengths, but no win rates
    aspect_suffix = context.aspect_suffix
    caption_text = (
        "Systems that share a letter do not differ significantly. Whisker: interval. Arrow: one bound of "
        "the interval is unknown."
    )
    human_figures = _panel_figures(
        human_rows,
        Figure(
            id="leaderboard-strengths",
            title=("Strengths" if has_corrected_ratings else "Win rates") + " by human ratings" + aspect_suffix,
            caption=caption_text,
            alt="A dot with a whisker for every system, the strongest system on top; the table below has the numbers.",
            spec=spec_of(
                strengths(empty_rows(), raters=rater_names, value="strength" if has_corrected_ratings else "win_rate"),
                width="container",
            ),
            table="leaderboard-shown",
            where={"aspect": "{aspect}"},
            lines=("system",),
            opening=True,
        ),
    )
    is_without_humans = not context.has_people
    return [
        *([] if is_without_humans else human_figures),
        *(
            _panel_figures(
                metric_rows,
                Figure(
                    id="leaderboard-metric",
                    title=f"{'Win rates' if is_without_humans else 'Strengths'} by {{metric}}"
                    + (aspect_suffix if is_without_humans else ""),
                    caption=caption_text,
                    alt="A dot with a whisker for every system by the chosen metric; the table below has the numbers.",
                    spec=spec_of(
                        strengths(empty_rows(), value="win_rate" if is_without_humans else "strength"),
                        width="container",
                    ),
                    table="leaderboard-by-metric",
                    where={"aspect": "{aspect}", "rater": "{metric}"},
                    lines=("system",),
                    opening=is_without_humans,
                ),
            )
            if context.metrics
            else []
        ),
        *(
            Figure(
                id=f"leaderboard-map-{id_suffix}",
                title=f"Win rates of pairs by {rater_name}",
                caption="Win rate of the system in the row against the system in the column; a tie counts "
                "half. Orange: above one half. Blue: below one half. Empty: never compared.",
                alt="Heat map of the win rate of every system against every other system, with the numbers "
                "in the cells.",
                spec=spec_of(heat_map(empty_rows(), n_systems=n_systems)),
                table="leaderboard.pairs",
                where={"aspect": "{aspect}", "rater": rater},
            )
            for id_suffix, rater, rater_name in _rater_kinds(context)
        ),
    ]


def _tables(context: Context) -> Sequence[SelectionTable]:
    def rater_table(id: str, caption: str, table_name: str, rater: str) -> SelectionTable:
        return build_selection_table(
            context, id, caption, f"leaderboard.{table_name}", {"aspect": "{aspect}", "rater": rater}
        )

    has_covariates = not context.table("leaderboard.effects").filter(pl.col("effect") != "ties").is_empty()
    effects_text = "Ties and covariates" if has_covariates else "Ties"
    return [
        *(
            rater_table(f"leaderboard-systems-{id_suffix}", f"Systems by {rater_name}", "systems", rater)
            for id_suffix, rater, rater_name in _rater_kinds(context)
        ),
        *(
            rater_table(f"leaderboard-pairs-{id_suffix}", f"Pairs of systems by {rater_name}", "pairs", rater)
            for id_suffix, rater, rater_name in _rater_kinds(context)
        ),
        *(
            [rater_table("leaderboard-effects", f"{effects_text} by human ratings", "effects", HUMAN)]
            if context.has_people
            else []
        ),
    ]


def _build(context: Context) -> Mapping[str, Any]:
    """The values of the template: the table of corrected human ratings, and the notes."""
    correction_rows = context.table("leaderboard.corrected")
    study_messages = {note.message for note in context.study.notes}
    return {
        "corrected": table_html(
            correction_rows.sort("saving", descending=True, nulls_last=True, maintain_order=True),
            context.table_declaration("leaderboard.corrected").columns,
            id="leaderboard-corrected",
            caption="Human ratings corrected by each metric",
        )
        if correction_rows.height
        else "",
        "notes": [note for note in context.notes("leaderboard") if note[1] not in study_messages],
    }


LEADERBOARD = Section(
    question="leaderboard",
    title="Leaderboard",
    finding="best",
    ask=_ask,
    figures=_figures,
    tables=_tables,
    build=_build,
    extra=lambda context: {
        "leaderboard-shown": _human_rows(context),
        "leaderboard-by-metric": _metric_rows(context),
    },
    compares_systems=False,  # computed before it is known whether the study compares sides
    pages=("both", "humans", "metrics"),
)
