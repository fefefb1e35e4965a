"""The table of comparisons against loops by definition: ties, aggregation of annotators, merged presentation orders."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import combinations, product
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import custodes as cu
from custodes.data import ties_and_orders as module
from custodes.data.comparisons import ABSENT, Comparisons, pair_codes, pairs_of
from custodes.data.outcome_counts import OutcomeCounts
from custodes.data.study import Study
from custodes.data.ties_and_orders import compare_in_memory, human_threshold
from custodes.evaluate.rater_comparison import HUMAN, RaterComparison, compare, compare_all_raters
from tests.messages import exactly
from tests.random_studies import study

Key = tuple[str, str, str]


def merged(verdicts: list[dict[str, Any]], orders: str) -> tuple[int | None, float]:
    """Return the sign and the order of a rater's verdicts on one comparison, given in the order of the file."""
    if orders == "first":
        first = next(row for row in verdicts if row["preference"] is not None)
        return first["preference"], first["order"]
    by_order = defaultdict(list)
    for row in verdicts:
        by_order[row["order"]].append(row["preference"])
    answered_by_order = {order: [p for p in values if p is not None] for order, values in by_order.items()}
    answered = [order for order in (1, -1, 0) if answered_by_order.get(order)]
    sides = [order for order in answered if order]
    if len(sides) == 1 and None in by_order.get(-sides[0], []):
        return None, 0.0
    each = [p for values in answered_by_order.values() for p in values]
    if orders == "consistent" and len(set(each)) > 1:
        return None, 0.0
    mean = sum(float(np.mean(answered_by_order[order])) for order in answered)
    return int(np.sign(round(mean, 9))), float(np.mean(answered))


def sign(difference: float, threshold: float) -> int:
    return 0 if abs(difference) <= threshold else int(np.sign(difference))


def by_definition(
    whole: Study, *, human: tuple[str, ...], aggregate: str, ties: float, human_ties: float, orders: str
) -> dict[str, dict[Key, int]]:
    """Return {rater: {comparison: sign}}, with the combined annotators as 'human'."""
    scores, verdicts = defaultdict(dict), defaultdict(list)
    for row in whole.ratings.frame.iter_rows(named=True):
        scores[row["rater"]][row["item"], row["system"]] = row["score"]
    both = pl.concat([whole.preferences.frame, whole.preferences.missing], how="diagonal")
    number = {"ab": 1, "ba": -1, "": 0}
    for row in both.iter_rows(named=True):
        key = row["item"], row["system_a"], row["system_b"]
        verdicts[row["rater"], key].append({**row, "order": number[row["order"]]})
    answered = {rater for (rater, _), rows in verdicts.items() if any(r["preference"] is not None for r in rows)}
    values = [value for rater in human for value in scores[rater].values()]
    noise = 1e-9 * (max(values) - min(values)) if values else 0.0
    signs, differences = defaultdict(dict), defaultdict(lambda: defaultdict(list))
    for rater in whole.raters.kind:
        threshold = human_ties + noise if rater in human else ties
        items = {item for item, _ in scores[rater]}
        for item in items:
            systems = sorted(system for own, system in scores[rater] if own == item)
            for a, b in combinations(systems, 2):
                difference = scores[rater][item, a] - scores[rater][item, b]
                signs[rater][item, a, b] = sign(difference, threshold)
                differences[rater][item, a, b].append(difference)
        for (who, key), rows in verdicts.items():
            if who == rater and key not in signs[rater] and any(r["preference"] is not None for r in rows):
                own = merged(rows, orders)[0]
                if own is not None:
                    signs[rater][key] = own
    votes = aggregate == "vote" or bool(answered & set(human))
    keys = {key for rater in human for key in signs[rater]}
    for key in keys:
        if votes:
            signs[HUMAN][key] = int(np.sign(sum(signs[rater].get(key, 0) for rater in human)))
        else:
            rater_differences = [d for rater in human for d in differences[rater].get(key, [])]
            signs[HUMAN][key] = sign(float(np.mean(rater_differences)), human_ties + noise)
    return {rater: dict(own) for rater, own in signs.items()}


def signs_by_rater(comparisons_of_raters: RaterComparison) -> dict[str, dict[Key, int]]:
    rows = comparisons_of_raters.preferences
    result: dict[str, dict[Key, int]] = defaultdict(dict)
    for table in (comparisons_of_raters.annotators, comparisons_of_raters.preferences):
        names = [(table.raters[r], table.items[i]) for r, i in zip(table.rater, table.item, strict=True)]
        for (rater, item), a, b, value in zip(names, table.first, table.second, table.sign, strict=True):
            key = item, rows.systems[a], rows.systems[b]
            assert key not in result[rater]
            result[rater][key] = int(value)
    return dict(result)


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    scores=st.booleans(),
    human=st.sampled_from([("ann",), ("ann", "bob")]),
    aggregate=st.sampled_from(["mean", "vote"]),
    ties=st.sampled_from([0.0, 1.0]),
    human_ties=st.sampled_from([0.0, 0.5]),
    orders=st.sampled_from(["mean", "consistent", "first"]),
)
def test_every_sign_of_every_rater(seed: int, scores: bool, human: tuple[str, ...], **setting: Any) -> None:
    whole = study(seed, n_items=12, scores=scores, orders=True)
    actual = compare_all_raters(whole.select(human=",".join(human), metrics="m*"), "", setting)  # type: ignore[arg-type]
    expected = by_definition(whole, human=human, **setting)
    present = signs_by_rater(actual)
    for rater in (HUMAN, *human, "m1", "m2", "m3"):
        assert present.get(rater, {}) == expected.get(rater, {}), rater


