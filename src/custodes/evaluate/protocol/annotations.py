"""The answers a protocol would collect: people's preferences in the order they are asked, beside a metric's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.data.panel import Floats
from custodes.data.patterns import Patterns
from custodes.data.study import Study
from custodes.evaluate.comparison import Comparison
from custodes.stats import ABSENT
from custodes.stats.correction.dirichlet import human_theta
from custodes.stats.correction.estimate import decide
from custodes.stats.correction.pooled import pooled
from custodes.stats.stopping.allocation import annotation_order, kinds_of
from custodes.stats.stopping.replay import Answers, TogetherEvidence
from custodes.stats.stopping.rules import Evidence, evidence_of

Signs = NDArray[np.int8]
Ints = NDArray[np.int64]

NONE = "none"
"""The metric of a row that uses people alone."""
IDEAL = "ideal"
"""The simulated metric of Appendix E."""

IDEAL_MIXTURE = np.array([[0.8, 0.25, 0.1], [0.1, 0.5, 0.1], [0.1, 0.25, 0.8]])
"""The ideal metric's mixture matrix [metric, human], columns summing to 1 (Deriu et al. 2023, Appendix E)."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Pairs that people rated: `human` and `metric` (pairs, items), `ABSENT` where silent; `metric_more` (pairs, 3)
    counts of the metric on further items; `systems` (pairs, 2); `units` (items,)."""

    human: Signs
    metric: Signs
    metric_more: Ints
    systems: Ints
    units: Ints

    @property
    def outcome(self) -> Ints:
        """(pairs, 3): people's wins, ties and losses."""
        return outcome_of(self.human)

    @property
    def metric_outcome(self) -> Ints:
        """(pairs, 3): the metric's, over all items."""
        return outcome_of(self.metric) + self.metric_more

    @property
    def truth(self) -> Floats:
        """(pairs, 3): people's outcome shares, posterior means under a uniform prior."""
        return shares_of(self.outcome)

    def reference(self, gamma: float) -> Signs:
        """(pairs,): the decisions on all annotations."""
        return decide(human_theta(self.outcome[:, 0], self.outcome[:, 2]), gamma=gamma)


def outcome_of(signs: Signs) -> Ints:
    """(..., items) -> (..., 3) wins, ties, losses."""
    return np.stack([(signs == kind).sum(axis=-1) for kind in (1, 0, -1)], axis=-1)


def shares_of(counts: Ints) -> Floats:
    """(..., 3) counts -> posterior mean shares under a uniform prior."""
    return np.asarray((counts + 1) / (counts.sum(axis=-1, keepdims=True) + 3))


def asked_of(comparison: Comparison, metric: str) -> Asked:
    """The pairs of a comparison that people rated, beside one metric ('none': no metric)."""
    human = comparison.human_signs
    rated = (human != ABSENT).any(axis=1)
    absent = np.full_like(human, ABSENT)
    signs = absent if metric == NONE else comparison.metric_signs[comparison.metrics.index(metric)]
    return Asked(
        human=human[rated],
        metric=signs[rated],
        metric_more=np.zeros((int(rated.sum()), 3), dtype=np.int64),
        systems=systems_of(comparison)[rated],
        units=comparison.units,
    )


def with_ideal(asked: Asked, more: int, rng: np.random.Generator) -> Asked:
    """The same people beside a simulated metric: their preference is corrupted by the ideal mixture matrix.

    On `more` items beyond theirs the preference behind it is drawn from the pair's outcome shares.
    """
    chances = np.cumsum(IDEAL_MIXTURE, axis=0)[:, np.where(asked.human == ABSENT, 0, 1 - asked.human)]
    drawn = (rng.random(asked.human.shape) > chances[:2]).sum(axis=0)
    signs = np.where(asked.human == ABSENT, ABSENT, 1 - drawn).astype(np.int8)
    outcome = asked.outcome
    shares = outcome / outcome.sum(axis=1, keepdims=True) @ IDEAL_MIXTURE.T
    return replace(asked, metric=signs, metric_more=rng.multinomial(more, shares))


