"""How many annotations does a decision need, and what goes wrong when fewer are made?"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.data.notes import Note
from custodes.data.study import Study
from custodes.evaluate.comparison import Comparison, label_of
from custodes.evaluate.protocol.annotations import (
    IDEAL,
    NONE,
    Asked,
    asked_of,
    comparisons_of,
    in_order,
    permuted,
    shares_of,
    with_ideal,
)
from custodes.evaluate.protocol.stopping import STOPPING, USUAL, Stopping, asked_for
from custodes.evaluate.question import Rng, question
from custodes.evaluate.result import Result, result
from custodes.evaluate.setting import Setting, at_least
from custodes.evaluate.tables import Column, count, label, score, share, table, with_sd
from custodes.progress import Progress, silent
from custodes.stats import ABSENT
from custodes.stats.correction.dirichlet import human_theta
from custodes.stats.correction.estimator import Estimator, decide
from custodes.stats.decisions.outcome import error_types
from custodes.stats.resampling import resample
from custodes.stats.stopping.replay import Replayed, mean_kld, replay
from custodes.stats.stopping.rules import Rule
from custodes.stats.stopping.sequential import BOUNDARIES

Part = dict[str, pl.DataFrame]

ERRORS = ("correct", "inversion", "omission", "insertion")
"""Kinds of decisions, in the order of `error_types`."""


def error_columns(*docs: str, sd: bool = False) -> tuple[Column, ...]:
    """The columns of `ERRORS`, each with what it means."""
    pairs = zip(ERRORS, docs, strict=True)
    return tuple(share(name, doc, sd=sd, best="high" if name == ERRORS[0] else "low") for name, doc in pairs)


def errors_of(reference: NDArray[Any], decision: NDArray[Any]) -> dict[str, NDArray[np.float64]]:
    """The values of these columns: (pairs,), (..., pairs) -> (...) each."""
    return dict(zip(ERRORS, np.moveaxis(error_types(reference, decision), -1, 0), strict=True))


MEANINGS = (
    "pairs decided as by people on all annotations",
    "decided the other way round",
    "left open, decided on all annotations",
    "decided, open on all annotations",
)
KLD = "divergence of the outcome from people's on all annotations, mean over pairs; null for estimators of the margin"
ESTIMATOR = label("estimator", "how theta is computed")


@result
class Protocol(Result):
    """The protocol replayed. See `protocol`."""

    protocol: pl.DataFrame = table(
        "One row a metric, estimator and `Stopping`: means over replications, and their standard deviations.",
        label("metric", "the metric that helps, `none`, or `ideal`"),
        ESTIMATOR,
        *STOPPING,
        count("replications", "replays", essential=False),
        score("annotations", "made in all", sd=True, essential=False, best="low"),
        share("share", "of the annotations there are, mean over pairs", sd=True, best="low"),
        *error_columns(*MEANINGS, sd=True),
        score("kld", KLD, "KLD (nats)", sd=True, best="low"),
        share(
            "null_error",
            "false decisions a pair where no pair differs; null unless asked for",
            "False",
            sd=True,
            best="low",
        ),
    )
    reference: pl.DataFrame = table(
        "The decisions on all annotations.",
        count("pairs", "pairs that people rated"),
        count("annotations", "there are in all"),
        share("decided", "pairs that all annotations decide"),
        share(
            "self_agreement",
            "how often all annotations, resampled by cluster, decide the same",
            "People again",
            sd=True,
        ),
    )
    curve: pl.DataFrame = table(
        "The rows of `protocol` by round.",
        label("metric", "the metric that helps"),
        ESTIMATOR,
        *STOPPING[:2],
        count("round", "from 1"),
        count("look", "annotations of an open pair at this round"),
        score("annotations", "made so far"),
        share("share", "of the annotations there are"),
        share("decided", "pairs decided so far"),
        share("correct", "as in `protocol`, if it ended here"),
        score("kld", "as in `protocol`, if it ended here", "KLD (nats)"),
        essential=False,
    )
    naive: pl.DataFrame = table(
        "The metrics taken at their word, on all items that they rated.",
        label("metric", "taken at its word"),
        count("n", "its ratings", "n"),
        *error_columns(*MEANINGS),
        score("kld", KLD, "KLD (nats)", best="low"),
        essential=False,
    )


@question(
    "custodes protocol demo --looks 10,20,40 --boundary pocock --null",
    estimator="As in correction (default: human, or mixture with metrics); repeatable.",
    null="Also false decisions under the permutation null.",
    ideal="Also an ideal metric on so many items beside the annotated ones.",
)
def protocol(
    study: Study,
    *,
    estimator: str | Sequence[str] | None = None,
    stopping: Stopping | Sequence[Stopping] = USUAL,
    replications: int = 20,
    null: bool = False,
    ideal: int = 0,
    resamples: int = 1000,
    workers: int | None = None,
    rng: Rng = 0,
    progress: Progress = silent,
    **setting: Unpack[Setting],
) -> Protocol:
    """Replay the annotation protocol on a fully annotated study: what share of the annotations gives which decisions.

    All pairs of systems start undecided. Every round adds annotations to each open pair, on items in an order drawn
    afresh for every pair and replication; a pair is decided when theta = P(p_win > p_loss) is beyond 1 - gamma/2 or
    below gamma/2, and is then closed. It ends when all is annotated, decided or paid. `stopping` says all this; several
    give a row each. What it is compared with is the same rule, by people alone, on everything.

    `metrics` 'none' (the default) asks people alone; otherwise each metric helps. `estimator`: one or several of
    mixture (default with metrics), human (default without), ppi, inversion, poststratified, naive, pooled. `ideal`:
    also a simulated metric with the paper's confusion, on that many items beside the annotated ones.

    `protocol`: `annotations` in all and as a `share` of what there is (mean over pairs); shares of pairs `correct`,
    with `inversion`, `omission`, `insertion`; `kld` in nats, mean over pairs (null for estimators of the margin alone);
    `null_error` (with `null`): false decisions per pair when the systems are permuted within every item. Each the mean
    over `replications`, and `_sd` over them. `reference`: `decided`, the share of pairs that are decided on all
    annotations, and `self_agreement`, how often these decisions come back on resampled clusters. `curve`: means by
    round. `naive`: the error types of the metrics taken at their word. The result does not depend on `workers`.

    Source: Deriu et al. 2023, Algorithm 2, Tables 3 to 5, Appendix E; boundaries, futility, betting, null are ours.

    >>> import custodes as cu
    >>> result = cu.protocol(cu.read("demo"), replications=5, resamples=50)
    >>> result.protocol["share"].is_between(0, 1).all()
    True
    """
    for name, value, least in (("replications", replications, 1), ("resamples", resamples, 0), ("ideal", ideal, 0)):
        at_least(name, value, least)
    if workers is not None:
        at_least("workers", workers, 1)
    alone = setting["metrics"] in (None, NONE) and not ideal
    estimators, rules = asked_for(estimator, stopping, alone=alone)
    root = int(np.random.default_rng(rng).integers(2**63))
    comparisons = comparisons_of(study, setting)
    tasks = [
        _Task.of(comparison, metric, fitting, ideal, root)
        for comparison in comparisons
        for metric in (NONE, *(name for name in comparison.metrics if name != NONE), *[IDEAL] * (ideal > 0))
        if (fitting := [own for own in estimators if own.uses_metric == (metric != NONE)])
    ]

    def answer(task: _Task) -> list[Part]:
        return list(_replayed(task, rules, replications, null))

    with ThreadPoolExecutor(max_workers=workers or os.cpu_count() or 1) as pool:
        parts = [own for made in progress(pool.map(answer, tasks), total=len(tasks), desc="protocol") for own in made]
    # one task of each aspect, as the reference is of people alone
    parts += [_reference(task, rules[0].gamma, resamples) for task in {task.aspect: task for task in tasks}.values()]
    own_notes = [note for comparison in comparisons for note in _study_notes(comparison)]
    n_pairs = max(len(comparison.design.pairs) for comparison in comparisons)
    return Protocol.of(parts, [*own_notes, *_notes(estimators, rules, n_pairs)])


@dataclass(frozen=True, kw_only=True)
class _Task:
    """One aspect and metric ('none', a metric, or 'ideal'): people beside it, and the estimators that make use of both.

    Everything random comes from `seed`, so that neither the other tasks nor the threads change an answer.
    """

    aspect: str
    metric: str
    estimators: Sequence[Estimator]
    asked: Asked
    seed: tuple[int, int]

    @classmethod
    def of(cls, comparison: Comparison, metric: str, estimators: Sequence[Estimator], ideal: int, root: int) -> _Task:
        """Of one metric, or of a simulated one on `ideal` more items."""
        asked = asked_of(comparison, NONE if metric == IDEAL else metric)
        seed = (root, zlib.crc32(comparison.aspect.encode()))
        made = cls(aspect=comparison.aspect, metric=metric, estimators=estimators, asked=asked, seed=seed)
        return replace(made, asked=with_ideal(asked, ideal, made.rng(3))) if metric == IDEAL else made

    def rng(self, purpose: int) -> np.random.Generator:
        """A generator of this aspect's own for one purpose."""
        return np.random.default_rng([*self.seed, purpose])


