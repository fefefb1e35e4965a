from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.scoring.metric import MetricInputs
from tests.scoring.metrics.given import scored, texts

MEASURES = {"precision": "precision", "recall": "recall", "f": "f1"}
KINDS = ["rouge1", "rouge2", "rouge3", "rouge4", "rougeL"]


def summeval(shared_data: Path) -> tuple[pl.DataFrame, MetricInputs]:
    """Item and system of each output, and its text with the first reference, as used for the published columns."""
    with gzip.open(shared_data / "summeval" / "outputs.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    keys = [{"item": str(row["item"]), "system": system} for row in rows for system in row["outputs"]]
    return pl.DataFrame(keys), texts(
        [list(row["outputs"].values()) for row in rows], [row["references"][:1] for row in rows]
    )


@pytest.fixture(scope="module")
def published(shared_data: Path) -> pl.DataFrame:
    """Frame with item, system, and a column for each metric."""
    table = pl.read_csv(shared_data / "summeval" / "ratings.csv.gz", schema_overrides={"item": pl.String})
    return table.filter(pl.col("kind") == "metric").pivot("rater", index=["item", "system"], values="score")


def test_rouge_of_summeval_by_the_first_reference_with_stemming(shared_data: Path, published: pl.DataFrame) -> None:
    # The columns come from ROUGE-1.5.5, whose tokenization and stemming differ slightly from those of rouge-score.
    keys, inputs = summeval(shared_data)
    theirs = keys.join(published, on=["item", "system"], how="left", maintain_order="left")
    results, same = {}, {}
    for kind in KINDS:
        for measure, word in MEASURES.items():
            ours = scored(kind, inputs, measure=measure, stemmer=True).values[:, 0]
            column = theirs[f"rouge-{kind.removeprefix('rouge').lower()}-{word}"].to_numpy()
            results[kind, measure] = float(np.corrcoef(ours, column)[0, 1])
            same[kind, measure] = float((abs(100 * ours - column) < 0.1).mean())
    assert min(results.values()) > 0.9969
    assert [name for name, r in results.items() if r < 0.997] == [("rouge4", "recall")]  # .99697
    assert 0.8 < min(same.values()) < max(same.values()) < 0.97, same


@pytest.mark.slow
def test_bleu_and_chrf_of_wmt23_are_those_that_were_published(wmt23: cu.Study) -> None:
    published = wmt23.ratings.frame.filter(pl.col("rater").is_in(["BLEU-refA", "chrF-refA"]))
    result = cu.score(wmt23, ["BLEU-refA=bleu", "chrF-refA=chrf"]).ratings
    totals = cu.score(wmt23, ["BLEU-refA=corpus-bleu", "chrF-refA=corpus-chrf"]).ratings
    both = published.join(pl.concat([result, totals]), on=["rater", "item", "system"], suffix="_ours")
    assert both.height == 2 * (7241 + 13)  # segments and systems; the reference has no scores
    differ = both.with_columns(differs=(pl.col("score") - pl.col("score_ours")).abs()).filter(pl.col("differs") > 1e-9)
    # All digits agree except for the first segment of a system whose file starts with a byte order mark, which the
    # published chrF counts as a letter.
    assert differ.select("rater", "system").unique().rows() == [("chrF-refA", "AIRC")]
    assert sorted(differ["item"] == "") == [False, True]
    assert differ["differs"].max() < 0.11


# Kendall's τ-b over systems with the mean of three experts, and its 95 % interval:
# docs/howto/choose-a-reference-rule.md.
RULES = {
    "consistency": {
        "rouge1@first": (0.12, -0.08, 0.42),
        "rouge1@best": (0.35, 0.10, 0.55),
        "rouge1@mean": (0.55, 0.23, 0.68),
        "chrf@first": (0.42, 0.23, 0.63),
        "chrf@best": (0.65, 0.40, 0.75),
        "chrf@mean": (0.55, 0.37, 0.63),
    },
    "relevance": {
        "rouge1@first": (0.48, 0.22, 0.67),
        "rouge1@best": (0.58, 0.38, 0.78),
        "rouge1@mean": (0.58, 0.32, 0.73),
        "chrf@first": (0.52, 0.43, 0.75),
        "chrf@best": (0.55, 0.45, 0.77),
        "chrf@mean": (0.45, 0.33, 0.53),
    },
}
AHEAD = {
    ("rouge1@first", "chrf@first"): -0.30,
    ("rouge1@mean", "chrf@mean"): 0.0,
    ("rouge1@first", "rouge1@mean"): -0.43,
}


@pytest.mark.slow
def test_the_rule_of_references_changes_which_metric_is_better(shared_data: Path, tmp_path: Path) -> None:
    folder = shared_data / "summeval"
    outcome = cu.score(
        folder / "outputs.jsonl.gz", ["rouge1=rouge1:stemmer=true@first,best,mean", "chrf@first,best,mean"]
    )
    outcome.ratings.write_csv(tmp_path / "scores.csv")
    study = cu.read([tmp_path / "scores.csv", folder / "ratings.csv.gz"])
    result = cu.agreement(
        study,
        human="expert*",
        metrics="rouge1@*,chrf@*",
        aspect="consistency,relevance",
        compare_by=["kendall_system"],
        rng=0,
    )
    names = ("kendall_system", "kendall_system_low", "kendall_system_high")
    for row in result.metrics.iter_rows(named=True):
        results = [row[name] for name in names]
        assert results == pytest.approx(RULES[row["aspect"]][row["metric"]], abs=0.0151), (row["aspect"], row["metric"])
    assert result.metrics.height == 12
    differences = result.comparisons.filter(aspect="consistency")
    for (better, worse), difference in AHEAD.items():
        (row,) = differences.filter(metric_a=better, metric_b=worse).iter_rows(named=True)
        assert row["difference"] == pytest.approx(difference, abs=0.0051)
        assert (row["difference_low"] <= 0 <= row["difference_high"]) == (difference == 0)
    of_relevance = result.comparisons.filter(aspect="relevance")
    assert (of_relevance["difference_low"] <= 0).all()
    assert (of_relevance["difference_high"] >= 0).all()
