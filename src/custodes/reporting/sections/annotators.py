"""Section: annotators, their agreement, the cost of their answers, and interim analyses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from custodes.answers.shared_arguments import selection_arguments
from custodes.answers.tables import count, difference, flag, label
from custodes.answers.wording import names, number, plural, sentence
from custodes.data.interim_analyses import last_looks
from custodes.data.preferences import Preferences
from custodes.data.study import Study
from custodes.errors import InputError
from custodes.evaluate.annotators.annotators import Annotators, annotators
from custodes.evaluate.check.study import annotator_questions, refusals
from custodes.evaluate.decision_graph import PAIR
from custodes.reporting.section import Context, Section
from custodes.reporting.tables import result_table_html, table_html

LOOKS = (
    *PAIR,
    count("looks", "number of completed interim analyses", "Analyses"),
    count("n", "number of answers in the last interim analysis", "Answers"),
    label("said", "better system; = if the pair is undecided", "Decision"),
    flag("is_open", "whether more answers on the pair are collected", "Open"),
    difference(
        "at_look",
        "proportion of answers that prefer system_a minus proportion that prefer system_b. The interval stays valid "
        "although the data are analysed repeatedly",
        "Margin",
        interval=True,
    ),
    count("refused", "refusals to judge a comparison of the pair", "Refused"),
)
INFLATED = (
    "The margin of a pair that an interim analysis decided is too large on average. In simulations with a true "
    "margin of 0.20, the mean margin of such pairs was 0.46. The margin shows which system is better, but not by how "
    "much."
)
REPORTED = (
    *("excluded-annotators", "incomplete-looks", "second-opinions", "stopped-by-answers"),
    "invalid-verdict",
)
"""Rules of the displayed notes. The notes come from reading the study and from selecting its data."""


def _ask(context: Context) -> Annotators:
    if len(context.study.humans) < 2:
        raise InputError("the study has fewer than two annotators, so agreement cannot be estimated")
    return context.ask(annotators)


def last_interim_analyses(study: Study) -> pl.DataFrame:
    """The last interim analysis of each pair of systems; empty if there are no interim analyses.

    The columns include the margin on the current answers. They also include the margins that would result if all
    refusals were answers that prefer one of the systems. Interim analyses concern only the first aspect of a study.
    """
    current_margin_rows = (
        study.preferences.frame.filter(pl.col("aspect") == pl.col("aspect").first())
        .group_by("system_a", "system_b")
        .agg(margin_now=pl.col("preference").mean())
    )
    refusal_count_rows = (
        annotator_questions(replace(study, second=Preferences()))
        .group_by("system_a", "system_b")
        .agg(pl.col("refused").sum())
    )
    analysis_rows = last_looks(study.looks).rename({"margin": "at_look", "low": "at_look_low", "high": "at_look_high"})
    for joined_rows in (current_margin_rows, refusal_count_rows):
        analysis_rows = analysis_rows.join(joined_rows, on=["system_a", "system_b"], how="left", maintain_order="left")
    net_wins_expression, n_refused_expression = pl.col("wins") - pl.col("losses"), pl.col("refused")
    return analysis_rows.with_columns(
        n_refused_expression.fill_null(0).cast(pl.Int64),
        said=pl.when(pl.col("decision") > 0)
        .then("system_a")
        .when(pl.col("decision") < 0)
        .then("system_b")
        .otherwise(pl.lit("=")),
    ).with_columns(
        least=(net_wins_expression - n_refused_expression) / (pl.col("n") + n_refused_expression),
        most=(net_wins_expression + n_refused_expression) / (pl.col("n") + n_refused_expression),
    )


def looks_sentences(look_rows: pl.DataFrame) -> list[str]:
    """Sentences on interim analyses: inflated margins, and decisions that the current answers do not support."""
    decided_rows = look_rows.filter(pl.col("said") != "=")
    if decided_rows.is_empty():
        return []
    is_unsupported_now = pl.col("margin_now").fill_null(0) * pl.col("decision") <= 0
    opposed_margin_expression = pl.when(pl.col("decision") > 0).then("least").otherwise("most")
    is_uncertain = (opposed_margin_expression * pl.col("decision") <= 0) & (pl.col("refused") > 0)
    sentences = [INFLATED]
    for is_affected, sentence_start in (
        (
            is_unsupported_now,
            "Without the answers of the excluded annotators, the data no longer support the earlier decision on",
        ),
        (
            is_uncertain,
            "If all refusals were answers against the decision, the data would not support the decision on",
        ),
    ):
        pair_names = decided_rows.filter(is_affected).select(pl.format("{} and {}", "system_a", "system_b")).to_series()
        if pair_names.len():
            sentences.append(f"{sentence_start} {names(pair_names.to_list())}.")
    return sentences


def cost_sentences(study: Study) -> str:
    """Cost and duration of the answers, if they are recorded."""
    answer_rows = pl.concat(
        [study.preferences.frame.select("rater", "seconds"), study.second.frame.select("rater", "seconds")]
    ).filter(pl.col("rater").is_in(list(study.humans)))
    median_seconds = answer_rows["seconds"].median()
    sentences = []
    if isinstance(median_seconds, float):
        sentences.append(f"Half of the answers took {number(median_seconds, digits=0)} seconds or less.")
    cost_rows = answer_rows.join(study.raters.frame.select("rater", "cost", "cost_unit"), on="rater").drop_nulls("cost")
    if cost_rows.height and cost_rows["cost_unit"].n_unique() == 1:
        total_cost, cost_unit = float(cost_rows["cost"].sum()), cost_rows["cost_unit"][0] or ""
        cost_text = (
            f"{plural(cost_rows.height, 'answer')} used in the results, including second ratings, "
            f"cost {number(total_cost)} {cost_unit}".strip()
        )
        if isinstance(median_seconds, float) and median_seconds > 0:
            cost_per_hour = total_cost / cost_rows.height * 3600 / median_seconds
            hourly_cost_text = f"{number(cost_per_hour)} {cost_unit}".strip()
            cost_text += f". At the median time per answer, the cost is {hourly_cost_text} per hour"
        sentences.append(f"{cost_text}.")
    return " ".join(sentences)


def _remove_file_name(file_names: Sequence[str], message: str) -> str:
    """A message without the name of the input file at its beginning."""
    leading_file_name = next((file_name for file_name in file_names if message.startswith(f"{file_name}: ")), "")
    return message.removeprefix(f"{leading_file_name}: ")


def _build(context: Context) -> Mapping[str, Any]:
    study = context.study.select(**selection_arguments(context.options), one_side=True)
    annotator_rows = context.table("annotators.annotators")
    # A slot, which several annotators share, is tested only for a reversed scale. Empty flags would look like a pass.
    has_flags = annotator_rows["is_person"].any() or annotator_rows["flags"].list.len().sum()
    html_tables = [
        result_table_html(
            context,
            "annotators.agreement",
            "Number and agreement of annotators",
            notes=context.notes("annotators", "few-", "none-", "slots"),
        ),
        result_table_html(context, "annotators.annotators", "Each annotator", without=() if has_flags else ["flags"]),
    ]
    look_rows = last_interim_analyses(study)
    if look_rows.height:
        look_columns = [column for column in LOOKS if column.name != "refused" or look_rows["refused"].sum()]
        html_tables.append(
            table_html(look_rows, look_columns, id="annotators-looks-table", caption="Interim analyses", by=None)
        )
    file_names = study.name.split(" + ")
    sentences = [sentence(_remove_file_name(file_names, note.message)) for note in study.notes if note.rule in REPORTED]
    sentences += [sentence(refusal_problem.message) for refusal_problem in refusals(annotator_questions(study))]
    return {
        "sentences": [
            sentence_text
            for sentence_text in (cost_sentences(study), *dict.fromkeys(sentences), *looks_sentences(look_rows))
            if sentence_text
        ],
        "table": "\n".join(filter(None, html_tables)),
    }


ANNOTATORS = Section(
    question="annotators",
    title="Annotators",
    ask=_ask,
    build=_build,
    compares_systems=False,
    pages=("both", "humans", "labels"),
)
