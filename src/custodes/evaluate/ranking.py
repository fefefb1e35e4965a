"""What is the ranking of the systems, and which decisions does each metric get wrong?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.data.notes import Note
from custodes.data.pairs import PairCounts
from custodes.data.panel import Floats
from custodes.data.study import Study
from custodes.errors import OptionError, listed
from custodes.evaluate.comparison import HUMAN, Comparison, Counted, Setting, counted, label_of
from custodes.evaluate.edges import cycle_notes, ranking_edges, systems_of
from custodes.evaluate.favoritism import DECISION
from custodes.evaluate.parallel import each
from custodes.evaluate.result import Result, Rng, at_least, between, columns, provenance, seeded, stacked
from custodes.progress import Progress, silent
from custodes.stats import ABSENT
from custodes.stats.decisions import outcome, signtest
from custodes.stats.decisions.consensus import kemeny
from custodes.stats.decisions.signtest import Correction, Test
from custodes.stats.resampling import resample

ALL_METRICS = "all metrics"
"""The consensus of all metrics of the study in the table `consensus`."""

ERRORS = ("correct", "inversion", "omission", "insertion")


@dataclass(frozen=True, kw_only=True)
class Ranking(Result):
    """`decisions` (rater x pair), `edges` (rater: winner -> loser after transitive reduction), `errors` (metric against
    people), `consensus` (rater x system). See `ranking`."""

    decisions: pl.DataFrame
    edges: pl.DataFrame
    errors: pl.DataFrame
    consensus: pl.DataFrame


def ranking(
    study: Study | PairCounts,
    *,
    alpha: float = 0.05,
    test: Test = "asymptotic",
    correction: Correction = "none",
    kld: Literal["mean", "mode"] = "mean",
    confidence: float = 0.95,
    resamples: int = 1000,
    rng: Rng = 0,
    progress: Progress = silent,
    **setting: Unpack[Setting],
) -> Ranking:
    """Who is better than whom by people and by every metric, and which kinds of error the metrics make.

    `decisions`: wins, ties, losses of system_a, the sign test's p-value (ties dropped; after `correction` over the
    pairs of a rater) and the decision '+', '=' or '-'. `edges`: the ranking graph; systems in a cycle of wins are
    condensed and share a label joined by ' ~ '. `errors`: share of pairs where a metric's decision is `correct`, an
    `inversion`, an `omission` (people differ, metric does not) or an `insertion`, and `kld`, the mean divergence of its
    outcome from people's in nats (posterior means, or 'mode' as in the paper); intervals from resampled clusters.
    `consensus`: `borda`, the sum of ranks over items (from pair counts, so that missing cells weigh as their opponents
    do), `position` by it, and `kemeny`, the position in the exact Kemeny order (null where only approximate).
    Raters are 'human' (people aggregated), each metric, and in `consensus` 'all metrics'.

    Takes a study, or counts (`count_pairs`), which allow everything but intervals.
    Source: Favi-Score paper, section 2; correction paper, Tables 4 and 5.

    >>> import custodes as cu
    >>> result = cu.ranking(cu.read("demo"), resamples=0)
    >>> set(result.decisions["decision"]) <= {"+", "=", "-"}
    True
    """
    between("alpha", alpha, 0, 1)
    between("confidence", confidence, 0, 1)
    at_least("resamples", resamples, 0)
    for name, value, allowed in (
        ("test", test, ("asymptotic", "exact")),
        ("correction", correction, ("none", "holm", "bh")),
        ("kld", kld, ("mean", "mode")),
    ):
        if value not in allowed:
            raise OptionError(f"{name}={value!r}; allowed: {', '.join(allowed)}")
    generator, seed = seeded(rng)
    source, options, parts = counted(study, setting)
    rule = _Rule(alpha=alpha, test=test, correction=correction)

    def answer(part: Counted, rng: np.random.Generator) -> tuple[dict[str, pl.DataFrame], list[Note]]:
        return _tables(part, rule, kld, confidence, resamples, rng)

    answers = list(each(answer, parts, rng=generator, progress=progress, desc="rank"))
    notes = tuple(dict.fromkeys(note for _, own in answers for note in own))
    options |= {
        "alpha": alpha,
        "test": test,
        "correction": correction,
        "kld": kld,
        "confidence": confidence,
        "resamples": resamples,
    }
    return Ranking(
        provenance=provenance("ranking", source, options=options, seed=seed, notes=notes),
        notes=notes,
        **{name: stacked([tables[name] for tables, _ in answers]) for name in answers[0][0]},
    )


@dataclass(frozen=True, kw_only=True)
class _Rule:
    alpha: float
    test: Test
    correction: Correction

    def p_values(self, outcomes: NDArray[Any]) -> Floats:
        """(..., pairs, 3) -> (..., pairs), corrected."""
        return signtest.adjust(
            signtest.sign_test(outcomes[..., 0], outcomes[..., 2], test=self.test), correction=self.correction
        )

    def decide(self, outcomes: NDArray[Any]) -> Floats:
        """(..., pairs, 3) -> (..., pairs): 1, 0, -1; NaN where nothing was rated."""
        decided = signtest.decisions(
            outcomes[..., 0], outcomes[..., 2], alpha=self.alpha, test=self.test, correction=self.correction
        )
        # Spelled out: a sum over an axis of three is several times slower.
        rated = outcomes[..., 0] + outcomes[..., 1] + outcomes[..., 2] > 0
        return np.where(rated, decided, np.nan)


def _tables(
    part: Counted,
    rule: _Rule,
    kld: Literal["mean", "mode"],
    confidence: float,
    resamples: int,
    rng: np.random.Generator,
) -> tuple[dict[str, pl.DataFrame], list[Note]]:
    counts, comparison = part.counts, part.comparison
    # (raters, pairs, 3): people first
    outcomes = np.concatenate([counts.human[None], np.moveaxis(counts.metric, 1, 0)])
    decided = rule.decide(outcomes)
    raters = (HUMAN, *counts.metrics)
    labels = _Labels(aspect=part.aspect, raters=raters, systems=systems_of(counts), counts=counts)
    edges, cycle_notes = _edge_table(labels, decided)
    draws = _resampled_errors(comparison, rule, kld, resamples, rng) if comparison else None
    notes = [*part.notes, *cycle_notes]
    infinite = [
        name
        for name, value in zip(counts.metrics, _mean_kld(outcomes[1:], outcomes[0], kld), strict=True)
        if np.isinf(value)
    ]
    if infinite:
        message = (
            f"infinite divergence{label_of(part.aspect)} (null in JSON), from an outcome that people never gave;"
            f" kld='mean' avoids it: {listed(infinite)}"
        )
        notes.append(Note(rule="infinite-kld", message=message, count=len(infinite)))
    if draws is not None and len(draws.own):
        notes.append(_own_note(labels, draws.own))
    tables = {
        "decisions": _decision_table(labels, outcomes, decided, rule),
        "edges": edges,
        "errors": _error_table(labels, outcomes, decided, draws, kld, confidence),
        "consensus": _consensus_table(labels, outcomes, _items_rated(counts, comparison)),
    }
    return tables, notes


@dataclass(frozen=True, kw_only=True)
class _Labels:
    aspect: str
    raters: tuple[str, ...]
    systems: tuple[str, ...]
    counts: PairCounts


@dataclass(frozen=True, kw_only=True)
class _Resampled:
    """errors (resamples, metrics, 4), kld (resamples, metrics), own (resamples,): people's decisions against theirs."""

    errors: Floats
    kld: Floats
    own: Floats


