"""The question `rates` compared with other packages: intervals of a pass rate, and measures of agreement.

    python benchmarks/beside/rates.py [--peers .venv-peers/bin/python ...] [--studies N] [--seed S]

Intervals: 1,000 outputs with a judge's label, n of them with a human label at random. All methods get the same studies
from a file. Measures: random tables and scores; values must be equal to 1e-9, otherwise the exit status is 1. Each
interpreter of `--peers` runs the peers that it can import; the missing ones are listed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
CELLS = tuple(product((50, 100, 200), (0.03, 0.2, 0.5, 0.9), ((0.6, 0.95), (0.9, 0.9), (0.99, 0.99))))
"""Number of human labels, pass rate, and TPR and TNR of the judge."""
OUTPUTS, CONFIDENCE = 1000, 0.95
TABLES, TOLERANCE = 300, 1e-9
PEERS = {
    "truescore": "truescore",
    "ppi_py": "ppi-python",
    "sklearn": "scikit-learn",
    "irrCAC": "irrCAC",
    "krippendorff": "krippendorff",
}
"""Module and distribution."""
RATES, WILSON = "custodes rates", "human labels alone (Wilson)"

Bounds = tuple[float, float]
Method = Callable[[Any, Any, Any], Bounds]
"""Bounds of the pass rate from human labels, the judge's labels (1.0 or 0.0) and a mask of labelled outputs."""
Values = dict[str, list[float]]


def write_studies(path: Path, studies: int, seed: int) -> None:
    """Simulated studies: arrays (cells, studies, outputs)."""
    rng = np.random.default_rng(seed)
    shape = (len(CELLS), studies, OUTPUTS)
    gold, judge, labelled = (np.zeros(shape, dtype=bool) for _ in range(3))
    for k, (n, rate, (tpr, tnr)) in enumerate(CELLS):
        gold[k] = rng.random(shape[1:]) < rate
        judge[k] = rng.random(shape[1:]) < np.where(gold[k], tpr, 1 - tnr)
        chosen = np.argsort(rng.random(shape[1:]), axis=1)[:, :n]
        np.put_along_axis(labelled[k], chosen, True, axis=1)
    np.savez_compressed(path, gold=gold, judge=judge, labelled=labelled)


def write_labels(path: Path, seed: int) -> None:
    """Labels of a judge and an expert for random tables of 2 to 6 labels, and scores with ties; -1: no output."""
    rng = np.random.default_rng([seed, 1])
    judge, human = np.full((2, TABLES, 400), -1)
    scores, positive = np.zeros((TABLES, 400)), np.full((TABLES, 400), -1)
    for k in range(TABLES):
        n, n_labels = int(rng.integers(20, 401)), 2 + k % 5
        rates = rng.dirichlet(np.full(n_labels, 2.0))
        human[k, :n] = rng.choice(n_labels, size=n, p=rates)
        judge[k, :n] = np.where(rng.random(n) < rng.random(), human[k, :n], rng.choice(n_labels, size=n, p=rates))
        human[k, :2] = judge[k, :2] = (0, n_labels - 1)  # all measures are defined
        positive[k, :n] = human[k, :n] > 0
        scores[k, :n] = np.round(rng.standard_normal(n) + rng.random() * 2 * positive[k, :n], 1)
    np.savez_compressed(path, judge=judge, human=human, scores=scores, positive=positive)


