from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.data.outcome_counts import OutcomeCounts
from custodes.errors import InputError, OptionError
from custodes.evaluate.correction import correction
from custodes.stats.correction.estimator import Counts, Estimate
from custodes.stats.correction.estimators import ESTIMATORS
from tests.evaluate.studies import study_of
from tests.messages import exactly
from tests.simulated_counts import simulate_counts

CHANNEL = np.array([[0.8, 0.1, 0.1], [0.3, 0.4, 0.3], [0.1, 0.1, 0.8]])


def partly_annotated(annotated: int = 45, step: float = 0.5) -> np.ndarray:
    """Return scores (raters, items, 4 systems, best first) of a sparse annotator, a good and an uninformative
    metric."""
    rng = np.random.default_rng(0)
    person = np.rint(step * np.arange(4, 0, -1) + rng.normal(size=(120, 4)))
    scores = np.stack([person, person + rng.normal(size=person.shape), rng.normal(size=person.shape)])
    scores[0, annotated:] = np.nan
    return scores


def counts_of(paired: np.ndarray, metric_only: np.ndarray, human_only: np.ndarray | None = None) -> OutcomeCounts:
    """Return counts (pairs, metrics, ...) of systems A, B, C."""
    names = (("A", "A", "B"), ("B", "C", "C"))
    return OutcomeCounts(
        paired=paired,
        metric_only=metric_only,
        human_only=np.zeros_like(metric_only) if human_only is None else human_only,
        system_a=names[0][: len(paired)],
        system_b=names[1][: len(paired)],
        metrics=tuple(f"m{k}" for k in range(paired.shape[1])),
    )


@pytest.mark.parametrize("selected", [False, True])
def test_decisions_are_withheld_if_annotated_items_were_selected_by_the_metric(selected: bool) -> None:
    # Both systems are equal. The judge prefers A on half of the items, which are annotated more often if `selected`.
    rng = np.random.default_rng(0)
    human = rng.choice([-1, 1], 800)
    judge = np.where(rng.random(800) < 0.8, human, -human)
    is_annotated = rng.random(800) < (np.where(judge > 0, 0.5, 0.1) if selected else 0.3)
    items = pl.DataFrame({"item": range(800), "system_a": "A", "system_b": "B"})
    by_judge = items.with_columns(preference=judge, rater=pl.lit("judge"), kind=pl.lit("metric"))
    by_human = items.with_columns(preference=human, rater=pl.lit("ann"), kind=pl.lit("human"))
    study = cu.read(pl.concat([by_judge, by_human.filter(is_annotated)]))
    result = correction(study, estimator=["mixture", "ppi", "poststratified"])
    decisions = dict(result.pairs.select("estimator", "decision").iter_rows())
    assert ("not-random" in [note.rule for note in result.notes]) is selected
    withheld = {name for name, decision in decisions.items() if decision is None}
    assert withheld == ({"human", "ppi"} if selected else set())
    assert {decisions["mixture"], decisions["poststratified"]} == {"="}
    notes = dict(result.pairs.select("estimator", "note").iter_rows())
    assert {name for name, note in notes.items() if "not a random part" in note} == withheld
    assert (" ? " in str(cu.correction(study, estimator="ppi"))) is selected
    rules = [note.rule for note in cu.protocol(study, metrics="judge", replications=2, resamples=20).notes]
    assert ("not-random" in rules) is selected


def simulated(n: int = 60, pairs: int = 3) -> OutcomeCounts:
    rng = np.random.default_rng(0)
    p = np.array([0.55, 0.2, 0.25])
    paired = simulate_counts(np.tile(p, (pairs, 2, 1)), np.tile(CHANNEL, (pairs, 2, 1, 1)), n=n, rng=rng)
    return counts_of(paired, rng.multinomial(500, p @ CHANNEL, size=(pairs, 2)))


