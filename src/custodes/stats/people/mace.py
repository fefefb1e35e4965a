"""MACE: which answers were known, and which were guessed, each person guessing in a way of their own."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from custodes.stats.arrays import Floats, Ints
from custodes.stats.people.answers import Answers, chances, fixed, row_sums

Fit = Literal["vb", "em"]

PRIOR = 0.5
"""Of knowing, and of guessing: pseudo-counts of a beta distribution (VB)."""
GUESSES = 10.0
"""Pseudo-counts of each label among the guesses (VB)."""
SMOOTHING = 0.01
"""Over the number of labels: what is added to every count (EM)."""
NOISE = 0.5


class Mace(NamedTuple):
    """`posterior` (tasks, labels); `competence` (workers,), the chance that a person knows; `strategy` (workers,
    labels), what a person says who does not know; `log_likelihood`, of the best of all starts."""

    posterior: Floats
    competence: Floats
    strategy: Floats
    log_likelihood: float


class _State(NamedTuple):
    """Of each person: `guess` and `know` (workers,), `strategy` (workers, labels); by VB exponents of expected logs,
    whose sums are below 1."""

    guess: Floats
    know: Floats
    strategy: Floats


def mace(
    answers: Answers,
    *,
    fit: Fit,
    restarts: int,
    iterations: int,
    rng: np.random.Generator,
    known: Ints | None = None,
) -> Mace:
    """Fit MACE by variational Bayes or EM, from several random starts, each with its own numbers; the likeliest wins.

    A person knows the label of a task with the chance `competence`, and else guesses by `strategy`, whatever the task.
    `known` (tasks,) are labels that are known beforehand (`UNKNOWN`: not). A task without answers has like chances of
    all labels, a person without answers NaN.

    >>> rows = np.repeat(np.arange(6), 3), np.tile(np.arange(3), 6), np.array([0, 0, 1, 2, 2, 1] * 3)
    >>> many = Answers.of(*rows, n_tasks=6, n_workers=3, n_labels=3)
    >>> made = mace(many, fit="vb", restarts=2, iterations=20, rng=np.random.default_rng(0))
    >>> made.posterior.argmax(axis=1).tolist(), (made.competence > 0.5).tolist()
    ([0, 2, 0, 2, 0, 2], [True, True, False])

    Source: Hovy, Berg-Kirkpatrick, Vaswani and Hovy 2013, "Learning whom to trust with MACE"; priors, smoothing and
    starts as in the program of its authors.
    """
    counts = _Counts(answers, known)
    best: Mace | None = None
    for generator in rng.spawn(restarts):
        state = _start(answers.n_workers, answers.n_labels, generator)
        for _ in range(iterations):
            guesses, _ = counts.expected(state)
            state = _update(guesses, counts.by_worker, fit)
        made = counts.finished(state)
        if best is None or made.log_likelihood > best.log_likelihood:
            best = made
    assert best is not None
    return best


class _Counts:
    """What stays the same from step to step."""

    def __init__(self, answers: Answers, known: Ints | None) -> None:
        self.answers, self.known = answers, known
        self.at_task, self.at_worker = answers.at_task, answers.at_worker
        self.weights = None if (answers.weight == 1).all() else answers.weight[answers.task]
        self.by_worker = self._by_worker(self.weights)

    def _by_worker(self, values: Floats | None) -> Floats:
        """(workers, labels): the sum over answers."""
        n = (self.answers.n_workers, self.answers.n_labels)
        return np.bincount(self.at_worker, weights=values, minlength=n[0] * n[1]).reshape(n).astype(np.float64)

    def posterior(self, state: _State) -> tuple[Floats, Floats]:
        """(tasks, labels), and the log likelihood of each task but for what `finished` adds."""
        own = state.guess[:, np.newaxis] * state.strategy
        gain = np.log1p(state.know[:, np.newaxis] / np.maximum(own, 1e-300)).ravel()
        scores = np.bincount(self.at_task, weights=gain[self.at_worker], minlength=self.answers.n_tasks * own.shape[1])
        made, size = chances(np.asarray(scores, dtype=np.float64).reshape(self.answers.n_tasks, own.shape[1]))
        return fixed(made, self.known), size

    def expected(self, state: _State) -> tuple[Floats, Floats]:
        """How many of a person's answers of each kind were guessed (workers, labels); the posterior (tasks, labels)."""
        posterior, _ = self.posterior(state)
        own = state.guess[:, np.newaxis] * state.strategy
        share = (state.know[:, np.newaxis] / (own + state.know[:, np.newaxis])).ravel()
        knew = posterior.ravel()[self.at_task] * share[self.at_worker]
        guessed = 1 - knew if self.weights is None else (1 - knew) * self.weights
        return self._by_worker(guessed), posterior

    def finished(self, state: _State) -> Mace:
        posterior, size = self.posterior(state)
        own = state.guess[:, np.newaxis] * state.strategy
        unseen = self.by_worker.sum(axis=1) == 0
        said = self.by_worker * np.log(np.maximum(own, 1e-300))
        likelihood = float((size * self.answers.weight).sum() + said.sum()) - self.answers.n_tasks * np.log(
            self.answers.n_labels
        )
        total = state.guess + state.know
        competence = np.where(unseen, np.nan, state.know / np.where(total > 0, total, 1.0))
        return Mace(posterior, competence, state.strategy / row_sums(state.strategy), likelihood)


def _start(n_workers: int, n_labels: int, rng: np.random.Generator) -> _State:
    """A little noise between knowing and guessing; none between labels, so that none is favoured."""
    first = 1 + NOISE * rng.random((n_workers, 2))
    guess, know = (first / first.sum(axis=1, keepdims=True)).T
    return _State(guess, know, np.full((n_workers, n_labels), 1 / n_labels))


def _update(guessed: Floats, said: Floats, fit: Fit) -> _State:
    total, number = row_sums(guessed)[:, 0], row_sums(said)[:, 0]
    both = np.stack([total, np.maximum(number - total, 0.0)])
    if fit == "em":
        little = SMOOTHING / guessed.shape[1]
        both, guessed = both + little, guessed + little
        guess, know = both / both.sum(axis=0)
        return _State(guess, know, guessed / row_sums(guessed))
    from scipy.special import digamma

    both, guessed = both + PRIOR, guessed + GUESSES
    guess, know = np.exp(digamma(both) - digamma(both.sum(axis=0)))
    return _State(guess, know, np.exp(digamma(guessed) - digamma(row_sums(guessed))))
