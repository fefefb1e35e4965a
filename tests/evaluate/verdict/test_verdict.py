"""Verdicts from constructed results state these results and no others."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import custodes as cu
from custodes.answers.wording import estimate_with_interval, p_value_phrase, percent
from custodes.evaluate.verdict.verdict import HEADINGS, best_metrics, verdict_of
from custodes.evaluate.verdict.view import leaders
from tests.evaluate.verdict.constructed import (
    BASIS,
    NO_FINDING,
    Ends,
    findings,
    like,
    make_verdict,
    partiality_of,
    standing,
    standing_by_aspect,
    text_of,
)
from tests.messages import exactly


def test_the_planted_truth_of_the_demo_is_found(results: dict[str, Any]) -> None:
    # custodes.data.simulate.demo_simulation defines: selfeval favours Dogwood, and noise is unrelated to quality
    result = make_verdict(results)
    assert "noise" in text_of(result, "coherence", "chance")
    assert "selfeval over-rates Dogwood by " in text_of(result, "coherence", "favours")
    assert (
        "judge reaches the same decision as the annotators (better, worse or undecided) on 80 % [62 %, 91 %] of 15 "
        "system pairs. A metric that decided no pair would reach the same decision on 7 % of the pairs. "
        "judge reverses 0 % [0 %, 22 %] of the pairs, misses a difference in 20 % [10 %, 36 %] and finds"
    ) in text_of(result, "coherence", "decisions")
    weaknesses = text_of(result, "coherence", "weaknesses")
    assert (
        "judge does not significantly over-rate or under-rate any system, but this does not show that it rates all "
        "systems fairly."
    ) in weaknesses
    assert "Whether judge prefers longer outputs is not tested: the test needs texts of the outputs" in weaknesses
    # Random errors raise the weakest system against every other one, which is no favoritism.
    noise = results["favoritism"].pairs.filter(metric="noise", system_b="Fir", aspect="coherence")
    assert noise["favi"].max() < 0
    # On coherence no other metric has a finding; on fluency the metrics that rate the mean of both aspects may have
    # one.
    assert {metric for metric, *_ in findings(result, "coherence")} == {"selfeval"}


def test_every_sentence_on_the_demo_is_the_reviewed_one(results: dict[str, Any]) -> None:
    """The file has all sentences, with # for numbers. If a sentence changes on purpose, review and replace its line."""
    lines = [
        f"{aspect or 'all aspects'}; {kind}: {re.sub(r'-?[0-9]+(?:[.][0-9]+)?', '#', text)}"
        for aspect, kind, text in make_verdict(results).verdict.select("aspect", "kind", "text").rows()
    ]
    assert lines == (Path(__file__).parent / "demo_sentences.txt").read_text(encoding="utf-8").splitlines()


def test_the_number_in_the_sentence_is_of_the_statistic_that_ranks(results: dict[str, Any]) -> None:
    verdict = make_verdict(results).verdict
    for aspect in ("coherence", "fluency"):
        metrics = results["agreement"].metrics.filter(aspect=aspect)
        first, second = verdict.filter(aspect=aspect, kind="trust")["text"]
        best = metrics.filter(metric=first.split()[0]).row(0, named=True)
        is_alone = leaders(results["agreement"])[aspect] == [best["metric"]]
        # the highest value of that statistic, also in the text
        assert best["kendall_item"] == metrics["kendall_item"].max()
        assert first.startswith(
            f"{best['metric']} {'agrees best' if is_alone else 'has the highest agreement'} with the annotators "
            "(Kendall's τ within items"
            f" {estimate_with_interval(best, 'kendall_item')}; chance level 0)."
        )
        text = estimate_with_interval(best, "pairwise_accuracy", write=percent)
        assert second.startswith(f"At system level, {best['metric']} orders {text} of the pairs of systems")
        highest = metrics["pairwise_accuracy"].max()
        assert ("has the highest" in second) is (highest > best["pairwise_accuracy"])


