"""The replayed protocol: by hand, reproducibility by seed, bad input."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import polars as pl
import pytest
from scipy.stats import beta, entropy

import custodes as cu
from custodes.data.items import Items
from custodes.data.notes import Note
from custodes.data.raters import Raters
from custodes.data.ratings import Ratings
from custodes.data.study import Study
from custodes.errors import OptionError
from custodes.evaluate.protocol.protocol import protocol
from custodes.evaluate.protocol.stopping import Stopping
from custodes.evaluate.ranking import ranking
from custodes.stats import ABSENT
from custodes.stats.clusters import pooled_design_effect
from tests.evaluate.protocol.scores import scores_of
from tests.evaluate.studies import study_of
from tests.messages import exactly

FAST = {"replications": 5, "resamples": 50}


def test_a_clear_difference_is_decided_at_the_first_look() -> None:
    scores = np.stack([np.tile([1.0, 0.0], (30, 1))] * 2)
    result = protocol(study_of(scores), stopping=Stopping(batch=6), **FAST)
    row = result.protocol.row(0, named=True)
    # six wins of six: theta = 1 - 2^-7 = .992
    assert (row["metric"], row["estimator"], row["stopping"]) == ("none", "human", "decided, batch 6")
    assert (row["share"], row["correct"], row["share_sd"]) == (0.2, 1, 0)
    # posterior means after 6 and after 30 annotations
    early, late = np.array([7, 1, 1]) / 9, np.array([31, 1, 1]) / 33
    assert row["kld"] == pytest.approx((early * np.log(early / late)).sum())
    assert result.reference["self_agreement"].to_list() == [1]


def test_divergence_from_the_mode_is_that_of_scipy_and_infinite_without_an_outcome() -> None:
    wins, ties, losses = [1.0, 0.0], [0.0, 0.0], [0.0, 1.0]
    for rows, mode in (([wins] * 24 + [ties] * 4 + [losses] * 2, [24, 4, 2]), ([wins] * 30, [30, 0, 0])):
        result = protocol(study_of(np.array([rows] * 2)), stopping=Stopping(batch=30), **FAST)
        # All annotations of the pair are used: the posterior mean is compared with the proportions.
        mean = (np.array(mode) + 1) / 33
        row = result.protocol.row(0, named=True)
        assert (row["share"], row["kld"]) == (1, pytest.approx(0))
        assert row["kld_mode"] == pytest.approx(entropy(mean, np.array(mode) / 30))


def test_a_seed_gives_one_answer() -> None:
    study = study_of(scores_of(1, raters=3))
    options = {"metrics": "m*", "estimator": ["human", "ppi", "pooled"], "null": True}
    options["stopping"] = Stopping(looks=(5, 10))
    first, second = (protocol(study, replications=2, resamples=20, **options) for _ in range(2))
    for name, table in first.tables().items():
        assert table.equals(second.tables()[name]), name
    # the third is the paper's rule
    assert first.protocol["metric"].to_list() == ["none", "none", "none", "m1", "m2"]
    assert first.provenance.options["stopping"].looks == (5, 10)
    third = protocol(study, rng=1, replications=2, resamples=20, **options)
    assert not first.protocol.equals(third.protocol)


def test_curve_ends_where_the_row_does() -> None:
    result = protocol(study_of(scores_of(3)), stopping=Stopping(batch=5), **FAST)
    row, curve = result.protocol.row(0, named=True), result.curve.filter(stopping="decided, batch 5")
    end = curve.row(-1, named=True)
    for name in ("correct", "kld"):
        assert end[name] == pytest.approx(row[name])
    assert end["annotations"] == pytest.approx(row["share"] * result.reference["annotations"].item())
    assert curve["annotations"].is_sorted()
    assert curve["round"].to_list() == list(range(1, 9))


@pytest.mark.parametrize("budget", [3, 17, 60, 10_000])
def test_budget_is_never_exceeded(budget: int) -> None:
    result = protocol(study_of(scores_of(4)), stopping=Stopping(budget=budget), **FAST)
    annotations = result.curve.filter(pl.col("stopping").str.contains("budget"))["annotations"].max()
    assert annotations <= budget
    assert (annotations == budget) == (budget < 70)
    assert any(note.rule == "pairs-never-annotated" for note in result.notes) == (budget < 6)


def test_missing_ratings_are_never_asked() -> None:
    scores = scores_of(5)
    scores[0, ::3, 0] = np.nan
    result = protocol(study_of(scores), stopping=Stopping(gamma=1e-9), **FAST)
    assert result.protocol["share"].to_list() == [1]
    assert result.curve["annotations"].max() == result.reference["annotations"][0] == 3 * 40 + 3 * 26


def test_ideal_rows_and_naive_errors() -> None:
    study = study_of(scores_of(9))
    result = protocol(study, metrics="m1", estimator=["human", "poststratified", "naive"], ideal=1000, **FAST)
    assert result.protocol["metric"].to_list() == ["none", "m1", "m1", "ideal", "ideal"]
    assert set(result.protocol["kld"].is_null()) == {False}
    errors = ["correct", "inversion", "omission", "insertion"]
    naive = result.protocol.filter(estimator="naive").select(errors)
    assert naive.sum_horizontal().to_list() == pytest.approx([1, 1])
    # The metric alone decides as in a ranking, whatever the number of annotations.
    ranked = ranking(study, metrics="m1", resamples=0).errors.select(errors)
    assert naive.row(0) == pytest.approx(ranked.row(0))
    helped = protocol(study, metrics="m1", estimator="ppi", **FAST).protocol.filter(metric="m1")
    assert helped.select("kld", "kld_mode").row(0) == (None, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"estimator": "ppi"},
            "estimator='ppi' needs a metric, but metrics='none'; select metrics, or use human or pooled",
        ),
        ({"estimator": []}, "estimator or stopping is empty; give at least one estimator and one stopping rule"),
        ({"stopping": []}, "estimator or stopping is empty; give at least one estimator and one stopping rule"),
        (
            {"stopping": [Stopping(), Stopping(gamma=0.1)]},
            "stopping: rules with different gamma cannot share the reference decisions; run each gamma separately",
        ),
    ],
)
def test_bad_options(options: dict, message: str) -> None:
    with pytest.raises(OptionError, match=exactly(message)):
        protocol(study_of(scores_of(0, items=6)), **{**FAST, **options})


def test_every_aspect_has_its_reference_even_with_metrics_of_its_own() -> None:
    frames = []
    for aspect, seed in (("x", 0), ("y", 1)):
        frame = study_of(scores_of(seed)).ratings.frame.with_columns(aspect=pl.lit(aspect))
        frames.append(frame.with_columns(rater=pl.col("rater").replace({"m1": f"m_{aspect}"})))
    study = replace(
        study_of(scores_of(0)),
        ratings=Ratings(frame=pl.concat(frames)),
        raters=Raters.infer({"ann": "human", "m_x": "metric", "m_y": "metric"}),
    )
    result = protocol(study, metrics="*", estimator="ppi", **FAST)
    rows = [("x", "none"), ("x", "m_x"), ("y", "none"), ("y", "m_y")]
    assert result.protocol.select("aspect", "metric").rows() == rows
    assert result.reference["aspect"].to_list() == ["x", "y"]


def clustered(study: Study, size: int) -> Study:
    """Return the study with documents of this many consecutive items."""
    names = study.ratings.frame["item"].unique(maintain_order=True).to_list()
    frame = pl.DataFrame({"item": names, "cluster": [f"d{k // size}" for k in range(len(names))]})
    return replace(study, items=Items.make(frame)[0])


def test_a_document_is_one_annotation_where_its_items_say_the_same() -> None:
    # Ten documents of four copies of one item give the decisions of ten items.
    scores = scores_of(14, items=10, raters=1, strength=0.6)
    copied = study_of(np.repeat(scores, 4, axis=1))
    options = {"stopping": Stopping(looks=(5, 10)), "replications": 40, "resamples": 200}
    plain, whole = (protocol(data, **options) for data in (study_of(scores), clustered(copied, 4)))
    for name in ("decided", "self_agreement"):
        assert whole.reference[name].item() == pytest.approx(plain.reference[name].item(), abs=0.1)
    # Annotations alternate between documents, so ten annotations cover ten documents; random items would cover about
    # seven.
    ends = [data.protocol.filter(stopping="decided, looks 5,10").row(0, named=True) for data in (plain, whole)]
    used = [
        data.curve.filter(stopping="decided, looks 5,10")["annotations"].max() / data.reference["pairs"].item()
        for data in (plain, whole)
    ]
    assert used[1] == pytest.approx(used[0], abs=0.5)
    assert ends[1]["correct"] == pytest.approx(ends[0]["correct"], abs=0.08)


def test_the_null_keeps_documents_together() -> None:
    # Ten documents of twenty items that mostly share the preference of their document, and equal systems.
    rng, false = np.random.default_rng(15), []
    options = {"stopping": Stopping(looks=(20, 40, 80), boundary="pocock"), "resamples": 0, "replications": 10}
    for _ in range(6):
        scores = np.stack([1.2 * rng.normal(size=(10, 6)).repeat(20, axis=0) + rng.normal(size=(200, 6))] * 2)
        rows = protocol(clustered(study_of(scores), 20), null=True, **options).protocol
        false.append(rows.filter(stopping="decided, looks 20,40,80, boundary pocock")["null_error"].item())
    assert np.mean(false) <= 0.06  # above .2 with items in random order


def test_a_fixed_design_stands_beside() -> None:
    study = study_of(scores_of(16, items=60))
    rules = [Stopping(looks=(10, 20, 40), boundary="pocock"), Stopping(looks=(30,))]
    result = protocol(study, stopping=rules, null=True, replications=30, resamples=0)
    looking, once, paper = result.protocol.rows(named=True)
    # A single interim analysis is a fixed design.
    assert once["gain"] == once["gain_sd"] == 0
    assert once["null_error"] <= 0.09
    assert paper["stopping"] == "decided"
    assert paper["null_error"] > 0.1 > looking["null_error"]
    assert any(note.rule == "of-this-data" for note in result.notes)


@pytest.mark.parametrize(("stopping", "added"), [(Stopping(), False), (Stopping(looks=[5, 10]), True)])
def test_a_note_explains_the_row_of_the_rule_of_the_paper(stopping: Stopping, added: bool) -> None:
    result = protocol(study_of(scores_of(0, items=20)), stopping=stopping, replications=2, resamples=0)
    assert result.protocol.height == 1 + added
    messages = [note.message for note in result.notes if note.rule == "paper-rule"]
    assert ["estimator='human' with stopping='decided' is the rule" in message for message in messages] == [
        True
    ] * added


def test_the_reference_is_the_decision_with_all_annotations_and_with_resampled_clusters() -> None:
    scores = scores_of(21, items=36, strength=0.4)
    scores[0, 30:, 0] = np.nan
    for size in (1, 3):
        study = clustered(study_of(scores), size)
        result = protocol(study, stopping=Stopping(gamma=0.1), replications=2, resamples=3000)
        signs = [
            np.nan_to_num(np.sign(scores[0][:, a] - scores[0][:, b]), nan=9.0) for a, b in combinations(range(4), 2)
        ]
        counts = np.array([[(s == 1).sum(), (s == 0).sum(), (s == -1).sum()] for s in signs])
        row = result.reference.row(0, named=True)
        assert (row["pairs"], row["annotations"]) == (6, counts.sum())
        effect = pooled_design_effect(
            np.where(np.array(signs) == 9, ABSENT, signs).astype(np.int8), units=np.arange(36) // size
        )

        def decide(wins: np.ndarray, losses: np.ndarray, effect: np.ndarray = effect) -> np.ndarray:
            theta = beta.sf(0.5, wins / effect + 1, losses / effect + 1)
            return np.where(theta > 0.95, 1, np.where(theta < 0.05, -1, 0))

        expected = decide(counts[:, 0], counts[:, 2])
        assert row["decided"] == pytest.approx((expected != 0).mean())
        n_clusters = 36 // size
        weights = np.random.default_rng(0).multinomial(n_clusters, np.full(n_clusters, 1 / n_clusters), size=3000)
        weights = weights.repeat(size, axis=1)
        wins, losses = (weights @ (np.array(signs) == sign).T for sign in (1, -1))
        assert row["self_agreement"] == pytest.approx((decide(wins, losses) == expected).mean(), abs=0.02)


def test_notes_on_pairs_metrics_and_rules() -> None:
    scores = scores_of(2, items=30, raters=3)
    scores[0, :15, 0] = np.nan
    scores[0, 15:, 1:3] = np.nan  # no item has human ratings of S0 with S1 or S2
    scores[2] = scores[1]
    one_aspect = study_of(scores)
    frame = one_aspect.ratings.frame.with_columns(aspect=pl.lit("tone"))
    study = replace(one_aspect, ratings=Ratings(frame=frame))
    alone, with_metric = (protocol(study, metrics=metrics, **FAST) for metrics in ("none", "m1"))
    for result in (alone, with_metric):
        (note,) = [note for note in result.notes if note.rule == "pairs-without-annotators"]
        message = "2 pairs of systems have no human-rated item for aspect 'tone' and are excluded"
        assert note == Note(rule="pairs-without-annotators", message=message, count=2, aspect="tone")
        assert result.reference["pairs"].item() == 4
    selected = scores_of(2, items=100)
    selected[0, selected[1, :, 0] <= selected[1, :, 1]] = np.nan  # annotators rate items on which m1 prefers S0 to S1
    (note,) = [note for note in protocol(study_of(selected), metrics="m1", **FAST).notes if note.rule == "not-random"]
    assert note.message.endswith(
        "), so the results may differ from results for items that are drawn at random. Let annotators rate a random "
        "part of the "
        "items"
    )
    rules = [note.rule for note in alone.notes]
    assert "repeated-looks" in rules
    assert "pairs-without-annotators" not in {note.rule for note in protocol(study_of(scores_of(2)), **FAST).notes}
    tested = protocol(study_of(scores_of(2)), stopping=Stopping(boundary="pocock"), **FAST)
    assert "repeated-looks" not in {note.rule for note in tested.notes}
    both = protocol(study_of(scores_of(2)), stopping=[Stopping(boundary="pocock"), Stopping(budget=9)], **FAST)
    assert "repeated-looks" in {note.rule for note in both.notes}


@pytest.mark.parametrize(("budget", "unannotated"), [(5, 1), (6, 0)])
def test_a_budget_below_the_number_of_pairs_is_noted(budget: int, unannotated: int) -> None:
    result = protocol(study_of(scores_of(0, items=20)), stopping=Stopping(budget=budget), **FAST)
    counts = [note.count for note in result.notes if note.rule == "pairs-never-annotated"]
    assert counts == [1] * unannotated


def test_notes_on_metrics_are_left_out_without_metrics() -> None:
    human = pl.DataFrame({"item": [f"i{k}" for k in range(20)] * 2, "system": ["A"] * 20 + ["B"] * 20}).with_columns(
        rater=pl.lit("ann"), kind=pl.lit("human"), score=pl.Series([*([1.0] * 40)])
    )
    metric = human.with_columns(rater=pl.lit("m1"), kind=pl.lit("metric"), score=pl.lit(2.0))
    study = cu.read(pl.concat([human, metric]))
    rules = [{note.rule for note in protocol(study, metrics=metrics, **FAST).notes} for metrics in ("none", "m1")]
    assert "all-ties" in rules[0] & rules[1]


def test_rows_by_metric_estimator_and_rule() -> None:
    study = study_of(scores_of(9, items=20, raters=3))
    rules = [Stopping(looks=[10, 20]), Stopping(boundary=2.5)]
    options = {"metrics": "m1,m2", "stopping": rules, "replications": 2, "resamples": 0}
    table = protocol(study, estimator=["ppi", "human"], ideal=50, **options).protocol
    names = [str(rule) for rule in rules]
    assert table.select("metric", "estimator", "stopping").rows() == [
        *(("none", "human", name) for name in [*names, "decided"]),
        *((metric, "ppi", name) for metric in ("m1", "m2", "ideal") for name in names),
    ]
    assert protocol(study, estimator="human", ideal=50, **options).protocol["metric"].to_list() == ["none"] * 3
    assert table.filter(metric="none")["null_error"].null_count() == 3
    curve = protocol(study, estimator="human", **options).curve
    assert curve.filter(stopping=names[0])["round"].to_list() == [1, 2]
    assert curve.filter(stopping=names[0])["annotations"].to_list()[0] == 60
    for row in table.to_dicts():
        assert row["correct"] + row["inversion"] + row["omission"] + row["insertion"] == pytest.approx(1)
