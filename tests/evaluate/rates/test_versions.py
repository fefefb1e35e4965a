"""Rates of several versions: differences, equal error rates, slices and samples."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom, fisher_exact, norm

import custodes as cu
from custodes.errors import OptionError
from custodes.evaluate.rates.comparisons import CONTINUITY, DifferenceTest, has_equivalent_rates
from custodes.evaluate.rates.judge_labels import fisher_p_value, sampling_p_value
from custodes.evaluate.rates.outputs import labelled_outputs
from tests.evaluate.rates.tables import row, table, table_of_versions, versions


def test_a_judge_that_errs_differently_is_named_and_does_not_decide() -> None:
    result = cu.rates(versions(0.5, 0.5, 0.2))
    pair = row(result.differences)
    assert (pair["system_a"], pair["system_b"], pair["favoured"]) == ("v1", "v2", "v2")
    assert pair["decision"] == "="
    assert abs(pair["corrected_difference"]) < 0.1
    text = "\n".join(cu.verdict(versions(0.5, 0.5, 0.2)).lines())
    assert "judge over-rates v2 in the comparison of v1 and v2 by the rate of pass: its TNR differs" in text
    assert "v1 and v2 do not differ significantly" in text
    swapped = {"pass": "fail", "fail": "pass"}  # so that TPR and TNR are exchanged
    relabelled = versions(0.5, 0.5, 0.2).with_columns(pl.col("judge", "expert").replace(swapped))
    text = "\n".join(cu.verdict(relabelled).lines())
    assert "judge over-rates v1 in the comparison of v1 and v2 by the rate of pass: its TPR differs" in text


def test_the_better_version_is_found_and_swapping_versions_swaps_signs() -> None:
    data = versions(0.85, 0.6, 0.7)
    result = cu.rates(data)
    pair = row(result.differences)
    assert pair["decision"] == "+"
    assert pair["corrected_difference_low"] > 0
    swapped = row(cu.rates(data.with_columns(pl.col("prompt_version").replace({"v1": "v2", "v2": "v1"}))).differences)
    assert swapped["decision"] == "-"
    assert swapped["corrected_difference"] == pytest.approx(-pair["corrected_difference"])
    assert "v1 has a significantly higher rate of pass than v2" in str(cu.verdict(data))


def test_shared_error_rates_only_where_they_are_equivalent() -> None:
    shared = cu.rates(versions(0.6, 0.7, 0.7, n=20_000), calibration="shared")
    assert set(shared.rates["method"]) == {"rogan-gladen, shared"}
    assert "error-rates-not-shared" not in {note.rule for note in shared.notes}
    assert row(shared.rates, system="v1")["corrected_rate"] == pytest.approx(0.6, abs=0.03)
    few = cu.rates(versions(0.6, 0.7, 0.7), calibration="shared")
    assert set(few.rates["method"]) == {"post-stratified"}
    assert "error-rates-not-shared" in {note.rule for note in few.notes}


def test_slices_name_where_the_judge_fails() -> None:
    good, bad = table(900, rate=0.5, tnr=0.9, labelled=0.5), table(300, rate=0.5, tnr=0.2, labelled=0.5, seed=5)
    data = pl.concat([good, bad.with_columns(pl.col("id") + 900)]).with_columns(
        topic=pl.Series(["a", "b", "c"] * 300 + ["d"] * 300), tokens=pl.int_range(1200)
    )
    result = cu.rates(data, by="topic")
    assert cu.rates(versions(0.5, 0.8, 0.7), by="prompt_version").slices["slice"].to_list() == ["v1", "v2"]
    findings = dict(result.slices.select("slice", "finding").iter_rows())
    assert "lower TNR" in findings["d"]
    assert result.slices["n"].sum() == 1200
    overall = cu.rates(data)
    assert result.rates.equals(overall.rates)
    assert result.judges.equals(overall.judges)
    assert cu.rates(data, by="tokens").slices["slice"].len() == 4
    with pytest.raises(
        OptionError, match=r"by='topics': no such column \(did you mean 'topic'\?\); columns: system, topic"
    ):
        cu.rates(data, by="topics")


def test_versions_and_slices_are_compared_by_human_labels_alone() -> None:
    human = versions(0.85, 0.5, 0.7).drop("judge")
    columns = {"item": "id", "system": "prompt_version", "score": ["human:{rater:expert}"]}
    study = cu.read(human, columns=columns)
    pair = row(cu.rates(study).differences)
    assert (pair["metric"], pair["decision"], pair["favoured"]) == ("human", "+", "")
    assert pair["tpr_difference"] is None
    assert pair["corrected_difference"] == pytest.approx(pair["human_difference"])
    assert "v1 has a significantly higher rate of pass than v2" in str(cu.verdict(study))
    assert cu.rates(study, by="system").slices["finding"].to_list() == ["higher rate", "lower rate"]


@pytest.mark.parametrize("names", [("v1", "v2"), ("v2", "v1")])
def test_a_system_without_labels_of_the_judge_is_compared_by_human_labels(names: tuple[str, str]) -> None:
    first = table(labelled=0.5)
    second = first.with_columns(judge=pl.lit(None, dtype=pl.String), expert=pl.when(pl.col("id") != 9).then("expert"))
    parts = [part.with_columns(version=pl.lit(name)) for part, name in zip((first, second), names, strict=True)]
    result = cu.rates(pl.concat(parts))
    (difference,) = result.differences.to_dicts()
    assert (difference["corrected_difference"], difference["decision"]) == (None, "")
    low, high = difference["human_difference_low"], difference["human_difference_high"]
    assert -0.02 < low < 0 < high < 0.02  # both systems have the same human labels


def test_a_system_without_human_labels_gets_no_decision() -> None:
    data = table(400, labelled=0.5).with_columns(version=pl.Series(["v1", "v2"] * 200))
    is_labelled = pl.col("version") == "v1"
    result = cu.rates(data.with_columns(expert=pl.when(is_labelled).then("expert")))
    (pair,) = result.differences.filter(metric="judge").to_dicts()
    assert (pair["p_adjusted"], pair["decision"]) == (None, "")


def test_p_values_of_rate_differences_are_adjusted_for_the_pairs_of_each_metric() -> None:
    data = table(600, labelled=0.5).with_columns(version=pl.Series(["v1", "v2", "v3"] * 200), judge_b=pl.col("judge"))
    differences = cu.rates(data).differences.filter(pl.col("metric") != "human")
    assert differences["metric"].n_unique() == 2
    alone = cu.rates(data.drop("judge_b")).differences.filter(metric="judge")
    assert differences.filter(metric="judge")["p_adjusted"].equals(alone["p_adjusted"])


def test_a_report_of_labels_has_rates_and_no_leaderboard() -> None:
    page = cu.report(versions(0.8, 0.6, 0.7))
    assert set(page.results) == {"check", "rates"}
    assert "Rate of each system" in page.html
    assert "Annotators would label about" in page.html


def test_the_test_of_random_sampling_counts_equal_outputs() -> None:
    judge = ["pass"] * 13 + ["fail"] * 17 + ["pass"] * 30 + ["fail"] * 70
    table = pl.DataFrame({"id": range(130), "judge": judge, "human": [*judge[:30], *[None] * 100]})
    counts = table.group_by("judge", "human", maintain_order=True).agg(pl.col("id").first(), number=pl.len())
    counts = pl.concat(
        [table.head(30).with_columns(number=1), counts.filter(pl.col("human").is_null())], how="diagonal_relaxed"
    )
    for study in (cu.read(table), cu.read(counts, columns={"n_outputs": "number"})):
        (outputs,) = labelled_outputs(study.select(one_side=True), consensus="vote")
        expected = fisher_exact([[13, 17], [30, 70]]).pvalue
        assert sampling_p_value(outputs, outputs.judged[0]) == pytest.approx(expected)


def test_the_test_of_random_sampling_is_exact_for_rare_labels_and_looks_within_versions() -> None:
    for counts in np.random.default_rng(0).integers(0, 12, (50, 2, 2)):
        assert fisher_p_value(counts) == pytest.approx(fisher_exact(counts).pvalue)
    # 2 of 4 rare labels are among 100 of 1,000 outputs: p = .05, but .006 by a z-test.
    judge = np.where(np.isin(np.arange(1000), [0, 1, 998, 999]), "fail", "pass")
    human = pl.Series(judge).set(pl.Series(np.arange(1000) >= 100), None)
    rare = pl.DataFrame({"id": range(1000), "judge": judge, "human": human})
    assert "labelled-part-not-random" not in {note.rule for note in cu.rates(rare).notes}
    # Each version has a random sample, but the versions differ in the rate of the judge and in the number of labels.
    other = table_of_versions(n_labelled=(300, 60))
    assert "labelled-part-not-random" not in {note.rule for note in cu.rates(other).notes}
    selected = other.with_columns(
        expert=pl.when(~((pl.col("model") == "b") & (pl.col("judge") == "pass"))).then("expert")
    )
    (message,) = [note.message for note in cu.rates(selected).notes if note.rule == "labelled-part-not-random"]
    assert message.startswith("the outputs of b with a human label are not a random sample")


@pytest.mark.parametrize(("sd", "is_equivalent"), [(0.0175, True), (0.0195, False)])
def test_equivalence_is_two_one_sided_tests_at_level_alpha(sd: float, *, is_equivalent: bool) -> None:
    # The difference is .02, so the distance from the margin of .05 is 1.71 or 1.54 standard errors (quantile 1.645).
    quantiles = norm.ppf((np.arange(2000) + 0.5) / 2000)
    none = np.zeros(2001)
    first, second = (
        SimpleNamespace(n_both_labels=50, error_rates={"tpr": tpr, "tnr": none}, pairs=None)
        for tpr in (0.02 + np.append(0.0, sd * quantiles), none)
    )
    assert has_equivalent_rates([first, second], alpha=0.05) is is_equivalent  # type: ignore[list-item]


@pytest.mark.parametrize("n", [9, 10])
def test_error_rates_of_systems_are_tested_with_ten_labels_of_a_kind(n: int) -> None:
    rows = [
        (i, system, "pass" if (i + (system == "a")) % 2 else "fail", "pass" if i < n else None)
        for system in "ab"
        for i in range(40)
    ]
    row = cu.rates(pl.DataFrame(rows, schema=["item", "model", "judge", "expert"], orient="row")).differences
    assert (row["p_tpr"].is_null().all(), row["p_tnr"].is_null().all()) == (n < 10, True)


def test_ten_labels_of_a_kind_give_few_false_findings() -> None:
    """Without the correction for continuity, the probability of a false finding is .087."""
    draws = np.random.default_rng(0).beta(np.arange(11)[:, None] + 0.5, 10.5 - np.arange(11)[:, None], (11, 4000))
    test = partial(DifferenceTest.from_draws, continuity_correction=2 * CONTINUITY / 10)
    p_values = np.array([[test(a - b).p_value for a in draws] for b in draws[:, ::-1]])
    for rate in (0.1, 0.22, 0.35, 0.5):
        probabilities = binom.pmf(np.arange(11), 10, rate)
        assert probabilities @ (p_values <= 0.05) @ probabilities < 0.06


def test_intervals_of_differences_are_simultaneous_as_the_tests_are() -> None:
    parts = [
        table(300, rate=rate, tnr=tnr, labelled=0.5, seed=k).with_columns(model=pl.lit(f"v{k}"))
        for k, (rate, tnr) in enumerate(((0.5, 0.9), (0.5, 0.75), (0.6, 0.6), (0.75, 0.5)))
    ]
    differences = cu.rates(pl.concat(parts)).differences
    assert (differences["p_adjusted"] <= 0.05).to_list() == (differences["decision"] != "=").to_list()
    for name, p_name in (("corrected", "p_adjusted"), ("tpr", "p_tpr"), ("tnr", "p_tnr")):
        low, high = (differences[f"{name}_difference_{end}"] for end in ("low", "high"))
        is_significant = differences[p_name] <= 0.05
        assert ((low > 0) | (high < 0)).to_list() == is_significant.to_list()
        assert set(is_significant) == ({False} if name == "tpr" else {True, False})
    pair = cu.rates(pl.concat(parts[:2])).differences.row(0, named=True)  # 2 tests of error rates instead of 12
    assert pair["p_tnr"] == pytest.approx(differences["p_tnr"][0] / 6, rel=0.5)
    assert pair["tnr_difference_low"] > differences["tnr_difference_low"][0] + 0.02
