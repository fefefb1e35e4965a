"""Plans: closed forms, the protocol's replay, the saving by a metric, bad input."""

from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.answers.shared_arguments import settings
from custodes.errors import OptionError
from custodes.evaluate.protocol.plan import plan
from custodes.evaluate.protocol.protocol import protocol
from custodes.evaluate.protocol.stopping import Stopping
from custodes.evaluate.protocol.worlds import assumed_world, pilot_worlds
from custodes.stats.stopping.power import human_power
from tests.evaluate.protocol.scores import scores_of
from tests.evaluate.studies import study_of
from tests.messages import exactly


def test_one_look_is_the_exact_power() -> None:
    result = plan(margins=[0.0, 0.3], tie_rate=0.2, items=60, stopping=Stopping(looks=[60]), replications=2000)
    exact = result.power.filter(pl.col("annotations") == 60)
    (row,) = result.plan.rows(named=True)
    # Correct means the better system or, without a difference, no decision; the Monte Carlo sd is about .007.
    second, false = exact["power"][1], exact["wrong"][0]
    assert row["correct"] == pytest.approx((second + 1 - false) / 2, abs=0.03)
    assert row["insertion"] == pytest.approx(false / 2, abs=0.012)
    assert row["inversion"] == pytest.approx(exact["wrong"][1] / 2, abs=0.005)
    assert row["annotations"] == 60
    assert row["annotations_sd"] == 0


def test_mirrored_margins_have_the_same_power() -> None:
    power = plan(margins=[0.25, -0.25], items=40, replications=2).power
    first, second = power.filter(pl.col("pair") == 1), power.filter(pl.col("pair") == 2)
    for name in ("power", "wrong"):
        assert first[name].to_list() == pytest.approx(second[name].to_list())


def test_a_useful_metric_saves_and_a_useless_one_does_not() -> None:
    options = {"margins": [0.2, 0.4], "metric_items": 5000, "replications": 150, "estimator": "ppi"}
    ideal = plan(channel="ideal", **options)
    useless = plan(channel=np.ones((3, 3)), **options)
    assert ideal.plan["metric"].to_list() == ["none", "ideal"]
    savings = [result.plan.filter(pl.col("metric") != "none")["saving"][0] for result in (ideal, useless)]
    assert savings[0] > 0.15
    assert abs(savings[1]) < 0.12
    assert useless.saving["saving_most"].to_list() == pytest.approx([0, 0])
    perfect = plan(channel=np.eye(3), metric_items=0, margins=[0.2], estimator="ppi", replications=2)
    assert perfect.saving["saving_most"].to_list() == pytest.approx([1.0])
    assert any("Dorner" in note.message for note in ideal.notes)
    assert plan(replications=2).saving.height == 0


def test_pilot_foretells_its_own_protocol() -> None:
    study = study_of(scores_of(0, items=150, strength=0.8))
    planned = plan(study, items=150, replications=100)
    (row,) = planned.plan.rows(named=True)
    replayed = protocol(study, replications=50, resamples=0).protocol.row(0, named=True)
    assert row["annotations"] / 150 == pytest.approx(replayed["share"], abs=0.1)
    assert planned.power["pair"].max() == 6
    with_metric = plan(study, metrics="m1", items=150, metric_items=1000, estimator="poststratified", replications=50)
    assert with_metric.saving["metric"].to_list() == ["m1"] * 6
    assert with_metric.plan["saving"].drop_nulls().item() > 0


def correlation_of(joint: np.ndarray) -> float:
    """Return the correlation of preferences 1, 0, -1 with joint probabilities (3, 3) [human, metric]."""
    values = np.array([1.0, 0.0, -1.0])
    human, metric = values[:, None] - values @ joint.sum(axis=1), values[None, :] - values @ joint.sum(axis=0)
    moments = [(joint * power).sum() for power in (human * metric, human**2, metric**2)]
    return float(moments[0] / np.sqrt(moments[1] * moments[2]))


