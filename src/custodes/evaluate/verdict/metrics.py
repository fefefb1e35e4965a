"""Sentences on metrics: agreement and chance level, or preferences of metrics without human ratings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import numpy as np
import polars as pl

from custodes.answers.result import Result
from custodes.answers.wording import (
    estimate_with_interval,
    names,
    number,
    p_value_phrase,
    percent,
    plural,
    sentence,
    subject_with_verb,
)
from custodes.data.comparisons import HUMAN
from custodes.evaluate.verdict.faults import faults
from custodes.evaluate.verdict.slices import slices
from custodes.evaluate.verdict.view import (
    MOST_NAMED,
    SYSTEM_LEVEL,
    AspectResults,
    Row,
    Statements,
    grouped,
    share_a_letter,
)
from custodes.stats.sign_test import adjust

MARKED_EFFECT = 1.5
"""Minimum design effect for a sentence on clusters of items under the first heading."""
OTHERWISE = ("negative-agreement", "no-annotators", "no-metrics")
"""Rules of `check` without a sentence here, because other sentences report these problems."""


def serious(problems: pl.DataFrame, raters: Iterable[str]) -> Iterator[str]:
    """Return the warnings and errors of `check` as sentences, without duplicates; names keep their first letter."""
    problem_rows = problems.filter(pl.col("severity") != "info", ~pl.col("rule").is_in(OTHERWISE))
    example_names = problem_rows["examples"].explode().drop_nulls().to_list()
    return (
        sentence(message, {*raters, *example_names}) for message in problem_rows["message"].unique(maintain_order=True)
    )


def design(view: AspectResults) -> Iterator[str]:
    """Yield sentences on problems in the data of one aspect that may mislead a reader."""
    yield from serious(view.rows("check", "problems"), view.rows("check", "raters")["rater"])
    design_effects = view.rows("ranking", "decisions").filter(rater=HUMAN)["design_effect"]
    mean_design_effect = float(design_effects.mean() or 0.0)  # type: ignore[arg-type]
    if mean_design_effect >= MARKED_EFFECT:
        yield (
            "Items of one cluster (such as a document or an annotator) may be correlated: the estimated variance of "
            f"human margins is {number(mean_design_effect, digits=1)} times the variance with independent "
            "items. Tests and intervals account for this correlation."
        )


def trust(view: AspectResults) -> Iterator[str]:
    """Yield sentences on the best metric: agreement, tests against other metrics, and accuracy at system level."""
    if not view.standing:
        yield "No metric can be compared with the annotators: agreement is undefined."
        return
    best_row, *other_rows = view.standing
    if view.bounded and not view.metrics_on_side("above"):
        yield "No metric agrees with the annotators significantly better than chance."
        return
    verb_text = "agrees best" if view.leaders == [best_row["metric"]] else "has the highest agreement"
    difference_text = (
        _differences(view, best_row, other_rows)
        if view.bounded
        else " Without intervals, this agreement cannot be compared with chance."
    )
    yield f"{best_row['metric']} {verb_text} with the annotators ({_score(view, best_row)}).{difference_text}"
    # With two systems, pairwise accuracy is 0 or 1.
    if view.bounded and view.ordered and best_row[SYSTEM_LEVEL] is not None:
        most_accurate_row = max(view.standing, key=lambda row: row[SYSTEM_LEVEL] or 0.0)
        other_text = (
            f" {most_accurate_row['metric']} has the highest accuracy, {percent(most_accurate_row[SYSTEM_LEVEL])}."
            if most_accurate_row[SYSTEM_LEVEL] > best_row[SYSTEM_LEVEL]
            else ""
        )
        yield (
            f"At system level, {best_row['metric']} orders "
            f"{estimate_with_interval(best_row, SYSTEM_LEVEL, write=percent)} of the pairs of systems as the "
            f"annotators do (pairwise accuracy; chance level 50 %).{other_text}"
        )


def _score(view: AspectResults, standing_row: Row) -> str:
    """Return the statistic that ranks the metrics, with interval and chance level."""
    if view.ordered:
        return f"Kendall's τ within items {estimate_with_interval(standing_row, 'value')}; chance level 0"
    chance_text = "" if standing_row["chance"] is None else f"; chance level {percent(standing_row['chance'])}"
    value_text = estimate_with_interval(standing_row, "value", write=percent)
    return f"the same preference in {value_text} of comparisons{chance_text}"


def _differences(view: AspectResults, best_row: Row, other_rows: list[Row]) -> str:
    """Return a sentence on the tests of the best metric against all other metrics; empty without another metric."""
    if not other_rows:
        return ""
    if all(standing_row["may_be_best"] is None for standing_row in view.standing):
        return " Differences between metrics were not tested."
    metric = best_row["metric"]
    test_rows = view.rows("agreement", "comparisons").filter(
        pl.any_horizontal(pl.col("metric_a", "metric_b") == metric), statistic=best_row["statistic"]
    )
    other_expression = pl.when(pl.col("metric_a") == metric).then("metric_b").otherwise("metric_a")
    p_of_metric = dict(test_rows.select(other_expression, "p_adjusted").drop_nulls().iter_rows())
    tied_texts = [
        f"{row['metric']} ({p_value_phrase(p_of_metric.get(row['metric']))})"
        for row in other_rows
        if share_a_letter(best_row, row)
    ]
    if tied_texts:
        return f" {metric} does not differ significantly from {names(tied_texts, limit=MOST_NAMED)}."
    p_text = f" (largest {p_value_phrase(max(p_of_metric.values()))})" if p_of_metric else ""
    return f" {metric} is significantly better than every other metric{p_text}."


def chance(view: AspectResults) -> Iterator[str]:
    """Yield sentences on metrics that are not significantly better than chance, or significantly worse."""
    unclear_metrics, metrics_below_chance = view.metrics_on_side("unclear"), view.metrics_on_side("below")
    if unclear_metrics and view.bounded:
        yield (
            f"{subject_with_verb(unclear_metrics, 'is', 'are')} not significantly better than chance (all metrics "
            "tested together)."
        )
    if metrics_below_chance:
        lower_raters = view.rows("check", "raters").filter(~pl.col("higher_is_better"))["rater"]
        has_undeclared = view.ordered and any(metric not in lower_raters for metric in metrics_below_chance)
        yield (
            f"{subject_with_verb(metrics_below_chance, 'agrees', 'agree')} with the annotators significantly less than "
            f"by chance.{' If lower scores are better, declare this in a raters file.' if has_undeclared else ''}"
        )


def metric_sentences(results: Mapping[str, Result], aspect: str) -> Statements:
    """Yield the sentences on one aspect, by kind.

    `results` has `check` and `leaderboard`, and also `consistency` and `complementarity` if these results could be
    computed.
    """
    view = AspectResults(results, aspect)
    system_rows = view.rows("leaderboard", "systems")
    constant_output_rows = results["check"].to_frame("problems").filter(rule="constant-outputs")
    constant_systems = set(constant_output_rows["examples"].explode().drop_nulls())
    yield "design", serious(view.rows("check", "problems"), view.rows("check", "raters")["rater"])
    yield (
        "design",
        [
            "There are no human ratings, so these sentences describe the preferences of the metrics, but not which "
            "metric is right. Metrics that agree with each other may share an error."
        ],
    )
    yield "best", _best(view, system_rows.filter(pl.col("strength").is_not_null()), constant_systems)
    if "complementarity" in results:
        yield "trust", _similar_metrics(results["complementarity"])
    elif system_rows["rater"].n_unique() == 1:
        yield "trust", ["There is one metric and no human rating, so no metric can be recommended yet."]
    yield "faults", (*faults(view), *_length_preferences(results, aspect))
    yield "slices", slices(view)
    yield (
        "labels",
        [
            "Collect human ratings of some items: they show which metric to trust (custodes agreement). To compare two "
            "systems with human ratings alone, about 200 comparisons detect a win rate of 60 % (5 % level, about 80 % "
            "power; custodes plan computes the power of a study)."
        ],
    )


def _best(view: AspectResults, system_rows: pl.DataFrame, constant_systems: Collection[str]) -> Iterator[str]:
    """Yield sentences on the top group of systems by each metric, and on contradictions between metrics.

    `system_rows` are the systems that have a strength. A warning follows if the first system is one of
    `constant_systems` (the same text for all items).
    """
    metrics = system_rows["rater"].unique(maintain_order=True).to_list()
    metrics_of_finding_text = grouped(
        (
            _top(view, system_rows.filter(rater=metric).sort("rank"), constant_systems, with_rate=len(metrics) == 1),
            metric,
        )
        for metric in metrics
    )
    metrics_of_finding_text.pop("", None)  # metrics whose systems were not tested
    for finding_text, metrics_with_finding in sorted(metrics_of_finding_text.items(), key=lambda group: -len(group[1]))[
        :MOST_NAMED
    ]:
        yield f"By {names(metrics_with_finding, limit=MOST_NAMED)}, {finding_text}."
    pair_rows = view.rows("leaderboard", "pairs")
    if len(metrics) > 1:
        decision_counts_by_pair = (
            pair_rows.filter(pl.col("decision").is_in(["+", "-"]))
            .group_by("system_a", "system_b")
            .agg(pl.col("decision", "rater").n_unique())
        )
        n_contradicted_pairs = decision_counts_by_pair.filter(decision=2).height
        n_agreed_pairs = decision_counts_by_pair.filter(decision=1, rater=len(metrics)).height
        n_pairs = pair_rows.select("system_a", "system_b").n_unique()
        yield (
            f"Of {plural(n_pairs, 'pair')} of systems, all metrics decide {n_agreed_pairs} equally. Two metrics "
            f"contradict each other significantly on {plural(n_contradicted_pairs, 'pair')} (each metric tested "
            "separately)."
        )


def _top(view: AspectResults, system_rows: pl.DataFrame, constant_systems: Collection[str], *, with_rate: bool) -> str:
    """Return a clause on the best system by one metric, from the rows of systems by rank; empty without a test."""
    first_row = system_rows.row(0, named=True)
    top_systems = system_rows.filter(pl.col("may_be_first"))["system"].to_list()
    cycles = view.rows("leaderboard", "cycles").filter(rater=first_row["rater"])["cycle"]
    if first_row["system"] in constant_systems:
        return (
            f"{first_row['system']} ranks first, but gave the same text for all items. Do not trust this ranking: read "
            f"the outputs, and rank the other systems alone (--systems '!{first_row['system']}')"
        )
    if not top_systems:
        return ""
    if system_rows["part"].n_unique() > 1:
        return "it is unknown which system is best, because not all systems are connected by comparisons"
    if len(cycles):
        return f"preferences form a cycle, so no ranking is consistent with the preferences ({cycles[0]})"
    if len(top_systems) > 1:
        return f"it is undecided which of {names(top_systems, limit=MOST_NAMED)} ranks first"
    lead_text = ": significantly ahead of every other system" if first_row["rank_high"] == 1 else ""
    win_rate_text = estimate_with_interval(first_row, "win_rate", write=percent)
    return f"{top_systems[0]} ranks first{f' (win rate {win_rate_text}; a tie counts half)' * with_rate}{lead_text}"


def _length_preferences(results: Mapping[str, Result], aspect: str) -> Iterator[str]:
    """Yield sentences on metrics whose preferences depend on the length of the outputs (Holm over all metrics)."""
    if "consistency" not in results:
        return
    consistency_result = results["consistency"]
    length_rows = consistency_result.to_frame("length")
    p_adjusted = adjust(length_rows["raw_p_value"].cast(pl.Float64).fill_null(np.nan).to_numpy(), correction="holm")
    depends_on_length = pl.Series(p_adjusted <= consistency_result.provenance.options["alpha"])
    significant_length_rows = length_rows.filter(depends_on_length, pl.col("aspect").is_in([aspect, ""])).sort(
        pl.col("raw_effect").abs(), descending=True
    )
    named_rows = significant_length_rows.select("rater", "longer_win_rate", "raw_effect").head(MOST_NAMED)
    for rater, longer_win_rate, length_effect in named_rows.iter_rows():
        length_text = "longer" if length_effect > 0 else "shorter"
        yield (
            f"{rater} prefers the {length_text} output in "
            f"{percent(longer_win_rate if length_effect > 0 else 1 - longer_win_rate)} of comparisons (a tie counts "
            f"half). Without human ratings, it is unknown whether this is a bias or {length_text} outputs are better."
        )


def _similar_metrics(complementarity: Result) -> Iterator[str]:
    """Yield a sentence on the pairs of metrics with the most similar and with the least similar rankings."""
    pair_rows = (
        complementarity.to_frame("pairs").filter(pl.col("complementarity").is_not_null()).sort("complementarity")
    )
    format_pair = "{rater_a} and {rater_b} (complementarity {complementarity:.2f})".format_map
    pair_texts = list(map(format_pair, pair_rows.to_dicts()))
    if pair_texts:
        least_text = f", the least similar metrics are {pair_texts[-1]}" if len(pair_texts) > 1 else ""
        yield (
            f"Without human ratings, it is unknown which metric is right. The most similar metrics are {pair_texts[0]}"
            f"{least_text}. A complementarity of 0 means equal rankings of the outputs of an item, and .5 means "
            "unrelated rankings."
        )