def test_it_is_the_question_of_its_answers(results: dict[str, Any]) -> None:
    result = cu.verdict(cu.read("demo"), resamples=100)
    assert result.verdict.equals(make_verdict(results).verdict)
    assert result.provenance.question == "verdict"
    kinds = result.verdict.filter(aspect="fluency")["kind"].unique(maintain_order=True).to_list()
    assert kinds == [kind for kind in HEADINGS if kind in kinds]
    assert next(result.lines()).startswith("Which system is best: ")
    study, alpha = cu.read("demo"), {"alpha": 0.4}
    shared: dict[str, Any] = {"human": ["ann1", "ann2"], "systems": ["Aster", "Birch", "Fir"], "aspect": "fluency"}
    rated = {**shared, "confidence": 0.8, "resamples": 30, "rng": 5}
    preferred = {**rated, "ties": 0.5, "metrics": ["judge", "noise"]}
    answers = {name: getattr(cu, name)(study, **preferred, **alpha) for name in BASIS[1:]}
    answers["annotators"] = cu.annotators(study, method="majority", **rated)
    answers["check"] = cu.check(study, **{name: preferred[name] for name in (*shared, "rng", "ties", "metrics")})
    best = best_metrics(answers["agreement"])
    answers["leaderboard"] = cu.leaderboard(study, **{**preferred, "metrics": best})
    assert cu.verdict(study, **preferred, **alpha).verdict.equals(verdict_of(answers).verdict)


def test_nobody_is_trusted_without_an_interval_above_chance(results: dict[str, Any], trusted: list[str]) -> None:
    agreement = standing(results["agreement"], dict.fromkeys(trusted, (0.05, -0.1, 0.2)))
    result = make_verdict(results, agreement=agreement)
    trust = "No metric agrees with the annotators significantly better than chance."
    assert text_of(result, "fluency", "trust") == trust
    assert "agrees best with the annotators (" not in " ".join(result.lines())
    assert leaders(agreement) == {"coherence": [], "fluency": []}
    none = make_verdict(results, agreement=standing(results["agreement"], {}))
    assert text_of(none, "fluency", "trust") == (
        "No metric can be compared with the annotators: agreement is undefined."
    )
    agreement = standing(results["agreement"], dict.fromkeys(trusted, (0.5, None, None)))
    result = make_verdict(results, agreement=agreement)
    assert "Without intervals, this agreement cannot be compared with chance." in text_of(result, "fluency", "trust")
    assert text_of(result, "fluency", "chance") == ""


@pytest.mark.parametrize(
    ("worse", "phrase"),
    [
        ((), "judge does not differ significantly from learned ({learned}) and overlap ({overlap})."),
        (("learned",), "judge does not differ significantly from overlap ({overlap})."),
        (("learned", "overlap"), "judge is significantly better than every other metric (largest {largest})."),
        (None, "Differences between metrics were not tested."),
    ],
)
def test_the_best_is_clearly_best_only_by_its_tests(
    results: dict[str, Any], worse: tuple[str, ...] | None, phrase: str
) -> None:
    values: dict[str, Ends] = {name: (0.5 - i / 50, 0.2, 0.6) for i, name in enumerate(("judge", "learned", "overlap"))}
    agreement = standing(results["agreement"], values, worse)
    result = make_verdict(results, agreement=agreement)
    tests = agreement.comparisons.filter(aspect="coherence", statistic="kendall_item").to_dicts()
    differences = {frozenset((row["metric_a"], row["metric_b"])) - {"judge"}: row["p_adjusted"] for row in tests}
    p_values = {name: p_value_phrase(differences[frozenset([name])]) for name in ("learned", "overlap")}
    largest = p_value_phrase(max(p for names, p in differences.items() if len(names) == 1))
    first = result.verdict.filter(aspect="coherence", kind="trust")["text"][0]
    assert first.endswith(phrase.format(**p_values, largest=largest))
    if worse:
        two = standing(results["agreement"], dict(list(values.items())[:2]), worse)
        text = make_verdict(results, agreement=two).verdict.filter(aspect="coherence", kind="trust")["text"][0]
        assert text.endswith(f"). judge is significantly better than every other metric (largest {largest}).")
    level = [name for name in ("learned", "overlap") if name not in (worse or ())]
    assert leaders(agreement)["coherence"] == ["judge", *level]


