"""Answers of questions about published data sets."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.stats import kendalltau

import custodes as cu
from custodes.evaluate.rater_comparison import compare
from custodes.stats import ABSENT
from custodes.stats.bootstrap import bootstrap_weights, unit_sums

COPIES = ("reference-system", "identical-systems", "repeated-items", "pooled-aspects")


def copies(study: cu.Study, **options: object) -> list[tuple[str, list[str]]]:
    problems = cu.check(study, **options).problems  # type: ignore[arg-type]
    return problems.filter(pl.col("rule").is_in(COPIES)).select("rule", pl.col("examples").list.head(2)).rows()


@pytest.mark.parametrize(
    ("folder", "reference"), [("dialsummeval", ["A", "rouge-1"]), ("hanna", ["Human", "BLEU Ξ§"]), ("summeval", None)]
)
def test_the_human_reference_among_the_systems(shared_data: Path, folder: str, reference: list[str] | None) -> None:
    study = cu.read(shared_data / folder / "ratings.csv.gz")
    assert copies(study) == ([("reference-system", reference)] if reference else [])


def test_the_reference_of_dialsummeval_changes_the_best_metric(shared_data: Path) -> None:
    study = cu.read(shared_data / "dialsummeval" / "ratings.csv.gz")
    best = [
        cu.agreement(study, aspect="relevance", systems=systems, resamples=0).standing["metric"][0]
        for systems in (None, "!A")
    ]
    assert best[0] != best[1]


def test_favi_and_sign_accuracies_correlate_as_published(summeval: cu.Study) -> None:
    """Figure 5 of the Favi-Score paper: -.25 and -.01 over all its data; here SummEval, relevance, 34 metrics."""
    pairs = cu.favoritism(summeval, human="expert*", aspect="relevance", resamples=0).pairs
    assert pairs.height == 34 * 120
    size = pl.col("favi").abs()
    agrees, accuracy = (
        pairs.drop_nulls("favi")
        .select(
            pl.corr(size, pl.col("sign_agrees").cast(pl.Float64), method="spearman").alias("agrees"),
            pl.corr(size, "sample_accuracy", method="spearman").alias("accuracy"),
        )
        .row(0)
    )
    assert agrees == pytest.approx(-0.32, abs=0.005)
    assert accuracy == pytest.approx(-0.01, abs=0.005)


KEY = ["rater", "aspect", "item", "system"]


def test_a_wide_table_gives_the_long_study_back(summeval: cu.Study) -> None:
    humans = pl.col("rater").is_in(summeval.humans)
    # Metrics keep their names, with the aspect if the file has one.
    column = pl.when(humans).then(pl.format("{}_{}", "rater", "aspect"))
    alone = pl.when(pl.col("aspect") == "").then("rater").otherwise(pl.format("{} of {}", "rater", "aspect"))
    named = summeval.ratings.frame.with_columns(column=column.otherwise(alone))
    table = named.pivot("column", index=["item", "system"], values="score").rename(
        {"item": "doc_id", "system": "model"}
    )
    with pytest.raises(cu.InputError) as error:
        cu.read(table.with_columns(text=pl.lit("...")))
    columns = ast.literal_eval(str(error.value).split("(in Python columns=")[1][:-1])
    read = cu.read(table.with_columns(text=pl.lit("...")), columns=columns)
    assert set(read.humans) == set(summeval.humans)
    assert set(read.aspects) == set(summeval.aspects)
    first, second = (
        value.ratings.frame.filter(pl.col("rater").is_in(summeval.humans)).sort(KEY) for value in (summeval, read)
    )
    assert first.equals(second)
    assert len(read.metrics) == named.filter(~humans)["column"].n_unique()


def test_a_gate_on_summeval(summeval: cu.Study) -> None:
    options = {"human": "expert*", "aspect": "coherence"}
    result = cu.gate(
        summeval, metric="bertscore-f1", require="kendall_item>=0.1", not_worse_than="rouge-l-f1", **options
    )
    assert (result.outcome, result.status) == ("holds", 0)
    agreed = cu.agreement(
        summeval, metrics="bertscore-f1,rouge-l-f1", resamples=0, compare_by="kendall_item", **options
    )
    value = agreed.metrics.filter(metric="bertscore-f1")["kendall_item"].item()
    assert result.rules["value"].to_list() == pytest.approx([value, abs(agreed.comparisons["difference"].item())])
    second = cu.gate(
        summeval, metric="rouge-l-f1", require="kendall_item>=0.2", not_worse_than="bertscore-recall", **options
    )
    assert (second.rules["outcome"].to_list(), second.status) == (["fails", "fails"], 1)


@pytest.mark.parametrize("aspect", ["consistency"])
def test_findings_about_recommended_metrics_come_first_and_near_copies_share_a_line(
    shared_data: Path, aspect: str
) -> None:
    study = cu.read(shared_data / "dialsummeval" / "ratings.csv.gz").with_cache()
    verdict = cu.verdict(study, aspect=aspect, resamples=200).verdict
    texts = verdict.filter(kind="favours")["text"]
    lines = [result.groups() for text in texts if (result := re.match(r"(\S+) (?:over|under)-rates (\S+) by ", text))]
    recommended = verdict.filter(kind="trust")["text"][0].split()[0]
    partiality = cu.favoritism(study, aspect=aspect, resamples=200).partiality
    result = partiality.filter(pl.col("finding").is_in(["favoured", "disfavoured"]))
    mine = result.filter(metric=recommended).to_dicts()
    assert mine
    worst = max(mine, key=lambda row: abs(row["partiality"]))
    assert lines[0] == (recommended, worst["system"])
    near = {(row["metric"], row["system"]): row["near_copies"] for row in result.to_dicts()}
    for i, line in enumerate(lines):
        assert not {metric for metric, _ in lines[:i]} & {*near[line]}


@pytest.mark.parametrize(("human", "effect", "decided"), [("mqm", 1.29, 67), ("da-sqm", 2.70, 46)])
def test_people_by_document(wmt23: cu.Study, human: str, effect: float, decided: int) -> None:
    rows = cu.ranking(wmt23, human=human, metrics="BLEU*", resamples=0).decisions.filter(rater="human")
    assert rows["design_effect"].mean() == pytest.approx(effect, abs=0.005)
    assert (rows["decision"] != "=").sum() == decided

    (comparison,) = compare(wmt23, human=human, metrics="BLEU*")
    signs, units = comparison.human_signs, comparison.design.units
    signs = signs[(signs != ABSENT).any(axis=1)]
    rated = signs != ABSENT
    sums = unit_sums(np.stack([np.where(rated, signs, 0), rated]), units=units, n_units=comparison.design.n_units)
    times = bootstrap_weights(comparison.design.n_units, 2000, np.random.default_rng(0))[1:]
    total, number = times @ sums[0].T, times @ sums[1].T
    outcomes = np.where(rated, signs, np.nan)
    expected = (total / number).var(axis=0) / (np.nanvar(outcomes, axis=1) / rated.sum(axis=1))
    assert np.maximum(expected, 1).mean() == pytest.approx(effect, rel=0.05)


CORRECTING = ("rouge-l", "bleu", "meteor", "chrf", "bertscore-f1", "supert")


@pytest.mark.slow
@pytest.mark.parametrize("annotated", [10, 30])
def test_no_unmarked_decision_on_summeval_hangs_on_the_seed(shared_data: Path, annotated: int) -> None:
    """10 or 30 of 100 articles have human ratings, chosen at random: of 2,880 decisions, 62 to 77 differed over six
    seeds."""
    ratings = pl.read_csv(shared_data / "summeval/ratings.csv.gz")
    names = [name for name in ratings["rater"].unique().sort() if name.lower() in CORRECTING][:6]
    names += sorted(set(ratings.filter(kind="metric")["rater"]) - set(names))[: 6 - len(names)]
    items = ratings["item"].unique().sort()
    articles = list(np.random.default_rng(annotated).permutation(items)[:annotated])
    study = cu.read(ratings.filter((pl.col("kind") == "metric") | pl.col("item").is_in(articles)))
    answers = [
        cu.correction(study, metrics=names, rng=seed).pairs.filter(pl.col("estimator") == "mixture")
        for seed in range(6)
    ]
    assert len(answers[0]) == 2880
    marked = np.array([rows["note"].str.contains("at the threshold") for rows in answers])
    decided = np.where(marked, "?", np.array([rows["decision"] for rows in answers]))
    assert not any(len(set(value) - {"?"}) > 1 for value in decided.T.tolist())
    assert marked.mean() <= 0.03


QUICK = {"resamples": 100}


def test_people_on_summeval_rank_as_their_mean_scores_do(summeval: cu.Study) -> None:
    board = cu.leaderboard(summeval, human="expert*", metrics="METEOR", **QUICK)
    experts = summeval.ratings.frame.filter(pl.col("rater").str.starts_with("expert"))
    means = experts.group_by("aspect", "system").agg(pl.col("score").mean())
    humans = board.systems.filter(rater="human").join(means, on=["aspect", "system"])
    assert humans.height == 4 * 16
    for (aspect,), rows in humans.group_by("aspect"):
        tau = kendalltau(rows["strength"], rows["score"]).statistic
        # Scores that tie in most battles (consistency) differ significantly after few articles.
        assert tau > (0.85 if aspect in ("consistency", "fluency") else 0.93), (aspect, tau)
        assert (rows["battles"] == 1500).all()
        assert abs(rows["strength"].sum()) < 1e-6
    assert board.corrected.is_empty()  # all battles have human ratings


def test_wmt23_is_corrected_where_people_judged_a_part(wmt23: cu.Study) -> None:
    board = cu.leaderboard(wmt23, human="mqm", metrics="COMET-refA,GEMBA-MQM-src,slide-src", **QUICK)
    humans = board.systems.filter(rater="human")
    # MQM has the human reference first, and no scores of the synthetic reference.
    assert humans["system"][0] == "refA"
    assert humans.filter(system="synthetic_ref").select("battles", "strength", "rank").row(0) == (0, None, None)
    mean = wmt23.ratings.frame.filter(pl.col("rater") == "mqm", pl.col("item") != "").group_by("system")
    both = humans.drop_nulls("strength").join(mean.agg(pl.col("score").mean()), on="system")
    assert kendalltau(both["strength"], both["score"]).statistic > 0.85
    corrected = {row["metric"]: row for row in board.corrected.iter_rows(named=True)}
    assert set(corrected) == {"COMET-refA", "GEMBA-MQM-src"}
    for row in corrected.values():
        assert row["reason"] == ""
        # 460 of 557 segments have MQM ratings, so few annotations can be saved.
        assert row["labels"] < row["battles"]
        assert -0.02 < row["saving"] < 0.1
    assert [note.rule for note in board.notes if "slide-src" in note.message] == ["no-battle"]


def test_pandalm_at_equal_length(shared_data: Path) -> None:
    folder = shared_data / "pandalm"
    study = cu.read(folder / "battles.csv.gz", folder / "outputs.jsonl.gz", invalid="drop")
    plain, equal = (cu.leaderboard(study, covariates=value, **QUICK) for value in ((), "length"))
    assert {board.systems.filter(rater="human")["system"][0] for board in (plain, equal)} == {"llama-7b"}
    # All three raters prefer longer outputs.
    assert (equal.effects.filter(effect="length")["value_low"] > 0).all()
    outcomes = plain.pairs.filter(rater="human").select("wins", "ties", "losses")
    assert (outcomes.height, outcomes.sum().sum_horizontal().item()) == (10, 999)
