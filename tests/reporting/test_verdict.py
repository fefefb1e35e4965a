"""The verdict says what constructed results hold, and no more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from custodes.reporting.verdict import Verdict, chance_accuracy, favoured, inversions, standing_of, verdict


def told(results: dict[str, Any], **changes: Any) -> Verdict:
    return verdict(**{**results, **changes})


def said(result: Verdict, aspect: str, kind: str) -> str:
    return " ".join(statement.text for statement in result.aspects[aspect] if statement.kind == kind)


def with_metrics(result: Any, values: dict[str, tuple[float | None, float | None, float | None]]) -> Any:
    """Agreement whose Kendall within items is given, for all aspects."""
    names = pl.col("metric")
    frame = result.metrics
    for i, part in enumerate(("kendall_item", "kendall_item_low", "kendall_item_high")):
        column = names.replace_strict({name: value[i] for name, value in values.items()}, return_dtype=pl.Float64)
        frame = frame.with_columns(column.alias(part))
    return replace(result, metrics=frame)


@pytest.fixture
def everyone(results: dict[str, Any]) -> list[str]:
    return list(results["agreement"].metrics["metric"].unique(maintain_order=True))


def test_the_planted_truth_of_the_demo_is_found(results: dict[str, Any]) -> None:
    # custodes.data.simulate.demo_simulation plants these: selfeval favours Dogwood, noise sees nothing
    result = told(results)
    assert "noise" in said(result, "coherence", "chance")
    assert "When selfeval errs, it errs for Dogwood" in said(result, "coherence", "favours")
    assert "People find Aster better than Dogwood; selfeval says the opposite." in said(result, "coherence", "flips")
    assert any("selfeval favours Dogwood on both aspects" in statement.text for statement in result.overall)


def test_metrics_are_split_by_their_interval(results: dict[str, Any], everyone: list[str]) -> None:
    values = dict.fromkeys(everyone, (0.0, -0.1, 0.1)) | {"learned": (0.4, 0.3, 0.5), "judge": (-0.3, -0.4, -0.2)}
    agreement = with_metrics(results["agreement"], values)
    standing = standing_of(agreement, results["favoritism"], "fluency", alpha=0.05)
    assert (standing.above, standing.below) == (("learned",), ("judge",))
    assert set(standing.unclear) == {*everyone} - {"learned", "judge"}
    text = said(told(results, agreement=agreement), "fluency", "chance")
    assert "judge runs against people" in text


def test_nobody_is_trusted_where_no_interval_is_above_chance(results: dict[str, Any], everyone: list[str]) -> None:
    agreement = with_metrics(results["agreement"], dict.fromkeys(everyone, (0.05, -0.1, 0.2)))
    result = told(results, agreement=agreement)
    assert said(result, "fluency", "trust") == "No metric agrees with people clearly better than chance."
    assert "agrees best" not in " ".join(result.lines())


def test_without_intervals_nothing_is_claimed(results: dict[str, Any], everyone: list[str]) -> None:
    agreement = with_metrics(results["agreement"], dict.fromkeys(everyone, (0.5, None, None)))
    result = told(results, agreement=agreement)
    assert "without intervals nobody can say" in said(result, "fluency", "trust")
    assert said(result, "fluency", "chance") == ""
    assert "no difference here is known" in said(result, "fluency", "uncertain")


@pytest.mark.parametrize(("p_value", "level"), [(0.5, True), (0.0001, False)])
def test_the_best_is_clearly_best_only_by_its_tests(results: dict[str, Any], p_value: float, level: bool) -> None:
    agreement = results["agreement"]
    agreement = replace(agreement, comparisons=agreement.comparisons.with_columns(p_value=pl.lit(p_value)))
    text = said(told(results, agreement=agreement), "coherence", "trust")
    assert ("cannot be told apart" in text) == level
    assert ("clearly better than all others" in text) != level


def test_comparisons_with_the_best_are_corrected_for_their_number(results: dict[str, Any], everyone: list[str]) -> None:
    # Benjamini and Hochberg by hand, six comparisons at .05: bounds .0083 .0167 .025 .0333 .0417 .05; the third p is
    # the last under its bound, although the fourth alone would be under .05
    p_values = dict(zip(everyone[1:], (0.001, 0.01, 0.02, 0.04, 0.045, 0.9), strict=True))
    agreement = with_metrics(results["agreement"], {name: (0.5 - i / 50, 0.2, 0.6) for i, name in enumerate(everyone)})
    other = pl.when(pl.col("metric_a") == everyone[0]).then("metric_b").otherwise("metric_a")
    tested = agreement.comparisons.with_columns(p_value=other.replace_strict(p_values, default=None))
    standing = standing_of(replace(agreement, comparisons=tested), results["favoritism"], "fluency", alpha=0.05)
    assert standing.level == tuple(everyone[4:])


def test_one_sided_people_silence_favoritism_and_decisions(results: dict[str, Any]) -> None:
    check = results["check"]
    problem = pl.DataFrame(
        [("fluency", "warning", "one-sided-people", "people always prefer the same side", [])],
        schema=check.problems.schema,
        orient="row",
    )
    check = replace(check, problems=pl.concat([check.problems, problem]))
    result = told(results, check=check)
    assert said(result, "fluency", "design").startswith("People always prefer the same side")
    assert said(result, "fluency", "favours") == said(result, "fluency", "flips") == ""
    assert said(result, "coherence", "favours")


def test_favoured_needs_most_opponents_and_enough_errors(results: dict[str, Any]) -> None:
    favoritism = results["favoritism"]
    found = {(row["metric"], row["system"]) for row in favoured(favoritism, "coherence")}
    assert ("selfeval", "Dogwood") in found
    # Noise lifts the weakest system against every other one, and that is no favour (the demo's truth: none planted).
    noise = favoritism.systems.filter((pl.col("metric") == "noise") & (pl.col("system") == "Fir")).row(0, named=True)
    assert noise["favi_min"] > 0
    assert not {metric for metric, _ in found} & {"noise", "overlap", "overlap-stem", "distance"}
    few = replace(favoritism, pairs=favoritism.pairs.with_columns(errors=pl.lit(4, dtype=pl.Int64)))
    assert favoured(few, "coherence") == []
    wide = replace(favoritism, pairs=favoritism.pairs.with_columns(favi_low=pl.lit(-2.0), favi_high=pl.lit(2.0)))
    assert favoured(wide, "coherence") == []


def test_chance_accuracy_is_that_of_independent_choices() -> None:
    # people tie 20 of 100, the metric 10 of 100: .2 x .1 + .8 x .9 / 2 = .38, by hand
    names = [f"{h}_{m}" for h in ("win", "tie", "loss") for m in ("win", "tie", "loss")]
    counts = dict(zip(names, (30, 5, 10, 10, 5, 5, 20, 0, 15), strict=True))

    class Counted:
        confusion = pl.DataFrame([{"aspect": "", "metric": "m", "system_a": "A", "system_b": "B", **counts}])

    assert chance_accuracy(Counted(), "") == {"m": pytest.approx(0.38)}  # type: ignore[arg-type]


def test_inversions_are_opposite_decisions(results: dict[str, Any]) -> None:
    ranking = results["ranking"]
    errors = ranking.errors.filter(pl.col("aspect") == "coherence")
    found = inversions(ranking, "coherence")
    n_pairs = 15  # six systems
    expected = round(n_pairs * errors["inversion"].sum())
    assert found["metric"].list.len().sum() == expected
