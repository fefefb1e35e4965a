from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.evaluate.verdict.metrics import _length_preferences
from custodes.evaluate.verdict.verdict import verdict_of


def scored(metrics: dict[str, tuple[float, ...]], items: int = 60, noise: float = 1.0) -> pl.DataFrame:
    """Return scores of three systems with a system effect for each metric."""
    rng = np.random.default_rng(20_260_230)
    quality = rng.normal(size=(items, 3))
    rows = [
        (f"i{i}", "abc"[k], name, "metric", quality[i, k] + shift[k] + noise * rng.normal())
        for name, shift in metrics.items()
        for i in range(items)
        for k in range(3)
    ]
    return pl.DataFrame(rows, schema=["item", "system", "rater", "kind", "score"], orient="row")


def sentences(frame: pl.DataFrame, kind: str) -> list[str]:
    return cu.verdict(frame, resamples=200).verdict.filter(kind=kind)["text"].to_list()


def test_metrics_that_agree_name_one_system() -> None:
    frame = scored({"m1": (2.0, 0.0, 0.0), "m2": (2.0, 0.0, 0.0)})
    best = sentences(frame, "best")
    assert best[0] == "By m1 and m2, a ranks first: significantly ahead of every other system."
    assert best[1].startswith("Of 3 pairs of systems, all metrics decide 2 equally. Two metrics")
    assert any("There are no human ratings" in text for text in sentences(frame, "design"))
    value = cu.complementarity(frame, resamples=20).pairs["complementarity"].item()
    assert sentences(frame, "trust") == [
        "Without human ratings, it is unknown which metric is right. The most similar metrics are m1 and m2 "
        f"(complementarity {value:.2f}). A complementarity of 0 means equal rankings of the outputs of an item, and "
        ".5 means unrelated rankings."
    ]
    three = scored({"m1": (2.0, 0.0, 0.0), "m2": (2.0, 0.0, 0.0), "m3": (-2.0, 0.0, 0.0)})
    pairs = cu.complementarity(three, resamples=20).pairs.sort("complementarity")
    first, last = (
        f"{row['rater_a']} and {row['rater_b']} (complementarity {row['complementarity']:.2f})"
        for row in (pairs.row(0, named=True), pairs.row(-1, named=True))
    )
    assert sentences(three, "trust")[0].endswith(
        f"The most similar metrics are {first}, the least similar metrics are {last}. A complementarity of 0 means "
        "equal rankings of the outputs of an item, and .5 means unrelated rankings."
    )
    assert first.startswith("m1 and m2 (")


def test_metrics_that_contradict_each_other_are_told() -> None:
    best = sentences(scored({"m1": (2.0, 0.0, -2.0), "m2": (-2.0, 0.0, 2.0)}), "best")
    assert set(best[:2]) == {
        f"By {m}, {s} ranks first: significantly ahead of every other system." for m, s in (("m1", "a"), ("m2", "c"))
    }
    assert "Two metrics contradict each other significantly on 3 pairs (each metric" in best[2]


@pytest.mark.parametrize(("text_of_a", "is_constant"), [("I am the best.", True), ("", False)])
def test_a_constant_text_that_a_judge_ranks_first_is_a_warning(text_of_a: str, *, is_constant: bool) -> None:
    rng = np.random.default_rng(0)
    rows = [
        {"item": f"i{i}", "model_a": "a", "model_b": other, "rater": "judge", "kind": "metric", "winner": winner}
        for i in range(60)
        for other, winner in (("b", "model_a"), ("c", "model_a" if rng.random() < 0.9 else "model_b"))
    ]
    texts = [
        {"item": f"i{i}", "system": name, "text": text_of_a if name == "a" and is_constant else f"{name} {i} " * length}
        for i in range(60)
        for name, length in (("a", 3), ("b", 2), ("c", 1))
    ]
    result = cu.verdict(cu.read(pl.DataFrame(rows), pl.DataFrame(texts)), resamples=200).verdict
    warning = (
        "By judge, a ranks first, but gave the same text for all items. Do not trust this ranking: read the outputs, "
        "and rank the other systems alone (--systems '!a')."
    )
    assert (warning in result.filter(kind="best")["text"]) is is_constant
    assert result.filter(kind="design")["text"].to_list()[-1] == (
        "There are no human ratings, so these sentences describe the preferences of the metrics, but not which metric "
        "is right. Metrics that agree with each other may share an error."
    )
    assert result.filter(kind="labels")["text"].to_list() == [
        "Collect human ratings of some items: they show which metric to trust (custodes agreement). To compare two "
        "systems with human ratings alone, about 200 comparisons detect a win rate of 60 % (5 % level, about 80 % "
        "power; custodes plan computes the power of a study)."
    ]


def judged_texts(p_longer: dict[str, float], n_items: int) -> cu.Study:
    """Return a study of two systems with random lengths, in which a judge prefers the longer output with `p_longer`."""
    rng = np.random.default_rng(1)
    words = rng.integers(2, 40, (n_items, 2))
    rows = [
        {
            "item": f"i{i}",
            "model_a": "a",
            "model_b": "b",
            "rater": judge,
            "kind": "metric",
            "winner": "model_a" if (words[i, 0] > words[i, 1]) == (rng.random() < p) else "model_b",
        }
        for judge, p in p_longer.items()
        for i in range(n_items)
    ]
    texts = [
        {"item": f"i{i}", "system": name, "text": f"{name}{i} " * words[i, k]}
        for i in range(n_items)
        for k, name in ((0, "a"), (1, "b"))
    ]
    return cu.read(pl.DataFrame(rows), pl.DataFrame(texts))