def _replayed(task: _Task, rules: Sequence[Stopping], replications: int, null: bool) -> Iterable[Part]:
    """The tables of all replications, and of the metric taken at its word."""
    asked, gamma = task.asked, rules[0].gamma
    # One seed a replication: more replications begin with the same ones, and all rows share their orders.
    seeds = task.rng(0).integers(2**63, size=replications).tolist()
    worlds = [in_order([asked] * replications, seeds)]
    if null:
        worlds.append(in_order([permuted(asked, np.random.default_rng([seed, 1])) for seed in seeds], seeds))
    most = max(int(world.available.max()) for world in worlds)
    reference, truth = asked.reference(gamma), asked.truth
    for estimator in task.estimators:
        for stopping in rules:
            rule = stopping.rule(estimator, most=most, seed=int(task.rng(1).integers(2**63)))
            ends = [replay(world, rule, reference=reference, truth=truth) for world in worlds]
            keys = {"metric": task.metric, "estimator": estimator.name, **stopping.columns}
            yield Protocol.part(
                task.aspect,
                protocol=keys | _row(ends, worlds[0].available, reference),
                curve=_curve(keys, rule, ends[0], int(worlds[0].available[0].sum())),
            )
    if task.metric != NONE:
        outcome = asked.metric_outcome
        decision = decide(human_theta(outcome[:, 0], outcome[:, 2]), gamma=gamma)
        errors = errors_of(reference, np.where(outcome.sum(axis=1), decision, np.nan))
        naive = {"metric": task.metric, "n": int(outcome.sum()), **errors, "kld": mean_kld(shares_of(outcome), truth)}
        yield Protocol.part(task.aspect, naive=naive)