def test_order_of_rows() -> None:
    result = correction(simulated(), estimator=["mixture", "human", "ppi"])
    rows = result.pairs.rows(named=True)
    assert len(rows) == 2 * 3 * 4
    # sorted by metric, then pair, with each estimator once
    assert [row["estimator"] for row in rows[:4]] == ["naive", "human", "mixture", "ppi"]
    assert [row["metric"] for row in rows] == ["m0"] * 12 + ["m1"] * 12
    assert [(row["system_a"], row["system_b"]) for row in rows[:12:4]] == [("A", "B"), ("A", "C"), ("B", "C")]
    assert {row["n_paired"] for row in rows} == {60}
    assert {row["n_metric"] for row in rows} == {500}


@pytest.mark.parametrize("name", ["human", "naive", "ppi", "poststratified"])
def test_rows_are_the_estimates(name: str) -> None:
    counts = simulated()
    rng = np.random.default_rng(0)
    tables = Counts(counts.paired, counts.metric_only, counts.human_only)
    expected = ESTIMATORS[name].estimate(tables, confidence=0.95, gamma=0.05, rng=rng)
    rows = correction(counts, estimator=name, rng=1).pairs.filter(pl.col("estimator") == name)
    np.testing.assert_allclose(rows["margin"], expected.margin.T.ravel())
    np.testing.assert_allclose(rows["theta"], expected.theta.T.ravel(), atol=1e-12)
    np.testing.assert_allclose(rows["margin_low"], expected.margin_low.T.ravel())
    np.testing.assert_allclose(rows["margin_high"], expected.margin_high.T.ravel())
    if name == "ppi":
        assert rows["p_win"].null_count() == rows["p_tie_low"].null_count() == len(rows)
    else:
        np.testing.assert_allclose(rows["p_loss"], expected.p[..., 2].T.ravel())
        np.testing.assert_allclose(rows["p_tie_high"], expected.p_high[..., 1].T.ravel())
    sign = np.where(rows["theta"] > 0.975, "+", np.where(rows["theta"] < 0.025, "-", "="))
    assert rows["decision"].to_list() == sign.tolist()


def test_a_view_sets_the_corrected_margin_beside_metric_and_people() -> None:
    result = correction(simulated(), estimator=["ppi", "poststratified"])
    views = list(result.views())
    assert [view.title for view in views] == [
        f"margins by {metric}, {name}" for metric in ("m0", "m1") for name in ("ppi", "poststratified")
    ]
    assert views[0].header == ("decision", "n", "naive", "human", "ppi", "theta")
    naive, human, ppi, _ = result.pairs.head(4).rows(named=True)
    margin = "{margin:.2f} [{margin_low:.2f}, {margin_high:.2f}]"
    sign = {"+": ">", "=": "=", "-": "<"}[ppi["decision"]]
    cells = (f"A {sign} B", "60", f"{naive['margin']:.2f}", margin.format(**human), margin.format(**ppi))
    assert views[0].rows[0] == (*cells, f"{ppi['theta']:.2f}")
    assert [bool(view.more) for view in views] == [False, False, False, True]
    alone = list(correction(simulated(), estimator="human").views())
    assert [view.header for view in alone] == [("decision", "n", "naive", "human", "theta")] * 2


def test_what_looks_at_all_pairs_together_comes_last() -> None:
    study = study_of(partly_annotated())
    first, second = (correction(study, estimator=names).pairs for names in (["pooled", "ppi"], ["ppi", "pooled"]))
    assert first["estimator"].head(4).to_list() == ["naive", "human", "ppi", "pooled"]
    assert first.equals(second)


def test_a_partly_annotated_study() -> None:
    result = correction(study_of(partly_annotated()), estimator=["mixture", "poststratified", "pooled"], rng=3)
    row = result.pairs.filter(pl.col("metric") == "m1", pl.col("system_a") == "S1", pl.col("system_b") == "S3")
    assert set(row["n_paired"]) == {45}
    assert set(row["n_metric"]) == {75}
    assert set(row["n_human_only"]) == {0}
    width = dict(zip(row["estimator"], row["margin_high"] - row["margin_low"], strict=True))
    # A good metric narrows the human interval.
    assert width["mixture"] < width["human"]
    assert width["poststratified"] < width["human"]
    assert set(row["decision"]) == {"+"}


