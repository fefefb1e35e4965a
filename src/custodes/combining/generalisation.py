"""Does the gain over the best single metric hold on items, systems and data sets that were not learnt from?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from custodes.combining.lessons import said_of
from custodes.combining.methods import BEST, Method
from custodes.combining.task import aspect_of, labelled_folds
from custodes.combining.validation import Trial
from custodes.data.notes import Note, noted
from custodes.errors import OptionError
from custodes.evaluate.parallel import each
from custodes.progress import Progress
from custodes.stats.arrays import Floats
from custodes.stats.learning.folds import grouped_folds
from custodes.stats.learning.unseen import Moves, Over

ITEMS, SYSTEMS = "items", "systems"
GROUPS = {"dataset": "data sets", "group": "groups"}
"""Columns of the items file whose values are held out, and what they are called."""

GAIN, NO_GAIN = "gain", "no gain"

LEAST_SYSTEMS = 4
"""Fewer systems tell nothing of others."""

MOST_FOLDS = 20
"""So many times systems are held out, several at once where there are more of them."""


@dataclass(frozen=True, kw_only=True)
class Generalisation:
    """What `methods` reach where something was not seen: `moves` of each method and, last, of the best single metric;
    `seen` (methods,) the same comparisons by models that had seen other items of it, NaN for items; `over` what the
    interval lets vary; `n` how many of these there are; `folds` how often items, and how often systems or data sets
    were held out."""

    unseen: str
    methods: Sequence[str]
    moves: Moves
    seen: Floats
    over: Over
    n: int
    folds: tuple[int, int]

    def columns(self, confidence: float) -> dict[str, Any]:
        """A row for each method."""
        n = len(self.methods)
        gain = self.moves.minus(np.arange(n), np.full(n, n))
        low, high = gain.interval(self.over, confidence=confidence, folds=self.folds)
        return {
            "unseen": [self.unseen] * n,
            "method": list(self.methods),
            "n": [self.n] * n,
            "score": self.moves.value[:n],
            "seen": self.seen,
            "single": np.repeat(self.moves.value[n:], n),
            "gain": gain.value,
            "gain_low": low,
            "gain_high": high,
            "conclusion": [conclusion(end) for end in low],
        }


def conclusion(low: float) -> str | None:
    """What the lower end of the interval of a gain says; nothing where there is none."""
    return None if np.isnan(low) else GAIN if low > 0 else NO_GAIN


def generalised(trial: Trial, rng: np.random.Generator, progress: Progress) -> tuple[list[Generalisation], list[Note]]:
    """The gain of every method on unseen items, and of those that `unseen` names on unseen systems and data sets."""
    terms, others = trial.terms, [own for own in trial.terms.methods if own.name != BEST.name]
    used = np.asarray((trial.folds[0] >= 0).any(axis=1))
    order = np.array([*(terms.methods.index(own) for own in others), len(terms.methods)])
    found = [
        Generalisation(
            unseen=ITEMS if terms.folds == "item" else terms.folds,
            methods=[own.name for own in others],
            moves=trial.moves.minus(order),
            seen=np.full(len(others), np.nan),
            over="units",
            n=len(np.unique(trial.of.design.units[used])),
            folds=(trial.n_folds, 0),
        )
    ]
    if terms.folds != "item" or terms.unseen == "none" or not others:
        return found if others else [], []
    tried = tuple(own for own in others if own.fast or terms.unseen == "all")
    slow = [own.name for own in others if own not in tried]
    told = [
        (
            "unseen-not-tried",
            len(slow),
            f"not tried on unseen systems and data sets, as fits take long: {', '.join(slow)}; say unseen='all'",
        )
    ]
    if tried:
        parts = [_systems(trial, tried, rng, progress)]
        parts += [_groups(column, trial, tried, rng, progress) for column in GROUPS]
        found += [part for part in parts if isinstance(part, Generalisation)]
        told += [("unseen-not-told", 1, part) for part in parts if isinstance(part, str) and part]
    return found, noted(*told, aspect=aspect_of(trial.of.target))


def _systems(
    trial: Trial, methods: Sequence[Method], rng: np.random.Generator, progress: Progress
) -> Generalisation | str:
    """Every output compared by models that have seen neither its item nor its system; or why not."""
    of = trial.of
    rated = np.flatnonzero(of.rated.any(axis=0))
    if of.verdicts:
        return "nothing is said of unseen systems: an output's share of wins in verdicts holds those on other systems"
    if len(rated) < LEAST_SYSTEMS:
        return f"nothing is said of unseen systems: it takes {LEAST_SYSTEMS} systems, and people rated {len(rated)}"
    n_held = min(len(rated), MOST_FOLDS)
    held = np.full(len(of.design.systems), -1, dtype=np.intp)
    held[rated] = np.arange(n_held) if n_held == len(rated) else grouped_folds(rated, n_folds=n_held, rng=rng)
    model = np.where(of.rated, held, -1)
    fitted = (*methods, BEST)
    predicted = np.full((len(trial.folds), len(fitted), n_held, *of.human.shape), np.nan)

    def answer(job: tuple[int, int, int], rng: np.random.Generator) -> None:
        repeat, out, k = job
        fold = trial.folds[repeat]
        cells = np.flatnonzero((fold == out).ravel())
        said = said_of(of, trial.terms, fitted, (fold >= 0) & (fold != out) & (model != k), cells, rng, {})
        for m, (_, _, scores) in enumerate(said):
            predicted[repeat, m, k].reshape(-1)[cells] = scores

    jobs = [(*own, k) for own in trial.jobs for k in range(n_held)]
    each(answer, jobs, rng=rng, progress=progress, desc="unseen systems", label=str)
    return Generalisation(
        unseen=SYSTEMS,
        methods=[own.name for own in methods],
        moves=trial.compared(predicted, model, within=trial.folds, block=trial.folds),
        seen=trial.moves.value[[trial.terms.methods.index(own) for own in methods]],
        over="systems",
        n=len(rated),
        folds=(trial.n_folds, n_held),
    )


def _groups(
    column: str, trial: Trial, methods: Sequence[Method], rng: np.random.Generator, progress: Progress
) -> Generalisation | str:
    """Every data set (or group) by models that have seen no item of it; or why not."""
    of, name = trial.of, GROUPS[column]
    labels = {"dataset": of.design.dataset, "group": of.design.group}[column]
    present = {label for label, own in zip(labels, np.asarray(of.rated.any(axis=1)), strict=True) if own}
    if len(present - {""}) < 2 or (column == "group" and _alike(of.design.dataset, labels)):
        return ""
    try:
        group = labelled_folds(of, labels, f"unseen {name}")
    except OptionError as reason:
        return f"nothing is said of {reason}"
    fitted = (*methods, BEST)
    predicted = np.full((len(fitted), 1, *of.human.shape), np.nan)

    def answer(k: int, rng: np.random.Generator) -> None:
        cells = np.flatnonzero((group == k).ravel())
        said = said_of(of, trial.terms, fitted, (group >= 0) & (group != k), cells, rng, {})
        for m, (_, _, scores) in enumerate(said):
            predicted[m, 0].reshape(-1)[cells] = scores

    each(answer, range(int(group.max()) + 1), rng=rng, progress=progress, desc=f"unseen {name}", label=str)
    # Folds of items part what is compared here, too, so that the comparisons are the same.
    used = [(group >= 0) & (fold >= 0) for fold in trial.folds]
    design: dict[str, Any] = {
        "within": [
            np.where(own, group * len(trial.jobs) + fold, -1) for own, fold in zip(used, trial.folds, strict=True)
        ],
        "block": [np.where(own, group, -1) for own in used],
    }
    one = np.zeros_like(group)
    ours = trial.predicted[:, [trial.terms.methods.index(own) for own in methods], np.newaxis]
    return Generalisation(
        unseen=name,
        methods=[own.name for own in methods],
        moves=trial.compared([predicted] * len(used), one, **design),
        seen=trial.compared(ours, one, **design).value,
        over="blocks",
        n=int(group.max()) + 1,
        folds=(int(group.max()) + 1, int(group.max()) + 1),
    )


def _alike(a: Sequence[str], b: Sequence[str]) -> bool:
    """Whether two labellings part items in the same way."""
    return len(set(zip(a, b, strict=True))) == len(set(a)) == len(set(b))
