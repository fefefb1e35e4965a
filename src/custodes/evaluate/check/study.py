"""Rules for a whole study, including studies of annotators or metrics alone, and rules on refused comparisons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, compress
from math import erfc, sqrt

import polars as pl

from custodes.answers.question import Rng
from custodes.data.mapping.annotator_columns import aspect_variants
from custodes.data.mapping.column_vocabulary import looks_human
from custodes.data.notes import Note
from custodes.data.patterns import confusable_groups, escape_confusable
from custodes.data.preferences import EMPTY, UNREADABLE
from custodes.data.raters import RANGE_MARGIN, missing_code
from custodes.data.study import NO_METRIC, UNKNOWN_KIND_RULE, Study
from custodes.errors import join_labels
from custodes.evaluate.annotators.annotator_answers import annotator_answers
from custodes.evaluate.annotators.annotator_statistics import REVERSED_LEVEL, annotator_tests, are_reversed
from custodes.evaluate.check.aspect import ROUNDING
from custodes.evaluate.check.outputs import constant_outputs, copied_systems, text_problems, texts_alone
from custodes.evaluate.check.rules import SERIOUS_NOTES, SILENT, TRUNCATED, WARNED, Problem, problem, problems_of
from custodes.evaluate.comparable import label_of, too_few
from custodes.evaluate.rates.judges import WARNINGS
from custodes.evaluate.rates.rates import rates

MOST_REFUSED = 0.05
"""If annotators refuse more than this proportion of the questions on a pair of systems, refusals may change the
decision on the pair."""

REFUSAL_LEVEL = 0.05

FEWEST_FOR_DIRECTION = 3  # with two annotators, it is unknown which one reversed the scale

ASKED = {"rater": pl.String, "item": pl.String, "system_a": pl.String, "system_b": pl.String, "refused": pl.Boolean}
"""Columns of a table with one row per question to an annotator; `system_b` is null if a single output was rated."""


def study_problems(study: Study, selected_study: Study, notes: Sequence[Note]) -> Iterator[Problem]:
    """Yield problems that concern the study as a whole.

    Similar names are also searched among raters and systems that were not selected.
    """
    output_texts = texts_alone(study)
    if output_texts is not None:
        yield from text_problems(output_texts)
    elif not selected_study.metrics:
        yield problem("no-metrics", why=NO_METRIC)
    elif not selected_study.humans and SILENT not in {note.rule for note in selected_study.notes}:
        kind_of_rater = study.raters.kind  # as in the file; in selected_study, all are metrics
        notes = [note for note in notes if note.rule != UNKNOWN_KIND_RULE]
        yield problem(
            "no-annotators" if set(kind_of_rater.values()) != {"metric"} else "no-human-ratings",
            why=study.advice_on_annotators(),
            metrics=join_labels(kind_of_rater),
        )
    if len(selected_study.systems) < 2 and output_texts is None and not selected_study.labels:
        yield problem(
            "nothing-compared",
            why=too_few(
                selected_study,
                "systems cannot be compared; with metrics, use agreement, which compares outputs",
            ),
        )
    yield from chain(
        _look_alike_problems(study),
        _people_as_metrics(study, set(selected_study.metrics)),
        _range_problems(selected_study),
        _missing_code_problems(selected_study),
        _order_problems(selected_study),
        constant_outputs(study),
        copied_systems(selected_study),
        refusals(annotator_questions(selected_study)),
        _reversed_annotators(selected_study),
        _metadata_problems(selected_study, {note.rule for note in notes}),
    )
    for note in notes:
        if note.rule not in (*SERIOUS_NOTES, "annotators-as-metrics"):  # other rules report these
            yield Problem("warning" if note.rule in WARNED else "info", note.rule, note.message)


def _range_problems(study: Study) -> list[Problem]:
    """Return raters with many scores outside the range that the raters file declares; the range may be wrong."""
    rounding_expression = ROUNDING * pl.max_horizontal(pl.col("low", "high").abs())
    out_of_range_rates = (
        study.ratings.frame.join(study.raters.frame.drop_nulls(["low", "high"]), on="rater")
        .group_by("rater", maintain_order=True)
        .agg(
            rate=(
                ~pl.col("score").is_between(pl.col("low") - rounding_expression, pl.col("high") + rounding_expression)
            ).mean()
        )
        .filter(pl.col("rate") > RANGE_MARGIN)
    )
    return problems_of(
        "beyond-declared",
        out_of_range_rates["rater"].to_list(),
        raters=join_labels(
            f"{rater} ({out_of_range_rate:.0%})" for rater, out_of_range_rate in out_of_range_rates.iter_rows()
        ),
    )


def _reversed_annotators(study: Study) -> Iterator[Problem]:
    """Yield annotators whose answers agree with those of others significantly less than by chance."""
    if len(study.humans) < FEWEST_FOR_DIRECTION:
        return
    answers_of_aspects, _ = annotator_answers(study, study.humans)
    reversed_rater_texts = list(
        dict.fromkeys(
            f"{rater}{label_of(aspect_answers.aspect)}"
            for aspect_answers, is_reversed in zip(
                answers_of_aspects,
                are_reversed([annotator_tests(aspect_answers) for aspect_answers in answers_of_aspects]),
                strict=True,
            )
            for rater in compress(aspect_answers.raters, is_reversed)
        )
    )
    yield from problems_of(
        "reversed-annotator",
        reversed_rater_texts,
        raters=join_labels(reversed_rater_texts, limit=3),
        alpha=REVERSED_LEVEL,
    )


def _missing_code_problems(study: Study) -> list[Problem]:
    """Return raters with a value far from all other scores of the rater, which may be a code for a missing score."""
    text_of_rater = {
        str(rater): f"{rater}{label_of(str(aspect))}: {code_text}"
        for (rater, aspect), rater_rows in study.ratings.frame.group_by("rater", "aspect", maintain_order=True)
        if (code_text := missing_code(rater_rows["score"].to_numpy()))
    }
    return problems_of("missing-code", list(text_of_rater), codes=join_labels(text_of_rater.values(), limit=3))


def _order_problems(study: Study) -> Iterator[Problem]:
    """Yield judges whose presentation order is confounded with the pair, and comparisons judged in only one order."""
    judges, pair_column_names = study.metrics, ["rater", "system_a", "system_b"]
    verdict_rows = study.preferences.frame.filter(pl.col("rater").is_in(list(judges)) & (pl.col("order") != ""))
    half_comparison_rows = study.preferences.half_comparisons()
    has_both_orders_expression = pl.col("order").n_unique() > 1
    raters_with_fixed_order = set(
        verdict_rows.group_by(pair_column_names)
        .agg(varies=has_both_orders_expression)
        .group_by("rater")
        .agg(pl.col("varies").any())
        .filter(~pl.col("varies"))["rater"]
    )
    judges_with_fixed_order = [judge for judge in judges if judge in raters_with_fixed_order]
    yield from problems_of("one-order", judges_with_fixed_order, raters=join_labels(judges_with_fixed_order))
    partial_judge_rows = (
        verdict_rows.join(half_comparison_rows, on=half_comparison_rows.columns, how="anti")
        .group_by("item", "aspect", *pair_column_names)
        .agg(both=has_both_orders_expression)
        .group_by("rater")
        .agg(pl.col("both").any(), half=(~pl.col("both")).sum())
        .filter("both", pl.col("half") > 0)
        .sort("rater")
    )
    yield from problems_of(
        "one-of-two-orders",
        partial_judge_rows["rater"].to_list(),
        raters=join_labels(
            (f"{judge} ({n_half_comparisons})" for judge, _, n_half_comparisons in partial_judge_rows.iter_rows()),
            limit=3,
        ),
    )


def _metadata_problems(study: Study, note_rules: set[str]) -> Iterator[Problem]:
    """Yield raters with the same signature under several names, and raters with scores of truncated texts."""
    rater_table = study.raters.frame
    for rater_names in (
        rater_table.drop_nulls("signature")
        .group_by("signature", maintain_order=True)
        .agg("rater")
        .filter(pl.col("rater").list.len() > 1)["rater"]
        .to_list()
    ):
        yield problem("same-signature", rater_names, raters=join_labels(rater_names))
    truncated_rater_rows = rater_table.filter(pl.col("truncated") > 0, TRUNCATED not in note_rules).select(
        "rater", "truncated"
    )
    yield from problems_of(
        TRUNCATED,
        truncated_rater_rows["rater"].to_list(),
        raters=join_labels(
            (
                f"{rater} ({truncated_rate:.0%} of outputs)"
                for rater, truncated_rate in truncated_rater_rows.iter_rows()
            ),
            limit=5,
        ),
    )


def label_problems(selected_study: Study, rng: Rng) -> Iterator[Problem]:
    """Yield problems of the labels of a selected study; problems that may reverse a conclusion are warnings."""
    for note in rates(selected_study, rng=rng).notes:
        if note not in selected_study.notes:
            yield Problem("warning" if note.rule in WARNINGS else "info", note.rule, note.message)


def _look_alike_problems(study: Study) -> Iterator[Problem]:
    """Yield systems, raters and aspects with labels that look equal but count as different."""
    for kind_word, labels_in_study in {
        "systems": study.systems,
        "raters": tuple(study.raters.kind),
        "aspects": study.aspects,
    }.items():
        confusable_sets = confusable_groups(labels_in_study)
        yield from problems_of(
            "look-alikes",
            list(chain(*confusable_sets)),
            what=kind_word,
            names=join_labels(
                (" = ".join(map(escape_confusable, confusable_labels)) for confusable_labels in confusable_sets),
                limit=4,
            ),
        )


def _people_as_metrics(study: Study, metrics: set[str]) -> list[Problem]:
    """Return metrics with names that look like names of annotators."""
    kind_of_rater = study.raters.kind
    annotator_like_metrics = aspect_variants(
        [rater for rater in kind_of_rater if rater in metrics and kind_of_rater[rater] != "metric"],
        [rater for rater in kind_of_rater if rater not in metrics],
    )
    metrics_with_human_names = {
        rater for rater in metrics if looks_human(rater, is_declared_metric=kind_of_rater[rater] == "metric")
    }
    suspect_metrics = [rater for rater in kind_of_rater if rater in metrics_with_human_names | annotator_like_metrics]
    return problems_of("annotators-as-metrics", suspect_metrics, raters=join_labels(suspect_metrics))


def annotator_questions(study: Study) -> pl.DataFrame:
    """Return the comparisons that annotators were asked to judge, including second opinions, with the columns `ASKED`.

    The table is empty if there is no refusal.
    """
    question_column_names = [column_name for column_name in ASKED if column_name != "refused"]
    first_and_second_preferences = (study.preferences, study.second)
    refused_tables = [
        preferences.missing.filter(~pl.col("why").is_in([EMPTY, UNREADABLE]))
        for preferences in first_and_second_preferences
    ]
    if not any(refused_rows.height for refused_rows in refused_tables):
        return pl.DataFrame(schema=ASKED)
    question_tables = [
        *(
            preferences.frame.select(*question_column_names, refused=pl.lit(False))
            for preferences in first_and_second_preferences
        ),
        *(refused_rows.select(*question_column_names, refused=pl.lit(True)) for refused_rows in refused_tables),
    ]
    return (
        pl.concat(question_tables)
        .filter(pl.col("rater").is_in(list(study.humans)))
        .group_by(question_column_names)
        .agg(pl.col("refused").any())
    )


def refusals(annotator_question_rows: pl.DataFrame) -> Iterator[Problem]:
    """Yield pairs of systems with many refusals, and systems with significantly more refusals than other systems.

    The test is stratified by annotator (Cochran 1954, Mantel and Haenszel 1959), because annotators differ in refusal
    rates. The level is `REFUSAL_LEVEL`, with Bonferroni correction over systems.
    """
    if not annotator_question_rows["refused"].any():
        return
    pair_rate_rows = _refusal_rates(annotator_question_rows, "system_a", "system_b")
    refused_pair_rows = pair_rate_rows.filter(pl.col("rate") > MOST_REFUSED)
    yield from problems_of(
        "refusals",
        refused_pair_rows["of"].to_list(),
        most=MOST_REFUSED,
        pairs=join_labels(
            (
                f"{pair} {n_refused} of {n_questions} ({refusal_rate:.0%})"
                for pair, n_refused, n_questions, refusal_rate in refused_pair_rows.iter_rows()
            ),
            limit=3,
        ),
        n=refused_pair_rows.height,
        n_pairs=pair_rate_rows.height,
    )
    system_rate_rows = _refusal_rates(
        pl.concat(
            [annotator_question_rows.with_columns(system=column_name) for column_name in ("system_a", "system_b")]
        ).drop_nulls("system"),
        "system",
    )
    p_value_of_system = {system: _refusal_p_value(annotator_question_rows, system) for system in system_rate_rows["of"]}
    n_tested = sum(p_value is not None for p_value in p_value_of_system.values())
    differing_systems = [
        system
        for system, p_value in p_value_of_system.items()
        if p_value is not None and p_value * n_tested <= REFUSAL_LEVEL
    ]
    yield from problems_of(
        "refusals-differ",
        differing_systems,
        systems=join_labels(differing_systems),
        rates=join_labels(f"{system} {refusal_rate:.0%}" for system, *_, refusal_rate in system_rate_rows.iter_rows()),
    )


def _refusal_rates(annotator_question_rows: pl.DataFrame, *group_column_names: str) -> pl.DataFrame:
    """Return the refusals, questions and refusal rate of each pair or system (column `of`), highest rate first."""
    return (
        annotator_question_rows.group_by(group_column_names)
        .agg(pl.col("refused").sum(), questions=pl.len(), rate=pl.col("refused").mean())
        .sort("rate", *group_column_names, descending=[True, *(False for _ in group_column_names)])
        .select(
            pl.concat_str(group_column_names, separator=" and ", ignore_nulls=True).alias("of"),
            "refused",
            "questions",
            "rate",
        )
    )


def _refusal_p_value(annotator_question_rows: pl.DataFrame, system: str) -> float | None:
    """Return the p-value of the hypothesis that the refusals of each annotator do not depend on the system.

    The p-value is None if no annotator with both refusals and answers was asked about this and other systems.
    """
    n_questions_expression, n_refused_expression, n_with_system_expression = pl.col("n"), pl.col("r"), pl.col("k")
    test_sums = (
        annotator_question_rows.with_columns(
            has=(pl.col("system_a") == system) | (pl.col("system_b") == system).fill_null(False)
        )
        .group_by("rater")
        .agg(
            n=pl.len(), r=pl.col("refused").sum(), k=pl.col("has").sum(), both=(pl.col("has") & pl.col("refused")).sum()
        )
        .filter(n_questions_expression > 1)
        .select(
            pl.col("both").sum(),
            expected=(n_refused_expression * n_with_system_expression / n_questions_expression).sum(),
            variance=(
                n_refused_expression
                * (n_questions_expression - n_refused_expression)
                * n_with_system_expression
                * (n_questions_expression - n_with_system_expression)
                / (n_questions_expression * n_questions_expression * (n_questions_expression - 1))
            ).sum(),
        )
    )
    n_refused_with_system, expected_refusals, refusal_variance = test_sums.row(0)
    if not refusal_variance:
        return None
    return erfc((n_refused_with_system - expected_refusals - 0.5) / sqrt(2 * refusal_variance)) / 2
