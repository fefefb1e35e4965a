"""How many annotations does a decision need, and what goes wrong when fewer are made?"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.data.notes import Note
from custodes.data.panel import Floats
from custodes.data.study import Study
from custodes.errors import OptionError
from custodes.evaluate.comparison import Comparison, Setting, compare, label_of, settings
from custodes.evaluate.protocol.annotations import (
    IDEAL,
    NONE,
    Asked,
    asked_of,
    in_order,
    people_alone,
    permuted,
    pooling,
    shares_of,
    with_ideal,
)
from custodes.evaluate.protocol.stopping import (
    ALONE,
    checked_boundary,
    checked_estimators,
    checked_looks,
    checked_stops,
    rule_of,
)
from custodes.evaluate.result import Result, Rng, at_least, between, columns, provenance, seeded, stacked
from custodes.progress import Progress, silent
from custodes.stats import ABSENT
from custodes.stats.correction.dirichlet import human_theta
from custodes.stats.correction.estimate import decide
from custodes.stats.decisions.outcome import error_types
from custodes.stats.resampling import resample
from custodes.stats.stopping.replay import Replayed, mean_kld, replay
from custodes.stats.stopping.rules import HUMAN, POOLED, Boundary, Rule

ERRORS = ("correct", "inversion", "omission", "insertion")


@dataclass(frozen=True, kw_only=True)
class Protocol(Result):
    """`protocol` (metric x estimator x stop), `reference` (the decisions on all annotations), `curve` (the same rows by
    round), `naive` (each metric taken at its word). See `protocol`."""

    protocol: pl.DataFrame
    reference: pl.DataFrame
    curve: pl.DataFrame
    naive: pl.DataFrame


def protocol(
    study: Study,
    *,
    estimator: str | Sequence[str] | None = None,
    batch: int = 10,
    looks: Sequence[int] | None = None,
    budget: int | None = None,
    boundary: Boundary | float = "none",
    stop: str | Sequence[str] = "decided",
    futility: float = 0.2,
    equivalence: float | None = None,
    replications: int = 20,
    null: bool = False,
    ideal: int = 0,
    gamma: float = 0.05,
    resamples: int = 1000,
    workers: int | None = None,
    rng: Rng = 0,
    progress: Progress = silent,
    **setting: Unpack[Setting],
) -> Protocol:
    """Replay the annotation protocol on a fully annotated study: what share of the annotations gives which decisions.

    All pairs of systems start undecided. Every round adds `batch` annotations (or goes on to the next of `looks`) to
    each open pair, on items in an order drawn afresh for every pair and replication; a pair is decided when theta =
    P(p_win > p_loss) is beyond 1 - gamma/2 or below gamma/2, and is then closed. It ends when all is annotated, decided
    or paid (`budget`: annotations in all). What it is compared with is the same rule, by people alone, on everything.

    `metrics` 'none' (the default) asks people alone; otherwise each metric helps. `estimator`: one or several of
    mixture (default with metrics), human (default without), ppi, inversion, poststratified, naive, pooled. `boundary`
    of repeated looks: none (as in the paper), pocock, obrien-fleming, or the |z| that every look asks. `stop`: a row
    each, 'decided' or what else closes a pair, joined by '+': 'futility' (its chance of being decided by the last look
    is below `futility`), 'equivalence' (its margin lies within +-`equivalence`), 'anytime' (decisions by betting on
    people's annotations: valid however often one looks, per pair). `ideal`: also a simulated metric with the
    paper's confusion, on that many items beside the annotated ones.

    `protocol`: `annotations` in all and as a `share` of what there is (mean over pairs); shares of pairs `correct`,
    with `inversion`, `omission`, `insertion`; `kld` in nats, mean over pairs (null for estimators of the margin alone);
    `null_error` (with `null`): false decisions per pair when the systems are permuted within every item. Each the mean
    over `replications`, and `_sd` over them. `reference`: `decided`, the share of pairs that are decided on all
    annotations, and `self_agreement`, how often these decisions come back on resampled clusters. `curve`: means by
    round. `naive`: the error types of the metrics taken at their word. The result does not depend on `workers`.

    Source: Deriu et al. 2023, Algorithm 2, Tables 3 to 5, Appendix E; boundaries, futility, betting, null are ours.

    >>> import custodes as cu
    >>> from custodes.evaluate.protocol.protocol import protocol
    >>> result = protocol(cu.read("demo"), replications=5, resamples=50)
    >>> result.protocol["share"].is_between(0, 1).all()
    True
    """
    between("gamma", gamma, 0, 1)
    between("futility", futility, 0, 1)
    at_least("replications", replications, 1)
    at_least("resamples", resamples, 0)
    at_least("ideal", ideal, 0)
    if budget is not None:
        at_least("budget", budget, 1)
    if workers is not None:
        at_least("workers", workers, 1)
    alone = setting.get("metrics") in (None, NONE)
    full = settings({**setting, "metrics": None} if alone else setting)
    options: dict[str, Any] = {
        "estimator": list(checked_estimators(estimator, alone=alone and not ideal)),
        "batch": batch,
        "looks": checked_looks(batch, looks),
        "budget": budget,
        "boundary": checked_boundary(boundary),
        "stop": list(checked_stops(stop, equivalence)),
        "futility": futility,
        "equivalence": equivalence,
        "replications": replications,
        "null": null,
        "ideal": ideal,
        "gamma": gamma,
        "resamples": resamples,
    }
    _check_anytime(options)
    generator, seed = seeded(rng)
    root = int(generator.integers(2**63))
    comparisons = compare(people_alone(study, full["human"]) if alone else study, **full)
    tasks = [
        _Task(
            comparison=comparison, metric=metric, options=options, seed=(root, zlib.crc32(comparison.aspect.encode()))
        )
        for comparison in comparisons
        for metric in _metrics(comparison, options, alone=alone)
    ]
    with ThreadPoolExecutor(max_workers=workers or os.cpu_count() or 1) as pool:
        made = list(progress(pool.map(_replayed, tasks), total=len(tasks), desc="protocol"))
    # one task of each aspect, as the reference is of people alone
    references = [_reference(task) for task in {task.comparison.aspect: task for task in tasks}.values()]
    notes = tuple(dict.fromkeys([*(note for c in comparisons for note in _study_notes(c, alone)), *_notes(tasks)]))
    options = {**full, "metrics": NONE if alone else full["metrics"], **options}
    return Protocol(
        provenance=provenance("protocol", study, options=options, seed=seed, notes=notes),
        notes=notes,
        protocol=stacked([tables["protocol"] for tables in made]),
        reference=stacked(references),
        curve=stacked([tables["curve"] for tables in made]),
        naive=stacked([tables["naive"] for tables in made]),
    )


@dataclass(frozen=True, kw_only=True)
class _Task:
    """One aspect and metric ('none', a metric, or 'ideal'): all replications, estimators and stopping rules of it.

    Everything random comes from `seed`, so that neither the other tasks nor the threads change an answer.
    """

    comparison: Comparison
    metric: str
    options: dict[str, Any]
    seed: tuple[int, int]

    def rng(self, purpose: int) -> np.random.Generator:
        """A generator of this aspect's own for one purpose."""
        return np.random.default_rng([*self.seed, purpose])

    @property
    def estimators(self) -> list[str]:
        """Those that make use of the metric, or of none."""
        return [name for name in self.options["estimator"] if (name in ALONE) == (self.metric == NONE)]

    def asked(self) -> Asked:
        """People beside the metric."""
        if self.metric == IDEAL:
            return with_ideal(asked_of(self.comparison, NONE), self.options["ideal"], self.rng(3))
        return asked_of(self.comparison, self.metric)

    def rule(self, estimator: str, stop: str, most: int) -> Rule:
        """The rule of one row of the table."""
        names = ("batch", "looks", "boundary", "futility", "equivalence", "gamma")
        seed = int(self.rng(1).integers(2**63))
        return rule_of(estimator=estimator, stop=stop, most=most, seed=seed, **{k: self.options[k] for k in names})


def _metrics(comparison: Comparison, options: dict[str, Any], *, alone: bool) -> list[str]:
    """The metrics that rows are made for; 'none' where an estimator uses people alone."""
    wanted = set(options["estimator"])
    names = [NONE] if wanted & set(ALONE) else []
    if wanted - set(ALONE):
        names += [] if alone else list(comparison.metrics)
        names += [IDEAL] if options["ideal"] else []
    return names


def _replayed(task: _Task) -> dict[str, pl.DataFrame]:
    asked, options = task.asked(), task.options
    # One seed a replication: more replications begin with the same ones, and all rows share their orders.
    seeds = task.rng(0).integers(2**63, size=options["replications"]).tolist()
    everyone = [asked] * len(seeds)
    worlds = [(everyone, *in_order(everyone, seeds))]
    if options["null"]:
        shuffled = [permuted(asked, np.random.default_rng([seed, 1])) for seed in seeds]
        worlds.append((shuffled, *in_order(shuffled, seeds)))
    most = int(max(answers.available.max() for _, answers, _ in worlds))
    reference, truth = asked.reference(options["gamma"]), asked.truth
    rows, curves = [], []
    for estimator in task.estimators:
        for stop in options["stop"]:
            rule = task.rule(estimator, stop, most)
            ends = []
            for world, answers, place in worlds:
                pools = estimator == POOLED
                together = pooling(world, place, gamma=rule.gamma, seed=rule.seed) if pools else None
                ends.append(
                    replay(answers, rule, budget=options["budget"], reference=reference, truth=truth, together=together)
                )
            keys = {"aspect": task.comparison.aspect, "metric": task.metric, "estimator": estimator, "stop": stop}
            rows.append(_row(keys, options, ends, worlds[0][1].available, reference))
            curves.append(_curve(keys, rule, ends[0], int(worlds[0][1].available[0].sum())))
    return {"protocol": stacked(rows), "curve": stacked(curves), "naive": _naive(task, asked)}


def _row(
    keys: dict[str, str],
    options: dict[str, Any],
    ends: list[Replayed],
    available: NDArray[np.int64],
    reference: NDArray[np.int8],
) -> pl.DataFrame:
    """One row of the table `protocol`: means over replications, and their standard deviations."""
    end = ends[0]
    values: dict[str, Floats] = {"annotations": end.n.sum(axis=1), "share": (end.n / available).mean(axis=1)}
    values |= dict(zip(ERRORS, error_types(reference, end.decision).T, strict=True))
    values["kld"] = end.kld[-1]
    values["null_error"] = (ends[1].decision != 0).mean(axis=1) if len(ends) > 1 else np.full(len(end.n), np.nan)
    looks = options["looks"]
    boundary = options["boundary"]
    data: dict[str, Any] = {
        **keys,
        "boundary": boundary if isinstance(boundary, str) else f"{boundary:g}",
        "batch": None if looks else options["batch"],
        "looks": ",".join(map(str, looks)) if looks else None,
        "replications": len(end.n),
    }
    for name, each in values.items():
        data |= {name: np.array([each.mean()]), f"{name}_sd": np.array([each.std(ddof=1) if len(each) > 1 else np.nan])}
    table = columns({name: value if isinstance(value, np.ndarray) else [value] for name, value in data.items()})
    return table.with_columns(pl.col("batch").cast(pl.Int64), pl.col("looks").cast(pl.String))


def _curve(keys: dict[str, str], rule: Rule, end: Replayed, available: int) -> pl.DataFrame:
    """What has been reached after each round, means over replications."""
    n = len(rule.looks)
    return columns(
        {
            **{name: [value] * n for name, value in keys.items()},
            "round": np.arange(1, n + 1),
            "look": np.array(rule.looks),
            "annotations": end.annotations.mean(axis=1),
            "share": end.annotations.mean(axis=1) / available,
            "decided": end.decided.mean(axis=1),
            "correct": end.correct.mean(axis=1),
            "kld": end.kld.mean(axis=1),
        }
    )


def _naive(task: _Task, asked: Asked) -> pl.DataFrame:
    """The metric taken at its word on all items it rated (the paper's Table 4); no row without a metric."""
    outcome = asked.metric_outcome
    decision = decide(human_theta(outcome[:, 0], outcome[:, 2]), gamma=task.options["gamma"])
    shares = error_types(asked.reference(task.options["gamma"]), np.where(outcome.sum(axis=1), decision, np.nan))
    kld = mean_kld(shares_of(outcome), asked.truth)
    table = columns(
        {
            "aspect": [task.comparison.aspect],
            "metric": [task.metric],
            "n": np.array([int(outcome.sum())]),
            **{name: shares[i : i + 1] for i, name in enumerate(ERRORS)},
            "kld": np.array([float(kld)]),
        }
    )
    return table.head(0 if task.metric == NONE else 1)


def _reference(task: _Task) -> pl.DataFrame:
    """How often people's own decisions come back on resampled clusters: what "correct" can reach at most."""
    asked, gamma = task.asked(), task.options["gamma"]
    n_units = int(asked.units.max()) + 1
    hot = np.stack([asked.human == kind for kind in (1, -1)], axis=1).astype(np.float64)
    per_unit = resample.unit_sums(hot, units=asked.units, n_units=n_units)
    times = resample.bootstrap_weights(n_units, task.options["resamples"] if n_units > 1 else 0, task.rng(2))
    drawn = resample.weighted_sums(times, per_unit)
    decision = decide(human_theta(drawn[..., 0], drawn[..., 1]), gamma=gamma)
    reference = asked.reference(gamma)
    agreement = error_types(reference, decision)[..., 0] if len(times) else np.full(2, np.nan)
    return columns(
        {
            "aspect": [task.comparison.aspect],
            "pairs": np.array([len(reference)]),
            "annotations": np.array([int(asked.outcome.sum())]),
            "decided": np.array([(reference != 0).mean()]),
            "self_agreement": np.array([agreement.mean()]),
            "self_agreement_sd": np.array([agreement.std(ddof=1)]),
        }
    )


def _check_anytime(options: dict[str, Any]) -> None:
    others = [name for name in options["estimator"] if name != HUMAN]
    if others and any("anytime" in stop for stop in options["stop"]):
        raise OptionError(
            f"stop 'anytime' bets on people's annotations alone, not on estimator={others[0]!r}; use human"
        )


def _study_notes(comparison: Comparison, alone: bool) -> list[Note]:
    """What the comparison has to say; of its metrics only where they are used."""
    own = ("items-without-people", "all-ties", "one-item", "verdicts-vote", "people-not-selected")
    notes = [note for note in comparison.notes if not alone or note.rule in own]
    human = comparison.human_signs
    silent_pairs = int((human == ABSENT).all(axis=1).sum())
    if silent_pairs:
        message = f"{silent_pairs} pairs have no item rated by people{label_of(comparison.aspect)} and are left out"
        notes.append(Note(rule="pairs-without-people", message=message, count=silent_pairs))
    return notes


def _notes(tasks: list[_Task]) -> list[Note]:
    """What a reader must know before trusting the error rates."""
    options = tasks[0].options
    notes = []
    if options["boundary"] == "none" and any("anytime" not in stop for stop in options["stop"]):
        message = (
            f"every look decides at gamma={options['gamma']:g} as if it were the only one, so false decisions are more"
            " frequent than that (null=True counts them); boundary='pocock' keeps the level"
        )
        notes.append(Note(rule="repeated-looks", message=message))
    n_pairs = max(len(task.comparison.preferences.system_a) for task in tasks)
    if any("anytime" in stop for stop in options["stop"]):
        message = (
            f"'anytime' holds its level {options['gamma']:g} for each pair, so up to"
            f" {options['gamma'] * n_pairs:.3g} false decisions are expected over {n_pairs} pairs if none differs"
            f" (gamma={options['gamma'] / n_pairs:.2g} bounds the chance of any); it speaks of the population of items"
        )
        notes.append(Note(rule="anytime-level", message=message))
    if options["budget"] is not None and options["budget"] < n_pairs:
        message = f"the budget of {options['budget']} annotations leaves some of {n_pairs} pairs without any"
        notes.append(Note(rule="pairs-never-annotated", message=message, count=n_pairs - options["budget"]))
    if POOLED in options["estimator"]:
        message = (
            "pooled margins assume that the margin of a pair is the difference of two system levels; where a test"
            " refutes it, every pair is judged by its own annotations"
        )
        notes.append(Note(rule="additivity", message=message))
    return notes
