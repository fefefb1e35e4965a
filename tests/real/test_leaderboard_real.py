from __future__ import annotations

from pathlib import Path

import polars as pl
from scipy.stats import kendalltau

import custodes as cu

QUICK = {"resamples": 100}
WMT = "wmt23-en-de/mt-metrics-eval-v2.wmt23.en-de.tar.gz::wmt23/en-de"


def test_people_on_summeval_rank_as_their_mean_scores_do(shared_data: Path) -> None:
    study = cu.read(shared_data / "summeval/ratings.csv.gz")
    board = cu.leaderboard(study, human="expert*", metrics="METEOR", **QUICK)
    experts = study.ratings.frame.filter(pl.col("rater").str.starts_with("expert"))
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


def test_wmt23_is_corrected_where_people_judged_a_part(shared_data: Path) -> None:
    study = cu.read(shared_data / WMT)
    board = cu.leaderboard(study, human="mqm", metrics="COMET-refA,GEMBA-MQM-src,slide-src", **QUICK)
    humans = board.systems.filter(rater="human")
    # MQM has the human reference first, and no scores of the synthetic reference.
    assert humans["system"][0] == "refA"
    assert humans.filter(system="synthetic_ref").select("battles", "strength", "rank").row(0) == (0, None, None)
    mean = study.ratings.frame.filter(pl.col("rater") == "mqm", pl.col("item") != "").group_by("system")
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
    assert plain.systems.filter(rater="human")["opponents"].to_list() == [4] * 5
    assert plain.pairs.filter(rater="human")["battles"].sum() == 999
