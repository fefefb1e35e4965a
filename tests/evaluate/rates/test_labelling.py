from __future__ import annotations

from functools import partial
from inspect import signature
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.special import ndtri

import custodes as cu
from custodes.errors import InputError, OptionError
from custodes.evaluate.rates.estimates import positive_rate
from custodes.stats.intervals import wilson_interval
from custodes.stats.rates.measures import sensitivity, specificity
from custodes.stats.rates.sample_size import error_rate_shares, expected_posterior, rate_shares
from tests.messages import exactly


def traces(n: int = 1500, *, labelled: int = 0, seed: int = 0, rate: float = 0.8) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    good = rng.random(n) < rate
    judge = np.where(np.where(good, rng.random(n) < 0.95, rng.random(n) < 0.35), "pass", "fail")
    expert = pl.Series(np.where(good, "pass", "fail")).set(pl.Series(np.arange(n) >= labelled), None)
    return pl.DataFrame({"id": np.arange(n).astype(str), "judge": judge, "expert": expert, "truth": good})


def plan(data: pl.DataFrame, **options: Any) -> cu.Labelling:
    return cu.labelling(data.drop("truth"), **options)


def needed(result: cu.Labelling, quantity: str) -> dict[str, Any]:
    return result.needed.filter(quantity=quantity).row(0, named=True)


def test_as_many_labels_as_needed_give_the_width() -> None:
    widths = []
    for seed in range(3):
        data = traces(labelled=60, seed=seed)
        result = plan(data, width=0.12)
        chosen = data["id"].is_in(result.outputs["item"].to_list()) | data["expert"].is_not_null()
        truth = pl.when("truth").then(pl.lit("pass")).otherwise(pl.lit("fail"))
        answered = data.with_columns(expert=pl.when(chosen).then(truth)).drop("truth")
        rates = cu.rates(answered, sampling="by-judge").rates.row(0, named=True)
        assert rates["n_labelled"] == max(60, needed(result, "corrected_rate")["by_judge"])
        widths.append(rates["corrected_rate_high"] - rates["corrected_rate_low"])
    assert np.mean(widths) == pytest.approx(0.12, rel=0.1)


def test_better_targets_need_more_labels_and_the_judge_saves_some() -> None:
    wide, narrow = (needed(plan(traces(), width=width), "corrected_rate") for width in (0.15, 0.1))
    assert narrow["by_judge"] > 1.8 * wide["by_judge"]
    assert narrow["by_judge"] < narrow["human_alone"]
    sure = needed(plan(traces(), accuracy=0.95), "corrected_rate")
    assert sure["by_judge"] < narrow["by_judge"]
    impossible = needed(plan(traces(50), width=0.01), "corrected_rate")
    assert (impossible["by_judge"], impossible["reason"][:12]) == (None, "human labels")


def test_outputs_are_drawn_within_labels_of_the_judge_whatever_the_order_of_rows() -> None:
    data = traces(labelled=40)
    result = plan(data, add=50)
    assert result.outputs.height == result.allocation["add"].sum() == 50
    unlabelled = data.filter(pl.col("expert").is_null())
    joined = result.outputs.join(unlabelled, left_on="item", right_on="id")
    assert joined.height == 50
    assert "label" not in result.outputs.columns  # annotators must not see the label of the judge
    drawn = joined.group_by("judge").len()
    assert dict(drawn.iter_rows()) == dict(result.allocation.select("label", "add").iter_rows())
    answers = cu.read(unlabelled.select("id", "judge"), result.outputs.with_columns(human=pl.lit("pass")))
    assert (answers.humans, answers.metrics) == (("human",), ("judge",))
    shuffled = plan(data.sample(fraction=1, shuffle=True, seed=4), add=50)
    assert shuffled.outputs.equals(result.outputs)
    assert plan(data, add=50, rng=1).outputs["item"].to_list() != result.outputs["item"].to_list()


