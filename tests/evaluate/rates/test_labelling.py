from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.special import ndtri

import custodes as cu
from custodes.errors import InputError, OptionError


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
    assert messages["assumed-accuracy"].startswith("de: no output has a human label")
    unknown = data.with_columns(language=pl.when(pl.col("language") != "fr").then("language"))
    assert "600 outputs without a value of 'language' are in no slice" in {
        note.message for note in plan(unknown, by="language", add=30).notes
    }
    with pytest.raises(OptionError, match="by='langage': no such column"):
        plan(data, by="langage")


def test_systems_can_be_the_slices() -> None:
    versions = pl.concat([traces(400, seed=k).with_columns(prompt_version=pl.lit(f"v{k}")) for k in range(2)])
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
    assert "clusters-in-plan" in {note.rule for note in plan(clustered).notes}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, "width=0: must lie between 0 and 1"),
        ({"target": "kappa"}, "allowed: corrected_rate, tpr, tnr, difference"),
        ({"target": "difference"}, "needs two systems"),
        ({"add": 0}, "add=0: must be a whole number of at least 1"),
        ({"metric": "jugde"}, "allowed: judge"),
    ],
)
def test_bad_options_have_one_clear_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        plan(traces(), **options)


def test_labels_that_are_not_two_and_annotators_alone_are_refused() -> None:
    topics = pl.DataFrame({"id": range(60), "judge_label": ["a", "b", "c"] * 20, "human_label": ["a", "b", "c"] * 20})
    with pytest.raises(OptionError, match="needs two labels, not 3; name one of a, b, c"):
        cu.labelling(topics)
    assert cu.labelling(topics, positive="a").allocation["label"].to_list() == ["not a", "a"]
    with pytest.raises(InputError, match="needs a metric that gives labels"):
        cu.labelling(pl.DataFrame({"id": range(9), "expert": ["pass", "fail", "pass"] * 3}))