def _decision_table(labels: _Labels, outcomes: NDArray[np.int64], decided: Floats, rule: _Rule) -> pl.DataFrame:
    n_raters, n_pairs = decided.shape
    p_values = np.where(np.isnan(decided), np.nan, rule.p_values(outcomes))
    return columns(
        {
            "aspect": [labels.aspect] * decided.size,
            "rater": list(np.repeat(labels.raters, n_pairs)),
            "system_a": list(labels.counts.system_a) * n_raters,
            "system_b": list(labels.counts.system_b) * n_raters,
            "wins": outcomes[..., 0],
            "ties": outcomes[..., 1],
            "losses": outcomes[..., 2],
            "p_value": p_values,
            "decision": [None if sign != sign else DECISION[int(sign)] for sign in decided.ravel()],
        }
    )


def _edge_table(labels: _Labels, decided: Floats) -> tuple[pl.DataFrame, list[Note]]:
    rows, cyclic = [], []
    for rater, signs in zip(labels.raters, decided, strict=True):
        edges, circle = ranking_edges(labels.counts, signs)
        rows += [(labels.aspect, rater, winner, loser) for winner, loser in edges]
        if circle:
            cyclic.append(rater)
    schema = dict.fromkeys(("aspect", "rater", "winner", "loser"), pl.String)
    return pl.DataFrame(rows, schema=schema, orient="row"), cycle_notes(labels.aspect, cyclic)