def test_targets_allocate_differently_and_versions_are_planned_together() -> None:
    versions = pl.concat([traces(seed=k).with_columns(prompt_version=pl.lit(f"v{k}")) for k in range(2)])
    rates, tnr = (plan(versions, add=200, target=target).allocation for target in ("corrected_rate", "tnr"))
    assert rates["add"].sum() == tnr["add"].sum() == 200
    assert rates["add"].to_list() != tnr["add"].to_list()
    unequal = pl.concat([traces(seed=0, rate=0.9), traces(seed=1, rate=0.5)]).with_columns(
        prompt_version=pl.Series(["a and b"] * 1500 + ["c"] * 1500)
    )
    result = plan(unequal)
    added = dict(result.allocation.group_by("system").agg(pl.col("add").sum()).iter_rows())
    labels_needed = result.needed.filter(quantity="corrected_rate").select("system", "by_judge")
    assert added == dict(labels_needed.iter_rows())
    assert added["c"] > added["a and b"]
    joint = plan(unequal, target="difference")
    assert joint.allocation["add"].sum() == 2 * needed(joint, "difference")["by_judge"]
    difference = needed(plan(versions), "difference")
    assert difference["system"] == "v0 and v1"
    coarse = plan(versions, difference=0.2)
    assert needed(coarse, "difference")["by_judge"] < difference["by_judge"] / 3
    # Two proportions at a power of .8 with unpooled variances, as in Fleiss, Levin and Paik (2003), equation 4.14
    # without the correction for continuity.
    # Without human labels, the judge's accuracy is assumed to be .85 for both labels.
    counts = coarse.allocation.with_columns(
        positive=pl.col("n") * pl.col("label").replace_strict({"fail": 0.15, "pass": 0.85})
    )
    rates = counts.group_by("system").agg(pl.col("positive").sum() / pl.col("n").sum())["positive"].to_numpy()
    labels = (rates * (1 - rates)).sum() * ((ndtri(0.975) + ndtri(0.8)) / 0.2) ** 2
    assert needed(coarse, "difference")["human_alone"] == np.ceil(labels)


def in_languages() -> pl.DataFrame:
    parts = [
        traces(600, labelled=labelled, seed=k, rate=rate).with_columns(
            id=pl.format("{}{}", pl.lit(name), "id"), language=pl.lit(name)
        )
        for k, (name, labelled, rate) in enumerate([("de", 0, 0.9), ("en", 50, 0.8), ("fr", 20, 0.5)])
    ]
    return pl.concat(parts)


@pytest.mark.parametrize("options", [{"target": "tnr", "width": 0.2}, {"add": 45}])
def test_each_slice_has_the_plan_of_its_outputs_alone(options: dict[str, Any]) -> None:
    data = in_languages()
    result = plan(data, by="language", **options)
    assert result.needed["slice"].unique().sort().to_list() == ["de", "en", "fr"]
    for name in ("de", "en", "fr"):
        alone = plan(data.filter(language=name), **options)
        for table in ("needed", "allocation"):
            part = result.to_frame(table).filter(slice=name).drop("slice")
            assert part.equals(alone.to_frame(table).drop("slice"))
        drawn, drawn_alone = (
            outputs.join(data, left_on="item", right_on="id").group_by("system", "judge").len().sort("len")
            for outputs in (result.outputs.filter(slice=name), alone.outputs)
        )
        assert drawn.equals(drawn_alone)
        assert result.outputs.filter(slice=name)["item"].str.starts_with(name).all()
        assert result.outputs.filter(slice=name).height == result.allocation.filter(slice=name)["add"].sum()
    assert result.outputs.height > 0


