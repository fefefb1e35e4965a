"""Coverage and error rates of the question `rates` in simulated studies with known rates.

    python benchmarks/rates_errors.py [PART] [--studies N]

Every part draws studies with a known rate, TPR and TNR, and prints coverage of intervals, their width relative to those
of human labels alone, and the rates of true and false findings of a difference.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from itertools import product
from typing import Literal, NamedTuple

import numpy as np
import polars as pl
from scipy.special import ndtri

from custodes.evaluate.rates.comparisons import add_decisions, add_findings, difference_rows, slice_row
from custodes.evaluate.rates.estimates import JudgeRates, judge_rates
from custodes.evaluate.rates.judge_labels import judges_of
from custodes.evaluate.rates.outputs import LabelledOutputs
from custodes.stats.rates.alternative_annotator_test import advantages, replacement
from custodes.stats.rates.measures import BINARY, GENERAL, kappa

JUDGES = ((0.6, 0.95), (0.7, 0.7), (0.9, 0.9), (0.99, 0.99), (0.95, 0.6))
"""TPR and TNR."""


def labelled(
    gold: np.ndarray,
    judge: np.ndarray,
    labelled: np.ndarray,
    *,
    system: np.ndarray,
    unit: np.ndarray,
    scores: bool = False,
) -> LabelledOutputs:
    """Outputs as input of `rates`: binary human labels of some, a judge's labels or scores of all."""
    human_labels = np.full((len(gold), 2), np.nan)
    human_labels[labelled] = np.stack([~gold[labelled], gold[labelled]], axis=1)
    names = tuple(f"s{k}" for k in range(int(system.max()) + 1))
    return LabelledOutputs(
        aspect="",
        words=("fail", "pass"),
        ordered=False,
        systems=names,
        metrics=("judge",),
        annotators=("expert",),
        system=system,
        unit=unit,
        gold=human_labels,
        annotated=np.full((1, len(gold)), np.nan),
        judged=judge[np.newaxis].astype(np.float64),
        is_score=np.array([scores]),
        weight=np.ones(len(gold)),
        number=np.ones(len(gold)),
        table=pl.DataFrame({"item": unit.astype(str), "system": np.array(names)[system]}),
        consensus="vote",
        human_agreement=np.nan,
        human_alpha=np.nan,
        notes=[],
    )


def judge_labels(gold: np.ndarray, tpr: float, tnr: float, rng: np.random.Generator) -> np.ndarray:
    """Draw a judge's binary labels."""
    return np.where(gold, rng.random(len(gold)) < tpr, rng.random(len(gold)) >= tnr)


Cells = list[tuple[object, float, float, float]]
"""Simulated case, coverage, mean width, and mean width of the interval by human labels alone."""


def summary(name: str, cells: Cells) -> None:
    """Print mean and minimum coverage over cells, and mean width relative to human labels alone."""
    coverage = np.array([cell[1] for cell in cells])
    ratio = np.array([cell[2] / cell[3] for cell in cells if cell[3] > 0])
    width = f", width over human labels alone: mean {ratio.mean():.3f}, largest {ratio.max():.3f}" if len(ratio) else ""
    print(f"{name}: coverage mean {coverage.mean():.3f}, lowest {coverage.min():.3f}{width}")
    for cell in sorted(cells, key=lambda cell: cell[1])[:4]:
        print(f"    {cell[1]:.3f} {cell[0]}")


def covers(part: JudgeRates, rate: float) -> tuple[float, float, float]:
    """Whether the interval contains the rate, its width, and its width by human labels alone."""
    corrected, human = part.corrected, part.human
    return float(corrected.low <= rate <= corrected.high), corrected.high - corrected.low, human.high - human.low