def test_a_pilots_metric_answers_alike_in_both_orders_of_a_pair() -> None:
    scores = scores_of(3, items=60, systems=3, strength=1.5)
    a, b = np.triu_indices(3, 1)
    human, metric = (np.sign(scores_of_rater[:, a] - scores_of_rater[:, b]).astype(int) for scores_of_rater in scores)
    table = np.ones((3, 3))  # one pseudo-count each as the prior, then every answer, and every answer reversed
    for h, m in zip(human.ravel(), metric.ravel(), strict=True):
        table[1 - h, 1 - m] += 1
        table[1 + h, 1 + m] += 1
    channel = table / table.sum(axis=1, keepdims=True)
    counts = np.stack([(human == kind).sum(axis=0) for kind in (1, 0, -1)], axis=1)
    shares = (counts + 1) / 63
    expected = [correlation_of(scores_of_rater[:, None] * channel) for scores_of_rater in shares]
    saving = plan(study_of(scores), metrics="m1", replications=2, estimator="ppi").saving
    assert saving["saving_most"].to_list() == pytest.approx(np.square(expected))
    assert np.abs(saving["margin"]).max() > 0.3
    reordered = plan(study_of(scores, ["C", "B", "A"]), metrics="m1", replications=2, estimator="ppi").saving
    assert sorted(reordered["saving_most"]) == pytest.approx(sorted(np.square(expected)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"margins": [0.9]}, "margins=[0.9] is not allowed; with tie_rate=0.3, a margin lies between -0.7 and 0.7"),
        ({"margins": "small"}, "margins='small': must be a list of numbers"),
        (
            {"channel": [[1, 0], [0, 1]]},
            "channel is not a valid confusion matrix; give 3x3 counts or proportions (rows: human, columns: "
            "metric) in the order win, tie, loss; no row may contain only zeros",
        ),
        (
            {"channel": [[1, 0, 0], [0, 0, 0], [0, 0, 1]]},
            "channel is not a valid confusion matrix; give 3x3 counts or proportions (rows: human, columns: "
            "metric) in the order win, tie, loss; no row may contain only zeros",
        ),
        (
            {"estimator": "ppi"},
            "estimator='ppi' needs a metric, but metrics='none'; select metrics, or use human or pooled",
        ),
        (
            {"estimator": "pooled"},
            "estimator='pooled' needs the items of a study, which a plan does not simulate; use estimator='human'",
        ),
        (
            {"human": "x"},
            "human selects data from a pilot study, but no pilot is given; omit this argument, or give a pilot",
        ),
    ],
)
def test_bad_options(options: dict, message: str) -> None:
    with pytest.raises(OptionError, match=exactly(message)):
        plan(replications=2, **options)
    with pytest.raises(
        OptionError, match=exactly("margins and a pilot study contradict each other; omit margins or the pilot study")
    ):
        plan(study_of(scores_of(0, items=6)), margins=[0.1])


def test_power_is_undefined_if_no_system_is_better_and_pairs_have_the_names_of_the_pilot() -> None:
    power = plan(margins=[0.0, 0.3], items=40, replications=2).power
    assert (power["power"].is_null() == (power["margin"] == 0)).all()
    zero = power.filter(margin=0.0, annotations=40).row(0, named=True)
    exact = human_power(np.array([[0.35, 0.3, 0.35]]), np.array([40]), gamma=0.05)
    assert zero["wrong"] == pytest.approx(sum(probabilities[0] for probabilities in exact))
    assert power["system_a"].is_null().all()
    result = plan(cu.read("demo"), aspect="coherence", metrics="judge", items=120, replications=2)
    assert [(note.rule, note.aspect) for note in result.notes] == [
        ("independent-items", "coherence"),
        ("most-saved", ""),
    ]
    systems = sorted(cu.read("demo").systems)
    for table in (result.power, result.saving):
        pairs = table.unique("pair", maintain_order=True).select("system_a", "system_b").rows()
        assert pairs == list(combinations(systems, 2))


def test_assumed_proportions_have_the_margins_and_the_tie_rate() -> None:
    world = assumed_world([0.3, -0.7, 0.0, 0.7], 0.3, [[8, 1, 1], [1, 2, 1], [0, 0, 5]], 4)
    np.testing.assert_allclose(world.shares.sum(axis=1), 1)
    np.testing.assert_allclose(world.shares[:, 0] - world.shares[:, 2], [0.3, -0.7, 0, 0.7], atol=1e-12)
    np.testing.assert_allclose(world.shares[:, 1], 0.3)
    assert world.shares.min() >= 0
    assert world.possible.shape == (4, 4, 3)
    np.testing.assert_array_equal(world.possible[3], world.shares)
    np.testing.assert_allclose(world.channel, [[0.8, 0.1, 0.1], [0.25, 0.5, 0.25], [0, 0, 1]])
    assert (world.metric, world.systems, world.clustered) == ("channel", ([None] * 4, [None] * 4), False)
    assumed = assumed_world(None, 0.0, None, 2)
    np.testing.assert_allclose(assumed.shares[:, 0] - assumed.shares[:, 2], [0.0, 0.1, 0.2, 0.3, 0.4], atol=1e-12)
    assert (assumed.metric, assumed.channel) == ("none", None)
    assert assumed_world([1.0, -1.0], 0.0, "ideal", 2).metric == "ideal"