def test_slices_do_not_depend_on_each_other_and_notes_name_them() -> None:
    data = in_languages()
    joint = plan(data, by="language", add=30)
    fewer = plan(data.filter(pl.col("language") != "fr"), by="language", add=30)
    assert fewer.outputs.sort("slice", "item").equals(
        joint.outputs.filter(pl.col("slice") != "fr").sort("slice", "item")
    )
    messages = {note.rule: note.message for note in joint.notes}
    assert messages["assumed-accuracy"].endswith(
        ": no output has a human label, so the number of labels depends on the assumed accuracy of the judge; plan "
        "again after the first 50 labels"
    )
    assert messages["assumed-accuracy"].startswith("de")
    unknown = data.with_columns(language=pl.when(pl.col("language") != "fr").then("language"))
    assert ("no-slice", "600 outputs without a value of 'language' are in no slice") in {
        (note.rule, note.message) for note in plan(unknown, by="language", add=30).notes
    }
    with pytest.raises(OptionError, match="by='langage': no such column"):
        plan(data, by="langage")


def test_systems_can_be_the_slices() -> None:
    versions = pl.concat([traces(400, seed=k).with_columns(prompt_version=pl.lit(f"v{k}")) for k in range(2)])
    drawn = plan(pl.concat([versions[400:], versions[:400]]), add=300).outputs.select("item", "system").rows()
    assert drawn == sorted(drawn)
    assert len({item for item, _ in drawn}) < len(drawn)
    result = plan(versions, by="system", width=0.15)
    assert result.needed.filter(quantity="tpr")["slice"].to_list() == ["v0", "v1"]
    assert result.needed.filter(quantity="difference").is_empty()
    with pytest.raises(OptionError, match="target='difference' needs two systems"):
        plan(versions, by="system", target="difference")


def test_what_is_planned_from_nothing_is_noted() -> None:
    assert "assumed-accuracy" in {note.rule for note in plan(traces()).notes}
    reached = plan(traces(labelled=1500))
    assert "nothing-to-label" in {note.rule for note in reached.notes}
    assert reached.outputs.is_empty()
    clustered = traces().with_columns(conversation_id=pl.int_range(1500) // 5)
    assert (
        "outputs share clusters, but the plan treats outputs as independent, so more labels may be needed; choose "
        "outputs from different clusters"
    ) in {note.message for note in plan(clustered).notes}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, "width=0: must lie between 0 and 1, both excluded"),
        ({"target": "kappa"}, "target='kappa'; allowed: corrected_rate, tpr, tnr, difference"),
        ({"target": "difference"}, "target='difference' needs two systems; give corrected_rate, tpr or tnr"),
        ({"add": 0}, "add=0: must be a whole number of at least 1"),
        ({"metric": "jugde"}, "metric='jugde'; allowed: judge (did you mean 'judge'?)"),
    ],
)
def test_bad_options_have_one_clear_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=exactly(message)):
        plan(traces(), **options)


def test_labels_that_are_not_two_and_annotators_alone_are_refused() -> None:
    topics = pl.DataFrame({"id": range(60), "judge_label": ["a", "b", "c"] * 20, "human_label": ["a", "b", "c"] * 20})
    with pytest.raises(OptionError, match="needs two labels, not 3; name one of a, b, c"):
        cu.labelling(topics)
    assert cu.labelling(topics, positive="a").allocation["label"].to_list() == ["not a", "a"]
    with pytest.raises(
        InputError,
        match=exactly(
            "labelling needs a metric that gives labels; without one, label a random part of the outputs and use rates"
        ),
    ):
        cu.labelling(pl.DataFrame({"id": range(9), "expert": ["pass", "fail", "pass"] * 3}))
    scored = pl.DataFrame({"id": range(9), "judge": np.arange(9) / 10, "expert": ["pass", "fail", "pass"] * 3})
    for question in (cu.labelling, cu.route):
        message = (
            f"{question.__name__} needs a metric that gives labels, but judge gives scores; add a column with its "
            "labels, such as pass if the score is at least 0.5"
        )
        with pytest.raises(InputError, match=exactly(message)):
            question(scored)


N_OUTPUTS = np.array([[90, 310], [200, 100], [30, 170]])  # outputs of systems A, B, C that the judge fails and passes
N_LABELLED = np.array([[10, 30], [0, 12], [0, 0]])
N_POSITIVE = np.array([[2, 27], [0, 9], [0, 0]])