def test_a_pair_never_annotated_is_answered_and_marked() -> None:
    counts = simulated()
    paired = counts.paired.copy()
    paired[1] = 0
    names = [name for name, estimator in ESTIMATORS.items() if not estimator.needs_items]
    result = correction(replace(counts, paired=paired), estimator=names)
    rows = result.pairs.filter(pl.col("system_a") == "A", pl.col("system_b") == "C", pl.col("metric") == "m0")
    assert dict(zip(rows["estimator"], rows["note"], strict=True)) == {
        name: "" if name == "naive" else "never annotated" for name in names
    }
    assert set(rows.filter(pl.col("estimator") != "naive")["decision"]) == {"="}
    assert rows.filter(pl.col("estimator") == "naive")["decision"].item() == "+"
    assert rows.filter(pl.col("estimator") == "human")["theta"].item() == 0.5
    note = next(note for note in result.notes if note.rule == "never-annotated")
    assert note.count == 1
    assert note.message == (
        "annotators compared none of the pairs A - C, so only the metric and the prior estimate these pairs"
    )


def test_few_annotations_are_marked() -> None:
    result = correction(simulated(n=29), estimator="ppi")
    assert set(result.pairs.filter(pl.col("estimator") == "ppi")["note"]) == {"few annotations"}
    assert [note.count for note in result.notes if note.rule == "few-annotations"] == [3]
    enough = correction(simulated(n=30), estimator="ppi")
    assert [note.rule for note in enough.notes] == ["counts-without-clusters"]


def test_few_effective_draws_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    def sampled(counts: Counts, **options: float) -> Estimate:
        answer = ESTIMATORS["human"].estimate(counts, **options)
        return replace(answer, effective_draws=np.where(np.arange(2) == 0, 999.0, 1000.0) * np.ones((3, 1)))

    monkeypatch.setitem(ESTIMATORS, "mixture", replace(ESTIMATORS["mixture"], estimate=sampled))
    notes = correction(simulated()).notes
    assert [(note.rule, note.count) for note in notes] == [("counts-without-clusters", 0), ("few-draws", 3)]
    assert notes[1].message == (
        "mixture: 3 of 6 estimates have fewer than 1000 effective draws, so their intervals are inaccurate"
    )


def test_what_other_random_numbers_might_decide_is_undecided_and_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    def sampled(counts: Counts, **options: float) -> Estimate:
        answer = ESTIMATORS["human"].estimate(counts, **options)
        # (pairs, metrics): four errors of .001 reach .971 to .979, and .021 to .029
        theta = np.array([[0.976, 0.98], [0.0249, 0.02], [0.974, 0.5]])
        return replace(answer, theta=theta, theta_error=np.full((3, 2), 0.001))

    monkeypatch.setitem(ESTIMATORS, "mixture", replace(ESTIMATORS["mixture"], estimate=sampled))
    result = correction(simulated(n=29))
    rows = result.pairs.filter(pl.col("estimator") == "mixture").sort("metric", "system_a", "system_b")
    assert rows["decision"].to_list() == ["=", "=", "=", "+", "-", "="]
    near, few = "at the threshold; few annotations", "few annotations"
    assert rows["note"].to_list() == [near, near, near, few, few, few]
    notes = [note for note in result.notes if note.rule == "at-the-threshold"]
    assert [note.count for note in notes] == [3]
    assert notes[0].message == (
        "mixture: in 3 of 6 estimates, theta is within four Monte Carlo errors of 0.025 or 0.975; these decisions "
        "count as `=` and are marked `at the threshold`"
    )
    many = correction(simulated(n=30)).pairs.filter(pl.col("estimator") == "mixture")["note"]
    assert sorted(many) == ["", "", "", *["at the threshold"] * 3]


