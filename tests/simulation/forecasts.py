"""Coverage of forecasts of annotations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from custodes.evaluate.protocol.annotations import RatedPairs, order_answers
from custodes.evaluate.protocol.stopping import Stopping
from custodes.stats import ABSENT
from custodes.stats.correction.dirichlet import HUMAN
from custodes.stats.intervals import percentile_interval
from custodes.stats.stopping.pilot import (
    Pilot,
    continue_pilot,
    forecast,
    posterior_shares,
    share_interval,
    shared_items,
)
from custodes.stats.stopping.replay import replay

Draw = Callable[[np.random.Generator], RatedPairs]


RULE = Stopping(looks=(10, 20, 40), boundary="pocock")


def outcome_and_bounds(
    draw: Draw, seed: int, *, draws: int = 100, pilot: int = 10
) -> dict[str, tuple[float, float, float]]:
    """Outcome, and bounds of the forecast from the first annotations of every pair."""
    rng = np.random.default_rng(seed)
    pairs = draw(rng)
    answers = order_answers([pairs], [seed])
    n_items = pairs.human.shape[1]
    rule = RULE.rule(HUMAN, most=n_items, seed=0)
    reference = pairs.reference(0.05)
    end = replay(answers, rule, reference_decisions=reference, reference_proportions=pairs.truth)
    happened = {"share": float((end.n / n_items).mean()), "correct": float(end.correct[-1, 0])}
    assert answers.items is not None
    first = answers.items(np.full((1, len(pairs.human)), pilot))
    pair, item = np.nonzero(first.human[0] != ABSENT)
    begun = Pilot(pair=pair, unit=first.units[item], sign=first.human[0][pair, item], systems=first.systems)
    shares = posterior_shares(begun, n_draws=draws, rng=rng)
    counts = begun.outcome
    share, correct = forecast(continue_pilot(counts, shares, n_items=n_items, rng=rng), rule)
    ends = (
        share_interval(share, confidence=0.9, shared=shared_items(begun)),
        percentile_interval(correct, confidence=0.9),
    )
    return {name: (value, *map(float, part)) for (name, value), part in zip(happened.items(), ends, strict=True)}
