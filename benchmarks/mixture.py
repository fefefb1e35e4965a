"""Time of the mixture model's posterior: weighted draws compared with NumPyro's NUTS, and on difficult tables.

`python benchmarks/mixture.py` (needs NumPyro and JAX) prints three tables. Each table of counts is [human, metric] in
the order win, tie, loss. Times are CPU times; NumPy uses one thread.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jax
import numpy as np
from beside.correction import nuts
from numpyro.diagnostics import effective_sample_size

from custodes.stats.correction.estimator import Counts
from custodes.stats.correction.mixture import mixture_posterior

NONE = [0, 0, 0]
USUAL = {
    "close, 100 people, 1,000 metric": ([[20, 8, 12], [9, 4, 9], [13, 8, 17]], [405, 200, 395], NONE),
    "typical, 100 people, 1,000 metric": ([[30, 5, 5], [5, 15, 5], [4, 6, 25]], [400, 200, 400], NONE),
    "typical, 500 people, 1,000 metric": ([[150, 25, 30], [25, 70, 25], [30, 25, 120]], [420, 200, 380], NONE),
    "typical, 100 people, 11,000 metric": ([[30, 5, 5], [5, 15, 5], [4, 6, 25]], [4600, 2200, 4200], NONE),
    "clear, 100 people, 1,000 metric": ([[50, 5, 8], [5, 8, 5], [4, 3, 12]], [650, 120, 230], NONE),
    "no ties, 80 people, 1,000 metric": ([[30, 0, 12], NONE, [14, 0, 25]], [520, 0, 480], NONE),
}
HARD = {
    "people never tie": ([[20, 3, 6], NONE, [5, 2, 12]], [500, 100, 400], NONE),
    "nobody ever ties": ([[50, 0, 0], NONE, [0, 0, 40]], [5000, 0, 4000], NONE),
    "five paired": ([[2, 0, 0], [0, 1, 0], [0, 1, 1]], [500, 100, 400], NONE),
    "nothing paired": ([NONE, NONE, NONE], [500, 100, 400], NONE),
    "three paired, 100,000 metric": ([[2, 0, 1], NONE, NONE], [99_000, 0, 1000], NONE),
    "one paired, 11,000 metric": ([[0, 0, 1], NONE, NONE], [0, 0, 11_000], NONE),
    "metric always ties": ([[10, 0, 0], NONE, [1, 0, 9]], [0, 10_000, 0], NONE),
    "210 people more": ([[10, 2, 3], [2, 5, 2], [3, 2, 8]], [400, 100, 300], [100, 30, 80]),
    "120 people, nothing paired": ([NONE, NONE, NONE], [400, 100, 300], [50, 30, 40]),
    "1,200 people, two paired": ([[1, 0, 0], NONE, [0, 0, 1]], [4000, 1000, 3000], [500, 300, 400]),
    "260 people who disagree": ([[10, 2, 3], [2, 5, 2], [3, 2, 8]], [400, 100, 300], [30, 30, 200]),
}
CHAINS, WARMUP, DRAWS = 5, 2000, 10_000  # as in Deriu et al. 2023, Appendix B
PAIRS = 28


def main() -> None:
    print(
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, "
        f"Python {platform.python_version()}, NumPy {np.__version__}, JAX {jax.__version__} on "
        f"{jax.default_backend()}, NumPyro {version('numpyro')}\n"
    )
    one_table()
    many_pairs()
    hard_tables()


def one_table() -> None:
    """The paper's run as published (compiled for each table), compiled once, and ours with equal accuracy."""
    header(("table", "theta", "NUTS s", "compiled once s", "theta", "error", "ours ms", "times", "times, compiled"))
    compiled = nuts(CHAINS, WARMUP, DRAWS)
    compiled(jax.random.key(0), *arrays(next(iter(USUAL.values()))))
    for name, table in USUAL.items():
        counts = arrays(table)
        _, plain = timed(partial(nuts(CHAINS, WARMUP, DRAWS), jax.random.key(1), *counts))
        (p, _), once = timed(partial(compiled, jax.random.key(1), *counts))
        posterior, ours = repeated(partial(exact, *table))
        row(
            name,
            f"{float((p[..., 0] > p[..., 2]).mean()):.3f}",
            f"{plain:.1f}",
            f"{once:.1f}",
            f"{posterior.theta:.3f}",
            f"{posterior.theta_error:.4f}",
            f"{ours * 1e3:.1f}",
            f"{plain / ours:.0f}",
            f"{once / ours:.0f}",
        )


