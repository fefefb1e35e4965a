"""The replayed protocol: by hand, reproducibility by seed, bad input."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy.stats import entropy

from custodes.data.items import Items
from custodes.data.raters import Raters
from custodes.data.ratings import Ratings
from custodes.data.study import Study
from custodes.errors import OptionError
from custodes.evaluate.protocol.protocol import protocol
from custodes.evaluate.protocol.stopping import Stopping
from custodes.evaluate.ranking import ranking
from tests.evaluate.protocol.scores import scores_of
from tests.evaluate.studies import study_of

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
        assert ("infinite-kld" in {note.rule for note in result.notes}) == (0 in mode)


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
        ({"estimator": "ppi"}, "needs a metric"),
        ({"estimator": []}, "at least one estimator"),
        ({"stopping": []}, "at least one estimator"),
        ({"stopping": [Stopping(), Stopping(gamma=0.1)]}, "different gamma"),
    ],
)
def test_bad_options(options: dict, message: str) -> None:
    with pytest.raises(OptionError, match=message):
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
    messages = [note.message for note in result.notes if note.rule == "saving"]
    assert not any("human, decided:" in message for message in messages)  # It has too many false decisions.
    assert any(note.rule == "of-this-data" for note in result.notes)


def test_a_saving_is_told_only_where_it_is_one() -> None:
    # Half of the pairs differ greatly and are decided at once; the others get the annotations that this saves.
    rng = np.random.default_rng(17)
    latent = np.array([0.0, 0.0, 0.45, 3.0, 3.0, 3.45]) + rng.normal(size=(80, 6))
    rule = Stopping(looks=(8, 20, 40, 80), boundary="pocock")
    result = protocol(study_of(latent[np.newaxis]), stopping=rule, null=True, resamples=0, replications=40)
    row = result.protocol.row(0, named=True)
    assert row["gain"] > 2 * row["gain_sd"] / np.sqrt(40)
    assert row["null_error"] <= 0.05
    (message,) = [note.message for note in result.notes if note.rule == "saving"]
    assert f"{row['correct']:.0%} of the pairs are decided as with all annotations" in message
    assert f"difference {row['gain']:.2f}, standard error {row['gain_sd'] / np.sqrt(40):.3f} over 40 orders" in message
    unknown = protocol(study_of(latent[np.newaxis]), stopping=rule, resamples=0, replications=40)
    assert not any(note.rule == "saving" for note in unknown.notes)


@pytest.mark.parametrize(("stopping", "added"), [(Stopping(), False), (Stopping(looks=[5, 10]), True)])
def test_a_note_explains_the_row_of_the_rule_of_the_paper(stopping: Stopping, added: bool) -> None:
    result = protocol(study_of(scores_of(0, items=20)), stopping=stopping, replications=2, resamples=0)
    assert result.protocol.height == 1 + added
    messages = [note.message for note in result.notes if note.rule == "paper-rule"]
    assert ["estimator='human' with stopping='decided' is the rule" in message for message in messages] == [
        True
    ] * added
