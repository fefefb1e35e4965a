"""Rules for a whole study, including studies of annotators or metrics alone, and rules on refused comparisons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from math import erfc, sqrt

import polars as pl

from custodes.answers.question import Rng
from custodes.data.mapping.annotator_columns import aspect_variants
from custodes.data.mapping.column_vocabulary import looks_human
from custodes.data.notes import Note
from custodes.data.patterns import confusable_groups, escape_confusable
from custodes.data.preferences import EMPTY, UNREADABLE
from custodes.data.raters import RANGE_MARGIN, MissingCode
from custodes.data.study import NO_METRIC, Study
from custodes.errors import join_labels
from custodes.evaluate.check.aspect import ROUNDING
from custodes.evaluate.check.outputs import constant_outputs, copied_systems, text_problems, texts_alone
from custodes.evaluate.check.rules import SERIOUS_NOTES, SILENT, TRUNCATED, WARNED, Problem, problem, problems_of
from custodes.evaluate.comparable import label_of, too_few
from custodes.evaluate.rates.judges import WARNINGS
from custodes.evaluate.rates.rates import rates

MOST_REFUSED = 0.05
"""Proportion of refusals of a pair of systems above which refusals may change the decision on the pair."""

REFUSAL_LEVEL = 0.05

ASKED = {"rater": pl.String, "item": pl.String, "system_a": pl.String, "system_b": pl.String, "refused": pl.Boolean}
"""Columns of a table with one row per question to an annotator; `system_b` is null if a single output was rated."""


def study_problems(study: Study, selected_study: Study, notes: Sequence[Note]) -> Iterator[Problem]:
    """Yield problems that concern the study as a whole.

    Similar names are also searched among raters and systems that were not selected.
    """
    rules = {note.rule for note in notes}
    texts = texts_alone(study)
    if texts is not None:
        yield from text_problems(texts)
    elif not selected_study.metrics:
        yield problem("no-metrics", why=NO_METRIC)
    elif not selected_study.humans and SILENT not in {note.rule for note in selected_study.notes}:
        kinds = selected_study.raters.kind
        rule = "no-annotators" if set(kinds.values()) != {"metric"} else "no-human-ratings"
        yield problem(rule, why=selected_study.advice_on_annotators(), metrics=join_labels(kinds))
    if len(selected_study.systems) < 2 and texts is None and not selected_study.labels:
        yield problem("nothing-compared", why=too_few(selected_study, "a comparison needs two systems"))
    yield from _look_alikes(study)
    yield from _people_as_metrics(study, set(selected_study.metrics))
    yield from _range_problems(selected_study)
    yield from _missing_codes(selected_study)
    yield from _orders(selected_study)
    yield from constant_outputs(study)
    yield from copied_systems(selected_study)
    yield from refusals(annotator_questions(selected_study))
    yield from _raters(selected_study, rules)
    for note in notes:
        if note.rule not in (*SERIOUS_NOTES, "annotators-as-metrics"):  # these notes have separate rules
            yield Problem("warning" if note.rule in WARNED else "info", note.rule, note.message)


def _range_problems(study: Study) -> list[Problem]:
    """Return raters with many scores outside the range that the raters file declares; the range may be wrong."""
    rounding = ROUNDING * pl.max_horizontal(pl.col("low", "high").abs())
    is_in_range = pl.col("score").is_between(pl.col("low") - rounding, pl.col("high") + rounding)
    declared_scores = study.ratings.frame.join(study.raters.frame.drop_nulls(["low", "high"]), on="rater")
    rate_table = (
        declared_scores.group_by("rater", maintain_order=True)
        .agg(rate=(~is_in_range).mean())
        .filter(pl.col("rate") > RANGE_MARGIN)
    )
    raters_text = join_labels(f"{name} ({rate:.0%})" for name, rate in rate_table.iter_rows())
    return problems_of("beyond-declared", rate_table["rater"].to_list(), raters=raters_text)


def _missing_codes(study: Study) -> list[Problem]:
    """Return raters with a value far from all other scores of the rater, which may be a code for a missing score."""
    text_of_rater = {
        str(rater): f"{rater}{label_of(str(aspect))}: {code}"
        for (rater, aspect), rows in study.ratings.frame.group_by("rater", "aspect", maintain_order=True)
        if (code := MissingCode.from_scores(rows["score"].to_numpy()))
    }
    return problems_of("missing-code", list(text_of_rater), codes=join_labels(text_of_rater.values(), limit=3))


def _orders(study: Study) -> Iterator[Problem]:
    """Yield judges whose presentation order is confounded with the pair, and comparisons judged in only one order."""
    judges, pair_columns = study.metrics, ["rater", "system_a", "system_b"]
    verdict_rows = study.preferences.frame.filter(pl.col("rater").is_in(list(judges)) & (pl.col("order") != ""))
    half_comparisons = study.preferences.half_comparisons()
    has_both_orders = pl.col("order").n_unique() > 1
    variation = (
        verdict_rows.group_by(pair_columns).agg(varies=has_both_orders).group_by("rater").agg(pl.col("varies").any())
    )
    raters_with_fixed_order = set(variation.filter(~pl.col("varies"))["rater"])
    judges_with_fixed_order = [name for name in judges if name in raters_with_fixed_order]
    yield from problems_of("one-order", judges_with_fixed_order, raters=join_labels(judges_with_fixed_order))
    comparisons = (
        verdict_rows.join(half_comparisons, on=half_comparisons.columns, how="anti")
        .group_by("item", "aspect", *pair_columns)
        .agg(both=has_both_orders)
    )
    order_counts = comparisons.group_by("rater").agg(pl.col("both").any(), half=(~pl.col("both")).sum())
    partial_judges = order_counts.filter("both", pl.col("half") > 0).sort("rater")
    raters_text = join_labels((f"{name} ({n})" for name, _, n in partial_judges.iter_rows()), limit=3)
    yield from problems_of("one-of-two-orders", partial_judges["rater"].to_list(), raters=raters_text)


def _raters(study: Study, note_rules: set[str]) -> Iterator[Problem]:
    """Yield raters with the same signature under several names, and raters with scores of truncated texts."""
    frame = study.raters.frame
    raters_of_signature = frame.drop_nulls("signature").group_by("signature", maintain_order=True).agg("rater")
    for names in raters_of_signature.filter(pl.col("rater").list.len() > 1)["rater"].to_list():
        yield problem("same-signature", names, raters=join_labels(names))
    truncated_raters = frame.filter(pl.col("truncated") > 0, TRUNCATED not in note_rules).select("rater", "truncated")
    raters_text = join_labels(
        (f"{name} ({rate:.0%} of outputs)" for name, rate in truncated_raters.iter_rows()), limit=5
    )
    yield from problems_of(TRUNCATED, truncated_raters["rater"].to_list(), raters=raters_text)


def label_problems(selected_study: Study, rng: Rng) -> Iterator[Problem]:
    """Yield problems of the labels of a selected study; problems that may reverse a conclusion are warnings."""
    earlier_notes = set(selected_study.notes)
    for note in rates(selected_study, rng=rng).notes:
        if note not in earlier_notes:
            yield Problem("warning" if note.rule in WARNINGS else "info", note.rule, note.message)


def _look_alikes(study: Study) -> Iterator[Problem]:
    """Yield systems, raters and aspects with labels that look equal but count as different."""
    labels_of_kind = {"systems": study.systems, "raters": tuple(study.raters.kind), "aspects": study.aspects}
    for kind_word, names in labels_of_kind.items():
        confusable_sets = confusable_groups(names)
        sets_text = join_labels((" = ".join(map(escape_confusable, labels)) for labels in confusable_sets), limit=4)
        yield from problems_of("look-alikes", list(chain(*confusable_sets)), what=kind_word, names=sets_text)


def _people_as_metrics(study: Study, metrics: set[str]) -> list[Problem]:
    """Return metrics with names that look like names of annotators."""
    kinds = study.raters.kind
    undeclared_metrics = [name for name in kinds if name in metrics and kinds[name] != "metric"]
    metrics_beside_people = aspect_variants(undeclared_metrics, [name for name in kinds if name not in metrics])
    metrics_with_human_names = {name for name in metrics if looks_human(name, declared=kinds[name] == "metric")}
    suspects = [name for name in kinds if name in metrics_with_human_names | metrics_beside_people]
    return problems_of("annotators-as-metrics", suspects, raters=join_labels(suspects))


def annotator_questions(study: Study) -> pl.DataFrame:
    """Return the comparisons that annotators were asked to judge, including second opinions, with the columns `ASKED`.

    The table is empty if there is no refusal.
    """
    question_columns = [name for name in ASKED if name != "refused"]
    opinions = (study.preferences, study.second)
    refused_rows = [preferences.missing.filter(~pl.col("why").is_in([EMPTY, UNREADABLE])) for preferences in opinions]
    if not any(preferences.height for preferences in refused_rows):
        return pl.DataFrame(schema=ASKED)
    frames = [
        *(preferences.frame.select(*question_columns, refused=pl.lit(False)) for preferences in opinions),
        *(rows.select(*question_columns, refused=pl.lit(True)) for rows in refused_rows),
    ]
    human_questions = pl.concat(frames).filter(pl.col("rater").is_in(list(study.humans)))
    return human_questions.group_by(question_columns, maintain_order=True).agg(pl.col("refused").any())


def refusals(questions: pl.DataFrame) -> Iterator[Problem]:
    """Yield pairs of systems with many refusals, and systems with significantly more refusals than other systems.

    The test is stratified by annotator (Cochran 1954, Mantel and Haenszel 1959), because annotators differ in refusal
    rates. The level is `REFUSAL_LEVEL`, with Bonferroni correction over systems.
    """
    if not questions["refused"].any():
        return
    pairs = _rates(questions, "system_a", "system_b")
    refused_pairs = pairs.filter(pl.col("rate") > MOST_REFUSED)
    yield from problems_of(
        "refusals",
        refused_pairs["of"].to_list(),
        most=MOST_REFUSED,
        pairs=join_labels(
            (f"{pair} {n} of {total} ({rate:.0%})" for pair, n, total, rate in refused_pairs.iter_rows()), limit=3
        ),
        n=refused_pairs.height,
        n_pairs=pairs.height,
    )
    system_rows = pl.concat([questions.with_columns(system=pl.col(name)) for name in ("system_a", "system_b")])
    systems = _rates(system_rows.drop_nulls("system"), "system")
    p_values = {name: _p_value(questions, name) for name in systems["of"]}
    n_tested = sum(p is not None for p in p_values.values())
    differing_systems = [name for name, p in p_values.items() if p is not None and p * n_tested <= REFUSAL_LEVEL]
    rates_text = join_labels(f"{name} {rate:.0%}" for name, *_, rate in systems.iter_rows())
    yield from problems_of(
        "refusals-differ", differing_systems, systems=join_labels(differing_systems), rates=rates_text
    )


def _rates(questions: pl.DataFrame, *by_columns: str) -> pl.DataFrame:
    """Return the refusals, questions and refusal rate of each pair or system (column `of`), highest rate first."""
    counts = questions.group_by(by_columns, maintain_order=True).agg(
        pl.col("refused").sum(), questions=pl.len(), rate=pl.col("refused").mean()
    )
    name_column = pl.concat_str(by_columns, separator=" and ", ignore_nulls=True).alias("of")
    return counts.sort("rate", *by_columns, descending=[True, *(False for _ in by_columns)]).select(
        name_column, "refused", "questions", "rate"
    )


def _p_value(questions: pl.DataFrame, system: str) -> float | None:
    """Return the p-value of the hypothesis that the refusals of each annotator do not depend on the system.

    The p-value is None if no annotator with both refusals and answers was asked about this system and about others.
    """
    n, r, k = pl.col("n"), pl.col("r"), pl.col("k")
    test_sums = (
        questions.with_columns(has=(pl.col("system_a") == system) | (pl.col("system_b") == system).fill_null(False))
        .group_by("rater")
        .agg(
            n=pl.len(), r=pl.col("refused").sum(), k=pl.col("has").sum(), both=(pl.col("has") & pl.col("refused")).sum()
        )
        .filter(n > 1)
        .select(
            pl.col("both").sum(),
            expected=(r * k / n).sum(),
            variance=(r * (n - r) * k * (n - k) / (n * n * (n - 1))).sum(),
        )
    )
    n_refused_with, expected, variance = test_sums.row(0)
    if not variance:
        return None
    return erfc((n_refused_with - expected - 0.5) / sqrt(2 * variance)) / 2
