from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import custodes as cu
from custodes.errors import InputError, OptionError
from custodes.evaluate.leaderboard import bradley_terry
from tests.evaluate.leaderboard.boards import QUICK, battles, by, of, rules
from tests.messages import exactly


def test_strengths_order_ranks_and_groups() -> None:
    board = cu.leaderboard(cu.read(by(battles(np.random.default_rng(0)), "ann", "human")), **QUICK)
    rows = of(board)
    assert list(rows) == list("ABCDE")  # the strongest first
    for system, truth in zip("ABCDE", (1.0, 0.5, 0.0, -0.5, -1.0), strict=True):
        row = rows[system]
        assert row["strength_low"] < truth < row["strength_high"]
        assert row["rank_low"] <= row["rank"] <= row["rank_high"]
        assert row["part"] == 1
        assert row["may_be_first"] is (row["rank_low"] == 1)
    assert sum(row["strength"] for row in rows.values()) == pytest.approx(0)
    assert sum(row["battles"] for row in rows.values()) == 2 * 1500
    assert rows["A"]["rank"] == 1
    assert not set(rows["A"]["group"]) & set(rows["C"]["group"])
    pairs = board.pairs.filter(rater="human")
    assert pairs.height == 10
    assert pairs.select(pl.sum_horizontal("wins", "ties", "losses")).sum().item() == 1500
    for row in pairs.iter_rows(named=True):
        share_letter = set(rows[row["system_a"]]["group"]) & set(rows[row["system_b"]]["group"])
        assert (row["decision"] == "=") is bool(share_letter)
        assert row["win_rate"] == pytest.approx(
            (row["wins"] + row["ties"] / 2) / (row["wins"] + row["ties"] + row["losses"])
        )
        assert row["win_rate_low"] <= row["win_rate"] <= row["win_rate_high"]
        assert abs(row["expected"] - row["win_rate"]) < 0.15
    assert board.cycles.is_empty()
    assert not {"cycle", "misfit"} & {*rules(board)}
    (leader,) = board.leaders.rows(named=True)
    assert leader["leader"] == "A"
    assert 0 < leader["removals"] < 1500


@pytest.mark.parametrize("tie_model", ["davidson", "half"])
def test_expected_points_add_up_to_those_that_were_won(tie_model: Any) -> None:
    """By the score equations of both models, each system's points over all battles equal its expected points."""
    table = battles(np.random.default_rng(1)).drop("order")
    board = cu.leaderboard(cu.read(by(table, "ann", "human")), tie_model=tie_model, resamples=0)
    n_battles = pl.sum_horizontal("wins", "ties", "losses")
    pairs = board.pairs.with_columns(gap=(pl.col("expected") - pl.col("win_rate")) * n_battles)
    for system in "ABCDE":
        total = pairs.filter(system_a=system)["gap"].sum() - pairs.filter(system_b=system)["gap"].sum()
        assert total == pytest.approx(0, abs=1e-6)
    assert board.effects["effect"].to_list() == (["ties"] if tie_model == "davidson" else [])


def test_the_first_place_is_held_equal() -> None:
    """A is mostly shown first and the first place wins, so A would rank above B without the adjustment for order."""
    rng = np.random.default_rng(3)
    n = 3000
    a_first = rng.random(n) < 0.8
    won = rng.random(n) < 1 / (1 + np.exp(-np.where(a_first, 1.0, -1.0)))
    table = pl.DataFrame(
        {
            "item": np.arange(n),
            "system_a": "A",
            "system_b": "B",
            "preference": np.where(won, 1, -1),
            "order": np.where(a_first, "ab", "ba"),
        }
    )
    board = cu.leaderboard(cu.read(by(table, "judge", "metric")), **QUICK)
    (effect,) = board.effects.iter_rows(named=True)
    assert effect["effect"] == "shown first"
    assert effect["value_low"] < 1.0 < effect["value_high"]
    assert effect["p_value"] < 0.01
    rows = of(board, "judge")
    assert rows["A"]["strength_low"] < 0 < rows["A"]["strength_high"]
    assert rows["A"]["win_rate_low"] > 0.6
    # With a constant order there is no adjustment.
    always = by(table.with_columns(order=pl.lit("ab")), "judge", "metric")
    assert cu.leaderboard(cu.read(always), resamples=0).effects.height == 0


