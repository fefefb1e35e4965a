from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.data.preferences import Preferences
from custodes.data.raters import Raters
from custodes.data.ratings import Ratings
from custodes.data.study import Study
from custodes.errors import InputError, OptionError
from custodes.evaluate import rater_comparison as module
from custodes.evaluate.decision_graph import CELLS
from custodes.evaluate.design import Design
from custodes.evaluate.rater_comparison import compare
from custodes.evaluate.scores import tie_thresholds
from custodes.stats import ABSENT
from tests.evaluate.studies import grid, rated, scores_of, study_of, verdicts
from tests.messages import exactly


def test_metrics_without_aspect_meet_every_aspect_and_strangers_are_named() -> None:
    scores = [[1.0, 2.0], [2.0, 1.0]]
    rows = [
        *grid("ann", "clear", scores),
        *grid("ann", "true", scores),
        *grid("bleu", "", scores),
        *grid("judge", "clear", scores),
        *grid("other", "style", scores),
    ]
    study = rated(rows, {"ann": "human", "bleu": "metric", "judge": "metric", "other": "metric"})
    clear, true = compare(study)
    assert (clear.aspect, clear.metrics) == ("clear", ("bleu", "judge"))
    assert (true.aspect, true.metrics) == ("true", ("bleu",))
    assert any(
        n.rule == "aspect-without-annotators" and "'style'" in n.message and "other" in n.message for n in clear.notes
    )
    (only,) = compare(study, metrics="@aspect", aspect="clear")
    assert only.metrics == ("judge",)
    (none,) = compare(study, metrics="@noaspect", aspect="clear")
    assert none.metrics == ("bleu",)


def test_tie_rules_act_on_metrics_only() -> None:
    rows = [*grid("ann", "", [[1.0, 1.2]]), *grid("m", "", [[1.0, 1.2]])]
    study = rated(rows, {"ann": "human", "m": "metric"})
    for ties, metric in (("exact", -1), (0.3, 0)):
        (comparison,) = compare(study, ties=ties)
        assert comparison.human_signs.item() == -1
        assert comparison.metric_signs.item() == metric
    (with_ties,) = compare(study, human_ties=0.5)
    assert with_ties.human_signs.item() == 0


def test_calibrated_signs_are_those_of_thresholds_searched_on_the_other_folds() -> None:
    rng = np.random.default_rng(3)
    human = rng.integers(0, 3, (23, 3)).astype(float)
    metric = human + rng.normal(size=human.shape)
    a, b = np.triu_indices(3, 1)
    truth, difference = np.sign(human[:, a] - human[:, b]), metric[:, a] - metric[:, b]

    def signs(difference: np.ndarray, epsilon: float) -> np.ndarray:
        return np.where(np.abs(difference) <= epsilon, 0, np.sign(difference))

    right, place = [], np.argsort(np.argsort([f"i{k}" for k in range(23)]))  # Items are sorted by their labels.
    for item in range(23):
        others = place % 5 != place[item] % 5
        candidates = [0.0, *np.sort(np.abs(difference[others]).ravel())]
        accuracy = [(signs(difference[others], epsilon) == truth[others]).mean() for epsilon in candidates]
        right.append(signs(difference[item], candidates[int(np.argmax(accuracy))]) == truth[item])
    row = cu.agreement(study_of(np.stack([human, metric])), ties="calibrated", resamples=0).metrics.row(0, named=True)
    assert row["sample_accuracy"] == pytest.approx(np.mean(right))


