"""CPU time of an answer, an interim analysis and an estimate after interim analyses, in the engine and in `live`."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import combinations

import numpy as np

from custodes.evaluate.protocol import live
from custodes.evaluate.protocol.concurrent_annotation import ConcurrentAnnotation
from custodes.evaluate.protocol.stopping import Stopping
from custodes.stats.correction.estimators import ESTIMATORS
from custodes.stats.stopping.allocation import annotation_order
from custodes.stats.stopping.sequential import stagewise

ITEMS, SYSTEMS = 1000, 6
RULE = Stopping(looks=(10, 20, 40), boundary="pocock", stop="futility")
ORDERS = annotation_order(np.ones((15, ITEMS), dtype=bool), np.arange(ITEMS), np.random.default_rng(0)).tolist()
PAIRS = np.array(list(combinations(range(SYSTEMS), 2)))


def engine(estimator: str) -> tuple[list[float], list[float], list[float]]:
    """Milliseconds per answer that completes nothing, per answer that completes an interim analysis, and per pair."""
    rng = np.random.default_rng(1)
    metric = rng.choice([1, 0, -1], size=(15, ITEMS)).astype(np.int8) if ESTIMATORS[estimator].uses_metric else None
    rule = RULE.rule(ESTIMATORS[estimator], max_annotations=ITEMS, seed=0)
    annotation = ConcurrentAnnotation(orders=ORDERS, rule=rule, systems=PAIRS, units=np.arange(ITEMS), metric=metric)
    answers, looks, ends = [], [], []
    while free := annotation.open_pairs():
        pair = int(rng.choice(free))
        place, label = annotation.free_slots(pair)[0], int(rng.choice([1, 0, -1], p=[0.45, 0.2, 0.35]))
        ruling, took = timed(lambda pair=pair, place=place, label=label: annotation.answer(pair, place, label))
        (answers if ruling is None else looks if annotation.is_open[pair] else ends).append(took)
    return answers, looks, ends


def timed(call: Callable[[], object]) -> tuple[object, float]:
    start = time.process_time()
    result = call()
    return result, 1000 * (time.process_time() - start)


def recorded() -> tuple[list[float], float]:
    """Milliseconds per `record` of one answer, and of reading the file at the end."""
    state = live.start([f"s{k}" for k in range(SYSTEMS)], [f"i{k}" for k in range(ITEMS)], stopping=RULE)
    rng, took = np.random.default_rng(2), []
    while tasks := live.next_annotations(state):
        task = tasks[int(rng.integers(len(tasks)))]
        answer = (*task, int(rng.choice([1, 0, -1])))
        state, seconds = timed(lambda state=state, answer=answer: live.record(state, [answer]))
        took.append(seconds)
    return took, timed(lambda: live.State.from_json(state.to_json()).live_annotation)[1]


def main() -> None:
    rows = []
    for estimator, target in (("human", "< 1 ms"), ("mixture", "< 50 ms")):
        answers, looks, ends = engine(estimator)
        rows.append((f"an answer, {estimator}, median", f"{np.median(answers) * 1000:.0f} us", ""))
        rows.append((f"a look, {estimator}, median of {len(looks)}", f"{np.median(looks):.2f} ms", target))
        rows.append((f"the last look, with its estimate, median of {len(ends)}", f"{np.median(ends):.2f} ms", ""))
    took, read = recorded()
    rows.append((f"record, an answer, median of {len(took)}", f"{np.median(took):.3f} ms", "< 5 ms"))
    rows.append(("the same, 99 %", f"{np.quantile(took, 0.99):.2f} ms", ""))
    rows.append(("a file of these answers, read", f"{read:.0f} ms", ""))
    margins = np.random.default_rng(3).normal(0.1, 0.2, 1000)
    bounds, n = np.array(RULE.rule(ESTIMATORS["human"], max_annotations=ITEMS, seed=0).bounds), np.array([10, 20, 40])
    for pairs in (1, 1000):
        values = [
            timed(
                lambda pairs=pairs: stagewise(
                    margins[:pairs], np.full(pairs, 0.15), n_annotations=n, bounds=bounds, level=0.05
                )
            )
            for _ in range(20)
        ]
        rows.append(
            (f"stage-wise, a pair of {pairs}", f"{np.median([took for _, took in values]) / pairs:.2f} ms", "< 5 ms")
        )
    print("| what | measured | target |\n|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
