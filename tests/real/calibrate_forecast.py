"""Calibrate the constants of the forecast's interval, and cross-validate them over real data sets.

`python -m tests.real.calibrate_forecast [pilots]` replays pilots of ten annotations per pair under two rules, with
items drawn for each pair or common to all pairs. It prints the constants of `custodes.stats.stopping.pilot`, and
coverage and width for each set with the constants of the others.

Data sets: all of the shared data with human ratings or preferences of several systems on common items. SUM_EVAL of the
glass ceiling paper is SummEval, so it is left out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

import custodes as cu
from custodes.answers.shared_arguments import DEFAULTS, NONE
from custodes.evaluate.protocol.annotations import RatedPairs, comparisons_of, rated_pairs
from custodes.evaluate.protocol.stopping import Stopping
from custodes.stats import ABSENT
from custodes.stats.correction.dirichlet import HUMAN
from custodes.stats.intervals import percentile_interval
from custodes.stats.stopping.allocation import KINDS, annotation_kinds, annotation_order
from custodes.stats.stopping.pilot import (
    Pilot,
    continue_pilot,
    forecast,
    posterior_shares,
    shared_items,
    shortest_interval,
)
from custodes.stats.stopping.replay import Answers, replay

WMT = "wmt23-en-de/mt-metrics-eval-v2.wmt23.en-de.tar.gz"
SOURCES: dict[str, tuple[tuple[str, str | None], ...]] = {
    "summeval": (("summeval/ratings.csv.gz", "expert*"),),
    "hanna": (("hanna/ratings.csv.gz", None),),
    "wmt23-en-de": ((WMT, "mqm"), (WMT, "da-sqm")),
    "dialsummeval": (("dialsummeval/ratings.csv.gz", None),),
    "pandalm": (("pandalm/battles.csv.gz", None),),
    "TAC_11": (("glass-ceiling/TAC_11.csv.gz", None),),
    "DIALOG_pc": (("glass-ceiling/DIALOG_pc.csv.gz", None),),
}
RULES = (Stopping(looks=(10, 20, 40), boundary="pocock"), Stopping(batch=10))
PILOT, DRAWS, LARGE = 10, 100, 1000
CONFIDENCE, TARGET = 0.9, 0.92
"""Coverage of the sets varies by about .02, so the target is above the level by as much. The target is the only choice
made with all sets in view: .90 and .91 leave one of them below .87."""
FACTORS = np.arange(1.0, 2.01, 0.05)


class Replay(NamedTuple):
    """Replay of one pilot: proportion of annotations used by the run, centre and half-width of the shortest interval,
    percentile bounds, and proportion of items shared between pairs. `by_lot`: items were drawn for each pair."""

    by_lot: bool
    share: float
    middle: float
    reach: float
    low: float
    high: float
    shared: float


def studies(folder: Path, name: str) -> Iterator[RatedPairs]:
    """Yield all aspects of a data set."""
    for path, human in SOURCES[name]:
        study = _glass(folder / path) if path.startswith("glass") else cu.read(folder / path, invalid="drop")
        setting = {**DEFAULTS, "human": human}
        yield from (rated_pairs(comparison, NONE) for comparison in comparisons_of(study, setting))  # type: ignore[arg-type]


def _glass(path: Path) -> cu.Study:
    """Read a file whose column System is the item, and whose column Utterance is the system."""
    table = pl.read_csv(path)
    names = [name for name in table.columns if name.startswith("H:")]
    long = table.unpivot(on=names, index=["System", "Utterance"], variable_name="aspect", value_name="score")
    item = pl.col("System").cast(pl.String)
    rows = long.drop_nulls("score").select("aspect", "score", item=item, system="Utterance")
    return cu.read(rows.with_columns(rater=pl.lit("human"), kind=pl.lit("human")))


def replayed(pairs: RatedPairs, seed: int, *, by_lot: bool) -> Iterator[Replay]:
    """Replay a pilot and the runs that start with it, one for each rule."""
    rng = np.random.default_rng([20261123, seed])
    rated = pairs.human != ABSENT
    order = annotation_order(rated, pairs.units, rng)
    if not by_lot:  # shared items come first
        first = np.zeros(rated.shape[1], dtype=bool)
        first[rng.choice(rated.shape[1], PILOT, replace=False)] = True
        turn = np.where(np.take_along_axis(rated, order, axis=1), ~first[order], 2)
        order = np.take_along_axis(order, np.argsort(turn, axis=1, kind="stable"), axis=1)
    kinds = np.take_along_axis(annotation_kinds(pairs.human, pairs.metric), order, axis=1)
    available = rated.sum(axis=1)
    items = int(np.median(available))
    run = Answers(
        kinds=kinds[np.newaxis], available=available[np.newaxis], metric=np.zeros((1, len(kinds), 3), dtype=int)
    )
    pair = np.repeat(np.arange(len(kinds)), PILOT)
    pilot = Pilot(
        pair=pair,
        unit=pairs.units[order[:, :PILOT].ravel()],
        sign=(1 - kinds[:, :PILOT].ravel() // 4).astype(np.int8),
        systems=pairs.systems,
    )
    assert (kinds[:, :PILOT] < KINDS).all()
    proportions = continue_pilot(pilot.outcome, posterior_shares(pilot, n_draws=DRAWS, rng=rng), n_items=items, rng=rng)
    shared = shared_items(pilot)
    for stopping in RULES:
        rule = stopping.rule(HUMAN, most=items, seed=0)
        end = replay(run, rule, reference_decisions=pairs.reference(0.05), reference_proportions=pairs.truth)
        shares, _ = forecast(proportions, rule)
        low, high = percentile_interval(shares, confidence=CONFIDENCE)
        middle, reach = shortest_interval(shares, confidence=CONFIDENCE)
        yield Replay(by_lot, float(end.n.mean() / items), middle, reach, float(low), float(high), shared)


def replays(folder: Path, name: str, pilots: int) -> list[Replay]:
    """Replay this many pilots of each kind for a data set, spread over its aspects; a third as many for many pairs."""
    aspects = list(studies(folder, name))
    results: list[Replay] = []
    for seed in range(pilots):
        pairs = aspects[seed % len(aspects)]
        common = int((pairs.human != ABSENT).all(axis=0).sum()) >= PILOT
        if len(pairs.human) < LARGE or seed < pilots / 3:
            for by_lot in (True, False)[: 1 + common]:
                results += replayed(pairs, seed, by_lot=by_lot)
    return results


def covered(rows: list[Replay], factor: float, more: float) -> float:
    """Proportion of pilots whose widened interval contains the outcome."""
    share, middle, reach, shared = (
        np.array([getattr(row, name) for row in rows]) for name in ("share", "middle", "reach", "shared")
    )
    wide = reach * factor * np.sqrt(1 + more * shared)
    return float((np.abs(share - middle) <= wide + 1e-9).mean())


def fitted(sets: list[list[Replay]]) -> tuple[float, float]:
    """Smallest factor and smallest addend that reach `TARGET`.

    With the factor, the mean coverage of pilots with separate items reaches it; with the addend, the median coverage of
    pilots with shared items does (in TAC_11, with 1,431 pairs, items are almost never shared).
    """

    def coverages(by_lot: bool, factor: float, more: float) -> list[float]:
        chosen = [[row for row in rows if row.by_lot == by_lot] for rows in sets]
        return [covered(rows, factor, more) for rows in chosen if rows]

    more = 0.0
    for _ in range(3):  # pilots with separate items share some by chance
        factor = next((f for f in FACTORS if np.mean(coverages(True, f, more)) >= TARGET), FACTORS[-1])
        more = next((f for f in FACTORS - 1 if np.median(coverages(False, factor, f)) >= TARGET), FACTORS[-1] - 1)
    return float(factor), float(more)


class Held(NamedTuple):
    """Coverage and mean width for one data set, with constants of the other sets and with percentile bounds."""

    pilots: int
    coverage: float
    width: float
    before: float
    width_before: float


def coverage_with(rows: list[Replay], constants: tuple[float, float]) -> Held:
    """Coverage and width of one data set with given constants."""
    factor, more = constants
    before = np.mean([row.low - 1e-9 <= row.share <= row.high + 1e-9 for row in rows])
    width = np.mean([2 * row.reach * factor * np.sqrt(1 + more * row.shared) for row in rows])
    width_before = np.mean([row.high - row.low for row in rows])
    return Held(len(rows), covered(rows, factor, more), float(width), float(before), float(width_before))


def main(folder: Path, pilots: int) -> None:
    """Print the constants, and each data set with the constants of the others."""
    results = {}
    for name in SOURCES:
        results[name] = replays(folder, name, pilots)
        print(f"{name}: {len(results[name])} forecasts", flush=True)
    print("constants", fitted(list(results.values())))
    for name, rows in results.items():
        constants = fitted([other for key, other in results.items() if key != name])
        parts = {
            "all": rows,
            **{f"by lot {by_lot}": [row for row in rows if row.by_lot == by_lot] for by_lot in (True, False)},
        }
        for part, chosen in parts.items():
            if chosen:
                print(name, part, constants, *(f"{value:.4g}" for value in coverage_with(chosen, constants)))


if __name__ == "__main__":
    main(Path(__file__).parents[3] / "shared" / "data", int(sys.argv[1]) if len(sys.argv) > 1 else 48)
