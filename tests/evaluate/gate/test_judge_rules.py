"""Rules of a gate without human ratings have the estimates and intervals of `consistency` and `rates`."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.errors import InputError, OptionError
from tests.messages import exactly

RULES = {
    "consistency": ("orders", "consistency", ">=0.5"),
    "flip_rate": ("orders", "flip_rate", "<=0.5"),
    "first_rate": ("orders", "first_rate", "<=0.9"),
    "agreement_within_order": ("repeats", "agreement_within_order", ">=0.5"),
    "failure_rate": ("missing", "failure_rate", "<=0.3"),
}


def verdicts(n: int = 200, *, bias: float = 0.1, noise: float = 0.1, failures: float = 0.02) -> pl.DataFrame:
    """Return verdicts of a judge in both orders, twice each; some depend on the position alone, and some are empty."""
    rng = np.random.default_rng(3)
    rows = []
    for item in range(n):
        better, biased = rng.random() < 0.6, rng.random() < bias
        for order in ("ab", "ba"):
            for repeat in range(2):
                wins = (order == "ab") if biased else better ^ (rng.random() < noise)
                word = "" if rng.random() < failures else "A" if wins else "B"
                rows.append((str(item), "A", "B", word, "judge", "metric", order, str(repeat)))
    columns = ["item", "system_a", "system_b", "winner", "rater", "kind", "order", "repeat"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def rows(*args: Any, **options: Any) -> list[dict[str, Any]]:
    return cu.gate(*args, **options).rules.to_dicts()


@pytest.mark.parametrize("name", RULES)
def test_a_rule_has_the_value_and_the_interval_of_consistency(name: str) -> None:
    data = verdicts()
    table, column, limit = RULES[name]
    expected = cu.consistency(data).to_frame(table)
    expected = expected.filter(factor="all") if table == "missing" else expected
    (rule,) = rows(data, require=f"{name}{limit}")
    for end in ("", "_low", "_high"):
        assert rule[f"value{end}"] == pytest.approx(expected[f"{column}{end}"].item())
    assert rule["outcome"] == "holds"
    assert (rule["relation"], rule["p_value"], rule["metric"]) == (limit[:2], None, "judge")


def test_outcomes_follow_the_relation_and_widen_with_the_number_of_rules() -> None:
    data = verdicts(bias=0.5)
    result = cu.gate(data, require=["consistency>=0.8", "first_rate<=0.6", "failure_rate<=0.2"])
    assert result.rules["outcome"].to_list() == ["fails", "fails", "holds"]
    assert (result.outcome, result.status) == ("fails", 1)
    assert next(iter(result.lines())).startswith("fails  consistency of judge: 0.")
    assert " <= 0.6" in list(result.lines())[1]
    (alone,) = rows(data, require="consistency>=0.8")
    assert result.rules["value_low"][0] < alone["value_low"] < alone["value_high"] < result.rules["value_high"][0]
    value = alone["value"]
    (near,) = rows(data, require=f"consistency>={value + 0.005:.3f}")
    assert near["outcome"] == "inconclusive"
    assert near["reason"].startswith("the interval contains the threshold")


def test_a_rule_on_what_the_judge_lacks_is_inconclusive() -> None:
    once = verdicts().filter(pl.col("order") == "ab", pl.col("repeat") == "0")
    one_order, repeats = rows(once, require=["consistency>=0.8", "agreement_within_order>=0.8"])
    assert (one_order["outcome"], one_order["reason"]) == ("inconclusive", "this judge has no verdicts in both orders")
    assert (repeats["outcome"], repeats["reason"]) == ("inconclusive", "this judge has no repeated verdicts")


def labels(words: tuple[str, ...] = ("fail", "pass")) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    ids = np.repeat(np.arange(200), 2)
    label = np.array(words)[(rng.random(400) < 0.8).astype(int)]
    changed = rng.random(400) < 0.05
    table = pl.DataFrame({"item": ids, "run": np.tile([0, 1], 200), "judge": label[ids * 2]})
    return table.with_columns(judge=pl.when(pl.Series(changed)).then(pl.lit(words[0])).otherwise("judge"))


def test_the_rate_of_a_judges_labels_and_their_repeatability() -> None:
    data = cu.read(labels(), columns={"repeat": "run"})
    rate = cu.rates(data).rates.row(0, named=True)
    (rule,) = rows(data, require="judge_rate>=0.6")
    assert (rule["value"], rule["value_low"], rule["value_high"]) == tuple(
        rate[f"judge_rate{end}"] for end in ("", "_low", "_high")
    )
    assert (rule["outcome"], rule["system"], rule["n"]) == ("holds", rate["system"], rate["n"])
    (second,) = rows(data, require="judge_rate<=0.6", positive="fail")
    assert (second["value"], second["outcome"]) == (pytest.approx(1 - rate["judge_rate"]), "holds")
    both = cu.gate(data, require=["judge_rate<=0.6", "repeat_agreement>=0.8"], positive="fail")
    assert both.rules["value"][0] == second["value"]
    joint = cu.rates(data, positive="fail", confidence=0.975).rates.row(0, named=True)
    assert both.rules.row(0, named=True)["value_high"] == pytest.approx(joint["judge_rate_high"])
    assert [note.rule for note in both.notes if note.rule == "no-human-labels"] == ["no-human-labels"]
    (repeated,) = rows(data, require="repeat_agreement>=0.8")
    assert repeated["value"] == pytest.approx(cu.consistency(data).repeated_labels["agreement"].item())


def test_rules_of_two_kinds_and_wrong_relations_are_refused() -> None:
    data = verdicts()
    for require, message in (
        (["consistency>=0.8", "sample_accuracy>=0.5"], r"on scores or preferences \(sample_accuracy\) and on a judge"),
        ("failure_rate>=0.1", "for failure_rate, lower is better; write failure_rate<=0.1"),
        ("consistency<=0.1", "for consistency, higher is better; write consistency>=0.1"),
        ("flip_rate<=1.5", "flip_rate lies between 0 and 1"),
    ):
        with pytest.raises(OptionError, match=message):
            cu.gate(data, require=require)
    with pytest.raises(
        OptionError,
        match=exactly(
            "not_worse_than='judge' needs human ratings, but the other rules need none; use two gates, "
            "because all rules of a gate must be of one kind"
        ),
    ):
        cu.gate(data, metric="judge", require="consistency>=0.8", not_worse_than="judge")
    with pytest.raises(
        OptionError,
        match=exactly("sampling='by-judge' has no effect: it applies only to rules on labels, such as tpr>=0.9"),
    ):
        cu.gate(data, require="consistency>=0.8", sampling="by-judge")
    words = np.array(["bad", "fair", "fine"])[np.arange(60) % 3]
    three = pl.DataFrame({"id": range(60), "judge": words, "human": np.roll(words, 1)})
    with pytest.raises(
        InputError,
        match="judge_rate needs to know which label is positive; give positive=LABEL, such as positive='bad'",
    ):
        cu.gate(three, require="judge_rate>=0.5")
    (rule,) = rows(three, require="judge_rate>=0.1", positive="fine")
    assert (rule["value"], rule["outcome"]) == (pytest.approx(1 / 3), "holds")


def test_bounds_of_several_rules_have_bonferronis_level_and_numbers_of_observations() -> None:
    data = verdicts(60).with_columns(aspect=pl.lit("style"))
    first = rows(data, require=["consistency>=0.5", "failure_rate<=0.3", "repeat_agreement>=0.5"])
    joint = cu.consistency(data, confidence=0.975)  # there are no repeated labels
    orders = joint.orders.row(0, named=True)
    failures = joint.missing.filter(factor="all").row(0, named=True)
    for rule, values, name in ((first[0], orders, "consistency"), (first[1], failures, "failure_rate")):
        for end in ("", "_low", "_high"):
            assert rule[f"value{end}"] == pytest.approx(values[f"{name}{end}"])
    assert (first[0]["n"], first[1]["n"]) == (orders["n_both_orders"], failures["queried"])
    assert (first[2]["n"], first[2]["reason"]) == (0, "this judge has no repeated labels")
    assert [rule["aspect"] for rule in first] == ["style"] * 3
    alone = rows(data, require=["consistency>=0.5", "repeat_agreement>=0.5"])
    assert alone[0]["value_low"] == pytest.approx(cu.consistency(data).orders["consistency_low"].item())
    few = rows(verdicts(1, bias=0, noise=0, failures=0), require="consistency>=0.5")
    assert few[0]["reason"] == "too few clusters of items for an interval"
    assert few[0]["value"] == 1