def test_one_sided_people_silence_favoritism_and_decisions(results: dict[str, Any]) -> None:
    problems = results["check"].problems
    problem = {"aspect": "fluency", "severity": "warning", "rule": "one-sided-annotators", "message": "one side"}
    check = replace(results["check"], problems=pl.concat([problems, like(problems, [problem | {"examples": []}])]))
    result = make_verdict(results, check=check)
    assert text_of(result, "fluency", "design").startswith("One side.")
    assert text_of(result, "fluency", "favours") == ""
    assert text_of(result, "coherence", "favours")


def test_partiality_is_told_of_few_metrics_and_of_none(results: dict[str, Any]) -> None:
    favoritism = results["favoritism"]

    def finding(value: str, **more: Any) -> Any:
        return replace(favoritism, partiality=favoritism.partiality.with_columns(finding=pl.lit(value), **more))

    without = make_verdict(results, favoritism=finding(""))
    assert text_of(without, "coherence", "favours") == NO_FINDING
    favoured = finding("favoured")
    metrics = [metric for metric, *_ in findings(make_verdict(results, favoritism=favoured), "coherence")]
    assert len(metrics) == len({*metrics}) == 3
    assert "noise" not in metrics  # It is not recommended in any case.
    # noise is neither in the count nor in its total.
    text = text_of(make_verdict(results, favoritism=favoured), "coherence", "favours")
    assert "In all, 6 of 6 metrics that are significantly better than chance over-rate or under-rate some sys" in text
    overall = replace(favoured, metrics=favoured.metrics.with_columns(overall=pl.lit(True)))
    lines = make_verdict(results, favoritism=overall).verdict.filter(aspect="coherence", kind="favours")["text"]
    assert lines[3] == (
        f"{metrics[0]}, {metrics[1]} and {metrics[2]} have one score for all aspects, so a system may seem over-rated "
        "or under-rated because of its quality on another aspect."
    )
    of_two = favoured.metrics.with_columns(overall=pl.col("metric").is_in(metrics[:2]))
    lines = make_verdict(results, favoritism=replace(favoured, metrics=of_two)).verdict.filter(
        aspect="coherence", kind="favours"
    )["text"]
    assert lines[3].startswith(f"{metrics[0]} and {metrics[1]} have one score for all aspects, so")
    inconclusive = finding("inconclusive", partiality=pl.lit(None, pl.Float64), reason=pl.lit("too few"))
    assert text_of(make_verdict(results, favoritism=inconclusive), "coherence", "favours") == (
        "Whether a metric over-rates or under-rates a system is inconclusive: too few."
    )


def test_the_worst_finding_about_the_recommended_metric_comes_first(results: dict[str, Any]) -> None:
    # more significant findings about metrics that are not recommended, and a smaller one about the recommended metric
    best, *others = results["agreement"].standing.filter(aspect="coherence")["metric"]
    favoritism = results["favoritism"]
    rows = [(best, "Aster", -20.0, 0.001), (best, "Elm", 40.0, 0.04)]
    rows += [(metric, "Fir", 50.0 + i, 1e-9) for i, metric in enumerate(others[:5])]
    changed = partiality_of(favoritism, rows, copies={others[3]: [others[4]], others[4]: [others[3]]})
    result = make_verdict(results, favoritism=replace(favoritism, partiality=changed))
    lines = findings(result, "coherence")
    top = leaders(results["agreement"])["coherence"]
    assert [metric for metric, *_ in lines] == [best, top[1], others[4]]
    assert lines[0][1] == "Elm"
    assert f"{best} also under-rates Aster." in lines[0][2]
    assert f"So does its near copy {others[3]}." in lines[2][2]
    assert others[4] not in top


