from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from custodes.data.reading import read
from custodes.errors import InputError

WMT = "wmt23-en-de/mt-metrics-eval-v2.wmt23.en-de.tar.gz"


def test_summeval(shared_data: Path) -> None:
    study = read(shared_data / "summeval/ratings.csv.gz", shared_data / "summeval/outputs.jsonl.gz")
    assert len(study.item_labels()) == 100
    assert len(study.systems) == 16
    assert study.humans == (*(f"expert{k}" for k in (1, 2, 3)), *(f"turker{k}" for k in (1, 2, 3, 4, 5)))
    assert set(study.aspects) == {"coherence", "consistency", "fluency", "relevance"}
    assert len(study.metrics) == 34
    # 100 x 16 outputs, 8 annotators x 4 aspects and 34 metrics, without gaps
    assert study.ratings.frame.height == 1600 * (8 * 4 + 34)
    assert study.outputs is not None
    assert study.outputs.texts.height == 1600
    assert set(study.outputs.sources["references"].list.len()) == {11}
    assert study.notes == ()
    assert study.name == "ratings.csv.gz + outputs.jsonl.gz"


def test_hanna(shared_data: Path) -> None:
    study = read(shared_data / "hanna/ratings.csv.gz")
    assert (len(study.item_labels()), len(study.systems), len(study.humans)) == (96, 11, 3)
    assert len(study.aspects) == 6
    aspects = (
        study.ratings.frame.filter(pl.col("rater").is_in(study.metrics)).group_by("rater").agg(pl.col("aspect").first())
    )
    assert (aspects["aspect"] == "").sum() == 72
    assert set(aspects.filter(pl.col("aspect") != "")["aspect"].value_counts()["count"]) == {20}


def test_wmt23(shared_data: Path) -> None:
    study = read(shared_data / WMT)
    assert study.name == "mt-metrics-eval-v2.wmt23.en-de.tar.gz::wmt23/en-de"
    segments = study.ratings.frame.filter(pl.col("item") != "")
    assert study.humans == ("da-sqm", "mqm")
    assert len(set(study.metrics) & set(segments["rater"])) == 43
    # two more have only a .sys.score file (ls metric-scores/en-de)
    assert set(study.metrics) - set(segments["rater"]) == {"HuaweiTSC_EE_Metric-refA", "slide-src"}
    assert len(study.item_labels()) == 557
    # 13 outputs and the reference, which reference-free metrics score as a system
    assert len(study.systems) == 14
    scores = study.ratings.frame
    mqm = scores.filter(pl.col("rater") == "mqm")
    single = mqm.filter(pl.col("item") != "")
    assert single["item"].n_unique() == 460
    # grep -c None en-de.mqm.seg.score: 1261 of 557 x 13 lines
    assert single.height == 557 * 13 - 1261
    # head -1 en-de.mqm.sys.score
    first = mqm.filter((pl.col("item") == "") & (pl.col("system") == "AIRC"))
    assert first["score"].to_list() == [-14.227826086956528]
    # sed -n 2p en-de.mqm.seg.score
    assert single.filter((pl.col("item") == "2") & (pl.col("system") == "AIRC"))["score"].to_list() == [
        -25.200000000000003
    ]
    assert study.items.frame.row(0) == ("1", "aj-english.33941", "news", "", None, None, None)
    # cut -f1 en-de.docs | sort -u | wc -l, and the same with -f2
    assert study.items.frame["group"].n_unique() == 4
    assert study.items.frame["cluster"].n_unique() == 192
    assert study.outputs is not None
    assert study.outputs.texts.height == 557 * 14
    # grep -c None over the two human segment files: 1261 and 104
    assert {note.rule: note.count for note in study.notes} == {"missing-score": 1261 + 104, "unused-files": 3}


def test_the_mean_of_segments_is_the_system_score(shared_data: Path) -> None:
    """The file's MQM system scores are means over its segments, so items and systems are matched correctly."""
    scores = read(f"{shared_data / WMT}::en-de").ratings.frame.filter(pl.col("rater") == "mqm")
    mean = scores.filter(pl.col("item") != "").group_by("system").agg(pl.col("score").mean().alias("mean"))
    both = scores.filter(pl.col("item") == "").join(mean, on="system")
    assert both.height == 13
    assert (both["score"] - both["mean"]).abs().max() == pytest.approx(0, abs=1e-9)