@pytest.mark.parametrize(("p_longer", "length_text"), [(0.8, "longer"), (0.2, "shorter")])
def test_a_preference_for_length_is_reported_without_a_verdict_on_it(p_longer: float, length_text: str) -> None:
    faults = cu.verdict(judged_texts({"judge": p_longer}, 200), resamples=200).verdict.filter(kind="faults")
    (text,) = [text for text in faults["text"] if "prefers the" in text]
    percentage = re.fullmatch(
        rf"judge prefers the {length_text} output in (\d+) % of comparisons \(a tie counts half\). "
        r"Without human ratings, it is unknown "
        rf"whether this is a bias or {length_text} outputs are better.",
        text,
    )
    assert percentage
    assert 70 < int(percentage[1]) < 90


def test_a_preference_for_length_is_adjusted_for_the_number_of_judges() -> None:
    p_longer = {f"judge{k}": 0.5 for k in range(11)} | {"weak": 0.67, "biased": 0.8}
    results = {"consistency": cu.consistency(judged_texts(p_longer, 100), resamples=20)}
    lengths = results["consistency"].length
    excludes_zero = (lengths["raw_effect_low"] > 0) | (lengths["raw_effect_high"] < 0)
    assert excludes_zero.to_list() == (lengths["raw_p_value"] < 0.05).to_list()  # one null
    assert set(lengths.filter(excludes_zero)["rater"]) >= {"weak", "biased"}
    (text,) = _length_preferences(results, "")
    assert text.startswith("biased prefers the longer output")


def test_the_options_of_the_verdict_are_those_of_its_questions() -> None:
    options = {"confidence": 0.8, "resamples": 30, "rng": 4}
    texts = judged_texts({"judge": 0.65, "other": 0.4}, 60)
    answers = {"check": cu.check(texts, rng=4), "leaderboard": cu.leaderboard(texts, **options)}
    answers["consistency"] = cu.consistency(texts, alpha=0.5, **options)
    assert cu.verdict(texts, alpha=0.5, **options).verdict.equals(verdict_of(answers).verdict)
    metrics = scored({"m1": (0.5, 0.0, 0.0), "m2": (0.5, 0.0, 0.0), "m3": (0.0, 0.3, 0.0)})
    options["metrics"] = "m[12]"
    answers = {"check": cu.check(metrics, rng=4, metrics="m[12]"), "leaderboard": cu.leaderboard(metrics, **options)}
    answers["complementarity"] = cu.complementarity(metrics, **options)
    assert cu.verdict(metrics, **options).verdict.equals(verdict_of(answers).verdict)


def test_equal_systems_have_no_best() -> None:
    best = sentences(scored({"m1": (0.0, 0.0, 0.0)}), "best")
    assert len(best) == 1
    assert best[0].startswith("By m1, it is undecided which of ")
    assert best[0].endswith(" ranks first.")


def test_the_report_needs_no_human_ratings() -> None:
    report = cu.report(scored({"m1": (2.0, 0.0, 0.0), "m2": (2.0, 0.0, 0.0)}), resamples=50)
    assert set(report.results) == {"check", "leaderboard", "complementarity"}
    assert report.context.absent["consistency"].startswith("the study has no verdicts and no texts")
    assert "Win rates by {metric}" in report.html
    assert report._charts()
    assert "by human ratings" not in report.html.split('<script type="text/plain"')[0]


def test_one_metric_is_enough() -> None:
    report = cu.report(scored({"m1": (2.0, 0.0, 0.0)}), resamples=50)
    assert "complementarity" in report.context.absent
    assert sentences(scored({"m1": (2.0, 0.0, 0.0)}), "trust") == [
        "There is one metric and no human rating, so no metric can be recommended yet."
    ]


def test_complementarity_of_metrics_alone() -> None:
    frame = scored({"m1": (0.0, 0.0, 0.0), "m2": (0.0, 0.0, 0.0)})
    result = cu.complementarity(frame, resamples=20)
    human = frame.filter(rater="m1").with_columns(rater=pl.lit("ann"), kind=pl.lit("human"))
    whole = cu.complementarity(pl.concat([frame, human]), resamples=20)
    value = result.pairs["complementarity"].item()
    assert value == pytest.approx(whole.pairs.filter(rater_a="m1", rater_b="m2")["complementarity"].item())
    assert result.gaps.is_empty()
    assert [note.rule for note in result.notes] == ["no-annotators"]


def test_a_cycle_and_unconnected_systems_have_no_best() -> None:
    names = ["item", "system_a", "system_b", "rater", "kind", "preference"]
    ring = [("a", "b"), ("b", "c"), ("c", "a")]
    rows = [(f"{k}{x}", x, y, "judge", "metric", 1 if k % 5 else -1) for k in range(300) for x, y in ring]
    cycle = sentences(pl.DataFrame(rows, schema=names, orient="row"), "best")
    assert cycle[0].startswith("By judge, preferences form a cycle, so no ranking is consistent with the preferences (")
    separated = [
        (f"{k}{x}", x, y, "judge", "metric", 1 if k % 5 else -1) for k in range(60) for x, y in (("a", "b"), ("c", "d"))
    ]
    best = sentences(pl.DataFrame(separated, schema=names, orient="row"), "best")
    assert best == [
        "By judge, it is unknown which system is best, because not all systems are connected by comparisons."
    ]
