"""Sentences on metrics: agreement, chance level and undecided comparisons, or studies without human ratings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

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
from custodes.evaluate.verdict.view import MOST_NAMED, SYSTEM_LEVEL, AspectResults, Row, share_a_letter
from custodes.stats.sign_test import adjust

MARKED_EFFECT = 1.5
"""Minimum design effect for a sentence on clusters of items under the first heading."""
OTHERWISE = ("negative-agreement", "no-metrics")
"""Rules of `check` that are left out: `chance` covers the first rule, and a verdict needs no metric."""

EXAMPLE_RATE = 0.6

EXAMPLE_COMPARISONS = 200
"""Number of comparisons with which a two-sided sign test (level .05) has 80 % power at a win rate of .6."""


def serious(problems: pl.DataFrame, raters: Iterable[str]) -> Iterator[str]:
    """Return the warnings and errors of `check` as sentences, without duplicates; names keep their first letter."""
    rows = problems.filter(pl.col("severity") != "info", ~pl.col("rule").is_in(OTHERWISE))
    names_of_problems = rows["examples"].explode().drop_nulls().to_list()
    return (sentence(message, {*raters, *names_of_problems}) for message in rows["message"].unique(maintain_order=True))


def design(view: AspectResults) -> Iterator[str]:
    """Yield sentences on problems in the data of one aspect that may mislead a reader."""
    yield from serious(view.problems, view.tie_rates)
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
    best, *others = view.standing
    if view.metrics_on_side("above"):
        verb_text = "agrees best" if view.leaders == [best["metric"]] else "has the highest agreement"
        agreement_text = f"{best['metric']} {verb_text} with the annotators ({_score(view, best)})."
        yield f"{agreement_text}{_differences(view, best, others)}"
        # With two systems, pairwise accuracy is 0 or 1.
        if view.ordered and best[SYSTEM_LEVEL] is not None:
            yield _system_level_text(view, best)
    elif view.bounded:
        yield "No metric agrees with the annotators significantly better than chance."
    else:
        yield (
            f"{best['metric']} has the highest agreement with the annotators ({_score(view, best)}). Without intervals,"
            " this agreement cannot be compared with chance."
        )


def _score(view: AspectResults, row: Row) -> str:
    """Return the statistic that ranks the metrics, with interval and chance level."""
    if view.ordered:
        return f"Kendall's τ within items {estimate_with_interval(row, 'value')}; chance level 0"
    # An interval has width 0 only if all comparisons give the same result.
    has_no_width = row["value_low"] == row["value_high"]
    value_text = percent(row["value"]) if has_no_width else estimate_with_interval(row, "value", write=percent)
    chance_text = "" if row["chance"] is None else f"; chance level {percent(row['chance'])}"
    return f"the same preference in {value_text} of comparisons{chance_text}"


def _differences(view: AspectResults, best: Row, others: list[Row]) -> str:
    """Return sentences on the tests of the best metric against all other metrics."""
    tests = _tests_of(view, best["metric"], best["statistic"])
    p_values = dict(tests.select("other", "p_adjusted").iter_rows())
    p_of_equal_metric = {row["metric"]: p_values.get(row["metric"]) for row in others if share_a_letter(best, row)}
    if others and all(row["may_be_best"] is None for row in view.standing):
        return " Differences between metrics were not tested."
    if p_of_equal_metric:
        metrics_at_threshold = tests.filter(note=AT_THRESHOLD)[
            "other"
        ].to_list()  # tests that the Monte Carlo error leaves undecided
        p_of_clear_metric, p_of_close_metric = (
            {name: p for name, p in p_of_equal_metric.items() if (name in metrics_at_threshold) is is_near_threshold}
            for is_near_threshold in (False, True)
        )
        clear_text = (
            f" It does not differ significantly from {_names_with_p_values(p_of_clear_metric)}."
            if p_of_clear_metric
            else ""
        )
        close_text = (
            f" The difference from {_names_with_p_values(p_of_close_metric)} counts as not significant, because the "
            "p-value is too close to the significance level."
        )
        return clear_text + (close_text if p_of_close_metric else "")
    if not others:
        return ""
    largest_p = max(p_values.values(), default=None)
    others_text, largest_text = ("the other metric", "") if len(others) == 1 else ("every other metric", "largest ")
    return (
        " It is significantly better than "
        f"{others_text}{'' if largest_p is None else f' ({largest_text}{p_value_phrase(largest_p)})'}."
    )


def _tests_of(view: AspectResults, metric: str, statistic: str) -> pl.DataFrame:
    """Return the tests of a metric against other metrics by one statistic; `other` is the name of the other metric."""
    rows = view.tests.filter(pl.any_horizontal(pl.col("metric_a", "metric_b") == metric), statistic=statistic)
    return rows.with_columns(other=pl.when(pl.col("metric_a") == metric).then("metric_b").otherwise("metric_a"))


def _names_with_p_values(p_of_metric: dict[str, float | None]) -> str:
    """Return names of metrics with adjusted p-values; if there are many metrics, with only the smallest p-value."""
    if len(p_of_metric) <= MOST_NAMED:
        return names([name if p is None else f"{name} ({p_value_phrase(p)})" for name, p in p_of_metric.items()])
    p_values = [p for p in p_of_metric.values() if p is not None]
    p_text = p_value_phrase(min(p_values)).removeprefix("p ") if p_values else ""
    return f"{names([*p_of_metric], limit=MOST_NAMED)}{f' (smallest p {p_text})' if p_values else ''}"


def _system_level_text(view: AspectResults, best: Row) -> str:
    """Return a sentence on the pairwise accuracy of the metric `best`.

    If another metric has the highest pairwise accuracy, a second sentence reports this accuracy.
    """
    all_tests = _tests_of(view, best["metric"], SYSTEM_LEVEL)
    is_significant = (pl.col("p_adjusted") <= view.alpha) & (pl.col("note") != AT_THRESHOLD)
    has_no_difference = bool(all_tests.height) and all_tests.filter(is_significant).is_empty()
    no_difference_text = " No other metric differs significantly in this accuracy." if has_no_difference else ""
    text = (
        f"At system level, {best['metric']} orders {estimate_with_interval(best, SYSTEM_LEVEL, write=percent)} of the "
        "pairs of systems as the annotators do (pairwise accuracy; chance level 50 %)."
    )
    most_accurate_row = max(view.standing, key=lambda row: -1.0 if row[SYSTEM_LEVEL] is None else row[SYSTEM_LEVEL])
    if most_accurate_row[SYSTEM_LEVEL] <= best[SYSTEM_LEVEL]:
        return f"{text}{no_difference_text}"
    p_values = all_tests.filter(other=most_accurate_row["metric"])["p_adjusted"]
    p_text = "".join(f" (adjusted {p_value_phrase(p_value)} for the difference)" for p_value in p_values)
    return (
        f"{text} {most_accurate_row['metric']} has the highest accuracy, {percent(most_accurate_row[SYSTEM_LEVEL])}"
        f"{p_text}.{no_difference_text}"
    )


def chance(view: AspectResults) -> Iterator[str]:
    """Yield sentences on metrics that are not significantly better than chance, or significantly worse."""
    unclear, below = view.metrics_on_side("unclear"), view.metrics_on_side("below")
    if unclear and view.bounded:
        yield (
            f"{subject_with_verb(unclear, 'is', 'are')} not significantly better than chance (all metrics tested "
            "together)."
        )
    if below:
        undeclared = [name for name in below if name not in view.lower] if view.ordered else []
        scores_text = "scores of this metric" if len(undeclared) == 1 else "scores of these metrics"
        hint = f" If lower {scores_text} are better, declare this in a raters file." if undeclared else ""
        metrics_text = subject_with_verb(below, "agrees", "agree")
        yield f"{metrics_text} with the annotators significantly less than by chance.{hint}"


def uncertain(view: AspectResults) -> Iterator[str]:
    """Yield sentences on comparisons of metrics that are undecided, for example because the study is too small."""
    if view.standing and not view.bounded:
        yield "There are no intervals, so differences between metrics cannot be tested."
        return
    if view.leaders[1:]:
        yield (
            "Which metric agrees best with the annotators is undecided. Not significantly worse than any other "
            f"metric: {names(view.leaders)}."
        )
    best, *others = view.standing if view.leaders else [{}]
    beaten = [row["metric"] for row in others if share_a_letter(best, row) and row["metric"] not in view.leaders]
    if beaten:
        yield (
            f"{subject_with_verb(beaten, 'does', 'do')} not differ significantly from {best['metric']} either, but "
            f"{'is' if len(beaten) == 1 else 'are'} significantly worse than some other metric."
        )


def metric_sentences(results: Mapping[str, Result], aspect: str, *, first: bool) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of the sentences on one aspect.

    `results` has `check` and `leaderboard`, and `consistency` and `complementarity` if these could be computed. The
    `first` aspect also has the problems of the whole study.
    """
    view = AspectResults(results, aspect)
    problems = results["check"].to_frame("problems").filter(pl.col("aspect").is_in([aspect, *([""] if first else [])]))
    yield from (
        ("design", text) for text in serious(problems.filter(pl.col("rule") != "no-annotators"), view.tie_rates)
    )
    is_single = results["leaderboard"].to_frame("systems").filter(aspect=aspect)["rater"].n_unique() == 1
    yield (
        "design",
        "There are no human ratings, so these sentences describe the preferences of the metric, but not whether the "
        "metric is right."
        if is_single
        else "There are no human ratings, so these sentences describe the preferences of the metrics, but not which "
        "metric is right. Metrics that agree with each other may share an error.",
    )
    constant_systems = set(problems.filter(rule="constant-outputs")["examples"].explode().drop_nulls())
    yield from (("best", text) for text in _best(results["leaderboard"], aspect, constant_systems))
    if "complementarity" in results:
        yield from (("trust", text) for text in _similar_metrics(results["complementarity"]))
    elif is_single:
        yield "trust", "There is one metric and no human rating, so no metric can be recommended yet."
    yield from (("faults", text) for text in (*faults(view), *_length_preferences(results, aspect)))
    yield from (("slices", text) for text in slices(view))
    systems = results["leaderboard"].to_frame("systems").filter(pl.col("strength").is_not_null(), aspect=aspect)
    for system in _constant_leaders(systems, constant_systems):
        yield "labels", f"Read the outputs of {system}, and rank the other systems alone (--systems '!{system}')."
    yield (
        "labels",
        f"Collect human ratings of some items: they show {'whether' if is_single else 'which metric'} to trust "
        f"{'the metric ' if is_single else ''}(custodes agreement). To compare two systems with human ratings alone, "
        f"about {EXAMPLE_COMPARISONS} comparisons detect a win rate of {percent(EXAMPLE_RATE)} (5 % level, about 80 % "
        "power; custodes plan computes the power of a study).",
    )


