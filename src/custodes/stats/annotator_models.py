"""Models of annotators who label the same tasks: majority vote, Dawid and Skene's model, and MACE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Floats, Ints, table_sums
from custodes.stats.ratios import ratio

UNKNOWN = -1
"""The majority label of a task in which several labels tie for the highest number of votes."""

_SAME = 1e-9  # smaller differences of votes or probabilities are rounding errors

# Dawid and Skene
_PSEUDO_COUNT = 0.5  # added to every cell of an annotator's confusion matrix, and to every label count of the prior
_DIAGONAL = 1.0  # additional pseudo-counts of correct labels: an annotator without data is not adversarial
_CONVERGED = 1e-6  # maximum change of a probability

# MACE
_COMPETENCE_PRIOR = 0.5  # pseudo-counts of knowing and of guessing: the two parameters of a beta prior
_STRATEGY_PRIOR = 10.0  # pseudo-counts of each label given by guessing
_START_NOISE = 0.5


@dataclass(frozen=True, kw_only=True)
class AnnotatorLabels:
    """Labels of tasks by annotators. Use `from_labels`, so that results do not depend on the order of rows.

    Attributes
    ----------
    task, worker, label : arrays of int of shape (n,)
        Positions from 0, sorted by task, then by worker. A worker labels a task once. In a comparison, 0 is a win, 1 a
        tie and 2 a loss, so that swapping the two systems reverses the order of the labels.
    n_tasks, n_workers, n_labels : int
        Numbers of tasks, workers and labels.
    weight : array of shape (tasks,)
        Weight of each task.
    """

    task: Ints
    worker: Ints
    label: Ints
    n_tasks: int
    n_workers: int
    n_labels: int
    weight: Floats

    @classmethod
    def from_labels(
        cls,
        task: NDArray[Any],
        worker: NDArray[Any],
        label: NDArray[Any],
        *,
        n_tasks: int,
        n_workers: int,
        n_labels: int,
    ) -> AnnotatorLabels:
        """Construct `AnnotatorLabels` from labels in any order.

        >>> rows = np.array([1, 0]), np.array([0, 0]), np.array([2, 1])
        >>> AnnotatorLabels.from_labels(*rows, n_tasks=2, n_workers=1, n_labels=3).label.tolist()
        [1, 2]
        """
        row_order = np.lexsort((label, worker, task))
        return cls(
            task=task[row_order],
            worker=worker[row_order],
            label=label[row_order],
            n_tasks=n_tasks,
            n_workers=n_workers,
            n_labels=n_labels,
            weight=np.ones(n_tasks),
        )

    def __len__(self) -> int:
        return len(self.task)

    @property
    def votes(self) -> Floats:
        """Number of annotators who gave each label to each task: (tasks, labels)."""
        return self.sum_by(self.task, np.ones(len(self)), self.n_tasks)

    @property
    def n_votes(self) -> Ints:
        """Number of annotators of each task: (tasks,)."""
        return np.bincount(self.task, minlength=self.n_tasks)

    def sum_by(self, row_of_answer: Ints, values: Floats, n_rows: int) -> Floats:
        """Sums of `values` by row and label: (n, labels). `row_of_answer` and `values` have one entry for each entry of
        `label`."""
        return table_sums(row_of_answer, self.label, shape=(n_rows, self.n_labels), weights=values)

    def confusion(self, posterior: Floats) -> Floats:
        """Expected confusion counts (workers, correct label, label), given the probability (tasks, labels) that each
        label of a task is correct."""
        weighted_posterior_of_answer = (posterior * self.weight[:, np.newaxis])[self.task]
        return np.stack(
            [self.sum_by(self.worker, p_of_label, self.n_workers) for p_of_label in weighted_posterior_of_answer.T],
            axis=1,
        )


def row_sums(values: Floats) -> Floats:
    """Sums over the last axis: (..., k) -> (..., 1). If the axis is reversed, the sums are the same to the last bit.

    >>> row_sums(np.array([0.1, 0.2, 0.3])) == row_sums(np.array([0.3, 0.2, 0.1]))
    array([ True])
    """
    return np.asarray((values + values[..., ::-1]).sum(axis=-1, keepdims=True) / 2)


def majority_label(votes: Floats) -> Ints:
    """Label with the most votes, or with the highest probability: (tasks, labels) -> (tasks,). In case of a tie, the
    label is `UNKNOWN`.

    >>> majority_label(np.array([[0.2, 0.8], [0.5, 0.5]])).tolist()
    [1, -1]
    """
    is_most_frequent = votes >= votes.max(axis=-1, keepdims=True) - _SAME
    return np.where(is_most_frequent.sum(axis=-1) == 1, votes.argmax(axis=-1), UNKNOWN)


def vote_shares(labels: AnnotatorLabels) -> Floats:
    """Proportion of each label among the votes of a task: (tasks, labels); NaN for a task without votes."""
    return ratio(labels.votes, labels.n_votes[:, np.newaxis])


def dawid_skene(labels: AnnotatorLabels, *, iterations: int) -> Floats:
    """Fit the model of Dawid and Skene by the EM algorithm, which starts from the proportions of votes.

    Parameters
    ----------
    labels : AnnotatorLabels
        The labels. The posterior of a task without labels is the prior.
    iterations : int
        Maximum number of steps. The algorithm stops earlier if every probability changes by less than 1e-6.

    Returns
    -------
    array of shape (tasks, labels)
        Probabilities that a label is correct.

    References
    ----------
    Dawid and Skene 1979; pseudo-counts as recommended by Paun et al. 2018 for annotators with few labels.

    Examples
    --------
    >>> rows = np.repeat(np.arange(6), 3), np.tile(np.arange(3), 6), np.array([0, 0, 1, 2, 2, 1] * 3)
    >>> posterior = dawid_skene(AnnotatorLabels.from_labels(*rows, n_tasks=6, n_workers=3, n_labels=3), iterations=20)
    >>> posterior.argmax(axis=1).tolist()
    [0, 2, 0, 2, 0, 2]
    """
    posterior = np.nan_to_num(vote_shares(labels), nan=1 / labels.n_labels)
    for _ in range(iterations):
        confusion_counts = labels.confusion(posterior) + _PSEUDO_COUNT + _DIAGONAL * np.eye(labels.n_labels)
        prior_counts = (posterior * labels.weight[:, np.newaxis]).sum(axis=0) + _PSEUDO_COUNT
        log_p_of_answer_by_label = np.log(confusion_counts / row_sums(confusion_counts))[labels.worker, :, labels.label]
        log_likelihoods_by_label = [
            np.bincount(labels.task, weights=log_p_of_answers, minlength=labels.n_tasks)
            for log_p_of_answers in log_p_of_answer_by_label.T
        ]
        log_prior = np.log(prior_counts / row_sums(prior_counts))
        former_posterior, posterior = posterior, _softmax(np.stack(log_likelihoods_by_label, axis=1) + log_prior)[0]
        if np.abs(posterior - former_posterior).max(initial=0.0) < _CONVERGED:
            break
    return posterior


def _softmax(log_weights: Floats) -> tuple[Floats, Floats]:
    """Probabilities from log weights (tasks, labels), and the log of the sum of weights (tasks,)."""
    highest_log_weight = log_weights.max(axis=-1, keepdims=True)
    relative_weights = np.exp(log_weights - highest_log_weight)
    weight_sum = row_sums(relative_weights)
    return relative_weights / weight_sum, (highest_log_weight + np.log(weight_sum))[..., 0]


class Mace(NamedTuple):
    """A fitted MACE model.

    `posterior` (tasks, labels) are the probabilities that a label is correct. `competence` (workers,) is the
    probability that an annotator knows the label, NaN for an annotator without labels. `log_likelihood` is the log
    likelihood of all labels, up to a constant of the data.
    """

    posterior: Floats
    competence: Floats
    log_likelihood: float


def mace(labels: AnnotatorLabels, *, restarts: int, iterations: int, rng: np.random.Generator) -> Mace:
    """Fit MACE by variational Bayes.

    In MACE, an annotator knows the label of a task with probability `competence`. Otherwise the annotator guesses: the
    guess is drawn with the probabilities `strategy`, independently of the task.

    Parameters
    ----------
    labels : AnnotatorLabels
        The labels. For a task that no annotator labelled, all labels are equally probable.
    restarts : int
        Number of random starts, each with separate random numbers. The fit with the highest likelihood is returned.
    iterations : int
        Number of steps per start.
    rng : numpy.random.Generator
        Random number generator for the random starts.

    Returns
    -------
    Mace

    References
    ----------
    Hovy, Berg-Kirkpatrick, Vaswani and Hovy 2013, "Learning whom to trust with MACE"; priors and starts as in the
    program of its authors.

    Examples
    --------
    >>> rows = np.repeat(np.arange(6), 3), np.tile(np.arange(3), 6), np.array([0, 0, 1, 2, 2, 1] * 3)
    >>> labels = AnnotatorLabels.from_labels(*rows, n_tasks=6, n_workers=3, n_labels=3)
    >>> fit = mace(labels, restarts=2, iterations=20, rng=np.random.default_rng(0))
    >>> fit.posterior.argmax(axis=1).tolist(), (fit.competence > 0.5).tolist()
    ([0, 2, 0, 2, 0, 2], [True, True, False])
    """
    fitted_models = (_fit_mace(labels, iterations, start_rng) for start_rng in rng.spawn(restarts))
    return max(fitted_models, key=lambda fit: fit.log_likelihood)


def _fit_mace(labels: AnnotatorLabels, iterations: int, rng: np.random.Generator) -> Mace:
    """Fit MACE from one random start."""
    from scipy.special import digamma

    weight_of_answer, worker, label = labels.weight[labels.task], labels.worker, labels.label
    label_counts_of_worker = labels.sum_by(worker, weight_of_answer, labels.n_workers)

    def compute_posterior(p_guessed_label: Floats, p_knowing: Floats) -> tuple[Floats, Floats]:
        """Probabilities (tasks, labels) that each label is correct, and for each task the log likelihood ratio of the
        model to pure guessing."""
        log_likelihood_ratios = np.log1p(p_knowing[:, np.newaxis] / np.maximum(p_guessed_label, 1e-300))
        return _softmax(labels.sum_by(labels.task, log_likelihood_ratios[worker, label], labels.n_tasks))

    # The noise of the start is equal for all labels, so that no label is preferred.
    initial_weights = 1 + _START_NOISE * rng.random((labels.n_workers, 2))
    p_guessing, p_knowing = (initial_weights / initial_weights.sum(axis=1, keepdims=True)).T
    strategy = np.full((labels.n_workers, labels.n_labels), 1 / labels.n_labels)
    for _ in range(iterations):
        p_guessed_label = p_guessing[:, np.newaxis] * strategy
        p_knew_if_correct = p_knowing[:, np.newaxis] / (p_guessed_label + p_knowing[:, np.newaxis])
        p_knew_of_answer = (
            compute_posterior(p_guessed_label, p_knowing)[0][labels.task, label] * p_knew_if_correct[worker, label]
        )
        guess_counts_of_worker = labels.sum_by(worker, (1 - p_knew_of_answer) * weight_of_answer, labels.n_workers)
        n_guesses_of_worker, n_labels_of_worker = (
            row_sums(counts)[:, 0] for counts in (guess_counts_of_worker, label_counts_of_worker)
        )
        # Exponentials of expected logarithms; their sums are below 1.
        guess_and_know_counts = (
            np.stack([n_guesses_of_worker, np.maximum(n_labels_of_worker - n_guesses_of_worker, 0.0)])
            + _COMPETENCE_PRIOR
        )
        p_guessing, p_knowing = np.exp(digamma(guess_and_know_counts) - digamma(guess_and_know_counts.sum(axis=0)))
        strategy = np.exp(
            digamma(guess_counts_of_worker + _STRATEGY_PRIOR)
            - digamma(row_sums(guess_counts_of_worker + _STRATEGY_PRIOR))
        )
    p_guessed_label = p_guessing[:, np.newaxis] * strategy
    posterior, log_likelihood_ratios = compute_posterior(p_guessed_label, p_knowing)
    log_guessing = label_counts_of_worker * np.log(np.maximum(p_guessed_label, 1e-300))
    return Mace(
        posterior,
        np.where(label_counts_of_worker.sum(axis=1) > 0, p_knowing / (p_guessing + p_knowing), np.nan),
        float((log_likelihood_ratios * labels.weight).sum() + log_guessing.sum()),
    )