def _error_table(
    labels: _Labels,
    outcomes: NDArray[np.int64],
    decided: Floats,
    draws: _Resampled | None,
    kld: Literal["mean", "mode"],
    confidence: float,
) -> pl.DataFrame:
    metrics = labels.raters[1:]
    shares = outcome.error_types(decided[0], decided[1:])
    divergence = _mean_kld(outcomes[1:], outcomes[0], kld)
    data: dict[str, object] = {"aspect": [labels.aspect] * len(metrics), "metric": list(metrics)}
    for i, name in enumerate((*ERRORS, "kld")):
        value = shares[:, i] if name in ERRORS else divergence
        low = high = np.full(len(metrics), np.nan)
        if draws is not None:
            drawn = draws.errors[:, :, i] if name in ERRORS else draws.kld
            low, high = resample.percentile_interval(drawn, confidence=confidence)
        data |= {name: value, f"{name}_low": low, f"{name}_high": high}
    return columns(data)


def _mean_kld(other: NDArray[np.generic], human: NDArray[np.generic], estimate: Literal["mean", "mode"]) -> Floats:
    """(..., pairs, 3) against (..., pairs, 3) -> (...): mean over pairs that both rated."""
    divergence = outcome.outcome_kld(other, human, estimate=estimate)
    inside = ~np.isnan(divergence)
    n = inside.sum(axis=-1)
    return np.asarray(np.where(inside, divergence, 0.0).sum(axis=-1) / np.where(n, n, np.nan))


def _resampled_errors(
    comparison: Comparison, rule: _Rule, kld: Literal["mean", "mode"], resamples: int, rng: np.random.Generator
) -> _Resampled:
    """Error types and divergence with people's and metrics' decisions both made on the same resampled clusters."""
    n_units = len(comparison.clusters)
    times = resample.bootstrap_weights(n_units, resamples if n_units > 1 else 0, rng)
    human = _resampled_outcomes(comparison.human_signs, comparison.units, times)
    human_decided = rule.decide(human)
    errors = np.empty((len(times), len(comparison.metrics), 4))
    divergence = np.empty((len(times), len(comparison.metrics)))
    for m, signs in enumerate(comparison.metric_signs):
        other = _resampled_outcomes(signs, comparison.units, times)
        errors[:, m] = outcome.error_types(human_decided, rule.decide(other))
        divergence[:, m] = _mean_kld(other, human, kld)
    observed = np.stack([(comparison.human_signs == kind).sum(axis=1) for kind in (1, 0, -1)], axis=-1)
    own = outcome.error_types(rule.decide(observed), human_decided)[:, 0] if len(times) else np.zeros(0)
    return _Resampled(errors=errors, kld=divergence, own=own)


