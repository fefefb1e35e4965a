"""Summary of the data of a study, and problems that would distort results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

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
        count("raters", "annotators and metrics", essential=False),
        count("humans", "annotators"),
        count("metrics", "metrics and judges"),
        count("ratings", "scores"),
        count("verdicts", "pairwise verdicts"),
        share("coverage", "proportion of item × system × rater cells with a score"),
        count("missing", "cells without a score", essential=False),
        share("ties", "proportion of comparisons that the combined annotators rate as ties", "Human ties"),
        count(
            "unpaired",
            "comparisons that are excluded because no annotator rated both outputs",
            "Comparisons left out",
            essential=False,
        ),
    )
    raters: pl.DataFrame = table(
        "One row per rater and aspect.",
        label("rater", "name of the rater"),
        label("kind", "human or metric"),
        count("ratings", "scores given"),
        count("verdicts", "pairwise verdicts"),
        share("coverage", "proportion of item × system cells with a score"),
        count("missing", "cells without a score"),
        share(
            "ties",
            "proportion of ties among the rater's comparisons; null for annotators if there are several annotators",
        ),
        score("low", "lowest score", "Lowest"),
        score("high", "highest score", "Highest"),
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
    used: pl.DataFrame = table(
        "Metadata of the raters: one row per rater.",
        label("rater", "name of the rater"),
        label("kind", "human or metric"),
        flag("higher_is_better", "whether a higher score is better"),
        score("lowest", "declared lowest possible score"),
        score("highest", "declared highest possible score"),
        score("cost", "declared cost per output"),
        label("cost_unit", "unit of the cost"),
        share("truncated", "proportion of outputs that were too long for the input of the rater"),
        label("signature", "library, version and parameters on which the scores of the rater depend"),
        essential=False,
    )
    problems: pl.DataFrame = problem_table("Problems that would invalidate or bias results.", page="`check`")


@question(
    "custodes check ratings.csv --human 'expert*'",
    resamples="Number of sign flips in the test for negative agreement, at least 99 (0: no test).",
)
def check(
    study: Study,
    *,
    resamples: int = 1000,
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
    examined_aspects = [_examine_aspect(selected_study, aspect, setting) for aspect in selected_study.aspects]
    notes = list(
        dict.fromkeys(
            [note for *_, aspect_notes, _ in examined_aspects for note in aspect_notes] or selected_study.notes
        )
    )
    negated_raters = {rater for rater, direction in selected_study.raters.direction.items() if direction < 0}
    problems_of_comparisons = map_parts(
        lambda examined, _: compared_problems(examined[0], negated_raters, resamples) if examined[1] else [],
        examined_aspects,
        rng=np.random.default_rng(rng),
        progress=progress,
        desc="check",
        label=lambda examined: examined[0].aspect,
    )
    aspect_tables = [
        _aspect_tables(selected_study, comparison, [*problems, *comparison_problems], has_equal_scales=has_equal_scales)
        for (comparison, _, has_equal_scales, _, problems), comparison_problems in zip(
            examined_aspects, problems_of_comparisons, strict=True
        )
    ]
    rater_table = selected_study.raters.frame
    columns_of_metadata = {
        **{
            column_name: rater_table[column_name]
            for column_name in ("rater", "kind", "higher_is_better", "cost", "truncated")
        },
        "lowest": rater_table["low"],
        "highest": rater_table["high"],
        **{column_name: rater_table[column_name].fill_null("") for column_name in ("cost_unit", "signature")},
    }
    text_table = texts_alone(study)
    columns_of_texts = {} if text_table is None else systems_of_texts(text_table).to_dict()
    problems = [
        *study_problems(study, selected_study, notes),
        *(label_problems(selected_study, rng) if selected_study.labels else ()),
    ]
    study_tables = Check.part(used=columns_of_metadata, texts=columns_of_texts, problems=map(Problem._asdict, problems))
    return Check.from_parts([*aspect_tables, study_tables], notes)


def _aspect_tables(
    selected_study: Study, comparison: RaterComparison, problems: Sequence[Problem], *, has_equal_scales: bool
) -> dict[str, pl.DataFrame]:
    """Return the tables of an aspect; `has_equal_scales` is False if annotators use different scales."""
    if not selected_study.labels:
        problems = [*problems, *means_of_others(comparison), *near_duplicates(comparison)]
    tie_rate_of_rater = tie_rates(comparison, comparable=has_equal_scales)
    rater_columns = raters_of(selected_study, comparison, tie_rate_of_rater)
    return Check.part(
        comparison.aspect,
        summary=summary_of(comparison, rater_columns, tie_rate_of_rater, comparable=has_equal_scales),
        raters=rater_columns,
        problems=map(Problem._asdict, problems),
    )


def _examine_aspect(
    selected_study: Study, aspect: str, setting: PreferenceOptions
) -> tuple[RaterComparison, bool, bool, Sequence[Note], Sequence[Problem]]:
    """Return the comparison of an aspect, two flags, notes and problems.

    The first flag is whether metrics are compared with annotators; if not, a problem gives the reason. The second flag
    is whether all annotators use the same scale.
    """
    has_several_systems, not_compared_reason = len(selected_study.systems) > 1, ""
    if selected_study.labels:  # labels are examined output by output, by `rates`
        comparison = compare_all_raters(selected_study, aspect, setting)
        return comparison, False, True, selected_study.notes, ()
    if selected_study.humans and selected_study.metrics and has_several_systems:
        try:
            comparison = compare_aspect(selected_study, aspect, setting)
            return comparison, True, True, comparison.notes, ()
        except (NotComparableError, ScalesDifferError) as error:
            not_compared_reason = str(error)
    notes, has_equal_scales = [*selected_study.notes], True
    try:
        (comparison,) = compare_any_raters(selected_study, settings(setting), [aspect])
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
        few_items_text = f"only {len(comparison.items)} items were rated"
        problems.append(problem("few-items", few=few_items_text, fewest=FEW_ITEMS))
    problems += [Problem("warning", note.rule, note.message) for note in notes if note.rule in SERIOUS_NOTES]
    return comparison, False, has_equal_scales, notes, problems


def tie_rates(comparison: RaterComparison, *, comparable: bool) -> dict[str, float | None]:
    """Return the tie rates of the combined annotators ('human') and of each metric; None without comparisons.

    If annotators are not `comparable`, because they use different scales, they have no combined preference.
    """
    preferences = comparison.preferences
    signs_of_rater = {
        rater: preferences.select_rater(rater_index).sign for rater_index, rater in enumerate(preferences.raters)
    }
    return {
        rater: float((signs == 0).mean()) if signs.size and (comparable or rater != HUMAN) else None
        for rater, signs in signs_of_rater.items()
    }


def raters_of(
    study: Study, comparison: RaterComparison, tie_rate_of_rater: Mapping[str, float | None]
) -> dict[str, Any]:
    """Return the columns of the table `raters`, with one row per annotator and per metric."""
    is_of_aspect_expression = pl.col("aspect").is_in([comparison.aspect, ""])
    system_names = list(comparison.systems)
    is_of_item_expression = pl.col("item").is_in(pl.Series(comparison.items, dtype=pl.String).implode())
    rating_rows = study.ratings.frame.filter(is_of_aspect_expression & pl.col("system").is_in(system_names)).filter(
        is_of_item_expression
    )
    is_selected_verdict_expression = (
        is_of_aspect_expression & pl.col("system_a").is_in(system_names) & pl.col("system_b").is_in(system_names)
    )
    verdict_rows = filter_rows(study.preferences.frame, is_selected_verdict_expression)
    # A cell is one output of an item; a verdict rates two cells.
    rated_output_tables = [
        rating_rows.select("rater", "item", "system"),
        *(verdict_rows.select("rater", "item", system=column_name) for column_name in ("system_a", "system_b")),
    ]
    rater_table = pl.DataFrame({"rater": [*comparison.people, *comparison.metrics]})
    for count_table in (
        rating_rows.group_by("rater").agg(
            pl.len().alias("ratings"), low=pl.col("score").min(), high=pl.col("score").max()
        ),
        verdict_rows.group_by("rater").agg(pl.len().alias("verdicts")),
        drop_duplicates(pl.concat(rated_output_tables)).group_by("rater").agg(pl.len().alias("cells")),
    ):
        rater_table = rater_table.join(count_table, on="rater", how="left", maintain_order="left")
    n_outputs = len(comparison.items) * len(system_names)
    n_rated_outputs_of_rater = rater_table["cells"].fill_null(0)
    human_tie_rates = [tie_rate_of_rater.get(HUMAN)] if len(comparison.people) == 1 else [None] * len(comparison.people)
    return {
        "rater": rater_table["rater"],
        "kind": ["human"] * len(comparison.people) + ["metric"] * len(comparison.metrics),
        "ratings": rater_table["ratings"].fill_null(0),
        "verdicts": rater_table["verdicts"].fill_null(0),
        "coverage": n_rated_outputs_of_rater / n_outputs if n_outputs else None,
        "missing": n_outputs - n_rated_outputs_of_rater,
        "ties": [*human_tie_rates, *map(tie_rate_of_rater.get, comparison.metrics)],
        "low": rater_table["low"],
        "high": rater_table["high"],
    }


def summary_of(
    comparison: RaterComparison,
    rater_columns: Mapping[str, Any],
    tie_rate_of_rater: Mapping[str, float | None],
    *,
    comparable: bool,
) -> dict[str, Any]:
    """Return the row of the table `summary` for one aspect, computed from the rows of the raters."""
    n_missing, n_raters = int(rater_columns["missing"].sum()), len(rater_columns["rater"])
    n_rater_outputs = len(comparison.items) * len(comparison.systems) * n_raters
    return {
        "items": len(comparison.items),
        "clusters": comparison.design.n_units,
        "systems": len(comparison.systems),
        "raters": n_raters,
        "humans": len(comparison.people),
        "metrics": len(comparison.metrics),
        "ratings": int(rater_columns["ratings"].sum()),
        "verdicts": int(rater_columns["verdicts"].sum()),
        "coverage": 1 - n_missing / n_rater_outputs if n_rater_outputs else None,
        "missing": n_missing,
        "ties": tie_rate_of_rater.get(HUMAN),
        "unpaired": comparison.n_unpaired if comparable and comparison.people else 0,
    }
