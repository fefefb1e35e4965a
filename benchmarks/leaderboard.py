"""Strengths of 130 systems from a million battles with 200 bootstrap replicates: ours, `evalica` and `arena-rank`.

`python benchmarks/leaderboard.py` needs both peers (`pip install evalica arena-rank`); missing ones are reported and
skipped. All fit the Bradley-Terry model with ties as half wins, from names of systems to strengths and standard errors.
Every case is a separate process, so that its peak memory is separate. Bootstraps of both peers are refits that take
many minutes, so a few replicates are timed apart from the setup, and scaled up to 200.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

BATTLES, SYSTEMS, RESAMPLES = 1_000_000, 130, 200
EVALICA_RESAMPLES, ARENA_RESAMPLES = 2, (2, 8)


def make(path: Path) -> None:
    """Battles of systems with unequal frequencies; a quarter are ties."""
    import numpy as np
    import polars as pl

    rng = np.random.default_rng(0)
    popular = rng.dirichlet(np.full(SYSTEMS, 2.0))
    first = rng.choice(SYSTEMS, size=BATTLES, p=popular)
    second = (first + rng.integers(1, SYSTEMS, size=BATTLES)) % SYSTEMS
    strength = rng.normal(size=SYSTEMS) / 2
    ahead = strength[first] - strength[second] + rng.logistic(size=BATTLES)
    names = np.array([f"system{k:03}" for k in range(SYSTEMS)])
    sign = np.where(np.abs(ahead) < 0.5, 0, np.sign(ahead)).astype(np.int8)
    pl.DataFrame({"first": names[first], "second": names[second], "sign": sign}).write_parquet(path)


def _battles(frame: Any) -> tuple[list[str], Any]:
    """Names of systems, and the battles as arrays."""
    import numpy as np
    import polars as pl

    from custodes.stats.strength.battles import Battles

    names = pl.concat([frame["first"], frame["second"]]).unique().sort()
    order = pl.Enum(names)
    first, second = (frame[side].cast(order).to_physical().to_numpy().astype(np.int64) for side in ("first", "second"))
    n = frame.height
    return names.to_list(), Battles(
        first=first,
        second=second,
        sign=frame["sign"].to_numpy(),
        unit=np.arange(n),
        weight=np.ones(n),
        covariates=np.empty((n, 0)),
    )


def ours(frame: Any) -> dict[str, Any]:
    """As in the package: one fit, and 200 draws by its scores."""
    import numpy as np

    from custodes.stats.strength.strengths import strengths

    names, battles = _battles(frame)
    result = strengths(battles, n_systems=SYSTEMS, ties="half", resamples=RESAMPLES, rng=np.random.default_rng(0))
    return dict(zip(names, zip(result.draws[0], result.draws[1:].std(axis=0, ddof=1), strict=True), strict=True))


def refitted(frame: Any) -> dict[str, Any]:
    """The peers' method with our fit: every replicate resamples the battles and fits them."""
    from dataclasses import replace

    import numpy as np

    from custodes.stats.strength.battles import count_by_kind
    from custodes.stats.strength.davidson import fit

    names, battles = _battles(frame)
    rng, result, results = np.random.default_rng(0), count_by_kind(battles, battles.weight), []
    share = result.outcomes.ravel() / result.outcomes.sum()
    for k in range(1 + RESAMPLES):
        counts = rng.multinomial(len(frame), share).reshape(-1, 3).astype(float) if k else result.outcomes
        again = fit(
            replace(result, outcomes=counts),
            component=np.zeros(SYSTEMS, dtype=int),
            ties_are_half=True,
            penalised=False,
        )
        assert again is not None
        results.append(again.coefficients)
    return dict(zip(names, zip(results[0], np.std(results[1:], axis=0, ddof=1), strict=True), strict=True))


def with_evalica(frame: Any) -> dict[str, Any]:
    """Evalica's bootstrap of its Bradley-Terry fit, with a few replicates."""
    import evalica
    import numpy as np

    winners = {1: evalica.Winner.X, 0: evalica.Winner.Draw, -1: evalica.Winner.Y}
    sides = frame["first"].to_list(), frame["second"].to_list(), [winners[sign] for sign in frame["sign"].to_list()]
    began = time.perf_counter()
    result = evalica.bradley_terry(*sides)
    single = time.perf_counter() - began
    evalica.bootstrap(
        evalica.bradley_terry, *sides, n_resamples=EVALICA_RESAMPLES, bootstrap_method="percentile", random_state=0
    )
    replicates = time.perf_counter() - began - 2 * single  # the bootstrap starts with another fit
    logs = np.log(result.scores)
    results = {name: (value, None) for name, value in (logs - logs.mean()).items()}
    return {**results, "seconds": single + replicates / EVALICA_RESAMPLES * RESAMPLES}