def _best(leaderboard: Result, aspect: str, constant_systems: set[str]) -> Iterator[str]:
    """Yield sentences on the top group of systems by each metric, and on contradictions between metrics.

    A metric whose first system is one of `constant_systems` (the same text for all items) is reported with a warning.
    """
    systems = leaderboard.to_frame("systems").filter(pl.col("strength").is_not_null(), aspect=aspect)
    cycles = leaderboard.to_frame("cycles").filter(aspect=aspect)
    metrics = systems["rater"].unique(maintain_order=True).to_list()
    for system, metrics_of_system in _constant_leaders(systems, constant_systems).items():
        others = systems.filter(pl.col("rater") == metrics_of_system[0], ~pl.col("system").is_in(constant_systems))
        yield (
            f"Do not trust the ranking by {names(metrics_of_system, limit=MOST_NAMED)}: {system} ranks first, but "
            "gave the same text for all items. Either this text misleads the metric, or the outputs are "
            f"wrong.{_next_text(others.sort('rank').to_dicts())}"
        )
    metrics_of_finding: dict[str, list[str]] = {}
    for metric in metrics:
        rows = systems.filter(rater=metric).sort("rank")
        if rows["system"][0] in constant_systems:
            continue  # the warning above names this metric
        finding = _top(rows, cycles.filter(rater=metric), with_rate=len(metrics) == 1)
        metrics_of_finding.setdefault(finding, []).append(metric)
    metrics_of_finding.pop("", None)  # metrics whose systems were not tested
    for finding, metrics_with_finding in sorted(metrics_of_finding.items(), key=lambda group: -len(group[1]))[
        :MOST_NAMED
    ]:
        is_all_metrics = len(metrics_with_finding) == len(metrics) > 2
        yield (
            f"By {f'all {len(metrics)} metrics' if is_all_metrics else names(metrics_with_finding, limit=MOST_NAMED)}"
            f", {finding}."
        )
    if systems["part"].n_unique() == 1:
        notes = [note for note in leaderboard.notes if (note.rule, note.aspect) == ("not-all-met", aspect)]
        yield from (sentence(note.message.partition(": ")[2]) for note in notes[:1])
    pairs = leaderboard.to_frame("pairs").filter(pl.col("decision").is_in(["+", "-"]), aspect=aspect)
    if len(metrics) > 1:
        counts_of_pair = pairs.group_by("system_a", "system_b").agg(
            pl.col("decision").n_unique(), pl.col("rater").n_unique()
        )
        n_contradicted = counts_of_pair.filter(pl.col("decision") > 1).height
        n_agreed = counts_of_pair.filter(pl.col("decision") == 1, pl.col("rater") == len(metrics)).height
        n_pairs = leaderboard.to_frame("pairs").filter(aspect=aspect).select("system_a", "system_b").n_unique()
        contradiction_text = f"on {plural(n_contradicted, 'pair')} two metrics" if n_contradicted else "no two metrics"
        yield (
            f"Of {plural(n_pairs, 'pair')} of systems, all metrics decide {n_agreed} equally, and "
            f"{contradiction_text} contradict "
            "each other significantly (each metric tested separately)."
        )


