"""Comparison: what people and metrics said of the same outputs under one aspect, as arrays with labels.

Every question starts here: it selects, averages people, makes preferences by the tie rule, and notes what is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from math import comb
from typing import Any, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from custodes.answers.setting import DEFAULTS, Setting, Ties, selection_of, settings
from custodes.data.notes import Note, noted
from custodes.data.pairs import PairCounts, PairPreferences, people_tie
from custodes.data.panel import Panel
from custodes.data.rows import MOST_CELLS, SparsePreferences
from custodes.data.study import OF_ALL_GROUPS, Study, of_aspect
from custodes.errors import InputError, OptionError, listed
from custodes.evaluate.bridge import dense_preferences, scored_items, sparse_preferences
from custodes.evaluate.design import Design
from custodes.evaluate.people import check_same_scale, mean_over_people, unpaired, unpaired_note
from custodes.evaluate.scores import Scores
from custodes.stats import ABSENT
from custodes.stats.agreement.ties import acc_eq
from custodes.stats.arrays import Floats, Signs, read_only
from custodes.stats.partiality.scores import ScoredPeople
from custodes.stats.resampling.resample import with_point

HUMAN = "human"
"""The name of the aggregated people in every table."""

CALIBRATION_FOLDS = 5


class NotComparableError(InputError):
    """A study without anything to compare; `check` lists the reason among the problems."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One aspect: `scores`, `preferences` with people first, then the metrics, as rows where most pairs
    were not compared on most items; `human_system` (systems,) and `metric_system` (metrics, systems)
    where the file gives system-level scores; `human_tie` the score difference up to which people tie in `acc_eq`;
    `epsilon` (metrics,) the tie threshold of each metric (NaN: verdicts, which carry their own ties); `overall` the
    metrics without a score for the aspect, whose score without an aspect is compared."""

    aspect: str
    design: Design
    people: tuple[str, ...]
    metrics: tuple[str, ...]
    scores: Scores
    human_system: Floats
    metric_system: Floats
    preferences: PairPreferences | SparsePreferences
    human_tie: float
    epsilon: Floats
    notes: tuple[Note, ...]
    overall: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        read_only(self)

    @property
    def items(self) -> tuple[str, ...]:
        """The items of the design."""
        return self.design.items

    @property
    def systems(self) -> tuple[str, ...]:
        """The systems of the design."""
        return self.design.systems

    @cached_property
    def persons(self) -> Floats:
        """(people, items, systems), NaN where there is no score."""
        return self.scores.spread(self.scores.persons)

    @cached_property
    def scored_people(self) -> ScoredPeople:
        """People, beside whom metrics are placed by scores."""
        return ScoredPeople(self.scores.persons, units=self.design.units[self.scores.items])

    @cached_property
    def human(self) -> Floats:
        """(items, systems): the mean of people."""
        return self.scores.spread(self.scores.human)

    @cached_property
    def metric_scores(self) -> Floats:
        """(metrics, items, systems)."""
        return self.scores.spread(self.scores.metrics)

    @property
    def human_signs(self) -> Signs:
        """(pairs, items)."""
        return self.preferences.signs[:, 0]

    @property
    def metric_signs(self) -> Signs:
        """(metrics, pairs, items)."""
        return np.moveaxis(self.preferences.signs[:, 1:], 1, 0)

    @cached_property
    def rated(self) -> NDArray[np.bool_]:
        """(metrics, pairs, items): whether people and the metric both have a preference."""
        return np.asarray((self.human_signs != ABSENT) & (self.metric_signs != ABSENT))

    @cached_property
    def scored(self) -> NDArray[np.bool_]:
        """(metrics, items, systems): whether people and the metric both have a score."""
        return np.asarray(np.isfinite(self.human) & np.isfinite(self.metric_scores))

    @cached_property
    def shared(self) -> NDArray[np.bool_]:
        """(metrics,): whether people and the metric have a preference on one pair and item."""
        signs = (self.preferences.rows(0, 1 + m).signs for m in range(len(self.metrics)))
        return np.array([(own != ABSENT).all(axis=0).any() for own in signs], dtype=np.bool_)

    @property
    def whole(self) -> NDArray[np.bool_]:
        """(metrics,): whether nothing but scores of systems can be compared: no pair of outputs is shared with people,
        and of two systems or more both have a score, which the file gives for one of them at least."""
        given, given_people = np.isfinite(self.metric_system), np.isfinite(self.human_system)
        people = given_people | (np.isfinite(self.scores.human).any(axis=0) & given)
        metrics = given | (np.isfinite(self.scores.metrics).any(axis=1) & given_people)
        return np.asarray(~self.shared & ((people & metrics).sum(axis=1) > 1))

    @property
    def unpaired(self) -> int:
        """Comparisons of two rated outputs left out because no annotator rated both."""
        people = self.preferences.rows(0)
        first, second = self.design.pairs[people.pair].T
        scores = self.scores
        return unpaired(scores.persons, items=scores.items, item=people.item, first=first, second=second)

    @property
    def of_people(self) -> Comparison:
        """The items that people rated, where these are not all: others say nothing of agreement."""
        rated = np.zeros(len(self.items), dtype=np.bool_)
        rated[self.preferences.rows(0).item] = True
        rated[self.scores.items[np.isfinite(self.scores.human).any(axis=1)]] = True
        items = np.flatnonzero(rated)
        if len(items) in (0, len(self.items)):
            return self
        return replace(
            self,
            design=self.design.on(items),
            scores=self.scores.on(items),
            preferences=self.preferences.on(items),
        )

    def only(self, metrics: NDArray[np.intp], *, scored: NDArray[np.bool_], rated: NDArray[np.bool_]) -> Comparison:
        """Some metrics on some of the scores (items, systems) and preferences (pairs, items)."""
        signs = np.where(rated[:, np.newaxis], self.preferences.signs[:, [0, *(metrics + 1)]], np.int8(ABSENT))
        names = tuple(self.metrics[m] for m in metrics)
        return replace(
            self,
            metrics=names,
            scores=Scores.all_items(
                persons=self.persons,
                human=np.where(scored, self.human, np.nan),
                metrics=np.where(scored, self.metric_scores[metrics], np.nan),
            ),
            metric_system=self.metric_system[metrics],
            preferences=PairPreferences(
                signs=signs,
                system_a=self.preferences.system_a,
                system_b=self.preferences.system_b,
                raters=(HUMAN, *names),
                items=self.items,
            ),
            epsilon=self.epsilon[metrics],
        )


def compare(study: Study, **setting: Unpack[Setting]) -> tuple[Comparison, ...]:
    """People against metrics, one comparison per aspect that people rated.

    Raises `OptionError` for unknown names, `InputError` where nothing can be compared (one system, no shared output
    and no scores of systems).
    """
    return compared(study.select(**selection_of(setting)), setting)


def compared(chosen: Study, setting: Setting) -> tuple[Comparison, ...]:
    """The same of a study that is selected already."""
    if len(chosen.systems) < 2:
        raise NotComparableError(too_few(chosen, "a comparison needs two"))
    return tuple(compared_on(chosen, aspect, setting) for aspect in chosen.aspects)


def compared_on(chosen: Study, aspect: str, setting: Setting) -> Comparison:
    """The comparison of one aspect of a selected study, of two or more systems."""
    full = settings(setting)
    how = (full["aggregate"], full["human_ties"], full["ties"], full["orders"])
    return chosen.once(("compared", aspect, *how), lambda: _compare_aspect(chosen, aspect, full))


def too_few(chosen: Study, needed: str) -> str:
    """What to say of a study with fewer than two systems."""
    if chosen.systems:
        return f"{chosen.name}: only 1 system ({listed(chosen.systems)}); {needed}"
    return (
        f"{chosen.name}: no score and no verdict counts, so there is no system to compare; name other raters or"
        " aspects, or wait for answers where people are still asked (custodes annotate status tells how far they are)"
    )


def with_outputs(comparisons: tuple[Comparison, ...]) -> tuple[Comparison, ...]:
    """The same, for a question about outputs; raises `InputError` where metrics have scores of whole systems only."""
    for own in comparisons:
        if not own.shared.any():
            raise InputError(
                f"metrics share scores of whole systems only with people{label_of(own.aspect)}"
                f" ({listed(own.metrics, limit=3)}), and this question compares outputs; ask agreement, or give scores"
                " of outputs too"
            )
    return comparisons


@dataclass(frozen=True, kw_only=True)
class Counted:
    """Pair counts of one aspect, and the comparison behind them where they were not given ready-made."""

    aspect: str
    counts: PairCounts
    comparison: Comparison | None

    @property
    def n_clusters(self) -> int:
        """How many clusters can be resampled; 0 where counts were given ready-made."""
        return self.comparison.design.n_units if self.comparison else 0

    @property
    def overall(self) -> tuple[str, ...]:
        """The metrics whose score without an aspect is compared with the aspect."""
        return self.comparison.overall if self.comparison else ()

    @property
    def notes(self) -> tuple[Note, ...]:
        """The notes of the comparison, or of the counting."""
        return self.comparison.notes if self.comparison else self.counts.notes


def counted(study: Study | PairCounts, setting: Setting) -> list[Counted]:
    """The counts of every aspect of a study, or those that were given, which are selected and tied already."""
    if not isinstance(study, PairCounts):
        comparisons = with_outputs(compare(study, **setting))
        return [Counted(aspect=c.aspect, counts=c.preferences.counts(), comparison=c) for c in comparisons]
    for name, value in setting.items():
        if value != DEFAULTS[name]:  # type: ignore[literal-required]
            raise OptionError(f"{name}: counts are already selected and tied; give it when counting")
    if not study.paired.any():
        raise InputError(
            f"people and metrics ({listed(study.metrics, limit=3)}) have no item in common, so nothing compares them;"
            " count items that both rated"
        )
    return [Counted(aspect="", counts=study, comparison=None)]


def label_of(aspect: str) -> str:
    """' for aspect ...' in a message, empty where there are no aspects."""
    return f" for aspect {aspect!r}" if aspect else ""


def _compare_aspect(study: Study, aspect: str, full: Setting) -> Comparison:
    notes = list(study.notes)
    label = label_of(aspect)
    rows = study._rows_of([*study.humans, *study.metrics]).filter(pl.col("aspect").is_in([aspect, ""]))
    people_rows = rows.filter((pl.col("aspect") == aspect) & pl.col("rater").is_in(list(study.humans)))
    present = set(people_rows["rater"].unique()) | (set(rows["rater"].unique()) & set(study.metrics))
    people = tuple(rater for rater in study.humans if rater in present)
    metrics = tuple(rater for rater in study.metrics if rater in present)
    if not metrics:
        why = next((f"; {note.message}" for note in study.notes if note.rule == OF_ALL_GROUPS), "")
        raise NotComparableError(
            f"{study.name}: no chosen metric rated anything{label}; metrics: {listed(study.metrics)}{why}"
        )
    systems = study.systems
    # Sorted: folds, resamples and flips do not depend on the order of rows.
    items = tuple(rows.filter(pl.col("item") != "")["item"].unique().sort())
    design = Design.of(study, items=items, systems=systems)
    settled, order_notes = study.preferences.settled(full["orders"])
    notes += order_notes
    settled = of_aspect(settled, aspect)
    raters = [*people, *metrics]
    given = of_aspect(study.ratings.frame.filter(pl.col("rater").is_in(raters)), aspect)
    place = scored_items(given, settled, n_raters=len(raters), items=items, n_systems=len(systems))
    _check_cells(study, len(items) if place is None else len(place), len(systems), len(raters), dense=place is None)
    scored = items if place is None else tuple(items[i] for i in place)
    panel = Panel.from_study(study, raters=raters, aspect=aspect, items=scored, systems=systems)
    persons, scores = panel.values[: len(people)], panel.values[len(people) :]
    check_same_scale(study, people, persons, label)
    voted = full["aggregate"] == "mean" and len(people) > 1 and settled["rater"].is_in(list(people)).any()
    vote = "several people gave verdicts, which have no mean: they vote (as with aggregate='vote')"
    notes += noted(("verdicts-vote", voted, vote))
    human, human_tie = mean_over_people(persons), people_tie(persons, full["human_ties"])
    units = design.units if place is None else design.units[place]
    epsilon, per_item = tie_thresholds(full["ties"], human=human, human_tie=human_tie, scores=scores, units=units)
    epsilon = np.where(np.isfinite(scores).any(axis=(1, 2)), epsilon, np.nan)
    labels: Any = {"raters": raters, "names": (HUMAN, *metrics), "items": items, "systems": systems}
    preferences: PairPreferences | SparsePreferences
    if place is None:
        place = np.arange(len(items))
        preferences = dense_preferences(persons, scores, per_item, settled, full, **labels)
    else:
        preferences = sparse_preferences(persons, scores, per_item, settled, full, scored=place, **labels)
    system_scores = panel.system_scores
    comparison = Comparison(
        aspect=aspect,
        design=design,
        people=people,
        metrics=metrics,
        scores=Scores(items=place, n_items=len(items), persons=persons, human=human, metrics=scores),
        human_system=mean_over_people(system_scores[: len(people), None])[0],
        metric_system=system_scores[len(people) :],
        preferences=preferences,
        # One person's scores are compared as they stand in acc_eq, as in its publication; a mean carries float noise.
        human_tie=0.0 if len(people) == 1 and full["human_ties"] is None else human_tie,
        epsilon=epsilon,
        notes=(),
        overall=_overall(rows, metrics, aspect),
    )
    notes += _design_notes(comparison, label)
    return replace(comparison, notes=tuple(notes))


def _overall(rows: pl.DataFrame, metrics: tuple[str, ...], aspect: str) -> tuple[str, ...]:
    """The metrics without a row of the aspect."""
    specific = set(rows.filter(aspect=aspect)["rater"].unique())
    return tuple(name for name in metrics if name not in specific)


def _check_cells(study: Study, n_items: int, n_systems: int, n_raters: int, *, dense: bool) -> None:
    """Raise `InputError` where dense signs, or the scores behind rows, would not fit a common machine."""
    if (comb(n_systems, 2) if dense else 8 * n_systems) * n_items * n_raters > MOST_CELLS:
        raise InputError(
            f"{study.name}: {n_items} items x {n_systems} systems x {n_raters} raters are too"
            " many for this question; select fewer, or count with custodes.count_pairs and give favoritism and ranking"
            " the counts"
        )


def tie_thresholds(
    ties: Ties, *, human: Floats, human_tie: float, scores: Floats, units: NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """Per metric, and per metric and item: calibrated thresholds are fitted on the other folds of items."""
    n_metrics, n_items = scores.shape[:2]
    if ties != "calibrated" or not n_items:
        epsilon = np.full(n_metrics, 0.0 if isinstance(ties, str) else float(ties))
        return epsilon, np.repeat(epsilon[:, None], n_items, axis=1)
    n_units = int(units.max()) + 1
    fold = np.arange(n_units) % CALIBRATION_FOLDS
    left_in = np.stack([(fold != k).astype(np.float64) for k in range(min(CALIBRATION_FOLDS, n_units))])
    weights = with_point(left_in if n_units > 1 else left_in[:0])
    _, fitted = acc_eq(human, scores, human_tie=human_tie, units=units, weights=weights, item_weights=None)
    fitted = np.nan_to_num(fitted, nan=0.0)
    per_item = fitted[1:][fold[units]].T if n_units > 1 else np.repeat(fitted[0][:, None], n_items, axis=1)
    return fitted[0], per_item


def _design_notes(comparison: Comparison, label: str) -> list[Note]:
    """What a reader must know of this comparison; raises where nothing overlaps."""
    people = comparison.preferences.rows(0)
    if not len(people):
        raise NotComparableError(
            f"people rated no two outputs of one item{label}, so they prefer nothing; a pair needs two rated systems"
            " of one item"
        )
    by_system = comparison.whole
    whole = list(compress(comparison.metrics, by_system))
    alone = list(compress(comparison.metrics, ~comparison.shared & ~by_system))
    if len(alone) == len(comparison.metrics):
        raise NotComparableError(
            f"people and metrics rated no pair of outputs in common{label}, and gave no scores of the same systems"
            f" (people {listed(comparison.people, limit=3)}; metrics {listed(alone, limit=3)}); do both files use the"
            " same item and system labels?"
        )
    constant = [
        name
        for name, scores in zip(comparison.metrics, comparison.scores.metrics, strict=True)
        if np.isfinite(scores).any() and np.nanmin(scores) == np.nanmax(scores)
    ]
    scoreless = [
        name
        for m, (name, scores) in enumerate(zip(comparison.metrics, comparison.scores.metrics, strict=True))
        if np.isnan(scores).all() and len(comparison.preferences.rows(1 + m))
    ]
    unscored = bool(np.isnan(comparison.scores.human).all())
    names = np.array([comparison.preferences.system_a, comparison.preferences.system_b])
    strangers = sorted(set(comparison.systems) - set(names[:, np.unique(people.pair)].ravel().tolist()))
    unrated = len(comparison.items) - len(np.unique(people.item))
    return noted(
        ("no-overlap", len(alone), f"no pair of outputs shared with people{label}, so undefined: {listed(alone)}"),
        (
            "whole-systems",
            len(whole),
            f"scores of whole systems only{label}, compared with people system by system and in nothing else:"
            f" {listed(whole)}",
        ),
        (
            "constant-metric",
            len(constant),
            f"constant{label}, so correlations are undefined and every pair ties: {listed(constant)}",
        ),
        (
            "all-ties",
            0 if people.signs.any() else len(people),
            f"people tie on every pair{label}: correlations with them and decisions are undefined",
        ),
        (
            "one-item",
            1 if comparison.design.n_units < 2 else 0,
            f"one item or cluster only{label}: nothing to resample, so no intervals",
        ),
        (
            "verdicts-only",
            unscored,
            f"people gave verdicts, not scores{label}: correlations, pairwise accuracy, acc_eq and spa are undefined",
        ),
        (
            "verdicts-only",
            0 if unscored else len(scoreless),
            f"verdicts, not scores{label}, so correlations, acc_eq and spa are undefined: {listed(scoreless)}",
        ),
        (
            "systems-without-people",
            len(strangers),
            f"systems that people compared with no other{label}, so nothing is known of them: {listed(strangers)}",
        ),
        (
            "item-weights",
            comparison.design.item_weights is not None,
            "items have weights: statistics of agreement weigh them; counts of wins, ties and losses (favoritism,"
            " ranking, correction, protocol) take every item once",
        ),
        (
            "items-without-people",
            unrated,
            f"{unrated} of {len(comparison.items)} items have no two outputs rated by people{label}",
        ),
        unpaired_note(comparison.unpaired, label),
        aspect=comparison.aspect,
    )
