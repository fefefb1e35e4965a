"""The replay against Algorithm 2 as a plain loop, one replication and one pair at a time."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import entropy, norm

from custodes.stats import ABSENT
from custodes.stats.correction.dirichlet import human_theta
from custodes.stats.correction.estimator import Counts, Estimate, Estimator, PairItems
from custodes.stats.correction.estimators import ESTIMATORS
from custodes.stats.correction.poststratified import poststratified_moments
from custodes.stats.stopping.allocation import annotation_kinds, divide_evenly
from custodes.stats.stopping.replay import Answers, decide_fixed_design, mean_kld, replay
from custodes.stats.stopping.rules import Rule

ENDLESS = 10**6
RULE = Rule(
    estimator=ESTIMATORS["human"], gamma=0.05, looks=(4, 9, 15), bounds=(2.4, 2.2, 1.96), seed=0, budget=ENDLESS
)


def answers_of(seed: int, *, replications: int = 6, pairs: int = 5, items: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Return human and metric preferences (replications, pairs, items); annotators rated the first items of each
    pair."""
    rng = np.random.default_rng(seed)
    shape = (replications, pairs, items)
    lean = np.linspace(0.1, 0.9, pairs)[:, np.newaxis]
    human = np.where(rng.random(shape) < 0.2, 0, np.where(rng.random(shape) < lean, 1, -1))
    metric = np.where(rng.random(shape) < 0.7, human, rng.integers(-1, 2, shape))
    available = rng.integers(0, items + 1, shape[:2])
    available[:, :2] = items
    human[np.arange(items) >= available[..., np.newaxis]] = ABSENT
    return human.astype(np.int8), metric.astype(np.int8)


def answers_from(human: np.ndarray, metric: np.ndarray) -> Answers:
    return Answers(
        kinds=annotation_kinds(human, metric),
        available=(human != ABSENT).sum(axis=-1),
        metric=np.stack([(metric == kind).sum(axis=-1) for kind in (1, 0, -1)], axis=-1),
    )


def counts_of(signs: np.ndarray) -> np.ndarray:
    return np.array([(signs == kind).sum() for kind in (1, 0, -1)])


def by_hand(human: np.ndarray, rule: Rule) -> tuple[np.ndarray, np.ndarray, list[tuple]]:
    """Return annotations and decisions (pairs,) of one replication, and their sums after each round. A budget too small
    for a round is divided equally between the undecided pairs, with the remainder for the first ones."""
    pairs = len(human)
    n, decision = np.zeros(pairs, dtype=int), np.zeros(pairs, dtype=int)
    last = [min(int((signs != ABSENT).sum()), rule.looks[-1]) for signs in human]
    open_ = [most > 0 for most in last]
    remaining = rule.budget
    rounds = []
    for look, target in enumerate(rule.looks):
        requests = [min(target, last[k]) - n[k] if open_[k] else 0 for k in range(pairs)]
        if sum(requests) > remaining:
            requesting = [k for k in range(pairs) if requests[k] > 0]
            share, rest = divmod(remaining, len(requesting))
            for place, k in enumerate(requesting):
                requests[k] = min(requests[k], share + (place < rest))
        remaining -= sum(requests)
        tail = norm.sf(rule.bounds[look])
        for k in range(pairs):
            if requests[k]:
                n[k] += requests[k]
                win, _, loss = counts_of(human[k, : n[k]])
                theta = human_theta(np.array(win), np.array(loss))
                decision[k] = 1 if theta > 1 - tail else -1 if theta < tail else 0
                open_[k] = decision[k] == 0
            open_[k] = open_[k] and n[k] < last[k] and remaining > 0
        rounds.append((n.sum(), decision.copy(), n.copy()))
    return n, decision, rounds


@pytest.mark.parametrize("budget", [ENDLESS, 3, 12, 30, 45])
def test_replay_is_algorithm_2(budget: int) -> None:
    human, metric = answers_of(0)
    reference = np.array([-1, -1, 0, 1, 1], dtype=np.int8)
    truth = np.random.default_rng(1).dirichlet([2, 2, 2], 5)
    rule = replace(RULE, budget=budget)
    end = replay(answers_from(human, metric), rule, reference_decisions=reference, reference_proportions=truth)
    for r in range(len(human)):
        n, decision, rounds = by_hand(human[r], rule)
        assert end.n[r].tolist() == n.tolist()
        assert end.decision[r].tolist() == decision.tolist()
        assert end.n[r].sum() <= budget
        for look, (spent, decisions_then, far) in enumerate(rounds):
            assert end.annotations[look, r] == spent
            assert end.correct[look, r] == pytest.approx((decisions_then == reference).mean())
            shares = np.array([counts_of(signs_of[:k]) + 1 for signs_of, k in zip(human[r], far, strict=True)])
            shares = shares / shares.sum(axis=1, keepdims=True)
            kld = np.mean([entropy(signs_of, true) for signs_of, true in zip(shares, truth, strict=True)])
            assert end.kld[look, r] == pytest.approx(kld)
    if budget > 12:
        assert {-1, 0, 1} == set(end.decision.ravel().tolist())


