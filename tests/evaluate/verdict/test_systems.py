"""Sentences on the best systems, from constructed leaderboards."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any

import polars as pl
import pytest

from tests.evaluate.verdict.constructed import board, like, make_verdict, text_of


def undecided_pairs(result: Any, pairs: list[tuple[str, str, int | None]]) -> pl.DataFrame:
    """Return undecided pairs of systems on fluency, with the number of comparisons that they need."""
    columns = {"aspect": "fluency", "rater": "human", "decision": "="}
    rows = [columns | {"system_a": a, "system_b": b, "more_comparisons": n} for a, b, n in pairs]
    return like(result.pairs, rows)


@pytest.mark.parametrize(
    ("systems", "phrase"),
    [
        (
            {"A": (1, True), "B": (3, False), "C": (3, False)},
            "A is best: significantly better than each of the other 2 systems.",
        ),
        ({"A": (2, True), "B": (3, False), "C": (3, False)}, "A is best. A wins 70 % [60 %, 80 %] of its comparisons"),
        (
            {"A": (2, True), "B": (3, True), "C": (3, False)},
            (
                "A or B is best; which one is undecided. A ranks first. A wins 70 % [60 %, 80 %] "
                "of its comparisons, averaged over opponents (a tie counts half)."
            ),
        ),
        (
            {"A": (3, True), "B": (3, True), "C": (3, True)},
            ("A, B or C is best; which one is undecided. A ranks first. A wins 70 % [60 %, 80 %] of its"),
        ),
        (
            {"A": (1, True), "B": (2, False)},
            "A is best: significantly better than B. A wins 70 % [60 %, 80 %] of its comparisons, averaged over",
        ),
        ({"A": (None, True), "B": (None, True)}, "Without intervals, this rank cannot be compared with chance."),
    ],
)
def test_systems_are_best_only_by_their_ranks(
    results: dict[str, Any], systems: dict[str, tuple[int | None, bool]], phrase: str
) -> None:
    result = make_verdict(results, leaderboard=board(results["leaderboard"], systems))
    assert phrase in text_of(result, "coherence", "best")
    alone = [name for name, (_, may) in systems.items() if may]
    n_comparisons = 40 * len(systems)
    removal = (
        f"If 7 particular comparisons of the {n_comparisons} human comparisons are removed, B ranks first (the "
        "smallest number found)."
    )
    texts = result.verdict.filter(aspect="coherence", kind="best")["text"].to_list()
    assert texts[1:] == ([removal] if len(alone) == 1 else [])
    summary = text_of(result, "", "best")
    assert ("A is best on both aspects." in summary) is (len(alone) == 1)
    assert summary.startswith("A ranks first on both aspects. ") is (len(alone) > 1)


def test_no_system_alone_ranks_first_if_several_share_the_rank(results: dict[str, Any]) -> None:
    for highest, begin in (
        (3, "undecided. A and B rank first. A wins 70 %"),
        (None, "By human ratings, A and B rank first. A wins 70 %"),
    ):
        leaderboard = board(results["leaderboard"], dict.fromkeys("ABC", (highest, True)))
        rank = pl.when(pl.col("system") == "B").then(1).otherwise("rank").cast(pl.Int64)
        shared = replace(leaderboard, systems=leaderboard.systems.with_columns(rank=rank))
        assert begin in text_of(make_verdict(results, leaderboard=shared), "coherence", "best")


def test_the_first_system_of_each_aspect_is_named_with_the_common_top_group(results: dict[str, Any]) -> None:
    coherence = board(results["leaderboard"], {"A": (1, True), "B": (2, True)}).systems.filter(aspect="coherence")
    fluency = board(results["leaderboard"], {"B": (1, True), "C": (2, True)}).systems.filter(aspect="fluency")
    changed = replace(results["leaderboard"], systems=pl.concat([coherence, fluency]))
    assert text_of(make_verdict(results, leaderboard=changed), "", "best") == (
        "A ranks first on coherence; B ranks first on fluency. Only B is in the top group (not significantly worse "
        "than any other system) on both aspects. Which system is best is undecided on coherence (2 candidates) and "
        "fluency (2 candidates)."
    )


def test_no_system_is_best_on_an_aspect_on_which_the_whole_common_top_group_is_undecided(
    results: dict[str, Any],
) -> None:
    coherence = {"A": (1, True), "B": (2, True), "C": (3, False)}
    fluency = {"B": (1, True), "A": (2, True), "C": (3, True)}
    systems = [
        board(results["leaderboard"], systems).systems.filter(aspect=aspect)
        for aspect, systems in (("coherence", coherence), ("fluency", fluency))
    ]
    changed = replace(results["leaderboard"], systems=pl.concat(systems))
    summary = text_of(make_verdict(results, leaderboard=changed), "", "best")
    assert "A and B are in the top group" in summary
    assert "is best." not in summary


def test_people_who_judged_few_are_corrected_by_the_best_metric(results: dict[str, Any]) -> None:
    best = results["agreement"].standing.filter(aspect="fluency")["metric"][0]
    systems = {"A": (1, True), "B": (2, False)}
    rater = f"corrected:{best}"
    few: dict[str, Any] = {"metric": best, "labels": 40, "battles": 400, "reason": ""}
    text = text_of(
        make_verdict(results, leaderboard=board(results["leaderboard"], systems, rater=rater, **few)), "fluency", "best"
    )
    assert text.startswith(
        f"Annotators judged 40 of the 400 comparisons that {best} judged. Preferences of {best} replace the missing "
        "human preferences. These preferences are corrected for the errors of the metric on the annotated part, which "
        "is assumed to be a random part. A is best"
    )
    # Human ratings are not few, or do not cover a random part, so nothing is corrected.
    for labels, is_few in ((200, True), (201, False)):
        half = board(results["leaderboard"], systems, rater=rater if is_few else "human", **{**few, "labels": labels})
        text = text_of(make_verdict(results, leaderboard=half), "fluency", "best")
        assert text.startswith(f"Annotators judged {labels} of the 400 comparisons") is is_few
        assert "A is best: significantly better than B." in text
    uneven = board(results["leaderboard"], systems, **{**few, "reason": "labels are no random part"})
    text = text_of(make_verdict(results, leaderboard=uneven), "fluency", "best")
    assert (
        "The metric cannot be used to estimate the missing human preferences: Labels "
        "are no random part. The following sentences use human comparisons only. A is best: significantly better than "
        "B. A wins 70 %"
    ) in text
    assert "A is best: significantly better than B." in text


def test_no_winner_is_named_from_comparisons_that_were_selected(results: dict[str, Any]) -> None:
    best = results["agreement"].standing.filter(aspect="fluency")["metric"][0]
    systems = {"A": (1, True), "B": (2, False), "C": (3, False)}
    row: dict[str, Any] = {"metric": best, "battles": 400, "reason": "people's battles are not random"}
    for labels in (40, 300):
        for p_random, named in ((0.002, False), (0.2, True), (None, True)):
            changed = board(results["leaderboard"], systems, **row, labels=labels, p_random=p_random)
            result = make_verdict(results, leaderboard=changed)
            text = text_of(result, "fluency", "best")
            assert ("A is best" in text) is named
            assert (
                "Which system is best cannot be estimated: annotators judged "
                f"{labels} of the 400 comparisons that {best} judged, and the human comparisons are not a random part "
                "(p = .002). A system may win because of how its comparisons were selected; let annotators judge a "
                "random part of all comparisons." == text
            ) is not named
            assert bool(text_of(result, "", "best")) is named


def test_systems_that_never_met_are_not_ranked_together(results: dict[str, Any]) -> None:
    result = board(results["leaderboard"], dict.fromkeys("ABCD", (2, True)))
    parts = result.systems.with_columns(part=pl.when(pl.col("system").is_in(["A", "B"])).then(1).otherwise(2))
    cycle = {"aspect": "fluency", "rater": "human", "cycle": "A > E > B > A", "win_rate": 0.75, "p_direct": 0.001}
    cycles = like(result.cycles, [cycle])
    text = text_of(make_verdict(results, leaderboard=replace(result, systems=parts, cycles=cycles)), "fluency", "best")
    assert text.startswith(
        "2 groups of systems are not connected by comparisons (A and B; C and D), so it is "
        "unknown which of all systems is best. No ranking describes these systems: A beats E, which beats B, which "
        "beats A."
    )
    assert text_of(make_verdict(results, leaderboard=replace(result, systems=parts)), "", "best") == ""
    # Pairs without comparisons are not undecided; A and B, C and D are.
    grouped = parts.with_columns(group=pl.format("{}a", pl.col("part")))
    text = text_of(make_verdict(results, leaderboard=replace(result, systems=grouped)), "fluency", "labels")
    assert text.startswith("2 of 2 pairs of systems are undecided (all pairs tested together)")


def test_undecided_pairs_and_forecasts_are_of_the_leaderboard(results: dict[str, Any]) -> None:
    result = make_verdict(results)
    board = results["leaderboard"]
    for aspect in ("coherence", "fluency"):
        undecided = board.pairs.filter(aspect=aspect, rater="human", decision="=")
        text = text_of(result, aspect, "labels")
        assert text.startswith(f"{undecided.height} of 15 pairs of systems are undecided (all pairs tested together)")
        # Pairs that cannot change the best system are not listed.
        systems = board.systems.filter(aspect=aspect, rater="human")
        top = set(systems.filter(pl.col("may_be_first") | (pl.col("rank") == 1))["system"])
        for row in undecided.to_dicts():
            if not {row["system_a"], row["system_b"]} <= top:
                assert not any(
                    f"{first} {word} {second}" in text
                    for first, second in permutations((row["system_a"], row["system_b"]))
                    for word in ("and", "vs")
                )
        if aspect == "fluency":  # clusters of the demo have several comparisons of a pair, so there is no forecast
            assert text.endswith(
                "To learn which of Birch and Aster is best, collect more human ratings of these systems. These data do "
                "not show how many ratings are needed."
            )
        # A row of the table is one sentence or several.
        assert all(text.endswith(".") for text in result.verdict.filter(kind="labels")["text"])
    letters = board.systems.with_columns(
        group=pl.col("system").replace_strict(dict(zip(sorted(set(board.systems["system"])), "abcdef", strict=True)))
    )
    separated = replace(board, systems=letters)
    assert text_of(make_verdict(results, leaderboard=separated), "fluency", "labels") == ""


def test_pairs_with_the_leader_come_first(results: dict[str, Any]) -> None:
    changed = board(results["leaderboard"], dict.fromkeys("ABCD", (4, True)))
    systems = changed.systems.with_columns(group=pl.lit("a"))
    pairs = [("B", "C", 1), ("A", "D", 900), ("C", "D", 20), ("A", "B", 1000), ("A", "C", None), ("B", "D", 30)]
    frame = undecided_pairs(changed, pairs)
    result = make_verdict(results, leaderboard=replace(changed, systems=systems, pairs=frame))
    texts = result.verdict.filter(aspect="fluency", kind="labels")["text"].to_list()
    assert texts[1:] == [
        "If the true differences are as large as in these data, a pair needs the following further human "
        "comparisons, each on a new item, for 50 % power to show which system is better: about 900 of A vs D, about "
        "1000 of A vs B and about 1 of B vs C. These comparisons do not decide other pairs."
    ]
