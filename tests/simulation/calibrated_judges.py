"""Simulated judges with calibrated probabilities, in several orders and runs, or overconfident by a temperature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy.special import ndtr

import custodes as cu
from custodes.data.study import Study
from custodes.stats.arrays import Floats, Ints

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(41)


@dataclass(frozen=True)
class Sight:
    """How a judge perceives differences of quality with standard deviation 1.

    In each of `orders` and `runs` noise with standard deviation 1 is added, of whose variance the proportion `shared`
    is common to all. One or three `people` add noise of `blur` and vote by majority. `document` consecutive comparisons
    have the same quality. A `temperature` below 1 makes the judge overconfident.
    """

    orders: tuple[str, ...] = ("ab", "ba")
    runs: int = 1
    shared: float = 0.0
    people: int = 1
    blur: float = 0.0
    document: int = 1
    temperature: float = 1.0


def draw_probabilities(sight: Sight, n: int, rng: np.random.Generator) -> tuple[Floats, Ints, Ints]:
    """Probabilities that the first is better (orders, runs, n), human preferences 1 or -1 (people, n), and documents
    (n,)."""
    document = np.arange(n) // sight.document
    quality = rng.normal(size=n)[document]
    separate = rng.normal(size=(len(sight.orders), sight.runs, n))
    view = quality + np.sqrt(sight.shared) * rng.normal(size=n) + np.sqrt(1 - sight.shared) * separate
    # The perceived difference has variance 2, half of it from quality, which is then normal with mean view / 2 and
    # variance 1 / 2.
    sharp = (_chance(turn * view / 2, sight) ** (1 / sight.temperature) for turn in (1, -1))
    first, last = sharp
    won = np.where(quality + sight.blur * rng.normal(size=(sight.people, n)) > 0, 1, -1)
    return first / (first + last), won, document


def calibrated(sight: Sight, n: int, seed: int) -> Study:
    """Study of `n` items, each with one comparison of two systems by a judge and annotators."""
    chances, won, document = draw_probabilities(sight, n, np.random.default_rng(seed))
    item = [f"i{k:05}" for k in range(n)]
    pairs = pl.DataFrame({"item": item, "system_a": "Aster", "system_b": "Birch"})
    judge_rows = [
        pairs.with_columns(
            rater=pl.lit("judge"),
            kind=pl.lit("metric"),
            order=pl.lit(order),
            repeat=pl.lit(str(run)),
            preference=np.where(chance > 0.5, 1, -1),
            p_a=chance,
            p_b=1 - chance,
        )
        for order, runs in zip(sight.orders, chances, strict=True)
        for run, chance in enumerate(runs)
    ]
    humans = [
        pairs.with_columns(rater=pl.lit(f"person{k}"), kind=pl.lit("human"), preference=value)
        for k, value in enumerate(won)
    ]
    items = pl.DataFrame({"item": item, "cluster": [f"d{value}" for value in document]})
    return cu.read(pl.concat([*judge_rows, *humans], how="diagonal_relaxed"), items=items)


def _chance(mean: Floats, sight: Sight) -> Floats:
    """Probability that the majority prefers the first, for normal quality with this mean and variance 1 / 2, by
    quadrature."""
    if not sight.blur:
        return np.asarray(ndtr(mean * np.sqrt(2)))
    person = ndtr((mean[..., None] + NODES * np.sqrt(0.5)) / sight.blur)
    most = person if sight.people == 1 else person**2 * (3 - 2 * person)
    return np.asarray(most @ WEIGHTS / WEIGHTS.sum())