@pytest.mark.parametrize(
    ("uninformative", "count"), [(("noise",), 0), (("noise", "selfeval"), 0), (("noise",), 3), (("noise",), 6)]
)
def test_every_finding_that_is_counted_is_of_a_metric_that_may_be_named(
    results: dict[str, Any], trusted: list[str], uninformative: tuple[str, ...], count: int
) -> None:
    good = sorted({*trusted} - {*uninformative})
    values: dict[str, Ends] = {name: (0.5 - i / 50, 0.2, 0.6) for i, name in enumerate(good)}
    agreement = standing(results["agreement"], values | dict.fromkeys(uninformative, (0.0, -0.1, 0.1)))
    favoritism = results["favoritism"]
    rows = [(metric, "Fir", 20.0 + i, 0.001) for i, metric in enumerate((*good[:count], *uninformative))]
    favoritism = replace(favoritism, partiality=partiality_of(favoritism, rows, copies={}))
    result = make_verdict(results, agreement=agreement, favoritism=favoritism)
    text = text_of(result, "coherence", "favours")
    lines = findings(result, "coherence")
    n_findings = min(count, len(good))
    assert len(lines) == min(n_findings, 3)
    assert not {*uninformative} & {metric for metric, *_ in lines}
    total = f"In all, {n_findings} of {len(good)} metrics that are significantly better than chance"
    assert (total in text) is (n_findings > 3)
    assert ("In all" in text) is (n_findings > 3)
    assert (NO_FINDING in text) is (n_findings == 0)


@pytest.mark.parametrize(("effect", "is_marked"), [(1.49, False), (1.5, True)])
def test_a_design_effect_of_the_human_decisions_is_reported(
    results: dict[str, Any], effect: float, *, is_marked: bool
) -> None:
    rows = results["ranking"].decisions.with_columns(design_effect=pl.lit(effect))
    text = text_of(make_verdict(results, ranking=replace(results["ranking"], decisions=rows)), "fluency", "design")
    assert text == (
        "Items of one cluster (such as a document or an annotator) may be correlated: the estimated variance of human "
        "margins is 1.5 times the variance with independent items. Tests and intervals account for this correlation."
        if is_marked
        else ""
    )


