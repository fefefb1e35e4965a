"""Agreement between orders and the margin of the first position by their definitions; notes with their numbers."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import custodes as cu


def verdicts(seed: int, *, n_items: int = 60) -> pl.DataFrame:
    """Return verdicts of two judges: in both orders on most comparisons, in one order or without verdict on others."""
    rng = np.random.default_rng(seed)
    rows = []
    for judge, slot in (("j", 0.6), ("k", -0.3)):
        for item in range(n_items):
            for a, b in (("A", "B"), ("A", "C")):
                gap = rng.normal()
                orders = [["ab", "ba"], ["ab"], ["ba"], ["ab", "ba"]][int(rng.integers(4))]
                for order in orders:
                    view = gap + slot * (1 if order == "ab" else -1) + rng.normal()
                    sign = None if rng.random() < 0.05 else int(np.sign(np.round(view)))
                    rows.append((f"i{item:02}", a, b, judge, "metric", order, sign))
    names = ["item", "system_a", "system_b", "rater", "kind", "order", "preference"]
    return pl.DataFrame(rows, schema=names, orient="row")


@pytest.mark.parametrize("seed", range(3))
def test_orders_by_their_definitions(seed: int) -> None:
    frame = verdicts(seed)
    result = cu.consistency(cu.read(frame), resamples=0)
    n_half = 0
    for judge in ("j", "k"):
        part = frame.filter(rater=judge)
        answered = part.drop_nulls("preference")
        signs: dict[tuple[str, str], dict[str, int]] = {}
        for item, b, order, sign in answered.select("item", "system_b", "order", "preference").rows():
            signs.setdefault((item, b), {})[order] = sign
        both = np.array([[pair["ab"], pair["ba"]] for pair in signs.values() if len(pair) == 2])
        row = result.orders.filter(rater=judge).row(0, named=True)
        assert row["n_both_orders"] == len(both)
        assert row["consistency"] == pytest.approx((both[:, 0] == both[:, 1]).mean())
        assert row["flip_rate"] == pytest.approx((both[:, 0] * both[:, 1] == -1).mean())
        values = both.ravel()
        counts = np.array([(values == sign).sum() for sign in (1, 0, -1)])
        n = len(values)
        chance = (n**2 - np.square(counts).sum()) / (n * (n - 1))
        assert row["alpha"] == pytest.approx(1 - (both[:, 0] != both[:, 1]).mean() / chance)
        decided = answered.filter(pl.col("preference") != 0)
        first = (decided["preference"] == 1) == (decided["order"] == "ab")
        assert row["first_rate"] == pytest.approx(first.mean())
        confusion = result.confusion.filter(rater=judge).row(0, named=True)
        names = {1: "win", 0: "tie", -1: "loss"}
        for sign, name in names.items():
            for other, other_name in names.items():
                expected = ((both == [sign, other]).all(axis=1)).sum()
                assert confusion[f"{name}_{other_name}"] == expected
        # Each comparison in both orders is a stratum; the remaining comparisons of a pair are one.
        strata: dict[object, list[tuple[int, int]]] = {}
        for (item, b), pair in signs.items():
            for order, sign in pair.items():
                strata.setdefault((item, b) if len(pair) == 2 else b, []).append((1 if order == "ab" else -1, sign))
        centred = [np.array(values) - np.mean(values, axis=0) for values in strata.values()]
        margin = sum((x[:, 0] * x[:, 1]).sum() for x in centred) / sum((x[:, 0] ** 2).sum() for x in centred)
        finding = result.findings.filter(rater=judge, kind="position").row(0, named=True)
        assert finding["estimate"] == pytest.approx(100 * margin)
        asked = part.group_by("item", "system_b").agg(n=pl.len(), lost=pl.col("preference").null_count())
        half = asked.filter(n=2, lost=1).height
        assert row["n_half_answered"] == half
        n_half += half
    (note,) = [note for note in result.notes if note.rule == "half-judged"]
    assert note.message.startswith(f"{n_half} comparisons were queried in both orders, but j, k gave a verdict in only")
    assert "one-order" not in {note.rule for note in result.notes}


def test_exchanged_orders_mirror_the_interval_of_the_first_position() -> None:
    frame = verdicts(0)
    exchanged = frame.with_columns(pl.col("order").replace({"ab": "ba", "ba": "ab"}))
    bounds, mirrored_bounds = (
        cu.consistency(cu.read(table), resamples=0)
        .findings.filter(kind="position")
        .select("estimate_low", "estimate", "estimate_high")
        .to_numpy()
        for table in (frame, exchanged)
    )
    assert (np.diff(bounds, axis=1) > 1).all()
    assert (np.abs(bounds) < 100).all()
    assert mirrored_bounds == pytest.approx(-bounds[:, ::-1])


def test_notes_name_the_judges_of_one_order_and_of_one_half() -> None:
    items = {"item": [f"i{k}" for k in range(20)], "system_a": "A", "system_b": "B", "kind": "metric"}
    both = [pl.DataFrame({**items, "rater": "j", "order": order, "preference": [1, -1] * 10}) for order in ("ab", "ba")]
    both[1] = both[1].with_columns(preference=pl.when(pl.col("item") != "i3").then("preference"))
    single = pl.DataFrame({**items, "rater": "k", "order": "ab", "preference": [1, -1] * 10})
    result = cu.consistency(cu.read(pl.concat([*both, single])), resamples=0)
    messages = {note.rule: note.message for note in result.notes}
    assert messages["one-order"] == (
        "k judged no comparison in both orders, so the flip rate is unknown; show some comparisons in both orders"
    )
    assert messages["half-judged"].startswith("1 comparisons were queried in both orders, but j gave a verdict")
    n_findings = result.findings.height
    assert messages["inconclusive"] == f"inconclusive tests: 1 of {n_findings} (every pair was shown in only one order)"
    assert "no-texts" in messages
    assert not {"nothing-examined", "not-asked", "item-weights"} & {*messages}
    weights = pl.DataFrame({"item": items["item"], "weight": [2.0] + [1.0] * 19})
    weighted = cu.consistency(cu.read(single, items=weights), resamples=0)
    message = "item weights have no effect on this question, in which every item counts once"
    assert message in [note.message for note in weighted.notes if note.rule == "item-weights"]
