"""Judges of known biases, from texts to the result that reports the bias."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any

import polars as pl
import pytest

import custodes as cu
from custodes.judging.judge import Judge
from custodes.judging.run import judge
from tests.judging.clients import completion, outputs_of

QUALITY = {"W": 0.0, "X": 0.4, "Y": 0.8, "Z": 1.2}


def texts(items: int, seed: int) -> pl.DataFrame:
    """Return texts that contain their quality and have random lengths."""
    draw = random.Random(seed)
    rows = [
        (str(item), system, f"{quality + draw.gauss(0, 1):.3f} {system} " + "of " * draw.randrange(2, 80))
        for item in range(items)
        for system, quality in QUALITY.items()
    ]
    return pl.DataFrame(rows, schema=["item", "system", "text"], orient="row")


def biased(seed: int, *, place: float = 0.0, length: float = 0.0, fails: str = "") -> Any:
    """Return a noisy judge with a bonus for the first position and for length, which gives no verdict on half of the
    comparisons of system `fails`."""
    draw = random.Random(seed)

    def client(body: Mapping[str, Any]) -> dict[str, Any]:
        a, b = outputs_of(body)
        if fails and fails in (a.split()[1], b.split()[1]) and draw.random() < 0.5:
            return completion("I would rather not say.")
        lean = float(a.split()[0]) - float(b.split()[0]) + place + length * (len(a) - len(b)) / 100
        verdict = "A" if lean + draw.gauss(0, 1) > 0 else "B"
        return completion(json.dumps({"verdict": verdict}))

    return client


def judged_study(seed: int, items: int = 60, **bias: Any) -> cu.Study:
    result = judge(texts(items, seed), Judge(model="m"), client=biased(seed, **bias), concurrency=1)
    study = result.study()
    assert isinstance(study, cu.Study)
    return study


def first_of(study: cu.Study) -> dict[str, float]:
    return cu.consistency(study, resamples=200).to_frame("orders").row(0, named=True)


def test_a_bias_for_the_place_is_found() -> None:
    fair, leaning = first_of(judged_study(1)), first_of(judged_study(1, place=1.5))
    assert fair["first_rate_low"] < 0.5 < fair["first_rate_high"]
    assert leaning["first_rate_low"] > 0.6


def test_a_judge_that_fails_on_one_system_is_found() -> None:
    rows = cu.consistency(judged_study(3, fails="Z"), resamples=0).to_frame("missing")
    systems = rows.filter(pl.col("factor") == "system")
    failed = dict(zip(systems["level"], systems["failure_rate"], strict=True))
    assert failed["Z"] == pytest.approx(0.25, abs=0.1)  # queried twice, each time half without a verdict
    assert all(failed[name] == pytest.approx(failed["Z"] / 3, abs=0.05) for name in "WXY")
    assert systems["p_value"].min() < 0.01


def test_what_was_not_asked_is_no_behaviour_of_a_judge() -> None:
    """The judge always prefers the first output, twice; two systems have equal texts on two of three items."""
    frame = texts(30, 4)
    copied = frame.filter(system="W").select("item", copy="text")
    equal = (pl.col("system") == "X") & (pl.col("item").cast(pl.Int64) % 3 > 0)
    frame = frame.join(copied, on="item").with_columns(text=pl.when(equal).then("copy").otherwise("text")).drop("copy")

    def first(body: Mapping[str, Any]) -> dict[str, Any]:
        return completion(json.dumps({"verdict": "A"}))

    result = judge(frame, Judge(model="m"), client=first, repeats=2)
    study = result.study()
    answer = cu.consistency(study, resamples=0)
    row = answer.to_frame("orders").row(0, named=True)
    assert (row["n_both_orders"], row["n_one_order"], row["flip_rate"], row["first_rate"]) == (160, 0, 1.0, 1.0)
    missing = answer.to_frame("missing").filter(factor="all").row(0, named=True)
    assert (missing["queried"], missing["tie_rate"]) == (160 * 4, 0.0)
    assert answer.to_frame("repeats").select("comparisons", "runs").row(0) == (160, 4.0)
    assert answer.to_frame("length")["comparisons"].item() == 160
    assert [note.count for note in answer.notes if note.rule == "not-asked"] == [20]
    settled, _ = study.preferences.settled("mean")
    assert settled.height == 180  # the ties of equal texts count as preferences
    assert result.failures.is_empty()
    assert result.usage["questions"].item() == 640


@pytest.mark.slow
def test_the_share_of_the_first_place_is_covered() -> None:
    """Coverage of the interval of the win rate of the first position."""
    from statistics import NormalDist

    normal, place, hits, runs = NormalDist(), 0.5, 0, 200
    # The mean of P(lean > 0) over both orders of all pairs, for many new texts.
    draws = random.Random(0)
    names = list(QUALITY)
    pairs = [(a, b) for a in names for b in names if a != b]
    truth = sum(
        normal.cdf(QUALITY[a] - QUALITY[b] + draws.gauss(0, 2**0.5) + place) for a, b in pairs for _ in range(5000)
    ) / (5000 * len(pairs))
    for seed in range(runs):
        row = first_of(judged_study(seed, items=40, place=place))
        hits += row["first_rate_low"] <= truth <= row["first_rate_high"]
    assert 0.92 <= hits / runs <= 0.98