def rates_methods() -> dict[str, Method]:
    """Intervals of `rates`, and its interval from human labels alone."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from rates_errors import labelled as outputs_of

    from custodes.evaluate.rates.estimates import judge_rates

    rng = np.random.default_rng(2)
    parts: dict[int, Any] = {}

    def part(gold: Any, judge: Any, labelled: Any) -> Any:
        outputs = outputs_of(
            gold > 0.5, judge, labelled, system=np.zeros(OUTPUTS, dtype=np.intp), unit=np.arange(OUTPUTS)
        )
        return judge_rates(outputs, outputs.judged[0], sampling="random", confidence=CONFIDENCE, rng=rng)

    def corrected(gold: Any, judge: Any, labelled: Any) -> Bounds:
        parts[0] = part(gold, judge, labelled)
        return parts[0].corrected.low, parts[0].corrected.high

    def human(*_: Any) -> Bounds:
        return parts[0].human.low, parts[0].human.high

    return {RATES: corrected, WILSON: human}


def peer_methods() -> dict[str, Method]:
    """Methods of the packages that this interpreter can import."""
    result: dict[str, Method] = {}
    if find_spec("truescore"):
        import truescore

        def by_truescore(gold: Any, judge: Any, labelled: Any, *, estimate: Callable[..., Any]) -> Bounds:
            try:
                outcome = estimate(judge, gold[labelled], np.flatnonzero(labelled), alpha=1 - CONFIDENCE)
            except ValueError:  # documented: for labels of one kind only, or TPR + TNR of at most 1
                return np.nan, np.nan
            return outcome.low, outcome.high

        def wilson(gold: Any, judge: Any, labelled: Any) -> Bounds:
            outcome = truescore.gold_only_estimate(gold[labelled], alpha=1 - CONFIDENCE)
            return outcome.low, outcome.high

        for estimate in (truescore.ppi_estimate, truescore.rogan_gladen_estimate):
            result[f"truescore {estimate.__name__}"] = partial(by_truescore, estimate=estimate)
        result["truescore gold_only_estimate"] = wilson
    if find_spec("ppi_py"):
        from ppi_py import ppi_mean_ci

        def ppi(gold: Any, judge: Any, labelled: Any) -> Bounds:
            low, high = ppi_mean_ci(gold[labelled], judge[labelled], judge[~labelled], alpha=1 - CONFIDENCE)
            return float(np.ravel(low)[0]), float(np.ravel(high)[0])

        result["ppi-python ppi_mean_ci"] = ppi
    return result


def bounds_of(methods: Mapping[str, Method], path: Path) -> dict[str, Any]:
    """Bounds by each method for every study: arrays (cells, studies, 2)."""
    with np.load(path) as file:
        gold, judge, labelled = (file[name] for name in ("gold", "judge", "labelled"))
    result = {name: np.full((*gold.shape[:2], 2), np.nan) for name in methods}
    for at in np.ndindex(*gold.shape[:2]):
        study = gold[at].astype(float), judge[at].astype(float), labelled[at]
        for name, method in methods.items():
            result[name][at] = method(*study)
    return result


def rates_measures(path: Path) -> Values:
    """Measures of `rates` for each table."""
    from custodes.stats.rates import measures
    from custodes.stats.rates.scores import area_under_roc

    functions = {
        "kappa": measures.kappa,
        "kappa, linear": partial(measures.kappa, weighting="linear"),
        "kappa, quadratic": partial(measures.kappa, weighting="quadratic"),
        "AC1": measures.ac1,
        "MCC": measures.mcc,
        "F1": measures.f1,
    }
    result: Values = {name: [] for name in (*functions, "AUC", "alpha, nominal", "alpha, ordinal")}
    for judge, human, scores, positive, n_labels in labels_of(path):
        table = np.zeros((n_labels, n_labels))
        np.add.at(table, (judge, human), 1)
        for name, function in functions.items():
            result[name].append(float(function(table)))
        area = area_under_roc(scores, positive > 0, units=np.arange(len(scores)), confidence=CONFIDENCE)
        result["AUC"].append(area.value)
        for name, ordered in (("alpha, nominal", False), ("alpha, ordinal", True)):
            value = measures.krippendorff(table / table.sum(), table.sum(), ordered=ordered)
            result[name].append(float(value))
    return result


def peer_measures(path: Path) -> dict[str, Values]:
    """Measures by each package that this interpreter can import, for each table."""
    return {module: measure(path) for module, measure in MEASURES.items() if find_spec(module)}


def sklearn_measures(path: Path) -> Values:
    """Measures by scikit-learn."""
    from sklearn import metrics

    result: Values = {name: [] for name in ("kappa", "kappa, linear", "kappa, quadratic", "MCC", "F1", "AUC")}
    for judge, human, scores, positive, n_labels in labels_of(path):
        for name, weights in (("kappa", None), ("kappa, linear", "linear"), ("kappa, quadratic", "quadratic")):
            result[name].append(metrics.cohen_kappa_score(human, judge, labels=np.arange(n_labels), weights=weights))
        result["MCC"].append(metrics.matthews_corrcoef(human, judge))
        result["F1"].append(metrics.f1_score(human, judge, average="binary" if n_labels == 2 else "macro"))
        result["AUC"].append(metrics.roc_auc_score(positive, scores))
    return {name: [float(value) for value in values] for name, values in result.items()}


def irrcac_measures(path: Path) -> Values:
    """Measures by irrCAC, which rounds to 5 digits by default."""
    import pandas as pd
    from irrCAC.raw import CAC

    result: Values = {"AC1": []}
    for judge, human, _, _, n_labels in labels_of(path):
        ratings = pd.DataFrame({"judge": judge, "human": human})
        outcome = CAC(ratings, categories=list(range(n_labels)), digits=15).gwet()
        result["AC1"].append(float(outcome["est"]["coefficient_value"]))
    return result


def krippendorff_measures(path: Path) -> Values:
    """Measures by krippendorff."""
    import krippendorff

    result: Values = {"alpha, nominal": [], "alpha, ordinal": []}
    for judge, human, _, _, n_labels in labels_of(path):
        for level in ("nominal", "ordinal"):
            value = krippendorff.alpha(
                np.stack([judge, human]).astype(float), value_domain=range(n_labels), level_of_measurement=level
            )
            result[f"alpha, {level}"].append(float(value))
    return result


def truescore_measures(path: Path) -> Values:
    """Measures by truescore, whose scale consists of the labels in the data: NaN for tables without all labels."""
    import truescore

    result: Values = {name: [] for name in ("kappa", "kappa, quadratic", "AC1", "alpha, nominal", "alpha, ordinal")}
    for judge, human, _, _, n_labels in labels_of(path):
        if len(np.union1d(judge, human)) < n_labels:
            for values in result.values():
                values.append(np.nan)
            continue
        result["kappa"].append(truescore.cohen_kappa(judge, human))
        result["kappa, quadratic"].append(truescore.quadratic_weighted_kappa(judge, human))
        result["AC1"].append(truescore.gwet_ac1(judge, human))
        for level in ("nominal", "ordinal"):
            value = truescore.krippendorff_alpha(np.stack([judge, human]).astype(float), level=level)
            result[f"alpha, {level}"].append(value)
    return {name: [float(value) for value in values] for name, values in result.items()}


MEASURES: Mapping[str, Callable[[Path], Values]] = {
    "sklearn": sklearn_measures,
    "irrCAC": irrcac_measures,
    "krippendorff": krippendorff_measures,
    "truescore": truescore_measures,
}


def labels_of(path: Path) -> list[tuple[Any, Any, Any, Any, int]]:
    """Judge's labels, human labels, scores, positive human labels (1 or 0) and the number of labels of each table."""
    with np.load(path) as file:
        columns = [file[name] for name in ("judge", "human", "scores", "positive")]
    rows = []
    for judge, human, scores, positive in zip(*columns, strict=True):
        present = human >= 0
        rows.append((judge[present], human[present], scores[present], positive[present], int(human.max()) + 1))
    return rows