@pytest.mark.parametrize(
    ("margins", "tie_rate", "channel", "message"),
    [
        ([0.1], 1.0, None, "tie_rate=1.0 is not allowed; give a proportion of at least 0 and less than 1"),
        ([0.1], -0.1, None, "tie_rate=-0.1 is not allowed; give a proportion of at least 0 and less than 1"),
        (
            [0.1, -0.8],
            0.3,
            None,
            "margins=[0.1, -0.8] is not allowed; with tie_rate=0.3, a margin lies between -0.7 and 0.7",
        ),
        (
            [0.1],
            0.3,
            "best",
            "channel='best' is not allowed; give a 3x3 table (rows: human, columns: metric), or 'ideal'",
        ),
        (
            [0.1],
            0.3,
            [[1, 0, 0], [0, -1, 2], [0, 0, 1]],
            "channel is not a valid confusion matrix; give 3x3 counts or proportions (rows: human, columns: "
            "metric) in the order win, tie, loss; no row may contain only zeros",
        ),
        (
            [0.1],
            0.3,
            [[1, 0, 0], [0, np.inf, 2], [0, 0, 1]],
            "channel is not a valid confusion matrix; give 3x3 counts or proportions (rows: human, columns: "
            "metric) in the order win, tie, loss; no row may contain only zeros",
        ),
        (
            [0.1],
            0.3,
            [["a", 0, 0]] * 3,
            "channel is not a valid confusion matrix; give 3x3 counts or proportions (rows: human, columns: "
            "metric) in the order win, tie, loss; no row may contain only zeros",
        ),
    ],
)
def test_assumptions_that_are_impossible(margins: list[float], tie_rate: float, channel: object, message: str) -> None:
    with pytest.raises(OptionError, match=exactly(message)):
        assumed_world(margins, tie_rate, channel, 2)


@pytest.mark.parametrize(("items", "curve"), [(9, []), (10, [10]), (60, [10, 20, 40, 60]), (99, [10, 20, 40, 60, 80])])
def test_the_power_curve_has_round_numbers_up_to_the_items(items: int, curve: list[int]) -> None:
    power = plan(margins=[0.3], items=items, replications=2).power
    assert [n for n in power["annotations"].to_list() if n != items] == [n for n in curve if n != items]


def test_counts_of_a_perfect_metric_decide_without_annotations() -> None:
    options = {"margins": [0.9, -0.9], "tie_rate": 0.1, "estimator": "naive", "items": 30, "replications": 20}
    for metric_items in (0, 200):
        rows = plan(channel=np.eye(3), metric_items=metric_items, **options).plan
        naive = rows.filter(estimator="naive").row(0, named=True)
        assert (naive["correct"], naive["inversion"], naive["decided"]) == (1, 0, 1)
    reversed_metric = plan(channel=np.eye(3)[::-1], metric_items=200, **options).plan.filter(estimator="naive")
    assert reversed_metric["inversion"].item() == 1
    none = plan(channel=np.ones((3, 3)), metric_items=20_000, **options).plan.filter(estimator="naive")
    assert none["decided"].item() < 0.3  # a metric without information decides at about the level


def test_the_saving_compares_rules_with_themselves() -> None:
    rules = [Stopping(looks=[10, 20, 40]), Stopping(looks=[40])]
    options = {"margins": [0.3, 0.5], "items": 40, "metric_items": 2000, "channel": "ideal", "replications": 40}
    table = plan(estimator=["ppi", "poststratified"], stopping=rules, **options).plan
    assert table["estimator"].to_list() == ["human", "ppi", "poststratified"] * 2
    assert table["stopping"].to_list() == ["decided, looks 10,20,40"] * 3 + ["decided, looks 40"] * 3
    for rule in ("decided, looks 10,20,40", "decided, looks 40"):
        rows = table.filter(stopping=rule).to_dicts()
        assert rows[0]["saving"] is None
        for row in rows[1:]:
            assert row["saving"] == pytest.approx(1 - row["annotations"] / rows[0]["annotations"])
        assert [row["metric"] for row in rows] == ["none", "ideal", "ideal"]
    assert table["annotations"].to_list()[3:] == [40, 40, 40]
    assert (
        table.select(pl.sum_horizontal("correct", "inversion", "omission", "insertion")) - 1
    ).to_series().abs().max() < 1e-9