def planned() -> pl.DataFrame:
    rows = [
        (f"{system}{code}{k:03}", system, ("fail", "pass")[code], ("fail", "pass")[int(k < N_POSITIVE[s, code])])
        if k < N_LABELLED[s, code]
        else (f"{system}{code}{k:03}", system, ("fail", "pass")[code], None)
        for s, system in enumerate("ABC")
        for code in (0, 1)
        for k in range(N_OUTPUTS[s, code])
    ]
    return pl.DataFrame(rows, schema=["id", "model", "judge", "expert"], orient="row")


def width_of(shares: np.ndarray, rates: np.ndarray, n: np.ndarray, statistic: Any, n_labels: float) -> float:
    low, high = np.quantile(statistic(expected_posterior(shares, rates, n, n_labels)), [0.05, 0.95])
    return float(high - low)


def best_shares(neyman: np.ndarray, rates: np.ndarray, n: np.ndarray, statistic: Any) -> np.ndarray:
    mixed = [share * neyman + (1 - share) * n / n.sum() for share in (1, 0.75, 0.5, 0.25, 0)]
    return min(mixed, key=lambda shares: width_of(shares, rates, n, statistic, min(200, n.sum())))


def test_a_plan_is_the_smallest_number_with_the_best_mixture_of_allocations() -> None:
    result = cu.labelling(planned(), width=0.16, difference=0.15, accuracy=0.8, confidence=0.9)
    prior = (N_POSITIVE.sum(axis=0) + 2 * np.array([0.2, 0.8])) / (N_LABELLED.sum(axis=0) + 2)
    rates = (N_POSITIVE + 2 * prior) / (N_LABELLED + 2)
    shares = [
        best_shares(rate_shares(n / n.sum(), rate), rate, n, positive_rate)
        for n, rate in zip(N_OUTPUTS, rates, strict=True)
    ]
    z, power = ndtri(0.95), ndtri(0.8)

    def smallest(size: Any, largest: float, most: int) -> int | None:
        return next((k for k in range(1, most + 1) if size(k) <= largest), None)

    def wilson_width(rate: float, n: float) -> float:
        return float(np.diff(wilson_interval(rate, n, quantile=z))[0])

    by_system = []
    for s, system in enumerate("ABC"):
        row = result.needed.filter(quantity="corrected_rate", system=system).row(0, named=True)
        found = row["by_judge"]
        size = partial(width_of, shares[s], rates[s], N_OUTPUTS[s], positive_rate)
        assert size(found) <= 0.16 < size(found - 1)
        mean = N_OUTPUTS[s] @ rates[s] / N_OUTPUTS[s].sum()
        assert row["human_alone"] == smallest(partial(wilson_width, mean), 0.16, 1000)
        assert (row["width"], row["labelled"], row["reason"]) == (0.16, N_LABELLED[s].sum(), "")
        by_system.append(found)
    n = N_OUTPUTS.sum(axis=0)
    pooled = (N_OUTPUTS * rates).sum(axis=0) / n
    for name, statistic, positive in (("tpr", sensitivity, True), ("tnr", specificity, False)):
        row = needed(result, name)
        best = best_shares(error_rate_shares(n / n.sum(), pooled, positive=positive), pooled, n, statistic)
        size = partial(width_of, best, pooled, n, statistic)
        assert size(row["by_judge"]) <= 0.16 < size(row["by_judge"] - 1)
        assert (row["labelled"], row["human_alone"], row["system"]) == (52, None, "")
    pairs = result.needed.filter(quantity="difference")
    assert pairs["system"].to_list() == ["A and B", "A and C", "B and C"]
    error = 0.15 / (z + power)

    def deviation(i: int, j: int, k: float) -> float:
        return float(
            np.sqrt(sum(positive_rate(expected_posterior(shares[s], rates[s], N_OUTPUTS[s], k)).var() for s in (i, j)))
        )

    for row, (i, j) in zip(pairs.to_dicts(), combinations(range(3), 2), strict=True):
        assert deviation(i, j, row["by_judge"]) <= error < deviation(i, j, row["by_judge"] - 1)
        means = (N_OUTPUTS * rates).sum(axis=1)[[i, j]] / N_OUTPUTS.sum(axis=1)[[i, j]]
        assert row["human_alone"] == np.ceil((means * (1 - means)).sum() / error**2)
        assert (row["width"], row["labelled"]) == (0.15, N_LABELLED.sum(axis=1)[[i, j]].min())
    # The allocation has the shares, at least 5 of each label of the judge, and no more than there are.
    cells = result.allocation.sort("system", "label")
    assert cells["n"].to_list() == N_OUTPUTS.ravel().tolist()
    assert cells["labelled"].to_list() == N_LABELLED.ravel().tolist()
    added = cells["add"].to_numpy().reshape(3, 2)
    np.testing.assert_array_equal(added.sum(axis=1), np.array(by_system) - N_LABELLED.sum(axis=1))
    np.testing.assert_allclose((added + N_LABELLED)[2], by_system[2] * shares[2], atol=1)
    assert (added + N_LABELLED).min() >= 5
    drawn_cells = result.outputs.with_columns(cell=pl.col("item").str.slice(0, 2)).group_by("cell").len().sort("cell")
    assert drawn_cells["len"].to_list() == [count for count in added.ravel() if count]
    joint = cu.labelling(planned(), difference=0.15, accuracy=0.8, confidence=0.9, target="difference").allocation
    most = [pairs["by_judge"][[0, 1]].max(), pairs["by_judge"][[0, 2]].max(), pairs["by_judge"][[1, 2]].max()]
    np.testing.assert_array_equal(
        joint.sort("system", "label")["add"].to_numpy().reshape(3, 2).sum(axis=1),
        np.array(most) - N_LABELLED.sum(axis=1),
    )
    narrow = cu.labelling(planned(), width=0.1, target="tpr")
    assert narrow.allocation["add"].sum() == needed(narrow, "tpr")["by_judge"] - 52 > 0
    assert cu.labelling(planned(), width=0.16, target="tpr").allocation["add"].sum() == 0