def coverage(studies: int, rng: np.random.Generator) -> dict[str, Cells]:
    """Independent outputs, labelled at random, within the judge's labels, or by human label."""
    result = {}
    for sampling in ("random", "by-judge", "by-label"):
        cells = []
        for n, rate, (tpr, tnr) in product((30, 50, 100, 200, 400), (0.02, 0.05, 0.2, 0.5, 0.8, 0.95, 0.98), JUDGES):
            seen = []
            for _ in range(studies):
                gold = rng.random(1000) < rate
                judge = judge_labels(gold, tpr, tnr, rng)
                chosen = np.zeros(1000, dtype=bool)
                if sampling == "random":
                    chosen[:n] = True
                elif sampling == "by-judge":
                    for label in (False, True):
                        chosen[np.flatnonzero(judge == label)[: n // 2]] = True
                else:  # an external golden set, which is not part of the judge's rate
                    extra = np.arange(n) % 2 == 0
                    gold = np.append(gold, extra)
                    judge = np.append(judge, judge_labels(extra, tpr, tnr, rng))
                    chosen = np.append(chosen, np.ones(n, dtype=bool))
                unit = np.arange(len(gold))
                outputs = labelled(gold, judge, chosen, system=np.zeros(len(gold), dtype=np.intp), unit=unit)
                part = judge_rates(outputs, outputs.judged[0], sampling=sampling, confidence=0.95, rng=rng)
                seen.append(covers(part, rate))
            cells.append(((n, rate, tpr, tnr), *np.mean(seen, axis=0)))
        summary(sampling, cells)
        result[sampling] = cells
    return result


MISSING = ((0.02, 0.02), (0.2, 0.2), (0.02, 0.6), (0.005, 0.1), (0.5, 0.5))
"""Probabilities with which a judge gives no label to positive and to negative outputs."""


def missing(studies: int, rng: np.random.Generator) -> dict[tuple[str, bool], Cells]:
    """A judge that gives no label to some outputs; rates of all outputs, or only of the outputs with a label.

    Human labels are drawn at random from all outputs, within the judge's labels (or lack of a label), or at
    random from the outputs with a label of the judge. In the last case, the true rate is that of these outputs.
    """
    result: dict[tuple[str, bool], Cells] = {}
    for design in ("random", "by-judge", "judged outputs"):
        cells: dict[bool, Cells] = {False: [], True: []}
        for n, rate, missing_rates in product((50, 100, 200), (0.05, 0.3, 0.7, 0.95), MISSING):
            seen: dict[bool, list[tuple[float, float, float]]] = {False: [], True: []}
            for _ in range(studies):
                gold = rng.random(1000) < rate
                judge = judge_labels(gold, 0.95, 0.6, rng).astype(np.float64)
                judge[rng.random(1000) < np.where(gold, *missing_rates)] = np.nan
                is_judged, chosen = ~np.isnan(judge), np.zeros(1000, dtype=bool)
                if design == "by-judge":
                    for is_of_label in (judge == 0, judge == 1, ~is_judged):
                        chosen[np.flatnonzero(is_of_label)[: n // 3]] = True
                else:
                    chosen[np.flatnonzero(is_judged | (design == "random"))[:n]] = True
                outputs = labelled(gold, judge, chosen, system=np.zeros(1000, dtype=np.intp), unit=np.arange(1000))
                judged_shares = 1 - np.array(missing_rates)
                true_rate = rate
                if design == "judged outputs":
                    true_rate = rate * judged_shares[0] / (rate * judged_shares[0] + (1 - rate) * judged_shares[1])
                for only_judged in seen:
                    part = judge_rates(
                        outputs,
                        judge,
                        only_judged=only_judged,
                        sampling="by-judge" if design == "by-judge" else "random",
                        confidence=0.95,
                        rng=rng,
                    )
                    seen[only_judged].append(covers(part, true_rate))
            for only_judged, rows in seen.items():
                cells[only_judged].append(((n, rate, missing_rates), *np.nanmean(rows, axis=0)))
        for only_judged, rows_of_cells in cells.items():
            summary(
                f"{design}, {'only outputs with a label' if only_judged else 'rates of all outputs'}", rows_of_cells
            )
            result[design, only_judged] = rows_of_cells
    return result


def clusters(studies: int, rng: np.random.Generator) -> dict[int, Cells]:
    """Clusters of 5 and 10 outputs with an intraclass correlation of .3, labelled as a whole."""
    result = {}
    for n_labelled_clusters in (20, 40, 80):
        cells = []
        for size, rate, (tpr, tnr) in product((5, 10), (0.1, 0.3, 0.5, 0.8, 0.9), JUDGES):
            seen = []
            n_clusters = 1000 // size
            for _ in range(studies):
                share = rng.beta(rate * 7 / 3, (1 - rate) * 7 / 3, size=n_clusters)  # 1 / (1 + 7/3) = .3
                unit = np.repeat(np.arange(n_clusters), size)
                gold = rng.random(len(unit)) < share[unit]
                chosen = unit < n_labelled_clusters
                outputs = labelled(
                    gold,
                    judge_labels(gold, tpr, tnr, rng),
                    chosen,
                    system=np.zeros(len(unit), dtype=np.intp),
                    unit=unit,
                )
                part = judge_rates(outputs, outputs.judged[0], sampling="random", confidence=0.95, rng=rng)
                seen.append(covers(part, rate))
            cells.append(((size, rate, tpr, tnr), *np.mean(seen, axis=0)))
        summary(f"{n_labelled_clusters} labelled clusters", cells)
        result[n_labelled_clusters] = cells
    return result


class Versions(NamedTuple):
    """Rates at which a difference is found, the second version called better, and a differential error found."""

    decided: float
    second_better: float
    judge_differs: float
    coverage: float
    width: float
    human_width: float


def versions(
    studies: int, rng: np.random.Generator, sampling: Literal["random", "by-judge"] = "random"
) -> dict[tuple[float, ...], Versions]:
    """Two versions on the same items with 50 to 200 labels each, and a judge with TNR .70 and .45, or .70 for both."""
    result = {}
    for n, rate_a, rate_b, tnr_b, correlation in (
        (100, 0.6, 0.6, 0.45, 0.0),
        (100, 0.6, 0.6, 0.45, 0.5),
        (100, 0.7, 0.6, 0.45, 0.0),
        (200, 0.5, 0.5, 0.45, 0.0),
        (200, 0.75, 0.75, 0.45, 0.0),
        (200, 0.9, 0.9, 0.45, 0.0),
        (100, 0.8, 0.8, 0.7, 0.5),
        (100, 0.95, 0.95, 0.7, 0.0),
        (50, 0.9, 0.9, 0.7, 0.5),
    ):
        seen = []
        for _ in range(studies):
            shared, separate = rng.standard_normal(1000), rng.standard_normal((2, 1000))
            latent = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * separate
            gold = np.concatenate([latent[k] < float(ndtri(rate)) for k, rate in enumerate((rate_a, rate_b))])
            judge = np.concatenate(
                [judge_labels(gold[:1000], 0.95, 0.7, rng), judge_labels(gold[1000:], 0.95, tnr_b, rng)]
            )
            system, unit = np.repeat([0, 1], 1000), np.tile(np.arange(1000), 2)
            chosen = unit < n
            if sampling == "by-judge":
                strata = [np.flatnonzero((system == k) & (judge == label)) for k in (0, 1) for label in (False, True)]
                chosen = np.isin(np.arange(2000), np.concatenate([rows[: n // 2] for rows in strata]))
            outputs = labelled(gold, judge, chosen, system=system, unit=unit)
            parts = {
                name: judge_rates(
                    outputs, judge.astype(float), system == k, sampling=sampling, confidence=0.95, rng=rng
                )
                for k, name in enumerate("ab")
            }
            rows = list(difference_rows(outputs, "judge", "pass", parts, confidence=0.95, rng=rng))
            (row,) = add_decisions(rows, alpha=0.05, confidence=0.95)
            difference = rate_a - rate_b
            seen.append(
                (
                    row["decision"] in "+-",
                    row["decision"] == "-",
                    row["favoured"] != "",
                    row["corrected_difference_low"] <= difference <= row["corrected_difference_high"],
                    row["corrected_difference_high"] - row["corrected_difference_low"],
                    row["human_difference_high"] - row["human_difference_low"],
                )
            )
        outcome = Versions(*np.mean(seen, axis=0))
        result[n, rate_a, rate_b, tnr_b, correlation] = outcome
        print(
            f"{n} labels {sampling}, rates {rate_a} and {rate_b}, TNR .7 and {tnr_b}, correlation {correlation}: "
            + ", ".join(f"{name} {value:.3f}" for name, value in outcome._asdict().items())
        )
    return result


def versions_by_judge(studies: int, rng: np.random.Generator) -> dict[tuple[float, ...], Versions]:
    """The same with labels sampled by the judge's labels, half of them for each."""
    return versions(studies, rng, "by-judge")


def slices(studies: int, rng: np.random.Generator) -> dict[tuple[float, float], tuple[float, float]]:
    """Ten equal slices: rates of any (false) finding, and of a (true) finding for a slice with TNR .3."""
    result = {}
    for rate, tnr_first in ((0.5, 0.8), (0.9, 0.8), (0.5, 0.3)):
        named = []
        for _ in range(studies):
            part = np.arange(2000) % 10
            gold = rng.random(2000) < rate
            judge = np.where(part == 0, judge_labels(gold, 0.9, tnr_first, rng), judge_labels(gold, 0.9, 0.8, rng))
            outputs = labelled(
                gold, judge, np.arange(2000) < 500, system=np.zeros(2000, dtype=np.intp), unit=np.arange(2000)
            )
            rows = []
            for k in range(10):
                inside, outside = (
                    judge_rates(outputs, judge.astype(float), chosen, sampling="random", confidence=0.95, rng=rng)
                    for chosen in (part == k, part != k)
                )
                rows.append(slice_row(outputs, "judge", str(k), inside, outside, confidence=0.95, rng=rng))
            results = [row["finding"] for row in add_findings(rows, alpha=0.05)]
            named.append((any(results), results[0] != ""))
        anywhere, first = np.mean(named, axis=0)
        result[rate, tnr_first] = (anywhere, first)
        print(f"rate {rate}, TNR of the first slice {tnr_first}: any {anywhere:.3f}, first {first:.3f}")
    return result


def scores(studies: int, rng: np.random.Generator) -> Cells:
    """A judge with scores; strata are bins of scores."""
    cells = []
    for n, rate, gap in product((50, 100, 200), (0.1, 0.5, 0.8), (0.0, 1.0, 2.5)):
        seen = []
        for _ in range(studies):
            gold = rng.random(1000) < rate
            outputs = labelled(
                gold,
                rng.standard_normal(1000) + gap * gold,
                np.arange(1000) < n,
                system=np.zeros(1000, dtype=np.intp),
                unit=np.arange(1000),
                scores=True,
            )
            (judge,) = judges_of(outputs, "youden")
            part = judge_rates(outputs, judge.labels, strata=judge.strata, sampling="random", confidence=0.95, rng=rng)
            seen.append(covers(part, rate))
        cells.append(((n, rate, gap), *np.mean(seen, axis=0)))
    summary("scores", cells)
    return cells


def measures(studies: int, rng: np.random.Generator) -> dict[tuple[float, ...], dict[str, float]]:
    """Measures of agreement for two labels, clusters of 5 (intraclass correlation .3), and 3 to 10 labels."""
    result = {}
    names = ("tpr", "tnr", "ppv", "accuracy", "kappa", "mcc", "f1", "ac1")
    for n, rate, (tpr, tnr), size in (
        (50, 0.5, (0.9, 0.8), 1),
        (100, 0.8, (0.95, 0.7), 1),
        (200, 0.9, (0.95, 0.6), 1),
        (100, 0.95, (0.99, 0.9), 1),
        (200, 0.5, (0.9, 0.8), 5),
        (400, 0.8, (0.95, 0.7), 5),
    ):
        table = np.array([[(1 - rate) * tnr, rate * (1 - tpr)], [(1 - rate) * (1 - tnr), rate * tpr]])
        truth = {**{name: float(measure(table)) for name, measure in {**BINARY, **GENERAL}.items()}}
        truth["kappa"] = float(kappa(table))
        seen = []
        for _ in range(studies):
            unit = np.arange(n) // size
            share = rng.beta(rate * 7 / 3, (1 - rate) * 7 / 3, size=n)[unit] if size > 1 else np.full(n, rate)
            gold = rng.random(n) < share
            outputs = labelled(
                gold,
                judge_labels(gold, tpr, tnr, rng),
                np.ones(n, dtype=bool),
                system=np.zeros(n, dtype=np.intp),
                unit=unit,
            )
            seen.append(_covered(outputs, truth, names, rng))
        result[n, rate, tpr, tnr, size] = dict(zip(names, np.nanmean(seen, axis=0), strict=True))
    several = ("accuracy", "kappa", "f1", "ac1")
    for k, n in product((3, 5, 10), (60, 200)):
        table = np.full((k, k), 0.2 / k / k) + np.eye(k) * 0.8 / k
        truth = {name: float(GENERAL[name](table)) for name in GENERAL} | {"kappa": float(kappa(table))}
        seen = []
        for _ in range(studies):
            gold = rng.integers(0, k, n)
            judge = np.where(rng.random(n) < 0.8, gold, rng.integers(0, k, n))
            outputs = labelled(
                gold > 0, judge, np.ones(n, dtype=bool), system=np.zeros(n, dtype=np.intp), unit=np.arange(n)
            )
            outputs = replace(outputs, words=tuple(map(str, range(k))), gold=np.eye(k)[gold])
            seen.append(_covered(outputs, truth, several, rng))
        result[k, n] = dict(zip(several, np.nanmean(seen, axis=0), strict=True))
    for cell, covered in result.items():
        print(cell, ", ".join(f"{name} {value:.3f}" for name, value in covered.items()))
    return result


def _covered(
    outputs: LabelledOutputs, truth: dict[str, float], names: tuple[str, ...], rng: np.random.Generator
) -> list[float]:
    part = judge_rates(outputs, outputs.judged[0], sampling="random", confidence=0.95, rng=rng)
    intervals = part.measures(confidence=0.95, ordered=False)
    return [
        float(intervals[name].low <= truth[name] <= intervals[name].high)
        if np.isfinite(intervals[name].value)
        else np.nan
        for name in names
    ]


def replacing(studies: int, rng: np.random.Generator) -> dict[tuple[int, int, float], tuple[float, float]]:
    """Alternative annotator test by outputs and by clusters: rate at which a judge passes that is worse by epsilon.

    The judge's accuracy varies by cluster (beta distribution with an intraclass correlation of .1 for clusters of 5
    outputs), and its mean is such that each annotator is better by exactly epsilon, or equal.
    """
    result = {}
    large = 400_000
    for n_annotators, size, excess in product((3, 8), (1, 5), (0.0, 0.2)):
        grid = np.linspace(0.4, 0.8, 41)
        labels = (rng.random((n_annotators, large)) < 0.8).astype(float)
        differences = []
        for accuracy in grid:
            won = advantages((rng.random(large) < accuracy).astype(float), labels, ordered=False)
            differences.append(float(np.nanmean(won.annotator - won.judge)))
        accuracy = float(np.interp(-(0.2 - excess), -np.array(differences), grid))
        passed = []
        for _ in range(studies):
            n = 200
            unit = np.arange(n) // size
            share = rng.beta(accuracy * 9, (1 - accuracy) * 9, size=n)[unit] if size > 1 else np.full(n, accuracy)
            judge = (rng.random(n) < share).astype(float)
            annotators = (rng.random((n_annotators, n)) < 0.8).astype(float)
            passed.append(
                [
                    replacement(judge, annotators, ordered=False, epsilon=0.2, units=units).winning_rate >= 0.5
                    for units in (np.arange(n), unit)
                ]
            )
        by_outputs, by_clusters = np.mean(passed, axis=0)
        result[n_annotators, size, excess] = (by_outputs, by_clusters)
        print(
            f"{n_annotators} annotators, clusters of {size}, annotators better by {0.2 - excess:.1f}: passed "
            f"{by_outputs:.3f} by outputs, {by_clusters:.3f} by clusters"
        )
    return result


PARTS = {
    part.__name__: part
    for part in (coverage, missing, clusters, versions, versions_by_judge, slices, scores, measures, replacing)
}


def main() -> None:
    """Run one part, or all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    parser.add_argument("--studies", type=int, default=500)
    arguments = parser.parse_args()
    for name in arguments.parts or PARTS:
        PARTS[name](arguments.studies, np.random.default_rng(1))


if __name__ == "__main__":
    main()
