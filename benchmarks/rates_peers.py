"""Intervals of a pass rate beside peers: coverage and width on the same simulated studies.

    python benchmarks/rates_peers.py [--peers .venv-peers/bin/python] [--studies N]

1,000 outputs with a judge's label, n of them with a human label at random. truescore and ppi-python run in the
environment of peers (tests/environments/peers.txt); without it, only ours and human labels alone are printed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

CELLS = tuple(product((50, 100, 200), (0.03, 0.2, 0.5, 0.9), ((0.6, 0.95), (0.9, 0.9), (0.99, 0.99))))
"""Number of human labels, rate, and TPR and TNR of the judge."""
OUTPUTS = 1000

Bounds = tuple[float, float]


def studies(n: int) -> Iterator[tuple[float, Any, Any]]:
    """Rate, human labels and the judge's labels of each study; the first outputs are labelled."""
    rng = np.random.default_rng(1)
    for _, rate, (tpr, tnr) in CELLS:
        for _ in range(n):
            gold = rng.random(OUTPUTS) < rate
            judge = np.where(gold, rng.random(OUTPUTS) < tpr, rng.random(OUTPUTS) >= tnr)
            yield rate, gold.astype(float), judge.astype(float)


def ours() -> dict[str, Callable[[Any, Any], Bounds]]:
    """`rates`, and human labels alone by Wilson's interval."""
    from rates_errors import labelled

    from custodes.evaluate.rates.estimates import judge_rates

    rng = np.random.default_rng(2)
    place = {"system": np.zeros(OUTPUTS, dtype=np.intp), "unit": np.arange(OUTPUTS)}

    def part(gold: Any, judge: Any) -> Any:
        known = np.arange(OUTPUTS) < len(gold)
        whole = np.append(gold, np.zeros(OUTPUTS - len(gold))) > 0.5
        outputs = labelled(whole, judge, known, **place)
        return judge_rates(outputs, outputs.judged[0], sampling="random", confidence=0.95, rng=rng)

    return {
        "custodes rates": lambda gold, judge: part(gold, judge).corrected[1:],
        "human labels alone (Wilson)": lambda gold, judge: part(gold, judge).human[1:],
    }


def theirs() -> dict[str, Callable[[Any, Any], Bounds]]:
    """Estimators of the packages that this interpreter has."""
    import truescore
    from ppi_py import ppi_mean_ci

    def by_truescore(estimate: Callable[..., Any]) -> Callable[[Any, Any], Bounds]:
        def bounds(gold: Any, judge: Any) -> Bounds:
            try:
                found = estimate(judge, gold, np.arange(len(gold)))
            except ValueError:  # such as labels of one kind
                return np.nan, np.nan
            return found.low, found.high

        return bounds

    def ppi(gold: Any, judge: Any) -> Bounds:
        low, high = ppi_mean_ci(gold, judge[: len(gold)], judge[len(gold) :], alpha=0.05)
        return float(np.ravel(low)[0]), float(np.ravel(high)[0])

    return {
        "truescore ppi_estimate": by_truescore(truescore.ppi_estimate),
        "truescore rogan_gladen_estimate": by_truescore(truescore.rogan_gladen_estimate),
        "ppi-python ppi_mean_ci": ppi,
    }


def measured(methods: dict[str, Callable[[Any, Any], Bounds]], n: int) -> dict[str, list[list[float]]]:
    """For each method and cell: coverage, width, and the proportion of studies with an interval."""
    result: dict[str, list[list[float]]] = {name: [] for name in methods}
    everything = studies(n)
    for labels, _, _ in CELLS:
        seen: dict[str, list[Bounds]] = {name: [] for name in methods}
        rate = np.nan
        for _ in range(n):
            rate, gold, judge = next(everything)
            for name, method in methods.items():
                seen[name].append(method(gold[:labels], judge))
        for name, bounds in seen.items():
            low, high = np.array(bounds, dtype=float).T
            defined = np.isfinite(low + high)
            covered = ((low <= rate) & (rate <= high))[defined]
            width = (np.minimum(high, 1) - np.maximum(low, 0))[defined]
            values = [float(covered.mean()), float(width.mean())] if defined.any() else [np.nan, np.nan]
            result[name].append([*values, float(defined.mean())])
    return result


def main() -> None:
    """Print a row for each method."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--peers", default=".venv-peers/bin/python")
    parser.add_argument("--studies", type=int, default=300)
    parser.add_argument("--worker", default="")
    arguments = parser.parse_args()
    if arguments.worker:
        Path(arguments.worker).write_text(json.dumps(measured(theirs(), arguments.studies)))
        return
    results = measured(ours(), arguments.studies)
    if Path(arguments.peers).exists():
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            command = [arguments.peers, __file__, "--worker", file.name, "--studies", str(arguments.studies)]
            subprocess.run(command, check=True)
            results |= json.loads(Path(file.name).read_text())
    else:
        sys.stdout.write(f"{arguments.peers} is missing: peers are left out (make .venv-peers/.installed)\n")
    for name, cells in results.items():
        coverage, width, defined = np.array(cells).T
        worst = CELLS[int(np.nanargmin(coverage))]
        sys.stdout.write(
            f"{name}: coverage mean {np.nanmean(coverage):.3f}, lowest {np.nanmin(coverage):.3f} {worst}, width "
            f"{np.nanmean(width):.3f}, with an interval {defined.mean():.3f}\n"
        )


if __name__ == "__main__":
    main()
