"""Quality of annotators: agreement with peers, position bias and different preferences."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from custodes.stats.arrays import Bools, Floats, Ints, Signs
from custodes.stats.ranks import ranks_within
from custodes.stats.ratios import ratio

PERMUTATIONS = 199
_SAME = 1e-9  # smaller differences of a statistic are rounding errors


def peer_agreement(task: Ints, worker: Ints, value: Floats, *, n_tasks: int, trusted: Bools) -> tuple[Floats, Floats]:
    """Compare each annotator with the other annotators of the same tasks.

    The peers of an answer are the other trusted annotators of the task. The first result (n,) is the agreement of the
    annotator with the peers, and the second result (n,) is the agreement of the peers among themselves. Both are
    proportional to rank correlations. The constant of proportionality is the same for both values and for all answers
    of an annotator. Therefore, only the signs of sums over an annotator's answers, and ratios of two such sums, have a
    meaning. Both results are NaN for an answer with fewer than two peers, and if all answers of the annotator are
    equal.

    The arrays (n,) have one entry per answer and are sorted by task. `value` is a score, or the preference 1, 0 or -1
    for the first system of a comparison; only the order of the values matters. `trusted` (workers,) marks the
    annotators who can be peers of others.

    Each answer gets a score: its mid-rank among the annotator's answers, centred and divided by the variance of these
    ranks. The result therefore does not depend on the annotator's severity and use of the scale, and answers on a
    coarse scale estimate the same correlation as answers on a fine scale. The agreement of two answers is the product
    of their scores. The mean agreement is 0 for an annotator whose answers do not depend on the task. The scores of the
    peers are centred over the tasks of the annotator, and their variance is measured on the same tasks. So an annotator
    with harder or more similar tasks has no lower relative agreement.

    References
    ----------
    Ours; Spearman 1904 for rank correlation; Kruskal 1958 for the effect of ties.

    Examples
    --------
    >>> task, worker = np.repeat(np.arange(3), 4), np.tile(np.arange(4), 3)
    >>> value = np.array([1.0, 2, 2, 5, 2, 3, 4, 3, 4, 5, 5, 1])
    >>> agreement, _ = peer_agreement(task, worker, value, n_tasks=3, trusted=np.ones(4, dtype=bool))
    >>> [bool(agreement[worker == w].sum() > 0) for w in range(4)]
    [True, True, True, False]
    """
    n_workers = len(trusted)
    n_annotators_of_task = np.bincount(task, minlength=n_tasks)
    is_answer_to_shared_task = (n_annotators_of_task > 1)[task]
    score_of_answer, score_variance_of_worker = _scores(
        worker, np.where(is_answer_to_shared_task, value, np.nan), n_workers
    )
    agreement_of_answer, agreement_among_peers = np.full((2, len(value)), np.nan)
    first_answer_of_task = np.append(0, np.cumsum(n_annotators_of_task))
    sorted_answer_indices = np.argsort(np.where(is_answer_to_shared_task, worker, n_workers), kind="stable")
    first_position_of_worker = np.searchsorted(
        worker[sorted_answer_indices[: int(is_answer_to_shared_task.sum())]], np.arange(n_workers + 1)
    )
    for worker_index in np.flatnonzero(np.isfinite(score_variance_of_worker)):
        worker_answer_indices = sorted_answer_indices[
            first_position_of_worker[worker_index] : first_position_of_worker[worker_index + 1]
        ]
        task_of_worker_answer = task[worker_answer_indices]
        n_task_answers = n_annotators_of_task[task_of_worker_answer]
        own_answer_positions = np.repeat(np.arange(len(worker_answer_indices)), n_task_answers)
        peer_answer_indices = (
            np.arange(n_task_answers.sum())
            - np.repeat(np.cumsum(n_task_answers) - n_task_answers, n_task_answers)
            + np.repeat(first_answer_of_task[task_of_worker_answer], n_task_answers)
        )
        peer_workers = worker[peer_answer_indices]
        is_answer_by_peer = (
            (peer_workers != worker_index) & trusted[peer_workers] & np.isfinite(score_variance_of_worker[peer_workers])
        )
        own_answer_positions, peer_answer_indices, peer_workers = (
            positions[is_answer_by_peer] for positions in (own_answer_positions, peer_answer_indices, peer_workers)
        )
        n_peers_of_answer = np.bincount(own_answer_positions, minlength=len(worker_answer_indices))
        if not (n_peers_of_answer > 1).any():
            continue
        centred_peer_scores = score_of_answer[peer_answer_indices] - score_of_answer[peer_answer_indices].mean()
        peer_sd_ratio = np.sqrt((centred_peer_scores**2).sum() / score_variance_of_worker[peer_workers].sum())
        peer_score_sums, peer_square_sums = (
            np.bincount(own_answer_positions, summands, len(worker_answer_indices))
            for summands in (centred_peer_scores, centred_peer_scores**2)
        )
        n_peers_of_answer = np.where(n_peers_of_answer > 1, n_peers_of_answer, 0)  # an undefined agreement is NaN
        agreement_of_answer[worker_answer_indices] = (
            score_of_answer[worker_answer_indices] * ratio(peer_score_sums, n_peers_of_answer) * peer_sd_ratio
        )
        agreement_among_peers[worker_answer_indices] = ratio(
            peer_score_sums**2 - peer_square_sums, n_peers_of_answer * (n_peers_of_answer - 1.0)
        )
    return agreement_of_answer, agreement_among_peers


def _scores(worker: Ints, value: Floats, n_workers: int) -> tuple[Floats, Floats]:
    """Score of each answer (n,), and variance of the scores of each annotator (workers,).

    A score is the centred mid-rank of an answer within its annotator, divided by the variance of these ranks; 0 for a
    missing value. The variance is NaN for annotators whose answers are all equal.
    """
    rated_answer_indices = np.flatnonzero(np.isfinite(value))
    worker_of_rated_answer = worker[rated_answer_indices]
    n_answers_of_worker = np.bincount(worker_of_rated_answer, minlength=n_workers)
    centred_ranks = (ranks_within(value[rated_answer_indices], worker_of_rated_answer) - 0.5) / n_answers_of_worker[
        worker_of_rated_answer
    ] - 0.5
    rank_variance_of_worker = ratio(
        np.bincount(worker_of_rated_answer, centred_ranks**2, n_workers), n_answers_of_worker
    )
    score_variance_of_worker = ratio(
        np.ones(n_workers), np.where(rank_variance_of_worker > 1e-12, rank_variance_of_worker, 0.0)
    )
    score_of_answer = np.zeros(len(value))
    score_of_answer[rated_answer_indices] = np.nan_to_num(
        centred_ranks * score_variance_of_worker[worker_of_rated_answer]
    )
    return score_of_answer, score_variance_of_worker


MOST_EXACT = 1000
"""Maximum number of answers for an exact p-value. More answers get a normal approximation with a continuity
correction."""


class PositionTests(NamedTuple):
    """Tests of the position bias of annotators, (workers,) each.

    `decided` is the number of decided answers. `share` is the proportion of decided answers that chose the first
    position, NaN without decided answers. `p_value` is NaN if every pair of the annotator was always shown in the same
    order.
    """

    decided: Ints
    share: Floats
    p_value: Floats


def position_tests(worker: Ints, pair: Ints, sign: Signs, order: NDArray[np.int8], *, n_workers: int) -> PositionTests:
    """Exact test of position bias for each annotator.

    Suppose that an annotator has no position bias and that the order within a pair of systems is random. Then the
    probability that the chosen system was shown first is the proportion of the pair's answers for which this system was
    shown first. So the number of choices of the first position has a Poisson binomial distribution. The two-sided
    p-value is the total probability of all numbers that are at most as probable as the observed number.

    Parameters
    ----------
    worker, pair : arrays of int of shape (n,)
        Annotator and pair of systems of each decided answer, from 0.
    sign : array of shape (n,)
        1 where the first system of the pair was chosen, else -1.
    order : array of shape (n,)
        1 where the first system of the pair was shown first, else -1.
    n_workers : int
        Number of annotators.

    Returns
    -------
    PositionTests

    References
    ----------
    Poisson 1837.

    Examples
    --------
    >>> n = 20
    >>> rows = np.zeros(n, dtype=int), np.zeros(n, dtype=int), np.tile([1, -1], 10), np.tile([1, -1], 10)
    >>> result = position_tests(*rows, n_workers=1)  # always the first
    >>> result.share.item(), f"{result.p_value.item():.7f}"
    (1.0, '0.0000019')
    """
    p_shown_first = ratio(np.bincount(pair, weights=order > 0), np.bincount(pair))[pair]
    p_choice_shown_first = np.where(sign > 0, p_shown_first, 1 - p_shown_first)
    is_first_position_chosen = sign == order
    n_decided_of_worker = np.bincount(worker, minlength=n_workers)
    first_position_share = ratio(
        np.bincount(worker, weights=is_first_position_chosen, minlength=n_workers), n_decided_of_worker
    )
    p_value_of_worker = np.full(n_workers, np.nan)
    tested_answer_indices = np.flatnonzero((p_choice_shown_first > 0) & (p_choice_shown_first < 1))
    tested_answer_indices = tested_answer_indices[np.argsort(worker[tested_answer_indices], kind="stable")]
    tested_workers, first_answer_of_worker = np.unique(worker[tested_answer_indices], return_index=True)
    for worker_index, answer_indices in zip(
        tested_workers, np.split(tested_answer_indices, first_answer_of_worker)[1:], strict=True
    ):
        p_value_of_worker[worker_index] = _poisson_binomial_p(
            np.sort(p_choice_shown_first[answer_indices]), int(is_first_position_chosen[answer_indices].sum())
        )
    return PositionTests(n_decided_of_worker, first_position_share, p_value_of_worker)


def _poisson_binomial_p(success_probabilities: Floats, n_successes: int) -> float:
    """Two-sided p-value of the observed number of successes in independent trials with success probabilities (n,)."""
    if len(success_probabilities) > MOST_EXACT:
        from scipy.special import ndtr

        corrected_distance = max(0.0, abs(n_successes - success_probabilities.sum()) - 0.5)
        return float(
            2 * ndtr(-corrected_distance / np.sqrt((success_probabilities * (1 - success_probabilities)).sum()))
        )
    probability_mass = np.ones(1)
    for p_success in success_probabilities:
        probability_mass = np.convolve(probability_mass, [1 - p_success, p_success])
    return float(min(1.0, probability_mass[probability_mass <= probability_mass[n_successes] * (1 + 1e-9)].sum()))


def taste_p(preferences: Any, annotator: Ints, rng: np.random.Generator) -> float:
    """P-value of the hypothesis that all annotators have the same preferences between systems.

    This is a permutation test. For each annotator and column, the preferences are summed over the annotator's tasks,
    and the squared sum is divided by the number of these tasks. The statistic is the total over annotators and columns.
    Annotators are permuted over tasks: if tasks are assigned at random, annotators are exchangeable.

    Parameters
    ----------
    preferences : sparse array of shape (tasks, columns)
        Preference for each system in a task, minus the mean over all tasks. There is one column per aspect and system.
    annotator : array of int of shape (tasks,)
        Annotator of each task, from 0.
    rng : numpy.random.Generator
        Random number generator for the permutations.

    Returns
    -------
    float
        The p-value; NaN if there is only one annotator, or if no annotator has two tasks.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> rng = np.random.default_rng(0)
    >>> annotator = np.repeat(np.arange(4), 25)
    >>> noise, tastes = rng.normal(size=(100, 3)), rng.normal(size=(4, 3))
    >>> taste_p(csr_array(noise), annotator, rng) > 0.05, taste_p(csr_array(noise + tastes[annotator]), annotator, rng)
    (True, 0.005)
    """
    from scipy.sparse import csr_array

    n_tasks, n_tasks_by_annotator = len(annotator), np.bincount(annotator)
    if (n_tasks_by_annotator > 0).sum() < 2 or n_tasks_by_annotator.max() < 2:
        return np.nan

    def statistic(annotator_of_task: Ints) -> float:
        annotator_indicators = csr_array(
            (np.ones(n_tasks), (annotator_of_task, np.arange(n_tasks))), shape=(len(n_tasks_by_annotator), n_tasks)
        )
        squared_norms = (annotator_indicators @ preferences).power(2).sum(axis=1)
        return float((np.asarray(squared_norms).ravel() / np.maximum(n_tasks_by_annotator, 1)).sum())

    threshold = statistic(annotator) * (1 - _SAME)
    n_reached = sum(statistic(rng.permutation(annotator)) >= threshold for _ in range(PERMUTATIONS))
    return (1 + n_reached) / (1 + PERMUTATIONS)