def _constant_leaders(systems: pl.DataFrame, constant_systems: Collection[str]) -> dict[str, list[str]]:
    """Return the metrics that rank a system with a constant text first, by system."""
    first_rows = systems.filter(pl.col("rank") == 1, pl.col("system").is_in(list(constant_systems)))
    return dict(first_rows.group_by("system", maintain_order=True).agg("rater").iter_rows())


def _next_text(rows: list[Row]) -> str:
    """Return sentences on the first of the other systems, from their rows by rank; empty with one other system."""
    if len(rows) < 2:
        return ""
    first, *others = rows
    equals = [row["system"] for row in others if share_a_letter(first, row)]
    difference_text = ", significantly ahead of the other " + ("system" if len(others) == 1 else f"{len(others)}")
    if equals:
        difference_text = f", not significantly ahead of {names(equals, limit=MOST_NAMED)}"
    if first["group"] is None:
        difference_text = ""
    return f" Of the other {len(rows)} systems, {first['system']} ranks first{_win_rate_text(first)}{difference_text}."


def _win_rate_text(row: Row) -> str:
    """Return the win rate of a system in parentheses; empty if it is undefined."""
    if row["win_rate"] is None:
        return ""
    return f" (win rate {estimate_with_interval(row, 'win_rate', write=percent)}; a tie counts half)"