def test_metrics_of_every_top_group_are_better_than_chance_and_come_by_mean_rank(results: dict[str, Any]) -> None:
    order = {"coherence": ["judge", "overlap", "learned"], "fluency": ["learned", "overlap", "judge"]}
    agreement = standing_by_aspect(results["agreement"], **order)
    # judge is in the top group of fluency, but not better than chance
    is_unclear = (pl.col("aspect") == "fluency") & (pl.col("metric") == "judge")
    rows = agreement.standing.with_columns(side=pl.when(is_unclear).then(pl.lit("unclear")).otherwise("side"))
    favoritism = results["favoritism"]
    partial = partiality_of(favoritism, [("overlap", "Fir", 20.0, 0.001)], copies={})
    changes = {"agreement": replace(agreement, standing=rows), "favoritism": replace(favoritism, partiality=partial)}
    text = text_of(make_verdict(results, **changes), "", "trust")
    assert text.startswith(
        "On both aspects, learned and overlap are significantly better than chance and not significantly worse than "
        "any other metric. If one metric is needed for both aspects, use learned: it has the best mean rank of these "
        "metrics without significant partiality. For learned, Kendall's τ within items is 0.30 to 0.50, depending on "
        "the aspect"
    )
    verdict = make_verdict(results, **changes)
    assert text_of(verdict, "", "weaknesses").startswith("learned does not significantly over-rate or")
    # If all of these metrics are partial, the best mean rank decides.
    both = partiality_of(favoritism, [("overlap", "Fir", 20.0, 0.001), ("learned", "Elm", 9.0, 0.01)], copies={})
    verdict = make_verdict(results, **{**changes, "favoritism": replace(favoritism, partiality=both)})
    assert "use learned: it has the best mean rank of these metrics. " in text_of(verdict, "", "trust")
    elm_text = "learned over-rates Elm on both aspects."
    assert text_of(verdict, "", "weaknesses").startswith(elm_text)
    # On one aspect, a finding must be significant after adjustment for both aspects.
    for p_adjusted, begin in ((0.02, "learned over-rates Elm on fluency."), (0.04, "learned does not significantly")):
        findings = [("overlap", "Fir", 20.0, 0.001), ("learned", "Elm", 9.0, p_adjusted)]
        one = partiality_of(favoritism, findings, copies={})
        is_left_out = (pl.col("aspect") == "coherence") & (pl.col("metric") == "learned")
        one = one.with_columns(finding=pl.when(is_left_out).then(pl.lit("")).otherwise("finding"))
        verdict = make_verdict(results, **{**changes, "favoritism": replace(favoritism, partiality=one)})
        assert text_of(verdict, "", "weaknesses").startswith(begin)
        assert "over-rates Elm" in text_of(verdict, "fluency", "favours")


@pytest.mark.parametrize("bounds", [(-0.2, -0.1), (-0.1, 0.3), (0.1, 0.3), (-0.1, 0.7)])
def test_agreement_of_annotators_by_chance_is_reported_first(
    results: dict[str, Any], bounds: tuple[float, float]
) -> None:
    low, high = bounds
    agreement = results["annotators"].agreement.with_columns(
        alpha_ordinal=pl.lit(sum(bounds) / 2), alpha_ordinal_low=pl.lit(low), alpha_ordinal_high=pl.lit(high)
    )
    text = text_of(make_verdict(results, annotators=replace(results["annotators"], agreement=agreement)), "", "design")
    expected = ""
    if high < 0:
        expected = (
            "On both aspects, the annotators agree no better than by chance on single outputs; check the scale and the "
            "names of items and systems. Means of systems over many items can still differ significantly."
        )
    elif low < 0 < high < 0.667:
        expected = (
            "On both aspects, the annotators do not agree significantly better than by chance on single outputs, so "
            "conclusions need means over many items or annotators."
        )
    assert text == expected


def test_the_best_metric_of_each_aspect_is_named(results: dict[str, Any]) -> None:
    agreement = standing(results["agreement"], dict.fromkeys(("judge", "learned"), (0.5, 0.1, 0.9)))
    is_missing = (pl.col("aspect") == "fluency") & (pl.col("metric") == "judge")
    partial = replace(agreement, standing=agreement.standing.filter(~is_missing))
    assert text_of(make_verdict(results, agreement=partial), "", "trust").endswith(
        "On single aspects, the metrics with the highest agreement are judge on coherence and learned on fluency."
    )
    assert "On single aspects" not in text_of(make_verdict(results, agreement=agreement), "", "trust")


@pytest.mark.parametrize(
    ("systems", "sentence"),
    [
        (["Fir"], "judge over-rates Fir. Do not compare this system with others by judge alone."),
        (["Fir", "Elm"], "judge over-rates Elm and Fir. Do not compare these systems with others by judge alone."),
    ],
)
def test_partiality_of_the_best_metric_is_a_weakness(
    results: dict[str, Any], systems: list[str], sentence: str
) -> None:
    favoritism = results["favoritism"]
    rows = partiality_of(favoritism, [("judge", system, 20.0, 0.001) for system in systems], copies={})
    verdict = make_verdict(results, favoritism=replace(favoritism, partiality=rows))
    assert sentence in text_of(verdict, "coherence", "weaknesses")
    assert "judge does not significantly" not in text_of(verdict, "coherence", "weaknesses")


