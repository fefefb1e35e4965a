"""Thresholds, alarms and labels of `route` on simulated judges with a known probability of error."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
import pytest
from scipy.stats import norm

import custodes as cu
from custodes.stats.arrays import Bools, Floats
from custodes.stats.rates.selective import e_values, fixed_sequence
from tests.simulation.rates import is_at_most, most

ACCEPTABLE = 0.1


class Judge(NamedTuple):
    """Confidence (n,) and errors (n,), and the probability of an error at each confidence (n,)."""

    confidence: Floats
    wrong: Bools
    probability: Floats


def judge(n: int, *, error: float, auc: float, rng: np.random.Generator) -> Judge:
    """Draw normal confidences, lowered for errors by the distance that gives the area under the ROC curve."""
    distance = np.sqrt(2) * norm.ppf(auc)
    wrong = rng.random(n) < error
    latent = rng.normal(size=n) + distance * wrong
    density = error * norm.pdf(latent - distance), (1 - error) * norm.pdf(latent)
    return Judge(-latent, wrong, density[0] / (density[0] + density[1]))


def accepted(confidence: Floats, wrong: Floats, n_labelled: int) -> Bools:
    """Judgements accepted with the labels of the first `n_labelled`."""
    levels = np.quantile(confidence, np.arange(20) / 20, method="lower")[::-1]
    inside = confidence[:, np.newaxis] >= levels
    counts = [(inside[:n_labelled] * row[:n_labelled, np.newaxis]).sum(axis=0) for row in (wrong, np.ones(len(wrong)))]
    _, last = fixed_sequence(counts[0], counts[1], max_disagreement=ACCEPTABLE, confidence=0.95)
    return inside[:, last] if last >= 0 else np.zeros(len(wrong), dtype=bool)


@pytest.mark.slow
@pytest.mark.parametrize(("error", "auc"), [(0.1, 0.9), (0.15, 0.9), (0.1, 0.8), (0.15, 0.8)])
def test_accepted_judgements_disagree_at_most_as_often_as_acceptable(error: float, auc: float) -> None:
    rng = np.random.default_rng(0)
    for n_labelled in (200, 500, 1000):
        exceeded, shares = 0, []
        for _ in range(500):
            sample = judge(4000, error=error, auc=auc, rng=rng)
            chosen = accepted(sample.confidence, sample.wrong.astype(float), n_labelled)
            exceeded += bool(sample.wrong[n_labelled:][chosen[n_labelled:]].mean() > ACCEPTABLE) if chosen.any() else 0
            expected = accepted(sample.confidence, sample.probability, n_labelled)
            shares.append((chosen.mean(), expected.mean()))
        assert is_at_most(exceeded, 500, 0.05)
        reached, by_probability = np.mean(shares, axis=0)
        assert abs(reached - by_probability) < {200: 0.15, 500: 0.06, 1000: 0.05}[n_labelled]


@pytest.mark.slow
def test_alarms_are_rarely_false_and_find_a_rise() -> None:
    rng = np.random.default_rng(0)
    false = sum((e_values(rng.random(2000) < ACCEPTABLE, max_disagreement=ACCEPTABLE) >= 20).any() for _ in range(400))
    assert false / 400 <= most(0.05, 400)
    for before in (0.07, 0.1):
        alarms = sum(
            (e_values(rng.random(300) < before + 0.1, max_disagreement=ACCEPTABLE) >= 20).any() for _ in range(400)
        )
        assert alarms / 400 >= 0.8


@pytest.mark.slow
def test_labels_by_expected_error_save_labels_and_the_rate_is_unbiased() -> None:
    rng = np.random.default_rng(0)
    words = np.array(["fail", "pass"])
    columns = {"item": "id", "score": ["human:{rater:human}", "metric:{rater:judge}"]}
    errors, widths, inside = [], [], 0
    for seed in range(40):
        n = 3000
        good, sample = rng.random(n) < 0.7, judge(n, error=0.15, auc=0.9, rng=rng)
        data = pl.DataFrame(
            {
                "id": np.arange(n).astype(str),
                "judge": words[(good ^ sample.wrong).astype(int)],
                "judge_confidence": sample.confidence,
                "human": pl.Series(words[good.astype(int)]).set(pl.Series(np.arange(n) >= 100), None),
            }
        )
        outputs = cu.route(data, add=300, rng=seed).outputs
        truth = pl.Series(words[good.astype(int)])
        by_error = data.with_columns(
            human=pl.when(outputs["label_next"]).then(truth).otherwise("human"), probability=outputs["probability"]
        )
        uniform = data.with_columns(human=pl.when(pl.int_range(n) < 400).then(truth))
        rows = [
            cu.rates(cu.read(part.drop("judge_confidence"), columns=columns | extra)).rates.row(0, named=True)
            for part, extra in ((by_error, {"probability": "probability"}), (uniform, {}))
        ]
        widths.append([row["corrected_rate_high"] - row["corrected_rate_low"] for row in rows])
        errors.append(rows[0]["corrected_rate"] - good.mean())
        inside += rows[0]["corrected_rate_low"] <= 0.7 <= rows[0]["corrected_rate_high"]
    between_outputs = (2 * 1.96) ** 2 * 0.7 * 0.3 / 3000  # part of the squared width that labels do not reduce
    narrow, wide = np.mean(widths, axis=0) ** 2 - between_outputs
    assert narrow / wide <= 0.62  # .52 of the labels with 10,000 outputs
    assert abs(np.mean(errors)) < 3 * np.std(errors) / np.sqrt(40)
    assert inside >= 34


@pytest.mark.slow
def test_strengths_from_routed_comparisons_are_unbiased() -> None:
    """Half of the comparisons are hard: annotators prefer both systems equally often, and the judge errs more often and
    is less confident, so experts mostly label hard comparisons."""
    n, strength = 3000, np.array([0.6, 0.2, -0.1, -0.7])
    systems, places = np.array(["A", "B", "C", "D"]), np.array(["2", "1"])
    columns = {"item": "item", "score": ["human:{rater:human}_choice", "metric:{rater:judge}_choice", "metric:{rater}"]}
    entries: dict[str, list[Floats]] = {"human": [], "corrected:judge": []}
    complete = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        first = rng.integers(0, 4, n)
        second = (first + rng.integers(1, 4, n)) % 4
        hard = rng.random(n) < 0.5
        wins = rng.random(n) < 1 / (1 + np.exp(2 * (strength[second] - strength[first]) * ~hard))
        wrong = rng.random(n) < np.where(hard, 0.25, 0.05)
        choice = pl.Series(places[wins.astype(int)])
        battles = pl.DataFrame(
            {
                "item": np.arange(n).astype(str),
                "system_a": systems[first],
                "system_b": systems[second],
                "human_choice": choice.set(pl.Series(np.arange(n) >= 400), None),
                "judge_choice": places[(wins ^ wrong).astype(int)],
                "judge_confidence": 1 / (1 + np.exp(rng.normal(size=n) / 2 + 1.2 * wrong + 1.5 * hard - 2.5)),
            }
        )
        outputs = cu.route(cu.read(battles, columns=columns), disagreement=0.1, rng=seed).outputs
        labelled = pl.when(outputs["label_next"]).then(choice).otherwise("human_choice")
        answers = battles.drop("judge_confidence").with_columns(human_choice=labelled)
        study = cu.read(answers, items=outputs, columns={"winner": "{rater}_choice"})
        everything = battles.drop("judge_confidence").with_columns(human_choice=choice)
        board = cu.leaderboard(study, human="human", resamples=200).systems
        whole = cu.leaderboard(
            cu.read(everything, columns={"winner": "{rater}_choice"}), human="human", resamples=0
        ).systems
        complete.append(whole.filter(rater="human").sort("system")["strength"].to_numpy())
        for rater, results in entries.items():
            rows = board.filter(rater=rater).sort("system")
            results.append(rows.select("strength", "strength_low", "strength_high").to_numpy())
    truth = np.mean(complete, axis=0)
    for results in entries.values():
        estimate, low, high = np.moveaxis(results, 2, 0)
        assert (np.abs(estimate.mean(axis=0) - truth) < 4 * estimate.std(axis=0) / np.sqrt(60)).all()
        assert 0.9 <= ((low <= truth) & (truth <= high)).mean() <= 0.99