def test_pooled_says_when_it_cannot_answer() -> None:
    few = correction(study_of(partly_annotated(annotated=19)), estimator="pooled")
    assert "few-clusters" in {note.rule for note in few.notes}
    assert set(few.pairs.filter(pl.col("estimator") == "pooled")["decision"]) == {"="}
    rng = np.random.default_rng(0)
    # S0 beats S1, S1 beats S2, S2 beats S0: dice that no additive model fits.
    dice = np.array([[2, 4, 9], [1, 6, 8], [3, 5, 7]])
    person = np.stack([rng.choice(faces, 100) for faces in dice[[1, 0, 2]]], axis=1).astype(float)
    circle = correction(study_of(np.stack([person, person])), estimator="pooled")
    assert "not-additive" in {note.rule for note in circle.notes}
    rows = {name: circle.pairs.filter(pl.col("estimator") == name) for name in ("human", "pooled")}
    np.testing.assert_allclose(rows["pooled"]["theta"], rows["human"]["theta"])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"gamma": 0}, "gamma=0: must lie between 0 and 1, both excluded"),
        (
            {"estimator": []},
            "estimator: the list is empty; give at least one of mixture, human, ppi, poststratified, naive, pooled",
        ),
        (
            {"estimator": "pooled"},
            "estimator='pooled' needs the ratings of items, which counts do not contain; give the study instead",
        ),
        (
            {"ties": "calibrated"},
            "ties: selection and tie rules were already applied to the counts; set ties when counting",
        ),
    ],
)
def test_bad_options(options: dict[str, object], says: str) -> None:
    with pytest.raises(OptionError, match=exactly(says)):
        correction(simulated(), **options)  # type: ignore[arg-type]


def test_bad_counts() -> None:
    counts = simulated()
    halves = replace(counts, paired=counts.paired + 0.5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=exactly("counts.paired contains 28.5; give whole numbers of at least 0")):
        correction(halves)
    with pytest.raises(InputError, match=r"counts\.metric_only contains -1"):
        correction(replace(counts, metric_only=counts.metric_only * 0 - 1))
    with pytest.raises(
        InputError,
        match=exactly(
            "annotators and metrics (m0, m1) have no item in common; give data in which some items have both "
            "human and metric ratings"
        ),
    ):
        correction(replace(counts, paired=counts.paired * 0, human_only=counts.human_only + 1))
    scores = partly_annotated()
    scores[1:, :45] = np.nan
    with pytest.raises(InputError, match="in common"):
        correction(study_of(scores))


def test_counts_of_items_are_those_of_the_ratings() -> None:
    scores = partly_annotated(annotated=50)
    scores[1, :20, 0] = np.nan
    scores[2, 40:90, 1] = np.nan
    result = correction(study_of(scores), estimator=["ppi", "pooled"])
    for row in result.pairs.to_dicts():
        r, a, b = int(row["metric"][1]), int(row["system_a"][1]), int(row["system_b"][1])
        human, metric = (np.isfinite(scores[k][:, a] - scores[k][:, b]) for k in (0, r))
        assert row["n_paired"] == (human & metric).sum()
        assert row["n_metric"] == (metric & ~human).sum()
        assert row["n_human_only"] == (human & ~metric).sum()
        assert row["decision"] == ("+" if row["theta"] > 0.975 else "-" if row["theta"] < 0.025 else "=")
    human, pooled = (result.pairs.filter(estimator=name) for name in ("human", "pooled"))
    for table in (human, pooled):  # neither depends on the metric
        first, second = (table.filter(metric=name).select("theta", "margin", "margin_low") for name in ("m1", "m2"))
        np.testing.assert_allclose(first.to_numpy(), second.to_numpy(), atol=1e-12)
    view = next(iter(result.views()))
    naive = result.pairs.filter(metric="m1", estimator="naive").to_dicts()
    assert [row[1] for row in view.rows] == [str(row["n_paired"] + row["n_human_only"]) for row in naive]
    assert {row[1] for row in view.rows} == {"50"}
    assert view.numeric == (False, *[True] * 5)