def systems_of(comparison: Comparison) -> Ints:
    """(pairs, 2) positions of the two systems of every pair."""
    place = {name: i for i, name in enumerate(comparison.systems)}
    named = comparison.preferences
    return np.array([[place[a], place[b]] for a, b in zip(named.system_a, named.system_b, strict=True)])


def permuted(asked: Asked, rng: np.random.Generator) -> Asked:
    """The same answers with the systems permuted within every item, so that no pair differs; the metric goes along."""
    n_systems = int(asked.systems.max()) + 1
    shuffle = rng.permuted(np.tile(np.arange(n_systems), (asked.human.shape[1], 1)), axis=1)
    first, second = (shuffle[:, asked.systems[:, k]].T for k in range(2))
    total = asked.metric_more.sum(axis=0)
    even = (total + total[::-1]) / max(1, 2 * total.sum())
    more = rng.multinomial(asked.metric_more.sum(axis=1), even) if total.any() else asked.metric_more
    signs = []
    for own in (asked.human, asked.metric):
        square = np.full((n_systems, n_systems, own.shape[1]), ABSENT, dtype=np.int8)
        square[asked.systems[:, 0], asked.systems[:, 1]] = own
        square[asked.systems[:, 1], asked.systems[:, 0]] = np.where(own == ABSENT, ABSENT, -own)
        signs.append(square[first, second, np.arange(own.shape[1])])
    return replace(asked, human=signs[0], metric=signs[1], metric_more=more)


def in_order(asked: Sequence[Asked], seeds: Sequence[int]) -> tuple[Answers, Ints]:
    """Answers of replications, each with the random order of its seed, and the `place` of every item in its order
    (replications, pairs, items); `asked` has one entry for each replication."""
    orders = [
        annotation_order(one.human != ABSENT, np.random.default_rng(seed))
        for one, seed in zip(asked, seeds, strict=True)
    ]
    kinds = [
        np.take_along_axis(kinds_of(one.human, one.metric), order, axis=1)
        for one, order in zip(asked, orders, strict=True)
    ]
    answers = Answers(
        kinds=np.stack(kinds),
        available=np.stack([(one.human != ABSENT).sum(axis=1) for one in asked]),
        metric=np.stack([one.metric_outcome for one in asked]),
    )
    return answers, np.argsort(np.stack(orders), axis=2)


def pooling(asked: Sequence[Asked], place: Ints, *, gamma: float, seed: int) -> TogetherEvidence:
    """What the pooled estimator says at each look of replications in step."""
    human = np.stack([one.human for one in asked])

    def together(n: Ints, judged: NDArray[np.bool_]) -> Evidence:
        seen = np.where(place < n[..., np.newaxis], human, ABSENT).astype(np.int8)
        return pooled_evidence(seen, asked[0], gamma=gamma, seed=seed).where(judged)

    return together


def pooled_evidence(seen: Signs, asked: Asked, *, gamma: float, seed: int) -> Evidence:
    """Of annotations so far (..., pairs, items): margins of all pairs from one additive model."""
    estimate, _ = pooled(
        seen,
        systems=asked.systems,
        units=asked.units,
        confidence=1 - gamma,
        rng=np.random.default_rng(seed),
        fallback=True,
    )
    return evidence_of(estimate, gamma=gamma)


def people_alone(study: Study, human: Patterns) -> Study:
    """The study with people's rows once more under the name 'none', as a comparison needs a metric; others are left
    out."""
    people, _ = study._chosen_people(human)
    frames = []
    for frame in (study.ratings.frame, study.preferences.frame):
        keys = [name for name in frame.columns if name not in ("rater", "score", "preference")]
        own = frame.filter(pl.col("rater").is_in(list(people)))
        frames.append(
            pl.concat([own, own.unique(keys, keep="first", maintain_order=True).with_columns(rater=pl.lit(NONE))])
        )
    kinds = dict.fromkeys(people, "human")
    raters = study.raters.with_kinds(kinds).only(people)
    known = pl.concat([raters.frame, type(raters).infer({NONE: "metric"}).frame])
    return replace(
        study,
        ratings=replace(study.ratings, frame=frames[0]),
        preferences=replace(study.preferences, frame=frames[1]),
        raters=type(raters)(frame=known),
    )
