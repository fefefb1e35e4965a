from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import custodes as cu

pytestmark = pytest.mark.slow

METRICS = (
    "bleu",
    *(f"{name}@first,best,mean" for name in ("chrf", "rouge1", "rouge2", "rougeL")),
    *("length", "novelty", "cider", "js"),
)
ASPECTS = ("coherence", "consistency", "fluency", "relevance")
KNOWN = 70


@pytest.fixture(scope="module")
def summeval(shared_data: Path) -> cu.Study:
    """SummEval with seventeen metrics computed from its texts, and the expert ratings."""
    scores = cu.score(cu.read(shared_data / "summeval" / "outputs.jsonl.gz"), METRICS)
    assert scores.skipped.is_empty()
    experts = pl.read_csv(shared_data / "summeval" / "ratings.csv.gz").filter(pl.col("rater").str.starts_with("expert"))
    scored = scores.ratings.with_columns(kind=pl.lit("metric"))
    return cu.read(scored, experts, raters=scores.raters.select("rater", "kind", "higher_is_better", "low", "high"))


@pytest.mark.parametrize(
    ("turned", "gains", "conclusions"),
    [
        (False, (0.121, 0.213, 0.106, 0.092), ("gain", "gain", "gain", "gain")),
        (True, (0.027, -0.047, -0.059, 0.092), ("no gain", "no gain", "no gain", "gain")),
    ],
    ids=["as declared", "novelty turned round"],
)
def test_a_combination_on_articles_never_seen(
    summeval: cu.Study, tmp_path: Path, turned: bool, gains: tuple[float, ...], conclusions: tuple[str, ...]
) -> None:
    """docs/howto/from-texts-to-a-combined-metric.md: trained on 70 articles, validated on 30."""
    if turned:
        summeval = summeval.describe(raters=pl.DataFrame({"rater": ["novelty"], "higher_is_better": ["false"]}))
    humans = summeval.raters.select_kind("human")
    articles = summeval.item_labels()
    training = pl.col("item").is_in(articles[:KNOWN].implode()) | ~pl.col("rater").is_in(list(humans))
    rows = summeval.ratings.frame.join(summeval.raters.frame.select("rater", "kind"), on="rater")
    seen, new = (
        cu.read(rows.filter(value), raters=summeval.raters.frame.select("rater", "higher_is_better", "low", "high"))
        for value in (training, ~training | ~pl.col("rater").is_in(list(humans)))
    )
    warned = cu.check(seen, aspect="consistency").problems.filter(rule="negative-agreement")["examples"].to_list()
    assert warned == ([] if turned else [["novelty"]])
    results = {}
    for aspect in ASPECTS:
        outcome = cu.combine(seen, target=aspect, method=("ridge", "best"), repeats=3, resamples=0)
        result = cu.validate(new, model=outcome.model.save(tmp_path / f"{aspect}.json"), aspect=aspect)
        (row,) = result.gains.filter(rater="best single", unseen="items").to_dicts()
        results[aspect] = (row["gain"], row["conclusion"])
    assert [gain for gain, _ in results.values()] == pytest.approx(gains, abs=0.01)
    assert tuple(conclusion for _, conclusion in results.values()) == conclusions
