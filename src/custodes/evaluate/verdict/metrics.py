"""Sentences on metrics: agreement, chance level and undecided comparisons, or studies without human ratings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
import polars as pl

from custodes.answers.result import Result
from custodes.answers.tables import AT_THRESHOLD
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
from custodes.evaluate.verdict.faults import faults
from custodes.evaluate.verdict.slices import slices
from custodes.evaluate.verdict.view import (
    MOST_NAMED,
    SYSTEM_LEVEL,
    AspectResults,
    Row,
    Statements,
    applicable,
    grouped,
    share_a_letter,
)
from custodes.stats.sign_test import adjust

MARKED_EFFECT = 1.5
"""Minimum design effect for a sentence on clusters of items under the first heading."""
OTHERWISE = ("negative-agreement", "no-metrics")
"""Rules of `check` without a sentence here: `chance` reports the first problem, and a verdict needs no metric."""

EXAMPLE_RATE = 0.6

EXAMPLE_COMPARISONS = 200
"""Number of comparisons with which a two-sided sign test (level .05) has 80 % power at a win rate of .6."""


def serious(problems: pl.DataFrame, raters: Iterable[str]) -> Iterator[str]:
    """Return the warnings and errors of `check` as sentences, without duplicates; names keep their first letter."""
    problem_rows = problems.filter(pl.col("severity") != "info", ~pl.col("rule").is_in(OTHERWISE))
    example_names = problem_rows["examples"].explode().drop_nulls().to_list()
    return (
        sentence(message, {*raters, *example_names}) for message in problem_rows["message"].unique(maintain_order=True)
    )


def design(view: AspectResults) -> Iterator[str]:
    """Yield sentences on problems in the data of one aspect that may mislead a reader."""
    yield from serious(view.rows("check", "problems"), view.tie_rates)
    mean_design_effect = float(view.design_effects.mean() or 0.0)  # type: ignore[arg-type]
    if mean_design_effect >= MARKED_EFFECT:
        yield (
            f"Items of one {view.cluster_noun} may be correlated: the estimated variance of human margins is "
            f"{number(mean_design_effect, digits=1)} times "
            "the variance with independent items. Tests and intervals account for this correlation."
        )


def trust(view: AspectResults) -> Iterator[str]:
    """Yield sentences on the best metric: agreement, tests against other metrics, and accuracy at system level."""
    if not view.standing:
        yield "No metric can be compared with the annotators: agreement is undefined."
        return
    best_row, *other_rows = view.standing
    if view.metrics_on_side("above"):
        verb_text = "agrees best" if view.leaders == [best_row["metric"]] else "has the highest agreement"
        agreement_text = f"{best_row['metric']} {verb_text} with the annotators ({_score(view, best_row)})."
        yield f"{agreement_text}{_differences(view, best_row, other_rows)}"
        # With two systems, pairwise accuracy is 0 or 1.
        if view.ordered and best_row[SYSTEM_LEVEL] is not None:
            yield _system_level_text(view, best_row)
    elif view.bounded:
        yield "No metric agrees with the annotators significantly better than chance."
    else:
        yield (
            f"{best_row['metric']} has the highest agreement with the annotators ({_score(view, best_row)}). Without "
            "intervals, this agreement cannot be compared with chance."
        )


def _score(view: AspectResults, standing_row: Row) -> str:
    """Return the statistic that ranks the metrics, with interval and chance level."""
    if view.ordered:
        return f"Kendall's τ within items {estimate_with_interval(standing_row, 'value')}; chance level 0"
    # An interval has width 0 only if all comparisons give the same result.
    value_text = (
        percent(standing_row["value"])
        if standing_row["value_low"] == standing_row["value_high"]
        else estimate_with_interval(standing_row, "value", write=percent)
    )
    chance_text = "" if standing_row["chance"] is None else f"; chance level {percent(standing_row['chance'])}"
    return f"the same preference in {value_text} of comparisons{chance_text}"


def _differences(view: AspectResults, best_row: Row, other_rows: list[Row]) -> str:
    """Return sentences on the tests of the best metric against all other metrics."""
    test_rows = _tests_of(view, best_row["metric"], best_row["statistic"])
    p_of_metric = dict(test_rows.select("other", "p_adjusted").iter_rows())
    if other_rows and all(standing_row["may_be_best"] is None for standing_row in view.standing):
        return " Differences between metrics were not tested."
    tied_metrics = [other_row["metric"] for other_row in other_rows if share_a_letter(best_row, other_row)]
    # Tests that the Monte Carlo error leaves undecided, although the p-value is below the level.
    test_rows_at_threshold = test_rows.filter(pl.col("p_adjusted") <= view.alpha, note=AT_THRESHOLD)
    metrics_at_threshold = [metric for metric in tied_metrics if metric in test_rows_at_threshold["other"]]
    other_tied_metrics = [metric for metric in tied_metrics if metric not in metrics_at_threshold]
    others_text, largest_prefix = (
        ("the other metric", "") if len(other_rows) == 1 else ("every other metric", "largest ")
    )
    largest_p_text = f" ({largest_prefix}{p_value_phrase(max(p_of_metric.values()))})" if p_of_metric else ""
    return "".join(
        applicable(
            (
                other_tied_metrics,
                f" {best_row['metric']} does not differ significantly from "
                f"{_names_with_p_values(other_tied_metrics, p_of_metric)}.",
            ),
            (
                metrics_at_threshold,
                f" The difference from {_names_with_p_values(metrics_at_threshold, p_of_metric)} counts as not "
                "significant, because the p-value is too close to the significance level.",
            ),
            (
                other_rows and not tied_metrics,
                f" {best_row['metric']} is significantly better than {others_text}{largest_p_text}.",
            ),
        )
    )


def _tests_of(view: AspectResults, metric: str, statistic: str) -> pl.DataFrame:
    """Return the tests of a metric against other metrics by one statistic; `other` is the name of the other metric."""
    test_rows = view.rows("agreement", "comparisons").filter(
        pl.col("p_adjusted").is_not_null(),
        pl.any_horizontal(pl.col("metric_a", "metric_b") == metric),
        statistic=statistic,
    )
    return test_rows.with_columns(other=pl.when(pl.col("metric_a") == metric).then("metric_b").otherwise("metric_a"))


def _names_with_p_values(metrics: Sequence[str], p_of_metric: Mapping[str, float]) -> str:
    """Return names of metrics with adjusted p-values; if there are many metrics, with only the smallest p-value."""
    if len(metrics) <= MOST_NAMED:
        return names(
            [
                f"{metric} ({p_value_phrase(p_of_metric[metric])})" if metric in p_of_metric else metric
                for metric in metrics
            ]
        )
    p_values = [p_of_metric[metric] for metric in metrics if metric in p_of_metric]
    p_text = p_value_phrase(min(p_values)).removeprefix("p ") if p_values else ""
    return f"{names(metrics, limit=MOST_NAMED)}{f' (smallest p {p_text})' if p_values else ''}"


def _system_level_text(view: AspectResults, best_row: Row) -> str:
    """Return a sentence on the pairwise accuracy of the metric `best`.

    If another metric has the highest pairwise accuracy, a second sentence reports this accuracy.
    """
    test_rows = _tests_of(view, best_row["metric"], SYSTEM_LEVEL)
    is_significant_expression = (pl.col("p_adjusted") <= view.alpha) & (pl.col("note") != AT_THRESHOLD)
    has_no_difference = bool(test_rows.height) and test_rows.filter(is_significant_expression).is_empty()
    no_difference_text = " No other metric differs significantly in this accuracy." if has_no_difference else ""
    accuracy_text = (
        f"At system level, {best_row['metric']} orders {estimate_with_interval(best_row, SYSTEM_LEVEL, write=percent)} "
        "of the pairs of systems as the annotators do (pairwise accuracy; chance level 50 %)."
    )
    most_accurate_row = max(
        view.standing,
        key=lambda standing_row: -1.0 if standing_row[SYSTEM_LEVEL] is None else standing_row[SYSTEM_LEVEL],
    )
    if most_accurate_row[SYSTEM_LEVEL] <= best_row[SYSTEM_LEVEL]:
        return f"{accuracy_text}{no_difference_text}"
    p_value_series = test_rows.filter(other=most_accurate_row["metric"])["p_adjusted"]
    p_text = "".join(f" (adjusted {p_value_phrase(p_value)} for the difference)" for p_value in p_value_series)
    return (
        f"{accuracy_text} {most_accurate_row['metric']} has the highest accuracy, "
        f"{percent(most_accurate_row[SYSTEM_LEVEL])}{p_text}.{no_difference_text}"
    )


def chance(view: AspectResults) -> Iterator[str]:
    """Yield sentences on metrics that are not significantly better than chance, or significantly worse."""
    unclear_metrics, metrics_below_chance = view.metrics_on_side("unclear"), view.metrics_on_side("below")
    if unclear_metrics and view.bounded:
        yield (
            f"{subject_with_verb(unclear_metrics, 'is', 'are')} not significantly better than chance (all metrics "
            "tested together)."
        )
    if metrics_below_chance:
        undeclared_metrics = [metric for metric in metrics_below_chance if view.ordered and metric not in view.lower]
        scores_text = "scores of this metric" if len(undeclared_metrics) == 1 else "scores of these metrics"
        direction_hint = f" If lower {scores_text} are better, declare this in a raters file."
        metrics_text = subject_with_verb(metrics_below_chance, "agrees", "agree")
        yield (
            f"{metrics_text} with the annotators significantly less than by chance."
            f"{direction_hint if undeclared_metrics else ''}"
        )


def uncertain(view: AspectResults) -> Iterator[str]:
    """Yield sentences on comparisons of metrics that are undecided, for example because the study is too small."""
    if view.standing and not view.bounded:
        yield "There are no intervals, so differences between metrics cannot be tested."
        return
    if view.leaders[1:]:
        yield (
            "Which metric agrees best with the annotators is undecided. These metrics are not significantly worse "
            f"than any other metric: {names(view.leaders)}."
        )
    best_row, *other_rows = view.standing if view.leaders else [{}]
    beaten_metrics = [
        other_row["metric"]
        for other_row in other_rows
        if share_a_letter(best_row, other_row) and other_row["metric"] not in view.leaders
    ]
    if beaten_metrics:
        yield (
            f"{subject_with_verb(beaten_metrics, 'does', 'do')} not differ significantly from {best_row['metric']} "
            f"either, but {'is' if len(beaten_metrics) == 1 else 'are'} significantly worse than some other metric."
        )


def metric_sentences(results: Mapping[str, Result], aspect: str, *, is_first_aspect: bool) -> Statements:
    """Yield the sentences on one aspect, by kind.

    `results` has `check` and `leaderboard`, and also `consistency` and `complementarity` if these results could be
    computed. The first aspect also has the problems of the whole study.
    """
    view = AspectResults(results, aspect)
    problem_rows = (
        results["check"]
        .to_frame("problems")
        .filter(pl.col("aspect").is_in([aspect, *([""] if is_first_aspect else [])]))
    )
    all_system_rows = results["leaderboard"].to_frame("systems").filter(aspect=aspect)
    has_single_metric = all_system_rows["rater"].n_unique() == 1
    constant_systems = set(problem_rows.filter(rule="constant-outputs")["examples"].explode().drop_nulls())
    system_rows = all_system_rows.filter(pl.col("strength").is_not_null())
    yield "design", serious(problem_rows.filter(pl.col("rule") != "no-annotators"), view.tie_rates)
    yield (
        "design",
        [
            "There are no human ratings, so these sentences describe the preferences of the metric, but not whether "
            "the metric is right."
            if has_single_metric
            else "There are no human ratings, so these sentences describe the preferences of the metrics, but not "
            "which metric is right. Metrics that agree with each other may share an error."
        ],
    )
    yield "best", _best(results["leaderboard"], aspect, system_rows, constant_systems)
    if "complementarity" in results:
        yield "trust", _similar_metrics(results["complementarity"])
    elif has_single_metric:
        yield "trust", ["There is one metric and no human rating, so no metric can be recommended yet."]
    yield "faults", (*faults(view), *_length_preferences(results, aspect))
    yield "slices", slices(view)
    yield (
        "labels",
        [
            *(
                f"Read the outputs of {system}, and rank the other systems alone (--systems '!{system}')."
                for system in _constant_leaders(system_rows, constant_systems)
            ),
            f"Collect human ratings of some items: they show {'whether' if has_single_metric else 'which metric'} to "
            f"trust {'the metric ' if has_single_metric else ''}(custodes agreement). To compare two systems with "
            f"human ratings alone, about {EXAMPLE_COMPARISONS} comparisons detect a win rate of "
            f"{percent(EXAMPLE_RATE)} (5 % level, about 80 % power; custodes plan computes the power of a study).",
        ],
    )


def _best(
    leaderboard: Result, aspect: str, system_rows: pl.DataFrame, constant_systems: Collection[str]
) -> Iterator[str]:
    """Yield sentences on the top group of systems by each metric, and on contradictions between metrics.

    `system_rows` are the systems that have a strength. A metric whose first system is one of `constant_systems` (the
    same text for all items) is reported with a warning.
    """
    cycle_rows = leaderboard.to_frame("cycles").filter(aspect=aspect)
    metrics = system_rows["rater"].unique(maintain_order=True).to_list()
    for system, metrics_of_system in _constant_leaders(system_rows, constant_systems).items():
        other_system_rows = system_rows.filter(
            pl.col("rater") == metrics_of_system[0], ~pl.col("system").is_in(constant_systems)
        )
        yield (
            f"Do not trust the ranking by {names(metrics_of_system, limit=MOST_NAMED)}: {system} ranks first, but "
            "gave the same text for all items. Either this text misleads the metric, or the outputs are "
            f"wrong.{_next_text(other_system_rows.sort('rank').to_dicts())}"
        )
    system_rows_of_metric = {metric: system_rows.filter(rater=metric).sort("rank") for metric in metrics}
    metrics_of_finding_text = grouped(
        (_top(metric_system_rows, cycle_rows.filter(rater=metric), with_rate=len(metrics) == 1), metric)
        for metric, metric_system_rows in system_rows_of_metric.items()
        if metric_system_rows["system"][0] not in constant_systems  # otherwise the warning above names the metric
    )
    metrics_of_finding_text.pop("", None)  # metrics whose systems were not tested
    for finding_text, metrics_with_finding in sorted(metrics_of_finding_text.items(), key=lambda group: -len(group[1]))[
        :MOST_NAMED
    ]:
        are_all_metrics = len(metrics_with_finding) == len(metrics) > 2
        yield (
            f"By {f'all {len(metrics)} metrics' if are_all_metrics else names(metrics_with_finding, limit=MOST_NAMED)}"
            f", {finding_text}."
        )
    if system_rows["part"].n_unique() == 1:
        unmet_pair_notes = [note for note in leaderboard.notes if (note.rule, note.aspect) == ("not-all-met", aspect)]
        yield from (sentence(note.message.partition(": ")[2]) for note in unmet_pair_notes[:1])
    decided_pair_rows = leaderboard.to_frame("pairs").filter(pl.col("decision").is_in(["+", "-"]), aspect=aspect)
    if len(metrics) > 1:
        decision_counts_by_pair = decided_pair_rows.group_by("system_a", "system_b").agg(
            pl.col("decision").n_unique(), pl.col("rater").n_unique()
        )
        n_contradicted_pairs = decision_counts_by_pair.filter(pl.col("decision") > 1).height
        n_agreed_pairs = decision_counts_by_pair.filter(pl.col("decision") == 1, pl.col("rater") == len(metrics)).height
        n_pairs = leaderboard.to_frame("pairs").filter(aspect=aspect).select("system_a", "system_b").n_unique()
        contradiction_text = (
            f"on {plural(n_contradicted_pairs, 'pair')} two metrics" if n_contradicted_pairs else "no two metrics"
        )
        yield (
            f"Of {plural(n_pairs, 'pair')} of systems, all metrics decide {n_agreed_pairs} equally, and "
            f"{contradiction_text} contradict "
            "each other significantly (each metric tested separately)."
        )


def _constant_leaders(system_rows: pl.DataFrame, constant_systems: Collection[str]) -> dict[str, list[str]]:
    """Return the metrics that rank a system with a constant text first, by system."""
    first_rows = system_rows.filter(pl.col("rank") == 1, pl.col("system").is_in(list(constant_systems)))
    return dict(first_rows.group_by("system", maintain_order=True).agg("rater").iter_rows())


def _next_text(system_rows: list[Row]) -> str:
    """Return sentences on the first of the other systems, from their rows by rank; empty with one other system."""
    if len(system_rows) < 2:
        return ""
    first_row, *other_rows = system_rows
    tied_systems = [other_row["system"] for other_row in other_rows if share_a_letter(first_row, other_row)]
    difference_text = f", significantly ahead of the other {'system' if len(other_rows) == 1 else len(other_rows)}"
    if tied_systems:
        difference_text = f", not significantly ahead of {names(tied_systems, limit=MOST_NAMED)}"
    if first_row["group"] is None:
        difference_text = ""
    return (
        f" Of the other {len(system_rows)} systems, {first_row['system']} ranks first"
        f"{_win_rate_text(first_row)}{difference_text}."
    )


def _win_rate_text(system_row: Row) -> str:
    """Return the win rate of a system in parentheses; empty if it is undefined."""
    if system_row["win_rate"] is None:
        return ""
    return f" (win rate {estimate_with_interval(system_row, 'win_rate', write=percent)}; a tie counts half)"


def _top(system_rows: pl.DataFrame, cycle_rows: pl.DataFrame, *, with_rate: bool) -> str:
    """Return a clause on the best system by one metric, from the rows of systems by rank; empty without a test."""
    top_systems = system_rows.filter(pl.col("may_be_first"))["system"].to_list()
    if not top_systems:
        return ""
    if system_rows["part"].n_unique() > 1:
        return "it is unknown which system is best, because not all systems are connected by comparisons"
    if cycle_rows.height:
        return f"preferences form a cycle, so no ranking is consistent with the preferences ({cycle_rows['cycle'][0]})"
    if len(top_systems) > 1:
        return f"it is undecided which of {names(top_systems, limit=MOST_NAMED)} ranks first"
    lead_text = ": significantly ahead of every other system" if system_rows["rank_high"][0] == 1 else ""
    return (
        f"{top_systems[0]} ranks first{_win_rate_text(system_rows.row(0, named=True)) if with_rate else ''}{lead_text}"
    )


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
    if pair_rows.is_empty():
        return
    format_pair = "{rater_a} and {rater_b} (complementarity {complementarity:.2f})".format_map
    most_similar_text, least_similar_text = (
        format_pair(pair_row) for pair_row in (pair_rows.row(0, named=True), pair_rows.row(-1, named=True))
    )
    scale_text = "0: equal rankings of the outputs of an item, .5: unrelated"
    similarity_text = (
        f"The most similar metrics are {most_similar_text}, the least similar metrics are {least_similar_text}; "
        f"{scale_text}."
    )
    if pair_rows.height == 1:
        similarity_text = f"Similarity of the two metrics: {most_similar_text}; {scale_text}."
    yield f"Without human ratings, it is unknown which metric is right. {similarity_text}"
