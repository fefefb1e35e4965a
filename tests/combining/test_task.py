"""The task of a combination: target, predictors, errors and folds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.combining.combine import combine
from custodes.combining.task import SAMPLED, Task, outer_folds, task
from custodes.errors import InputError, OptionError
from tests.combining.tasks import ITEMS, N_SYSTEMS, normal_scores, planted, table_of_items, task_of
from tests.evaluate.judged_studies import Scores, judged


def rules(of: Task) -> dict[str, str]:
    return {note.rule: note.message for note in of.notes}


ASPECTS: Scores = {
    ("ann", "style"): normal_scores(1).round(1),
    ("bob", "style"): normal_scores(2).round(1),
    ("ann", "truth"): normal_scores(3).round(1),
    ("bleu", ""): normal_scores(4),
    ("judge", "style"): normal_scores(5),
    ("judge", "truth"): normal_scores(6),
}


def test_one_aspect_is_predicted_by_its_metrics_and_by_those_without_aspect() -> None:
    of = task_of(ASPECTS, target="style")
    assert (of.target, of.metrics.names) == ("style", ("bleu", "judge:style"))
    assert (of.metrics.raters, of.metrics.rater_aspects) == (("bleu", "judge"), ("", "style"))
    np.testing.assert_allclose(of.human, (ASPECTS["ann", "style"] + ASPECTS["bob", "style"]) / 2)
    np.testing.assert_array_equal(of.metrics.scores, [ASPECTS["bleu", ""], ASPECTS["judge", "style"]])
    assert not of.verdicts


def test_the_mean_of_aspects_is_that_of_people_s_means_where_all_were_rated() -> None:
    truth = ASPECTS["ann", "truth"].copy()
    truth[3, 1] = np.nan
    of = task_of({**ASPECTS, ("ann", "truth"): truth}, target="mean:style, truth")
    style = (ASPECTS["ann", "style"] + ASPECTS["bob", "style"]) / 2
    np.testing.assert_allclose(of.human, (style + truth) / 2)
    assert of.target == "mean:style,truth"
    assert of.metrics.names == ("bleu", "judge:style", "judge:truth")
    assert task_of(ASPECTS, target="mean:style").target == "style"


def test_metrics_are_turned_and_keep_their_declared_scale_and_cost() -> None:
    raters = pl.DataFrame(
        {
            "rater": ["a", "b"],
            "higher_is_better": ["false", "true"],
            "low": [-9, None],
            "high": [9, None],
            "cost": [3, 1],
        }
    )
    scores = planted()
    of = task_of(scores, raters=raters)
    assert of.directions.tolist() == [-1, 1, 1]
    np.testing.assert_array_equal(of.metrics.scores[0], -scores["a", ""])
    assert of.declared == {"a": (-9, 9)}
    assert of.study.raters.select_raters(of.metrics.raters).frame["cost"].to_list() == [3, 1, None]


def test_verdicts_become_the_share_of_wins_less_losses() -> None:
    verdicts = [  # item, a, b, winner, rater
        *[("i000", "A", "B", "model_a", "ann"), ("i000", "A", "C", "model_a", "ann")],
        *[("i000", "B", "C", "tie", "ann"), ("i001", "A", "B", "model_b", "ann")],
        *[(f"i{k:03}", "A", "B", "model_a", "ann") for k in range(2, 6)],
    ]
    battles = pl.DataFrame(verdicts, schema=["item", "model_a", "model_b", "winner", "rater"], orient="row")
    scores = normal_scores(0, items=8, systems=3)
    rows = [
        {"item": f"i{i:03}", "system": "ABC"[k], "rater": name, "score": sign * scores[i, k]}
        for i in range(8)
        for k in range(3)
        for name, sign in (("m", 1), ("n", -1))
    ]
    study = cu.read(pl.DataFrame(rows), battles.with_columns(kind=pl.lit("human")))
    of = task(study.select(), target=None)
    assert of.verdicts
    assert of.design.items == tuple(f"i{k:03}" for k in range(8))
    expected = np.full((8, 3), np.nan)
    expected[0] = [1, -0.5, -0.5]
    expected[1, :2] = [-1, 1]
    expected[2:6, :2] = [1, -1]
    np.testing.assert_array_equal(of.human, expected)  # no comparisons of i006 and i007


def test_a_constant_metric_is_left_out_and_named() -> None:
    of = task_of({**planted(), ("flat", ""): np.ones((ITEMS, N_SYSTEMS))})
    assert of.metrics.names == ("a", "b", "noise")
    assert "flat" in rules(of)["constant-rater"]


@pytest.mark.parametrize("value", [np.nan, 3.0])
def test_a_metric_that_says_nothing_of_rated_outputs_is_left_out_and_named(value: float) -> None:
    scores = planted()
    scores["ann", ""][:, 3] = np.nan
    elsewhere = normal_scores(9)
    elsewhere[:, :3] = value
    of = task_of({**scores, ("elsewhere", ""): elsewhere})
    assert of.metrics.names == ("a", "b", "noise")
    assert rules(of)["not-on-rated"].endswith(": elsewhere")
    with pytest.raises(
        InputError, match=("no metric has varying scores of rated outputs, so there is nothing to combine; add metrics")
    ):
        task_of({("ann", ""): scores["ann", ""], ("elsewhere", ""): elsewhere})


def test_missing_scores_of_rated_outputs_are_counted() -> None:
    scores = planted()
    scores["ann", ""][0, 0] = np.nan
    scores["a", ""][:2, 0] = np.nan  # one of the two has no rating
    of = task_of(scores)
    assert [note.count for note in of.notes if note.rule == "missing-metric-scores"] == [1]


def test_more_metrics_than_rated_outputs_are_noted() -> None:
    scores: dict[tuple[str, str], np.ndarray] = {("ann", ""): normal_scores(0, items=5, systems=2)}
    scores |= {(f"m{k:02}", ""): normal_scores(1 + k, items=5, systems=2) for k in range(12)}
    assert rules(task_of(scores))["more-features-than-rows"].startswith(
        "there are 12 metrics and only 10 rated outputs"
    )
    assert "more-features-than-rows" not in rules(task_of(planted()))


@pytest.mark.parametrize(
    ("scores", "options", "message"),
    [
        ({}, {}, r"rated several aspects; give one of .*style, truth.* as target=.*mean:style,truth"),
        ({}, {"target": "styl"}, r"target='styl': annotators did not rate 'styl'.*did you mean 'style'"),
        ({}, {"target": "mean:style,thruth"}, r"did not rate 'thruth'.*did you mean 'truth'"),
        ({}, {"target": "mean:"}, "target='mean:': annotators did not rate ''"),
        ({}, {"target": "mean:style,style"}, "names an aspect twice"),
        ({}, {"target": "style", "metrics": "bleue"}, "metrics='bleue': no such metric.*did you mean 'bleu'"),
        (planted(), {"target": "style"}, "target='style': the human ratings have no aspects; leave the target"),
        (
            {**ASPECTS, ("ann", "truth"): np.round(50 + 20 * normal_scores(3))},
            {"target": "mean:style,truth"},
            "'style' and 'truth' on different scales, which cannot be averaged; choose one aspect",
        ),
    ],
)
def test_impossible_targets_are_refused(scores: Scores, options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        task_of(scores or ASPECTS, **options)


def test_people_who_always_say_the_same_teach_nothing() -> None:
    with pytest.raises(
        InputError, match="small: human ratings are constant, so nothing can be learned; select another aspect"
    ):
        task_of({**planted(), ("ann", ""): np.full((ITEMS, N_SYSTEMS), 3.0)})
    flat = {**ASPECTS, ("ann", "truth"): np.full((ITEMS, N_SYSTEMS), 3.0)}
    for target in ("truth", "mean:style,truth"):
        with pytest.raises(
            InputError,
            match=(
                "small: human ratings for aspect 'truth' are constant, so nothing can be learned; select another aspect"
            ),
        ):
            task_of(flat, target=target)
    assert task_of(flat, target="style").target == "style"


def test_fewer_items_or_clusters_than_folds_are_refused() -> None:
    assert task_of(planted(items=5)).design.n_units == 5
    with pytest.raises(InputError, match=r"4 items \(or clusters\) have human ratings.*at least 5"):
        task_of(planted(items=4))
    clusters = table_of_items(cluster=[f"c{k % 4}" for k in range(ITEMS)])
    with pytest.raises(InputError, match=r"4 items \(or clusters\) have human ratings"):
        task_of(planted(), items=clusters)


def folds_of(of: Task, by: str, *, repeats: int = 1, seed: int = 0) -> list[np.ndarray]:
    return outer_folds(of, by, repeats=repeats, rng=np.random.default_rng(seed))


def test_folds_of_items_keep_clusters_whole_and_differ_between_repeats() -> None:
    scores = planted()
    scores["ann", ""][0, :] = np.nan
    scores["ann", ""][1, 2] = np.nan
    of = task_of(scores, items=table_of_items(cluster=[f"c{k // 2}" for k in range(ITEMS)]))
    first, second = folds_of(of, "item", repeats=2)
    for fold in (first, second):
        np.testing.assert_array_equal(fold < 0, np.isnan(of.human))
        assert sorted(set(fold.ravel())) == [-1, 0, 1, 2, 3, 4]
        for unit in range(of.design.n_units):
            assert len(set(fold[of.design.units == unit].ravel()) - {-1}) == 1
    assert (first != second).any()
    np.testing.assert_array_equal(first, folds_of(of, "item", repeats=2)[0])
    assert (first != folds_of(of, "item", seed=1)[0]).any()


def test_a_system_or_data_set_at_a_time() -> None:
    labels = ["news"] * 8 + ["chat"] * 12
    of = task_of(planted(), items=table_of_items(dataset=labels, group=labels[::-1]))
    (systems,) = folds_of(of, "system", repeats=3)
    np.testing.assert_array_equal(systems, np.tile(np.arange(N_SYSTEMS), (ITEMS, 1)))
    (sets,) = folds_of(of, "dataset")
    np.testing.assert_array_equal(sets[:, 0], [1] * 8 + [0] * 12)  # in alphabetical order
    (groups,) = folds_of(of, "group")
    np.testing.assert_array_equal(groups[:, 0], [0] * 12 + [1] * 8)


def test_folds_from_a_file_leave_out_whom_it_does_not_name(tmp_path: Path) -> None:
    file = tmp_path / "folds.csv"
    named = {f"i{k:03}": "xy"[k % 2] for k in range(10)}
    pl.DataFrame({"item": [*named, "stranger"], "fold": [*named.values(), "z"]}).write_csv(file)
    of = task_of(planted(), items=table_of_items(cluster=[f"c{k % 10}" for k in range(ITEMS)]))
    (fold,) = folds_of(of, str(file))  # one item of each cluster is named
    np.testing.assert_array_equal(fold[:, 0], [0, 1] * 5 + [-1] * 10)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "item,fold\ni000,a\ni001,b\n",
            r"without fold 'a' only one item \(or cluster\) is left for training; at least two are needed",
        ),
        ("item,fold\ni000,a\ni001,a\n", r"there is only 1 fold \(a\); give at least two"),
        ("item,fold\nj1,a\nj2,b\n", "no item of the file is in the data .file: j1, j2; data: i000, i001"),
        ("item,fold\ni000,a\ni000,b\n", "i000"),
    ],
)
def test_bad_files_of_folds_are_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "folds.csv"
    file.write_text(text)
    with pytest.raises((InputError, OptionError), match=message):
        folds_of(task_of(planted()), str(file))


def test_clusters_across_folds_are_refused(tmp_path: Path) -> None:
    items = table_of_items(cluster=[f"c{k // 2}" for k in range(ITEMS)], dataset=["x", "y"] * (ITEMS // 2))
    of = task_of(planted(), items=items)
    file = tmp_path / "folds.csv"
    items.select("item", fold="dataset").write_csv(file)
    for by in ("dataset", str(file)):
        with pytest.raises(OptionError, match="items of one cluster are in different folds, so training data leak"):
            folds_of(of, by)


@pytest.mark.parametrize("by", ["items", "", ".", "nowhere.csv"])
def test_unknown_folds_are_refused(by: str) -> None:
    with pytest.raises(OptionError, match="give item, system, dataset, group, or a file with the columns"):
        folds_of(task_of(planted()), by)


def test_folds_by_what_items_do_not_have_are_refused() -> None:
    for by in ("dataset", "group"):
        advice = f"name the column, as in --column {by}=NAME, or give every item a {by} in the items"
        with pytest.raises(OptionError, match=f"folds='{by}': some items have no {by}; {advice}"):
            folds_of(task_of(planted()), by)
    with pytest.raises(OptionError, match=r"folds='group': there is only 1 fold \(news\)"):
        folds_of(task_of(planted(), items=table_of_items(group=["news"] * ITEMS)), "group")


@pytest.mark.parametrize(("most", "clusters"), [(840, 105), (10, 100)])
def test_of_many_outputs_whole_clusters_are_drawn_and_a_note_says_so(
    monkeypatch: pytest.MonkeyPatch, most: int, clusters: int
) -> None:
    monkeypatch.setattr("custodes.combining.task.MOST_OUTPUTS", most)
    scores, n = planted(items=300), 300
    study = judged(scores).describe(items=table_of_items(n, cluster=[f"c{k // 2:03}" for k in range(n)]))
    result = combine(study, method="ridge", repeats=1, resamples=0, unseen="none", rng=3)
    items = sorted(result.held_out.frame["item"].unique())
    places = [int(item[1:]) for item in items]
    assert len(items) == 2 * clusters
    assert {k ^ 1 for k in places} == {*places}  # both items of each cluster
    (note,) = (note for note in result.notes if note.rule == SAMPLED)
    assert f"{8 * clusters} of 1200 rated outputs" in note.message
    assert f"{clusters} of 150 items (or clusters)" in note.message
    # The model equals a fit to the sampled items alone.
    part = {name: values[places] for name, values in scores.items()}
    monkeypatch.undo()
    alone = combine(judged(part), method="ridge", repeats=1, resamples=0, unseen="none")
    assert not [note for note in alone.notes if note.rule == SAMPLED]
    alone_by, by = (dict(m.weights.select("metric", "weight").iter_rows()) for m in (alone, result))
    assert by == pytest.approx(alone_by, abs=0.02)  # the penalty may differ, since the inner folds differ


def test_the_same_seed_draws_the_same_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("custodes.combining.task.MOST_OUTPUTS", 500)
    study = judged(planted(items=300))
    options: dict[str, Any] = {"method": "best", "repeats": 1, "resamples": 0, "unseen": "none"}
    items = [[*combine(study, rng=seed, **options).held_out.frame["item"].unique().sort()] for seed in (0, 0, 1)]
    assert len(items[0]) == 125
    assert items[0] == items[1] != items[2]
