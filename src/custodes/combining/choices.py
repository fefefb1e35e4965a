"""What choices go by: how methods score on folds that they have not seen, each fit shared by all that may use it.

The choice for an outer fold must not see it: its inner folds are the other outer folds. What is learnt without the
folds j and k serves the choice for k, by what it scores on j, and that for j: ten fits of each method for five folds,
where fresh inner folds in each training part take 25. For the model of all outputs the inner folds are the outer ones,
and what was learnt without each is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from custodes.combining.lessons import Part, Scores, fitted, without
from custodes.combining.methods import Method, with_means
from custodes.combining.task import Task
from custodes.combining.terms import Terms
from custodes.progress import Progress
from custodes.stats.arrays import Floats, Ints
from custodes.stats.learning.objective import objective


def in_pairs(
    of: Task, terms: Terms, folds: Sequence[Ints], among: Sequence[Method], rng: np.random.Generator, progress: Progress
) -> dict[tuple[int, int], Scores]:
    """By repeat and fold: what methods score on each of the other folds, fitted without both."""
    numbers = [np.unique(fold[fold >= 0]).tolist() for fold in folds]
    jobs = [(repeat, *pair) for repeat, own in enumerate(numbers) for pair in combinations(own, 2)]
    parts = []
    for repeat, *out in jobs:
        held = np.isin(folds[repeat], out)
        parts.append(Part(str((repeat, *out)), (folds[repeat] >= 0) & ~held, np.flatnonzero(held)))
    alone = [own for own in among if not own.mean_of]
    fits = fitted(of, terms, alone, parts, rng=rng, progress=progress, desc="inner folds")
    scores: dict[tuple[int, int], list[dict[str, float]]] = {(r, k): [] for r, own in enumerate(numbers) for k in own}
    for (repeat, *out), part, fit in zip(jobs, parts, fits, strict=True):
        for scored, chosen_for in (out, out[::-1]):
            inside = folds[repeat].ravel()[part.held] == scored
            predicted = {own.name: values[inside] for own, values in zip(alone, fit.predicted, strict=True)}
            scores[repeat, chosen_for].append(_scores(of, terms, part.held[inside], predicted, among))
    return {key: _by_name(own, among) for key, own in scores.items()}


def of_all(
    of: Task,
    terms: Terms,
    fold: Ints,
    among: Sequence[Method],
    known: Mapping[str, Floats],
    rng: np.random.Generator,
    progress: Progress,
) -> Scores:
    """What methods score on each fold (items, systems), fitted without it: `known` are predictions (items, systems) by
    name, and other methods are fitted here."""
    wanting = [own for own in among if own.name not in known and not own.mean_of]
    predicted = {own.name: np.full(of.human.size, np.nan) for own in wanting}
    predicted |= {name: own.ravel() for name, own in known.items()}
    parts = [without(fold, k, str(k)) for k in range(int(fold.max()) + 1)]
    fits = fitted(of, terms, wanting, parts, rng=rng, progress=progress, desc="inner folds") if wanting else []
    for part, fit in zip(parts, fits, strict=False):
        for own, values in zip(wanting, fit.predicted, strict=True):
            predicted[own.name][part.held] = values
    held = [(part.held, {name: own[part.held] for name, own in predicted.items()}) for part in parts]
    return _by_name([_scores(of, terms, cells, own, among) for cells, own in held], among)


def _scores(
    of: Task, terms: Terms, cells: Ints, said: Mapping[str, Floats], among: Sequence[Method]
) -> dict[str, float]:
    """What predictions of some outputs (flat) score there, by the name of the method."""
    measure = objective(terms.objective, of.human.ravel()[cells], items=cells // len(of.design.systems))
    means = with_means(among, said)
    return dict(zip(means, measure(np.stack(list(means.values()))).tolist(), strict=True))


def _by_name(scores: Sequence[Mapping[str, float]], among: Sequence[Method]) -> dict[str, Floats]:
    """The scores on several folds, by the name of the method (folds,)."""
    return {own.name: np.array([one[own.name] for one in scores]) for own in among}
