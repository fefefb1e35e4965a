"""Tests of one candidate after another on the same labels: levels, critical values and outcomes from the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from custodes.errors import InputError, reject, short_repr
from custodes.evaluate.gate.label_rules import LabelTests
from custodes.evaluate.gate.ledger import LENGTH, Candidate, Ledger
from custodes.files import check_writable, open_with_lock
from custodes.stats.arrays import Floats
from custodes.stats.intervals import correlation_of
from custodes.stats.stopping.reused_labels import (
    NextTest,
    Precision,
    level_after,
    next_level,
)
from custodes.strict_json import digest

OPEN, CLOSED, UNDECIDED, UNTESTED = "open", "closed", "inconclusive", "not tested"

GAIN = 0.09
"""Power is computed for a true value that exceeds the threshold by this difference, or by half of the distance from the
threshold to the upper bound of the statistic if this is less."""

POWER = 0.5
"""If the power is below this value, a gate that does not open is inconclusive."""

ADDED = 60
"""Number of new labels for which `status` states the effect on the power."""

HORIZON = 100
"""Maximum number of further candidates for which power is computed."""

TYPICAL_CORRELATION = 0.5
"""Correlation of candidates that is assumed with fewer than two candidates since the last opening of the gate."""


LedgerAnswer = tuple[str, str, dict[str, Any]]
"""Outcome of a candidate, the reason for the outcome, and the row of the table `ledger`. There is no estimate."""


@dataclass(frozen=True, kw_only=True)
class LedgerTests:
    """The tests of a candidate, and the human labels that the tests use.

    Attributes
    ----------
    metric : str
    rules : tuple of str
        Text of each rule, with aspect and system.
    scores : array of shape (tests,)
        Normal score of the test of each statistic against its threshold.
    units : tuple of str
        Digests of the clusters of outputs.
    results : array of shape (tests, units)
        Influence of each unit on the statistic of each test.
    precisions : tuple of Precision
    gains : tuple of float
        Difference between true value and threshold for which the power of each test is computed.
    labels, outputs : dict
        Digest of the label, and name, of each labelled output; keys are digests of outputs.
    undefined : str
        Why a test is undefined (the candidate is then not tested); empty if all tests are defined.
    """

    metric: str
    rules: tuple[str, ...]
    scores: Floats
    units: tuple[str, ...]
    results: Floats
    precisions: tuple[Precision, ...]
    gains: tuple[float, ...]
    labels: dict[str, str]
    outputs: dict[str, str]
    undefined: str

    @classmethod
    def from_label_tests(cls, metric: str, tests_of_aspects: Sequence[LabelTests]) -> LedgerTests:
        """Return the tests of all aspects for the candidate `metric`."""
        tests = [(aspect_tests, test) for aspect_tests in tests_of_aspects for test in aspect_tests.tests]
        unit_names = sorted({name for aspect_tests in tests_of_aspects for name in aspect_tests.units})
        cluster_index = {name: k for k, name in enumerate(unit_names)}
        influence = np.zeros((len(tests), len(unit_names)))
        for test_influence, (aspect_tests, test) in zip(influence, tests, strict=True):
            np.add.at(test_influence, [cluster_index[aspect_tests.units[unit]] for unit in test.unit], test.influence)
        is_used_cluster, has_several_systems = (
            (influence != 0).any(axis=0),
            any(system for aspect_tests in tests_of_aspects for _, system in aspect_tests.labels),
        )
        labels, outputs = {}, {}
        for aspect_tests in tests_of_aspects:
            for output, label in aspect_tests.labels.items():
                key = digest([aspect_tests.aspect, *output])[:LENGTH]
                labels[key], outputs[key] = digest([key, label])[:LENGTH], " of ".join(filter(None, output))
        return cls(
            metric=metric,
            rules=tuple(
                " ".join(
                    filter(None, (test.rule.text, aspect_tests.aspect, test.system if has_several_systems else ""))
                )
                for aspect_tests, test in tests
            ),
            scores=np.array([test.score if test.has_interval else np.nan for _, test in tests]),
            units=tuple(
                digest(name)[:LENGTH] for name, is_used in zip(unit_names, is_used_cluster, strict=True) if is_used
            ),
            results=influence[:, is_used_cluster],
            precisions=tuple(test.precision() for _, test in tests),
            gains=tuple(min(GAIN, (test.bounds[1] - test.rule.threshold) / 2) for _, test in tests),
            labels=labels,
            outputs=outputs,
            undefined=next((test.reason for _, test in tests if not test.has_interval), ""),
        )

    @property
    def fingerprint(self) -> str:
        """Digest of rules and results. A candidate that is tested again on the same labels has the same digest."""
        rounded_results = [[float(f"{value:.9g}") for value in influences] for influences in self.results]
        return digest([self.rules, [p.threshold for p in self.precisions], self.units, rounded_results])[:LENGTH]

    def power(self, critical: Sequence[float], *, times: float = 1.0) -> float:
        """Return the power of the least powerful test, if true values exceed the thresholds by `gains`."""
        test_settings = zip(self.precisions, self.gains, critical, strict=True)
        return min(precision.with_labels(times).power(gain, value) for precision, gain, value in test_settings)


def ledger_answer(
    path: str | Path, tests: LedgerTests, *, level: float, expected: str | None, record: bool
) -> LedgerAnswer:
    """Test a candidate and record it; if `record` is false, only report the remaining power.

    Parameters
    ----------
    path : str or Path
        The ledger, which is created if it does not exist.
    tests : LedgerTests
    level : float
        Upper bound for the probability of any false opening in a generation.
    expected : str, optional
        Digest of an entry that the ledger must contain.
    record : bool
    """
    file_path = check_writable(path)
    if not record and not file_path.exists():
        return _ledger_state(_with_labels(b"", tests, level, expected, str(file_path))[1], tests, level)
    with open_with_lock(file_path) as file:
        earlier_ledger, ledger = _with_labels(file.read(), tests, level, expected, str(file_path))
        if tests.undefined:
            return _build_answer(
                earlier_ledger, tests, outcome=UNDECIDED, reason=f"{tests.undefined}; no level is spent"
            )
        if not record:
            return _ledger_state(ledger, tests, level)
        ledger, candidate = _with_candidate(ledger, tests, level)
        new_entries = ledger.entries[len(earlier_ledger.entries) :]
        file.write(b"".join(msgspec.json.encode(entry) + b"\n" for entry in new_entries))
    return _build_answer(ledger, tests, outcome=candidate.outcome, reason=candidate.reason)


def _with_labels(
    content: bytes, tests: LedgerTests, level: float, expected: str | None, name: str
) -> tuple[Ledger, Ledger]:
    """Return the ledger in a file, and this ledger with the current labels."""
    ledger = Ledger.read(content, name)
    reject(
        (
            expected is not None and expected not in [entry.digest for entry in ledger.entries],
            f"{name}: there is no entry {short_repr(expected)} (ledger_digest), so entries were removed or this is "
            "another ledger; restore the file",
        ),
        (not tests.labels, "ledger: the study has no human labels; add human labels, or omit the ledger"),
        error=InputError,
    )
    return ledger, ledger.with_labels(tests.labels, outputs=tests.outputs, level=level, name=name)


def _with_candidate(ledger: Ledger, tests: LedgerTests, level: float) -> tuple[Ledger, Candidate]:
    """Return the ledger with the outcome of a candidate, and the recorded candidate.

    If the ledger already contains the same candidate, the ledger is unchanged.
    """
    for candidate in ledger.candidates.values():
        if candidate.fingerprint == tests.fingerprint:
            return ledger, candidate
    sequence = _Sequence(ledger, level)
    critical_scores, spent_levels = sequence.critical_values(tests)
    outcome, reason = OPEN, ""
    if not (tests.scores > critical_scores).all():
        outcome = CLOSED if tests.power(critical_scores) >= POWER else UNDECIDED
        reason = (
            f"candidate {len(ledger.candidates) + 1} of this generation of labels is not shown to satisfy the rules"
        )
        if outcome == UNDECIDED:
            reason += (
                f"; a true value {_gain(tests)} above the threshold would be found with a probability below {POWER}"
            )
    candidate = Candidate(
        metric=tests.metric,
        rules=tests.rules,
        fingerprint=tests.fingerprint,
        path=sequence.path,
        units=tests.units,
        results=tuple(tuple(float(f"{value:.6g}") for value in row) for row in tests.results),
        critical=tuple(critical_scores),
        spent=tuple(spent_levels),
        outcome=outcome,
        reason=reason,
    )
    return ledger.append_entry(generation=ledger.generation, candidate=candidate), candidate


class _Sequence:
    """The candidates since the gate was last opened; these candidates share a level.

    `spent` is the level that each candidate spent, and `critical` are the critical values of all tests of the
    candidates.
    """

    def __init__(self, ledger: Ledger, level: float) -> None:
        candidates = ledger.candidates
        self.path = tuple(key for key, candidate in candidates.items() if candidate.outcome == OPEN)
        self.candidates = [candidate for candidate in candidates.values() if candidate.path == self.path]
        self.level = level_after(len(self.path), level)
        self.seed = int(digest(ledger.heads)[:LENGTH], 16)
        self.spent = [sum(candidate.spent) for candidate in self.candidates]
        self.critical = [value for candidate in self.candidates for value in candidate.critical]

    def results(self, tests: LedgerTests) -> Floats:
        """Return influence values, (all tests, units). The last rows are the tests of the new candidate."""
        candidate_results = [
            *((candidate.units, np.array(candidate.results)) for candidate in self.candidates),
            (tests.units, tests.results),
        ]
        column_of_unit = {
            unit: k for k, unit in enumerate(dict.fromkeys(unit for units, _ in candidate_results for unit in units))
        }
        rows = []
        for units, values in candidate_results:
            influence = np.zeros((len(values), len(column_of_unit)))
            influence[:, [column_of_unit[unit] for unit in units]] = values
            rows.append(influence)
        return np.concatenate(rows)

    def critical_values(self, tests: LedgerTests) -> tuple[list[float], list[float]]:
        """Return the critical values of the tests of a new candidate, and the levels that these tests spend."""
        return next_critical_values(
            correlation_of(self.results(tests)),
            self.critical,
            next_level(self.level, self.spent),
            tests.precisions,
            seed=self.seed,
        )

    def last_candidate(self, tests: LedgerTests, *, times: float = 1.0) -> int:
        """Return the number of further candidates that can be tested with enough power.

        All tests are assumed to have the mean correlation of the tests so far, or `TYPICAL_CORRELATION`.
        """
        correlation_so_far = correlation_of(self.results(tests))
        pair_correlations = correlation_so_far[np.triu_indices(len(correlation_so_far), 1)]
        typical_correlation = (
            float(np.clip(pair_correlations.mean(), 0.0, 0.99)) if len(self.candidates) > 1 else TYPICAL_CORRELATION
        )
        critical_scores, spent_levels = self.critical, self.spent
        for n_ahead in range(HORIZON):
            n_tests = len(critical_scores) + len(tests.rules)
            correlation = np.full((n_tests, n_tests), typical_correlation)
            np.fill_diagonal(correlation, 1.0)
            next_critical_scores, next_spent_levels = next_critical_values(
                correlation,
                critical_scores,
                next_level(self.level, spent_levels),
                [precision.with_labels(times) for precision in tests.precisions],
                seed=self.seed,
            )
            if tests.power(next_critical_scores, times=times) <= POWER:
                return n_ahead
            critical_scores, spent_levels = (
                critical_scores + next_critical_scores,
                [*spent_levels, sum(next_spent_levels)],
            )
        return HORIZON


def next_critical_values(
    correlation: Floats,
    earlier_critical_scores: Sequence[float],
    level: float,
    precisions: Sequence[Precision],
    *,
    seed: int,
) -> tuple[list[float], list[float]]:
    """Return critical values of the next tests, which share the level `level`, and the levels that the tests spend."""
    critical_scores, spent_levels = list(earlier_critical_scores), list[float]()
    for k, precision in enumerate(precisions):
        n = len(critical_scores) + 1
        next_test = NextTest(correlation[:n, :n], critical_scores, rng=np.random.default_rng(seed))
        next_level_share = max(0.0, level - sum(spent_levels)) / (len(precisions) - k)
        critical_scores.append(precision.effective_critical(next_test.critical(next_level_share)))
        spent_levels.append(next_test.exceedance_probability(critical_scores[-1]))
    return critical_scores[len(earlier_critical_scores) :], spent_levels


def _build_answer(
    ledger: Ledger, tests: LedgerTests, *, outcome: str, reason: str, remaining: str = ""
) -> LedgerAnswer:
    candidates = ledger.candidates
    return (
        outcome,
        reason,
        {
            "generation": ledger.generation,
            "candidate": len(candidates),
            "openings": sum(recorded_candidate.outcome == OPEN for recorded_candidate in candidates.values()),
            "labels": len(tests.labels),
            "ledger_digest": ", ".join(ledger.heads),
            "remaining": remaining,
        },
    )


def _gain(tests: LedgerTests) -> str:
    return f"{min(tests.gains):.2g}".removeprefix("0")


def _ledger_state(ledger: Ledger, tests: LedgerTests, level: float) -> LedgerAnswer:
    """Return the state of the ledger, with sentences about the remaining power."""
    sequence, n_labels, n_used = _Sequence(ledger, level), len(tests.labels), len(ledger.candidates)

    def until_text(n: int) -> str:
        return f"until candidate {n_used + n}" + (" or later" if n == HORIZON else "")

    n_candidates, event_text = sequence.last_candidate(tests), f"true value {_gain(tests)} above the threshold"
    sentences = [
        f"A {event_text} is found with a probability above {POWER} {until_text(n_candidates)}, if no further candidate "
        "opens the gate."
        if n_candidates
        else f"The power is too low for a further candidate: a {event_text} would be found with a probability of at "
        f"most {POWER}."
    ]
    if n_labels <= ADDED:
        sentences.append(f"With {ADDED} new labels, a new generation starts.")
    else:
        n_with_added_labels = sequence.last_candidate(tests, times=(n_labels + ADDED) / n_labels)
        power_text = (
            f"the probability is above {POWER} {until_text(n_with_added_labels)}"
            if n_with_added_labels
            else "the power is still too low"
        )
        sentences.append(f"With {ADDED} new labels, {power_text}. {n_labels} new labels start a new generation.")
    spent_total = sum(sum(candidate.spent) for candidate in ledger.candidates.values())
    if spent_total > level:
        sentences.append(
            f"The merged branches together have spent a level of {spent_total:.3f}, more than {level:.3g}."
        )
    return _build_answer(ledger, tests, outcome=UNTESTED, reason=" ".join(sentences), remaining=" ".join(sentences))