def test_clusters_of_copies_give_the_estimates_of_single_items() -> None:
    scores = partly_annotated(annotated=60)
    items = pl.DataFrame({"item": [f"i{k}" for k in range(360)], "cluster": [f"c{k // 3}" for k in range(360)]})
    copied = study_of(scores.repeat(3, axis=1))
    plain, clustered = (
        correction(study, estimator=["ppi", "poststratified"]).pairs
        for study in (study_of(scores), copied.describe(items=items))
    )
    for name in ("naive", "human", "ppi", "poststratified"):
        width = [
            (table.filter(estimator=name)["margin_high"] - table.filter(estimator=name)["margin_low"]).to_numpy()
            for table in (plain, clustered)
        ]
        np.testing.assert_allclose(width[1], width[0], rtol=0.12)
        np.testing.assert_allclose(
            clustered.filter(estimator=name)["theta"], plain.filter(estimator=name)["theta"], atol=0.03
        )


def test_a_metric_that_rated_nothing_of_a_pair_is_marked() -> None:
    scores = partly_annotated(annotated=45)
    scores[1, :, 3] = np.nan
    result = correction(study_of(scores), estimator="ppi")
    for row in result.pairs.to_dicts():
        unrated = row["metric"] == "m1" and "S3" in (row["system_a"], row["system_b"])
        assert row["note"] == ("never rated by the metric" if unrated and row["estimator"] == "naive" else "")


@pytest.mark.parametrize(("n", "counted"), [(29, 3), (30, 0), (1, 3)])
def test_the_note_on_few_annotations_counts_pairs_with_some(n: int, counted: int) -> None:
    counts = simulated(n=n)
    paired = counts.paired.copy()
    if n == 1:
        paired[2] = simulated(n=1).paired[2]
    notes = {note.rule: note for note in correction(replace(counts, paired=paired)).notes}
    if counted:
        assert notes["few-annotations"].message.startswith(f"{counted} of 3 pairs have fewer than 30 human annotations")
    else:
        assert "few-annotations" not in notes
    none = paired.copy()
    none[0] = 0
    notes = {note.rule: note for note in correction(replace(counts, paired=none)).notes}
    assert notes["never-annotated"].message.startswith("annotators compared none of the pairs A - B, so only")
    if counted:
        assert notes["few-annotations"].count == counted - 1


def test_the_note_on_selected_items_names_the_estimators() -> None:
    rng = np.random.default_rng(0)
    human, judge = rng.choice([-1, 1], 800), rng.choice([-1, 1], 800)
    annotated = rng.random(800) < np.where(judge > 0, 0.5, 0.1)
    items = pl.DataFrame({"item": range(800), "system_a": "A", "system_b": "B"})
    by_judge = items.with_columns(preference=judge, rater=pl.lit("judge"), kind=pl.lit("metric"))
    by_human = items.with_columns(preference=human, rater=pl.lit("ann"), kind=pl.lit("human")).filter(annotated)
    study = cu.read(pl.concat([by_judge, by_human]))
    for estimator, text in (
        (["ppi"], ""),
        (
            ["ppi", "mixture"],
            "; decisions by mixture hold only if annotation depended only on the ratings of the metric",
        ),
    ):
        result = correction(study, estimator=estimator)
        (note,) = [note for note in result.notes if note.rule == "not-random"]
        assert note.message == (
            "judge: the annotated items are not a random part of the items that the metric rated (p ≤ .001), so there "
            f"are no decisions by human, ppi{text}. Let annotators rate a random part of the items"
        )
        withheld = result.pairs.filter(estimator="ppi").row(0, named=True)
        assert (withheld["decision"], withheld["note"]) == (None, "not a random part")
        assert result.pairs.filter(estimator="naive")["decision"].item() is not None