def test_batches_of_items_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    rater, item, system = np.nonzero(rng.random((3, 50, 6)) < 0.8)
    frame = pl.DataFrame({"rater": rater, "item": item, "system": system}).cast(pl.Int32)
    frame = frame.with_columns(score=pl.Series(rng.integers(1, 6, len(rater)).astype(float)), threshold=0.5)
    none = pl.DataFrame(schema=["rater", "item", "system_a", "system_b", "sign", "order"]).cast(pl.Int32)
    parts = []
    for repeats in (1, 40):  # 40 times the raters need several batches
        wide = pl.concat([frame.with_columns(pl.col("rater") + 3 * k) for k in range(1000 * (repeats - 1) // 39 + 1)])
        rater_rows, human_rows = compare_in_memory(wide, none, n_annotators=2, aggregate="mean")
        names = ["rater", "item", "system_a", "system_b"]
        parts.append([rows.filter(pl.col("rater") < 3).sort(names) for rows in (rater_rows, human_rows)])
    assert len(wide.group_by("rater", "item").len()) > module.BATCH_ROWS // 36
    for one, other in zip(*parts, strict=True):
        assert one.equals(other)


def test_orders_of_presentation_come_along() -> None:
    won = "system_a"
    rows = [("1", "B", "A", won, "ab"), ("2", "A", "B", won, "ab"), ("3", "A", "B", "tie", "")]
    rows += [("4", "A", "B", won, "ab"), ("4", "A", "B", won, "ba")]
    table = pl.DataFrame(rows, schema=["item", "system_a", "system_b", "preference", "order"], orient="row")
    table = table.with_columns(rater=pl.lit("ann"), kind=pl.lit("human"))
    both = pl.concat([table, table.with_columns(rater=pl.lit("m"), kind=pl.lit("metric"))])
    (result,) = compare(cu.read(both))
    human = result.preferences.select_rater(0)
    assert human.sign.tolist() == [-1, 1, 0, 1]
    assert human.order.tolist() == [-1, 1, 0, 0]


@pytest.mark.parametrize("orders", ["mean", "consistent", "first"])
def test_merging_of_orders_in_two_engines(orders: str) -> None:
    """Cases: all lists of up to three verdicts on a comparison, and some longer ones."""
    duckdb = pytest.importorskip("duckdb")
    kinds = list(product((1, -1, 0), (1, 0, -1, None)))
    lists = [sequence for length in (1, 2, 3) for sequence in product(kinds, repeat=length)]
    lists += [random.Random(seed).choices(kinds, k=5) for seed in range(300)]
    rows, expected = [], {}
    for item, verdicts in enumerate(lists):
        answers = [{"order": order, "preference": preference} for order, preference in verdicts]
        if any(sequence["preference"] is not None for sequence in answers):
            expected[f"i{item}"] = merged(answers, orders)
            rows += [{**sequence, "item": f"i{item}", "row": row} for row, sequence in enumerate(answers)]
    frame = pl.DataFrame(rows, infer_schema_length=None).rename({"preference": "sign"})
    frame = frame.with_columns(rater=pl.lit("r"), system_a=pl.lit("A"), system_b=pl.lit("B"))
    for table in (frame.lazy(), duckdb.from_arrow(frame.to_arrow())):
        result = module.merge_orders(nw.from_native(table), orders).collect("polars").to_native()
        signs, places = (dict(result.select("item", name).iter_rows()) for name in ("sign", "order"))
        assert signs == {item: sign for item, (sign, _) in expected.items()}
        assert {item: places[item] for item, sign in signs.items() if sign is not None} == {
            item: order for item, (sign, order) in expected.items() if sign is not None
        }


def comparisons(seed: int, n_raters: int = 3) -> tuple[Comparisons, np.ndarray]:
    rng = np.random.default_rng(seed)
    signs = rng.choice(np.array([1, 0, -1, ABSENT], dtype=np.int8), (6, n_raters, 20))
    names = [f"r{k}" for k in range(n_raters)]
    return Comparisons.from_signs(signs, raters=names, items=[str(i) for i in range(20)], systems=list("ABCD")), signs


def test_signs_and_joint_rows() -> None:
    table, signs = comparisons(0)
    np.testing.assert_array_equal(table.signs, signs)
    for raters in ((0,), (2,), (0, 1), (2, 0), (0, 1, 2)):
        joint = table.joint(*raters)
        expected = signs[:, list(raters)]
        pair, item = np.nonzero((expected != ABSENT).any(axis=1))
        np.testing.assert_array_equal(joint.pair, pair)
        np.testing.assert_array_equal(joint.item, item)
        np.testing.assert_array_equal(joint.signs, expected[pair, :, item].T)
    complete_signs = np.where(signs == ABSENT, 0, signs)
    complete = Comparisons.from_signs(complete_signs, raters=table.raters, items=table.items, systems=table.systems)
    np.testing.assert_array_equal(complete.joint(2, 0).signs, complete_signs[:, [2, 0]].swapaxes(0, 1).reshape(2, -1))
    subset = np.arange(1, 20, 3)
    np.testing.assert_array_equal(table.select_items(subset).signs, signs[..., subset])
    np.testing.assert_array_equal(table.select_raters([2, 0]).signs, signs[:, [2, 0]])
    np.testing.assert_array_equal(table.select_rater(1).signs, signs[:, [1]])
    twice = table.select_rater(2).with_raters(table.select_raters([0, 1]))
    np.testing.assert_array_equal(twice.signs, signs[:, [2, 0, 1]])
    assert twice.raters == (table.raters[2], *table.raters[:2])
    assert table.system_a == ("A", "A", "A", "B", "B", "C")


def test_pairs_are_numbered_in_order() -> None:
    first, second = pairs_of(range(5))  # type: ignore[arg-type]
    assert list(zip(first.tolist(), second.tolist(), strict=True)) == list(combinations(range(5), 2))
    assert pair_codes(first, second, 5).tolist() == list(range(10))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_counts_by_definition_and_swap(seed: int) -> None:
    table, signs = comparisons(seed)
    counts, order = OutcomeCounts.from_comparisons(table), [1, 0, -1]
    for p in range(6):
        for m in range(2):
            human, metric = signs[p, 0], signs[p, m + 1]
            for h in range(3):
                assert counts.human_only[p, m, h] == ((human == order[h]) & (metric == ABSENT)).sum()
                assert counts.metric_only[p, m, h] == ((metric == order[h]) & (human == ABSENT)).sum()
                for k in range(3):
                    assert counts.paired[p, m, h, k] == ((human == order[h]) & (metric == order[k])).sum()
    np.testing.assert_array_equal(counts.human, [[(signs[p, 0] == o).sum() for o in order] for p in range(6)])
    swapped = np.where(signs == ABSENT, ABSENT, -signs).astype(np.int8)
    labels: Any = {"raters": table.raters, "items": table.items, "systems": table.systems}
    turned = OutcomeCounts.from_comparisons(Comparisons.from_signs(swapped, **labels))
    np.testing.assert_array_equal(turned.paired, counts.paired[:, :, ::-1, ::-1])
    np.testing.assert_array_equal(turned.metric_only, counts.metric_only[:, :, ::-1])


def test_what_needs_every_cell_is_refused_where_it_would_not_fit() -> None:
    table = Comparisons.from_rows(
        pl.DataFrame({"rater": [0], "item": [0], "system_a": [0], "system_b": [1], "sign": [1], "order": [0.0]}),
        raters=["m"],
        items=[str(i) for i in range(3_000_000)],
        systems=[f"{i:02}" for i in range(60)],
    )
    with pytest.raises(
        cu.InputError,
        match=exactly(
            "3000000 items x 1770 pairs of systems x 1 raters do not fit into memory, but this question stores every "
            "pair on every item. Select fewer items, systems or metrics, or use leaderboard, favoritism, ranking, "
            "correction or agreement, which store only the comparisons in the data"
        ),
    ):
        _ = table.signs
    assert len(table.joint(0).pair) == 1


def test_means_that_differ_by_rounding_tie() -> None:
    scores = np.array([[0.1, 0.2], [0.15, 0.15]])
    first, second = scores.mean(axis=1)
    assert 0 < first - second < human_threshold(scores, None) < 1e-6
    assert human_threshold(10 * scores, 0.5) == pytest.approx(0.5 + 10 * human_threshold(scores, None), rel=1e-15)
    assert human_threshold(np.full(3, np.nan), None) == 0


def test_counts_cannot_be_changed() -> None:
    counts = OutcomeCounts.from_comparisons(comparisons(0)[0])
    for array in (counts.paired, counts.metric_only, counts.human_only):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_without_metrics_nothing_is_counted() -> None:
    counts = OutcomeCounts.from_tables(np.zeros((3, 0, 4, 4), dtype=np.int64), systems="ABC", metrics=())
    assert counts.human.tolist() == [[0, 0, 0]] * 3
    assert counts.metric.shape == (3, 0, 3)
