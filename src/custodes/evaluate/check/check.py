"""Summary of the data of a study, and problems that would distort results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Unpack

import numpy as np
import polars as pl

from custodes.answers.question import Rng, question
from custodes.answers.result import result
from custodes.answers.shared_arguments import PreferenceOptions, selection_arguments, settings
from custodes.answers.tables import count, flag, label, score, share, table
from custodes.data.comparisons import HUMAN
from custodes.data.notes import Note
from custodes.data.study import Study
from custodes.data.table import drop_duplicates, filter_rows
from custodes.evaluate.check.aspect import FEW_ITEMS, compared_problems, means_of_others, near_duplicates
from custodes.evaluate.check.outputs import systems_of_texts, texts_alone
from custodes.evaluate.check.rules import SERIOUS_NOTES, Problem, ProblemResult, problem, problem_table
from custodes.evaluate.check.study import label_problems, study_problems
from custodes.evaluate.comparable import NotComparableError, label_of
from custodes.evaluate.parallel import map_parts
from custodes.evaluate.rater_comparison import (
    NO_COMPARISON,
    RaterComparison,
    compare_all_raters,
    compare_any_raters,
    compare_aspect,
)
from custodes.evaluate.scores import ScalesDifferError
from custodes.progress import Progress, silent


@result
class Check(ProblemResult):
    """Summary of the data of a study, and problems in the data. See `check`."""

    summary: pl.DataFrame = table(
        "One row per aspect.",
        count("items", "items with a rating by a selected rater"),
        count("clusters", "groups of items (such as documents) that are resampled together"),
        count("systems", "systems that are compared"),
        count("humans", "annotators"),
        count("metrics", "metrics and judges"),
        count("ratings", "scores"),
        count("verdicts", "pairwise verdicts"),
        share("coverage", "proportion of item × system × rater cells with a score"),
        share("ties", "proportion of comparisons that the combined annotators rate as ties", "Human ties"),
    )
    raters: pl.DataFrame = table(
        "One row per rater and aspect.",
        label("rater", "name of the rater"),
        label("kind", "human or metric"),
        count("ratings", "scores given"),
        count("verdicts", "pairwise verdicts"),
        share("coverage", "proportion of item × system cells with a score"),
        share(
            "ties",
            "proportion of ties among the rater's comparisons; null for annotators if there are several annotators",
        ),
        score("low", "lowest score", "Lowest"),
        score("high", "highest score", "Highest"),
        flag("higher_is_better", "whether a higher score is better"),
        label("signature", "library, version and parameters on which the scores of the rater depend"),
        essential=False,
    )
    texts: pl.DataFrame = table(
        "One row per system, if the study has texts but no scores or verdicts.",
        label("system", "name of the system"),
        count("items", "items with an output of at least one system"),
        count("outputs", "items with an output of this system"),
        count("missing", "items without an output of this system, or with an empty output"),
        count("duplicates", "outputs that equal the output of another system for the same item"),
        count("distinct", "different texts"),
        score("words", "mean number of words of an output"),
    )
    problems: pl.DataFrame = problem_table("Problems that would invalidate or bias results.", page="`check`")


@question("custodes check ratings.csv --human 'expert*'")
def check(
    study: Study,
    *,
    rng: Rng = 0,
    progress: Progress = silent,
    **setting: Unpack[PreferenceOptions],
) -> Check:
    """Summarise the data of a study and report problems that would distort results.

    Notes
    -----
    The table `problems` has the severity (error, warning, info), rule, message and examples of each problem. The
    documentation page `check` explains the rules. Negative agreement of a metric with annotators is tested at the
    1 % level with sign flips. A study of annotators alone or metrics alone is allowed.

    Examples
    --------
    >>> import custodes as cu
    >>> cu.check(cu.read("demo")).summary["systems"].to_list()[0] > 1
    True
    """
    selected_study = study.select(**selection_arguments(setting), one_side=True)
    tables_and_notes_of_aspects = map_parts(
        lambda aspect, _: _answer(selected_study, aspect, setting),
        selected_study.aspects,
        rng=np.random.default_rng(rng),
        progress=progress,
        desc="check",
        label=str,
    )
    notes = list(
        dict.fromkeys(
            [note for _, aspect_notes in tables_and_notes_of_aspects for note in aspect_notes] or selected_study.notes
        )
    )
    unrated_texts = texts_alone(study)
    return Check.from_parts(
        [
            *(aspect_tables for aspect_tables, _ in tables_and_notes_of_aspects),
            Check.part(
                texts={} if unrated_texts is None else systems_of_texts(unrated_texts).to_dict(),
                problems=map(
                    Problem._asdict,
                    [
                        *study_problems(study, selected_study, notes),
                        *(label_problems(selected_study, rng) if selected_study.labels else ()),
                    ],
                ),
            ),
        ],
        notes,
    )


def _answer(
    selected_study: Study, aspect: str, setting: PreferenceOptions
) -> tuple[dict[str, pl.DataFrame], Sequence[Note]]:
    """Return the tables and the notes of an aspect."""
    comparison, has_equal_scales, notes, problems = _examine_aspect(selected_study, aspect, setting)
    if not selected_study.labels:
        problems = [*problems, *means_of_others(comparison), *near_duplicates(comparison)]
    # Annotators who use different scales have no combined preference.
    tie_rate_of_rater = {
        rater: float((signs == 0).mean())
        for rater_index, rater in enumerate(comparison.preferences.raters)
        if (signs := comparison.preferences.select_rater(rater_index).sign).size
        and (has_equal_scales or rater != HUMAN)
    }
    rater_table = _rater_table(selected_study, comparison, tie_rate_of_rater)
    n_rater_outputs = len(comparison.items) * len(comparison.systems) * rater_table.height
    return Check.part(
        comparison.aspect,
        summary={
            "items": len(comparison.items),
            "clusters": comparison.design.n_units,
            "systems": len(comparison.systems),
            "humans": len(comparison.people),
            "metrics": len(comparison.metrics),
            "ratings": int(rater_table["ratings"].sum()),
            "verdicts": int(rater_table["verdicts"].sum()),
            "coverage": 1 - (n_rater_outputs - int(rater_table["cells"].sum())) / n_rater_outputs
            if n_rater_outputs
            else None,
            "ties": tie_rate_of_rater.get(HUMAN),
        },
        raters=rater_table.drop("cells").to_dict(),
        problems=map(Problem._asdict, problems),
    ), notes


def _examine_aspect(
    selected_study: Study, aspect: str, setting: PreferenceOptions
) -> tuple[RaterComparison, bool, Sequence[Note], Sequence[Problem]]:
    """Return the comparison of an aspect, whether all annotators use the same scale, notes and problems.

    If metrics are not compared with annotators, a problem gives the reason.
    """
    has_several_systems, not_compared_reason = len(selected_study.systems) > 1, ""
    if selected_study.labels:  # labels are examined output by output, by `rates`
        comparison = compare_all_raters(selected_study, aspect, setting)
        return comparison, True, selected_study.notes, ()
    if selected_study.humans and selected_study.metrics and has_several_systems:
        try:
            comparison = compare_aspect(selected_study, aspect, setting)
        except (NotComparableError, ScalesDifferError) as error:
            not_compared_reason = str(error)
        else:
            return (
                comparison,
                True,
                comparison.notes,
                compared_problems(
                    comparison, {rater for rater, direction in selected_study.raters.direction.items() if direction < 0}
                ),
            )
    notes, has_equal_scales = [*selected_study.notes], True
    try:
        comparison = compare_any_raters(selected_study, aspect, settings(setting))
        notes += comparison.notes
        not_compared_reason = not_compared_reason or (
            "" if len(comparison.preferences) else f"{NO_COMPARISON}{label_of(aspect)}"
        )
    except ScalesDifferError as error:
        comparison, has_equal_scales, not_compared_reason = (
            compare_all_raters(selected_study, aspect, setting),
            False,
            not_compared_reason or str(error),
        )
    problems = (
        [problem("nothing-compared", why=not_compared_reason)] if not_compared_reason and has_several_systems else []
    )
    if 0 < len(comparison.items) < FEW_ITEMS:
        problems.append(problem("few-items", few=f"only {len(comparison.items)} items were rated", fewest=FEW_ITEMS))
    problems += [Problem("warning", note.rule, note.message) for note in notes if note.rule in SERIOUS_NOTES]
    return comparison, has_equal_scales, notes, problems


def _rater_table(study: Study, comparison: RaterComparison, tie_rate_of_rater: Mapping[str, float]) -> pl.DataFrame:
    """Return the table `raters`, with one row per annotator and metric, and the number of rated outputs (`cells`)."""
    is_of_aspect_expression = pl.col("aspect").is_in([comparison.aspect, ""])
    system_names = list(comparison.systems)
    rating_rows = study.ratings.frame.filter(
        is_of_aspect_expression,
        pl.col("system").is_in(system_names),
        pl.col("item").is_in(pl.Series(comparison.items, dtype=pl.String).implode()),
    )
    verdict_rows = filter_rows(
        study.preferences.frame,
        is_of_aspect_expression & pl.col("system_a").is_in(system_names) & pl.col("system_b").is_in(system_names),
    )
    rater_table = pl.DataFrame(
        {
            "rater": [*comparison.people, *comparison.metrics],
            "kind": ["human"] * len(comparison.people) + ["metric"] * len(comparison.metrics),
            "ties": [
                *([tie_rate_of_rater.get(HUMAN)] if len(comparison.people) == 1 else [None] * len(comparison.people)),
                *map(tie_rate_of_rater.get, comparison.metrics),
            ],
        }
    )
    for table_by_rater in (
        rating_rows.group_by("rater").agg(
            pl.len().alias("ratings"), low=pl.col("score").min(), high=pl.col("score").max()
        ),
        verdict_rows.group_by("rater").agg(pl.len().alias("verdicts")),
        # A cell is one output of an item; a verdict rates two cells.
        drop_duplicates(
            pl.concat(
                [
                    rating_rows.select("rater", "item", "system"),
                    *(
                        verdict_rows.select("rater", "item", system=column_name)
                        for column_name in ("system_a", "system_b")
                    ),
                ]
            )
        )
        .group_by("rater")
        .agg(pl.len().alias("cells")),
        study.raters.frame.select("rater", "higher_is_better", "signature"),
    ):
        rater_table = rater_table.join(table_by_rater, on="rater", how="left", maintain_order="left")
    return rater_table.with_columns(
        pl.col("ratings", "verdicts", "cells").fill_null(0),
        pl.col("signature").fill_null(""),
        coverage=pl.col("cells").fill_null(0)
        / pl.lit(len(comparison.items) * len(system_names) or None, dtype=pl.Int64),
    )