def test_an_unpacked_tar_is_the_same_study(shared_data: Path, tmp_path: Path) -> None:
    import tarfile

    with tarfile.open(shared_data / WMT) as tar:
        tar.extractall(tmp_path, filter="data")
    packed = read(shared_data / WMT)
    for folder in ("", "mt-metrics-eval-v2", "mt-metrics-eval-v2/wmt23"):
        unpacked = read(f"{tmp_path / folder}::wmt23/en-de")
        assert unpacked.ratings.frame.equals(packed.ratings.frame)
        assert unpacked.items.frame.equals(packed.items.frame)
        assert unpacked.raters.frame.equals(packed.raters.frame)


def test_rewardbench(shared_data: Path) -> None:
    study = read(shared_data / "rewardbench/scores.tsv.gz")
    assert study.humans == ("ref",)
    assert len(study.metrics) == 10
    assert "metametrics_pred" in study.metrics
    assert study.items.frame.height == study.preferences.frame.height == 2985
    assert study.items.frame["group"].n_unique() == 23
    assert study.ratings.frame.height == 2985 * 2 * 10
    assert set(study.preferences.frame["preference"]) == {1}
    # The design page has .93 for the proportion of pairs in which metametrics_pred prefers chosen (weighted by
    # section). Unweighted it must be similar: with chosen and rejected swapped it would be .07, at random .5.
    scores = study.ratings.frame.filter(pl.col("rater") == "metametrics_pred").pivot(
        "system", index="item", values="score"
    )
    assert (scores["chosen"] > scores["rejected"]).mean() > 0.9


def test_pandalm(shared_data: Path) -> None:
    path = shared_data / "pandalm/battles.csv.gz"
    # cut -d, -f6
    #  grep -nm1 garbage prints line 575
    with pytest.raises(
        InputError,
        match=r"^battles.csv.gz: 25 of 4,995 verdicts cannot be read \('garbage' 25 times from row 574\); allowed",
    ):
        read(path)
    study = read(path, shared_data / "pandalm/outputs.jsonl.gz", invalid="drop")
    assert (len(study.item_labels()), len(study.systems)) == (999, 5)
    assert (len(study.humans), len(study.metrics)) == (3, 2)
    assert study.preferences.frame.height == 999 * 5 - 25
    # uniq -c of the preferences: 2148 model_a, 2351 model_b, 471 tie; model_a < model_b in every row
    counts = dict(study.preferences.frame["preference"].value_counts().iter_rows())
    assert counts == {1: 2148, -1: 2351, 0: 471}
    notes = {note.rule: (note.count, note.message) for note in study.notes}
    assert notes["unreadable-verdict"] == (
        25,
        "battles.csv.gz: 25 verdicts could not be read and were dropped (gpt-3.5-turbo 25)",
    )
    # six texts are the JSON value true
    assert notes["output-not-text"][0] == 6
    assert "partial-join" not in notes


def test_llmbar(shared_data: Path) -> None:
    study = read(shared_data / "llmbar/judgments.csv.gz")
    verdicts = study.preferences.frame
    judge_verdicts = verdicts.filter(pl.col("rater") != "gold")
    # 44,456 comparisons in two orders; cut and uniq -c count 174 empty preferences in each order
    assert judge_verdicts.height == 2 * 44456 - 2 * 174
    assert {note.rule: note.count for note in study.notes} == {"missing-verdict": 348}
    assert dict(judge_verdicts["order"].value_counts().iter_rows()) == {"ab": 44456 - 174, "ba": 44456 - 174}
    gold = verdicts.filter(pl.col("rater") == "gold")
    assert gold.height == study.items.frame.height == verdicts["item"].n_unique()
    assert study.humans == ("gold",)
    assert set(study.items.frame["group"]) == set(study.items.frame["item"].str.replace(r"/[^/]*$", ""))
    # "60 % of verdicts are order-consistent" in the project's notes; by uniq -c of the three columns
    both = judge_verdicts.pivot("order", index=["item", "rater", "repeat"], values="preference").drop_nulls()
    assert (both["ab"] == both["ba"]).sum() == 8013 + 4943 + 4868 + 8499