def with_arena_rank(frame: Any, *, method: str = "bootstrap") -> dict[str, Any]:
    """Arena-rank's bootstrap in a pool with one process per core (spawned, because forked processes hang in JAX)."""
    import multiprocessing

    import numpy as np
    import pandas as pd
    from arena_rank.models.bradley_terry import BradleyTerry
    from arena_rank.utils.data_utils import PairDataset

    names = {1: "model_a", 0: "tie", -1: "model_b"}
    columns = {"model_a": frame["first"].to_list(), "model_b": frame["second"].to_list()}
    table = pd.DataFrame({**columns, "winner": [names[sign] for sign in frame["sign"].to_list()]})
    multiprocessing.set_start_method("spawn")
    began = time.perf_counter()
    model, data = BradleyTerry(SYSTEMS), PairDataset.from_pandas(table)
    result = model.compute_ratings_and_cis(data, ci_method="sandwich")
    seconds = time.perf_counter() - began
    strength = (np.asarray(result["ratings"]) - model.init_rating) / model.alpha
    error = np.sqrt(np.asarray(result["variances"])) / model.alpha
    if method == "bootstrap":
        taken = []
        for n in ARENA_RESAMPLES:
            began = time.perf_counter()
            model.compute_ratings_and_cis(data, ci_method="bootstrap", num_bootstrap=n)
            taken.append(time.perf_counter() - began)
        few, more = ARENA_RESAMPLES
        seconds += taken[0] + (taken[1] - taken[0]) / (more - few) * (RESAMPLES - few)
        error = np.full(SYSTEMS, np.nan)  # too few replicates for an error
    outcome = zip(strength - strength.mean(), error, strict=True)
    return {**dict(zip(data.competitors, outcome, strict=True)), "seconds": seconds}


CASES: dict[str, tuple[str, str, Callable[[Any], dict[str, Any]]]] = {
    "ours": ("custodes.stats.strength.strengths", "ours: one fit, its scores drawn 200 times", ours),
    "refitted": ("custodes.stats.strength.davidson", "ours: fitted anew 200 times, for comparison", refitted),
    "evalica": ("evalica", "evalica: `bootstrap`, scaled up", with_evalica),
    "arena": ("arena_rank", "arena-rank: `bootstrap`, scaled up", with_arena_rank),
    "sandwich": (
        "arena_rank",
        "arena-rank: `sandwich`, no replicates",
        lambda frame: with_arena_rank(frame, method="sandwich"),
    ),
}
"""Required module, label, and function."""


def measured(case: str, path: Path) -> None:
    """Run one case and print its cost; seconds exclude imports, memory includes them."""
    import polars as pl

    frame = pl.read_parquet(path)
    importlib.import_module(CASES[case][0])
    began = time.perf_counter()
    result = CASES[case][2](frame)
    seconds = result.pop("seconds", time.perf_counter() - began)
    # Processes of a pool have separate memory; the largest is reported.
    most = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 2**20
    results = {
        name: [None if value is None or value != value else float(value) for value in pair]
        for name, pair in result.items()
    }
    print(json.dumps({"seconds": seconds, "gib": most, "strengths": results}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=list(CASES))
    parser.add_argument("--path", type=Path)
    arguments = parser.parse_args()
    if arguments.case:
        measured(arguments.case, arguments.path)
        return
    results: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "battles.parquet"
        subprocess.run([sys.executable, "-c", _MAKE, str(path)], check=True, cwd=Path(__file__).parent)
        print("| what | seconds | times ours | peak GiB | strengths differ by | errors, to ours |")
        print("|---|---|---|---|---|---|")
        for case, (module, label, _) in CASES.items():
            if importlib.util.find_spec(module.split(".")[0]) is None:
                print(f"| {label} | not installed: {module.replace('_', '-')} | | | | |")
                continue
            command = [sys.executable, __file__, "--case", case, "--path", str(path)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            results[case] = json.loads(done.stdout.splitlines()[-1])
            result, base = results[case], results["ours"]
            gap = max(abs(value[0] - base["strengths"][key][0]) for key, value in result["strengths"].items())
            errors = [
                value[1] / base["strengths"][key][1]
                for key, value in result["strengths"].items()
                if value[1] is not None
            ]
            ratio = f"{sum(errors) / len(errors):.3f}" if errors else "-"
            print(
                f"| {label} | {result['seconds']:.1f} | {result['seconds'] / base['seconds']:.1f} | {result['gib']:.2f}"
                f" | {gap:.0e} | {ratio} |",
                flush=True,
            )


_MAKE = "import sys, pathlib, leaderboard; leaderboard.make(pathlib.Path(sys.argv[1]))"

if __name__ == "__main__":
    main()
