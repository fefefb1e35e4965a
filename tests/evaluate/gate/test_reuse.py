"""Tests of candidates on the same labels: influences of units, levels, critical values and sentences."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from custodes.errors import InputError, OptionError
from custodes.evaluate.gate.label_rules import LabelTest, LabelTests
from custodes.evaluate.gate.ledger import LENGTH, LabelEntry, Ledger
from custodes.evaluate.gate.reuse import HORIZON, LedgerTests, ledger_answer, next_critical_values
from custodes.evaluate.gate.rules import requirement
from custodes.stats.stopping.reused_labels import NextTest, Precision, next_level, proportion_z
from custodes.strict_json import digest
from tests.messages import exactly


def candidate(
    successes: float = 150,
    *,
    n: int = 200,
    seed: int = 0,
    common: float = 0,
    rule: str = "accuracy>=0.8",
    **options: Any,
) -> Any:
    """Return the tests of one rule for a candidate with these successes among n outputs."""
    rng = np.random.default_rng(seed)
    influence = (common * np.random.default_rng(99).normal(size=n) + rng.normal(size=n)) / n
    influence -= influence.mean()
    test = LabelTest(
        rule=requirement(rule),
        statistic="accuracy",
        n=n,
        values=np.full(9, successes / n),
        counts=(float(successes), float(n)),
        influence=influence,
        unit=np.arange(n),
    )
    names = [f"i{k}" for k in range(n)]
    labels = {(name, ""): "pass" for name in names}
    part = LabelTests(aspect="", tests=[replace(test, **options)], labels=labels, units=names, notes=[])
    return LedgerTests.from_label_tests("judge", [part])


def ask(path: Path, tests: Any, *, record: bool = True, level: float = 0.05) -> tuple[str, str, dict[str, Any], Any]:
    return ledger_answer(path, tests, level=level, expected_digest=None, record=record)


def test_influences_of_the_units_of_all_aspects_are_aligned() -> None:
    rule = requirement("tpr>=0.85")
    first = LabelTest(
        rule=rule,
        statistic="tpr",
        n=3,
        values=np.array([0.9, 0.8, 0.95]),
        unit=np.array([0, 1, 1]),
        influence=np.array([0.5, 0.25, -0.5]),
        system="A",
    )
    second = replace(first, unit=np.array([1, 0]), influence=np.array([2.0, 0.0]), values=np.array([0.9]), system="B")
    labels_x, labels_y = {("i", "A"): "pass", ("j", "B"): "fail"}, {("i", ""): "pass"}
    parts = [
        LabelTests("x", [first], labels_x, ["u", "v"], []),
        LabelTests("y", [second], labels_y, ["u", "w"], []),
    ]
    tests = LedgerTests.from_label_tests("judge", parts)
    assert tests.rules == ("tpr>=0.85 x A", "tpr>=0.85 y B")
    units = [digest(name)[:LENGTH] for name in "uvw"]
    assert tests.units == tuple(units)
    np.testing.assert_array_equal(tests.results, [[0.5, -0.25, 0], [0, 0, 2]])
    assert tests.scores[0] == first.score
    assert np.isnan(tests.scores[1])
    assert tests.gains == (pytest.approx(0.075), pytest.approx(0.075))  # half of the distance from 1, at most .09
    assert candidate().gains == (0.09,)
    items = [digest([aspect, item])[:LENGTH] for aspect, item in (("x", "i"), ("x", "j"), ("y", "i"))]
    outputs = [item + digest([system])[:LENGTH] for item, system in zip(items, ("A", "B", ""), strict=True)]
    assert tests.labels == {
        output: digest([item, label])[:LENGTH]
        for output, item, label in zip(outputs, items, ("pass", "fail", "pass"), strict=True)
    }
    assert list(tests.outputs.values()) == ["i of A", "j of B", "i"]
    assert tests.undefined == ""
    assert replace(tests, undefined="why").undefined == "why"
    assert LedgerTests.from_label_tests("judge", parts[:1]).rules == ("tpr>=0.85 x A",)
    one = replace(parts[0].tests[0], system="A")
    alone = parts[0]._replace(tests=[one], labels={("i", "A"): "pass"})
    assert LedgerTests.from_label_tests("judge", [alone]).rules == ("tpr>=0.85 x",)
    bad = replace(second, reason="no labels")
    of_bad = LedgerTests.from_label_tests("judge", [parts[0], parts[1]._replace(tests=[bad])])
    assert of_bad.undefined == "no labels"
    objected = parts[0]._replace(tests=[replace(first, objection="not random")])
    assert LedgerTests.from_label_tests("judge", [objected]).undefined == "not random"


def test_a_fingerprint_depends_on_rules_thresholds_units_and_rounded_influences() -> None:
    tests = candidate()
    assert len(tests.fingerprint) == LENGTH
    near = replace(tests, results=tests.results * (1 + 1e-12))
    assert near.fingerprint == replace(tests, metric="other", scores=tests.scores + 1).fingerprint == tests.fingerprint
    others = [
        replace(tests, rules=("r",)),
        replace(tests, precisions=(tests.precisions[0]._replace(threshold=0.7),)),
        replace(tests, units=tests.units[::-1]),
        replace(tests, results=tests.results * (1 + 1e-7)),
    ]
    assert len({tests.fingerprint, *(other.fingerprint for other in others)}) == 5


def test_the_power_is_that_of_the_least_powerful_test() -> None:
    tests = replace(
        candidate(), precisions=(Precision(0.8, error=0.03), Precision(0.8, error=0.04)), gains=(0.09, 0.09)
    )
    assert tests.power([2, 2]) == pytest.approx(stats.norm.cdf(0.09 / 0.04 - 2))
    assert tests.power([2, 0]) == pytest.approx(stats.norm.cdf(0.09 / 0.03 - 2))


def test_the_tests_of_a_candidate_share_its_level() -> None:
    correlation = np.array([[1, 0.5, 0.2], [0.5, 1, 0.3], [0.2, 0.3, 1]])
    precisions = [Precision(0.8, error=0.03), Precision(0.8, trials=200, whole=True)]
    critical, spent = next_critical_values(correlation, [2.2], 0.02, precisions, seed=5)
    first = NextTest(correlation[:2, :2], [2.2], rng=np.random.default_rng(5))
    assert critical[0] == first.critical(0.01)
    assert spent[0] == pytest.approx(0.01, abs=1e-5)
    second = NextTest(correlation, [2.2, critical[0]], rng=np.random.default_rng(5))
    assert critical[1] == precisions[1].effective_critical(second.critical(0.02 - spent[0]))
    assert spent[1] == second.exceedance_probability(critical[1]) < 0.01
    assert next_critical_values(np.eye(1), [], 0.0, precisions[:1], seed=0)[1] == [0]


def first_critical(level: float = 0.05) -> float:
    """Return the smallest score of 200 trials above the quantile of the first level."""
    z = stats.norm.isf(next_level(0.8 * level, []))
    return float(min(score for score in proportion_z(np.arange(1, 201), 200, 0.8) if score > z))


def test_the_gate_opens_above_the_critical_value_and_is_closed_or_inconclusive_below(tmp_path: Path) -> None:
    scores = proportion_z(np.arange(1, 201), 200, 0.8)
    fewest = 1 + int(np.flatnonzero(scores >= first_critical())[0])
    outcome, reason, row, notes = ask(tmp_path / "open", candidate(fewest))
    assert (outcome, reason, row["candidate"], row["openings"], row["labels"], notes) == ("open", "", 1, 1, 200, [])
    outcome, reason, row, _ = ask(tmp_path / "closed", candidate(fewest - 1))
    assert (outcome, row["openings"]) == ("closed", 0)
    assert reason == "candidate 1 of this generation of labels is not shown to satisfy the rules"
    outcome, reason, *_ = ask(tmp_path / "closed", candidate(fewest - 1, seed=1))
    assert reason.startswith("candidate 2 of this generation")
    weak = candidate(40, n=60)
    outcome, reason, row, _ = ask(tmp_path / "weak", weak)
    assert (outcome, row["candidate"]) == ("inconclusive", 1)
    assert reason.endswith("rules; a true value .09 above the threshold would be detected with a probability below 0.5")
    stored = Ledger.read((tmp_path / "closed").read_bytes(), "f")
    first, second = stored.candidates.values()
    assert (first.metric, first.path, second.path) == ("judge", (), ())
    assert first.critical == (pytest.approx(first_critical()),)
    assert first.spent[0] == pytest.approx(stats.binom.sf(fewest - 1, 200, 0.8), rel=0.01)
    assert sum(second.spent) <= next_level(0.04, [sum(first.spent)])
    np.testing.assert_allclose(first.results, candidate(fewest - 1).results, rtol=1e-5)
    undefined = replace(candidate(), undefined="why")
    outcome, reason, row, _ = ask(tmp_path / "none", undefined)
    assert (outcome, reason, row["candidate"]) == ("inconclusive", "why; no level is spent", 0)
    with pytest.raises(InputError, match="the study has no human labels"):
        ask(tmp_path / "x", replace(candidate(), labels={}))
    with pytest.raises(
        InputError,
        match=exactly(
            f"{tmp_path / 'closed'}: there is no entry 'abc' (ledger_digest), so entries were removed or this is "
            "another ledger; restore the file"
        ),
    ):
        ledger_answer(tmp_path / "closed", candidate(), level=0.05, expected_digest="abc", record=True)


def last_candidates(tests: Any, ledger: Ledger, correlation: float, times: float = 1.0) -> int:
    """Return the number of further candidates with this correlation whose power exceeds .5, by definition."""
    critical = [value for earlier in ledger.candidates.values() for value in earlier.critical]
    spent = [sum(earlier.spent) for earlier in ledger.candidates.values()]
    precision, seed = tests.precisions[0].with_labels(times), int(digest(ledger.heads)[:LENGTH], 16)
    for k in range(100):
        n_tests = len(critical) + 1
        correlations = np.full((n_tests, n_tests), correlation) + (1 - correlation) * np.eye(n_tests)
        values, levels = next_critical_values(correlations, critical, next_level(0.04, spent), [precision], seed=seed)
        if precision.power(0.09, values[0]) <= 0.5:
            return k
        critical, spent = critical + values, [*spent, levels[0]]
    return 100


@pytest.mark.parametrize(("n", "n_candidates"), [(100, 0), (120, 2), (61, 0), (60, 0), (40, 0), (110, 1), (61, 5)])
def test_the_state_says_until_which_candidate_the_power_is_enough(tmp_path: Path, n: int, n_candidates: int) -> None:
    tests = candidate(0.75 * n, n=n, rule="accuracy>=0.8")
    for seed in range(n_candidates):
        ask(tmp_path / "ledger", candidate(0.7 * n, n=n, seed=seed + 1, common=1))
    outcome, reason, row, _ = ask(tmp_path / "ledger", tests, record=False)
    assert (outcome, reason, row["candidate"], row["labels"]) == ("not tested", row["remaining"], n_candidates, n)
    if not n_candidates:
        assert not (tmp_path / "ledger").exists()
        entry = LabelEntry(starts=True, level=0.05, labels=tests.labels)
        ledger = Ledger().append_entry(generation=row["generation"], labels=entry)
        correlation = 0.5
    else:
        ledger = Ledger.read((tmp_path / "ledger").read_bytes(), "f")
        results = [np.array(earlier.results[0]) for earlier in ledger.candidates.values()]
        found = np.corrcoef([*results, tests.results[0]])
        correlation = found[np.triu_indices(len(found), 1)].mean() if n_candidates > 1 else 0.5
    now, later = (last_candidates(tests, ledger, correlation, times) for times in (1, (n + 60) / n))
    assert later > now or n == 61
    event = "true value .09 above the threshold"
    expected = (
        f"A {event} is detected with a probability above 0.5 until candidate {n_candidates + now}. This holds until "
        "a further candidate opens the gate."
        if now
        else f"The power is too low for a further candidate: a {event} would be detected with a probability of at most "
        "0.5."
    )
    until = (
        f"the probability is above 0.5 until candidate {n_candidates + later}"
        if later
        else "the power is still too low"
    )
    added = (
        f"With 60 new labels, {until}. {n} new labels start a new generation."
        if n > 60
        else "With 60 new labels, a new generation starts."
    )
    assert reason == f"{expected} {added}"


def entry_of(labels: dict[str, str], ledger: Ledger, *, level: float = 0.05) -> Ledger:
    return ledger.with_labels(labels, name_of_output_digest={name: name for name in labels}, level=level, file_name="f")


def test_half_of_the_labels_must_be_new_and_added_labels_continue_the_generation() -> None:
    def some(first: int, last: int) -> dict[str, str]:
        return {f"{k:016}{'a' * 16}": "pass" for k in range(first, last)}

    first = entry_of(some(0, 10), Ledger())
    assert (first.n_generations, len(first.entries), first.generation) == (
        1,
        1,
        digest(sorted(some(0, 10).items()))[:16],
    )
    assert entry_of(some(0, 10), first) is first
    more = entry_of(some(0, 19), first)
    assert (more.n_generations, more.generation, len(more.labels)) == (1, first.generation, 19)
    assert more.entries[1].labels == LabelEntry(starts=False, level=0.05, labels=some(10, 19))
    assert more.entries[1].parents == first.heads
    half = entry_of(some(0, 20), first)
    assert (half.n_generations, half.generation == first.generation) == (2, False)
    assert half.entries[1].labels == LabelEntry(starts=True, level=0.05, labels=some(0, 20))
    assert entry_of(some(0, 19), more) is more
    with pytest.raises(InputError, match="9 human labels of earlier runs are missing"):
        entry_of(some(0, 10), more)
    with pytest.raises(OptionError, match=r"confidence=0.9 differs .*; use confidence=0.95"):
        entry_of(some(0, 10), first, level=0.1)
    with pytest.raises(InputError, match="human labels changed since earlier runs: "):
        entry_of({**some(0, 10), f"{3:016}{'a' * 16}": "fail"}, first)


def test_with_many_labels_the_state_looks_ahead_only_to_its_horizon(tmp_path: Path) -> None:
    _, _, row, _ = ask(tmp_path / "ledger", candidate(750, n=1_000, rule="accuracy>=0.8"), record=False)
    assert (
        f"until candidate {HORIZON} or later. This holds until a further candidate opens the gate." in row["remaining"]
    )