def _resampled_outcomes(signs: NDArray[np.int8], units: NDArray[np.int64], times: Floats) -> Floats:
    """(pairs, items) and (resamples, units) -> (resamples, pairs, 3) counts of win, tie, loss."""
    hot = signs == np.array([1, 0, -1], dtype=np.int8)[:, None, None]
    per_unit = resample.unit_sums(hot, units=units, n_units=times.shape[1])
    return np.moveaxis(resample.weighted_sums(times, per_unit), 1, 2)


def _items_rated(counts: PairCounts, comparison: Comparison | None) -> NDArray[np.int64]:
    """(raters,): over how many items ranks are summed; from counts alone, the largest number behind a pair."""
    if comparison is not None:
        return np.asarray((comparison.preferences.signs != ABSENT).any(axis=0).sum(axis=1))
    totals = np.concatenate([counts.human.sum(axis=1)[None], counts.metric.sum(axis=2).T])
    return np.asarray(totals.max(axis=1))


def _consensus_table(labels: _Labels, outcomes: NDArray[np.int64], items: NDArray[np.int64]) -> pl.DataFrame:
    """Borda and Kemeny from pair counts; the consensus of all metrics gives each metric the same say."""
    rates = outcomes / np.where(outcomes.sum(axis=-1) > 0, outcomes.sum(axis=-1), np.nan)[..., None]
    everyone = [(rater, rate, int(n)) for rater, rate, n in zip(labels.raters, rates, items, strict=True)]
    if len(labels.raters) > 2:
        rated = np.isfinite(rates[1:]).any(axis=(1, 2))
        inside = np.isfinite(rates[1:])
        n = inside.sum(axis=0)
        mean = np.where(inside, rates[1:], 0.0).sum(axis=0) / np.where(n, n, np.nan)
        everyone.append((ALL_METRICS, mean, int(items[1:][rated].max(initial=0))))
    frames = []
    for rater, rate, n_items in everyone:
        wins = _pairwise_wins(labels, rate)
        lost = wins.T  # lost[a, b]: how often b beats a, half a tie included
        mean_rank = 1 + np.where(np.isfinite(lost), lost, 0.0).sum(axis=1) * _missing_scale(lost)
        exact = kemeny(np.nan_to_num(wins, nan=0.5))
        place = np.empty(len(labels.systems))
        place[exact.order] = np.arange(1, len(labels.systems) + 1)
        position = np.array([int((mean_rank < own - 1e-9).sum()) + 1 if own == own else 0 for own in mean_rank])
        frames.append(
            columns(
                {
                    "aspect": [labels.aspect] * len(labels.systems),
                    "rater": [rater] * len(labels.systems),
                    "system": list(labels.systems),
                    "borda": n_items * mean_rank,
                    "position": [int(p) if p else None for p in position],
                    "kemeny": [
                        int(p) if exact.exact and own == own else None for p, own in zip(place, mean_rank, strict=True)
                    ],
                }
            )
        )
    return stacked(frames)


def _pairwise_wins(labels: _Labels, rate: Floats) -> Floats:
    """(systems, systems): share of comparisons that the first wins, half a tie each; NaN where never compared."""
    position = {name: i for i, name in enumerate(labels.systems)}
    wins = np.full((len(labels.systems),) * 2, np.nan)
    for a, b, (win, tie, loss) in zip(labels.counts.system_a, labels.counts.system_b, rate, strict=True):
        wins[position[a], position[b]] = win + tie / 2
        wins[position[b], position[a]] = loss + tie / 2
    return wins


def _missing_scale(lost: Floats) -> Floats:
    """Scale up where some opponents were never met, so that ranks stay between 1 and the number of systems."""
    met = np.isfinite(lost).sum(axis=1)
    return (len(lost) - 1) / np.where(met, met, np.nan)


def _own_note(labels: _Labels, own: Floats) -> Note:
    label = label_of(labels.aspect)
    message = (
        f"people's own decisions, redrawn on resampled items, agree with themselves on {np.mean(own):.0%} of"
        f" pairs{label}: read every 'correct' beside it"
    )
    return Note(rule="self-agreement", message=message)