def test_labels_for_an_error_rate_are_allocated_by_its_variance_over_all_systems() -> None:
    result = cu.labelling(planned(), width=0.1, target="tnr", accuracy=0.8, confidence=0.9)
    prior = (N_POSITIVE.sum(axis=0) + 2 * np.array([0.2, 0.8])) / (N_LABELLED.sum(axis=0) + 2)
    n, rates = N_OUTPUTS.sum(axis=0), (N_POSITIVE + 2 * prior) / (N_LABELLED + 2)
    pooled = (N_OUTPUTS * rates).sum(axis=0) / n
    shares = best_shares(error_rate_shares(n / n.sum(), pooled, positive=False), pooled, n, specificity)
    added = result.allocation.sort("system", "label")["add"].to_numpy().reshape(3, 2)
    expected = needed(result, "tnr")["by_judge"] * N_OUTPUTS / n * shares
    np.testing.assert_allclose(added + N_LABELLED, expected, atol=1)


def test_the_smallest_number_of_each_label_and_unreachable_targets() -> None:
    few = cu.labelling(planned(), add=8).allocation.sort("system", "label")
    assert few["add"].sum() == 8
    small = planned().filter(pl.col("model") == "C")
    assert cu.labelling(small, add=11, accuracy=0.99).allocation.sort("label")["add"].to_list() == [5, 6]
    unreachable = cu.labelling(small, width=0.01)
    assert unreachable.needed["by_judge"].to_list() == [None] * 3
    assert (
        unreachable.needed["reason"].to_list()
        == ["human labels of all outputs would not be enough; let the judge label more outputs"] * 3
    )
    assert unreachable.allocation["add"].to_list() == [0, 0]
    notes = {note.rule: note for note in unreachable.notes}
    assert notes.keys() - {"label-columns", "rater-without-labels"} == {"assumed-accuracy", "nothing-to-label"}
    assert notes["nothing-to-label"].message == (
        "there is no output to label, because the target corrected_rate is reached or cannot be reached, or because "
        "all outputs have human labels"
    )
    assert {note.rule for note in cu.labelling(planned(), add=8).notes} == {"label-columns"}
    pairs = planned().with_columns(cluster=pl.col("model") + pl.int_range(pl.len()).over("model").cast(pl.String))
    assert "clusters-in-plan" not in {note.rule for note in cu.labelling(pairs, add=8).notes}
    across = planned().with_columns(cluster=pl.int_range(pl.len()).over("model").cast(pl.String))
    assert "clusters-in-plan" not in {note.rule for note in cu.labelling(across, add=8).notes}
    gap = planned().with_columns(judge=pl.when(pl.int_range(pl.len()) > 0).then("judge"))
    (note,) = [note for note in cu.labelling(gap, add=8).notes if note.rule == "outputs-without-judge-label"]
    assert note.message == (
        "1 outputs have no usable label of judge and are not in the plan. Also label a random part of these outputs, "
        "because otherwise rates leaves them out"
    )