@pytest.mark.parametrize(
    ("ask", "options", "message"),
    [
        # 100 (replications / 3 + 10) + 60 replications values for each pair
        (plan, {"items": 100, "replications": 10**9}, "replications=1000000000: needs about 747 GB"),
        (plan, {"items": 10**9, "replications": 2}, "items=1000000000: needs about 85 GB"),
        (
            plan,
            {"items": 5 * 10**6, "replications": 2, "stopping": Stopping(looks=[9])},
            "items=5000000: needs about 2 GB",
        ),
        # 4 values for each of 240 annotations
        (protocol, {"replications": 10**6}, "replications=1000000: needs about 8 GB"),
        (protocol, {"replications": 10**6, "null": True}, "replications=1000000: needs about 15 GB"),
    ],
)
def test_what_does_not_fit_into_memory_is_refused(
    ask: Any, options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("custodes.memory.machine_memory", lambda: 1e9)
    study = [study_of(scores_of(0))] if ask is protocol else []
    with pytest.raises(OptionError, match=f"^{message}"):
        ask(*study, **options)


def test_power_columns_by_pair_and_number_of_annotations() -> None:
    power = plan(margins=[0.2, -0.4], tie_rate=0.2, items=45, replications=2, stopping=Stopping(gamma=0.1)).power
    assert power["pair"].to_list() == [1] * 4 + [2] * 4
    assert power["annotations"].to_list() == [10, 20, 40, 45] * 2
    assert power["margin"].to_list() == [0.2] * 4 + [-0.4] * 4
    better, worse = human_power(np.array([[0.5, 0.2, 0.3]] * 4), np.array([10, 20, 40, 45]), gamma=0.1)
    assert power["power"].to_list()[:4] == pytest.approx(better.tolist())
    assert power["wrong"].to_list()[:4] == pytest.approx(worse.tolist())
    better, worse = human_power(np.array([[0.2, 0.2, 0.6]] * 4), np.array([10, 20, 40, 45]), gamma=0.1)
    assert power["power"].to_list()[4:] == pytest.approx(worse.tolist())
    assert power["wrong"].to_list()[4:] == pytest.approx(better.tolist())


def test_worlds_of_a_pilot_have_its_pairs_and_their_posterior_proportions() -> None:
    scores = scores_of(5, items=40, systems=4, raters=3)
    scores[0, :, 3] = np.nan
    scores[0, ::4, 1] = np.nan
    study = study_of(scores)
    documents = pl.DataFrame({"item": [f"i{k}" for k in range(40)], "cluster": [f"d{k // 2}" for k in range(40)]})
    for data, is_clustered in ((study, False), (study.describe(items=documents), True)):
        worlds = list(pilot_worlds(data, settings({"metrics": "*"}), 4000, np.random.default_rng(0)))
        assert [(world.metric, world.aspect, world.clustered) for world in worlds] == [
            (metric, "", is_clustered) for metric in ("m1", "m2")
        ]
        for world in worlds:
            assert world.systems == (["S0", "S0", "S1"], ["S1", "S2", "S2"])
            signs = np.stack([np.sign(scores[0][:, a] - scores[0][:, b]) for a, b in ((0, 1), (0, 2), (1, 2))])
            counts = np.stack([(signs == sign).sum(axis=1) for sign in (1, 0, -1)], axis=1)
            np.testing.assert_allclose(world.shares, (counts + 1) / (counts.sum(axis=1, keepdims=True) + 3))
            assert world.possible.shape == (4000, 3, 3)
            np.testing.assert_allclose(world.possible.sum(axis=2), 1)
            np.testing.assert_allclose(world.possible.mean(axis=0), world.shares, atol=0.09)
    alone = list(pilot_worlds(study, settings({"metrics": "none"}), 2, np.random.default_rng(0)))
    assert [(world.metric, world.channel) for world in alone] == [("none", None)]


def test_the_view_of_the_power_has_a_column_for_each_number_of_annotations() -> None:
    result = plan(margins=[0.3, 0.0], items=15, replications=2)
    (view,) = (view for view in result.views() if "better system" in view.title)
    assert view.header == ("margin", "10", "15")
    power = result.power.filter(pair=1)["power"].to_list()
    assert view.rows[0] == ("0.30", *(f"{value:.2f}" for value in power))
    assert view.numeric == (False, True, True)
    pilot = plan(study_of(scores_of(0, items=15, systems=2)), items=15, replications=2)
    (view,) = (view for view in pilot.views() if "better system" in view.title)
    assert view.header == ("system_a", "system_b", "margin", "10", "15")
    assert view.rows[0][:2] == ("S0", "S1")
    assert view.numeric == (False, False, False, True, True)
