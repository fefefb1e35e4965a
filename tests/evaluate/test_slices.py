"""Slices of items in agreement, favoritism and consistency have the results of a study of their items alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import custodes as cu
from custodes.cli import app
from custodes.command_line import call
from custodes.evaluate.slices import Ratios, slice_columns, slice_notes
from tests.messages import exactly

SYSTEMS = ("a", "b", "c", "d", "e", "f")
DOMAINS = ("law", "news", "sport")


def scored(items: int = 90) -> cu.Study:
    """Return scores of six systems by an annotator and two metrics; `blind` is noise on the items of law."""
    rng = np.random.default_rng(20_260_201)
    quality = rng.normal(size=(items, len(SYSTEMS))) + np.linspace(-0.5, 0.5, len(SYSTEMS))
    good = quality + 0.4 * rng.normal(size=quality.shape)
    blind = np.where((np.arange(items) % 3 == 0)[:, None], rng.normal(size=quality.shape), good)
    rows = [
        (f"i{i:02}", DOMAINS[i % 3], system, quality[i, k], good[i, k], blind[i, k])
        for i in range(items)
        for k, system in enumerate(SYSTEMS)
    ]
    names = ["item", "domain", "system", "human_rating", "good", "blind"]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    scores = ["human:{rater:human_rating}", "metric:{rater:good,blind}"]
    return cu.read(frame, columns={"item": "item", "system": "system", "group": "domain", "score": scores})


@pytest.fixture(scope="module")
def study() -> cu.Study:
    return scored()


def test_agreement_in_a_slice_is_that_of_its_items(study: cu.Study) -> None:
    slices = cu.agreement(study, by="group", resamples=0, compare_by=()).slices
    assert slices.height == 2 * len(DOMAINS)
    assert set(slices["statistic"]) == {"sample_accuracy"}
    for domain in DOMAINS:
        alone = cu.agreement(study, group=domain, resamples=0, compare_by=()).metrics
        both = slices.filter(slice=domain).join(alone, on="metric")
        np.testing.assert_allclose(both["value"], both["sample_accuracy"])
    findings = slices.filter(pl.col("finding") != "")
    assert findings.filter(metric="blind", slice="law")["finding"].to_list() == ["lower"]
    assert set(findings["metric"]) == {"blind"}


def test_favoritism_in_a_slice_is_that_of_its_items(study: cu.Study) -> None:
    slices = cu.favoritism(study, by="group", resamples=0).slices
    for domain in DOMAINS:
        alone = cu.favoritism(study, group=domain, resamples=0)
        rows = slices.filter(slice=domain)
        assert rows["n"].unique().to_list() == [30]
        both = rows.join(alone.partiality, on=["metric", "system"], how="left", suffix="_alone")
        for name in ("partiality", "p_value"):
            np.testing.assert_allclose(both[name], both[f"{name}_alone"], err_msg=name)
        family = rows.join(alone.partiality, on=["metric", "system"], suffix="_alone").drop_nulls("p_adjusted")
        assert (family["p_adjusted"] >= family["p_adjusted_alone"] - 1e-12).all()


def test_consistency_in_a_slice_is_that_of_its_items() -> None:
    rng = np.random.default_rng(20_260_202)
    rows = []
    for i in range(120):
        for places, order in (("AB", 0), ("BA", 1)):
            first = rng.random() < (0.95 if i % 2 else 0.5)
            rows.append((f"i{i}", ("code", "text")[i % 2], places[0], places[1], ("a", "b")[not first], order))
    names = ["item", "topic", "model_a", "model_b", "winner", "turn"]
    battles = pl.DataFrame(rows, schema=names, orient="row").with_columns(
        judge=pl.lit("j"), winner=pl.when(pl.col("winner") == "a").then(pl.lit("model_a")).otherwise(pl.lit("model_b"))
    )
    roles = {"item": "item", "system_a": "model_a", "system_b": "model_b", "winner": "winner", "rater": "judge"}
    study = cu.read(battles.drop("turn"), columns=roles | {"group": "topic"})
    slices = cu.consistency(study, by="group", resamples=0).slices
    assert set(slices["statistic"]) == {"consistency", "first_rate"}
    for topic in ("code", "text"):
        alone = cu.consistency(study, group=topic, resamples=0).orders
        for statistic in ("consistency", "first_rate"):
            value = slices.filter(slice=topic, statistic=statistic)["value"].item()
            assert value == pytest.approx(alone[statistic].item())
    findings = slices.filter(statistic="first_rate", slice="text")
    assert findings["finding"].item() == "higher"
    assert findings["difference"].item() > 0.2


def test_every_item_of_a_large_study_is_counted() -> None:
    n_of_group = {"law": 801, "news": 1_400}
    groups = [group for group, n in n_of_group.items() for _ in range(n)]
    items = pl.DataFrame({"item": [f"i{i}" for i in range(len(groups))], "group": groups})
    preferences = pl.Series([None, 1, -1, 0] * 551)[: len(groups)]
    labels = (pl.lit(text).alias(name) for name, text in (("system_a", "A"), ("system_b", "B"), ("rater", "j")))
    verdicts = items.select("item", *labels, kind=pl.lit("metric"), preference=preferences)
    slices = cu.consistency(cu.read(verdicts, items=items), by="group", resamples=0).slices
    assert dict(slices.select("slice", "n").iter_rows()) == n_of_group


def test_quality_is_no_bias_for_the_first_position() -> None:
    """The judge is unbiased and sees one order; the system that is shown first is better on one topic only."""
    rng = np.random.default_rng(20_260_206)
    rows = [
        (f"i{i}", ("code", "text")[i % 2], "A", "B", "j", "metric", "ab", 1 if rng.random() < (0.9, 0.3)[i % 2] else -1)
        for i in range(120)
    ]
    names = ["item", "topic", "system_a", "system_b", "rater", "kind", "order", "preference"]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    items = frame.select("item", group="topic")
    slices = cu.consistency(cu.read(frame.drop("topic"), items=items), by="group", resamples=0).slices
    assert "first_rate" not in set(slices["statistic"])


def test_labels_are_sliced_by_any_column_of_the_file() -> None:
    rng = np.random.default_rng(20_260_203)
    n = 200
    human = rng.random(n) < 0.6
    judge = np.where(rng.random(n) < np.where(np.arange(n) % 2, 0.95, 0.6), human, ~human)
    words = np.array(["fail", "pass"])
    frame = pl.DataFrame(
        {
            "id": range(n),
            "topic": ["tax", "tone"] * (n // 2),
            "judge": words[judge.astype(int)],
            "human": words[human.astype(int)],
        }
    )
    answer = cu.agreement(frame, by="topic")
    assert answer.metrics.is_empty()
    assert answer.labels["n_labelled"].to_list() == [n]
    right = (judge == human).reshape(-1, 2).mean(axis=0)
    np.testing.assert_allclose(answer.slices["value"], right)
    assert answer.slices["finding"].to_list() == ["lower", "higher"]


def test_numbers_of_a_text_file_have_slices_between_quartiles(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    labels = [rng.choice(["pass", "fail"], size=200) for _ in range(2)]
    latency = pl.Series(rng.permutation(200)).set(pl.Series(np.arange(200) < 8), None)
    table = pl.DataFrame({"id": range(200), "judge": labels[0], "expert": labels[1], "latency": latency})
    table = table.with_columns(turn=pl.col("id") % 3)
    table.write_csv(tmp_path / "labels.csv")
    for by in ("latency", "turn"):
        slices = cu.rates(tmp_path / "labels.csv", by=by).slices
        assert slices.equals(cu.rates(table, by=by).slices)
        assert slices.height == {"latency": 4, "turn": 3}[by]


def test_measures_of_labels_are_those_of_rates() -> None:
    rng = np.random.default_rng(20_260_204)
    words = np.array(["good", "bad"])
    frame = pl.DataFrame({"id": range(80), "judge": rng.choice(words, 80), "human": rng.choice(words, 80)})
    labels, judges = cu.agreement(frame).labels, cu.rates(frame).judges
    for name in ("accuracy", "kappa", "ac1", "mcc", "balanced_accuracy", "alpha"):
        assert labels[name].item() == pytest.approx(judges[name].item()), name


def test_labels_alone_have_no_picture_of_statistics() -> None:
    frame = pl.DataFrame({"id": range(40), "judge": ["pass", "fail"] * 20, "human": ["pass"] * 20 + ["fail"] * 20})
    with pytest.raises(cu.CustodesError, match="agreement_intervals: the result has no rows to draw"):
        cu.agreement(frame).plot()


def test_categories_have_no_better_system() -> None:
    rng = np.random.default_rng(20_260_205)
    words = np.array(["refund", "praise", "bug"])
    columns = {name: rng.choice(words, 60) for name in ("judge", "human")}
    frame = pl.DataFrame({"id": np.repeat(np.arange(30), 2), "system": ["a", "b"] * 30, **columns})
    for question in (cu.leaderboard, cu.favoritism, cu.ranking, cu.complementarity):
        with pytest.raises(
            cu.CustodesError,
            match=exactly(
                "table: the labels (bug, praise, refund) have no order, so they do not say which output is "
                "better; use rates, which compares the rate of each label, write ordered labels as numbers"
            ),
        ):
            question(frame)
    assert cu.agreement(frame).metrics.is_empty()


@pytest.mark.parametrize(
    ("by", "message"),
    [
        (
            "topics",
            "by='topics': no such column; columns: group; if the file has this column, read the file with "
            "--column group=topics and set by='group'",
        ),
        (
            "system",
            "by='system' is not allowed, because a slice must contain comparisons of systems; give a column of items",
        ),
    ],
)
def test_a_column_without_slices_is_named(study: cu.Study, by: str, message: str) -> None:
    for question in (cu.agreement, cu.favoritism, cu.consistency):
        with pytest.raises(cu.CustodesError, match=exactly(message)):
            question(study, by=by, resamples=0)


def test_by_is_refused_where_nothing_is_compared_between_slices() -> None:
    rows = [(f"i{i}", DOMAINS[i % 3], system, "ann", "human", i % 4) for i in range(30) for system in SYSTEMS]
    names = ["item", "domain", "system", "rater", "kind", "score"]
    humans = cu.read(pl.DataFrame(rows, schema=names, orient="row"), columns={"group": "domain"})
    for summary in (cu.verdict, cu.report):
        with pytest.raises(
            cu.CustodesError,
            match=exactly(
                "by='group' has no effect: slices are compared for metrics and judges, and table has none. "
                "To rank the systems on the items of one group, set group='NAME'"
            ),
        ):
            summary(humans, by="group", resamples=0)
        with pytest.raises(cu.CustodesError, match="by='topic': no such column"):
            summary(humans, by="topic", resamples=0)
    with pytest.raises(TypeError, match="'by': This question does not compare slices; .*group='NAME'"):
        cu.leaderboard(humans, by="group")  # type: ignore[call-arg]
    with pytest.raises(
        cu.CustodesError, match=r"option: .*--by. This question does not compare slices; .* --group 'NAME'"
    ):
        call(app(), ["leaderboard", "demo", "--by", "group"])


def test_one_slice_is_not_compared(study: cu.Study) -> None:
    for question in (cu.agreement, cu.consistency):
        result = question(study, by="group", group="law", resamples=0)
        (note,) = (note for note in result.notes if note.rule == "slices-not-compared")
        assert note.message == "slices are not compared: the column 'group' has only the value 'law'"
    verdict = cu.verdict(study, by="group", group="law", resamples=50).verdict.filter(kind="slices")
    assert verdict["text"].to_list()[-1] == "Slices are not compared: the column 'group' has only the value 'law'."


@pytest.mark.parametrize(
    ("slice_of_item", "labels", "counts", "reason"),
    [
        ([-1, -1, -1], ["j"], [1, 1, 1], "the column 'topic' has no values"),
        ([1, -1, 1], ["j"], [1, 1, 1], "the column 'topic' has only the value 'b'"),
        ([0, 1, 1], [], [], "no rater has verdicts in both orders, repeated verdicts or labels, or failures"),
        ([0, 1, 1], ["j"], [0, 0, 0], "there is no comparison of two systems"),
        ([0, 1, 1], ["j"], [0, 1, 0], ""),
        ([0, 1, -1], ["j"], [0, 1, 0], "1 items without a value of 'topic' are in no slice"),
    ],
)
def test_the_note_says_why_slices_are_not_compared(
    slice_of_item: list[int], labels: list[str], counts: list[int], reason: str
) -> None:
    sums = np.array(counts, dtype=float).reshape(len(labels), 3)
    ratios = Ratios(labels=[(name, "rate") for name in labels], numerator=sums, denominator=sums, units=np.arange(3))
    slices = (("a", "b"), np.array(slice_of_item))
    messages = [note.message for note in slice_notes("topic", ratios, slices, "tone")]
    is_compared = not reason or "no slice" in reason
    assert messages == [reason if is_compared else f"slices are not compared for aspect 'tone': {reason}"] * bool(
        reason
    )
    assert bool(slice_columns("j", ratios, slices, confidence=0.95, alpha=0.05)) is is_compared


def test_a_note_counts_items_and_outputs_without_a_slice() -> None:
    items = pl.DataFrame({"item": range(120), "group": np.array(["law", "news", ""])[np.arange(120) % 3]})
    rows = [(k, s, r, k % 7 + s) for k in range(120) for s in (0, 1) for r in ("human", "judge")]
    scores = pl.DataFrame(rows, schema=["item", "system", "rater", "score"], orient="row")
    study = cu.read(scores, items=items)
    for question in (cu.agreement, cu.favoritism):
        notes = question(study, by="group", resamples=0).notes
        assert [note.message for note in notes if note.rule == "no-slice"] == [
            "40 items without a value of 'group' are in no slice"
        ]
    words = np.array(["pass", "fail"])[np.arange(120) % 2]
    labels = items.select(id="item", topic=pl.col("group").replace("", None)).with_columns(human=words, judge=words)
    for question in (cu.agreement, cu.rates):
        notes = question(labels, by="topic").notes
        assert [note.message for note in notes if note.rule == "no-slice"] == [
            "40 outputs without a value of 'topic' are in no slice"
        ]


def test_the_verdict_without_human_ratings_has_slices() -> None:
    group, failures = np.repeat(["law", "news"], 60), np.r_[np.zeros(60, bool), np.arange(60) % 2 == 0]
    items = pl.DataFrame({"item": [f"i{i}" for i in range(120)], "group": group})
    labels = (pl.lit(text).alias(name) for name, text in (("system_a", "A"), ("system_b", "B"), ("rater", "j")))
    preference = pl.when(pl.Series(failures)).then(None).otherwise(1 - 2 * (pl.int_range(pl.len()) % 2))
    verdicts = items.select("item", *labels, kind=pl.lit("metric"), preference=preference)
    lines = cu.verdict(cu.read(verdicts, items=items), by="group", resamples=50).verdict.filter(kind="slices")["text"]
    assert "On news, j gives no readable verdict significantly more often: in 50 % of cases, elsewhere in 0 %." in lines
    same = verdicts.with_columns(preference=pl.when(pl.Series(np.arange(120) % 3 == 0)).then(None).otherwise(1))
    (line,) = cu.verdict(cu.read(same, items=items), by="group", resamples=50).verdict.filter(kind="slices")["text"]
    assert line == "No finding in a slice is significant (number of tests: consistency 2)."


def test_the_verdict_names_slices_that_differ(study: cu.Study) -> None:
    lines = cu.verdict(study, by="group", resamples=50).verdict.filter(kind="slices")["text"].to_list()
    assert any(text.startswith("On law, blind agrees significantly worse with the annotators: in ") for text in lines)
    assert not any("good" in text for text in lines)
    assert cu.verdict(study, resamples=50).verdict.filter(kind="slices").is_empty()


def test_the_report_has_the_slices_of_each_question(study: cu.Study) -> None:
    html = cu.report(study, by="group", metrics="good", resamples=20).html
    # agreement and favoritism: no verdict has an order or a repetition
    assert html.count('aria-label="By slice (group)"') == 2


def test_outputs_of_an_item_in_two_slices_are_refused_where_systems_are_compared() -> None:
    table = pl.DataFrame(
        {
            "item": [k // 2 for k in range(80)],
            "system": ["A", "B"] * 40,
            "human": [k % 2 for k in range(80)],
            "judge": [(k // 3) % 2 for k in range(80)],
            "tone": ["x", "y", "y", "x"] * 20,
        }
    )
    message = (
        "by='tone': the outputs of 40 items (0, 1 and 38 more) differ in this column, but all outputs of an item must "
        "be in one slice, so that systems can be compared; give a column of items"
    )
    with pytest.raises(cu.OptionError, match=exactly(message)):
        cu.favoritism(table, by="tone")