def test_a_verdict_counts_only_where_there_are_no_scores() -> None:
    # The metric's scores prefer A twice and do not cover z; its verdicts prefer B on x and A on z.
    scores = [
        (item, system, rater, score)
        for item in "xy"
        for system, score in (("A", 2.0), ("B", 1.0))
        for rater in ("ann", "m")
    ]
    scores += [("z", "A", "ann", 2.0), ("z", "B", "ann", 1.0)]
    frame = pl.DataFrame(scores, schema=["item", "system", "rater", "score"], orient="row")
    verdict_rows = [("x", "A", "B", "m", -1), ("z", "A", "B", "m", 1)]
    names = ["item", "system_a", "system_b", "rater", "preference"]
    study = Study(
        ratings=Ratings.make(frame)[0],
        preferences=Preferences.make(pl.DataFrame(verdict_rows, schema=names, orient="row"))[0],
        raters=Raters.infer({"ann": "human", "m": "metric"}),
    )
    row = cu.favoritism(study, resamples=0).pairs.row(0, named=True)
    assert {name: row[name] for name in CELLS if row[name]} == {"win_win": 3}


def test_both_orders() -> None:
    rows = [
        ("x", "A", "B", "h1", "", 1),
        ("x", "A", "B", "judge", "ab", 1),
        ("x", "A", "B", "judge", "ba", -1),
        ("y", "A", "B", "h1", "", -1),
        ("y", "A", "B", "judge", "ab", -1),
        ("y", "A", "B", "judge", "ba", -1),
    ]
    signs = {orders: compare(verdicts(rows), orders=orders)[0] for orders in ("mean", "consistent", "first")}
    assert signs["mean"].metric_signs[0, 0].tolist() == [0, -1]
    assert signs["consistent"].metric_signs[0, 0].tolist() == [ABSENT, -1]
    assert signs["first"].metric_signs[0, 0].tolist() == [1, -1]
    assert {n.rule: n.count for n in signs["consistent"].notes}["torn-verdicts"] == 1


def test_several_people_with_verdicts_vote() -> None:
    rows = [("x", "A", "B", f"h{k}", "", sign) for k, sign in enumerate([1, 1, -1])] + [("x", "A", "B", "j", "", 1)]
    (comparison,) = compare(verdicts(rows))
    assert comparison.human_signs.item() == 1
    assert any(note.rule == "verdicts-vote" for note in comparison.notes)


def test_lower_is_better_turns_a_metric() -> None:
    study = study_of(np.array([[[1.0, 2.0]], [[5.0, 3.0]]]))
    assert compare(study)[0].metric_signs.item() == 1
    side = pl.DataFrame({"rater": ["m1"], "higher_is_better": ["no"]})
    assert compare(study.describe(raters=side))[0].metric_signs.item() == -1


def test_system_level_scores_are_kept_apart() -> None:
    rows = [*grid("ann", "", [[1.0, 2.0]]), *grid("m", "", [[1.0, 2.0]]), ("", "S0", "m", "", 40.0)]
    (comparison,) = compare(rated(rows, {"ann": "human", "m": "metric"}))
    assert comparison.items == ("i0",)
    np.testing.assert_array_equal(comparison.metric_system, [[40.0, np.nan]])


def test_scores_of_outputs_are_compared_with_system_scores_of_people() -> None:
    # The file has human scores of both systems; m1 scored an output of each, but of different items, and m2 scored one
    # system.
    rows = [*grid("ann", "", [[1.0, 2.0]]), ("", "S0", "ann", "", 1.0), ("", "S1", "ann", "", 2.0)]
    rows += [("i1", "S0", "m1", "", 1.0), ("i1", "S1", "m1", "", 2.0), ("i1", "S0", "m2", "", 1.0)]
    (comparison,) = compare(rated(rows, {"ann": "human", "m1": "metric", "m2": "metric"}))
    assert comparison.has_system_scores_only.tolist() == [True, False]


def test_items_without_two_outputs_rated_by_people_are_counted() -> None:
    scores = np.arange(20.0).reshape(2, 5, 2)
    scores[0, 1], scores[0, 4, 0] = np.nan, np.nan
    (compared,) = compare(study_of(scores))
    (note,) = [note for note in compared.notes if note.rule == "items-without-annotators"]
    assert note.count == 2
    assert note.message.startswith("2 of 5 items ")