def test_defaults_are_those_of_the_documentation() -> None:
    assert defaults(cu.labelling) == {
        "width": 0.1,
        "difference": 0.1,
        "target": "corrected_rate",
        "accuracy": 0.85,
        "confidence": 0.95,
        "rng": 0,
    }
    assert defaults(cu.route) == {"disagreement": 0.1, "audit": 0.05, "confidence": 0.95, "alpha": 0.05, "rng": 0}
    assert defaults(cu.rates) == {
        "sampling": "random",
        "consensus": "vote",
        "calibration": "within",
        "epsilon": 0.2,
        "confidence": 0.95,
        "alpha": 0.05,
        "rng": 0,
    }
    assert defaults(cu.gate) == {
        "margin": 0.02,
        "sampling": "random",
        "status": False,
        "confidence": 0.95,
        "resamples": 1000,
        "aggregate": "mean",
        "ties": "exact",
        "orders": "mean",
        "rng": 0,
    }


def defaults(question: Any) -> dict[str, Any]:
    return {
        name: parameter.default
        for name, parameter in signature(question).parameters.items()
        if parameter.default is not None and name not in ("study", "progress")
    }


def test_the_displayed_tables_and_columns_are_the_essential_ones() -> None:
    """Other tables and columns are written only if they are asked for; estimates stand beside their intervals."""

    def names(result: Any) -> tuple[list[str], list[str], list[str]]:
        tables = result.table_declarations()
        columns = [column for table in tables.values() if table.essential for column in table.columns]
        return (
            [name for name, table in tables.items() if not table.essential],
            [column.name for column in columns if not column.essential],
            [column.name for table in tables.values() for column in table.columns if column.interval],
        )

    assert names(cu.Labelling) == (["outputs"], [], [])
    assert names(cu.Route) == (["outputs"], [], [])
    assert names(cu.Gate) == ([], ["system", "label", "relation"], ["value"])
    tables, hidden, intervals = names(cu.Rates)
    assert tables == ["confusion", "replacement", "replacement_annotators", "roc", "calibration"]
    measures = "ppv npv balanced_accuracy f1 mcc ac1 alpha auc threshold human_alpha reason"
    assert " ".join(hidden) == f"method reason {measures} human_difference p_tpr p_tnr p_rate p_tpr p_tnr"
    assert " ".join(intervals) == (
        "judge_rate human_rate corrected_rate tpr tnr ppv npv accuracy balanced_accuracy f1 mcc kappa ac1 alpha auc "
        "human_difference corrected_difference tpr_difference tnr_difference corrected_rate tpr tnr "
        "advantage_probability human_rate"
    )
