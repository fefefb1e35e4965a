"""Tests of one candidate after another on the same labels: levels, critical values and outcomes from the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from custodes.data.notes import Note, build_notes
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
"""Power is computed for a true value that exceeds the threshold by this difference. The difference is smaller if the
threshold is close to the upper bound of the statistic: at most half of the distance between threshold and bound."""

POWER = 0.5
"""If the power is below this value and the gate does not open, the outcome is inconclusive."""

ADDED = 60
"""Number of new labels for which `status` states the effect on the power."""

HORIZON = 100
"""Maximum number of further candidates for which power is computed."""

TYPICAL_CORRELATION = 0.5
"""Assumed correlation of candidates, if fewer than two candidates were tested since the last opening of the gate."""


LedgerAnswer = tuple[str, str, dict[str, Any], list[Note]]
"""Outcome of a candidate, reason for the outcome, row of the table `ledger`, and notes, without estimates."""


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
        For each test, the assumed difference between the true value and the threshold, for which power is computed.
    labels, outputs : dict
        For each labelled output (see `LabelEntry`), the digest of its label, and the name of the output.
    undefined : str
        Why a test is undefined or not valid (the candidate is then not tested); empty if there is no such test.
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
        aspect_test_pairs = [(aspect_tests, test) for aspect_tests in tests_of_aspects for test in aspect_tests.tests]
        first_items = sorted({first_item for aspect_tests in tests_of_aspects for first_item in aspect_tests.units})
        unit_index_of_first_item = {first_item: unit_index for unit_index, first_item in enumerate(first_items)}
        influence_by_test = np.zeros((len(aspect_test_pairs), len(first_items)))
        for test_influence, (aspect_tests, test) in zip(influence_by_test, aspect_test_pairs, strict=True):
            np.add.at(
                test_influence,
                [unit_index_of_first_item[aspect_tests.units[unit_code]] for unit_code in test.unit],
                test.influence,
            )
        is_unit_in_any_test = (influence_by_test != 0).any(axis=0)
        has_several_systems = (
            len({system for aspect_tests in tests_of_aspects for _, system in aspect_tests.labels}) > 1
        )
        labels, name_of_output_digest = dict[str, str](), {}
        for aspect_tests in tests_of_aspects:
            for (item, system), label in aspect_tests.labels.items():
                item_digest = digest([aspect_tests.aspect, item])[:LENGTH]
                output_digest = item_digest + digest([system])[:LENGTH]
                labels[output_digest] = digest([item_digest, label])[:LENGTH]
                name_of_output_digest[output_digest] = " of ".join(filter(None, (item, system)))
        rule_texts = []
        for aspect_tests, test in aspect_test_pairs:
            system = test.system if has_several_systems else ""
            rule_texts.append(" ".join(filter(None, (test.rule.text, aspect_tests.aspect, system))))
        tests = [test for _, test in aspect_test_pairs]
        reasons = [test.reason or test.objection for test in tests if test.objection or not test.has_interval]
        return cls(
            metric=metric,
            rules=tuple(rule_texts),
            scores=np.array([test.score if test.has_interval else np.nan for test in tests]),
            units=tuple(digest(first_items[unit_index])[:LENGTH] for unit_index in np.flatnonzero(is_unit_in_any_test)),
            results=influence_by_test[:, is_unit_in_any_test],
            precisions=tuple(test.precision() for test in tests),
            gains=tuple(min(GAIN, (test.bounds[1] - test.rule.threshold) / 2) for test in tests),
            labels=labels,
            outputs=name_of_output_digest,
            undefined=next(iter(reasons), ""),
        )

    @property
    def fingerprint(self) -> str:
        """Digest of rules and results. A candidate that is tested again on the same labels has the same digest."""
        thresholds = [test_precision.threshold for test_precision in self.precisions]
        return digest([self.rules, thresholds, self.units, _rounded(self.results, digits=9)])[:LENGTH]

    def power(self, critical_values: Sequence[float]) -> float:
        """Return the power of the least powerful test, if true values exceed the thresholds by `gains`."""
        return min(
            test_precision.power(gain, critical_value)
            for test_precision, gain, critical_value in zip(self.precisions, self.gains, critical_values, strict=True)
        )


def _rounded(influences: Floats, *, digits: int) -> list[list[float]]:
    """Return influences (tests, units) rounded to a fixed number of significant digits."""
    return [[float(f"{influence:.{digits}g}") for influence in influences_of_test] for influences_of_test in influences]


def ledger_answer(
    path: str | Path, tests: LedgerTests, *, level: float, expected_digest: str | None, record: bool
) -> LedgerAnswer:
    """Test a candidate and record it; if `record` is false, only report the remaining power.

    Parameters
    ----------
    path : str or Path
        The ledger, which is created if it does not exist.
    tests : LedgerTests
    level : float
        Upper bound for the probability of any false opening in a generation.
    expected_digest : str, optional
        Digest of an entry that the ledger must contain.
    record : bool
    """
    file_path = check_writable(path)
    if not record and not file_path.exists():
        return _ledger_state(_with_labels(b"", tests, level, expected_digest, str(file_path))[1], tests, level)
    with open_with_lock(file_path) as ledger_file:
        earlier_ledger, ledger = _with_labels(ledger_file.read(), tests, level, expected_digest, str(file_path))
        if tests.undefined:
            return _build_answer(
                earlier_ledger, tests, outcome=UNDECIDED, reason=f"{tests.undefined}; no level is spent"
            )
        if not record:
            return _ledger_state(ledger, tests, level)
        ledger, candidate_entry = _with_candidate(ledger, tests, level)
        ledger_file.write(
            b"".join(msgspec.json.encode(entry) + b"\n" for entry in ledger.entries[len(earlier_ledger.entries) :])
        )
    return _build_answer(ledger, tests, outcome=candidate_entry.outcome, reason=candidate_entry.reason)


def _with_labels(
    content: bytes, tests: LedgerTests, level: float, expected_digest: str | None, file_name: str
) -> tuple[Ledger, Ledger]:
    """Return the ledger in a file, and this ledger with the current labels."""
    ledger = Ledger.read(content, file_name)
    reject(
        (
            expected_digest is not None and expected_digest not in [entry.digest for entry in ledger.entries],
            f"{file_name}: there is no entry {short_repr(expected_digest)} (ledger_digest), so entries were removed or "
            "this is another ledger; restore the file",
        ),
        (not tests.labels, "ledger: the study has no human labels; add human labels, or omit the ledger"),
        error=InputError,
    )
    return ledger, ledger.with_labels(
        tests.labels, name_of_output_digest=tests.outputs, level=level, file_name=file_name
    )


def _with_candidate(ledger: Ledger, tests: LedgerTests, level: float) -> tuple[Ledger, Candidate]:
    """Return the ledger with the outcome of a candidate, and the recorded candidate.

    If the ledger already contains the same candidate, the ledger is unchanged.
    """
    for candidate in ledger.candidates.values():
        if candidate.fingerprint == tests.fingerprint:
            return ledger, candidate
    candidate_sequence = _Sequence(ledger, level)
    critical_scores, spent_levels = next_critical_values(
        correlation_of(candidate_sequence.results(tests)),
        candidate_sequence.critical,
        next_level(candidate_sequence.level, candidate_sequence.spent),
        tests.precisions,
        seed=candidate_sequence.seed,
    )
    outcome, reason = OPEN, ""
    if not (tests.scores > critical_scores).all():
        outcome = CLOSED if tests.power(critical_scores) >= POWER else UNDECIDED
        reason = (
            f"candidate {len(ledger.candidates) + 1} of this generation of labels is not shown to satisfy the rules"
        )
        if outcome == UNDECIDED:
            reason += (
                f"; a true value {_gain(tests)} above the threshold would be detected with a probability below {POWER}"
            )
    candidate = Candidate(
        metric=tests.metric,
        rules=tests.rules,
        fingerprint=tests.fingerprint,
        path=candidate_sequence.path,
        units=tests.units,
        results=tuple(map(tuple, _rounded(tests.results, digits=6))),
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
        self.path = tuple(entry_digest for entry_digest, candidate in candidates.items() if candidate.outcome == OPEN)
        self.candidates = [candidate for candidate in candidates.values() if candidate.path == self.path]
        self.level = level_after(len(self.path), level)
        self.seed = int(digest(ledger.heads)[:LENGTH], 16)
        self.spent = [sum(candidate.spent) for candidate in self.candidates]
        self.critical = [critical_value for candidate in self.candidates for critical_value in candidate.critical]

    def results(self, tests: LedgerTests) -> Floats:
        """Return influence values, (all tests, units). The last rows are the tests of the new candidate."""
        units_and_influences = [
            *((candidate.units, np.array(candidate.results)) for candidate in self.candidates),
            (tests.units, tests.results),
        ]
        column_of_unit = {
            unit_digest: column_index
            for column_index, unit_digest in enumerate(
                dict.fromkeys(unit_digest for unit_digests, _ in units_and_influences for unit_digest in unit_digests)
            )
        }
        influence_blocks = []
        for unit_digests, influence_values in units_and_influences:
            aligned_influence = np.zeros((len(influence_values), len(column_of_unit)))
            aligned_influence[:, [column_of_unit[unit_digest] for unit_digest in unit_digests]] = influence_values
            influence_blocks.append(aligned_influence)
        return np.concatenate(influence_blocks)

    def count_further_candidates(self, tests: LedgerTests) -> int:
        """Return the number of further candidates that can be tested with enough power.

        All tests are assumed to have the mean correlation of the tests so far, or `TYPICAL_CORRELATION`.
        """
        correlations_so_far = correlation_of(self.results(tests))
        pair_correlations = correlations_so_far[np.triu_indices(len(correlations_so_far), 1)]
        typical_correlation = (
            float(np.clip(pair_correlations.mean(), 0.0, 0.99)) if len(self.candidates) > 1 else TYPICAL_CORRELATION
        )
        critical_scores, spent_levels = self.critical, self.spent
        for n_further_candidates in range(HORIZON):
            n_tests = len(critical_scores) + len(tests.rules)
            equal_correlations = np.full((n_tests, n_tests), typical_correlation)
            np.fill_diagonal(equal_correlations, 1.0)
            next_critical_scores, next_spent_levels = next_critical_values(
                equal_correlations,
                critical_scores,
                next_level(self.level, spent_levels),
                tests.precisions,
                seed=self.seed,
            )
            if tests.power(next_critical_scores) <= POWER:
                return n_further_candidates
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
    for test_index, test_precision in enumerate(precisions):
        n_tests = len(critical_scores) + 1
        next_test = NextTest(correlation[:n_tests, :n_tests], critical_scores, rng=np.random.default_rng(seed))
        test_level = max(0.0, level - sum(spent_levels)) / (len(precisions) - test_index)
        critical_scores.append(test_precision.effective_critical(next_test.critical(test_level)))
        spent_levels.append(next_test.exceedance_probability(critical_scores[-1]))
    return critical_scores[len(earlier_critical_scores) :], spent_levels


def _build_answer(ledger: Ledger, tests: LedgerTests, *, outcome: str, reason: str) -> LedgerAnswer:
    candidate_of_digest = ledger.candidates
    return (
        outcome,
        reason,
        {
            "generation": ledger.generation,
            "candidate": len(candidate_of_digest),
            "openings": sum(recorded_candidate.outcome == OPEN for recorded_candidate in candidate_of_digest.values()),
            "labels": len(tests.labels),
            "ledger_digest": ", ".join(ledger.heads),
            "remaining": reason if outcome == UNTESTED else "",
        },
        build_notes(
            (
                "new-generation",
                ledger.n_generations > 1 and len(candidate_of_digest) <= 1,
                "a new generation starts, because at least half of the human labels are new; a label is new if "
                "its item or its system is new",
            )
        ),
    )


def _gain(tests: LedgerTests) -> str:
    return f"{min(tests.gains):.2g}".removeprefix("0")


def _until_text(ledger: Ledger, n_candidates: int) -> str:
    """The last candidate that has enough power, in words, or '' if no further candidate has."""
    last_candidate = len(ledger.candidates) + n_candidates
    return f"until candidate {last_candidate}{' or later' if n_candidates == HORIZON else ''}" if n_candidates else ""


def _ledger_state(ledger: Ledger, tests: LedgerTests, level: float) -> LedgerAnswer:
    """Return the state of the ledger, with sentences about the remaining power, now and with `ADDED` new labels."""
    n_labels = len(tests.labels)
    precisions_with_added_labels = (
        precision.with_labels((n_labels + ADDED) / n_labels) for precision in tests.precisions
    )
    tests_with_added_labels = replace(tests, precisions=tuple(precisions_with_added_labels))
    sequence = _Sequence(ledger, level)
    until_text = _until_text(ledger, sequence.count_further_candidates(tests))
    until_text_with_added_labels = _until_text(ledger, sequence.count_further_candidates(tests_with_added_labels))
    event_text = f"true value {_gain(tests)} above the threshold"
    power_text = (
        f"A {event_text} is detected with a probability above {POWER} {until_text}. This holds until a further "
        "candidate opens the gate."
        if until_text
        else f"The power is too low for a further candidate: a {event_text} would be detected with a probability of at "
        f"most {POWER}."
    )
    power_text_with_added_labels = (
        f"the probability is above {POWER} {until_text_with_added_labels}"
        if until_text_with_added_labels
        else "the power is still too low"
    )
    added_text = (
        f"With {ADDED} new labels, {power_text_with_added_labels}. {n_labels} new labels start a new generation."
        if n_labels > ADDED
        else f"With {ADDED} new labels, a new generation starts."
    )
    return _build_answer(ledger, tests, outcome=UNTESTED, reason=f"{power_text} {added_text}")