def work(folder: Path) -> None:
    """Write the results of this interpreter's peers to files in the folder."""
    np.savez(folder / "bounds.npz", **bounds_of(peer_methods(), folder / "studies.npz"))
    modules = [module for module in PEERS if find_spec(module)]
    versions = {PEERS[module]: metadata.version(PEERS[module]) for module in modules}
    versions |= {"numpy": np.__version__}
    result = {"versions": versions, "measures": peer_measures(folder / "labels.npz")}
    (folder / "peers.json").write_text(json.dumps(result))


def interval_rows(bounds: Mapping[str, Any]) -> list[str]:
    """A row per method: coverage and mean width of bounds clipped to 0 and 1, over studies with an interval."""
    rates = np.array([rate for _, rate, _ in CELLS])[:, np.newaxis]
    rows = ["| method | coverage: mean | lowest cell | width | undefined |", "|---|---|---|---|---|"]
    for name, values in bounds.items():
        low, high = values[..., 0], values[..., 1]
        defined = np.isfinite(low + high)
        covered = np.where(defined, (low <= rates) & (rates <= high), np.nan)
        width = np.minimum(high, 1) - np.maximum(low, 0)
        coverage = np.nanmean(covered, axis=1)
        worst = int(np.nanargmin(coverage))
        rows.append(
            f"| {name} | {np.nanmean(coverage):.3f} | {coverage[worst]:.3f} {CELLS[worst]} | "
            f"{np.nanmean(np.nanmean(width, axis=1)):.3f} | {1 - defined.mean():.3f} |"
        )
    return rows


def measure_rows(ours: Values, theirs: Mapping[str, Values]) -> tuple[list[str], bool]:
    """A row per measure and peer with the largest difference, and whether all are equal.

    Only truescore may omit tables (NaN).
    """
    rows, equal = ["| measure | peer | tables | largest difference |", "|---|---|---|---|"], True
    for module, measures in theirs.items():
        for name, peer_values in measures.items():
            values, expected = np.array(ours[name]), np.array(peer_values)
            compared = np.isfinite(expected) if module == "truescore" else np.ones(len(expected), dtype=bool)
            difference = float(np.max(np.abs(values - expected)[compared]))
            same = difference <= TOLERANCE  # False for NaN
            equal &= same
            mark = "" if same else " (differs)"
            rows.append(f"| {name} | {PEERS[module]} | {compared.sum()} | {difference:.0e}{mark} |")
    return rows, equal


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; return 1 if a measure differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", nargs="+", type=Path, default=[ROOT / ".venv-peers/bin/python"])
    parser.add_argument("--studies", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.work:
        work(options.work)
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_studies(folder / "studies.npz", options.studies, options.seed)
        write_labels(folder / "labels.npz", options.seed)
        bounds = bounds_of(rates_methods(), folder / "studies.npz")
        measures: dict[str, Values] = {}
        for python in options.peers:
            if not python.exists():
                print(f"{python} is missing: its peers are left out (make .venv-peers/.installed)")
                continue
            subprocess.run([python, "-W", "ignore", __file__, "--work", folder], check=True)
            result = json.loads((folder / "peers.json").read_text())
            print(f"{python}: {', '.join(' '.join(pair) for pair in result['versions'].items())}")
            with np.load(folder / "bounds.npz") as file:
                bounds |= {name: file[name] for name in file.files}
            measures |= {module: values for module, values in result["measures"].items() if module not in measures}
        rows, equal = measure_rows(rates_measures(folder / "labels.npz"), measures)
    missing = [PEERS[module] for module in MEASURES if module not in measures]
    print(f"\nNot importable in any interpreter: {', '.join(missing) or 'none'}.\n")
    print("\n".join([*interval_rows(bounds), "", *rows]))
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