def test_partiality_that_agrees_with_annotators_has_an_uncertain_size(results: dict[str, Any]) -> None:
    favoritism, (best, *_) = results["favoritism"], results["agreement"].standing.filter(aspect="coherence")["metric"]
    rows = partiality_of(favoritism, [(best, "Aster", 20.0, 0.001)], copies={})
    for rank, rank_without in ((1, 6), (4, 1), (4, 4)):
        changed = rows.with_columns(
            rank_human=pl.lit(1, pl.Int64), rank=pl.lit(rank, pl.Int64), rank_without=pl.lit(rank_without, pl.Int64)
        )
        result = make_verdict(results, favoritism=replace(favoritism, partiality=changed))
        ((*_, text),) = findings(result, "coherence")
        assert (f"Aster has rank 1 by the annotators and rank 4 by {best}." in text) is (rank == 4)
        prediction = f"{best} should give Aster rank 6; it gives rank 1, and the annotators give rank 1."
        assert (prediction in text) is (rank == 1)
        assert ("by 20 [11, 29] points of win rate" in text) is (rank == 4)
        assert text.endswith(f"Do not compare Aster with other systems by {best} alone.")


def test_a_metric_whose_decisions_are_no_better_than_none_is_reported(results: dict[str, Any]) -> None:
    ranking, best = results["ranking"], results["agreement"].standing.filter(aspect="coherence")["metric"][0]
    human = ranking.decisions.filter(aspect="coherence", rater="human")
    undecided_rate = human.filter(decision="=").height / human.height
    for correct in (undecided_rate, undecided_rate + 0.01):
        is_best = (pl.col("aspect") == "coherence") & (pl.col("metric") == best)
        errors = ranking.errors.with_columns(correct=pl.when(is_best).then(correct).otherwise("correct"))
        verdict = make_verdict(results, ranking=replace(ranking, errors=errors))
        expected = f"decisions by {best} are no better than no decision"
        assert (expected in text_of(verdict, "coherence", "decisions")) is (correct == undecided_rate)
        advice = f"{expected} on coherence: use human ratings there."
        assert (advice in text_of(verdict, "", "weaknesses")) is (correct == undecided_rate)
    is_missing = (pl.col("rater") == best) & (pl.col("system_a") == "Aster")
    fewer = replace(ranking, decisions=ranking.decisions.filter(~is_missing))
    text = text_of(make_verdict(results, ranking=fewer), "coherence", "decisions")
    assert " of 10 system pairs. " in text
    undecided = replace(ranking, decisions=ranking.decisions.with_columns(decision=pl.lit("=")))
    assert expected not in text_of(make_verdict(results, ranking=undecided), "coherence", "decisions")


def test_inconclusive_partiality_of_the_metric_for_all_aspects_is_named(results: dict[str, Any]) -> None:
    favoritism = results["favoritism"]
    is_unclear = (pl.col("metric") == "judge") & (pl.col("system") == "Elm")
    changed = favoritism.partiality.with_columns(
        finding=pl.when(is_unclear).then(pl.lit("inconclusive")).otherwise("finding")
    )
    text = text_of(make_verdict(results, favoritism=replace(favoritism, partiality=changed)), "", "weaknesses")
    assert "Whether judge over-rates or under-rates Elm on coherence and Elm on fluency is inconclusive." in text
    assert text.endswith("Whether judge prefers longer outputs is not tested: the test needs texts of the outputs.")