def _row(ends: Sequence[Replayed], available: NDArray[np.int64], reference: NDArray[np.int8]) -> dict[str, Any]:
    """Means over replications, and their standard deviations; the second end is of pairs that do not differ."""
    end = ends[0]
    null_error = (ends[1].decision != 0).mean(axis=1) if len(ends) > 1 else np.full(len(end.n), np.nan)
    values = {
        "annotations": end.n.sum(axis=1),
        "share": (end.n / available).mean(axis=1),
        **errors_of(reference, end.decision),
        "kld": end.kld[-1],
        "null_error": null_error,
    }
    means = [with_sd(name, own) for name, own in values.items()]
    return {"replications": len(end.n), **{name: own for pair in means for name, own in pair.items()}}


def _curve(keys: dict[str, Any], rule: Rule, end: Replayed, available: int) -> dict[str, Any]:
    """What has been reached after each round, means over replications."""
    annotations = end.annotations.mean(axis=1)
    return {
        **{name: keys[name] for name in ("metric", "estimator", "stopping", "stop")},
        "round": np.arange(1, len(rule.looks) + 1),
        "look": rule.looks,
        "annotations": annotations,
        "share": annotations / available,
        **{name: getattr(end, name).mean(axis=1) for name in ("decided", "correct", "kld")},
    }


def _reference(task: _Task, gamma: float, resamples: int) -> Part:
    """How often people's own decisions come back on resampled clusters: what "correct" can reach at most."""
    asked, reference = task.asked, task.asked.reference(gamma)
    n_units = int(asked.units.max()) + 1
    hot = np.stack([asked.human == kind for kind in (1, -1)], axis=1).astype(np.float64)
    per_unit = resample.unit_sums(hot, units=asked.units, n_units=n_units)
    times = resample.bootstrap_weights(n_units, resamples if n_units > 1 else 0, task.rng(2))
    drawn = resample.weighted_sums(times, per_unit)
    decision = decide(human_theta(drawn[..., 0], drawn[..., 1]), gamma=gamma)
    agreement = errors_of(reference, decision)["correct"] if len(times) else np.full(2, np.nan)
    return Protocol.part(
        task.aspect,
        reference={
            "pairs": len(reference),
            "annotations": int(asked.outcome.sum()),
            "decided": (reference != 0).mean(),
            **with_sd("self_agreement", agreement),
        },
    )


def _study_notes(comparison: Comparison) -> list[Note]:
    """What the comparison has to say; of its metrics only where they are used."""
    own = ("items-without-people", "all-ties", "one-item", "verdicts-vote", "people-not-selected")
    notes = [note for note in comparison.notes if comparison.metrics != (NONE,) or note.rule in own]
    if silent_pairs := int((comparison.human_signs == ABSENT).all(axis=1).sum()):
        where = label_of(comparison.aspect)
        message = f"{silent_pairs} pairs have no item rated by people{where} and are left out"
        notes.append(Note(rule="pairs-without-people", message=message, count=silent_pairs, aspect=comparison.aspect))
    return notes


def _notes(estimators: Sequence[Estimator], rules: Sequence[Stopping], n_pairs: int) -> Iterable[Note]:
    """What a reader must know before trusting the error rates."""
    gamma = rules[0].gamma
    if any(rule.boundary == next(iter(BOUNDARIES)) and not rule.deciding.anytime for rule in rules):
        message = (
            f"every look decides at gamma={gamma:g} as if it were the only one, so false decisions are more"
            " frequent than that (null=True counts them); boundary='pocock' keeps the level"
        )
        yield Note(rule="repeated-looks", message=message)
    if any(rule.deciding.anytime for rule in rules):
        message = (
            f"'anytime' holds its level {gamma:g} for each pair, so up to {gamma * n_pairs:.3g} false decisions are"
            f" expected over {n_pairs} pairs if none differs (gamma={gamma / n_pairs:.2g} bounds the chance of any); it"
            " speaks of the population of items"
        )
        yield Note(rule="anytime-level", message=message)
    for budget in dict.fromkeys(rule.budget for rule in rules if rule.budget is not None and rule.budget < n_pairs):
        message = f"the budget of {budget} annotations leaves some of {n_pairs} pairs without any"
        yield Note(rule="pairs-never-annotated", message=message, count=n_pairs - budget)
    yield from (Note(**vars(own.assumes)) for own in estimators if own.assumes)
