from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from custodes.evaluate.agreement.agreement import Agreement, agreement, by_standing
from custodes.evaluate.agreement.differences import ranking_statistic
from tests.evaluate.studies import scores_of, study_of


def ranked(noise: list[float], items: int = 60, seed: int = 0, **options: object) -> Agreement:
    """Return the agreement of metrics with these errors; a negative error reverses the metric."""
    rng = np.random.default_rng(seed)
    human = np.round(rng.normal(size=(items, 6)) * 2)
    errors = np.array(noise)[:, None, None]
    metrics = np.sign(errors) * human + errors * rng.normal(size=(len(noise), items, 6))
    return agreement(study_of(np.concatenate([human[None], metrics])), resamples=200, **options)  # type: ignore[arg-type]


def test_metrics_stand_best_first_with_letters_and_sides() -> None:
    result = ranked([1.0, 1e9, 1.0, -3.0, 4.0])
    rows = {row["metric"]: row for row in result.standing.to_dicts()}
    assert list(rows)[2:] == ["m5", "m2", "m4"]
    assert {name: rows[name]["side"] for name in rows} == {
        "m1": "above", "m3": "above", "m5": "above", "m2": "unclear", "m4": "below"
    }  # fmt: skip
    assert {name: rows[name]["group"] for name in rows} == {"m1": "a", "m3": "a", "m5": "b", "m2": "c", "m4": "d"}
    assert {name for name in rows if rows[name]["may_be_best"]} == {"m1", "m3"}
    assert set(result.standing["statistic"]) == {"kendall_item"}
    values = result.standing["value"].to_list()
    assert values == sorted(values, reverse=True)
    # The table of metrics has the same order, letters and values.
    table = by_standing(result.metrics, result.standing)
    assert table["metric"].equals(result.standing["metric"])
    assert table["group"].equals(result.standing["group"])
    assert by_standing(result.metrics, result.standing.clear()).equals(result.metrics)  # metrics without a rank stay
    (view, *_) = result.views()
    assert [row[0] for row in view.rows] == table["metric"].to_list()
    for end in ("", "_low", "_high"):
        assert table[f"kendall_item{end}"].equals(result.standing[f"value{end}"].rename(f"kendall_item{end}"))
    assert any(note.rule == "standing" and "Kendall" in note.message for note in result.notes)


def test_choices_between_two_systems_are_compared_with_guessing() -> None:
    rng = np.random.default_rng(0)
    human = rng.normal(size=(60, 2))
    metrics = [human + 0.3 * rng.normal(size=human.shape), rng.normal(size=human.shape), -human]
    result = agreement(study_of(np.stack([human, *metrics])), resamples=100)
    assert set(result.standing["statistic"]) == {"sample_accuracy"}
    sides = dict(result.standing.select("metric", "side").iter_rows())
    assert sides == {"m1": "above", "m2": "unclear", "m3": "below"}


def test_letters_go_by_the_test_of_all_pairs_at_alpha() -> None:
    result = ranked([1.0, 1.6, 2.2, 3.0], items=40)
    tests = result.comparisons.filter(statistic="kendall_item")
    words = dict(result.standing.select("metric", "group").iter_rows())
    assert 0 < (tests["p_adjusted"] <= 0.05).sum() < tests.height
    for a, b, p in tests.select("metric_a", "metric_b", "p_adjusted").iter_rows():
        assert set(words[a]).isdisjoint(words[b]) == (p <= 0.05)
    # No available number of sign flips can reach this level.
    strict = ranked([1.0, 1.6, 2.2, 3.0], items=40, alpha=1e-6)
    assert set(strict.standing["group"]) == {"a"}
    assert {note.rule for note in strict.notes} >= {"no-significant-difference"}


def test_nothing_is_claimed_without_resamples_or_with_few_clusters() -> None:
    result = agreement(study_of(scores_of(0)), resamples=0)
    assert set(result.standing["side"]) == {"unclear"}
    assert set(result.standing["group"]) == set(result.metrics["group"]) == {None}
    assert set(result.standing["may_be_best"]) == {None}
    assert set(result.comparisons["p_adjusted"]) == {None}
    few = ranked([1.0, 1e9], items=5)  # There are sixteen sign flips up to a global sign, so no p-value is below .06.
    smooth = few.comparisons.filter(pl.col("statistic").is_in(["sample_accuracy", "kendall_item", "pearson_global"]))
    assert set(smooth["p_adjusted"]) == {None}
    assert set(few.standing["group"]) <= {None, "a"}
    assert set(few.standing["side"]) == {"unclear"}


def test_undefined_metrics_have_no_place() -> None:
    scores = scores_of(6)
    scores[0, :15] = np.nan
    scores[2, 15:] = np.nan
    result = agreement(study_of(scores), resamples=50)
    assert result.standing["metric"].to_list() == ["m1"]
    assert result.metrics["group"].to_list() == [None, None]  # no metric to compare with


@pytest.mark.parametrize(
    ("kendall", "systems", "name"),
    [
        ([0.1, 0.2], 4, "kendall_item"),
        # Only tau is undefined for one metric, so all metrics are ranked by the proportion of equal choices.
        ([0.1, np.nan], 4, "sample_accuracy"),
        ([0.1, 0.2], 2, "sample_accuracy"),  # The tau of two systems is a sign.
    ],
)
def test_one_statistic_ranks_all(kendall: list[float], systems: int, name: str) -> None:
    draws = {"kendall_item": np.array([kendall]), "sample_accuracy": np.array([[0.6, 0.7]])}
    assert ranking_statistic(draws, systems) == name


def test_the_first_chosen_statistic_ranks_metrics_and_has_letters() -> None:
    study = study_of(scores_of(0, raters=4, items=40, systems=5))
    result = agreement(study, resamples=200, compare_by=["spa", "kendall_system"])
    assert set(result.standing["statistic"]) == {"spa"}
    assert result.standing["value"].is_sorted(descending=True)
    assert result.standing["may_be_best"].null_count() == result.standing["group"].null_count() == 0
    assert result.standing["p_chance"].null_count() == 3