def many_pairs() -> None:
    """All pairs of eight systems: NUTS vectorised over pairs with its best settings, and ours."""
    rng = np.random.default_rng(0)
    shares = np.array([30, 5, 5, 5, 15, 5, 4, 6, 25]) / 95
    shares /= shares.sum()
    paired = rng.multinomial(100, shares, size=PAIRS).reshape(-1, 3, 3)
    metric_only = rng.multinomial(1000, shares.reshape(3, 3).sum(axis=0), size=PAIRS)
    table = (paired, metric_only, np.zeros_like(metric_only))
    header((f"{PAIRS} pairs at once", "seconds", "effective draws a pair", "microseconds each", "times"))
    posterior, ours = repeated(partial(exact, *table))
    cost = ours / posterior.effective_draws.sum()
    row("exact", f"{ours:.3f}", f"{posterior.effective_draws.mean():.0f}", f"{cost * 1e6:.2f}", "1")
    for chains, warmup, draws in ((1, 500, 4000), (1, 300, 10_000)):
        run = jax.jit(jax.vmap(nuts(chains, warmup, draws)))
        run(jax.random.split(jax.random.key(0), PAIRS), *arrays(table))
        (p, _), seconds = timed(partial(run, jax.random.split(jax.random.key(1), PAIRS), *arrays(table)))
        margins = np.asarray(p[..., 0] - p[..., 2], dtype=np.float64)
        effective = sum(float(effective_sample_size(margin)) for margin in margins)
        row(
            f"NUTS, {chains} x ({warmup} + {draws}), compiled before",
            f"{seconds:.2f}",
            f"{effective / PAIRS:.0f}",
            f"{seconds / effective * 1e6:.1f}",
            f"{seconds / effective / cost:.0f}",
        )


def hard_tables() -> None:
    """Tables with empty classes, few paired items or many human-only items."""
    header(("hard table", "theta", "error", "ms", "effective draws"))
    for name, table in HARD.items():
        posterior, seconds = timed(partial(exact, *table))
        row(
            name,
            f"{posterior.theta:.4f}",
            f"{posterior.theta_error:.4f}",
            f"{seconds * 1e3:.0f}",
            f"{posterior.effective_draws:.0f}",
        )


def exact(paired: Any, metric_only: Any, human_only: Any) -> Any:
    return mixture_posterior(
        Counts(np.array(paired), np.array(metric_only), np.array(human_only)),
        rng=np.random.default_rng(0),
        confidence=0.95,
        gamma=None,
    )


def arrays(table: Any) -> list[Any]:
    return [jax.numpy.asarray(counts, dtype=jax.numpy.float32) for counts in table]


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """Result and CPU time, which depends less on other processes than wall time."""
    start = time.process_time()
    result = jax.block_until_ready(call())
    return result, time.process_time() - start


def repeated(call: Callable[[], Any]) -> tuple[Any, float]:
    """Median of seven runs after a warm-up."""
    runs = [timed(call) for _ in range(8)][1:]
    return runs[0][0], float(np.median([seconds for _, seconds in runs]))


def header(names: tuple[str, ...]) -> None:
    print()
    row(*names)
    row(*["---"] * len(names))


def row(*cells: str) -> None:
    print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