def test_repeats_are_averaged() -> None:
    frame = pl.DataFrame(
        {
            "item": ["i"] * 5,
            "system": ["A", "B", "A", "A", "B"],
            "rater": ["ann", "ann", "m", "m", "m"],
            "repeat": [0, 0, 0, 1, 0],
            "score": [1.0, 2.0, 1.0, 5.0, 2.0],
        }
    )
    study = Study(ratings=Ratings.make(frame)[0], raters=Raters.infer({"ann": "human", "m": "metric"}))
    (comparison,) = compare(study)
    assert comparison.metric_scores.tolist() == [[[3.0, 2.0]]]


def test_different_scales_are_an_error_and_a_choice_is_the_way_out() -> None:
    rng = np.random.default_rng(1)
    rows = [
        *grid("mqm", "", (-25 * rng.random((20, 2))).tolist()),
        *grid("da", "", (100 * rng.random((20, 2))).tolist()),
        *grid("m", "", rng.random((20, 2)).tolist()),
    ]
    study = rated(rows, {"mqm": "human", "da": "human", "m": "metric"})
    with pytest.raises(OptionError, match="'mqm'.*'da'.*different scales.*human='mqm'"):
        compare(study)
    assert compare(study, human="da")[0].people == ("da",)


def test_nothing_to_compare() -> None:
    study = rated(grid("ann", "", [[1.0, 2.0]]), {"ann": "human"})
    with pytest.raises(OptionError, match=r"no metric, as every rater is human; add scores of a metric \(leaderboard"):
        compare(study)
    single_ratings = rated([("i", "A", "ann", "", 1.0), ("i", "B", "m", "", 1.0)], {"ann": "human", "m": "metric"})
    with pytest.raises(InputError, match="no item has human ratings of two systems, so no preference .* or use rates"):
        compare(single_ratings)
    unknown = rated(grid("x", "", [[1.0, 2.0]]) + grid("y", "", [[1.0, 2.0]]), {"x": "", "y": ""})
    with pytest.raises(OptionError, match=r"no rater is known to be human; name the annotators with human='PATTERN'"):
        compare(unknown)
    assert compare(unknown, human="x")[0].metrics == ("y",)


def test_comparisons_that_would_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    study = study_of(np.arange(60.0).reshape(3, 5, 4))  # 3 raters, 5 items, 6 pairs of systems
    memory = module.ROW_BYTES * 3 * 5 * 6
    monkeypatch.setattr("custodes.evaluate.scores.MOST_CELLS", memory)
    assert compare(study)
    monkeypatch.setattr("custodes.evaluate.scores.MOST_CELLS", memory - 1)
    with pytest.raises(
        InputError,
        match=exactly(
            "study: 5 items x 4 systems x 3 raters do not fit into memory; select fewer, or count with "
            "custodes.count_pairs and give the counts to favoritism and ranking"
        ),
    ):
        compare(replace(study))


def test_a_threshold_cannot_be_fitted_on_other_folds_of_a_single_cluster() -> None:
    rng = np.random.default_rng(0)
    human, scores = rng.integers(1, 4, size=(12, 5)).astype(float), rng.normal(size=(2, 12, 5))
    for n_units, is_same in ((1, True), (12, False)):
        thresholds = tie_thresholds(
            "calibrated",
            human_scores=human,
            human_tie_threshold=0.0,
            metric_scores=scores,
            units=np.arange(12) % n_units,
        )
        assert thresholds.shape == (2, 12)
        assert (np.ptp(thresholds, axis=1) == 0).all() == is_same


