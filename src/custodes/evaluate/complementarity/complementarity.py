"""How alike are the judges: do ten metrics say ten things or one?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.data.notes import Note
from custodes.data.panel import Floats
from custodes.data.study import Study
from custodes.errors import InputError, OptionError, listed, suggestion
from custodes.evaluate.comparison import Selection
from custodes.evaluate.complementarity.distances import (
    BLOCK,
    KINDS,
    LEVELS,
    Distances,
    Level,
    distances_of,
    ranked,
    rankers,
    square,
)
from custodes.evaluate.complementarity.rater_space import structure
from custodes.evaluate.judges import METRIC, Judges, People, few_clusters_notes, judges
from custodes.evaluate.parallel import one_core
from custodes.evaluate.result import Result, Rng, at_least, between, columns, provenance, seeded
from custodes.progress import Progress, silent
from custodes.stats.agreement import correlation
from custodes.stats.complementarity import rank_distance, seriation
from custodes.stats.resampling import resample

GAPS = (("human-metric", "metric-metric"), ("human-metric", "human-human"), ("metric-metric", "human-human"))


@dataclass(frozen=True, kw_only=True)
class Complementarity(Result):
    """`pairs` of raters, `averages` within and between people and metrics, their `gaps`, every rater against people
    and metrics (`raters`), the effect of the tie rule (`rules`), principal `components`, `coordinates` on the first
    two, `clusters`, a `summary`, and who is `left_out`. See `complementarity`."""

    pairs: pl.DataFrame
    averages: pl.DataFrame
    gaps: pl.DataFrame
    raters: pl.DataFrame
    rules: pl.DataFrame
    components: pl.DataFrame
    coordinates: pl.DataFrame
    clusters: pl.DataFrame
    summary: pl.DataFrame
    left_out: pl.DataFrame


def complementarity(
    study: Study,
    *,
    level: Level = "system",
    distance: rank_distance.Rule = "tau-b",
    people: People = "aspects",
    confidence: float = 0.95,
    resamples: int = 1000,
    rng: Rng = 0,
    progress: Progress = silent,
    **selection: Unpack[Selection],
) -> Complementarity:
    """How differently raters rank: 0 the same order, 1 the opposite one, for every pair of metrics and people.

    level: 'system' ranks the systems within each item and averages over items (paper, equation 3); 'utterance' ranks
    the items within each system and averages over systems. distance: what ties do, 'tau-b' (1 - tau_b) / 2, 'strict'
    (share of opposite pairs), 'half' (a tie is half an opposite pair), 'ordinal' (ties broken by position). people:
    one rater an aspect ('aspects', mean over annotators), or every one of the 'annotators'. Metrics where lower is
    better are turned round first, if the raters file says so.

    Intervals: percentiles over resampled clusters of items (at the utterance level by the influence of each item, to
    first order: a twentieth too narrow with 60 items, a fifth with 20).
    A constant rater, or one that never tells apart what is ranked, has no ranking: null, named in `left_out`, left out
    of averages. Raises `OptionError` for unknown
    names, `InputError` with fewer than two raters, systems or items.

    >>> import custodes as cu
    >>> made = cu.complementarity(cu.read("demo"), resamples=0)
    >>> made.averages["kinds"].to_list()
    ['human-human', 'human-metric', 'metric-metric']

    Source: Colombo et al. 2023 (glass ceiling), equations 1 to 4, appendix B.
    """
    for name, value, allowed in (("level", level, LEVELS), ("distance", distance, rank_distance.RULES)):
        if value not in allowed:
            raise OptionError(f"{name}={value!r}; allowed: {', '.join(allowed)}{suggestion(value, allowed)}")
    between("confidence", confidence, 0, 1)
    at_least("resamples", resamples, 0)
    who = rankers(judges(study, people=people, **selection), level)
    generator, seed = seeded(rng)
    drawn = resample.bootstrap_weights(who.n_units, resamples if who.n_units > 1 else 0, generator)
    weights = resample.with_point(drawn)
    distances = distances_of(who, level, distance, weights, confidence, progress)
    if not np.isfinite(distances.mean).any():
        raise InputError(f"{study.name}: no two raters rank two outputs in common; is every rater constant?")
    with one_core():
        tables, more, about_space = structure(who, level, weights, distances, confidence, generator)
    own_notes = [
        *_notes(who, level, distance, distances, confidence),
        *_mixed_notes(who, people),
        *few_clusters_notes(who.n_units, resamples),
    ]
    notes = tuple(dict.fromkeys([*who.notes, *own_notes, *about_space]))
    options = {
        **selection,
        "level": level,
        "distance": distance,
        "people": people,
        "confidence": confidence,
        "resamples": resamples,
    }
    return Complementarity(
        provenance=provenance("complementarity", study, options=options, seed=seed, notes=notes),
        notes=notes,
        pairs=_pair_table(who, distances),
        averages=_average_table(who, distances, confidence),
        gaps=_gap_table(distances, confidence),
        raters=_rater_table(who, distances, confidence),
        rules=_rule_table(who, level),
        left_out=who.left_out_table(more),
        **tables,
    )


def _pair_table(who: Judges, distances: Distances) -> pl.DataFrame:
    return columns(
        {
            "metric_a": [who.names[i] for i in distances.first],
            "metric_b": [who.names[i] for i in distances.second],
            "kind_a": [who.kinds[i] for i in distances.first],
            "kind_b": [who.kinds[i] for i in distances.second],
            "complementarity": distances.mean,
            "low": distances.low,
            "high": distances.high,
            "n": distances.n,
        }
    )


def _average_table(who: Judges, distances: Distances, confidence: float) -> pl.DataFrame:
    low, high = resample.percentile_interval(distances.kinds[1:], confidence=confidence)
    human = np.array([kind != METRIC for kind in who.kinds])
    kind = 2 - human[distances.first].astype(int) - human[distances.second]
    defined = np.isfinite(distances.mean)
    return columns(
        {
            "kinds": list(KINDS),
            "complementarity": distances.kinds[0],
            "low": low,
            "high": high,
            "pairs": np.array([int((defined & (kind == k)).sum()) for k in range(len(KINDS))]),
        }
    )


def _gap_table(distances: Distances, confidence: float) -> pl.DataFrame:
    """Differences of averages from the same resamples: is between really further than within?"""
    place = {name: k for k, name in enumerate(KINDS)}
    draws = np.stack([distances.kinds[:, place[a]] - distances.kinds[:, place[b]] for a, b in GAPS], axis=1)
    low, high = resample.percentile_interval(draws[1:], confidence=confidence)
    return columns(
        {
            "kinds_a": [a for a, _ in GAPS],
            "kinds_b": [b for _, b in GAPS],
            "difference": draws[0],
            "low": low,
            "high": high,
        }
    )


def _rater_table(who: Judges, distances: Distances, confidence: float) -> pl.DataFrame:
    """Complementarity of each rater with all people and with all metrics (equation 4), and its place in a heat map."""
    low, high = resample.percentile_interval(distances.raters[1:], confidence=confidence)
    position = np.full(len(who.names), -1)
    matrix = square(distances, distances.mean, len(who.names))
    start = 0
    for kind in ("human", METRIC):
        own = who.of_kind(kind)
        position[own[seriation.leaf_order(matrix[np.ix_(own, own)])]] = start + np.arange(len(own))
        start += len(own)
    data: dict[str, object] = {"metric": list(who.names), "kind": list(who.kinds)}
    for k, name in enumerate(("with_humans", "with_metrics")):
        data |= {name: distances.raters[0, :, k], f"{name}_low": low[:, k], f"{name}_high": high[:, k]}
    placed = pl.Series("position", [int(p) if p >= 0 else None for p in position], dtype=pl.Int64)
    return columns(data).with_columns(placed)


def _rule_table(who: Judges, level: Level) -> pl.DataFrame:
    """The averages under every tie rule: how much of the answer is the rule."""
    values = ranked(who, level)
    rules = rank_distance.RULES
    sums, counts = np.zeros((2, len(rules), len(KINDS)))
    for first, second, kind in _pair_blocks(who, values):
        by_rule = rank_distance.rank_distances_by_rule(values, first, second, rules=rules)
        for place, own in enumerate(by_rule.values()):
            mean = correlation.weighted_item_mean(
                own,
                units=np.arange(own.shape[1]),
                weights=np.ones((1, own.shape[1])),
                item_weights=who.weights if level == "system" else None,
            )[0]
            defined = np.isfinite(mean)
            sums[place] += [mean[defined & (kind == k)].sum() for k in range(len(KINDS))]
            counts[place] += [(defined & (kind == k)).sum() for k in range(len(KINDS))]
    with np.errstate(invalid="ignore", divide="ignore"):
        average = sums / counts
    return columns(
        {
            "distance": [rule for rule in rules for _ in KINDS],
            "kinds": list(KINDS) * len(rules),
            "complementarity": average,
        }
    )


def _pair_blocks(who: Judges, values: Floats) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]]:
    """Pairs of raters, so many at a time as memory allows, with the kind of each pair."""
    first, second = np.triu_indices(len(values), 1)
    human = np.array([kind != METRIC for kind in who.kinds])
    step = max(1, BLOCK // max(values.shape[1:]))
    for start in range(0, len(first), step):
        one, other = first[start : start + step], second[start : start + step]
        yield one, other, 2 - human[one].astype(int) - human[other]


def _notes(who: Judges, level: Level, rule: str, distances: Distances, confidence: float) -> list[Note]:
    notes = []
    units = len(who.items) if level == "system" else len(who.systems)
    what = "items" if level == "system" else "systems"
    varies = np.isin(who.names, who.constant, invert=True)
    lost = int((units - distances.n)[varies[distances.first] & varies[distances.second]].sum())
    if lost:
        message = (
            f"{lost} rankings of pairs of raters left out of the means ({rule}): on these {what} one of the two is"
            " constant, or they rated fewer than two outputs in common"
        )
        notes.append(Note(rule="undefined-distances", message=message, count=lost))
    none = [kind for kind, mean in zip(KINDS, distances.kinds[0], strict=True) if np.isnan(mean)]
    if none:
        several = np.isfinite(who.annotators).any(axis=(2, 3)).sum() > len(who.of_kind("human"))
        hint = "; people='annotators' compares people one by one" if several and KINDS[0] in none else ""
        notes.append(Note(rule="no-pairs", message=f"no two raters to compare for {', '.join(none)}{hint}"))
    low, _ = resample.percentile_interval(distances.raters[1:, :, 0], confidence=confidence)
    against = [
        name for name, kind, least in zip(who.names, who.kinds, low, strict=True) if kind == METRIC and least > 0.5
    ]
    if against:
        message = (
            f"rank against people: {listed(against)}; if lower is better, say so in the raters file"
            " (higher_is_better = false), else distances between them and others mislead"
        )
        notes.append(Note(rule="against-people", message=message, count=len(against)))
    if who.n_units < 2:
        message = "one item or cluster only: nothing to resample, so no intervals"
        notes.append(Note(rule="one-item", message=message, count=1))
    if level == "utterance" and who.weights is not None:
        message = "item weights act on the dimension, not on utterance-level distances"
        notes.append(Note(rule="weights-unused", message=message))
    return notes


def _mixed_notes(who: Judges, people: People) -> list[Note]:
    """Whether human-human says more than how people agree."""
    own = who.of_kind("human")
    several = len({who.raters[i] for i in own}) > 1 and len({who.rater_aspects[i] for i in own}) > 1
    if people != "annotators" or not several:
        return []
    message = (
        "human-human averages pairs of two people on one aspect, of one person's aspects, and of neither; choose one"
        " aspect to see how people agree"
    )
    return [Note(rule="mixed-human-pairs", message=message)]