def test_the_metrics_answers_beyond_the_annotations_count() -> None:
    # An estimator with a metric sees the paired annotations so far and all other items as metric-only.
    human, metric = answers_of(2, replications=1, pairs=3)
    human[:] = np.where(human == ABSENT, 0, human)
    rule = replace(RULE, estimator=ESTIMATORS["poststratified"], looks=(6,), bounds=(1.96,))
    shares = []
    for k in range(3):
        paired = np.array(
            [[((human[0, k, :6] == h) & (metric[0, k, :6] == m)).sum() for m in (1, 0, -1)] for h in (1, 0, -1)]
        )
        more = counts_of(metric[0, k, 6:])
        shares.append(poststratified_moments(Counts(paired, more, np.zeros(3)))[0][:3])
    for truth in np.random.default_rng(4).dirichlet([2, 2, 2], (5, 3)):
        end = replay(
            answers_from(human, metric), rule, reference_decisions=np.zeros(3, np.int8), reference_proportions=truth
        )
        kld = np.mean([entropy(share, true) for share, true in zip(shares, truth, strict=True)])
        assert end.kld.tolist() == [[pytest.approx(kld)]]


def test_what_looks_at_all_pairs_is_believed_only_about_those_annotated_now() -> None:
    human, metric = answers_of(3, replications=2)
    numbers = [np.zeros((2, 5), dtype=int)]

    def items(n: np.ndarray) -> PairItems:
        numbers.append(n.copy())
        return PairItems(human=human, systems=np.tile(np.arange(2), (5, 1)), units=np.arange(20))

    def answer(about: PairItems, **_: object) -> Estimate:
        assert about.human is human
        # The first pair of each replication is decided at once, no other pair ever. Pairs without an annotation in this
        # round have an estimate, too, which must be ignored.
        theta = np.where(numbers[-1] > numbers[-2], 0.5, 0.0)
        if len(numbers) == 2:
            theta[:, 0] = 1.0
        margin = np.zeros(theta.shape)
        estimate = Estimate.from_margin(margin, margin, margin, theta)
        return replace(estimate, p=np.full((*theta.shape, 3), 1 / 3))

    together = Estimator(name="all", estimate=answer, needs_items=True)
    end = replay(
        replace(answers_from(human, metric), items=items),
        replace(RULE, estimator=together),
        reference_decisions=np.zeros(5, np.int8),
        reference_proportions=np.full((5, 3), 1 / 3),
    )
    assert end.decision.tolist() == [[1, 0, 0, 0, 0]] * 2
    assert end.n[:, 0].tolist() == [4, 4]
    last = np.minimum((human != ABSENT).sum(axis=-1), 15)
    assert (last < 15).any()
    np.testing.assert_array_equal(end.n[:, 1:], last[:, 1:])
    assert len(numbers) == 4
    np.testing.assert_array_equal(numbers[-1], end.n)
    assert end.kld == pytest.approx(0)


def test_nothing_to_ask() -> None:
    human = np.full((1, 2, 3), ABSENT, dtype=np.int8)
    metric = np.ones_like(human)
    rule = replace(RULE, budget=5)
    end = replay(
        answers_from(human, metric),
        rule,
        reference_decisions=np.array([1, 0], np.int8),
        reference_proportions=np.full((2, 3), 1 / 3),
    )
    assert (end.n.tolist(), end.decision.tolist(), end.correct.tolist()) == ([[0, 0]], [[0, 0]], [[0.5]] * 3)
    assert (end.kld == 0).all()


def test_a_fixed_design_analyses_each_pair_once_at_the_level_of_the_rule() -> None:
    human, metric = answers_of(5, replications=4, pairs=5)
    totals = np.array([0, 3, 32, 70])
    decisions = decide_fixed_design(answers_from(human, metric), RULE, n_total=totals)
    shares = divide_evenly(totals, answers_from(human, metric).available)
    for r, k in np.ndindex(4, 5):
        win, _, loss = counts_of(human[r, k, : shares[r, k]])
        theta = human_theta(np.array(win), np.array(loss))
        expected = 0 if not shares[r, k] else 1 if theta > 0.975 else -1 if theta < 0.025 else 0
        assert decisions[r, k] == expected
    assert shares.sum(axis=1).tolist() == np.minimum(totals, answers_from(human, metric).available.sum(axis=1)).tolist()
    assert {-1, 0, 1} == set(decisions.ravel().tolist())
    assert not decisions[:2].any()
    assert mean_kld(np.array([[0.5, 0.5, 0.0]]), np.array([[0.5, 0.25, 0.25]])) == pytest.approx(np.log(2) / 2)
    assert mean_kld(np.array([[0.5, 0.5, 0.0]]), np.array([[0.5, 0.0, 0.5]])) == np.inf