def longer(rng: np.random.Generator, table: pl.DataFrame, log_odds: float) -> tuple[list[Any], pl.DataFrame]:
    """Return texts, long for E and short for A, and battles with `log_odds` per unit of log length ratio."""
    items, systems = table["item"].to_list(), sorted({*table["system_a"], *table["system_b"]})
    words = {(i, s): int(rng.integers(5, 40)) * (1 + systems.index(s)) for i in items for s in systems}
    texts = [{"item": str(i), "outputs": {s: "word " * words[i, s] for s in systems}} for i in items]
    battle_rows = table.select("item", "system_a", "system_b").rows()
    ratio = np.array([np.log(words[i, a] / words[i, b]) for i, a, b in battle_rows])
    won = rng.random(len(items)) < 1 / (1 + np.exp(-log_odds * ratio))
    return texts, table.with_columns(preference=np.where(won, 1, -1))


def test_a_length_is_held_equal(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    texts, table = longer(rng, battles(rng, n=800, ties=0).drop("order"), 1.0)
    lines = [json.dumps(row) for row in texts]
    (tmp_path / "outputs.jsonl").write_text("\n".join(lines))
    by(table, "judge", "metric").write_csv(tmp_path / "battles.csv")
    study = cu.read(tmp_path / "battles.csv", tmp_path / "outputs.jsonl")
    plain, controlled = (cu.leaderboard(study, covariates=covariates, **QUICK) for covariates in ((), "length"))
    assert of(plain, "judge")["E"]["strength_low"] > 0.2  # E writes the longest texts.
    assert of(controlled, "judge")["E"]["strength_low"] < 0 < of(controlled, "judge")["E"]["strength_high"]
    (effect,) = controlled.effects.iter_rows(named=True)
    assert effect["value_low"] < 1.0 < effect["value_high"]


def test_a_score_is_held_equal_and_is_no_rater_then() -> None:
    board = cu.leaderboard(cu.read("demo"), aspect="fluency", metrics="judge,learned", covariates=["learned"], **QUICK)
    (note,) = [note for note in board.notes if note.rule == "rater-held-equal"]
    assert (note.count, note.message) == (1, "the model adjusts for learned, so there is no ranking by these raters")
    assert board.systems["rater"].unique(maintain_order=True).to_list() == ["human", "judge"]
    effect = board.effects.filter(rater="human", effect="learned").row(0, named=True)
    assert effect["value_low"] > 0  # Annotators prefer the outputs that `learned` prefers.


def test_parts_that_never_met_are_named_and_ranked_apart() -> None:
    rng = np.random.default_rng(8)
    start = battles(rng, strength=(0.5, 0.0, -0.5), n=600)
    right = battles(rng, strength=(0.8, -0.8), n=300)
    names = {"A": "D", "B": "E"}
    right = right.with_columns(pl.col("system_a", "system_b").replace(names), item=pl.col("item") + 1000)
    board = cu.leaderboard(cu.read(by(pl.concat([start, right]), "ann", "human")), **QUICK)
    rows = of(board)
    assert list(rows) == list("ABCDE")
    assert [row["part"] for row in rows.values()] == [1, 1, 1, 2, 2]
    assert [row["rank"] for row in rows.values()] == [1, 2, 3, 1, 2]
    assert {row["group"][0] for row in rows.values()} == {"1", "2"}
    assert rows["D"]["rank_high"] <= 2
    (note,) = [note for note in board.notes if note.rule == "split"]
    assert "A, B, C | D, E" in note.message
    assert board.pairs.height == 4
    assert not board.systems["may_be_first"].null_count()


def test_who_won_everything_is_finite_and_one_end_is_open() -> None:
    table = battles(np.random.default_rng(9), n=300, ties=0)
    unbeaten = table.with_columns(
        preference=pl.when(pl.col("system_a") == "E")
        .then(1)
        .when(pl.col("system_b") == "E")
        .then(-1)
        .otherwise("preference")
    )
    board = cu.leaderboard(cu.read(by(unbeaten, "ann", "human")), **QUICK)
    rows = of(board)
    assert next(iter(rows)) == "E"
    assert np.isfinite(rows["E"]["strength"])
    assert rows["E"]["strength_high"] is None
    assert rows["E"]["strength_low"] > 0
    assert rows["E"]["win_rate"] == 1
    assert rows["E"]["win_rate_low"] < 1
    (note,) = [note for note in board.notes if note.rule == "unbeaten"]
    assert "E won every comparison, so the interval of its strength has only one known bound" in note.message


def test_nothing_but_ties() -> None:
    ties = by(battles(np.random.default_rng(10), n=60, ties=1.0), "ann", "human").with_columns(preference=pl.lit("tie"))
    board = cu.leaderboard(cu.read(ties), **QUICK)
    assert board.systems["strength"].abs().max() < 1e-6
    assert board.systems["group"].unique().to_list() == ["a"]
    assert rules(board)[-1] == "all-ties"


def test_without_resamples_nothing_is_claimed() -> None:
    board = cu.leaderboard(cu.read("demo"), aspect="fluency", metrics="judge", resamples=0)
    ends = [name for name in board.systems.columns if name.endswith(("_low", "_high"))]
    assert len(ends) == 6
    assert board.systems.select(ends).null_count().sum_horizontal()[0] == 6 * board.systems.height
    assert board.systems["may_be_first"].null_count() == board.systems["group"].null_count() == board.systems.height
    assert board.pairs["decision"].null_count() == board.pairs.height


def test_clusters_and_weights() -> None:
    table = by(battles(np.random.default_rng(11), n=300), "ann", "human")
    twice = pl.concat([table, table.with_columns(item=pl.col("item") + 1000)])
    items = twice.select("item", cluster=pl.col("item") % 1000)
    once, doubled, claimed = (
        of(cu.leaderboard(cu.read(data, **more), resamples=400))
        for data, more in ((table, {}), (twice, {"items": items}), (twice, {}))
    )
    for system, row in once.items():
        width = row["strength_high"] - row["strength_low"]
        assert doubled[system]["strength"] == pytest.approx(row["strength"], abs=1e-7)
        assert doubled[system]["strength_high"] - doubled[system]["strength_low"] == pytest.approx(width, rel=0.05)
        assert claimed[system]["strength_high"] - claimed[system]["strength_low"] < 0.8 * width
    weights = table.select("item", weight=pl.when(pl.col("item") < 100).then(2.0).otherwise(1.0))
    more = pl.concat([table, table.filter(pl.col("item") < 100).with_columns(item=pl.col("item") + 1000)])
    weighed, written_out = (
        of(cu.leaderboard(data, resamples=0)) for data in (cu.read(table, items=weights), cu.read(more))
    )
    for system, row in weighed.items():
        for name in ("strength", "win_rate"):
            assert row[name] == pytest.approx(written_out[system][name], abs=1e-7)


def test_a_metric_of_whole_outputs_says_the_same_on_every_aspect(monkeypatch: pytest.MonkeyPatch) -> None:
    forecast = Mock(wraps=bradley_terry.more_battles)
    monkeypatch.setattr(bradley_terry, "more_battles", forecast)
    board = cu.leaderboard(cu.read("demo"), metrics="overlap", **QUICK)
    for table in (board.systems, board.pairs):
        coherence, fluency = (
            table.filter(rater="overlap", aspect=row).drop("aspect") for row in ("coherence", "fluency")
        )
        assert coherence.equals(fluency)
    assert forecast.call_count == 3  # human ratings on two aspects, metric scores on one


@pytest.mark.parametrize(("clusters", "tested"), [(5, False), (8, True)])
def test_too_few_clusters_for_a_significant_difference_give_no_decision(clusters: int, tested: bool) -> None:
    scores = np.random.default_rng(0).normal(0.8, 0.2, (10 * clusters, 1)) * [1, 0, -1]
    items = [f"{i}" for i in range(len(scores))]
    rows = [
        (item, f"S{k}", "h", "human", x) for item, row in zip(items, scores, strict=True) for k, x in enumerate(row)
    ]
    ratings = pl.DataFrame(rows, schema=["item", "system", "rater", "kind", "score"], orient="row")
    documents = pl.DataFrame({"item": items, "cluster": [f"{i % clusters}" for i in range(len(items))]})
    study = cu.read(ratings, items=documents)
    board = cu.leaderboard(study, **QUICK)
    assert ("no-test" in rules(board)) is not tested
    for table, column in (("systems", "rank_low"), ("systems", "may_be_first"), ("pairs", "decision")):
        assert board.to_frame(table)[column].is_not_null().all() is tested
    assert board.pairs["more_comparisons"].is_null().all()
    text = " ".join(cu.verdict(study, resamples=200).verdict["text"])
    assert ("S0 is best" in text) is tested
    assert ("With 5 clusters of items, no difference" in text) is not tested


def test_sides_are_no_systems() -> None:
    table = pl.DataFrame({"item": range(20), "system_a": "chosen", "system_b": "rejected", "preference": 1})
    board = cu.leaderboard(cu.read(by(table, "ann", "human")), **QUICK)
    assert "one-sided-annotators" in rules(board)


def one_system() -> pl.DataFrame:
    return pl.DataFrame({"item": ["1", "2"], "system": "A", "rater": "ann", "kind": "human", "score": [1.0, 2.0]})


def strangers() -> pl.DataFrame:
    rows = {"item": ["1", "2"], "system": ["A", "B"], "score": [1.0, 2.0]}
    return by(pl.DataFrame(rows), "ann", "human")


@pytest.mark.parametrize(
    ("table", "options", "error", "message"),
    [
        (
            one_system,
            {},
            InputError,
            "table: only 1 system (A); a leaderboard needs two or more systems; for rates of labels or of "
            "whole-number scores, use rates, which needs only one system",
        ),
        (
            strangers,
            {},
            InputError,
            (
                "table: no rater compared two systems on the same item; a comparison needs two rated "
                "outputs of one item, or a verdict"
            ),
        ),
        (None, {"tie_model": "rao"}, OptionError, "tie_model='rao'; allowed: davidson, half"),
        (
            None,
            {"covariates": "length"},
            OptionError,
            "covariates='length': demo has no texts whose words could be counted; add a file of outputs",
        ),
        (
            None,
            {"covariates": "lenght"},
            OptionError,
            "covariates='lenght': no rater with this name gave scores (did you mean 'length'?); allowed are "
            "length (needs texts) and raters with scores (ann1, ann2, ann3, learned, selfeval, overlap, "
            "overlap-stem, judge and 2 more)",
        ),
        (
            None,
            {"covariates": ["lerned"]},
            OptionError,
            "covariates='lerned': no rater with this name gave scores (did you mean 'learned'?); allowed are "
            "length (needs texts) and raters with scores (ann1, ann2, ann3, learned, selfeval, overlap, "
            "overlap-stem, judge and 2 more)",
        ),
        (None, {"confidence": 1}, OptionError, "confidence=1: must lie between 0 and 1, both excluded"),
        (None, {"human": "x"}, OptionError, "human='x': no such rater; raters: ann1, ann2, ann3"),
    ],
)
def test_bad_input_is_one_line(table: Any, options: dict[str, Any], error: type[Exception], message: str) -> None:
    study = cu.read("demo") if table is None else cu.read(table())
    with pytest.raises(error) as raised:
        cu.leaderboard(study, **options)
    assert str(raised.value) == message
    assert "\n" not in str(raised.value)


def test_a_covariate_that_does_not_vary_is_refused() -> None:
    demo = cu.read("demo")
    rows = demo.ratings.frame.filter(rater="learned").select("item", "system").unique()
    for score, name in ((pl.lit(1.0), "flat"), (pl.col("system").rank("dense").cast(float), "by-system")):
        table = rows.with_columns(score=score, rater=pl.lit(name), kind=pl.lit("metric"))
        human = demo.ratings.frame.filter(rater="learned").with_columns(kind=pl.lit("human")).select(table.columns)
        with pytest.raises(
            OptionError,
            match=(
                f"covariates='{name}': the covariate does not vary within systems, so its effect cannot be "
                "separated from the strengths; omit this covariate"
            ),
        ):
            cu.leaderboard(cu.read(pl.concat([table, human])), covariates=name)


def test_thresholds_cannot_be_calibrated_without_people() -> None:
    table = strangers().with_columns(kind=pl.lit("metric"), item=pl.lit("1"))
    with pytest.raises(
        OptionError,
        match=exactly(
            "ties='calibrated': table has no human scores to which tie thresholds could be fitted; give a "
            "number, or 'exact'"
        ),
    ):
        cu.leaderboard(cu.read(table), ties="calibrated")


def test_counts_say_what_the_study_says_where_each_battle_is_of_its_own_item() -> None:
    """With one battle per item the sandwich over items is a sum over kinds of battles, so effects and intervals are
    equal."""
    rng = np.random.default_rng(4)
    n, systems = 400, np.array(["M", "N", "O", "P"])
    first = rng.integers(4, size=n)
    second = (first + rng.integers(1, 4, size=n)) % 4
    chance = 1 / (1 + np.exp(-(first - second) / 2 - 0.3))
    frame = pl.DataFrame(
        {
            "item": [f"i{k}" for k in range(n)],
            "model_a": systems[first],
            "model_b": systems[second],
            "winner": np.where(rng.random(n) < 0.2, "tie", np.where(rng.random(n) < chance, "model_a", "model_b")),
            "order": np.where(rng.random(n) < 0.1, "", "ab"),
        }
    )
    whole, counted = cu.leaderboard(frame), cu.leaderboard(cu.count_battles(frame))
    assert {note.rule for note in counted.notes} == {note.rule for note in whole.notes} - {"rater-assumed"}
    assert counted.effects["effect"].to_list() == ["ties", "shown first"]
    for name, table in whole.tables().items():
        assert_frame_equal(counted.tables()[name], table, check_exact=False, rel_tol=1e-9, abs_tol=1e-9)


def test_counts_say_that_human_ratings_are_not_corrected() -> None:
    rng = np.random.default_rng(5)
    names = {"system_a": pl.lit("M"), "system_b": pl.lit("N")}
    judge = pl.DataFrame({"item": [f"i{k}" for k in range(90)]}).with_columns(**names, rater=pl.lit("j"))
    judge = judge.with_columns(kind=pl.lit("metric"), preference=rng.choice([-1, 1], 90))
    for n, expected in ((30, ["counts-not-corrected"]), (90, [])):
        human = judge.head(n).with_columns(rater=pl.lit("h"), kind=pl.lit("human"), preference=rng.choice([-1, 1], n))
        frame = pl.concat([judge, human])
        assert cu.leaderboard(frame).corrected["metric"].to_list() == ["j"] * len(expected)
        notes = cu.leaderboard(cu.count_battles(frame)).notes
        assert [note.rule for note in notes if note.rule == "counts-not-corrected"] == expected


def test_counts_of_battles_that_share_items_have_no_intervals() -> None:
    frame = pl.DataFrame(
        {"item": ["1", "1", "2"], "model_a": ["M", "N", "M"], "model_b": ["N", "O", "O"], "winner": ["M", "N", "O"]}
    )
    result = cu.leaderboard(cu.count_battles(frame))
    assert result.notes[0].rule == "counts-share-items"
    assert result.systems["strength"].null_count() == 0
    for column in ("strength_low", "win_rate_low", "rank_low", "may_be_first", "group"):
        assert result.systems[column].null_count() == 3
    assert result.pairs["win_rate_low"].null_count() == result.pairs["decision"].null_count() == 3
    with pytest.raises(
        OptionError,
        match=exactly("covariates='length': counts contain no texts and no scores; give the study instead of counts"),
    ):
        cu.leaderboard(cu.count_battles(frame), covariates="length")
    with pytest.raises(OptionError, match="^aggregate: selection and tie rules were already applied"):
        cu.leaderboard(cu.count_battles(frame), aggregate="vote")


def test_no_decision_depends_on_the_seed_or_on_the_number_of_resamples() -> None:
    """Sixteen equal systems and a few better ones give many p-values close to the level."""
    rng = np.random.default_rng(8)
    strength = rng.normal(0, 0.35, 16).tolist()
    study = cu.read(by(battles(rng, strength=strength, n=2500), "ann", "human"))
    boards = [cu.leaderboard(study, rng=seed, resamples=n) for seed, n in ((0, 1000), (1, 1000), (2, 200), (3, 20))]
    decided = ["rank", "rank_low", "rank_high", "group", "may_be_first"]
    for board in boards[1:]:
        assert board.systems.select(decided).equals(boards[0].systems.select(decided))
        assert board.pairs["decision"].equals(boards[0].pairs["decision"])
        np.testing.assert_allclose(board.pairs["p_adjusted"], boards[0].pairs["p_adjusted"], rtol=1e-9)
        np.testing.assert_allclose(board.systems["strength_low"], boards[0].systems["strength_low"], rtol=1e-9)


def test_a_pair_at_the_threshold_is_not_decided_and_says_so() -> None:
    """With the level at the p-value itself no number of draws decides the pair."""
    rng = np.random.default_rng(8)
    study = cu.read(by(battles(rng, strength=rng.normal(0, 0.35, 8).tolist(), n=1500), "ann", "human"))
    level = 0.05
    for _ in range(3):  # the p-value at this level, with the draws that the level requires
        pairs = cu.leaderboard(study, confidence=1 - level).pairs
        level = min(pairs["p_adjusted"], key=lambda p: abs(p - level))
    close = cu.leaderboard(study, confidence=1 - level).pairs.filter(pl.col("note") == "at the threshold")
    assert close.height
    assert set(close["decision"]) == {"="}
    assert set(pairs["note"]) <= {"", "at the threshold"}


def in_a_cycle(wins: int, n: int) -> pl.DataFrame:
    """Return three systems, each of which wins so many of n comparisons against the next; D loses nearly all."""
    rows = [
        (f"{a}{b}{item}", a, b, 1 if item < won else -1)
        for a, b, won in (("A", "B", wins), ("B", "C", wins), ("C", "A", wins), *((s, "D", n - 5) for s in "ABC"))
        for item in range(n)
    ]
    return pl.DataFrame(rows, schema=["item", "system_a", "system_b", "preference"], orient="row")


def test_a_cycle_is_named_and_its_pairs_are_decided_by_their_own_comparisons() -> None:
    study = cu.read(by(in_a_cycle(160, 200), "ann", "human"))
    board = cu.leaderboard(study, **QUICK)
    assert board.cycles.select("rater", "cycle", "win_rate").rows() == [("human", "A > B > C > A", 0.8)]
    assert board.cycles["p_direct"][0] < 1e-9
    pairs = {(row["system_a"], row["system_b"]): row for row in board.pairs.iter_rows(named=True)}
    assert [pairs[pair]["decision"] for pair in (("A", "B"), ("A", "C"), ("B", "C"))] == ["=", "=", "="]
    assert max(row["p_direct"] for row in pairs.values()) < 0.05
    assert pairs["A", "D"]["decision"] == "+"
    assert {"cycle", "misfit"} <= {*rules(board)}
    sentences = cu.verdict(study, **QUICK).to_frame()["text"].to_list()
    assert "A beats B, which beats C, which beats A" in " ".join(sentences)
    assert not any("undecided" in sentence for sentence in sentences)


def test_pairs_and_parts_follow_from_the_strengths() -> None:
    rng = np.random.default_rng(0)
    strength = {"A": 1.0, "B": 0.3, "C": -1.3, "X": 0.5, "Y": -0.5}
    rows = []
    for item in range(150):
        for a, b in (("A", "B"), ("A", "C"), ("B", "C"), ("X", "Y")):
            eta = strength[a] - strength[b]
            p = np.array([np.exp(eta / 2), 0.6, np.exp(-eta / 2)])
            rows.append((f"{item}{a}{b}", a, b, int(rng.choice([1, 0, -1], p=p / p.sum()))))
    rows = [row for row in rows if row[1] != "X" or int(row[0][:-2]) < 60]
    frame = pl.DataFrame(rows, schema=["item", "system_a", "system_b", "preference"], orient="row")
    study = cu.read(frame.with_columns(rater=pl.lit("ann"), kind=pl.lit("human")))
    board = cu.leaderboard(study, resamples=50)
    systems = {row["system"]: row for row in board.systems.to_dicts()}
    assert board.systems["system"].to_list() == ["A", "B", "C", "X", "Y"]
    assert [systems[s]["part"] for s in "ABCXY"] == [1, 1, 1, 2, 2]
    assert [systems[s]["battles"] for s in "ABCXY"] == [300, 300, 300, 60, 60]
    (nu,) = board.effects.filter(effect="ties")["value"]
    pairs = {(row["system_a"], row["system_b"]): row for row in board.pairs.to_dicts()}
    counts = frame.group_by("system_a", "system_b").agg(
        wins=(pl.col("preference") == 1).sum(), ties=(pl.col("preference") == 0).sum(), n=pl.len()
    )
    for a, b, wins, ties, n in counts.iter_rows():
        row = pairs[a, b]
        assert (row["wins"], row["ties"], row["losses"]) == (wins, ties, n - wins - ties)
        assert row["win_rate"] == pytest.approx((wins + ties / 2) / n)
        eta = systems[a]["strength"] - systems[b]["strength"]
        p = np.array([np.exp(eta / 2), nu, np.exp(-eta / 2)])
        assert row["expected"] == pytest.approx((p[0] + p[1] / 2) / p.sum())
        assert row["decision"] == ("+" if row["p_adjusted"] <= 0.05 else "=")
        assert row["p_fit"] > 0.01
    assert {pair for pair, row in pairs.items() if row["decision"] == "+"} >= {("A", "C"), ("B", "C")}
