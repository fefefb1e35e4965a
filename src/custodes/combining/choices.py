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

from custodes.combining.lessons import Scores, said_of
from custodes.combining.methods import Method, with_means
from custodes.combining.task import Task
from custodes.combining.terms import Terms
from custodes.evaluate.parallel import each
from custodes.progress import Progress
from custodes.stats.arrays import Floats, Ints
from custodes.stats.learning.objective import objective


def in_pairs(
    of: Task, terms: Terms, folds: Sequence[Ints], among: Sequence[Method], rng: np.random.Generator, progress: Progress
) -> dict[tuple[int, int], Scores]:
    """By repeat and fold: what methods score on each of the other folds, fitted without both."""
    numbers = [np.unique(fold[fold >= 0]).tolist() for fold in folds]
    jobs = [(repeat, *pair) for repeat, own in enumerate(numbers) for pair in combinations(own, 2)]
    fitted = [own for own in among if not own.mean_of]

    def answer(job: tuple[int, int, int], rng: np.random.Generator) -> list[dict[str, float]]:
        """What methods score on each of the two folds, by name."""
        repeat, *out = job
        fold = folds[repeat]
        held = [np.flatnonzero((fold == k).ravel()) for k in out]
        answers = said_of(of, terms, fitted, (fold >= 0) & ~np.isin(fold, out), np.concatenate(held), rng, {})
        said = {own.name: values for own, (_, _, values) in zip(fitted, answers, strict=True)}
        first = len(held[0])
        return [
            _scores(of, terms, held[0], {name: values[:first] for name, values in said.items()}, among),
            _scores(of, terms, held[1], {name: values[first:] for name, values in said.items()}, among),
        ]

    found: dict[tuple[int, int], list[dict[str, float]]] = {(r, k): [] for r, own in enumerate(numbers) for k in own}
    told = each(answer, jobs, rng=rng, progress=progress, desc="inner folds", label=str)
    for (repeat, j, k), (of_j, of_k) in zip(jobs, told, strict=True):
        found[repeat, k].append(of_j)
        found[repeat, j].append(of_k)
    return {key: _by_name(scores, among) for key, scores in found.items()}


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
    said = {own.name: np.full(of.human.shape, np.nan) for own in wanting} | {**known}
    held = [np.flatnonzero((fold == k).ravel()) for k in np.unique(fold[fold >= 0])]

    def answer(k: int, rng: np.random.Generator) -> None:
        answers = said_of(of, terms, wanting, (fold >= 0) & (fold != k), held[k], rng, {})
        for own, (_, _, values) in zip(wanting, answers, strict=True):
            said[own.name].reshape(-1)[held[k]] = values

    if wanting:
        each(answer, range(len(held)), rng=rng, progress=progress, desc="inner folds", label=str)
    flat = {name: own.ravel() for name, own in said.items()}
    parts = [{name: own[cells] for name, own in flat.items()} for cells in held]
    return _by_name([_scores(of, terms, cells, own, among) for cells, own in zip(held, parts, strict=True)], among)


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