def gaps(seed: int, share: float, *, n_humans: int = 3) -> np.ndarray:
    """Return scores of three annotators with gaps, and of a metric."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(1, 6, (n_humans + 1, 40, 4)).astype(float)
    scores[:n_humans][rng.random((n_humans, 40, 4)) < share] = np.nan
    return scores


def count_unpaired(persons: np.ndarray) -> int:
    """Count comparisons by definition: both outputs have a human rating, and no annotator rated both."""
    rated = np.isfinite(persons)
    return sum(
        bool(rated[:, i, a].any() and rated[:, i, b].any() and not (rated[:, i, a] & rated[:, i, b]).any())
        for i in range(persons.shape[1])
        for a, b in combinations(range(persons.shape[2]), 2)
    )


@pytest.mark.parametrize(("share", "aggregate"), [(0.0, "mean"), (0.3, "mean"), (0.6, "vote")])
def test_comparisons_without_a_common_annotator_are_counted(share: float, aggregate: str) -> None:
    scores = gaps(0, share)
    study, expected = study_of(scores, people=3), count_unpaired(scores[:3])
    assert (expected > 0) is (share > 0)
    for question in (cu.agreement, cu.leaderboard, cu.favoritism):
        notes = question(study, resamples=0, aggregate=aggregate).notes  # type: ignore[operator]
        assert [note.count for note in notes if note.rule == "unpaired"] == ([expected] if expected else [])
        assert all(note.message.startswith(f"{expected} comparisons") for note in notes if note.rule == "unpaired")
    for checked_study in (study, study_of(scores[:3], people=3)):
        problems = cu.check(checked_study, aggregate=aggregate).problems
        assert ("unpaired" in set(problems["rule"])) is bool(expected)


def test_human_verdicts_on_items_without_scores_leave_the_number_of_comparisons_without_a_common_annotator() -> None:
    scores = study_of(gaps(0, 0.5), people=3)
    (counted,) = (note for note in cu.leaderboard(scores, resamples=0).notes if note.rule == "unpaired")
    # these items come after all items with scores
    rows = [(f"z{k}", "S0", "S1", scores.humans[0], "ab", 1) for k in range(5)]
    both = replace(scores, preferences=verdicts(rows).preferences)
    (note,) = (note for note in cu.leaderboard(both, resamples=0).notes if note.rule == "unpaired")
    assert note.count == counted.count


@pytest.mark.parametrize("columns", [None, {"item": "doc", "system": "sys", "score": ["ann{rater}"]}])
def test_empty_cells_of_a_wide_table_are_cells(columns: dict[str, object] | None) -> None:
    frame = pl.DataFrame(
        {"item": np.repeat(range(10), 2), "system": list("AB") * 10, "ann1": [1.0, None] * 10, "ann2": [None, 2.0] * 10}
    )
    if columns:
        frame = frame.rename({"item": "doc", "system": "sys"})
    study = cu.read(frame, columns=columns)
    message = next(note.message for note in study.notes if note.rule == "missing-score")
    assert message == "table: 20 cells have no score and count as not rated"
    long = pl.DataFrame({"item": ["x", "x"], "system": ["A", "B"], "rater": "h", "score": [1.0, None]})
    message = next(note.message for note in cu.read(long).notes if note.rule == "missing-score")
    assert message == "table: 1 rows have no score and count as not rated"


STUDY = study_of(scores_of(0, items=5)).describe(
    items=pl.DataFrame(
        {
            "item": ["i3", "i0", "i1", "i2"],
            "cluster": ["doc", "doc", None, "other"],
            "weight": [2.0, 1.0, None, 1.0],
            "group": ["news", "news", "talk", None],
        }
    )
)
ITEMS = ("i2", "i0", "i4", "i3", "i1")


def design_of(items: tuple[str, ...] = ITEMS) -> Design:
    return Design.from_study(STUDY, items=items, systems=("B", "A", "C"))


def test_items_in_their_order_with_cluster_weight_and_group() -> None:
    design = design_of()
    assert design.items == ITEMS
    # An item without a cluster is a cluster of one.
    assert design.clusters == ("doc", "i1", "i4", "other")
    assert design.units.tolist() == [3, 0, 2, 0, 1]
    assert design.n_units == 4
    assert design.weights.tolist() == [1, 1, 1, 2, 1]
    assert design.group == ("", "news", "", "news", "talk")
    assert design.dataset == ("",) * 5


def test_one_cluster_is_never_resampled() -> None:
    design = design_of(("i0", "i3"))
    assert (design.clusters, design.n_units) == (("doc",), 1)
    assert design.draw_weights(50, np.random.default_rng(0)).tolist() == [[1]]