def test_a_metric_below_chance_on_an_aspect_is_not_said_to_be_only_unclear(results: dict[str, Any]) -> None:
    values: dict[str, Ends] = {"judge": (0.5, 0.4, 0.6), "noise": (0.0, -0.1, 0.1), "overlap": (-0.4, -0.5, -0.3)}
    result = make_verdict(results, agreement=standing(results["agreement"], values))
    assert result.verdict.filter(aspect="fluency", kind="chance")["text"].to_list() == [
        "noise is not significantly better than chance (all metrics tested together).",
        "overlap agrees with the annotators significantly less than by chance. If lower scores are better, declare "
        "this in a raters file.",
    ]
    values = {"judge": (0.5, 0.4, 0.6), "noise": (-0.3, -0.4, -0.2), "overlap": (-0.4, -0.5, -0.3)}
    for lower, hint in (
        ([], " If lower scores are better, declare this in a raters file."),
        (["noise"], " If lower scores are better, declare this in a raters file."),
        (["noise", "overlap"], ""),
    ):
        raters = results["check"].raters.with_columns(higher_is_better=~pl.col("rater").is_in(lower))
        changes = {
            "agreement": standing(results["agreement"], values),
            "check": replace(results["check"], raters=raters),
        }
        assert text_of(make_verdict(results, **changes), "fluency", "chance") == (
            f"noise and overlap agree with the annotators significantly less than by chance.{hint}"
        )


def test_positive_ratings_and_the_sampling_of_labels_reach_the_verdict_and_the_report() -> None:
    ratings = cu.read("demo").ratings.frame.filter(aspect="fluency").filter(pl.col("rater").is_in(["ann1", "judge"]))
    ratings = ratings.select(
        "item",
        "system",
        "rater",
        "score",
        kind=pl.when(rater="judge").then(pl.lit("metric")).otherwise(pl.lit("human")),
    )
    labels = ratings.select(
        pl.exclude("score"), label=pl.when(pl.col("score") >= 4).then(pl.lit("pass")).otherwise(pl.lit("fail"))
    )
    by_threshold, by_words = cu.verdict(cu.read(ratings), positive=">=4").verdict, cu.verdict(cu.read(labels)).verdict
    assert by_threshold["kind"].to_list() == by_words["kind"].to_list()
    assert [text.replace(">=4", "pass") for text in by_threshold["text"]] == by_words["text"].to_list()
    first_system = pl.col("system") == pl.col("system").first()
    apart = ratings.with_columns(item=pl.when(first_system).then(pl.format("{}-1", "item")).otherwise("item"))
    two_systems = apart.filter(first_system | (pl.col("system") == pl.col("system").last()))
    assert "design" not in cu.verdict(cu.read(two_systems), positive=">=4").verdict["kind"]

    labelled_items = labels["item"].unique().sort().head(40)
    partly_labelled = cu.read(labels.filter((pl.col("kind") == "metric") | pl.col("item").is_in(labelled_items)))
    texts = set()
    for sampling in ("random", "by-judge", "by-label"):
        verdict = cu.verdict(partly_labelled, sampling=sampling).verdict
        texts.add(tuple(verdict["text"]))
    assert len(texts) == 3
    page = cu.report(partly_labelled, sampling="by-label")
    assert page.results["rates"].to_frame("rates").equals(cu.rates(partly_labelled, sampling="by-label").rates)
    assert page.verdict.verdict.equals(verdict)
    options: dict[str, Any] = {"sampling": "by-judge", "confidence": 0.8, "alpha": 0.5, "rng": 3}
    sliced = cu.read(labels.with_columns(topic=pl.col("item").hash() % 2))
    answers = {"check": cu.check(sliced, rng=3), "rates": cu.rates(sliced, by="topic", **options)}
    assert cu.verdict(sliced, by="topic", **options).verdict.equals(verdict_of(answers).verdict)
    for ask in (cu.verdict, cu.report):
        with pytest.raises(
            cu.OptionError,
            match=exactly(
                "sampling='by-judge' is for rates of labels, but demo has scores or preferences; name the scores that "
                "count as success, such as positive='>=4', or leave out sampling"
            ),
        ):
            ask(cu.read("demo"), sampling="by-judge")