def _top(rows: pl.DataFrame, cycles: pl.DataFrame, *, with_rate: bool) -> str:
    """Return a clause on the best system by one metric, from the rows of systems by rank; empty without a test."""
    top_systems = rows.filter(pl.col("may_be_first"))["system"].to_list()
    if not top_systems:
        return ""
    if rows["part"].n_unique() > 1:
        return "it is unknown which system is best, because not all systems are connected by comparisons"
    if cycles.height:
        return f"preferences form a cycle, so no ranking is consistent with the preferences ({cycles['cycle'][0]})"
    if len(top_systems) > 1:
        return f"it is undecided which of {names(top_systems, limit=MOST_NAMED)} ranks first"
    lead_text = ": significantly ahead of every other system" if rows["rank_high"][0] == 1 else ""
    return f"{top_systems[0]} ranks first{_win_rate_text(rows.row(0, named=True)) if with_rate else ''}{lead_text}"


def _length_preferences(results: Mapping[str, Result], aspect: str) -> Iterator[str]:
    """Yield sentences on metrics whose preferences depend on the length of the outputs (Holm over all metrics)."""
    if "consistency" not in results:
        return
    consistency = results["consistency"]
    lengths = consistency.to_frame("length")
    p_adjusted = adjust(lengths["raw_p_value"].cast(pl.Float64).fill_null(np.nan).to_numpy(), correction="holm")
    depends_on_length = pl.Series(p_adjusted <= consistency.provenance.options.get("alpha", 0.05))
    strongest_first = lengths.filter(depends_on_length, pl.col("aspect").is_in([aspect, ""])).sort(
        pl.col("raw_effect").abs(), descending=True
    )
    columns = strongest_first.select("rater", "longer_win_rate", "raw_effect").head(MOST_NAMED)
    for rater, rate, effect in columns.iter_rows():
        length_text = "longer" if effect > 0 else "shorter"
        yield (
            f"{rater} prefers the {length_text} output in {percent(rate if effect > 0 else 1 - rate)} of comparisons "
            "(a tie counts half). Without human ratings, it is unknown whether this is a bias or "
            f"{length_text} outputs are better."
        )


def _similar_metrics(complementarity: Result) -> Iterator[str]:
    """Yield a sentence on the pairs of metrics with the most similar and with the least similar rankings."""
    pairs = complementarity.to_frame("pairs").filter(pl.col("complementarity").is_not_null()).sort("complementarity")
    if pairs.is_empty():
        return
    format_pair = "{rater_a} and {rater_b} (complementarity {complementarity:.2f})".format_map
    most_similar_text, least_similar_text = (
        format_pair(row) for row in (pairs.row(0, named=True), pairs.row(-1, named=True))
    )
    scale_text = "0: equal rankings of the outputs of an item, .5: unrelated"
    similarity_text = (
        f"The most similar metrics are {most_similar_text}, the least similar metrics are {least_similar_text}; "
        f"{scale_text}."
    )
    if pairs.height == 1:
        similarity_text = f"Similarity of the two metrics: {most_similar_text}; {scale_text}."
    yield f"Without human ratings, it is unknown which metric is right. {similarity_text}"
